//! Compares the events at a metrics recorder with the gate's counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit, with_local_recorder,
};

use super::faults::{Fault, FaultySink};
use super::signals::{agent, lift, misfit, open, quarantine};
use super::world::*;
use crate::RejectionCode::*;
use crate::*;

/// Keeps every series by its text, `name{label="value",..}` with the labels in order of their names, and every
/// description.
#[derive(Default)]
struct Heard {
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    gauges: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    times: Mutex<BTreeMap<String, Arc<Times>>>,
    described: Mutex<BTreeMap<String, Option<Unit>>>,
    looked_up: AtomicU64,
}

#[derive(Default)]
struct Times(Mutex<Vec<f64>>);

impl HistogramFn for Times {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

fn text(key: &Key) -> String {
    let mut labels: Vec<_> =
        key.labels().map(|label| format!("{}={:?}", label.key(), label.value())).collect();
    labels.sort();
    format!("{}{{{}}}", key.name(), labels.join(","))
}

impl Heard {
    fn series<T: Default>(&self, of: &Mutex<BTreeMap<String, Arc<T>>>, key: &Key) -> Arc<T> {
        self.looked_up.fetch_add(1, Ordering::SeqCst);
        Arc::clone(of.lock().unwrap().entry(text(key)).or_default())
    }

    fn describe(&self, name: &KeyName, unit: Option<Unit>) {
        self.described.lock().unwrap().insert(name.as_str().to_owned(), unit);
    }

    /// Every counter of this name.
    fn counters(&self, name: &str) -> BTreeMap<String, u64> {
        let held = self.counters.lock().unwrap();
        let of_name = held.iter().filter(|(series, _)| series.split('{').next() == Some(name));
        of_name.map(|(series, count)| (series.clone(), count.load(Ordering::SeqCst))).collect()
    }

    fn gauge(&self, name: &str, agent: &str) -> Option<f64> {
        let held = self.gauges.lock().unwrap();
        let found = held.get(&format!("{name}{{agent={agent:?}}}"))?;
        Some(f64::from_bits(found.load(Ordering::SeqCst)))
    }

    fn alarm_and_quarantine(&self) -> [Option<f64>; 3] {
        ["countersign_alarm_level_ratio", "countersign_alarm_raised", "countersign_agent_quarantined"]
            .map(|name| self.gauge(name, "support-bot"))
    }
}

impl Recorder for Heard {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, unit);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, unit);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.describe(&name, unit);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(&self.counters, key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(&self.gauges, key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(&self.times, key))
    }
}

fn answers(tool: &str, code: &str) -> String {
    let (server, name) = if tool == "(unknown)" { (tool, tool) } else { ("desk", tool) };
    format!(
        "countersign_answers_total{{agent=\"support-bot\",code={code:?},server={server:?},tool={name:?}}}"
    )
}

#[test]
fn fifty_made_up_names_make_one_series() {
    let heard = Heard::default();
    with_local_recorder(&heard, || {
        let gate = World::new().gate();
        for n in 0..50 {
            let name = format!("made_up_{n}");
            let (id, server) = (format!("id-{n}"), format!("server-{n}"));
            assert_eq!(code(&gate, &ToolCall::new(&id, &server, &name, b"{}")), Some(UndisclosedTool));
            let raw = format!(r#"{{"name":"{name}-too","arguments":{{}}}}"#);
            assert!(matches!(gate.observe(raw.as_bytes()), Observed::Undisclosed(_)));
        }
    });
    let expected = BTreeMap::from([(answers("(unknown)", "UNDISCLOSED_TOOL"), 100)]);
    assert_eq!(heard.counters("countersign_answers_total"), expected);
    let attempts = heard.counters("countersign_undisclosed_attempts_total");
    assert_eq!(attempts.into_values().collect::<Vec<_>>(), [100]);
}

#[test]
fn metrics_match_the_counted_answers_and_outcomes() {
    let heard = Heard::default();
    with_local_recorder(&heard, || {
        let world = World::new();
        let stats = Arc::new(CallStats::new().ticks(Arc::new(SystemTicks::new())));
        let gates = [open(&world, &stats, "session-1"), open(&world, &stats, "session-2")];
        for gate in &gates {
            assert_eq!(code(gate, &search("c")), None);
            assert_eq!(code(gate, &misfit("c")), Some(ArgsSchema));
            assert_eq!(
                code(gate, &ToolCall::new("c", "desk", "delete_ticket", b"{}")),
                Some(UndisclosedTool)
            );
            assert_eq!(code(gate, &ToolCall::new("c", "desk", "none", b"{}")), Some(UndisclosedTool));
            assert_eq!(code(gate, &refund("c")), Some(ApprovalRequired));
        }
        let failed = gates[0].call("search", SEARCH, |_| Err::<(), _>("no"));
        assert!(matches!(failed, Err(CallError::Tool("no"))));
        drop(gates[0].check(&search("c")));
        assert_eq!(stats.snapshot().overall.total(), 12);
    });
    let expected = BTreeMap::from([
        (answers("search", "ACCEPTED"), 4),
        (answers("search", "ARGS_SCHEMA"), 2),
        (answers("delete_ticket", "UNDISCLOSED_TOOL"), 2),
        (answers("(unknown)", "UNDISCLOSED_TOOL"), 2),
        (answers("refund", "APPROVAL_REQUIRED"), 2),
    ]);
    assert_eq!(heard.counters("countersign_answers_total"), expected);
    let outcomes = heard.counters("countersign_outcomes_total");
    let outcome = |name: &str| outcomes[&format!("countersign_outcomes_total{{outcome={name:?}}}")];
    assert_eq!((outcome("returned"), outcome("failed"), outcome("unknown")), (2, 1, 1));
    assert_eq!(heard.gauge("countersign_acceptance_ratio", "support-bot"), Some(0.4), "4 of 10 decisions");
    let times = heard.times.lock().unwrap();
    let of_answers = &times["countersign_answer_duration_seconds{}"].0.lock().unwrap();
    assert_eq!(of_answers.len(), 12);
    assert!(of_answers.iter().all(|seconds| (0.0..60.0).contains(seconds)), "in seconds: {of_answers:?}");
}

#[test]
fn metrics_follow_alarm_and_quarantine_changes() {
    let heard = Heard::default();
    with_local_recorder(&heard, || {
        let world = World::new();
        let stats = Arc::new(CallStats::new().alarm(AlarmRule::default(), AlarmAction::Quarantine));
        let gate = open(&world, &stats, "session-1");
        assert_eq!(heard.alarm_and_quarantine(), [Some(0.0), Some(0.0), Some(0.0)]);
        assert_eq!(heard.gauge("countersign_acceptance_ratio", "support-bot"), None, "nothing was decided");
        for _ in 0..8 {
            assert_eq!(code(&gate, &misfit("c")), Some(ArgsSchema));
        }
        let level = stats.snapshot().agents[0].alarm_level;
        assert_eq!(heard.alarm_and_quarantine(), [Some(level), Some(0.0), Some(0.0)]);
        assert_eq!(code(&gate, &misfit("c")), Some(ArgsSchema));
        assert_eq!(heard.alarm_and_quarantine(), [Some(1.0), Some(1.0), Some(1.0)]);
        assert_eq!(lift(&stats, &agent()), Standing::Quarantined);
        assert_eq!(heard.alarm_and_quarantine(), [Some(0.0), Some(0.0), Some(0.0)]);
        quarantine(&stats, &agent());
        assert_eq!(heard.alarm_and_quarantine(), [Some(0.0), Some(0.0), Some(1.0)]);
    });
}

#[test]
fn replayed_record_moves_the_alarm_but_no_counter() {
    let world = World::new();
    let earlier = open(&world, &Arc::default(), "session-1");
    for _ in 0..4 {
        assert_eq!((code(&earlier, &search("c")), code(&earlier, &misfit("c"))), (None, Some(ArgsSchema)));
    }
    let entries = || world.sink.latest().into_iter().map(|(_, record)| Ok::<_, QuarantineError>(record));
    let heard = Heard::default();
    with_local_recorder(&heard, || {
        let stats = CallStats::new();
        stats.take_up(&agent(), entries()).unwrap();
        let level = stats.snapshot().agents[0].alarm_level;
        assert!(level > 0.3, "{level}");
        assert_eq!(heard.alarm_and_quarantine(), [Some(level), Some(0.0), Some(0.0)]);
    });
    assert_eq!(heard.counters("countersign_answers_total"), BTreeMap::new());
    assert_eq!(heard.gauge("countersign_acceptance_ratio", "support-bot"), None, "nothing was decided here");
}

#[test]
fn counters_of_attempts_and_outages_begin_at_zero() {
    let heard = Heard::default();
    with_local_recorder(&heard, || drop(World::new().gate()));
    let attempts = heard.counters("countersign_undisclosed_attempts_total");
    assert_eq!(attempts.into_values().collect::<Vec<_>>(), [0]);
    let outages = heard.counters("countersign_unavailable_total");
    assert_eq!(outages.len(), 5, "{outages:?}");
    for code in ["REGISTRY_STALE", "STORE_CLOCK_AHEAD", "STORE_UNAVAILABLE", "AUDIT_UNAVAILABLE", "INTERNAL"]
    {
        let series = format!("countersign_unavailable_total{{agent=\"support-bot\",code={code:?}}}");
        assert_eq!(outages.get(&series), Some(&0), "{code}: {outages:?}");
    }
}

#[test]
fn outage_is_counted_by_its_code() {
    let heard = Heard::default();
    with_local_recorder(&heard, || {
        let gate = World::new().builder_with(FaultySink::new(1, Fault::Error)).open().unwrap();
        assert_eq!(code(&gate, &search("c")), Some(AuditUnavailable));
    });
    let counted = heard.counters("countersign_unavailable_total");
    let series = "countersign_unavailable_total{agent=\"support-bot\",code=\"AUDIT_UNAVAILABLE\"}";
    assert_eq!(counted.get(series), Some(&1), "{counted:?}");
    assert_eq!(counted.values().sum::<u64>(), 1, "{counted:?}");
}

#[test]
fn start_of_the_session_is_a_gauge() {
    let heard = Heard::default();
    with_local_recorder(&heard, || drop(World::new().gate()));
    let started = heard.gauge("countersign_session_started_seconds", "support-bot");
    assert_eq!(started, Some(Duration::from_millis(start().as_millis()).as_secs_f64()));
}

#[test]
fn a_handle_is_looked_up_once_and_every_metric_is_described() {
    let heard = Heard::default();
    with_local_recorder(&heard, || {
        let world = World::new();
        let stats = Arc::new(CallStats::new().ticks(Arc::new(SystemTicks::new())));
        let gate = open(&world, &stats, "session-1");
        let all = || {
            assert_eq!(code(&gate, &search("c")), None);
            assert_eq!(code(&gate, &misfit("c")), Some(ArgsSchema));
            assert_eq!(
                code(&gate, &ToolCall::new("c", "desk", "delete_ticket", b"{}")),
                Some(UndisclosedTool)
            );
        };
        all();
        let before = heard.looked_up.load(Ordering::SeqCst);
        (0..100).for_each(|_| all());
        let again = open(&world, &stats, "session-2");
        assert_eq!(code(&again, &search("c")), None, "nor does a second session look any up");
        assert_eq!(heard.looked_up.load(Ordering::SeqCst), before);
        drop(gate.call("search", SEARCH, |_| Err::<(), _>(())));
        drop(gate.check(&search("c")));
    });
    let names: Vec<_> = heard.described.lock().unwrap().keys().cloned().collect();
    assert_eq!(names, METRIC_NAMES);
    let units = heard.described.lock().unwrap();
    assert_eq!(units["countersign_answer_duration_seconds"], Some(Unit::Seconds));
    assert_eq!(units["countersign_answers_total"], Some(Unit::Count));
    let (counters, gauges) = (heard.counters.lock().unwrap(), heard.gauges.lock().unwrap());
    let times = heard.times.lock().unwrap();
    let series = counters.keys().chain(gauges.keys()).chain(times.keys());
    let mut heard_of: Vec<_> = series.map(|series| series.split('{').next().unwrap()).collect();
    heard_of.sort_unstable();
    heard_of.dedup();
    assert_eq!(heard_of, METRIC_NAMES, "and every one is told of");
}

/// Panics at every opportunity.
struct Panics;

impl CounterFn for Panics {
    fn increment(&self, _: u64) {
        panic!("injected")
    }

    fn absolute(&self, _: u64) {
        panic!("injected")
    }
}

impl GaugeFn for Panics {
    fn increment(&self, _: f64) {
        panic!("injected")
    }

    fn decrement(&self, _: f64) {
        panic!("injected")
    }

    fn set(&self, _: f64) {
        panic!("injected")
    }
}

impl HistogramFn for Panics {
    fn record(&self, _: f64) {
        panic!("injected")
    }
}

/// Panics at once, or returns handles that panic.
struct Hostile {
    at_once: bool,
}

impl Hostile {
    fn strike(&self) {
        assert!(!self.at_once, "injected");
    }
}

impl Recorder for Hostile {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("injected")
    }

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("injected")
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("injected")
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        self.strike();
        Counter::from_arc(Arc::new(Panics))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        self.strike();
        Gauge::from_arc(Arc::new(Panics))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        self.strike();
        Histogram::from_arc(Arc::new(Panics))
    }
}

#[test]
fn a_recorder_that_panics_changes_no_answer_and_no_count() {
    for at_once in [true, false] {
        with_local_recorder(&Hostile { at_once }, || {
            let world = World::new();
            let stats = CallStats::new().alarm(AlarmRule::default(), AlarmAction::Quarantine);
            let stats = Arc::new(stats.ticks(Arc::new(SystemTicks::new())));
            let gate = open(&world, &stats, "session-1");
            assert_eq!(code(&gate, &search("c")), None);
            for _ in 0..9 {
                assert_eq!(code(&gate, &misfit("c")), Some(ArgsSchema));
            }
            assert_eq!(code(&gate, &search("c")), Some(AgentQuarantined));
            lift(&stats, &agent());
            assert_eq!(code(&gate, &search("c")), None);
            let shown = stats.snapshot();
            assert_eq!((shown.overall.total(), shown.overall.accepted()), (12, 2));
            assert_eq!(shown.answer_time.unwrap().count, 12);
        });
    }
}
