//! Stored quarantines: by the alarm and by operators, over processes, and with a failing store or record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use super::plan_world::{start_plan, steps};
use super::signals::{agent, misfit, standing};
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::{
    AuditError, AuditSink, CallRecord, MemorySink, Record, StandingChange, StandingRecord,
};
use countersign_core::*;
use countersign_registry::NegotiationRequest;
use proptest::prelude::*;

/// A store that can be set to work, fail or panic.
#[derive(Debug, Default)]
pub(super) struct Unsteady {
    inner: MemoryQuarantines,
    trouble: AtomicU8,
}

impl Unsteady {
    pub(super) fn set(&self, trouble: u8) {
        self.trouble.store(trouble, Ordering::SeqCst);
    }

    fn strike(&self) -> Result<(), QuarantineError> {
        match self.trouble.load(Ordering::SeqCst) {
            0 => Ok(()),
            1 => Err(QuarantineError::Unavailable("injected".into())),
            _ => panic!("injected"),
        }
    }
}

impl Quarantines for Unsteady {
    fn latest(&self, agent: &AgentId) -> Result<Option<KeptStanding>, QuarantineError> {
        self.strike()?;
        self.inner.latest(agent)
    }

    fn change(&self, change: &StandingRecord) -> Result<Standing, QuarantineError> {
        self.strike()?;
        self.inner.change(change)
    }

    fn list(&self) -> Result<Vec<StandingRecord>, QuarantineError> {
        self.strike()?;
        self.inner.list()
    }
}

/// One process of a host: its own counts over the shared store, a gate, and its record.
struct Process {
    stats: Arc<CallStats>,
    gate: ToolGate,
    sink: Arc<MemorySink>,
}

impl Process {
    fn start(world: &World, store: &Arc<Unsteady>) -> Self {
        let store = Arc::clone(store) as Arc<dyn Quarantines>;
        let stats = CallStats::new().alarm(AlarmRule::default(), AlarmAction::Quarantine).kept_in(store);
        let (stats, sink) = (Arc::new(stats), Arc::new(MemorySink::keeping(100_000)));
        let builder = world.builder_with(Arc::clone(&sink) as Arc<dyn AuditSink>);
        let gate = builder.pinned_ask(world.pin()).stats(Arc::clone(&stats)).open().unwrap();
        Self { stats, gate, sink }
    }

    fn search(&self) -> Option<RejectionCode> {
        code(&self.gate, &search("c"))
    }

    fn raise(&self) {
        for _ in 0..9 {
            assert_eq!(code(&self.gate, &misfit("c")), Some(ArgsSchema));
        }
    }

    fn records(&self) -> Vec<Record> {
        self.sink.latest().into_iter().map(|(_, record)| record).collect()
    }

    /// Recorded changes of the agent's standing in this process, with their authors.
    fn told(&self) -> Vec<(StandingChange, String)> {
        let told = |record| {
            let Record::Standing(change) = record else { return None };
            Some((change.standing, change.by.as_str().to_owned()))
        };
        self.records().into_iter().filter_map(told).collect()
    }

    fn last_decision(&self) -> CallRecord {
        self.gate.call_log().pop().unwrap()
    }
}

fn change(store: &Unsteady, change: StandingChange, by: &str) -> Standing {
    store.inner.change(&standing(&agent(), change, by)).unwrap()
}

use StandingChange::{Lifted, Quarantined};

#[test]
fn alarm_quarantine_holds_in_all_processes_until_lifted() {
    let (world, store) = (World::new(), Arc::new(Unsteady::default()));
    let [first, second] = [(); 2].map(|()| Process::start(&world, &store));
    assert_eq!(second.search(), None);
    first.raise();
    let kept = store.latest(&agent()).unwrap().unwrap().change;
    assert_eq!((kept.standing, kept.by.as_str()), (Quarantined, BY_ALARM));
    let reason = kept.reason.as_ref().unwrap().as_str();
    let expected = "the drop alarm was raised (rule: from 0.9 to 0.7, one false alarm in 10000 decisions)";
    assert_eq!(reason, expected, "the rule, and nothing that was measured");
    assert_eq!(second.search(), Some(AgentQuarantined));
    drop(first);
    let third = Process::start(&world, &store);
    assert_eq!(
        (third.search(), third.stats.standing(&agent())),
        (Some(AgentQuarantined), Standing::Quarantined)
    );
    assert_eq!(third.last_decision().reason.unwrap().as_str(), "it is quarantined");
    let refused = start_plan(&third.gate, steps()).unwrap_err();
    assert_eq!(refused.code(), "AGENT_QUARANTINED");
    assert_eq!(change(&store, Lifted, "ada"), Standing::Quarantined);
    for process in [&second, &third] {
        assert_eq!(process.search(), None);
        assert_eq!(process.told(), [(Quarantined, BY_ALARM.to_owned()), (Lifted, "ada".to_owned())]);
    }
    assert_eq!(Process::start(&world, &store).search(), None);
}

#[test]
fn operators_change_applies_at_the_next_call() {
    let (world, store) = (World::new(), Arc::new(Unsteady::default()));
    let process = Process::start(&world, &store);
    for _ in 0..8 {
        assert_eq!(code(&process.gate, &misfit("c")), Some(ArgsSchema));
    }
    assert!(process.stats.snapshot().agents[0].alarm_level > 0.9);
    change(&store, Quarantined, "ada");
    assert_eq!(process.search(), Some(AgentQuarantined));
    change(&store, Lifted, "grace");
    assert_eq!(process.search(), None);
    let shown = &process.stats.snapshot().agents[0];
    assert_eq!((shown.alarm_level, shown.alarm, shown.standing), (0.0, AlarmState::Steady, Standing::Free));
    process.raise();
    assert_eq!(process.search(), Some(AgentQuarantined), "and it can be raised again");
}

#[test]
fn change_is_recorded_once_before_the_next_answer() {
    let (world, store) = (World::new(), Arc::new(Unsteady::default()));
    let process = Process::start(&world, &store);
    process.raise();
    let told = |record: &Record| matches!(record, Record::Standing(_));
    assert!(told(process.records().last().unwrap()), "the alarm's is there before anything else is asked");
    world.clock.advance(Millis::from_secs(5)).unwrap();
    change(&store, Lifted, "ada");
    change(&store, Quarantined, "grace");
    for _ in 0..3 {
        assert_eq!(process.search(), Some(AgentQuarantined));
    }
    let records = process.records();
    let [.., Record::Standing(grace), Record::Decision(_), Record::Decision(_), Record::Decision(_)] =
        records.as_slice()
    else {
        panic!("{records:?}");
    };
    assert_eq!(grace.time, world.clock.now().unwrap(), "when the gate learnt of it");
    assert_eq!(
        process.told(),
        [(Quarantined, BY_ALARM.to_owned()), (Quarantined, "grace".to_owned())],
        "of what came and went between two calls, the last is told"
    );
    let fresh = Process::start(&world, &store);
    change(&store, Lifted, "ada");
    assert_eq!((fresh.search(), fresh.told().len()), (None, 0), "that an agent may call is nothing to tell");
}

#[test]
fn new_session_records_its_own_or_its_parents_quarantine() {
    let world = World::new();
    let parent = world.bare().open().unwrap();
    let request =
        NegotiationRequest::new(SessionId::new("session-2").unwrap(), AgentId::new("capped-bot").unwrap());
    let contract = world.registry.negotiate_under(&parent.contract(), &request, start()).unwrap();
    parent.stats().set_standing(&standing(&agent(), Quarantined, "ada")).unwrap();
    for contract in [world.contract("session-3"), contract] {
        let sink = Arc::new(MemorySink::new());
        let (clock, by) =
            (Arc::clone(&world.clock) as Arc<dyn Clock>, Principal::new("ada@example.com").unwrap());
        let record = Arc::clone(&sink) as Arc<dyn AuditSink>;
        let builder = ToolGate::builder(Arc::clone(&world.registry), contract, by, clock, record);
        let gate = builder.stats(Arc::clone(parent.stats())).open().unwrap();
        assert_eq!(code(&gate, &search("c")), Some(AgentQuarantined));
        let records: Vec<_> = sink.latest().into_iter().map(|(_, record)| record).collect();
        let [Record::Session(_), Record::Standing(told), Record::Decision(_)] = records.as_slice() else {
            panic!("{records:?}");
        };
        assert_eq!((&told.agent, told.standing), (&agent(), Quarantined));
    }
}

#[test]
fn a_host_changes_how_an_agent_stands_here_and_in_the_store() {
    let (world, store) = (World::new(), Arc::new(Unsteady::default()));
    let [first, second] = [(); 2].map(|()| Process::start(&world, &store));
    let quarantine = standing(&agent(), Quarantined, "host");
    let lift = standing(&agent(), Lifted, "host");
    assert_eq!(first.stats.set_standing(&quarantine).unwrap(), Standing::Free);
    assert_eq!(
        second.stats.set_standing(&standing(&agent(), Quarantined, "late")).unwrap(),
        Standing::Quarantined
    );
    assert_eq!(store.list().unwrap(), std::slice::from_ref(&quarantine), "the first stays on record");
    for process in [&first, &second] {
        assert_eq!(process.search(), Some(AgentQuarantined));
        assert_eq!(process.told(), [(Quarantined, "host".to_owned())]);
    }
    assert_eq!(second.stats.set_standing(&lift).unwrap(), Standing::Quarantined);
    assert_eq!(first.stats.set_standing(&lift).unwrap(), Standing::Free);
    assert_eq!((first.search(), second.search()), (None, None));
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn unreadable_store_refuses_with_a_recorded_reason() {
    let (world, store) = (World::new(), Arc::new(Unsteady::default()));
    let process = Process::start(&world, &store);
    for trouble in [1, 2] {
        assert_eq!(process.search(), None);
        store.set(trouble);
        assert_eq!(process.search(), Some(AgentQuarantined));
        let reason = process.last_decision().reason.unwrap();
        let wanted = "whether it is quarantined is unknown: quarantines cannot be looked up or kept";
        assert_eq!(reason.as_str(), wanted);
        assert_eq!(start_plan(&process.gate, steps()).unwrap_err().code(), "AGENT_QUARANTINED");
        assert_eq!(process.last_decision().reason.unwrap().as_str(), wanted);
        store.set(0);
    }
    assert_eq!((process.search(), process.told().len()), (None, 0), "nobody was quarantined");
    assert_eq!(process.stats.snapshot().agents[0].alarm_level, 0.0, "nor is it held against the agent");
}

#[test]
fn unstored_quarantine_holds_while_an_unstored_lift_fails() {
    let (world, store) = (World::new(), Arc::new(Unsteady::default()));
    let process = Process::start(&world, &store);
    for _ in 0..8 {
        assert_eq!(code(&process.gate, &misfit("c")), Some(ArgsSchema));
    }
    store.set(1);
    assert!(matches!(process.gate.observe(b"{"), Observed::Malformed(_)), "the ninth raises the alarm");
    assert_eq!(process.stats.standing(&agent()), Standing::Quarantined);
    assert_eq!(store.inner.list().unwrap(), []);
    let refused = process.stats.set_standing(&standing(&agent(), Lifted, "ada")).unwrap_err();
    assert_eq!(refused.code(), "STORE_UNAVAILABLE");
    assert_eq!(process.search(), Some(AgentQuarantined));
    store.set(0);
    assert_eq!(process.search(), Some(AgentQuarantined));
    assert_eq!(store.list().unwrap().len(), 1, "kept at the first call that could");
    assert_eq!(process.told().len(), 1);
    store.set(1);
    let again = process.stats.set_standing(&standing(&agent(), Lifted, "ada"));
    assert_eq!((again.is_err(), process.stats.standing(&agent())), (true, Standing::Quarantined));
    let other = AgentId::new("capped-bot").unwrap();
    assert!(process.stats.set_standing(&standing(&other, Quarantined, "ada")).is_err());
    assert_eq!(process.stats.standing(&other), Standing::Quarantined, "it holds here");
}

/// A sink that can refuse only the records of an agent's standing.
#[derive(Debug, Default)]
struct Tacit(AtomicBool, MemorySink);

impl AuditSink for Tacit {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        if self.0.load(Ordering::SeqCst) && matches!(record, Record::Standing(_)) {
            return Err(AuditError::Poisoned);
        }
        self.1.record(record)
    }
}

#[test]
fn a_change_that_cannot_be_recorded_refuses_until_it_is() {
    let world = World::new();
    let sink = Arc::new(Tacit::default());
    let gate = world.builder_with(Arc::clone(&sink) as Arc<dyn AuditSink>).open().unwrap();
    sink.0.store(true, Ordering::SeqCst);
    gate.stats().set_standing(&standing(&agent(), Quarantined, "ada")).unwrap();
    assert_eq!(code(&gate, &search("c")), Some(AuditUnavailable));
    sink.0.store(false, Ordering::SeqCst);
    assert_eq!(code(&gate, &search("c")), Some(AgentQuarantined));
    sink.0.store(true, Ordering::SeqCst);
    gate.stats().set_standing(&standing(&agent(), Lifted, "ada")).unwrap();
    for _ in 0..2 {
        assert_eq!(code(&gate, &search("c")), Some(AuditUnavailable));
    }
    sink.0.store(false, Ordering::SeqCst);
    assert_eq!(code(&gate, &search("c")), None);
}

#[derive(Clone, Debug)]
enum Step {
    Search(usize),
    Misfit(usize),
    Operator(StandingChange),
    Host(usize, StandingChange),
    Trouble(u8),
    Restart(usize),
}

fn a_step() -> impl Strategy<Value = Step> {
    let process = 0..2_usize;
    let change = || prop_oneof![Just(Quarantined), Just(Lifted)];
    prop_oneof![
        4 => process.clone().prop_map(Step::Search),
        8 => process.clone().prop_map(Step::Misfit),
        1 => change().prop_map(Step::Operator),
        1 => (process.clone(), change()).prop_map(|(at, change)| Step::Host(at, change)),
        1 => prop_oneof![2 => Just(0), 1 => Just(1)].prop_map(Step::Trouble),
        1 => process.prop_map(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_call_passes_a_forbidding_or_failing_store(
        steps in prop::collection::vec(a_step(), 1..120),
    ) {
        let (world, store) = (World::new(), Arc::new(Unsteady::default()));
        let mut processes = [(); 2].map(|()| Process::start(&world, &store));
        let mut is_down = false;
        for step in steps {
            match step {
                Step::Search(at) | Step::Misfit(at) => {
                    let process = &processes[at];
                    let unsaved = process.stats.standing(&agent()) == Standing::Quarantined && is_down;
                    let kept = store.inner.latest(&agent()).unwrap();
                    let forbidden = kept.is_some_and(|kept| kept.change.standing == Quarantined);
                    let call = if matches!(step, Step::Search(_)) { search("c") } else { misfit("c") };
                    let answer = code(&process.gate, &call);
                    if is_down || forbidden || unsaved {
                        prop_assert_eq!(answer, Some(AgentQuarantined));
                    } else if answer == Some(AgentQuarantined) {
                        // The alarm's own quarantine, from the time when the store was down: it is stored now.
                        prop_assert_eq!(store.inner.list().unwrap().len(), 1);
                    }
                }
                Step::Operator(to) => drop(change(&store, to, "ada")),
                Step::Host(at, to) => drop(processes[at].stats.set_standing(&standing(&agent(), to, "host"))),
                Step::Trouble(trouble) => {
                    is_down = trouble > 0;
                    store.set(trouble);
                }
                Step::Restart(at) => {
                    explains_itself(&processes[at])?;
                    processes[at] = Process::start(&world, &store);
                }
            }
        }
        for process in &processes {
            explains_itself(process)?;
        }
    }
}

/// Checks that the record explains each decision: refused for quarantine if and only if it says that the agent is
/// quarantined.
fn explains_itself(process: &Process) -> Result<(), TestCaseError> {
    let mut stands = Standing::Free;
    for record in process.records() {
        if let Record::Standing(change) = record {
            stands = Standing::after(change.standing);
        } else if let Record::Decision(decision) = record {
            let is_refused = decision.code.is_some_and(|code| code.as_str() == "AGENT_QUARANTINED");
            let says_so = decision.reason.is_some_and(|why| why.as_str() == "it is quarantined");
            match stands {
                Standing::Quarantined => prop_assert!(is_refused),
                Standing::Free => prop_assert!(!says_so),
            }
        }
    }
    Ok(())
}
