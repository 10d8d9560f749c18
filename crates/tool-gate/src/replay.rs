use countersign_audit_log::{Record, StandingChange};
use countersign_core::{AgentId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::alarm::{Alarm, AlarmRule, AlarmState, SavedAlarm};
use crate::probing::{Probe, Probing, SavedProbing};
use crate::quarantine::KeptStanding;

/// Replay of one agent's records: its alarm and its signals after the entries that were added.
///
/// [`CallStats::replay`](crate::CallStats::replay) begins one, [`CallStats::resume_replay`](crate::CallStats::resume_replay) resumes
/// one that was saved, and [`CallStats::take_up_replay`](crate::CallStats::take_up_replay) has the agent's alarm go on from it. Its
/// size is bounded by the rules of the signals.
///
/// ```
/// use countersign_audit_log::{Record, SignalRecord};
/// use countersign_core::AgentId;
/// use countersign_tool_gate::{CallStats, SavedReplay};
/// let (stats, agent) = (CallStats::new(), AgentId::new("support-bot")?);
/// let mut replay = stats.replay(&agent)?;
/// # let earlier: [Record; 0] = [];
/// for entry in &earlier {
///     replay.add(entry);
/// }
/// let saved = serde_json::to_string(&replay.save())?;
/// // In a later process:
/// let saved: SavedReplay = serde_json::from_str(&saved)?;
/// let replay = stats.resume_replay(&agent, &saved)?.ok_or("the rules have changed: replay all entries")?;
/// stats.take_up_replay(replay)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AgentReplay {
    pub(crate) agent: AgentId,
    pub(crate) alarm: Alarm,
    pub(crate) probing: Probing,
    /// When the alarm was raised, if it was in the last session.
    pub(crate) raised: Option<Timestamp>,
    /// When the quarantine was put on record that the record ends with, if it does.
    pub(crate) quarantined: Option<Timestamp>,
    /// The last change in the store, where that is a lift.
    pub(crate) lift: Option<KeptStanding>,
    /// Time of the latest decision of the agent.
    latest: Option<Timestamp>,
}

/// Saved state of an [`AgentReplay`]. It serialises to JSON of at most some 350 KB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedReplay {
    agent: AgentId,
    alarm: SavedAlarm,
    signals: SavedProbing,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    raised: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    quarantined: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    lifted: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    latest: Option<Timestamp>,
}

impl AgentReplay {
    /// Starts by these rules, with no evidence.
    pub(crate) fn new(
        agent: AgentId,
        rule: AlarmRule,
        mut probing: Probing,
        lift: Option<KeptStanding>,
    ) -> Self {
        probing.reset();
        Self { agent, alarm: Alarm::new(rule), probing, raised: None, quarantined: None, lift, latest: None }
    }

    /// Resumes a saved replay; `None` where it is of another agent or other rules, or where the agent was let out before
    /// entries that it counts.
    pub(crate) fn resumed(mut self, saved: &SavedReplay) -> Option<Self> {
        if saved.agent != self.agent {
            return None;
        }
        self.alarm = self.alarm.resumed(&saved.alarm)?;
        self.probing = self.probing.resumed(&saved.signals)?;
        (self.raised, self.quarantined, self.latest) = (saved.raised, saved.quarantined, saved.latest);
        let lifted = self.lifted();
        if lifted.is_none() || lifted == saved.lifted {
            return Some(self);
        }
        if lifted < self.latest {
            return None;
        }
        self.forget();
        Some(self)
    }

    /// Takes an entry into account; those of other agents change nothing. Entries come in their order.
    pub fn add(&mut self, entry: &Record) {
        match entry {
            // What the alarm led to in one session is over with it, or is in the store: it begins anew with the next.
            Record::Session(session)
                if session.agent == self.agent && session.code.is_none() && !session.renewed =>
            {
                if self.raised.take().is_some() {
                    self.alarm.reset();
                }
                self.probing.reset_raised();
            }
            Record::Decision(call) if call.agent == self.agent && self.counts(call.time) => {
                if self.alarm.replay(entry) == AlarmState::Raised {
                    self.raised.get_or_insert(call.time);
                }
                if let Some(probe) = Probe::of_record(call) {
                    self.probing.observe(call.time, probe);
                }
            }
            Record::Refused(sum) if sum.agent.as_ref() == Some(&self.agent) && self.counts(sum.to) => {
                if self.alarm.replay(entry) == AlarmState::Raised {
                    self.raised.get_or_insert(sum.time);
                }
            }
            Record::Standing(change) if change.agent == self.agent => {
                if self.alarm.replay(entry) == AlarmState::Steady {
                    self.raised = None;
                }
                let is_lifted = change.standing == StandingChange::Lifted;
                if is_lifted && self.quarantined.is_some() {
                    self.probing.reset();
                }
                self.quarantined = (!is_lifted).then_some(change.time);
            }
            Record::Session(_)
            | Record::Decision(_)
            | Record::Standing(_)
            | Record::Refused(_)
            | Record::Outcome(_)
            | Record::Gateway(_)
            | Record::Recovered(_)
            | _ => {}
        }
    }

    /// State after the entries that were added.
    #[must_use]
    pub fn save(&self) -> SavedReplay {
        SavedReplay {
            agent: self.agent.clone(),
            alarm: self.alarm.save(),
            signals: self.probing.save(),
            raised: self.raised,
            quarantined: self.quarantined,
            lifted: self.lifted(),
            latest: self.latest,
        }
    }

    fn lifted(&self) -> Option<Timestamp> {
        self.lift.as_ref().map(|lift| lift.change.time)
    }

    /// What came before the agent was let out is not held against it.
    fn counts(&mut self, time: Timestamp) -> bool {
        self.latest = self.latest.max(Some(time));
        self.lifted().is_none_or(|lifted| time > lifted)
    }

    /// Drops all evidence.
    fn forget(&mut self) {
        self.alarm.reset();
        self.probing.reset();
        self.raised = None;
    }
}
