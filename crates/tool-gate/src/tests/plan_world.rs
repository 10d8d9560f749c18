//! What the tests of step 6 share: a plan of three steps, and gates that hold calls to it.

use countersign_committed_plan::*;
use countersign_core::*;

use super::world::*;
use crate::*;

pub(super) const MAIL: &[u8] = br#"{"to":"x@customers.example","body":"paid"}"#;

pub(super) fn step(tool: &str, args: &str) -> Step {
    Step::new(ToolId::new("desk", tool).unwrap(), args.as_bytes(), &[]).unwrap()
}

/// Look for the ticket, refund it, say so.
pub(super) fn steps() -> Vec<Step> {
    vec![
        step("search", r#"{"query":"T-1001"}"#),
        step("refund", r#"{"ticket":"T-1001","amount":49}"#),
        step("mail", r#"{"to":"x@customers.example","body":"<DYNAMIC>"}"#),
    ]
}

/// A plan of the gate's own session.
pub(super) fn plan_of(gate: &ToolGate, steps: Vec<Step>) -> Plan {
    Plan::new(gate.plan_context().unwrap(), steps).unwrap()
}

pub(super) fn start_plan(gate: &ToolGate, steps: Vec<Step>) -> Result<PlanRoot, StartPlanError> {
    gate.start_plan(PlanSettings::new(plan_of(gate, steps)))
}

pub(super) const fn mail(id: &str) -> ToolCall<'_> {
    ToolCall::new(id, "desk", "mail", MAIL)
}

/// Runs the call as a step, if it may run; the code otherwise.
pub(super) fn run(gate: &ToolGate, call: &ToolCall<'_>, gives: &str) -> Option<RejectionCode> {
    match gate.check(call) {
        Ok(call) => {
            call.run_step(|_| Ok::<_, ()>(gives.as_bytes().to_vec())).unwrap();
            None
        }
        Err(no) => Some(no.code()),
    }
}

/// The code, and the reason on record.
pub(super) fn why(gate: &ToolGate, call: &ToolCall<'_>) -> (RejectionCode, String) {
    let no = gate.check(call).unwrap_err();
    let record = gate.call_log().pop().unwrap();
    (no.code(), record.reason.map(|reason| reason.as_str().to_owned()).unwrap_or_default())
}

impl World {
    /// A gate with everything, and three steps to do.
    pub(super) fn planned(&self) -> ToolGate {
        let gate = self.gate();
        start_plan(&gate, steps()).unwrap();
        gate
    }

    /// A token over the root of a plan.
    pub(super) fn approve_plan(&self, gate: &ToolGate, plan: &Plan) -> String {
        let request = gate.plan_approval_request(plan).unwrap();
        mint_for(self, request.binding(), 900)
    }

    /// A gate with everything, and three steps that were approved as a whole.
    pub(super) fn approved_plan(&self, steps: Vec<Step>) -> ToolGate {
        let gate = self.gate();
        let plan = plan_of(&gate, steps);
        let token = self.approve_plan(&gate, &plan);
        gate.start_plan(PlanSettings::new(plan).approval(&token)).unwrap();
        gate
    }
}
