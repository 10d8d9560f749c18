#![expect(clippy::string_slice, reason = "a value out of range fails the test")]

mod checkpoint;
mod note;
mod recipes;
mod submission;
mod tiles;
mod witness;

use countersign_core::Timestamp;
use countersign_keys::SigningKey;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

/// A signing key with a fixed seed.
fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed([seed; 32])
}
