//! Plans that tolerate breaches.

use proptest::collection::vec;
use proptest::prelude::*;

use super::laws::{any_steps, call, changed, committed, honest, start};
use super::*;

fn refuse(breaches: u32) -> OnBreach {
    OnBreach::Refuse(Breaches::new(breaches).unwrap())
}

#[test]
fn own_next_step_passes_after_a_refused_breach() {
    let mut cursor = cursor().on_breach(refuse(2));
    assert_eq!(run(&mut cursor, SEND).map_err(why), Err(("PLAN_OUT_OF_ORDER", "skipped")));
    assert_eq!((cursor.position(), cursor.halted()), (0, None));
    assert_eq!([SEARCH, REFUND, SEND].map(|call| run(&mut cursor, call)), [Ok(1), Ok(2), Ok(3)]);
    assert_eq!(cursor.finish().unwrap().steps().len(), 3);
}

#[test]
fn last_allowed_breach_halts() {
    let mut cursor = cursor().on_breach(refuse(2));
    assert_eq!(run(&mut cursor, SEND).map_err(why), Err(("PLAN_OUT_OF_ORDER", "skipped")));
    assert_eq!(run(&mut cursor, SEARCH), Ok(1));
    let last = run(&mut cursor, SEARCH).unwrap_err();
    assert_eq!((why(last), cursor.halted()), (("PLAN_EXHAUSTED", "count"), Some(last)));
    assert_eq!(run(&mut cursor, REFUND).map_err(why), Err(("PLAN_HALTED", "count")));
}

#[test]
fn concurrent_calls_are_not_breaches() {
    let mut cursor = cursor().on_breach(refuse(1));
    let held = check(&mut cursor, SEARCH).unwrap();
    for _ in 0..3 {
        assert_eq!(check(&mut cursor, SEND).map(|_| ()).map_err(why), Err(("PLAN_OUT_OF_ORDER", "busy")));
    }
    let _run = cursor.accept(held).unwrap();
    assert_eq!(cursor.halted(), None);
}

#[test]
fn breaches_are_counted_over_amendments() {
    let mut cursor = cursor().on_breach(refuse(2));
    assert!(check(&mut cursor, SEND).is_err());
    let root = *cursor.plan().root();
    let new = || amended(&root, 0, steps());
    let held = cursor.check_amendment(new(), &context()).unwrap();
    cursor.accept_amendment(held, new().root()).unwrap();
    assert!(check(&mut cursor, SEND).is_err());
    assert!(cursor.halted().is_some());
}

#[test]
fn number_of_breaches_is_bounded() {
    for wrong in [0, 1_001, u32::MAX] {
        assert_eq!(Breaches::new(wrong).unwrap_err().code(), "PLAN_BREACHES_OUT_OF_RANGE");
    }
    assert_eq!(Breaches::new(1_000).map(Breaches::get), Ok(1_000));
    assert_eq!((Breaches::default().get(), OnBreach::default()), (8, OnBreach::Halt));
}

/// Makes a call that is not the plan's next one: one of another step, or the next one changed.
fn foreign(cursor: &mut PlanCursor<u64>, steps: &[Step], at: u64, how: u8) -> bool {
    let position = cursor.position();
    let step = |at: u64| usize::try_from(at).ok().and_then(|at| steps.get(at.checked_sub(1)?));
    let repeats = at == position && step(at).is_some_and(|step| step.max_calls() > 1);
    let how = if how % 5 == 1 || how % 5 == 2 { 0 } else { how };
    let (at, made) = match step(position + 1) {
        Some(next) if at == position + 1 || repeats => (position + 1, changed(next, how)),
        _ => (at, step(at).unwrap_or(&steps[0]).clone()),
    };
    // After the last step every call is a breach.
    let at = if repeats { position + 1 } else { at };
    call(cursor, at, &made, &honest(&made)).is_err()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn accepted_calls_are_a_prefix_of_the_plan(
        steps in any_steps(), breaches in 1..10_u32, moves in vec(proptest::option::of((0..70_u64, any::<u8>())), 0..40),
    ) {
        let mut cursor = start(committed(&steps)).on_breach(refuse(breaches));
        let (mut accepted, mut refused) = (Vec::new(), 0);
        for next in moves.iter().copied().chain(steps.iter().map(|_| None)) {
            match next {
                Some((at, how)) => {
                    prop_assert!(foreign(&mut cursor, &steps, at, how));
                    refused += 1;
                }
                None => {
                    let at = cursor.position() + 1;
                    let Some(step) = steps.get(accepted.len()) else { continue };
                    if let Ok(planned) = call(&mut cursor, at, step, &honest(step)) {
                        accepted.push(planned.index());
                        let run = cursor.accept(planned).unwrap();
                        cursor.observe(run, at, at).unwrap();
                    }
                }
            }
            prop_assert_eq!(cursor.halted().is_some(), refused >= breaches);
        }
        let prefix: Vec<u64> = (1..).take(accepted.len()).collect();
        prop_assert_eq!(&accepted, &prefix);
        if refused < breaches {
            prop_assert_eq!(accepted.len(), steps.len());
            prop_assert!(cursor.finish().is_ok());
        } else {
            prop_assert!(cursor.finish().is_err());
        }
    }
}
