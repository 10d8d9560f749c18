use std::fmt;

use crate::breach::{OnBreach, PlanBreach};
use crate::commit::CommittedPlan;
use crate::error::{FinishError, PlanUseError};
use crate::header::{PlanContext, is_linked};
use crate::progress::Progress;
use crate::step::Step;
use crate::trace::{TraceStep, VerifiedTrace};
use crate::turn::{PlannedCall, StepCall, StepRun, Turn};

/// A plan that an amendment replaced.
pub(crate) struct Amended {
    pub(crate) plan: CommittedPlan,
    /// Number of its steps that ran.
    pub(crate) position: u64,
}

/// One accepted call.
struct Run<O> {
    turn: Turn,
    outcome: Option<(O, u64)>,
}

/// The execution of a committed plan, call by call. `O` is the recorded result of a tool.
///
/// Order: a step's first call comes after the first call of the step before it, and no call of a step comes after a
/// call of a later step. Counts: a step has at least one call and at most
/// [`Step::max_calls`](crate::Step::max_calls).
///
/// The first refused call halts the plan, unless [`on_breach`](Self::on_breach) allows more, and every call after a
/// halt is refused. Two refusals do not count as breaches, because the caller does not cause them: a call under
/// another registry than the plan's, and a call while another one is being decided.
///
/// ```
/// # use countersign_canonical_json::{Limits, Recipe, read};
/// # use countersign_committed_plan::{OpenPlace, Plan, PlanContext, PlanContract, PlanCursor, Step, StepCall};
/// # use countersign_core::{Digest, SessionId, ToolId};
/// # struct All;
/// # impl PlanContract for All {
/// #     fn discloses(&self, _: &ToolId) -> bool { true }
/// #     fn is_data(&self, _: &ToolId, _: &OpenPlace) -> bool { true }
/// #     fn fits(&self, _: &Step) -> bool { true }
/// # }
/// let context = PlanContext::new(Digest::of(b"goal"), SessionId::new("s-1")?, 7)?;
/// let send = ToolId::new("mail", "send")?;
/// let steps = vec![Step::new(send.clone(), br#"{"to":"bob@example.com"}"#, &["/body"])?];
/// let mut cursor = PlanCursor::start(Plan::new(context.clone(), steps)?.commit(&All)?, &context)?;
///
/// let args = read(br#"{"to":"bob@example.com","body":"hello"}"#, Recipe::Jcs1, &Limits::default())?;
/// let planned = cursor.check(&StepCall::new(&send, &args, 7))?;
/// let run = cursor.accept(planned)?;
/// cursor.observe(run, "sent", 41)?;
/// let trace = cursor.finish()?;
/// assert_eq!(trace.steps()[0].observation(), &"sent");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PlanCursor<O> {
    pub(crate) plan: CommittedPlan,
    pub(crate) amended: Vec<Amended>,
    pub(crate) progress: Progress,
    runs: Vec<Run<O>>,
    /// Index of the step that was verified last; 0 before the first.
    pub(crate) verified: u64,
    /// Buffer for the leaf of the step that is checked.
    leaf: String,
}

impl<O> PlanCursor<O> {
    /// Starts a plan at its first step.
    ///
    /// # Errors
    /// [`PlanUseError`] if the plan is for another session, goal or registry, or is an amendment.
    pub fn start(plan: CommittedPlan, context: &PlanContext) -> Result<Self, PlanUseError> {
        plan.header().check(context)?;
        if plan.header().amends().is_some() {
            return Err(PlanUseError::Link);
        }
        let (amended, runs) = (Vec::new(), Vec::new());
        Ok(Self { plan, amended, progress: Progress::default(), runs, verified: 0, leaf: String::new() })
    }

    /// Sets the response to a call that is not the plan's next one. By default the first such call halts the plan.
    #[must_use]
    pub fn on_breach(mut self, on_breach: OnBreach) -> Self {
        self.progress.set_on_breach(on_breach);
        self
    }

    /// Checks that a call is the plan's next one and acquires its step. Only [`accept`](Self::accept) advances the
    /// plan.
    ///
    /// A step is verified against the root before it is compared with a call for the first time.
    ///
    /// # Errors
    /// [`PlanBreach`], which counts as a breach ([`OnBreach`]) except in the two cases named at [`PlanCursor`].
    pub fn check(&mut self, call: &StepCall<'_>) -> Result<PlannedCall, PlanBreach> {
        self.progress.is_open(self.plan.header(), call)?;
        let mut leaf = std::mem::take(&mut self.leaf);
        let found = call.named(self.plan.root(), &mut leaf).and_then(|named| match named {
            Some(step) => self.named(step, call, &mut leaf).map(|()| step),
            None => self.fitting(call, &mut leaf),
        });
        self.leaf = leaf;
        self.progress.hold(*self.plan.root(), found, call)
    }

    /// Checks that the step named by the caller is the next one and matches the call.
    fn named(&mut self, step: u64, call: &StepCall<'_>, leaf: &mut String) -> Result<(), PlanBreach> {
        let next = self.progress.position().saturating_add(1);
        if step > self.plan.header().steps() {
            let ended = next > self.plan.header().steps();
            return Err(if ended {
                PlanBreach::Exhausted { reason: "ended" }
            } else {
                PlanBreach::OutOfOrder { reason: "unknown-step" }
            });
        }
        if step == 0 {
            return Err(PlanBreach::OutOfOrder { reason: "unknown-step" });
        }
        if step < self.progress.position() {
            return Err(PlanBreach::OutOfOrder { reason: "behind" });
        }
        if step > next {
            return Err(PlanBreach::OutOfOrder { reason: "skipped" });
        }
        if step == self.progress.position() && !self.repeats() {
            return Err(PlanBreach::Exhausted { reason: "count" });
        }
        self.admits(step, call, leaf)
    }

    /// Finds the next step that matches the call: the current one while it has calls left, then the one after it.
    fn fitting(&mut self, call: &StepCall<'_>, leaf: &mut String) -> Result<u64, PlanBreach> {
        let mut found = Err(PlanBreach::Exhausted { reason: "ended" });
        if self.repeats() {
            let current = self.progress.position();
            found = self.admits(current, call, leaf).map(|()| current);
        }
        let next = self.progress.position().saturating_add(1);
        if found.is_err() && next <= self.plan.header().steps() {
            found = self.admits(next, call, leaf).map(|()| next);
        }
        found.map_err(|breach| self.explain(breach, call))
    }

    /// Returns whether the current step has calls left.
    fn repeats(&self) -> bool {
        self.plan.step(self.progress.position()).is_some_and(|step| self.progress.used() < step.max_calls())
    }

    fn admits(&mut self, index: u64, call: &StepCall<'_>, leaf: &mut String) -> Result<(), PlanBreach> {
        // why: a plan in memory does not change, and a step can have many calls.
        if self.verified != index {
            self.plan.holds(index, leaf)?;
            self.verified = index;
        }
        let step = self.plan.step(index).ok_or(PlanBreach::StepMismatch { reason: "leaf" })?;
        step.admit(call.tool, call.args)
    }

    /// Distinguishes a call of another step from one that matches no step of the plan. The search through all steps is
    /// affordable, because each one counts as a breach.
    fn explain(&self, breach: PlanBreach, call: &StepCall<'_>) -> PlanBreach {
        if breach.reason() == "leaf" {
            return breach;
        }
        let fits = |step: &Step| step.admit(call.tool, call.args).is_ok();
        if self.plan.step(self.progress.position()).is_some_and(fits) {
            return PlanBreach::Exhausted { reason: "count" };
        }
        match (1..).zip(self.plan.steps()).find(|(_, step)| fits(step)) {
            Some((step, _)) if step < self.progress.position() => PlanBreach::OutOfOrder { reason: "behind" },
            Some(_) => PlanBreach::OutOfOrder { reason: "skipped" },
            None => breach,
        }
    }

    /// Advances the plan by an accepted call and releases the step.
    ///
    /// # Errors
    /// [`PlanBreach::Halted`] if the plan was [halted](Self::halt) since [`check`](Self::check);
    /// [`PlanBreach::OutOfOrder`] if the call is another cursor's.
    #[expect(clippy::needless_pass_by_value, reason = "consumes the claim on the step")]
    pub fn accept(&mut self, planned: PlannedCall) -> Result<StepRun, PlanBreach> {
        let turn = planned.turn;
        self.progress.accept(&turn)?;
        self.runs.push(Run { turn, outcome: None });
        Ok(StepRun { turn })
    }

    /// Releases the step of a call that a later check refused. The plan's position is unchanged.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    #[expect(clippy::needless_pass_by_value, reason = "consumes the claim on the step")]
    pub fn give_back(&mut self, planned: PlannedCall) -> Result<(), PlanBreach> {
        self.progress.release(&planned.turn)
    }

    /// Halts the plan like a breach. `reason` is the caller's own, such as `by-host`.
    ///
    /// # Errors
    /// The first [`PlanBreach`] if the plan was halted before.
    pub fn halt(&mut self, reason: &'static str) -> Result<(), PlanBreach> {
        self.progress.halt(PlanBreach::Halted { reason })
    }

    /// Stores the result of an accepted call and the number of its record. Results are inaccessible until
    /// [`finish`](Self::finish).
    ///
    /// # Errors
    /// [`PlanBreach::OutOfOrder`] if the call is another cursor's or has a result.
    #[expect(clippy::needless_pass_by_value, reason = "a call has one outcome")]
    pub fn observe(&mut self, run: StepRun, observation: O, record: u64) -> Result<(), PlanBreach> {
        let place = self.runs.iter_mut().rev().find(|place| place.turn == run.turn);
        match place {
            Some(place) if place.outcome.is_none() => {
                place.outcome = Some((observation, record));
                Ok(())
            }
            Some(_) | None => Err(PlanBreach::OutOfOrder { reason: "other-turn" }),
        }
    }

    /// Checks whether [`finish`](Self::finish) would return the trace, except for the comparison of roots.
    ///
    /// # Errors
    /// [`FinishError`] with the first obstacle.
    pub fn is_complete(&self) -> Result<(), FinishError> {
        if self.progress.halted().is_some() {
            return Err(FinishError::Halted);
        }
        if self.progress.is_held() {
            return Err(FinishError::Busy);
        }
        if self.progress.position() != self.plan.header().steps() {
            return Err(FinishError::Incomplete);
        }
        if self.runs.iter().any(|run| run.outcome.is_none()) {
            return Err(FinishError::OutcomeMissing);
        }
        Ok(())
    }

    /// Ends the plan: recomputes the root of the plan and of each amendment from their steps and returns the trace if
    /// every step has run. On an error the results are lost with the cursor; call [`is_complete`](Self::is_complete)
    /// first.
    ///
    /// # Errors
    /// [`FinishError`] if the plan was halted, is incomplete, or its root differs.
    pub fn finish(self) -> Result<VerifiedTrace<O>, FinishError> {
        self.is_complete()?;
        self.is_whole()?;
        let Self { plan, amended, runs, .. } = self;
        let plans: Vec<&CommittedPlan> = amended.iter().map(|old| &old.plan).chain([&plan]).collect();
        let steps = runs.into_iter().map(|run| {
            // A plan may be amended before any of its steps ran. Roots are distinct, because each amendment names the
            // one before it.
            let plan = plans.iter().find(|plan| *plan.root() == run.turn.root);
            let step = plan.and_then(|plan| plan.step(run.turn.index)).ok_or(FinishError::Root)?;
            let (observation, record) = run.outcome.ok_or(FinishError::OutcomeMissing)?;
            Ok(TraceStep {
                root: run.turn.root,
                index: run.turn.index,
                tool: step.tool().clone(),
                description: step.description().map(Into::into),
                args: run.turn.args,
                observation,
                record,
            })
        });
        let steps = steps.collect::<Result<_, _>>()?;
        Ok(VerifiedTrace::new(plans.into_iter().map(|plan| *plan.root()).collect(), steps))
    }

    /// Checks the root of every plan and the link of every amendment.
    fn is_whole(&self) -> Result<(), FinishError> {
        let later = self.amended.iter().skip(1).map(|old| &old.plan).chain([&self.plan]);
        let linked = self
            .amended
            .iter()
            .zip(later)
            .all(|(old, new)| is_linked(new.header(), old.plan.root(), old.position));
        let whole = self.amended.iter().all(|old| old.plan.is_whole()) && self.plan.is_whole();
        if linked && whole { Ok(()) } else { Err(FinishError::Root) }
    }

    /// The running plan: the one that was started, or the last amendment.
    #[must_use]
    pub const fn plan(&self) -> &CommittedPlan {
        &self.plan
    }

    /// Index of the last step that ran, from 1; 0 before the first. An amendment must name it.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.progress.position()
    }

    /// The breach that halted the plan.
    #[must_use]
    pub const fn halted(&self) -> Option<PlanBreach> {
        self.progress.halted()
    }
}

/// Shows the position, never results.
impl<O> fmt::Debug for PlanCursor<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanCursor")
            .field("root", self.plan.root())
            .field("position", &self.progress.position())
            .field("used", &self.progress.used())
            .field("runs", &self.runs.len())
            .field("amended", &self.amended.len())
            .field("halted", &self.progress.halted())
            .finish_non_exhaustive()
    }
}
