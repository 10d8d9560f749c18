#![expect(clippy::arithmetic_side_effects, reason = "an overflow in a test is a failure of the test")]

mod alarm;
mod granted;
mod open;
mod pending;
mod processes;
mod quarantine;
mod spent;

use std::path::PathBuf;

use countersign_approval_token::{
    Approval, ApprovalToken, DEFAULT_TTL_CAP, MintTerms, VerifyTerms, mint, verify,
};
use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::SpendError;
use countersign_core::{
    CallFacts, CallId, KeyId, Millis, OperatorId, Principal, RunId, SessionId, Timestamp, TokenId, ToolId,
};
use countersign_keys::{Keyring, RunKeys, ServerSecret};

use crate::SqliteStore;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    (folder, path)
}

fn keys() -> RunKeys {
    let secret = ServerSecret::new(KeyId::new("k1").unwrap(), &[7; 32]).unwrap();
    Keyring::new(secret).for_run(&RunId::new("run-1").unwrap())
}

fn args(text: &str) -> Canonical {
    read(text.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap()
}

fn binding(call: &str, args: &Canonical) -> CallFacts {
    CallFacts::new(
        CallId::new(call).unwrap(),
        ToolId::new("desk", "refund").unwrap(),
        args.digest(),
        Recipe::Jcs1,
        Principal::new("alice").unwrap(),
    )
}

/// A token with this id for call `c`, issued at 0, that expires at `expires`.
fn token(keys: &RunKeys, id: &str, expires: u64) -> ApprovalToken {
    token_by(keys, "bob", id, expires)
}

fn token_by(keys: &RunKeys, by: &str, id: &str, expires: u64) -> ApprovalToken {
    let (id, by) = (TokenId::new(id).unwrap(), OperatorId::new(by).unwrap());
    let terms = MintTerms::new(id, by, at(0), Millis::new(expires).unwrap());
    mint(keys, &binding("c", &args("{}")), &terms, DEFAULT_TTL_CAP).unwrap()
}

/// The same token, verified at `now`.
fn approval(keys: &RunKeys, id: &str, expires: u64, now: u64) -> Approval {
    let token = token(keys, id, expires);
    let binding = binding("c", &args("{}"));
    verify(&token, keys, &binding, at(now), &VerifyTerms::default().skew(Millis::ZERO)).unwrap()
}

/// Spends token `id` at 1,000 and returns the code of a refusal.
fn spend(store: &SqliteStore, keys: &RunKeys, id: &str) -> Result<(), &'static str> {
    spend_at(store, keys, id, 60_000, 1_000).map_err(|error| error.code())
}

fn spend_at(store: &SqliteStore, keys: &RunKeys, id: &str, expires: u64, now: u64) -> Result<(), SpendError> {
    approval(keys, id, expires, now).spend(store, at(now), Millis::ZERO).map(|_| ())
}

fn count(store: &SqliteStore, query: &str) -> i64 {
    store.on_connection(|db| db.query_row(query, [], |row| row.get(0)).unwrap())
}
