use countersign_core::{AgentId, Millis, Timestamp};
use serde::{Deserialize, Serialize};

use crate::alarm::{Alarm, AlarmRule, AlarmState};
use crate::alarm_replay::{AgentFact, AlarmReplay, SavedAlarm};
use crate::probing::{Probing, SavedProbing};

/// Time by which entries may be ahead of the clock of the replay.
const TOLERANCE: Millis = Millis::from_secs(300);

/// Replay of one agent's recorded facts: its alarm and signals after the added ones. The rules of the signals bound its size.
#[derive(Clone, Debug)]
pub struct ReplayedSignals {
    agent: AgentId,
    alarm: AlarmReplay,
    probing: Probing,
    /// Time at which the alarm was raised, if it was in the last session.
    raised: Option<Timestamp>,
    /// Time of the recorded quarantine, if the record ends with one.
    quarantined: Option<Timestamp>,
    /// Time of the last change in the store, if that is a lift.
    lifted: Option<Timestamp>,
    /// Time of the latest decision of the agent.
    latest: Option<Timestamp>,
    /// Time of the last change of the agent's standing.
    changed: Option<Timestamp>,
    /// Time of the latest session.
    began: Option<Timestamp>,
    /// Time of the last session that ended a raised alarm, which counts no earlier decision any more.
    ended: Option<Timestamp>,
    /// Time of the replay, if it is known.
    now: Option<Timestamp>,
}

/// Saved state of [`ReplayedSignals`]. It serialises to JSON of at most about 350 KB.
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
    #[serde(skip_serializing_if = "Option::is_none", default)]
    changed: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    began: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    ended: Option<Timestamp>,
}

impl SavedReplay {
    /// Returns `true` if both states follow the same agent by the same rules.
    #[must_use]
    pub fn has_same_rules(&self, other: &Self) -> bool {
        self.agent == other.agent
            && self.alarm.has_same_rule(&other.alarm)
            && self.signals.has_same_rules(&other.signals)
    }

    /// Returns `true` if the state counts entries from more than five minutes after `now`, as a clock that was ahead
    /// leaves them. It would take all entries for late ones until then: replay all entries [as of](ReplayedSignals::as_of)
    /// `now` instead.
    #[must_use]
    pub fn is_ahead_of(&self, now: Timestamp) -> bool {
        let last = self.latest.max(self.began).max(self.changed);
        last.is_some_and(|last| is_ahead(last, now))
    }
}

impl ReplayedSignals {
    /// Starts a replay by these rules, without evidence. `lifted` is the time of the last change in the store, if
    /// that is a lift.
    pub(crate) fn new(
        agent: AgentId,
        rule: AlarmRule,
        mut probing: Probing,
        lifted: Option<Timestamp>,
    ) -> Self {
        probing.reset();
        let alarm = AlarmReplay::new(rule);
        let (raised, quarantined, latest) = (None, None, None);
        let (changed, began, ended, now) = (None, None, None, None);
        Self { agent, alarm, probing, raised, quarantined, lifted, latest, changed, began, ended, now }
    }

    /// Sets the present time. An entry from more than five minutes later was recorded by a clock that was ahead. It then
    /// counts at the time of the latest entry before it, and for no signal.
    ///
    /// Without it, one such entry makes all later ones late until its time comes.
    pub const fn as_of(&mut self, now: Timestamp) {
        self.now = Some(now);
    }

    /// Resumes a saved replay; `None` if it is of another agent or other rules, or if it counts entries from after a
    /// lift that it did not know.
    #[must_use]
    pub fn resumed(mut self, saved: &SavedReplay) -> Option<Self> {
        if saved.agent != self.agent {
            return None;
        }
        self.alarm = self.alarm.resumed(&saved.alarm)?;
        self.probing = self.probing.resumed(&saved.signals)?;
        (self.raised, self.quarantined, self.latest) = (saved.raised, saved.quarantined, saved.latest);
        (self.changed, self.began, self.ended) = (saved.changed, saved.began, saved.ended);
        if self.lifted.is_none() || self.lifted == saved.lifted {
            return Some(self);
        }
        if self.lifted < self.latest {
            return None;
        }
        self.forget();
        Some(self)
    }

    /// Returns the agent.
    #[must_use]
    pub const fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// Returns the alarm.
    #[must_use]
    pub const fn alarm(&self) -> &Alarm {
        self.alarm.alarm()
    }

    /// Returns the signals.
    #[must_use]
    pub const fn probing(&self) -> &Probing {
        &self.probing
    }

    pub(crate) fn into_probing(self) -> Probing {
        self.probing
    }

    /// Returns the time at which the alarm was raised, if it was in the last session.
    #[must_use]
    pub const fn raised(&self) -> Option<Timestamp> {
        self.raised
    }

    /// Returns the time of the recorded quarantine, if the record ends with one.
    #[must_use]
    pub const fn quarantined(&self) -> Option<Timestamp> {
        self.quarantined
    }

    /// Takes a fact into account. Add the facts of each log in their order, and several logs merged by time.
    ///
    /// A fact may still come late, after later facts of another log. It then neither ends nor revives an effect of
    /// those: an earlier session ends no alarm, an earlier change of standing counts no more, and refusals that a later
    /// session would have ended raise no alarm. All times are taken to be of one clock.
    pub fn add(&mut self, fact: &AgentFact) {
        match fact {
            // An alarm's effect ends with its session, or is in the store: the next session starts anew.
            AgentFact::Began(time) => {
                self.began = self.began.max(Some(self.dated(*time)));
                self.end_raised();
            }
            AgentFact::Decided { time: recorded, probe, .. } => {
                let time = self.dated(*recorded);
                if !self.counts(time) {
                    return;
                }
                if self.ended <= Some(time) && self.alarm.replay(fact) == AlarmState::Raised {
                    self.raise(time);
                }
                if let Some(probe) = probe.filter(|_| time == *recorded) {
                    self.probing.replay(time, probe);
                }
                self.end_late();
            }
            AgentFact::Refused(sum) => {
                let to = self.dated(sum.to);
                if !self.counts(to) {
                    return;
                }
                if self.ended <= Some(to) && self.alarm.replay(fact) == AlarmState::Raised {
                    self.raise(self.dated(sum.time));
                }
                self.end_late();
            }
            AgentFact::Standing { time, is_lifted } => {
                let time = self.dated(*time);
                if self.changed > Some(time) {
                    return;
                }
                self.changed = Some(time);
                if self.alarm.replay(fact) == AlarmState::Steady {
                    self.raised = None;
                }
                if *is_lifted && self.quarantined.is_some() {
                    self.probing.reset();
                }
                self.quarantined = (!is_lifted).then_some(time);
            }
        }
    }

    /// Returns the state after the entries that were added.
    #[must_use]
    pub fn save(&self) -> SavedReplay {
        SavedReplay {
            agent: self.agent.clone(),
            alarm: self.alarm.save(),
            signals: self.probing.save(),
            raised: self.raised,
            quarantined: self.quarantined,
            lifted: self.lifted,
            latest: self.latest,
            changed: self.changed,
            began: self.began,
            ended: self.ended,
        }
    }

    /// Ends alarm and signals that were raised before the latest session.
    fn end_raised(&mut self) {
        let Some(began) = self.began else { return };
        if self.raised.take_if(|raised| *raised <= began).is_some() {
            self.alarm.reset();
            self.ended = self.ended.max(Some(began));
        }
        self.probing.end_raised(began);
    }

    /// Ends what late entries raised, if all decisions so far are from before the latest session.
    fn end_late(&mut self) {
        if self.latest < self.began {
            self.end_raised();
        }
    }

    /// Notes when the alarm was raised: at the latest of the entries that it counts.
    fn raise(&mut self, time: Timestamp) {
        self.raised.get_or_insert(self.latest.map_or(time, |latest| latest.max(time)));
    }

    /// Returns the time at which an entry counts.
    fn dated(&self, time: Timestamp) -> Timestamp {
        match self.now {
            Some(now) if is_ahead(time, now) => {
                self.latest.max(self.began).max(self.changed).unwrap_or(Timestamp::EPOCH)
            }
            _ => time,
        }
    }

    /// Returns `true` if an entry of this time counts: entries from before the agent's release do not.
    fn counts(&mut self, time: Timestamp) -> bool {
        self.latest = self.latest.max(Some(time));
        self.lifted.is_none_or(|lifted| time > lifted)
    }

    /// Drops all evidence.
    fn forget(&mut self) {
        self.alarm.reset();
        self.probing.reset();
        (self.raised, self.ended) = (None, None);
    }
}

fn is_ahead(time: Timestamp, now: Timestamp) -> bool {
    time > now.saturating_add(TOLERANCE)
}
