use std::collections::VecDeque;

use countersign_core::{Digest, Millis, Signal, Timestamp};
use serde::{Deserialize, Serialize};

use crate::alarm::AlarmAction;

/// Rule of one signal: how many calls raise it, within what time, and what follows.
///
/// [`Signal::Asked`] counts distinct calls, by tool and arguments, that needed an approval and had none. Asking about
/// the same call again counts once, and a call that is accepted with its approval does not count any more.
/// [`Signal::Undisclosed`] counts every call to a tool that the session does not disclose. An agent that probes rarely
/// enough stays below both, as it stays below the drop alarm: each call is decided on its own.
///
/// ```
/// use countersign_core::{Millis, Signal, Timestamp};
/// use countersign_signals::{AlarmAction, Probe, Probing, SignalRule};
/// let rule = SignalRule::new(2, Millis::from_secs(60), AlarmAction::Quarantine)?;
/// let mut probing = Probing::new(SignalRule::usual(Signal::Asked), rule);
/// let now = Timestamp::from_millis(1_800_000_000_000)?;
/// assert_eq!(probing.observe(now, Probe::Undisclosed), None);
/// assert_eq!(probing.observe(now, Probe::Undisclosed), Some(Signal::Undisclosed));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalRule {
    count: u32,
    within: Millis,
    action: AlarmAction,
}

/// A signal rule is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignalRuleError {
    /// The number of calls is not 1 to 1,024.
    #[error("signal threshold out of range: 1 to 1,024 calls expected")]
    Count,
    /// The time is not 1 second to 1 day.
    #[error("signal window out of range: 1 second to 1 day expected")]
    Within,
}

impl SignalRuleError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Count => "SIGNAL_COUNT",
            Self::Within => "SIGNAL_WITHIN",
        }
    }
}

countersign_core::coded!(SignalRuleError);

impl SignalRule {
    /// Builds a rule.
    ///
    /// # Errors
    /// [`SignalRuleError`] unless `count` is 1 to 1,024 and `within` 1 second to 1 day.
    pub fn new(count: u32, within: Millis, action: AlarmAction) -> Result<Self, SignalRuleError> {
        if !(1..=1_024).contains(&count) {
            return Err(SignalRuleError::Count);
        }
        if !(Millis::from_secs(1)..=Millis::from_secs(86_400)).contains(&within) {
            return Err(SignalRuleError::Within);
        }
        Ok(Self { count, within, action })
    }

    /// Returns the default rule of a signal: 32 calls (`asked`) or 20 (`undisclosed`) in 10 minutes, flagged.
    #[must_use]
    pub const fn usual(signal: Signal) -> Self {
        let count = match signal {
            Signal::Asked => 32,
            Signal::Undisclosed | _ => 20,
        };
        Self { count, within: Millis::from_secs(600), action: AlarmAction::Flag }
    }

    /// Returns the number of calls that raise the signal.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns the time span in which they must come.
    #[must_use]
    pub const fn within(&self) -> Millis {
        self.within
    }

    /// Returns the action that follows.
    #[must_use]
    pub const fn action(&self) -> AlarmAction {
        self.action
    }
}

/// An answer in the form that the signals count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Probe {
    /// A call needed an approval and had none. The digest identifies the call.
    Asked(Digest),
    /// A call was accepted with its approval.
    Approved(Digest),
    /// A call named a tool that is not disclosed.
    Undisclosed,
}

/// Follows the signals of one agent. It stores at most as many calls as its rules count.
#[derive(Clone, Debug)]
pub struct Probing {
    asked: Tracker,
    undisclosed: Tracker,
}

#[derive(Clone, Debug)]
struct Tracker {
    rule: SignalRule,
    /// Calls that count, in order; empty once the signal is raised.
    calls: VecDeque<(Timestamp, Option<Digest>)>,
    raised: Option<Timestamp>,
    /// Time of the last session that ended the raised signal, in a replay.
    ended: Option<Timestamp>,
}

/// Saved state of all signals, with their rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedProbing {
    asked: SavedTracker,
    undisclosed: SavedTracker,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedTracker {
    count: u32,
    within: Millis,
    calls: VecDeque<(Timestamp, Option<Digest>)>,
    raised: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    ended: Option<Timestamp>,
}

impl SavedProbing {
    /// Returns `true` if both states follow the same rules.
    #[must_use]
    pub fn has_same_rules(&self, other: &Self) -> bool {
        let same =
            |one: &SavedTracker, other: &SavedTracker| (one.count, one.within) == (other.count, other.within);
        same(&self.asked, &other.asked) && same(&self.undisclosed, &other.undisclosed)
    }
}

impl Probing {
    /// Builds one without evidence.
    #[must_use]
    pub const fn new(asked: SignalRule, undisclosed: SignalRule) -> Self {
        Self { asked: Tracker::new(asked), undisclosed: Tracker::new(undisclosed) }
    }

    /// Takes an answer into account. Returns the signal that it raises.
    pub fn observe(&mut self, time: Timestamp, probe: Probe) -> Option<Signal> {
        match probe {
            Probe::Asked(call) => self.asked.add(time, Some(call)).then_some(Signal::Asked),
            Probe::Approved(call) => {
                self.asked.calls.retain(|(_, asked)| *asked != Some(call));
                None
            }
            Probe::Undisclosed => self.undisclosed.add(time, None).then_some(Signal::Undisclosed),
        }
    }

    /// Takes a recorded answer into account. It may come late, after later ones.
    pub fn replay(&mut self, time: Timestamp, probe: Probe) {
        match probe {
            Probe::Asked(call) => self.asked.replay(time, Some(call)),
            Probe::Approved(call) => {
                self.asked.calls.retain(|(at, asked)| *at > time || *asked != Some(call));
            }
            Probe::Undisclosed => self.undisclosed.replay(time, None),
        }
    }

    /// Returns `true` if a call counts that needed an approval and had none.
    #[must_use]
    pub fn has_asked(&self) -> bool {
        !self.asked.calls.is_empty()
    }

    /// Returns the rule of a signal and the time at which it was raised.
    #[must_use]
    pub const fn find(&self, signal: Signal) -> (SignalRule, Option<Timestamp>) {
        let Tracker { rule, raised, .. } = match signal {
            Signal::Asked => &self.asked,
            Signal::Undisclosed | _ => &self.undisclosed,
        };
        (*rule, *raised)
    }

    /// Returns the state.
    #[must_use]
    pub fn save(&self) -> SavedProbing {
        SavedProbing { asked: self.asked.save(), undisclosed: self.undisclosed.save() }
    }

    /// Restores the signals from a saved state; `None` if other rules were followed.
    #[must_use]
    pub fn resumed(&self, saved: &SavedProbing) -> Option<Self> {
        let asked = self.asked.resumed(&saved.asked)?;
        Some(Self { asked, undisclosed: self.undisclosed.resumed(&saved.undisclosed)? })
    }

    /// Resets all signals.
    pub fn reset(&mut self) {
        *self = Self::new(self.asked.rule, self.undisclosed.rule);
    }

    /// Ends the signals that were raised before a recorded session began.
    pub fn end_raised(&mut self, session: Timestamp) {
        for tracker in [&mut self.asked, &mut self.undisclosed] {
            if tracker.raised.take_if(|raised| *raised <= session).is_some() {
                tracker.ended = tracker.ended.max(Some(session));
            }
        }
    }

    /// Resets the raised signals.
    pub fn reset_raised(&mut self) {
        for tracker in [&mut self.asked, &mut self.undisclosed] {
            tracker.raised = None;
        }
    }
}

impl Tracker {
    const fn new(rule: SignalRule) -> Self {
        Self { rule, calls: VecDeque::new(), raised: None, ended: None }
    }

    fn save(&self) -> SavedTracker {
        let SignalRule { count, within, .. } = self.rule;
        SavedTracker { count, within, calls: self.calls.clone(), raised: self.raised, ended: self.ended }
    }

    fn resumed(&self, saved: &SavedTracker) -> Option<Self> {
        let is_same = (saved.count, saved.within) == (self.rule.count, self.rule.within);
        let is_steady = u32::try_from(saved.calls.len()).is_ok_and(|calls| calls < self.rule.count);
        let (calls, SavedTracker { raised, ended, .. }) = (saved.calls.clone(), saved);
        let resumed = Self { rule: self.rule, calls, raised: *raised, ended: *ended };
        (is_same && is_steady).then_some(resumed)
    }

    /// Counts a recorded call among those that are not older than the rule's time.
    fn replay(&mut self, time: Timestamp, call: Option<Digest>) {
        let latest = self.calls.iter().fold(time, |latest, (at, _)| latest.max(*at));
        if self.ended <= Some(time) && time.saturating_add(self.rule.within) > latest {
            self.add_as_of(latest, time, call);
        }
    }

    /// Counts a call. Returns `true` if it raises the signal.
    fn add(&mut self, time: Timestamp, call: Option<Digest>) -> bool {
        self.add_as_of(time, time, call)
    }

    fn add_as_of(&mut self, now: Timestamp, time: Timestamp, call: Option<Digest>) -> bool {
        if self.raised.is_some() {
            return false;
        }
        let within = self.rule.within;
        self.calls.retain(|(before, _)| before.saturating_add(within) > now);
        if call.is_some() && self.calls.iter().any(|(_, asked)| *asked == call) {
            return false;
        }
        self.calls.push_back((time, call));
        let is_raised = u32::try_from(self.calls.len()).is_ok_and(|count| count >= self.rule.count);
        if is_raised {
            self.raised = Some(now);
            self.calls.clear();
        }
        is_raised
    }
}
