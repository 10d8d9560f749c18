use countersign_core::{
    AgentId, Digest, OperatorId, Principal, RequestId, SessionId, Timestamp, TokenId, ToolId,
};

use crate::{Escaped, ProposalRecord, RecordedValues};

/// Whether a call was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "a third verdict has to break every match")]
pub enum Verdict {
    /// It may run.
    Accept,
    /// It may not.
    Reject,
}

/// A tool as the agent named it: perhaps one that does not exist, under a name that no tool could have.
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
    pub fn new(server: &str, name: &str) -> Self {
        Self { server: server.into(), name: name.into() }
    }
}

impl From<&ToolId> for RecordedTool {
    fn from(tool: &ToolId) -> Self {
        Self::new(tool.server().as_str(), tool.name().as_str())
    }
}

/// One decision. Argument values are not in it, but for those that the operator asked for one by one.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CallRecord {
    /// When it was decided.
    pub time: Timestamp,
    /// In which session.
    pub session: SessionId,
    /// Which agent asked.
    pub agent: AgentId,
    /// On whose behalf.
    pub principal: Principal,
    /// The call's id, as it was given.
    pub call_id: Escaped<256>,
    /// The host's id for the request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub request_id: Option<RequestId>,
    /// The host's place in a trace, as a W3C `traceparent`. It proves nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace: Option<Escaped<64>>,
    /// The tool, as it was named.
    pub tool: RecordedTool,
    /// Digest of the tool's definition.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub definition: Option<Digest>,
    /// Digest of the canonical arguments; none when they could not be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub args: Option<Digest>,
    /// Recipe of that digest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub args_recipe: Option<Escaped<32>>,
    /// The values that the operator asked for.
    #[serde(skip_serializing_if = "RecordedValues::is_empty", default)]
    pub values: RecordedValues,
    /// The tool's impact class, as the registry has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub impact: Option<Escaped<32>>,
    /// Accepted or rejected.
    pub verdict: Verdict,
    /// Code of the rejection.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<Escaped<64>>,
    /// The details that the agent was not told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Escaped<512>>,
    /// Version of the registry that was used.
    pub registry_version: u64,
    /// Digest of the pinned goal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ask: Option<Digest>,
    /// Digest of the goal that came with the call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ask_restated: Option<Digest>,
    /// Root of the committed plan, where the gate has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan: Option<Digest>,
    /// Which step of the plan the call is, as the index of its leaf (from 1 on); none when it is none of them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan_step: Option<u64>,
    /// Whether it is about a plan and no call: the plan's start, its end, another in its place, or a no to what was asked about it
    /// before it began. No gate counts that among the agent's calls.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub about_plan: bool,
    /// Id of the approval token that came with the call and verified (it was used up if the call was accepted), or of the one
    /// by which the whole plan was approved, where the call needs no other.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval: Option<TokenId>,
    /// Who approved by that token.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approver: Option<OperatorId>,
    /// Who said no to exactly this call, as far as the host knows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub denied_by: Option<Escaped<256>>,
    /// The action proposal that came with the call, and how it was judged; none where no proposals are taken.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub proposal: Option<Box<ProposalRecord>>,
}

impl CallRecord {
    /// Makes one with everything that is optional left out.
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
        call_id: &str,
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
            values: RecordedValues::default(),
            impact: None,
            verdict,
            code: None,
            reason: None,
            registry_version,
            ask: None,
            ask_restated: None,
            plan: None,
            plan_step: None,
            about_plan: false,
            approval: None,
            approver: None,
            denied_by: None,
            proposal: None,
        }
    }
}
