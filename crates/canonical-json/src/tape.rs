use std::cmp::Ordering;
use std::mem;

use crate::limits::MAX_DEPTH;
use crate::scan::PADDING;

/// A value as a flat list of nodes in input order, each container before its contents.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    nodes: Vec<Node>,
    /// For each object, the positions of its [`Node::Name`]s in canonical order.
    order: Vec<u32>,
    /// Unescaped text of all strings and names. A reader's arena begins with the whole input and its padding,
    /// where texts without escapes are found.
    arena: String,
    /// No container is nested deeper than this.
    depth: u32,
    /// No container has more entries than this.
    width: u32,
}

/// A value, or the name before a member's value. Sixteen bytes.
///
/// `span` is the number of nodes of a container and its contents, itself included. `exact`: no number in it was
/// rounded. `plain`: the text is written without escapes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Number { value: f64, exact: bool },
    Text { start: u32, len: u32, plain: bool },
    Name { start: u32, len: u32, plain: bool, offset: u32 },
    Array { count: u32, span: u32, exact: bool },
    Object { count: u32, span: u32, exact: bool, first: u32 },
}

impl Node {
    /// Number of nodes of the value.
    #[inline]
    const fn span(self) -> u32 {
        match self {
            Self::Array { span, .. } | Self::Object { span, .. } => span,
            Self::Null | Self::Bool(_) | Self::Number { .. } | Self::Text { .. } | Self::Name { .. } => 1,
        }
    }

    /// Returns whether no number in the value was rounded.
    pub(crate) const fn is_exact(self) -> bool {
        match self {
            Self::Number { exact, .. } | Self::Array { exact, .. } | Self::Object { exact, .. } => exact,
            Self::Null | Self::Bool(_) | Self::Text { .. } | Self::Name { .. } => true,
        }
    }
}

// INVARIANT: only the builder that filled a tape (or `copy_value` and `remove`, from such a tape) creates its positions,
// starts and lengths, so they are in range. A broken invariant must not reach a digest unnoticed, so these
// look-ups panic instead of returning a default.
impl Tape {
    #[expect(clippy::indexing_slicing, reason = "positions on a tape come from the reader that filled it")]
    #[inline]
    pub(crate) fn node(&self, at: u32) -> Node {
        self.nodes[at as usize]
    }

    #[expect(clippy::string_slice, reason = "ranges of a tape's text come from the reader that filled it")]
    #[inline]
    pub(crate) fn text(&self, start: u32, len: u32) -> &str {
        &self.arena[start as usize..(start as usize).saturating_add(len as usize)]
    }

    /// The arena, and the nodes of the value at `at`.
    #[expect(clippy::indexing_slicing, reason = "positions on a tape come from the reader that filled it")]
    #[inline]
    pub(crate) fn parts(&self, at: u32) -> (&str, &[Node]) {
        (&self.arena, &self.nodes[at as usize..self.after(at) as usize])
    }

    /// Positions of an object's names, in canonical order.
    #[expect(
        clippy::indexing_slicing,
        reason = "ranges of a tape's order come from the reader that filled it"
    )]
    #[inline]
    pub(crate) fn names(&self, first: u32, count: u32) -> &[u32] {
        &self.order[first as usize..(first as usize).saturating_add(count as usize)]
    }
}

impl Tape {
    pub(crate) const fn new() -> Self {
        Self { nodes: Vec::new(), order: Vec::new(), arena: String::new(), depth: 0, width: 0 }
    }

    /// Bytes of memory.
    pub(crate) const fn footprint(&self) -> usize {
        let nodes = self.nodes.capacity().saturating_mul(size_of::<Node>());
        let order = self.order.capacity().saturating_mul(size_of::<u32>());
        nodes.saturating_add(order).saturating_add(self.arena.capacity())
    }

    /// Creates a tape with capacity for the text and the typical number of nodes of an input of that many bytes.
    pub(crate) fn with_room_for(bytes: usize) -> Self {
        Self {
            nodes: Vec::with_capacity((bytes / 12).saturating_add(8)),
            order: Vec::with_capacity((bytes / 24).saturating_add(4)),
            arena: String::with_capacity(bytes.saturating_add(PADDING.len())),
            depth: 0,
            width: 0,
        }
    }

    /// The name at a position; empty if the node is not a name.
    #[inline]
    pub(crate) fn name(&self, at: u32) -> &str {
        if let Node::Name { start, len, .. } = self.node(at) { self.text(start, len) } else { "" }
    }

    /// Returns whether the node at a position is this name.
    #[inline]
    pub(crate) fn is_named(&self, at: u32, name: &str) -> bool {
        let Node::Name { start, len, .. } = self.node(at) else { return false };
        len as usize == name.len() && self.text(start, len) == name
    }

    /// The position after the value at `at`.
    #[inline]
    pub(crate) fn after(&self, at: u32) -> u32 {
        at.saturating_add(self.node(at).span())
    }

    /// Returns whether no container is nested deeper or has more entries.
    pub(crate) fn is_within(&self, depth: usize, width: usize) -> bool {
        // After members are removed, the bounds can be larger than the value.
        (self.depth as usize <= depth && self.width as usize <= width) || self.walk_is_within(depth, width)
    }

    fn walk_is_within(&self, depth: usize, width: usize) -> bool {
        // Positions after the containers that are open, outermost first.
        let mut open = [0_u32; MAX_DEPTH];
        let mut opened = 0_usize;
        let mut at = 0_u32;
        self.nodes.iter().all(|node| {
            while open.get(opened.wrapping_sub(1)).is_some_and(|end| *end <= at) {
                opened = opened.wrapping_sub(1);
            }
            let fits = match *node {
                Node::Array { count, span, .. } | Node::Object { count, span, .. } => {
                    if let Some(place) = open.get_mut(opened) {
                        *place = at.saturating_add(span);
                    }
                    opened = opened.saturating_add(1);
                    opened <= depth && count as usize <= width
                }
                Node::Null | Node::Bool(_) | Node::Number { .. } | Node::Text { .. } | Node::Name { .. } => {
                    true
                }
            };
            at = at.saturating_add(1);
            fits
        })
    }

    /// Notes that a container is nested that deep.
    #[inline]
    pub(crate) fn note_depth(&mut self, depth: usize) {
        self.depth = self.depth.max(narrow(depth));
    }

    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
        self.order.clear();
        self.arena.clear();
        (self.depth, self.width) = (0, 0);
    }

    /// Clears the tape for another input and takes its text buffer, which then begins with that input and its padding.
    pub(crate) fn start(&mut self, input: &str) -> String {
        self.clear();
        let mut arena = mem::take(&mut self.arena);
        arena.reserve(input.len().saturating_add(PADDING.len()));
        arena.push_str(input);
        arena.push_str(PADDING);
        arena
    }

    /// Gives back the text buffer, with the texts that follow the input.
    pub(crate) fn finish(&mut self, mut arena: String, texts: &str) {
        arena.push_str(texts);
        self.arena = arena;
    }

    /// Appends a node and returns its position.
    #[inline]
    pub(crate) fn push(&mut self, node: Node) -> u32 {
        let at = narrow(self.nodes.len());
        self.nodes.push(node);
        at
    }

    /// Closes the array at `at`.
    #[inline]
    pub(crate) fn close_array(&mut self, at: u32, count: u32, exact: bool) {
        let span = narrow(self.nodes.len()).wrapping_sub(at);
        self.width = self.width.max(count);
        self.replace(at, Node::Array { count, span, exact });
    }

    /// Closes the object at `at`, whose names are `names` in canonical order.
    #[inline]
    pub(crate) fn close_object(&mut self, at: u32, names: impl ExactSizeIterator<Item = u32>, exact: bool) {
        let span = narrow(self.nodes.len()).wrapping_sub(at);
        let (first, count) = (narrow(self.order.len()), narrow(names.len()));
        self.order.extend(names);
        self.width = self.width.max(count);
        self.replace(at, Node::Object { count, span, exact, first });
    }

    fn replace(&mut self, at: u32, node: Node) {
        if let Some(open) = self.nodes.get_mut(at as usize) {
            *open = node;
        }
    }

    /// Removes the member of this name from the object at the start of the tape, if there is one, and closes the gap.
    /// Returns whether there was one.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Node::Object { first, count, .. } = self.node(0) else { return false };
        let names = self.names(first, count);
        let Some(index) = names.iter().position(|at| self.name(*at) == name) else { return false };
        let Some(gap) = names.get(index).copied() else { return false };
        let gap_end = self.after(gap.saturating_add(1));
        let exact = names.iter().all(|at| *at == gap || self.node(at.saturating_add(1)).is_exact());
        // The object keeps its place in the order, and the last of its places is unreferenced.
        if let Some(behind) =
            self.order.get_mut(first as usize..).and_then(|own| own.get_mut(index..count as usize))
        {
            behind.rotate_left(1);
        }
        self.nodes.drain(gap as usize..gap_end as usize);
        for place in &mut self.order {
            if *place >= gap_end {
                *place = place.saturating_sub(gap_end.saturating_sub(gap));
            }
        }
        let span = narrow(self.nodes.len());
        self.replace(0, Node::Object { count: count.saturating_sub(1), span, exact, first });
        true
    }

    /// Copies another tape to this one, which is empty.
    pub(crate) fn copy_all(&mut self, other: &Self) {
        self.nodes.extend_from_slice(&other.nodes);
        self.order.extend_from_slice(&other.order);
        self.arena.push_str(&other.arena);
        (self.depth, self.width) = (other.depth, other.width);
    }

    /// Copies the value at `root` of another tape to this one, which is empty.
    pub(crate) fn copy_value(&mut self, other: &Self, root: u32) {
        (self.depth, self.width) = (other.depth, other.width);
        for at in root..other.after(root) {
            let node = match other.node(at) {
                Node::Text { start, len, plain } => {
                    Node::Text { start: self.take(other, start, len), len, plain }
                }
                Node::Name { start, len, plain, offset } => {
                    Node::Name { start: self.take(other, start, len), len, plain, offset }
                }
                Node::Object { count, span, exact, first } => {
                    let moved = narrow(self.order.len());
                    let names = other.names(first, count);
                    self.order.extend(names.iter().map(|name| name.saturating_sub(root)));
                    Node::Object { count, span, exact, first: moved }
                }
                node @ (Node::Null | Node::Bool(_) | Node::Number { .. } | Node::Array { .. }) => node,
            };
            self.nodes.push(node);
        }
    }

    /// Copies a text from another tape and returns its start in this one.
    fn take(&mut self, from: &Self, start: u32, len: u32) -> u32 {
        let moved = narrow(self.arena.len());
        self.arena.push_str(from.text(start, len));
        moved
    }
}

/// Narrows a count or offset of a tape or of its text.
#[expect(
    clippy::cast_possible_truncation,
    reason = "an input has at most 2^28 bytes, its canonical text at most eight times as many, and both bound every count"
)]
pub(crate) const fn narrow(count: usize) -> u32 {
    count as u32
}

/// Compares two texts by their UTF-16 code units (RFC 8785, section 3.2.3) without transcoding them.
///
/// UTF-8 bytes sort by code point. UTF-16 differs in one way: U+E000 to U+FFFF, whose UTF-8 starts with 0xEE or 0xEF,
/// sort after all surrogate pairs, whose UTF-8 starts with 0xF0 to 0xF4.
pub(crate) fn compare_utf16(a: &[u8], b: &[u8]) -> Ordering {
    const fn rank(lead: u8) -> u8 {
        if lead == 0xEE || lead == 0xEF { lead.wrapping_add(0x10) } else { lead }
    }
    match a.iter().zip(b).find(|(x, y)| x != y) {
        Some((x, y)) => rank(*x).cmp(&rank(*y)),
        None => a.len().cmp(&b.len()),
    }
}
