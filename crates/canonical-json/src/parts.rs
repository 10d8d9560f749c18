use std::fmt;
use std::slice;

use crate::tape::{Node, Tape};

/// Iterator over a value and all that is in it, in the order of the text that was read: a container comes before its
/// contents, and a member's name before its value.
///
/// It costs less than [`ValueRef`](crate::ValueRef), for code that looks at each value once.
///
/// ```
/// use countersign_canonical_json::{Limits, Part, Recipe, read};
/// let args = read(br#"{"to":["a"],"n":3}"#, Recipe::Jcs1, &Limits::default())?;
/// let mut parts = args.value().parts();
/// assert!(matches!(parts.next(), Some(Part::Object { members: 2, contents: 5 })));
/// assert!(matches!(parts.next(), Some(Part::Name(name)) if parts.text(name) == "to"));
/// assert!(matches!(parts.next(), Some(Part::Array { elements: 1, contents: 1 })));
/// parts.leave_out(1);
/// assert!(matches!(parts.next(), Some(Part::Name(name)) if parts.text(name) == "n"));
/// assert!(matches!(parts.next(), Some(Part::Number(n)) if n == 3.0));
/// assert!(parts.next().is_none());
/// # Ok::<(), countersign_canonical_json::JsonError>(())
/// ```
#[derive(Clone)]
pub struct Parts<'a> {
    arena: &'a str,
    nodes: slice::Iter<'a, Node>,
}

/// A value or a name, as [`Parts`] gives it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Part {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number. Finite, and never negative zero.
    Number(f64),
    /// A string.
    String(TextPlace),
    /// The name of an object's member. Its value comes next.
    Name(TextPlace),
    /// An array. Its contents come next.
    Array {
        /// Number of elements.
        elements: usize,
        /// Number of parts in it, nested ones included.
        contents: usize,
    },
    /// An object. Its contents come next.
    Object {
        /// Number of members.
        members: usize,
        /// Number of parts in it, nested ones included.
        contents: usize,
    },
}

/// Place of an unescaped text, for the [`Parts`] that gave it.
#[derive(Clone, Copy, Debug)]
pub struct TextPlace {
    start: u32,
    len: u32,
}

impl TextPlace {
    /// Length in bytes.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        self.len as usize
    }

    /// Returns whether the text has no bytes.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }
}

impl<'a> Parts<'a> {
    pub(crate) fn new(tape: &'a Tape, at: u32) -> Self {
        let (arena, nodes) = tape.parts(at);
        Self { arena, nodes: nodes.iter() }
    }

    /// The text at a place that these parts gave. Empty for a place of other parts that lies outside of their text.
    #[inline]
    #[must_use]
    pub fn text(&self, place: TextPlace) -> &'a str {
        let start = place.start as usize;
        self.arena.get(start..start.saturating_add(place.len())).unwrap_or_default()
    }

    /// The first eight bytes of a text as a little-endian number, with zeros behind a shorter one.
    #[inline(always)]
    #[must_use]
    pub fn first_word(&self, place: TextPlace) -> u64 {
        let bytes = self.arena.as_bytes().get(place.start as usize..).unwrap_or_default();
        let Some(word) = bytes.first_chunk() else { return short_word(bytes, place.len()) };
        let word = u64::from_le_bytes(*word);
        if place.len < 8 { word & !(u64::MAX << place.len.wrapping_mul(8)) } else { word }
    }

    /// Leaves out the next `count` parts, or all if there are fewer.
    #[inline]
    pub fn leave_out(&mut self, count: usize) {
        self.nodes = self.nodes.as_slice().get(count..).unwrap_or_default().iter();
    }
}

impl Iterator for Parts<'_> {
    type Item = Part;

    #[inline(always)]
    fn next(&mut self) -> Option<Part> {
        let contents = |span: u32| span.wrapping_sub(1) as usize;
        Some(match *self.nodes.next()? {
            Node::Null => Part::Null,
            Node::Bool(value) => Part::Bool(value),
            Node::Number { value, .. } => Part::Number(value),
            Node::Text { start, len, .. } => Part::String(TextPlace { start, len }),
            Node::Name { start, len, .. } => Part::Name(TextPlace { start, len }),
            Node::Array { count, span, .. } => {
                Part::Array { elements: count as usize, contents: contents(span) }
            }
            Node::Object { count, span, .. } => {
                Part::Object { members: count as usize, contents: contents(span) }
            }
        })
    }
}

impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("left", &self.nodes.len()).finish_non_exhaustive()
    }
}

/// The first `len` of less than eight bytes as a little-endian number.
#[cold]
fn short_word(bytes: &[u8], len: usize) -> u64 {
    let places = [0, 8, 16, 24, 32, 40, 48, 56];
    bytes.iter().take(len).zip(places).fold(0, |word, (b, place)| word | u64::from(*b) << place)
}
