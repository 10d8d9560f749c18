use std::fmt;

use countersign_core::{escape_hidden, is_hidden};

/// Marks the end of a shortened text.
const CUT: char = '\u{2026}';

/// Error for a text that is not in the escaped form, or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("text in the record is longer than {max} bytes or has an invisible character")]
#[non_exhaustive]
pub struct EscapedError {
    /// Most bytes of the field.
    pub max: usize,
}

/// Untrusted text in an escaped form that cannot break a line, move a cursor or reverse text. Invisible characters and
/// backslashes are escaped ([`escape_hidden`]). It has at most `MAX` bytes; the rest is cut and marked with an
/// ellipsis.
///
/// Two long texts can have the same form. It is for people to read; values that have to be distinguished are recorded
/// as a digest. A text that was not cut can be read back ([`unescape`](Self::unescape)): an ellipsis at the end is
/// always the mark, because a text's own final ellipsis is escaped.
///
/// ```
/// use countersign_audit_log::Escaped;
/// assert_eq!(Escaped::<64>::new("send\u{1b}[2J\n").as_str(), "send\\u{1b}[2J\\u{a}");
/// assert_eq!(Escaped::<8>::new("a very long name").as_str(), "a ver\u{2026}");
/// assert_eq!(Escaped::<64>::new("two\nlines").unescape().as_deref(), Some("two\nlines"));
/// assert_eq!(Escaped::<8>::new("a very long name").unescape(), None);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Escaped<const MAX: usize>(Box<str>);

impl<const MAX: usize> Escaped<MAX> {
    /// Escapes and shortens any text. Reads no more of it than can fit.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self::within(text, usize::MAX)
    }

    /// As [`new`](Self::new), and takes at most `most` bytes in a JSON string.
    pub(crate) fn within(text: &str, most: usize) -> Self {
        let plain = |c: char| c != '\\' && !is_hidden(c);
        if text.len() <= MAX && most == usize::MAX && text.chars().all(plain) && !text.ends_with(CUT) {
            return Self(text.into());
        }
        let (mut kept, mut json) = (String::new(), 0_usize);
        let has_room = |kept: &str, json: usize, more: usize| {
            kept.len().saturating_add(more) <= MAX && json.saturating_add(more) <= most
        };
        // Length that can stay if the ellipsis has to follow.
        let mut end = 0;
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if has_room(&kept, json, CUT.len_utf8()) {
                end = kept.len();
            }
            let before = kept.len();
            if c == CUT && chars.as_str().is_empty() {
                kept.extend(c.escape_unicode());
            } else if plain(c) {
                kept.push(c);
            } else {
                kept.push_str(&escape_hidden(c.encode_utf8(&mut [0; 4])));
            }
            json = json.saturating_add(kept.get(before..).map_or(0, json_len));
            if !has_room(&kept, json, 0) {
                kept.truncate(end);
                if has_room(&kept, json_len(&kept), CUT.len_utf8()) {
                    kept.push(CUT);
                }
                break;
            }
        }
        Self(kept.into())
    }

    /// Returns the original text; `None` if some of it was cut, or if this is not a text that [`new`](Self::new)
    /// returns.
    #[must_use]
    pub fn unescape(&self) -> Option<String> {
        // If the mark has no room, a cut cannot be detected.
        if MAX < CUT.len_utf8() || self.0.ends_with(CUT) {
            return None;
        }
        let (mut text, mut rest) = (String::with_capacity(self.0.len()), &*self.0);
        while let Some((plain, escape)) = rest.split_once('\\') {
            text.push_str(plain);
            rest = if let Some(rest) = escape.strip_prefix('\\') {
                text.push('\\');
                rest
            } else {
                let (digits, rest) = escape.strip_prefix("u{")?.split_once('}')?;
                text.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
                rest
            };
        }
        text.push_str(rest);
        (Self::new(&text) == *self).then_some(text)
    }

    /// Number of bytes that it takes in a JSON string.
    pub(crate) fn json_len(&self) -> usize {
        json_len(&self.0)
    }

    /// The escaped text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the length in a JSON string. An escaped text has no control characters, so JSON escapes only these two.
fn json_len(escaped: &str) -> usize {
    let spelled = escaped.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    escaped.len().saturating_add(spelled)
}

impl<const MAX: usize> From<&str> for Escaped<MAX> {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl<const MAX: usize> fmt::Display for Escaped<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MAX: usize> fmt::Debug for Escaped<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Escaped(\"{}\")", self.0)
    }
}

impl<const MAX: usize> serde::Serialize for Escaped<MAX> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

/// Reads an escaped text unchanged. Escaping it again would double its backslashes.
impl<'de, const MAX: usize> serde::Deserialize<'de> for Escaped<MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        if text.len() > MAX || text.chars().any(is_hidden) {
            return Err(serde::de::Error::custom(EscapedError { max: MAX }));
        }
        Ok(Self(text.into()))
    }
}
