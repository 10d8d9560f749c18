use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use countersign_approval_token::{MintTerms, mint};
use countersign_core::*;
use countersign_registry::ApprovalRule;
use serde_json::{Value, json};

use super::world::*;
use crate::RejectionCode::*;
use crate::*;

/// A registry in which two of ada, bob and cy approve a refund.
fn world() -> World {
    world_of(&json!({"names": ["ada", "bob", "cy"], "needed": 2}), "required")
}

fn world_of(approvers: &Value, rule: &str) -> World {
    let mut value: Value = serde_json::from_str(&draft(1, NONE_REVOKED)).unwrap();
    let tools = value["tools"].as_array_mut().unwrap();
    let refund = tools.iter_mut().find(|tool| tool["name"] == "refund").unwrap();
    (refund["approvers"], refund["approval"]) = (approvers.clone(), json!(rule));
    World::of_draft(&value.to_string())
}

/// A token of this approver for the refund `c1`.
fn token(world: &World, approver: &str) -> String {
    minted(world, approver, &format!("token-{approver}"), 300)
}

fn minted(world: &World, approver: &str, id: &str, seconds: u32) -> String {
    let refused = world.gate().check(&refund("c1")).unwrap_err();
    let binding = refused.approval_request().unwrap().binding().clone();
    let approver = OperatorId::new(approver).unwrap();
    let now = world.clock.now().unwrap();
    let terms = MintTerms::new(TokenId::new(id).unwrap(), approver, now, Millis::from_secs(seconds));
    mint(&keys("run-1"), &binding, &terms, hour()).unwrap().as_str().to_owned()
}

fn code_of(gate: &ToolGate, tokens: &[&str]) -> Option<RejectionCode> {
    code(gate, &tokens.iter().fold(refund("c1"), |call, token| call.approval(token)))
}

#[test]
fn call_runs_with_the_approvals_of_two_persons() {
    let world = world();
    let [ada, bob] = ["ada", "bob"].map(|name| token(&world, name));
    let gate = world.gate();
    assert_eq!(code_of(&gate, &[&bob, &ada]), None);
    let record = last_decision(&world);
    let named = |id: &Option<TokenId>| id.as_ref().unwrap().as_str().to_owned();
    assert_eq!((named(&record.approval).as_str(), record.approver.unwrap().as_str()), ("token-bob", "bob"));
    let [other] = record.co_approvals.try_into().unwrap();
    assert_eq!((other.approval.as_str(), other.approver.as_str()), ("token-ada", "ada"));
}

#[test]
fn too_few_approvals_are_refused_and_stay_unspent() {
    let world = world();
    let [ada, bob] = ["ada", "bob"].map(|name| token(&world, name));
    let gate = world.gate();
    assert_eq!(code_of(&gate, &[]), Some(ApprovalRequired));
    assert_eq!(code_of(&gate, &[&ada]), Some(ApprovalRequired));
    let record = last_decision(&world);
    assert_eq!((record.reason.unwrap().as_str(), record.approval), ("1 of 2 approvals", None));
    assert_eq!(code_of(&gate, &[&ada, &bob]), None);
}

#[test]
fn request_names_the_approvers() {
    let world = world();
    let refused = world.gate().check(&refund("c1")).unwrap_err();
    let approvers = refused.approval_request().unwrap().approvers().unwrap();
    let names: Vec<_> = approvers.names().iter().map(OperatorId::as_str).collect();
    assert_eq!((names, approvers.needed()), (vec!["ada", "bob", "cy"], 2));
}

#[test]
fn two_approvals_of_one_person_count_once() {
    let world = world();
    let (one, two) = (token(&world, "ada"), minted(&world, "ada", "token-2", 300));
    let gate = world.gate();
    assert_eq!(code_of(&gate, &[&one, &two]), Some(ApprovalInvalid));
    assert_eq!(code_of(&gate, &[&one, &one]), Some(ApprovalInvalid));
    let bob = token(&world, "bob");
    assert_eq!(code_of(&gate, &[&one, &two, &bob]), None, "a further approval of another person counts");
}

#[test]
fn approver_who_is_not_listed_is_refused() {
    let world = world();
    let ada = token(&world, "ada");
    for name in ["dora", "Bob", "b\u{43e}b", "bob "] {
        let Ok(_) = OperatorId::new(name) else { continue };
        let other = token(&world, name);
        assert_eq!(code_of(&world.gate(), &[&ada, &other]), Some(ApprovalInvalid), "{name:?}");
    }
    let one = world_of(&json!({"names": ["cy"], "needed": 1}), "required");
    let ada = token(&one, "ada");
    assert_eq!(code_of(&one.gate(), &[&ada]), Some(ApprovalInvalid));
    let cy = token(&one, "cy");
    assert_eq!(code_of(&one.gate(), &[&ada, &cy]), None, "one approval of the list is enough");
}

#[test]
fn agent_is_no_approver_of_its_own_call() {
    let world = world_of(&json!({"names": ["ada", "Support-Bot"], "needed": 2}), "required");
    let refused = world.gate().check(&refund("c1")).unwrap_err();
    let binding = refused.approval_request().unwrap().binding();
    let own = MintTerms::new(
        TokenId::new("t").unwrap(),
        OperatorId::new("Support-Bot").unwrap(),
        world.clock.now().unwrap(),
        Millis::from_secs(60),
    );
    assert!(mint(&keys("run-1"), binding, &own, hour()).is_err());
}

#[test]
fn approval_of_another_call_does_not_count() {
    let world = world();
    let ada = token(&world, "ada");
    let refused = world.gate().check(&refund("c2")).unwrap_err();
    let terms = MintTerms::new(
        TokenId::new("other").unwrap(),
        OperatorId::new("bob").unwrap(),
        world.clock.now().unwrap(),
        Millis::from_secs(60),
    );
    let binding = refused.approval_request().unwrap().binding();
    let bob = mint(&keys("run-1"), binding, &terms, hour()).unwrap();
    assert_eq!(code_of(&world.gate(), &[&ada, bob.as_str()]), Some(ApprovalInvalid));
}

#[test]
fn one_spent_approval_refuses_the_call_and_uses_the_others_up() {
    let world = world();
    let [ada, bob, cy] = ["ada", "bob", "cy"].map(|name| token(&world, name));
    let gate = world.gate();
    assert_eq!(code_of(&gate, &[&ada, &bob]), None);
    let again = refund("c1").approval(&cy).approval(&bob);
    let refused = gate.check(&again).unwrap_err();
    assert_eq!((refused.code(), refused.approval_spent()), (ApprovalSpent, true), "cy's was spent first");
    assert_eq!(code_of(&gate, &[&bob, &cy]), Some(ApprovalSpent));
    let fresh = ["ada", "bob"].map(|name| minted(&world, name, &format!("fresh-{name}"), 300));
    assert_eq!(code_of(&gate, &[&cy, &fresh[0]]), Some(ApprovalSpent), "and stays spent");
    assert_eq!(code_of(&gate, &[&fresh[1], &ada]), Some(ApprovalSpent));
}

#[test]
fn expired_approval_costs_no_other_one() {
    let world = world();
    let (ada, bob) = (minted(&world, "ada", "short", 10), token(&world, "bob"));
    world.clock.advance(Millis::from_secs(10)).unwrap();
    assert_eq!(code_of(&world.gate(), &[&bob, &ada]), Some(ApprovalExpired));
    let cy = token(&world, "cy");
    assert_eq!(code_of(&world.gate(), &[&bob, &cy]), None, "bob's is unspent");
}

/// A store that fails at the second ticket.
#[derive(Debug, Default)]
struct FailsLater(AtomicU32);

impl SpentTokens for FailsLater {
    fn spend(&self, _: &Ticket, _: Timestamp) -> Result<(), SpendError> {
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Ok(()),
            _ => Err(SpendError::Unavailable("down".into())),
        }
    }
}

#[test]
fn store_that_fails_between_two_approvals_refuses() {
    let world = world();
    let [ada, bob] = ["ada", "bob"].map(|name| token(&world, name));
    let gate =
        world.bare().approvals(world.settings(Arc::new(FailsLater::default()))).pinned_ask(world.pin());
    let gate = gate.open().unwrap();
    let refused = gate.check(&refund("c1").approval(&ada).approval(&bob)).unwrap_err();
    assert_eq!((refused.code(), refused.approval_spent()), (StoreUnavailable, true));
    let record = last_decision(&world);
    assert_eq!((record.approver.unwrap().as_str(), record.co_approvals.len()), ("ada", 1));
}

#[test]
fn of_many_threads_with_the_same_approvals_one_runs() {
    let world = world();
    let [ada, bob] = ["ada", "bob"].map(|name| token(&world, name));
    let runs = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for at in 0..8 {
            let (gate, runs) = (world.gate(), &runs);
            let order = if at % 2 == 0 { [&ada, &bob] } else { [&bob, &ada] };
            scope.spawn(move || {
                if code_of(&gate, &order.map(String::as_str)).is_none() {
                    runs.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(runs.into_inner() <= 1, "orders that cross may spend one each, and then neither runs");
}

#[test]
fn tool_with_approvers_needs_an_approval_of_each_call() {
    let world = world();
    let view = world.registry.view();
    let rules = view.snapshot().tool(&ToolId::new("desk", "refund").unwrap()).unwrap();
    let step = countersign_committed_plan::Step::new(ToolId::new("desk", "refund").unwrap(), REFUND, &[]);
    assert_eq!(step_approval(rules, &step.unwrap()), ApprovalRule::EachCall);
}
