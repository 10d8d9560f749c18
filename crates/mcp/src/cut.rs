//! Edits of a JSON text that leave every other byte unchanged.
//!
//! Parsing a text and serialising it again would change numbers (`1.0`, 2^53 + 1), the order of members and whitespace.
//! A server's text is forwarded as the server wrote it, so members are cut out of the bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use countersign_canonical_json::{Limits, Recipe, read};

use crate::compose::Object;

/// The position of one value in a JSON text. The strict reader must have accepted the text; in any other text, positions
/// are wrong or missing, but nothing panics.
#[derive(Clone, Debug)]
pub(crate) struct ValuePosition<'a> {
    text: &'a [u8],
    at: Range<usize>,
}

/// A member of an object or an element of an array.
#[derive(Clone, Debug)]
struct Child<'a> {
    /// The member's name with its quotation marks.
    name: Option<ValuePosition<'a>>,
    value: ValuePosition<'a>,
}

impl<'a> ValuePosition<'a> {
    /// The position of the text's one value.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        let start = skip_white_space(text, 0);
        Self { text, at: start..skip_value(text, start) }
    }

    /// The position of a member's value.
    pub(crate) fn get(&self, name: &str) -> Option<Self> {
        self.members().find_map(|(found, value)| (found == name).then_some(value))
    }

    /// The position of a nested value, by the path of member names.
    pub(crate) fn find(&self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self.clone(), |place, name| place.get(name))
    }

    /// The members of an object, names unescaped, in text order.
    pub(crate) fn members(&self) -> impl Iterator<Item = (String, Self)> {
        self.children().into_iter().filter_map(|child| Some((child.name?.string()?, child.value)))
    }

    /// The position of an array's element.
    pub(crate) fn element(&self, at: usize) -> Option<Self> {
        self.children().into_iter().nth(at).map(|child| child.value)
    }

    /// The unescaped text, if the value is a string.
    pub(crate) fn string(&self) -> Option<String> {
        let value = read(self.bytes(), Recipe::Rfc8785, &Limits::hard_caps()).ok()?;
        value.value().as_str().map(ToOwned::to_owned)
    }

    /// The positions of all objects, at any depth, that are the value of a member whose name satisfies `is`.
    pub(crate) fn objects_named(&self, is: impl Fn(&str) -> bool) -> Vec<Self> {
        let (mut found, mut at) = (Vec::new(), self.at.start);
        while at < self.at.end {
            if self.text.get(at) != Some(&b'"') {
                at = at.saturating_add(1);
                continue;
            }
            let name = self.within(at..skip_string(self.text, at));
            at = name.at.end;
            let colon = skip_white_space(self.text, at);
            let value = skip_white_space(self.text, colon.saturating_add(1));
            if self.text.get(colon) == Some(&b':')
                && self.text.get(value) == Some(&b'{')
                && name.string().is_some_and(|name| is(&name))
            {
                found.push(self.within(value..skip_value(self.text, value)));
            }
        }
        found
    }

    /// The text of the value.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.text.get(self.at.clone()).unwrap_or_default()
    }

    fn within(&self, at: Range<usize>) -> Self {
        Self { text: self.text, at }
    }

    fn children(&self) -> Vec<Child<'a>> {
        let is_object = match self.bytes().first() {
            Some(b'{') => true,
            Some(b'[') => false,
            _ => return Vec::new(),
        };
        let mut children = Vec::new();
        let mut next = skip_white_space(self.text, self.at.start.saturating_add(1));
        while next < self.at.end {
            let name = is_object.then(|| self.within(next..skip_value(self.text, next)));
            let start = name.as_ref().map_or(next, |name| {
                let colon = skip_white_space(self.text, name.at.end);
                skip_white_space(self.text, colon.saturating_add(1))
            });
            let end = skip_value(self.text, start);
            // A closing bracket, or invalid JSON.
            if end == start {
                break;
            }
            children.push(Child { name, value: self.within(start..end) });
            let comma = skip_white_space(self.text, end);
            next = skip_white_space(self.text, comma.saturating_add(1));
        }
        children
    }
}

impl Child<'_> {
    fn start(&self) -> usize {
        self.name.as_ref().map_or(self.value.at.start, |name| name.at.start)
    }
}

/// Collects edits of one JSON text. Of two overlapping edits, the first in the text applies.
#[derive(Debug)]
pub(crate) struct Edits<'a> {
    text: &'a [u8],
    edits: Vec<(Range<usize>, Vec<u8>)>,
    /// The children of each container by its start, each with whether it is cut.
    cuts: BTreeMap<usize, Vec<(Child<'a>, bool)>>,
}

impl<'a> Edits<'a> {
    pub(crate) const fn new(text: &'a [u8]) -> Self {
        Self { text, edits: Vec::new(), cuts: BTreeMap::new() }
    }

    /// Replaces a value.
    pub(crate) fn replace(&mut self, place: &ValuePosition<'_>, with: impl Into<Vec<u8>>) {
        self.edits.push((place.at.clone(), with.into()));
    }

    /// Replaces the value of a member, or appends the member. The object must not be empty.
    pub(crate) fn set_member(&mut self, object: &ValuePosition<'_>, name: &str, json: &str) {
        if let Some(old) = object.get(name) {
            return self.replace(&old, json);
        }
        let end = object.at.end.saturating_sub(1);
        self.edits.push((end..end, format!(",\"{name}\":{json}").into_bytes()));
    }

    /// Appends a member to an object, which may be empty and must not have it. Any other value stays.
    pub(crate) fn add_member(&mut self, object: &ValuePosition<'_>, name: &str, json: &str) {
        let is_object = object.bytes().first() == Some(&b'{');
        if is_object {
            let end = object.at.end.saturating_sub(1);
            let comma = if object.children().is_empty() { "" } else { "," };
            self.edits.push((end..end, format!("{comma}\"{name}\":{json}").into_bytes()));
        }
    }

    /// Appends the members of another object to an object that has none of them.
    pub(crate) fn add_members(&mut self, object: &ValuePosition<'_>, members: Object) {
        let members = members.finish();
        let inner = members.get(1..members.len().saturating_sub(1)).unwrap_or_default();
        if object.bytes().first() == Some(&b'{') && !inner.is_empty() {
            let end = object.at.end.saturating_sub(1);
            let comma = if object.children().is_empty() { "" } else { "," };
            self.edits.push((end..end, format!("{comma}{inner}").into_bytes()));
        }
    }

    /// Appends an element to an array. Any other value stays.
    pub(crate) fn add_element(&mut self, array: &ValuePosition<'_>, json: &str) {
        if array.bytes().first() == Some(&b'[') {
            let end = array.at.end.saturating_sub(1);
            let comma = if array.children().is_empty() { "" } else { "," };
            self.edits.push((end..end, format!("{comma}{json}").into_bytes()));
        }
    }

    /// Cuts members out of an object, each with one comma. Several cuts of one object combine.
    pub(crate) fn cut_members(&mut self, object: &ValuePosition<'a>, taken: impl Fn(&str) -> bool) {
        self.cut(object, |_, child| {
            child.name.as_ref().and_then(ValuePosition::string).is_some_and(|name| taken(&name))
        });
    }

    /// Cuts all elements except the `kept` ones out of an array, and appends `more`.
    pub(crate) fn keep_elements(&mut self, array: &ValuePosition<'a>, kept: &[usize], more: Option<&str>) {
        self.cut(array, |at, _| !kept.contains(&at));
        if let Some(more) = more {
            let end = array.at.end.saturating_sub(1);
            let comma = if kept.is_empty() { "" } else { "," };
            self.edits.push((end..end, format!("{comma}{more}").into_bytes()));
        }
    }

    fn cut(&mut self, container: &ValuePosition<'a>, taken: impl Fn(usize, &Child<'a>) -> bool) {
        let whole = || container.children().into_iter().map(|child| (child, false)).collect();
        let children = self.cuts.entry(container.at.start).or_insert_with(whole);
        for (at, (child, is_taken)) in children.iter_mut().enumerate() {
            *is_taken |= taken(at, child);
        }
    }

    /// Returns the text with all edits applied.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for children in self.cuts.values() {
            self.edits.extend(cut_spans(children).map(|span| (span, Vec::new())));
        }
        self.edits.sort_by_key(|(span, _)| (span.start, span.end));
        let mut out = Vec::with_capacity(self.text.len());
        let mut from = 0;
        for (span, with) in self.edits {
            if span.start < from {
                continue;
            }
            out.extend_from_slice(self.text.get(from..span.start).unwrap_or_default());
            out.extend_from_slice(&with);
            from = span.end;
        }
        out.extend_from_slice(self.text.get(from..).unwrap_or_default());
        out
    }
}

/// The text with another value at a path of member names. A text without that path stays.
pub(crate) fn replaced(text: &[u8], path: &[&str], json: &str) -> Vec<u8> {
    let mut edits = Edits::new(text);
    if let Some(old) = ValuePosition::new(text).find(path) {
        edits.replace(&old, json);
    }
    edits.finish()
}

/// Spans to cut. After a child that stays, a cut includes the comma before it; before the first such child, the comma after it.
fn cut_spans(children: &[(Child<'_>, bool)]) -> impl Iterator<Item = Range<usize>> {
    let first_kept = children.iter().position(|(_, is_taken)| !is_taken).unwrap_or(children.len());
    children.iter().enumerate().filter(|(_, (_, is_taken))| *is_taken).map(move |(at, (child, _))| {
        let before = at.checked_sub(1).and_then(|before| children.get(before));
        let after = children.get(at.saturating_add(1));
        match (before, after) {
            (Some((before, _)), _) if first_kept < at => before.value.at.end..child.value.at.end,
            (_, Some((after, _))) => child.start()..after.start(),
            (_, None) => child.start()..child.value.at.end,
        }
    })
}

fn skip_white_space(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\n' | b'\r');
    from.saturating_add(rest.iter().take_while(|b| blank(b)).count())
}

/// Returns the end of the value that begins at `from`. A closing bracket is not a value.
fn skip_value(text: &[u8], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = skip_string(text, at),
            b'{' | b'[' => {
                depth = depth.saturating_add(1);
                at = at.saturating_add(1);
            }
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at = at.saturating_add(1);
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {
                at = at.saturating_add(1);
                continue;
            }
        }
        // A string or container ends where it closes, a word or number at the byte after it.
        if depth == 0 {
            return at;
        }
    }
    at
}

fn skip_string(text: &[u8], from: usize) -> usize {
    let mut at = from.saturating_add(1);
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at.saturating_add(1),
            b'\\' => at = at.saturating_add(2),
            _ => at = at.saturating_add(1),
        }
    }
    at
}
