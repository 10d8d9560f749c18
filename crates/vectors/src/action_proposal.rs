//! Action proposals: a proposal, a gate's settings and the expected verdict.

mod accepted;
mod bound;
mod endorsed;
mod files;
mod keys;
mod made;
mod recipes;
mod shapes;
mod stated;

use std::collections::BTreeMap;

use countersign_test_vectors::numbered;
use serde_json::Value;

pub(crate) use recipes::files as recipe_files;

/// Cases of one kind, each with its id.
fn named(kind: &str, cases: Vec<(&'static str, Value)>) -> BTreeMap<String, String> {
    let cases = (1_u32..).zip(cases).map(|(at, (slug, mut case))| {
        case["id"] = format!("{kind}-{at:03}").into();
        (slug, case)
    });
    numbered(kind, cases)
}

pub(crate) fn files() -> BTreeMap<String, String> {
    let refused = [
        shapes::refused(),
        bound::refused(),
        files::refused(),
        keys::refused(),
        recipes::refused(),
        stated::refused(),
        endorsed::refused(),
    ]
    .concat();
    let accepted = [accepted::accepted(), recipes::accepted(), stated::accepted(), endorsed::accepted()];
    let mut made = named("accept", accepted.concat());
    made.extend(named("reject", refused));
    made.extend(files::artifacts());
    made
}
