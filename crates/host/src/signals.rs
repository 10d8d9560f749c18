//! Watches a session's agent: its drop alarm, its quarantine, and the duration of answers.

mod replay;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use countersign_audit_log::{Signal, StandingChange, StandingRecord};
use countersign_core::AgentId;
use countersign_sqlite::SqliteStore;
use countersign_tool_gate::{
    AlarmAction, AlarmRule, AlarmState, CallStats, KeptStanding, Quarantines, SignalRule, Standing,
    SystemTicks, ToolGate,
};
use serde::Deserialize;

use crate::error::{HostError, chain, one_line};
use crate::escape::{shown_id, shown_name};
use crate::record::OpenRecord;
use crate::report::Reporter;
use crate::time::{Span, now};

pub(crate) use replay::AlarmKeeper;

/// The `[signals]` table of a configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignalsPart {
    store: Option<PathBuf>,
    #[serde(default)]
    on_drop: OnDrop,
    baseline: Option<f64>,
    dropped: Option<f64>,
    decisions: Option<u64>,
    #[serde(default)]
    asked: SignalPart,
    #[serde(default)]
    undisclosed: SignalPart,
}

/// One signal. An omitted member is that of [`SignalRule::usual`].
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignalPart {
    count: Option<u32>,
    within: Option<Span>,
    action: Option<OnDrop>,
}

impl SignalPart {
    fn rule(self, signal: Signal) -> Result<SignalRule, HostError> {
        let usual = SignalRule::usual(signal);
        let count = self.count.unwrap_or_else(|| usual.count());
        let within = self.within.map_or_else(|| usual.within(), Span::millis);
        let action = self.action.map_or_else(|| usual.action(), OnDrop::action);
        SignalRule::new(count, within, action).map_err(|error| {
            HostError::new(error.code(), error.to_string()).about(format_args!("signals.{}", signal.as_str()))
        })
    }
}

/// Action when an agent's acceptance rate drops.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnDrop {
    #[default]
    Flag,
    Quarantine,
}

impl OnDrop {
    const fn action(self) -> AlarmAction {
        match self {
            Self::Flag => AlarmAction::Flag,
            Self::Quarantine => AlarmAction::Quarantine,
        }
    }
}

/// Checked settings for watching agents.
#[derive(Clone, Debug)]
pub struct SignalsPlan {
    rule: AlarmRule,
    action: AlarmAction,
    asked: SignalRule,
    undisclosed: SignalRule,
    /// Store of quarantines and alarms. Without it, both end with this process.
    pub store: Option<PathBuf>,
}

impl Default for SignalsPlan {
    fn default() -> Self {
        Self {
            rule: AlarmRule::default(),
            action: AlarmAction::default(),
            asked: SignalRule::usual(Signal::Asked),
            undisclosed: SignalRule::usual(Signal::Undisclosed),
            store: None,
        }
    }
}

impl SignalsPlan {
    /// Returns the rule of the drop alarm.
    #[must_use]
    pub const fn rule(&self) -> AlarmRule {
        self.rule
    }
}

impl SignalsPart {
    /// Iterates over all paths in it.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        self.store.iter_mut()
    }

    pub(crate) const fn store(&self) -> Option<&PathBuf> {
        self.store.as_ref()
    }

    /// Sets the store to a file beside the registry's state, unless the configuration names one.
    pub(crate) fn keep_store_beside(&mut self, registry_state: &Path) {
        self.store.get_or_insert_with(|| registry_state.with_file_name("signals.sqlite"));
    }

    /// Checks the settings.
    pub(crate) fn plan(&self) -> Result<SignalsPlan, HostError> {
        let usual = AlarmRule::default();
        let baseline = self.baseline.unwrap_or_else(|| usual.baseline());
        let dropped = self.dropped.unwrap_or_else(|| usual.dropped());
        let rule = AlarmRule::new(baseline, dropped, self.decisions.unwrap_or_else(|| usual.decisions()))
            .map_err(|error| HostError::from(error).about("signals"))?;
        Ok(SignalsPlan {
            rule,
            action: self.on_drop.action(),
            asked: self.asked.rule(Signal::Asked)?,
            undisclosed: self.undisclosed.rule(Signal::Undisclosed)?,
            store: self.store.clone(),
        })
    }
}

impl SignalsPlan {
    /// Creates the counts of this process, with timed answers. With a store, the agent's alarm continues from the end of the
    /// record, and its state is kept there.
    pub(crate) fn stats(
        &self,
        store: Option<Arc<SqliteStore>>,
        agent: &AgentId,
        record: Option<&OpenRecord>,
        reporter: &Reporter,
    ) -> Result<(Arc<CallStats>, Option<AlarmKeeper>), HostError> {
        let stats = CallStats::new()
            .alarm(self.rule, self.action)
            .signal(Signal::Asked, self.asked)
            .signal(Signal::Undisclosed, self.undisclosed)
            .ticks(Arc::new(SystemTicks::new()));
        let stats = Arc::new(match store.clone() {
            Some(store) => stats.kept_in(store),
            None => stats,
        });
        let keeper = match (store, record) {
            (Some(store), Some(record)) => {
                tell_of_lift_ahead(&*store, agent, reporter)?;
                Some(AlarmKeeper::start(Arc::clone(&stats), agent, store, record.logs())?)
            }
            (None, _) | (_, None) => None,
        };
        Ok((stats, keeper))
    }
}

/// Warns the operator if a clock that was ahead lifted the agent's quarantine: its evidence is ignored until that time.
fn tell_of_lift_ahead(
    store: &dyn Quarantines,
    agent: &AgentId,
    reporter: &Reporter,
) -> Result<(), HostError> {
    let Some(KeptStanding { change, .. }) = store.latest(agent)? else { return Ok(()) };
    if change.standing == StandingChange::Lifted && change.time > now()? {
        reporter.note(&lift_ahead(&change));
    }
    Ok(())
}

fn lift_ahead(lift: &StandingRecord) -> String {
    let (agent, by, time) = (shown_id(lift.agent.as_str()), shown_name(&lift.by), lift.time);
    format!(
        "warning SIGNALS_LIFT_AHEAD: agent {agent} was released by {by} at {time}, a time in the future: its recorded evidence \
         before then is ignored at every start"
    )
}

/// Reports when the session's agent is flagged or quarantined, once each.
#[derive(Debug)]
pub struct AgentWatch {
    gate: ToolGate,
    reporter: Reporter,
    told: Mutex<ReportedStanding>,
    signals: Mutex<BTreeSet<Signal>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportedStanding {
    Nothing,
    Flagged,
    Quarantined,
}

impl AgentWatch {
    /// Starts without anything reported.
    #[must_use]
    pub const fn new(gate: ToolGate, reporter: Reporter) -> Self {
        Self {
            gate,
            reporter,
            told: Mutex::new(ReportedStanding::Nothing),
            signals: Mutex::new(BTreeSet::new()),
        }
    }

    /// Looks at the standing of the agent and at its signals.
    pub fn look(&self) {
        self.look_at_signals();
        let (stats, contract) = (self.gate.stats(), self.gate.contract());
        let agent = contract.agent();
        let shown = shown_id(agent.as_str());
        let found = match (stats.standing(agent), stats.alarm_state(agent)) {
            (Standing::Quarantined, _) => ReportedStanding::Quarantined,
            (Standing::Free, AlarmState::Raised) => ReportedStanding::Flagged,
            (Standing::Free, AlarmState::Steady) => ReportedStanding::Nothing,
        };
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told == found {
            return;
        }
        *told = found;
        match found {
            ReportedStanding::Nothing => {}
            ReportedStanding::Flagged => self.reporter.warn(
                "AGENT_FLAGGED",
                &format!("the acceptance rate of agent {shown} has dropped; its calls are not blocked"),
            ),
            ReportedStanding::Quarantined => {
                self.reporter.warn("AGENT_QUARANTINED", &format!("agent {shown} is quarantined"));
            }
        }
    }

    /// Reports raised signals, each once.
    pub fn look_at_signals(&self) {
        let (stats, contract) = (self.gate.stats(), self.gate.contract());
        let agent = contract.agent();
        let mut told = self.signals.lock().unwrap_or_else(PoisonError::into_inner);
        for signal in Signal::ALL {
            if stats.signal_raised(agent, *signal).is_none() {
                told.remove(signal);
            } else if told.insert(*signal) {
                let (code, calls) = match signal {
                    Signal::Asked => ("SIGNAL_ASKED", "requests many approvals and gets none"),
                    Signal::Undisclosed | _ => {
                        ("SIGNAL_UNDISCLOSED", "calls many tools that its session does not disclose")
                    }
                };
                self.reporter.warn(code, &format!("agent {} {calls}", shown_id(agent.as_str())));
            }
        }
    }

    /// Checks for the last time. A quarantine that is missing from its store by now is lost with the process.
    pub fn end(&self) {
        let synced = self.gate.stats().sync();
        self.look();
        let contract = self.gate.contract();
        let agent = contract.agent();
        if let (Err(error), Standing::Quarantined) = (synced, self.gate.stats().standing(agent)) {
            let (agent, why) = (shown_id(agent.as_str()), one_line(&chain(&error)));
            self.reporter.warn(error.code(), &format!("the quarantine of agent {agent} may be lost: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use countersign_core::Timestamp;

    use super::*;

    #[test]
    fn who_let_an_agent_out_cannot_look_like_more_of_the_warning() {
        let agent = AgentId::new("bot was let out by ada").unwrap();
        let by = "eve at 1970-01-01T00:00:00.000Z, which";
        let lift = StandingRecord::new(Timestamp::EPOCH, agent, StandingChange::Lifted, by);
        let expected = concat!(
            r#"agent "bot was let out by ada" was released by "eve at 1970-01-01T00:00:00.000Z, which" "#,
            "at 1970-01-01T00:00:00.000Z, a time in the future: "
        );
        assert!(lift_ahead(&lift).contains(expected), "{}", lift_ahead(&lift));
    }
}
