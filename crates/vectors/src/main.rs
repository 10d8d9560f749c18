//! Makes the public vectors in `tests/vectors`. `cargo run -p xtask -- vectors` runs it; with `--check` it writes
//! nothing, and exits with 1 if a file differs.

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
use std::process::ExitCode;

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

fn main() -> ExitCode {
    let check = std::env::args().skip(1).any(|argument| argument == "--check");
    let mut all = 0_usize;
    let mut differing = Vec::new();
    for (vectors, made) in makers() {
        all = all.saturating_add(made.len());
        if check {
            differing.extend(vectors.differing(&made));
        } else {
            vectors.write(&made);
        }
    }
    let text = if differing.is_empty() {
        format!("{all} vectors\n")
    } else {
        format!("vectors that differ, run `cargo run -p xtask -- vectors`:\n{}\n", differing.join("\n"))
    };
    let is_written = std::io::stdout().write_all(text.as_bytes()).is_ok();
    if is_written && differing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
