//! A machine that has only the root of a plan.

use countersign_merkle::{InclusionProof, LeafHash, MerkleTree};

use super::*;

fn check_proved(
    cursor: &mut RootCursor,
    plan: &CommittedPlan,
    at: u64,
    call: (&str, &str),
) -> Result<PlannedCall, PlanBreach> {
    let proof = plan.prove_step(at).unwrap();
    cursor.check(&StepCall::new(&tool(call.0), &json(call.1), 7).proved_by(&proof), &Desk)
}

fn run_proved(
    cursor: &mut RootCursor,
    plan: &CommittedPlan,
    at: u64,
    call: (&str, &str),
) -> Result<(), PlanBreach> {
    let planned = check_proved(cursor, plan, at, call)?;
    cursor.accept(planned)
}

#[test]
fn root_cursor_does_not_detect_a_gap() {
    let plan = plan_of(steps());
    let mut cursor = root_cursor(&plan);
    assert_eq!((cursor.root(), cursor.header().steps(), cursor.position()), (plan.root(), 3, 0));
    run_proved(&mut cursor, &plan, 2, REFUND).unwrap();
    run_proved(&mut cursor, &plan, 2, REFUND).unwrap();
    run_proved(&mut cursor, &plan, 3, SEND).unwrap();
    assert_eq!(cursor.position(), 3);
    let back = run_proved(&mut cursor, &plan, 1, SEARCH).unwrap_err();
    assert_eq!(why(back), ("PLAN_OUT_OF_ORDER", "behind"));
    assert_eq!(cursor.halted(), Some(back));
}

#[test]
fn a_step_repeated_beyond_its_count_is_exhausted() {
    let plan = plan_of(steps());
    let mut cursor = root_cursor(&plan);
    for expected in [None, None, Some(("PLAN_EXHAUSTED", "count"))] {
        assert_eq!(run_proved(&mut cursor, &plan, 2, REFUND).err().map(why), expected);
    }
}

#[test]
fn root_cursor_decides_one_call_at_a_time() {
    let plan = plan_of(steps());
    let mut cursor = root_cursor(&plan);
    let held = check_proved(&mut cursor, &plan, 1, SEARCH).unwrap();
    let busy = check_proved(&mut cursor, &plan, 2, REFUND).unwrap_err();
    assert_eq!(why(busy), ("PLAN_OUT_OF_ORDER", "busy"));
    cursor.give_back(held).unwrap();
    assert_eq!(cursor.position(), 0);
    run_proved(&mut cursor, &plan, 1, SEARCH).unwrap();
    let mut twin = root_cursor(&plan);
    let other = check_proved(&mut twin, &plan, 2, REFUND).unwrap();
    assert_eq!(cursor.accept(other).map_err(why), Err(("PLAN_OUT_OF_ORDER", "other-turn")));
}

#[test]
fn step_is_checked_only_after_its_proof() {
    let plan = plan_of(steps());
    let other = plan_of(vec![step("send", r#"{"to":"eve@example.com"}"#)]);
    let cases: [(Option<StepProof>, Option<u64>, &str); 4] = [
        (None, Some(1), "no-proof"),
        (other.prove_step(1), None, "leaf"),
        (plan.prove_step(1), Some(2), "other-index"),
        (plan.prove_step(2), None, "other-tool"),
    ];
    for (proof, named, reason) in cases {
        let mut cursor = root_cursor(&plan);
        let (tool, args) = (tool(SEARCH.0), json(SEARCH.1));
        let mut call = StepCall::new(&tool, &args, 7);
        if let Some(proof) = &proof {
            call = call.proved_by(proof);
        }
        if let Some(named) = named {
            call = call.at_step(named);
        }
        assert_eq!(why(cursor.check(&call, &Desk).unwrap_err()), ("PLAN_STEP_MISMATCH", reason));
        let honest = check_proved(&mut cursor, &plan, 1, SEARCH).unwrap_err();
        assert_eq!(why(honest), ("PLAN_HALTED", reason), "the first breach halts");
    }
}

#[test]
fn step_outside_the_local_contract_is_refused() {
    let cases = [
        (step("wipe", "{}"), ("wipe", "{}"), "undisclosed-tool"),
        (step("send", r#"{"to":"<DYNAMIC>"}"#), ("send", r#"{"to":"eve@example.com"}"#), "control-open"),
        (step("refund", r#"{"amount":"all"}"#), ("refund", r#"{"amount":"all"}"#), "unfit-arguments"),
    ];
    for (planned, call, reason) in cases {
        let plan = Plan::new(context(), vec![planned]).unwrap().commit(&Anything).unwrap();
        let mut cursor = root_cursor(&plan);
        let no = check_proved(&mut cursor, &plan, 1, call).unwrap_err();
        assert_eq!(why(no), ("PLAN_STEP_MISMATCH", reason));
    }
}

#[test]
fn changed_registry_does_not_halt_the_plan() {
    let plan = plan_of(steps());
    let mut cursor = root_cursor(&plan);
    let proof = plan.prove_step(1).unwrap();
    let call = |version| {
        let (tool, args) = (tool(SEARCH.0), json(SEARCH.1));
        root_cursor(&plan).check(&StepCall::new(&tool, &args, version).proved_by(&proof), &Desk).map(|_| ())
    };
    assert_eq!(call(8).map_err(why), Err(("PLAN_REQUIRED", "other-registry")));
    assert_eq!(call(7), Ok(()));
    let (tool, args) = (tool(SEARCH.0), json(SEARCH.1));
    assert!(cursor.check(&StepCall::new(&tool, &args, 8).proved_by(&proof), &Desk).is_err());
    assert_eq!(cursor.halted(), None);
}

#[test]
fn root_cursor_starts_only_in_its_own_context() {
    let plan = plan_of(steps());
    let start = |context: &PlanContext| RootCursor::start(verified(&plan), context).map(|_| ());
    assert_eq!(start(&context_of(b"goal", "s-1", 7)), Ok(()));
    assert_eq!(start(&context_of(b"goal", "s-2", 7)), Err(PlanUseError::OtherSession));
    assert_eq!(start(&context_of(b"other", "s-1", 7)), Err(PlanUseError::OtherGoal));
    assert_eq!(start(&context_of(b"goal", "s-1", 8)), Err(PlanUseError::OtherRegistry));
    let amendment = verified(&amended(plan.root(), 0, steps()));
    assert_eq!(RootCursor::start(amendment, &context()).map(|_| ()).unwrap_err(), PlanUseError::Link);
}

#[test]
fn header_proof_is_for_its_own_root() {
    let (plan, other) = (plan_of(steps()), plan_of(vec![step("search", r#"{"query":"a"}"#)]));
    let proof = plan.header_proof().unwrap();
    assert_eq!(proof.clone().verify(other.root()).unwrap_err(), PlanUseError::Header);
    assert_eq!(PlanUseError::Header.code(), "PLAN_HEADER_UNPROVED");
    assert_eq!(
        HeaderProof::new(other.header().clone(), plan.prove_header().unwrap()),
        Err(PlanUseError::Header)
    );
    let text = proof.to_json();
    let limits = PlanLimits::default();
    let code = |text: &str| HeaderProof::from_json(text.as_bytes(), &limits).map_err(|error| error.code());
    assert_eq!(code(&text), Ok(proof));
    assert_eq!(code(&text.replace("\"path\"", "\"more\":1,\"path\"")), Err("PLAN_SHAPE"));
    assert_eq!(code(&text.replace("\"steps\":3", "\"steps\":0")), Err("PLAN_EMPTY"));
    assert_eq!(code(&text.replace("\"steps\":3", "\"steps\":\"3\"")), Err("PLAN_SHAPE"));
    assert_eq!(code(&text.replace("plan-1", "plan-2")), Err("PLAN_RECIPE"));
    assert_eq!(code(&text.replacen("[\"", "[7,\"", 1)), Err("PLAN_SHAPE"));
    assert_eq!(code(&format!("{text} x")), Err("PLAN_JSON"));
    assert_eq!(code("{}"), Err("PLAN_SHAPE"));
}

#[test]
fn root_cursor_is_amended_at_its_position_or_later() {
    let plan = plan_of(steps());
    let amended = |root: &PlanRoot, position| {
        amended(root, position, vec![step("send", r#"{"to":"desk@example.com"}"#)])
    };
    let mut cursor = root_cursor(&plan);
    run_proved(&mut cursor, &plan, 2, REFUND).unwrap();
    let stranger = PlanRoot::from_digest(Digest::of(b"other"));
    for wrong in [amended(plan.root(), 1), amended(&stranger, 2), plan_of(steps())] {
        let no = cursor.check_amendment(verified(&wrong), &context());
        assert_eq!(no.map(|_| ()).unwrap_err(), PlanUseError::Link);
    }
    let new = amended(plan.root(), 3);
    let planned = cursor.check_amendment(verified(&new), &context()).unwrap();
    let busy = check_proved(&mut cursor, &plan, 3, SEND).unwrap_err();
    assert_eq!(why(busy), ("PLAN_OUT_OF_ORDER", "busy"));
    assert_eq!(cursor.check_amendment(verified(&new), &context()).map(|_| ()), Err(PlanUseError::Busy));
    assert_eq!(cursor.accept_amendment(planned, plan.root()), Err(PlanUseError::NotApproved));
    assert_eq!(cursor.root(), plan.root(), "and the step is free");
    let planned = cursor.check_amendment(verified(&new), &context()).unwrap();
    cursor.give_back_amendment(planned).unwrap();
    let planned = cursor.check_amendment(verified(&new), &context()).unwrap();
    assert_eq!(planned.root(), new.root());
    cursor.accept_amendment(planned, new.root()).unwrap();
    assert_eq!((cursor.root(), cursor.position()), (new.root(), 0));
    run_proved(&mut cursor, &new, 1, ("send", r#"{"to":"desk@example.com"}"#)).unwrap();
    check_proved(&mut cursor, &plan, 3, SEND).unwrap_err();
    let halted = cursor.check_amendment(verified(&amended(new.root(), 1)), &context());
    assert_eq!(halted.map(|_| ()), Err(PlanUseError::Halted));
}

#[test]
fn a_root_is_amended_as_often_as_a_plan() {
    let mut cursor = root_cursor(&plan_of(steps()));
    let next = |cursor: &RootCursor| verified(&amended(cursor.root(), 0, steps()));
    for _ in 0..64 {
        let new = next(&cursor);
        let root = *new.root();
        let planned = cursor.check_amendment(new, &context()).unwrap();
        cursor.accept_amendment(planned, &root).unwrap();
    }
    let one_more = next(&cursor);
    assert_eq!(cursor.can_amend(&one_more, &context()), Err(PlanUseError::TooMany));
}

#[test]
fn checked_amendment_blocks_calls() {
    let mut cursor = cursor();
    let new = || amended(plan_of(steps()).root(), 0, steps());
    let planned = cursor.check_amendment(new(), &context()).unwrap();
    assert_eq!(planned.root(), new().root());
    assert_eq!(why(check(&mut cursor, SEARCH).unwrap_err()), ("PLAN_OUT_OF_ORDER", "busy"));
    assert_eq!(cursor.is_complete(), Err(FinishError::Busy));
    assert_eq!(cursor.can_amend(&new(), &context()), Ok(()), "can_amend acquires nothing");
    cursor.give_back_amendment(planned).unwrap();
    assert_eq!(run(&mut cursor, SEARCH), Ok(1), "nothing was halted");
}

#[test]
fn plan_cursor_verifies_a_supplied_proof() {
    let other = plan_of(vec![step("search", r#"{"query":"ticket 7","limit":10}"#)]);
    let plan = plan_of(steps());
    let asked = |proof: StepProof, named: Option<u64>| {
        let (tool, args) = (tool(SEARCH.0), json(SEARCH.1));
        let call = StepCall::new(&tool, &args, 7).proved_by(&proof);
        let call = if let Some(step) = named { call.at_step(step) } else { call };
        cursor().check(&call).map(|planned| planned.index()).map_err(why)
    };
    assert_eq!(asked(plan.prove_step(1).unwrap(), None), Ok(1));
    assert_eq!(asked(plan.prove_step(1).unwrap(), Some(1)), Ok(1));
    assert_eq!(asked(plan.prove_step(1).unwrap(), Some(2)), Err(("PLAN_STEP_MISMATCH", "other-index")));
    assert_eq!(asked(other.prove_step(1).unwrap(), None), Err(("PLAN_STEP_MISMATCH", "leaf")));
    assert_eq!(asked(plan.prove_step(2).unwrap(), None), Err(("PLAN_OUT_OF_ORDER", "skipped")));
}

/// A forged tree whose header states fewer steps than it has leaves. A proof for leaf 0 matches both sizes.
fn short_header() -> (HeaderProof, PlanRoot, StepProof) {
    let header = PlanHeader::new(context(), None, 2);
    let hidden = step("refund", r#"{"amount":900}"#);
    let mut leaves = vec![header.to_json()];
    leaves.extend([
        step("search", r#"{"query":"a"}"#).leaf(1, 2),
        step("search", r#"{"query":"b"}"#).leaf(2, 2),
    ]);
    leaves.push(hidden.leaf(3, 3));
    let tree: MerkleTree = leaves.iter().map(|leaf| LeafHash::of(leaf.as_bytes())).collect();
    let root = PlanRoot::new(tree.root());
    // The path of leaf 0 among four leaves is also its path among three.
    let path = tree.prove_inclusion(0).unwrap().path().to_vec();
    let proof = HeaderProof::new(header, InclusionProof::new(0, 3, path).unwrap()).unwrap();
    (proof, root, StepProof::new(hidden, tree.prove_inclusion(3).unwrap()))
}

#[test]
fn a_step_that_the_header_does_not_count_is_refused() {
    let (header, root, hidden) = short_header();
    let mut cursor = RootCursor::start(header.verify(&root).unwrap(), &context()).unwrap();
    assert_eq!(hidden.clone().verify(&root).map(|step| step.index()), Ok(3), "it is in the tree");
    let (tool, args) = (tool("refund"), json(r#"{"amount":900}"#));
    let refused = cursor.check(&StepCall::new(&tool, &args, 7).proved_by(&hidden), &Desk);
    assert_eq!(refused.map(|_| ()).map_err(why), Err(("PLAN_STEP_MISMATCH", "other-size")));
    assert!(cursor.halted().is_some());
}

/// Discloses a tool for the first `0` checks only.
struct Withdrawn(std::cell::Cell<u32>);

impl PlanContract for Withdrawn {
    fn discloses(&self, _: &ToolId) -> bool {
        self.0.replace(self.0.get().saturating_sub(1)) > 0
    }

    fn is_data(&self, _: &ToolId, _: &OpenPlace) -> bool {
        true
    }

    fn fits(&self, _: &Step) -> bool {
        true
    }
}

#[test]
fn repeated_proof_needs_a_tool_that_is_still_disclosed() {
    let plan = plan_of(steps());
    let (mut cursor, contract) = (root_cursor(&plan), Withdrawn(2.into()));
    let (tool, args, proof) = (tool(REFUND.0), json(REFUND.1), plan.prove_step(2).unwrap());
    let mut call = || cursor.check(&StepCall::new(&tool, &args, 7).proved_by(&proof), &contract);
    let first = call().unwrap();
    assert_eq!(why(call().unwrap_err()), ("PLAN_OUT_OF_ORDER", "busy"));
    cursor.accept(first).unwrap();
    let mut call = || cursor.check(&StepCall::new(&tool, &args, 7).proved_by(&proof), &contract);
    let second = call().unwrap();
    cursor.give_back(second).unwrap();
    let withdrawn = cursor.check(&StepCall::new(&tool, &args, 7).proved_by(&proof), &contract).unwrap_err();
    assert_eq!(why(withdrawn), ("PLAN_STEP_MISMATCH", "undisclosed-tool"));
}

#[test]
fn forged_proof_after_a_verified_one_is_detected() {
    let plan = plan_of(steps());
    let mut cursor = root_cursor(&plan);
    run_proved(&mut cursor, &plan, 2, REFUND).unwrap();
    let honest = plan.prove_step(2).unwrap().to_json();
    let forged =
        StepProof::from_json(honest.replace("bob", "eve").as_bytes(), &PlanLimits::default()).unwrap();
    let (tool, args) = (tool(REFUND.0), json(&REFUND.1.replace("bob", "eve")));
    let refused = cursor.check(&StepCall::new(&tool, &args, 7).proved_by(&forged), &Desk).unwrap_err();
    assert_eq!(why(refused), ("PLAN_STEP_MISMATCH", "leaf"));
}
