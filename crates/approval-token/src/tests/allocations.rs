//! Heap allocations of an approval at the gate.

use allocation_counter::measure;
use countersign_core::{SpentId, SpentTokens as _, Ticket};

use super::*;
use crate::{MemorySpentTokens, verify_text};

#[test]
fn verified_token_allocates_only_what_a_record_keeps() {
    let (keys, call) = (keys(), full("c"));
    let token = minted(&call, &terms("t"));
    let mut approval = None;
    let count = measure(|| approval = verify_text(token.as_str(), &keys, &call, at(1_000_000), &STRICT).ok());
    assert!(approval.is_some());
    // The token's id and the approver.
    assert_eq!(count.count_total, 2);
}

#[test]
fn refused_token_allocates_nothing() {
    let (keys, call, other) = (keys(), full("c"), full("d"));
    let token = minted(&call, &terms("t"));
    let forged = forge(&payload(&token).replace("olga", "oleg"));
    let (_, tag) = forged.as_str().rsplit_once('.').unwrap();
    let (payload, _) = token.as_str().rsplit_once('.').unwrap();
    for (text, call, reason) in [
        (token.as_str(), &other, "other-call"),
        (&format!("{payload}.{tag}"), &call, "tag"),
        ("cs1.e30.AAAA", &call, "shape"),
    ] {
        let mut result = None;
        let count = measure(|| result = Some(verify_text(text, &keys, call, at(1_000_000), &STRICT)));
        assert_eq!((refusal(result.unwrap()), count.count_total), (reason, 0));
    }
}

#[test]
fn spend_allocates_nothing_in_a_set_that_was_larger() {
    let store = MemorySpentTokens::new();
    let ticket = |n: u64| {
        let id = SpentId::new(Digest::of(&n.to_be_bytes()));
        Ticket::new(id, at(n), at(n + 1))
    };
    for n in 0..20_000 {
        store.spend(&ticket(n), at(0)).unwrap();
    }
    store.forget(at(20_000));
    assert!(store.is_empty());
    let count = measure(|| (20_000..20_500).for_each(|n| store.spend(&ticket(n), at(n)).unwrap()));
    assert_eq!((store.len(), count.count_total), (500, 0));
}
