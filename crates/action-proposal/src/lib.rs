//! Action proposals after PIC/1.0: evidence before side effects.
//!
//! Before a call with a high impact the agent says what it intends, which inputs led to it and what backs its claims
//! ([`ActionProposal`]). Nothing of that is believed: all provenance is untrusted until evidence verifies, and evidence
//! is a file whose digest an operator signed or an attestation that somebody signed for this very call.
//! [`ActionProposal::verify`] gives a [`VerifiedProposal`], which nothing else can make, and
//! [`VerifiedProposal::spend`] uses up its attestations, so that each counts for one call, and a use of each endorsed digest
//! where uses are counted.
//!
//! The wire format, the canonical form, the attestation object and the error codes are those of PIC/1.0 as released in
//! 0.9.x; the default profile is stricter ([`Profile`]).
//!
//! This crate does not decide which tools need a proposal, does not run anything, and does not judge whether a claim is
//! true: it judges whether somebody whom the operator trusts has put a name to it. It reads no clock but the one that it is
//! given, and no files except through an [`EvidenceResolver`].
//!
//! # The order of the checks
//!
//! Limits, schema, distinct ids, the tool, the arguments, the impact, the evidence, the claims, the time. It is one order for
//! every profile, that of the specification's text, and the first check that fails is the answer:
//!
//! | what is looked at | code |
//! | --- | --- |
//! | bytes, nesting, entries of each list | `PIC_LIMIT_EXCEEDED` |
//! | strict JSON, the schema member by member | `PIC_INVALID_REQUEST`, `PIC_SCHEMA_INVALID` |
//! | ids of provenance; strictly, of evidence | `PIC_DUPLICATE_ID` |
//! | the tool, byte by byte | `PIC_TOOL_BINDING_MISMATCH` |
//! | the digest of the arguments | `PIC_ARG_BINDING_MISMATCH` |
//! | strictly, whether the policy lists the tool, where it lists tools and the call states no impact | `PIC_POLICY_VIOLATION` |
//! | the proposal's impact against the operator's | `IMPACT_UNDERSTATED` |
//! | whether there is evidence where there must be | `PIC_EVIDENCE_REQUIRED` |
//! | every entry of it | `PIC_EVIDENCE_FAILED`, or `PIC_LIMIT_EXCEEDED` for its bytes and time |
//! | claims, trust, how many keys signed | `PIC_VERIFIER_FAILED` |
//!
//! The proposal, the call and the policy each state an impact, and what is asked at any of them is asked: of evidence, of
//! keys, of scopes. Under a gate the call states it, from the registry. There the registry is the list of tools, and the
//! gate has denied what it does not have.
//!
//! Where `pic-0.9` differs from the reference implementation, and why, is listed in `COMPATIBILITY.md` beside this crate.

mod attestation;
mod call;
mod code;
mod endorsement;
mod entry;
mod error;
#[cfg(unix)]
mod folder;
mod high;
mod key_scope;
mod keyring;
mod keyring_file;
mod limits;
mod memory;
mod pem;
mod policy;
mod profile;
mod proposal;
mod public_key;
mod reference;
mod resolver;
mod rfc3339;
mod schema;
mod size;
mod trust;
mod verified;
mod verifier;
mod verify;

#[cfg(test)]
mod tests;

pub use attestation::{ATTESTATION_VERSION, AttestError, AttestationDraft, SignedAttestation};
pub use call::ProposedCall;
pub use code::ProposalCode;
pub use endorsement::{
    ArgBound, ArgRule, BoundArgs, EndorsedDigest, EndorsedDigests, EndorsementDraft, EndorsementError,
    SpentEndorsement,
};
pub use entry::{EvidenceEntry, HashEntry, SignatureEntry};
pub use error::ProposalError;
#[cfg(unix)]
pub use folder::{EvidenceFolder, FolderError};
pub use high::HighImpacts;
pub use key_scope::KeyScope;
pub use keyring::{EvidenceKey, EvidenceKeyring, KeyStatus};
pub use keyring_file::KeyringError;
pub use limits::ProposalLimits;
pub use memory::MemoryEvidence;
pub use policy::{PolicyError, ProposalPolicy};
pub use profile::{Profile, ProfileError};
pub use proposal::{ActionProposal, Claim, Provenance, TrustLevel};
pub use resolver::{EvidenceBudget, EvidenceResolver, ResolveError, ResolvedEvidence};
pub use verified::{ProposalSpendError, SpentProposal, VerifiedEvidence, VerifiedProposal};
pub use verifier::{ProposalVerifier, ProposalVerifierBuilder, VerifierError};
