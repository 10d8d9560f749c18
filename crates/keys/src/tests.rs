#![expect(
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    reason = "a value out of range fails the test"
)]

mod dsse;
mod ed25519;
mod file;
mod keyring;
mod recipes;
mod root;
mod sealed;

use crate::{SigningKey, TrustRoot};

/// A signing key with a fixed seed.
fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed([seed; 32])
}

/// A root of version 1 over keys with fixed seeds.
fn root(threshold: usize, seeds: &[u8]) -> TrustRoot {
    root_of_version(1, threshold, seeds)
}

fn root_of_version(version: u64, threshold: usize, seeds: &[u8]) -> TrustRoot {
    TrustRoot::new(version, threshold, seeds.iter().map(|seed| key(*seed).verifying_key())).unwrap()
}

fn unhex<const N: usize>(text: &str) -> [u8; N] {
    unhex_all(text).try_into().unwrap()
}

fn unhex_all(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
