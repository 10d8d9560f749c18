//! The evaluator of any JSON Schema.

use std::fmt;

use countersign_canonical_json::ValueRef;
use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::{Value, json};

use crate::args_error::ArgsError;
use crate::args_json::{ArgsJson, ArgsNode};
use crate::content::{ContentError, ContentProblem};

/// Most memory of one compiled pattern, and of one pattern's cache, in bytes.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// Compiled schema of any keywords.
///
/// why: `is_valid` is the only mode that caches results. Under a schema that leads back to itself every other mode doubles
/// time and memory with each level of the arguments. So the place of a mismatch is searched only under schemas without
/// recursion, and only in small arguments.
pub(crate) struct Evaluator(Validator<ArgsJson>);

impl fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Evaluator")
    }
}

impl Evaluator {
    /// Whether errors tell which values they are about.
    pub(crate) const NAMES_PLACES: bool = true;

    pub(crate) fn compile(schema: &Value) -> Result<Self, ContentError> {
        let patterns = PatternOptions::regex().size_limit(MAX_REGEX_BYTES).dfa_size_limit(MAX_REGEX_BYTES);
        // why: stated here too, since another crate of the build could enable the crate's features.
        let compiled = jsonschema::options_for::<ArgsJson>()
            .offline()
            .with_pattern_options(patterns)
            .should_validate_formats(true)
            .build(schema)
            .map_err(|error| ContentError::new("", compile_problem(&error)))?;
        // why: an empty or unknown `$schema` leaves open which keywords apply.
        if compiled.draft() == Draft::Unknown {
            return Err(ContentError::new("/$schema", ContentProblem::SchemaReference));
        }
        Ok(Self(compiled))
    }

    pub(crate) fn is_valid(&self, value: ValueRef<'_>) -> bool {
        self.0.is_valid(ArgsNode::Value(value))
    }

    /// Names a mismatch.
    pub(crate) fn first_error(&self, value: ValueRef<'_>) -> ArgsError {
        let error = self.0.validate(ArgsNode::Value(value)).err();
        error.map_or_else(ArgsError::somewhere, |error| named(&error))
    }

    /// Names the first mismatch whose place and keyword count, if any does.
    pub(crate) fn first_error_where(
        &self,
        value: ValueRef<'_>,
        counts: impl Fn(&str, &str) -> bool,
    ) -> Option<ArgsError> {
        let does_count =
            |error: &ValidationError<'_>| counts(error.instance_path().as_str(), error.kind().keyword());
        self.0.iter_errors(ArgsNode::Value(value)).find(does_count).map(|error| named(&error))
    }

    /// Returns whether a format is checked under the schema's draft.
    pub(crate) fn checks_format(&self, format: &str) -> bool {
        // why: the default type would compile the whole evaluator a second time into this crate.
        let options = jsonschema::options_for::<ArgsJson>()
            .offline()
            .with_draft(self.0.draft())
            .should_validate_formats(true);
        options.should_ignore_unknown_formats(false).build(&json!({ "format": format })).is_ok()
    }
}

fn named(error: &ValidationError<'_>) -> ArgsError {
    ArgsError::schema(error.instance_path().as_str(), error.kind().keyword())
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
