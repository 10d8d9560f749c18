use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use countersign_audit_log::StandingRecord;
use countersign_core::AgentId;
use parking_lot::Mutex;

use crate::snapshot::Standing;

/// Who put an agent into quarantine, where it was the drop alarm and no operator.
pub const BY_ALARM: &str = "alarm";

/// Author of a quarantine that a [signal](crate::SignalRule) brought about.
pub const BY_SIGNAL: &str = "signal";

/// Keeps quarantines for longer than a process lives, and for all processes that use it.
///
/// A gate asks it about its agent before each answer ([`CallStats::kept_in`](crate::CallStats::kept_in)), so looking up
/// is to be quick. What it cannot answer refuses the call.
///
/// Of each agent it keeps the last change alone: who put it into quarantine, or who lifted that. Where an operator writes
/// into it and a gate reads, the two need nothing else in common.
pub trait Quarantines: Send + Sync + fmt::Debug {
    /// The last change of the agent's standing; nothing for one that was never in quarantine.
    ///
    /// # Errors
    /// [`QuarantineError`] when nobody can tell.
    fn latest(&self, agent: &AgentId) -> Result<Option<KeptStanding>, QuarantineError>;

    /// Keeps the change, unless the agent stands so already, and says how it stood before. Once this returns, the change
    /// outlives a crash.
    ///
    /// # Errors
    /// [`QuarantineError`] when it is not known to be kept.
    fn change(&self, change: &StandingRecord) -> Result<Standing, QuarantineError>;

    /// The agents that are in quarantine, in order.
    ///
    /// # Errors
    /// [`QuarantineError`] when nobody can tell.
    fn list(&self) -> Result<Vec<StandingRecord>, QuarantineError>;
}

/// The last change of one agent's standing, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores of hosts make it")]
pub struct KeptStanding {
    /// Rises with every change, whichever agent's it is.
    pub number: u64,
    /// The change. Its time is when it was made.
    pub change: StandingRecord,
}

/// Why quarantines cannot be looked up or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuarantineError {
    /// The store cannot be used.
    #[error("quarantines cannot be looked up or kept")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
}

impl QuarantineError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "STORE_UNAVAILABLE",
        }
    }
}

/// Keeps quarantines in memory: for several [`CallStats`](crate::CallStats) of one process, and for tests. With the
/// process they are gone.
///
/// ```
/// use std::sync::Arc;
/// use countersign_audit_log::{StandingChange, StandingRecord};
/// use countersign_core::{AgentId, Timestamp};
/// use countersign_tool_gate::{CallStats, MemoryQuarantines, Quarantines, Standing};
/// let store = Arc::new(MemoryQuarantines::new());
/// let stats = CallStats::new().kept_in(Arc::clone(&store) as Arc<dyn Quarantines>);
/// let (agent, now) = (AgentId::new("support-bot")?, Timestamp::from_millis(1_800_000_000_000)?);
/// let change = StandingRecord::new(now, agent, StandingChange::Quarantined, "ada");
/// assert_eq!(stats.set_standing(&change)?, Standing::Free);
/// assert_eq!(store.list()?, [change]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct MemoryQuarantines {
    kept: Mutex<(u64, BTreeMap<AgentId, KeptStanding>)>,
}

impl MemoryQuarantines {
    /// Starts without any.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl Quarantines for MemoryQuarantines {
    fn latest(&self, agent: &AgentId) -> Result<Option<KeptStanding>, QuarantineError> {
        Ok(self.kept.lock().1.get(agent).cloned())
    }

    fn change(&self, change: &StandingRecord) -> Result<Standing, QuarantineError> {
        let mut held = self.kept.lock();
        let (last, agents) = &mut *held;
        let before =
            agents.get(&change.agent).map_or(Standing::Free, |kept| Standing::after(kept.change.standing));
        if before != Standing::after(change.standing) {
            *last = last.saturating_add(1);
            agents.insert(change.agent.clone(), KeptStanding { number: *last, change: change.clone() });
        }
        Ok(before)
    }

    fn list(&self) -> Result<Vec<StandingRecord>, QuarantineError> {
        let held = self.kept.lock();
        let quarantined =
            |change: &&StandingRecord| Standing::after(change.standing) == Standing::Quarantined;
        Ok(held.1.values().map(|kept| &kept.change).filter(quarantined).cloned().collect())
    }
}
