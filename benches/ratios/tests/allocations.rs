//! Heap allocations of a decision with its record in memory, in steady state, and memory of a session. The numbers only
//! fall.

#![expect(clippy::indexing_slicing, reason = "a list of 16 has a middle")]

use allocation_counter::measure;
use countersign_ratios::decisions::{ApprovedCall, FreeCall, UndisclosedCall};
use countersign_ratios::{BenchWorld, Operation, SIZES};

/// Median of the allocations of 16 operations, after 32 that warm up.
fn allocations(mut operation: impl Operation) -> u64 {
    let mut batch = || {
        operation.prepare(16);
        let count = |operation: &mut dyn Operation| {
            let counted = measure(|| operation.run()).count_total;
            operation.settle();
            counted
        };
        let mut counts: Vec<u64> = (0..16).map(|_| count(&mut operation)).collect();
        counts.sort_unstable();
        counts[8]
    };
    (0..2).map(|_| batch()).last();
    batch()
}

#[test]
fn free_call_allocates_no_more_than_this() {
    for (size, most) in SIZES.into_iter().zip([1, 1, 1]) {
        let counted = allocations(FreeCall::of(BenchWorld::small(), size));
        assert!(counted <= most, "{counted} allocations at {size} B, at most {most} expected");
    }
}

#[test]
fn approved_call_allocates_no_more_than_this() {
    for (size, most) in SIZES.into_iter().zip([2, 2, 2]) {
        let counted = allocations(ApprovedCall::of(BenchWorld::small(), size));
        assert!(counted <= most, "{counted} allocations at {size} B, at most {most} expected");
    }
}

#[test]
fn undisclosed_refusal_allocates_no_more_than_this() {
    for (size, most) in SIZES.into_iter().zip([2, 2, 2]) {
        let counted = allocations(UndisclosedCall::of(BenchWorld::small(), size));
        assert!(counted <= most, "{counted} allocations at {size} B, at most {most} expected");
    }
}

#[test]
fn idle_session_takes_no_more_memory_than_this() {
    let world = BenchWorld::small();
    let first = world.gate_of(world.contract_of(0));
    world.warm();
    let contract = world.contract_of(1);
    let counted = measure(|| std::mem::forget(world.gate_of(contract)));
    assert!(counted.bytes_current <= 960, "{} bytes", counted.bytes_current);
    drop(first);
}
