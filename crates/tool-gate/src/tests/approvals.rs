use std::sync::Arc;

use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_approval_token::{MintTerms, mint};
use countersign_canonical_json::Recipe;
use countersign_core::SpentTokens;
use countersign_core::*;

#[test]
fn an_approved_call_runs_exactly_once() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c1"));
    let call = refund("c1").approval(token.as_str());
    assert_eq!(code(&gate, &call), None);
    assert_eq!(code(&gate, &call), Some(ApprovalSpent));
    let other = world.gate();
    assert_eq!(code(&other, &call), Some(ApprovalSpent), "another gate over the same store");
}

#[test]
fn an_approval_is_worth_nothing_for_another_call() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c1"));
    let token = token.as_str();
    let more = br#"{"ticket":"T-1001","amount":4900}"#;
    let null = br#"{"ticket":"T-1001","amount":49,"note":null}"#;
    assert_eq!(code(&gate, &refund("c2").approval(token)), Some(ApprovalInvalid), "other call id");
    for args in [more.as_slice(), null.as_slice()] {
        assert_eq!(
            code(&gate, &ToolCall::new("c1", "desk", "refund", args).approval(token)),
            Some(ApprovalInvalid)
        );
    }
    let same = br#"{"amount":4.9e1,"ticket":"T-1001"}"#;
    assert_eq!(code(&gate, &ToolCall::new("c1", "desk", "refund", same).approval(token)), None);
}

#[test]
fn approval_is_invalid_in_another_session_or_registry() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c1"));
    let call = refund("c1").approval(token.as_str());
    let sink = Arc::clone(&world.sink);
    let spent = || Arc::clone(&world.spent) as Arc<dyn SpentTokens>;
    let other = world.builder_for("session-2", sink).approvals(world.settings(spent())).open().unwrap();
    assert_eq!(code(&other, &call), Some(ApprovalInvalid));
    world.reload(2, NONE_REVOKED);
    assert_eq!(code(&gate, &call), Some(ApprovalInvalid), "approvals of before a new registry are dead");
}

#[test]
fn an_approval_of_another_run_audience_or_principal_is_refused() {
    let world = World::new();
    let gate = world.gate();
    let refused = gate.check(&refund("c1")).unwrap_err();
    let binding = refused.approval_request().unwrap().binding();
    let other_run = mint(&keys("run-2"), binding, &world.terms(1), hour()).unwrap();
    let audience = binding.clone().audience(Audience::new("gate-2").unwrap());
    let other_audience = mint(&keys("run-1"), &audience, &world.terms(2), hour()).unwrap();
    let principal = CallFacts::new(
        binding.call_id.clone(),
        binding.tool.clone(),
        binding.args,
        Recipe::Jcs1,
        Principal::new("mallory@example.com").unwrap(),
    );
    let other_principal = mint(&keys("run-1"), &principal, &world.terms(3), hour()).unwrap();
    for token in [other_run, other_audience, other_principal] {
        assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), Some(ApprovalInvalid));
    }
}

#[test]
fn a_partial_approval_counts_only_where_the_host_asked_for_that() {
    let world = World::new();
    let strict = world.gate();
    let refused = strict.check(&refund("c1")).unwrap_err();
    let full = refused.approval_request().unwrap().binding();
    let partial = CallFacts::new(
        full.call_id.clone(),
        full.tool.clone(),
        full.args,
        Recipe::Jcs1,
        full.principal.clone(),
    );
    let token = mint(&keys("run-1"), &partial, &world.terms(1), hour()).unwrap();
    let call = refund("c1").approval(token.as_str());
    assert_eq!(code(&strict, &call), Some(ApprovalInvalid));
    let settings = world.settings(Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
    let lenient = world.bare().approvals(settings.dangerous_accept_partial_bindings()).open().unwrap();
    assert_eq!(code(&lenient, &call), None);
    assert_eq!(code(&lenient, &call), Some(ApprovalSpent));
}

#[test]
fn an_approval_that_counts_for_too_long_is_refused() {
    let world = World::new();
    let gate = world.gate();
    let refused = gate.check(&refund("c1")).unwrap_err();
    let years = Millis::from_secs(10 * 365 * 86_400);
    let minted = |ttl, cap| {
        let (id, by) = (TokenId::new("long").unwrap(), OperatorId::new("olga").unwrap());
        let terms = MintTerms::new(id, by, world.clock.now().unwrap(), ttl);
        mint(&keys("run-1"), refused.approval_request().unwrap().binding(), &terms, cap).unwrap()
    };
    let token = minted(years, years);
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), Some(ApprovalInvalid));
    let settings = || world.settings(Arc::clone(&world.spent) as Arc<dyn SpentTokens>);
    let gate_of = |most| world.full().approvals(settings().max_lifetime(most)).open().unwrap();
    let minute = minted(Millis::from_secs(60), hour());
    let call = refund("c1").approval(minute.as_str());
    assert_eq!(code(&gate_of(Millis::from_millis(59_999)), &call), Some(ApprovalInvalid));
    assert_eq!(code(&gate_of(Millis::from_secs(60)), &call), None);
}

#[test]
fn at_its_expiry_an_approval_is_expired() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c1"));
    world.clock.advance(Millis::from_secs(300)).unwrap();
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), Some(ApprovalExpired));
    world.clock.set(start());
    assert_eq!(
        code(&gate, &refund("c1").approval(token.as_str())),
        Some(ApprovalExpired),
        "a clock set back helps nobody"
    );
}

#[test]
fn expired_approval_among_bad_ones_is_reported_expired() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c1"));
    world.clock.advance(Millis::from_secs(300)).unwrap();
    assert_eq!(
        code(&gate, &refund("c1").approval(token.as_str()).approval("rubbish")),
        Some(ApprovalExpired)
    );
    assert_eq!(
        code(&gate, &refund("c1").approval("rubbish").approval(token.as_str())),
        Some(ApprovalExpired)
    );
}

#[test]
fn two_calls_in_one_turn_with_one_approval_run_once() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c1"));
    let results: Vec<_> = std::thread::scope(|scope| {
        let check = || code(&gate, &refund("c1").approval(token.as_str()));
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(check)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|code| code.is_none()).count(), 1);
    assert_eq!(results.iter().filter(|code| **code == Some(ApprovalSpent)).count(), 7);
}

#[test]
fn matching_approval_among_several_is_spent_alone() {
    let world = World::new();
    let gate = world.gate();
    let first = world.approve(&gate, &refund("c1"));
    let second = world.approve(&gate, &refund("c2"));
    let both = refund("c2").approval(first.as_str()).approval("rubbish").approval(second.as_str());
    assert_eq!(code(&gate, &both), None);
    assert_eq!(code(&gate, &refund("c1").approval(first.as_str())), None);
}

#[test]
fn a_token_where_none_is_needed_is_not_spent() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c1"));
    assert_eq!(code(&gate, &search("c1").approval(token.as_str())), None);
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), None);
}

#[test]
fn an_approval_by_a_revoked_key_is_refused() {
    let world = World::new();
    world.reload(2, r#"{"agents": [], "keys": ["k1"], "snapshots": []}"#);
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c1"));
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), Some(ApprovalInvalid));
}
