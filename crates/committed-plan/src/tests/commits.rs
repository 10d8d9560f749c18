use super::*;

fn commit(step: Step) -> Result<CommittedPlan, CommitError> {
    let steps = vec![self::step("search", r#"{"query":"x"}"#), step];
    Plan::new(context(), steps).unwrap().commit(&Desk)
}

#[test]
fn a_tool_that_is_not_disclosed_is_refused() {
    for (server, name) in [("desk", "erase"), ("desk", "Send"), ("mail", "send")] {
        let step = Step::new(ToolId::new(server, name).unwrap(), b"{}", &[]).unwrap();
        let error = commit(step).unwrap_err();
        assert_eq!((error, error.code()), (CommitError::Undisclosed { step: 2 }, "PLAN_TOOL_UNDISCLOSED"));
    }
}

#[test]
fn an_argument_that_is_not_data_cannot_be_left_open() {
    for (name, args, open) in [
        ("send", r#"{"to":"<DYNAMIC>","body":"x"}"#, [].as_slice()),
        ("send", r#"{"body":"x"}"#, &["/to"]),
        ("refund", r#"{"amount":1,"to":{"name":"bob","iban":"<DYNAMIC>"}}"#, &[]),
        ("refund", r#"{"amount":"<DYNAMIC>"}"#, &[]),
        ("send", r#"{"bodyguard":"<DYNAMIC>"}"#, &[]),
    ] {
        let error = commit(Step::new(tool(name), args.as_bytes(), open).unwrap()).unwrap_err();
        assert_eq!(
            (error, error.code()),
            (CommitError::ControlOpen { step: 2 }, "PLAN_CONTROL_OPEN"),
            "{args}"
        );
    }
    assert!(commit(step("send", r#"{"to":"bob","body":"<DYNAMIC>"}"#)).is_ok());
    assert!(commit(step("send", r#"{"to":"bob","parts":[{"text":"<DYNAMIC>"}]}"#)).is_ok());
}

#[test]
fn fixed_arguments_have_to_fit() {
    let error = commit(step("refund", r#"{"amount":"ten"}"#)).unwrap_err();
    assert_eq!((error, error.code()), (CommitError::Args { step: 2 }, "PLAN_ARGS_SCHEMA"));
}

#[test]
fn root_is_that_of_the_documented_leaves() {
    use countersign_merkle::{LeafHash, MerkleTree};
    let plan = plan_of(steps());
    let goal = Digest::of(b"goal");
    let leaves = [
        format!(r#"{{"goal":"{goal}","recipe":"plan-1","registry_version":7,"session":"s-1","steps":3}}"#),
        r#"{"index":1,"recipe":"plan-step-1","step":{"args":{"limit":10,"query":"ticket 7"},"max_calls":1,"tool":{"name":"search","server":"desk"}},"steps":3}"#.to_owned(),
        r#"{"index":2,"recipe":"plan-step-1","step":{"args":{"amount":10,"note":"<DYNAMIC>","to":{"iban":"NO93","name":"bob"}},"max_calls":2,"tool":{"name":"refund","server":"desk"}},"steps":3}"#.to_owned(),
        r#"{"index":3,"recipe":"plan-step-1","step":{"args":{"body":"<DYNAMIC>","to":"bob@example.com"},"description":"say so","max_calls":1,"tool":{"name":"send","server":"desk"}},"steps":3}"#.to_owned(),
    ];
    let tree: MerkleTree = leaves.iter().map(|leaf| LeafHash::of(leaf.as_bytes())).collect();
    assert_eq!(plan.root().digest(), tree.root().digest());
    assert!(plan.is_whole());
}

#[test]
fn root_covers_every_part_of_a_plan() {
    let base = || Plan::new(context(), steps()).unwrap();
    let root = |plan: Plan| *plan.commit(&Anything).unwrap().root();
    let with = |at: usize, step: Step| {
        let mut steps = steps();
        steps[at] = step;
        Plan::new(context(), steps).unwrap()
    };
    let goal = |goal: &[u8], session_id: &str, version| {
        Plan::new(PlanContext::new(Digest::of(goal), session(session_id), version).unwrap(), steps()).unwrap()
    };
    let [search, refund, _] = steps().try_into().unwrap();
    let mut swapped = steps();
    swapped.swap(0, 1);
    let mut longer = steps();
    longer.push(steps()[2].clone());
    let plans = [
        base(),
        goal(b"other", "s-1", 7),
        goal(b"goal", "s-2", 7),
        goal(b"goal", "s-1", 8),
        base().amending(root(base()), 0),
        base().amending(root(base()), 1),
        base().amending(PlanRoot::from_digest(Digest::of(b"other")), 1),
        Plan::new(context(), swapped).unwrap(),
        Plan::new(context(), longer).unwrap(),
        Plan::new(context(), steps()[..2].to_vec()).unwrap(),
        with(0, search.clone().describe("").unwrap()),
        with(0, search.clone().describe("x").unwrap()),
        with(0, search.calls(2).unwrap()),
        with(0, step("send", r#"{"limit":10,"query":"ticket 7"}"#)),
        with(0, step("search", r#"{"limit":11,"query":"ticket 7"}"#)),
        with(0, step("search", r#"{"limit":10,"query":"<DYNAMIC>"}"#)),
        with(0, step("search", r#"{"limit":10,"query":"ticket 7","more":null}"#)),
        with(1, refund.calls(1).unwrap()),
    ];
    let count = plans.len();
    let roots: std::collections::HashSet<PlanRoot> = plans.into_iter().map(root).collect();
    assert_eq!(roots.len(), count);
}

#[test]
fn respelt_plan_has_the_same_root() {
    let root = |steps| *plan_of(steps).root();
    let other =
        Step::new(tool("refund"), br#"{"to":{"iban":"NO93","name":"bob"},"amount":10.0}"#, &["/note"]);
    let mut spelled = steps();
    spelled[1] = other.unwrap().calls(2).unwrap();
    assert_eq!(root(spelled), root(steps()));
}

#[test]
fn a_hundred_thousand_steps_are_committed() {
    let steps = (0..100_000).map(|at| step("search", &format!(r#"{{"query":"{at}"}}"#))).collect();
    let plan = plan_of(steps);
    let proof = plan.prove_step(77_777).unwrap();
    assert_eq!(proof.clone().verify(plan.root()).unwrap().index(), 77_777);
    assert!(proof.to_json().len() < 2_000);
}
