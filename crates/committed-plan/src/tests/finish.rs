use super::*;

#[test]
fn trace_has_every_call_with_its_result() {
    let cursor = cursor_after(&[SEARCH, REFUND, SEND]);
    let root = *cursor.plan().root();
    assert_eq!(cursor.is_complete(), Ok(()));
    let trace = cursor.finish().unwrap();
    assert_eq!(trace.roots(), [root]);
    let last = trace.into_steps().pop().unwrap();
    assert_eq!((last.root(), last.index(), last.tool()), (&root, 3, &tool("send")));
    assert_eq!((last.description(), last.record()), (Some("say so"), 103));
    assert_eq!(*last.args(), json(SEND.1).digest());
    assert_eq!(last.observation(), "result of send");
    assert_eq!(last.into_observation(), "result of send");
}

#[test]
fn a_plan_is_not_finished_before_its_last_step() {
    for ran in 0..3 {
        let cursor = cursor_after(&[SEARCH, REFUND, SEND][..ran]);
        assert_eq!(cursor.finish().unwrap_err(), FinishError::Incomplete, "{ran}");
    }
}

#[test]
fn plan_is_not_finished_without_every_result() {
    let mut cursor = cursor();
    let planned = check(&mut cursor, SEARCH).unwrap();
    let late = cursor.accept(planned).unwrap();
    run(&mut cursor, REFUND).unwrap();
    run(&mut cursor, SEND).unwrap();
    assert_eq!(cursor.is_complete(), Err(FinishError::OutcomeMissing));
    cursor.observe(late, "late".to_owned(), 7).unwrap();
    let trace = cursor.finish().unwrap();
    let seen: Vec<&str> = trace.steps().iter().map(|step| step.observation().as_str()).collect();
    assert_eq!(seen, ["late", "result of refund", "result of send"]);
}

#[test]
fn a_plan_is_not_finished_while_a_call_is_decided() {
    let mut twice: PlanCursor<String> =
        PlanCursor::start(plan_of(vec![step("search", r#"{"query":"x"}"#).calls(2).unwrap()]), &context())
            .unwrap();
    let call = ("search", r#"{"query":"x"}"#);
    run(&mut twice, call).unwrap();
    let _held = check(&mut twice, call).unwrap();
    assert_eq!(twice.finish().unwrap_err(), FinishError::Busy);
}

#[test]
fn a_plan_that_lost_its_root_gives_nothing_out() {
    let mut cursor = cursor_after(&[SEARCH, REFUND, SEND]);
    cursor.plan.tamper()[0] = step("search", r#"{"query":"ticket 8","limit":10}"#);
    assert_eq!(cursor.finish().unwrap_err(), FinishError::Root);
}

/// A complete cursor whose plan was amended twice.
fn amended_twice() -> PlanCursor<String> {
    let mut cursor = cursor();
    for _ in 0..2 {
        let amendment = amended(cursor.plan().root(), 0, vec![step("search", r#"{"query":"x"}"#)]);
        let approved = *amendment.root();
        cursor.amend(amendment, &approved, &context()).unwrap();
    }
    run(&mut cursor, ("search", r#"{"query":"x"}"#)).unwrap();
    cursor
}

#[test]
fn an_amended_plan_that_lost_its_root_gives_nothing_out() {
    let mut cursor = amended_twice();
    cursor.amended[1].plan.tamper()[0] = step("search", r#"{"query":"y"}"#);
    assert_eq!(cursor.finish().unwrap_err(), FinishError::Root);
}

#[test]
fn an_amendment_that_lost_its_link_gives_nothing_out() {
    for at in [0, 1] {
        let mut cursor = amended_twice();
        cursor.amended[at].position = 1;
        assert_eq!(cursor.finish().unwrap_err(), FinishError::Root, "{at}");
    }
}

#[test]
fn debug_output_shows_no_results() {
    let mut cursor = cursor();
    let args = json(SEARCH.1);
    let planned = cursor.check(&StepCall::new(&tool("search"), &args, 7)).unwrap();
    let accepted = cursor.accept(planned).unwrap();
    cursor.observe(accepted, "secret result".to_owned(), 1).unwrap();
    let shown = format!("{cursor:?} {cursor:#?} {:?}", cursor.plan());
    assert!(!shown.contains("secret") && !shown.contains("ticket 7"), "{shown}");
    run(&mut cursor, REFUND).unwrap();
    run(&mut cursor, SEND).unwrap();
    let trace = cursor.finish().unwrap();
    let shown = format!("{trace:?} {:?}", trace.steps());
    assert!(!shown.contains("secret") && !shown.contains("result"), "{shown}");
}
