use std::collections::BTreeSet;
use std::fs;

use countersign_approval_token::SpentApproval;
use countersign_core::Millis;
use countersign_core::{SpentTokens, Ticket};
use proptest::prelude::*;

use super::*;

#[test]
fn replay_in_sequence_is_refused() {
    let (_folder, path) = place();
    let (store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
    assert_eq!(spend(&store, &keys, "t1"), Ok(()));
    assert_eq!(spend(&store, &keys, "t1"), Err("APPROVAL_SPENT"));
    assert_eq!(spend(&store, &keys, "t2"), Ok(()));
    assert_eq!(spend(&store, &keys, "t1"), Err("APPROVAL_SPENT"));
}

#[test]
fn replay_after_a_restart_is_refused() {
    let (_folder, path) = place();
    let keys = keys();
    assert_eq!(spend(&SqliteStore::open(&path, at(0)).unwrap(), &keys, "t1"), Ok(()));
    for _ in 0..3 {
        assert_eq!(spend(&SqliteStore::open(&path, at(0)).unwrap(), &keys, "t1"), Err("APPROVAL_SPENT"));
    }
}

#[test]
fn replay_through_a_second_connection_is_refused() {
    let (_folder, path) = place();
    let keys = keys();
    let (one, other) = (SqliteStore::open(&path, at(0)).unwrap(), SqliteStore::open(&path, at(0)).unwrap());
    assert_eq!(spend(&one, &keys, "t1"), Ok(()));
    assert_eq!(spend(&other, &keys, "t1"), Err("APPROVAL_SPENT"));
    drop(one);
    assert_eq!(spend(&other, &keys, "t2"), Ok(()));
    assert_eq!(spend(&other, &keys, "t1"), Err("APPROVAL_SPENT"));
}

#[test]
fn a_spent_approval_names_its_token_and_approver() {
    let (_folder, path) = place();
    let (store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
    let spent: SpentApproval =
        approval(&keys, "t1", 60_000, 5).spend(&store, at(5), Millis::from_secs(1)).unwrap();
    assert_eq!((spent.token_id().as_str(), spent.approver().as_str()), ("t1", "bob"));
    assert_eq!(count(&store, "SELECT keep_until FROM spent"), 61_000);
}

#[test]
fn a_token_is_forgotten_when_its_time_is_over_and_not_before() {
    let (_folder, path) = place();
    let (store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
    spend_at(&store, &keys, "short", 100, 50).unwrap();
    spend_at(&store, &keys, "a", 500, 99).unwrap();
    assert_eq!(count(&store, "SELECT count(*) FROM spent"), 2);
    assert_eq!(count(&store, "SELECT count(*) FROM horizon"), 0);
    spend_at(&store, &keys, "b", 500, 100).unwrap();
    assert_eq!(count(&store, "SELECT count(*) FROM spent"), 2);
    assert_eq!(count(&store, "SELECT at FROM horizon"), 100, "the latest time of what was forgotten");
    spend_at(&store, &keys, "c", 900, 800).unwrap();
    assert_eq!(count(&store, "SELECT at FROM horizon"), 500);
}

#[test]
fn a_clock_stepped_back_after_a_spend_brings_no_token_to_life() {
    let (_folder, path) = place();
    let (store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
    spend_at(&store, &keys, "t1", 100, 50).unwrap();
    spend_at(&store, &keys, "t2", 1_000, 200).unwrap();
    assert_eq!(count(&store, "SELECT count(*) FROM spent"), 1);
    assert_eq!(spend_at(&store, &keys, "t1", 100, 60).unwrap_err().code(), "STORE_CLOCK_AHEAD");
    drop(store);
    let store = SqliteStore::open(&path, at(0)).unwrap();
    assert_eq!(spend_at(&store, &keys, "t1", 100, 60).unwrap_err().code(), "STORE_CLOCK_AHEAD");
    // A token that was never spent is refused as well, because the store cannot distinguish them.
    assert_eq!(spend_at(&store, &keys, "t3", 100, 60).unwrap_err().code(), "STORE_CLOCK_AHEAD");
    assert!(spend_at(&store, &keys, "t4", 101, 60).is_ok());
}

const YEAR: u64 = 365 * 24 * 3_600_000;

#[test]
fn a_spend_a_year_ahead_refuses_no_fresh_token() {
    let (_folder, path) = place();
    let (store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
    spend_at(&store, &keys, "before", 2_000, 1_000).unwrap();
    let ahead = Ticket::new(*approval(&keys, "ahead", 1_000, 500).spent_id(), at(YEAR), at(YEAR + 60_000));
    store.spend(&ahead, at(YEAR)).unwrap();
    // The clock is right again.
    assert_eq!(spend_at(&store, &keys, "fresh", 60_000, 1_500).map_err(|error| error.code()), Ok(()));
    // Tokens that were deleted while the clock was ahead stay spent.
    assert_eq!(spend_at(&store, &keys, "before", 2_000, 1_500).unwrap_err().code(), "STORE_CLOCK_AHEAD");
    assert!(matches!(store.spend(&ahead, at(1_500)), Err(SpendError::Spent)));
}

#[test]
fn a_recreated_store_refuses_older_tokens() {
    let (_folder, path) = place();
    let keys = keys();
    let (first, id) = {
        let store = SqliteStore::open(&path, at(0)).unwrap();
        (spend(&store, &keys, "t1"), store.store_id().unwrap())
    };
    assert_eq!(first, Ok(()));
    for file in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = fs::remove_file(path.with_file_name(file));
    }
    let store = SqliteStore::open(&path, at(900)).unwrap();
    assert_eq!(spend(&store, &keys, "t1"), Err("STORE_TOO_NEW"));
    assert_ne!(store.store_id(), Some(id));
    assert_eq!(count(&store, "SELECT count(*) FROM spent"), 0);
    let ticket = |issued| Ticket::new(*approval(&keys, "t2", 9_000, 1).spent_id(), at(issued), at(9_000));
    assert_eq!(store.spend(&ticket(899), at(1_000)).unwrap_err().code(), "STORE_TOO_NEW");
    assert!(store.spend(&ticket(900), at(1_000)).is_ok());
}

#[test]
fn a_store_keeps_its_id_over_restarts() {
    let (_folder, path) = place();
    let made = SqliteStore::create(&path, at(7)).unwrap();
    let again = SqliteStore::open(&path, at(99)).unwrap();
    assert_eq!(made.store_id(), again.store_id());
    assert_eq!((made.created(), again.created()), (Some(at(7)), Some(at(7))));
    let id = made.store_id().unwrap();
    assert!(id.as_str().len() == 32 && id.as_str().bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
}

#[test]
fn store_made_with_the_clock_ahead_reports_it() {
    let (_folder, path) = place();
    let (store, keys) = (SqliteStore::open(&path, at(YEAR)).unwrap(), keys());
    assert_eq!(spend(&store, &keys, "t1"), Err("STORE_CLOCK_AHEAD"));
}

#[test]
fn ticket_past_its_keep_time_cannot_be_spent() {
    let (_folder, path) = place();
    let (store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
    let approval = approval(&keys, "t1", 100, 50);
    let refused = store.spend(&Ticket::new(*approval.spent_id(), at(0), at(70)), at(70)).unwrap_err();
    assert_eq!(refused.code(), "APPROVAL_SPENT");
    assert!(store.spend(&Ticket::new(*approval.spent_id(), at(0), at(71)), at(70)).is_ok());
}

#[test]
fn a_store_locked_for_too_long_refuses_and_goes_on_afterwards() {
    let (_folder, path) = place();
    let keys = keys();
    let store = SqliteStore::open_with(&path, at(0), Millis::new(50).unwrap()).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(spend(&store, &keys, "t1"), Err("STORE_UNAVAILABLE"));
    assert_eq!(
        SqliteStore::open_with(&path, at(0), Millis::new(50).unwrap()).unwrap_err().code(),
        "STORE_LOCKED"
    );
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(spend(&store, &keys, "t1"), Ok(()));
    assert_eq!(spend(&store, &keys, "t1"), Err("APPROVAL_SPENT"));
}

#[test]
fn a_store_that_other_threads_hold_for_too_long_refuses() {
    let (_folder, path) = place();
    let keys = keys();
    let store = SqliteStore::open_with(&path, at(0), Millis::new(20).unwrap()).unwrap();
    store.on_connection(|_| {
        std::thread::scope(|scope| {
            let other = scope.spawn(|| spend(&store, &keys, "t1"));
            assert_eq!(other.join().unwrap(), Err("STORE_UNAVAILABLE"));
        });
    });
    assert_eq!(spend(&store, &keys, "t1"), Ok(()));
}

#[test]
fn a_lock_that_is_released_in_time_is_waited_for() {
    let (_folder, path) = place();
    let keys = keys();
    let store = SqliteStore::open_with(&path, at(0), Millis::from_secs(60)).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| spend(&store, &keys, "t1"));
        std::thread::sleep(std::time::Duration::from_millis(100));
        other.execute_batch("ROLLBACK").unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
}

#[test]
fn a_full_store_refuses_and_forgets_nothing() {
    let (_folder, path) = place();
    let (store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
    let pages = |most: i64| {
        store.on_connection(|db| {
            db.pragma_update_and_check(None, "max_page_count", most, |row| row.get::<_, i64>(0)).unwrap()
        })
    };
    pages(count(&store, "PRAGMA page_count"));
    let mut spent = 0;
    let refusal = loop {
        match spend(&store, &keys, &format!("t{spent}")) {
            Ok(()) => spent += 1,
            Err(code) => break code,
        }
    };
    assert_eq!(refusal, "STORE_UNAVAILABLE");
    assert!(spent > 10);
    for n in 0..spent {
        assert_eq!(spend(&store, &keys, &format!("t{n}")), Err("APPROVAL_SPENT"));
    }
    assert_eq!(spend(&store, &keys, &format!("t{spent}")), Err("STORE_UNAVAILABLE"));
    pages(1_000);
    assert_eq!(spend(&store, &keys, &format!("t{spent}")), Ok(()));
    assert_eq!(spend(&store, &keys, &format!("t{spent}")), Err("APPROVAL_SPENT"));
}

#[test]
fn unwritable_store_refuses_until_it_is_reopened() {
    let (_folder, path) = place();
    let (store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
    store.on_connection(|db| db.pragma_update(None, "query_only", true).unwrap());
    assert_eq!(spend(&store, &keys, "t1"), Err("STORE_UNAVAILABLE"));
    store.on_connection(|db| db.pragma_update(None, "query_only", false).unwrap());
    assert_eq!(spend(&store, &keys, "t1"), Err("STORE_UNAVAILABLE"));
    drop(store);
    assert_eq!(spend(&SqliteStore::open(&path, at(0)).unwrap(), &keys, "t1"), Ok(()));
}

#[cfg(unix)]
#[test]
fn store_with_a_moved_or_replaced_file_refuses() {
    for put_back in [false, true] {
        let (folder, path) = place();
        let (store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
        assert_eq!(spend(&store, &keys, "t1"), Ok(()));
        let aside = folder.path().join("aside.db");
        fs::rename(&path, &aside).unwrap();
        if put_back {
            fs::copy(&aside, &path).unwrap();
        }
        assert_eq!(spend(&store, &keys, "t2"), Err("STORE_UNAVAILABLE"));
        // It stays closed, even when the file comes back.
        fs::rename(&aside, &path).unwrap();
        assert_eq!(spend(&store, &keys, "t2"), Err("STORE_UNAVAILABLE"));
    }
}

#[test]
fn store_shows_neither_its_path_nor_its_tokens() {
    let (_folder, path) = place();
    let (store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
    spend(&store, &keys, "t1").unwrap();
    let shown = format!("{store:?}");
    assert!(!shown.contains("store.db") && !shown.contains("t1"), "{shown}");
    store.on_connection(|db| db.execute_batch("PRAGMA query_only = 1").unwrap());
    let refusal = spend_at(&store, &keys, "t9", 60_000, 1_000).unwrap_err();
    let source = std::error::Error::source(&refusal).unwrap().to_string();
    let text = format!("{refusal} {source}");
    assert!(!text.contains("t9") && !text.contains('\n') && !text.contains("store.db"), "{text}");
}

#[test]
fn eight_threads_spend_each_token_once() {
    let (_folder, path) = place();
    let store = SqliteStore::open_with(&path, at(0), Millis::from_secs(60)).unwrap();
    let won: Vec<String> = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let keys = keys();
                    let ids = (0..100).map(|n| format!("t{n}"));
                    ids.filter(|id| spend(&store, &keys, id).is_ok()).collect::<Vec<_>>()
                })
            })
            .collect();
        racers.into_iter().flat_map(|racer| racer.join().unwrap()).collect()
    });
    assert_eq!(won.len(), 100);
    assert_eq!(won.into_iter().collect::<BTreeSet<_>>().len(), 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_token_is_spent_twice_however_the_clock_runs(
        steps in proptest::collection::vec((0_usize..8, 0_u64..120, any::<bool>()), 1..40),
    ) {
        let (_folder, path) = place();
        let (mut store, keys) = (SqliteStore::open(&path, at(0)).unwrap(), keys());
        let mut kept = std::collections::BTreeMap::new();
        let (mut spent, mut horizon) = (BTreeSet::new(), None);
        for (token, now, reopen) in steps {
            if reopen {
                drop(store);
                store = SqliteStore::open(&path, at(0)).unwrap();
            }
            let expires = 40 + 10 * token as u64;
            let id = approval(&keys, &token.to_string(), expires, 0);
            let result = store.spend(&Ticket::new(*id.spent_id(), at(0), at(expires)), at(now));
            horizon = horizon.max(kept.values().copied().filter(|until| *until <= now).max());
            kept.retain(|_, until| *until > now);
            let due = !kept.contains_key(&token) && expires > now && Some(expires) > horizon;
            prop_assert_eq!(result.is_ok(), due);
            if due {
                prop_assert!(spent.insert(token), "token {} was spent twice", token);
                kept.insert(token, expires);
            }
        }
    }
}
