//! Heap allocations of a step's check.

use allocation_counter::measure;

use super::*;

#[test]
fn step_of_a_whole_plan_allocates_nothing() {
    let mut cursor = cursor();
    let (tool, args) = (tool(SEARCH.0), json(SEARCH.1));
    for expected in [None, Some(0)] {
        let count = measure(|| {
            let planned = cursor.check(&StepCall::new(&tool, &args, 7)).unwrap();
            cursor.give_back(planned).unwrap();
        });
        // The first check makes the buffer of the step's leaf.
        assert!(expected.is_none_or(|expected| count.count_total == expected), "{}", count.count_total);
    }
}

#[test]
fn proven_step_allocates_nothing() {
    let plan = plan_of(steps());
    let (mut cursor, proof) = (root_cursor(&plan), plan.prove_step(1).unwrap());
    let (tool, args) = (tool(SEARCH.0), json(SEARCH.1));
    for expected in [None, Some(0)] {
        let count = measure(|| {
            let call = StepCall::new(&tool, &args, 7).proved_by(&proof);
            let planned = cursor.check(&call, &Desk).unwrap();
            cursor.give_back(planned).unwrap();
        });
        assert!(expected.is_none_or(|expected| count.count_total == expected), "{}", count.count_total);
    }
}
