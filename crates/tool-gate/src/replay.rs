use countersign_audit_log::Record;
use countersign_core::{AgentId, Timestamp};
use countersign_signals::{AgentSignals, ReplayedSignals, SavedReplay};

use crate::conduct::{agent_of, fact_of, probe_of_record};
use crate::quarantine::KeptStanding;

/// Replay of one agent's records: its alarm and signals after the added entries.
///
/// [`CallStats::replay`](crate::CallStats::replay) starts one,
/// [`CallStats::resume_replay`](crate::CallStats::resume_replay) resumes a saved one, and
/// [`CallStats::take_up_replay`](crate::CallStats::take_up_replay) continues the agent's alarm from it. The rules of
/// the signals bound its size.
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
    pub(crate) signals: ReplayedSignals,
    /// The last change in the store, if that is a lift.
    pub(crate) lift: Option<KeptStanding>,
}

impl AgentReplay {
    /// Starts a replay by the rules of these signals, without evidence.
    pub(crate) fn new(agent: AgentId, rules: &AgentSignals, lift: Option<KeptStanding>) -> Self {
        let lifted = lift.as_ref().map(|lift| lift.change.time);
        Self { signals: rules.replay(agent, lifted), lift }
    }

    /// Sets the present time. An entry from more than five minutes later was recorded by a clock that was ahead. It then
    /// counts at the time of the latest entry before it, and for no signal.
    ///
    /// Without it, one such entry makes all later ones late until its time comes.
    #[must_use]
    pub const fn as_of(mut self, now: Timestamp) -> Self {
        self.signals.as_of(now);
        self
    }

    /// Resumes a saved replay; `None` if it is of another agent or other rules, or if it counts entries from after a
    /// lift that it did not know.
    pub(crate) fn resumed(self, saved: &SavedReplay) -> Option<Self> {
        Some(Self { signals: self.signals.resumed(saved)?, lift: self.lift })
    }

    /// Takes an entry into account; entries of other agents change nothing. Add the entries of each log in their order,
    /// and several logs merged by time.
    ///
    /// An entry may still come late, after later entries of another log. It then neither ends nor revives an effect of
    /// those: an earlier session ends no alarm, an earlier change of standing counts no more, and refusals that a later
    /// session would have ended raise no alarm. All times are taken to be of one clock.
    pub fn add(&mut self, entry: &Record) {
        if agent_of(entry) != Some(self.signals.agent()) {
            return;
        }
        if let Some(fact) = fact_of(entry, probe_of_record) {
            self.signals.add(&fact);
        }
    }

    /// Returns the state after the entries that were added.
    #[must_use]
    pub fn save(&self) -> SavedReplay {
        self.signals.save()
    }
}
