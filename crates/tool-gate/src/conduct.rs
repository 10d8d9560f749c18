use countersign_audit_log::{
    CallRecord, Record, RefusedRecord, RefusedRow, SeenSums, StandingChange, Verdict,
};
use countersign_core::{SessionId, Timestamp};
use countersign_signals::{Alarm, AlarmRule, AlarmState};
use serde::{Deserialize, Serialize};

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
pub struct ReplayedAlarm {
    alarm: Alarm,
    /// Whether the last replayed change of the agent's standing was its release from quarantine.
    let_out: bool,
    /// Time of the record of its last release.
    lifted: Option<Timestamp>,
    /// Sessions of the sums replayed since then; at most 64.
    since: Vec<SessionId>,
    /// Sums that were replayed.
    sums: SeenSums,
}

/// Maximum number of sessions whose first sum after a release is compared with the release.
const MAX_SINCE: usize = 64;

/// Saved state of a [`ReplayedAlarm`], with its rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedAlarm {
    /// Weights of a rejected and an accepted call, threshold and evidence, in millionths of a nat.
    rejected: u64,
    accepted: u64,
    threshold: u64,
    score: u64,
    let_out: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    lifted: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    since: Vec<SessionId>,
    sums: SeenSums,
}

impl SavedAlarm {
    pub(crate) const fn has_same_rule(&self, other: &Self) -> bool {
        self.rejected == other.rejected
            && self.accepted == other.accepted
            && self.threshold == other.threshold
    }
}

impl ReplayedAlarm {
    /// Builds an alarm without evidence.
    #[must_use]
    pub const fn new(rule: AlarmRule) -> Self {
        let alarm = Alarm::new(rule);
        Self { alarm, let_out: false, lifted: None, since: Vec::new(), sums: SeenSums::new() }
    }

    /// Returns the alarm.
    #[must_use]
    pub const fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    /// Drops all evidence.
    pub(crate) const fn reset(&mut self) {
        self.alarm.reset();
    }

    /// Takes a recorded entry into account as the gate did that recorded it: a decision about the agent, or its release
    /// from quarantine, which resets the alarm. Any other entry changes nothing.
    ///
    /// The agent of an entry is not checked: pass the entries of one agent, in their order. If several gates record the
    /// same release, only the first counts.
    pub fn replay(&mut self, entry: &Record) -> AlarmState {
        match entry {
            Record::Decision(call) => {
                if let Some(accepted) = conduct(call) {
                    self.alarm.observe(accepted);
                }
            }
            Record::Refused(sum) => self.refused(sum),
            Record::Standing(change) => {
                self.stands(change.standing == StandingChange::Lifted, change.time);
            }
            Record::Session(_) | Record::Outcome(_) | Record::Gateway(_) | Record::Recovered(_) | _ => {}
        }
        self.alarm.state()
    }

    /// Takes a sum's refusals for the agent's conduct into account, until they raise the alarm.
    fn refused(&mut self, sum: &RefusedRecord) {
        if sum.agent.is_none() || !self.counts(sum) {
            return;
        }
        for row in sum.rows.iter().filter(|row| is_conduct_row(row)) {
            let mut left = row.count;
            while left > 0 && self.alarm.observe(false) == AlarmState::Steady {
                left = left.saturating_sub(1);
            }
        }
    }

    /// Takes a recorded change of the agent's standing into account.
    fn stands(&mut self, let_out: bool, time: Timestamp) {
        if let_out && !self.let_out {
            self.reset();
            self.lifted = Some(time);
            self.since.clear();
        }
        self.let_out = let_out;
    }

    /// Returns `true` if a sum counts. A sum does not count if it was replayed before, or if it covers only refusals
    /// from before the agent's release, which another gate may have recorded first.
    ///
    /// Only a session's first sum after the release can be from before it. Later ones count whatever their times: the
    /// clock may have been ahead at the release.
    fn counts(&mut self, sum: &RefusedRecord) -> bool {
        let is_first = self.since.len() < MAX_SINCE && !self.since.contains(&sum.session);
        let was_over = is_first && self.lifted.is_some_and(|lifted| sum.to < lifted);
        if is_first && self.lifted.is_some() {
            self.since.push(sum.session.clone());
        }
        self.sums.is_new(sum) && !was_over
    }

    pub(crate) fn save(&self) -> SavedAlarm {
        let [rejected, accepted, threshold] = self.alarm.rule().weights();
        SavedAlarm {
            rejected,
            accepted,
            threshold,
            score: self.alarm.score(),
            let_out: self.let_out,
            lifted: self.lifted,
            since: self.since.clone(),
            sums: self.sums.clone(),
        }
    }

    /// Restores an alarm of this rule from its saved state; `None` if it was saved under another rule.
    pub(crate) fn resumed(&self, saved: &SavedAlarm) -> Option<Self> {
        let SavedAlarm { score, let_out, lifted, ref since, ref sums, .. } = *saved;
        let alarm = Alarm::with_score(*self.alarm.rule(), score)?;
        let resumed = Self { alarm, let_out, lifted, since: since.clone(), sums: sums.clone() };
        (resumed.save() == *saved).then_some(resumed)
    }
}

/// Returns `true` if the refusals of a row are conduct of the agent.
fn is_conduct_row(row: &RefusedRow) -> bool {
    !row.about_plan && RejectionCode::from_code(row.code.as_str()).is_some_and(RejectionCode::is_conduct)
}

/// Returns whether the call was accepted; `None` if the record is not a decision about the agent's conduct.
fn conduct(call: &CallRecord) -> Option<bool> {
    if call.about_plan {
        return None;
    }
    match call.verdict {
        Verdict::Accept => Some(true),
        Verdict::Reject => {
            let code = RejectionCode::from_code(call.code.as_ref()?.as_str())?;
            code.is_conduct().then_some(false)
        }
    }
}
