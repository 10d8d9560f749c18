//! Plans through the gateway: submitted by the client, approved where required, finished when they are done.

use countersign_approval_token::{ApprovalToken, DenialReason};
use countersign_audit_log::{CallRecord, Record, RecordedTool, Verdict};
use countersign_canonical_json::Recipe;
use countersign_committed_plan::{Plan, PlanUseError, Step};
use countersign_core::{CallId, Digest};
use countersign_registry::ApprovalRule;
use countersign_tool_gate::{
    ApprovalDesk as _, ApproverAnswer, FiledQuestion, NotFiled, PLAN_TOOL, PlanSettings, RejectionCode,
    Retry, StartPlanError, step_approval,
};

use crate::answers::answer_or_hold;
use crate::definitions::know_definition;
use crate::held_call::HeldCall;
use crate::link::Link;
use crate::questions::desk;
use crate::results::{Committed, PlanKind, RefusalText, advice, committed_line, refusal_line};
use crate::settings::PlanApprovals;
use crate::submission::{LastStep, read_plan};
use crate::waiting::OpenQuestion;

/// Id in the record of a plan without a root: it could not be read or committed.
const NO_ROOT: &str = "plan";

/// Refusal of a plan. All fields are sent to the client.
#[derive(Debug)]
struct Refused {
    code: &'static str,
    message: String,
    retry: Retry,
    unlock: Option<&'static str>,
    question: Option<Box<FiledQuestion>>,
    record: Option<u64>,
    is_approval_spent: bool,
    /// The approver's reason for the denial.
    reason: Option<DenialReason>,
}

impl From<&StartPlanError> for Refused {
    fn from(error: &StartPlanError) -> Self {
        let (retry, unlock) = match error {
            StartPlanError::Refused(code) => (code.retry(), code.unlock()),
            StartPlanError::Unrecorded => {
                let code = RejectionCode::AuditUnavailable;
                (code.retry(), code.unlock())
            }
            StartPlanError::Plan(_) | StartPlanError::Commit(_) => {
                (Retry::AfterChange, Some("a plan of the tool's form that the operator allows"))
            }
            // A concurrent change after the gateway's own checks.
            StartPlanError::Use(PlanUseError::Busy | PlanUseError::Link | PlanUseError::OtherRegistry) => {
                (Retry::AfterChange, Some("the plan once more"))
            }
            StartPlanError::Started
            | StartPlanError::NoPlan
            | StartPlanError::NoGoal
            | StartPlanError::Contract(_)
            | StartPlanError::Use(_)
            | _ => (Retry::Never, Some("a new session")),
        };
        Self {
            code: error.code(),
            message: error.to_string(),
            retry,
            unlock,
            question: None,
            record: None,
            is_approval_spent: error.approval_spent(),
            reason: None,
        }
    }
}

impl Refused {
    fn text(&self) -> RefusalText<'_> {
        RefusalText {
            code: self.code,
            message: &self.message,
            retry: self.retry.as_str(),
            unlock: self.unlock,
            advice: RejectionCode::from_code(self.code).and_then(advice),
            approval_id: None,
            attestation_id: None,
            short_id: None,
            missing: None,
            needed: 1,
            call_id: None,
            tells_call_id: false,
            record: self.record,
            is_approval_spent: self.is_approval_spent,
            is_attestation_spent: false,
            reason: self.reason.as_ref(),
        }
        .asking(self.question.as_deref())
    }
}

/// Answers a call of the gateway's own tool.
pub(crate) fn submit(link: &Link, call: &HeldCall, approvals: PlanApprovals) -> Option<OpenQuestion> {
    let decided = match read(link, call) {
        Ok(plan) => {
            for step in plan.steps() {
                know_definition(link, step.tool());
            }
            if link.refuses_by_stop(call) || link.is_over(call) {
                return None;
            }
            change(link, plan, approvals)
        }
        Err(error) => Err(refuse(link, call.own_args().digest(), &error)),
    };
    let (answer, question) = match decided {
        Ok(committed) => (committed_line(&call.id, &committed), None),
        Err(refused) => (refusal_line(&call.id, refused.text()), refused.question.map(|question| *question)),
    };
    answer_or_hold(link, call, answer, question)
}

/// Requests the plan's approval if it needs one, then starts the plan or amends the running one with it.
fn change(link: &Link, plan: Plan, approvals: PlanApprovals) -> Result<Committed, Refused> {
    let kind = if plan.header().amends().is_some() { PlanKind::Amendment } else { PlanKind::Plan };
    let needed = needs_approval(link, &plan, kind, approvals);
    let approved = if needed { Some(approval_of(link, &plan)?) } else { None };
    let (steps, last_step) = (plan.header().steps(), LastStep::of(&plan));
    let mut settings = PlanSettings::new(plan);
    if let Some((_, token)) = &approved {
        settings = settings.approval(token.as_str());
    }
    let changed = match kind {
        PlanKind::Plan => link.gate.start_plan(settings),
        PlanKind::Amendment => link.gate.amend_plan(settings),
    };
    if let (Some((id, _)), Some(approvals)) = (&approved, &link.approvals) {
        match &changed {
            Ok(_) => link.note_store(approvals.retire(id, None)),
            Err(StartPlanError::Refused(code)) => link.note_store(approvals.retire(id, Some(*code))),
            // The approval is spent.
            Err(StartPlanError::Unrecorded) => link.note_store(approvals.retire(id, None)),
            Err(_) => None,
        };
    }
    // The gate has recorded its decision.
    let root = changed.map_err(|error| Refused::from(&error))?;
    *link.last_step.lock() = Some(last_step);
    Ok(Committed { root: root.to_string(), steps, kind, on_breach: link.gate.on_breach() })
}

/// Reads the plan that the client submits. The gateway sets its context and what it amends. A plan of an agent without
/// authority, or for an expired goal, is refused before anyone is asked to approve it.
fn read(link: &Link, call: &HeldCall) -> Result<Plan, StartPlanError> {
    let (gate, contract) = (&link.gate, link.gate.contract());
    let now = link.clock.now().map_err(|_| RejectionCode::Internal)?;
    contract.check(&gate.registry().view(), now)?;
    let goal = gate.pinned_ask().map_or(Ok(()), |pin| match call.ask.as_deref() {
        Some(restated) => pin.verify(restated, contract.session(), now),
        None => pin.alive(now),
    });
    goal.map_err(|error| RejectionCode::from(&error))?;
    let context = gate.plan_context()?;
    let plan = read_plan(call.own_args().bytes(), link.settings.server(), context)?;
    Ok(match gate.plan_root().zip(gate.plan_position()) {
        Some((root, position)) => plan.amending(root, position),
        None => plan,
    })
}

/// Returns whether the whole plan needs an approval: an amendment does, every plan does if the operator requires it, and so
/// does a plan with a step whose tool requires an approval that a plan's approval covers.
fn needs_approval(link: &Link, plan: &Plan, kind: PlanKind, approvals: PlanApprovals) -> bool {
    let view = link.gate.registry().view();
    let is_covered = |step: &Step| {
        let rules = view.snapshot().tool(step.tool());
        rules.is_some_and(|rules| step_approval(rules, step) == ApprovalRule::Required)
    };
    kind == PlanKind::Amendment || approvals == PlanApprovals::Always || plan.steps().iter().any(is_covered)
}

/// Returns the approval of exactly this plan. If it is missing, requests it and refuses the plan.
fn approval_of(link: &Link, plan: &Plan) -> Result<(CallId, ApprovalToken), Refused> {
    let code = RejectionCode::ApprovalRequired.as_str();
    let required = |question, record| Refused {
        code,
        message: "a person must approve this plan".into(),
        retry: Retry::AfterApproval,
        unlock: Some("an approval of exactly this plan"),
        question,
        record,
        is_approval_spent: false,
        reason: None,
    };
    let args = Digest::of(plan.to_json().as_bytes());
    let Some(approvals) = &link.approvals else {
        let record = record_refused(link, None, args, code, "no approvals are taken");
        return Err(record.map_or_else(|()| unrecorded(), |record| required(None, record)));
    };
    let request = link.gate.plan_approval_request(plan).map_err(|error| refuse(link, args, &error))?;
    let now = link.clock.now().ok();
    let root = request.binding().plan;
    match now.and_then(|now| link.note_store(approvals.answer(request.binding(), now))?) {
        Some(ApproverAnswer::Approved(id, tokens)) => {
            // A plan needs one approval.
            let token = tokens.into_iter().next().ok_or_else(unrecorded)?;
            return Ok((id, token));
        }
        Some(ApproverAnswer::Denied(_, denial)) => {
            let mut entry =
                refusal(link, root, args, RejectionCode::ApprovalDenied.as_str(), "a person refused it");
            entry.denied_by = Some(denial.by.as_str().into());
            let record = link.keep_refusal(entry).map_err(|()| unrecorded())?;
            return Err(denied(record, denial.reason));
        }
        Some(ApproverAnswer::Attested(..) | ApproverAnswer::Edited(..)) | None => {}
    }
    let entry = |code: &str| refusal(link, root, args, code, "no approval of the plan was given");
    let refusals = link.gate.refusals();
    let unasked = entry(code);
    if !refusals.takes_question(unasked.time) {
        // A question needs a record of its own.
        refusals.add_call(&unasked, None);
        return Err(required(None, None));
    }
    let questions = desk(link, None);
    let other = match questions.file(&request) {
        Ok(()) | Err(NotFiled::IdInUse) => None,
        Err(NotFiled::Full) => Some(RejectionCode::ApprovalsFull),
        Err(NotFiled::Denied) => Some(RejectionCode::ApprovalDenied),
        Err(NotFiled::Unavailable | _) => Some(RejectionCode::StoreUnavailable),
    };
    if let Some(code) = other {
        let record = link.keep_refusal(entry(code.as_str())).map_err(|()| unrecorded())?;
        return Err(if code == RejectionCode::ApprovalDenied {
            denied(record, None)
        } else {
            Refused { record, ..Refused::from(&StartPlanError::Refused(code)) }
        });
    }
    let Some(record) = link.keep(&Record::Decision(unasked)) else {
        questions.withdraw(&request);
        return Err(unrecorded());
    };
    match questions.filed() {
        // A question about this root exists, approved or never answered. Only another plan is another question.
        Some(Err(_)) => Err(Refused {
            retry: Retry::AfterChange,
            unlock: Some("a plan that was not asked about before"),
            ..required(None, Some(record))
        }),
        filed => Err(required(filed.and_then(Result::ok).map(Box::new), Some(record))),
    }
}

/// Refuses a plan that an approver denied.
fn denied(record: Option<u64>, reason: Option<DenialReason>) -> Refused {
    Refused {
        code: RejectionCode::ApprovalDenied.as_str(),
        message: "a person refused this plan".into(),
        retry: RejectionCode::ApprovalDenied.retry(),
        unlock: Some("a plan that was not asked about before"),
        question: None,
        record,
        is_approval_spent: false,
        reason,
    }
}

/// Refuses a plan whose refusal cannot be recorded.
fn unrecorded() -> Refused {
    Refused::from(&StartPlanError::Refused(RejectionCode::AuditUnavailable))
}

/// Refuses a plan before it reaches the gate, and records the refusal.
fn refuse(link: &Link, args: Digest, error: &StartPlanError) -> Refused {
    let reason = error.to_string();
    match record_refused(link, None, args, error.code(), &reason) {
        Ok(record) => Refused { record, ..Refused::from(error) },
        Err(()) => unrecorded(),
    }
}

/// Finishes the plan if it is done: its root is recomputed, and the gate records that it is the same. The results of the steps
/// are dropped here: the client received each one when it came.
pub(crate) fn finish(link: &Link) {
    let _ = link.gate.finish_plan();
}

/// Finishes the plan if it has no call left.
pub(crate) fn finish_if_over(link: &Link) {
    let is_over = link.last_step.lock().as_ref().is_some_and(LastStep::is_over);
    if is_over {
        finish(link);
    }
}

/// Records the refusal of a plan, as the gate does for the plans that it is asked to start.
fn record_refused(
    link: &Link,
    root: Option<Digest>,
    args: Digest,
    code: &str,
    reason: &str,
) -> Result<Option<u64>, ()> {
    link.keep_refusal(refusal(link, root, args, code, reason))
}

fn refusal(link: &Link, root: Option<Digest>, args: Digest, code: &str, reason: &str) -> CallRecord {
    let (gate, contract) = (&link.gate, link.gate.contract());
    let call_id = root.map_or_else(|| NO_ROOT.to_owned(), |root| root.to_string());
    let mut record = CallRecord::new(
        link.now(),
        contract.session().clone(),
        contract.agent().clone(),
        gate.principal().clone(),
        &call_id,
        RecordedTool::new(PLAN_TOOL.0, PLAN_TOOL.1),
        Verdict::Reject,
        gate.registry().view().snapshot().version(),
    );
    record.args = Some(args);
    record.args_recipe = Some(Recipe::Jcs1.as_str().into());
    record.ask = gate.pinned_ask().map(|pin| pin.digest());
    record.plan = root;
    record.about_plan = true;
    record.code = Some(code.into());
    record.reason = Some(reason.into());
    record
}
