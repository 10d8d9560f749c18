use countersign_committed_plan::{CommittedPlan, PlanRoot, VerifiedStep, VerifiedTrace};
use countersign_tool_gate::{
    AcceptedCall, FinishPlanError, HaltPlanError, PlanSettings, Rejection, StartPlanError, ToolCall, ToolGate,
};

use crate::error::RunError;

/// Reason recorded for a halt if the run neither ended nor failed: its future was dropped, or a participant panicked.
const DROPPED: &str = "RUN_DROPPED";

/// Starts a plan at a gate, and halts it unless the run reaches the plan's end, so that no holder of a clone of the gate can
/// continue it. A plan that was amended meanwhile is a different plan with its own approval, and is left alone.
///
/// With [`StartedPlan`], it runs a plan that is given, with calls that are given: no model is asked. [`PlanRunner`](crate::PlanRunner)
/// runs the plans of models by the same steps.
///
/// ```
/// use countersign_committed_plan::{CommittedPlan, Plan, VerifiedTrace};
/// use countersign_plan_runner::PlanWatch;
/// use countersign_tool_gate::{PlanSettings, ToolCall, ToolGate};
///
/// /// Runs a plan without open arguments, one call for each step.
/// fn run(
///     gate: &ToolGate,
///     plan: Plan,
///     committed: CommittedPlan,
///     tool: fn(&[u8]) -> std::io::Result<Vec<u8>>,
/// ) -> Result<VerifiedTrace<Vec<u8>>, Box<dyn std::error::Error>> {
///     let mut watch = PlanWatch::new(gate);
///     let mut started = watch.start(committed, PlanSettings::new(plan))?;
///     while let Some(step) = started.next_step()? {
///         let (id, step) = (format!("step-{}", step.index()), step.step().clone());
///         let (server, name) = (step.tool().server().as_str(), step.tool().name().as_str());
///         let call = ToolCall::new(&id, server, name, step.args().as_str().as_bytes());
///         started.check(call)?.run_step(|args| tool(args.as_str().as_bytes()))?;
///         started.end_step();
///     }
///     Ok(started.finish()?)
/// }
/// ```
#[derive(Debug)]
#[must_use]
pub struct PlanWatch<'g> {
    gate: &'g ToolGate,
    started: Option<PlanRoot>,
}

impl<'g> PlanWatch<'g> {
    /// Creates a watch without a plan.
    pub const fn new(gate: &'g ToolGate) -> Self {
        Self { gate, started: None }
    }

    /// Starts the plan of the settings, with their approval. `plan` is the same plan as it was committed: its proofs verify
    /// under the root that the gate computes, or no step runs.
    ///
    /// # Errors
    /// [`StartPlanError`], as [`ToolGate::start_plan`].
    pub fn start(
        &mut self,
        plan: CommittedPlan,
        settings: PlanSettings,
    ) -> Result<StartedPlan<'g>, StartPlanError> {
        let root = self.gate.start_plan(settings)?;
        self.started = Some(root);
        Ok(StartedPlan { gate: self.gate, plan, root, step: None, position: 1, calls: 0, is_over: false })
    }

    /// Ends a run that failed with this code, and halts the plan that it started. Before a start, it does nothing.
    ///
    /// # Errors
    /// [`HaltPlanError`] if the halt cannot be recorded; the plan is halted all the same.
    pub fn fail(mut self, code: &str) -> Result<(), HaltPlanError> {
        self.halt(code)
    }

    fn halt(&mut self, why: &str) -> Result<(), HaltPlanError> {
        match self.started.take() {
            Some(started) if self.gate.plan_root() == Some(started) => match self.gate.halt_plan(why) {
                // The plan's trace was returned already.
                Err(HaltPlanError::NoPlan) => Ok(()),
                halted => halted,
            },
            _ => Ok(()),
        }
    }
}

impl Drop for PlanWatch<'_> {
    fn drop(&mut self) {
        // A halt is effective even if it cannot be recorded.
        let _halted = self.halt(DROPPED);
    }
}

/// The machine of a started plan: its steps come in order, each verified against the root of the plan that the gate runs now.
/// Made by [`PlanWatch::start`].
#[derive(Debug)]
pub struct StartedPlan<'g> {
    gate: &'g ToolGate,
    plan: CommittedPlan,
    root: PlanRoot,
    /// The current step as it was verified, once it was.
    step: Option<VerifiedStep>,
    position: u64,
    /// Number of accepted calls of the current step.
    calls: u32,
    /// The current step was ended.
    is_over: bool,
}

impl StartedPlan<'_> {
    /// The plan's root.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        &self.root
    }

    /// The committed plan.
    #[must_use]
    pub const fn plan(&self) -> &CommittedPlan {
        &self.plan
    }

    /// Number of the current step, from 1 on.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// The current step as it was verified; `None` before the first.
    #[must_use]
    pub const fn step(&self) -> Option<&VerifiedStep> {
        self.step.as_ref()
    }

    /// Number of accepted calls of the current step.
    #[must_use]
    pub const fn calls(&self) -> u32 {
        self.calls
    }

    /// Number of the step that the next call belongs to; `None` if every step has had its calls.
    #[must_use]
    pub fn upcoming(&self) -> Option<u64> {
        let is_full = self.step.as_ref().is_some_and(|step| self.calls >= step.step().max_calls());
        let next = self.position.saturating_add(u64::from(self.is_over || is_full));
        (next <= self.plan.header().steps()).then_some(next)
    }

    /// Goes to the step that the next call belongs to, and verifies it; returns `None` if every step has had its calls.
    ///
    /// # Errors
    /// [`RunError::PlanChanged`] unless the gate's plan has this step.
    pub fn next_step(&mut self) -> Result<Option<&VerifiedStep>, RunError> {
        let Some(step) = self.upcoming() else { return Ok(None) };
        if step != self.position {
            (self.position, self.calls, self.is_over) = (step, 0, false);
        }
        // The proof fails under another root, so one check covers a changed leaf and a changed plan.
        let proof = self.plan.prove_step(step).zip(self.gate.plan_root());
        let verified = proof.and_then(|(proof, root)| proof.verify(&root).ok());
        let verified = verified.ok_or(RunError::PlanChanged { step })?;
        Ok(Some(self.step.insert(verified)))
    }

    /// Submits a call of the step that [`next_step`](Self::next_step) returned last. A call before the first step, or behind
    /// a step's last call, is one out of the plan's order: the gate refuses it, and by default halts the plan.
    ///
    /// INVARIANT: the gate receives the call's own tool and arguments, and the current step. It compares them with the plan.
    ///
    /// # Errors
    /// The gate's [`Rejection`].
    pub fn check(&mut self, call: ToolCall<'_>) -> Result<AcceptedCall, Rejection> {
        let accepted = self.gate.check(&call.plan_step(self.position))?;
        self.calls = self.calls.saturating_add(1);
        Ok(accepted)
    }

    /// Ends the current step; the next call belongs to the step behind it.
    pub const fn end_step(&mut self) {
        self.is_over = true;
    }

    /// Ends the plan: the gate recomputes the root and returns the trace.
    ///
    /// # Errors
    /// [`FinishPlanError`], as [`ToolGate::finish_plan`].
    pub fn finish(self) -> Result<VerifiedTrace<Vec<u8>>, FinishPlanError> {
        self.gate.finish_plan()
    }
}
