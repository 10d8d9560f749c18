use std::sync::Arc;

use super::plan_world::{mail, run, start_plan, step, steps};
use super::proposal_world::{Draft, verifier};
use super::registries::load_draft;
use super::two_gates::simulate;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::*;
use countersign_core::*;
use countersign_registry::{NegotiationRequest, RegistryView};

pub(super) const DAY: Millis = Millis::from_secs(86_400);
pub(super) const REDECIDED: Simulated = Simulated::Same(Basis::Redecided);

pub(super) const fn carried(missing: Missing) -> Simulated {
    Simulated::Same(Basis::Carried(missing))
}

pub(super) const fn changed(recorded: Answer, now: Answer, basis: Basis) -> Simulated {
    Simulated::Changed { recorded, now, basis }
}

/// The world's registry as another version, with `from` replaced by `to`.
pub(super) fn other(version: u64, from: &str, to: &str) -> Arc<RegistryView> {
    let draft = draft(version, NONE_REVOKED);
    assert!(draft.contains(from));
    load_draft(&draft.replace(from, to), DAY).view()
}

pub(super) fn all(mut simulation: Simulation, world: &World) -> Vec<Simulated> {
    simulate(&mut simulation, &world.sink).into_iter().map(|(_, simulated)| simulated).collect()
}

pub(super) fn fields(name: &str) -> RecordedFields {
    RecordedFields::new().field(ToolId::new("desk", name).unwrap(), "").unwrap()
}

#[test]
fn new_approval_rule_refuses_only_unapproved_calls() {
    let world = World::new();
    let gate = world.full().recorded_fields(fields("search")).open().unwrap();
    assert_eq!(code(&gate, &search("c1")), None);
    let token = world.approve(&gate, &refund("c2"));
    assert_eq!(code(&gate, &refund("c2").approval(token.as_str())), None);
    let asks = other(
        2,
        r#""impact": "read", "approval": "not_required""#,
        r#""impact": "read", "approval": "each_call""#,
    );
    let refused = Answer::Refused(ApprovalRequired);
    let now = changed(Answer::Accepted, refused, Basis::Redecided);
    let had = carried(Missing::Arguments);
    let known = Simulation::new(asks).was(world.registry.view());
    assert_eq!(all(known, &world), [now, had, had]);
}

#[test]
fn dropped_approval_rule_accepts_unless_a_host_may_refuse() {
    let world = World::new();
    let gate = world.full().recorded_fields(fields("refund")).open().unwrap();
    world.approve(&gate, &refund("c1"));
    let free = other(
        2,
        r#""impact": "money", "approval": "required""#,
        r#""impact": "money", "approval": "not_required""#,
    );
    let simulation = || Simulation::new(Arc::clone(&free));
    assert_eq!(all(simulation(), &world), [Simulated::Undetermined(Missing::Checks)]);
    let passes = changed(Answer::Refused(ApprovalRequired), Answer::Accepted, Basis::Redecided);
    assert_eq!(all(simulation().host_checks(HostChecks::None), &world), [passes]);
}

#[test]
fn host_check_of_a_worse_tool_is_undetermined() {
    let world = World::new();
    let gate = world.full().recorded_fields(fields("search")).open().unwrap();
    assert_eq!(code(&gate, &search("c1")), None);
    let from = r#""name": "search", "impact": "read""#;
    let worse = other(2, from, r#""name": "search", "impact": "external""#);
    let simulation = || Simulation::new(Arc::clone(&worse));
    assert_eq!(all(simulation(), &world), [Simulated::Undetermined(Missing::Checks)]);
    assert_eq!(all(simulation().host_checks(HostChecks::None), &world), [REDECIDED]);
}

#[test]
fn newly_revoked_key_makes_an_approval_undetermined() {
    let world = World::new();
    let gate = world.full().recorded_fields(fields("refund")).open().unwrap();
    let token = world.approve(&gate, &refund("c1"));
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), None);
    let revoking = draft(2, r#"{"agents": [], "keys": ["some-key"], "snapshots": []}"#);
    let view = load_draft(&revoking, DAY).view();
    let simulated = all(Simulation::new(Arc::clone(&view)).was(world.registry.view()), &world);
    assert_eq!(simulated, [REDECIDED, Simulated::Undetermined(Missing::Approval)]);
    // The key was revoked before this approval.
    world.reload(2, r#"{"agents": [], "keys": ["some-key"], "snapshots": []}"#);
    let token = world.approve(&gate, &refund("c2"));
    assert_eq!(code(&gate, &refund("c2").approval(token.as_str())), None);
    let next = load_draft(&revoking.replace(r#""version": 2"#, r#""version": 3"#), DAY).view();
    let simulated = all(Simulation::new(next).was(view), &world);
    assert_eq!(simulated[2..], [REDECIDED, carried(Missing::Approval)]);
}

#[test]
fn answer_without_arguments_carries_over_under_equal_rules() {
    let world = World::new();
    let gate = world.gate();
    assert_eq!(code(&gate, &search("c1")), None);
    assert_eq!(code(&gate, &ToolCall::new("c2", "desk", "search", br#"{"q":1}"#)), Some(ArgsSchema));
    let same = other(2, "customers.example", "clients.example");
    let undetermined = Simulated::Undetermined(Missing::Arguments);
    assert_eq!(all(Simulation::new(Arc::clone(&same)), &world), [undetermined; 2]);
    let was = |other| Simulation::new(other).was(world.registry.view());
    assert_eq!(all(was(same), &world), [carried(Missing::Arguments); 2]);
    let looser = other(2, r#""query": {"type": "string"}"#, r#""query": {}"#);
    assert_eq!(all(was(looser), &world), [undetermined; 2]);
}

#[test]
fn arguments_that_are_cut_or_not_those_of_the_digest_are_none() {
    let world = World::new();
    let gate = world.full().recorded_fields(fields("search")).open().unwrap();
    let long = format!(r#"{{"query":"{}"}}"#, "x".repeat(5_000));
    assert_eq!(code(&gate, &ToolCall::new("c1", "desk", "search", long.as_bytes())), None);
    assert_eq!(code(&gate, &search("c2")), None);
    let next = other(2, "customers.example", "clients.example");
    let simulated = all(Simulation::new(Arc::clone(&next)), &world);
    assert_eq!(simulated, [Simulated::Undetermined(Missing::Arguments), REDECIDED]);
    let mut simulation = Simulation::new(next);
    for (_, mut record) in world.sink.latest() {
        if let Record::Decision(call) = &mut record {
            call.values = RecordedValues::new([("", r#"{"query":"another"}"#)]);
        }
        let simulated = simulation.feed(&record);
        assert!(simulated.is_none_or(|simulated| simulated == Simulated::Undetermined(Missing::Arguments)));
    }
}

#[test]
fn call_by_bare_name_is_undetermined_if_ambiguous() {
    let both = r#"{"server": "desk", "name": "twin"}, {"server": "attic", "name": "twin"}"#;
    let lists = |version, tools: &str| {
        let draft = draft(version, NONE_REVOKED);
        assert!(draft.contains(both));
        load_draft(&draft.replace(both, tools), DAY)
    };
    let mut world = World::new();
    world.registry = lists(1, r#"{"server": "desk", "name": "twin"}"#);
    let twin = RecordedFields::new().field(ToolId::new("desk", "twin").unwrap(), "").unwrap();
    let gate = world.full().recorded_fields(twin.clone()).open().unwrap();
    assert_eq!(code(&gate, &ToolCall::by_name("c1", "twin", b"{}")), None);
    let two = lists(2, both).view();
    let unclear = Simulated::Undetermined(Missing::Server);
    assert_eq!(all(Simulation::new(Arc::clone(&two)), &world), [unclear]);
    assert_eq!(
        all(Simulation::new(lists(2, r#"{"server": "attic", "name": "twin"}"#).view()), &world),
        [unclear]
    );
    assert_eq!(
        all(Simulation::new(lists(2, r#"{"server": "desk", "name": "twin"}"#).view()), &world),
        [REDECIDED]
    );
    // With two such tools, the call gave the server's name.
    let mut world = World::new();
    world.registry = lists(1, both);
    let gate = world.full().recorded_fields(twin).open().unwrap();
    assert_eq!(code(&gate, &ToolCall::new("c1", "desk", "twin", b"{}")), None);
    assert_eq!(
        all(Simulation::new(lists(2, r#"{"server": "desk", "name": "twin"}"#).view()), &world),
        [REDECIDED]
    );
}

#[test]
fn registry_age_counts_under_its_own_version_alone() {
    let world = World::new();
    let short = sign(2, NONE_REVOKED, Millis::from_secs(60));
    world.registry.reload(&short, start()).unwrap();
    let gate = world.full().recorded_fields(fields("search")).open().unwrap();
    assert_eq!(code(&gate, &search("c1")), None);
    world.clock.advance(Millis::from_secs(60)).unwrap();
    assert_eq!(code(&gate, &search("c2")), Some(RegistryStale));
    assert_eq!(all(Simulation::new(world.registry.view()), &world), [REDECIDED; 2]);
    // This registry expired before the first call, but counts as in force. The inputs of the second call are not
    // recorded.
    let long_gone = load_draft(&draft(3, NONE_REVOKED), Millis::from_secs(1)).view();
    let late = World::new();
    late.clock.advance(Millis::from_secs(60)).unwrap();
    let gate = late.full().recorded_fields(fields("search")).open().unwrap();
    assert_eq!(code(&gate, &search("c1")), None);
    assert_eq!(all(Simulation::new(Arc::clone(&long_gone)), &late), [REDECIDED]);
    let undetermined = Simulated::Undetermined(Missing::Arguments);
    assert_eq!(all(Simulation::new(long_gone), &world), [REDECIDED, undetermined]);
}

#[test]
fn sessions_that_are_over_are_dropped_first_and_then_the_oldest() {
    let world = World::new();
    let open = |session: &str, seconds: u32| {
        let (session, agent) = (SessionId::new(session).unwrap(), AgentId::new("support-bot").unwrap());
        let request = NegotiationRequest::new(session, agent).ttl(Millis::from_secs(seconds));
        let contract = world.registry.negotiate(&request, world.clock.now().unwrap()).unwrap();
        let (clock, sink) =
            (Arc::clone(&world.clock) as Arc<dyn Clock>, Arc::clone(&world.sink) as Arc<dyn AuditSink>);
        let principal = Principal::new("ada@example.com").unwrap();
        ToolGate::builder(Arc::clone(&world.registry), contract, principal, clock, sink).open().unwrap()
    };
    let (first, second) = (open("s1", 3_600), open("s2", 600));
    world.clock.advance(Millis::from_secs(600)).unwrap();
    // The second session has just expired, and is dropped first.
    let third = open("s3", 3_600);
    for (gate, id) in [(&first, "c1"), (&second, "c2"), (&third, "c3")] {
        let _ = code(gate, &ToolCall::new(id, "desk", "delete_all", b"{}"));
    }
    let gone = Simulated::Undetermined(Missing::Session);
    let most = |most| all(Simulation::new(world.registry.view()).max_sessions(most), &world);
    assert_eq!(most(3), [REDECIDED; 3]);
    assert_eq!(most(2), [REDECIDED, gone, REDECIDED]);
    assert_eq!(most(1), [gone, gone, REDECIDED]);
    assert_eq!(most(0), [gone, gone, REDECIDED]);
}

#[test]
fn session_without_a_recorded_start_is_undetermined() {
    let world = World::new();
    let gate = world.gate();
    let _ = code(&gate, &search("c1"));
    let mut simulation = Simulation::new(world.registry.view());
    let decision = world.sink.latest().remove(1).1;
    assert_eq!(simulation.feed(&decision), Some(Simulated::Undetermined(Missing::Session)));
}

#[test]
fn registry_revocation_is_distinguished_from_the_hosts() {
    let world = World::new();
    let gate = world.gate();
    world.reload(2, r#"{"agents": ["support-bot"], "keys": [], "snapshots": []}"#);
    assert_eq!(code(&gate, &search("c1")), Some(AgentRevoked));
    let by_registry = world.registry.view();
    let next = other(3, "customers.example", "clients.example");
    assert_eq!(all(Simulation::new(Arc::clone(&next)), &world), [Simulated::Undetermined(Missing::Registry)]);
    // It would have passed step 1; the result of the later steps is not recorded.
    let was = Simulation::new(Arc::clone(&next)).was(by_registry);
    assert_eq!(all(was, &world), [Simulated::Undetermined(Missing::Arguments)]);

    let world = World::new();
    let gate = world.gate();
    let view = world.registry.view();
    world.registry.revoke(&AgentId::new("support-bot").unwrap());
    assert_eq!(code(&gate, &search("c1")), Some(AgentRevoked));
    assert_eq!(all(Simulation::new(Arc::clone(&view)), &world), [carried(Missing::Host)]);
    assert_eq!(all(Simulation::new(next).was(view), &world), [carried(Missing::Host)]);
}

#[test]
fn quarantine_is_unchanged_under_another_registry() {
    let world = World::new();
    let stats = Arc::new(CallStats::new());
    let gate = world.full().stats(Arc::clone(&stats)).open().unwrap();
    let agent = AgentId::new("support-bot").unwrap();
    stats.set_standing(&StandingRecord::new(start(), agent, StandingChange::Quarantined, "grace")).unwrap();
    assert_eq!(code(&gate, &search("c1")), Some(AgentQuarantined));
    let next = other(2, "customers.example", "clients.example");
    assert_eq!(all(Simulation::new(Arc::clone(&next)), &world), [REDECIDED]);
    let mut simulation = Simulation::new(Arc::clone(&next));
    let records = world.sink.latest();
    let unsaid = records.iter().filter(|(_, record)| !matches!(record, Record::Standing(_)));
    let last = unsaid.filter_map(|(_, record)| simulation.feed(record)).last();
    assert_eq!(last, Some(carried(Missing::Host)));
}

#[test]
fn a_plan_is_held_against_its_own_registry_alone() {
    let world = World::new();
    let gate = world.gate();
    start_plan(&gate, steps()).unwrap();
    assert_eq!(run(&gate, &search("c1"), "found"), None);
    assert_eq!(run(&gate, &mail("c2"), "sent"), Some(PlanOutOfOrder));
    let same = all(Simulation::new(world.registry.view()), &world);
    assert_eq!(same, [carried(Missing::Plan), carried(Missing::Arguments), carried(Missing::Arguments)]);
    let next = other(2, "customers.example", "clients.example");
    let simulated = all(Simulation::new(next).was(world.registry.view()), &world);
    let undetermined = Simulated::Undetermined;
    assert_eq!(simulated[..2], [undetermined(Missing::Plan); 2]);
    assert_eq!(simulated[2], undetermined(Missing::Arguments), "other constraints");

    // Steps of a plan use up the limits of calls, too.
    let world = World::new();
    let gate = world.full().recorded_fields(fields("scarce")).open().unwrap();
    start_plan(&gate, ["{}", "{}", "{}"].map(|args| step("scarce", args)).into()).unwrap();
    let scarce = |id| run(&gate, &ToolCall::new(id, "desk", "scarce", b"{}"), "found");
    assert_eq!(["c1", "c2", "c3"].map(scarce), [None, None, Some(RateLimit)]);
    let plan = carried(Missing::Plan);
    assert_eq!(all(Simulation::new(world.registry.view()), &world), [plan, plan, plan, REDECIDED]);
}

#[test]
fn simulation_keeps_the_slot_of_an_examined_proposal() {
    let world = World::new();
    let settings =
        ProposalSettings::new(Arc::new(verifier().build().unwrap()), Arc::clone(&world.spent) as _);
    let gate = world.bare().proposals(settings).recorded_fields(fields("scarce")).open().unwrap();
    let scarce = |id| ToolCall::new(id, "desk", "scarce", b"{}");
    let bad = Draft::wire().json();
    let given: Vec<_> = ["c1", "c2", "c3"].map(|id| code(&gate, &scarce(id).proposal(&bad))).into();
    assert_eq!(given, [Some(PicToolBindingMismatch), Some(PicToolBindingMismatch), Some(RateLimit)]);
    let proposal = carried(Missing::Proposal);
    assert_eq!(all(Simulation::new(world.registry.view()), &world), [proposal, proposal, REDECIDED]);
    // Without the rate, the third proposal would have been examined, too.
    let free = other(2, r#", "rate": {"calls": 2, "per": "1m"}"#, "");
    let simulated = all(Simulation::new(free).was(world.registry.view()), &world);
    assert_eq!(simulated, [proposal, proposal, Simulated::Undetermined(Missing::Goal)]);
    // With a stricter impact, the checks that would have run are unknown.
    let worse = other(2, r#""name": "scarce", "impact": "read""#, r#""name": "scarce", "impact": "write""#);
    let simulated = all(Simulation::new(worse).was(world.registry.view()), &world);
    assert_eq!(simulated[0], Simulated::Undetermined(Missing::Proposal));
}

#[test]
fn concurrent_calls_are_never_reported_as_changed() {
    let world = World::new();
    let gate = world.full().recorded_fields(fields("scarce")).open().unwrap();
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let gate = &gate;
            threads.spawn(move || {
                for call in 0..50 {
                    let id = format!("c{thread}-{call}");
                    let _ = code(gate, &ToolCall::new(&id, "desk", "scarce", b"{}"));
                    let _ = code(gate, &ToolCall::new(&id, "desk", "scarce", b"{}").ask("another goal"));
                }
            });
        }
    });
    let simulated = all(Simulation::new(world.registry.view()), &world);
    assert_eq!(simulated.len(), 400);
    assert!(simulated.iter().all(|it| matches!(it, Simulated::Same(_))), "{simulated:?}");
}

#[test]
fn unknown_code_or_fault_is_never_redecided() {
    let world = World::new();
    let gate = world.gate();
    assert_eq!(code(&gate, &search("c1")), None);
    let next = other(2, "customers.example", "clients.example");
    for (text, missing) in [("NEW_CODE", Missing::Code), ("INTERNAL", Missing::Host)] {
        let mut records = world.sink.latest();
        let Record::Decision(call) = &mut records[1].1 else { panic!("a decision") };
        (call.verdict, call.code) = (Verdict::Reject, Some(text.into()));
        let last = |registry: &Arc<RegistryView>| {
            let mut simulation = Simulation::new(Arc::clone(registry));
            records.iter().filter_map(|(_, record)| simulation.feed(record)).last()
        };
        assert_eq!(last(&next), Some(Simulated::Undetermined(missing)));
        assert_eq!(last(&world.registry.view()), Some(carried(missing)));
    }
}

#[test]
fn changed_answer_shifts_the_limits_of_later_calls() {
    let world = World::new();
    let gate = world.full().recorded_fields(fields("scarce")).open().unwrap();
    for id in ["c1", "c2", "c3"] {
        let _ = code(&gate, &ToolCall::new(id, "desk", "scarce", b"{}").ask(GOAL));
    }
    let fewer = other(2, r#""rate": {"calls": 2, "per": "1m"}"#, r#""rate": {"calls": 1, "per": "1m"}"#);
    let late = changed(Answer::Accepted, Answer::Refused(RateLimit), Basis::Redecided);
    assert_eq!(all(Simulation::new(fewer), &world), [REDECIDED, late, REDECIDED]);
    let once = other(2, r#""limits": {"max_calls": 3, "#, r#""limits": {"max_calls": 1, "#);
    let simulated = all(Simulation::new(once), &world);
    let over = |recorded| changed(recorded, Answer::Refused(CallLimit), Basis::Redecided);
    assert_eq!(simulated, [REDECIDED, over(Answer::Accepted), over(Answer::Refused(RateLimit))]);
}
