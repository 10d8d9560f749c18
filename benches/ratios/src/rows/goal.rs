use std::hint::black_box;

use countersign_core::{Millis, SessionId, Timestamp};
use countersign_pinned_ask::PinnedAsk;
use sha2::{Digest as _, Sha256};

use crate::{Bound, Row, Sampling, Unit, interleave, timed};

/// The check of a restated goal, beside SHA-256 of the same text, which is already in its normal form.
pub(super) fn goal(sampling: Sampling) -> Vec<Row> {
    let now = Timestamp::from_millis(1_790_000_000_000).unwrap();
    let session = SessionId::new("session-1").unwrap();
    let row = |size: usize| {
        let words = "answer ticket t-1001 of the customer who wrote about a broken lamp ";
        let goal = words.repeat(size / words.len() + 1).get(..size).unwrap().trim_end().to_owned();
        let pin = PinnedAsk::pin(&goal, &session, Millis::from_secs(600), now).unwrap();
        let rounds = interleave(
            sampling,
            &mut [
                &mut |times| timed(times, || pin.verify(black_box(&goal), &session, now).unwrap()),
                &mut |times| timed(times, || Sha256::digest(black_box(&goal))),
            ],
        );
        let note = format!("{:.0} / {:.0} ns", rounds.nanos(0).median, rounds.nanos(1).median);
        let name = format!("goal pin check / SHA-256 of the normalised text, {} B of ASCII", goal.len());
        Row::new(name, rounds.ratio(0, 1), Unit::Times).goal(Bound::AtMost(1.5)).note(note)
    };
    vec![row(200), row(1_024)]
}
