use std::fmt;

use countersign_core::{AgentId, Signal, Timestamp};

use crate::alarm::{Alarm, AlarmAction, AlarmRule, AlarmState};
use crate::probing::{Probe, Probing, SignalRule};
use crate::signals_replay::ReplayedSignals;

/// Alarm and signals of one agent, and the actions that follow. It changes no standing: it returns the cause of a quarantine,
/// and the caller quarantines the agent.
#[derive(Clone, Debug)]
pub struct AgentSignals {
    alarm: Alarm,
    probing: Probing,
    action: AlarmAction,
    raised: Option<Timestamp>,
}

/// Why an agent is quarantined without an operator. The text is the reason that is recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the gate names the author of each cause")]
pub enum QuarantineCause {
    /// The drop alarm was raised.
    Alarm(AlarmRule),
    /// A signal was raised.
    Signal(Signal, SignalRule),
}

impl fmt::Display for QuarantineCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alarm(rule) => {
                let (baseline, dropped, decisions) = (rule.baseline(), rule.dropped(), rule.decisions());
                write!(
                    f,
                    "the drop alarm was raised (rule: from {baseline} to {dropped}, one false alarm in {decisions} decisions)"
                )
            }
            Self::Signal(signal, rule) => {
                let (signal, count, within) = (signal.as_str(), rule.count(), rule.within());
                write!(f, "the signal `{signal}` was raised (rule: {count} calls in {within})")
            }
        }
    }
}

impl AgentSignals {
    /// Builds one without evidence.
    #[must_use]
    pub const fn new(rule: AlarmRule, action: AlarmAction, probing: Probing) -> Self {
        Self { alarm: Alarm::new(rule), probing, action, raised: None }
    }

    /// Returns the alarm.
    #[must_use]
    pub const fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    /// Returns the signals.
    #[must_use]
    pub const fn probing(&self) -> &Probing {
        &self.probing
    }

    /// Returns the time at which the alarm was raised.
    #[must_use]
    pub const fn raised(&self) -> Option<Timestamp> {
        self.raised
    }

    /// Takes a decision about the agent's conduct into account. Returns the cause of a quarantine if it raises an alarm whose
    /// action that is.
    pub fn decide(&mut self, time: Timestamp, accepted: bool) -> Option<QuarantineCause> {
        if self.raised.is_some() || self.alarm.observe(accepted) == AlarmState::Steady {
            return None;
        }
        self.raised = Some(time);
        self.alarm_cause()
    }

    /// Takes an answer into account. Returns the signal that it raises, with its rule.
    pub fn probe(&mut self, time: Timestamp, probe: Probe) -> Option<(Signal, SignalRule)> {
        let signal = self.probing.observe(time, probe)?;
        Some((signal, self.probing.find(signal).0))
    }

    /// Drops all evidence, so that old evidence does not raise the alarm again right after a release.
    pub fn restart(&mut self) {
        self.alarm.reset();
        self.raised = None;
        self.probing.reset();
    }

    /// Replaces the alarm's rule and action, and drops all evidence.
    pub fn watch(&mut self, rule: AlarmRule, action: AlarmAction) {
        self.alarm = Alarm::new(rule);
        self.action = action;
        self.restart();
    }

    /// Starts a replay by the rules of these signals, without evidence. `lifted` is the time of the last change in the store, if
    /// that is a lift.
    #[must_use]
    pub fn replay(&self, agent: AgentId, lifted: Option<Timestamp>) -> ReplayedSignals {
        ReplayedSignals::new(agent, *self.alarm.rule(), self.probing.clone(), lifted)
    }

    /// Continues with the evidence of earlier processes.
    pub fn resume(&mut self, past: ReplayedSignals) {
        self.raised = past.raised();
        self.alarm = past.alarm().clone();
        self.probing = past.into_probing();
    }

    /// Clears an alarm or signal that was raised in the session before: its effect ended with that session. If its action is a
    /// quarantine, and quarantines are kept in a store, the process may have ended before the store had it: the causes are
    /// returned, each with its time.
    pub fn settle(&mut self, is_kept: bool) -> Vec<(Timestamp, QuarantineCause)> {
        let mut causes = Vec::new();
        for signal in Signal::ALL {
            if let (rule, Some(raised)) = self.probing.find(*signal)
                && is_kept
                && let Some(cause) = QuarantineCause::of_signal(*signal, rule)
            {
                causes.push((raised, cause));
            }
        }
        self.probing.reset_raised();
        if let Some(raised) = self.raised {
            match self.alarm_cause().filter(|_| is_kept) {
                Some(cause) => causes.push((raised, cause)),
                None => {
                    self.alarm.reset();
                    self.raised = None;
                }
            }
        }
        causes
    }

    fn alarm_cause(&self) -> Option<QuarantineCause> {
        (self.action == AlarmAction::Quarantine).then(|| QuarantineCause::Alarm(*self.alarm.rule()))
    }
}

impl QuarantineCause {
    /// Returns the cause if a quarantine is the action of the signal's rule.
    #[must_use]
    pub fn of_signal(signal: Signal, rule: SignalRule) -> Option<Self> {
        (rule.action() == AlarmAction::Quarantine).then_some(Self::Signal(signal, rule))
    }
}
