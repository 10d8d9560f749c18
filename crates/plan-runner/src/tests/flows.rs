use countersign_core::{ImpactClass, ToolId};

use super::case::*;
use super::world::*;
use crate::*;

const CUSTOMER: &str = r#""tool":"read_customer","args":{"id":"C-7"}"#;
const NOTE: &str = r#""tool":"note","args":{"text":"<DYNAMIC>"}"#;
const REFUND: &str = r#""tool":"refund","args":{"amount":49}"#;
const WIPE: &str = r#""tool":"wipe","args":{}"#;

fn inspect(rules: FlowRulesBuilder, steps: &[&str]) -> Option<(&'static str, Option<u64>)> {
    let world = World::new();
    let mut rules = rules.build(world.registry.view().snapshot()).unwrap();
    // A responder without turns: a plan that the inspector halts is halted earlier, with another code.
    struct NoTurn;
    impl Responder for NoTurn {
        fn turn(&mut self, _request: &TurnRequest<'_>) -> Result<String, ModelError> {
            Err(ModelError::new("INSPECTED", "no turn"))
        }
    }
    impl Tools for NoTurn {
        fn run(
            &mut self,
            _tool: &ToolId,
            _args: &countersign_canonical_json::Canonical,
        ) -> Result<Vec<u8>, ToolError> {
            panic!("no turn, no call")
        }
    }
    struct Text(String);
    impl Chat for Text {
        fn complete(&mut self, _messages: &[ChatMessage]) -> Result<String, ModelError> {
            Ok(self.0.clone())
        }
    }
    let mut planner = ModelPlanner::new(Text(plan(steps)));
    let (mut responder, mut tools) = (NoTurn, NoTurn);
    let actors = Actors::new(&mut planner, vec![&mut rules], &mut responder, &mut tools);
    let error = PlanRunner::new(world.gate(), world.clock()).run(&Task::new(GOAL), actors).unwrap_err();
    (error.code() != "INSPECTED").then(|| (error.code(), error.step()))
}

#[test]
fn a_forbidden_tool_halts_the_plan_at_its_step() {
    let rules = || FlowRules::builder().forbid(tool("wipe"));
    assert_eq!(inspect(rules(), &[READ, REFUND]), None);
    assert_eq!(inspect(rules(), &[READ, WIPE]), Some(("FLOW_TOOL_FORBIDDEN", Some(2))));
}

#[test]
fn the_calls_of_an_impact_are_counted_over_all_steps() {
    let rules = |most| FlowRules::builder().most_calls(ImpactClass::Write, most);
    let many = r#""tool":"note","args":{"text":"<DYNAMIC>"},"max_calls":3"#;
    assert_eq!(inspect(rules(2), &[NOTE, READ, NOTE]), None);
    assert_eq!(inspect(rules(1), &[NOTE, READ, NOTE]), Some(("FLOW_IMPACT_LIMIT", Some(3))));
    assert_eq!(inspect(rules(2), &[many]), Some(("FLOW_IMPACT_LIMIT", Some(1))), "calls count, not steps");
    assert_eq!(inspect(rules(0), &[READ, MAIL]), None, "of that impact alone");
    let both = rules(5).most_calls(ImpactClass::Money, 0);
    assert_eq!(inspect(both, &[NOTE, REFUND]), Some(("FLOW_IMPACT_LIMIT", Some(2))));
}

#[test]
fn nothing_leads_outside_once_private_data_was_read() {
    let rules = || FlowRules::builder().no_egress_after_private();
    let halted = |step| Some(("FLOW_EGRESS_AFTER_PRIVATE", Some(step)));
    assert_eq!(inspect(rules(), &[READ, MAIL, CUSTOMER]), None, "before is before");
    assert_eq!(inspect(rules(), &[CUSTOMER, NOTE]), None, "a note stays inside");
    for egress in [MAIL, REFUND, WIPE] {
        assert_eq!(inspect(rules(), &[CUSTOMER, NOTE, egress]), halted(3), "{egress}");
    }
}

#[test]
fn flow_rules_apply_to_tools_the_operator_marked() {
    let rules = || FlowRules::builder().no_egress_after_private();
    let halted = |step| Some(("FLOW_EGRESS_AFTER_PRIVATE", Some(step)));
    assert_eq!(inspect(rules().reads_private(tool("read_ticket")), &[READ, MAIL]), halted(2));
    assert_eq!(inspect(rules().leads_outside(tool("note")), &[CUSTOMER, NOTE]), halted(2));
    let both = || rules().reads_private(tool("send_mail"));
    assert_eq!(inspect(both(), &[MAIL]), None, "one call reads and sends at once");
    assert_eq!(inspect(both(), &[MAIL, MAIL]), halted(2));
    let twice = format!("{MAIL},\"max_calls\":2");
    assert_eq!(inspect(both(), &[&twice]), halted(1), "the second call comes after the first");
}

#[test]
fn empty_unknown_or_unused_flow_rules_are_refused() {
    let world = World::new();
    let view = world.registry.view();
    let code = |rules: FlowRulesBuilder| rules.build(view.snapshot()).map_err(|error| error.code()).err();
    assert_eq!(code(FlowRules::builder()), Some("FLOW_RULES_EMPTY"));
    for rules in [
        FlowRules::builder().forbid(tool("wipes")),
        FlowRules::builder().no_egress_after_private().reads_private(tool("wipes")),
        FlowRules::builder().no_egress_after_private().leads_outside(tool("wipes")),
        FlowRules::builder().forbid(ToolId::new("attic", "wipe").unwrap()),
    ] {
        assert_eq!(code(rules), Some("FLOW_RULES_TOOL_UNKNOWN"));
    }
    let unused = FlowRules::builder().forbid(tool("wipe")).reads_private(tool("note"));
    assert_eq!(code(unused), Some("FLOW_RULES_UNUSED"));
}
