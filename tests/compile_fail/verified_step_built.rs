//! A verified step cannot be built: it comes from its proof.
use countersign::committed_plan::{Step, VerifiedStep};

fn verified(step: Step) -> VerifiedStep {
    VerifiedStep { step, index: 1 }
}

fn main() {}
