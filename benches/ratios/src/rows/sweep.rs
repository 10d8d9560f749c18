use std::time::Duration;

use crate::decisions::{FreeCall, ManySessions};
use crate::{BenchWorld, Operation, Row, Sampling, Unit, interleave, laps};

/// A call, and the dimension's value in it.
type SweptCall = (String, Box<dyn Operation>);

/// How the cost of a free decision with its record grows with each dimension, as a multiple of its smallest value. All
/// values of a dimension are measured alternately, so that the load of the machine does not count.
#[must_use]
pub fn sweep(sampling: Sampling) -> Vec<Row> {
    let of_world = |world| Box::new(FreeCall::of(world, 26)) as Box<dyn Operation>;
    let sizes = [26, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10];
    let args = sizes.map(|size| (format!("arguments of {size} B"), Box::new(FreeCall::new(size)) as _));
    let tools = [2, 10, 100, 1_000].map(|tools| {
        let world = BenchWorld::of(0, tools - 2, "ada@example.com");
        (format!("agent with {tools} tools"), of_world(world))
    });
    let agents = [1, 100, 10_000].map(|agents| {
        let world = BenchWorld::of(agents - 1, 0, "ada@example.com");
        (format!("registry of {agents} agents"), of_world(world))
    });
    let sessions = [1, 100, 10_000, 100_000].map(|sessions| {
        (format!("{sessions} open sessions, called in turn"), Box::new(ManySessions::new(sessions)) as _)
    });
    let records = [16, 64, 128, 256].map(|length| {
        let mut call = FreeCall::of(BenchWorld::of(0, 0, &"p".repeat(length)), 26);
        let bytes = call.bare().record_bytes();
        (format!("record of {bytes} B"), Box::new(call) as _)
    });
    // why: many sessions drive few out of the caches, which a long sample fills again.
    let long = Sampling { target: sampling.target * 40, ..sampling };
    let dimensions: [(Sampling, Vec<SweptCall>); 5] = [
        (sampling, args.into()),
        (sampling, tools.into()),
        (sampling, agents.into()),
        (long, sessions.into()),
        (sampling, records.into()),
    ];
    dimensions.into_iter().flat_map(|(sampling, calls)| swept(sampling, calls)).collect()
}

fn swept(sampling: Sampling, calls: Vec<SweptCall>) -> Vec<Row> {
    let (names, mut calls): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
    let mut sides: Vec<_> = calls.iter_mut().map(|call| |times: u32| laps(call.as_mut(), times)).collect();
    let mut sides: Vec<_> = sides.iter_mut().map(|side| side as &mut dyn FnMut(u32) -> Duration).collect();
    let rounds = interleave(sampling, &mut sides);
    let row = |(at, name)| {
        let note = format!("{:.0} ns", rounds.nanos(at).median);
        Row::new(name, rounds.ratio(at, 0), Unit::Times).note(note)
    };
    names.into_iter().enumerate().map(row).collect()
}
