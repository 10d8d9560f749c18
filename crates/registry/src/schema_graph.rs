use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::content::{ContentError, ContentProblem};

/// Most levels of objects and arrays, with the target of a reference counted in its place. why: the evaluator
/// recurses. Without optimisation 290 levels of `not` fit into a thread's 2 MiB, 406 did not.
pub(crate) const MAX_LEVELS: usize = 256;

/// Most objects and arrays, counted likewise.
pub(crate) const MAX_NODES: usize = 100_000;

/// Most targets of all references of the schema, before any is looked up. Each reference relative to a resource is
/// looked up in every resource.
const MAX_TARGETS: usize = 1_000_000;

pub(crate) const fn too_large(what: &'static str, max: usize) -> ContentError {
    ContentError::whole(ContentProblem::SchemaTooLarge { what, max })
}

/// Objects and arrays of a schema, by number, with their edges.
#[derive(Debug, Default)]
pub(crate) struct Graph<'s> {
    nodes: Vec<SchemaNode<'s>>,
    numbers: HashMap<*const Value, usize>,
}

#[derive(Debug)]
struct SchemaNode<'s> {
    value: &'s Value,
    edges: Vec<Edge>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: usize,
    is_reference: bool,
}

/// Size of the part below a node, itself included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) levels: usize,
    pub(crate) references: usize,
}

/// State of the walk at a node.
#[derive(Clone, Copy, Debug)]
enum WalkState {
    Not,
    Open,
    Done(Size),
}

impl<'s> Graph<'s> {
    /// Graph of a schema, references followed.
    pub(crate) fn linked(schema: &'s Value) -> Result<Self, ContentError> {
        let mut graph = Self::of(schema)?;
        graph.link_references()?;
        Ok(graph)
    }

    pub(crate) const fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn is_list(&self, number: usize) -> bool {
        self.nodes.get(number).is_some_and(|node| node.value.is_array())
    }

    /// Containers inside a node, with their names if it is an object.
    pub(crate) fn contained(&self, number: usize) -> impl Iterator<Item = (Option<&'s str>, usize)> {
        let value = self.nodes.get(number).map(|node| node.value);
        let members = value.and_then(Value::as_object).into_iter().flatten();
        let elements = value.and_then(Value::as_array).into_iter().flatten();
        let named = members.map(|(name, value)| (Some(name.as_str()), value));
        let all = named.chain(elements.map(|value| (None, value)));
        all.filter_map(|(name, value)| Some((name, *self.numbers.get(&std::ptr::from_ref(value))?)))
    }

    /// Targets of the references of a node.
    pub(crate) fn referred(&self, number: usize) -> impl Iterator<Item = usize> {
        let edges = self.nodes.get(number).map_or(&[][..], |node| &node.edges);
        edges.iter().filter(|edge| edge.is_reference).map(|edge| edge.to)
    }

    fn of(schema: &'s Value) -> Result<Self, ContentError> {
        let mut graph = Self::default();
        let mut waiting = vec![(None, schema)];
        while let Some((parent, value)) = waiting.pop() {
            let number = graph.nodes.len();
            if number >= MAX_NODES {
                return Err(too_large("objects and lists", MAX_NODES));
            }
            graph.nodes.push(SchemaNode { value, edges: Vec::new() });
            graph.numbers.insert(std::ptr::from_ref(value), number);
            graph.link(parent, number, false);
            match value {
                Value::Object(members) => {
                    waiting.extend(members.values().filter(is_container).map(|below| (Some(number), below)));
                }
                Value::Array(elements) => {
                    waiting.extend(elements.iter().filter(is_container).map(|below| (Some(number), below)));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        Ok(graph)
    }

    fn link(&mut self, from: Option<usize>, to: usize, is_reference: bool) {
        if let Some(node) = from.and_then(|from| self.nodes.get_mut(from)) {
            node.edges.push(Edge { to, is_reference });
        }
    }

    fn objects(&self) -> impl Iterator<Item = (usize, &'s Map<String, Value>)> {
        self.nodes
            .iter()
            .enumerate()
            .filter_map(|(number, node)| node.value.as_object().map(|object| (number, object)))
    }

    fn link_references(&mut self) -> Result<(), ContentError> {
        let mut references = Vec::new();
        // Resources: the root, and every object with an identifier.
        let mut resources = Vec::new();
        let mut anchors: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, object) in self.objects() {
            let text = |name: &str| object.get(name).and_then(Value::as_str);
            for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
                references.extend(text(keyword).map(|reference| (number, reference)));
            }
            let identifiers = [text("$id"), text("id")];
            if number == 0 || identifiers.iter().any(Option::is_some) {
                resources.push(number);
            }
            let fragments = identifiers.into_iter().flatten().filter_map(|id| id.split_once('#'));
            let names = [text("$anchor"), text("$dynamicAnchor")];
            for name in names.into_iter().flatten().chain(fragments.map(|(_, name)| name)) {
                anchors.entry(name).or_default().push(number);
            }
        }
        let mut targets = 0_usize;
        for (from, reference) in references {
            let fragment = reference.split_once('#').map_or("", |(_, fragment)| fragment);
            let fragment = percent_decoded(fragment);
            let wanted = last_segment(reference);
            let is_pointer = fragment.is_empty() || fragment.starts_with('/');
            let candidates = if is_pointer { Some(&resources) } else { anchors.get(&*fragment) };
            let candidates = candidates.map_or(&[][..], Vec::as_slice);
            targets = targets.saturating_add(candidates.len());
            if targets > MAX_TARGETS {
                return Err(too_large("places that references could mean", MAX_TARGETS));
            }
            for candidate in candidates {
                if !is_pointer {
                    self.link(Some(from), *candidate, true);
                } else if self.may_name(wanted, *candidate)
                    && let Some(to) = self.below(*candidate, &fragment)
                {
                    self.link(Some(from), to, true);
                }
            }
        }
        Ok(())
    }

    /// Returns whether a reference could lead to a resource: the last segments of both are equal but for case, or one
    /// of them cannot be compared. The evaluator compares URIs after normalisation (RFC 3986, section 6.2.2), so a
    /// difference that it could remove counts as equal.
    fn may_name(&self, wanted: &str, resource: usize) -> bool {
        let object = self.nodes.get(resource).and_then(|node| node.value.as_object());
        let open = |segment: &str| matches!(segment, "" | "." | "..") || segment.contains(['%', ':']);
        // The draft decides which of the two applies.
        let identifiers = ["$id", "id"].map(|name| object.and_then(|object| object.get(name)?.as_str()));
        let named = |id: &str| {
            let id = last_segment(id);
            open(id) || wanted.eq_ignore_ascii_case(id)
        };
        open(wanted) || identifiers == [None, None] || identifiers.into_iter().flatten().any(named)
    }

    /// Container at a JSON Pointer below a resource.
    fn below(&self, base: usize, pointer: &str) -> Option<usize> {
        let mut value = self.nodes.get(base)?.value;
        for token in pointer.split('/').skip(1) {
            value = match value {
                Value::Object(members) => members.get(&token.replace("~1", "/").replace("~0", "~"))?,
                Value::Array(elements) => elements.get(token.parse::<usize>().ok()?)?,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
            };
        }
        self.numbers.get(&std::ptr::from_ref(value)).copied()
    }

    /// Sums the sizes below every node, each node once, deepest first, on an explicit stack. Also returns whether a
    /// reference leads back.
    pub(crate) fn measure(&self) -> (Size, bool) {
        let mut leads_back = false;
        let mut seen = vec![WalkState::Not; self.nodes.len()];
        let mut path = vec![(0, Size { nodes: 1, levels: 1, references: 0 }, 0)];
        set(&mut seen, 0, WalkState::Open);
        while let Some((number, mut size, next)) = path.pop() {
            let Some(edge) = self.nodes.get(number).and_then(|node| node.edges.get(next)) else {
                set(&mut seen, number, WalkState::Done(size));
                continue;
            };
            match seen.get(edge.to).copied().unwrap_or(WalkState::Open) {
                WalkState::Not => {
                    // Return to this edge after its target is done.
                    path.push((number, size, next));
                    path.push((edge.to, Size { nodes: 1, levels: 1, references: 0 }, 0));
                    set(&mut seen, edge.to, WalkState::Open);
                    continue;
                }
                // A reference back to an ancestor counts once.
                WalkState::Open => {
                    leads_back = true;
                    size.add(Size::default(), *edge);
                }
                WalkState::Done(below) => size.add(below, *edge),
            }
            path.push((number, size, next.saturating_add(1)));
        }
        match seen.first() {
            Some(WalkState::Done(size)) => (*size, leads_back),
            Some(WalkState::Not | WalkState::Open) | None => (Size::default(), leads_back),
        }
    }
}

impl Size {
    fn add(&mut self, below: Self, edge: Edge) {
        self.nodes = self.nodes.saturating_add(below.nodes);
        self.levels = self.levels.max(below.levels.saturating_add(1));
        self.references =
            self.references.max(below.references.saturating_add(usize::from(edge.is_reference)));
    }
}

fn set(seen: &mut [WalkState], number: usize, state: WalkState) {
    if let Some(slot) = seen.get_mut(number) {
        *slot = state;
    }
}

fn is_container(value: &&Value) -> bool {
    value.is_object() || value.is_array()
}

/// Text after the last slash of a URI's path.
fn last_segment(uri: &str) -> &str {
    let path = uri.split(['#', '?']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// Decodes `%XX`; malformed escapes stay unchanged.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escape = after.split_at_checked(2).filter(|_| *first == b'%');
        let decoded = escape.and_then(|(digits, after)| {
            let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
            Some((u8::from_str_radix(digits, 16).ok()?, after))
        });
        let (byte, after) = decoded.unwrap_or((*first, after));
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
