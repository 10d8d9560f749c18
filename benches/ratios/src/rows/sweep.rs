use crate::decisions::{FreeCall, ManySessions};
use crate::{BenchWorld, Figure, Operation, Plain, Row, Sampling, Unit, interleave, laps};

/// How the cost of a free decision with its record grows with each dimension.
#[must_use]
pub fn sweep(sampling: Sampling) -> Vec<Row> {
    let mut rows = Vec::new();
    for size in [26, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10] {
        let mut call = FreeCall::new(size);
        let bare = call.bare();
        let mut floor = Plain(|| bare.run());
        let rounds = interleave(
            sampling,
            &mut [&mut |times| laps(&mut call, times), &mut |times| laps(&mut floor, times)],
        );
        let note = format!("{:.2} times bare", rounds.ratio(0, 1).median);
        rows.push(Row::new(format!("arguments of {size} B"), rounds.nanos(0), Unit::Nanos).note(note));
    }
    let alone = |call: &mut dyn Operation| -> Figure {
        interleave(sampling, &mut [&mut |times| laps(call, times)]).nanos(0)
    };
    for tools in [2, 10, 100, 1_000] {
        let figure = alone(&mut FreeCall::of(BenchWorld::of(0, tools - 2, "ada@example.com"), 26));
        rows.push(Row::new(format!("agent with {tools} tools"), figure, Unit::Nanos));
    }
    for agents in [1, 100, 10_000] {
        let figure = alone(&mut FreeCall::of(BenchWorld::of(agents - 1, 0, "ada@example.com"), 26));
        rows.push(Row::new(format!("registry of {agents} agents"), figure, Unit::Nanos));
    }
    for sessions in [1, 100, 10_000, 100_000] {
        let figure = alone(&mut ManySessions::new(sessions));
        rows.push(Row::new(format!("{sessions} open sessions, called in turn"), figure, Unit::Nanos));
    }
    for length in [16, 64, 128, 256] {
        let mut call = FreeCall::of(BenchWorld::of(0, 0, &"p".repeat(length)), 26);
        let bytes = call.bare().record_bytes();
        rows.push(Row::new(format!("record of {bytes} B"), alone(&mut call), Unit::Nanos));
    }
    rows
}
