use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::content::{ContentError, ContentProblem};
use crate::in_place::check_in_place;

/// The longest arguments' schema, in bytes of JSON.
const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// The most references that lead from one to the next.
const MAX_REFERENCES: usize = 128;

/// The most levels of objects and lists, with what references lead to counted as if it stood in their place. Whoever
/// evaluates a schema recurses: 290 levels of `not` were measured to fit into a thread's 2 MiB without optimisation, 406
/// were not.
pub(crate) const MAX_LEVELS: usize = 256;

/// The most objects and lists, counted likewise.
pub(crate) const MAX_NODES: usize = 100_000;

/// The most targets that the schema's references may have in all, before any of them is looked up: each reference that
/// counts from a resource is looked up in every one.
const MAX_TARGETS: usize = 1_000_000;

/// Refuses a schema that is small to read and endless to check: one whose references lead to others, twice each, or in
/// a long row.
///
/// Only containers count. A reference back into what it stands in counts once: how often that is followed depends on
/// the arguments, whose depth is bounded. Everything is walked as if it were a schema, and a reference that could mean
/// several places is taken to mean all of them, so that nothing counts less here than for who evaluates it. Nothing
/// here calls itself.
pub(crate) fn check_expansion(schema: &Value) -> Result<Expansion, ContentError> {
    let graph = Graph::linked(schema)?;
    let (size, leads_back) = graph.measure();
    let within = [
        (size.references, MAX_REFERENCES, "references in a row"),
        (size.levels, MAX_LEVELS, "levels, references followed"),
        (size.nodes, MAX_NODES, "objects and lists, references followed"),
    ];
    for (have, max, what) in within {
        if have > max {
            return Err(too_large(what, max));
        }
    }
    // Writing recurses, which is safe only now that the levels are known.
    match serde_json::to_string(schema) {
        Ok(text) if text.len() <= MAX_SCHEMA_BYTES => {
            let levels_in_place = check_in_place(&graph)?;
            Ok(Expansion { bytes: text.len(), nodes: size.nodes, leads_back, levels_in_place })
        }
        _ => Err(too_large("bytes", MAX_SCHEMA_BYTES)),
    }
}

/// How large a schema is that was found small enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expansion {
    /// Bytes of JSON.
    pub(crate) bytes: usize,
    /// Objects and lists, references followed.
    pub(crate) nodes: usize,
    /// Whether a reference may lead back to what it stands in.
    pub(crate) leads_back: bool,
    /// The most levels that apply to one value.
    pub(crate) levels_in_place: usize,
}

pub(crate) const fn too_large(what: &'static str, max: usize) -> ContentError {
    ContentError::whole(ContentProblem::SchemaTooLarge { what, max })
}

/// The schema's objects and lists, by number, and where each of them leads.
#[derive(Debug, Default)]
pub(crate) struct Graph<'s> {
    nodes: Vec<Node<'s>>,
    numbers: HashMap<*const Value, usize>,
}

#[derive(Debug)]
struct Node<'s> {
    value: &'s Value,
    edges: Vec<Edge>,
}

#[derive(Clone, Copy, Debug)]
struct Edge {
    to: usize,
    is_reference: bool,
}

/// What stands below one node, itself included.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    nodes: usize,
    levels: usize,
    references: usize,
}

/// How far the walk is with a node: not there yet, below it now, or done.
#[derive(Clone, Copy, Debug)]
enum Seen {
    Not,
    Open,
    Done(Size),
}

impl<'s> Graph<'s> {
    /// The graph of a schema, references followed.
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

    /// The containers that stand in one, with their names where it is an object.
    pub(crate) fn contained(&self, number: usize) -> impl Iterator<Item = (Option<&'s str>, usize)> {
        let value = self.nodes.get(number).map(|node| node.value);
        let members = value.and_then(Value::as_object).into_iter().flatten();
        let elements = value.and_then(Value::as_array).into_iter().flatten();
        let named = members.map(|(name, value)| (Some(name.as_str()), value));
        let all = named.chain(elements.map(|value| (None, value)));
        all.filter_map(|(name, value)| Some((name, *self.numbers.get(&std::ptr::from_ref(value))?)))
    }

    /// Where the references of one container may lead.
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
            graph.nodes.push(Node { value, edges: Vec::new() });
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
        // What a pointer may count from: the whole, and whatever has an identifier of its own.
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

    /// Returns whether a reference could lead to a resource: the last segments of both are the same but for case, or one of them
    /// is nothing that could be compared. The evaluator compares URIs after normalisation (RFC 3986, section 6.2.2), so whatever
    /// that could change counts as equal.
    fn may_name(&self, wanted: &str, resource: usize) -> bool {
        let object = self.nodes.get(resource).and_then(|node| node.value.as_object());
        let open = |segment: &str| matches!(segment, "" | "." | "..") || segment.contains(['%', ':']);
        // Which of the two counts depends on the draft.
        let identifiers = ["$id", "id"].map(|name| object.and_then(|object| object.get(name)?.as_str()));
        let named = |id: &str| {
            let id = last_segment(id);
            open(id) || wanted.eq_ignore_ascii_case(id)
        };
        open(wanted) || identifiers == [None, None] || identifiers.into_iter().flatten().any(named)
    }

    /// The container at a JSON Pointer below a resource.
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

    /// Adds up every node from those below it, each node once; deepest first, on a stack of its own. Tells as well whether
    /// a reference leads back.
    fn measure(&self) -> (Size, bool) {
        let mut leads_back = false;
        let mut seen = vec![Seen::Not; self.nodes.len()];
        let mut path = vec![(0, Size { nodes: 1, levels: 1, references: 0 }, 0)];
        set(&mut seen, 0, Seen::Open);
        while let Some((number, mut size, next)) = path.pop() {
            let Some(edge) = self.nodes.get(number).and_then(|node| node.edges.get(next)) else {
                set(&mut seen, number, Seen::Done(size));
                continue;
            };
            match seen.get(edge.to).copied().unwrap_or(Seen::Open) {
                Seen::Not => {
                    // Comes back to this edge when what it leads to is done.
                    path.push((number, size, next));
                    path.push((edge.to, Size { nodes: 1, levels: 1, references: 0 }, 0));
                    set(&mut seen, edge.to, Seen::Open);
                    continue;
                }
                // Back into what it stands in: counted once, as itself.
                Seen::Open => {
                    leads_back = true;
                    size.add(Size::default(), *edge);
                }
                Seen::Done(below) => size.add(below, *edge),
            }
            path.push((number, size, next.saturating_add(1)));
        }
        match seen.first() {
            Some(Seen::Done(size)) => (*size, leads_back),
            Some(Seen::Not | Seen::Open) | None => (Size::default(), leads_back),
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

fn set(seen: &mut [Seen], number: usize, state: Seen) {
    if let Some(slot) = seen.get_mut(number) {
        *slot = state;
    }
}

fn is_container(value: &&Value) -> bool {
    value.is_object() || value.is_array()
}

/// What stands after the last slash of a URI's path.
fn last_segment(uri: &str) -> &str {
    let path = uri.split(['#', '?']).next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// Decodes `%XX`; what is no such escape stays as it is.
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
