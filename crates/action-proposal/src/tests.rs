#![expect(
    clippy::arithmetic_side_effects,
    clippy::string_slice,
    reason = "a test that goes out of range is to fail"
)]

mod attestation;
mod attested_files;
mod budget;
mod clocks;
mod endorsed_args;
mod endorsement;
mod evidence;
#[cfg(unix)]
mod folder;
mod keyring;
mod laws;
mod order;
mod parsing;
mod pic_evidence;
mod policy;
#[cfg(unix)]
mod race;
mod reference;
mod schema;
mod signature;
mod signing;
mod spend;
#[cfg(unix)]
mod suites;
mod trust;
mod vectors;
mod world;
