use countersign_approval_token::{
    ApprovalToken, CallBinding, PendingApproval, PendingApprovals, PendingError, PendingState,
};
use countersign_core::{CallId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction};

use crate::store::{SqliteStore, sql_time};
use crate::trouble::Trouble;

/// The most questions that are open (waiting, or approved and unused).
const MAX_OPEN: i64 = 1_024;

/// The most bytes that all of them hold.
const MAX_OPEN_BYTES: i64 = 64 << 20;

/// The most decided or expired ones that are kept for whoever asks how they ended.
const MAX_CLOSED: i64 = 256;

/// Keeps the same rules as [`MemoryPendingApprovals`](countersign_approval_token::MemoryPendingApprovals); a test
/// runs both side by side.
impl PendingApprovals for SqliteStore {
    fn request(&self, pending: &PendingApproval) -> Result<CallId, PendingError> {
        flat(self.write(|tx| request(tx, pending)))
    }

    fn get(&self, id: &CallId) -> Result<Option<(PendingApproval, PendingState)>, PendingError> {
        flat(self.read(|db| {
            let found = db
                .query_row(
                    "SELECT call_id, request, state, token FROM pending WHERE call_id = ?1",
                    [id.as_str()],
                    columns,
                )
                .optional()?;
            found.map(read_item).transpose().map(Ok)
        }))
    }

    fn list(&self, now: Timestamp) -> Result<Vec<PendingApproval>, PendingError> {
        flat(self.read(|db| {
            let mut statement = db.prepare(
                "SELECT call_id, request, state, token FROM pending WHERE state = 'waiting' AND expires > ?1 \
                 ORDER BY number",
            )?;
            let rows = statement.query_map([sql_time(now)], columns)?;
            let items: Result<Vec<_>, Trouble> = rows.map(|row| Ok(read_item(row?)?.0)).collect();
            items.map(Ok)
        }))
    }

    fn approve(&self, id: &CallId, token: &ApprovalToken, now: Timestamp) -> Result<(), PendingError> {
        flat(self.write(|tx| {
            let Some((state, expires)) = state(tx, id)? else { return Ok(Err(PendingError::Unknown)) };
            if state != "waiting" {
                return Ok(Err(PendingError::Decided));
            }
            if expires <= sql_time(now) {
                return Ok(Err(PendingError::Expired));
            }
            set_state(tx, id, "approved", Some(token))
        }))
    }

    fn deny(&self, id: &CallId) -> Result<(), PendingError> {
        flat(self.write(|tx| match state(tx, id)? {
            None => Ok(Err(PendingError::Unknown)),
            Some((state, _)) if state == "denied" || state == "used" => Ok(Err(PendingError::Decided)),
            Some(_) => set_state(tx, id, "denied", None),
        }))
    }

    fn find_approved(
        &self,
        act: &CallBinding,
        now: Timestamp,
    ) -> Result<Option<(CallId, ApprovalToken)>, PendingError> {
        flat(self.read(|db| {
            let found: Option<(String, String)> = db
                .query_row(
                    "SELECT call_id, token FROM pending WHERE act = ?1 AND state = 'approved' AND expires > ?2 \
                     ORDER BY number LIMIT 1",
                    (act.act().as_bytes(), sql_time(now)),
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            found.map(|(id, token)| Ok((read_id(&id)?, read_token(&token)?))).transpose().map(Ok)
        }))
    }

    fn mark_used(&self, id: &CallId) -> Result<(), PendingError> {
        flat(self.write(|tx| match state(tx, id)? {
            None => Ok(Err(PendingError::Unknown)),
            Some((state, _)) if state == "approved" => set_state(tx, id, "used", None),
            Some(_) => Ok(Err(PendingError::Decided)),
        }))
    }
}

/// What a question comes to: the store's trouble outside, the answer within.
type Answer<T> = Result<Result<T, PendingError>, Trouble>;

fn flat<T>(answer: Answer<T>) -> Result<T, PendingError> {
    answer.unwrap_or_else(|trouble| Err(PendingError::Unavailable(Box::new(trouble))))
}

fn request(tx: &Transaction<'_>, pending: &PendingApproval) -> Answer<CallId> {
    let (now, id, act) = (sql_time(pending.requested()), pending.id(), pending.binding().act());
    let same: Option<String> = tx
        .query_row(
            "SELECT call_id FROM pending WHERE act = ?1 AND state IN ('waiting', 'approved') AND expires > ?2 \
             ORDER BY number LIMIT 1",
            (act.as_bytes(), now),
            |row| row.get(0),
        )
        .optional()?;
    if let Some(same) = same {
        return Ok(Ok(read_id(&same)?));
    }
    if state(tx, id)?.is_some() {
        return Ok(Err(PendingError::Conflict));
    }
    let text = serde_json::to_string(pending).map_err(|_| Trouble::Damaged)?;
    let (open, bytes): (i64, i64) = tx.query_row(
        "SELECT count(*), coalesce(sum(octet_length(request)), 0) FROM pending \
         WHERE state IN ('waiting', 'approved') AND expires > ?1",
        [now],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let bytes = bytes.saturating_add(text.len().try_into().unwrap_or(i64::MAX));
    if open >= MAX_OPEN || bytes > MAX_OPEN_BYTES {
        return Ok(Err(PendingError::Full));
    }
    tx.execute(
        "DELETE FROM pending WHERE number IN (SELECT number FROM pending \
         WHERE state NOT IN ('waiting', 'approved') OR expires <= ?1 ORDER BY number DESC LIMIT -1 OFFSET ?2)",
        [now, MAX_CLOSED],
    )?;
    tx.execute(
        "INSERT INTO pending (call_id, act, expires, state, request) VALUES (?1, ?2, ?3, 'waiting', ?4)",
        (id.as_str(), act.as_bytes(), sql_time(pending.expires()), text),
    )?;
    Ok(Ok(id.clone()))
}

/// State and expiry of one that is kept.
fn state(db: &Connection, id: &CallId) -> Result<Option<(String, i64)>, Trouble> {
    let found = db.query_row("SELECT state, expires FROM pending WHERE call_id = ?1", [id.as_str()], |row| {
        Ok((row.get(0)?, row.get(1)?))
    });
    Ok(found.optional()?)
}

fn set_state(tx: &Transaction<'_>, id: &CallId, state: &str, token: Option<&ApprovalToken>) -> Answer<()> {
    tx.execute(
        "UPDATE pending SET state = ?2, token = ?3 WHERE call_id = ?1",
        (id.as_str(), state, token.map(ApprovalToken::as_str)),
    )?;
    Ok(Ok(()))
}

/// Id, request, state and token, as the file has them.
type Columns = (String, String, String, Option<String>);

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}

/// Reads a row through the constructors of what it holds: the file is no more trusted than any other input.
fn read_item((id, request, state, token): Columns) -> Result<(PendingApproval, PendingState), Trouble> {
    let pending: PendingApproval = serde_json::from_str(&request).map_err(|_| Trouble::Damaged)?;
    if pending.id().as_str() != id {
        return Err(Trouble::Damaged);
    }
    let state = match (state.as_str(), token) {
        ("waiting", None) => PendingState::Waiting,
        ("approved", Some(token)) => PendingState::Approved(read_token(&token)?),
        ("denied", None) => PendingState::Denied,
        ("used", None) => PendingState::Used,
        _ => return Err(Trouble::Damaged),
    };
    Ok((pending, state))
}

fn read_id(text: &str) -> Result<CallId, Trouble> {
    CallId::new(text).map_err(|_| Trouble::Damaged)
}

fn read_token(text: &str) -> Result<ApprovalToken, Trouble> {
    text.parse().map_err(|_| Trouble::Damaged)
}
