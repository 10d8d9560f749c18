//! Effects on the plan of a call that is not its next one.

use countersign_audit_log::Verdict;
use countersign_committed_plan::{Breaches, FinishError, OnBreach};
use proptest::prelude::*;

use super::plan_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;

fn outliving(world: &World, breaches: u32) -> ToolGate {
    let gate = world.full().on_breach(OnBreach::Refuse(Breaches::new(breaches).unwrap())).open().unwrap();
    let plan = plan_of(&gate, steps());
    let token = world.approve_plan(&gate, &plan);
    gate.start_plan(PlanSettings::new(plan).approval(&token)).unwrap();
    gate
}

/// Returns the code, with the advice to the agent.
fn advice(gate: &ToolGate, call: &ToolCall<'_>) -> (RejectionCode, Retry, Option<&'static str>) {
    let no = gate.check(call).unwrap_err();
    (no.code(), no.retry(), no.unlock())
}

#[test]
fn halting_refusal_advises_no_retry() {
    let gate = World::new().planned();
    let unlock = Some("a new session with a new plan");
    assert_eq!(advice(&gate, &mail("c")), (PlanOutOfOrder, Retry::Never, unlock));
    assert_eq!(advice(&gate, &search("c")), (PlanHalted, Retry::Never, unlock));
}

#[test]
fn call_in_anothers_turn_may_come_again() {
    let world = World::new();
    let inner: std::sync::Arc<parking_lot::Mutex<Option<ToolGate>>> = std::sync::Arc::default();
    let of_check = std::sync::Arc::clone(&inner);
    let check = move |_: &CheckedCall<'_>| {
        if let Some(gate) = of_check.lock().take() {
            let (code, retry, _) = advice(&gate, &search("second"));
            assert_eq!((code, retry), (PlanOutOfOrder, Retry::AfterChange));
        }
        Ok(())
    };
    let gate = world.full().user_check("meanwhile", check).open().unwrap();
    start_plan(&gate, steps()).unwrap();
    *inner.lock() = Some(gate.clone());
    assert_eq!(code(&gate, &search("first")), None);
    assert!(inner.lock().is_none(), "the second call was asked about");
}

#[test]
fn plan_outlives_a_refused_breach() {
    let gate = outliving(&World::new(), 2);
    let next = Some("the plan's next step, one call at a time");
    assert_eq!(advice(&gate, &mail("c")), (PlanOutOfOrder, Retry::AfterChange, next));
    let record = gate.call_log().pop().unwrap();
    assert_eq!((record.verdict, record.plan_step), (Verdict::Reject, None));
    for call in [search("1"), refund("2"), mail("3")] {
        assert_eq!(run(&gate, &call, ""), None);
    }
    assert_eq!(gate.finish_plan().unwrap().steps().len(), 3);
}

#[test]
fn last_breach_halts_the_plan() {
    let gate = outliving(&World::new(), 2);
    assert_eq!(code(&gate, &mail("1")), Some(PlanOutOfOrder));
    assert_eq!(run(&gate, &search("2"), ""), None);
    assert_eq!(advice(&gate, &mail("3")).1, Retry::Never);
    assert_eq!(why(&gate, &refund("4")), (PlanHalted, "the plan was halted: skipped".into()));
    assert_eq!(gate.finish_plan().unwrap_err(), FinishError::Halted.into());
}

#[test]
fn root_outlives_breaches_as_a_plan_does() {
    let world = World::new();
    let plan = committed(&world.gate(), plan_of(&world.gate(), steps()));
    let proofs = proofs_of(&plan);
    let gate = world
        .full()
        .on_breach(OnBreach::Refuse(Breaches::default()))
        .plan_root(root_of(&plan))
        .open()
        .unwrap();
    assert_eq!(code(&gate, &search("1")), Some(PlanStepMismatch), "no proof");
    assert_eq!(code(&gate, &search("2").plan_proof(proofs[0].as_bytes())), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn accepted_calls_are_a_prefix_under_any_foreign_calls(
        moves in proptest::collection::vec(0..6_usize, 0..24), breaches in 1..6_u32,
    ) {
        let gate = outliving(&World::new(), breaches);
        let own = [search("own"), refund("own"), mail("own")];
        let foreign = [
            search("f").plan_step(9), ToolCall::new("f", "desk", "twin", b"{}"), refund("f").plan_step(0),
            ToolCall::new("f", "desk", "search", br#"{"query":"T-1002"}"#),
        ];
        let (mut accepted, mut refused) = (0, 0);
        for next in moves.into_iter().chain([9; 3]) {
            if let Some(call) = foreign.get(next) {
                prop_assert!(gate.check(call).is_err());
                refused += 1;
            } else if let Some(call) = own.get(accepted) {
                let runs = run(&gate, call, "").is_none();
                prop_assert_eq!(runs, refused < breaches);
                accepted += usize::from(runs);
            }
            prop_assert_eq!(gate.plan_position(), Some(accepted as u64));
        }
        prop_assert_eq!(gate.finish_plan().is_ok(), refused < breaches);
    }
}
