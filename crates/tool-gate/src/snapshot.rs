use countersign_audit_log::{Signal, StandingChange};
use countersign_core::{AgentId, Timestamp, ToolId};

use crate::code::RejectionCode;
use crate::histogram::HistogramSnapshot;
use countersign_signals::{AlarmRule, AlarmState};

/// All counts at one moment, as plain data for display and export. Made by
/// [`CallStats::snapshot`](crate::CallStats::snapshot).
///
/// The numbers within each set of counts add up. A call that was being counted may be in one set and not yet in
/// another.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StatsSnapshot {
    /// Counts over all agents.
    pub overall: CountsSnapshot,
    /// Every agent for which a gate was opened, in order.
    pub agents: Vec<AgentSnapshot>,
    /// Every tool that a session disclosed, or that was tried and is in the registry, in order.
    pub tools: Vec<(ToolId, CountsSnapshot)>,
    /// All names that the registry does not list, together.
    pub unknown_tools: CountsSnapshot,
    /// Answer times; `None` without [`Ticks`](crate::Ticks).
    pub answer_time: Option<HistogramSnapshot>,
}

/// Counts and standing of one agent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AgentSnapshot {
    /// The agent.
    pub agent: AgentId,
    /// Counts over all its sessions.
    pub counts: CountsSnapshot,
    /// State of its drop alarm.
    pub alarm: AlarmState,
    /// Evidence of the alarm as a share of its threshold, from 0 (none) to 1 (raised).
    pub alarm_level: f64,
    /// Time at which the alarm was raised.
    pub alarm_raised: Option<Timestamp>,
    /// Rule of the alarm.
    pub alarm_rule: AlarmRule,
    /// Whether the agent may call at all.
    pub standing: Standing,
    /// Raised signals, each with its time.
    pub signals: Vec<(Signal, Timestamp)>,
}

/// Whether alarm and operators let an agent call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a third standing has to break every match")]
pub enum Standing {
    /// The agent may call, within the limits of its session.
    Free,
    /// All its calls are refused until an operator lifts the quarantine.
    Quarantined,
}

impl Standing {
    /// Returns an agent's standing after a change. Every change except a lift is a quarantine.
    #[must_use]
    pub fn after(change: StandingChange) -> Self {
        if change == StandingChange::Lifted { Self::Free } else { Self::Quarantined }
    }
}

/// One row of [`Counts`](crate::Counts) at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountsSnapshot {
    accepted: u64,
    rejected: Vec<(RejectionCode, u64)>,
    recent: (u64, u64),
}

impl CountsSnapshot {
    pub(crate) const fn new(accepted: u64, rejected: Vec<(RejectionCode, u64)>, recent: (u64, u64)) -> Self {
        Self { accepted, rejected, recent }
    }

    /// Returns the number of answers.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.accepted.saturating_add(self.rejected())
    }

    /// Returns the number of accepted calls.
    #[must_use]
    pub const fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns the number of calls that were not accepted, including waiting ones.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Returns how many calls were rejected with each code, in the order of the checks; codes without rejections are
    /// left out.
    #[must_use]
    pub fn rejected_by_code(&self) -> &[(RejectionCode, u64)] {
        &self.rejected
    }

    /// Returns the number of calls that were rejected with this code.
    #[must_use]
    pub fn rejected_with(&self, code: RejectionCode) -> u64 {
        self.rejected.iter().find(|(given, _)| *given == code).map_or(0, |(_, count)| *count)
    }

    /// Returns how many answers made a call wait for its approval. None of these is a decision.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.rejected_with(RejectionCode::ApprovalRequired)
    }

    /// Returns the number of decisions: all answers except those that made a call wait.
    #[must_use]
    pub fn decided(&self) -> u64 {
        self.total().saturating_sub(self.pending())
    }

    /// Returns the share of decided calls that were accepted, 0 to 1; `None` before the first decision.
    #[must_use]
    pub fn acceptance_rate(&self) -> Option<f64> {
        share(self.accepted, self.decided())
    }

    /// Returns the share over the last 1,024 decisions.
    #[must_use]
    pub fn recent_acceptance_rate(&self) -> Option<f64> {
        let (accepted, decided) = self.recent;
        share(accepted, decided)
    }
}

/// Returns the share of accepted calls; `None` before the first decision.
pub(crate) fn share(accepted: u64, decided: u64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a ratio; counts above 2^53 are out of reach")]
    (decided > 0).then(|| accepted as f64 / decided as f64)
}
