use countersign_core::{
    AgentId, Digest, Millis, OperatorId, Principal, RequestId, SessionId, Timestamp, TokenId, ToolId,
};

use crate::{Escaped, ProposalRecord, RecordedValues};

/// The most names of differing claims that one record holds.
const MAX_CLAIMS: usize = 32;

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nearly all records are the largest")]
pub enum Record {
    /// A session began, or was refused.
    Session(SessionRecord),
    /// A call was accepted or rejected.
    Decision(CallRecord),
    /// An accepted call came to its end, or nobody knows whether it did.
    Outcome(OutcomeRecord),
    /// A gateway refused a message that is no call it could decide on.
    Gateway(GatewayRecord),
    /// A log that was opened again was cut behind its last checkpoint.
    Recovered(RecoveredRecord),
    /// An agent was put into quarantine, or let out of it.
    Standing(StandingRecord),
}

impl Record {
    /// When it happened.
    #[must_use]
    pub const fn time(&self) -> Timestamp {
        match self {
            Self::Session(r) => r.time,
            Self::Decision(r) => r.time,
            Self::Outcome(r) => r.time,
            Self::Gateway(r) => r.time,
            Self::Recovered(r) => r.time,
            Self::Standing(r) => r.time,
        }
    }
}

/// What one session may do, as negotiated, or why it was not opened.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SessionRecord {
    /// When the session began.
    pub time: Timestamp,
    /// The session.
    pub session: SessionId,
    /// Whose session it is.
    pub agent: AgentId,
    /// The agents whose sessions led to this one, the first of them first; none where the host started it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub ancestors: Vec<AgentId>,
    /// On whose behalf the agent acts.
    pub principal: Principal,
    /// Version of the registry that the contract comes from.
    pub registry_version: u64,
    /// The tools that the contract discloses.
    pub tools: Vec<ToolId>,
    /// Whether it has fewer tools than that registry lists for the agent: fewer were asked for, or a session that led to it has
    /// no more. False where that is not known any more, because another version is in force when the session begins.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub narrowed: bool,
    /// Digest of the pinned goal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ask: Option<Digest>,
    /// When the contract ends.
    pub expires: Timestamp,
    /// What the agent claimed about itself and the registry does not say. It changed nothing else.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub claims: Option<ClaimsRecord>,
    /// Code of the refusal, where no session was opened.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<Escaped<64>>,
}

impl SessionRecord {
    /// Makes one of a session that the host opened, without goal or claims.
    #[must_use]
    pub const fn new(
        time: Timestamp,
        session: SessionId,
        agent: AgentId,
        principal: Principal,
        registry_version: u64,
        tools: Vec<ToolId>,
        expires: Timestamp,
    ) -> Self {
        let (narrowed, ask, claims, code) = (false, None, None, None);
        Self {
            time,
            session,
            agent,
            ancestors: Vec::new(),
            principal,
            registry_version,
            tools,
            narrowed,
            ask,
            expires,
            claims,
            code,
        }
    }
}

/// What an agent claimed about itself: a digest of all of it, and the names under which it differs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimsRecord {
    digest: Digest,
    differing: Vec<Escaped<128>>,
    omitted: u64,
}

impl ClaimsRecord {
    /// Makes one. Keeps the first 32 names and the number of the others.
    #[must_use]
    pub fn new<'a>(digest: Digest, differing: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = differing.into_iter();
        let kept = names.by_ref().take(MAX_CLAIMS).map(Escaped::new).collect();
        Self { digest, differing: kept, omitted: names.count().try_into().unwrap_or(u64::MAX) }
    }

    /// Digest of the claims as the agent sent them.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Names of claims that differ from the registry, at most 32.
    #[must_use]
    pub fn differing(&self) -> &[Escaped<128>] {
        &self.differing
    }

    /// How many more names there were.
    #[must_use]
    pub const fn omitted(&self) -> u64 {
        self.omitted
    }
}

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
            approval: None,
            approver: None,
            denied_by: None,
            proposal: None,
        }
    }
}

/// How an accepted call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OutcomeKind {
    /// The tool gave a result.
    Returned,
    /// The tool said that it failed.
    Failed,
    /// It was dropped, cancelled or cut off: it may have run or not, and it is never run again.
    Unknown,
}

/// The end of one accepted call.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OutcomeRecord {
    /// When it ended.
    pub time: Timestamp,
    /// In which session.
    pub session: SessionId,
    /// The call's id, as it was given.
    pub call_id: Escaped<256>,
    /// Sequence number of the decision that let it through.
    pub decision: u64,
    /// How it ended.
    pub outcome: OutcomeKind,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_ms: Option<Millis>,
}

impl OutcomeRecord {
    /// Makes one without a duration.
    #[must_use]
    pub fn new(
        time: Timestamp,
        session: SessionId,
        call_id: &str,
        decision: u64,
        outcome: OutcomeKind,
    ) -> Self {
        Self { time, session, call_id: call_id.into(), decision, outcome, duration_ms: None }
    }
}

/// Which way a message was going.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// A message that a gateway refused because it was malformed or unknown.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GatewayRecord {
    /// When it was refused.
    pub time: Timestamp,
    /// In which session, where one has begun.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<SessionId>,
    /// Which way it was going.
    pub direction: Direction,
    /// The method that it names, where it names one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub method: Option<Escaped<128>>,
    /// Code of the refusal.
    pub code: Escaped<64>,
    /// The details that the sender was not told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Escaped<512>>,
}

impl GatewayRecord {
    /// Makes one without session, method or reason.
    #[must_use]
    pub fn new(time: Timestamp, direction: Direction, code: &str) -> Self {
        Self { time, session: None, direction, method: None, code: code.into(), reason: None }
    }
}

/// What a log cut off when it was opened after its writer had been stopped: bytes of records that nobody had been told
/// were kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RecoveredRecord {
    /// When the log was opened, as far as its opener said; otherwise the time of the last record that was kept.
    pub time: Timestamp,
    /// How many bytes were cut.
    pub bytes: u64,
    /// SHA-256 of them.
    pub digest: Digest,
}

impl RecoveredRecord {
    /// Makes one.
    #[must_use]
    pub const fn new(time: Timestamp, bytes: u64, digest: Digest) -> Self {
        Self { time, bytes, digest }
    }
}

/// Whether an agent may call anything, as far as alarm and operators go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StandingChange {
    /// It may call nothing from now on.
    Quarantined,
    /// It may call again what its sessions disclose.
    Lifted,
}

/// An agent was put into quarantine, or let out of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StandingRecord {
    /// When a gate learnt of it.
    pub time: Timestamp,
    /// The agent.
    pub agent: AgentId,
    /// How it stands from then on.
    pub standing: StandingChange,
    /// Who or what did it: an operator's name, or `alarm`.
    pub by: Escaped<128>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Escaped<512>>,
}

impl StandingRecord {
    /// Makes one without a reason.
    #[must_use]
    pub fn new(time: Timestamp, agent: AgentId, standing: StandingChange, by: &str) -> Self {
        Self { time, agent, standing, by: by.into(), reason: None }
    }
}
