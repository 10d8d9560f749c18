use super::*;

#[test]
fn an_honest_run_passes() {
    let mut cursor = cursor();
    assert_eq!(run(&mut cursor, SEARCH), Ok(1));
    assert_eq!(run(&mut cursor, REFUND), Ok(2));
    assert_eq!(run(&mut cursor, REFUND), Ok(2), "the step may be called twice");
    assert_eq!(run(&mut cursor, SEND), Ok(3));
    assert_eq!((cursor.position(), cursor.halted()), (3, None));
    let trace = cursor.finish().unwrap();
    let ran: Vec<_> = trace.steps().iter().map(|step| (step.index(), step.record())).collect();
    assert_eq!(ran, [(1, 101), (2, 102), (2, 102), (3, 103)]);
}

#[test]
fn step_may_have_fewer_calls_than_its_maximum() {
    let mut cursor = cursor();
    for (at, call) in [(1, SEARCH), (2, REFUND), (3, SEND)] {
        let planned = check_at(&mut cursor, at, call).unwrap();
        assert_eq!(planned.index(), at);
        cursor.give_back(planned).unwrap();
        assert_eq!(run(&mut cursor, call), Ok(at));
    }
    assert!(cursor.finish().is_ok());
}

#[test]
fn only_an_accepted_call_advances_the_plan() {
    let mut cursor = cursor();
    for _ in 0..3 {
        let planned = check(&mut cursor, SEARCH).unwrap();
        assert_eq!(cursor.position(), 0);
        cursor.give_back(planned).unwrap();
    }
    assert_eq!(run(&mut cursor, SEARCH), Ok(1));
    let planned = check(&mut cursor, REFUND).unwrap();
    assert_eq!((planned.index(), planned.root()), (2, cursor.plan().root()));
    assert_eq!(cursor.position(), 1);
    let _run = cursor.accept(planned).unwrap();
    assert_eq!(cursor.position(), 2);
}

/// The refusal of a call after others. It must not depend on naming the step.
fn refusal_after(calls: &[(&str, &str)], at: u64, call: (&str, &str)) -> (&'static str, &'static str) {
    let named = why(check_at(&mut cursor_after(calls), at, call).unwrap_err());
    let unnamed = why(check(&mut cursor_after(calls), call).unwrap_err());
    assert_eq!(named, unnamed);
    named
}

#[test]
fn a_skipped_step_is_out_of_order() {
    assert_eq!(refusal_after(&[], 2, REFUND), ("PLAN_OUT_OF_ORDER", "skipped"));
}

#[test]
fn swapped_steps_are_out_of_order() {
    assert_eq!(refusal_after(&[SEARCH, REFUND, SEND], 2, REFUND), ("PLAN_OUT_OF_ORDER", "behind"));
}

#[test]
fn a_step_repeated_beyond_its_count_is_exhausted() {
    assert_eq!(refusal_after(&[SEARCH, REFUND, REFUND], 2, REFUND), ("PLAN_EXHAUSTED", "count"));
}

#[test]
fn a_call_after_the_end_is_exhausted() {
    let more = ("search", r#"{"query":"one more"}"#);
    assert_eq!(refusal_after(&[SEARCH, REFUND, SEND], 4, more), ("PLAN_EXHAUSTED", "ended"));
}

#[test]
fn a_step_beyond_the_last_is_unknown() {
    let beyond = check_at(&mut cursor(), 4, SEND).unwrap_err();
    assert_eq!(why(beyond), ("PLAN_OUT_OF_ORDER", "unknown-step"));
}

#[test]
fn inserted_call_is_refused() {
    for at in 0..3 {
        let mut cursor = cursor_after(&[SEARCH, REFUND, SEND][..at]);
        let result = check(&mut cursor, ("send", r#"{"to":"eve@example.com","body":"x"}"#));
        assert_eq!(result.unwrap_err().code(), "PLAN_STEP_MISMATCH", "{at}");
    }
}

#[test]
fn header_is_not_a_step() {
    let mut cursor = cursor();
    assert_eq!(why(check_at(&mut cursor, 0, SEARCH).unwrap_err()), ("PLAN_OUT_OF_ORDER", "unknown-step"));
}

#[test]
fn the_first_breach_halts_the_plan() {
    let mut cursor = cursor();
    run(&mut cursor, SEARCH).unwrap();
    let breach = check(&mut cursor, SEND).unwrap_err();
    assert_eq!(why(breach), ("PLAN_OUT_OF_ORDER", "skipped"));
    assert_eq!(cursor.halted(), Some(breach));
    for call in [REFUND, SEND, SEARCH] {
        let refused = check(&mut cursor, call).unwrap_err();
        assert_eq!(why(refused), ("PLAN_HALTED", "skipped"), "the right call is refused as well");
    }
    assert_eq!(cursor.position(), 1);
    assert_eq!(cursor.finish().unwrap_err(), FinishError::Halted);
}

#[test]
fn plan_cursor_decides_one_call_at_a_time() {
    let mut cursor = cursor();
    let first = check(&mut cursor, SEARCH).unwrap();
    assert_eq!(why(check(&mut cursor, SEARCH).unwrap_err()), ("PLAN_OUT_OF_ORDER", "busy"));
    assert_eq!(why(check(&mut cursor, REFUND).unwrap_err()), ("PLAN_OUT_OF_ORDER", "busy"));
    assert_eq!(cursor.halted(), None, "a concurrent call is not a breach");
    let _run = cursor.accept(first).unwrap();
    assert_eq!(run(&mut cursor, REFUND), Ok(2));
}

#[test]
fn call_of_another_cursor_is_refused() {
    let (mut one, mut other) = (cursor(), cursor());
    run(&mut other, SEARCH).unwrap();
    cursor_turns(&mut one);
    let (held, stray) = (check(&mut one, SEARCH).unwrap(), check(&mut other, REFUND).unwrap());
    assert_eq!(why(one.accept(stray).unwrap_err()), ("PLAN_OUT_OF_ORDER", "other-turn"));
    assert_eq!(one.position(), 0);
    let accepted = one.accept(held).unwrap();
    assert_eq!(
        why(other.observe(accepted, String::new(), 1).unwrap_err()),
        ("PLAN_OUT_OF_ORDER", "other-turn")
    );
}

#[test]
fn a_call_has_one_outcome() {
    let (mut one, mut other) = (cursor(), cursor());
    run(&mut one, SEARCH).unwrap();
    let planned = check(&mut other, SEARCH).unwrap();
    let same = other.accept(planned).unwrap();
    let again = one.observe(same, "another outcome".to_owned(), 9);
    assert_eq!(why(again.unwrap_err()), ("PLAN_OUT_OF_ORDER", "other-turn"));
    run(&mut one, REFUND).unwrap();
    run(&mut one, SEND).unwrap();
    let trace = one.finish().unwrap();
    assert_eq!(trace.steps()[0].observation(), "result of search");
}

/// Advances a cursor's counter of turns by one, so that two cursors have the same number.
fn cursor_turns(cursor: &mut PlanCursor<String>) {
    let planned = check(cursor, SEARCH).unwrap();
    cursor.give_back(planned).unwrap();
}

#[test]
fn changed_registry_does_not_halt_the_plan() {
    let mut cursor = cursor();
    let args = json(SEARCH.1);
    let breach = cursor.check(&StepCall::new(&tool("search"), &args, 8)).unwrap_err();
    assert_eq!(why(breach), ("PLAN_REQUIRED", "other-registry"));
    assert_eq!(cursor.halted(), None);
    assert_eq!(run(&mut cursor, SEARCH), Ok(1));
}

#[test]
fn equal_steps_need_one_call_each() {
    let same = || step("search", r#"{"query":"x"}"#);
    let mut cursor: PlanCursor<String> =
        PlanCursor::start(plan_of(vec![same(), same()]), &context()).unwrap();
    let call = ("search", r#"{"query":"x"}"#);
    assert_eq!(run(&mut cursor, call), Ok(1));
    assert_eq!(run(&mut cursor, call), Ok(2));
    assert_eq!(why(run(&mut cursor, call).unwrap_err()), ("PLAN_EXHAUSTED", "count"));
}
