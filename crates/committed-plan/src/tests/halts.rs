//! Halts by the host.

use super::*;

#[test]
fn a_plan_that_was_halted_lets_nothing_through_and_gives_out_nothing() {
    let mut cursor = cursor();
    assert_eq!(run(&mut cursor, SEARCH), Ok(1));
    assert_eq!(cursor.halt("by-host"), Ok(()));
    assert_eq!(run(&mut cursor, REFUND).map_err(why), Err(("PLAN_HALTED", "by-host")));
    assert_eq!(cursor.is_complete(), Err(FinishError::Halted));
    let new =
        Plan::new(context(), steps()).unwrap().amending(*cursor.plan().root(), 1).commit(&Desk).unwrap();
    assert_eq!(cursor.can_amend(&new, &context()), Err(PlanUseError::Halted));
}

#[test]
fn the_first_halt_stands() {
    let mut cursor = cursor();
    let breach = check(&mut cursor, SEND).unwrap_err();
    assert_eq!(cursor.halt("by-host"), Err(breach));
    assert_eq!(cursor.halted(), Some(breach));
    let mut cursor = root_cursor();
    cursor.halt("one").unwrap();
    assert_eq!(cursor.halt("two").map_err(why), Err(("PLAN_HALTED", "one")));
}

fn root_cursor() -> RootCursor {
    let plan = plan_of(steps());
    RootCursor::start(plan.header_proof().unwrap().verify(plan.root()).unwrap(), &context()).unwrap()
}

#[test]
fn a_call_that_held_its_turn_when_the_plan_was_halted_does_not_run() {
    let mut cursor = cursor();
    let held = check(&mut cursor, SEARCH).unwrap();
    cursor.halt("by-host").unwrap();
    assert_eq!(cursor.accept(held).map(|_| ()).map_err(why), Err(("PLAN_HALTED", "by-host")));
    assert_eq!(cursor.position(), 0);
    let (plan, mut cursor) = (plan_of(steps()), root_cursor());
    let (tool, args, proof) = (tool(SEARCH.0), json(SEARCH.1), plan.prove_step(1).unwrap());
    let held = cursor.check(&StepCall::new(&tool, &args, 7).proved_by(&proof), &Desk).unwrap();
    cursor.halt("by-host").unwrap();
    assert_eq!(cursor.accept(held).map_err(why), Err(("PLAN_HALTED", "by-host")));
    assert_eq!(cursor.position(), 0);
}

#[test]
fn an_amendment_that_held_the_turn_when_the_plan_was_halted_is_not_taken() {
    let mut cursor = cursor();
    let root = *cursor.plan().root();
    let new = || Plan::new(context(), steps()).unwrap().amending(root, 0).commit(&Desk).unwrap();
    let held = cursor.check_amendment(new(), &context()).unwrap();
    cursor.halt("by-host").unwrap();
    assert_eq!(cursor.accept_amendment(held, new().root()), Err(PlanUseError::Halted));
    assert_eq!(*cursor.plan().root(), root);
    let mut cursor = root_cursor();
    let verified = new().header_proof().unwrap().verify(new().root()).unwrap();
    let held = cursor.check_amendment(verified, &context()).unwrap();
    cursor.halt("by-host").unwrap();
    assert_eq!(cursor.accept_amendment(held, new().root()), Err(PlanUseError::Halted));
    assert_eq!(*cursor.root(), root);
}
