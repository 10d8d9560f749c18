use countersign_core::{Digest, SeenDigests, SessionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::alarm::{Alarm, AlarmRule, AlarmState};
use crate::probing::Probe;

/// A recorded fact about an agent, in the form that replays count.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentFact {
    /// A session of the agent began.
    Began(Timestamp),
    /// A call was decided.
    Decided {
        /// Time of the decision.
        time: Timestamp,
        /// Whether the call was accepted; `None` if the decision is not about the agent's conduct.
        accepted: Option<bool>,
        /// The answer as the signals count it.
        probe: Option<Probe>,
    },
    /// Refusals without entries of their own were recorded as a sum.
    Refused(RefusedFact),
    /// The agent was quarantined, or released.
    Standing {
        /// Time of the change.
        time: Timestamp,
        /// Whether it was released.
        is_lifted: bool,
    },
}

/// A recorded sum of refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the reader of a record makes it")]
pub struct RefusedFact {
    /// Session of the refusals.
    pub session: SessionId,
    /// Time of the record.
    pub time: Timestamp,
    /// Time of the last refusal.
    pub to: Timestamp,
    /// Number of refusals that are about the agent's conduct.
    pub conduct: u64,
    /// Key of the sum, by which a second record of it is recognised; `None` for a sum without a number.
    pub key: Option<Digest>,
}

/// A drop alarm that is replayed over the recorded facts about one agent.
#[derive(Clone, Debug)]
pub struct AlarmReplay {
    alarm: Alarm,
    /// Whether the last replayed change of the agent's standing was its release from quarantine.
    let_out: bool,
    /// Time of the record of its last release.
    lifted: Option<Timestamp>,
    /// Sessions of the sums replayed since then; at most 64.
    since: Vec<SessionId>,
    /// Sums that were replayed.
    sums: SeenDigests,
}

/// Maximum number of sessions whose first sum after a release is compared with the release.
const MAX_SINCE: usize = 64;

/// Saved state of an [`AlarmReplay`], with its rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedAlarm {
    /// Weights of a rejected and an accepted call, threshold and evidence, in millionths of a nat.
    rejected: u64,
    accepted: u64,
    threshold: u64,
    score: u64,
    let_out: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    lifted: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    since: Vec<SessionId>,
    sums: SeenDigests,
}

impl SavedAlarm {
    /// Returns `true` if both states follow the same rule.
    #[must_use]
    pub const fn has_same_rule(&self, other: &Self) -> bool {
        self.rejected == other.rejected
            && self.accepted == other.accepted
            && self.threshold == other.threshold
    }
}

impl AlarmReplay {
    /// Builds an alarm without evidence.
    #[must_use]
    pub const fn new(rule: AlarmRule) -> Self {
        let alarm = Alarm::new(rule);
        Self { alarm, let_out: false, lifted: None, since: Vec::new(), sums: SeenDigests::new() }
    }

    /// Returns the alarm.
    #[must_use]
    pub const fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    /// Drops all evidence.
    pub const fn reset(&mut self) {
        self.alarm.reset();
    }

    /// Takes a recorded fact into account as the gate did that recorded it: a decision about the agent, or its release from
    /// quarantine, which resets the alarm. A session's beginning changes nothing.
    ///
    /// Pass the facts of one agent, in their order. If several gates record the same release, only the first counts.
    pub fn replay(&mut self, fact: &AgentFact) -> AlarmState {
        match fact {
            AgentFact::Decided { accepted: Some(accepted), .. } => {
                self.alarm.observe(*accepted);
            }
            AgentFact::Refused(sum) => self.refused(sum),
            AgentFact::Standing { time, is_lifted } => self.stands(*is_lifted, *time),
            AgentFact::Began(_) | AgentFact::Decided { accepted: None, .. } => {}
        }
        self.alarm.state()
    }

    /// Takes a sum's refusals for the agent's conduct into account, until they raise the alarm.
    fn refused(&mut self, sum: &RefusedFact) {
        if !self.counts(sum) {
            return;
        }
        let mut left = sum.conduct;
        while left > 0 && self.alarm.observe(false) == AlarmState::Steady {
            left = left.saturating_sub(1);
        }
    }

    /// Takes a recorded change of the agent's standing into account.
    fn stands(&mut self, let_out: bool, time: Timestamp) {
        if let_out && !self.let_out {
            self.reset();
            self.lifted = Some(time);
            self.since.clear();
        }
        self.let_out = let_out;
    }

    /// Returns `true` if a sum counts. A sum does not count if it was replayed before, or if it covers only refusals
    /// from before the agent's release, which another gate may have recorded first.
    ///
    /// Only a session's first sum after the release can be from before it. Later ones count whatever their times: the
    /// clock may have been ahead at the release.
    fn counts(&mut self, sum: &RefusedFact) -> bool {
        let is_first = self.since.len() < MAX_SINCE && !self.since.contains(&sum.session);
        let was_over = is_first && self.lifted.is_some_and(|lifted| sum.to < lifted);
        if is_first && self.lifted.is_some() {
            self.since.push(sum.session.clone());
        }
        sum.key.is_none_or(|key| self.sums.is_new(key)) && !was_over
    }

    /// Returns the state.
    #[must_use]
    pub fn save(&self) -> SavedAlarm {
        let [rejected, accepted, threshold] = self.alarm.rule().weights();
        SavedAlarm {
            rejected,
            accepted,
            threshold,
            score: self.alarm.score(),
            let_out: self.let_out,
            lifted: self.lifted,
            since: self.since.clone(),
            sums: self.sums.clone(),
        }
    }

    /// Restores an alarm of this rule from its saved state; `None` if it was saved under another rule.
    #[must_use]
    pub fn resumed(&self, saved: &SavedAlarm) -> Option<Self> {
        let SavedAlarm { score, let_out, lifted, ref since, ref sums, .. } = *saved;
        let alarm = Alarm::with_score(*self.alarm.rule(), score)?;
        let resumed = Self { alarm, let_out, lifted, since: since.clone(), sums: sums.clone() };
        (resumed.save() == *saved).then_some(resumed)
    }
}
