use countersign_audit_log::{CallRecord, Record, RefusedRecord, RefusedRow, StandingChange, Verdict};

use crate::alarm::{Alarm, AlarmState};
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

impl Alarm {
    /// Takes a recorded entry into account as the gate did that recorded it: a decision about the agent, or its release
    /// from quarantine, which resets the alarm. Any other entry changes nothing.
    ///
    /// The agent of an entry is not checked: pass the entries of one agent, in their order. If several gates record the
    /// same release, only the first counts.
    pub fn replay(&mut self, entry: &Record) -> AlarmState {
        match entry {
            Record::Decision(call) => {
                if let Some(accepted) = conduct(call) {
                    self.observe(accepted);
                }
            }
            Record::Refused(sum) => self.refused(sum),
            Record::Standing(change) => {
                self.stands(change.standing == StandingChange::Lifted, change.time);
            }
            Record::Session(_) | Record::Outcome(_) | Record::Gateway(_) | Record::Recovered(_) | _ => {}
        }
        self.state()
    }

    /// Takes a sum's refusals for the agent's conduct into account, until they raise the alarm.
    fn refused(&mut self, sum: &RefusedRecord) {
        if sum.agent.is_none() || !self.counts(sum) {
            return;
        }
        for row in sum.rows.iter().filter(|row| is_conduct_row(row)) {
            let mut left = row.count;
            while left > 0 && self.observe(false) == AlarmState::Steady {
                left = left.saturating_sub(1);
            }
        }
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
