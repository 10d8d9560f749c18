//! Signals about an agent that follow from the decisions about it: the drop alarm.
//!
//! [`Alarm`] follows the decisions about one agent by an [`AlarmRule`], and is raised once the share of accepted calls
//! has dropped. [`AlarmAction`] is the action that follows; the gate takes and records it.
//!
//! The crate keeps no record, reads no clock and decides no call.

mod alarm;

#[cfg(test)]
mod tests;

pub use alarm::{Alarm, AlarmAction, AlarmRule, AlarmRuleError, AlarmState};
