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
        if self.copied <= part.start {
            // Nothing of them was copied yet.
            let ahead = self.copied.wrapping_sub(self.text.len());
            self.copy_to(source, part.start);
            join_runs(self.text, members, |text, run| {
                let (start, end) = (run.start as usize, run.end as usize);
                text.push_str(source.piece(start.wrapping_add(ahead), end.wrapping_add(ahead)));
            });
            self.copied = part.end;
        } else {
            self.copy_to(source, part.end);
            let last = self.text.len();
            let mut first = last;
            join_runs(self.text, members, |text, run| {
                first = first.min(run.start as usize);
                text.extend_from_within(run.start as usize..run.end as usize);
            });
            self.text.drain(first..last);
        }
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

/// Appends members with commas between them. Those that stand side by side are appended as one.
#[inline(always)]
fn join_runs(
    text: &mut String,
    mut members: impl Iterator<Item = MemberPlace>,
    mut append: impl FnMut(&mut String, MemberPlace),
) {
    let Some(mut run) = members.next() else { return };
    for member in members {
        if member.start == run.end.wrapping_add(1) {
            run.end = member.end;
        } else {
            append(text, run);
            text.push(',');
            run = member;
        }
    }
    append(text, run);
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
