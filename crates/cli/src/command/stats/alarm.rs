use clap::Args;
use countersign_audit_log::{CallRecord, Record, StandingChange};
use countersign_core::Timestamp;
use countersign_tool_gate::{AlarmRule, AlarmState, RejectionCode, ReplayedAlarm};
use serde::Serialize;

use crate::failure::Failure;

/// The rule of the drop alarm.
#[derive(Debug, Args)]
pub(super) struct RuleArgs {
    /// Accepted share of a good agent's calls.
    #[arg(long, value_name = "SHARE", default_value_t = AlarmRule::default().baseline())]
    baseline: f64,
    /// The share to which it drops when something is wrong.
    #[arg(long, value_name = "SHARE", default_value_t = AlarmRule::default().dropped())]
    dropped: f64,
    /// Decisions of a good agent per allowed false alarm.
    #[arg(long, value_name = "N", default_value_t = AlarmRule::default().decisions())]
    decisions: u64,
}

impl RuleArgs {
    pub(super) fn rule(&self) -> Result<AlarmRule, Failure> {
        AlarmRule::new(self.baseline, self.dropped, self.decisions)
            .map_err(|error| Failure::usage(error.to_string()))
    }
}

/// Replays the gate's own alarm over one agent's recorded decisions.
#[derive(Debug)]
pub(super) struct Replay {
    alarm: ReplayedAlarm,
    raised: Option<Raised>,
    times: u64,
    /// Last change of the agent's standing.
    standing: Option<StandingChange>,
}

/// The last time that the alarm was raised.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Raised {
    pub(super) time: Timestamp,
    pub(super) seq: u64,
}

/// Result of a [`Replay`].
#[derive(Debug, Serialize)]
pub(super) struct ReplayResult {
    /// From 0 (no evidence of a drop) to 1 (raised).
    pub(super) level: f64,
    pub(super) raised: Option<Raised>,
    /// Number of times that it was raised.
    times: u64,
    /// `true` if the last entry about the agent's standing is a quarantine.
    pub(super) quarantined: bool,
}

impl Replay {
    pub(super) const fn new(rule: AlarmRule) -> Self {
        Self { alarm: ReplayedAlarm::new(rule), raised: None, times: 0, standing: None }
    }

    /// Replays an entry about the agent.
    pub(super) fn add(&mut self, seq: u64, entry: &Record) {
        match (self.alarm.replay(entry), self.raised) {
            (AlarmState::Raised, None) => {
                self.raised = Some(Raised { time: entry.time(), seq });
                self.times = self.times.saturating_add(1);
            }
            (AlarmState::Steady, _) => self.raised = None,
            (AlarmState::Raised, Some(_)) => {}
        }
        if let Record::Standing(change) = entry {
            self.standing = Some(change.standing);
        }
    }

    pub(super) fn found(&self) -> ReplayResult {
        ReplayResult {
            level: self.alarm.alarm().level(),
            raised: self.raised,
            times: self.times,
            quarantined: self.standing == Some(StandingChange::Quarantined),
        }
    }
}

/// Returns the code of a refusal, if this version knows it.
pub(super) fn code_of(call: &CallRecord) -> Option<RejectionCode> {
    RejectionCode::from_code(call.code.as_ref()?.as_str())
}
