use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use countersign_audit_log::StandingRecord;
use countersign_core::AgentId;
use parking_lot::Mutex;

use crate::snapshot::Standing;

/// Author of a quarantine that the drop alarm caused, instead of an operator.
pub const BY_ALARM: &str = "alarm";

/// Author of a quarantine that a [signal](crate::SignalRule) caused.
pub const BY_SIGNAL: &str = "signal";

/// Store of quarantines that outlives a process and is shared by all processes that use it.
///
/// A gate asks it about its agent before each answer ([`CallStats::kept_in`](crate::CallStats::kept_in)), so lookups
/// should be fast. If it fails, the call is refused.
///
/// It keeps only the last change of each agent: the quarantine or its lift, with its author. An operator who writes and
/// a gate that reads need nothing else in common.
pub trait Quarantines: Send + Sync + fmt::Debug {
    /// Returns the last change of the agent's standing; `None` if it was never quarantined.
    ///
    /// # Errors
    /// [`QuarantineError`] if the store cannot be read.
    fn latest(&self, agent: &AgentId) -> Result<Option<KeptStanding>, QuarantineError>;

    /// Stores the change unless the agent has that standing already, and returns the standing before. Once this
    /// returns, the change survives a crash.
    ///
    /// # Errors
    /// [`QuarantineError`] if the change may not be stored.
    fn change(&self, change: &StandingRecord) -> Result<Standing, QuarantineError>;

    /// Lists the quarantined agents, in order.
    ///
    /// # Errors
    /// [`QuarantineError`] if the store cannot be read.
    fn list(&self) -> Result<Vec<StandingRecord>, QuarantineError>;
}

/// The stored last change of one agent's standing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "stores of hosts make it")]
pub struct KeptStanding {
    /// Rises with every change of any agent.
    pub number: u64,
    /// The change, with the time at which it was made.
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
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "STORE_UNAVAILABLE",
        }
    }
}

countersign_core::coded!(QuarantineError);

/// Keeps quarantines in memory: for several [`CallStats`](crate::CallStats) of one process, and for tests. They are
/// lost when the process ends.
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
    /// Builds an empty store.
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
