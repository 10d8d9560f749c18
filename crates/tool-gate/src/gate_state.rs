//! Queries of a gate: its session, its counts, its plan.

use std::sync::Arc;

use countersign_audit_log::CallRecord;
use countersign_committed_plan::{OnBreach, PlanRoot};
use countersign_core::Principal;
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{CapabilityRegistry, SessionContract};

use crate::counts::{Counts, Window};
use crate::gate::ToolGate;
use crate::plan::RunningPlan;
use crate::recent_answers::UndisclosedAttempts;
use crate::stats::CallStats;

impl ToolGate {
    /// Returns the session's contract: the last one, if it was [renewed](Self::renew).
    #[must_use]
    pub fn contract(&self) -> Arc<SessionContract> {
        Arc::clone(&self.parts().progress.in_force().contract)
    }

    /// Returns the session's pinned goal.
    #[must_use]
    pub fn pinned_ask(&self) -> Option<Arc<PinnedAsk>> {
        self.parts().progress.in_force().ask.clone()
    }

    /// Returns the registry that the gate reads at every call.
    #[must_use]
    pub fn registry(&self) -> &Arc<CapabilityRegistry> {
        &self.parts().terms.registry
    }

    /// Returns the principal of the session.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.parts().terms.principal
    }

    /// Returns whether the gate judges action proposals ([`ToolGateBuilder::proposals`](crate::ToolGateBuilder::proposals)).
    #[must_use]
    pub fn takes_proposals(&self) -> bool {
        self.parts().terms.proposals.is_some()
    }

    /// Returns this session's counts.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.parts().recorder.rows.session
    }

    /// Returns the statistics that this gate shares with others: counts over all agents, per agent and per tool, alarms
    /// and quarantines.
    #[must_use]
    pub fn stats(&self) -> &Arc<CallStats> {
        &self.parts().recorder.rows.stats
    }

    /// Returns the share of this session's decided calls that were accepted; `None` before the first decision.
    #[must_use]
    pub fn acceptance_rate(&self, window: Window) -> Option<f64> {
        self.counts().acceptance_rate(window)
    }

    /// Returns the agent's attempts to call tools that its session does not disclose.
    #[must_use]
    pub fn attempted_undisclosed(&self) -> UndisclosedAttempts {
        self.parts().recorder.attempted_undisclosed()
    }

    /// Returns the last decisions, oldest first, accepted and rejected, without values of arguments.
    #[must_use]
    pub fn call_log(&self) -> Vec<CallRecord> {
        self.parts().recorder.recent_records()
    }

    /// Returns the root of the plan that the gate enforces: that of its last amendment, if it was amended.
    #[must_use]
    pub fn plan_root(&self) -> Option<PlanRoot> {
        self.parts().progress.plan.get().map(RunningPlan::root)
    }

    /// Returns the response to a call that is not the plan's next one.
    #[must_use]
    pub fn on_breach(&self) -> OnBreach {
        self.parts().terms.on_breach
    }

    /// Returns the last step of the plan, or of its last amendment, that has run, from 1 on; 0 before the first. An
    /// amendment names it beside the root. `None` if no plan is under way.
    #[must_use]
    pub fn plan_position(&self) -> Option<u64> {
        self.parts().progress.plan.get().and_then(RunningPlan::position)
    }
}
