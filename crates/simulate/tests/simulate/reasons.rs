//! Refusals that another registry caused or whose check never ran: the simulation claims no answer that a real gate
//! would not give.

use std::sync::Arc;

use super::cases::*;
use super::proposal_world::*;
use super::registries::load_draft;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::*;
use countersign_core::*;
use countersign_registry::RegistryView;

const fn undetermined(missing: Missing) -> Simulated {
    Simulated::Undetermined(missing)
}

fn unrelated(version: u64) -> Arc<RegistryView> {
    other(version, "customers.example", "clients.example")
}

fn revoking(version: u64, keys: &str) -> Arc<RegistryView> {
    let revoked = format!(r#"{{"agents": [], "keys": [{keys}], "snapshots": []}}"#);
    load_draft(&draft(version, &revoked), DAY).view()
}

fn quarantine(gate: &ToolGate, change: StandingChange) {
    let agent = AgentId::new("support-bot").unwrap();
    gate.stats().set_standing(&StandingRecord::new(start(), agent, change, "grace")).unwrap();
}

#[test]
fn denial_counts_only_where_approval_is_required() {
    let world = World::new();
    let gate = world.full().recorded_fields(fields("refund")).open().unwrap();
    assert_eq!(code(&gate, &refund("c1").denied_by("olga")), Some(ApprovalDenied));
    assert_eq!(all(Simulation::new(world.registry.view()), &world), [REDECIDED]);
    let free = r#""impact": "money", "approval": "required""#;
    let free = other(2, free, &free.replace("required", "not_required"));
    let was = |other| Simulation::new(other).was(world.registry.view());
    assert_eq!(all(was(free), &world), [undetermined(Missing::Approval)]);
    assert_eq!(all(was(unrelated(2)), &world), [carried(Missing::Approval)]);
    assert_eq!(all(Simulation::new(unrelated(2)), &world), [undetermined(Missing::Approval)]);
}

#[test]
fn newly_revoked_key_makes_evidence_undetermined() {
    let world = World::new();
    let settings = || world.proposals(endorsing());
    let gate = world.full().proposals(settings()).recorded_fields(fields("wire")).open().unwrap();
    let endorsed = file_of_the_invoice(Draft::wire()).json();
    assert_eq!(code(&gate, &wire("c1").proposal(&endorsed)), None);
    let key = format!("\"{}\"", endorser().key_id());
    let was = |other| Simulation::new(other).was(world.registry.view());
    assert_eq!(all(was(unrelated(2)), &world), [carried(Missing::Proposal)]);
    assert_eq!(all(was(revoking(2, &key)), &world), [undetermined(Missing::Proposal)]);
    // The call was refused for the key, which the next registry does not revoke.
    world.reload(2, &format!(r#"{{"agents": [], "keys": [{key}], "snapshots": []}}"#));
    assert_eq!(code(&gate, &wire("c2").proposal(&endorsed)), Some(PicEvidenceFailed));
    let simulated = |other| all(Simulation::new(other).was(world.registry.view()), &world)[1];
    assert_eq!(simulated(unrelated(3)), undetermined(Missing::Proposal));
    assert_eq!(simulated(revoking(3, &key)), carried(Missing::Proposal));
}

#[test]
fn other_registry_remakes_a_revoked_contract() {
    let world = World::new();
    let gate = world.full().recorded_fields(fields("search")).open().unwrap();
    let first = world.registry.current().digest();
    world.reload(2, &format!(r#"{{"agents": [], "keys": [], "snapshots": ["{first}"]}}"#));
    assert_eq!(code(&gate, &search("c1")), Some(ContractExpired));
    let simulated = all(Simulation::new(unrelated(3)).was(world.registry.view()), &world);
    assert_eq!(simulated, [undetermined(Missing::Arguments)]);
}

#[test]
fn unobserved_quarantine_is_undetermined() {
    let world = World::new();
    let gate = world.full().recorded_fields(fields("search")).open().unwrap();
    quarantine(&gate, StandingChange::Quarantined);
    assert_eq!(code(&gate, &search("c1")), Some(AgentQuarantined));
    quarantine(&gate, StandingChange::Lifted);
    world.reload(2, r#"{"agents": ["support-bot"], "keys": [], "snapshots": []}"#);
    assert_eq!(code(&gate, &search("c2")), Some(AgentRevoked));
    let simulated = all(Simulation::new(unrelated(3)).was(world.registry.view()), &world);
    assert_eq!(simulated, [REDECIDED, undetermined(Missing::Host)]);
    // A revocation by the host is checked before the quarantine.
    let world = World::new();
    let gate = world.gate();
    quarantine(&gate, StandingChange::Quarantined);
    assert_eq!(code(&gate, &search("c1")), Some(AgentQuarantined));
    let view = world.registry.view();
    world.registry.revoke(&AgentId::new("support-bot").unwrap());
    assert_eq!(code(&gate, &search("c2")), Some(AgentRevoked));
    assert_eq!(all(Simulation::new(unrelated(2)).was(view), &world), [REDECIDED, carried(Missing::Host)]);
}

#[test]
fn same_session_id_of_another_agent_is_another_session() {
    let world = World::new();
    let (gate, capped) = (world.gate(), world.capped());
    let none = |id| ToolCall::new(id, "desk", "delete_all", b"{}");
    assert_eq!(code(&gate, &none("c1")), Some(UndisclosedTool));
    assert_eq!(code(&capped, &none("c2")), Some(UndisclosedTool));
    let gone = undetermined(Missing::Session);
    assert_eq!(all(Simulation::new(world.registry.view()), &world), [gone, REDECIDED]);
}

#[test]
fn of_two_gates_of_one_session_each_may_have_counted_for_itself() {
    let world = World::new();
    let gates = [(); 2].map(|()| world.full().recorded_fields(fields("scarce")).open().unwrap());
    for (gate, id) in gates.iter().cycle().zip(["c1", "c2", "c3", "c4"]) {
        assert_eq!(code(gate, &ToolCall::new(id, "desk", "scarce", b"{}")), None);
    }
    let same = all(Simulation::new(world.registry.view()), &world);
    assert!(same.iter().all(|simulated| matches!(simulated, Simulated::Same(_))), "{same:?}");
    let simulated = all(Simulation::new(unrelated(2)).was(world.registry.view()), &world);
    assert_eq!(simulated, [undetermined(Missing::EarlierCall); 4]);
}

#[test]
fn older_contract_is_not_mistaken_for_a_narrowed_one() {
    let mut world = World::new();
    let listed = r#"{"server": "desk", "name": "mail"}]}],"#;
    let more = r#"{"server": "desk", "name": "mail"}, {"server": "desk", "name": "scarce"}]}],"#;
    let early = draft(1, NONE_REVOKED);
    assert!(early.contains(listed));
    world.registry = load_draft(&early, DAY);
    let agent = AgentId::new("capped-bot").unwrap();
    let request = countersign_registry::NegotiationRequest::new(SessionId::new("session-1").unwrap(), agent);
    let contract = world.registry.negotiate(&request, start()).unwrap();
    world.registry = load_draft(&draft(2, NONE_REVOKED).replace(listed, more), DAY);
    let gate = ToolGate::builder(
        Arc::clone(&world.registry),
        contract,
        Principal::new("ada@example.com").unwrap(),
        Arc::clone(&world.clock) as Arc<dyn Clock>,
        Arc::clone(&world.sink) as Arc<dyn AuditSink>,
    );
    let gate = gate.open().unwrap();
    assert_eq!(code(&gate, &ToolCall::new("c1", "desk", "scarce", b"{}")), Some(UndisclosedTool));
    let third = load_draft(&draft(3, NONE_REVOKED).replace(listed, more), DAY).view();
    let simulated = all(Simulation::new(third).was(world.registry.view()), &world);
    assert_eq!(simulated, [undetermined(Missing::Arguments)]);
}
