//! Emits every count as an event of the `metrics` facade when it is counted. Handles are looked up once per row, never
//! per call. A recorder that panics changes no answer.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::metrics::{
    Counter, Gauge, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use countersign_audit_log::{OutcomeKind, Signal};
use countersign_core::{AgentId, Timestamp, ToolId};
use dashmap::DashMap;

use crate::code::RejectionCode;
use crate::counts::{CODES, Counts, Window, slot};
use crate::recent::WINDOW_CAPACITY;
use crate::snapshot::Standing;
use countersign_signals::{Alarm, AlarmState, Probing};

/// Label for the server and tool of every name that the registry does not list.
const UNKNOWN: &str = "(unknown)";

/// Names of all metrics that the gate emits, sorted.
pub const METRIC_NAMES: [&str; 12] = [
    ACCEPTANCE,
    QUARANTINED,
    ALARM_LEVEL,
    ALARM_RAISED,
    ANSWER_TIME,
    ANSWERS,
    OUTCOMES,
    SESSION_STARTED,
    SIGNAL_RAISED,
    SUMMED,
    UNAVAILABLE,
    UNDISCLOSED,
];

const QUARANTINED: &str = "countersign_agent_quarantined";
const ALARM_LEVEL: &str = "countersign_alarm_level_ratio";
const ALARM_RAISED: &str = "countersign_alarm_raised";
const ACCEPTANCE: &str = "countersign_acceptance_ratio";
const ANSWER_TIME: &str = "countersign_answer_duration_seconds";
const ANSWERS: &str = "countersign_answers_total";
const OUTCOMES: &str = "countersign_outcomes_total";
const SESSION_STARTED: &str = "countersign_session_started_seconds";
const SIGNAL_RAISED: &str = "countersign_signal_raised";
const SUMMED: &str = "countersign_summed_refusals_total";
const UNAVAILABLE: &str = "countersign_unavailable_total";
const UNDISCLOSED: &str = "countersign_undisclosed_attempts_total";

/// Metrics without an agent.
#[derive(Default)]
pub(crate) struct ProcessMetrics {
    described: OnceLock<()>,
    answer_time: OnceLock<::metrics::Histogram>,
    outcomes: [OnceLock<Counter>; 4],
}

impl ProcessMetrics {
    /// Describes each metric to the recorder.
    pub(crate) fn describe(&self) {
        self.described.get_or_init(|| quietly(describe));
    }

    pub(crate) fn answer_took(&self, nanos: u64) {
        #[expect(clippy::cast_precision_loss, reason = "a time, to 53 bits")]
        let seconds = nanos as f64 / 1e9;
        quietly(|| self.answer_time.get_or_init(|| histogram!(ANSWER_TIME)).record(seconds));
    }

    pub(crate) fn outcome(&self, outcome: OutcomeKind) {
        let (place, name) = match outcome {
            OutcomeKind::Returned => (0, "returned"),
            OutcomeKind::Failed => (1, "failed"),
            OutcomeKind::NotRun => (3, "not_run"),
            OutcomeKind::Unknown | _ => (2, "unknown"),
        };
        let Some(handle) = self.outcomes.get(place) else { return };
        quietly(|| handle.get_or_init(|| counter!(OUTCOMES, "outcome" => name)).increment(1));
    }
}

/// Counter of refusals beyond the rate, which have no entry of their own. Without a counter they are not counted.
#[derive(Clone, Default)]
pub(crate) struct Summed(Option<Counter>);

impl Summed {
    pub(crate) fn count(&self) {
        if let Some(counter) = &self.0 {
            quietly(|| counter.increment(1));
        }
    }
}

impl fmt::Debug for Summed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Summed").finish_non_exhaustive()
    }
}

/// Metrics of one agent. A rejected name never becomes a label, so the registry bounds their number.
pub(crate) struct AgentMetrics {
    agent: SharedString,
    undisclosed: Counter,
    summed_calls: Counter,
    summed_messages: Counter,
    /// Each outage code has its counter from the start, so that the first outage is an increase.
    unavailable: Vec<(RejectionCode, Counter)>,
    /// Unset until a gate is opened for the agent.
    session_started: OnceLock<Gauge>,
    /// Unset before the first decision: the share would read as zero.
    acceptance: OnceLock<Gauge>,
    alarm_level: Gauge,
    alarm_raised: Gauge,
    quarantined: Gauge,
    signals: Vec<(Signal, Gauge)>,
    tools: DashMap<ToolId, Arc<AnswerMetrics>>,
    unknown: AnswerMetrics,
}

impl AgentMetrics {
    pub(crate) fn new(agent: &AgentId) -> Self {
        let label: SharedString = agent.as_str().to_owned().into();
        let gauge = |name: &'static str| {
            let made = catch_unwind(AssertUnwindSafe(|| gauge!(name, "agent" => label.clone())));
            made.unwrap_or_else(|_| Gauge::noop())
        };
        let signal_gauge = |signal: Signal| {
            let look_up = || gauge!(SIGNAL_RAISED, "agent" => label.clone(), "signal" => signal.as_str());
            catch_unwind(AssertUnwindSafe(look_up)).unwrap_or_else(|_| Gauge::noop())
        };
        let counter = |look_up: &dyn Fn() -> Counter| {
            catch_unwind(AssertUnwindSafe(look_up)).unwrap_or_else(|_| Counter::noop())
        };
        let outages = RejectionCode::ALL.iter().copied().filter(|code| code.is_outage());
        let unavailable = |code: RejectionCode| {
            counter(&|| counter!(UNAVAILABLE, "agent" => label.clone(), "code" => code.as_str()))
        };
        let new = Self {
            undisclosed: counter(&|| counter!(UNDISCLOSED, "agent" => label.clone())),
            summed_calls: counter(&|| counter!(SUMMED, "agent" => label.clone(), "of" => "calls")),
            summed_messages: counter(&|| counter!(SUMMED, "agent" => label.clone(), "of" => "messages")),
            unavailable: outages.map(|code| (code, unavailable(code))).collect(),
            session_started: OnceLock::new(),
            acceptance: OnceLock::new(),
            alarm_level: gauge(ALARM_LEVEL),
            alarm_raised: gauge(ALARM_RAISED),
            quarantined: gauge(QUARANTINED),
            signals: Signal::ALL.iter().map(|signal| (*signal, signal_gauge(*signal))).collect(),
            tools: DashMap::new(),
            unknown: AnswerMetrics::new(&label, UNKNOWN, UNKNOWN),
            agent: label,
        };
        new.standing(Standing::Free);
        quietly(|| {
            new.summed_calls.increment(0);
            new.summed_messages.increment(0);
            new.alarm_level.set(0.0);
            new.alarm_raised.set(0.0);
            new.signals.iter().for_each(|(_, gauge)| gauge.set(0.0));
        });
        new
    }

    /// Sets the start of the agent's latest session.
    pub(crate) fn session_started(&self, time: Timestamp) {
        let look_up = || gauge!(SESSION_STARTED, "agent" => self.agent.clone());
        let seconds = Duration::from_millis(time.as_millis()).as_secs_f64();
        quietly(|| self.session_started.get_or_init(look_up).set(seconds));
    }

    /// Returns the counter of the agent's refused calls beyond the rate.
    pub(crate) fn summed_calls(&self) -> Summed {
        Summed(Some(self.summed_calls.clone()))
    }

    /// Returns the counter of the refused messages of its sessions beyond the rate.
    pub(crate) fn summed_messages(&self) -> Summed {
        Summed(Some(self.summed_messages.clone()))
    }

    /// Returns the metrics of one tool that the registry lists.
    pub(crate) fn tool(&self, tool: &ToolId) -> Arc<AnswerMetrics> {
        let fresh =
            || Arc::new(AnswerMetrics::new(&self.agent, tool.server().as_str(), tool.name().as_str()));
        Arc::clone(self.tools.entry(tool.clone()).or_insert_with(fresh).value())
    }

    /// Returns the metrics of all names that the registry does not list.
    pub(crate) const fn unknown(&self) -> &AnswerMetrics {
        &self.unknown
    }

    pub(crate) fn decided(&self, refused: Option<RejectionCode>, counts: &Counts) {
        quietly(|| {
            if refused == Some(RejectionCode::UndisclosedTool) {
                self.undisclosed.increment(1);
            }
            if let Some((_, outage)) = self.unavailable.iter().find(|(code, _)| refused == Some(*code)) {
                outage.increment(1);
            }
            let window = Window::Last(usize::try_from(WINDOW_CAPACITY).unwrap_or(usize::MAX));
            if let Some(rate) = counts.acceptance_rate(window) {
                let look_up = || gauge!(ACCEPTANCE, "agent" => self.agent.clone());
                self.acceptance.get_or_init(look_up).set(rate);
            }
        });
    }

    pub(crate) fn alarm(&self, alarm: &Alarm) {
        quietly(|| {
            self.alarm_level.set(alarm.level());
            self.alarm_raised.set(if alarm.state() == AlarmState::Raised { 1.0 } else { 0.0 });
        });
    }

    pub(crate) fn signals(&self, probing: &Probing) {
        for (signal, gauge) in &self.signals {
            let raised = probing.find(*signal).1.is_some();
            quietly(|| gauge.set(if raised { 1.0 } else { 0.0 }));
        }
    }

    pub(crate) fn standing(&self, standing: Standing) {
        quietly(|| self.quarantined.set(if standing == Standing::Quarantined { 1.0 } else { 0.0 }));
    }
}

/// Answers about one tool to one agent.
pub(crate) struct AnswerMetrics {
    labels: [SharedString; 3],
    accepted: OnceLock<Counter>,
    rejected: [OnceLock<Counter>; CODES],
}

impl AnswerMetrics {
    fn new(agent: &SharedString, server: &str, tool: &str) -> Self {
        let labels = [agent.clone(), server.to_owned().into(), tool.to_owned().into()];
        Self { labels, accepted: OnceLock::new(), rejected: [const { OnceLock::new() }; CODES] }
    }

    pub(crate) fn count(&self, refused: Option<RejectionCode>) {
        let (handle, code) = match refused {
            None => (Some(&self.accepted), "ACCEPTED"),
            Some(code) => (self.rejected.get(slot(code)), code.as_str()),
        };
        let Some(handle) = handle else { return };
        let [agent, server, tool] = &self.labels;
        let look_up = || {
            counter!(
                ANSWERS,
                "agent" => agent.clone(), "server" => server.clone(), "tool" => tool.clone(), "code" => code
            )
        };
        quietly(|| handle.get_or_init(look_up).increment(1));
    }
}

fn describe() {
    describe_counter!(
        ANSWERS,
        Unit::Count,
        "Answers of the gate by agent, tool and code (ACCEPTED for a yes)."
    );
    describe_counter!(UNDISCLOSED, Unit::Count, "Calls to tools that the agent's session does not disclose.");
    describe_counter!(SUMMED, Unit::Count, "Refusals beyond the rate, recorded as sums.");
    describe_counter!(UNAVAILABLE, Unit::Count, "Calls refused by an outage of the host.");
    describe_gauge!(SESSION_STARTED, Unit::Seconds, "Start of the agent's latest session, in Unix time.");
    describe_counter!(OUTCOMES, Unit::Count, "How accepted calls ended.");
    describe_gauge!(ACCEPTANCE, "Share of the agent's last 1,024 decisions that were accepted, 0 to 1.");
    describe_gauge!(ALARM_LEVEL, "How far the agent's drop alarm has come, from 0 to 1 (raised).");
    describe_gauge!(ALARM_RAISED, Unit::Count, "1 while the agent's drop alarm is raised, else 0.");
    describe_gauge!(SIGNAL_RAISED, Unit::Count, "1 while the agent's signal is raised, else 0.");
    describe_gauge!(QUARANTINED, Unit::Count, "1 while the agent is quarantined, else 0.");
    describe_histogram!(ANSWER_TIME, Unit::Seconds, "How long an answer took, its record included.");
}

/// Calls the recorder, which is the host's code and may panic.
fn quietly(emit: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(emit));
}

impl fmt::Debug for ProcessMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessMetrics").finish_non_exhaustive()
    }
}

impl fmt::Debug for AgentMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentMetrics").field("agent", &self.agent).finish_non_exhaustive()
    }
}

impl fmt::Debug for AnswerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerMetrics").field("labels", &self.labels).finish_non_exhaustive()
    }
}
