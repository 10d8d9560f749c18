use crate::error::{JsonError, JsonErrorKind};
use crate::number::{self, Number, SHORT_DIGITS};

/// Zeros that stand behind the input, so that a scanner stops there without looking for the end.
pub(crate) const PADDING: &str = "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// An input of valid UTF-8 with [`PADDING`] behind it.
///
/// Its functions take positions and return positions. Positions never exceed the length of the padded text by more than
/// one word, so they are counted without overflow checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaddedText<'a> {
    padded: &'a str,
}

impl<'a> PaddedText<'a> {
    pub(crate) const fn new(padded: &'a str) -> Self {
        Self { padded }
    }

    /// Length of the input.
    pub(crate) const fn end(self) -> usize {
        self.padded.len().saturating_sub(PADDING.len())
    }

    /// Length of the input and its padding.
    pub(crate) const fn padded_len(self) -> usize {
        self.padded.len()
    }

    /// The byte at a position; zero behind the input.
    #[inline(always)]
    pub(crate) fn byte(self, at: usize) -> u8 {
        self.padded.as_bytes().get(at).copied().unwrap_or_default()
    }

    /// A part of the input or of its padding.
    pub(crate) fn bytes(self, start: usize, len: usize) -> &'a [u8] {
        self.padded.as_bytes().get(start..start.wrapping_add(len)).unwrap_or_default()
    }

    // INVARIANT: parts of the input begin and end beside ASCII bytes or at an end of the text, so the slice is on
    // character boundaries. A broken invariant must not reach a digest unnoticed, so it panics.
    #[expect(clippy::string_slice, reason = "the scanner's positions are on character boundaries")]
    pub(crate) fn piece(self, start: usize, end: usize) -> &'a str {
        &self.padded[start..end]
    }

    /// Position of the first quotation mark, backslash or control character from `at` on. The padding begins with one.
    #[inline(always)]
    pub(crate) fn special(self, at: usize) -> usize {
        let (words, _) = self.padded.as_bytes().get(at..).unwrap_or_default().as_chunks();
        let mut at = at;
        for word in words {
            let special = special_bits(*word);
            if special != 0 {
                return at.wrapping_add(first_byte(special));
            }
            at = at.wrapping_add(8);
        }
        self.end()
    }

    /// Reads a name at its opening quote if it is as most names are: at most eight bytes without escapes, with a colon
    /// and a value right behind it.
    #[inline(always)]
    pub(crate) fn short_name(self, at: usize) -> Option<ShortName> {
        let window: &[u8; 12] = self.padded.as_bytes().get(at..)?.first_chunk()?;
        let [_, a, b, c, d, e, f, g, h, ..] = *window;
        let word = [a, b, c, d, e, f, g, h];
        let len = first_byte(special_bits(word));
        let [quote, colon, value] = [len.wrapping_add(1), len.wrapping_add(2), len.wrapping_add(3)];
        let ends = window.get(quote) == Some(&b'"') && window.get(colon) == Some(&b':');
        if !ends || window.get(value).is_none_or(|b| *b <= b' ') {
            return None;
        }
        Some(ShortName { len, key: name_key(word, len), value: at.wrapping_add(value) })
    }

    /// The error for the byte at a position, or for the end of the input.
    #[cold]
    pub(crate) const fn unexpected(self, at: usize) -> JsonError {
        self.fault(JsonErrorKind::UnexpectedByte, at, at)
    }

    /// An error of the text at `at` that shows at `seen`, unless the input ends there.
    #[cold]
    pub(crate) const fn fault(self, kind: JsonErrorKind, at: usize, seen: usize) -> JsonError {
        if seen >= self.end() {
            JsonError::new(JsonErrorKind::UnexpectedEnd, self.end())
        } else {
            JsonError::new(kind, at)
        }
    }

    /// Position behind one of `null`, `true`, `false`.
    #[inline(always)]
    pub(crate) fn after_word(self, word: &str, at: usize) -> Result<usize, JsonError> {
        let after = at.wrapping_add(word.len());
        if self.bytes(at, word.len()) == word.as_bytes() {
            Ok(after)
        } else {
            Err(self.not_the_word(word, at))
        }
    }

    #[cold]
    fn not_the_word(self, word: &str, at: usize) -> JsonError {
        let same = word.bytes().enumerate().take_while(|(i, b)| self.byte(at.wrapping_add(*i)) == *b).count();
        self.unexpected(at.wrapping_add(same))
    }

    /// Reads a number literal (RFC 8259, section 6). Returns its value, if it has no exponent and few digits, and the
    /// position behind it.
    #[inline(always)]
    pub(crate) fn number(self, start: usize) -> Result<(Option<Number>, usize), JsonError> {
        let negative = self.byte(start) == b'-';
        let first = start.wrapping_add(usize::from(negative));
        let mut magnitude = 0;
        let mut at = first.wrapping_add(1);
        if self.byte(first) != b'0' {
            at = self.digits(start, first, &mut magnitude)?;
        }
        let count = at.wrapping_sub(first);
        let mut decimals = 0;
        if self.byte(at) == b'.' {
            let point = at.wrapping_add(1);
            at = self.digits(start, point, &mut magnitude)?;
            decimals = at.wrapping_sub(point);
        }
        let mut short = None;
        if let b'e' | b'E' = self.byte(at) {
            at = self.exponent(start, at)?;
        } else if count.wrapping_add(decimals) <= SHORT_DIGITS {
            short = number::evaluate_short(negative, magnitude, decimals);
        }
        if let b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-' = self.byte(at) {
            return Err(JsonError::new(JsonErrorKind::InvalidNumber, start));
        }
        Ok((short, at))
    }

    /// Position behind the exponent of the number that starts at `start`.
    fn exponent(self, start: usize, at: usize) -> Result<usize, JsonError> {
        let behind = at.wrapping_add(1);
        let sign = usize::from(matches!(self.byte(behind), b'+' | b'-'));
        self.digits(start, behind.wrapping_add(sign), &mut 0)
    }

    /// Reads one digit or more of the number that starts at `start`, and appends them to `magnitude`, which wraps.
    /// Returns the position behind them.
    #[inline(always)]
    fn digits(self, start: usize, first: usize, magnitude: &mut u64) -> Result<usize, JsonError> {
        let mut at = first;
        loop {
            let digit = self.byte(at).wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            *magnitude = magnitude.wrapping_mul(10).wrapping_add(u64::from(digit));
            at = at.wrapping_add(1);
        }
        if at == first { Err(self.fault(JsonErrorKind::InvalidNumber, start, at)) } else { Ok(at) }
    }
}

/// A name of an object's member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortName {
    pub(crate) len: usize,
    pub(crate) key: u64,
    /// Place of the member's value.
    pub(crate) value: usize,
}

/// The first eight bytes of a name as a number, with zeros behind a shorter one.
#[inline(always)]
pub(crate) const fn name_key(first: [u8; 8], len: usize) -> u64 {
    let key = u64::from_be_bytes(first);
    if len < 8 { key & !(u64::MAX >> len.wrapping_mul(8)) } else { key }
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

/// Index of the first byte whose high bit is set; 8 without one.
#[inline(always)]
const fn first_byte(bits: u64) -> usize {
    (bits.trailing_zeros() / 8) as usize
}

/// Sets the high bit of the first quotation mark, backslash or control character among eight bytes, and possibly of
/// bytes behind it, which a borrow reaches.
#[inline(always)]
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
