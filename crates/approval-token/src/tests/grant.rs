use countersign_core::{
    AgentId, Audience, CallFacts, Digest, Millis, OperatorId, SessionId, SpendError, TokenId, ToolId,
};
use countersign_keys::sealed::seal;
use serde_json::{Value, json};

use super::{SKEW, at, bare, full, keys, run_keys};
use crate::{
    Approval, ApprovalError, DEFAULT_GRANT_CAP, GrantTerms, GrantToken, MAX_GRANT_USES, MemorySpentTokens,
    MintError, grant, verify_grant,
};

const CONDITIONS: &str = r#"[{"at":"/to","kind":"email_domain","domains":["example.com"]}]"#;

fn exact() -> GrantTerms {
    let (id, by) = (TokenId::new("g-1").unwrap(), OperatorId::new("olga").unwrap());
    GrantTerms::new(id, by, 2, at(1_000_000), Millis::from_secs(3_600))
}

fn scoped() -> GrantTerms {
    exact().conditions(CONDITIONS)
}

fn made(terms: &GrantTerms) -> GrantToken {
    grant(&keys(), &full("c"), terms, DEFAULT_GRANT_CAP).unwrap()
}

fn verified(text: &str, call: &CallFacts) -> Result<Approval, ApprovalError> {
    let limits = (SKEW, DEFAULT_GRANT_CAP);
    verify_grant(text, &keys(), call, at(1_000_001), limits, |conditions| conditions == CONDITIONS)
}

fn reason(text: &str, call: &CallFacts) -> &'static str {
    verified(text, call).unwrap_err().reason()
}

/// Seals the payload with some members replaced, or removed by `null`, as a holder of the key could.
fn forged(change: &Value) -> String {
    let mut payload = serde_json::to_value(made(&scoped()).claimed().unwrap()).unwrap();
    for (name, value) in change.as_object().unwrap() {
        let members = payload.as_object_mut().unwrap();
        members.remove(name);
        if !value.is_null() {
            members.insert(name.clone(), value.clone());
        }
    }
    let text = countersign_canonical_json::to_canonical(&payload).unwrap();
    seal("csg1", "countersign/grant-1", keys().active().1, text.bytes()).unwrap()
}

#[test]
fn grant_covers_other_calls_of_its_scope() {
    let token = made(&scoped());
    for id in ["c", "another"] {
        let mut call = full(id);
        call.args = Digest::of(b"other arguments");
        let found = verified(token.as_str(), &call).unwrap();
        assert_eq!(found.approver().as_str(), "olga");
    }
}

#[test]
fn grant_of_exact_arguments_covers_no_others() {
    let token = made(&exact());
    assert!(verified(token.as_str(), &full("d")).is_ok());
    let mut other = full("d");
    other.args = Digest::of(b"other");
    assert_eq!(reason(token.as_str(), &other), "other-args");
}

#[test]
fn conditions_that_do_not_hold_refuse() {
    let token = made(&exact().conditions("[]"));
    assert_eq!(reason(token.as_str(), &full("c")), "other-args");
}

#[test]
fn each_fact_of_another_call_refuses() {
    let token = made(&scoped());
    let tool = |server, name| {
        let mut call = full("c");
        call.tool = ToolId::new(server, name).unwrap();
        call
    };
    for (call, expected) in [
        (tool("other", "refund"), "other-tool"),
        (tool("desk", "wire"), "other-tool"),
        (full("c").definition(Digest::of(b"new")), "other-definition"),
        (full("c").agent(AgentId::new("bot2").unwrap()), "other-agent"),
        (full("c").session(SessionId::new("s-2").unwrap()), "other-session"),
        (full("c").registry_version(8), "other-registry-version"),
        (full("c").audience(Audience::new("gate-2").unwrap()), "other-audience"),
        (bare("c"), "other-definition"),
    ] {
        assert_eq!(reason(token.as_str(), &call), expected);
    }
}

#[test]
fn grant_for_any_session_covers_the_next_one() {
    let token = made(&scoped().in_any_session());
    assert!(verified(token.as_str(), &full("c").session(SessionId::new("s-2").unwrap())).is_ok());
}

#[test]
fn forged_members_refuse() {
    for (change, expected) in [
        (json!({"recipe": "grant-2"}), "other-recipe"),
        (json!({"key_id": "k2"}), "other-key"),
        (json!({"uses": 0}), "uses"),
        (json!({"uses": MAX_GRANT_USES + 1}), "uses"),
        (json!({"uses": "2"}), "payload"),
        (json!({"uses": null}), "payload"),
        (json!({"args": null}), "payload"),
        (json!({"conditions": 7}), "payload"),
        (json!({"conditions": ""}), "other-args"),
        (json!({"note": "x"}), "payload"),
        (json!({"approver": "bot"}), "self-approval"),
        (json!({"approver": "b\u{43e}t"}), "self-approval"),
        (json!({"approver": "b0t"}), "self-approval"),
        (json!({"expires": 1_000_000}), "times"),
        (json!({"expires": 1_000_000 + 86_400_001}), "lifetime"),
        (json!({"issued": 1_005_002}), "not-yet"),
    ] {
        assert_eq!(reason(&forged(&change), &full("c")), expected, "{change}");
    }
}

#[test]
fn expired_grant_refuses() {
    let text = forged(&json!({"issued": 999_000, "expires": 1_000_001}));
    assert_eq!(verified(&text, &full("c")).unwrap_err(), ApprovalError::Expired);
}

#[test]
fn grant_of_another_run_or_key_refuses() {
    let token = made(&scoped());
    for other in [run_keys("k1", 1, "run-2"), run_keys("k1", 2, "run-1")] {
        let limits = (SKEW, DEFAULT_GRANT_CAP);
        let found = verify_grant(token.as_str(), &other, &full("c"), at(1_000_001), limits, |_| true);
        assert_eq!(found.unwrap_err().reason(), "tag");
    }
}

#[test]
fn every_changed_character_refuses() {
    let text = made(&scoped()).as_str().to_owned();
    for at in 0..text.len() {
        let mut changed = text.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        assert!(verified(&changed, &full("c")).is_err(), "{at}");
        assert!(verified(&text[..at], &full("c")).is_err(), "{at}");
    }
}

#[test]
fn token_is_no_grant_and_grant_is_no_token() {
    let token = super::token("c", "t");
    assert_eq!(reason(token.as_str(), &full("c")), "shape");
    let renamed = token.as_str().replacen("cs1", "csg1", 1);
    assert_eq!(reason(&renamed, &full("c")), "tag");
    let renamed = made(&scoped()).as_str().replacen("csg1", "cs1", 1);
    let found = crate::verify_text(&renamed, &keys(), &full("c"), at(1_000_001), &super::STRICT);
    assert_eq!(found.unwrap_err().reason(), "tag");
}

#[test]
fn each_use_is_spent_once() {
    let (token, spent) = (made(&scoped()), MemorySpentTokens::since(at(1_000_000)));
    let spend = |millis| verified(token.as_str(), &full("c")).unwrap().spend(&spent, at(millis), SKEW);
    assert_eq!(spend(1_000_002).unwrap().grant_use(), Some(1));
    assert_eq!(spend(1_000_002).unwrap().grant_use(), Some(2));
    assert!(matches!(spend(1_000_002), Err(SpendError::Spent)));
    assert!(matches!(spend(1_000_000 + 3_600_000), Err(SpendError::Expired)));
}

#[test]
fn grant_from_before_the_store_is_not_spent() {
    let (token, spent) = (made(&scoped()), MemorySpentTokens::since(at(1_000_001)));
    let found = verified(token.as_str(), &full("c")).unwrap().spend(&spent, at(1_000_002), SKEW);
    assert!(matches!(found, Err(SpendError::TooNew)));
}

#[test]
fn terms_out_of_range_sign_nothing() {
    let sign = |terms: &GrantTerms, call: &CallFacts| grant(&keys(), call, terms, DEFAULT_GRANT_CAP);
    let with = |change: fn(&mut GrantTerms)| {
        let mut terms = scoped();
        change(&mut terms);
        sign(&terms, &full("c")).unwrap_err()
    };
    assert_eq!(with(|it| it.uses = 0), MintError::Uses);
    assert_eq!(with(|it| it.uses = MAX_GRANT_USES + 1), MintError::Uses);
    assert_eq!(with(|it| it.ttl = Millis::ZERO), MintError::Ttl);
    assert_eq!(with(|it| it.ttl = Millis::from_secs(86_401)), MintError::Ttl);
    assert_eq!(with(|it| it.approver = OperatorId::new("B0T").unwrap()), MintError::SelfApproval);
    assert_eq!(with(|it| it.conditions = Some("x".repeat(8_193))), MintError::Conditions);
    assert_eq!(sign(&scoped(), &bare("c")).unwrap_err(), MintError::Binding);
}
