use std::cmp::Ordering;
use std::ops::Range;

/// A value as a flat list of nodes in input order, each container before its contents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape {
    nodes: Vec<Node>,
    /// For each object, the positions of its [`Node::Name`]s in canonical order.
    order: Vec<u32>,
    /// Unescaped text of all strings and names. A reader's arena begins with the whole input, where texts without
    /// escapes are found.
    arena: String,
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

// INVARIANT: only the reader that filled a tape (or `subtree` and `remove`, from such a tape) creates its positions,
// starts and lengths, so they are in range. A broken invariant must not reach a digest unnoticed, so these three
// look-ups panic instead of returning a default.
impl Tape {
    #[expect(clippy::indexing_slicing, reason = "positions on a tape come from the reader that filled it")]
    pub(crate) fn node(&self, at: u32) -> Node {
        self.nodes[at as usize]
    }

    #[expect(clippy::string_slice, reason = "ranges of a tape's text come from the reader that filled it")]
    pub(crate) fn text(&self, start: u32, len: u32) -> &str {
        &self.arena[start as usize..(start as usize).saturating_add(len as usize)]
    }

    /// Positions of an object's names, in canonical order.
    #[expect(
        clippy::indexing_slicing,
        reason = "ranges of a tape's order come from the reader that filled it"
    )]
    pub(crate) fn names(&self, first: u32, count: u32) -> &[u32] {
        &self.order[first as usize..(first as usize).saturating_add(count as usize)]
    }
}

impl Tape {
    pub(crate) const fn new() -> Self {
        Self { nodes: Vec::new(), order: Vec::new(), arena: String::new() }
    }

    /// Creates a tape with capacity for the text and the typical number of nodes of an input of that many bytes.
    pub(crate) fn with_room_for(bytes: usize) -> Self {
        Self {
            nodes: Vec::with_capacity(bytes / 12),
            order: Vec::with_capacity(bytes / 24),
            arena: String::with_capacity(bytes),
        }
    }

    /// The name at a position; empty if the node is not a name.
    pub(crate) fn name(&self, at: u32) -> &str {
        if let Node::Name { start, len, .. } = self.node(at) { self.text(start, len) } else { "" }
    }

    /// The position after the value at `at`.
    pub(crate) fn after(&self, at: u32) -> u32 {
        at.saturating_add(self.node(at).span())
    }

    /// Returns whether no container is nested deeper or has more entries.
    pub(crate) fn is_within(&self, depth: usize, width: usize) -> bool {
        // Positions after the containers that are open, outermost first.
        let mut open: Vec<u32> = Vec::new();
        let mut at = 0_u32;
        self.nodes.iter().all(|node| {
            while open.pop_if(|end| *end <= at).is_some() {}
            let fits = match *node {
                Node::Array { count, span, .. } | Node::Object { count, span, .. } => {
                    open.push(at.saturating_add(span));
                    open.len() <= depth && count as usize <= width
                }
                Node::Null | Node::Bool(_) | Node::Number { .. } | Node::Text { .. } | Node::Name { .. } => {
                    true
                }
            };
            at = at.saturating_add(1);
            fits
        })
    }

    /// Clears the tape for another input.
    pub(crate) fn start(&mut self, input: &str) {
        self.nodes.clear();
        self.order.clear();
        self.arena.clear();
        self.arena.push_str(input);
    }

    /// All text of the tape: the input itself if none of its strings has an escape.
    pub(crate) const fn arena(&self) -> &str {
        self.arena.as_str()
    }

    /// The text buffer, to which the reader appends.
    pub(crate) const fn arena_mut(&mut self) -> &mut String {
        &mut self.arena
    }

    /// Appends a node and returns its position.
    pub(crate) fn push(&mut self, node: Node) -> u32 {
        let at = narrow(self.nodes.len());
        self.nodes.push(node);
        at
    }

    /// Closes the array at `at`.
    pub(crate) fn close_array(&mut self, at: u32, count: u32, exact: bool) {
        let span = narrow(self.nodes.len()).saturating_sub(at);
        self.replace(at, Node::Array { count, span, exact });
    }

    /// Closes the object at `at`, whose names are `names` in canonical order.
    pub(crate) fn close_object(&mut self, at: u32, names: &[u32], exact: bool) {
        let span = narrow(self.nodes.len()).saturating_sub(at);
        let first = narrow(self.order.len());
        self.order.extend_from_slice(names);
        self.replace(at, Node::Object { count: narrow(names.len()), span, exact, first });
    }

    fn replace(&mut self, at: u32, node: Node) {
        if let Some(open) = self.nodes.get_mut(at as usize) {
            *open = node;
        }
    }

    /// Copies the value at `root` and its contents to a new tape.
    pub(crate) fn subtree(&self, root: u32) -> Self {
        let mut copy = Self::default();
        copy.append(self, root);
        copy
    }

    /// Removes the members of these names from the object at the start of the tape, and closes the gaps.
    pub(crate) fn remove(&mut self, reserved: &[&str]) {
        let Node::Object { first, count, .. } = self.node(0) else { return };
        let (kept, mut taken): (Vec<u32>, Vec<u32>) =
            self.names(first, count).iter().partition(|at| !reserved.contains(&self.name(**at)));
        taken.sort_unstable();
        let exact = kept.iter().all(|name| self.node(name.saturating_add(1)).is_exact());
        let gaps: Vec<Range<u32>> =
            taken.into_iter().map(|name| name..self.after(name.saturating_add(1))).collect();
        let mut at = 0_u32;
        self.nodes.retain(|_| {
            let next = gaps.get(gaps.partition_point(|gap| gap.end <= at));
            let keep = next.is_none_or(|gap| at < gap.start);
            at = at.saturating_add(1);
            keep
        });
        // Each position moves by the gaps before it. Positions of removed objects' names stay in `order`, unreferenced.
        let moved = |at: u32| {
            let before = gaps.iter().take_while(|gap| gap.end <= at);
            before.fold(at, |at, gap| at.saturating_sub(gap.end.saturating_sub(gap.start)))
        };
        for (place, name) in self.order.iter_mut().skip(first as usize).zip(&kept) {
            *place = *name;
        }
        for place in &mut self.order {
            *place = moved(*place);
        }
        let span = narrow(self.nodes.len());
        self.replace(0, Node::Object { count: narrow(kept.len()), span, exact, first });
    }

    /// Copies the value at `root` of another tape to this one, which is empty.
    fn append(&mut self, other: &Self, root: u32) {
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

/// Narrows a count or offset of a tape.
#[expect(
    clippy::cast_possible_truncation,
    reason = "an input has at most 2^28 bytes, which bounds every count"
)]
pub(crate) const fn narrow(count: usize) -> u32 {
    count as u32
}

/// Compares two texts by their UTF-16 code units (RFC 8785, section 3.2.3) without transcoding them.
///
/// UTF-8 bytes sort by code point. UTF-16 differs in one way: U+E000 to U+FFFF, whose UTF-8 starts with 0xEE or 0xEF,
/// sort after all surrogate pairs, whose UTF-8 starts with 0xF0 to 0xF4.
pub(crate) fn compare_utf16(a: &str, b: &str) -> Ordering {
    const fn rank(lead: u8) -> u8 {
        if lead == 0xEE || lead == 0xEF { lead.wrapping_add(0x10) } else { lead }
    }
    match a.bytes().zip(b.bytes()).find(|(x, y)| x != y) {
        Some((x, y)) => rank(x).cmp(&rank(y)),
        None => a.len().cmp(&b.len()),
    }
}
