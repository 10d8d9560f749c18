use countersign_core::ToolId;

use crate::place::ArgPlace;

/// Fault in a registry's content, with its place.
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

    /// Fault of the draft as a whole.
    pub(crate) const fn whole(problem: ContentProblem) -> Self {
        Self { place: String::new(), problem }
    }

    /// Prefixes the place of the entry to the place within it.
    pub(crate) fn beneath(self, outer: &str) -> Self {
        Self { place: format!("{outer}{}", self.place), ..self }
    }

    /// JSON Pointer (RFC 6901) into the draft; empty for the whole draft.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Fault at that place.
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

/// Kind of fault in a registry's content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContentProblem {
    /// A member is missing, unknown, of another type or outside its grammar.
    #[error("the registry does not have the form of `countersign-registry-1`: {0}")]
    Shape(String),
    /// The `format` is unknown.
    #[error("the registry's format is not `countersign-registry-1`")]
    Format,
    /// A version is 0 or above 2^53 - 1.
    #[error("version out of range: 1 to 2^53 - 1 expected")]
    Version,
    /// An entry would replace one with an equal or higher version.
    #[error("entry version not above that of the existing entry")]
    EntryVersion,
    /// An item is listed twice.
    #[error("duplicate item in a list")]
    Duplicate,
    /// Two names look alike.
    #[error("name `{name}` looks like `{other}`")]
    LookAlike {
        /// The later name.
        name: String,
        /// The earlier name.
        other: String,
    },
    /// The tool list of an agent is empty.
    #[error("an agent's list of tools is empty")]
    EmptyTools,
    /// An agent lists a tool that the registry has no entry for.
    #[error("unknown tool `{0}`: the registry has no entry for it")]
    UnknownTool(ToolId),
    /// A name contains `*` or `?`. Names are not patterns and must not look like one.
    #[error("wildcard in a name")]
    Wildcard,
    /// A list is longer than the limit.
    #[error("more than {max} {what}")]
    TooMany {
        /// Kind of item.
        what: &'static str,
        /// Most items.
        max: usize,
    },
    /// The longest session is 0 or above 30 days.
    #[error("longest session out of range: 1ms to 30d expected")]
    MaxSession,
    /// A constraint is invalid.
    #[error("{0}")]
    Constraint(ConstraintError),
    /// An approval rule is invalid.
    #[error("{0}")]
    Approval(ApprovalTermsError),
    /// An argument is marked as data and restricted by a constraint as well.
    #[error("data argument `{0}` has a constraint")]
    DataPlace(ArgPlace),
    /// The listed definition does not have the pinned digest.
    #[error("listed definition does not have the pinned digest")]
    Definition,
    /// The schema of the arguments is not a JSON Schema.
    #[error("the arguments' schema does not compile (keyword `{keyword}` at `{at}`)")]
    Schema {
        /// Keyword at fault.
        keyword: String,
        /// JSON Pointer into the schema.
        at: String,
    },
    /// The schema of the arguments refers to a place outside of it.
    #[error("the arguments' schema refers to something outside of it")]
    SchemaReference,
    /// The schema of the arguments uses a keyword that needs the cargo feature `schema`, which this program lacks.
    #[error(
        "the arguments' schema needs an evaluator that this program was built without (feature `schema`)"
    )]
    SchemaFeature,
    /// The schema of the arguments contains a pattern that is too long.
    #[error("the arguments' schema has a pattern of more than {max} bytes")]
    SchemaPattern {
        /// Longest pattern, in bytes.
        max: usize,
    },
    /// The schema of the arguments is too large, as written or with its references followed.
    #[error("the arguments' schema has more than {max} {what}")]
    SchemaTooLarge {
        /// Kind of item.
        what: &'static str,
        /// Most items.
        max: usize,
    },
    /// A revoked key id starts like a derived id and is not one.
    #[error("a key id that begins with `ed25519:` goes on with 32 lower-case hexadecimal digits")]
    KeyId,
    /// A revoked agent is registered again.
    #[error("the agent is revoked")]
    AgentRevoked,
    /// The registry is too large to sign.
    #[error("the registry has more than {max} bytes")]
    TooLarge {
        /// Largest payload, in bytes.
        max: usize,
    },
    /// The snapshot lacks its times, or does not expire after its issue.
    #[error("issue or expiry time missing in the registry, or expiry before issue")]
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
            Self::Approval(_) => "REGISTRY_APPROVAL",
            Self::DataPlace(_) => "REGISTRY_DATA_PLACE",
            Self::Definition => "REGISTRY_DEFINITION",
            Self::Schema { .. } => "REGISTRY_SCHEMA",
            Self::SchemaReference => "REGISTRY_SCHEMA_REFERENCE",
            Self::SchemaFeature => "REGISTRY_SCHEMA_FEATURE",
            Self::SchemaPattern { .. } => "REGISTRY_SCHEMA_PATTERN",
            Self::SchemaTooLarge { .. } => "REGISTRY_SCHEMA_TOO_LARGE",
            Self::KeyId => "REGISTRY_KEY_ID",
            Self::AgentRevoked => "AGENT_REVOKED",
            Self::TooLarge { .. } => "REGISTRY_TOO_LARGE",
            Self::Validity => "REGISTRY_VALIDITY",
        }
    }
}

countersign_core::coded!(ContentError, ContentProblem);

/// Failure to create a constraint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstraintError {
    /// A mandatory list of the constraint is empty.
    #[error("empty list in a constraint")]
    Empty,
    /// A root is not a plain path.
    #[error("a root is not a plain path (no empty, `.` or `..` segment, not the whole file system)")]
    Root,
    /// A root is not the beginning of a URI.
    #[error("a root is not a lower-case scheme, `://` and plain segments with `/` at the end")]
    UriRoot,
    /// A scheme is not a lower-case URL scheme.
    #[error("a scheme is not a lower-case URL scheme")]
    Scheme,
    /// A host is not `name`, `.name`, or either with `:port`.
    #[error(
        "a host is not a lower-case name, with a dot before it for its subdomains, with or without a port"
    )]
    Host,
    /// A domain is not a lower-case domain name.
    #[error("a domain is not a lower-case domain name")]
    Domain,
    /// A number has no bound, or its lower bound is above the upper one.
    #[error("a number needs `min` or `max`, and `min` is at most `max`")]
    Bounds,
}

/// Fault of an approval rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalTermsError {
    /// A branch has no constraint, so every call would match it.
    #[error("a branch of an approval rule has no constraint")]
    EmptyBranch,
    /// The rule has branches, but requires no approval.
    #[error("an approval rule with branches is `required` or `each_call`")]
    NothingToExempt,
    /// Approvers are named for calls that need no approval.
    #[error("approvers of a tool whose rule is `not_required`")]
    NothingToApprove,
}
