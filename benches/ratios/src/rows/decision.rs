use crate::decisions::{ApprovedCall, FreeCall, UncheckedCall, UndisclosedCall};
use crate::{Bare, Bound, Operation, Plain, Row, SIZES, Sampling, Unit, interleave, laps};

/// Goals and aims of an accepted call at the three sizes.
const GOALS: [f64; 3] = [1.8, 2.5, 4.0];
const AIMS: [f64; 3] = [1.3, 1.8, 3.0];

pub(super) fn approved(sampling: Sampling) -> Vec<Row> {
    let row = |at: usize, size: usize| {
        let mut call = ApprovedCall::new(size);
        let bare = call.bare();
        let name = format!("approved decision + record / bare, {}", text(size));
        ratio(sampling, name, &mut call, &bare).goal(Bound::AtMost(GOALS[at])).aim(Bound::AtMost(AIMS[at]))
    };
    SIZES.into_iter().enumerate().map(|(at, size)| row(at, size)).collect()
}

pub(super) fn free(sampling: Sampling) -> Vec<Row> {
    let row = |at: usize, size: usize| {
        let mut call = FreeCall::new(size);
        let bare = call.bare();
        let name = format!("free decision + record / bare, {}", text(size));
        ratio(sampling, name, &mut call, &bare).goal(Bound::AtMost(GOALS[at])).aim(Bound::AtMost(AIMS[at]))
    };
    SIZES.into_iter().enumerate().map(|(at, size)| row(at, size)).collect()
}

pub(super) fn unchecked(sampling: Sampling) -> Vec<Row> {
    let row = |size: usize| {
        let mut call = FreeCall::new(size);
        let bare = call.bare();
        let name = format!("free call without its checks / bare, {}", text(size));
        ratio(sampling, name, &mut UncheckedCall::free(&call), &bare)
    };
    let mut rows: Vec<Row> = SIZES.into_iter().map(row).collect();
    let mut call = UndisclosedCall::new(SIZES[0]);
    let bare = call.bare();
    let name = "refusal without its checks / SHA-256 of its record".to_owned();
    rows.push(ratio(sampling, name, &mut UncheckedCall::refused(&call), &bare));
    rows.push(short_record(sampling));
    rows
}

/// What a record costs less if its session's members are not in it.
fn short_record(sampling: Sampling) -> Row {
    let call = FreeCall::new(SIZES[0]);
    let (mut short, mut whole) = (UncheckedCall::short_record(&call), UncheckedCall::record(&call));
    let rounds = interleave(
        sampling,
        &mut [&mut |times| laps(&mut short, times), &mut |times| laps(&mut whole, times)],
    );
    let note = format!("{:.0} / {:.0} ns", rounds.nanos(0).median, rounds.nanos(1).median);
    Row::new(
        "record of a free call, without what its session shares / whole",
        rounds.ratio(0, 1),
        Unit::Times,
    )
    .note(note)
}

pub(super) fn undisclosed(sampling: Sampling) -> Vec<Row> {
    let mut rows: Vec<Row> = SIZES
        .into_iter()
        .map(|size| {
            let mut call = UndisclosedCall::new(size);
            let bare = call.bare();
            let name = format!("refusal of an undisclosed tool / SHA-256 of its record, {}", text(size));
            ratio(sampling, name, &mut call, &bare).goal(Bound::AtMost(1.8))
        })
        .collect();
    let (mut small, mut large) = (UndisclosedCall::new(SIZES[0]), UndisclosedCall::new(SIZES[2]));
    let rounds = interleave(
        sampling,
        &mut [&mut |times| laps(&mut large, times), &mut |times| laps(&mut small, times)],
    );
    let flat = Row::new("refusal of an undisclosed tool, 64 KiB / 26 B", rounds.ratio(0, 1), Unit::Times);
    rows.push(flat.goal(Bound::AtMost(1.05)));
    rows
}

fn ratio(sampling: Sampling, name: String, ours: &mut dyn Operation, bare: &Bare) -> Row {
    let mut floor = Plain(|| bare.run());
    let rounds =
        interleave(sampling, &mut [&mut |times| laps(ours, times), &mut |times| laps(&mut floor, times)]);
    let (ours, floor) = (rounds.nanos(0).median, rounds.nanos(1).median);
    let note = format!("{ours:.0} / {floor:.0} ns, {} bytes hashed", bare.bytes());
    Row::new(name, rounds.ratio(0, 1), Unit::Times).note(note)
}

/// A size as people write it.
pub(super) fn text(size: usize) -> String {
    if size < 1_024 { format!("{size} B") } else { format!("{} KiB", size / 1_024) }
}
