//! Halts by the host.

use super::*;

#[test]
fn halted_plan_accepts_nothing() {
    let mut cursor = cursor();
    assert_eq!(run(&mut cursor, SEARCH), Ok(1));
    assert_eq!(cursor.halt("by-host"), Ok(()));
    assert_eq!(run(&mut cursor, REFUND).map_err(why), Err(("PLAN_HALTED", "by-host")));
    assert_eq!(cursor.is_complete(), Err(FinishError::Halted));
    let new = amended(cursor.plan().root(), 1, steps());
    assert_eq!(cursor.can_amend(&new, &context()), Err(PlanUseError::Halted));
}

#[test]
fn first_halt_is_kept() {
    let mut cursor = cursor();
    let breach = check(&mut cursor, SEND).unwrap_err();
    assert_eq!(cursor.halt("by-host"), Err(breach));
    assert_eq!(cursor.halted(), Some(breach));
    let mut cursor = root_cursor(&plan_of(steps()));
    cursor.halt("one").unwrap();
    assert_eq!(cursor.halt("two").map_err(why), Err(("PLAN_HALTED", "one")));
}

#[test]
fn call_checked_before_a_halt_is_not_accepted() {
    let mut cursor = cursor();
    let held = check(&mut cursor, SEARCH).unwrap();
    cursor.halt("by-host").unwrap();
    assert_eq!(cursor.accept(held).map(|_| ()).map_err(why), Err(("PLAN_HALTED", "by-host")));
    assert_eq!(cursor.position(), 0);
    let (plan, mut cursor) = (plan_of(steps()), root_cursor(&plan_of(steps())));
    let (tool, args, proof) = (tool(SEARCH.0), json(SEARCH.1), plan.prove_step(1).unwrap());
    let held = cursor.check(&StepCall::new(&tool, &args, 7).proved_by(&proof), &Desk).unwrap();
    cursor.halt("by-host").unwrap();
    assert_eq!(cursor.accept(held).map_err(why), Err(("PLAN_HALTED", "by-host")));
    assert_eq!(cursor.position(), 0);
}

#[test]
fn amendment_checked_before_a_halt_is_not_accepted() {
    let mut cursor = cursor();
    let root = *cursor.plan().root();
    let new = || amended(&root, 0, steps());
    let held = cursor.check_amendment(new(), &context()).unwrap();
    cursor.halt("by-host").unwrap();
    assert_eq!(cursor.accept_amendment(held, new().root()), Err(PlanUseError::Halted));
    assert_eq!(*cursor.plan().root(), root);
    let mut cursor = root_cursor(&plan_of(steps()));
    let held = cursor.check_amendment(verified(&new()), &context()).unwrap();
    cursor.halt("by-host").unwrap();
    assert_eq!(cursor.accept_amendment(held, new().root()), Err(PlanUseError::Halted));
    assert_eq!(*cursor.root(), root);
}
