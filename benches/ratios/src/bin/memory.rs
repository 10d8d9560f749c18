//! Counts allocations of a decision and bytes of a session, and prints the rows as JSON.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::arithmetic_side_effects,
    reason = "a bench that cannot be set up has to stop"
)]

use allocation_counter::measure;
use countersign_ratios::decisions::{ApprovedCall, FreeCall, UndisclosedCall};
use countersign_ratios::{BenchWorld, Bound, Figure, Operation, Row, SIZES, Unit};
use countersign_tool_gate::ToolGate;

/// Sessions that are open at once.
const SESSIONS: usize = 100_000;

fn main() {
    let mut rows = Vec::new();
    for size in SIZES {
        rows.push(allocations(&format!("approved decision, {size} B"), &mut ApprovedCall::new(size)));
    }
    for size in SIZES {
        rows.push(allocations(&format!("free decision, {size} B"), &mut FreeCall::new(size)));
    }
    for size in SIZES {
        rows.push(allocations(&format!("undisclosed refusal, {size} B"), &mut UndisclosedCall::new(size)));
    }
    rows.extend(sessions());
    println!("{}", serde_json::to_string(&rows).unwrap());
}

/// Allocations of one operation in steady state, the growth of a block included.
fn allocations(name: &str, operation: &mut dyn Operation) -> Row {
    let mut counts = Vec::new();
    for round in 0..8 {
        operation.prepare(64);
        for _ in 0..64 {
            let counted = measure(|| operation.run());
            operation.settle();
            if round > 3 {
                counts.push(counted.count_total as f64);
            }
        }
    }
    let most = counts.iter().copied().fold(0.0, f64::max);
    let figure = Figure { spread: 0.0, ..Figure::of(counts) };
    Row::new(format!("heap allocations, {name}"), figure, Unit::Count)
        .goal(Bound::AtMost(2.0))
        .aim(Bound::AtMost(0.0))
        .note(format!("most: {most}"))
}

/// Bytes of a gate beyond its contract, and of many.
fn sessions() -> [Row; 2] {
    let world = BenchWorld::new();
    let open = |number: usize| world.gate_of(world.contract_of(number));
    world.warm();
    // The first sessions fill what all share.
    drop((0..8_192).map(open).collect::<Vec<_>>());
    let few: Vec<_> = (0..64).map(|at| world.contract_of(10_000 + at)).collect();
    let mut gates: Vec<ToolGate> = Vec::with_capacity(SESSIONS);
    let one = measure(|| gates.extend(few.into_iter().map(|contract| world.gate_of(contract))));
    let one = one.bytes_current as f64 / 64.0;
    gates.clear();
    let many = measure(|| gates.extend((0..SESSIONS).map(|at| open(20_000 + at))));
    let many = many.bytes_current as f64 / SESSIONS as f64;
    let limit = Bound::AtMost(1_024.0);
    [
        Row::new("memory of an idle session beyond its contract", Figure::exact(one), Unit::Bytes)
            .goal(limit),
        Row::new(
            "memory of each of 100,000 open sessions, contract included",
            Figure::exact(many),
            Unit::Bytes,
        )
        .goal(limit),
    ]
}
