use countersign_audit_log::{CallRecord, Record, RefusedRow, StandingChange, Verdict};
use countersign_core::{AgentId, Digest};
use countersign_signals::{AgentFact, Alarm, AlarmReplay, AlarmRule, AlarmState, Probe, RefusedFact};

use crate::code::RejectionCode;

impl RejectionCode {
    /// Returns `true` for an outage of the host: a registry that is too old, a store or a record that fails, a fault.
    ///
    /// ```
    /// use countersign_tool_gate::RejectionCode;
    /// assert!(RejectionCode::AuditUnavailable.is_outage());
    /// assert!(!RejectionCode::UndisclosedTool.is_outage());
    /// ```
    #[must_use]
    pub const fn is_outage(self) -> bool {
        matches!(
            self,
            Self::RegistryStale
                | Self::StoreClockAhead
                | Self::StoreUnavailable
                | Self::AuditUnavailable
                | Self::Internal
        )
    }

    /// Returns `true` if the refusal is about the agent's conduct, so that an [`Alarm`](crate::Alarm) counts it as a
    /// decision.
    ///
    /// The others are not. Step 1 and an expired goal are about whether the agent may call at all. A call that waits is
    /// not decided. Outstanding requests and a changed or unknown definition are caused by the server or the host, and
    /// so are a full disk or a panic: neither an outage nor a server may quarantine every agent.
    ///
    /// ```
    /// use countersign_tool_gate::RejectionCode;
    /// assert!(RejectionCode::UndisclosedTool.is_conduct());
    /// assert!(!RejectionCode::StoreUnavailable.is_conduct());
    /// ```
    #[must_use]
    pub const fn is_conduct(self) -> bool {
        self.step() != 1
            && !matches!(
                self,
                Self::TooManyRequests
                    | Self::ToolDefinitionChanged
                    | Self::ToolDefinitionUnknown
                    | Self::AskExpired
                    | Self::ApprovalRequired
                    | Self::ApprovalsFull
                    | Self::StoreClockAhead
                    | Self::StoreTooNew
                    | Self::StoreUnavailable
                    | Self::AuditUnavailable
                    | Self::CallExpired
                    | Self::Internal
            )
    }
}

/// An [`Alarm`] that is replayed over the recorded entries about one agent.
///
/// ```
/// use countersign_audit_log::Record;
/// use countersign_tool_gate::{AlarmRule, AlarmState, ReplayedAlarm};
/// fn is_raised(entries: &[Record]) -> bool {
///     let mut alarm = ReplayedAlarm::new(AlarmRule::default());
///     entries.iter().fold(false, |_, entry| alarm.replay(entry) == AlarmState::Raised)
/// }
/// assert!(!is_raised(&[]));
/// ```
#[derive(Clone, Debug)]
pub struct ReplayedAlarm(AlarmReplay);

impl ReplayedAlarm {
    /// Builds an alarm without evidence.
    #[must_use]
    pub const fn new(rule: AlarmRule) -> Self {
        Self(AlarmReplay::new(rule))
    }

    /// Returns the alarm.
    #[must_use]
    pub const fn alarm(&self) -> &Alarm {
        self.0.alarm()
    }

    /// Takes a recorded entry into account as the gate did that recorded it: a decision about the agent, or its release
    /// from quarantine, which resets the alarm. Any other entry changes nothing.
    ///
    /// The agent of an entry is not checked: pass the entries of one agent, in their order. If several gates record the
    /// same release, only the first counts.
    pub fn replay(&mut self, entry: &Record) -> AlarmState {
        match fact_of(entry, |_| None) {
            Some(fact) => self.0.replay(&fact),
            None => self.alarm().state(),
        }
    }
}

/// Returns the agent that an entry is about, if replays count the entry.
pub(crate) const fn agent_of(entry: &Record) -> Option<&AgentId> {
    match entry {
        Record::Session(session) => Some(&session.agent),
        Record::Decision(call) => Some(&call.agent),
        Record::Refused(sum) => sum.agent.as_ref(),
        Record::Standing(change) => Some(&change.agent),
        Record::Outcome(_) | Record::Gateway(_) | Record::Recovered(_) | _ => None,
    }
}

/// Returns an entry about an agent in the form that replays count.
pub(crate) fn fact_of(entry: &Record, probe: impl FnOnce(&CallRecord) -> Option<Probe>) -> Option<AgentFact> {
    match entry {
        Record::Session(session) if session.code.is_none() && !session.renewed => {
            Some(AgentFact::Began(session.time))
        }
        Record::Decision(call) => {
            Some(AgentFact::Decided { time: call.time, accepted: accepted(call), probe: probe(call) })
        }
        Record::Refused(sum) if sum.agent.is_some() => {
            let rows = sum.rows.iter().filter(|row| is_conduct_row(row));
            let conduct = rows.map(|row| row.count).fold(0, u64::saturating_add);
            let (session, key) = (sum.session.clone(), sum.key());
            Some(AgentFact::Refused(RefusedFact { session, time: sum.time, to: sum.to, conduct, key }))
        }
        Record::Standing(change) => {
            let is_lifted = change.standing == StandingChange::Lifted;
            Some(AgentFact::Standing { time: change.time, is_lifted })
        }
        Record::Session(_)
        | Record::Refused(_)
        | Record::Outcome(_)
        | Record::Gateway(_)
        | Record::Recovered(_)
        | _ => None,
    }
}

/// Returns the probe of an answer; `None` if no signal counts it. `call` is the key of tool and arguments.
pub(crate) fn probe_of(
    refused: Option<RejectionCode>,
    has_approval: bool,
    call: impl FnOnce() -> Option<Digest>,
) -> Option<Probe> {
    match refused {
        None if has_approval => call().map(Probe::Approved),
        Some(RejectionCode::ApprovalRequired | RejectionCode::ApprovalsFull) => call().map(Probe::Asked),
        Some(RejectionCode::UndisclosedTool) => Some(Probe::Undisclosed),
        None | Some(_) => None,
    }
}

/// Returns the probe of a recorded decision.
pub(crate) fn probe_of_record(call: &CallRecord) -> Option<Probe> {
    if call.about_plan {
        return None;
    }
    let refused = match call.verdict {
        Verdict::Accept => None,
        Verdict::Reject => Some(RejectionCode::from_code(call.code.as_ref()?.as_str())?),
    };
    probe_of(refused, call.approval.is_some(), || {
        call.args.map(|args| call_key(call.tool.server.as_str(), call.tool.name.as_str(), args))
    })
}

/// Key of a call: a digest of tool and arguments.
pub(crate) fn call_key(server: &str, tool: &str, args: Digest) -> Digest {
    Digest::of_fields("countersign/asked-1", [server.as_bytes(), tool.as_bytes(), args.as_bytes()])
}

/// Returns `true` if the refusals of a row are conduct of the agent.
fn is_conduct_row(row: &RefusedRow) -> bool {
    !row.about_plan && RejectionCode::from_code(row.code.as_str()).is_some_and(RejectionCode::is_conduct)
}

/// Returns whether the call was accepted; `None` if the record is not a decision about the agent's conduct.
fn accepted(call: &CallRecord) -> Option<bool> {
    if call.about_plan {
        return None;
    }
    match call.verdict {
        Verdict::Accept => Some(true),
        Verdict::Reject => {
            let code = RejectionCode::from_code(call.code.as_ref()?.as_str())?;
            (code.is_conduct() && !call.waits).then_some(false)
        }
    }
}
