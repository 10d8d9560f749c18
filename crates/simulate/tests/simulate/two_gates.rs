//! Random sessions of real gates with the same inputs under two registries, one of which is simulated.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::registries::{AGENTS, TOOLS, definition};
use super::world::{hour, keys, start};
use crate::*;
use countersign_approval_token::{MemorySpentTokens, MintTerms, mint};
use countersign_audit_log::*;
use countersign_core::*;
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::*;
use proptest::prelude::*;
use serde_json::json;

const ARGS: [&str; 5] = [
    r#"{"query":"T-1001"}"#,
    r#"{"to":"bob@customers.example","amount":7}"#,
    r#"{"to":"eve@elsewhere.example"}"#,
    r#"{"query":"C:\\desk\\\u0001 …"}"#,
    "{}",
];

/// One act of a host or an agent.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Open { slot: u8, agent: u8, narrow: Option<u8>, goal: u8, under: Option<u8> },
    Wait(u32),
    Call { slot: u8, by_name: bool, tool: u8, args: u8, ask: u8, step: bool, denied: bool },
    Observe { slot: u8, name: u8 },
    Define { slot: u8, tool: u8, definition: u8 },
    Stand { agent: u8, quarantined: bool },
    Malformed { slot: u8 },
    Renew { slot: u8, narrow: Option<u8> },
}

fn rarely() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.15)
}

fn act() -> impl Strategy<Value = Act> {
    let under = prop::option::weighted(0.4, 0_u8..3);
    let open = (0_u8..3, 0_u8..2, prop::option::weighted(0.3, 1_u8..32), 0_u8..3, under)
        .prop_map(|(slot, agent, narrow, goal, under)| Act::Open { slot, agent, narrow, goal, under });
    let call = (0_u8..3, any::<bool>(), 0_u8..6, 0_u8..5, 0_u8..6, rarely(), rarely()).prop_map(
        |(slot, by_name, tool, args, ask, step, denied)| Act::Call {
            slot,
            by_name,
            tool,
            args,
            ask,
            step,
            denied,
        },
    );
    prop_oneof![
        3 => open,
        24 => call,
        3 => prop_oneof![Just(1_u32), Just(20), Just(61), Just(700), Just(1_900)].prop_map(Act::Wait),
        2 => (0_u8..3, 0_u8..6).prop_map(|(slot, name)| Act::Observe { slot, name }),
        3 => (0_u8..3, 0_u8..5, 0_u8..3)
            .prop_map(|(slot, tool, definition)| Act::Define { slot, tool, definition }),
        1 => (0_u8..2, any::<bool>()).prop_map(|(agent, quarantined)| Act::Stand { agent, quarantined }),
        1 => (0_u8..3).prop_map(|slot| Act::Malformed { slot }),
        2 => (0_u8..3, prop::option::weighted(0.3, 1_u8..32))
            .prop_map(|(slot, narrow)| Act::Renew { slot, narrow }),
    ]
}

pub(super) fn acts() -> impl Strategy<Value = Vec<Act>> {
    let open = |slot| Act::Open { slot, agent: slot, narrow: None, goal: slot, under: None };
    prop::collection::vec(act(), 10..80)
        .prop_map(move |acts| [open(0), open(1)].into_iter().chain(acts).collect())
}

/// Answer to a call.
pub(super) type Given = Option<Answer>;

/// A process with gates of one registry.
pub(super) struct Host {
    pub(super) registry: Arc<CapabilityRegistry>,
    pub(super) sink: Arc<MemorySink>,
    clock: Arc<ManualClock>,
    stats: Arc<CallStats>,
    spent: Arc<MemorySpentTokens>,
    recorded: RecordedFields,
    /// By slot: the gate, or the code of the refused session.
    gates: BTreeMap<u8, Result<ToolGate, RejectionCode>>,
    sessions: u32,
    tokens: u64,
}

impl Host {
    pub(super) fn new(registry: Arc<CapabilityRegistry>, recorded: RecordedFields) -> Self {
        Self {
            registry,
            sink: Arc::new(MemorySink::new()),
            clock: Arc::new(ManualClock::new(start())),
            stats: Arc::default(),
            spent: Arc::new(MemorySpentTokens::new()),
            recorded,
            gates: BTreeMap::new(),
            sessions: 0,
            tokens: 0,
        }
    }

    /// Opens a session with all listed tools, or with those of `narrow` that are listed, for at most `most`, on its own
    /// or under the session of another slot. Returns its length.
    fn open(
        &mut self,
        slot: u8,
        agent: u8,
        narrow: Option<u8>,
        goal: u8,
        most: Option<Millis>,
        under: Option<u8>,
    ) -> Option<Millis> {
        self.sessions += 1;
        let parent = under.and_then(|parent| self.gates.get(&parent));
        let parent = match parent.map(|parent| parent.as_ref().map(|gate| gate.contract().clone())) {
            Some(Err(code)) => {
                let code = *code;
                self.gates.insert(slot, Err(code));
                return None;
            }
            Some(Ok(contract)) => Some(contract),
            None => None,
        };
        self.gates.remove(&slot);
        let agent = AgentId::new(AGENTS[usize::from(agent)]).unwrap();
        let session = SessionId::new(&format!("session-{}", self.sessions)).unwrap();
        let now = self.clock.now().unwrap();
        let view = self.registry.view();
        let mut request = NegotiationRequest::new(session.clone(), agent.clone());
        if let Some(entry) = view.snapshot().agent(&agent) {
            request = request.ttl(most.unwrap_or(hour()).min(entry.max_session()));
            if let Some(mask) = narrow {
                let wanted = tools_in(mask);
                let above = parent.as_ref().and_then(|parent| {
                    let above = view.snapshot().agent(parent.agent());
                    above.map(|above| (parent, above))
                });
                let open = |tool: &ToolId| {
                    entry.lists(tool)
                        && above.is_none_or(|(parent, above)| parent.discloses(tool) && above.lists(tool))
                };
                request = request.wanted_tools(Wanted::these(wanted.filter(open)));
            }
        }
        let negotiated = match &parent {
            Some(parent) => view.negotiate_under(parent, &request, now),
            None => view.negotiate(&request, now),
        };
        let contract = match negotiated {
            Ok(contract) => contract,
            Err(error) => {
                // A line that is too long is refused under both registries.
                if let Some(code) = RejectionCode::ALL.iter().find(|code| code.as_str() == error.code()) {
                    self.gates.insert(slot, Err(*code));
                }
                return None;
            }
        };
        let lasts = contract.expires().since(now);
        let mut builder = ToolGate::builder(
            Arc::clone(&self.registry),
            contract,
            Principal::new("ada@example.com").unwrap(),
            Arc::clone(&self.clock) as Arc<dyn Clock>,
            Arc::clone(&self.sink) as Arc<dyn AuditSink>,
        )
        .stats(Arc::clone(&self.stats))
        .recorded_fields(self.recorded.clone())
        .approvals(ApprovalSettings::new(
            keys("run-1"),
            Arc::clone(&self.spent) as Arc<dyn SpentTokens>,
            Audience::new("gate-1").unwrap(),
        ))
        .user_check("no wires of nothing", |call: &CheckedCall<'_>| {
            let is_empty = call.tool().name().as_str() == "wire" && call.args().as_str() == "{}";
            if is_empty { Err("nothing to wire".to_owned()) } else { Ok(()) }
        })
        .user_check("twins stay at home", |call: &CheckedCall<'_>| {
            let goes_out = call.tool().name().as_str() == "twin" && call.impact() == ImpactClass::External;
            if goes_out { Err("a twin that goes out".to_owned()) } else { Ok(()) }
        });
        if goal > 0 {
            let ttl = if goal == 1 { Millis::from_secs(1_000) } else { hour() };
            builder = builder.pinned_ask(PinnedAsk::pin("the goal", &session, ttl, now).unwrap());
        }
        self.gates.insert(slot, Ok(builder.open().unwrap()));
        Some(lasts)
    }

    /// Renews a session without ancestors, with all listed tools, or with those of `narrow` that are listed. Returns
    /// its length.
    fn renew(&mut self, slot: u8, narrow: Option<u8>, most: Option<Millis>) -> Option<Millis> {
        let Some(Ok(gate)) = self.gates.get(&slot) else { return None };
        let (old, now, view) = (gate.contract(), self.clock.now().unwrap(), self.registry.view());
        let entry = view.snapshot().agent(old.agent()).filter(|_| old.ancestors().is_empty())?;
        let mut request = NegotiationRequest::new(old.session().clone(), old.agent().clone())
            .ttl(most.unwrap_or(hour()).min(entry.max_session()));
        if let Some(mask) = narrow {
            request = request.wanted_tools(Wanted::these(tools_in(mask).filter(|tool| entry.lists(tool))));
        }
        let contract = view.negotiate(&request, now).ok()?;
        let lasts = contract.expires().since(now);
        gate.renew(contract).unwrap();
        Some(lasts)
    }

    /// The tools of a session as a mask, if the registry lists others for its agent.
    fn narrowed_to(&self, slot: u8) -> Option<u8> {
        let had = self.gates[&slot].as_ref().unwrap().contract();
        let view = self.registry.view();
        let is_narrowed = view.snapshot().agent(had.agent()).unwrap().tools() != had.tools();
        is_narrowed.then(|| mask_of(&had))
    }

    fn mint(&mut self, refused: &Rejection) -> String {
        self.tokens += 1;
        let terms = MintTerms::new(
            TokenId::new(&format!("token-{}", self.tokens)).unwrap(),
            OperatorId::new("grace@example.com").unwrap(),
            self.clock.now().unwrap(),
            Millis::from_secs(300),
        );
        let binding = refused.approval_request().unwrap().binding();
        mint(&keys("run-1"), binding, &terms, hour()).unwrap().as_str().to_owned()
    }

    /// Makes a call. If `again` says so, or only an approval is missing, makes it twice more with an approval.
    fn call(&mut self, slot: u8, call: &ToolCall<'_>, again: Option<bool>) -> Vec<Given> {
        let first = match self.gates.get(&slot) {
            None => return Vec::new(),
            Some(Err(code)) => {
                let given = Some(Answer::Refused(*code));
                return vec![given; if again == Some(true) { 3 } else { 1 }];
            }
            Some(Ok(gate)) => gate.check(call),
        };
        let mut given = vec![answer(&first)];
        let asks = given == [Some(Answer::Refused(RejectionCode::ApprovalRequired))];
        let mut approved = call.clone();
        let token = asks.then(|| self.mint(first.as_ref().unwrap_err()));
        if let Some(token) = &token {
            approved = approved.approval(token);
        }
        drop(first.map(|call| call.run(|_| Ok::<_, ()>(()))));
        if again.unwrap_or(asks) {
            let gate = self.gates[&slot].as_ref().unwrap();
            for _ in 0..2 {
                let accepted = gate.check(&approved);
                given.push(answer(&accepted));
                drop(accepted.map(|call| call.run(|_| Ok::<_, ()>(()))));
            }
        }
        given
    }
}

fn tools_in(mask: u8) -> impl Iterator<Item = ToolId> {
    let tools = TOOLS.iter().enumerate().filter(move |(place, _)| mask & (1 << place) != 0);
    tools.map(|(_, (server, name))| ToolId::new(server, name).unwrap())
}

fn mask_of(contract: &SessionContract) -> u8 {
    let had = TOOLS.iter().map(|(server, name)| contract.discloses(&ToolId::new(server, name).unwrap()));
    had.enumerate().fold(0, |mask, (place, had)| mask | (u8::from(had) << place))
}

fn answer(checked: &Result<AcceptedCall, Rejection>) -> Given {
    Some(match checked {
        Ok(_) => Answer::Accepted,
        Err(rejection) => Answer::Refused(rejection.code()),
    })
}

/// Plays the same acts at one host and, if given, at the other one: the same calls, equally often. For each recorded
/// decision of the first host, returns the other host's answer to the call (`None` if it has none).
pub(super) fn play(acts: &[Act], host: &mut Host, mut other: Option<&mut Host>) -> Vec<Given> {
    let mut all = Vec::new();
    for (number, act) in acts.iter().enumerate() {
        match act {
            Act::Open { slot, agent, narrow, goal, under } => {
                // A parent that is missing here is missing there.
                let under = under.filter(|parent| host.gates.contains_key(parent));
                // Without a recorded session, there is nothing to simulate.
                let Some(lasts) = host.open(*slot, *agent, *narrow, *goal, None, under) else {
                    host.gates.remove(slot);
                    if let Some(other) = &mut other {
                        other.sessions += 1;
                        other.gates.remove(slot);
                    }
                    continue;
                };
                if let Some(other) = &mut other {
                    let had = host.gates[slot].as_ref().unwrap().contract();
                    let narrow = match under {
                        None => host.narrowed_to(*slot),
                        Some(_) => narrow.map(|_| mask_of(&had)),
                    };
                    other.open(*slot, *agent, narrow, *goal, Some(lasts), under);
                }
            }
            Act::Renew { slot, narrow } => {
                let lasts = host.renew(*slot, *narrow, None);
                if let (Some(lasts), Some(other)) = (lasts, &mut other) {
                    other.renew(*slot, host.narrowed_to(*slot), Some(lasts));
                }
            }
            Act::Wait(seconds) => {
                host.clock.advance(Millis::from_secs(*seconds)).unwrap();
                if let Some(other) = &mut other {
                    other.clock.advance(Millis::from_secs(*seconds)).unwrap();
                }
            }
            Act::Call { slot, by_name, tool, args, ask, step, denied } => {
                let id = format!("call-{number}");
                let (server, name) = TOOLS.get(usize::from(*tool)).copied().unwrap_or(("desk", "delete_all"));
                let args = ARGS[usize::from(*args)].as_bytes();
                let mut call = ToolCall::new(&id, server, name, args);
                if *by_name {
                    call = ToolCall::by_name(&id, name, args);
                }
                call = match ask {
                    0 | 1 => call.ask("The  GOAL"),
                    2 => call.ask("another goal"),
                    _ => call,
                };
                if *step {
                    call = call.plan_step(1);
                }
                if *denied {
                    call = call.denied();
                }
                let given = host.call(*slot, &call, None);
                match &mut other {
                    None => all.extend(given),
                    Some(other) => {
                        let again = given.len() == 3;
                        let there = other.call(*slot, &call, Some(again));
                        assert_eq!(there.len(), given.len());
                        all.extend(there);
                    }
                }
            }
            Act::Observe { slot, name } => {
                let (_, name) = TOOLS.get(usize::from(*name)).copied().unwrap_or(("desk", "delete_all"));
                let raw = json!({"name": name, "arguments": {}}).to_string();
                let observe = |host: &Host| match host.gates.get(slot) {
                    None => None,
                    Some(Err(code)) => Some(Answer::Refused(*code)),
                    Some(Ok(gate)) => match gate.observe(raw.as_bytes()) {
                        Observed::Undisclosed(refusal) => Some(Answer::Refused(refusal.code())),
                        Observed::Disclosed | Observed::Malformed(_) | _ => None,
                    },
                };
                let Some(here) = observe(host) else { continue };
                all.push(other.as_ref().map_or(Some(here), |other| observe(other)));
            }
            Act::Define { slot, tool, definition: number } => {
                let (server, name) = TOOLS[usize::from(*tool)];
                for host in [Some(&*host), other.as_deref()].into_iter().flatten() {
                    if let Some(Ok(gate)) = host.gates.get(slot) {
                        gate.note_definition(&ToolId::new(server, name).unwrap(), definition(*number));
                    }
                }
            }
            Act::Stand { agent, quarantined } => {
                let agent = AgentId::new(AGENTS[usize::from(*agent)]).unwrap();
                let standing =
                    if *quarantined { StandingChange::Quarantined } else { StandingChange::Lifted };
                for host in [Some(&*host), other.as_deref()].into_iter().flatten() {
                    let now = host.clock.now().unwrap();
                    let change = StandingRecord::new(now, agent.clone(), standing, "grace");
                    host.stats.set_standing(&change).unwrap();
                }
            }
            Act::Malformed { slot } => {
                if let Some(Ok(gate)) = host.gates.get(slot) {
                    all.push(Some(Answer::Refused(gate.refuse_malformed("c", "not JSON").code())));
                }
            }
        }
    }
    all
}

/// All arguments of the tools in the mask.
pub(super) fn all_arguments(mask: u8) -> RecordedFields {
    let tools = TOOLS.iter().enumerate().filter(|(place, _)| mask & (1 << place) != 0);
    tools.fold(RecordedFields::new(), |fields, (_, (server, name))| {
        fields.field(ToolId::new(server, name).unwrap(), "").unwrap()
    })
}

/// Feeds all records; returns every decision with its simulated result.
pub(super) fn simulate(simulation: &mut Simulation, sink: &MemorySink) -> Vec<(CallRecord, Simulated)> {
    let latest = sink.latest();
    assert_eq!(latest.len() as u64, sink.count(), "nothing was dropped");
    let mut all = Vec::new();
    for (_, record) in latest {
        let simulated = simulation.feed(&record);
        if let Record::Decision(call) = record {
            all.push((call, simulated.unwrap()));
        } else {
            assert_eq!(simulated, None);
        }
    }
    all
}
