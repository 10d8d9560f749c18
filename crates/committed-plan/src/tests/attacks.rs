//! Attacks on plans without a file of their own. Order, counts and insertion are in `order.rs`, proofs in `proofs.rs`,
//! dynamic arguments in `arguments.rs` and `commits.rs`, amendments in `amendments.rs`.

use super::*;

#[test]
fn edited_step_is_detected() {
    let edits = [
        step("search", r#"{"limit":10,"query":"ticket 8"}"#),
        step("send", r#"{"to":"eve@example.com","body":"<DYNAMIC>"}"#),
        step("search", r#"{"limit":10,"query":"ticket 7"}"#).calls(9).unwrap(),
        step("search", r#"{"limit":10,"query":"ticket 7"}"#).describe("x").unwrap(),
        step("search", r#"{"limit":10,"query":"<DYNAMIC>"}"#),
    ];
    for edited in edits {
        for named in [true, false] {
            let mut cursor = cursor();
            cursor.plan.tamper()[0] = edited.clone();
            let result = if named { check_at(&mut cursor, 1, SEARCH) } else { check(&mut cursor, SEARCH) };
            assert_eq!(why(result.unwrap_err()), ("PLAN_STEP_MISMATCH", "leaf"));
        }
    }
}

#[test]
fn swapped_steps_are_detected() {
    let mut cursor = cursor();
    cursor.plan.tamper().swap(0, 2);
    assert_eq!(why(check(&mut cursor, SEND).unwrap_err()), ("PLAN_STEP_MISMATCH", "leaf"));
}

#[test]
fn inserted_step_is_detected() {
    let mut more = cursor();
    more.plan.tamper().insert(0, step("send", r#"{"to":"eve@example.com"}"#));
    let result = check(&mut more, ("send", r#"{"to":"eve@example.com"}"#));
    assert_eq!(why(result.unwrap_err()), ("PLAN_STEP_MISMATCH", "leaf"));
    let mut fewer = cursor();
    fewer.plan.tamper().remove(0);
    assert_eq!(why(check(&mut fewer, REFUND).unwrap_err()), ("PLAN_STEP_MISMATCH", "leaf"));
    let mut longer = cursor();
    longer.plan.tamper().push(step("send", r#"{"to":"eve@example.com"}"#));
    for call in [SEARCH, REFUND, SEND] {
        run(&mut longer, call).unwrap();
    }
    let result = check_at(&mut longer, 4, ("send", r#"{"to":"eve@example.com"}"#));
    assert_eq!(why(result.unwrap_err()), ("PLAN_EXHAUSTED", "ended"));
}

#[test]
fn the_last_step_doubled_is_another_plan() {
    // CVE-2012-2459: a header and two steps are three leaves, with the last step doubled they are four.
    let two = || vec![step("search", r#"{"query":"a"}"#), step("search", r#"{"query":"b"}"#)];
    let mut three = two();
    three.push(two()[1].clone());
    let (short, long) = (plan_of(two()), plan_of(three));
    assert_ne!(short.root(), long.root());
    for index in 1..=3 {
        assert!(long.prove_step(index).unwrap().verify(short.root()).is_err());
    }
}

#[test]
fn node_does_not_pass_for_a_step() {
    use countersign_merkle::{LeafHash, NodeHash};
    let plan = plan_of(steps());
    let leaf = |index: u64| NodeHash::from(LeafHash::of(plan.step(index).unwrap().leaf(index, 3).as_bytes()));
    let node = NodeHash::of(&leaf(2), &leaf(3));
    // The plan's right half, presented as the only step of a plan.
    let header = NodeHash::from(LeafHash::of(plan.header().to_json().as_bytes()));
    let left = NodeHash::of(&header, &leaf(1));
    assert_eq!(NodeHash::of(&left, &node).digest(), plan.root().digest());
    for step in plan.steps() {
        let mut text = String::new();
        step.write(&mut text);
        let forged = format!(r#"{{"index":1,"path":["{left}"],"step":{text},"steps":1}}"#);
        let proof = StepProof::from_json(forged.as_bytes(), &PlanLimits::default()).unwrap();
        assert_eq!(why(proof.verify(plan.root()).unwrap_err()), ("PLAN_STEP_MISMATCH", "leaf"));
    }
}

#[test]
fn plan_starts_only_in_its_own_context() {
    let start = |context: &PlanContext| PlanCursor::<()>::start(plan_of(steps()), context).map(|_| ());
    assert_eq!(start(&context_of(b"goal", "s-1", 7)), Ok(()));
    assert_eq!(start(&context_of(b"goal", "s-2", 7)), Err(PlanUseError::OtherSession));
    assert_eq!(start(&context_of(b"goal", "S-1", 7)), Err(PlanUseError::OtherSession));
    assert_eq!(start(&context_of(b"other", "s-1", 7)), Err(PlanUseError::OtherGoal));
    assert_eq!(start(&context_of(b"goal", "s-1", 6)), Err(PlanUseError::OtherRegistry));
    assert_eq!(start(&context_of(b"goal", "s-1", 8)), Err(PlanUseError::OtherRegistry));
    let codes = [PlanUseError::OtherSession, PlanUseError::OtherGoal, PlanUseError::OtherRegistry];
    assert_eq!(codes.map(|e| e.code()), ["PLAN_OTHER_SESSION", "PLAN_OTHER_GOAL", "PLAN_OTHER_REGISTRY"]);
    assert_eq!(
        PlanContext::new(Digest::of(b""), session("s"), 1 << 53).unwrap_err().code(),
        "PLAN_REGISTRY_VERSION"
    );
}

#[test]
fn a_look_alike_tool_or_recipient_is_another_call() {
    let mut cursor = cursor_after(&[SEARCH, REFUND]);
    let call = ("send", "{\"body\":\"done\",\"to\":\"b\u{43e}b@example.com\"}");
    assert_eq!(why(check(&mut cursor, call).unwrap_err()), ("PLAN_STEP_MISMATCH", "fixed-argument"));
}
