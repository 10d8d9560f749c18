use countersign_audit_log::OutcomeKind;
use countersign_canonical_json::ValueRef;
use countersign_committed_plan::VerifiedTrace;
use countersign_core::ServerName;
use countersign_plan_runner::StartedPlan;
use countersign_registry::definition_digest;
use countersign_tool_gate::{AcceptedCall, Rejection, ToolCall, ToolGate};
use serde_json::json;

use super::approval::{Approvals, Question, QuestionAnswer};
use super::fill::PlannedRun;
use super::questions::{Questions, request_of};
use crate::failure::{Failure, chain, one_line};
use crate::output::{Output, internal};
use countersign_host::escape::shown_json;
use countersign_host::server::{CallEnd, Client};

/// The parts of a run that supply the calls of its plan: gate, server, and the source of approvals for single calls.
pub(super) struct Steps<'a> {
    pub(super) gate: &'a ToolGate,
    pub(super) client: &'a mut Client,
    pub(super) server: &'a ServerName,
    /// The session's goal, which every call restates: the operator who runs the plan stated it.
    pub(super) goal: Option<&'a str>,
    pub(super) approvals: &'a Approvals,
}

impl Steps<'_> {
    /// Reports the definitions that the server lists now to the gate. If a tool's definition is missing, ambiguous or
    /// malformed, the gate forgets it and refuses the tool if its definition is signed.
    pub(super) fn note_definitions(&mut self) -> Result<(), Failure> {
        let pages = self.client.list_tools()?;
        let listed: Vec<_> = pages
            .iter()
            .filter_map(|page| page.value().pointer("/result/tools"))
            .flat_map(ValueRef::elements)
            .filter_map(|tool| tool.get("name").and_then(ValueRef::as_str).map(|name| (name, tool)))
            .collect();
        let contract = self.gate.contract();
        for tool in contract.tools().iter().filter(|tool| tool.server() == self.server) {
            let mut named = listed.iter().filter(|(name, _)| *name == tool.name().as_str());
            // With two definitions of one name, it is unknown which one a call would reach.
            let one = named.next().filter(|_| named.next().is_none());
            match one.and_then(|(_, one)| definition_digest(*one).ok()) {
                Some(definition) => self.gate.note_definition(tool, definition),
                None => self.gate.forget_definition(tool),
            }
        }
        Ok(())
    }

    /// Runs the calls of each step in order and stops at the first one that is refused or fails.
    pub(super) fn run(
        &mut self,
        out: &mut Output,
        mut plan: StartedPlan<'_>,
        runs: &[PlannedRun],
        questions: &Questions,
    ) -> Result<VerifiedTrace<Vec<u8>>, Failure> {
        while let Some(step) =
            plan.next_step().map_err(|error| Failure::refused(error.code(), chain(&error)))?
        {
            let number = step.index();
            let of_step = runs.iter().enumerate().filter(|(_, run)| run.step == number);
            for (at, run) in of_step {
                self.run_one(out, &mut plan, run, questions.call(at))?;
            }
            plan.end_step();
        }
        plan.finish().map_err(|error| Failure::from(error).into_refusal())
    }

    fn run_one(
        &mut self,
        out: &mut Output,
        plan: &mut StartedPlan<'_>,
        run: &PlannedRun,
        question: Option<&Question>,
    ) -> Result<(), Failure> {
        self.client.check_interrupt()?;
        if self.client.have_tools_changed() {
            self.note_definitions()?;
        }
        let accepted = self.check(plan, run, question)?;
        tell_verified(out, &accepted, run, plan.plan().steps().len())?;
        let tool = accepted.tool().clone();
        let (args, in_flight) = accepted.dispatch().map_err(|rejection| refused(run, &rejection))?;
        // If the answer does not arrive, the outcome is unknown; dropping `in_flight` records that.
        match self.client.call(tool.name(), &args)? {
            CallEnd::Returned(result) => in_flight.observe(result),
            CallEnd::Failed => {
                in_flight.finish(OutcomeKind::Failed);
                let text = format!("step {}: the tool failed; the plan ends here", run.step);
                return Err(Failure::new("PLAN_STEP_FAILED", text));
            }
        }
        Ok(())
    }

    fn check(
        &self,
        plan: &mut StartedPlan<'_>,
        run: &PlannedRun,
        question: Option<&Question>,
    ) -> Result<AcceptedCall, Failure> {
        // why: the server may have changed its tool since the approval. The approval then covers another call, and the
        // agent is not to blame for that.
        let question = question.filter(|question| {
            let now = request_of(self.gate, plan.plan(), run);
            now.is_ok_and(|now| now.binding() == question.request.binding())
        });
        let answer = question.map(|question| self.approvals.answer(question)).transpose()?.flatten();
        let decision = match (question, answer) {
            (Some(question), Some(QuestionAnswer::Yes(yes))) => {
                let call = self.call(run, yes.call_id(question).as_str());
                let call =
                    yes.more.iter().fold(call.approval(&yes.token), |call, token| call.approval(token));
                let decision = plan.check(call);
                let unspent = decision.as_ref().err().filter(|rejection| !rejection.approval_spent());
                self.approvals.retire(&yes, unspent.map(Rejection::code));
                decision
            }
            (Some(question), Some(QuestionAnswer::No(by))) => {
                let call = self.call(run, &run.call_id);
                plan.check(call.denied_as(question.request.binding(), by.as_str()))
            }
            // No approval is needed, or an earlier one is gone; then the gate records its refusal.
            (_, None) | (None, _) => plan.check(self.call(run, &run.call_id)),
        };
        decision.map_err(|rejection| refused(run, &rejection))
    }

    fn call<'c>(&'c self, run: &'c PlannedRun, call_id: &'c str) -> ToolCall<'c> {
        let (server, name) = (run.tool.server().as_str(), run.tool.name().as_str());
        let call = ToolCall::from_read(call_id, Some(server), name, &run.args);
        match self.goal {
            Some(goal) => call.ask(goal),
            None => call,
        }
    }
}

fn refused(run: &PlannedRun, rejection: &Rejection) -> Failure {
    let unlock = rejection.unlock().map(|unlock| format!(" (what would help: {unlock})")).unwrap_or_default();
    let spent = if rejection.approval_spent() { "; its approval is spent" } else { "" };
    let text = format!("{}: {}{unlock}{spent}", run.of_step(), rejection.message());
    Failure::refused(rejection.code().as_str(), text)
}

fn tell_verified(
    out: &mut Output,
    accepted: &AcceptedCall,
    run: &PlannedRun,
    steps: usize,
) -> Result<(), Failure> {
    let report = json!({
        "event": "verified",
        "step": run.step,
        "call_id": accepted.call_id(),
        "tool": accepted.tool(),
        "args_digest": accepted.args().digest(),
        "record": accepted.sequence(),
    });
    let text = format!("step {} of {steps}  {}  verified, runs", run.step, accepted.tool());
    out.result(&report, &text)?;
    out.flush()
}

/// Prints the steps that ran and their results.
pub(super) fn tell_trace(out: &mut Output, trace: &VerifiedTrace<Vec<u8>>) -> Result<(), Failure> {
    let returned =
        |observation: &[u8]| String::from_utf8(observation.to_vec()).map_err(|_| internal("not UTF-8"));
    let root = trace.roots().last().ok_or_else(|| internal("a trace without a plan"))?;
    let mut text = format!("the plan's root was found again: {root}");
    let mut steps = Vec::new();
    for step in trace.steps() {
        let observation = returned(step.observation())?;
        let purpose =
            step.description().map(|purpose| format!("  {}", one_line(purpose))).unwrap_or_default();
        text.push_str(&format!(
            "\n\nstep {}  {}{purpose}\n  record {}, arguments sha-256 {}\n{}",
            step.index(),
            step.tool(),
            step.record(),
            step.args(),
            shown_json(&observation)
        ));
        steps.push(json!({
            "step": step.index(),
            "tool": step.tool(),
            "description": step.description(),
            "args_digest": step.args(),
            "record": step.record(),
            "result": observation,
        }));
    }
    out.result(&json!({"ok": true, "event": "finished", "root": root, "trace": steps}), &text)
}
