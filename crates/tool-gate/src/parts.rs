use crate::findings::Findings;
use crate::plan::RunningPlan;
use crate::progress::GateProgress;
use crate::recorder::GateRecorder;
use crate::terms::{GateTerms, InForce};

/// The three parts of a session's gate.
pub(crate) struct GateParts {
    pub(crate) terms: GateTerms,
    pub(crate) progress: GateProgress,
    pub(crate) recorder: GateRecorder,
}

impl std::fmt::Debug for GateParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolGate")
            .field("session", &self.terms.session)
            .field("agent", &self.terms.agent)
            .finish_non_exhaustive()
    }
}

impl GateParts {
    /// Starts the findings about one call, decided under these terms.
    pub(crate) fn findings(&self, in_force: &InForce) -> Findings {
        let version = in_force.contract.registry_version();
        let plan = self.progress.plan.get().map(RunningPlan::root);
        Findings::new(&self.terms, self.progress.clock.latest(), version, plan)
    }
}
