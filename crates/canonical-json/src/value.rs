use std::borrow::Cow;
use std::fmt;

use crate::number::EXACT_INTEGERS;
use crate::parts::Parts;
use crate::tape::{Node, Tape, compare_utf16};

use crate::write::write_value;

/// Most names of an object that are compared one after another.
const FEW_NAMES: usize = 8;

/// Kind of a JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number
    Number,
    /// A string
    String,
    /// An array
    Array,
    /// An object
    Object,
}

/// A reference to a value that was read. Cheap to copy.
///
/// It implements `serde::Deserializer` and `serde::Serialize`. `Debug` shows kind and size, never contents.
///
/// ```
/// use countersign_canonical_json::{Limits, Recipe, read};
/// let args = read(br#"{"to":["a","b"],"n":3}"#, Recipe::Jcs1, &Limits::default())?;
/// let second = args.value().pointer("/to/1");
/// assert_eq!(second.and_then(|to| to.as_str()), Some("b"));
/// let names: Vec<&str> = args.value().members().map(|(name, _)| name).collect();
/// assert_eq!(names, ["n", "to"]);
/// # Ok::<(), countersign_canonical_json::JsonError>(())
/// ```
#[derive(Clone, Copy)]
pub struct ValueRef<'a> {
    tape: &'a Tape,
    at: u32,
}

impl<'a> ValueRef<'a> {
    pub(crate) const fn new(tape: &'a Tape, at: u32) -> Self {
        Self { tape, at }
    }

    /// Position of the value, unique within its text.
    #[must_use]
    pub const fn place(self) -> u32 {
        self.at
    }

    /// The kind of the value.
    #[inline]
    #[must_use]
    pub fn kind(self) -> Kind {
        match self.tape.node(self.at) {
            Node::Null => Kind::Null,
            Node::Bool(_) => Kind::Bool,
            Node::Number { .. } => Kind::Number,
            Node::Text { .. } | Node::Name { .. } => Kind::String,
            Node::Array { .. } => Kind::Array,
            Node::Object { .. } => Kind::Object,
        }
    }

    /// The boolean, if the value is one.
    #[inline]
    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        if let Node::Bool(value) = self.tape.node(self.at) { Some(value) } else { None }
    }

    /// The number, if the value is one. Finite, and never negative zero.
    #[inline]
    #[must_use]
    pub fn as_f64(self) -> Option<f64> {
        if let Node::Number { value, .. } = self.tape.node(self.at) { Some(value) } else { None }
    }

    /// The number, if it is whole and within -2^53 to 2^53. `10`, `10.0` and `1e1` are one number.
    #[inline]
    #[must_use]
    pub fn as_i64(self) -> Option<i64> {
        let value = self.as_f64()?;
        if value.abs() > EXACT_INTEGERS || value.fract() != 0.0 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        let whole = value as i64;
        Some(whole)
    }

    /// The number, if it is whole and within 0 to 2^53.
    #[inline]
    #[must_use]
    pub fn as_u64(self) -> Option<u64> {
        self.as_i64().and_then(|whole| u64::try_from(whole).ok())
    }

    /// The unescaped text, if the value is a string.
    #[inline]
    #[must_use]
    pub fn as_str(self) -> Option<&'a str> {
        if let Node::Text { start, len, .. } = self.tape.node(self.at) {
            Some(self.tape.text(start, len))
        } else {
            None
        }
    }

    /// The member of that name, if the value is an object that has one. Names are compared without Unicode
    /// normalisation.
    #[inline]
    #[must_use]
    pub fn get(self, name: &str) -> Option<Self> {
        let names = self.names();
        // why: most objects are small, and texts of other lengths are not compared.
        let found = if names.len() <= FEW_NAMES {
            names.iter().find(|at| self.tape.is_named(**at, name))
        } else {
            let by_name = |at: &u32| compare_utf16(self.tape.name(*at).as_bytes(), name.as_bytes());
            names.binary_search_by(by_name).ok().and_then(|found| names.get(found))
        };
        found.map(|at| Self::new(self.tape, at.saturating_add(1)))
    }

    /// The members in canonical order. Empty if the value is not an object.
    #[inline]
    #[must_use]
    pub fn members(self) -> Members<'a> {
        Members { tape: self.tape, names: self.names().iter() }
    }

    /// The elements in order. Empty if the value is not an array.
    #[inline]
    #[must_use]
    pub fn elements(self) -> Elements<'a> {
        let left = if let Node::Array { count, .. } = self.tape.node(self.at) { count } else { 0 };
        Elements { tape: self.tape, next: self.at.saturating_add(1), left }
    }

    /// The value and all that is in it, in the order of the text.
    #[inline]
    #[must_use]
    pub fn parts(self) -> Parts<'a> {
        Parts::new(self.tape, self.at)
    }

    /// Number of members or elements; 0 for a scalar.
    #[inline]
    #[must_use]
    pub fn len(self) -> usize {
        match self.tape.node(self.at) {
            Node::Array { count, .. } | Node::Object { count, .. } => count as usize,
            Node::Null | Node::Bool(_) | Node::Number { .. } | Node::Text { .. } | Node::Name { .. } => 0,
        }
    }

    /// Returns whether the value has no members or elements. `true` for a scalar.
    #[inline]
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Evaluates a JSON Pointer (RFC 6901, section 4). `None` if the value does not exist, if the text is not a
    /// pointer, and for `-`, the element after the last one.
    #[must_use]
    pub fn pointer(self, pointer: &str) -> Option<Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |value, token| match value.kind() {
            Kind::Object => value.get(&unescape_token(token)?),
            Kind::Array => value.elements().nth(array_index(token)?),
            Kind::Null | Kind::Bool | Kind::Number | Kind::String => None,
        })
    }

    /// Returns whether the canonical text of every number in the value is exact. Always `true` under
    /// [`Recipe::Jcs1`](crate::Recipe::Jcs1).
    #[inline]
    #[must_use]
    pub fn is_exact(self) -> bool {
        self.tape.node(self.at).is_exact()
    }

    /// Writes the canonical text.
    #[must_use]
    pub fn canonical_text(self) -> String {
        let mut text = String::new();
        self.write_canonical_text(&mut text);
        text
    }

    /// Appends the canonical text to a buffer.
    pub fn write_canonical_text(self, out: &mut String) {
        write_value(out, self.tape, self.at);
    }

    /// Writes the canonical text of the object with only the members whose names `keep` accepts; `{}` if the value is
    /// not an object.
    ///
    /// ```
    /// use countersign_canonical_json::{Limits, Recipe, read};
    /// let sent = read(br#"{"to":"bob","__trace":7}"#, Recipe::Jcs1, &Limits::default())?;
    /// assert_eq!(sent.value().canonical_text_of(|name| name != "__trace"), r#"{"to":"bob"}"#);
    /// # Ok::<(), countersign_canonical_json::JsonError>(())
    /// ```
    #[must_use]
    pub fn canonical_text_of(self, keep: impl Fn(&str) -> bool) -> String {
        let mut text = String::from("{");
        for &name in self.names().iter().filter(|name| keep(self.tape.name(**name))) {
            if text.len() > 1 {
                text.push(',');
            }
            write_value(&mut text, self.tape, name);
            text.push(':');
            write_value(&mut text, self.tape, name.saturating_add(1));
        }
        text.push('}');
        text
    }

    /// Copies the value to an empty tape.
    pub(crate) fn copy_to(self, tape: &mut Tape) {
        tape.copy_value(self.tape, self.at);
    }

    #[inline]
    fn names(self) -> &'a [u32] {
        if let Node::Object { first, count, .. } = self.tape.node(self.at) {
            self.tape.names(first, count)
        } else {
            &[]
        }
    }
}

impl fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueRef")
            .field("kind", &self.kind())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

/// Unescapes one token of a JSON Pointer: `~1` is a slash, `~0` a tilde. `None` for any other tilde.
fn unescape_token(token: &str) -> Option<Cow<'_, str>> {
    if !token.contains('~') {
        return Some(Cow::Borrowed(token));
    }
    let mut parts = token.split('~');
    let mut text = parts.next()?.to_owned();
    for part in parts {
        if let Some(rest) = part.strip_prefix('0') {
            text.push('~');
            text.push_str(rest);
        } else {
            text.push('/');
            text.push_str(part.strip_prefix('1')?);
        }
    }
    Some(Cow::Owned(text))
}

/// Reads one token as an index: digits without a leading zero.
fn array_index(token: &str) -> Option<usize> {
    let digits = token.bytes().all(|b| b.is_ascii_digit());
    if !digits || (token.len() > 1 && token.starts_with('0')) {
        return None;
    }
    token.parse().ok()
}

/// Iterator over an object's members in canonical order.
#[derive(Clone)]
pub struct Members<'a> {
    tape: &'a Tape,
    names: std::slice::Iter<'a, u32>,
}

impl Members<'_> {
    /// Byte offset in the input of the next member's name.
    pub(crate) fn next_offset(&self) -> Option<usize> {
        let name = *self.names.as_slice().first()?;
        if let Node::Name { offset, .. } = self.tape.node(name) { Some(offset as usize) } else { None }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, ValueRef<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let name = *self.names.next()?;
        Some((self.tape.name(name), ValueRef::new(self.tape, name.saturating_add(1))))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.names.size_hint()
    }
}

impl ExactSizeIterator for Members<'_> {}

impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members").field("left", &self.len()).finish_non_exhaustive()
    }
}

/// Iterator over an array's elements in order.
#[derive(Clone)]
pub struct Elements<'a> {
    tape: &'a Tape,
    next: u32,
    left: u32,
}

impl<'a> Iterator for Elements<'a> {
    type Item = ValueRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let element = ValueRef::new(self.tape, self.next);
        self.next = self.tape.after(self.next);
        Some(element)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Elements<'_> {}

impl fmt::Debug for Elements<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elements").field("left", &self.left).finish_non_exhaustive()
    }
}
