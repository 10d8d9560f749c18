//! All approvals that a plan needs: they are found or requested before any of its calls begins. A run that asked in the
//! middle would have to start over and repeat its first calls.

use std::collections::{BTreeSet, HashMap, HashSet};

use countersign_committed_plan::{CommittedPlan, Plan};
use countersign_core::{CallId, OperatorId};
use countersign_registry::ApprovalRule;
use countersign_tool_gate::{
    ApprovalRequest, HaltPlanError, PlanSettings, RejectionCode, StartPlanError, ToolGate,
};

use super::approval::{Approvals, Question, QuestionAnswer};
use super::commit::needing;
use super::fill::PlannedRun;
use crate::failure::{Failure, chain};
use crate::output::{Output, note};

/// Approval tokens from the command line.
pub(super) struct Tokens<'a> {
    pub(super) plan: Option<String>,
    /// Tokens of single calls, each with its step.
    pub(super) steps: &'a [(u64, String)],
}

/// Approvals that one plan needs.
#[derive(Debug)]
pub(super) struct Questions {
    plan: Option<Question>,
    /// One item for each call; `None` if it needs no approval of its own.
    calls: Vec<Option<Question>>,
}

/// Denied and missing approvals.
#[derive(Default)]
struct Unapproved<'q> {
    no: Vec<(&'q Question, OperatorId)>,
    missing: Vec<&'q Question>,
}

impl Questions {
    /// Collects the approvals that the plan needs. `plan_file` is a file with the committed text of the plan, if there
    /// is one.
    pub(super) fn of(
        gate: &ToolGate,
        plan: &Plan,
        committed: &CommittedPlan,
        runs: &[PlannedRun],
        tokens: Tokens<'_>,
        approvals: &Approvals,
        plan_file: Option<String>,
    ) -> Result<Self, Failure> {
        let (contract, view) = (gate.contract(), gate.registry().view());
        let of_plan = tokens.plan.is_some()
            || !needing(plan.steps(), &contract, &view, ApprovalRule::Required).is_empty();
        let needs_own = |run: &PlannedRun| {
            let rules = contract.disclosed(&view, &run.tool);
            rules
                .is_some_and(|rules| rules.entry().approval_of(run.args.own(), &[]) == ApprovalRule::EachCall)
        };
        if !approvals.are_taken() && (of_plan || runs.iter().any(needs_own)) {
            let text = "approval required or given without the gate's key: give the key";
            return Err(Failure::refused("APPROVAL_REQUIRED", text));
        }
        let mut questions = Self { plan: None, calls: Vec::new() };
        if of_plan {
            let request =
                gate.plan_approval_request(plan).map_err(|error| on_record(gate, plan, None, &error))?;
            let given = tokens.plan;
            if let Some(token) = &given
                && let Err(code) = check_token(gate, approvals, &request, token)?
            {
                return Err(on_record(gate, plan, given.as_deref(), &code.into()));
            }
            questions.plan = Some(Question::new("the plan".to_owned(), request, given, plan_file));
        }
        for run in runs {
            let request = needs_own(run).then(|| request_of(gate, committed, run)).transpose();
            let request = request.map_err(|error| on_record(gate, plan, None, &error))?;
            questions.calls.push(request.map(|request| Question::new(what(run, runs), request, None, None)));
        }
        questions.hand_out(gate, approvals, runs, tokens.steps)?;
        questions.mark_acts();
        Ok(questions)
    }

    /// Assigns every step token to a call that it approves. A token that approves none is refused before the plan
    /// starts: at the gate it would count as the agent's failure, but it is the operator's.
    fn hand_out(
        &mut self,
        gate: &ToolGate,
        approvals: &Approvals,
        runs: &[PlannedRun],
        tokens: &[(u64, String)],
    ) -> Result<(), Failure> {
        let tokens: BTreeSet<_> = tokens.iter().collect();
        'tokens: for (step, token) in tokens {
            let mut why = RejectionCode::ApprovalInvalid;
            let of_step = runs.iter().zip(&mut self.calls).filter(|(run, _)| run.step == *step);
            for question in of_step.filter_map(|(_, question)| question.as_mut()) {
                // A token from the command line cannot be one of several.
                let is_one_of_several = question.request.approvers().is_some_and(|it| it.needed() > 1);
                if question.given.is_some() || is_one_of_several {
                    continue;
                }
                match check_token(gate, approvals, &question.request, token)? {
                    Ok(()) => {
                        question.given = Some(token.clone());
                        continue 'tokens;
                    }
                    Err(RejectionCode::ApprovalInvalid) => {}
                    Err(code) => why = code,
                }
            }
            let text = format!(
                "--step-approval: {}: the token approves no call of step {step} that lacks one; nothing was started",
                why.message()
            );
            return Err(Failure::refused(why.as_str(), text));
        }
        Ok(())
    }

    /// Marks the calls that are the same act as another call of the plan.
    fn mark_acts(&mut self) {
        let mut counts = HashMap::new();
        for question in self.calls.iter().flatten() {
            let count: &mut u64 = counts.entry(question.request.binding().act()).or_default();
            *count = count.saturating_add(1);
        }
        for question in self.calls.iter_mut().flatten() {
            question.is_one_of_several =
                counts.get(&question.request.binding().act()).is_some_and(|count| *count > 1);
        }
    }

    /// Returns the question about the whole plan.
    pub(super) const fn plan(&self) -> Option<&Question> {
        self.plan.as_ref()
    }

    /// Returns the question about the call at this position.
    pub(super) fn call(&self, at: usize) -> Option<&Question> {
        self.calls.get(at)?.as_ref()
    }

    /// Succeeds if every question is approved; otherwise asks for the missing approvals.
    pub(super) fn settle(
        &self,
        out: &mut Output,
        gate: &ToolGate,
        approvals: &Approvals,
    ) -> Result<(), Failure> {
        let said = self.said(approvals)?;
        said.end_at_no(gate)?;
        if said.missing.is_empty() {
            return Ok(());
        }
        if approvals.are_filed() {
            self.check_acts()?;
        }
        let asked = approvals.ask(out, &said.missing);
        // An operator may have decided while the questions were printed.
        let again = self.said(approvals);
        if let Ok(again) = &again {
            again.end_at_no(gate)?;
        }
        asked?;
        let missing = again.map_or(said.missing, |again| again.missing);
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<_> = missing.iter().map(|question| question.what.as_str()).collect();
        Err(unapproved(&missing.join(", ")))
    }

    fn said(&self, approvals: &Approvals) -> Result<Unapproved<'_>, Failure> {
        let mut said = Unapproved::default();
        for question in self.plan.iter().chain(self.calls.iter().flatten()) {
            match approvals.answer(question)? {
                Some(QuestionAnswer::No(by)) => said.no.push((question, by)),
                Some(QuestionAnswer::Yes(_)) => {}
                None => said.missing.push(question),
            }
        }
        Ok(said)
    }

    /// Checks that the questions to be filed are about different acts: the store has at most one question per act.
    fn check_acts(&self) -> Result<(), Failure> {
        let open = |question: &&Question| question.is_one_of_several && question.given.is_none();
        let mut acts = HashSet::new();
        for question in self.calls.iter().flatten().filter(open) {
            if !acts.insert(question.request.binding().act()) {
                let text = format!(
                    "{} is the same act as another call of the plan, and the store has one question about it at a time: \
                     approve all but one of them by tokens (--step-approval); without --config, with the gate's key, \
                     `plan run` prints how they are minted",
                    question.what
                );
                return Err(Failure::new("PLAN_SAME_ACT", text));
            }
        }
        Ok(())
    }
}

impl Unapproved<'_> {
    /// Ends the run after a denial. Every denial is recorded.
    fn end_at_no(&self, gate: &ToolGate) -> Result<(), Failure> {
        let refused: Vec<_> = self.no.iter().map(|(question, by)| denied(gate, question, by)).collect();
        refused.into_iter().next().map_or(Ok(()), Err)
    }
}

/// Refusal for a missing approval.
pub(super) fn unapproved(what: &str) -> Failure {
    Failure::refused("APPROVAL_REQUIRED", format!("{what} must be approved"))
}

/// Records a denial and returns it as a failure.
pub(super) fn denied(gate: &ToolGate, question: &Question, by: &OperatorId) -> Failure {
    let refused = gate.refuse_plan(&question.request, Some(by.as_str()));
    if !matches!(refused, StartPlanError::Refused(RejectionCode::ApprovalDenied)) {
        return refusal(&refused);
    }
    let text =
        format!("{} was denied by {by}; run the plan in another session to request it again", question.what);
    Failure::refused(refused.code(), text)
}

/// Builds the approval request for the call under the current registry and definitions.
pub(super) fn request_of(
    gate: &ToolGate,
    committed: &CommittedPlan,
    run: &PlannedRun,
) -> Result<ApprovalRequest, StartPlanError> {
    let call_id = CallId::new(&run.call_id).map_err(|_| RejectionCode::MalformedCall)?;
    gate.step_approval_request(committed, run.step, &call_id, run.args.own())
}

/// Names the call for a person.
fn what(run: &PlannedRun, runs: &[PlannedRun]) -> String {
    let mut of_step = runs.iter().filter(|other| other.step == run.step);
    match of_step.clone().count() {
        1 => run.of_step(),
        _ => {
            let before = of_step.position(|other| other.call_id == run.call_id).unwrap_or_default();
            format!("call {} of {}", before.saturating_add(1), run.of_step())
        }
    }
}

/// Checks that the token approves the request and is not known to be used.
fn check_token(
    gate: &ToolGate,
    approvals: &Approvals,
    request: &ApprovalRequest,
    token: &str,
) -> Result<Result<(), RejectionCode>, Failure> {
    Ok(match gate.verify_approval(request, token) {
        Ok(ticket) => approvals.check_unspent(&ticket)?,
        Err(code) => Err(code),
    })
}

/// Records why an approval cannot be requested. A plan starts only if its approvals can be requested.
fn on_record(gate: &ToolGate, plan: &Plan, token: Option<&str>, error: &StartPlanError) -> Failure {
    let mut settings = PlanSettings::new(plan.clone());
    if let Some(token) = token {
        settings = settings.approval(token);
    }
    match gate.start_plan(settings) {
        Err(refused) => refusal(&refused),
        Ok(_) => {
            report_halt(gate.halt_plan(error.code()));
            refusal(error)
        }
    }
}

pub(super) fn refusal(error: &StartPlanError) -> Failure {
    Failure::refused(error.code(), chain(error))
}

/// Warns if a halt cannot be recorded.
pub(super) fn report_halt(halted: Result<(), HaltPlanError>) {
    if let Err(error @ HaltPlanError::Unrecorded) = halted {
        note(&format!("warning {}: {error}", error.code()));
    }
}
