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

    /// Whether the refusal says something of what the agent does, so that an [`Alarm`](crate::Alarm) takes it for a decision
    /// about the agent.
    ///
    /// Step 1 is about whether it may call anything at all, and so is a goal that has expired; a call that waits is not decided;
    /// requests that are outstanding, and a definition that changed or is not known, are the server's or the host's doing, and so is a
    /// full disk or a panic:
    /// neither an outage nor a server must put every agent into quarantine.
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
    /// Takes an entry of a record into account as the gate did that put it there: a decision about the agent, or that it was
    /// let out of quarantine, which starts the alarm anew. Any other entry says nothing.
    ///
    /// Whose entry it is, is not looked at: give it those of one agent, in their order. Each of several gates puts on record
    /// that the agent was let out; the first counts.
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

    /// Takes the refusals of a sum into account that say something of the agent, until they raise the alarm.
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

/// Whether the refusals of a row are conduct of the agent.
fn is_conduct_row(row: &RefusedRow) -> bool {
    !row.about_plan && RejectionCode::from_code(row.code.as_str()).is_some_and(RejectionCode::is_conduct)
}

/// What a decision tells of its agent: whether its call was accepted. Nothing where it is no decision, or is not about what
/// the agent does.
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
