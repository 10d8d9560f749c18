//! Verified evidence cannot be cloned.
use countersign::action_proposal::VerifiedEvidence;

fn copy(evidence: &VerifiedEvidence) -> VerifiedEvidence {
    VerifiedEvidence::clone(evidence)
}

fn main() {}
