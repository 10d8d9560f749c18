//! Spending consumes the verified proposal.
use countersign::action_proposal::VerifiedProposal;
use countersign::core::{Millis, SpentTokens, Timestamp};

fn twice(proposal: VerifiedProposal, store: &dyn SpentTokens, now: Timestamp) {
    let _ = proposal.spend(store, now, Millis::from_secs(5));
    let _ = proposal.spend(store, now, Millis::from_secs(5));
}

fn main() {}
