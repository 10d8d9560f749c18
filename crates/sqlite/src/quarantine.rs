use countersign_audit_log::StandingRecord;
use countersign_core::AgentId;
use countersign_tool_gate::{KeptStanding, QuarantineError, Quarantines, Standing};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction};

use crate::error::StoreFailure;
use crate::store::SqliteStore;

/// Keeps one row for each agent that was ever quarantined, and numbers changes over all agents.
impl Quarantines for SqliteStore {
    fn latest(&self, agent: &AgentId) -> Result<Option<KeptStanding>, QuarantineError> {
        self.read(|db| latest(db, agent)).map_err(unavailable)
    }

    fn change(&self, change: &StandingRecord) -> Result<Standing, QuarantineError> {
        self.write(|tx| put(tx, change)).map_err(unavailable)
    }

    fn list(&self) -> Result<Vec<StandingRecord>, QuarantineError> {
        let listed = self.read(|db| {
            let mut statement = db.prepare(
                "SELECT agent, number, quarantined, change FROM standing WHERE quarantined = 1 ORDER BY agent",
            )?;
            let rows = statement.query_map([], columns)?;
            rows.map(|row| Ok(read_row(row?)?.change)).collect()
        });
        listed.map_err(unavailable)
    }
}

pub(crate) fn unavailable(trouble: StoreFailure) -> QuarantineError {
    QuarantineError::Unavailable(Box::new(trouble))
}

fn latest(db: &Connection, agent: &AgentId) -> Result<Option<KeptStanding>, StoreFailure> {
    let query = "SELECT agent, number, quarantined, change FROM standing WHERE agent = ?1";
    db.query_row(query, [agent.as_str()], columns).optional()?.map(read_row).transpose()
}

fn put(tx: &Transaction<'_>, change: &StandingRecord) -> Result<Standing, StoreFailure> {
    let before =
        latest(tx, &change.agent)?.map_or(Standing::Free, |kept| Standing::after(kept.change.standing));
    let after = Standing::after(change.standing);
    if before != after {
        let text = serde_json::to_string(change).map_err(|_| StoreFailure::Damaged)?;
        tx.execute(
            "INSERT OR REPLACE INTO standing (agent, number, quarantined, change) \
             VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM standing), ?2, ?3)",
            (change.agent.as_str(), after == Standing::Quarantined, text),
        )?;
    }
    Ok(before)
}

/// Columns of a row: agent, number, whether it is quarantined, and the change.
type QuarantineRow = (String, i64, bool, String);

fn columns(row: &Row<'_>) -> rusqlite::Result<QuarantineRow> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}

/// Parses a row with the constructors of its types: the file is untrusted input.
fn read_row((agent, number, quarantined, change): QuarantineRow) -> Result<KeptStanding, StoreFailure> {
    let change: StandingRecord = serde_json::from_str(&change).map_err(|_| StoreFailure::Damaged)?;
    let number = u64::try_from(number).map_err(|_| StoreFailure::Damaged)?;
    let is_same = change.agent.as_str() == agent
        && quarantined == (Standing::after(change.standing) == Standing::Quarantined);
    if is_same { Ok(KeptStanding { number, change }) } else { Err(StoreFailure::Damaged) }
}

/// State of an agent's alarm over a record, as its host wrote it. The store does not interpret it.
impl SqliteStore {
    /// Returns the stored state of an agent's alarm over a record, which its host names.
    ///
    /// # Errors
    /// [`QuarantineError`] if the store cannot be read.
    pub fn alarm_state(&self, agent: &AgentId, record: &str) -> Result<Option<String>, QuarantineError> {
        self.read(|db| find_alarm(db, agent, record)).map_err(unavailable)
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
            let is_due = find_alarm(tx, agent, record)?.as_deref() == before;
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

fn find_alarm(db: &Connection, agent: &AgentId, record: &str) -> Result<Option<String>, StoreFailure> {
    let query = "SELECT state FROM alarm WHERE agent = ?1 AND record = ?2";
    Ok(db.query_row(query, (agent.as_str(), record), |row| row.get(0)).optional()?)
}
