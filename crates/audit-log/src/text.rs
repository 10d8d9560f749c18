use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use countersign_core::{CallId, ImpactClass, Recipe, ServerName, ToolName, escape_hidden, is_hidden};

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
/// Clones share the text. A program's own texts ([`fixed`](Self::fixed)) and ids are not copied.
///
/// ```
/// use countersign_audit_log::Escaped;
/// assert_eq!(Escaped::<64>::new("send\u{1b}[2J\n").as_str(), "send\\u{1b}[2J\\u{a}");
/// assert_eq!(Escaped::<8>::new("a very long name").as_str(), "a ver\u{2026}");
/// assert_eq!(Escaped::<64>::new("two\nlines").unescape().as_deref(), Some("two\nlines"));
/// assert_eq!(Escaped::<8>::new("a very long name").unescape(), None);
/// ```
#[derive(Clone)]
pub struct Escaped<const MAX: usize>(EscapedText);

#[derive(Clone)]
enum EscapedText {
    Fixed(&'static str),
    Shared(Arc<str>),
}

impl<const MAX: usize> Escaped<MAX> {
    /// Escapes and shortens any text. Reads no more of it than can fit.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self::within(text, usize::MAX)
    }

    /// Escapes and shortens a text of the program itself, such as a code. It is copied only if that changes it.
    #[must_use]
    pub fn fixed(text: &'static str) -> Self {
        if Self::is_unchanged(text) { Self(EscapedText::Fixed(text)) } else { Self::new(text) }
    }

    /// Escapes and shortens a shared text. It is copied only if that changes it.
    fn shared(text: Arc<str>) -> Self {
        if Self::is_unchanged(&text) { Self(EscapedText::Shared(text)) } else { Self::new(&text) }
    }

    /// Returns `true` if a text is its own escaped form.
    fn is_unchanged(text: &str) -> bool {
        // why: no early exit, so the loop vectorises.
        let is_ascii = |all, byte: u8| all & (b' '..=b'~').contains(&byte) & (byte != b'\\');
        let is_all = || text.chars().all(is_plain) && !text.ends_with(CUT);
        text.len() <= MAX && (text.bytes().fold(true, is_ascii) || is_all())
    }

    /// As [`new`](Self::new), and takes at most `most` bytes in a JSON string.
    pub(crate) fn within(text: &str, most: usize) -> Self {
        if most == usize::MAX && Self::is_unchanged(text) {
            return Self(EscapedText::Shared(text.into()));
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
            } else if is_plain(c) {
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
        Self(EscapedText::Shared(kept.into()))
    }

    /// Returns the original text; `None` if some of it was cut, or if this is not a text that [`new`](Self::new)
    /// returns.
    #[must_use]
    pub fn unescape(&self) -> Option<String> {
        // If the mark has no room, a cut cannot be detected.
        let escaped = self.as_str();
        if MAX < CUT.len_utf8() || escaped.ends_with(CUT) {
            return None;
        }
        let (mut text, mut rest) = (String::with_capacity(escaped.len()), escaped);
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
        json_len(self.as_str())
    }

    /// The escaped text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            EscapedText::Fixed(text) => text,
            EscapedText::Shared(text) => text,
        }
    }

    /// Borrows the text.
    #[must_use]
    pub const fn borrowed(&self) -> EscapedRef<'_, MAX> {
        EscapedRef(match &self.0 {
            EscapedText::Fixed(text) => EscapedPart::Fixed(text),
            EscapedText::Shared(text) => EscapedPart::Shared(text),
        })
    }
}

/// A borrowed [`Escaped`] text.
#[derive(Clone, Copy, Debug)]
pub struct EscapedRef<'a, const MAX: usize>(EscapedPart<'a>);

#[derive(Clone, Copy, Debug)]
enum EscapedPart<'a> {
    Fixed(&'static str),
    Shared(&'a Arc<str>),
    Plain(&'a str),
}

impl<'a, const MAX: usize> EscapedRef<'a, MAX> {
    /// Borrows a text that is its own escaped form; `None` for any other.
    #[must_use]
    pub fn plain(text: &'a str) -> Option<Self> {
        Escaped::<MAX>::is_unchanged(text).then_some(Self(EscapedPart::Plain(text)))
    }

    /// The escaped text.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        match self.0 {
            EscapedPart::Fixed(text) | EscapedPart::Plain(text) => text,
            EscapedPart::Shared(text) => text,
        }
    }

    /// Returns the text with an owner of its own. It is not escaped again.
    #[must_use]
    pub fn to_escaped(self) -> Escaped<MAX> {
        Escaped(match self.0 {
            EscapedPart::Fixed(text) => EscapedText::Fixed(text),
            EscapedPart::Shared(text) => EscapedText::Shared(Arc::clone(text)),
            EscapedPart::Plain(text) => EscapedText::Shared(text.into()),
        })
    }
}

/// The names of recipes and impacts are short and plain (tested).
impl From<Recipe> for EscapedRef<'_, 32> {
    fn from(recipe: Recipe) -> Self {
        Self(EscapedPart::Fixed(recipe.as_str()))
    }
}

impl From<ImpactClass> for EscapedRef<'_, 32> {
    fn from(impact: ImpactClass) -> Self {
        Self(EscapedPart::Fixed(impact.as_str()))
    }
}

impl<const MAX: usize> PartialEq for Escaped<MAX> {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl<const MAX: usize> Eq for Escaped<MAX> {}

impl<const MAX: usize> PartialOrd for Escaped<MAX> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<const MAX: usize> Ord for Escaped<MAX> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl<const MAX: usize> Hash for Escaped<MAX> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

/// Returns `true` for a character that is not escaped, except an ellipsis at the end.
fn is_plain(c: char) -> bool {
    c != '\\' && !is_hidden(c)
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

impl<const MAX: usize> From<&String> for Escaped<MAX> {
    fn from(text: &String) -> Self {
        Self::new(text)
    }
}

impl<const MAX: usize> From<Cow<'static, str>> for Escaped<MAX> {
    fn from(text: Cow<'static, str>) -> Self {
        match text {
            Cow::Borrowed(text) => Self::fixed(text),
            Cow::Owned(text) => Self::new(&text),
        }
    }
}

/// The text of an id is shared with its clones.
impl From<CallId> for Escaped<256> {
    fn from(id: CallId) -> Self {
        Self::shared(id.into())
    }
}

impl From<ServerName> for Escaped<128> {
    fn from(name: ServerName) -> Self {
        Self::shared(name.into())
    }
}

impl From<ToolName> for Escaped<128> {
    fn from(name: ToolName) -> Self {
        Self::shared(name.into())
    }
}

impl<const MAX: usize> fmt::Display for Escaped<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<const MAX: usize> fmt::Debug for Escaped<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Escaped(\"{}\")", self.as_str())
    }
}

impl<const MAX: usize> serde::Serialize for Escaped<MAX> {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

/// Reads an escaped text unchanged. Escaping it again would double its backslashes.
impl<'de, const MAX: usize> serde::Deserialize<'de> for Escaped<MAX> {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        if text.len() > MAX || text.chars().any(is_hidden) {
            return Err(serde::de::Error::custom(EscapedError { max: MAX }));
        }
        Ok(Self(EscapedText::Shared(text.into())))
    }
}
