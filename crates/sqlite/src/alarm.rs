use countersign_core::AgentId;
use countersign_tool_gate::QuarantineError;
use rusqlite::{Connection, OptionalExtension as _};

use crate::quarantine::unavailable;
use crate::store::SqliteStore;
use crate::trouble::Trouble;

/// State of an agent's alarm over a record, as its host wrote it. The store does not interpret it.
impl SqliteStore {
    /// Returns the stored state of an agent's alarm over a record, which its host names.
    ///
    /// # Errors
    /// [`QuarantineError`] if the store cannot be read.
    pub fn alarm_state(&self, agent: &AgentId, record: &str) -> Result<Option<String>, QuarantineError> {
        self.read(|db| find(db, agent, record)).map_err(unavailable)
    }

    /// Replaces the stored state if it is still `before`. Otherwise returns `false` and changes nothing. A state is 1
    /// MiB at most.
    ///
    /// # Errors
    /// [`QuarantineError`] if the write may not have taken effect.
    pub fn keep_alarm_state(
        &self,
        agent: &AgentId,
        record: &str,
        before: Option<&str>,
        state: &str,
    ) -> Result<bool, QuarantineError> {
        let keep = |tx: &rusqlite::Transaction<'_>| {
            let is_due = find(tx, agent, record)?.as_deref() == before;
            if is_due {
                tx.execute(
                    "INSERT OR REPLACE INTO alarm (agent, record, state) VALUES (?1, ?2, ?3)",
                    (agent.as_str(), record, state),
                )?;
            }
            Ok(is_due)
        };
        self.write(keep).map_err(unavailable)
    }
}

fn find(db: &Connection, agent: &AgentId, record: &str) -> Result<Option<String>, Trouble> {
    let query = "SELECT state FROM alarm WHERE agent = ?1 AND record = ?2";
    Ok(db.query_row(query, (agent.as_str(), record), |row| row.get(0)).optional()?)
}
