use std::hint::black_box;

use countersign_canonical_json::{Limits, Recipe, digest as digest_of};
use sha2::{Digest as _, Sha256};

use super::decision::text;
use crate::{Bound, Row, SIZES, Sampling, Unit, interleave, structured_args, timed};

const GOALS: [f64; 3] = [6.0, 8.0, 8.0];

/// The digest of arguments from their text, beside `serde_json`, `serde_json_canonicalizer` and `sha2`.
pub(super) fn digest(sampling: Sampling) -> Vec<Row> {
    let limits = Limits::default();
    let row = |at: usize, size: usize| {
        let args = structured_args(size);
        let ours = || digest_of(black_box(&args), Recipe::Jcs1, &limits).unwrap();
        let peer = || {
            let value: serde_json::Value = serde_json::from_slice(black_box(&args)).unwrap();
            Sha256::digest(serde_json_canonicalizer::to_vec(&value).unwrap())
        };
        assert_eq!(ours().as_bytes().as_slice(), peer().as_slice(), "the same digest");
        let sha256 = || Sha256::digest(black_box(&args));
        let rounds = interleave(
            sampling,
            &mut [&mut |times| timed(times, ours), &mut |times| timed(times, peer), &mut |times| {
                timed(times, sha256)
            }],
        );
        let [ours, peer, floor] = [0, 1, 2].map(|side| rounds.nanos(side).median);
        let name =
            format!("digest from text, times as fast as serde_json + canonicalizer + sha2, {}", text(size));
        Row::new(name, rounds.ratio(1, 0), Unit::Times)
            .goal(Bound::AtLeast(GOALS[at]))
            .aim(Bound::AtLeast(10.0))
            .note(format!("{ours:.0} / {peer:.0} ns; SHA-256 of the text: {floor:.0} ns"))
    };
    SIZES.into_iter().enumerate().map(|(at, size)| row(at, size)).collect()
}
