//! Approval requests for a plan's calls before the plan begins, and checks of their tokens.

use countersign_canonical_json::Canonical;
use countersign_committed_plan::CommittedPlan;
use countersign_core::{CallId, Ticket};

use crate::code::RejectionCode;
use crate::gate::ToolGate;
use crate::plan_approval::definition;
use crate::plan_error::StartPlanError;
use crate::plan_start::context;
use crate::rejection::ApprovalRequest;
use crate::steps::approval::verify_one;

impl ToolGate {
    /// Builds the approval request for one call of a step before the plan is started: the step's tool with these
    /// arguments, under this id, as a call of this plan. The request also binds the tool's definition, if it is known
    /// now. `args` are the tool's own ([`own_arguments`](crate::own_arguments)), with every open place filled.
    ///
    /// It is for a host that knows every call of a plan beforehand. A host that asked in the middle of the plan, and
    /// had to start again, would make the first calls twice. This does not check that the arguments are the step's; the
    /// gate does so when the call comes.
    ///
    /// # Errors
    /// [`StartPlanError`] if the session's agent may not call now, the goal has expired, the plan is for another
    /// session, goal or registry or has no such step, the session does not disclose the step's tool, or the gate takes
    /// no approvals.
    pub fn step_approval_request(
        &self,
        plan: &CommittedPlan,
        step: u64,
        call_id: &CallId,
        args: &Canonical,
    ) -> Result<ApprovalRequest, StartPlanError> {
        let inner = self.parts();
        let now = inner.progress.clock.now().map_err(|_| RejectionCode::Internal)?;
        let (terms, view) = (inner.progress.in_force(), inner.terms.view(now));
        terms.contract.check(&view, now)?;
        inner.recorder.rows.check(now)?;
        let goal = terms.ask.as_ref().map_or(Ok(()), |pin| pin.alive(now));
        goal.map_err(|_| RejectionCode::AskExpired)?;
        plan.header().check(&context(inner, &view)?)?;
        let settings = inner.terms.approvals.as_ref().ok_or(RejectionCode::ApprovalInvalid)?;
        let index = usize::try_from(step).ok().and_then(|step| step.checked_sub(1));
        let planned =
            index.and_then(|index| plan.steps().get(index)).ok_or(RejectionCode::PlanStepMismatch)?;
        let tool = planned.tool();
        let rules = terms.contract.disclosed(&view, tool).ok_or(RejectionCode::UndisclosedTool)?;
        let definition = definition(inner.progress.definition(tool), rules);
        let (root, version) = (plan.root().digest(), view.snapshot().version());
        let binding = inner.terms.call_facts(
            call_id.clone(),
            tool.clone(),
            args.digest(),
            definition,
            Some(root),
            version,
        );
        let (session_ends, partial) = (terms.contract.expires(), settings.terms.verify.partial);
        let (args, approvers) = (args.clone(), rules.entry().approvers().cloned().map(Box::new));
        Ok(ApprovalRequest {
            binding,
            args,
            session_ends,
            partial,
            proposal: None,
            takes_grants: false,
            needs_approval: true,
            evidence: None,
            approvers,
        })
    }

    /// Verifies that a token approves exactly this request at the present time, and returns the ticket that spending it
    /// would use up. Nothing is spent or recorded; a token that was spent before passes.
    ///
    /// # Errors
    /// `APPROVAL_INVALID` or `APPROVAL_EXPIRED`; `INTERNAL` if the clock fails.
    pub fn verify_approval(&self, asked: &ApprovalRequest, token: &str) -> Result<Ticket, RejectionCode> {
        let inner = self.parts();
        let now = inner.progress.clock.now().map_err(|_| RejectionCode::Internal)?;
        let settings = inner.terms.approvals.as_ref().ok_or(RejectionCode::ApprovalInvalid)?;
        let verified =
            verify_one(token, settings, asked.partial, asked.binding(), &inner.terms.view(now), now);
        verified.map(|approval| approval.ticket(settings.terms.verify.skew)).map_err(|refusal| refusal.code)
    }
}
