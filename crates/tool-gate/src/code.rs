use std::fmt;

/// Says whether trying again can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retry {
    /// The same call is refused for as long as the session lasts.
    Never,
    /// A call that was changed, or made later, may pass.
    AfterChange,
    /// The same call may pass once it is approved.
    AfterApproval,
}

impl Retry {
    /// The stable text: `never`, `after_change` or `after_approval`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::AfterChange => "after_change",
            Self::AfterApproval => "after_approval",
        }
    }
}

/// Writes the list of codes once: the enum, its texts and [`RejectionCode::ALL`] come from the same rows.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $step:literal $variant:ident $text:literal $retry:ident $message:literal $unlock:expr;)+) => {
        /// Why a call was refused. Codes are API: they are never renamed, and this file is their one list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum RejectionCode {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl RejectionCode {
            /// Every code, in the order of the checks.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The stable text of the code.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// One fixed sentence for the agent.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self { $(Self::$variant => $message),+ }
            }

            /// Whether trying again can help.
            #[must_use]
            pub const fn retry(self) -> Retry {
                match self { $(Self::$variant => Retry::$retry),+ }
            }

            /// What would unlock the call, where anything would.
            #[must_use]
            pub const fn unlock(self) -> Option<&'static str> {
                match self { $(Self::$variant => $unlock),+ }
            }

            /// Which step of the gate's order asks the question, 0 to 11; 12 for what is foreseen by none.
            #[must_use]
            pub const fn step(self) -> u8 {
                match self { $(Self::$variant => $step),+ }
            }
        }
    };
}

codes! {
    /// The call, its ids, its tool name or its arguments are not well formed.
    0 MalformedCall "MALFORMED_CALL" AfterChange
        "the call is not well formed" Some("a well-formed call");
    /// The call is larger, deeper or wider than the gate reads.
    0 LimitExceeded "LIMIT_EXCEEDED" AfterChange
        "the call is over a limit" Some("a smaller call");
    /// The session contract is over, or was made under a registry that was withdrawn.
    1 ContractExpired "CONTRACT_EXPIRED" Never
        "the session is over" Some("a new session");
    /// The registry is past its expiry or older than the operator allows.
    1 RegistryStale "REGISTRY_STALE" AfterChange
        "the capability registry is out of date" Some("a fresh registry from the operator");
    /// The registry does not list the agent.
    1 AgentNotRegistered "AGENT_NOT_REGISTERED" Never
        "the agent is not registered" None;
    /// The operator revoked the agent.
    1 AgentRevoked "AGENT_REVOKED" Never
        "the agent is revoked" None;
    /// The tool is not disclosed to this session, whether or not it exists.
    2 UndisclosedTool "UNDISCLOSED_TOOL" Never
        "the tool is not available in this session" None;
    /// The server's definition of the tool is not the one that the operator signed.
    2 ToolDefinitionChanged "TOOL_DEFINITION_CHANGED" Never
        "the tool is not the one that the operator approved" Some("a registry that pins the tool as it is now");
    /// The arguments do not fit the tool's JSON Schema.
    3 ArgsSchema "ARGS_SCHEMA" AfterChange
        "the arguments do not fit the tool's schema" Some("arguments that fit the schema");
    /// The arguments break one of the operator's constraints.
    3 ArgsConstraint "ARGS_CONSTRAINT" AfterChange
        "the arguments are outside what the operator allows" Some("arguments within the operator's constraints");
    /// No calls are left in this session.
    4 CallLimit "CALL_LIMIT" Never
        "no calls are left in this session" Some("a new session");
    /// Calls come faster than the operator allows.
    4 RateLimit "RATE_LIMIT" AfterChange
        "calls come too fast" Some("waiting");
    /// The tool asks for the goal to be restated, or there is no pinned goal to hold a restated one against.
    5 AskRequired "ASK_REQUIRED" AfterChange
        "the call must restate the pinned goal" Some("the session's goal, restated with the call");
    /// The restated goal is not the pinned one.
    5 AskDrift "ASK_DRIFT" AfterChange
        "the restated goal is not the pinned one" Some("the session's goal as it was pinned");
    /// The pinned goal is past its time to live, or belongs to another session.
    5 AskExpired "ASK_EXPIRED" Never
        "the pinned goal has expired" Some("a new session with the goal pinned anew");
    /// The tool may only be called as a step of a committed plan. This gate takes no plans yet, so it refuses every
    /// call to such a tool.
    6 PlanRequired "PLAN_REQUIRED" Never
        "the call must be a step of a committed plan" Some("a committed plan");
    /// The tool needs an approval of this very call, and none came with it.
    7 ApprovalRequired "APPROVAL_REQUIRED" AfterApproval
        "a person must approve this call" Some("an approval of exactly this call");
    /// An approval came with the call and is not one of this call.
    7 ApprovalInvalid "APPROVAL_INVALID" AfterApproval
        "the approval is not valid for this call" Some("an approval of exactly this call");
    /// The approval was of this call and is past its time.
    7 ApprovalExpired "APPROVAL_EXPIRED" AfterApproval
        "the approval has expired" Some("a new approval of exactly this call");
    /// The tool's calls must be backed by evidence that verifies. This gate takes no evidence yet, so it refuses every
    /// call to such a tool.
    8 EvidenceFailed "PIC_EVIDENCE_FAILED" Never
        "the call must be backed by evidence that verifies" Some("evidence that verifies");
    /// One of the embedder's own checks refused.
    9 CheckRefused "CHECK_REFUSED" Never
        "the host refused the call" None;
    /// The approval was used before.
    10 ApprovalSpent "APPROVAL_SPENT" AfterApproval
        "the approval was used already" Some("a new approval of exactly this call");
    /// The store of approvals cannot be used: nothing can be spent, or, at a gateway, no question can be filed.
    10 StoreUnavailable "STORE_UNAVAILABLE" AfterChange
        "approvals cannot be used at the moment" Some("the operator's attention");
    /// The decision cannot be put on record.
    11 AuditUnavailable "AUDIT_UNAVAILABLE" AfterChange
        "decisions cannot be recorded at the moment" Some("the operator's attention");
    /// Something unforeseen, a panic in the host's code included.
    12 Internal "INTERNAL" Never
        "the call could not be decided" Some("the operator's attention");
}

impl fmt::Display for RejectionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
