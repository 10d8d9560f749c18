//! A verified proposal cannot be cloned: its attestations are spent once.
use countersign::action_proposal::VerifiedProposal;

fn twice(proposal: VerifiedProposal) -> (VerifiedProposal, VerifiedProposal) {
    (proposal.clone(), proposal)
}

fn main() {}
