//! Renewed sessions: new terms, and state that continues.

use std::sync::Arc;

use super::plan_world::{mail, run, start_plan, step};
use super::taken_up::Host;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{AuditError, AuditSink, MemorySink, Record, SessionRecord};
use countersign_core::*;
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::*;
use parking_lot::Mutex;

/// Negotiates a contract for the gate's session by the present registry, with only these tools if any are named.
fn anew(world: &World, gate: &ToolGate, tools: &[&str]) -> SessionContract {
    let old = gate.contract();
    let mut request = NegotiationRequest::new(old.session().clone(), old.agent().clone());
    if !tools.is_empty() {
        let tools = tools.iter().map(|name| ToolId::new("desk", name).unwrap());
        request = request.wanted_tools(Wanted::these(tools));
    }
    world.registry.negotiate(&request, world.clock.now().unwrap()).unwrap()
}

/// A pin for the whole session.
fn pin(world: &World) -> PinnedAsk {
    let session = SessionId::new("session-1").unwrap();
    PinnedAsk::pin(GOAL, &session, hour(), world.clock.now().unwrap()).unwrap()
}

fn builder(world: &World) -> ToolGateBuilder {
    world.full().pinned_ask(pin(world))
}

fn gate(world: &World) -> ToolGate {
    builder(world).open().unwrap()
}

fn renew(world: &World, gate: &ToolGate) {
    gate.renew(anew(world, gate, &[])).unwrap();
}

/// Advances the clock to the end of the contract.
fn end(world: &World) {
    world.clock.advance(hour()).unwrap();
}

/// Loads the world's registry as another version, with `from` replaced by `to`.
fn reload(world: &World, version: u64, from: &str, to: &str) {
    let draft = draft(version, NONE_REVOKED);
    assert!(draft.contains(from));
    let draft = RegistryDraft::from_json(draft.replace(from, to).as_bytes()).unwrap();
    let operator = countersign_keys::SigningKey::from_seed([7; 32]);
    let expires = start().checked_add(Millis::from_secs(86_400)).unwrap();
    let signed = draft.sign(start(), expires, &[&operator]).unwrap().to_json();
    world.registry.reload(signed.as_bytes(), world.clock.now().unwrap()).unwrap();
}

fn sessions(world: &World) -> Vec<SessionRecord> {
    let session = |record| if let Record::Session(session) = record { Some(session) } else { None };
    world.sink.latest().into_iter().filter_map(|(_, record)| session(record)).collect()
}

const fn pinned(id: &str) -> ToolCall<'_> {
    ToolCall::new(id, "desk", "pinned", b"{}")
}

#[test]
fn calls_pass_again_once_the_session_is_renewed() {
    let world = World::new();
    let gate = gate(&world);
    end(&world);
    assert_eq!(code(&gate, &search("a")), Some(ContractExpired));
    renew(&world, &gate);
    assert_eq!(code(&gate, &search("b")), None);
    end(&world);
    assert_eq!(code(&gate, &search("c")), Some(ContractExpired));
}

#[test]
fn renewal_is_recorded_as_one_of_the_same_session() {
    let world = World::new();
    let gate = gate(&world);
    end(&world);
    reload(&world, 2, r#"{"server": "desk", "name": "mail"}, "#, "");
    renew(&world, &gate);
    let [opened, renewed] = sessions(&world).try_into().unwrap();
    assert_eq!((opened.renewed, renewed.renewed), (false, true));
    assert!(!serde_json::to_string(&opened).unwrap().contains("renewed"));
    assert_eq!(
        (renewed.registry_version, renewed.time, renewed.narrowed),
        (2, gate.contract().issued(), false)
    );
    assert_eq!((renewed.expires, renewed.ask), (gate.contract().expires(), opened.ask));
    assert_eq!(renewed.tools.len() + 1, opened.tools.len());
    assert_eq!((renewed.session, renewed.agent), (opened.session, opened.agent));
}

#[test]
fn call_limits_count_over_renewals() {
    let world = World::new();
    let gate = world.capped();
    assert_eq!(code(&gate, &search("a")), None);
    end(&world);
    renew(&world, &gate);
    assert_eq!(code(&gate, &search("b")), None);
    renew(&world, &gate);
    assert_eq!(code(&gate, &search("c")), Some(CallLimit));
    reload(&world, 2, r#""max_calls": 2"#, r#""max_calls": 3"#);
    renew(&world, &gate);
    assert_eq!(code(&gate, &search("d")), None, "a greater limit is one on the sum");
    assert_eq!(code(&gate, &search("e")), Some(CallLimit));
    assert_eq!(gate.counts().accepted(), 3);
}

#[test]
fn rates_count_over_renewals() {
    let world = World::new();
    let gate = world.bare().open().unwrap();
    let scarce = |id| ToolCall::new(id, "desk", "scarce", b"{}");
    world.clock.advance(Millis::from_secs(3_590)).unwrap();
    assert_eq!((code(&gate, &scarce("a")), code(&gate, &scarce("b"))), (None, None));
    world.clock.advance(Millis::from_secs(20)).unwrap();
    renew(&world, &gate);
    assert_eq!(code(&gate, &scarce("c")), Some(RateLimit));
}

#[test]
fn removed_tool_is_not_renewed() {
    let world = World::new();
    let gate = gate(&world);
    end(&world);
    reload(
        &world,
        2,
        r#"{"server": "desk", "name": "search"}, {"server": "desk", "name": "refund"}"#,
        r#"{"server": "desk", "name": "refund"}"#,
    );
    renew(&world, &gate);
    assert_eq!(code(&gate, &search("a")), Some(UndisclosedTool));
    reload(&world, 3, r#""max_session": "1h""#, r#""max_session": "2h""#);
    assert_eq!(code(&gate, &search("b")), Some(UndisclosedTool), "until it is negotiated again");
    renew(&world, &gate);
    assert_eq!(code(&gate, &search("c")), None);
}

#[test]
fn contract_of_a_revoked_agent_is_refused() {
    let world = World::new();
    let gate = gate(&world);
    let contract = anew(&world, &gate, &[]);
    world.registry.revoke(gate.contract().agent());
    assert_eq!(gate.renew(contract).unwrap_err().code(), "AGENT_REVOKED");
}

#[test]
fn expired_contract_is_refused() {
    let world = World::new();
    let gate = gate(&world);
    let contract = anew(&world, &gate, &[]);
    end(&world);
    assert_eq!(gate.renew(contract).unwrap_err().code(), "CONTRACT_EXPIRED");
}

#[test]
fn contract_of_another_session_is_refused() {
    let world = World::new();
    let gate = gate(&world);
    let (session, capped) = (gate.contract().session().clone(), AgentId::new("capped-bot").unwrap());
    let other_agent = NegotiationRequest::new(session.clone(), capped);
    let child = NegotiationRequest::new(session, gate.contract().agent().clone());
    let contracts = [
        world.contract("session-2"),
        world.registry.negotiate(&other_agent, start()).unwrap(),
        world.registry.negotiate_under(&gate.contract(), &child, start()).unwrap(),
    ];
    for contract in contracts {
        assert_eq!(gate.renew(contract).unwrap_err().code(), "CONTRACT_OTHER_SESSION");
    }
    assert_eq!(sessions(&world).len(), 1);
}

#[test]
fn child_session_is_renewed_under_its_renewed_parent() {
    let world = World::new();
    let parent = gate(&world);
    let (session, agent) = (SessionId::new("session-2").unwrap(), AgentId::new("capped-bot").unwrap());
    let request = NegotiationRequest::new(session, agent);
    let under = |now| world.registry.negotiate_under(&parent.contract(), &request, now);
    let child = ToolGate::builder(
        Arc::clone(&world.registry),
        under(start()).unwrap(),
        Principal::new("ada@example.com").unwrap(),
        Arc::clone(&world.clock) as Arc<dyn Clock>,
        Arc::clone(&world.sink) as Arc<dyn AuditSink>,
    );
    let child = child.open().unwrap();
    assert_eq!(code(&child, &search("a")), None);
    end(&world);
    let now = world.clock.now().unwrap();
    assert_eq!(under(now).unwrap_err().code(), "CONTRACT_EXPIRED", "not under an ended one");
    renew(&world, &parent);
    assert_eq!(child.renew(anew(&world, &child, &[])).unwrap_err().code(), "CONTRACT_OTHER_SESSION");
    child.renew(under(now).unwrap()).unwrap();
    assert_eq!(code(&child, &search("b")), None);
    assert_eq!(code(&child, &search("c")), Some(CallLimit));
    assert_eq!(child.contract().expires(), parent.contract().expires());
}

/// A sink that fails on demand.
#[derive(Debug, Default)]
struct Failing(Mutex<bool>, MemorySink);

impl AuditSink for Failing {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        if *self.0.lock() { Err(AuditError::Poisoned) } else { self.1.record(record) }
    }
}

#[test]
fn unrecorded_renewal_changes_nothing() {
    let (world, sink) = (World::new(), Arc::new(Failing::default()));
    let gate =
        world.builder_with(Arc::clone(&sink) as Arc<dyn AuditSink>).pinned_ask(pin(&world)).open().unwrap();
    let (contract, pin) = (gate.contract(), gate.pinned_ask());
    end(&world);
    *sink.0.lock() = true;
    assert_eq!(gate.renew(anew(&world, &gate, &[])).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    *sink.0.lock() = false;
    assert_eq!((gate.contract(), gate.pinned_ask()), (contract, pin));
    assert_eq!(code(&gate, &search("a")), Some(ContractExpired));
    renew(&world, &gate);
    assert_eq!(code(&gate, &search("b")), None);
}

#[test]
fn pinned_goal_lasts_as_long_as_the_renewed_session() {
    let world = World::new();
    let gate = world.gate();
    let before = gate.pinned_ask().unwrap();
    world.clock.advance(Millis::from_secs(1_799)).unwrap();
    renew(&world, &gate);
    let pin = gate.pinned_ask().unwrap();
    assert_eq!(
        (pin.digest(), pin.issued(), pin.expires()),
        (before.digest(), before.issued(), gate.contract().expires())
    );
    let asking = |ask| ToolCall::new("a", "desk", "asking", b"{}").ask(ask);
    assert_eq!(code(&gate, &asking(GOAL)), None);
    assert_eq!(code(&gate, &asking("another goal")), Some(AskDrift));
}

#[test]
fn renewal_does_not_revive_an_expired_goal() {
    let world = World::new();
    let gate = world.gate();
    let before = gate.pinned_ask().unwrap();
    world.clock.advance(Millis::from_secs(1_800)).unwrap();
    let asking = ToolCall::new("a", "desk", "asking", b"{}").ask(GOAL);
    assert_eq!(code(&gate, &asking), Some(AskExpired));
    renew(&world, &gate);
    assert_eq!(gate.pinned_ask().unwrap().expires(), before.expires());
    assert_eq!(code(&gate, &asking), Some(AskExpired));
}

#[test]
fn renewal_does_not_revive_a_goal_that_outlived_its_contract() {
    let world = World::new();
    let session = SessionId::new("session-1").unwrap();
    let two_hours = Millis::from_secs(7_200);
    let pin = PinnedAsk::pin(GOAL, &session, two_hours, world.clock.now().unwrap()).unwrap();
    let gate = world.full().pinned_ask(pin.clone()).open().unwrap();
    world.clock.advance(two_hours).unwrap();
    renew(&world, &gate);
    assert_eq!(gate.pinned_ask().unwrap().expires(), pin.expires());
    let asking = ToolCall::new("a", "desk", "asking", b"{}").ask(GOAL);
    assert_eq!(code(&gate, &asking), Some(AskExpired));
}

#[test]
fn goal_that_ended_with_its_contract_is_renewed_with_it() {
    let world = World::new();
    let gate = gate(&world);
    assert_eq!(gate.pinned_ask().unwrap().expires(), gate.contract().expires());
    end(&world);
    renew(&world, &gate);
    assert_eq!(gate.pinned_ask().unwrap().expires(), gate.contract().expires());
}

#[test]
fn shorter_contract_does_not_end_late_renewals_of_the_goal() {
    let world = World::new();
    let gate = gate(&world);
    reload(&world, 2, r#""max_session": "1h""#, r#""max_session": "10m""#);
    renew(&world, &gate);
    assert!(gate.pinned_ask().unwrap().expires() > gate.contract().expires());
    end(&world);
    renew(&world, &gate);
    assert_eq!(gate.pinned_ask().unwrap().expires(), gate.contract().expires());
}

#[test]
fn approval_outlasts_a_renewal_until_its_own_end() {
    let world = World::new();
    let gate = gate(&world);
    world.clock.advance(Millis::from_secs(1_799)).unwrap();
    let (used, late) = (world.approve(&gate, &refund("a")), world.approve(&gate, &refund("b")));
    renew(&world, &gate);
    world.clock.advance(Millis::from_secs(299)).unwrap();
    let used = refund("a").approval(used.as_str());
    assert_eq!(code(&gate, &used), None);
    renew(&world, &gate);
    assert_eq!(code(&gate, &used), Some(ApprovalSpent));
    world.clock.advance(Millis::from_secs(1)).unwrap();
    assert_eq!(code(&gate, &refund("b").approval(late.as_str())), Some(ApprovalExpired));
}

#[test]
fn approval_does_not_outlast_its_registry() {
    let world = World::new();
    let gate = gate(&world);
    let token = world.approve(&gate, &refund("a"));
    world.reload(2, NONE_REVOKED);
    renew(&world, &gate);
    assert_eq!(code(&gate, &refund("a").approval(token.as_str())), Some(ApprovalInvalid));
}

#[test]
fn plan_goes_on_at_its_place() {
    let world = World::new();
    let gate = gate(&world);
    let steps = vec![
        step("search", r#"{"query":"T-1001"}"#),
        step("mail", std::str::from_utf8(super::plan_world::MAIL).unwrap()),
    ];
    let root = start_plan(&gate, steps).unwrap();
    assert_eq!(run(&gate, &search("a"), "{}"), None);
    end(&world);
    renew(&world, &gate);
    assert_eq!((gate.plan_root(), gate.plan_position()), (Some(root), Some(1)));
    assert_eq!(run(&gate, &mail("b"), "{}"), None);
    assert_eq!(run(&gate, &mail("c"), "{}"), Some(PlanExhausted));
}

#[test]
fn held_call_runs_where_the_new_contract_has_its_tool() {
    let world = World::new();
    let gate = gate(&world);
    let (first, second) = (gate.check(&search("a")).unwrap(), gate.check(&search("b")).unwrap());
    renew(&world, &gate);
    first.run(|_| Ok::<_, ()>(())).unwrap();
    gate.renew(anew(&world, &gate, &["mail"])).unwrap();
    assert_eq!(second.dispatch().unwrap_err().code(), UndisclosedTool);
}

#[test]
fn held_call_ends_with_the_contract_of_its_decision() {
    let world = World::new();
    let gate = gate(&world);
    let (first, second) = (gate.check(&search("a")).unwrap(), gate.check(&search("b")).unwrap());
    end(&world);
    assert_eq!(first.dispatch().unwrap_err().code(), ContractExpired);
    renew(&world, &gate);
    assert_eq!(second.dispatch().unwrap_err().code(), CallExpired);
}

#[test]
fn older_contract_renews_nothing() {
    let world = World::new();
    let gate = gate(&world);
    let older = anew(&world, &gate, &["search"]);
    end(&world);
    renew(&world, &gate);
    assert_eq!(gate.renew(older).unwrap_err().code(), "CONTRACT_OLDER");
}

#[test]
fn definition_of_a_dropped_tool_is_forgotten() {
    let world = World::new();
    let gate = gate(&world);
    let (tool, definition) = (ToolId::new("desk", "pinned").unwrap(), Digest::of(b"the pinned definition"));
    gate.note_definition(&tool, definition);
    renew(&world, &gate);
    assert_eq!(code(&gate, &pinned("a")), None, "one that stays is known");
    gate.renew(anew(&world, &gate, &["search"])).unwrap();
    gate.note_definition(&tool, definition);
    renew(&world, &gate);
    assert_eq!(code(&gate, &pinned("b")), Some(ToolDefinitionUnknown));
    gate.note_definition(&tool, definition);
    assert_eq!(code(&gate, &pinned("c")), None);
}

#[test]
fn new_tool_is_counted_as_one_of_the_registry() {
    let world = World::new();
    let gate = gate(&world);
    gate.renew(anew(&world, &gate, &["search"])).unwrap();
    renew(&world, &gate);
    let twin = ToolCall::new("a", "attic", "twin", b"{}");
    assert_eq!(code(&gate, &twin), None);
    assert_eq!(gate.stats().tool(&ToolId::new("attic", "twin").unwrap()).unwrap().accepted(), 1);
    assert_eq!(gate.stats().unknown_tools().total(), 0);
}

#[test]
fn renewal_does_not_end_a_replayed_alarm() {
    let host = Host::new(AlarmAction::Quarantine);
    let process = host.session(8);
    host.store().set(1);
    assert!(matches!(process.gate.observe(b"{"), Observed::Malformed(_)), "the ninth");
    renew(&host.world, &process.gate);
    drop(process);
    host.store().set(0);
    assert_eq!(host.store().list().unwrap(), []);
    host.try_take_up().unwrap();
    assert_eq!(host.store().list().unwrap().len(), 1);
}

#[test]
fn quarantine_holds_over_a_renewal() {
    let world = World::new();
    let gate = gate(&world);
    let agent = gate.contract().agent().clone();
    let change = countersign_audit_log::StandingRecord::new(
        start(),
        agent,
        countersign_audit_log::StandingChange::Quarantined,
        "ops",
    );
    gate.stats().set_standing(&change).unwrap();
    renew(&world, &gate);
    assert_eq!(code(&gate, &search("a")), Some(AgentQuarantined));
}
