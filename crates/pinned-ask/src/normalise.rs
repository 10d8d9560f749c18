use unicode_normalization::UnicodeNormalization as _;

use crate::PinError;

/// Maximum size of the goal before normalisation, which can shorten a text.
const MAX_RAW_BYTES: usize = 256 << 10;

/// Maximum size of the normalised goal.
const MAX_BYTES: usize = 64 << 10;

// INVARIANT: the label of `ask-1` names the Unicode version of both tables: lower-casing is the standard library's,
// form C is the crate's. A toolchain or crate with other tables does not build.
const _: () = assert!(
    matches!((char::UNICODE_VERSION, unicode_normalization::UNICODE_VERSION), ((17, 0, 0), (17, 0, 0))),
    "recipe `ask-1` needs the tables of Unicode 17.0.0"
);

/// Normalises a goal by recipe `ask-1`.
pub(crate) fn normalise(text: &str) -> Result<String, PinError> {
    // why: checked before any work, since normalising can lengthen a text and sorts its combining marks.
    if text.len() > MAX_RAW_BYTES {
        return Err(PinError::TooLong);
    }
    let normalised = if text.is_ascii() { ascii(text) } else { unicode(text) };
    match normalised.len() {
        0 => Err(PinError::Empty),
        1..=MAX_BYTES => Ok(normalised),
        _ => Err(PinError::TooLong),
    }
}

/// The recipe for any text.
pub(crate) fn unicode(text: &str) -> String {
    let composed: String = text.nfc().collect();
    let lower: String = composed.to_lowercase().nfc().collect();
    let mut out = String::with_capacity(lower.len());
    for word in lower.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// The recipe for ASCII, which form C does not change.
pub(crate) fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut blank = false;
    for c in text.chars() {
        // `White_Space` includes the vertical tab, `is_ascii_whitespace` does not.
        if matches!(c, '\t'..='\r' | ' ') {
            blank = true;
            continue;
        }
        if blank && !out.is_empty() {
            out.push(' ');
        }
        blank = false;
        out.push(c.to_ascii_lowercase());
    }
    out
}
