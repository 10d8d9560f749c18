use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Write as _};
use std::sync::Arc;

use countersign_canonical_json::{Canonical, Kind, Limits, Recipe, ValueRef, read};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::args_error::ArgsError;
use crate::content::{ContentError, ContentProblem};
#[cfg(feature = "schema")]
use crate::evaluator::Evaluator;
use crate::fields::canonical;
#[cfg(not(feature = "schema"))]
use crate::no_evaluator::PlainEvaluator as Evaluator;
use crate::place::ArgPlace;
use crate::plain_schema::PlainSchema;
use crate::schema_bounds::{Expansion, check_expansion};
use crate::schema_graph::MAX_LEVELS;

/// Longest pattern in a schema, in bytes.
const MAX_PATTERN_BYTES: usize = 1_024;

/// Most memory of the errors of one call, in bytes, by an estimate made before they are collected.
const MAX_ERROR_BYTES: usize = 8 << 20;

/// Estimated bytes of one error, without the keyword's values, the place and the value.
const ERROR_BYTES: usize = 512;

/// Estimated bytes of a value per copy in an error: one copy for each enclosing object or array.
const COPY_BYTES: usize = 128;

/// Most applications of the parts of a recursive schema to the values of one call.
const MAX_STEPS: usize = 1 << 20;

/// Most values tried in the open places of one planned call.
const MAX_FILLINGS: usize = 32;

/// Keywords that depend on values inside the value they apply to.
const LOOKS_INSIDE: [&str; 9] = [
    "anyOf",
    "oneOf",
    "not",
    "enum",
    "const",
    "contains",
    "uniqueItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords whose content is a value and no schema.
const VALUES: [&str; 4] = ["const", "enum", "default", "examples"];

/// Compiled JSON Schema of a tool's arguments.
///
/// Draft 2020-12 unless `$schema` names another one. Nothing is fetched: a reference that leads out of the schema is
/// an error. Patterns run on a linear-time engine, so look-around and back-references do not compile. A known
/// `format` is checked under every draft. A schema that is small to read and very large to evaluate is refused.
#[derive(Clone)]
pub(crate) struct ArgsSchema {
    source: Arc<Value>,
    /// Canonical JSON of the source.
    canonical: Arc<str>,
    compiled: Arc<Evaluator>,
    /// Decides as `compiled` does, if the schema has this form.
    plain: Option<Arc<PlainSchema>>,
    size: Expansion,
}

/// Compiled schemas by their text. The tools of a registry often have equal ones, and compiling costs more than all the
/// rest of an entry.
#[derive(Default)]
pub(crate) struct CompiledSchemas {
    compiled: HashMap<String, ArgsSchema>,
    /// Buffer for the text of a schema.
    text: String,
}

impl CompiledSchemas {
    /// As [`ArgsSchema::compile`], for a schema that the reader has read: it has no more levels than a payload.
    pub(crate) fn compile(&mut self, source: Value) -> Result<ArgsSchema, ContentError> {
        self.text.clear();
        // Writing to a `String` cannot fail.
        let _ = write!(self.text, "{source}");
        if let Some(compiled) = self.compiled.get(&self.text) {
            return Ok(compiled.clone());
        }
        let compiled = ArgsSchema::compile(source)?;
        self.compiled.insert(self.text.clone(), compiled.clone());
        Ok(compiled)
    }
}

impl ArgsSchema {
    pub(crate) fn compile(source: Value) -> Result<Self, ContentError> {
        if !source.is_object() {
            let problem = ContentProblem::Schema { keyword: "type".to_owned(), at: String::new() };
            return Err(ContentError::new("", problem));
        }
        let size = check_expansion(&source)?;
        check_patterns(&source)?;
        let compiled = Evaluator::compile(&source)?;
        let plain = PlainSchema::compile(&source).map(Arc::new);
        let (canonical, compiled) = (canonical(&source)?.as_str().into(), Arc::new(compiled));
        Ok(Self { source: Arc::new(source), canonical, compiled, plain, size })
    }

    #[cfg(all(test, feature = "schema"))]
    pub(crate) const fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    pub(crate) fn source(&self) -> &Value {
        &self.source
    }

    /// Canonical JSON of the schema.
    pub(crate) fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Formats in the schema that the evaluator does not check under this draft.
    pub(crate) fn unchecked_formats(&self) -> BTreeSet<&str> {
        let mut formats = BTreeSet::new();
        let mut waiting = vec![&*self.source];
        while let Some(value) = waiting.pop() {
            match value {
                Value::Object(members) => {
                    formats.extend(members.get("format").and_then(Value::as_str));
                    let schemas = members.iter().filter(|(name, _)| !VALUES.contains(&name.as_str()));
                    waiting.extend(schemas.map(|(_, below)| below));
                }
                Value::Array(elements) => waiting.extend(elements),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        formats.retain(|format| !self.compiled.checks_format(format));
        formats
    }

    /// Checks a planned call's arguments as far as possible while the `open` places have no value. Fails if the check
    /// cannot be completed in bounded time.
    pub(crate) fn check_around(&self, args: &Canonical, open: &[ArgPlace]) -> Result<(), ArgsError> {
        if open.is_empty() || args.value().kind() != Kind::Object {
            return self.check(args);
        }
        let value = args.value();
        if self.fits(value) {
            return Ok(());
        }
        if self.size.leads_back || !Evaluator::NAMES_PLACES {
            return if self.fits_filled(value, open) { Ok(()) } else { Err(ArgsError::somewhere()) };
        }
        if !self.can_name(value) {
            return Err(ArgsError::somewhere());
        }
        let counts = |at: &str, keyword: &str| {
            !open.iter().any(|place| {
                is_within(at, place.as_str())
                    || (is_within(place.as_str(), at) && LOOKS_INSIDE.contains(&keyword))
            })
        };
        self.compiled.first_error_where(value, counts).map_or(Ok(()), Err)
    }

    /// Checks arguments. The error states the place and the keyword, never the value. If finding them would cost too
    /// much, it states neither.
    pub(crate) fn check(&self, args: &Canonical) -> Result<(), ArgsError> {
        if args.value().kind() != Kind::Object {
            return Err(ArgsError::schema("", "type"));
        }
        let value = args.value();
        if self.fits(value) {
            return Ok(());
        }
        if !self.can_name(value) {
            return Err(ArgsError::somewhere());
        }
        Err(self.compiled.first_error(value))
    }

    fn fits(&self, value: ValueRef<'_>) -> bool {
        match &self.plain {
            Some(plain) => plain.fits(value),
            None => self.evaluates(value),
        }
    }

    fn evaluates(&self, value: ValueRef<'_>) -> bool {
        (!self.size.leads_back || self.is_bounded(value, MAX_STEPS)) && self.compiled.is_valid(value)
    }

    /// Returns whether evaluating a recursive schema on these arguments stays within bounds. why: the evaluator
    /// recurses as deep as the arguments.
    fn is_bounded(&self, value: ValueRef<'_>, steps: usize) -> bool {
        self.size.levels_in_place.saturating_mul(levels(value)) <= MAX_LEVELS
            && self.size.nodes.saturating_mul(values(value)) <= steps
    }

    /// Returns whether the errors can be collected within the budget. Without recursion each part of the schema is
    /// applied to each value at most once, and each error may copy the schema's values, the argument's value and its
    /// place.
    fn can_name(&self, value: ValueRef<'_>) -> bool {
        // Errors of `not` copy parts of the schema.
        let copied = if self.size.has_not { self.size.bytes } else { 0 };
        let mut budget =
            ErrorBudget { parts: self.size.nodes, schema: self.size.bytes, copied, left: MAX_ERROR_BYTES };
        !self.size.leads_back && budget.take(value, 0, 0)
    }

    /// Returns whether one of a few known values in the open places makes the arguments match.
    fn fits_filled(&self, value: ValueRef<'_>, open: &[ArgPlace]) -> bool {
        // Each attempt copies all arguments.
        let mut copies = ErrorBudget { parts: 1, schema: 0, copied: 0, left: MAX_ERROR_BYTES };
        if !copies.take(value, 0, 0) || !self.is_bounded(value, MAX_STEPS / MAX_FILLINGS) {
            return false;
        }
        let Ok(mut filled) = Value::deserialize(value) else { return false };
        self.fillings().any(|filling| {
            for place in open {
                if let Some(slot) = filled.pointer_mut(place.as_str()) {
                    *slot = filling.clone();
                }
            }
            let read = read(filled.to_string().as_bytes(), Recipe::Jcs1, &Limits::hard_caps());
            read.is_ok_and(|read| self.fits(read.value()))
        })
    }

    /// Values to try: one of each type, and the `const` and first `enum` values of the schema.
    fn fillings(&self) -> impl Iterator<Item = Value> {
        let plain = [json!(null), json!(true), json!(0), json!(1), json!("a"), json!([]), json!({})];
        let mut named = Vec::new();
        let mut waiting = vec![&*self.source];
        while let Some(value) = waiting.pop() {
            if let Value::Object(members) = value {
                named.extend(members.get("const"));
                named.extend(members.get("enum").and_then(Value::as_array).into_iter().flatten().take(1));
            }
            if named.len() >= MAX_FILLINGS {
                break;
            }
            match value {
                Value::Object(members) => waiting.extend(members.values()),
                Value::Array(elements) => waiting.extend(elements),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
        plain.into_iter().chain(named.into_iter().cloned()).take(MAX_FILLINGS)
    }
}

/// Levels of objects and arrays. Recursion is safe: the reader limits the depth of arguments.
fn levels(value: ValueRef<'_>) -> usize {
    let members = value.members().map(|(_, value)| levels(value)).max();
    let below = members.or_else(|| value.elements().map(levels).max());
    below.unwrap_or_default().saturating_add(usize::from(matches!(value.kind(), Kind::Object | Kind::Array)))
}

/// Number of values in the arguments, including the outermost.
fn values(value: ValueRef<'_>) -> usize {
    let members: usize = value.members().map(|(_, value)| values(value)).sum();
    members.saturating_add(value.elements().map(values).sum()).saturating_add(1)
}

/// Memory left for errors, by estimate.
struct ErrorBudget {
    /// Objects and arrays of the schema.
    parts: usize,
    /// Bytes of the schema.
    schema: usize,
    /// Bytes of the schema that each error may copy.
    copied: usize,
    left: usize,
}

impl ErrorBudget {
    /// Takes the estimated bytes of the errors at a value and below it. Returns `false` if the budget is exceeded.
    fn take(&mut self, value: ValueRef<'_>, level: usize, place: usize) -> bool {
        let copies = level.saturating_mul(COPY_BYTES);
        let each = ERROR_BYTES.saturating_add(copies).saturating_add(place);
        let all = self.parts.saturating_mul(each.saturating_add(self.copied)).saturating_add(self.schema);
        let Some(left) = self.left.checked_sub(all) else { return false };
        self.left = left;
        let (level, place) = (level.saturating_add(1), place.saturating_add(8));
        value.members().all(|(name, value)| self.take(value, level, place.saturating_add(name.len())))
            && value.elements().all(|value| self.take(value, level, place))
    }
}

impl fmt::Debug for ArgsSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ArgsSchema").field(&self.source).finish()
    }
}

impl PartialEq for ArgsSchema {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

/// Returns whether a JSON Pointer equals another one or continues it.
fn is_within(pointer: &str, other: &str) -> bool {
    pointer.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Refuses long patterns in any object. Recursion is safe: the levels of the schema were checked.
fn check_patterns(schema: &Value) -> Result<(), ContentError> {
    let too_long = |text: &String| text.len() > MAX_PATTERN_BYTES;
    match schema {
        Value::Object(members) => {
            let pattern = members.get("pattern").and_then(Value::as_str).map(str::to_owned);
            let names = members.get("patternProperties").and_then(Value::as_object);
            let mut names = names.into_iter().flat_map(|names| names.keys());
            if pattern.as_ref().is_some_and(too_long) || names.any(too_long) {
                let problem = ContentProblem::SchemaPattern { max: MAX_PATTERN_BYTES };
                return Err(ContentError::new("", problem));
            }
            members.values().try_for_each(check_patterns)
        }
        Value::Array(elements) => elements.iter().try_for_each(check_patterns),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}
