use std::fmt;

use countersign_core::{escape_hidden, is_hidden};

/// Ends a text of which the rest was left out.
const CUT: char = '\u{2026}';

/// Says that a text is not in the escaped form, or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("text in the record is longer than {max} bytes or has a hidden character")]
#[non_exhaustive]
pub struct EscapedError {
    /// The most bytes that the field holds.
    pub max: usize,
}

/// Holds text that somebody else chose, in a form that cannot break a line, move a cursor or turn text around:
/// hidden characters and backslashes spelled out ([`escape_hidden`]), at most `MAX` bytes, the rest left out and
/// marked with an ellipsis.
///
/// Two long texts can have one such form. It is for people to read; what has to be told apart is recorded as a
/// digest.
///
/// ```
/// use countersign_audit_log::Escaped;
/// assert_eq!(Escaped::<64>::new("send\u{1b}[2J\n").as_str(), "send\\u{1b}[2J\\u{a}");
/// assert_eq!(Escaped::<8>::new("a very long name").as_str(), "a ver\u{2026}");
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Escaped<const MAX: usize>(Box<str>);

impl<const MAX: usize> Escaped<MAX> {
    /// Escapes and shortens any text. Reads no more of it than can fit.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let plain = |c: char| c != '\\' && !is_hidden(c);
        if text.len() <= MAX && text.chars().all(plain) {
            return Self(text.into());
        }
        let mut kept = String::new();
        // How much can stay if the ellipsis has to follow.
        let mut end = 0;
        for c in text.chars() {
            if kept.len().saturating_add(CUT.len_utf8()) <= MAX {
                end = kept.len();
            }
            if plain(c) {
                kept.push(c);
            } else {
                kept.push_str(&escape_hidden(c.encode_utf8(&mut [0; 4])));
            }
            if kept.len() > MAX {
                kept.truncate(end);
                if kept.len().saturating_add(CUT.len_utf8()) <= MAX {
                    kept.push(CUT);
                }
                break;
            }
        }
        Self(kept.into())
    }

    /// The escaped text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
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

/// Reads what was escaped before, as it is. Escaping it again would double its backslashes.
impl<'de, const MAX: usize> serde::Deserialize<'de> for Escaped<MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        if text.len() > MAX || text.chars().any(is_hidden) {
            return Err(serde::de::Error::custom(EscapedError { max: MAX }));
        }
        Ok(Self(text.into()))
    }
}
