//! An approval is spent once: spending consumes it.
use countersign::approval_token::Approval;
use countersign::core::{Millis, SpentTokens, Timestamp};

fn twice(approval: Approval, store: &dyn SpentTokens, now: Timestamp) {
    let _ = approval.spend(store, now, Millis::ZERO);
    let _ = approval.spend(store, now, Millis::ZERO);
}

fn main() {}
