//! Action proposals after PIC/1.0: evidence before side effects.
//!
//! Before a call with a high impact the agent says what it intends, which inputs led to it and what backs its claims
//! (`ActionProposal`). Nothing of that is believed: all provenance is untrusted until evidence verifies, and evidence
//! is a file whose digest an operator signed or an attestation that somebody signed for this very call.
//! `ActionProposal::verify` gives a `VerifiedProposal`, which nothing else can make.
//!
//! The wire format, the canonical form, the attestation object and the error codes are those of PIC/1.0 as released in
//! 0.9.x; the default profile is stricter ([`Profile`]).
//!
//! This crate does not decide which tools need a proposal, does not run anything, and does not judge whether a claim is
//! true: it judges whether somebody whom the operator trusts has put a name to it. It reads no clock but the one that it is
//! given, and no files except through an [`EvidenceResolver`].

mod call;
mod code;
mod entry;
mod error;
mod high;
mod limits;
mod profile;
mod resolver;

pub use call::ProposedCall;
pub use code::ProposalCode;
pub use entry::{EvidenceEntry, HashEntry, SignatureEntry};
pub use error::ProposalError;
pub use high::HighImpacts;
pub use limits::ProposalLimits;
pub use profile::{Profile, ProfileError};
pub use resolver::{EvidenceBudget, EvidenceResolver, ResolveError, ResolvedEvidence};
