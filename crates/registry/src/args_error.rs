use countersign_core::escape_hidden;

use crate::cut::cut;

/// The most of a place that an error repeats, in bytes.
const MAX_SHOWN_BYTES: usize = 256;

/// Says that a call's arguments do not fit the tool's entry. It names the place and the rule, never the value there.
///
/// A place may hold names that the agent chose. They are escaped and cut short; even so they belong in the record and
/// not in an answer to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgsError {
    /// The arguments do not fit the JSON Schema.
    #[error("{}", misfit(.place, .keyword))]
    Schema {
        /// Where, as a JSON Pointer; empty when the arguments as a whole are meant, or when the place is not known.
        place: String,
        /// The schema's keyword; empty when it is not known, since finding it would have cost too much.
        keyword: String,
    },
    /// An argument does not fit a constraint.
    #[error("the argument at `{place}` does not fit the constraint `{kind}`")]
    Constraint {
        /// Where, as a JSON Pointer: the constraint's own place.
        place: String,
        /// The constraint's kind.
        kind: &'static str,
    },
}

fn misfit(place: &str, keyword: &str) -> String {
    if keyword.is_empty() {
        return "the arguments do not fit the schema".to_owned();
    }
    format!("the argument at `{place}` does not fit the schema's `{keyword}`")
}

impl ArgsError {
    /// A misfit of which neither place nor keyword is known.
    pub(crate) const fn somewhere() -> Self {
        Self::Schema { place: String::new(), keyword: String::new() }
    }

    pub(crate) fn schema(place: &str, keyword: &str) -> Self {
        Self::Schema {
            place: cut(&escape_hidden(place), MAX_SHOWN_BYTES).to_owned(),
            keyword: keyword.to_owned(),
        }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Schema { .. } => "ARGS_SCHEMA",
            Self::Constraint { .. } => "ARGS_CONSTRAINT",
        }
    }

    /// Where, as a JSON Pointer; empty when the arguments as a whole are meant, or when the place is not known.
    #[must_use]
    pub fn place(&self) -> &str {
        match self {
            Self::Schema { place, .. } | Self::Constraint { place, .. } => place,
        }
    }

    /// The schema's keyword or the constraint's kind; empty for a keyword that is not known.
    #[must_use]
    pub fn rule(&self) -> &str {
        match self {
            Self::Schema { keyword, .. } => keyword,
            Self::Constraint { kind, .. } => kind,
        }
    }
}
