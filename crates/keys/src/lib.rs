//! Keys: Ed25519 keys of operators, HMAC keys of gates, keyrings, DSSE envelopes, signed notes and the one threshold check.
//!
//! What is signed here is signed over exact bytes behind a label or a payload type (but for the texts of notes, which
//! are signed as they are: see [`note`]), and what verifies comes back as another type. Weak, short and non-canonical
//! keys are refused when they are read, so that a value of a key type is fit for use. The crate makes no randomness
//! (seeds and ids are arguments), tells no time, and knows nothing of what an envelope or a sealed text means to those
//! who use it. It does not protect against somebody who can read the process's memory or the key files of its user.

mod base64;
pub mod dsse;
mod ed25519;
mod error;
pub mod file;
mod keyring;
mod mac;
pub mod note;
mod root;
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
