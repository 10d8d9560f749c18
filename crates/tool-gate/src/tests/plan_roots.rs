//! A gate on another machine, which knows only a plan's root.

use super::plan_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::Verdict;
use countersign_committed_plan::*;
use countersign_core::*;

/// Three steps, committed at the planner's gate.
fn plan(world: &World) -> CommittedPlan {
    let planner = world.gate();
    committed(&planner, plan_of(&planner, steps()))
}

#[test]
fn one_plan_runs_at_two_gates_each_with_its_own_approval() {
    let world = World::new();
    let plan = plan(&world);
    let (here, there) = (world.rooted("gate-2", &plan), world.rooted("gate-3", &plan));
    let proofs = proofs_of(&plan);
    assert_eq!(code(&here, &search("c1").plan_proof(proofs[0].as_bytes())), None);
    let call = there.check(&refund("c2").plan_proof(proofs[1].as_bytes())).unwrap();
    assert_eq!((call.plan_step(), call.approval().is_none()), (Some(2), true));
    let ran = call.run(|_| Ok::<_, ()>("refunded")).unwrap();
    assert_eq!(ran, "refunded", "the result is the host's to send on");
    assert_eq!(code(&here, &mail("c3").plan_step(3).plan_proof(proofs[2].as_bytes())), None);
    let record = there.call_log().pop().unwrap();
    assert_eq!((record.plan, record.plan_step), (Some(plan.root().digest()), Some(2)));
    assert_eq!(record.approval.unwrap().as_str(), "token-700");
    for (gate, position) in [(here, 3), (there, 2)] {
        assert_eq!(gate.plan_root(), Some(*plan.root()));
        assert_eq!(gate.plan_position(), Some(position));
        assert_eq!(gate.finish_plan().unwrap_err(), FinishPlanError::RootOnly);
        assert_eq!(gate.finish_plan().unwrap_err().code(), "PLAN_NO_TRACE");
    }
}

#[test]
fn an_approval_of_a_root_is_good_at_one_gate_and_once() {
    let world = World::new();
    let plan = plan(&world);
    let (one, two) = (world.named("gate-2"), world.named("gate-3"));
    let settings = root_of(&plan);
    let request = one.plan_root_approval_request(&settings).unwrap();
    assert_eq!(request.args().as_str(), plan.header().to_json(), "what this gate knows is what it shows");
    let approved = settings.approval(&mint_for(&world, request.binding(), 1));
    assert_eq!(two.start_plan_root(approved.clone()).unwrap_err().code(), "APPROVAL_INVALID");
    one.start_plan_root(approved.clone()).unwrap();
    assert_eq!(one.start_plan_root(approved).unwrap_err().code(), "PLAN_STARTED");
    // The token for the whole plan is not valid for its root either.
    let whole = world.gate();
    let token = world.approve_plan(&whole, &plan_of(&whole, steps()));
    let gate = world.gate();
    let started = gate.start_plan_root(root_of(&plan).approval(&token));
    assert_eq!(started.unwrap_err().code(), "APPROVAL_INVALID");
}

#[test]
fn without_an_approval_of_the_root_each_step_needs_its_own() {
    let world = World::new();
    let (plan, gate) = (plan(&world), world.gate());
    gate.start_plan_root(root_of(&plan)).unwrap();
    let proofs = proofs_of(&plan);
    let call = refund("c").plan_proof(proofs[1].as_bytes());
    let token = world.approve(&gate, &call);
    assert_eq!(code(&gate, &call.approval(token.as_str())), None, "the turn was given back");
}

#[test]
fn a_call_without_a_proof_halts_the_plan() {
    let world = World::new();
    let plan = plan(&world);
    let gate = world.rooted("gate-2", &plan);
    assert_eq!(why(&gate, &search("c").plan_step(1)), (PlanStepMismatch, "no-proof".into()));
    let proofs = proofs_of(&plan);
    let honest = search("c").plan_proof(proofs[0].as_bytes());
    assert_eq!(why(&gate, &honest), (PlanHalted, "the plan was halted: no-proof".into()));
}

#[test]
fn bytes_that_are_no_proof_are_malformed_and_halt_nothing() {
    let world = World::new();
    let plan = plan(&world);
    let gate = world.rooted("gate-2", &plan);
    let proofs = proofs_of(&plan);
    let header = format!(r#"{{"index":0,{}"#, proofs[0].split_once(',').unwrap().1);
    for text in ["", "{}", "[]", "\u{feff}{}", &header, proofs[0].trim_start_matches('{')] {
        assert_eq!(code(&gate, &search("c").plan_proof(text.as_bytes())), Some(MalformedCall), "{text}");
    }
    let long = format!("{}{}", proofs[0], " ".repeat(1 << 20));
    assert_eq!(code(&gate, &search("c").plan_proof(long.as_bytes())), Some(LimitExceeded));
    assert_eq!(code(&gate, &search("c").plan_proof(proofs[0].as_bytes())), None);
    // A gate without a plan, and one that does not support plans, treat the proof as bytes.
    assert_eq!(code(&world.gate(), &search("c").plan_proof(b"{}")), Some(MalformedCall));
    assert_eq!(code(&world.gate(), &search("c").plan_proof(proofs[0].as_bytes())), Some(PlanRequired));
}

#[test]
fn order_and_counts_hold_among_the_steps_that_come_here() {
    let cases: [(&[usize], usize, RejectionCode, &str); 4] = [
        (&[1], 0, PlanOutOfOrder, "behind"),
        (&[2], 1, PlanOutOfOrder, "behind"),
        (&[0], 0, PlanExhausted, "count"),
        (&[0, 2], 2, PlanExhausted, "count"),
    ];
    let world = World::new();
    let plan = plan(&world);
    let proofs = proofs_of(&plan);
    let call =
        |at: usize| [search("c"), refund("c"), mail("c")][at].clone().plan_proof(proofs[at].as_bytes());
    for (ran, then, expected, reason) in cases {
        let gate = world.rooted("gate-2", &plan);
        for at in ran {
            assert_eq!(code(&gate, &call(*at)), None);
        }
        assert_eq!(why(&gate, &call(then)), (expected, reason.to_owned()));
        assert_eq!(why(&gate, &call(2)), (PlanHalted, format!("the plan was halted: {reason}")));
    }
}

#[test]
fn a_step_has_its_calls_and_a_refused_one_does_not_count() {
    let world = World::new();
    let planner = world.gate();
    let twice = vec![step("search", r#"{"query":"T-1001"}"#).calls(2).unwrap()];
    let plan = committed(&planner, plan_of(&planner, twice));
    let gate = world.rooted("gate-2", &plan);
    let proofs = proofs_of(&plan);
    let call = search("c").plan_proof(proofs[0].as_bytes());
    assert_eq!(code(&gate, &call.clone().ask("Delete everything")), Some(AskDrift));
    for expected in [None, None, Some(PlanExhausted)] {
        assert_eq!(code(&gate, &call), expected);
    }
}

#[test]
fn foreign_plan_is_checked_against_this_gates_registry() {
    let world = World::new();
    let planner = world.gate();
    let open = r#"{"to":"<DYNAMIC>","body":"b"}"#;
    let called = br#"{"to":"x@customers.example","body":"b"}"#;
    let cases = [
        (step("mail", open), ToolCall::new("c", "desk", "mail", called), "control-open"),
        (step("delete_ticket", "{}"), ToolCall::new("c", "desk", "twin", b"{}"), "undisclosed-tool"),
        (step("mail", r#"{"to":"x@evil.example"}"#), mail("c"), "unfit-arguments"),
    ];
    for (planned, call, reason) in cases {
        let plan = plan_of(&planner, vec![planned]).commit(&Lax).unwrap();
        let gate = world.rooted("gate-2", &plan);
        let proofs = proofs_of(&plan);
        assert_eq!(why(&gate, &call.plan_proof(proofs[0].as_bytes())), (PlanStepMismatch, reason.to_owned()));
    }
}

#[test]
fn a_root_of_another_session_goal_registry_or_header_is_refused() {
    let world = World::new();
    let gate = world.gate();
    let own = gate.plan_context().unwrap();
    let refused = |settings: PlanRootSettings| {
        let asked = gate.plan_root_approval_request(&settings).unwrap_err().code();
        let started = gate.start_plan_root(settings).unwrap_err().code();
        let record = gate.call_log().pop().unwrap();
        assert_eq!((record.verdict, record.code.unwrap().as_str()), (Verdict::Reject, started));
        assert_eq!((asked, gate.plan_root()), (started, None));
        started
    };
    let of = |goal, session: &str, version| {
        let context = PlanContext::new(goal, SessionId::new(session).unwrap(), version).unwrap();
        refused(root_of(&Plan::new(context, steps()).unwrap().commit(&Lax).unwrap()))
    };
    assert_eq!(of(*own.goal(), "session-2", 1), "PLAN_OTHER_SESSION");
    assert_eq!(of(Digest::of(b"another goal"), "session-1", 1), "PLAN_OTHER_GOAL");
    assert_eq!(of(*own.goal(), "session-1", 2), "PLAN_OTHER_REGISTRY");
    let (one, two) = (plan(&world), committed(&gate, plan_of(&gate, vec![step("twin", "{}")])));
    let crossed = PlanRootSettings::new(*one.root(), two.header_proof().unwrap());
    assert_eq!(refused(crossed), "PLAN_HEADER_UNPROVED");
    let amendment = plan_of(&gate, steps()).amending(*one.root(), 0);
    assert_eq!(refused(root_of(&committed(&gate, amendment))), "PLAN_AMENDMENT_LINK");
    gate.start_plan_root(root_of(&one)).unwrap();
}

#[test]
fn a_gate_opens_with_its_root_or_not_at_all() {
    let world = World::new();
    let plan = plan(&world);
    let gate = world.full().plan_root(root_of(&plan)).open().unwrap();
    assert_eq!(gate.plan_root(), Some(*plan.root()));
    assert_eq!(code(&gate, &search("c")), Some(PlanStepMismatch));
    assert_eq!(world.bare().plan_root(root_of(&plan)).open().unwrap_err().code(), "PLAN_NO_GOAL");
}

#[test]
fn root_amendment_starts_at_the_gates_position_or_later() {
    let world = World::new();
    let plan = plan(&world);
    let gate = world.rooted("gate-2", &plan);
    let proofs = proofs_of(&plan);
    assert_eq!(code(&gate, &refund("c1").plan_proof(proofs[1].as_bytes())), None);
    let amended = |root: PlanRoot, position| {
        let amendment = plan_of(&gate, vec![step("twin", "{}")]).amending(root, position);
        committed(&gate, amendment)
    };
    let refused = |settings| gate.amend_plan_root(settings).unwrap_err().code();
    assert_eq!(refused(root_of(&amended(*plan.root(), 1))), "PLAN_AMENDMENT_LINK", "step 2 has run here");
    assert_eq!(refused(root_of(&amended(PlanRoot::from_digest(Digest::of(b"")), 2))), "PLAN_AMENDMENT_LINK");
    assert_eq!(refused(root_of(&plan)), "PLAN_AMENDMENT_LINK");
    assert_eq!(refused(root_of(&amended(*plan.root(), 2))), "APPROVAL_REQUIRED");
    // Step 3 ran elsewhere.
    let new = amended(*plan.root(), 3);
    let request = gate.plan_root_approval_request(&root_of(&new)).unwrap();
    let token = mint_for(&world, request.binding(), 701);
    assert_eq!(refused(root_of(&amended(*plan.root(), 2)).approval(&token)), "APPROVAL_INVALID");
    assert_eq!(gate.plan_root(), Some(*plan.root()));
    gate.amend_plan_root(root_of(&new).approval(&token)).unwrap();
    assert_eq!((gate.plan_root(), gate.plan_position()), (Some(*new.root()), Some(0)));
    let fresh = proofs_of(&new);
    let twin = ToolCall::new("c2", "desk", "twin", b"{}");
    assert_eq!(code(&gate, &twin.clone().plan_proof(fresh[0].as_bytes())), None);
    assert_eq!(why(&gate, &mail("c3").plan_proof(proofs[2].as_bytes())), (PlanStepMismatch, "leaf".into()));
}

#[test]
fn a_whole_plan_does_not_amend_a_root_nor_a_root_a_whole_plan() {
    let world = World::new();
    let plan = plan(&world);
    let gate = world.rooted("gate-2", &plan);
    let whole = plan_of(&gate, steps()).amending(*plan.root(), 0);
    assert_eq!(gate.plan_approval_request(&whole).unwrap_err().code(), "PLAN_AMENDMENT_LINK");
    assert_eq!(gate.amend_plan(PlanSettings::new(whole.clone())).unwrap_err().code(), "PLAN_AMENDMENT_LINK");
    let other = world.approved_plan(steps());
    let root = root_of(&committed(&other, whole));
    assert_eq!(other.plan_root_approval_request(&root).unwrap_err().code(), "PLAN_AMENDMENT_LINK");
    assert_eq!(other.amend_plan_root(root).unwrap_err().code(), "PLAN_AMENDMENT_LINK");
    assert_eq!(
        gate.start_plan(PlanSettings::new(plan_of(&gate, steps()))).unwrap_err().code(),
        "PLAN_STARTED"
    );
}

#[test]
fn after_a_new_registry_a_root_goes_on_by_an_amendment() {
    let world = World::new();
    let plan = plan(&world);
    let gate = world.rooted("gate-2", &plan);
    let proofs = proofs_of(&plan);
    world.reload(2, NONE_REVOKED);
    let call = search("c").plan_proof(proofs[0].as_bytes());
    assert_eq!(why(&gate, &call), (PlanRequired, "other-registry".into()));
    let new = committed(&gate, plan_of(&gate, steps()).amending(*plan.root(), 0));
    let request = gate.plan_root_approval_request(&root_of(&new)).unwrap();
    gate.amend_plan_root(root_of(&new).approval(&mint_for(&world, request.binding(), 701))).unwrap();
    let proofs = proofs_of(&new);
    assert_eq!(code(&gate, &search("c").plan_proof(proofs[0].as_bytes())), None);
}

#[test]
fn a_gate_that_has_the_whole_plan_verifies_a_proof_that_comes() {
    let world = World::new();
    let (plan, other) = (plan(&world), plan_of(&world.gate(), vec![step("search", r#"{"query":"T-1001"}"#)]));
    let other = proofs_of(&committed(&world.gate(), other));
    let proofs = proofs_of(&plan);
    assert_eq!(code(&world.planned(), &search("c").plan_proof(proofs[0].as_bytes())), None);
    let refused = |call: ToolCall<'_>| why(&world.planned(), &call);
    assert_eq!(refused(search("c").plan_proof(other[0].as_bytes())), (PlanStepMismatch, "leaf".into()));
    assert_eq!(refused(search("c").plan_proof(proofs[1].as_bytes())), (PlanOutOfOrder, "skipped".into()));
    let both = search("c").plan_step(2).plan_proof(proofs[0].as_bytes());
    assert_eq!(refused(both), (PlanStepMismatch, "other-index".into()));
}

#[test]
fn of_many_threads_with_one_proof_one_passes() {
    let world = World::new();
    let plan = plan(&world);
    let gate = world.rooted("gate-2", &plan);
    let proofs = proofs_of(&plan);
    let barrier = std::sync::Barrier::new(8);
    let passed = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    u32::from(code(&gate, &search("c").plan_proof(proofs[0].as_bytes())).is_none())
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u32>()
    });
    assert_eq!(passed, 1);
}
