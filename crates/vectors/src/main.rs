//! Makes the public vectors in `tests/vectors`. `cargo run -p xtask -- vectors` runs it; with `--check` its test compares
//! them with the files.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::arithmetic_side_effects,
    reason = "a maker of vectors fails by panicking"
)]

mod action_proposal;
mod gate;
mod merkle;

use std::collections::BTreeMap;
use std::io::Write as _;

use countersign_test_vectors::Vectors;

/// The folders: which files, and the texts that belong into them.
fn makers() -> Vec<(Vectors, BTreeMap<String, String>)> {
    vec![
        (Vectors::of("action-proposal").with("artifacts"), action_proposal::files()),
        (Vectors::recipes("action-proposal"), action_proposal::recipe_files()),
        (Vectors::of("merkle"), merkle::files()),
        (Vectors::of("tool-gate"), gate::files()),
    ]
}

fn main() -> std::io::Result<()> {
    let makers = makers();
    for (vectors, made) in &makers {
        vectors.write(made);
    }
    writeln!(std::io::stdout(), "{} vectors", makers.iter().map(|(_, made)| made.len()).sum::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_on_disk_are_those_that_are_made() {
        let differing: Vec<_> =
            makers().into_iter().flat_map(|(vectors, made)| vectors.differing(&made)).collect();
        assert!(differing.is_empty(), "cargo run -p xtask -- vectors: {differing:#?}");
    }
}
