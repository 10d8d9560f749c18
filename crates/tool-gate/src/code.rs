use std::fmt;

use countersign_action_proposal::ProposalCode;
use countersign_pinned_ask::AskDrift;

/// Whether another try can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retry {
    /// The same call is refused for as long as the session lasts.
    Never,
    /// A changed or later call may be accepted.
    AfterChange,
    /// The same call may be accepted once it is approved.
    AfterApproval,
}

impl Retry {
    /// Returns the stable text: `never`, `after_change` or `after_approval`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::AfterChange => "after_change",
            Self::AfterApproval => "after_approval",
        }
    }
}

/// Holds the one list of codes: the enum, its texts and [`RejectionCode::ALL`] come from the same rows.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $step:literal $variant:ident $text:expr, $retry:ident, $message:expr, $unlock:expr;)+) => {
        /// Reason of a refusal. Codes are API and are never renamed. This file is the only list of them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum RejectionCode {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl RejectionCode {
            /// Every code, in the order of the checks.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the code with this text, if this version knows it.
            #[must_use]
            pub fn from_code(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }

            /// Returns the stable text of the code.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Returns one fixed sentence for the agent.
            #[must_use]
            pub const fn message(self) -> &'static str {
                match self { $(Self::$variant => $message),+ }
            }

            /// Returns whether another try can help.
            #[must_use]
            pub const fn retry(self) -> Retry {
                match self { $(Self::$variant => Retry::$retry),+ }
            }

            /// Returns the condition that would unlock the call, if one exists.
            #[must_use]
            pub const fn unlock(self) -> Option<&'static str> {
                match self { $(Self::$variant => $unlock),+ }
            }

            /// Returns the step of the gate's order that gives this code, 0 to 11; 12 for refusals after the last step
            /// and for internal errors.
            #[must_use]
            pub const fn step(self) -> u8 {
                match self { $(Self::$variant => $step),+ }
            }
        }
    };
}

codes! {
    /// The call, its ids, its tool name or its arguments are malformed.
    0 MalformedCall "MALFORMED_CALL", AfterChange,
        "the call is not well formed", Some("a well-formed call");
    /// The call is larger, deeper or wider than the gate's limits.
    0 LimitExceeded "LIMIT_EXCEEDED", AfterChange,
        "the call is over a limit", Some("a smaller call");
    /// Too many requests of the client are outstanding, so this one is not passed on.
    0 TooManyRequests "TOO_MANY_REQUESTS", AfterChange,
        "too many requests are outstanding", Some("answers to the requests that are outstanding");
    /// The session contract is over, or was made under a registry that was withdrawn.
    1 ContractExpired "CONTRACT_EXPIRED", Never,
        "the session is over", Some("a new session");
    /// The registry is past its expiry or older than the operator allows.
    1 RegistryStale "REGISTRY_STALE", AfterChange,
        "the capability registry is out of date", Some("a fresh registry from the operator");
    /// The registry does not list the agent.
    1 AgentNotRegistered "AGENT_NOT_REGISTERED", Never,
        "the agent is not registered", None;
    /// The operator revoked the agent.
    1 AgentRevoked "AGENT_REVOKED", Never,
        "the agent is revoked", None;
    /// The agent is quarantined, by its alarm, by a signal or by an operator.
    1 AgentQuarantined "AGENT_QUARANTINED", AfterChange,
        "the agent is quarantined", Some("the operator's release of the agent");
    /// The session does not disclose the tool, whether or not it exists.
    2 UndisclosedTool "UNDISCLOSED_TOOL", Never,
        "the tool is not available in this session", None;
    /// The server's definition of the tool differs from the signed one.
    2 ToolDefinitionChanged "TOOL_DEFINITION_CHANGED", Never,
        "the tool is not the one that the operator approved", Some("a registry that pins the tool as it is now");
    /// The operator signed a definition of the tool, and the gate does not know the server's.
    2 ToolDefinitionUnknown "TOOL_DEFINITION_UNKNOWN", AfterChange,
        "the tool's definition is not known at the moment", Some("the tool's definition from its server");
    /// The arguments do not fit the tool's JSON Schema.
    3 ArgsSchema "ARGS_SCHEMA", AfterChange,
        "the arguments do not fit the tool's schema", Some("arguments that fit the schema");
    /// The arguments break one of the operator's constraints.
    3 ArgsConstraint "ARGS_CONSTRAINT", AfterChange,
        "the arguments are outside what the operator allows", Some("arguments within the operator's constraints");
    /// No calls are left in this session.
    4 CallLimit "CALL_LIMIT", Never,
        "no calls are left in this session", Some("a new session");
    /// Calls come faster than the operator allows.
    4 RateLimit "RATE_LIMIT", AfterChange,
        "calls come too fast", Some("waiting");
    /// The tool requires a restated goal and the call has none, or no pinned goal exists to compare a restated one
    /// with.
    5 AskRequired "ASK_REQUIRED", AfterChange,
        "the call must restate the pinned goal", Some("the session's goal, restated with the call");
    /// The restated goal differs from the pinned one.
    5 AskDrift "ASK_DRIFT", AfterChange,
        "the restated goal is not the pinned one", Some("the session's goal as it was pinned");
    /// The pinned goal is past its time to live, or belongs to another session.
    5 AskExpired "ASK_EXPIRED", Never,
        "the pinned goal has expired", Some("a new session with the goal pinned anew");
    /// The call must be a step of a committed plan, and no plan is committed under this registry.
    6 PlanRequired "PLAN_REQUIRED", AfterChange,
        "the call must be a step of a committed plan", Some("a committed plan");
    /// The call differs from the one that the plan has here. It halts the plan, unless the gate outlives breaches.
    6 PlanStepMismatch "PLAN_STEP_MISMATCH", Never,
        "the call is not the one that the plan has here", Some("a new session with a plan that has the call");
    /// The step is in the plan, and it is not its turn. This halts the plan, unless another call or an amendment only
    /// held the turn at that moment, or the gate outlives breaches.
    6 PlanOutOfOrder "PLAN_OUT_OF_ORDER", AfterChange,
        "it is not this step's turn in the plan", Some("the plan's next step, one call at a time");
    /// The step, or the plan, has had all its calls. This halts the plan, unless the gate outlives breaches.
    6 PlanExhausted "PLAN_EXHAUSTED", Never,
        "the plan has no call left for this", Some("a new session with a new plan");
    /// The plan was halted before, by a call that was not its next one or by the host.
    6 PlanHalted "PLAN_HALTED", Never,
        "the plan is halted", Some("a new session with a new plan");
    /// The gate runs each id once in a session, and this one has run, or was seen before with another tool or other
    /// arguments.
    7 CallIdReused "CALL_ID_REUSED", AfterChange,
        "the call's id was used before", Some("a new id for a new call");
    /// The tool requires an approval of this call (or of the plan that it is a step of), and the call has none.
    7 ApprovalRequired "APPROVAL_REQUIRED", AfterApproval,
        "a person must approve this call", Some("an approval of exactly this call");
    /// The approval that came with the call is not valid for this call.
    7 ApprovalInvalid "APPROVAL_INVALID", AfterApproval,
        "the approval is not valid for this call", Some("an approval of exactly this call");
    /// The approval is of this call and has expired.
    7 ApprovalExpired "APPROVAL_EXPIRED", AfterApproval,
        "the approval has expired", Some("a new approval of exactly this call");
    /// A person who was asked to approve this call denied it.
    7 ApprovalDenied "APPROVAL_DENIED", Never,
        "a person refused this call", None;
    /// The call needs an approval, and so many questions wait already that no other can be filed.
    7 ApprovalsFull "APPROVALS_FULL", AfterChange,
        "too many calls wait for an approval",
        Some("answers to the approvals that wait");
    /// The call must come with an action proposal and has none, or the proposal is not an object.
    8 PicInvalidRequest ProposalCode::InvalidRequest.as_str(), AfterChange,
        ProposalCode::InvalidRequest.message(), Some("an action proposal for exactly this call");
    /// The proposal or its evidence exceeds a limit of bytes, items or time.
    8 PicLimitExceeded ProposalCode::LimitExceeded.as_str(), AfterChange,
        ProposalCode::LimitExceeded.message(), Some("a smaller proposal with less evidence");
    /// The proposal is not strict JSON, or does not match the PIC/1.0 schema.
    8 PicSchemaInvalid ProposalCode::SchemaInvalid.as_str(), AfterChange,
        ProposalCode::SchemaInvalid.message(), Some("a proposal of the PIC/1.0 schema");
    /// Two inputs, or two pieces of evidence, have the same id.
    8 PicDuplicateId ProposalCode::DuplicateId.as_str(), AfterChange,
        ProposalCode::DuplicateId.message(), Some("ids that differ");
    /// The proposal is for another tool.
    8 PicToolBindingMismatch ProposalCode::ToolBindingMismatch.as_str(), AfterChange,
        ProposalCode::ToolBindingMismatch.message(), Some("a proposal for this tool");
    /// The proposal is for other arguments.
    8 PicArgBindingMismatch ProposalCode::ArgBindingMismatch.as_str(), AfterChange,
        ProposalCode::ArgBindingMismatch.message(), Some("a proposal for these arguments");
    /// The operator's policy does not list the tool.
    8 PicPolicyViolation ProposalCode::PolicyViolation.as_str(), Never,
        ProposalCode::PolicyViolation.message(), Some("a policy that lists the tool");
    /// The proposal states a lower impact than the operator.
    8 ImpactUnderstated ProposalCode::ImpactUnderstated.as_str(), AfterChange,
        ProposalCode::ImpactUnderstated.message(), Some("a proposal that states the impact in full");
    /// The call must be backed by evidence, and the proposal has none.
    8 PicEvidenceRequired ProposalCode::EvidenceRequired.as_str(), AfterChange,
        ProposalCode::EvidenceRequired.message(), Some("evidence that verifies");
    /// A piece of evidence does not verify or was used before, or the tool requires evidence and the gate takes no
    /// proposals.
    8 PicEvidenceFailed ProposalCode::EvidenceFailed.as_str(), AfterChange,
        ProposalCode::EvidenceFailed.message(), Some("evidence that verifies and was not used before");
    /// No claim of the proposal is backed by a trusted input.
    8 PicVerifierFailed ProposalCode::VerifierFailed.as_str(), AfterChange,
        ProposalCode::VerifierFailed.message(), Some("a claim that cites evidence which the operator trusts");
    /// One of the embedder's own checks refused.
    9 CheckRefused "CHECK_REFUSED", Never,
        "the host refused the call", None;
    /// The approval was used before.
    10 ApprovalSpent "APPROVAL_SPENT", AfterApproval,
        "the approval was used already", Some("a new approval of exactly this call");
    /// The store of used tickets deleted entries, or was created, while a clock was ahead: the ticket may have been
    /// used before.
    10 StoreClockAhead "STORE_CLOCK_AHEAD", AfterChange,
        "attestations and approvals of this time cannot be used", Some("the operator's attention");
    /// The ticket was issued before the store of used tickets was created: an earlier store may have spent it.
    10 StoreTooNew "STORE_TOO_NEW", AfterApproval,
        "the approval, attestation or endorsement was issued before the store of used ones was made",
        Some("a new approval, attestation or endorsement of exactly this call");
    /// The store of used tickets is unavailable: no ticket can be spent, or, at a gateway, no question can be filed.
    10 StoreUnavailable "STORE_UNAVAILABLE", AfterChange,
        "attestations and approvals cannot be used at the moment", Some("the operator's attention");
    /// The decision cannot be recorded.
    11 AuditUnavailable "AUDIT_UNAVAILABLE", AfterChange,
        "decisions cannot be recorded at the moment", Some("the operator's attention");
    /// The accepted call was held for longer than the gate allows, or the operator changed the tool's rules meanwhile.
    /// It was not run.
    12 CallExpired "CALL_EXPIRED", AfterChange,
        "the call came too late to run", Some("the call once more");
    /// An internal error, including a panic in the host's code.
    12 Internal "INTERNAL", Never,
        "the call could not be decided", Some("the operator's attention");
}

impl From<&AskDrift> for RejectionCode {
    fn from(error: &AskDrift) -> Self {
        match error {
            AskDrift::Goal { .. } => Self::AskDrift,
            AskDrift::Expired { .. } | AskDrift::NotYet { .. } | AskDrift::OtherSession { .. } | _ => {
                Self::AskExpired
            }
        }
    }
}

impl fmt::Display for RejectionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Maps a proposal's refusal to the gate's own code with the same text, except for unknown ones.
impl From<ProposalCode> for RejectionCode {
    fn from(code: ProposalCode) -> Self {
        match code {
            ProposalCode::InvalidRequest => Self::PicInvalidRequest,
            ProposalCode::LimitExceeded => Self::PicLimitExceeded,
            ProposalCode::SchemaInvalid => Self::PicSchemaInvalid,
            ProposalCode::DuplicateId => Self::PicDuplicateId,
            ProposalCode::ToolBindingMismatch => Self::PicToolBindingMismatch,
            ProposalCode::ArgBindingMismatch => Self::PicArgBindingMismatch,
            ProposalCode::ImpactUnderstated => Self::ImpactUnderstated,
            ProposalCode::EvidenceRequired => Self::PicEvidenceRequired,
            ProposalCode::EvidenceFailed => Self::PicEvidenceFailed,
            ProposalCode::VerifierFailed => Self::PicVerifierFailed,
            ProposalCode::PolicyViolation => Self::PicPolicyViolation,
            ProposalCode::InternalError | _ => Self::Internal,
        }
    }
}
