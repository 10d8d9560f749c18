//! Signature entries: payload, key, signature, and the binding to this call.

mod bind;
mod draft;
mod members;
mod rehearsal;
mod verify;

pub(crate) use bind::AttestationRules;
pub use draft::{AttestError, AttestationDraft, SignedAttestation};
pub use members::ATTESTATION_VERSION;
pub(crate) use verify::verify_entry;
#[cfg(test)]
pub(crate) use {members::Broken, verify::VerifiedSignature};
