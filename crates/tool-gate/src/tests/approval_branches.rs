use countersign_committed_plan::{DYNAMIC, Step};
use countersign_core::ToolId;
use countersign_registry::ApprovalRule;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::*;
use crate::RejectionCode::*;
use crate::*;

/// A registry in which the tool `refund` has this approval rule.
pub(super) fn world_with(approval: &Value, edit: impl FnOnce(&mut Value)) -> World {
    let mut value: Value = serde_json::from_str(&draft(1, NONE_REVOKED)).unwrap();
    let tools = value["tools"].as_array_mut().unwrap();
    let refund = tools.iter_mut().find(|tool| tool["name"] == "refund").unwrap();
    refund["approval"] = approval.clone();
    edit(refund);
    World::of_draft(&value.to_string())
}

pub(super) fn small() -> Value {
    json!({"rule": "required", "unless": [[{"kind": "number", "at": "/amount", "max": 20}]]})
}

pub(super) fn paid(amount: &Value) -> Vec<u8> {
    json!({"ticket": "T-1001", "amount": amount}).to_string().into_bytes()
}

fn code_of(gate: &ToolGate, args: &[u8]) -> Option<RejectionCode> {
    code(gate, &ToolCall::new("c1", "desk", "refund", args))
}

#[test]
fn call_that_matches_a_branch_needs_no_approval() {
    let world = world_with(&small(), |_| ());
    assert_eq!(code_of(&world.gate(), &paid(&json!(20))), None);
    let record = last_decision(&world);
    assert_eq!((record.approval, record.approver), (None, None));
    assert_eq!(code_of(&world.gate(), &paid(&json!(20.5))), Some(ApprovalRequired));
    let bare = world.bare().open().unwrap();
    assert_eq!(code_of(&bare, &paid(&json!(20))), None, "a gate without approvals");
    assert_eq!(code_of(&bare, &paid(&json!(21))), Some(ApprovalRequired));
}

#[test]
fn branch_removes_no_other_check() {
    let strict = |edit: &dyn Fn(&mut Value)| {
        let world = world_with(&small(), edit);
        code_of(&world.gate(), &paid(&json!(1)))
    };
    assert_eq!(strict(&|_| ()), None);
    let address = json!([{"kind": "number", "at": "/amount", "min": 2}]);
    assert_eq!(strict(&|tool| tool["constraints"] = address.clone()), Some(ArgsConstraint));
    assert_eq!(strict(&|tool| tool["plan"] = json!("required")), Some(PlanRequired));
    assert_eq!(strict(&|tool| tool["ask"] = json!("required")), Some(AskRequired));
    assert_eq!(strict(&|tool| tool["evidence"] = json!("required")), Some(PicEvidenceFailed));
    let world = world_with(&small(), |_| ());
    assert_eq!(code_of(&world.gate(), &paid(&json!("1"))), Some(ArgsSchema));
}

#[test]
fn approval_of_a_call_that_needs_none_stays_unspent() {
    let world = world_with(&small(), |_| ());
    let gate = world.gate();
    let args = paid(&json!(49));
    let call = ToolCall::new("c1", "desk", "refund", &args);
    let token = world.approve(&gate, &call);
    let free = paid(&json!(2));
    let other = ToolCall::new("c1", "desk", "refund", &free).approval(token.as_str());
    assert_eq!(code(&gate, &other), None);
    assert_eq!(code(&gate, &call.approval(token.as_str())), None);
}

#[test]
fn denial_overrides_a_branch() {
    let world = world_with(&small(), |_| ());
    let free = paid(&json!(2));
    let call = ToolCall::new("c1", "desk", "refund", &free);
    assert_eq!(code(&world.gate(), &call.denied_by("grace")), Some(ApprovalDenied));
}

#[test]
fn step_with_an_open_argument_needs_an_approval() {
    let world = world_with(&small(), |tool| tool["data_args"] = json!(["/note"]));
    let view = world.registry.view();
    let tool = ToolId::new("desk", "refund").unwrap();
    let rules = view.snapshot().tool(&tool).unwrap();
    let needed = |args: Value, open: &[&str]| {
        step_approval(rules, &Step::new(tool.clone(), args.to_string().as_bytes(), open).unwrap())
    };
    assert_eq!(needed(json!({"ticket": "t", "amount": 2}), &[]), ApprovalRule::NotRequired);
    assert_eq!(needed(json!({"ticket": "t", "amount": 21}), &[]), ApprovalRule::Required);
    let dynamic = json!({"ticket": "t", "amount": DYNAMIC});
    assert_eq!(needed(dynamic, &["/amount"]), ApprovalRule::Required);
}

fn constraint() -> impl Strategy<Value = Value> {
    let at = prop_oneof![Just("/amount"), Just("/ticket"), Just("/to"), Just("/to/0")];
    (at, 0_u8..4, 0..40_i32).prop_map(|(at, kind, number)| match kind {
        0 => json!({"kind": "number", "at": at, "max": number}),
        1 => json!({"kind": "number", "at": at, "min": number}),
        2 => json!({"kind": "empty_list", "at": at}),
        _ => json!({"kind": "email_domain", "at": at, "domains": ["a.test"]}),
    })
}

fn args() -> impl Strategy<Value = Value> {
    let amount = prop_oneof![(-5..45_i32).prop_map(Value::from), Just(json!("9")), Just(json!(null))];
    let to = prop_oneof![
        Just(json!([])),
        Just(json!("x@a.test")),
        Just(json!(["x@a.test", "y@b.test"])),
        Just(json!(7)),
        Just(json!(null))
    ];
    (amount, to, any::<bool>()).prop_map(|(amount, to, has_ticket)| {
        let mut args = json!({"amount": amount, "to": to});
        if has_ticket {
            args["ticket"] = json!("T-1001");
        }
        args
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn branch_accepts_what_only_an_approval_kept_back(
        unless in prop::collection::vec(prop::collection::vec(constraint(), 1..3), 1..3),
        own in prop::collection::vec(constraint(), 0..2),
        each_call in any::<bool>(), evidence in any::<bool>(), args in args(),
        ask in prop::option::of(prop_oneof![Just(GOAL), Just("another goal")]), definition in any::<bool>(),
    ) {
        let rule = if each_call { "each_call" } else { "required" };
        let code_under = |approval: &Value| {
            let world = world_with(approval, |tool| {
                tool["constraints"] = json!(own);
                if evidence && args["amount"] == 9 {
                    tool["evidence"] = json!("required");
                }
                if definition && args["amount"] == 8 {
                    tool["definition"] = json!("0".repeat(64));
                }
            });
            let text = args.to_string().into_bytes();
            let mut call = ToolCall::new("c1", "desk", "refund", &text);
            if let Some(ask) = ask {
                call = call.ask(ask);
            }
            code(&world.gate(), &call)
        };
        let (with, plain) = (code_under(&json!({"rule": rule, "unless": unless})), code_under(&json!(rule)));
        prop_assert!(with == plain || plain == Some(ApprovalRequired), "{with:?} {plain:?}");
        if with.is_none() {
            prop_assert!(plain.is_none() || plain.is_some_and(|code| code.as_str().starts_with("APPROVAL_")));
        }
        prop_assert_ne!(plain, None, "the plain rule lets nothing through here");
    }
}
