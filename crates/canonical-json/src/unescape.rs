use crate::error::{JsonError, JsonErrorKind};
use crate::output::{CanonicalOutput, write_char};
use crate::scan::PaddedText;

/// Text of a string literal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unescaped {
    /// Place in the arena.
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Whether the text is written without escapes.
    pub(crate) plain: bool,
    /// Position behind the literal.
    pub(crate) behind: usize,
}

/// Reads a string literal that has an escape or a fault. Its text begins at `start` and needs no attention before `at`.
/// Appends the text to `texts`, and escapes that are not canonical to the output in their canonical spelling.
pub(crate) fn unescape(
    source: PaddedText<'_>,
    start: usize,
    at: usize,
    texts: &mut String,
    output: &mut CanonicalOutput<'_>,
) -> Result<Unescaped, JsonError> {
    let first = texts.len();
    let mut plain = true;
    let (mut run, mut at) = (start, at);
    loop {
        texts.push_str(source.piece(run, at));
        match source.byte(at) {
            b'"' => break,
            b'\\' => {}
            _ => return Err(source.fault(JsonErrorKind::ControlCharacter, at, at)),
        }
        let (second, third) = (at.wrapping_add(1), at.wrapping_add(2));
        let (next, behind) = match source.byte(second) {
            b'"' | b'\\' => {
                plain = false;
                (second, third)
            }
            b'/' => {
                output.leave_out(source, at..second);
                (second, third)
            }
            b'u' => {
                let (c, behind) = unicode_escape(source, at)?;
                output.replace(source, at..behind, |out| write_char(out, c));
                plain &= c >= ' ' && c != '"' && c != '\\';
                texts.push(c);
                (behind, behind)
            }
            letter => {
                let Some(control) = control_character(letter) else {
                    return Err(source.fault(JsonErrorKind::InvalidEscape, at, second));
                };
                plain = false;
                texts.push(control);
                (third, third)
            }
        };
        run = next;
        at = source.special(behind);
    }
    let arena_start = source.padded_len().saturating_add(first);
    let len = texts.len().wrapping_sub(first);
    Ok(Unescaped { start: arena_start, len, plain, behind: at.wrapping_add(1) })
}

/// The control character whose canonical escape is a backslash and this letter.
const fn control_character(letter: u8) -> Option<char> {
    Some(match letter {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        _ => return None,
    })
}

/// Reads a `\u` escape, and the second escape of a surrogate pair. Returns the character and the position behind it.
fn unicode_escape(source: PaddedText<'_>, start: usize) -> Result<(char, usize), JsonError> {
    let lone = JsonError::new(JsonErrorKind::LoneSurrogate, start);
    let first = four_hex_digits(source, start)?;
    let behind = start.wrapping_add(6);
    if !(0xD800..=0xDBFF).contains(&first) {
        return Ok((char::from_u32(first).ok_or(lone)?, behind));
    }
    for (i, expected) in [b'\\', b'u'].into_iter().enumerate() {
        let at = behind.wrapping_add(i);
        if source.byte(at) != expected {
            return Err(source.fault(JsonErrorKind::LoneSurrogate, start, at));
        }
    }
    let second = four_hex_digits(source, behind)?;
    if !(0xDC00..=0xDFFF).contains(&second) {
        return Err(lone);
    }
    // INVARIANT: each half gives ten bits, so the sum is at most 0x10_FFFF.
    let pair = (first & 0x3FF) << 10 | second & 0x3FF;
    Ok((char::from_u32(pair.saturating_add(0x1_0000)).ok_or(lone)?, behind.wrapping_add(6)))
}

/// The number of a `\u` escape that starts at `escape`.
#[inline]
fn four_hex_digits(source: PaddedText<'_>, escape: usize) -> Result<u32, JsonError> {
    let mut digits = source.bytes(escape.wrapping_add(2), 4).iter().map(|b| char::from(*b).to_digit(16));
    digits.try_fold(0, |unit, digit| Some(unit << 4 | digit?)).ok_or_else(|| missing_digit(source, escape))
}

#[cold]
fn missing_digit(source: PaddedText<'_>, escape: usize) -> JsonError {
    let seen = (2..6).map(|i| escape.wrapping_add(i)).find(|at| !source.byte(*at).is_ascii_hexdigit());
    source.fault(JsonErrorKind::InvalidEscape, escape, seen.unwrap_or(escape))
}
