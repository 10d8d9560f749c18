use std::ops::Range;

use crate::error::{JsonError, JsonErrorKind};
use crate::number::{self, Number, SHORT_DIGITS};
use crate::output::{CanonicalOutput, write_char};

/// Scanner for JSON's tokens over valid UTF-8. It writes the canonical text of the tokens that it passes.
///
/// Positions never exceed the length of the text by more than one, so they are counted without overflow checks.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    output: CanonicalOutput<'a>,
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
    /// Starts at the first byte. The canonical text goes to `out`, which is cleared.
    pub(crate) fn new(text: &'a str, out: &'a mut String) -> Self {
        Self { text, at: 0, output: CanonicalOutput::new(text, out) }
    }

    #[inline]
    pub(crate) const fn offset(&self) -> usize {
        self.at
    }

    /// Place of the next byte in the canonical text.
    #[inline]
    pub(crate) const fn place(&self) -> usize {
        self.output.place_of(self.at)
    }

    /// The next byte.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips the next byte.
    #[inline]
    pub(crate) const fn bump(&mut self) {
        self.at = self.at.wrapping_add(1);
    }

    /// Skips whitespace and returns the byte behind it.
    #[inline]
    pub(crate) fn token(&mut self) -> Option<u8> {
        let next = self.peek();
        if next.is_some_and(|b| b <= b' ') {
            self.skip_white_space();
            return self.peek();
        }
        next
    }

    fn skip_white_space(&mut self) {
        let start = self.at;
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.bump();
        }
        if self.at > start {
            self.output.leave_out(start..self.at);
        }
    }

    /// Writes another text in place of the literal that starts at `start` and ends here.
    pub(crate) fn respell(&mut self, start: usize, write: impl FnOnce(&mut String)) {
        self.output.replace(start..self.at, write);
    }

    /// Reorders the members of the object that ends here, as [`CanonicalOutput::reorder`].
    pub(crate) fn reorder(&mut self, first: usize, members: impl Iterator<Item = Range<usize>>) {
        self.output.reorder(first, self.at, members);
    }

    /// Ends the canonical text. Returns `false` and leaves its buffer empty if the input is its own canonical text.
    pub(crate) fn finish(self) -> bool {
        self.output.finish()
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

    /// Reads a number literal (RFC 8259, section 6). Returns its value if it has no exponent and few digits.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<Option<Number>, JsonError> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        if negative {
            self.bump();
        }
        let mut magnitude = 0;
        let mut count = 1;
        match self.peek() {
            Some(b'0') => self.bump(),
            _ => count = self.digits(start, &mut magnitude)?,
        }
        let mut decimals = 0;
        if self.peek() == Some(b'.') {
            self.bump();
            decimals = self.digits(start, &mut magnitude)?;
        }
        let mut short = None;
        match self.peek() {
            Some(b'e' | b'E') => self.exponent(start)?,
            _ if count.wrapping_add(decimals) <= SHORT_DIGITS => {
                short = number::evaluate_short(negative, magnitude, decimals);
            }
            _ => {}
        }
        if let Some(b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') = self.peek() {
            return Err(JsonError::new(JsonErrorKind::InvalidNumber, start));
        }
        Ok(short)
    }

    /// Reads the exponent of the number that starts at `start`.
    fn exponent(&mut self, start: usize) -> Result<(), JsonError> {
        self.bump();
        if let Some(b'+' | b'-') = self.peek() {
            self.bump();
        }
        self.digits(start, &mut 0).map(drop)
    }

    /// Reads one digit or more of the number that starts at `start`, and appends them to `magnitude`, which wraps.
    /// Returns how many there are.
    #[inline]
    fn digits(&mut self, start: usize, magnitude: &mut u64) -> Result<usize, JsonError> {
        let first = self.at;
        while let Some(b @ b'0'..=b'9') = self.peek() {
            *magnitude = magnitude.wrapping_mul(10).wrapping_add(u64::from(b.wrapping_sub(b'0')));
            self.bump();
        }
        match self.at.wrapping_sub(first) {
            0 if self.peek().is_none() => Err(self.end()),
            0 => Err(JsonError::new(JsonErrorKind::InvalidNumber, start)),
            count => Ok(count),
        }
    }

    /// Reads a string literal at its opening quote. `arena` begins with the whole input, so a text without escapes
    /// needs no copy; any other text is appended.
    #[inline(always)]
    pub(crate) fn string(&mut self, arena: &mut String) -> Result<Unescaped, JsonError> {
        self.bump();
        let start = self.at;
        self.skip_ordinary();
        if self.peek() != Some(b'"') {
            return self.unescape(start, arena);
        }
        let len = self.at.wrapping_sub(start);
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
        Ok(Unescaped { start, len: arena.len().wrapping_sub(start), plain })
    }

    /// Skips bytes that need no attention in a string.
    #[inline]
    fn skip_ordinary(&mut self) {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at = self.at.wrapping_add(ordinary(rest));
    }

    /// Reads an escape at its backslash.
    fn escape(&mut self) -> Result<char, JsonError> {
        let start = self.at;
        self.bump();
        let c = match self.peek() {
            None => return Err(self.end()),
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'/') => {
                self.bump();
                self.respell(start, |out| out.push('/'));
                return Ok('/');
            }
            Some(b'u') => {
                self.bump();
                let c = self.unicode_escape(start)?;
                self.respell(start, |out| write_char(out, c));
                return Ok(c);
            }
            Some(_) => return Err(JsonError::new(JsonErrorKind::InvalidEscape, start)),
        };
        // The two-character escapes are canonical as they stand.
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
    pub(crate) fn piece(&self, start: usize) -> Result<&'a str, JsonError> {
        // INVARIANT: both ends lie beside an ASCII byte or at an end of the text, so the slice is on character
        // boundaries.
        self.text.get(start..self.at).ok_or(JsonError::new(JsonErrorKind::InvalidUtf8, start))
    }

    const fn end(&self) -> JsonError {
        JsonError::new(JsonErrorKind::UnexpectedEnd, self.text.len())
    }
}

/// Number of bytes before the first quotation mark, backslash or control character; all bytes without one. For code
/// that reads canonical strings itself.
///
/// ```
/// assert_eq!(countersign_canonical_json::ordinary(br#"bob","to""#), 3);
/// ```
#[inline]
#[must_use]
pub fn ordinary(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    let mut passed = 0_usize;
    // why: sixteen bytes at a time cover most strings in one step, without a branch on their length.
    while let Some((step, behind)) = rest.split_first_chunk::<16>() {
        let (words, _) = step.as_chunks::<8>();
        let [low, high] = words else { break };
        let (low, high) = (special_bits(*low), special_bits(*high));
        if low | high != 0 {
            let within = if low != 0 { first_byte(low) } else { first_byte(high).wrapping_add(8) };
            return passed.wrapping_add(within);
        }
        passed = passed.wrapping_add(16);
        rest = behind;
    }
    passed.wrapping_add(ordinary_tail(rest))
}

/// As [`ordinary`], for the last bytes of a text.
#[inline(never)]
fn ordinary_tail(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        if let Some(within) = first_special(*word) {
            return i.wrapping_mul(8).wrapping_add(within);
        }
    }
    let special = |b: &u8| *b < b' ' || *b == b'"' || *b == b'\\';
    words.len().wrapping_mul(8).wrapping_add(tail.iter().position(special).unwrap_or(tail.len()))
}

/// Returns the index of the first quotation mark, backslash or control character among eight bytes, testing all eight
/// at once.
pub(crate) fn first_special(bytes: [u8; 8]) -> Option<usize> {
    let special = special_bits(bytes);
    (special != 0).then(|| first_byte(special))
}

/// Index of the first byte whose high bit is set.
#[inline]
const fn first_byte(bits: u64) -> usize {
    (bits.trailing_zeros() / 8) as usize
}

/// Sets the high bit of the first quotation mark, backslash or control character among eight bytes, and possibly of
/// bytes behind it, which a borrow reaches.
#[inline]
const fn special_bits(bytes: [u8; 8]) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    let word = u64::from_le_bytes(bytes);
    // why: flipping bit 1 keeps control characters below the space and turns the quotation mark into the space. A byte
    // below n gets its high bit from subtracting n, and only bytes without that bit count.
    let control_or_quote = (word ^ ONES.wrapping_mul(2)).wrapping_sub(ONES.wrapping_mul(0x21));
    let backslash = (word ^ ONES.wrapping_mul(0x5C)).wrapping_sub(ONES);
    (control_or_quote | backslash) & !word & HIGHS
}
