//! A verified proposal comes only from `ActionProposal::verify`.
use countersign::action_proposal::VerifiedProposal;

fn forge(other: VerifiedProposal) -> VerifiedProposal {
    VerifiedProposal { ..other }
}

fn main() {}
