//! Action proposals after PIC/1.0: evidence before side effects.
//!
//! Before a call with a high impact the agent states its intent, the inputs that led to it, and the evidence for its
//! claims ([`ActionProposal`]). None of these statements is trusted: all provenance is untrusted until evidence
//! verifies. Evidence is a file whose digest an operator signed, or an attestation signed for this very call.
//! [`ActionProposal::verify`] returns a [`VerifiedProposal`], which only it can create. [`VerifiedProposal::spend`]
//! uses up its attestations, so that each counts for one call, and one use of each endorsed digest with counted uses.
//!
//! Wire format, canonical form, attestation object and error codes are those of PIC/1.0 as released in 0.9.x; the
//! default profile is stricter ([`Profile`]).
//!
//! This crate does not decide which tools need a proposal, runs nothing, and does not judge whether a claim is true:
//! it checks that a party trusted by the operator has signed for it. It reads only the given clock, and files only
//! through an [`EvidenceResolver`].
//!
//! # The order of the checks
//!
//! Limits, schema, distinct ids, tool, arguments, impact, evidence, claims, time. Every profile has this order, which
//! is the order of the specification's text. The first failed check is the answer:
//!
//! | check | code |
//! | --- | --- |
//! | bytes, nesting, entries of each list | `PIC_LIMIT_EXCEEDED` |
//! | strict JSON, the schema by member | `PIC_INVALID_REQUEST`, `PIC_SCHEMA_INVALID` |
//! | ids of provenance; under `strict`, of evidence | `PIC_DUPLICATE_ID` |
//! | the tool, byte by byte | `PIC_TOOL_BINDING_MISMATCH` |
//! | the digest of the arguments | `PIC_ARG_BINDING_MISMATCH` |
//! | under `strict`, the policy lists the tool, if it lists tools and the call states no impact | `PIC_POLICY_VIOLATION` |
//! | the proposal's impact against the operator's | `IMPACT_UNDERSTATED` |
//! | evidence is present where required | `PIC_EVIDENCE_REQUIRED` |
//! | every entry of evidence | `PIC_EVIDENCE_FAILED`, or `PIC_LIMIT_EXCEEDED` for its bytes and time |
//! | claims, trust, number of signing keys | `PIC_VERIFIER_FAILED` |
//!
//! The proposal, the call and the policy each state an impact. The requirements of all three apply to evidence, keys
//! and scopes. Under a gate the call takes its impact from the registry. There the registry is the list of tools, and
//! the gate has already denied any tool outside of it.
//!
//! `COMPATIBILITY.md` beside this crate lists the differences of `pic-0.9` from the reference implementation, with
//! reasons.

mod attestation;
mod call;
mod endorsement;
mod error;
mod evidence;
#[cfg(all(unix, feature = "evidence"))]
mod folder;
mod key_scope;
mod keyring;
mod keyring_error;
mod keyring_file;
mod policy;
mod proposal;
mod provenance;
mod public_key;
mod resolver;
mod schema;
mod settings;
mod trust;
mod verified;
mod verifier;
mod verify;

#[cfg(test)]
mod tests;

pub use attestation::{ATTESTATION_VERSION, AttestError, AttestationDraft, SignedAttestation};
pub use call::ProposedCall;
pub use endorsement::{
    ArgBound, ArgRule, BoundArgs, EndorsedDigest, EndorsedDigests, EndorsementDraft, EndorsementError,
    SpentEndorsement,
};
pub use error::{ProposalCode, ProposalError};
pub use evidence::{EvidenceEntry, HashEntry, SignatureEntry, VerifiedEvidence};
#[cfg(all(unix, feature = "evidence"))]
pub use folder::{EvidenceFolder, FolderError};
pub use key_scope::KeyScope;
pub use keyring::{EvidenceKey, EvidenceKeyring, KeyStatus};
pub use keyring_error::KeyringError;
pub use policy::{PolicyError, ProposalPolicy};
pub use proposal::ActionProposal;
pub use provenance::{Claim, Provenance, TrustLevel};
pub use resolver::{EvidenceBudget, EvidenceResolver, MemoryEvidence, ResolveError, ResolvedEvidence};
pub use settings::{HighImpacts, Profile, ProfileError, ProposalLimits};
pub use verified::{ProposalSpendError, SpentProposal, VerifiedProposal};
pub use verifier::{ProposalVerifier, ProposalVerifierBuilder, VerifierError};
