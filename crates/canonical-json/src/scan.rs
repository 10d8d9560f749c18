use crate::error::{JsonError, JsonErrorKind};
use crate::number;

/// Scanner for JSON's tokens over valid UTF-8.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    verbatim: bool,
}

/// Range in the arena of a string literal's text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unescaped {
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Whether the text is written without escapes.
    pub(crate) plain: bool,
}

impl<'a> Scanner<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, at: 0, verbatim: true }
    }

    pub(crate) const fn offset(&self) -> usize {
        self.at
    }

    /// Whether the input up to here is written canonically: no whitespace, no escape, no number but unsigned integers
    /// of at most 15 digits.
    pub(crate) const fn is_verbatim(&self) -> bool {
        self.verbatim
    }

    /// The next byte.
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips the next byte.
    pub(crate) const fn bump(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    pub(crate) fn skip_white_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.verbatim = false;
            self.bump();
        }
    }

    /// The error for the next byte, or for the end of the input.
    pub(crate) fn unexpected(&self) -> JsonError {
        match self.peek() {
            Some(_) => JsonError::new(JsonErrorKind::UnexpectedByte, self.at),
            None => self.end(),
        }
    }

    /// Reads one of `null`, `true`, `false`.
    pub(crate) fn word(&mut self, word: &str) -> Result<(), JsonError> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                return Err(self.unexpected());
            }
            self.bump();
        }
        Ok(())
    }

    /// Reads a number literal (RFC 8259, section 6).
    pub(crate) fn number(&mut self) -> Result<&'a str, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.bump();
        }
        match self.peek() {
            Some(b'0') => self.bump(),
            _ => self.digits(start)?,
        }
        if self.peek() == Some(b'.') {
            self.bump();
            self.digits(start)?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.bump();
            if let Some(b'+' | b'-') = self.peek() {
                self.bump();
            }
            self.digits(start)?;
        }
        if let Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') = self.peek() {
            return Err(JsonError::new(JsonErrorKind::InvalidNumber, start));
        }
        let literal = self.piece(start)?;
        self.verbatim &= number::is_canonical(literal);
        Ok(literal)
    }

    /// Reads one digit or more of the number that starts at `start`.
    fn digits(&mut self, start: usize) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'0'..=b'9') => {}
            Some(_) => return Err(JsonError::new(JsonErrorKind::InvalidNumber, start)),
            None => return Err(self.end()),
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.bump();
        }
        Ok(())
    }

    /// Reads a string literal at its opening quote. `arena` begins with the whole input, so a text without escapes
    /// needs no copy; any other text is appended.
    pub(crate) fn string(&mut self, arena: &mut String) -> Result<Unescaped, JsonError> {
        self.bump();
        let start = self.at;
        self.skip_ordinary();
        if self.peek() != Some(b'"') {
            return self.unescape(start, arena);
        }
        let len = self.at.saturating_sub(start);
        self.bump();
        Ok(Unescaped { start, len, plain: true })
    }

    /// Reads the rest of a string that starts at `run` and has an escape or a fault.
    fn unescape(&mut self, mut run: usize, arena: &mut String) -> Result<Unescaped, JsonError> {
        let start = arena.len();
        let mut plain = true;
        loop {
            arena.push_str(self.piece(run)?);
            match self.peek() {
                None => return Err(self.end()),
                Some(b'"') => break,
                Some(b'\\') => {
                    let c = self.escape()?;
                    plain &= c >= ' ' && c != '"' && c != '\\';
                    arena.push(c);
                }
                Some(_) => return Err(JsonError::new(JsonErrorKind::ControlCharacter, self.at)),
            }
            run = self.at;
            self.skip_ordinary();
        }
        self.bump();
        Ok(Unescaped { start, len: arena.len().saturating_sub(start), plain })
    }

    /// Skips bytes that need no attention in a string.
    fn skip_ordinary(&mut self) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let (words, tail) = rest.as_chunks::<8>();
        let within = |(at, word): (usize, &[u8; 8])| Some((at, first_special(*word)?));
        let (whole, more) = words.iter().enumerate().find_map(within).unwrap_or_else(|| {
            let special = |b: &u8| *b < b' ' || *b == b'"' || *b == b'\\';
            (words.len(), tail.iter().position(special).unwrap_or(tail.len()))
        });
        self.at = self.at.saturating_add(whole.saturating_mul(8)).saturating_add(more);
    }

    /// Reads an escape at its backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        self.verbatim = false;
        let start = self.at;
        self.bump();
        let c = match self.peek() {
            None => return Err(self.end()),
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.bump();
                return self.unicode_escape(start);
            }
            Some(_) => return Err(JsonError::new(JsonErrorKind::InvalidEscape, start)),
        };
        self.bump();
        Ok(c)
    }

    /// Reads the digits of a `\u` escape that starts at `start`, and the second escape of a surrogate pair.
    fn unicode_escape(&mut self, start: usize) -> Result<char, JsonError> {
        let lone = JsonError::new(JsonErrorKind::LoneSurrogate, start);
        let first = self.four_hex_digits(start)?;
        if !(0xD800..=0xDBFF).contains(&first) {
            return char::from_u32(first).ok_or(lone);
        }
        let second_start = self.at;
        for expected in [b'\\', b'u'] {
            match self.peek() {
                Some(b) if b == expected => self.bump(),
                Some(_) => return Err(lone),
                None => return Err(self.end()),
            }
        }
        let second = self.four_hex_digits(second_start)?;
        if !(0xDC00..=0xDFFF).contains(&second) {
            return Err(lone);
        }
        // INVARIANT: each half gives ten bits, so the sum is at most 0x10_FFFF.
        let pair = (first & 0x3FF) << 10 | second & 0x3FF;
        char::from_u32(pair.saturating_add(0x1_0000)).ok_or(lone)
    }

    fn four_hex_digits(&mut self, escape: usize) -> Result<u32, JsonError> {
        let mut unit = 0;
        for _ in 0..4 {
            let Some(b) = self.peek() else {
                return Err(self.end());
            };
            let Some(digit) = char::from(b).to_digit(16) else {
                return Err(JsonError::new(JsonErrorKind::InvalidEscape, escape));
            };
            unit = unit << 4 | digit;
            self.bump();
        }
        Ok(unit)
    }

    /// The text from `start` to the current position.
    fn piece(&self, start: usize) -> Result<&'a str, JsonError> {
        // INVARIANT: both ends lie beside an ASCII byte or at an end of the text, so the slice is on character
        // boundaries.
        self.text.get(start..self.at).ok_or(JsonError::new(JsonErrorKind::InvalidUtf8, start))
    }

    const fn end(&self) -> JsonError {
        JsonError::new(JsonErrorKind::UnexpectedEnd, self.text.len())
    }
}

/// Returns the index of the first quotation mark, backslash or control character among eight bytes, testing all eight
/// at once.
pub(crate) fn first_special(bytes: [u8; 8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    /// Sets the high bit of the first byte below `least`, and possibly of later bytes, which a borrow reaches.
    const fn below(word: u64, least: u64) -> u64 {
        word.wrapping_sub(ONES.wrapping_mul(least)) & !word & HIGHS
    }
    let word = u64::from_le_bytes(bytes);
    // why: flipping bit 1 keeps control characters below the space and turns the quotation mark into the space.
    let control_or_quote = below(word ^ ONES.wrapping_mul(2), 0x21);
    let special = control_or_quote | below(word ^ ONES.wrapping_mul(u64::from(b'\\')), 1);
    (special != 0).then_some((special.trailing_zeros() / 8) as usize)
}
