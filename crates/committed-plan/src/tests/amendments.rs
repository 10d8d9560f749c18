use super::*;

fn amendment(root: &PlanRoot, position: u64) -> CommittedPlan {
    amendment_of(context(), root, position)
}

fn amendment_of(context: PlanContext, root: &PlanRoot, position: u64) -> CommittedPlan {
    let steps = vec![step("send", r#"{"to":"desk@example.com","body":"<DYNAMIC>"}"#)];
    Plan::new(context, steps).unwrap().amending(*root, position).commit(&Desk).unwrap()
}

const PIVOT: (&str, &str) = ("send", r#"{"to":"desk@example.com","body":"a person has to look"}"#);

/// Amends with the approved root.
fn amend(cursor: &mut PlanCursor<String>, plan: CommittedPlan) -> Result<(), PlanUseError> {
    let approved = *plan.root();
    cursor.amend(plan, &approved, &context())
}

#[test]
fn amendment_replaces_the_remaining_steps() {
    let mut cursor = cursor();
    run(&mut cursor, SEARCH).unwrap();
    let (old, new) = (*cursor.plan().root(), amendment(cursor.plan().root(), 1));
    let root = *new.root();
    amend(&mut cursor, new).unwrap();
    assert_eq!((cursor.plan().root(), cursor.position()), (&root, 0));
    assert_eq!(run(&mut cursor, PIVOT), Ok(1));
    let trace = cursor.finish().unwrap();
    assert_eq!(trace.roots(), [old, root]);
    let ran: Vec<_> = trace.steps().iter().map(|step| (*step.root(), step.index())).collect();
    assert_eq!(ran, [(old, 1), (root, 1)], "calls that ran stay in the trace");
}

#[test]
fn old_steps_are_refused_after_an_amendment() {
    let mut cursor = cursor();
    run(&mut cursor, SEARCH).unwrap();
    let new = amendment(cursor.plan().root(), 1);
    amend(&mut cursor, new).unwrap();
    assert_eq!(run(&mut cursor, REFUND).unwrap_err().code(), "PLAN_STEP_MISMATCH");
}

#[test]
fn an_amendment_can_be_amended() {
    let mut cursor = cursor();
    for _ in 0..64 {
        let new = amendment(cursor.plan().root(), 0);
        amend(&mut cursor, new).unwrap();
    }
    let new = amendment(cursor.plan().root(), 0);
    assert_eq!(amend(&mut cursor, new), Err(PlanUseError::TooMany));
    run(&mut cursor, PIVOT).unwrap();
    assert_eq!(cursor.finish().unwrap().roots().len(), 65);
}

#[test]
fn an_amendment_without_its_own_approval_is_refused() {
    let mut cursor = cursor();
    let old = *cursor.plan().root();
    let other = *amendment(&old, 1).root();
    for approved in [old, other, PlanRoot::from_digest(Digest::of(b""))] {
        let result = cursor.amend(amendment(&old, 0), &approved, &context());
        assert_eq!(result, Err(PlanUseError::NotApproved));
    }
    assert_eq!(run(&mut cursor, SEARCH), Ok(1), "the plan is unchanged");
}

#[test]
fn amendment_must_name_the_running_plan_at_its_position() {
    let mut cursor = cursor();
    run(&mut cursor, SEARCH).unwrap();
    let root = *cursor.plan().root();
    for position in [0, 2, 3, u64::MAX >> 11] {
        assert_eq!(amend(&mut cursor, amendment(&root, position)), Err(PlanUseError::Link), "{position}");
    }
    let stranger = PlanRoot::from_digest(Digest::of(b"other"));
    assert_eq!(amend(&mut cursor, amendment(&stranger, 1)), Err(PlanUseError::Link));
    assert_eq!(amend(&mut cursor, plan_of(steps())), Err(PlanUseError::Link), "a plan is no amendment");
    assert_eq!(amend(&mut cursor, amendment(&root, 1)), Ok(()));
    assert_eq!(amend(&mut cursor, amendment(&root, 1)), Err(PlanUseError::Link), "an amendment is used once");
}

#[test]
fn an_amendment_does_not_start_a_plan() {
    let new = amendment(&PlanRoot::from_digest(Digest::of(b"other")), 0);
    let started = PlanCursor::<()>::start(new, &context());
    assert_eq!(started.unwrap_err(), PlanUseError::Link);
}

#[test]
fn an_amendment_for_another_session_or_goal_is_refused() {
    for (other, error) in [
        (context_of(b"goal", "s-2", 7), PlanUseError::OtherSession),
        (context_of(b"other", "s-1", 7), PlanUseError::OtherGoal),
    ] {
        let mut cursor = cursor();
        let root = *cursor.plan().root();
        let new = || amendment_of(other.clone(), &root, 0);
        assert_eq!(amend(&mut cursor, new()), Err(error));
        // Another context in the call changes nothing: the running plan has its own.
        let approved = *new().root();
        assert_eq!(cursor.amend(new(), &approved, &other), Err(error));
    }
}

#[test]
fn amendment_under_an_earlier_registry_is_refused() {
    let mut cursor = cursor();
    run(&mut cursor, SEARCH).unwrap();
    let root = *cursor.plan().root();
    let at = |version| context_of(b"goal", "s-1", version);
    let new = amendment_of(at(6), &root, 1);
    let approved = *new.root();
    assert_eq!(cursor.amend(new, &approved, &at(6)), Err(PlanUseError::OtherRegistry));
    let new = amendment_of(at(8), &root, 1);
    let approved = *new.root();
    assert_eq!(cursor.amend(new, &approved, &at(7)), Err(PlanUseError::OtherRegistry));
    let new = amendment_of(at(8), &root, 1);
    cursor.amend(new, &approved, &at(8)).unwrap();
    assert_eq!(why(run(&mut cursor, PIVOT).unwrap_err()), ("PLAN_REQUIRED", "other-registry"));
    assert!(cursor.check(&StepCall::new(&tool(PIVOT.0), &json(PIVOT.1), 8)).is_ok());
}

#[test]
fn halted_or_busy_plan_is_not_amended() {
    let mut cursor = cursor();
    let new = || amendment(plan_of(steps()).root(), 0);
    let held = check(&mut cursor, SEARCH).unwrap();
    assert_eq!(amend(&mut cursor, new()), Err(PlanUseError::Busy));
    cursor.give_back(held).unwrap();
    check(&mut cursor, SEND).unwrap_err();
    assert_eq!(amend(&mut cursor, new()), Err(PlanUseError::Halted));
}

#[test]
fn amended_step_is_verified_under_an_index_that_ran_before() {
    let mut cursor = cursor_after(&[SEARCH]);
    let new = amended(plan_of(steps()).root(), 1, steps());
    let root = *new.root();
    let planned = cursor.check_amendment(new, &context()).unwrap();
    cursor.accept_amendment(planned, &root).unwrap();
    cursor.plan.tamper()[0] = step("search", r#"{"limit":10,"query":"ticket 7"}"#).calls(9).unwrap();
    assert_eq!(why(check(&mut cursor, SEARCH).unwrap_err()), ("PLAN_STEP_MISMATCH", "leaf"));
}
