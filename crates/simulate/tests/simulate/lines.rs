//! Simulation of a session that other sessions led to: the record names only their agents.

use std::sync::Arc;

use super::cases::*;
use super::registries::load_draft;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::*;
use countersign_core::*;
use countersign_registry::*;

/// A gate of `capped-bot` for a session that a session of `support-bot` started.
fn sub_gate(world: &World, wanted: Wanted<ToolId>, stats: &Arc<CallStats>) -> ToolGate {
    let parent = world.full().stats(Arc::clone(stats)).open().unwrap();
    let (session, agent) = (SessionId::new("session-2").unwrap(), AgentId::new("capped-bot").unwrap());
    let request = NegotiationRequest::new(session, agent).wanted_tools(wanted);
    let contract = world.registry.negotiate_under(&parent.contract(), &request, start()).unwrap();
    let (clock, sink) =
        (Arc::clone(&world.clock) as Arc<dyn Clock>, Arc::clone(&world.sink) as Arc<dyn AuditSink>);
    let principal = Principal::new("ada@example.com").unwrap();
    let builder = ToolGate::builder(Arc::clone(&world.registry), contract, principal, clock, sink);
    builder.recorded_fields(fields("search")).stats(Arc::clone(stats)).open().unwrap()
}

fn searched() -> World {
    let world = World::new();
    assert_eq!(code(&sub_gate(&world, Wanted::All, &Arc::default()), &search("c1")), None);
    world
}

#[test]
fn session_record_names_its_ancestors() {
    let world = searched();
    let sessions = world.sink.latest().into_iter().filter_map(|(_, record)| {
        let Record::Session(session) = record else { return None };
        Some((session.ancestors.clone(), serde_json::to_string(&session).unwrap()))
    });
    let [(none, parent), (line, _)] = sessions.collect::<Vec<_>>().try_into().unwrap();
    assert_eq!((none, parent.contains("ancestors")), (Vec::new(), false));
    assert_eq!(line, [AgentId::new("support-bot").unwrap()]);
}

#[test]
fn revoked_or_unknown_parent_refuses_the_child() {
    let world = searched();
    let refused = |code| changed(Answer::Accepted, Answer::Refused(code), Basis::Redecided);
    let revoked = draft(2, r#"{"agents": ["support-bot"], "keys": [], "snapshots": []}"#);
    assert_eq!(all(Simulation::new(load_draft(&revoked, DAY).view()), &world), [refused(AgentRevoked)]);
    let gone = other(2, r#"{"agent": "support-bot""#, r#"{"agent": "support-robot""#);
    assert_eq!(all(Simulation::new(gone), &world), [refused(AgentNotRegistered)]);
}

#[test]
fn tool_the_parent_lost_is_undisclosed_to_the_child() {
    let world = searched();
    let fewer = other(
        2,
        r#"{"server": "desk", "name": "search"}, {"server": "desk", "name": "refund"}"#,
        r#"{"server": "desk", "name": "refund"}"#,
    );
    let parent = Basis::Carried(Missing::Parent);
    let known = Simulation::new(Arc::clone(&fewer)).was(world.registry.view());
    let now = changed(Answer::Accepted, Answer::Refused(UndisclosedTool), parent);
    assert_eq!(all(known, &world), [now]);
    assert_eq!(all(Simulation::new(fewer), &world), [Simulated::Undetermined(Missing::Parent)]);
}

#[test]
fn child_is_never_redecided_under_another_registry() {
    let world = searched();
    assert_eq!(all(Simulation::new(world.registry.view()), &world), [REDECIDED]);
    let same = other(2, "customers.example", "clients.example");
    let undetermined = Simulated::Undetermined(Missing::Parent);
    assert_eq!(all(Simulation::new(Arc::clone(&same)), &world), [undetermined]);
    let was = |other| Simulation::new(other).was(world.registry.view());
    assert_eq!(all(was(same), &world), [carried(Missing::Parent)]);
    let short = r#""agent": "support-bot", "version": 1, "registered_by": "ops", "max_session": "59m""#;
    assert_eq!(all(was(other(2, &short.replace("59m", "1h"), short)), &world), [undetermined]);
}

#[test]
fn whether_it_would_have_had_more_than_it_had_is_not_known() {
    let world = World::new();
    let search_alone = Wanted::these([ToolId::new("desk", "search").unwrap()]);
    let gate = sub_gate(&world, search_alone, &Arc::default());
    for name in ["mail", "delete_all"] {
        assert_eq!(code(&gate, &ToolCall::new("c", "desk", name, b"{}")), Some(UndisclosedTool));
        let raw = format!(r#"{{"name": "{name}", "arguments": {{}}}}"#);
        assert!(matches!(gate.observe(raw.as_bytes()), Observed::Undisclosed(_)));
    }
    assert_eq!(all(Simulation::new(world.registry.view()), &world), [REDECIDED; 4]);
    let same = other(2, "customers.example", "clients.example");
    let undetermined = Simulated::Undetermined(Missing::Parent);
    assert_eq!(
        all(Simulation::new(Arc::clone(&same)), &world),
        [undetermined; 4],
        "nor whether it was there"
    );
    let simulated = all(Simulation::new(same).was(world.registry.view()), &world);
    assert_eq!(simulated, [undetermined, undetermined, carried(Missing::Parent), REDECIDED]);
}

#[test]
fn parents_quarantine_counts_as_the_childs_own() {
    let (world, stats) = (World::new(), Arc::default());
    let gate = sub_gate(&world, Wanted::All, &stats);
    let agent = AgentId::new("support-bot").unwrap();
    stats.set_standing(&StandingRecord::new(start(), agent, StandingChange::Quarantined, "ada")).unwrap();
    assert_eq!(code(&gate, &search("c1")), Some(AgentQuarantined));
    assert_eq!(all(Simulation::new(world.registry.view()), &world), [REDECIDED]);
}
