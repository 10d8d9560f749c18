//! Calls and amendments that a cursor over a root refuses.

use countersign_merkle::{InclusionProof, LeafHash, MerkleTree};

use super::roots::{
    Event, Run, amendment, check, check_amendment, check_of, host_halt, of_plan, with, without,
};
use super::*;

/// A first call that halts the plan, followed by an honest one.
fn halted(about: &str, reason: &'static str, event: Event) -> Value {
    let code = "PLAN_STEP_MISMATCH";
    Run::new()
        .halts(event, code, reason, 0)
        .refused(check(1, SEARCH), "PLAN_HALTED", Some(reason), 0)
        .case(about)
}

/// A step committed elsewhere, with a call that this machine's contract refuses.
fn foreign(about: &str, reason: &'static str, planned: Step, made: (&str, &str)) -> Value {
    let plan = Plan::new(context(), vec![planned]).unwrap().commit(&Anything).unwrap();
    let mut run = Run::new();
    run.root = *plan.root();
    of_plan(run.halts(check_of(&plan, 1, made), "PLAN_STEP_MISMATCH", reason, 0).case(about), &plan)
}

pub(super) fn calls() -> Vec<(&'static str, Value)> {
    let plan = plan_of(steps());
    let other = plan_of(vec![step("search", r#"{"query":"ticket 7","limit":10}"#)]);
    let run = || Run::new().runs(1, SEARCH, 0);
    let sent = |args: &'static str| check(3, ("send", args));
    let mut unfit = foreign(
        "fixed arguments that this machine's operator does not take",
        "unfit-arguments",
        step("refund", r#"{"amount":"all"}"#),
        ("refund", r#"{"amount":"all"}"#),
    );
    unfit["unfit"] = json!(["refund"]);
    vec![
        (
            "root_no_proof",
            halted("a call without a proof", "no-proof", with(without(check(1, SEARCH), "proof"), "step", 1)),
        ),
        ("root_proof_of_another_plan", halted("a step of another plan", "leaf", check_of(&other, 1, SEARCH))),
        (
            "root_other_step_named",
            halted(
                "a step named that is not the proved one",
                "other-index",
                with(check(1, SEARCH), "step", 2),
            ),
        ),
        ("root_other_size", other_size()),
        (
            "root_undisclosed",
            foreign(
                "a tool that is not disclosed here",
                "undisclosed-tool",
                step("wipe", "{}"),
                ("wipe", "{}"),
            ),
        ),
        (
            "root_control_open",
            foreign(
                "an argument left open that is not data here",
                "control-open",
                step("send", r#"{"to":"<DYNAMIC>"}"#),
                ("send", r#"{"to":"eve@example.com"}"#),
            ),
        ),
        ("root_unfit", unfit),
        ("root_other_tool", halted("a call of another tool than the step's", "other-tool", check(2, SEARCH))),
        (
            "root_fixed_changed",
            halted("another recipient", "fixed-argument", sent(r#"{"body":"done","to":"eve@example.com"}"#)),
        ),
        (
            "root_added_argument",
            halted(
                "an argument beside the open one",
                "added-argument",
                sent(r#"{"body":"done","cc":"eve@example.com","to":"bob@example.com"}"#),
            ),
        ),
        (
            "root_missing_argument",
            halted("the open argument left out", "missing-argument", sent(r#"{"to":"bob@example.com"}"#)),
        ),
        (
            "root_not_filled_in",
            halted(
                "the open argument not filled in",
                "left-open",
                sent(r#"{"body":"<DYNAMIC>","to":"bob@example.com"}"#),
            ),
        ),
        (
            "root_behind",
            run()
                .runs(3, SEND, 1)
                .halts(check(2, REFUND), "PLAN_OUT_OF_ORDER", "behind", 3)
                .case("a step after a later one"),
        ),
        (
            "root_repeated",
            run().halts(check(1, SEARCH), "PLAN_EXHAUSTED", "count", 1).case("the first step twice"),
        ),
        (
            "root_repeated_beyond_count",
            Run::new()
                .runs(2, REFUND, 0)
                .runs(2, REFUND, 2)
                .halts(check(2, REFUND), "PLAN_EXHAUSTED", "count", 2)
                .case("the second step three times"),
        ),
        (
            "root_another_registry_last",
            run()
                .refused(
                    with(check(2, REFUND), "registry_version", 6),
                    "PLAN_REQUIRED",
                    Some("other-registry"),
                    1,
                )
                .case("a call under an earlier registry"),
        ),
        (
            "root_busy_last",
            Run::new()
                .ok(check(1, SEARCH), 0)
                .refused(check(1, SEARCH), "PLAN_OUT_OF_ORDER", Some("busy"), 0)
                .case("one call, sent twice at a time"),
        ),
        (
            "root_halted_by_host",
            run()
                .host_halts(1)
                .refused(check(2, REFUND), "PLAN_HALTED", Some("by-host"), 1)
                .case("a call after the host has halted the plan"),
        ),
        (
            "root_halted_while_held",
            Run::new()
                .ok(check(1, SEARCH), 0)
                .host_halts(0)
                .refused(json!({ "do": "accept" }), "PLAN_HALTED", Some("by-host"), 0)
                .case("the plan was halted while the call was decided"),
        ),
        (
            "root_halted_twice",
            Run::new()
                .halts(check_of(&other, 1, SEARCH), "PLAN_STEP_MISMATCH", "leaf", 0)
                .halts(host_halt(), "PLAN_STEP_MISMATCH", "leaf", 0)
                .case("the first breach is the one that counts"),
        ),
        ("root_step_of_the_plan_before", {
            let new = amendment(context(), plan.root(), 1);
            run()
                .amended(&new, 1)
                .halts(check(2, REFUND), "PLAN_STEP_MISMATCH", "leaf", 0)
                .case("a step of the plan that was amended")
        }),
    ]
}

/// A forged root: its header states fewer steps than the tree has leaves, and a proof for leaf 0 matches both sizes.
fn other_size() -> Value {
    let plan = plan_of(vec![step("search", r#"{"query":"a"}"#), step("search", r#"{"query":"a"}"#)]);
    let (header, seen) = (plan.header().clone(), steps_of(&plan)[0].clone());
    let hidden = steps_of(&plan_of(vec![step("refund", r#"{"amount":900}"#)]))[0].clone();
    let leaves = [header.to_json(), leaf(&seen, 1, 2), leaf(&seen, 2, 2), leaf(&hidden, 3, 3)];
    let tree: MerkleTree = leaves.iter().map(|leaf| LeafHash::of(leaf.as_bytes())).collect();
    let root = PlanRoot::from_digest(tree.root().digest());
    let path = tree.prove_inclusion(0).unwrap().path().to_vec();
    let proof = HeaderProof::new(header, InclusionProof::new(0, 3, path).unwrap()).unwrap();
    let path = tree.prove_inclusion(3).unwrap();
    let path: Vec<String> = path.path().iter().map(|node| node.digest().to_string()).collect();
    let hidden = json!({ "index": 3, "path": path, "step": hidden, "steps": 3 });
    let event = with(check(2, ("refund", r#"{"amount":900}"#)), "proof", hidden);
    let mut run = Run::new();
    run.root = root;
    let mut case = run
        .halts(event, "PLAN_STEP_MISMATCH", "other-size", 0)
        .case("a made-up root: the step is in the tree, and the header does not count it");
    case["root"] = json!(root);
    case["header_proof"] = proof.to_json().into();
    case
}

pub(super) fn amendments() -> Vec<(&'static str, Value)> {
    let plan = plan_of(steps());
    let run = || Run::new().runs(2, REFUND, 0);
    let link = |about: &str, new: &CommittedPlan| {
        run().refused(check_amendment(new, &context()), "PLAN_AMENDMENT_LINK", None, 2).case(about)
    };
    let good = amendment(context(), plan.root(), 2);
    let for_other = |about: &str, code: &'static str, made_for: PlanContext, now: &PlanContext| {
        let new = amendment(made_for, plan.root(), 2);
        run().refused(check_amendment(&new, now), code, None, 2).case(about)
    };
    let of = other_context;
    vec![
        (
            "root_amends_another_plan",
            link(
                "an amendment of another plan",
                &amendment(context(), &PlanRoot::from_digest(Digest::of(b"other")), 2),
            ),
        ),
        (
            "root_amends_behind",
            link("an amendment after a step before the last that ran", &amendment(context(), plan.root(), 1)),
        ),
        ("root_amends_nothing", link("a plan that is no amendment", &plan_of(steps()[..1].to_vec()))),
        (
            "root_amendment_other_session",
            for_other(
                "an amendment for another session",
                "PLAN_OTHER_SESSION",
                of(b"goal", "s-2", 7),
                &context(),
            ),
        ),
        (
            "root_amendment_other_goal",
            for_other("an amendment for another goal", "PLAN_OTHER_GOAL", of(b"other", "s-1", 7), &context()),
        ),
        (
            "root_amendment_other_registry",
            for_other(
                "an amendment under a registry that is not in force",
                "PLAN_OTHER_REGISTRY",
                of(b"goal", "s-1", 8),
                &context(),
            ),
        ),
        (
            "root_amendment_earlier_registry",
            for_other(
                "an amendment under an earlier registry than the plan's, which is in force",
                "PLAN_OTHER_REGISTRY",
                of(b"goal", "s-1", 6),
                &of(b"goal", "s-1", 6),
            ),
        ),
        (
            "root_amendment_session_moved",
            for_other(
                "an amendment for the session that the machine is in now, and not the plan's",
                "PLAN_OTHER_SESSION",
                of(b"goal", "s-2", 7),
                &of(b"goal", "s-2", 7),
            ),
        ),
        (
            "root_amendment_unproved",
            run()
                .refused(
                    with(check_amendment(&good, &context()), "root", json!(plan.root())),
                    "PLAN_HEADER_UNPROVED",
                    None,
                    2,
                )
                .case("an amendment whose header is not proved by its root"),
        ),
        (
            "root_amendment_not_approved",
            run()
                .ok(check_amendment(&good, &context()), 2)
                .refused(
                    json!({ "do": "accept_amendment", "approved": plan.root() }),
                    "PLAN_AMENDMENT_NOT_APPROVED",
                    None,
                    2,
                )
                .case("another root was approved; the plan goes on as it was"),
        ),
        (
            "root_amendment_busy_call",
            run()
                .ok(check(3, SEND), 2)
                .refused(check_amendment(&good, &context()), "PLAN_BUSY", None, 2)
                .case("an amendment while a call is decided"),
        ),
        (
            "root_amendment_busy_amendment",
            run()
                .ok(check_amendment(&good, &context()), 2)
                .refused(check_amendment(&good, &context()), "PLAN_BUSY", None, 2)
                .case("two amendments at a time"),
        ),
        (
            "root_amendment_halted",
            Run::new()
                .halts(check(2, SEARCH), "PLAN_STEP_MISMATCH", "other-tool", 0)
                .refused(check_amendment(&good, &context()), "PLAN_HALTED", None, 0)
                .case("an amendment of a plan that was halted"),
        ),
        (
            "root_amendment_halted_while_held",
            run()
                .ok(check_amendment(&good, &context()), 2)
                .host_halts(2)
                .refused(json!({ "do": "accept_amendment", "approved": good.root() }), "PLAN_HALTED", None, 2)
                .case("the plan was halted while the amendment was approved"),
        ),
        ("root_amended_too_often", {
            let (mut run, mut last) = (Run::new(), plan);
            for _ in 0..64 {
                let next = amendment(context(), last.root(), 0);
                run = run.amended(&next, 0);
                last = next;
            }
            let one_more = amendment(context(), last.root(), 0);
            run.refused(check_amendment(&one_more, &context()), "PLAN_AMENDED_TOO_OFTEN", None, 0)
                .case("the sixty-fifth amendment")
        }),
    ]
}
