use countersign_approval_token::{
    AttestedProposal, DenialReason, MemoryPendingApprovals, PendingApproval, PendingApprovals, PendingDenial,
    PendingError, PendingState, ProposalSummary, SessionKind, WantedEvidence,
};
use countersign_core::{Approvers, EvidenceGap, ImpactClass};
use proptest::option;
use proptest::prelude::*;

use super::*;

fn waiting(call: &str, amount: u64, requested: u64, ttl: u64) -> PendingApproval {
    let args = args(&format!("{{\"amount\":{amount}}}"));
    PendingApproval::new(binding(call, &args), &args, at(requested), Millis::new(ttl).unwrap()).unwrap()
}

fn in_session(call: &str, amount: u64, session: &str, requested: u64, ttl: u64) -> PendingApproval {
    let args = args(&format!("{{\"amount\":{amount}}}"));
    let binding = binding(call, &args).session(SessionId::new(session).unwrap());
    PendingApproval::new(binding, &args, at(requested), Millis::new(ttl).unwrap()).unwrap()
}

fn id(call: &str) -> CallId {
    CallId::new(call).unwrap()
}

fn olga() -> OperatorId {
    OperatorId::new("olga").unwrap()
}

fn store() -> (tempfile::TempDir, SqliteStore) {
    let (folder, path) = place();
    let store = SqliteStore::open(path, at(0)).unwrap();
    (folder, store)
}

fn open_at(path: &std::path::Path) -> SqliteStore {
    SqliteStore::open(path, at(0)).unwrap()
}

/// Returns the id of the denied question and the operator who denied it.
fn who(denial: PendingDenial) -> (CallId, OperatorId) {
    (denial.id, denial.by)
}

fn code<T>(result: Result<T, PendingError>) -> &'static str {
    result.err().unwrap().code()
}

#[test]
fn question_keeps_its_proposal_summary() {
    let (_folder, store) = store();
    let summary = ProposalSummary::new("strict", "pay").refused("PIC_EVIDENCE_REQUIRED").claim("due", ["a"]);
    let pending = waiting("c1", 10, 0, 100).summary(summary.clone());
    store.request(&pending).unwrap();
    let (kept, _) = store.get(&id("c1")).unwrap().unwrap();
    assert_eq!(kept.proposal(), Some(&summary));
    assert_eq!(store.list(at(50)).unwrap(), [pending]);
    // The same act with another proposal is the same question.
    let again = waiting("c2", 10, 10, 100).summary(ProposalSummary::new("strict", "other"));
    assert_eq!(store.request(&again).unwrap(), id("c1"));
    assert_eq!(store.get(&id("c1")).unwrap().unwrap().0.proposal(), Some(&summary));
}

#[test]
fn withdrawn_question_was_never_asked() {
    let (_folder, store) = store();
    for store in [&store as &dyn PendingApprovals, &MemoryPendingApprovals::new()] {
        let pending = waiting("c1", 10, 0, 100);
        assert_eq!(code(store.withdraw(&id("c1"))), "PENDING_UNKNOWN");
        store.request(&pending).unwrap();
        store.withdraw(&id("c1")).unwrap();
        assert!(store.list(at(50)).unwrap().is_empty());
        assert_eq!(store.request(&pending).unwrap(), id("c1"), "it may be asked again");
        store.approve(&id("c1"), &token(&keys(), "t1", 100), at(50)).unwrap();
        assert_eq!(code(store.withdraw(&id("c1"))), "PENDING_DECIDED");
    }
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
    // The retry has another call id and finds the approved question.
    let retry = waiting("c2", 10, 60, 100);
    let (found, left) = store.find_approved(retry.binding(), at(60)).unwrap().unwrap();
    assert_eq!((found, left.as_str()), (id("c1"), token.as_str()));
    store.mark_used(&id("c1")).unwrap();
    assert!(store.find_approved(retry.binding(), at(60)).unwrap().is_none());
    assert_eq!(code(store.mark_used(&id("c1"))), "PENDING_DECIDED");
    assert!(matches!(store.get(&id("c1")).unwrap(), Some((kept, PendingState::Used)) if kept == pending));
    // A used approval allows a new question about the same act.
    assert_eq!(store.request(&retry).unwrap(), id("c2"));
}

#[test]
fn question_is_approved_through_a_later_connection() {
    let (_folder, path) = place();
    let pending = waiting("c1", 10, 0, 100);
    SqliteStore::open(&path, at(0)).unwrap().request(&pending).unwrap();
    let (gate, approver) =
        (SqliteStore::open(&path, at(0)).unwrap(), SqliteStore::open(&path, at(0)).unwrap());
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
fn ids_are_found_by_prefix_and_those_that_wait_come_first() {
    let (_folder, store) = store();
    for (n, call) in (0..).zip(["call-b", "call-a", "call_a", "other", "ca%", "\u{e9}t\u{e9}"]) {
        store.request(&waiting(call, n, 0, 100)).unwrap();
    }
    store.deny(&id("call-b"), &olga()).unwrap();
    let found = |letters: &str, now| store.ids_beginning_with(letters, at(now)).unwrap();
    assert_eq!(found("call", 1), (vec![id("call-a"), id("call_a")], vec![id("call-b")]));
    assert_eq!(found("ca%", 1), (vec![id("ca%")], vec![]));
    assert_eq!(found("\u{e9}t", 1), (vec![id("\u{e9}t\u{e9}")], vec![]));
    assert_eq!(found("other", 100), (vec![], vec![id("other")]));
    assert_eq!(found("CALL", 1), (vec![], vec![]));
}

#[test]
fn to_deny_one_of_several_leaves_the_others() {
    let (_folder, store) = store();
    for n in 0..3 {
        store.request(&waiting(&format!("c{n}"), n, 0, 100)).unwrap();
    }
    store.deny(&id("c1"), &olga()).unwrap();
    let left: Vec<_> = store.list(at(1)).unwrap().iter().map(|pending| pending.id().clone()).collect();
    assert_eq!(left, [id("c0"), id("c2")]);
    assert_eq!(code(store.deny(&id("c1"), &olga())), "PENDING_DECIDED");
    assert_eq!(code(store.approve(&id("c1"), &token(&keys(), "t", 100), at(1))), "PENDING_DECIDED");
    assert_eq!(code(store.deny(&id("none"), &olga())), "PENDING_UNKNOWN");
}

#[test]
fn denial_after_an_approval_deletes_the_token() {
    let (_folder, store) = store();
    let pending = waiting("c1", 10, 0, 100);
    store.request(&pending).unwrap();
    store.approve(&id("c1"), &token(&keys(), "t", 100), at(1)).unwrap();
    store.deny(&id("c1"), &olga()).unwrap();
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
    // A token with a longer lifetime does not revive it.
    assert_eq!(code(store.approve(&id("c1"), &token(&keys(), "t", 200), at(100))), "PENDING_EXPIRED");
    assert!(store.find_approved(pending.binding(), at(100)).unwrap().is_none());
}

#[test]
fn an_approval_at_the_last_moment_lasts_until_its_token_expires() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path, at(0)).unwrap();
    store.request(&waiting("c1", 10, 0, 100)).unwrap();
    store.approve(&id("c1"), &token(&keys(), "t1", 200), at(99)).unwrap();
    drop(store);
    let store = SqliteStore::open(&path, at(0)).unwrap();
    let act = waiting("retry", 10, 0, 100);
    assert!(store.find_approved(act.binding(), at(100)).unwrap().is_some());
    assert!(store.find_approved(act.binding(), at(199)).unwrap().is_some());
    assert_eq!(store.request(&waiting("c2", 10, 199, 100)).unwrap(), id("c1"));
    assert!(store.find_approved(act.binding(), at(200)).unwrap().is_none());
    assert_eq!(store.request(&waiting("c2", 10, 200, 100)).unwrap(), id("c2"));
}

#[test]
fn store_keeps_1024_open_and_256_closed_questions() {
    let (_folder, store) = store();
    let ask = |n: u64| store.request(&in_session(&format!("c{n}"), n, &format!("s{}", n / 64), 0, 100));
    (0..1_024).for_each(|n| drop(ask(n).unwrap()));
    assert_eq!(code(ask(1_024)), "PENDING_FULL");
    assert_eq!(ask(7).unwrap(), id("c7"));
    (0..600).for_each(|n| store.deny(&id(&format!("c{n}")), &olga()).unwrap());
    ask(2_000).unwrap();
    assert_eq!(count(&store, "SELECT count(*) FROM pending"), 256 + 424 + 1);
    assert!(store.get(&id("c343")).unwrap().is_none());
    assert!(store.get(&id("c344")).unwrap().is_some());
    assert_eq!(store.list(at(1)).unwrap().len(), 425);
}

#[test]
fn one_session_fills_its_share_and_leaves_the_others_theirs() {
    let (_folder, store) = store();
    let ask = |n: u64, session: &str, now| store.request(&in_session(&format!("c{n}"), n, session, now, 100));
    (0..64).for_each(|n| drop(ask(n, "eve", 0).unwrap()));
    assert_eq!(code(ask(64, "eve", 0)), "PENDING_FULL");
    assert_eq!(ask(7, "eve", 0).unwrap(), id("c7"));
    assert!(ask(100, "ada", 0).is_ok());
    store.approve(&id("c0"), &token(&keys(), "t", 100), at(0)).unwrap();
    assert!(ask(101, "eve", 0).is_ok());
    assert_eq!(code(ask(102, "eve", 0)), "PENDING_FULL");
    // A denied question keeps its slot for as long as the denial counts.
    store.deny(&id("c1"), &olga()).unwrap();
    assert_eq!(code(ask(102, "eve", 0)), "PENDING_FULL");
    assert!(ask(103, "eve", 100).is_ok());
}

#[test]
fn denial_holds_for_every_connection_until_session_end() {
    let (_folder, path) = place();
    let ask = |store: &SqliteStore, call: &str, now| {
        store.request(&waiting(call, 10, now, 100).session_end(at(500)))
    };
    let act = waiting("any", 10, 0, 1);
    let (gate, approver) =
        (SqliteStore::open(&path, at(0)).unwrap(), SqliteStore::open(&path, at(0)).unwrap());
    ask(&gate, "c1", 0).unwrap();
    assert_eq!(gate.find_denied(act.binding(), at(0)).unwrap().map(who), None);
    approver.deny(&id("c1"), &olga()).unwrap();
    drop(approver);
    let later = SqliteStore::open(&path, at(0)).unwrap();
    for store in [&gate, &later] {
        assert_eq!(store.find_denied(act.binding(), at(499)).unwrap().map(who), Some((id("c1"), olga())));
        assert_eq!(code(ask(store, "c2", 499)), "PENDING_DENIED");
        assert_eq!(store.find_denied(act.binding(), at(500)).unwrap().map(who), None);
    }
    assert_eq!(ask(&gate, "c2", 500).unwrap(), id("c2"));
    assert_eq!(count(&gate, "SELECT count(*) FROM denied"), 0);
}

#[test]
fn denial_wins_over_a_concurrent_approval() {
    let (_folder, path) = place();
    let open = || SqliteStore::open_with(&path, at(0), Millis::from_secs(60)).unwrap();
    let (gate, yes, no) = (open(), open(), open());
    for round in 0..40 {
        let pending = waiting(&format!("c{round}"), round, 0, 100).session_end(at(500));
        let (asked, token) = (gate.request(&pending).unwrap(), token(&keys(), "t", 100));
        std::thread::scope(|scope| {
            let approved = scope.spawn(|| yes.approve(&asked, &token, at(1)).map_err(|error| error.code()));
            no.deny(&asked, &olga()).unwrap();
            assert!(matches!(approved.join().unwrap(), Ok(()) | Err("PENDING_DECIDED")));
        });
        assert!(gate.find_approved(pending.binding(), at(1)).unwrap().is_none());
        assert_eq!(gate.find_denied(pending.binding(), at(1)).unwrap().map(who), Some((asked, olga())));
        assert_eq!(code(gate.request(&pending)), "PENDING_DENIED");
    }
    assert_eq!(count(&gate, "SELECT count(*) FROM pending WHERE token IS NOT NULL"), 0);
}

#[test]
fn tampered_denial_is_an_error() {
    for change in ["UPDATE denied SET denier = ''", "UPDATE denied SET call_id = 'a b\u{7}'"] {
        let (_folder, store) = store();
        let pending = waiting("c1", 10, 0, 100);
        store.request(&pending).unwrap();
        store.deny(&id("c1"), &olga()).unwrap();
        assert_eq!(store.on_connection(|db| db.execute(change, []).unwrap()), 1);
        assert_eq!(code(store.find_denied(pending.binding(), at(1))), "STORE_UNAVAILABLE", "{change}");
    }
}

#[test]
fn questions_without_a_session_count_under_their_principal() {
    let (_folder, store) = store();
    (0..64).for_each(|n| drop(store.request(&waiting(&format!("c{n}"), n, 0, 100)).unwrap()));
    assert_eq!(code(store.request(&waiting("c64", 64, 0, 100))), "PENDING_FULL");
    // A session with the principal's name is another asker.
    assert!(store.request(&in_session("c65", 65, "alice", 0, 100)).is_ok());
}

#[test]
fn concurrent_connections_use_one_session_share() {
    let (_folder, path) = place();
    let asked: usize = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..4)
            .map(|racer| {
                let store = SqliteStore::open_with(&path, at(0), Millis::from_secs(60)).unwrap();
                scope.spawn(move || {
                    let ask = |n: &u64| {
                        let n = racer * 100 + n;
                        store.request(&in_session(&format!("c{n}"), n, "eve", 0, 100)).is_ok()
                    };
                    (0..30).filter(ask).count()
                })
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    assert_eq!(asked, 64);
}

#[test]
fn argument_bytes_are_bounded_per_session() {
    let (_folder, store) = store();
    let big = args(&format!("\"{}\"", "x".repeat(1_000_000)));
    let ask = |n: u64, session: &str| {
        let call = binding(&format!("c{n}"), &big).registry_version(n);
        let call = call.session(SessionId::new(session).unwrap());
        store.request(&PendingApproval::new(call, &big, at(0), Millis::new(100).unwrap()).unwrap())
    };
    assert_eq!((0..10).filter(|n| ask(*n, "eve").is_ok()).count(), 4);
    assert!(ask(20, "ada").is_ok());
    store.deny(&id("c0"), &olga()).unwrap();
    assert!(ask(21, "eve").is_ok());
}

#[test]
fn expired_approval_frees_the_act_for_a_new_question() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path, at(0)).unwrap();
    store.request(&waiting("c1", 10, 0, 600)).unwrap();
    store.approve(&id("c1"), &token(&keys(), "t1", 100), at(1)).unwrap();
    // A reopened store returns the same answer.
    drop(store);
    let store = SqliteStore::open(&path, at(0)).unwrap();
    let act = waiting("retry", 10, 0, 600);
    assert!(store.find_approved(act.binding(), at(99)).unwrap().is_some());
    assert_eq!(store.request(&waiting("c2", 10, 99, 600)).unwrap(), id("c1"));
    assert!(store.find_approved(act.binding(), at(100)).unwrap().is_none());
    assert_eq!(code(store.request(&waiting("c1", 10, 100, 600))), "PENDING_CONFLICT");
    assert_eq!(store.request(&waiting("c2", 10, 100, 600)).unwrap(), id("c2"));
    assert_eq!(code(store.approve(&id("c1"), &token(&keys(), "t2", 200), at(100))), "PENDING_DECIDED");
    store.approve(&id("c2"), &token(&keys(), "t2", 200), at(100)).unwrap();
    assert_eq!(store.find_approved(act.binding(), at(100)).unwrap().unwrap().0, id("c2"));
    store.mark_used(&id("c1")).unwrap();
}

#[test]
fn token_expired_or_without_expiry_is_refused() {
    let (_folder, store) = store();
    store.request(&waiting("c1", 10, 0, 600)).unwrap();
    assert_eq!(code(store.approve(&id("c1"), &token(&keys(), "t", 100), at(100))), "PENDING_EXPIRED");
    let silent: ApprovalToken = format!("cs1.e30.{}", "A".repeat(43)).parse().unwrap();
    assert_eq!(code(store.approve(&id("c1"), &silent, at(1))), "PENDING_TOKEN");
    assert_eq!(store.list(at(1)).unwrap().len(), 1);
    store.approve(&id("c1"), &token(&keys(), "t", 100), at(99)).unwrap();
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
    let store = SqliteStore::open_with(&path, at(0), Millis::new(20).unwrap()).unwrap();
    store.request(&waiting("c1", 10, 0, 100)).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(code(store.request(&waiting("c2", 11, 0, 100))), "STORE_UNAVAILABLE");
    assert_eq!(code(store.approve(&id("c1"), &token(&keys(), "t", 100), at(1))), "STORE_UNAVAILABLE");
    assert_eq!(code(store.deny(&id("c1"), &olga())), "STORE_UNAVAILABLE");
    assert_eq!(code(store.mark_used(&id("c1"))), "STORE_UNAVAILABLE");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store.list(at(1)).unwrap().len(), 1);
}

#[test]
fn an_ended_session_is_ended_in_every_process() {
    let (_folder, path) = place();
    let (gate, approver) = (open_at(&path), open_at(&path));
    let asked = in_session("c1", 10, "s1", 0, 60_000);
    gate.note_alive(&session_1(), SessionKind::Single, at(0)).unwrap();
    gate.request(&asked).unwrap();
    assert_eq!(approver.list(at(14_999)).unwrap().len(), 1);
    assert!(approver.list(at(15_000)).unwrap().is_empty());
    assert_eq!(approver.ids_beginning_with("c1", at(15_000)).unwrap(), (vec![], vec![id("c1")]));
    gate.end_session(&session_1()).unwrap();
    gate.note_alive(&session_1(), SessionKind::Single, at(1)).unwrap();
    assert_eq!(approver.list_ended(at(1)).unwrap(), std::slice::from_ref(&asked));
    assert_eq!(code(approver.approve(&id("c1"), &token(&keys(), "t", 100), at(1))), "SESSION_ENDED");
    assert!(approver.has_session_ended(&asked, at(1)).unwrap());
}

#[test]
fn an_ended_session_is_forgotten_with_its_last_question() {
    let (_folder, store) = store();
    let session = |n: u64| SessionId::new(&format!("x{n}")).unwrap();
    for n in 0..50 {
        store.note_alive(&session(n), SessionKind::Single, at(n)).unwrap();
        store.end_session(&session(n)).unwrap();
    }
    assert_eq!(count(&store, "SELECT count(*) FROM session"), 1);
}

#[test]
fn a_reason_is_kept_for_as_long_as_its_denial() {
    let (_folder, store) = store();
    let reason = DenialReason::new("not \u{202e}before Monday").unwrap();
    store.request(&waiting("c1", 10, 0, 100)).unwrap();
    store.deny_because(&id("c1"), &olga(), Some(&reason)).unwrap();
    let act = waiting("any", 10, 0, 1);
    let denial = store.find_denied(act.binding(), at(1)).unwrap().unwrap();
    assert_eq!((denial.id, denial.by, denial.reason), (id("c1"), olga(), Some(reason)));
    store.request(&waiting("c2", 10, 100, 100)).unwrap();
    assert_eq!(count(&store, "SELECT count(*) FROM reason"), 0);
    store.deny(&id("c2"), &olga()).unwrap();
    assert_eq!(store.find_denied(act.binding(), at(101)).unwrap().unwrap().reason, None);
}

/// A question that needs both answers.
fn needs_both(store: &SqliteStore) {
    store.request(&wanting(waiting("c1", 10, 0, 100), true, 1)).unwrap();
}

fn waits(store: &SqliteStore, now: u64) -> bool {
    !store.list(at(now)).unwrap().is_empty()
}

#[test]
fn question_with_two_answers_waits_for_both() {
    for approval_first in [true, false] {
        let (_folder, store) = store();
        needs_both(&store);
        let keys = keys();
        let approve = || store.approve(&id("c1"), &token(&keys, "t1", 90), at(1)).unwrap();
        let attest = || store.attest(&id("c1"), &attested(80), at(1)).unwrap();
        if approval_first {
            approve()
        } else {
            attest()
        }
        assert!(waits(&store, 2));
        if approval_first {
            attest()
        } else {
            approve()
        }
        assert!(!waits(&store, 2));
        let act = waiting("any", 10, 0, 1);
        let (of_token, _) = store.find_approved(act.binding(), at(2)).unwrap().unwrap();
        let (of_attestation, _) = store.find_attested(act.binding(), at(2)).unwrap().unwrap();
        assert_eq!((of_token, of_attestation), (id("c1"), id("c1")));
        assert_eq!(store.find_attested(act.binding(), at(80)).unwrap(), None);
        store.mark_used(&id("c1")).unwrap();
        assert_eq!(store.find_attested(act.binding(), at(2)).unwrap(), None);
    }
}

#[test]
fn answer_of_another_kind_is_refused() {
    let (_folder, store) = store();
    store.request(&waiting("c1", 10, 0, 100)).unwrap();
    store.request(&wanting(waiting("c2", 11, 0, 100), false, 1)).unwrap();
    assert_eq!(code(store.attest(&id("c1"), &attested(80), at(1))), "PENDING_KIND");
    assert_eq!(code(store.approve(&id("c2"), &token(&keys(), "t1", 90), at(1))), "PENDING_KIND");
    store.attest(&id("c2"), &attested(80), at(1)).unwrap();
    assert_eq!(code(store.attest(&id("c2"), &attested(81), at(1))), "PENDING_DECIDED");
}

#[test]
fn attested_question_keeps_its_proposal() {
    let (_folder, store) = store();
    needs_both(&store);
    let size = || store.get(&id("c1")).unwrap().unwrap().0.size();
    let first = size();
    store.request(&wanting(waiting("c2", 10, 1, 100), true, 2)).unwrap();
    assert!(size() > first, "the newest proposal is the one to attest to");
    store.attest(&id("c1"), &attested(80), at(1)).unwrap();
    let second = size();
    store.request(&wanting(waiting("c3", 10, 2, 100), true, 3)).unwrap();
    assert_eq!(size(), second);
}

#[test]
fn question_of_an_ended_session_is_not_attested() {
    let (_folder, store) = store();
    store.note_alive(&session_1(), SessionKind::Single, at(0)).unwrap();
    store.request(&wanting(in_session("c1", 10, "s1", 0, 100), false, 1)).unwrap();
    store.end_session(&session_1()).unwrap();
    assert_eq!(code(store.attest(&id("c1"), &attested(80), at(1))), "SESSION_ENDED");
}

#[test]
fn denial_removes_an_attestation() {
    let (_folder, store) = store();
    needs_both(&store);
    store.attest(&id("c1"), &attested(80), at(1)).unwrap();
    store.deny(&id("c1"), &olga()).unwrap();
    assert_eq!(store.attestation(&id("c1")).unwrap(), None);
    assert_eq!(code(store.attest(&id("c1"), &attested(80), at(1))), "PENDING_DECIDED");
}

#[test]
fn proposals_count_among_the_bytes_of_a_session() {
    let (_folder, store) = store();
    let mut asked = 0_u64;
    while store.request(&wanting(waiting(&format!("c{asked}"), asked, 0, 100), false, 64)).is_ok() {
        asked += 1;
    }
    assert_eq!(asked, 64, "a proposal over its limit is left out");
    let (_folder, store) = self::store();
    let big = |n: u64| wanting(waiting(&format!("c{n}"), n, 0, 100), false, 63);
    assert!((0..64).all(|n| store.request(&big(n)).is_ok()));
    assert_eq!(code(store.request(&big(64))), "PENDING_FULL");
}

#[test]
fn question_waits_until_enough_persons_approved() {
    let (_folder, store) = store();
    let memory = MemoryPendingApprovals::new();
    for store in [&store as &dyn PendingApprovals, &memory] {
        let pending = waiting("c1", 10, 0, 100).approved_by_several(approvers(2));
        store.request(&pending).unwrap();
        let by = |name: &str, id: &str| token_by(&keys(), name, id, 200);
        let given = || {
            store.approvals(&id("c1")).unwrap().iter().map(|it| it.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(code(store.approve(&id("c1"), &by("dora", "t0"), at(10))), "PENDING_APPROVER");
        assert_eq!(code(store.approve(&id("c1"), &by("Ada", "t0"), at(10))), "PENDING_APPROVER");
        store.approve(&id("c1"), &by("ada", "t1"), at(10)).unwrap();
        assert_eq!(code(store.approve(&id("c1"), &by("ada", "t2"), at(11))), "PENDING_SAME_APPROVER");
        assert_eq!(store.list(at(50)).unwrap(), std::slice::from_ref(&pending), "it still waits");
        assert!(store.find_approved(pending.binding(), at(50)).unwrap().is_none());
        assert_eq!(given(), [by("ada", "t1").as_str()]);
        store.approve(&id("c1"), &by("cy", "t3"), at(60)).unwrap();
        assert!(store.list(at(60)).unwrap().is_empty());
        assert!(store.find_approved(pending.binding(), at(60)).unwrap().is_some());
        assert_eq!(given(), [by("ada", "t1").as_str(), by("cy", "t3").as_str()]);
        assert_eq!(code(store.approve(&id("c1"), &by("bob", "t4"), at(61))), "PENDING_DECIDED");
        store.mark_used(&id("c1")).unwrap();
        assert!(given().is_empty());
    }
}

#[test]
fn one_denial_denies_a_half_approved_question() {
    let (_folder, store) = store();
    for store in [&store as &dyn PendingApprovals, &MemoryPendingApprovals::new()] {
        let pending = waiting("c1", 10, 0, 100).approved_by_several(approvers(2));
        store.request(&pending).unwrap();
        store.approve(&id("c1"), &token_by(&keys(), "ada", "t1", 200), at(10)).unwrap();
        store.deny(&id("c1"), &olga()).unwrap();
        assert!(store.approvals(&id("c1")).unwrap().is_empty());
        let late = token_by(&keys(), "bob", "t2", 200);
        assert_eq!(code(store.approve(&id("c1"), &late, at(11))), "PENDING_DECIDED");
    }
}

#[test]
fn expired_approval_is_given_again() {
    let (_folder, store) = store();
    for store in [&store as &dyn PendingApprovals, &MemoryPendingApprovals::new()] {
        store.request(&waiting("c1", 10, 0, 100).approved_by_several(approvers(2))).unwrap();
        let ada = |id: &str, expires| token_by(&keys(), "ada", id, expires);
        store.approve(&id("c1"), &ada("t1", 20), at(10)).unwrap();
        store.approve(&id("c1"), &token_by(&keys(), "bob", "t2", 200), at(20)).unwrap();
        assert_eq!(store.approvals(&id("c1")).unwrap().len(), 1, "ada's no longer counts");
        store.approve(&id("c1"), &ada("t3", 90), at(30)).unwrap();
        let found = store.find_approved(waiting("x", 10, 0, 100).binding(), at(89)).unwrap();
        assert!(found.is_some());
        assert!(
            store.find_approved(waiting("x", 10, 0, 100).binding(), at(90)).unwrap().is_none(),
            "the first expiry"
        );
    }
}

#[test]
fn processes_that_answer_at_once_complete_a_question_once() {
    let (_folder, path) = place();
    open_at(&path).request(&waiting("c1", 10, 0, 100).approved_by_several(approvers(2))).unwrap();
    let results: Vec<_> = std::thread::scope(|scope| {
        let start = |at_store: usize| {
            let (path, by) = (&path, ["ada", "bob", "cy"][at_store % 3]);
            scope.spawn(move || {
                let token = token_by(&keys(), by, &format!("t{at_store}"), 200);
                open_at(path).approve(&id("c1"), &token, at(10)).map_err(|error| error.code())
            })
        };
        let started: Vec<_> = (0..9).map(start).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 2, "{results:?}");
    let others = results.iter().filter_map(|result| result.err());
    assert!(
        others.clone().all(|code| ["PENDING_SAME_APPROVER", "PENDING_DECIDED"].contains(&code)),
        "{results:?}"
    );
    let tokens = open_at(&path).approvals(&id("c1")).unwrap();
    let by: std::collections::BTreeSet<_> =
        tokens.iter().filter_map(|token| token.claimed_approver()).collect();
    assert_eq!((tokens.len(), by.len()), (2, 2));
}

#[derive(Clone, Debug)]
enum Step {
    Request {
        call: u8,
        amount: u64,
        alone: bool,
        now: u64,
        ttl: u64,
        ends: Option<u64>,
        wants: Option<(bool, u8)>,
    },
    Attest {
        call: u8,
        now: u64,
        expires: u64,
    },
    Drop {
        call: u8,
    },
    Approve {
        call: u8,
        by: u8,
        now: u64,
        expires: u64,
    },
    Deny {
        call: u8,
        reason: bool,
    },
    Alive {
        named: bool,
        now: u64,
    },
    End,
    Used {
        call: u8,
    },
    Find {
        amount: u64,
        now: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    // Tokens outlive their questions and the other way round.
    let (call, amount, now) = (0_u8..6, 0_u64..4, 0_u64..100);
    // Some signs of life are so early that the session counts as silent for too long.
    let long = prop_oneof![now.clone(), Just(0), Just(20_000)];
    prop_oneof![
        4 => (call.clone(), amount.clone(), any::<bool>(), now.clone(), 1_u64..40, option::of(50_u64..120), wants())
            .prop_map(|(call, amount, alone, now, ttl, ends, wants)| Step::Request { call, amount, alone, now, ttl, ends, wants }),
        3 => (call.clone(), now.clone(), 1_u64..120)
            .prop_map(|(call, now, expires)| Step::Attest { call, now, expires }),
        1 => call.clone().prop_map(|call| Step::Drop { call }),
        4 => (call.clone(), 0_u8..4, now.clone(), 1_u64..120)
            .prop_map(|(call, by, now, expires)| Step::Approve { call, by, now, expires }),
        1 => (call.clone(), any::<bool>()).prop_map(|(call, reason)| Step::Deny { call, reason }),
        1 => (prop::bool::weighted(0.1), long.clone()).prop_map(|(named, now)| Step::Alive { named, now }),
        1 => Just(Step::End),
        1 => call.prop_map(|call| Step::Used { call }),
        3 => (amount, now).prop_map(|(amount, now)| Step::Find { amount, now }),
    ]
}

/// Whether an approval is wanted beside an attestation, and the kilobytes of the proposal.
fn wants() -> impl Strategy<Value = Option<(bool, u8)>> {
    option::of((any::<bool>(), 0_u8..60))
}

fn wanting(pending: PendingApproval, approval: bool, kilobytes: u8) -> PendingApproval {
    let proposal = "p".repeat(usize::from(kilobytes) * 1_000);
    pending
        .wanting(WantedEvidence::new(EvidenceGap::Evidence, ImpactClass::Money).proposal(&proposal), approval)
}

fn attested(expires: u64) -> AttestedProposal {
    AttestedProposal::new("{}", at(expires), "finance", olga()).unwrap()
}

/// So many of ada, bob and cy.
fn approvers(needed: u32) -> Approvers {
    Approvers::new(["ada", "bob", "cy"].map(|name| OperatorId::new(name).unwrap()), needed).unwrap()
}

fn session_1() -> SessionId {
    SessionId::new("s1").unwrap()
}

/// A question by `alice` alone, or in one of her sessions.
fn question(call: &str, amount: u64, alone: bool, now: u64, ttl: u64) -> PendingApproval {
    if alone { waiting(call, amount, now, ttl) } else { in_session(call, amount, "s1", now, ttl) }
}

/// Takes a step; returns its result and the state that the store then shows.
fn take(store: &dyn PendingApprovals, keys: &RunKeys, step: &Step) -> String {
    let name = |call: u8| id(&format!("c{call}"));
    let done = match step {
        Step::Attest { call, now, expires } => {
            store.attest(&name(*call), &attested(*expires), at(*now)).map(|()| String::new())
        }
        Step::Drop { call } => store.drop_attestation(&name(*call)).map(|()| String::new()),
        Step::Request { call, amount, alone, now, ttl, ends, wants } => {
            let pending = question(name(*call).as_str(), *amount, *alone, *now, *ttl);
            let pending = match wants {
                Some((approval, kilobytes)) => wanting(pending, *approval, *kilobytes),
                None => pending,
            };
            let needed = u32::try_from(amount % 4).unwrap();
            let pending = if needed > 0 { pending.approved_by_several(approvers(needed)) } else { pending };
            let ending = ends.map(|end| pending.clone().session_end(at(end)));
            store.request(&ending.unwrap_or(pending)).map(|id| id.to_string())
        }
        Step::Approve { call, by, now, expires } => {
            let by = ["ada", "bob", "cy", "dora"][usize::from(*by)];
            let token = token_by(keys, by, &format!("t{expires}"), *expires);
            store.approve(&name(*call), &token, at(*now)).map(|()| String::new())
        }
        Step::Deny { call, reason } => {
            let reason = reason.then(|| DenialReason::new("why").unwrap());
            store.deny_because(&name(*call), &olga(), reason.as_ref()).map(|()| String::new())
        }
        Step::Alive { named, now } => {
            let kind = if *named { SessionKind::Named } else { SessionKind::Single };
            store.note_alive(&session_1(), kind, at(*now)).map(|()| String::new())
        }
        Step::End => store.end_session(&session_1()).map(|()| String::new()),
        Step::Used { call } => store.mark_used(&name(*call)).map(|()| String::new()),
        Step::Find { amount, now } => {
            let acts = [true, false].map(|alone| question("any", *amount, alone, 0, 1));
            let found = acts.each_ref().map(|act| store.find_approved(act.binding(), at(*now)).unwrap());
            let found = found.map(|found| found.map(|(id, token)| (id, token.as_str().to_owned())));
            let denied = acts.map(|act| store.find_denied(act.binding(), at(*now)).unwrap());
            let attested = [true, false].map(|alone| question("any", *amount, alone, 0, 1));
            let attested = attested.map(|act| store.find_attested(act.binding(), at(*now)).unwrap());
            Ok(format!("{found:?} {denied:?} {attested:?}"))
        }
    };
    let kept: Vec<_> = (0..6).map(|call| store.get(&name(call)).unwrap()).collect();
    let kept: Vec<_> =
        kept.iter().map(|it| it.as_ref().map(|(asked, state)| (asked.size(), asked, state))).collect();
    let kept = (kept, (0..6).map(|call| store.attestation(&name(call)).unwrap()).collect::<Vec<_>>());
    let left = (0..6).map(|call| {
        let tokens = store.approvals(&name(call)).unwrap();
        tokens.iter().map(|token| token.as_str().to_owned()).collect::<Vec<_>>()
    });
    let kept = (kept, left.collect::<Vec<_>>());
    let listed = [0, 20, 40].map(|now| store.list(at(now)).unwrap());
    let ended = [0, 20, 15_010].map(|now| store.list_ended(at(now)).unwrap());
    format!("{:?} {kept:?} {listed:?} {ended:?}", done.map_err(|error: PendingError| error.code()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_file_answers_every_question_as_the_memory_does(
        full in option::weighted(0.3, (61_u64..65, 1_u64..50)),
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let (_folder, store) = store();
        let (memory, keys) = (MemoryPendingApprovals::new(), keys());
        let stores: [&dyn PendingApprovals; 2] = [&store, &memory];
        // Starts just below the limit, so that the steps reach it and fall below it again.
        if let Some((count, ttl)) = full {
            let more = |n| waiting(&format!("m{n}"), 1_000 + n, 0, ttl);
            for store in stores {
                (0..count).for_each(|n| drop(store.request(&more(n))));
            }
        }
        for step in steps {
            prop_assert_eq!(take(&store, &keys, &step), take(&memory, &keys, &step), "{:?}", step);
        }
    }
}

#[test]
fn attestation_outlives_the_session_of_its_question() {
    let (_folder, sqlite) = store();
    let memory = MemoryPendingApprovals::new();
    let stores: [&dyn PendingApprovals; 2] = [&sqlite, &memory];
    for store in stores {
        let asked = |call| wanting(in_session(call, 3, "s1", 0, 90), false, 0);
        store.note_alive(&session_1(), SessionKind::Single, at(0)).unwrap();
        store.request(&asked("c1")).unwrap();
        store.attest(&id("c1"), &attested(80), at(1)).unwrap();
        store.end_session(&session_1()).unwrap();
        let find = || store.find_attested(asked("any").binding(), at(2)).unwrap().map(|(id, _)| id);
        assert_eq!(find(), Some(id("c1")));
        store.request(&waiting("c2", 0, 2, 90)).unwrap();
        assert_eq!(find(), Some(id("c1")), "a request of another call changes nothing");
        assert_eq!(store.request(&asked("c3")).unwrap(), id("c1"));
    }
}

#[test]
fn edited_arguments_are_kept_with_their_token() {
    let (_folder, sqlite) = store();
    let memory = MemoryPendingApprovals::new();
    let stores: [&dyn PendingApprovals; 2] = [&sqlite, &memory];
    let edited = args("{\"amount\":4}");
    for store in stores {
        for (call, amount) in [("c1", 10), ("c2", 11), ("c3", 12)] {
            store.request(&waiting(call, amount, 0, 100)).unwrap();
        }
        let token = token(&keys(), "t1", 90);
        let approve = |call, args: &_| store.approve_edited(&id(call), &token, args, at(1));
        for same in
            [args("{\"amount\":10}"), args("[1]"), args(&format!("{{\"a\":\"{}\"}}", "x".repeat(256 << 10)))]
        {
            assert_eq!(code(approve("c1", &same)), "PENDING_EDIT");
        }
        assert!(matches!(store.get(&id("c1")).unwrap().unwrap().1, PendingState::Waiting));
        approve("c1", &edited).unwrap();
        assert_eq!(
            code(approve("c1", &args("{\"amount\":5}"))),
            "PENDING_DECIDED",
            "no other edit takes its place"
        );
        let (kept, _) = store.get(&id("c1")).unwrap().unwrap();
        assert_eq!(kept.edited_text(), Some("{\"amount\":4}"));
        assert_eq!(
            (kept.edited_digest(), kept.edited_binding().args),
            (Some(edited.digest()), edited.digest())
        );
        let found = store.find_approved(kept.binding(), at(2)).unwrap().unwrap().0;
        assert_eq!(found, id("c1"), "the question is still about the agent's arguments");
        store.deny(&id("c1"), &olga()).unwrap();
        let several = Approvers::new(vec![olga(), OperatorId::new("ada").unwrap()], 2).unwrap();
        let several = waiting("c4", 13, 0, 100).approved_by_several(several);
        store.request(&several).unwrap();
        let token = token_by(&keys(), "olga", "t2", 90);
        assert_eq!(code(store.approve_edited(&id("c4"), &token, &edited, at(1))), "PENDING_EDIT");
    }
}

#[test]
fn edited_arguments_that_were_changed_in_the_store_are_refused() {
    let pending = waiting("c1", 10, 0, 100).edited(&args("{\"amount\":4}")).unwrap();
    let text = serde_json::to_string(&pending).unwrap();
    assert_eq!(serde_json::from_str::<PendingApproval>(&text).unwrap(), pending);
    for other in ["{ \\\"amount\\\":4}", "{", "{\\\"amount\\\":4.0}"] {
        let changed = text.replace("{\\\"amount\\\":4}", other);
        assert_ne!(changed, text);
        assert!(serde_json::from_str::<PendingApproval>(&changed).is_err(), "{other}");
    }
}
