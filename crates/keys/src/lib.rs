//! Keys: Ed25519 keys of operators, HMAC keys of gates, keyrings, DSSE envelopes and the one threshold check.
//!
//! Signatures cover exact bytes with a label or a payload type. Verifying returns another type. Weak, short and
//! non-canonical keys are refused when they are parsed, so every value of a key type is fit for use.
//!
//! The crate generates no randomness (seeds and ids are arguments), reads no clock, and does not interpret the
//! contents of envelopes and sealed texts. It does not protect against an attacker who can read the process's memory
//! or its user's key files.

mod base64;
pub mod dsse;
mod ed25519;
mod error;
pub mod file;
mod keyring;
mod mac;
mod root;
mod root_update;
pub mod sealed;
pub mod state_file;
pub mod trusted;

#[cfg(test)]
mod tests;

pub use ed25519::{Signature, SigningKey, VerifyingKey};
pub use error::{KeyError, KeyringError, SignatureError, TagError};
pub use keyring::{Keyring, RunKeys, ServerSecret};
pub use mac::{MacKey, Tag};
pub use root::{RootError, TrustRoot, threshold_met};
