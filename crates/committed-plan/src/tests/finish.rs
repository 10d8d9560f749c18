use super::*;

#[test]
fn a_trace_has_what_ran_and_what_came_of_it() {
    let mut cursor = cursor();
    let root = *cursor.plan().root();
    for call in [SEARCH, REFUND, SEND] {
        run(&mut cursor, call).unwrap();
    }
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
        let mut cursor = cursor();
        for call in [SEARCH, REFUND, SEND].into_iter().take(ran) {
            run(&mut cursor, call).unwrap();
        }
        assert_eq!(cursor.finish().unwrap_err(), FinishError::Incomplete, "{ran}");
    }
}

#[test]
fn a_plan_is_not_finished_while_an_outcome_is_missing() {
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
    let mut twice: PlanCursor<String> = PlanCursor::start(
        plan_of(vec![step("search", r#"{"query":"x"}"#).with_max_calls(2).unwrap()]),
        &context(),
    )
    .unwrap();
    let call = ("search", r#"{"query":"x"}"#);
    run(&mut twice, call).unwrap();
    let _held = check(&mut twice, call).unwrap();
    assert_eq!(twice.finish().unwrap_err(), FinishError::Busy);
}

#[test]
fn a_plan_that_lost_its_root_gives_nothing_out() {
    let mut cursor = cursor();
    for call in [SEARCH, REFUND, SEND] {
        run(&mut cursor, call).unwrap();
    }
    cursor.plan.tamper()[0] = step("search", r#"{"query":"ticket 8","limit":10}"#);
    assert_eq!(cursor.finish().unwrap_err(), FinishError::Root);
}

#[test]
fn an_amended_plan_that_lost_its_root_gives_nothing_out() {
    let new = |root| {
        let steps = vec![step("search", r#"{"query":"x"}"#)];
        Plan::new(context(), steps).unwrap().amending(root, 0).commit(&Desk).unwrap()
    };
    let mut cursor = cursor();
    for _ in 0..2 {
        let amendment = new(*cursor.plan().root());
        let approved = *amendment.root();
        cursor.amend(amendment, &approved, &context()).unwrap();
    }
    run(&mut cursor, ("search", r#"{"query":"x"}"#)).unwrap();
    cursor.amended[1].plan.tamper()[0] = step("search", r#"{"query":"y"}"#);
    assert_eq!(cursor.finish().unwrap_err(), FinishError::Root);
}

#[test]
fn an_amendment_that_lost_its_link_gives_nothing_out() {
    for at in [0, 1] {
        let mut cursor = cursor();
        for _ in 0..2 {
            let steps = vec![step("search", r#"{"query":"x"}"#)];
            let new = Plan::new(context(), steps).unwrap().amending(*cursor.plan().root(), 0);
            let amendment = new.commit(&Desk).unwrap();
            let approved = *amendment.root();
            cursor.amend(amendment, &approved, &context()).unwrap();
        }
        run(&mut cursor, ("search", r#"{"query":"x"}"#)).unwrap();
        cursor.amended[at].position = 1;
        assert_eq!(cursor.finish().unwrap_err(), FinishError::Root, "{at}");
    }
}

#[test]
fn nothing_that_a_tool_returned_is_shown_before_the_end_or_in_passing() {
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
