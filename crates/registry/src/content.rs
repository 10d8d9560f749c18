use countersign_core::ToolId;

use crate::constraint::ConstraintError;
use crate::place::ArgPlace;

/// Says that a registry's content is not one that may be signed or loaded, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}{}", shown(.place))]
pub struct ContentError {
    place: String,
    problem: ContentProblem,
}

fn shown(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(", at `{place}`") }
}

impl ContentError {
    pub(crate) fn new(place: impl Into<String>, problem: ContentProblem) -> Self {
        Self { place: place.into(), problem }
    }

    /// What is wrong with the whole of it.
    pub(crate) const fn whole(problem: ContentProblem) -> Self {
        Self { place: String::new(), problem }
    }

    /// Puts the place where the entry stands before the place within the entry.
    pub(crate) fn beneath(self, outer: &str) -> Self {
        Self { place: format!("{outer}{}", self.place), ..self }
    }

    /// Where in the draft, as a JSON Pointer; empty when the whole draft is meant.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What is wrong there.
    #[must_use]
    pub const fn problem(&self) -> &ContentProblem {
        &self.problem
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.problem.code()
    }
}

/// What can be wrong with a registry's content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentProblem {
    /// A member is missing, unknown, of another type or outside its grammar.
    #[error("the registry does not have the form of `countersign-registry-1`: {0}")]
    Shape(String),
    /// The `format` is another one.
    #[error("the registry's format is not `countersign-registry-1`")]
    Format,
    /// A version is none or above 2^53 - 1.
    #[error("a version is 1 to 2^53 - 1")]
    Version,
    /// An entry is put in place of one with an equal or higher version.
    #[error("an entry takes the place of one with a lower version only")]
    EntryVersion,
    /// Something stands there twice.
    #[error("the same thing is listed twice")]
    Duplicate,
    /// Two names could be taken for one another.
    #[error("`{name}` could be taken for `{other}`")]
    LookAlike {
        /// The later name.
        name: String,
        /// The name that was there before.
        other: String,
    },
    /// An agent has no tools.
    #[error("an agent's list of tools is empty")]
    EmptyTools,
    /// An agent lists a tool that the registry has no entry for.
    #[error("an agent lists the tool `{0}`, which has no entry")]
    UnknownTool(ToolId),
    /// A name holds `*` or `?`: nothing here is a pattern, and nothing may be taken for one.
    #[error("a name holds a wildcard")]
    Wildcard,
    /// There are more of something than a registry may have.
    #[error("there are more than {max} {what}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// How many there may be.
        max: usize,
    },
    /// The longest session is none or above 30 days.
    #[error("the longest session is 1ms to 30d")]
    MaxSession,
    /// A constraint cannot be made.
    #[error("{0}")]
    Constraint(ConstraintError),
    /// An argument is said to be data and narrowed as a destination at the same time.
    #[error("`{0}` is narrowed by a constraint and cannot be a data argument")]
    DataPlace(ArgPlace),
    /// The definition that is shown is not the one that is pinned.
    #[error("the definition that is shown is not the one that is pinned")]
    Definition,
    /// The arguments' schema is not a JSON Schema.
    #[error("the arguments' schema does not compile (keyword `{keyword}` at `{at}`)")]
    Schema {
        /// The keyword that does not fit.
        keyword: String,
        /// Where in the schema.
        at: String,
    },
    /// The arguments' schema refers to something that is not in it.
    #[error("the arguments' schema refers to something outside of it")]
    SchemaReference,
    /// The arguments' schema has a pattern that is too long.
    #[error("the arguments' schema has a pattern of more than {max} bytes")]
    SchemaPattern {
        /// How long it may be.
        max: usize,
    },
    /// The arguments' schema is too large, as it stands or with its references followed.
    #[error("the arguments' schema has more than {max} {what}")]
    SchemaTooLarge {
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        max: usize,
    },
    /// A revoked key id begins like a derived one and is none.
    #[error("a key id that begins with `ed25519:` goes on with 32 lower-case hexadecimal digits")]
    KeyId,
    /// An agent that is revoked is registered anew.
    #[error("the agent is revoked")]
    AgentRevoked,
    /// The registry is too large to be signed.
    #[error("the registry has more than {max} bytes")]
    TooLarge {
        /// How many it may have.
        max: usize,
    },
    /// The snapshot lacks its times, or expires no later than it was issued.
    #[error("the registry has no times of issue and expiry, or expires before it is issued")]
    Validity,
}

impl ContentProblem {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Shape(_) => "REGISTRY_CONTENT",
            Self::Format => "REGISTRY_FORMAT",
            Self::Version => "REGISTRY_VERSION",
            Self::EntryVersion => "REGISTRY_ENTRY_VERSION",
            Self::Duplicate => "REGISTRY_DUPLICATE",
            Self::LookAlike { .. } => "REGISTRY_LOOKALIKE",
            Self::EmptyTools => "REGISTRY_EMPTY_TOOLS",
            Self::UnknownTool(_) => "REGISTRY_UNKNOWN_TOOL",
            Self::Wildcard => "REGISTRY_WILDCARD",
            Self::TooMany { .. } => "REGISTRY_TOO_MANY",
            Self::MaxSession => "REGISTRY_MAX_SESSION",
            Self::Constraint(_) => "REGISTRY_CONSTRAINT",
            Self::DataPlace(_) => "REGISTRY_DATA_PLACE",
            Self::Definition => "REGISTRY_DEFINITION",
            Self::Schema { .. } => "REGISTRY_SCHEMA",
            Self::SchemaReference => "REGISTRY_SCHEMA_REFERENCE",
            Self::SchemaPattern { .. } => "REGISTRY_SCHEMA_PATTERN",
            Self::SchemaTooLarge { .. } => "REGISTRY_SCHEMA_TOO_LARGE",
            Self::KeyId => "REGISTRY_KEY_ID",
            Self::AgentRevoked => "AGENT_REVOKED",
            Self::TooLarge { .. } => "REGISTRY_TOO_LARGE",
            Self::Validity => "REGISTRY_VALIDITY",
        }
    }
}
