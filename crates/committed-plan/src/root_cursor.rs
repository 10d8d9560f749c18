use crate::breach::{OnBreach, PlanBreach};
use crate::error::{CommitError, PlanUseError};
use crate::header::{MAX_AMENDMENTS, PlanContext, PlanHeader, check_continues};
use crate::plan::{PlanContract, allowed, discloses};
use crate::progress::Progress;
use crate::proof::{StepProof, VerifiedHeader};
use crate::root::PlanRoot;
use crate::turn::{PlannedCall, StepCall, Turn};

/// The execution of a plan on a machine that knows only its root and header. Each call carries the proof of its step.
///
/// A step is verified against the root before any other check. No call of a step comes after a call of a later step,
/// and no step has more calls than [`Step::max_calls`](crate::Step::max_calls). The first refused call halts the plan
/// on this machine, with the exceptions named at [`PlanCursor`](crate::PlanCursor).
///
/// Limits, because it sees only the steps sent to this machine:
///
/// - it **cannot refuse a gap**: the steps between two calls may have run elsewhere or not at all;
/// - it counts its own calls only: a step sent to two machines can be called its full number of times on each;
/// - it is not notified of amendments or halts on other machines;
/// - it keeps no results and no trace. Both need the whole plan.
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
    /// Progress on this machine.
    progress: Progress,
    /// The last proof that was verified, of a step that the contract allows.
    verified: Option<StepProof>,
    /// Buffer for the leaf of the step that is checked.
    leaf: String,
}

/// Proof that an amendment continues the running plan. Holds the plan's step. Only [`RootCursor::check_amendment`]
/// creates one; it cannot be copied.
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
    /// Starts a plan by its verified header.
    ///
    /// # Errors
    /// [`PlanUseError`] if the plan is for another session, goal or registry, or is an amendment.
    pub fn start(plan: VerifiedHeader, context: &PlanContext) -> Result<Self, PlanUseError> {
        plan.header().check(context)?;
        if plan.header().amends().is_some() {
            return Err(PlanUseError::Link);
        }
        Ok(Self { plan, amended: 0, progress: Progress::default(), verified: None, leaf: String::new() })
    }

    /// Sets the response to a call that is not one of the plan's. By default the first such call halts the plan.
    #[must_use]
    pub fn on_breach(mut self, on_breach: OnBreach) -> Self {
        self.progress.set_on_breach(on_breach);
        self
    }

    /// Checks that a call is one of the plan's and acquires its step. Only [`accept`](Self::accept) advances the plan.
    ///
    /// The step is checked against `contract` as in [`Plan::commit`](crate::Plan::commit), which another machine may
    /// have run. If a proof comes again, for another call of its step, only its tool is checked again: the plan is for
    /// one version of the registry.
    ///
    /// # Errors
    /// [`PlanBreach`], which counts as a breach ([`OnBreach`]) except in the two cases named at
    /// [`PlanCursor`](crate::PlanCursor).
    pub fn check(
        &mut self,
        call: &StepCall<'_>,
        contract: &dyn PlanContract,
    ) -> Result<PlannedCall, PlanBreach> {
        self.progress.is_open(self.header(), call)?;
        let mut leaf = std::mem::take(&mut self.leaf);
        let found = self.next(call, contract, &mut leaf);
        self.leaf = leaf;
        if let (Ok(_), Some(proof)) = (&found, call.proof)
            && !self.is_known(proof)
        {
            self.verified = Some(proof.clone());
        }
        self.progress.hold(*self.root(), found, call)
    }

    fn next(
        &self,
        call: &StepCall<'_>,
        contract: &dyn PlanContract,
        leaf: &mut String,
    ) -> Result<u64, PlanBreach> {
        let proof = call.proof.ok_or(PlanBreach::StepMismatch { reason: "no-proof" })?;
        let is_known = self.is_known(proof);
        // INVARIANT: the proof is verified first; nothing in it is trusted before.
        if !is_known {
            proof.holds(self.root(), leaf)?;
        }
        call.check_index(proof)?;
        let (index, step) = (proof.index(), proof.proved());
        // why: the author of a root can build a tree that matches two sizes. With a fixed size, each index has one
        // leaf.
        if proof.steps() != self.header().steps() {
            return Err(PlanBreach::StepMismatch { reason: "other-size" });
        }
        if index < self.progress.position() {
            return Err(PlanBreach::OutOfOrder { reason: "behind" });
        }
        if index == self.progress.position() && self.progress.used() >= step.max_calls() {
            return Err(PlanBreach::Exhausted { reason: "count" });
        }
        let is_allowed =
            if is_known { discloses(step, index, contract) } else { allowed(step, index, contract) };
        is_allowed.map_err(|error| {
            let reason = match error {
                CommitError::Undisclosed { .. } => "undisclosed-tool",
                CommitError::ControlOpen { .. } => "control-open",
                CommitError::Args { .. } => "unfit-arguments",
            };
            PlanBreach::StepMismatch { reason }
        })?;
        step.admit(call.tool, call.args).map(|()| index)
    }

    /// Returns whether this proof was verified last.
    fn is_known(&self, proof: &StepProof) -> bool {
        self.verified.as_ref() == Some(proof)
    }

    /// Advances the plan by an accepted call and releases the step.
    ///
    /// # Errors
    /// [`PlanBreach::Halted`] if the plan was [halted](Self::halt) since [`check`](Self::check);
    /// [`PlanBreach::OutOfOrder`] if the call is another cursor's.
    #[expect(clippy::needless_pass_by_value, reason = "consumes the claim on the step")]
    pub fn accept(&mut self, planned: PlannedCall) -> Result<(), PlanBreach> {
        self.progress.accept(&planned.turn)
    }

    /// Releases the step of a call that a later check refused. The plan's position is unchanged.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    #[expect(clippy::needless_pass_by_value, reason = "consumes the claim on the step")]
    pub fn give_back(&mut self, planned: PlannedCall) -> Result<(), PlanBreach> {
        self.progress.release(&planned.turn)
    }

    /// Halts the plan on this machine like a breach. `reason` is the caller's own, such as `by-host`.
    ///
    /// # Errors
    /// The first [`PlanBreach`] if the plan was halted before.
    pub fn halt(&mut self, reason: &'static str) -> Result<(), PlanBreach> {
        self.progress.halt(PlanBreach::Halted { reason })
    }

    /// Checks whether the cursor would accept an amendment if no call were being decided. Does not acquire the step.
    ///
    /// # Errors
    /// [`PlanUseError`] if the plan was halted, or the amendment is for another session, goal or registry, does not
    /// name the running plan, names a position before the last step that ran on this machine, or exceeds 64
    /// amendments.
    pub fn can_amend(&self, amendment: &VerifiedHeader, context: &PlanContext) -> Result<(), PlanUseError> {
        if self.progress.halted().is_some() {
            return Err(PlanUseError::Halted);
        }
        amendment.header().check(context)?;
        check_continues(self.plan.header(), amendment.header())?;
        let amends = amendment.header().amends().ok_or(PlanUseError::Link)?;
        // Later steps may have run on other machines.
        if amends.root() != self.root() || amends.position() < self.progress.position() {
            return Err(PlanUseError::Link);
        }
        if self.amended >= MAX_AMENDMENTS { Err(PlanUseError::TooMany) } else { Ok(()) }
    }

    /// Checks an amendment and acquires the plan's step until the amendment is accepted or given back.
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

    /// Continues with an amendment. `approved` is the root in its approval, which the caller has verified.
    ///
    /// # Errors
    /// [`PlanUseError::NotApproved`] if the roots differ; the plan then continues unchanged. [`PlanUseError::Halted`]
    /// if the plan was halted since [`check_amendment`](Self::check_amendment).
    pub fn accept_amendment(
        &mut self,
        planned: PlannedRoot,
        approved: &PlanRoot,
    ) -> Result<(), PlanUseError> {
        self.progress.accept_amendment(&planned.turn, planned.root(), approved)?;
        self.plan = planned.plan;
        self.verified = None;
        self.amended = self.amended.saturating_add(1);
        Ok(())
    }

    /// Releases the step of a refused amendment. The plan continues unchanged.
    ///
    /// # Errors
    /// [`PlanUseError::Busy`] if the amendment is another cursor's.
    #[expect(clippy::needless_pass_by_value, reason = "consumes the claim on the step")]
    pub fn give_back_amendment(&mut self, planned: PlannedRoot) -> Result<(), PlanUseError> {
        self.progress.release_amendment(&planned.turn)
    }

    /// The root of the running plan: the one that was started, or the last amendment.
    #[must_use]
    pub const fn root(&self) -> &PlanRoot {
        self.plan.root()
    }

    /// The header of the running plan.
    #[must_use]
    pub const fn header(&self) -> &PlanHeader {
        self.plan.header()
    }

    /// Index of the last step that ran on this machine, from 1; 0 before the first.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.progress.position()
    }

    /// The breach that halted the plan on this machine.
    #[must_use]
    pub const fn halted(&self) -> Option<PlanBreach> {
        self.progress.halted()
    }
}
