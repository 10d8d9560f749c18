use countersign_approval_token::{
    MemoryPendingApprovals, PendingApproval, PendingApprovals, PendingError, PendingState,
};
use proptest::prelude::*;

use super::*;

fn waiting(call: &str, amount: u64, requested: u64, ttl: u64) -> PendingApproval {
    let args = args(&format!("{{\"amount\":{amount}}}"));
    PendingApproval::new(binding(call, &args), &args, at(requested), Millis::new(ttl).unwrap()).unwrap()
}

fn id(call: &str) -> CallId {
    CallId::new(call).unwrap()
}

fn store() -> (tempfile::TempDir, SqliteStore) {
    let (folder, path) = place();
    let store = SqliteStore::open(path).unwrap();
    (folder, store)
}

fn code<T>(result: Result<T, PendingError>) -> &'static str {
    result.err().unwrap().code()
}

#[test]
fn a_question_is_asked_approved_found_and_used_once() {
    let (_folder, store) = store();
    let pending = waiting("c1", 10, 0, 100);
    assert_eq!(store.request(&pending).unwrap(), id("c1"));
    assert_eq!(store.list(at(50)).unwrap(), std::slice::from_ref(&pending));
    assert!(store.find_approved(pending.binding(), at(50)).unwrap().is_none());
    let token = token(&keys(), "t1", 100);
    store.approve(&id("c1"), &token, at(50)).unwrap();
    assert!(store.list(at(50)).unwrap().is_empty());
    // The retry comes under another call id and finds the one that was approved.
    let retry = waiting("c2", 10, 60, 100);
    let (found, left) = store.find_approved(retry.binding(), at(60)).unwrap().unwrap();
    assert_eq!((found, left.as_str()), (id("c1"), token.as_str()));
    store.mark_used(&id("c1")).unwrap();
    assert!(store.find_approved(retry.binding(), at(60)).unwrap().is_none());
    assert_eq!(code(store.mark_used(&id("c1"))), "PENDING_DECIDED");
    assert!(matches!(store.get(&id("c1")).unwrap(), Some((kept, PendingState::Used)) if kept == pending));
    // A used approval opens the way for a new question about the same act.
    assert_eq!(store.request(&retry).unwrap(), id("c2"));
}

#[test]
fn a_question_and_its_answer_outlive_a_restart_and_are_seen_by_other_processes() {
    let (_folder, path) = place();
    let pending = waiting("c1", 10, 0, 100);
    SqliteStore::open(&path).unwrap().request(&pending).unwrap();
    let (gate, approver) = (SqliteStore::open(&path).unwrap(), SqliteStore::open(&path).unwrap());
    assert_eq!(approver.list(at(1)).unwrap(), std::slice::from_ref(&pending));
    approver.approve(&id("c1"), &token(&keys(), "t1", 100), at(1)).unwrap();
    assert!(gate.find_approved(pending.binding(), at(1)).unwrap().is_some());
}

#[test]
fn retries_of_one_act_do_not_pile_up() {
    let (_folder, store) = store();
    for n in 0..50 {
        assert_eq!(store.request(&waiting(&format!("c{n}"), 10, n, 100)).unwrap(), id("c0"));
    }
    assert_eq!(store.list(at(50)).unwrap().len(), 1);
    assert_eq!(store.request(&waiting("other", 11, 50, 100)).unwrap(), id("other"));
    assert_eq!(store.request(&waiting("later", 10, 100, 100)).unwrap(), id("later"));
}

#[test]
fn two_calls_under_one_id_are_a_conflict() {
    let (_folder, store) = store();
    store.request(&waiting("c1", 10, 0, 100)).unwrap();
    assert_eq!(code(store.request(&waiting("c1", 11, 0, 100))), "PENDING_CONFLICT");
    assert_eq!(store.get(&id("c1")).unwrap().unwrap().0, waiting("c1", 10, 0, 100));
}

#[test]
fn to_deny_one_of_several_leaves_the_others() {
    let (_folder, store) = store();
    for n in 0..3 {
        store.request(&waiting(&format!("c{n}"), n, 0, 100)).unwrap();
    }
    store.deny(&id("c1")).unwrap();
    let left: Vec<_> = store.list(at(1)).unwrap().iter().map(|pending| pending.id().clone()).collect();
    assert_eq!(left, [id("c0"), id("c2")]);
    assert_eq!(code(store.deny(&id("c1"))), "PENDING_DECIDED");
    assert_eq!(code(store.approve(&id("c1"), &token(&keys(), "t", 100), at(1))), "PENDING_DECIDED");
    assert_eq!(code(store.deny(&id("none"))), "PENDING_UNKNOWN");
}

#[test]
fn an_approval_that_is_taken_back_is_not_found_and_its_token_is_gone() {
    let (_folder, store) = store();
    let pending = waiting("c1", 10, 0, 100);
    store.request(&pending).unwrap();
    store.approve(&id("c1"), &token(&keys(), "t", 100), at(1)).unwrap();
    store.deny(&id("c1")).unwrap();
    assert!(store.find_approved(pending.binding(), at(1)).unwrap().is_none());
    assert_eq!(count(&store, "SELECT count(*) FROM pending WHERE token IS NOT NULL"), 0);
}

#[test]
fn an_expired_question_is_neither_listed_nor_approved() {
    let (_folder, store) = store();
    let pending = waiting("c1", 10, 0, 100);
    store.request(&pending).unwrap();
    assert_eq!(store.list(at(99)).unwrap().len(), 1);
    assert!(store.list(at(100)).unwrap().is_empty());
    assert_eq!(code(store.approve(&id("c1"), &token(&keys(), "t", 100), at(100))), "PENDING_EXPIRED");
    store.approve(&id("c1"), &token(&keys(), "t", 100), at(99)).unwrap();
    assert!(store.find_approved(pending.binding(), at(100)).unwrap().is_none());
}

#[test]
fn the_1_025th_open_question_is_refused_and_closed_ones_are_forgotten() {
    let (_folder, store) = store();
    let ask = |n: u64| store.request(&waiting(&format!("c{n}"), n, 0, 100));
    (0..1_024).for_each(|n| drop(ask(n).unwrap()));
    assert_eq!(code(ask(1_024)), "PENDING_FULL");
    assert_eq!(ask(7).unwrap(), id("c7"));
    (0..600).for_each(|n| store.deny(&id(&format!("c{n}"))).unwrap());
    ask(2_000).unwrap();
    assert_eq!(count(&store, "SELECT count(*) FROM pending"), 256 + 424 + 1);
    assert!(store.get(&id("c343")).unwrap().is_none());
    assert!(store.get(&id("c344")).unwrap().is_some());
    assert_eq!(store.list(at(1)).unwrap().len(), 425);
}

#[test]
fn a_row_that_was_tampered_with_is_never_shown_as_a_question() {
    for change in [
        "UPDATE pending SET request = replace(request, 'amount\\\":10', 'amount\\\":99')",
        "UPDATE pending SET request = replace(request, '\"alice\"', '\"\"')",
        "UPDATE pending SET request = '{}'",
        "UPDATE pending SET call_id = 'c9'",
        "UPDATE pending SET state = 'approved', token = 'cs1.x.y'",
    ] {
        let (_folder, store) = store();
        store.request(&waiting("c1", 10, 0, 100)).unwrap();
        let changed = store.on_connection(|db| db.execute(change, []).unwrap());
        let before = count(
            &store,
            "SELECT count(*) FROM pending WHERE instr(request, '99') OR instr(request, '\"\"') OR request = '{}' OR call_id = 'c9' OR token IS NOT NULL",
        );
        assert_eq!((changed, before), (1, 1), "{change}");
        let shown = store.get(&id("c1")).and_then(|found| match found {
            Some(_) => Ok(()),
            None => store.get(&id("c9")).map(|_| ()),
        });
        assert_eq!(code(shown), "STORE_UNAVAILABLE", "{change}");
        assert_eq!(code(store.list(at(1))), "STORE_UNAVAILABLE", "{change}");
    }
}

#[test]
fn a_locked_store_answers_no_question() {
    let (_folder, path) = place();
    let store = SqliteStore::open_with(&path, Millis::new(20).unwrap()).unwrap();
    store.request(&waiting("c1", 10, 0, 100)).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(code(store.request(&waiting("c2", 11, 0, 100))), "STORE_UNAVAILABLE");
    assert_eq!(code(store.approve(&id("c1"), &token(&keys(), "t", 100), at(1))), "STORE_UNAVAILABLE");
    assert_eq!(code(store.deny(&id("c1"))), "STORE_UNAVAILABLE");
    assert_eq!(code(store.mark_used(&id("c1"))), "STORE_UNAVAILABLE");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.list(at(1)).unwrap().len(), 1);
}

#[derive(Clone, Debug)]
enum Step {
    Request { call: u8, amount: u64, now: u64, ttl: u64 },
    Approve { call: u8, now: u64 },
    Deny { call: u8 },
    Used { call: u8 },
    Find { amount: u64, now: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (call, amount, now) = (0_u8..6, 0_u64..4, 0_u64..60);
    prop_oneof![
        3 => (call.clone(), amount.clone(), now.clone(), 1_u64..40)
            .prop_map(|(call, amount, now, ttl)| Step::Request { call, amount, now, ttl }),
        2 => (call.clone(), now.clone()).prop_map(|(call, now)| Step::Approve { call, now }),
        1 => call.clone().prop_map(|call| Step::Deny { call }),
        1 => call.prop_map(|call| Step::Used { call }),
        2 => (amount, now).prop_map(|(amount, now)| Step::Find { amount, now }),
    ]
}

/// Takes a step and says what came of it and what the store then shows.
fn take(store: &dyn PendingApprovals, token: &ApprovalToken, step: &Step) -> String {
    let name = |call: u8| id(&format!("c{call}"));
    let done = match step {
        Step::Request { call, amount, now, ttl } => {
            let pending = waiting(name(*call).as_str(), *amount, *now, *ttl);
            store.request(&pending).map(|id| id.to_string())
        }
        Step::Approve { call, now } => store.approve(&name(*call), token, at(*now)).map(|()| String::new()),
        Step::Deny { call } => store.deny(&name(*call)).map(|()| String::new()),
        Step::Used { call } => store.mark_used(&name(*call)).map(|()| String::new()),
        Step::Find { amount, now } => {
            let found = store.find_approved(waiting("any", *amount, 0, 1).binding(), at(*now));
            found.map(|found| format!("{:?}", found.map(|(id, token)| (id, token.as_str().to_owned()))))
        }
    };
    let kept: Vec<_> = (0..6).map(|call| store.get(&name(call)).unwrap()).collect();
    let listed = [0, 20, 40].map(|now| store.list(at(now)).unwrap());
    format!("{:?} {kept:?} {listed:?}", done.map_err(|error| error.code()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_file_answers_every_question_as_the_memory_does(steps in proptest::collection::vec(step(), 1..40)) {
        let (_folder, store) = store();
        let (memory, token) = (MemoryPendingApprovals::new(), token(&keys(), "t", 100));
        for step in steps {
            prop_assert_eq!(take(&store, &token, &step), take(&memory, &token, &step), "{:?}", step);
        }
    }
}
