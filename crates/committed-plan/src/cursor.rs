use std::fmt;

use crate::admit::admit;
use crate::amend::{Amended, is_linked};
use crate::breach::PlanBreach;
use crate::commit::CommittedPlan;
use crate::cursor_error::{FinishError, PlanUseError};
use crate::header::PlanContext;
use crate::on_breach::OnBreach;
use crate::progress::Progress;
use crate::step::Step;
use crate::trace::{TraceStep, VerifiedTrace};
use crate::turn::{PlannedCall, StepCall, StepRun, Turn};

/// One accepted call.
struct Run<O> {
    turn: Turn,
    outcome: Option<(O, u64)>,
}

/// Walks through a committed plan, call by call. `O` is what is kept of a tool's result.
///
/// Order: a step's first call comes after the first call of the step before it, and no call of a step comes after a later
/// step's. Counts: a step has one call at least and [`Step::max_calls`](crate::Step::max_calls) at most. The first call that is refused
/// halts the plan, unless [`on_breach`](Self::on_breach) says otherwise, and everything after a halt is refused as well; two kinds do not, because they are no deed of the caller's: a call
/// under another registry than the plan was committed under, and one that comes while another is being decided.
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
}

impl<O> PlanCursor<O> {
    /// Starts a plan.
    ///
    /// # Errors
    /// [`PlanUseError`] when it was made for another session, goal or registry, or is an amendment.
    pub fn start(plan: CommittedPlan, context: &PlanContext) -> Result<Self, PlanUseError> {
        plan.header().check(context)?;
        if plan.header().amends().is_some() {
            return Err(PlanUseError::Link);
        }
        Ok(Self { plan, amended: Vec::new(), progress: Progress::default(), runs: Vec::new() })
    }

    /// Sets the response to a call that is not the plan's next one: by default the first halts the plan.
    #[must_use]
    pub fn on_breach(mut self, on_breach: OnBreach) -> Self {
        self.progress.set_on_breach(on_breach);
        self
    }

    /// Says whether a call is the plan's next one, and holds its turn. The plan goes on when the call is accepted, not before.
    ///
    /// The step is verified against the root before anything of it is compared.
    ///
    /// # Errors
    /// [`PlanBreach`], which counts as one ([`OnBreach`]) but for the two cases that [`PlanCursor`] names.
    pub fn check(&mut self, call: &StepCall<'_>) -> Result<PlannedCall, PlanBreach> {
        self.progress.is_open(self.plan.header(), call)?;
        let found = call.named(self.plan.root()).and_then(|named| match named {
            Some(step) => self.named(step, call).map(|()| step),
            None => self.fitting(call),
        });
        self.progress.hold(*self.plan.root(), found, call)
    }

    /// Asks whether it is the turn of the step that the caller names, and whether the call is that step's.
    fn named(&self, step: u64, call: &StepCall<'_>) -> Result<(), PlanBreach> {
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
        self.admits(step, call)
    }

    /// Finds the step whose turn it is and that the call fits.
    fn fitting(&self, call: &StepCall<'_>) -> Result<u64, PlanBreach> {
        let mut found = Err(PlanBreach::Exhausted { reason: "ended" });
        if self.repeats() {
            found = self.admits(self.progress.position(), call).map(|()| self.progress.position());
        }
        let next = self.progress.position().saturating_add(1);
        if found.is_err() && next <= self.plan.header().steps() {
            found = self.admits(next, call).map(|()| next);
        }
        found.map_err(|breach| self.explain(breach, call))
    }

    /// Whether the step under way has calls left.
    fn repeats(&self) -> bool {
        self.plan.step(self.progress.position()).is_some_and(|step| self.progress.used() < step.max_calls())
    }

    fn admits(&self, step: u64, call: &StepCall<'_>) -> Result<(), PlanBreach> {
        self.plan.admits(step, call.tool, call.args)
    }

    /// Tells a call of another step from one that is in the plan nowhere. Each search through all steps counts as a breach, so
    /// there are few.
    fn explain(&self, breach: PlanBreach, call: &StepCall<'_>) -> PlanBreach {
        if breach.reason() == "leaf" {
            return breach;
        }
        let fits = |step: &Step| admit(step, call.tool, call.args).is_ok();
        if self.plan.step(self.progress.position()).is_some_and(fits) {
            return PlanBreach::Exhausted { reason: "count" };
        }
        match (1..).zip(self.plan.steps()).find(|(_, step)| fits(step)) {
            Some((step, _)) if step < self.progress.position() => PlanBreach::OutOfOrder { reason: "behind" },
            Some(_) => PlanBreach::OutOfOrder { reason: "skipped" },
            None => breach,
        }
    }

    /// Goes on by a call that was accepted.
    ///
    /// # Errors
    /// [`PlanBreach`]: [`PlanBreach::Halted`], if the plan was [halted](Self::halt) while the turn was held; [`PlanBreach::OutOfOrder`] when
    /// the turn is not this call's, which only happens between two cursors.
    #[expect(clippy::needless_pass_by_value, reason = "a turn that was used is gone")]
    pub fn accept(&mut self, planned: PlannedCall) -> Result<StepRun, PlanBreach> {
        let turn = planned.turn;
        self.progress.accept(&turn)?;
        self.runs.push(Run { turn, outcome: None });
        Ok(StepRun { turn })
    }

    /// Gives the turn back: the call was refused by a later check, and the plan stands where it stood.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    #[expect(clippy::needless_pass_by_value, reason = "a turn that was given back is gone")]
    pub fn give_back(&mut self, planned: PlannedCall) -> Result<(), PlanBreach> {
        self.progress.release(&planned.turn)
    }

    /// Halts the plan, as a breach does. `reason` is one of the caller's own words, such as `by-host`.
    ///
    /// # Errors
    /// [`PlanBreach`], the first one, when the plan was halted before.
    pub fn halt(&mut self, reason: &'static str) -> Result<(), PlanBreach> {
        self.progress.halt(PlanBreach::Halted { reason })
    }

    /// Keeps what came of an accepted call, and the number under which it is on record, until the plan is finished. There
    /// is no way to it before.
    ///
    /// # Errors
    /// [`PlanBreach::OutOfOrder`] when the call is not one of this cursor's.
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

    /// Says whether [`finish`](Self::finish) would give the trace.
    ///
    /// # Errors
    /// [`FinishError`] naming what is in the way.
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

    /// Ends the plan: recomputes the root of the plan and of each amendment from their steps, and gives out the trace if every
    /// step has run. Where it does not, what was observed is gone with the cursor; [`is_complete`](Self::is_complete) asks first.
    ///
    /// # Errors
    /// [`FinishError`] when the plan was halted, is not complete, or has another root.
    pub fn finish(self) -> Result<VerifiedTrace<O>, FinishError> {
        self.is_complete()?;
        self.is_whole()?;
        let Self { plan, amended, runs, .. } = self;
        let plans: Vec<&CommittedPlan> = amended.iter().map(|old| &old.plan).chain([&plan]).collect();
        let steps = runs.into_iter().map(|run| {
            // A plan can be amended before anything of it ran, but no two amendments have one root: each names the last.
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

    /// Whether every plan has its root, and every amendment its link.
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

    /// The plan that runs: the one that was started, or the last amendment.
    #[must_use]
    pub const fn plan(&self) -> &CommittedPlan {
        &self.plan
    }

    /// The last step that has run, from 1 on; 0 before the first. What an amendment has to name.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.progress.position()
    }

    /// The breach that halted the plan, if one has.
    #[must_use]
    pub const fn halted(&self) -> Option<PlanBreach> {
        self.progress.halted()
    }
}

/// Shows where the plan stands, and nothing of what tools returned.
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
