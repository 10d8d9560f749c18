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
mod approval_token;
mod committed_plan;
mod gate;
mod grant;
mod keys;
mod merkle;
mod registry;
mod tlog;

use std::collections::BTreeMap;
use std::io::Write as _;

use countersign_core::Digest;
use countersign_test_vectors::{Framed, Vectors};
use serde_json::Value;

/// The folders: which files, and the texts that belong into them.
fn makers() -> Vec<(Vectors, BTreeMap<String, String>)> {
    vec![
        (Vectors::of("action-proposal").with("artifacts"), action_proposal::files()),
        (Vectors::recipes("action-proposal"), action_proposal::recipe_files()),
        (Vectors::of("approval-token"), approval_token::files()),
        (Vectors::recipes("approval-token"), approval_token::recipe_files()),
        (Vectors::of("committed-plan"), committed_plan::files()),
        (Vectors::of("grant"), grant::files()),
        (Vectors::recipes("grant"), grant::recipe_files()),
        (Vectors::recipes("keys"), keys::recipe_files()),
        (Vectors::of("merkle"), merkle::files()),
        (Vectors::recipes("registry"), registry::recipe_files()),
        (Vectors::recipes("tlog"), tlog::recipe_files()),
        (Vectors::of("tool-gate"), gate::files()),
    ]
}

/// A vector of the bytes, with their digest.
fn framed_vector(about: &str, kind: &str, framed: &Framed, input: &Value) -> Value {
    framed.vector(about, kind, input, Digest::of(&framed.bytes()))
}

fn main() -> std::io::Result<()> {
    // why: it replaces files, so an option that it does not know must not be ignored.
    if let Some(argument) = std::env::args_os().nth(1) {
        let text = format!("unknown argument {}: the program takes none", argument.display());
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
    }
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
