use crate::admit::admit;
use crate::amend::{MAX_AMENDMENTS, goes_on};
use crate::breach::PlanBreach;
use crate::contract::{PlanContract, allowed};
use crate::cursor_error::PlanUseError;
use crate::error::CommitError;
use crate::header::{PlanContext, PlanHeader};
use crate::header_proof::VerifiedHeader;
use crate::on_breach::OnBreach;
use crate::progress::Progress;
use crate::root::PlanRoot;
use crate::turn::{PlannedCall, StepCall, Turn};

/// Holds calls to a plan of which this machine knows the root and the header, and nothing else. Each call brings the proof of its
/// step.
///
/// A step is verified against the root before anything of it is looked at. No call of a step comes after one of a later step, and
/// no step has more calls than [`Step::max_calls`](crate::Step::max_calls). The first call that is refused halts the plan here, with the
/// exceptions that [`PlanCursor`](crate::PlanCursor) names.
///
/// It sees the steps that come to this machine and no others. So it **cannot refuse a gap**: whether the steps between two calls
/// ran elsewhere, or at all, it does not know. And it counts the calls that it sees: whoever sends one step to two machines lets
/// each of them count from nothing. Nor does it hear of an amendment or a halt elsewhere, unless somebody brings it here. It keeps
/// no results and has no trace; both are for whoever has the whole plan.
///
/// ```
/// # use countersign_canonical_json::{Limits, Recipe, read};
/// # use countersign_committed_plan::{OpenPlace, Plan, PlanContext, PlanContract, RootCursor, Step, StepCall};
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
/// let plan = Plan::new(context.clone(), steps)?.commit(&All)?;
/// let (header, step) = (plan.header_proof().ok_or("no header")?, plan.prove_step(1).ok_or("no step")?);
///
/// // On another machine:
/// let mut cursor = RootCursor::start(header.verify(plan.root())?, &context)?;
/// let args = read(br#"{"to":"bob@example.com","body":"hello"}"#, Recipe::Jcs1, &Limits::default())?;
/// let planned = cursor.check(&StepCall::new(&send, &args, 7).proved_by(&step), &All)?;
/// cursor.accept(planned)?;
/// assert!(cursor.check(&StepCall::new(&send, &args, 7).proved_by(&step), &All).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RootCursor {
    plan: VerifiedHeader,
    amended: usize,
    /// As far as it has come here.
    progress: Progress,
}

/// Proves that an amendment goes on from the plan that runs, and holds the turn. Made by [`RootCursor::check_amendment`] alone; it
/// cannot be copied.
#[derive(Debug)]
#[must_use]
pub struct PlannedRoot {
    turn: Turn,
    plan: VerifiedHeader,
}

impl PlannedRoot {
    /// The amendment's root.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        self.plan.root()
    }
}

impl RootCursor {
    /// Starts a plan that was verified by its header.
    ///
    /// # Errors
    /// [`PlanUseError`] when it was made for another session, goal or registry, or is an amendment.
    pub fn start(plan: VerifiedHeader, context: &PlanContext) -> Result<Self, PlanUseError> {
        plan.header().check(context)?;
        if plan.header().amends().is_some() {
            return Err(PlanUseError::Link);
        }
        Ok(Self { plan, amended: 0, progress: Progress::default() })
    }

    /// Sets the response to a call that is not the plan's next one: by default the first halts the plan.
    #[must_use]
    pub fn on_breach(mut self, on_breach: OnBreach) -> Self {
        self.progress.set_on_breach(on_breach);
        self
    }

    /// Says whether a call is one of the plan's, and holds its turn. The plan goes on when the call is accepted, not before.
    ///
    /// The step is held against `contract` as at [`Plan::commit`](crate::Plan::commit), because that may have happened elsewhere.
    ///
    /// # Errors
    /// [`PlanBreach`], which counts as one ([`OnBreach`]) but for the two cases that [`PlanCursor`](crate::PlanCursor) names.
    pub fn check(
        &mut self,
        call: &StepCall<'_>,
        contract: &dyn PlanContract,
    ) -> Result<PlannedCall, PlanBreach> {
        self.progress.is_open(self.header(), call)?;
        let found = self.next(call, contract);
        self.progress.hold(*self.root(), found, call)
    }

    fn next(&self, call: &StepCall<'_>, contract: &dyn PlanContract) -> Result<u64, PlanBreach> {
        let proof = call.proof.ok_or(PlanBreach::StepMismatch { reason: "no-proof" })?;
        // INVARIANT: the proof comes first; before it, what it holds is anybody's word.
        call.named(self.root())?;
        let (index, step) = (proof.index(), proof.proved());
        // Whoever makes a root can make a tree that fits two sizes; of one size, each index has one leaf.
        if proof.steps() != self.header().steps() {
            return Err(PlanBreach::StepMismatch { reason: "other-size" });
        }
        if index < self.progress.position() {
            return Err(PlanBreach::OutOfOrder { reason: "behind" });
        }
        if index == self.progress.position() && self.progress.used() >= step.max_calls() {
            return Err(PlanBreach::Exhausted { reason: "count" });
        }
        allowed(step, index, contract).map_err(|error| {
            let reason = match error {
                CommitError::Undisclosed { .. } => "undisclosed-tool",
                CommitError::ControlOpen { .. } => "control-open",
                CommitError::Args { .. } => "unfit-arguments",
            };
            PlanBreach::StepMismatch { reason }
        })?;
        admit(step, call.tool, call.args).map(|()| index)
    }

    /// Goes on by a call that was accepted.
    ///
    /// # Errors
    /// [`PlanBreach`]: [`PlanBreach::Halted`], if the plan was [halted](Self::halt) while the turn was held; [`PlanBreach::OutOfOrder`] when
    /// the turn is not this call's, which only happens between two cursors.
    #[expect(clippy::needless_pass_by_value, reason = "a turn that was used is gone")]
    pub fn accept(&mut self, planned: PlannedCall) -> Result<(), PlanBreach> {
        self.progress.accept(&planned.turn)
    }

    /// Gives the turn back: the call was refused by a later check, and the plan stands where it stood.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    #[expect(clippy::needless_pass_by_value, reason = "a turn that was given back is gone")]
    pub fn give_back(&mut self, planned: PlannedCall) -> Result<(), PlanBreach> {
        self.progress.release(&planned.turn)
    }

    /// Halts the plan here, as a breach does. `reason` is one of the caller's own words, such as `by-host`.
    ///
    /// # Errors
    /// [`PlanBreach`], the first one, when the plan was halted before.
    pub fn halt(&mut self, reason: &'static str) -> Result<(), PlanBreach> {
        self.progress.halt(PlanBreach::Halted { reason })
    }

    /// Says whether an amendment could be taken now, but for a call that is being decided. Holds nothing.
    ///
    /// # Errors
    /// [`PlanUseError`] when the plan was halted, or the amendment is for another session, goal or registry, does not name the plan
    /// that runs, names a place before the last step that ran here, or is one too many.
    pub fn can_amend(&self, amendment: &VerifiedHeader, context: &PlanContext) -> Result<(), PlanUseError> {
        if self.progress.halted().is_some() {
            return Err(PlanUseError::Halted);
        }
        amendment.header().check(context)?;
        goes_on(self.plan.header(), amendment.header())?;
        let amends = amendment.header().amends().ok_or(PlanUseError::Link)?;
        // Steps beyond the last one here may have run elsewhere.
        if amends.root() != self.root() || amends.position() < self.progress.position() {
            return Err(PlanUseError::Link);
        }
        if self.amended >= MAX_AMENDMENTS { Err(PlanUseError::TooMany) } else { Ok(()) }
    }

    /// Says whether an amendment can be taken, and holds the turn until it was accepted or given back.
    ///
    /// # Errors
    /// As [`can_amend`](Self::can_amend), and [`PlanUseError::Busy`] while a call is being decided.
    pub fn check_amendment(
        &mut self,
        amendment: VerifiedHeader,
        context: &PlanContext,
    ) -> Result<PlannedRoot, PlanUseError> {
        self.can_amend(&amendment, context)?;
        let turn = self.progress.hold_amendment(*self.root(), amendment.root())?;
        Ok(PlannedRoot { turn, plan: amendment })
    }

    /// Goes on by an amendment, whose root somebody with authority has approved; that this is so is for the caller to verify.
    ///
    /// # Errors
    /// [`PlanUseError::NotApproved`] when it is another root; the plan goes on as it was. [`PlanUseError::Halted`] when the plan was
    /// halted while the turn was held.
    pub fn accept_amendment(
        &mut self,
        planned: PlannedRoot,
        approved: &PlanRoot,
    ) -> Result<(), PlanUseError> {
        self.progress.accept_amendment(&planned.turn, planned.root(), approved)?;
        self.plan = planned.plan;
        self.amended = self.amended.saturating_add(1);
        Ok(())
    }

    /// Gives the turn back: the amendment was refused, and the plan goes on as it was.
    ///
    /// # Errors
    /// [`PlanUseError::Busy`] when the turn is not this amendment's, which only happens between two cursors.
    #[expect(clippy::needless_pass_by_value, reason = "a turn that was given back is gone")]
    pub fn give_back_amendment(&mut self, planned: PlannedRoot) -> Result<(), PlanUseError> {
        self.progress.release_amendment(&planned.turn)
    }

    /// The root of the plan that runs: the one that was started, or the last amendment.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        self.plan.root()
    }

    /// What that plan says of itself.
    #[must_use]
    pub const fn header(&self) -> &PlanHeader {
        self.plan.header()
    }

    /// The last step that has run here, from 1 on; 0 before the first.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.progress.position()
    }

    /// The breach that halted the plan here, if one has.
    #[must_use]
    pub const fn halted(&self) -> Option<PlanBreach> {
        self.progress.halted()
    }
}
