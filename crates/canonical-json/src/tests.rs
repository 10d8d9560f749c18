#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test that overflows fails"
)]

mod attacks;
mod laws;
mod number_list;
mod numbers;
mod suites;
mod values;
mod vectors;
mod verbatim;
mod wire_types;

use crate::*;

/// Reads under default limits.
fn jcs(text: &str) -> Result<Canonical, JsonError> {
    read(text.as_bytes(), Recipe::Jcs1, &Limits::default())
}

/// Code and offset of the refusal under default limits and the default recipe.
fn refusal(bytes: &[u8]) -> Option<(&'static str, usize)> {
    read(bytes, Recipe::Jcs1, &Limits::default()).err().map(|e| (e.code(), e.offset()))
}
