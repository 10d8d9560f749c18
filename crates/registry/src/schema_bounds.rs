use std::collections::HashSet;

use serde_json::Value;

use crate::content::ContentError;
use crate::schema_graph::{Graph, MAX_LEVELS, MAX_NODES, too_large};

/// Longest schema of arguments, in bytes of JSON.
const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// Longest chain of references.
const MAX_REFERENCES: usize = 128;

/// Most steps to measure a schema whose references lead back to the same value.
const MAX_STEPS: usize = 1_000_000;

/// Keywords whose schemas apply to values inside the value of their own schema.
const APPLY_INSIDE: [&str; 8] = [
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "propertyNames",
    "contains",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Refuses a schema that is small to read and very large to evaluate: its references lead to others, two at a time or
/// in a long chain.
///
/// Counts objects and arrays only. A reference back to an ancestor counts once: its use depends on the arguments,
/// whose depth is bounded. Every object counts as a schema, and an ambiguous reference leads to all its candidates, so
/// that no schema counts less here than in the evaluator. The walk does not recurse.
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
    // why: serialising recurses, which is safe only after the levels were checked.
    match serde_json::to_string(schema) {
        Ok(text) if text.len() <= MAX_SCHEMA_BYTES => {
            let levels_in_place = check_in_place(&graph)?;
            let has_not = text.contains("\"not\":");
            Ok(Expansion { bytes: text.len(), nodes: size.nodes, leads_back, levels_in_place, has_not })
        }
        _ => Err(too_large("bytes", MAX_SCHEMA_BYTES)),
    }
}

/// Size of a schema within the limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expansion {
    /// Bytes of JSON.
    pub(crate) bytes: usize,
    /// Objects and arrays, references followed.
    pub(crate) nodes: usize,
    /// Whether a reference may lead back to an ancestor.
    pub(crate) leads_back: bool,
    /// Most levels that apply to one value.
    pub(crate) levels_in_place: usize,
    /// Whether a member of the schema is called `not`.
    pub(crate) has_not: bool,
}

/// Refuses a schema that applies too many parts to one value. Returns the longest path in place, in levels.
///
/// [`check_expansion`] counts a reference back to an ancestor once, because each round takes the evaluator one level
/// down in the arguments, whose depth is bounded. Within one level only the schema bounds the work: an `anyOf` of two
/// references to the next such `anyOf` doubles it at each step, and the evaluator caches no result for strings and
/// numbers. So this function measures every part as if the evaluation began there. It follows references, counts the
/// parts applied in place, and counts each round within one value twice, since the evaluator may detect the round that
/// late. The walk does not recurse.
fn check_in_place(graph: &Graph<'_>) -> Result<usize, ContentError> {
    let applied = Uses::of(graph).in_place;
    let count = applied.len();
    let mut walk = Walk { applied: &applied, done: vec![None; count], on_path: vec![0; count], steps: 0 };
    let mut levels = 0;
    for start in 0..count {
        levels = levels.max(walk.measure(start)?.levels);
    }
    Ok(levels)
}

/// Returns whether a part of the schema leads back to itself in two ways that apply to one value. Gives up after
/// [`MAX_STEPS`] steps.
pub(crate) fn branches_back(schema: &Value) -> bool {
    let Ok(graph) = Graph::linked(schema) else { return false };
    let uses = Uses::of(&graph);
    let mut steps = 0;
    (0..graph.len()).any(|number| {
        let (in_place, inside) = (edges(&uses.in_place, number), edges(&uses.inside, number));
        if in_place.len().saturating_add(usize::from(!inside.is_empty())) < 2 {
            return false;
        }
        let mut leads_back = |from: &usize| uses.lead(*from, number, &mut steps);
        let ways = in_place.iter().filter(|to| leads_back(to)).count();
        ways > 1 || (ways == 1 && inside.iter().any(leads_back))
    })
}

/// Role of a container at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ContainerRole {
    /// A schema, or a list of schemas for one value.
    Schema,
    /// Schemas under names that are not keywords, or a list of schemas for several values.
    Apart,
    /// Schemas under names that are not keywords, all for one value.
    Together,
    /// Schemas under names, used by references only.
    Named,
}

/// Containers that each container applies, by number.
struct Uses {
    /// Applied to its own value.
    in_place: Vec<Vec<usize>>,
    /// Applied to values inside its own.
    inside: Vec<Vec<usize>>,
}

impl Uses {
    fn of(graph: &Graph<'_>) -> Self {
        let count = graph.len();
        let mut uses = Self { in_place: vec![Vec::new(); count], inside: vec![Vec::new(); count] };
        let mut kinds = vec![None; count];
        let mut waiting = vec![(0, ContainerRole::Schema)];
        while let Some((number, kind)) = waiting.pop() {
            set(&mut kinds, number, Some(kind));
            for (name, to) in graph.contained(number) {
                let (below, in_place) = match (kind, name) {
                    (ContainerRole::Apart, _) => (ContainerRole::Schema, false),
                    (ContainerRole::Together, _) | (ContainerRole::Schema, None) => {
                        (ContainerRole::Schema, true)
                    }
                    (ContainerRole::Schema, Some("const" | "enum" | "default" | "examples")) => continue,
                    (ContainerRole::Schema, Some("$defs" | "definitions")) => {
                        waiting.push((to, ContainerRole::Named));
                        continue;
                    }
                    (ContainerRole::Named, _) => {
                        waiting.push((to, ContainerRole::Schema));
                        continue;
                    }
                    (ContainerRole::Schema, Some("properties" | "patternProperties")) => {
                        (ContainerRole::Apart, false)
                    }
                    (ContainerRole::Schema, Some("dependentSchemas" | "dependencies")) => {
                        (ContainerRole::Together, true)
                    }
                    (ContainerRole::Schema, Some(name)) if APPLY_INSIDE.contains(&name) => {
                        (if graph.is_list(to) { ContainerRole::Apart } else { ContainerRole::Schema }, false)
                    }
                    (ContainerRole::Schema, Some(_)) => (ContainerRole::Schema, true),
                };
                let edges = if in_place { &mut uses.in_place } else { &mut uses.inside };
                push(edges, number, [to]);
                waiting.push((to, below));
            }
        }
        // The target of a reference is a schema, whatever role it seems to have at its place.
        let targets = (0..count).flat_map(|number| graph.referred(number));
        let mut odd: Vec<_> =
            targets.filter(|to| kinds.get(*to) != Some(&Some(ContainerRole::Schema))).collect();
        while let Some(number) = odd.pop() {
            if kinds.get(number) == Some(&Some(ContainerRole::Schema)) {
                continue;
            }
            set(&mut kinds, number, Some(ContainerRole::Schema));
            let below: Vec<_> = graph.contained(number).map(|(_, to)| to).collect();
            odd.extend(&below);
            push(&mut uses.in_place, number, below);
        }
        for number in (0..count).filter(|number| kinds.get(*number) == Some(&Some(ContainerRole::Schema))) {
            push(&mut uses.in_place, number, graph.referred(number));
        }
        uses
    }

    /// Returns whether one container leads to another.
    fn lead(&self, from: usize, to: usize, steps: &mut usize) -> bool {
        let mut seen = HashSet::new();
        let mut waiting = vec![from];
        while let Some(number) = waiting.pop() {
            if number == to {
                return true;
            }
            if !seen.insert(number) {
                continue;
            }
            *steps = steps.saturating_add(1);
            if *steps > MAX_STEPS {
                return false;
            }
            waiting.extend(edges(&self.in_place, number).iter().chain(edges(&self.inside, number)));
        }
        false
    }
}

fn edges(all: &[Vec<usize>], number: usize) -> &[usize] {
    all.get(number).map_or(&[], Vec::as_slice)
}

fn push(all: &mut [Vec<usize>], number: usize, to: impl IntoIterator<Item = usize>) {
    if let Some(edges) = all.get_mut(number) {
        edges.extend(to);
    }
}

/// Size of the parts applied to one value.
#[derive(Clone, Copy, Debug)]
struct Applied {
    nodes: usize,
    levels: usize,
}

/// Container on the current path, with its size so far.
struct OpenContainer {
    number: usize,
    next: usize,
    nodes: usize,
    levels: usize,
    /// Whether it leads back to the path, so that its size differs elsewhere.
    leads_back: bool,
}

impl OpenContainer {
    const fn at(number: usize) -> Self {
        Self { number, next: 0, nodes: 1, levels: 1, leads_back: false }
    }

    fn add(&mut self, below: Applied, leads_back: bool) -> Result<(), ContentError> {
        self.nodes = self.nodes.saturating_add(below.nodes);
        self.levels = self.levels.max(below.levels.saturating_add(1));
        self.leads_back |= leads_back;
        if self.nodes > MAX_NODES {
            return Err(too_large("objects and lists for one value, references followed", MAX_NODES));
        }
        if self.levels > MAX_LEVELS {
            return Err(too_large("levels for one value, references followed", MAX_LEVELS));
        }
        Ok(())
    }
}

struct Walk<'a> {
    applied: &'a [Vec<usize>],
    done: Vec<Option<Applied>>,
    /// Occurrences of each container on the path.
    on_path: Vec<u8>,
    steps: usize,
}

impl Walk<'_> {
    fn measure(&mut self, start: usize) -> Result<Applied, ContentError> {
        if let Some(done) = self.done.get(start).copied().flatten() {
            return Ok(done);
        }
        let mut path: Vec<OpenContainer> = Vec::new();
        let mut step = OpenContainer::at(start);
        self.enter(start);
        loop {
            let next = self.applied.get(step.number).and_then(|edges| edges.get(step.next)).copied();
            let Some(to) = next else {
                self.leave(step.number);
                let whole = Applied { nodes: step.nodes, levels: step.levels };
                if !step.leads_back {
                    set(&mut self.done, step.number, Some(whole));
                }
                let Some(mut above) = path.pop() else { return Ok(whole) };
                above.add(whole, step.leads_back)?;
                step = above;
                continue;
            };
            step.next = step.next.saturating_add(1);
            self.steps = self.steps.saturating_add(1);
            if self.steps > MAX_STEPS {
                return Err(too_large("steps through references that lead back to one value", MAX_STEPS));
            }
            if let Some(done) = self.done.get(to).copied().flatten() {
                step.add(done, false)?;
            } else if self.on_path.get(to).is_none_or(|times| *times > 1) {
                step.add(Applied { nodes: 1, levels: 1 }, true)?;
            } else if path.len() > MAX_LEVELS {
                return Err(too_large("levels for one value, references followed", MAX_LEVELS));
            } else {
                self.enter(to);
                path.push(std::mem::replace(&mut step, OpenContainer::at(to)));
            }
        }
    }

    fn enter(&mut self, number: usize) {
        if let Some(times) = self.on_path.get_mut(number) {
            *times = times.saturating_add(1);
        }
    }

    fn leave(&mut self, number: usize) {
        if let Some(times) = self.on_path.get_mut(number) {
            *times = times.saturating_sub(1);
        }
    }
}

fn set<T>(slots: &mut [T], number: usize, value: T) {
    if let Some(slot) = slots.get_mut(number) {
        *slot = value;
    }
}
