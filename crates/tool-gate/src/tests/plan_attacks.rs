//! The rows of attacks.md, *Plan*, at the gate. Rows about the order of a whole plan are in `plans.rs`, about its start
//! in `plan_starts.rs`, and about amendments in `plan_amendments.rs`. These are the attacks with another plan under the
//! same approval, or with another proof.

use super::plan_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_committed_plan::*;
use serde_json::{Value, json};

/// A planner's plan of three steps, its proof of the first one, and a gate that knows only the root.
fn scene(world: &World) -> (CommittedPlan, Value, ToolGate) {
    let planner = world.gate();
    let plan = committed(&planner, plan_of(&planner, steps()));
    let proof = serde_json::from_str(&proofs_of(&plan)[0]).unwrap();
    let gate = world.rooted("gate-2", &plan);
    (plan, proof, gate)
}

/// Returns the code and reason of a search with this proof, which must not run.
fn refused(gate: &ToolGate, proof: &Value) -> (RejectionCode, String) {
    let text = proof.to_string();
    let told = why(gate, &search("c").plan_proof(text.as_bytes()));
    assert_eq!(gate.plan_position(), Some(0));
    told
}

/// Changes the proof in one respect, at a new gate each time.
fn forged(change: impl FnOnce(&mut Value)) -> (RejectionCode, String) {
    let world = World::new();
    let (_, mut proof, gate) = scene(&world);
    change(&mut proof);
    refused(&gate, &proof)
}

fn leaf() -> (RejectionCode, String) {
    (PlanStepMismatch, "leaf".into())
}

#[test]
fn a_plan_that_was_edited_after_its_approval_does_not_start() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve_plan(&gate, &plan_of(&gate, steps()));
    let edits: [fn(&mut Vec<Step>); 8] = [
        |all| all[0] = step("search", r#"{"query":"T-1002"}"#),
        |all| all[0] = all[0].clone().describe("another word").unwrap(),
        |all| all[0] = all[0].clone().calls(2).unwrap(),
        |all| all[2] = step("mail", r#"{"to":"x@customers.example","body":"fixed"}"#),
        |all| all.swap(0, 1),
        |all| drop(all.remove(1)),
        |all| all.insert(1, step("twin", "{}")),
        |all| all.push(all[2].clone()),
    ];
    for edit in edits {
        let mut other = steps();
        edit(&mut other);
        let started = gate.start_plan(PlanSettings::new(plan_of(&gate, other)).approval(&token));
        assert_eq!(started.unwrap_err().code(), "APPROVAL_INVALID");
        let record = gate.call_log().pop().unwrap();
        assert!(record.reason.unwrap().as_str().starts_with("other-"), "the record says what differs");
    }
    gate.start_plan(PlanSettings::new(plan_of(&gate, steps())).approval(&token)).unwrap();
}

#[test]
fn the_last_step_doubled_has_another_root() {
    // CVE-2012-2459: a header and two steps are three leaves; with the last one doubled they are four.
    let world = World::new();
    let planner = world.gate();
    let two = || vec![step("twin", "{}"), step("search", r#"{"query":"T-1001"}"#)];
    let mut three = two();
    three.push(two()[1].clone());
    let (short, long) =
        (committed(&planner, plan_of(&planner, two())), committed(&planner, plan_of(&planner, three)));
    for proof in proofs_of(&long) {
        let gate = world.rooted("gate-2", &short);
        assert_eq!(why(&gate, &search("c").plan_proof(proof.as_bytes())), leaf());
    }
}

#[test]
fn an_edited_step_does_not_pass_for_the_planned_one() {
    assert_eq!(forged(|proof| proof["step"]["args"]["query"] = json!("T-1002")), leaf());
    assert_eq!(forged(|proof| proof["step"]["args"]["query"] = json!("<DYNAMIC>")), leaf());
    assert_eq!(forged(|proof| proof["step"]["max_calls"] = json!(9)), leaf());
    assert_eq!(forged(|proof| proof["step"]["description"] = json!("look")), leaf());
    assert_eq!(forged(|proof| proof["step"]["tool"]["name"] = json!("twin")), leaf());
}

#[test]
fn a_proof_with_another_index_or_size_is_refused() {
    assert_eq!(forged(|proof| proof["index"] = json!(2)), leaf());
    assert_eq!(forged(|proof| proof["index"] = json!(3)), leaf());
    assert_eq!(forged(|proof| proof["steps"] = json!(2)), leaf());
    assert_eq!(forged(|proof| proof["index"] = json!(0)).0, MalformedCall);
    assert_eq!(forged(|proof| proof["index"] = json!(4)).0, MalformedCall);
    assert_eq!(forged(|proof| proof["steps"] = json!(7)), leaf());
    assert_eq!(forged(|proof| proof["steps"] = json!(u64::MAX)).0, MalformedCall);
}

#[test]
fn a_proof_that_is_too_short_or_too_long_is_refused() {
    let code = |change: fn(&mut Vec<Value>)| forged(|proof| change(proof["path"].as_array_mut().unwrap())).0;
    assert_eq!(code(|path| path.truncate(1)), PlanStepMismatch);
    assert_eq!(code(Vec::clear), PlanStepMismatch);
    assert_eq!(code(|path| path.push(path[0].clone())), PlanStepMismatch);
    assert_eq!(code(|path| path.resize(65, path[0].clone())), MalformedCall, "no tree is as deep");
    assert_eq!(code(|path| path.swap(0, 1)), PlanStepMismatch);
    assert_eq!(code(|path| path[1] = json!("00".repeat(32))), PlanStepMismatch);
}

#[test]
fn a_proof_for_another_tree_is_refused() {
    let world = World::new();
    let (_, _, gate) = scene(&world);
    let planner = world.gate();
    let mut others = steps();
    others[2] = step("twin", "{}");
    let other = committed(&planner, plan_of(&planner, others));
    let proofs = proofs_of(&other);
    assert_eq!(why(&gate, &search("c").plan_proof(proofs[0].as_bytes())), leaf());
}

#[test]
fn a_leaf_does_not_pass_for_a_node_nor_a_node_for_a_leaf() {
    // Offers the plan's left half as the sibling of one step in a tree of two leaves.
    let world = World::new();
    let (plan, proof, gate) = scene(&world);
    let shallow = json!({
        "index": 1, "steps": 1, "step": proof["step"].clone(), "path": [proof["path"][1].clone()],
    });
    assert_eq!(refused(&gate, &shallow), leaf());
    // Offers the header, which is leaf 0, as a step.
    let header: Value = serde_json::from_str(&plan.header().to_json()).unwrap();
    let header = json!({ "index": 0, "steps": 3, "step": header, "path": proof["path"].clone() });
    assert_eq!(refused(&gate, &header).0, MalformedCall);
}

#[test]
fn a_step_is_not_run_beyond_its_count_nor_after_the_end() {
    let world = World::new();
    let gate = world.approved_plan(vec![step("search", r#"{"query":"T-1001"}"#).calls(2).unwrap()]);
    assert_eq!(run(&gate, &search("c1"), ""), None);
    assert_eq!(run(&gate, &search("c2"), ""), None);
    assert_eq!(why(&gate, &search("c3")), (PlanExhausted, "count".into()));
    let world = World::new();
    let gate = world.approved_plan(steps());
    for call in [search("1"), refund("2"), mail("3")] {
        assert_eq!(run(&gate, &call, ""), None);
    }
    assert_eq!(why(&gate, &mail("4").plan_step(4)), (PlanExhausted, "ended".into()));
}

#[test]
fn a_call_put_in_between_is_no_step() {
    let world = World::new();
    let gate = world.approved_plan(steps());
    assert_eq!(run(&gate, &search("c1"), ""), None);
    assert_eq!(why(&gate, &ToolCall::new("c2", "desk", "twin", b"{}")).0, PlanStepMismatch);
}

#[test]
fn a_dynamic_value_with_an_extra_key_is_refused() {
    let planned = || vec![step("mail", r#"{"to":"x@customers.example","body":{"text":"<DYNAMIC>"}}"#)];
    let call = |args| ToolCall::new("c", "desk", "mail", args);
    let extra = br#"{"to":"x@customers.example","body":{"text":"t","cc":"eve@customers.example"}}"#;
    let beside = br#"{"to":"x@customers.example","body":{"text":"t"},"bcc":"eve@customers.example"}"#;
    let unfilled = br#"{"to":"x@customers.example","body":{"text":"<DYNAMIC>"}}"#;
    for (args, reason) in [
        (extra.as_slice(), "added-argument"),
        (beside, "added-argument"),
        (unfilled, "left-open"),
        (br#"{"to":"x@customers.example"}"#, "missing-argument"),
        (br#"{"to":"eve@customers.example","body":{"text":"t"}}"#, "fixed-argument"),
    ] {
        let world = World::new();
        let gate = world.approved_plan(planned());
        assert_eq!(why(&gate, &call(args)), (PlanStepMismatch, reason.to_owned()));
        let planner = world.gate();
        let plan = committed(&planner, plan_of(&planner, planned()));
        let (far, proofs) = (world.rooted("gate-2", &plan), proofs_of(&plan));
        let proved = call(args).plan_proof(proofs[0].as_bytes());
        assert_eq!(why(&far, &proved), (PlanStepMismatch, reason.to_owned()), "with the root alone as well");
    }
}

#[test]
fn mismatch_detail_is_recorded_but_hidden_from_the_agent() {
    let world = World::new();
    let (_, mut proof, gate) = scene(&world);
    proof["step"]["args"]["query"] = json!("secret words");
    let text = proof.to_string();
    let no = gate.check(&search("c").plan_proof(text.as_bytes())).unwrap_err();
    assert_eq!(no.message(), "the call is not the one that the plan has here");
    assert!(!format!("{no} {no:?}").contains("secret") && !format!("{no}").contains("leaf"));
    let record = format!("{:?}", gate.call_log());
    assert!(record.contains("leaf") && !record.contains("secret"), "nor are values recorded: {record}");
    assert_eq!(gate.plan_root().map(|root| root.digest()), gate.call_log().pop().unwrap().plan);
    assert!(matches!(no.retry(), Retry::Never));
    assert!(no.sequence().is_some());
}

#[test]
fn debug_of_call_or_plan_shows_no_token_or_argument() {
    let world = World::new();
    let gate = world.gate();
    let plan = plan_of(&gate, steps());
    let token = world.approve_plan(&gate, &plan);
    let root = root_of(&committed(&gate, plan.clone()));
    let call =
        refund("c-7").approval(&token).ask("Refund T-1001").proposal(b"{\"a\":\"s3cret\"}").plan_step(2);
    let printed = format!(
        "{call:?} {:?} {:?} {:?}",
        PlanSettings::new(plan.clone()).approval(&token),
        root.clone().approval(&token),
        gate.start_plan(PlanSettings::new(plan).approval("s3cret")).unwrap_err(),
    );
    for hidden in [token.as_str(), "T-1001", "s3cret", "115, 51, 99", "84, 45, 49"] {
        assert!(!printed.contains(hidden), "{hidden} in {printed}");
    }
    for shown in ["c-7", "refund", "token"] {
        assert!(printed.contains(shown), "{shown} not in {printed}");
    }
}
