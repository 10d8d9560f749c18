use countersign_core::{
    AgentId, Digest, OperatorId, Principal, RequestId, SessionId, Timestamp, TokenId, ToolId,
};

use crate::{Escaped, ProposalRecord, RecordedValues};

/// Whether a call was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "a third verdict has to break every match")]
pub enum Verdict {
    /// The call may run.
    Accept,
    /// The call may not run.
    Reject,
}

/// Tool as the agent named it. It may not exist, and the name may be one that no tool can have.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RecordedTool {
    /// Name of the server.
    pub server: Escaped<128>,
    /// Name of the tool within it.
    pub name: Escaped<128>,
}

impl RecordedTool {
    /// Escapes and shortens both names.
    #[must_use]
    pub fn new(server: impl Into<Escaped<128>>, name: impl Into<Escaped<128>>) -> Self {
        Self { server: server.into(), name: name.into() }
    }
}

impl From<&ToolId> for RecordedTool {
    fn from(tool: &ToolId) -> Self {
        Self::new(tool.server().clone(), tool.name().clone())
    }
}

/// One decision. It has no argument values except those that the operator configured.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CallRecord {
    /// Time of the decision.
    pub time: Timestamp,
    /// Session of the call.
    pub session: SessionId,
    /// Agent that made the call.
    pub agent: AgentId,
    /// Principal on whose behalf the agent acts.
    pub principal: Principal,
    /// The call's id, as given.
    pub call_id: Escaped<256>,
    /// The host's id for the request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<RequestId>,
    /// The host's position in a trace, as a W3C `traceparent`. Unverified.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<Escaped<64>>,
    /// The tool, as the agent named it.
    pub tool: RecordedTool,
    /// Digest of the tool's definition.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub definition: Option<Digest>,
    /// Digest of the canonical arguments; `None` if they could not be read, or were not read because the agent or the tool
    /// was refused before.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub args: Option<Digest>,
    /// Recipe of that digest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub args_recipe: Option<Escaped<32>>,
    /// Digest of the arguments that the agent asked for, if a person put others in their place.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub edited_from: Option<Digest>,
    /// Argument values that the operator configured to be recorded.
    #[serde(skip_serializing_if = "RecordedValues::is_empty", default)]
    pub values: RecordedValues,
    /// Impact class of the tool in the registry.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub impact: Option<Escaped<32>>,
    /// Accepted or rejected.
    pub verdict: Verdict,
    /// Code of the rejection.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<Escaped<64>>,
    /// Whether the call waits for a person's evidence. Such a refusal is no conduct of the agent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub waits: bool,
    /// Codes that the gate overlooked in observe mode: without it the first of them would have refused the call. Empty if it
    /// overlooked none; `None` outside that mode.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub observed: Option<Vec<Escaped<64>>>,
    /// Details that were not sent to the agent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Escaped<512>>,
    /// Version of the registry that was used.
    pub registry_version: u64,
    /// Digest of the pinned goal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ask: Option<Digest>,
    /// Digest of the goal restated in the call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ask_restated: Option<Digest>,
    /// Root of the committed plan, if the gate has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan: Option<Digest>,
    /// Step of the plan that the call is, as its leaf index from 1; `None` if the call is not a step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan_step: Option<u64>,
    /// Whether the record is about a plan and not a call: the plan's start or end, its replacement, or a denial of its
    /// approval before it began. Gates do not count it among the agent's calls.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub about_plan: bool,
    /// Id of the verified approval token of the call, which is spent if the call was accepted; or of the token that
    /// approved the whole plan, if the call needs no other.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval: Option<TokenId>,
    /// Person who approved with that token.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approver: Option<OperatorId>,
    /// Use of a grant that the call took, from 1, if `approval` is a grant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub grant_use: Option<u32>,
    /// Further approvals that the call needed, each of another person and spent like the first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub co_approvals: Vec<CoApproval>,
    /// Author of a denial of exactly this call, as far as the host knows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub denied_by: Option<Escaped<256>>,
    /// The call's action proposal and its assessment; `None` if proposals are not accepted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub proposal: Option<Box<ProposalRecord>>,
}

/// One of several approvals of a call, beside the first.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CoApproval {
    /// Id of the approval token.
    pub approval: TokenId,
    /// Person who approved with that token.
    pub approver: OperatorId,
}

impl CoApproval {
    /// Names a token and its approver.
    #[must_use]
    pub const fn new(approval: TokenId, approver: OperatorId) -> Self {
        Self { approval, approver }
    }
}

impl CallRecord {
    /// Builds one without any optional member.
    #[must_use]
    #[expect(
        clippy::too_many_arguments,
        reason = "each is in every decision, and no two have one type in a row"
    )]
    pub fn new(
        time: Timestamp,
        session: SessionId,
        agent: AgentId,
        principal: Principal,
        call_id: impl Into<Escaped<256>>,
        tool: RecordedTool,
        verdict: Verdict,
        registry_version: u64,
    ) -> Self {
        Self {
            time,
            session,
            agent,
            principal,
            call_id: call_id.into(),
            request_id: None,
            trace: None,
            tool,
            definition: None,
            args: None,
            args_recipe: None,
            edited_from: None,
            values: RecordedValues::default(),
            impact: None,
            verdict,
            code: None,
            waits: false,
            observed: None,
            reason: None,
            registry_version,
            ask: None,
            ask_restated: None,
            plan: None,
            plan_step: None,
            about_plan: false,
            approval: None,
            approver: None,
            grant_use: None,
            co_approvals: Vec::new(),
            denied_by: None,
            proposal: None,
        }
    }
}
