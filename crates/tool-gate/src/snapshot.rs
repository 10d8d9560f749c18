use countersign_audit_log::{Signal, StandingChange};
use countersign_core::{AgentId, Timestamp, ToolId};

use crate::alarm::{AlarmRule, AlarmState};
use crate::code::RejectionCode;
use crate::histogram::HistogramSnapshot;

/// Everything that is counted, at one moment, as plain data for whoever shows or exports it. It is made by
/// [`CallStats::snapshot`](crate::CallStats::snapshot).
///
/// Each set of counts adds up within itself. Between two of them a call that was being counted may be in the one and
/// not yet in the other.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StatsSnapshot {
    /// Over all agents.
    pub overall: CountsSnapshot,
    /// Every agent that a gate was opened for, in order.
    pub agents: Vec<AgentSnapshot>,
    /// Every tool that a session disclosed, or that was tried and is in the registry, in order.
    pub tools: Vec<(ToolId, CountsSnapshot)>,
    /// All names that are no tool of the registry, together.
    pub unknown_tools: CountsSnapshot,
    /// How long answers took; nothing where no [`Ticks`](crate::Ticks) were given.
    pub answer_time: Option<HistogramSnapshot>,
}

/// One agent's counts and how it stands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AgentSnapshot {
    /// The agent.
    pub agent: AgentId,
    /// Its counts over all its sessions.
    pub counts: CountsSnapshot,
    /// What the drop alarm says.
    pub alarm: AlarmState,
    /// How far its evidence has come, from 0 (none) to 1 (raised).
    pub alarm_level: f64,
    /// When it was raised.
    pub alarm_raised: Option<Timestamp>,
    /// By which rule.
    pub alarm_rule: AlarmRule,
    /// Whether it may call anything.
    pub standing: Standing,
    /// The signals that are raised, each with its time.
    pub signals: Vec<(Signal, Timestamp)>,
}

/// Whether an agent may call anything, as far as the alarm and the operators go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a third standing has to break every match")]
pub enum Standing {
    /// It may, as far as its session goes.
    Free,
    /// All its calls are refused until an operator lifts that.
    Quarantined,
}

impl Standing {
    /// How an agent stands after a change. What is no lift is a quarantine.
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

    /// Answers that were counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.accepted.saturating_add(self.rejected())
    }

    /// Calls that were accepted.
    #[must_use]
    pub const fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Calls that were not accepted, waiting ones included.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// How many calls were rejected with each code, in the order of the checks; codes that never were given are left
    /// out.
    #[must_use]
    pub fn rejected_by_code(&self) -> &[(RejectionCode, u64)] {
        &self.rejected
    }

    /// How many calls were rejected with this code.
    #[must_use]
    pub fn rejected_with(&self, code: RejectionCode) -> u64 {
        self.rejected.iter().find(|(given, _)| *given == code).map_or(0, |(_, count)| *count)
    }

    /// How often a call was told to wait for its approval. None of these is a decision.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.rejected_with(RejectionCode::ApprovalRequired)
    }

    /// Decisions that were made: all answers but those that told a call to wait.
    #[must_use]
    pub fn decided(&self) -> u64 {
        self.total().saturating_sub(self.pending())
    }

    /// The share of all decided calls that were accepted, 0 to 1; nothing before the first of them.
    #[must_use]
    pub fn acceptance_rate(&self) -> Option<f64> {
        share(self.accepted, self.decided())
    }

    /// The same over the last 1,024 decisions.
    #[must_use]
    pub fn recent_acceptance_rate(&self) -> Option<f64> {
        let (accepted, decided) = self.recent;
        share(accepted, decided)
    }
}

/// Share of accepted calls; `None` before the first decision.
pub(crate) fn share(accepted: u64, decided: u64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a ratio; counts above 2^53 are out of reach")]
    (decided > 0).then(|| accepted as f64 / decided as f64)
}
