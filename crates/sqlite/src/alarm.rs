use countersign_core::AgentId;
use countersign_tool_gate::QuarantineError;
use rusqlite::{Connection, OptionalExtension as _};

use crate::quarantine::unavailable;
use crate::store::SqliteStore;
use crate::trouble::Trouble;

/// The state of an agent's alarm over a record, as its host wrote it. The store looks at nothing in it.
impl SqliteStore {
    /// Returns the state that is kept of an agent's alarm over a record, which its host names.
    ///
    /// # Errors
    /// [`QuarantineError`] where the store cannot be read.
    pub fn alarm_state(&self, agent: &AgentId, record: &str) -> Result<Option<String>, QuarantineError> {
        self.read(|db| find(db, agent, record)).map_err(unavailable)
    }

    /// Keeps another state in the place of `before`. Returns `false` and changes nothing where the store has another one by now.
    /// A state has 1 MiB at most.
    ///
    /// # Errors
    /// [`QuarantineError`] when the state is not known to be kept.
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
