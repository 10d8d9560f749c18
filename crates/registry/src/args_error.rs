use countersign_core::escape_hidden;

use crate::cut::cut;

/// Longest place in an error, in bytes.
const MAX_SHOWN_BYTES: usize = 256;

/// Mismatch of a call's arguments with the tool's entry. Names the place and the rule, never the value.
///
/// A place may contain member names that the agent chose. They are escaped and cut to length. Put them into the
/// record, not into an answer to a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgsError {
    /// The arguments do not match the JSON Schema.
    #[error("{}", misfit(.place, .keyword))]
    Schema {
        /// JSON Pointer (RFC 6901); empty for the arguments as a whole, or if the place is unknown.
        place: String,
        /// Keyword of the schema; empty if unknown, because finding it would have cost too much.
        keyword: String,
    },
    /// An argument does not match a constraint.
    #[error("the argument at `{place}` does not fit the constraint `{kind}`")]
    Constraint {
        /// JSON Pointer (RFC 6901) of the constraint.
        place: String,
        /// Kind of the constraint.
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
    /// Returns a mismatch with unknown place and keyword.
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

    /// JSON Pointer (RFC 6901); empty for the arguments as a whole, or if the place is unknown.
    #[must_use]
    pub fn place(&self) -> &str {
        match self {
            Self::Schema { place, .. } | Self::Constraint { place, .. } => place,
        }
    }

    /// Keyword of the schema or kind of the constraint; empty for an unknown keyword.
    #[must_use]
    pub fn rule(&self) -> &str {
        match self {
            Self::Schema { keyword, .. } => keyword,
            Self::Constraint { kind, .. } => kind,
        }
    }
}

countersign_core::coded!(ArgsError);
