use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Write as _};
use std::sync::Arc;

use countersign_canonical_json::{Canonical, Kind, Limits, Recipe, ValueRef, read};
use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::args_error::ArgsError;
use crate::args_json::{ArgsJson, ArgsNode};
use crate::content::{ContentError, ContentProblem};
use crate::fields::canonical;
use crate::place::ArgPlace;
use crate::plain_schema::PlainSchema;
use crate::schema_bounds::{Expansion, check_expansion};
use crate::schema_graph::MAX_LEVELS;

/// Longest pattern in a schema, in bytes.
const MAX_PATTERN_BYTES: usize = 1_024;

/// Most memory of one compiled pattern, and of one pattern's cache, in bytes.
const MAX_REGEX_BYTES: usize = 1 << 20;

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
///
/// why: `is_valid` is the only mode of the evaluator that caches results. Under a schema that leads back to itself
/// every other mode doubles time and memory with each level of the arguments. So the place of a mismatch is searched
/// only under schemas without recursion, and only in small arguments.
#[derive(Clone)]
pub(crate) struct ArgsSchema {
    source: Arc<Value>,
    /// Canonical JSON of the source.
    canonical: Arc<str>,
    compiled: Arc<Validator<ArgsJson>>,
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
        let patterns = PatternOptions::regex().size_limit(MAX_REGEX_BYTES).dfa_size_limit(MAX_REGEX_BYTES);
        // why: stated here too, since another crate of the build could enable the crate's features.
        let compiled = jsonschema::options_for::<ArgsJson>()
            .offline()
            .with_pattern_options(patterns)
            .should_validate_formats(true)
            .build(&source)
            .map_err(|error| ContentError::new("", compile_problem(&error)))?;
        // why: an empty or unknown `$schema` leaves open which keywords apply.
        if compiled.draft() == Draft::Unknown {
            return Err(ContentError::new("/$schema", ContentProblem::SchemaReference));
        }
        let plain = PlainSchema::compile(&source, compiled.draft()).map(Arc::new);
        let (canonical, compiled) = (canonical(&source)?.as_str().into(), Arc::new(compiled));
        Ok(Self { source: Arc::new(source), canonical, compiled, plain, size })
    }

    #[cfg(test)]
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
        let draft = self.compiled.draft();
        formats.retain(|format| !is_checked(format, draft));
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
        if self.size.leads_back {
            return if self.fits_filled(value, open) { Ok(()) } else { Err(ArgsError::somewhere()) };
        }
        if !self.can_name(value) {
            return Err(ArgsError::somewhere());
        }
        let counts = |error: &ValidationError<'_>| {
            let (at, keyword) = (error.instance_path().as_str(), error.kind().keyword());
            !open.iter().any(|place| {
                is_within(at, place.as_str())
                    || (is_within(place.as_str(), at) && LOOKS_INSIDE.contains(&keyword))
            })
        };
        match self.compiled.iter_errors(ArgsNode::Value(value)).find(counts) {
            Some(error) => Err(named(&error)),
            None => Ok(()),
        }
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
        Err(self
            .compiled
            .validate(ArgsNode::Value(value))
            .err()
            .map_or_else(ArgsError::somewhere, |error| named(&error)))
    }

    fn fits(&self, value: ValueRef<'_>) -> bool {
        match &self.plain {
            Some(plain) => plain.fits(value),
            None => self.evaluates(value),
        }
    }

    fn evaluates(&self, value: ValueRef<'_>) -> bool {
        (!self.size.leads_back || self.is_bounded(value, MAX_STEPS))
            && self.compiled.is_valid(ArgsNode::Value(value))
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

fn named(error: &ValidationError<'_>) -> ArgsError {
    ArgsError::schema(error.instance_path().as_str(), error.kind().keyword())
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

/// Returns whether the evaluator checks a format under a draft. It can be set to refuse unknown formats.
fn is_checked(format: &str, draft: Draft) -> bool {
    // why: the default type would compile the whole evaluator a second time into this crate.
    let options =
        jsonschema::options_for::<ArgsJson>().offline().with_draft(draft).should_validate_formats(true);
    options.should_ignore_unknown_formats(false).build(&serde_json::json!({ "format": format })).is_ok()
}

/// Returns whether a JSON Pointer equals another one or continues it.
fn is_within(pointer: &str, other: &str) -> bool {
    pointer.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn compile_problem(error: &ValidationError<'_>) -> ContentProblem {
    if matches!(error.kind(), ValidationErrorKind::Referencing(_)) {
        return ContentProblem::SchemaReference;
    }
    ContentProblem::Schema {
        keyword: error.kind().keyword().to_owned(),
        at: countersign_core::escape_hidden(error.instance_path().as_str()),
    }
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
