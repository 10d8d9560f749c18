//! Signals about an agent that follow from the decisions about it: the drop alarm, and the signs that it probes.
//!
//! [`Alarm`] follows the decisions about one agent by an [`AlarmRule`], and is raised once the share of accepted calls
//! has dropped. [`Probing`] counts the calls that each [`SignalRule`] is about. [`AgentSignals`] has both, and returns the
//! [cause](QuarantineCause) of a quarantine; the gate quarantines the agent and records it. [`ReplayedSignals`] replays both over
//! [facts](AgentFact) that the gate reads from its records.
//!
//! The crate keeps no record, reads no clock and decides no call.

mod agent_signals;
mod alarm;
mod alarm_replay;
mod probing;
mod signals_replay;

#[cfg(test)]
mod tests;

pub use agent_signals::{AgentSignals, QuarantineCause};
pub use alarm::{Alarm, AlarmAction, AlarmRule, AlarmRuleError, AlarmState};
pub use alarm_replay::{AgentFact, AlarmReplay, RefusedFact, SavedAlarm};
pub use probing::{Probe, Probing, SavedProbing, SignalRule, SignalRuleError};
pub use signals_replay::{ReplayedSignals, SavedReplay};
