use countersign_core::{AgentId, Digest, Millis, SessionId, Timestamp};

use crate::{
    AnswerRecord, ArchivedRecord, BeganRecord, CallRecord, EndRecord, Escaped, GapRecord, RefusedRecord,
    ServerRecord, SessionRecord,
};

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
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
    /// A person answered a question that waited for approval.
    Answer(AnswerRecord),
    /// Refusals of calls or messages, counted together.
    Refused(RefusedRecord),
    /// A signal about an agent was raised.
    Signal(SignalRecord),
    /// A session's server answered the handshake.
    Server(ServerRecord),
    /// The log was begun in the place of another one.
    Began(BeganRecord),
    /// The oldest segments of the log were archived.
    Archived(ArchivedRecord),
    /// A session ended in order.
    End(EndRecord),
    /// The record works again after an outage.
    Gap(GapRecord),
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
    /// The tool gave a result.
    Returned,
    /// The tool said that it failed.
    Failed,
    /// It was dropped, cancelled or cut off: it may have run or not, and it is never run again.
    Unknown,
    /// It never began: when its turn came the gate did not allow it any more, or its host gave it up before.
    #[serde(rename = "not_run")]
    NotRun,
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
    /// How long it took, or was held where it did not run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_ms: Option<Millis>,
    /// Code of the refusal to run it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<Escaped<64>>,
    /// Author of the entry, where it is not the gate that accepted the call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub by: Option<OutcomeBy>,
}

/// Author of an outcome that the process of its call did not record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OutcomeBy {
    /// The log, when it was opened after that process had ended.
    Recovery,
}

impl OutcomeRecord {
    /// Makes one without a duration and a code, by the gate.
    #[must_use]
    pub fn new(
        time: Timestamp,
        session: SessionId,
        call_id: &str,
        decision: u64,
        outcome: OutcomeKind,
    ) -> Self {
        let call_id = call_id.into();
        Self { time, session, call_id, decision, outcome, duration_ms: None, code: None, by: None }
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
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RecoveredRecord {
    /// When the log was opened, as far as its opener said; otherwise the time of the last record that was kept.
    pub time: Timestamp,
    /// How many bytes were cut.
    pub bytes: u64,
    /// SHA-256 of them.
    pub digest: Digest,
    /// Name of the file in the log's folder that keeps them. Older logs have none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file: Option<Escaped<64>>,
}

impl RecoveredRecord {
    /// Makes one that names no file.
    #[must_use]
    pub const fn new(time: Timestamp, bytes: u64, digest: Digest) -> Self {
        Self { time, bytes, digest, file: None }
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

/// Sign that an agent probes for what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Signal {
    /// Many distinct calls needed approval and got none.
    Asked,
    /// Many calls were of tools that the agent's session does not disclose.
    Undisclosed,
}

impl Signal {
    /// Every signal.
    pub const ALL: &'static [Self] = &[Self::Asked, Self::Undisclosed];

    /// The stable text: `asked` or `undisclosed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Undisclosed => "undisclosed",
        }
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
    /// Which signal.
    pub signal: Signal,
    /// Number of calls that raise it.
    pub count: u32,
    /// Span of time in which they came.
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
