use std::sync::Arc;

use countersign_approval_token::{DEFAULT_GRANT_CAP, GrantTerms, Grants as _, MemoryGrants, grant};
use countersign_core::SpentTokens;
use countersign_core::*;
use proptest::prelude::*;

use super::world::*;
use crate::RejectionCode::*;
use crate::*;

const LOW: &str = r#"[{"kind":"email_domain","at":"/ticket","domains":["example.com"]}]"#;

/// A world whose gates look for grants.
struct Granting {
    world: World,
    grants: Arc<MemoryGrants>,
}

impl Granting {
    fn new() -> Self {
        let world = World::new();
        let grants = Arc::new(MemoryGrants::new(Arc::clone(&world.spent)));
        Self { world, grants }
    }

    fn settings(&self) -> ApprovalSettings {
        let spent = Arc::clone(&self.world.spent) as Arc<dyn SpentTokens>;
        let grants = Arc::clone(&self.grants) as Arc<dyn countersign_approval_token::Grants>;
        self.world.settings(spent).grants(grants, keys("grants"), DEFAULT_GRANT_CAP)
    }

    fn gate(&self) -> ToolGate {
        self.world.full().approvals(self.settings()).open().unwrap()
    }

    fn terms(&self, uses: u32) -> GrantTerms {
        let (id, by) = (TokenId::new("g-1").unwrap(), OperatorId::new("grace@example.com").unwrap());
        GrantTerms::new(id, by, uses, self.world.clock.now().unwrap(), hour())
    }

    /// Grants calls like this one, which the gate refuses for want of an approval.
    fn give(&self, gate: &ToolGate, call: &ToolCall<'_>, terms: &GrantTerms) {
        let refused = gate.check(call).unwrap_err();
        let model = refused.approval_request().unwrap().binding();
        let grant = grant(&keys("grants"), model, terms, DEFAULT_GRANT_CAP).unwrap();
        self.grants.add_grant(&grant, self.world.clock.now().unwrap()).unwrap();
    }
}

fn ticket(id: &'static str, args: &'static [u8]) -> ToolCall<'static> {
    ToolCall::new(id, "desk", "refund", args)
}

#[test]
fn granted_calls_run_as_often_as_the_grant_says() {
    let granting = Granting::new();
    let gate = granting.gate();
    granting.give(&gate, &refund("c1"), &granting.terms(2));
    for (id, number) in [("c2", 1), ("c3", 2)] {
        assert_eq!(code(&gate, &refund(id)), None);
        let decision = last_decision(&granting.world);
        assert_eq!((decision.approval.unwrap().as_str(), decision.grant_use), ("g-1", Some(number)));
        assert_eq!(decision.approver.unwrap().as_str(), "grace@example.com");
    }
    assert_eq!(code(&gate, &refund("c4")), Some(ApprovalRequired));
    assert_eq!(last_decision(&granting.world).grant_use, None);
}

#[test]
fn grant_of_exact_arguments_covers_no_other_arguments() {
    let granting = Granting::new();
    let gate = granting.gate();
    granting.give(&gate, &refund("c1"), &granting.terms(2));
    let more = ticket("c2", br#"{"ticket":"T-1001","amount":4900}"#);
    assert_eq!(code(&gate, &more), Some(ApprovalRequired));
}

#[test]
fn grant_with_conditions_covers_arguments_that_meet_them() {
    let granting = Granting::new();
    let gate = granting.gate();
    granting.give(&gate, &refund("c1"), &granting.terms(5).conditions(LOW));
    assert_eq!(code(&gate, &ticket("c2", br#"{"ticket":"ada@example.com","amount":1}"#)), None);
    for args in
        [br#"{"ticket":"ada@example.org","amount":1}"#.as_slice(), br#"{"ticket":"T-1001","amount":1}"#]
    {
        assert_eq!(code(&gate, &ToolCall::new("c3", "desk", "refund", args)), Some(ApprovalRequired));
    }
}

#[test]
fn unreadable_or_empty_conditions_cover_nothing() {
    for conditions in ["", "[]", "{}", "null", r#"[{"kind":"anything","at":"/ticket"}]"#] {
        let granting = Granting::new();
        let gate = granting.gate();
        granting.give(&gate, &refund("c1"), &granting.terms(5).conditions(conditions));
        assert_eq!(code(&gate, &refund("c2")), Some(ApprovalRequired), "{conditions}");
    }
}

#[test]
fn tool_that_needs_an_approval_of_each_call_takes_no_grant() {
    let granting = Granting::new();
    let gate = granting.gate();
    let wipe = |id| ToolCall::new(id, "desk", "wipe", b"{}");
    granting.give(&gate, &wipe("c1"), &granting.terms(5));
    assert_eq!(code(&gate, &wipe("c2")), Some(ApprovalRequired));
}

#[test]
fn grant_does_not_outlast_session_registry_or_revocation() {
    let granting = Granting::new();
    let gate = granting.gate();
    granting.give(&gate, &refund("c1"), &granting.terms(5));
    let sink = Arc::clone(&granting.world.sink);
    let other = granting.world.builder_for("session-2", sink).approvals(granting.settings()).open().unwrap();
    assert_eq!(code(&other, &refund("c2")), Some(ApprovalRequired), "another session");
    assert_eq!(code(&gate, &refund("c3")), None);
    let id = TokenId::new("g-1").unwrap();
    granting.grants.revoke_grant(&id, granting.world.clock.now().unwrap()).unwrap();
    assert_eq!(code(&gate, &refund("c4")), Some(ApprovalRequired), "revoked");
    granting.give(&gate, &refund("c5"), &{
        let mut terms = granting.terms(5);
        terms.grant_id = TokenId::new("g-2").unwrap();
        terms
    });
    assert_eq!(code(&gate, &refund("c6")), None);
    granting.world.reload(2, NONE_REVOKED);
    assert_eq!(code(&gate, &refund("c7")), Some(ApprovalRequired), "another registry");
}

#[test]
fn grant_of_a_revoked_key_covers_nothing() {
    let granting = Granting::new();
    let gate = granting.gate();
    granting.world.reload(2, r#"{"agents": [], "keys": ["k1"], "snapshots": []}"#);
    granting.give(&gate, &refund("c1"), &granting.terms(5));
    assert_eq!(code(&gate, &refund("c2")), Some(ApprovalRequired));
}

#[test]
fn gate_without_grants_ignores_them() {
    let granting = Granting::new();
    let gate = granting.world.gate();
    granting.give(&gate, &refund("c1"), &granting.terms(5));
    assert_eq!(code(&gate, &refund("c2")), Some(ApprovalRequired));
}

#[test]
fn denied_call_does_not_run_under_a_grant() {
    let granting = Granting::new();
    let gate = granting.gate();
    granting.give(&gate, &refund("c1"), &granting.terms(5));
    let asked = granting.world.gate().check(&refund("c2")).unwrap_err();
    let binding = asked.approval_request().unwrap().binding().clone();
    assert_eq!(code(&gate, &refund("c2").denied_as(&binding, "ada")), Some(ApprovalDenied));
    assert_eq!(granting.grants.list_grants(granting.world.clock.now().unwrap()).unwrap()[0].used, 0);
}

#[test]
fn grant_is_not_spent_by_a_call_that_is_refused_later() {
    let granting = Granting::new();
    let refuse = granting.world.full().approvals(granting.settings());
    let gate = refuse.user_check("no", |_: &CheckedCall<'_>| Err("no".into())).open().unwrap();
    granting.give(&granting.gate(), &refund("c1"), &granting.terms(5));
    assert_eq!(code(&gate, &refund("c2")), Some(CheckRefused));
    assert_eq!(granting.grants.list_grants(granting.world.clock.now().unwrap()).unwrap()[0].used, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// With grants, a gate accepts a call that it refused without only if the reason was the approval.
    #[test]
    fn grant_changes_no_other_refusal(
        name in prop::sample::select(vec!["refund", "mail", "wipe", "search", "asking", "proven", "delete_ticket", "none"]),
        args in prop::sample::select(vec![
            r#"{"ticket":"T-1001","amount":49}"#, r#"{"ticket":"T-1001"}"#, "{}", "[]",
            r#"{"to":"a@customers.example"}"#, r#"{"to":"a@other.example"}"#, "{\"a\":1,\"a\":2}",
        ]),
        conditions in prop::option::of(prop::sample::select(vec![LOW, "[]", "nonsense"])),
        uses in 1_u32..3,
    ) {
        let granting = Granting::new();
        let (with, without) = (granting.gate(), granting.world.gate());
        let mut terms = granting.terms(uses);
        terms.conditions = conditions.map(str::to_owned);
        granting.give(&with, &refund("c0"), &terms);
        let call = ToolCall::new("c1", "desk", name, args.as_bytes());
        let (before, after) = (code(&without, &call), code(&with, &call));
        prop_assert!(after == before || (before == Some(ApprovalRequired) && after.is_none()), "{before:?} {after:?}");
    }
}
