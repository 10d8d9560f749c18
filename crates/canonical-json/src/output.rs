use std::ops::Range;

/// Canonical text of an input: the input itself, copied in runs, with another spelling where the input is not canonical.
#[derive(Debug)]
pub(crate) struct CanonicalOutput<'a> {
    input: &'a str,
    /// Length of the input that `text` covers.
    copied: usize,
    text: &'a mut String,
}

impl<'a> CanonicalOutput<'a> {
    /// Starts the text of an input in a buffer, which is cleared.
    pub(crate) fn new(input: &'a str, text: &'a mut String) -> Self {
        text.clear();
        Self { input, copied: 0, text }
    }

    /// Place in the canonical text of the byte at `at` of the input, which no replaced part covers.
    #[inline]
    pub(crate) const fn place_of(&self, at: usize) -> usize {
        self.text.len().wrapping_add(at.wrapping_sub(self.copied))
    }

    /// Leaves out a part of the input.
    pub(crate) fn leave_out(&mut self, part: Range<usize>) {
        self.copy_to(part.start);
        self.copied = part.end;
    }

    /// Writes another text in place of a part of the input.
    pub(crate) fn replace(&mut self, part: Range<usize>, write: impl FnOnce(&mut String)) {
        self.leave_out(part);
        write(self.text);
    }

    /// Puts the members of an object in another order. `members` are their places in that order, `first` the place of
    /// the member that stands first. The object's bracket is at `end` of the input.
    pub(crate) fn reorder(&mut self, first: usize, end: usize, members: impl Iterator<Item = Range<usize>>) {
        self.copy_to(end);
        let last = self.text.len();
        for (i, member) in members.enumerate() {
            if i > 0 {
                self.text.push(',');
            }
            self.text.extend_from_within(member);
        }
        self.text.drain(first..last);
    }

    /// Ends the text. Returns `false` and leaves the buffer empty if the input is its own canonical text.
    pub(crate) fn finish(mut self) -> bool {
        let changed = self.copied > 0;
        if changed {
            self.copy_to(self.input.len());
        }
        changed
    }

    // INVARIANT: parts of the input begin and end beside ASCII bytes or at an end of the text, so the slice is on
    // character boundaries. A broken invariant must not reach a digest unnoticed, so it panics.
    #[expect(clippy::string_slice, reason = "the scanner's positions are on character boundaries")]
    fn copy_to(&mut self, at: usize) {
        self.text.push_str(&self.input[self.copied..at]);
        self.copied = at;
    }
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
