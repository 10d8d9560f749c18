//! Finds questions for a person: by the beginning of an id, and the last approved call like one that waits.

use countersign_approval_token::{PendingApproval, PendingError};
use countersign_core::{CallId, Principal, Timestamp, ToolId};
use rusqlite::named_params;

use crate::SqliteStore;
use crate::pending::{ENDED, LACKS, flat, silent};
use crate::pending_row::{columns, read_id, read_item};
use crate::schema::sql_time;

impl SqliteStore {
    /// Returns the call of this tool for this principal that was approved last, as far as closed questions are kept.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    pub fn last_approved(
        &self,
        tool: &ToolId,
        principal: &Principal,
    ) -> Result<Option<PendingApproval>, PendingError> {
        flat(self.read(|db| {
            let mut statement = db.prepare(
                "SELECT call_id, request, state, token FROM pending WHERE state IN ('approved', 'used') \
                 ORDER BY number DESC",
            )?;
            for row in statement.query_map([], columns)? {
                let (pending, _) = read_item(row?)?;
                let binding = pending.binding();
                if binding.tool == *tool && binding.principal == *principal {
                    return Ok(Ok(Some(pending)));
                }
            }
            Ok(Ok(None))
        }))
    }

    /// Returns the ids that begin with `letters`, in the order of their requests: first those of questions that wait in
    /// sessions that have not ended, then all others that are kept. At most 32 in total.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    pub fn ids_beginning_with(
        &self,
        letters: &str,
        now: Timestamp,
    ) -> Result<(Vec<CallId>, Vec<CallId>), PendingError> {
        flat(self.read(|db| {
            let mut statement = db.prepare(&format!(
                "SELECT call_id, {LACKS} AND open_until > :now AND NOT {ENDED} AS waits FROM pending \
                     WHERE substr(call_id, 1, length(:id)) = :id ORDER BY waits DESC, number LIMIT 32"
            ))?;
            let params = named_params! {":id": letters, ":now": sql_time(now), ":silent": silent(now)};
            let rows = statement.query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?;
            let (mut waiting, mut closed) = (Vec::new(), Vec::new());
            for row in rows {
                let (id, waits): (String, bool) = row?;
                if waits { &mut waiting } else { &mut closed }.push(read_id(&id)?);
            }
            Ok(Ok((waiting, closed)))
        }))
    }
}
