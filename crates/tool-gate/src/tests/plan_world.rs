//! Shared by the tests of step 6: a plan of three steps, and gates that enforce it.

use std::sync::Arc;

use countersign_approval_token::MemorySpentTokens;
use countersign_committed_plan::*;
use countersign_core::*;

use super::world::*;
use crate::*;

pub(super) const MAIL: &[u8] = br#"{"to":"x@customers.example","body":"paid"}"#;

pub(super) fn step(tool: &str, args: &str) -> Step {
    Step::new(ToolId::new("desk", tool).unwrap(), args.as_bytes(), &[]).unwrap()
}

/// Steps that look for the ticket, refund it, and send a mail about it.
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

/// Commits a plan as the gate does.
pub(super) fn committed(gate: &ToolGate, plan: Plan) -> CommittedPlan {
    commit_plan(plan, &gate.contract(), &gate.registry().view()).unwrap()
}

/// An operator of another machine who allows everything.
pub(super) struct Lax;

impl PlanContract for Lax {
    fn discloses(&self, _: &ToolId) -> bool {
        true
    }

    fn is_data(&self, _: &ToolId, _: &OpenPlace) -> bool {
        true
    }

    fn fits(&self, _: &Step) -> bool {
        true
    }
}

/// The part of a plan that a gate on another machine gets.
pub(super) fn root_of(plan: &CommittedPlan) -> PlanRootSettings {
    PlanRootSettings::new(*plan.root(), plan.header_proof().unwrap())
}

/// Proofs of a plan's steps, in order, as JSON text.
pub(super) fn proofs_of(plan: &CommittedPlan) -> Vec<String> {
    (1..=plan.header().steps()).map(|index| plan.prove_step(index).unwrap().to_json()).collect()
}

/// An amendment that continues the gate's running plan at its position.
pub(super) fn amendment_of(gate: &ToolGate, steps: Vec<Step>) -> Plan {
    plan_of(gate, steps).amending(gate.plan_root().unwrap(), gate.plan_position().unwrap())
}

/// Runs the call as a step if it is accepted; otherwise returns the code.
pub(super) fn run(gate: &ToolGate, call: &ToolCall<'_>, gives: &str) -> Option<RejectionCode> {
    match gate.check(call) {
        Ok(call) => {
            call.run_step(|_| Ok::<_, ()>(gives.as_bytes().to_vec())).unwrap();
            None
        }
        Err(no) => Some(no.code()),
    }
}

/// Returns the code and the recorded reason.
pub(super) fn why(gate: &ToolGate, call: &ToolCall<'_>) -> (RejectionCode, String) {
    let no = gate.check(call).unwrap_err();
    let record = gate.call_log().pop().unwrap();
    (no.code(), record.reason.map(|reason| reason.as_str().to_owned()).unwrap_or_default())
}

impl World {
    /// A gate with every setting and a plan of three steps.
    pub(super) fn planned(&self) -> ToolGate {
        let gate = self.gate();
        start_plan(&gate, steps()).unwrap();
        gate
    }

    /// Mints a token over the root of a plan.
    pub(super) fn approve_plan(&self, gate: &ToolGate, plan: &Plan) -> String {
        let request = gate.plan_approval_request(plan).unwrap();
        mint_for(self, request.binding(), 900)
    }

    /// Mints a token over the root of a plan, with an id of its own.
    pub(super) fn approve_again(&self, gate: &ToolGate, plan: &Plan, number: u64) -> String {
        mint_for(self, gate.plan_approval_request(plan).unwrap().binding(), number)
    }

    /// Amends the gate's plan by these approved steps.
    pub(super) fn amend(
        &self,
        gate: &ToolGate,
        steps: Vec<Step>,
        number: u64,
    ) -> Result<PlanRoot, StartPlanError> {
        let plan = amendment_of(gate, steps);
        let token = self.approve_again(gate, &plan, number);
        gate.amend_plan(PlanSettings::new(plan).approval(&token))
    }

    /// A gate with another name, as on another machine.
    pub(super) fn named(&self, audience: &str) -> ToolGate {
        let spent = Arc::new(MemorySpentTokens::new());
        let settings = ApprovalSettings::new(keys("run-1"), spent, Audience::new(audience).unwrap());
        self.bare().pinned_ask(self.pin()).approvals(settings).plan_first().open().unwrap()
    }

    /// A gate with another name that knows only the plan's root, with an approval for it.
    pub(super) fn rooted(&self, audience: &str, plan: &CommittedPlan) -> ToolGate {
        let gate = self.named(audience);
        let settings = root_of(plan);
        let request = gate.plan_root_approval_request(&settings).unwrap();
        let token = mint_for(self, request.binding(), 700);
        gate.start_plan_root(settings.approval(&token)).unwrap();
        gate
    }

    /// A gate with every setting, and these steps approved as a whole.
    pub(super) fn approved_plan(&self, steps: Vec<Step>) -> ToolGate {
        let gate = self.gate();
        let plan = plan_of(&gate, steps);
        let token = self.approve_plan(&gate, &plan);
        gate.start_plan(PlanSettings::new(plan).approval(&token)).unwrap();
        gate
    }
}
