//! A verified proposal comes from `ActionProposal::verify` alone.
use countersign::action_proposal::VerifiedProposal;

fn forge(other: VerifiedProposal) -> VerifiedProposal {
    VerifiedProposal { ..other }
}

fn main() {}
