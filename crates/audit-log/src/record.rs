use countersign_core::{AgentId, Digest, Millis, SessionId, Signal, Timestamp};

use crate::{
    AnswerRecord, CallRecord, EndRecord, Escaped, GapRecord, GatewayRecord, RefusedRecord, ServerRecord,
    SessionRecord,
};

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
#[expect(
    clippy::large_enum_variant,
    reason = "most records are decisions, and a box of each would be an allocation"
)]
pub enum Record {
    /// A session began, or was refused.
    Session(SessionRecord),
    /// A call was accepted or rejected.
    Decision(CallRecord),
    /// An accepted call ended, or its outcome is unknown.
    Outcome(OutcomeRecord),
    /// A gateway refused a message that is not a call it could decide on.
    Gateway(GatewayRecord),
    /// Bytes after the last checkpoint were cut when the log was opened again.
    Recovered(RecoveredRecord),
    /// An agent was put into quarantine, or released from it.
    Standing(StandingRecord),
    /// A person approved or denied a call or plan that waited for approval.
    Answer(AnswerRecord),
    /// Refusals of calls or messages, counted together.
    Refused(RefusedRecord),
    /// A signal about an agent was raised.
    Signal(SignalRecord),
    /// A session's server answered the handshake.
    Server(ServerRecord),
    /// The log replaced another one.
    Began(BeganRecord),
    /// The oldest segments of the log were archived.
    Archived(ArchivedRecord),
    /// A session ended normally.
    End(EndRecord),
    /// The log works again after an outage.
    Gap(GapRecord),
}

impl Record {
    /// Time of the event.
    #[must_use]
    pub const fn time(&self) -> Timestamp {
        match self {
            Self::Session(r) => r.time,
            Self::Decision(r) => r.time,
            Self::Outcome(r) => r.time,
            Self::Gateway(r) => r.time,
            Self::Recovered(r) => r.time,
            Self::Standing(r) => r.time,
            Self::Answer(r) => r.time,
            Self::Refused(r) => r.time,
            Self::Signal(r) => r.time,
            Self::Server(r) => r.time,
            Self::Began(r) => r.time,
            Self::Archived(r) => r.time,
            Self::End(r) => r.time,
            Self::Gap(r) => r.time,
        }
    }
}

/// How an accepted call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OutcomeKind {
    /// The tool returned a result.
    Returned,
    /// The tool reported a failure.
    Failed,
    /// The call was dropped, cancelled or cut off. It may have run or not, and it is never run again.
    Unknown,
    /// The call never began: the gate no longer allowed it when its turn came, or its host gave it up before that.
    #[serde(rename = "not_run")]
    NotRun,
}

/// End of one accepted call.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct OutcomeRecord {
    /// Time at which it ended.
    pub time: Timestamp,
    /// Session of the call.
    pub session: SessionId,
    /// The call's id, as given.
    pub call_id: Escaped<256>,
    /// Sequence number of the decision that accepted it.
    pub decision: u64,
    /// How the call ended.
    pub outcome: OutcomeKind,
    /// Duration of the call; of the wait, if it did not run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_ms: Option<Millis>,
    /// Code of the refusal to run it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<Escaped<64>>,
    /// Author of the entry, if other than the gate that accepted the call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<OutcomeBy>,
}

/// Author of an outcome that the call's own process did not record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OutcomeBy {
    /// The log, when it was opened after that process had ended.
    Recovery,
}

impl OutcomeRecord {
    /// Builds one by the gate, without a duration or code.
    #[must_use]
    pub fn new(
        time: Timestamp,
        session: SessionId,
        call_id: impl Into<Escaped<256>>,
        decision: u64,
        outcome: OutcomeKind,
    ) -> Self {
        let call_id = call_id.into();
        Self { time, session, call_id, decision, outcome, duration_ms: None, code: None, by: None }
    }
}

/// Bytes that a log cut when it was opened after its writer had stopped. They belong to records that no checkpoint
/// counts. Those were acknowledged only under [`Durability::System`](crate::Durability::System).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RecoveredRecord {
    /// Time at which the log was opened, if the opener gave it; otherwise the time of the last kept record.
    pub time: Timestamp,
    /// Number of bytes cut.
    pub bytes: u64,
    /// SHA-256 of the bytes cut.
    pub digest: Digest,
    /// Name of the file in the log's folder that keeps them. Older logs have none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file: Option<Escaped<64>>,
}

impl RecoveredRecord {
    /// Builds one that names no file.
    #[must_use]
    pub const fn new(time: Timestamp, bytes: u64, digest: Digest) -> Self {
        Self { time, bytes, digest, file: None }
    }
}

/// Whether an agent may call tools, as set by alarm and operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StandingChange {
    /// It may call nothing from now on.
    Quarantined,
    /// It may again call the tools that its sessions disclose.
    Lifted,
}

/// An agent was put into quarantine, or released from it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StandingRecord {
    /// Time at which a gate learnt of it.
    pub time: Timestamp,
    /// The agent.
    pub agent: AgentId,
    /// Standing of the agent from then on.
    pub standing: StandingChange,
    /// Author of the change: an operator's name, or `alarm`.
    pub by: Escaped<128>,
    /// Reason for the change.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Escaped<512>>,
}

impl StandingRecord {
    /// Builds one without a reason.
    #[must_use]
    pub fn new(time: Timestamp, agent: AgentId, standing: StandingChange, by: &str) -> Self {
        Self { time, agent, standing, by: by.into(), reason: None }
    }
}

/// A signal about an agent was raised.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SignalRecord {
    /// Time of the call that raised it.
    pub time: Timestamp,
    /// Session of that call.
    pub session: SessionId,
    /// The agent.
    pub agent: AgentId,
    /// The signal.
    pub signal: Signal,
    /// Number of calls that raise it.
    pub count: u32,
    /// Span of time of those calls.
    pub within_ms: Millis,
}

impl SignalRecord {
    /// Builds one from all of its members.
    #[must_use]
    pub const fn new(
        time: Timestamp,
        session: SessionId,
        agent: AgentId,
        signal: Signal,
        count: u32,
        within: Millis,
    ) -> Self {
        Self { time, session, agent, signal, count, within_ms: within }
    }
}

/// First entry of a log that replaced another one, which a note closed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BeganRecord {
    /// Time at which the log was begun.
    pub time: Timestamp,
    /// Origin of the log before it.
    pub previous: Escaped<256>,
    /// SHA-256 of the note that closed that log ([`ClosingNote`](crate::ClosingNote)).
    pub closing: Digest,
}

impl BeganRecord {
    /// Builds one from all of its members.
    #[must_use]
    pub fn new(time: Timestamp, previous: &str, closing: Digest) -> Self {
        Self { time, previous: previous.into(), closing }
    }
}

/// The oldest segments of the log were copied to an archive, and are about to be removed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ArchivedRecord {
    /// Time at which they were archived.
    pub time: Timestamp,
    /// First sequence number in them.
    pub first: u64,
    /// Last sequence number in them.
    pub last: u64,
    /// SHA-256 of the archive's manifest, which has the digest of each file.
    pub manifest: Digest,
}

impl ArchivedRecord {
    /// Builds one from all of its members.
    #[must_use]
    pub const fn new(time: Timestamp, first: u64, last: u64, manifest: Digest) -> Self {
        Self { time, first, last, manifest }
    }
}
