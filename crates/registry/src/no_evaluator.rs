//! Stands for the evaluator in a program without the feature `schema`: only schemas of the plain form compile.

use countersign_canonical_json::ValueRef;
use serde_json::Value;

use crate::args_error::ArgsError;
use crate::content::{ContentError, ContentProblem};
use crate::plain_schema::PlainSchema;

#[derive(Debug)]
pub(crate) struct PlainEvaluator(PlainSchema);

impl PlainEvaluator {
    pub(crate) const NAMES_PLACES: bool = false;

    pub(crate) fn compile(schema: &Value) -> Result<Self, ContentError> {
        let problem = || ContentError::new("", ContentProblem::SchemaFeature);
        PlainSchema::compile(schema).map(Self).ok_or_else(problem)
    }

    pub(crate) fn is_valid(&self, value: ValueRef<'_>) -> bool {
        self.0.fits(value)
    }

    pub(crate) fn first_error(&self, value: ValueRef<'_>) -> ArgsError {
        let _ = value;
        ArgsError::somewhere()
    }

    /// The plain form names no mismatch, so every one counts.
    pub(crate) fn first_error_where(
        &self,
        value: ValueRef<'_>,
        counts: impl Fn(&str, &str) -> bool,
    ) -> Option<ArgsError> {
        let _ = counts;
        (!self.0.fits(value)).then(ArgsError::somewhere)
    }

    /// `format` is no keyword of the plain form.
    pub(crate) fn checks_format(&self, format: &str) -> bool {
        let _ = format;
        false
    }
}
