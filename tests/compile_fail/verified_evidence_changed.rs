//! The bytes of verified evidence are those that were hashed.
use countersign::action_proposal::VerifiedEvidence;

fn swap(evidence: &mut VerifiedEvidence) {
    evidence.bytes = Some(b"another file".to_vec());
}

fn main() {}
