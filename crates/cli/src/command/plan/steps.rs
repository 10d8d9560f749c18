use countersign_approval_token::ApprovalToken;
use countersign_audit_log::OutcomeKind;
use countersign_canonical_json::ValueRef;
use countersign_committed_plan::VerifiedTrace;
use countersign_core::{CallId, OperatorId, ServerName};
use countersign_registry::definition_digest;
use countersign_tool_gate::{AcceptedCall, ApprovalRequest, Rejection, ToolCall, ToolGate};
use serde_json::json;

use super::approval::{Answer, Approvals};
use super::fill::PlannedRun;
use crate::failure::{Failure, one_line};
use crate::output::{Output, internal};
use crate::server::{CallEnd, Client};
use crate::shown::shown_json;

/// A plan under way: its gate, its server, and where approvals of single calls come from.
pub(super) struct Steps<'a> {
    pub(super) gate: &'a ToolGate,
    pub(super) client: &'a mut Client,
    pub(super) server: &'a ServerName,
    /// The session's goal, which is restated with every call: whoever runs the plan has stated it.
    pub(super) goal: Option<&'a str>,
    pub(super) approvals: &'a Approvals,
    /// Approvals of single calls, by step.
    pub(super) tokens: &'a [(u64, String)],
}

impl Steps<'_> {
    /// Has the gate know what the server says now that its tools are. Where it does not say it clearly, the gate knows nothing,
    /// and refuses a tool whose definition is signed.
    pub(super) fn note_definitions(&mut self) -> Result<(), Failure> {
        let pages = self.client.list_tools()?;
        let listed: Vec<_> = pages
            .iter()
            .filter_map(|page| page.value().pointer("/result/tools"))
            .flat_map(ValueRef::elements)
            .filter_map(|tool| tool.get("name").and_then(ValueRef::as_str).map(|name| (name, tool)))
            .collect();
        for tool in self.gate.contract().tools().iter().filter(|tool| tool.server() == self.server) {
            let mut named = listed.iter().filter(|(name, _)| *name == tool.name().as_str());
            // Which of two definitions a call would reach, nobody can say.
            let one = named.next().filter(|_| named.next().is_none());
            match one.and_then(|(_, one)| definition_digest(*one).ok()) {
                Some(definition) => self.gate.note_definition(tool, definition),
                None => self.gate.forget_definition(tool),
            }
        }
        Ok(())
    }

    /// Runs every call of the plan, one after another, and stops at the first that is refused or fails.
    pub(super) fn run(&mut self, out: &mut Output, runs: &[PlannedRun], steps: usize) -> Result<(), Failure> {
        for run in runs {
            if self.client.have_tools_changed() {
                self.note_definitions()?;
            }
            let accepted = self.check(out, run)?;
            tell_verified(out, &accepted, run, steps)?;
            let tool = accepted.tool().clone();
            let (args, in_flight) = accepted.dispatch();
            // Whatever ends the wait for an answer, what came of the call is not known then, and dropping says so.
            match self.client.call(tool.name(), &args)? {
                CallEnd::Returned(result) => in_flight.observe(result),
                CallEnd::Failed => {
                    in_flight.finish(OutcomeKind::Failed);
                    let text = format!("step {}: the tool failed; the plan ends here", run.step);
                    return Err(Failure::new("PLAN_STEP_FAILED", text));
                }
            }
        }
        Ok(())
    }

    fn check(&self, out: &mut Output, run: &PlannedRun) -> Result<AcceptedCall, Failure> {
        let plain = || self.call(run, &run.call_id);
        let tokens: Vec<_> = self.tokens.iter().filter(|(step, _)| *step == run.step).collect();
        let with_tokens = || tokens.iter().fold(plain(), |call, (_, token)| call.approval(token));
        // A no that was filed comes before any token, and what it has to be about the gate says of the call without one.
        let looks_first = self.approvals.are_filed() && !tokens.is_empty();
        let rejection = match self.gate.check(&if looks_first { plain() } else { with_tokens() }) {
            Ok(accepted) => return Ok(accepted),
            Err(rejection) => rejection,
        };
        let Some(request) = rejection.approval_request() else {
            return Err(refused(run, &rejection));
        };
        if looks_first {
            return match self.approvals.denied(request)? {
                Some(by) => self.check_denied(run, request, &by),
                None => self.gate.check(&with_tokens()).map_err(|rejection| refused(run, &rejection)),
            };
        }
        let what = format!("step {} ({})", run.step, run.tool);
        match self.approvals.answer(out, &what, request, None)? {
            Answer::Approved(id, token) => self.check_approved(run, &id, &token),
            Answer::Denied(by) => self.check_denied(run, request, &by),
        }
    }

    /// Asks once more, for the record: somebody said no.
    fn check_denied(
        &self,
        run: &PlannedRun,
        request: &ApprovalRequest,
        by: &OperatorId,
    ) -> Result<AcceptedCall, Failure> {
        let denied = self.call(run, &run.call_id).denied_as(request.binding(), by.as_str());
        self.gate.check(&denied).map_err(|rejection| refused(run, &rejection))
    }

    /// Asks once more, under the id that the approval binds.
    fn check_approved(
        &self,
        run: &PlannedRun,
        id: &CallId,
        token: &ApprovalToken,
    ) -> Result<AcceptedCall, Failure> {
        let call = self.call(run, id.as_str()).approval(token.as_str());
        let decision = self.gate.check(&call);
        self.approvals.retire(id, decision.as_ref().err().map(Rejection::code))?;
        decision.map_err(|rejection| refused(run, &rejection))
    }

    fn call<'c>(&'c self, run: &'c PlannedRun, call_id: &'c str) -> ToolCall<'c> {
        let (server, name) = (run.tool.server().as_str(), run.tool.name().as_str());
        let call = ToolCall::new(call_id, server, name, run.args.as_bytes()).plan_step(run.step);
        match self.goal {
            Some(goal) => call.ask(goal),
            None => call,
        }
    }
}

fn refused(run: &PlannedRun, rejection: &Rejection) -> Failure {
    let unlock = rejection.unlock().map(|unlock| format!(" (what would help: {unlock})")).unwrap_or_default();
    let text = format!("step {} ({}): {}{unlock}", run.step, run.tool, rejection.message());
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

/// Shows what ran and what came of it.
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
