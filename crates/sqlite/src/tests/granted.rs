use std::thread;

use countersign_approval_token::{
    DEFAULT_GRANT_CAP, GrantTerms, GrantToken, Grants, PendingError, grant, verify_grant,
};
use countersign_core::{AgentId, Audience, Digest};

use super::*;

fn call(id: &str) -> CallFacts {
    binding(id, &args("{}"))
        .agent(AgentId::new("bot").unwrap())
        .session(SessionId::new("s-1").unwrap())
        .audience(Audience::new("gate").unwrap())
        .registry_version(1)
}

fn terms(id: &str, uses: u32) -> GrantTerms {
    let (id, by) = (TokenId::new(id).unwrap(), OperatorId::new("olga").unwrap());
    GrantTerms::new(id, by, uses, at(0), Millis::from_secs(60))
}

fn signed(terms: &GrantTerms) -> GrantToken {
    grant(&keys(), &call("c"), terms, DEFAULT_GRANT_CAP).unwrap()
}

fn made(id: &str, uses: u32) -> GrantToken {
    signed(&terms(id, uses).conditions("[]"))
}

fn verified(token: &GrantToken) -> Approval {
    let limits = (Millis::ZERO, DEFAULT_GRANT_CAP);
    verify_grant(token.as_str(), &keys(), &call("c"), at(1), limits, |_| true).unwrap()
}

fn open() -> (tempfile::TempDir, SqliteStore) {
    let (folder, path) = place();
    (folder, SqliteStore::open(path, at(0)).unwrap())
}

fn offered(store: &SqliteStore, call: &CallFacts) -> usize {
    store.grants_for(call, at(1)).unwrap().len()
}

#[test]
fn grant_is_offered_to_calls_that_it_may_cover() {
    let (_folder, store) = open();
    store.add_grant(&made("g1", 1), at(0)).unwrap();
    store.add_grant(&signed(&terms("g2", 1)), at(0)).unwrap();
    assert_eq!(offered(&store, &call("d")), 2);
    let mut other = call("d");
    other.args = Digest::of(b"other");
    assert_eq!(offered(&store, &other), 1);
    for other in [
        call("d").agent(AgentId::new("cat").unwrap()),
        call("d").session(SessionId::new("s-2").unwrap()),
        call("d").audience(Audience::new("other").unwrap()),
        call("d").registry_version(2),
        call("d").definition(Digest::of(b"new")),
    ] {
        assert_eq!(offered(&store, &other), 0);
    }
    other.tool = ToolId::new("desk", "wire").unwrap();
    assert_eq!(offered(&store, &other), 0);
}

#[test]
fn at_most_four_grants_are_offered() {
    let (_folder, store) = open();
    for number in 0..6 {
        store.add_grant(&made(&format!("g{number}"), 1), at(0)).unwrap();
    }
    let grants = store.grants_for(&call("c"), at(1)).unwrap();
    let ids: Vec<_> = grants.iter().map(|it| it.claimed().unwrap().grant_id.to_string()).collect();
    assert_eq!(ids, ["g0", "g1", "g2", "g3"]);
}

#[test]
fn used_up_grant_is_not_offered() {
    let (_folder, store) = open();
    let token = made("g1", 2);
    store.add_grant(&token, at(0)).unwrap();
    for used in 1..=2 {
        assert_eq!(offered(&store, &call("c")), 1);
        assert_eq!(verified(&token).spend(&store, at(1), Millis::ZERO).unwrap().grant_use(), Some(used));
        assert_eq!(store.list_grants(at(1)).unwrap()[0].used, used);
    }
    assert_eq!(offered(&store, &call("c")), 0);
    assert!(matches!(verified(&token).spend(&store, at(1), Millis::ZERO), Err(SpendError::Spent)));
}

#[test]
fn revoked_grant_has_no_use_left_for_a_holder() {
    let (_folder, store) = open();
    let token = made("g1", 3);
    store.add_grant(&token, at(0)).unwrap();
    let _ = verified(&token).spend(&store, at(1), Millis::ZERO).unwrap();
    let id = TokenId::new("g1").unwrap();
    store.revoke_grant(&id, at(2)).unwrap();
    assert_eq!(offered(&store, &call("c")), 0);
    assert!(matches!(verified(&token).spend(&store, at(3), Millis::ZERO), Err(SpendError::Spent)));
    assert!(store.list_grants(at(3)).unwrap()[0].is_revoked);
    assert!(matches!(store.revoke_grant(&id, at(3)), Err(PendingError::Decided)));
    let unknown = TokenId::new("g2").unwrap();
    assert!(matches!(store.revoke_grant(&unknown, at(3)), Err(PendingError::Unknown)));
}

#[test]
fn expired_and_repeated_grants_are_not_stored() {
    let (_folder, store) = open();
    let token = made("g1", 1);
    assert!(matches!(store.add_grant(&token, at(60_000)), Err(PendingError::Expired)));
    store.add_grant(&token, at(0)).unwrap();
    assert!(matches!(store.add_grant(&token, at(0)), Err(PendingError::Conflict)));
    assert_eq!(store.list_grants(at(60_000)).unwrap(), []);
    assert_eq!(store.grants_for(&call("c"), at(60_000)).unwrap(), []);
}

#[test]
fn of_many_threads_with_one_grant_as_many_run_as_it_has_uses() {
    let (_folder, store) = open();
    let token = made("g1", 5);
    let ran = thread::scope(|scope| {
        let spend = || verified(&token).spend(&store, at(1), Millis::ZERO).is_ok();
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(spend)).collect();
        threads.into_iter().map(|it| it.join().unwrap()).filter(|ran| *ran).count()
    });
    assert_eq!(ran, 5);
}

#[test]
fn changed_row_of_a_grant_is_damage() {
    let (_folder, store) = open();
    store.add_grant(&made("g1", 1), at(0)).unwrap();
    store.on_connection(|db| db.execute("UPDATE granted SET text = 'csg1.x.y'", []).unwrap());
    assert_eq!(store.grants_for(&call("c"), at(1)).unwrap_err().code(), "STORE_UNAVAILABLE");
}
