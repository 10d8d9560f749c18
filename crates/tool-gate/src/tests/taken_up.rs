//! An agent's alarm over processes that each serve one session and continue from the record of the earlier ones.

use std::sync::Arc;

use super::quarantines::Unsteady;
use super::signals::{agent, capped, misfit};
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::StandingChange::{Lifted, Quarantined};
use countersign_audit_log::{AuditSink, MemorySink, Record, StandingChange, StandingRecord};
use countersign_core::*;
use parking_lot::Mutex;
use proptest::prelude::*;

/// One log and one store, used by one session after another.
pub(super) struct Host {
    pub(super) world: World,
    pub(super) sink: Arc<MemorySink>,
    pub(super) store: Option<Arc<Unsteady>>,
    pub(super) action: AlarmAction,
    /// The last saved replay, and the number of records that it covers.
    pub(super) saved: Mutex<Option<(usize, SavedReplay)>>,
}

/// A process with its session.
pub(super) struct Process {
    stats: Arc<CallStats>,
    pub(super) gate: ToolGate,
}

impl Host {
    pub(super) fn new(action: AlarmAction) -> Self {
        let (sink, store) = (Arc::new(MemorySink::keeping(100_000)), Some(Arc::default()));
        Self { world: World::new(), sink, store, action, saved: Mutex::default() }
    }

    pub(super) fn store(&self) -> &Arc<Unsteady> {
        self.store.as_ref().unwrap()
    }

    pub(super) fn records(&self) -> Vec<Record> {
        self.sink.latest().into_iter().map(|(_, record)| record).collect()
    }

    pub(super) fn stats(&self) -> CallStats {
        let stats = CallStats::new().alarm(AlarmRule::default(), self.action);
        match &self.store {
            Some(store) => stats.kept_in(Arc::clone(store) as Arc<dyn Quarantines>),
            None => stats,
        }
    }

    pub(super) fn try_take_up(&self) -> Result<CallStats, QuarantineError> {
        let (stats, records) = (self.stats(), self.records());
        let mut whole = stats.replay(&agent())?;
        records.iter().for_each(|record| whole.add(record));
        let mut saved = self.saved.lock();
        let resumed = saved.as_ref().map(|(size, saved)| {
            let resumed = stats.resume_replay(&agent(), saved).unwrap()?;
            Some((*size, resumed))
        });
        let replay = match resumed.flatten() {
            Some((size, mut replay)) => {
                records[size..].iter().for_each(|record| replay.add(record));
                // While the agent is quarantined, the evidence from before a lift does not matter.
                if !self.is_quarantined() {
                    assert_eq!(replay.save(), whole.save());
                }
                replay
            }
            None => whole,
        };
        *saved = Some((records.len(), replay.save()));
        stats.take_up_replay(replay)?;
        Ok(stats)
    }

    fn is_quarantined(&self) -> bool {
        self.store.as_ref().is_some_and(|store| !store.list().unwrap().is_empty())
    }

    fn start(&self) -> Process {
        self.tick();
        let stats = Arc::new(self.try_take_up().unwrap());
        let builder = self.world.builder_with(Arc::clone(&self.sink) as Arc<dyn AuditSink>);
        Process { gate: builder.stats(Arc::clone(&stats)).open().unwrap(), stats }
    }

    /// Advances the clock, so that no two acts happen at the same time.
    fn tick(&self) {
        self.world.clock.advance(Millis::from_millis(1)).unwrap();
    }

    fn operator(&self, change: StandingChange) -> Standing {
        self.tick();
        let change = StandingRecord::new(self.world.clock.now().unwrap(), agent(), change, "ada");
        self.store().change(&change).unwrap()
    }

    /// Recorded changes of the agent's standing, with their authors.
    fn told(&self) -> Vec<(StandingChange, String)> {
        let told = |record| {
            let Record::Standing(change) = record else { return None };
            Some((change.standing, change.by.as_str().to_owned()))
        };
        self.records().into_iter().filter_map(told).collect()
    }

    /// Runs a session with this many refused calls.
    pub(super) fn session(&self, refused: u64) -> Process {
        let process = self.start();
        self.refuse(&process, refused);
        process
    }

    fn refuse(&self, process: &Process, times: u64) {
        for _ in 0..times {
            self.tick();
            assert_eq!(code(&process.gate, &misfit("c")), Some(ArgsSchema));
        }
    }

    fn search(&self, process: &Process) -> Option<RejectionCode> {
        self.tick();
        code(&process.gate, &search("c"))
    }
}

impl Process {
    fn level(&self) -> f64 {
        self.stats.snapshot().agents[0].alarm_level
    }

    fn standing(&self) -> Standing {
        self.stats.standing(&agent())
    }
}

/// Level of the alarm after this many refusals.
pub(super) fn level(refused: u32) -> f64 {
    (f64::from(refused) * 1_098_612.0 / 9_210_341.0).min(1.0)
}

#[test]
fn replayed_sessions_together_raise_the_alarm() {
    let host = Host::new(AlarmAction::Quarantine);
    for session in 0..4_u32 {
        let process = host.start();
        assert!((process.level() - level(session * 2)).abs() < 1e-9, "session {session}");
        let fresh = process.stats.snapshot();
        assert_eq!((fresh.overall.total(), fresh.agents[0].counts.total()), (0, 0), "nothing is counted");
        host.refuse(&process, 2);
        let told = process.stats.snapshot();
        assert_eq!((told.overall.total(), told.agents[0].counts.rejected_with(ArgsSchema)), (2, 2));
        assert_eq!(told.agents[0].counts.acceptance_rate(), Some(0.0));
        assert_eq!(told.agents[0].counts.recent_acceptance_rate(), Some(0.0));
    }
    let last = host.session(1);
    assert_eq!(last.standing(), Standing::Quarantined);
    assert_eq!(host.told(), [(Quarantined, BY_ALARM.to_owned())]);
    assert_eq!(host.search(&host.start()), Some(AgentQuarantined), "the store has it");
}

#[test]
fn lift_between_sessions_forgets_only_earlier_evidence() {
    let host = Host::new(AlarmAction::Quarantine);
    drop(host.session(9));
    assert_eq!(host.operator(Lifted), Standing::Quarantined);
    let process = host.start();
    assert_eq!((process.level(), process.standing()), (0.0, Standing::Free));
    host.refuse(&process, 5);
    let wanted = [(Quarantined, BY_ALARM.to_owned()), (Lifted, "ada".to_owned())];
    assert_eq!(host.told(), wanted, "the first session since has it on record");
    let process = host.start();
    assert!((process.level() - level(5)).abs() < 1e-9, "an old lift is no news");
    assert_eq!((host.search(&process), host.told().len()), (None, 2));
    assert!(process.level() > level(4), "nor at the first call");
    host.refuse(&process, 3);
    assert_eq!(process.standing(), Standing::Free);
    host.refuse(&process, 1);
    assert_eq!(process.standing(), Standing::Quarantined);
}

#[test]
fn old_lift_is_not_recorded_again() {
    let mut host = Host::new(AlarmAction::Quarantine);
    drop(host.session(9));
    host.operator(Lifted);
    let process = host.session(8);
    host.store().set(1);
    assert!(matches!(process.gate.observe(b"{"), Observed::Malformed(_)), "the ninth");
    drop(process);
    host.store().set(0);
    let wanted =
        [(Quarantined, BY_ALARM.to_owned()), (Lifted, "ada".to_owned()), (Quarantined, BY_ALARM.to_owned())];
    assert_eq!(host.told(), wanted);
    host.action = AlarmAction::Flag;
    assert_eq!(host.search(&host.start()), None, "what the alarm led to was in memory alone");
    assert_eq!(host.told(), wanted, "and nobody lifted it");
}

#[test]
fn lift_of_an_unrecorded_quarantine_resets_the_alarm() {
    let host = Host::new(AlarmAction::Quarantine);
    drop(host.session(8));
    host.operator(Quarantined);
    host.operator(Lifted);
    let process = host.session(8);
    assert_eq!((process.standing(), host.told().len()), (Standing::Free, 0));
}

#[test]
fn a_drop_that_was_flagged_is_over_with_its_session() {
    let host = Host::new(AlarmAction::Flag);
    drop(host.session(5));
    let second = host.session(4);
    assert_eq!(second.stats.alarm_state(&agent()), AlarmState::Raised);
    for refused in [5, 3] {
        let next = host.session(refused);
        assert_eq!(next.stats.alarm_state(&agent()), AlarmState::Steady);
    }
    let next = host.start();
    assert!((next.level() - level(8)).abs() < 1e-9, "{}", next.level());
    host.refuse(&next, 1);
    assert!(next.stats.snapshot().agents[0].alarm_raised.is_some(), "it is flagged again");
    let after = host.start().stats.snapshot().agents[0].clone();
    assert_eq!((after.alarm_level, after.alarm_raised), (0.0, None));
}

#[test]
fn a_quarantine_that_no_store_keeps_ends_with_its_process() {
    let host = Host { store: None, ..Host::new(AlarmAction::Quarantine) };
    drop(host.session(5));
    let second = host.session(4);
    assert_eq!(host.search(&second), Some(AgentQuarantined));
    let third = host.start();
    assert_eq!((host.search(&third), third.level()), (None, 0.0));
}

#[test]
fn unstored_quarantine_is_stored_at_the_next_start() {
    let host = Host::new(AlarmAction::Quarantine);
    let process = host.session(8);
    host.store().set(1);
    // The store is asked first, so a call would be refused for its failure.
    assert!(matches!(process.gate.observe(b"{"), Observed::Malformed(_)), "the ninth");
    assert_eq!(process.standing(), Standing::Quarantined);
    drop(process);
    assert!(host.store().list().is_err());
    assert_eq!(
        host.try_take_up().unwrap_err().code(),
        "STORE_UNAVAILABLE",
        "nobody can tell what was lifted"
    );
    host.store().set(2);
    assert!(host.try_take_up().is_err(), "a store that panics is none");
    host.store().set(0);
    assert_eq!(host.store().list().unwrap(), []);
    host.try_take_up().unwrap();
    let kept = host.store().list().unwrap();
    assert_eq!((kept.len(), kept[0].by.as_str()), (1, BY_ALARM), "it is kept before a session begins");
    let next = host.start();
    assert_eq!(host.search(&next), Some(AgentQuarantined));
    host.operator(Lifted);
    assert_eq!((host.search(&next), next.level()), (None, 0.0));
    assert_eq!((host.search(&host.start()), host.store().list().unwrap().len()), (None, 0));
}

#[test]
fn past_decisions_are_judged_by_the_current_rule() {
    let host = Host::new(AlarmAction::Flag);
    drop(host.session(5));
    let strict = AlarmRule::new(0.99, 0.5, 100).unwrap();
    let stats = CallStats::new().alarm(strict, AlarmAction::Flag);
    stats.take_up(&agent(), host.records().into_iter().map(Ok::<_, QuarantineError>)).unwrap();
    let shown = &stats.snapshot().agents[0];
    assert_eq!((shown.alarm_rule, shown.alarm_level), (strict, 0.0), "raised by then, and over");
    drop(host.session(1));
    let loose = AlarmRule::new(0.6, 0.3, 1_000_000).unwrap();
    let stats = CallStats::new().alarm(loose, AlarmAction::Flag);
    stats.take_up(&agent(), host.records().into_iter().map(Ok::<_, QuarantineError>)).unwrap();
    let told = stats.snapshot().agents[0].alarm_level;
    assert!((told - 6.0 * (0.7_f64 / 0.4).ln() / 1e6_f64.ln()).abs() < 1e-5, "{told}");
}

#[test]
fn live_alarm_is_not_replaced_by_a_replay() {
    let host = Host::new(AlarmAction::Quarantine);
    drop(host.session(5));
    let process = host.session(3);
    let before = process.stats.snapshot();
    let nothing = std::iter::empty::<Result<Record, QuarantineError>>();
    process.stats.take_up(&agent(), nothing).unwrap();
    assert_eq!(process.stats.snapshot(), before);
    process.stats.take_up(&agent(), host.records().into_iter().map(Ok::<_, QuarantineError>)).unwrap();
    assert_eq!(process.stats.snapshot(), before);
    host.refuse(&process, 1);
    assert_eq!(process.standing(), Standing::Quarantined);
}

#[test]
fn unreadable_entries_leave_the_alarm_unchanged() {
    #[derive(Debug, PartialEq)]
    struct Torn;
    impl From<QuarantineError> for Torn {
        fn from(_: QuarantineError) -> Self {
            panic!("there is no store")
        }
    }
    let host = Host { store: None, ..Host::new(AlarmAction::Quarantine) };
    drop(host.session(8));
    let stats = host.stats();
    let entries = host.records().into_iter().map(Ok).chain([Err(Torn)]);
    assert_eq!(stats.take_up(&agent(), entries), Err(Torn));
    assert_eq!(stats.snapshot().agents[0].alarm_level, 0.0);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Accepted,
    Refused,
    Restart,
    Operator(StandingChange),
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Accepted),
        12 => Just(Step::Refused),
        3 => Just(Step::Restart),
        1 => Just(Step::Operator(Quarantined)),
        3 => Just(Step::Operator(Lifted)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Compares every process with one alarm that gets the decisions of all of them.
    #[test]
    fn alarm_over_restarts_equals_an_uninterrupted_one(
        steps in prop::collection::vec(a_step(), 1..150),
        quarantines in any::<bool>(),
    ) {
        let action = if quarantines { AlarmAction::Quarantine } else { AlarmAction::Flag };
        let host = Host::new(action);
        let mut wanted = Alarm::new(AlarmRule::default());
        let mut process = host.start();
        for step in steps {
            match step {
                Step::Accepted | Step::Refused => {
                    host.tick();
                    let accepted = matches!(step, Step::Accepted);
                    let call = if accepted { search("c") } else { misfit("c") };
                    let answer = code(&process.gate, &call);
                    let kept = host.store().list().unwrap();
                    if answer == Some(AgentQuarantined) {
                        prop_assert_eq!(kept.len(), 1);
                    } else {
                        prop_assert_eq!(answer.is_none(), accepted);
                        wanted.observe(accepted);
                        let is_raised = wanted.state() == AlarmState::Raised;
                        prop_assert_eq!(kept.len(), usize::from(is_raised && quarantines));
                    }
                }
                Step::Restart => {
                    process = host.start();
                    if !quarantines && wanted.state() == AlarmState::Raised {
                        wanted.reset();
                    }
                }
                Step::Operator(change) => {
                    let before = host.operator(change);
                    if (before, change) == (Standing::Quarantined, Lifted) {
                        wanted.reset();
                    }
                }
            }
            process.stats.sync().unwrap();
            if process.standing() == Standing::Free {
                prop_assert_eq!(process.level(), wanted.level());
            }
        }
    }
}

#[test]
fn empty_record_starts_the_alarm_without_evidence() {
    let host = Host { store: None, ..Host::new(AlarmAction::Flag) };
    let stats = host.stats();
    stats.take_up(&agent(), std::iter::empty::<Result<Record, QuarantineError>>()).unwrap();
    assert_eq!(stats.snapshot().agents[0].alarm_level, 0.0);
    assert_eq!(stats.agents(), [agent()]);
}

#[test]
fn saved_replay_is_resumed_from_its_text() {
    let host = Host::new(AlarmAction::Flag);
    drop(host.session(5));
    let stats = host.stats();
    let mut replay = stats.replay(&agent()).unwrap();
    host.records().iter().for_each(|record| replay.add(record));
    let text = serde_json::to_string(&replay.save()).unwrap();
    let saved: SavedReplay = serde_json::from_str(&text).unwrap();
    stats.take_up_replay(stats.resume_replay(&agent(), &saved).unwrap().unwrap()).unwrap();
    assert!((stats.snapshot().agents[0].alarm_level - level(5)).abs() < 1e-9);
    assert!(serde_json::from_str::<SavedReplay>(&text.replacen('{', "{\"more\":1,", 1)).is_err());
}

#[test]
fn replay_of_other_rules_is_not_resumed() {
    let host = Host::new(AlarmAction::Flag);
    drop(host.session(5));
    let saved = host.try_take_up().map(|_| host.saved.lock().clone().unwrap().1).unwrap();
    let resumes = |stats: CallStats| stats.resume_replay(&agent(), &saved).unwrap().is_some();
    let rule = |count, secs| SignalRule::new(count, Millis::from_secs(secs), AlarmAction::Flag).unwrap();
    assert!(resumes(host.stats().alarm(AlarmRule::default(), AlarmAction::Quarantine)));
    assert!(!resumes(host.stats().alarm(AlarmRule::new(0.9, 0.7, 9_999).unwrap(), AlarmAction::Flag)));
    assert!(!resumes(host.stats().alarm(AlarmRule::new(0.9, 0.6, 10_000).unwrap(), AlarmAction::Flag)));
    assert!(resumes(host.stats().signal(Signal::Asked, rule(32, 600))));
    assert!(!resumes(host.stats().signal(Signal::Asked, rule(31, 600))));
    assert!(!resumes(host.stats().signal(Signal::Undisclosed, rule(20, 601))));
    assert!(host.stats().resume_replay(&capped(), &saved).unwrap().is_none());
}

#[test]
fn saved_evidence_around_a_lift_is_not_resumed() {
    let host = Host::new(AlarmAction::Quarantine);
    drop(host.session(9));
    drop(host.start());
    host.operator(Lifted);
    assert!(host.start().level().abs() < 1e-9);
    // A lift by a clock that is behind falls into the middle of the evidence.
    drop(host.session(3));
    drop(host.start());
    let (behind, _) = (host.world.clock.now().unwrap(), drop(host.session(2)));
    drop(host.start());
    for change in [Quarantined, Lifted] {
        host.store().change(&StandingRecord::new(behind, agent(), change, "ada")).unwrap();
    }
    let saved = host.saved.lock().clone().unwrap().1;
    assert!(host.stats().resume_replay(&agent(), &saved).unwrap().is_none(), "all is to be replayed");
    assert!((host.start().level() - level(2)).abs() < 1e-9);
}
