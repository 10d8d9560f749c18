/// Defines a rule that is either required or not. why: two named variants instead of a bool that could be passed the
/// wrong way.
macro_rules! rule {
    ($(#[$doc:meta])* $name:ident, $(#[$not_required:meta])*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum $name {
            /// The call is refused without it.
            Required,
            $(#[$not_required])*
            NotRequired,
        }

        impl $name {
            /// Returns `true` if a call without it is refused.
            #[must_use]
            pub const fn is_required(self) -> bool {
                matches!(self, Self::Required)
            }
        }
    };
}

/// Approval that a call of the tool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalRule {
    /// The call is refused without an approval of exactly that call, or of the whole plan of which it is a step.
    Required,
    /// The call is refused without an approval of exactly that call. A plan's approval is not enough.
    EachCall,
    /// The call runs without approval. An approval that comes with the call is ignored.
    NotRequired,
}

impl ApprovalRule {
    /// Returns `true` if a call without any approval is refused.
    #[must_use]
    pub const fn is_required(self) -> bool {
        matches!(self, Self::Required | Self::EachCall)
    }

    /// Rank among the rules: a stricter one has a higher rank.
    pub(crate) const fn strength(self) -> u8 {
        match self {
            Self::NotRequired => 0,
            Self::Required => 1,
            Self::EachCall => 2,
        }
    }
}

rule!(
/// Whether a call of the tool must restate the pinned goal.
AskRule,
/// The call may omit the goal; a restated goal is still checked.
);
rule!(
/// Whether a call of the tool needs a proposal with verified evidence, whatever its impact. A gate without proposals
/// refuses every call of a tool that requires it.
EvidenceRule,
/// The call runs without it.
);
rule!(
/// Whether a call of the tool must be the next step of a committed plan. A gate without a plan refuses every call of
/// a tool that requires it.
PlanRule,
/// The tool may be called without a plan. A gate with a plan still allows only the plan's next step.
);

/// Whether a server may answer a call of the tool with a task, and give the result later (MCP's extension
/// `io.modelcontextprotocol/tasks`, SEP-2663).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TaskRule {
    /// A task is the call's: its result is the call's outcome.
    Allowed,
    /// A task in place of a result is the server's fault.
    #[default]
    NotAllowed,
}

impl TaskRule {
    /// Returns `true` if the server may answer with a task.
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed)
    }

    /// Returns `true` if the server may not answer with a task.
    pub(crate) const fn is_not_allowed(&self) -> bool {
        !self.is_allowed()
    }
}

/// Defines the default of an omitted rule. Approvals have no default: an entry must state its rule.
macro_rules! not_required_by_default {
    ($($name:ident)*) => {
        $(impl Default for $name {
            fn default() -> Self {
                Self::NotRequired
            }
        })*
    };
}

not_required_by_default!(AskRule EvidenceRule PlanRule);
