//! The questions that wait for a person: found, shown and answered the same way by every surface.

mod answer;
mod attest;
mod context;
mod edit;
mod evidence_shown;
mod find;
mod grant;
mod own_proposal;
mod plan;
mod proposal;
mod shown;

pub use answer::GivenApproval;
pub use attest::{AttestableCall, SignedAnswer, UnsignedAttestation};
pub use context::{ArgChange, QuestionContext, SignedTool};
pub use evidence_shown::{describe_attestation, shown_file};
pub use find::QuestionQueue;
pub use grant::{GivenGrant, GrantWish, grant_report};
pub use plan::WaitingPlan;
pub use proposal::describe as proposal_lines;
pub use shown::{describe, question, report};
