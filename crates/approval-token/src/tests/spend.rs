use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::MemorySpentTokens;
use crate::spent::spent_id;
use countersign_core::{SpendError, SpentTokens, Ticket};

fn approval(call: &str, id: &str, now: u64) -> Approval {
    verify(&token(call, id), &keys(), &full(call), at(now), &STRICT).unwrap()
}

fn spend(store: &dyn SpentTokens, approval: Approval, now: u64) -> &'static str {
    match approval.spend(store, at(now), SKEW) {
        Ok(_) => "ok",
        Err(error) => error.code(),
    }
}

#[test]
fn a_token_is_spent_once_in_sequence() {
    let store = MemorySpentTokens::new();
    let spent = approval("c", "t", 1_000_000).spend(&store, at(1_000_000), SKEW).unwrap();
    assert_eq!((spent.token_id().as_str(), spent.approver().as_str()), ("t", "olga"));
    for _ in 0..3 {
        assert_eq!(spend(&store, approval("c", "t", 1_000_000), 1_000_000), "APPROVAL_SPENT");
    }
    assert_eq!(spend(&store, approval("c", "u", 1_000_000), 1_000_000), "ok");
    assert_eq!(store.len(), 2);
}

#[test]
fn racing_threads_spend_each_token_once() {
    const TOKENS: usize = 10_000;
    const THREADS: usize = 8;
    let (keys, store, barrier) = (keys(), MemorySpentTokens::new(), Barrier::new(THREADS));
    let binding = bare("c");
    let tokens: Vec<_> = (0..TOKENS)
        .map(|n| mint(&keys, &binding, &terms(&format!("t{n}")), DEFAULT_TTL_CAP).unwrap())
        .collect();
    let wins: Vec<_> = (0..TOKENS).map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (keys, store, barrier, binding) = (&keys, &store, &barrier, &binding);
            let (tokens, wins) = (&tokens, &wins);
            scope.spawn(move || {
                barrier.wait();
                for n in 0..TOKENS {
                    // Half of the threads start from the other end.
                    let n = if thread % 2 == 0 { n } else { TOKENS - 1 - n };
                    let now = at(1_000_000 + n as u64 % 50_000);
                    let approval = verify(&tokens[n], keys, binding, now, &STRICT).unwrap();
                    if approval.spend(store, now, SKEW).is_ok() {
                        wins[n].fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    assert!(wins.iter().all(|wins| wins.load(Ordering::SeqCst) == 1));
    assert_eq!(store.len(), TOKENS);
}

#[test]
fn spends_during_purges_succeed_at_most_once() {
    let store = MemorySpentTokens::new();
    let ids: Vec<_> = (0..20_000_u64)
        .map(|n| (spent_id(&RunId::new("r").unwrap(), &TokenId::new(&format!("{n}")).unwrap()), n))
        .collect();
    let wins: Vec<_> = ids.iter().map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for ((id, n), wins) in ids.iter().zip(&wins) {
                    // Each id may be purged from the arrival of the next one on.
                    if store.spend(&Ticket::new(*id, at(0), at(n + 1)), at(*n)).is_ok() {
                        wins.fetch_add(1, Ordering::SeqCst);
                    }
                    store.forget(at(*n));
                }
            });
        }
    });
    assert!(wins.iter().all(|wins| wins.load(Ordering::SeqCst) <= 1));
}

#[test]
fn clock_set_back_revives_no_purged_token() {
    let store = MemorySpentTokens::new();
    assert_eq!(spend(&store, approval("c", "t", 1_000_000), 1_000_000), "ok");
    // Kept until expiry plus skew, and no longer.
    store.forget(at(1_064_999));
    assert_eq!(store.len(), 1);
    store.forget(at(1_065_000));
    assert!(store.is_empty());
    // The clock returns to a time at which the token was valid. Verification is pure and accepts it.
    assert_eq!(spend(&store, approval("c", "t", 1_000_001), 1_000_001), "STORE_CLOCK_AHEAD");
    // A token that may have been spent is refused as well.
    assert_eq!(spend(&store, approval("c", "never", 1_000_001), 1_000_001), "STORE_CLOCK_AHEAD");
    // A token that outlives the horizon is accepted.
    let late = terms_of("late", "olga", 1_000_000, 600);
    let late = minted(&full("c"), &late);
    assert_eq!(spend(&store, check(&late, &full("c")).unwrap(), 1_000_001), "ok");
    assert_eq!(spend(&store, check(&late, &full("c")).unwrap(), 1_000_001), "APPROVAL_SPENT");
}

#[test]
fn a_spend_a_year_ahead_refuses_no_fresh_token() {
    let (store, year) = (MemorySpentTokens::new(), 31_536_000_000);
    assert_eq!(spend(&store, approval("c", "before", 1_000_000), 1_000_000), "ok");
    let id = spent_id(&RunId::new("run-1").unwrap(), &TokenId::new("ahead").unwrap());
    store.spend(&Ticket::new(id, at(year), at(year + 60_000)), at(year)).unwrap();
    store.forget(at(year));
    // The clock is right again. Tokens purged while it was ahead, until 1,065,000, stay spent.
    assert_eq!(spend(&store, approval("c", "before", 1_000_001), 1_000_001), "STORE_CLOCK_AHEAD");
    let fresh = terms_of("fresh", "olga", 1_000_001, 60);
    let fresh = minted(&full("c"), &fresh);
    let fresh = verify(&fresh, &keys(), &full("c"), at(1_000_001), &STRICT).unwrap();
    assert_eq!(spend(&store, fresh, 1_000_001), "ok");
}

#[test]
fn a_store_of_a_new_process_refuses_older_tokens() {
    let store = MemorySpentTokens::since(at(1_000_001));
    assert_eq!(spend(&store, approval("c", "t", 1_000_002), 1_000_002), "STORE_TOO_NEW");
    let store = MemorySpentTokens::since(at(1_000_000));
    assert_eq!(spend(&store, approval("c", "t", 1_000_002), 1_000_002), "ok");
    let store = MemorySpentTokens::since(at(2_000_000));
    assert_eq!(spend(&store, approval("c", "t", 1_000_002), 1_000_002), "STORE_CLOCK_AHEAD");
}

#[test]
fn a_clock_that_is_set_back_after_a_spend_changes_nothing() {
    let store = MemorySpentTokens::new();
    assert_eq!(spend(&store, approval("c", "t", 1_059_999), 1_059_999), "ok");
    assert_eq!(spend(&store, approval("c", "t", 1_000_000), 1_000_000), "APPROVAL_SPENT");
    assert_eq!(spend(&store, approval("c", "t", 995_000), 995_000), "APPROVAL_SPENT");
}

#[test]
fn tokens_are_forgotten_by_time_and_never_by_size() {
    let store = MemorySpentTokens::new();
    let id = |n: u64| spent_id(&RunId::new("r").unwrap(), &TokenId::new(&format!("{n}")).unwrap());
    let ticket = |n, keep_until| Ticket::new(id(n), at(0), at(keep_until));
    for n in 0..20_000 {
        store.spend(&ticket(n, 100), at(1)).unwrap();
    }
    assert_eq!(store.len(), 20_000);
    // They have expired: spending others makes room.
    for n in 20_000..45_000 {
        store.spend(&ticket(n, 300), at(200)).unwrap();
    }
    assert!(store.len() <= 25_000, "{}", store.len());
    for n in 0..20_000 {
        assert!(matches!(store.spend(&ticket(n, 100), at(1)), Err(SpendError::ClockAhead)));
    }
}

#[test]
fn an_approval_that_expires_before_it_is_spent_is_refused() {
    let store = MemorySpentTokens::new();
    assert_eq!(spend(&store, approval("c", "t", 1_059_999), 1_060_000), "APPROVAL_EXPIRED");
    assert!(store.is_empty());
}

#[derive(Debug)]
struct Broken(&'static str);

impl SpentTokens for Broken {
    fn spend(&self, _: &Ticket, _: Timestamp) -> Result<(), SpendError> {
        Err(SpendError::Unavailable(self.0.into()))
    }
}

#[test]
fn failing_store_is_a_refusal() {
    for why in ["unreachable", "full", "read-only", "corrupt"] {
        let refused = approval("c", "t", 1_000_000).spend(&Broken(why), at(1_000_000), SKEW).unwrap_err();
        assert_eq!(refused.code(), "STORE_UNAVAILABLE");
        assert!(!refused.to_string().contains(why));
        assert_eq!(std::error::Error::source(&refused).unwrap().to_string(), why);
    }
}

#[test]
fn a_victims_token_id_cannot_be_burnt_without_a_valid_tag() {
    let store = MemorySpentTokens::new();
    // Same token id: with a broken tag, under another key, in another run.
    let good = token("c", "t");
    let flipped = good.as_str().replacen("cs1.e", "cs1.f", 1);
    assert_ne!(flipped, good.as_str());
    assert!(flipped.parse().and_then(|token: ApprovalToken| check(&token, &full("c"))).is_err());
    let foreign = mint(&run_keys("k1", 9, "run-1"), &full("c"), &terms("t"), DEFAULT_TTL_CAP).unwrap();
    assert!(check(&foreign, &full("c")).is_err());
    let elsewhere = run_keys("k1", 1, "run-2");
    let other = mint(&elsewhere, &full("c"), &terms("t"), DEFAULT_TTL_CAP).unwrap();
    let approval_elsewhere = verify(&other, &elsewhere, &full("c"), at(1_000_000), &STRICT).unwrap();
    assert_eq!(spend(&store, approval_elsewhere, 1_000_000), "ok");
    assert_eq!(spend(&store, approval("c", "t", 1_000_000), 1_000_000), "ok");
}

#[test]
fn replayed_workflow_mints_the_same_bytes() {
    let store = MemorySpentTokens::new();
    // The engine replays its workflow: everything is derived again from the recorded inputs.
    let replay = || mint(&run_keys("k1", 1, "run-1"), &full("c"), &terms("t"), DEFAULT_TTL_CAP).unwrap();
    let (first, second) = (replay(), replay());
    assert_eq!(first.as_str(), second.as_str());
    assert_eq!(spend(&store, check(&first, &full("c")).unwrap(), 1_000_000), "ok");
    assert_eq!(spend(&store, check(&second, &full("c")).unwrap(), 1_000_000), "APPROVAL_SPENT");
}

#[test]
fn a_token_minted_again_under_a_newer_key_is_the_same_ticket() {
    let store = MemorySpentTokens::new();
    let run = RunId::new("run-1").unwrap();
    let rotated = Keyring::new(secret("k2", 2)).accept(secret("k1", 1)).unwrap().for_run(&run);
    let again = mint(&rotated, &full("c"), &terms("t"), DEFAULT_TTL_CAP).unwrap();
    assert_ne!(again.as_str(), token("c", "t").as_str());
    let verify = |token: &ApprovalToken| verify(token, &rotated, &full("c"), at(1_000_000), &STRICT).unwrap();
    assert_eq!(spend(&store, verify(&token("c", "t")), 1_000_000), "ok");
    assert_eq!(spend(&store, verify(&again), 1_000_000), "APPROVAL_SPENT");
}

#[test]
fn token_id_is_spent_for_any_call() {
    let store = MemorySpentTokens::new();
    assert_eq!(spend(&store, approval("c", "t", 1_000_000), 1_000_000), "ok");
    assert_eq!(spend(&store, approval("d", "t", 1_000_000), 1_000_000), "APPROVAL_SPENT");
}

#[test]
fn of_two_calls_in_one_turn_one_runs_on_one_approval() {
    let store = MemorySpentTokens::new();
    let only = token("c", "t");
    let runs = ["c", "d", "c"].map(|call| match check(&only, &full(call)) {
        Ok(approval) => spend(&store, approval, 1_000_000),
        Err(error) => error.code(),
    });
    assert_eq!(runs, ["ok", "APPROVAL_INVALID", "APPROVAL_SPENT"]);
}

#[test]
fn a_run_and_a_token_id_cannot_lend_each_other_letters() {
    let id = |run: &str, token: &str| spent_id(&RunId::new(run).unwrap(), &TokenId::new(token).unwrap());
    assert_ne!(id("a", "bc"), id("ab", "c"));
    assert_ne!(id("a", "b"), id("b", "a"));
    assert_eq!(id("a", "b"), id("a", "b"));
}

/// Makes a method call ambiguous for a type that implements the named trait.
trait CannotBeCloned<A> {
    const OK: bool = true;
}
impl<T: ?Sized> CannotBeCloned<()> for T {}
impl<T: Clone> CannotBeCloned<u8> for T {}

#[test]
fn proofs_of_approval_cannot_be_cloned() {
    const { assert!(<Approval as CannotBeCloned<_>>::OK) };
    const { assert!(<crate::SpentApproval as CannotBeCloned<_>>::OK) };
}
