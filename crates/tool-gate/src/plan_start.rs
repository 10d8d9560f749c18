//! Starts and amends the gate's plan: commits it under the contract, verifies its approval, and records it.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use countersign_approval_token::Partial;
use countersign_audit_log::{CallRecord, OutcomeKind, Verdict};
use countersign_canonical_json::{Canonical, Limits, read};
use countersign_committed_plan::{Plan, PlanContext, PlanRoot, PlanUseError, Step};
use countersign_core::{CallId, Timestamp, ToolId};
use countersign_registry::{BorrowedView, RegistryView};

use crate::accepted::InFlight;
use crate::call::ARGS_RECIPE;
use crate::code::RejectionCode;
use crate::gate::ToolGate;
use crate::parts::GateParts;
use crate::plan::{HeldAmendment, RunningPlan};
use crate::plan_approval::plan_entry;
use crate::plan_approval::{Definitions, PLAN_TOOL, SpentPlanApproval, plan_facts};
use crate::plan_commit::{Allowed, commit_plan};
use crate::plan_error::StartPlanError;
use crate::plan_settings::{Offer, Offered, PlanRootSettings, PlanSettings};
use crate::plan_walk::{OfferedCommit, PlanWalk};
use crate::progress::BorrowedTerms;
use crate::rejection::ApprovalRequest;
use crate::rejection::Refusal;
use crate::steps::approval::verify_one;
use crate::steps::spend::spend_approval;

/// A plan's approval must bind this session and this registry.
const PARTIAL: Partial = Partial::Refuse;

impl ToolGate {
    /// Returns the context of a new plan for this session: its pinned goal, the session, and the present registry.
    ///
    /// # Errors
    /// [`StartPlanError`] without a pinned goal.
    pub fn plan_context(&self) -> Result<PlanContext, StartPlanError> {
        context(self.parts(), &self.registry().view())
    }

    /// Builds the approval request for the whole plan: its arguments are the plan. It also binds the definitions of the
    /// plan's tools, as far as they are known now.
    ///
    /// # Errors
    /// [`StartPlanError`] if the plan could not be started, the amendment could not be applied, or the gate takes no
    /// approvals.
    pub fn plan_approval_request(&self, plan: &Plan) -> Result<ApprovalRequest, StartPlanError> {
        self.offered_approval(PlanSettings::new(plan.clone()).into())
    }

    /// Builds the approval request for the plan with this root at this gate. Its arguments are the plan's header,
    /// because this gate has nothing more of the plan. The approver must know the plan from elsewhere, and recognises
    /// it by the root. The request also binds the definitions of all tools of the session, as far as they are known
    /// now.
    ///
    /// # Errors
    /// As [`plan_approval_request`](Self::plan_approval_request).
    pub fn plan_root_approval_request(
        &self,
        settings: &PlanRootSettings,
    ) -> Result<ApprovalRequest, StartPlanError> {
        self.offered_approval(settings.clone().into())
    }

    fn offered_approval(&self, Offered { offer, .. }: Offered) -> Result<ApprovalRequest, StartPlanError> {
        let inner = self.parts();
        let now = inner.progress.clock.now().map_err(|_| RejectionCode::Internal)?;
        let (terms, view) = (inner.progress.in_force(), inner.terms.view(now));
        let allowed = Allowed { contract: &terms.contract, view: &view };
        // A plan of an agent that may not call is not submitted for approval.
        terms.contract.check(&view, now)?;
        inner.recorder.rows.check(now)?;
        let args = canonical(&offer)?;
        let committed = commit(inner, offer, &allowed)?;
        match inner.progress.plan.get() {
            Some(running) => running.can_amend(&committed, &context(inner, &view)?)?,
            None if committed.header().amends().is_some() => return Err(PlanUseError::Link.into()),
            None => {}
        }
        let definitions = definitions(inner, &allowed, &committed);
        let binding = plan_facts(&inner.terms, &view, &args, *committed.root(), &definitions)?;
        Ok(ApprovalRequest {
            binding,
            args,
            session_ends: terms.contract.expires(),
            partial: PARTIAL,
            proposal: None,
            takes_grants: false,
            needs_approval: true,
            evidence: None,
            approvers: None,
        })
    }

    /// Enforces a plan from now on: only its next call is accepted. The plan is checked against the contract and
    /// committed, its approval is verified and spent, and the start is recorded before this returns. A gate has one
    /// plan.
    ///
    /// # Errors
    /// [`StartPlanError`] if the gate has a plan, the plan is for another session, goal or registry, has a step that
    /// the operator does not allow, or its approval does not verify or was used. The gate is then unchanged.
    pub fn start_plan(&self, settings: PlanSettings) -> Result<PlanRoot, StartPlanError> {
        self.start(settings.into())
    }

    /// Enforces from now on a plan that another gate has and of which this one knows only the root. Each call brings
    /// the proof of its step, which is verified first and then checked against this gate's own contract and registry.
    /// This gate does not see the calls that run elsewhere ([`RootCursor`]): it refuses no gap, keeps no results
    /// ([`AcceptedCall::run_step`](crate::AcceptedCall::run_step) drops them), and has no trace.
    ///
    /// # Errors
    /// As [`start_plan`](Self::start_plan), and if the header does not belong to the plan with the root.
    ///
    /// [`RootCursor`]: countersign_committed_plan::RootCursor
    pub fn start_plan_root(&self, settings: PlanRootSettings) -> Result<PlanRoot, StartPlanError> {
        self.start(settings.into())
    }

    /// Replaces the steps that have not run by an amendment ([`Plan::amending`]). The steps that have run stay as they
    /// are, also in the trace. From then on [`plan_root`](Self::plan_root) is the amendment's, and its approval counts
    /// for its steps. Use it to continue a plan after the registry was reloaded.
    ///
    /// A person must approve every amendment, whatever the rules of its tools
    /// ([`plan_approval_request`](Self::plan_approval_request)). It is checked and recorded like a start. Calls that
    /// come meanwhile are refused as out of order, and halt nothing.
    ///
    /// # Errors
    /// [`StartPlanError`] without a plan under way, while one of its calls is being decided, after it was halted, or if
    /// the amendment does not name the plan's root and its [position](Self::plan_position), has no approval
    /// (`APPROVAL_REQUIRED`), or could not be started as a plan. The plan then continues unchanged.
    pub fn amend_plan(&self, settings: PlanSettings) -> Result<PlanRoot, StartPlanError> {
        self.amend(settings.into())
    }

    /// Applies an amendment at a gate that knows only the plan's root. The position that the amendment names may be
    /// later than the last step that ran here, but not earlier.
    ///
    /// # Errors
    /// As [`amend_plan`](Self::amend_plan), and if the header does not belong to the plan with the root.
    pub fn amend_plan_root(&self, settings: PlanRootSettings) -> Result<PlanRoot, StartPlanError> {
        self.amend(settings.into())
    }

    pub(crate) fn start(&self, Offered { offer, approval }: Offered) -> Result<PlanRoot, StartPlanError> {
        self.change_plan(|change| {
            if change.inner.progress.plan.get().is_some() {
                return Err(StartPlanError::Started);
            }
            let committed = change.commit(offer)?;
            let definitions = definitions(change.inner, &change.allowed(), &committed);
            let walk = PlanWalk::start(committed, &change.context()?, change.inner.terms.on_breach)?;
            if let Some(token) = approval {
                change.approve(&token, definitions)?;
            }
            Ok(Next::Start(walk))
        })
    }

    fn amend(&self, Offered { offer, approval }: Offered) -> Result<PlanRoot, StartPlanError> {
        self.change_plan(|change| {
            let running = change.inner.progress.plan.get().ok_or(StartPlanError::NoPlan)?;
            let committed = change.commit(offer)?;
            let definitions = definitions(change.inner, &change.allowed(), &committed);
            let held = running.hold_amendment(committed, &change.context()?)?;
            let token = approval.ok_or(RejectionCode::ApprovalRequired)?;
            change.approve(&token, definitions)?;
            Ok(Next::Amend(held))
        })
    }

    /// Prepares a change of the plan, records it, and applies it.
    fn change_plan<'g>(
        &'g self,
        prepare: impl FnOnce(&mut PlanChange<'g>) -> Result<Next<'g>, StartPlanError>,
    ) -> Result<PlanRoot, StartPlanError> {
        let inner = self.parts();
        let _one_at_a_time = inner.progress.changing_plan.lock();
        let mut change = PlanChange::new(inner);
        // The stores are the embedder's.
        let prepared = catch_unwind(AssertUnwindSafe(|| {
            change.begin()?;
            prepare(&mut change)
        }));
        let prepared = prepared.unwrap_or(Err(StartPlanError::Refused(RejectionCode::Internal)));
        let unrecorded = |()| {
            inner.recorder.note_unrecorded(inner.progress.clock.latest(), (None, &[]));
            StartPlanError::Refused(RejectionCode::AuditUnavailable)
        };
        let next = match prepared {
            Ok(next) => next,
            Err(error) => {
                inner.record_refusal(&change.record(Some(&error))).map_err(unrecorded)?;
                return Err(error);
            }
        };
        let decision =
            inner.recorder.record_plan(&change.record(None)).map_err(|()| match &change.approval {
                Some(approval) => {
                    inner.recorder.note_unrecorded(change.now, (Some(&approval.token_id), &[]));
                    StartPlanError::Unrecorded
                }
                None => unrecorded(()),
            })?;
        let internal = StartPlanError::Refused(RejectionCode::Internal);
        let PlanChange { now, root: Some(root), approval, .. } = change else {
            return Err(internal);
        };
        let id =
            CallId::new(&root.to_string()).map_err(|_| StartPlanError::Refused(RejectionCode::Internal))?;
        let in_flight = InFlight::new(Arc::clone(inner), id, decision, now, None);
        // The turn and the lock are held, so only a halt can have come between. Then the outcome is unknown and nothing
        // has changed.
        match next {
            Next::Start(walk) => {
                inner.progress.plan.set(RunningPlan::new(root, approval, walk)).map_err(|_| internal)?
            }
            Next::Amend(held) => held.keep(approval)?,
        }
        in_flight.finish(OutcomeKind::Returned);
        Ok(root)
    }
}

/// Change of the gate's plan, to be applied once it is recorded.
enum Next<'g> {
    Start(PlanWalk),
    Amend(HeldAmendment<'g>),
}

/// Facts about a plan to be started or amended, for its record.
struct PlanChange<'g> {
    inner: &'g Arc<GateParts>,
    terms: BorrowedTerms,
    view: BorrowedView,
    now: Timestamp,
    args: Option<Canonical>,
    root: Option<PlanRoot>,
    approval: Option<SpentPlanApproval>,
    /// Fault of the approval, if it has one.
    reason: Option<Cow<'static, str>>,
}

impl<'g> PlanChange<'g> {
    fn new(inner: &'g Arc<GateParts>) -> Self {
        let (terms, view, now) =
            (inner.progress.in_force(), inner.terms.registry.borrow_view(), inner.progress.clock.latest());
        Self { inner, terms, view, now, args: None, root: None, approval: None, reason: None }
    }

    /// Checks the preconditions of every change.
    fn begin(&mut self) -> Result<(), StartPlanError> {
        self.now = self.inner.progress.clock.now().map_err(|_| RejectionCode::Internal)?;
        (self.terms, self.view) = (self.inner.progress.in_force(), self.inner.terms.view(self.now));
        if self.inner.recorder.is_lost() {
            return Err(RejectionCode::AuditUnavailable.into());
        }
        Ok(())
    }

    fn context(&self) -> Result<PlanContext, StartPlanError> {
        context(self.inner, &self.view)
    }

    fn allowed(&self) -> Allowed<'_> {
        Allowed { contract: &self.terms.contract, view: &self.view }
    }

    fn commit(&mut self, offer: Offer) -> Result<OfferedCommit, StartPlanError> {
        self.terms.contract.check(&self.view, self.now)?;
        self.inner.recorder.rows.check(self.now).map_err(|refusal| {
            self.reason = Some(refusal.reason);
            refusal.code
        })?;
        // With an expired goal no call of the plan is accepted, so its approval would be spent in vain.
        let goal = self.terms.ask.as_ref().map_or(Ok(()), |pin| pin.alive(self.now));
        goal.map_err(|_| RejectionCode::AskExpired)?;
        self.args = Some(canonical(&offer)?);
        let committed = commit(self.inner, offer, &self.allowed())?;
        self.root = Some(*committed.root());
        Ok(committed)
    }

    /// Verifies and spends the approval of the noted plan.
    fn approve(&mut self, token: &str, definitions: Definitions) -> Result<(), StartPlanError> {
        let Self { inner, view, now, args: Some(args), root: Some(root), .. } = self else {
            return Err(RejectionCode::Internal.into());
        };
        let binding = plan_facts(&inner.terms, view, args, *root, &definitions)?;
        let settings = inner.terms.approvals.as_ref().ok_or(RejectionCode::ApprovalInvalid)?;
        let spent = verify_one(token, settings, PARTIAL, &binding, view, *now)
            .and_then(|approval| spend_approval(approval, settings, *now));
        match spent {
            Ok(spent) => self.approval = Some(SpentPlanApproval::new(&spent, definitions)),
            Err(Refusal { code, reason, .. }) => {
                self.reason = Some(reason);
                return Err(code.into());
            }
        }
        Ok(())
    }

    fn record(&self, refused: Option<&StartPlanError>) -> CallRecord {
        let root = self.root.map(|root| root.digest());
        let verdict = if refused.is_some() { Verdict::Reject } else { Verdict::Accept };
        let version = self.view.snapshot().version();
        let mut record = plan_entry(&self.inner.terms, self.now, root, PLAN_TOOL.1, verdict, version);
        record.args = self.args.as_ref().map(Canonical::digest);
        record.args_recipe = self.args.as_ref().map(|_| ARGS_RECIPE.as_str().into());
        record.code = refused.map(|error| error.code().into());
        record.reason = refused.map(|error| match &self.reason {
            Some(reason) => reason.as_ref().into(),
            None => error.to_string().as_str().into(),
        });
        if let Some(approval) = &self.approval {
            record.approval = Some(approval.token_id.clone());
            record.approver = Some(approval.approver.clone());
        }
        record
    }
}

pub(crate) fn context(inner: &GateParts, view: &RegistryView) -> Result<PlanContext, StartPlanError> {
    let goal = inner.terms.goal.ok_or(StartPlanError::NoGoal)?;
    Ok(PlanContext::new(goal, inner.terms.session.clone(), view.snapshot().version())?)
}

/// Commits a plan that was made for this session, goal and registry, or verifies that the root belongs to one.
fn commit(inner: &GateParts, offer: Offer, allowed: &Allowed<'_>) -> Result<OfferedCommit, StartPlanError> {
    let context = context(inner, allowed.view)?;
    Ok(match offer {
        Offer::Whole(plan) => {
            plan.header().check(&context)?;
            OfferedCommit::Whole(Box::new(commit_plan(plan, allowed.contract, allowed.view)?))
        }
        Offer::Root(root, header) => {
            let verified = header.verify(&root)?;
            verified.header().check(&context)?;
            OfferedCommit::Root(verified)
        }
    })
}

/// Returns the plan, or its known part, as the arguments of its own start.
fn canonical(offer: &Offer) -> Result<Canonical, StartPlanError> {
    let json = match offer {
        Offer::Whole(plan) => plan.to_json(),
        Offer::Root(_, header) => header.header().to_json(),
    };
    read(json.as_bytes(), ARGS_RECIPE, &Limits::hard_caps())
        .map_err(|_| StartPlanError::Refused(RejectionCode::LimitExceeded))
}

/// Returns the definitions of the plan's tools, or those of all tools of the session if this gate does not know the
/// plan's.
fn definitions(inner: &GateParts, allowed: &Allowed<'_>, plan: &OfferedCommit) -> Definitions {
    let seen = |tool: &ToolId| inner.progress.definition(tool);
    match plan {
        OfferedCommit::Whole(plan) => Definitions::of(seen, allowed, plan.steps().iter().map(Step::tool)),
        OfferedCommit::Root(_) => Definitions::of(seen, allowed, allowed.contract.tools().iter()),
    }
}
