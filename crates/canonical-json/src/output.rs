use std::iter;
use std::ops::Range;

use crate::scan::PaddedText;

/// Canonical text of an input: the input itself, copied in runs, with another spelling where the input is not canonical.
/// Each function takes the same input.
#[derive(Debug)]
pub(crate) struct CanonicalOutput<'a> {
    /// Length of the input that `text` covers.
    copied: usize,
    text: &'a mut String,
}

/// Place of an object's member in the canonical text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberPlace {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl<'a> CanonicalOutput<'a> {
    /// Starts the text of an input in a buffer, which is cleared.
    pub(crate) fn new(text: &'a mut String) -> Self {
        text.clear();
        Self { copied: 0, text }
    }

    /// Place in the canonical text of the byte at `at` of the input, which no replaced part covers.
    #[inline(always)]
    pub(crate) const fn place_of(&self, at: usize) -> usize {
        self.text.len().wrapping_add(at.wrapping_sub(self.copied))
    }

    /// Leaves out a part of the input.
    pub(crate) fn leave_out(&mut self, source: PaddedText<'_>, part: Range<usize>) {
        self.copy_to(source, part.start);
        self.copied = part.end;
    }

    /// Writes another text in place of a part of the input.
    pub(crate) fn replace(
        &mut self,
        source: PaddedText<'_>,
        part: Range<usize>,
        write: impl FnOnce(&mut String),
    ) {
        self.leave_out(source, part);
        write(self.text);
    }

    /// Puts the members of an object, which are that part of the input, in the order of `members`.
    pub(crate) fn reorder(
        &mut self,
        source: PaddedText<'_>,
        part: Range<usize>,
        members: impl Iterator<Item = MemberPlace>,
    ) {
        let runs = runs(members);
        if self.copied <= part.start {
            self.copy_in_order(source, part, runs);
        } else {
            self.move_in_order(source, part.end, runs);
        }
    }

    /// Copies members of which nothing was copied yet.
    fn copy_in_order(
        &mut self,
        source: PaddedText<'_>,
        part: Range<usize>,
        runs: impl Iterator<Item = Range<usize>>,
    ) {
        let ahead = self.copied.wrapping_sub(self.text.len());
        self.copy_to(source, part.start);
        for (i, run) in runs.enumerate() {
            if i > 0 {
                self.text.push(',');
            }
            self.text.push_str(source.piece(run.start.wrapping_add(ahead), run.end.wrapping_add(ahead)));
        }
        self.copied = part.end;
    }

    /// Moves members that were copied at least in part. They end at `end` of the input.
    fn move_in_order(
        &mut self,
        source: PaddedText<'_>,
        end: usize,
        runs: impl Iterator<Item = Range<usize>>,
    ) {
        self.copy_to(source, end);
        let last = self.text.len();
        let mut first = last;
        for (i, run) in runs.enumerate() {
            first = first.min(run.start);
            if i > 0 {
                self.text.push(',');
            }
            self.text.extend_from_within(run);
        }
        self.text.drain(first..last);
    }

    /// Ends the text. Returns `false` and leaves the buffer empty if the input is its own canonical text.
    pub(crate) fn finish(mut self, source: PaddedText<'_>) -> bool {
        let changed = self.copied > 0;
        if changed {
            self.copy_to(source, source.end());
        }
        changed
    }

    fn copy_to(&mut self, source: PaddedText<'_>, at: usize) {
        self.text.push_str(source.piece(self.copied, at));
        self.copied = at;
    }
}

/// Joins members that stand side by side, with the comma between them.
fn runs(members: impl Iterator<Item = MemberPlace>) -> impl Iterator<Item = Range<usize>> {
    let mut members = members.peekable();
    iter::from_fn(move || {
        let mut run = members.next()?;
        while let Some(next) = members.next_if(|next| next.start == run.end.wrapping_add(1)) {
            run.end = next.end;
        }
        Some(run.start as usize..run.end as usize)
    })
}

/// Writes one character of a string literal.
pub(crate) fn write_char(out: &mut String, c: char) {
    match c {
        '\u{8}' => out.push_str("\\b"),
        '\t' => out.push_str("\\t"),
        '\n' => out.push_str("\\n"),
        '\u{c}' => out.push_str("\\f"),
        '\r' => out.push_str("\\r"),
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        '\0'..' ' => {
            out.push_str(if c < '\u{10}' { "\\u000" } else { "\\u001" });
            out.extend(char::from_digit(u32::from(c) & 0xF, 16));
        }
        _ => out.push(c),
    }
}
