use countersign_approval_token::{
    ApprovalToken, CallBinding, PendingApproval, PendingApprovals, PendingError, PendingState,
};
use countersign_core::{CallId, Digest, OperatorId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction};

use crate::store::{SqliteStore, sql_time};
use crate::trouble::Trouble;

/// The most questions that are open (waiting, or approved and unused).
const MAX_OPEN: i64 = 1_024;

/// The most bytes of arguments that all of them hold.
const MAX_ARGS_BYTES: i64 = 64 << 20;

/// The most questions that wait for one asker.
const MAX_WAITING_EACH: i64 = 64;

/// The most bytes of arguments that those hold.
const MAX_ARGS_BYTES_EACH: i64 = 4 << 20;

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
                "SELECT call_id, request, state, token FROM pending WHERE state = 'waiting' AND open_until > ?1 \
                 ORDER BY number",
            )?;
            let rows = statement.query_map([sql_time(now)], columns)?;
            let items: Result<Vec<_>, Trouble> = rows.map(|row| Ok(read_item(row?)?.0)).collect();
            items.map(Ok)
        }))
    }

    fn approve(&self, id: &CallId, token: &ApprovalToken, now: Timestamp) -> Result<(), PendingError> {
        flat(self.write(|tx| {
            let Some((state, open_until)) = state(tx, id)? else { return Ok(Err(PendingError::Unknown)) };
            if state != "waiting" {
                return Ok(Err(PendingError::Decided));
            }
            let Some(expiry) = token.claimed_expiry() else { return Ok(Err(PendingError::Token)) };
            let (now, expiry) = (sql_time(now), sql_time(expiry));
            if open_until <= now || expiry <= now {
                return Ok(Err(PendingError::Expired));
            }
            tx.execute(
                "UPDATE pending SET state = 'approved', token = ?2, open_until = ?3 WHERE call_id = ?1",
                (id.as_str(), token.as_str(), expiry),
            )?;
            Ok(Ok(()))
        }))
    }

    fn deny(&self, id: &CallId, by: &OperatorId) -> Result<(), PendingError> {
        flat(self.write(|tx| match state(tx, id)? {
            None => Ok(Err(PendingError::Unknown)),
            Some((state, _)) if state == "denied" || state == "used" => Ok(Err(PendingError::Decided)),
            Some(_) => deny(tx, id, by),
        }))
    }

    fn find_denied(
        &self,
        act: &CallBinding,
        now: Timestamp,
    ) -> Result<Option<(CallId, OperatorId)>, PendingError> {
        flat(self.read(|db| {
            let found: Option<(String, String)> = db
                .query_row(
                    "SELECT call_id, denier FROM denied WHERE act = ?1 AND until > ?2",
                    (act.act().as_bytes(), sql_time(now)),
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            let read = |(id, by): (String, String)| Ok((read_id(&id)?, read_operator(&by)?));
            found.map(read).transpose().map(Ok)
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
                    "SELECT call_id, token FROM pending WHERE act = ?1 AND state = 'approved' AND open_until > ?2 \
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
            Some((state, _)) if state == "approved" => close(tx, id, "used"),
            Some(_) => Ok(Err(PendingError::Decided)),
        }))
    }
}

impl SqliteStore {
    /// Ids that begin with these letters, in the order in which they were asked: first those of questions that wait, then those
    /// of the others that are kept. At most 32 of both together.
    ///
    /// # Errors
    /// [`PendingError::Unavailable`].
    pub fn ids_beginning_with(
        &self,
        letters: &str,
        now: Timestamp,
    ) -> Result<(Vec<CallId>, Vec<CallId>), PendingError> {
        flat(self.read(|db| {
            let mut statement = db.prepare(
                "SELECT call_id, state = 'waiting' AND open_until > ?2 AS waits FROM pending \
                 WHERE substr(call_id, 1, length(?1)) = ?1 ORDER BY waits DESC, number LIMIT 32",
            )?;
            let rows = statement.query_map((letters, sql_time(now)), |row| Ok((row.get(0)?, row.get(1)?)))?;
            let (mut waiting, mut closed) = (Vec::new(), Vec::new());
            for row in rows {
                let (id, waits): (String, bool) = row?;
                if waits { &mut waiting } else { &mut closed }.push(read_id(&id)?);
            }
            Ok(Ok((waiting, closed)))
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
    tx.execute("DELETE FROM denied WHERE until <= ?1", [now])?;
    let is_denied = "SELECT EXISTS (SELECT 1 FROM denied WHERE act = ?1)";
    if tx.query_row(is_denied, [act.as_bytes()], |row| row.get(0))? {
        return Ok(Err(PendingError::Denied));
    }
    let same: Option<String> = tx
        .query_row(
            "SELECT call_id FROM pending WHERE act = ?1 AND state IN ('waiting', 'approved') AND open_until > ?2 \
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
    let (asker, size) = (pending.binding().asker(), pending.args().len().try_into().unwrap_or(i64::MAX));
    if !has_room(tx, &asker, size, now)? {
        return Ok(Err(PendingError::Full));
    }
    let text = serde_json::to_string(pending).map_err(|_| Trouble::Damaged)?;
    tx.execute(
        "DELETE FROM pending WHERE number IN (SELECT number FROM pending \
         WHERE state NOT IN ('waiting', 'approved') OR open_until <= ?1 ORDER BY number DESC LIMIT -1 OFFSET ?2)",
        [now, MAX_CLOSED],
    )?;
    tx.execute(
        "INSERT INTO pending (call_id, act, asker, size, open_until, state, request) \
         VALUES (?1, ?2, ?3, ?4, ?5, 'waiting', ?6)",
        (id.as_str(), act.as_bytes(), asker.as_bytes(), size, sql_time(pending.expires()), text),
    )?;
    Ok(Ok(id.clone()))
}

/// Says whether there is room for one more of `size` bytes: of all that are open, and of all that wait for this asker or
/// were denied to it.
fn has_room(tx: &Transaction<'_>, asker: &Digest, size: i64, now: i64) -> Result<bool, Trouble> {
    let denied: i64 =
        tx.query_row("SELECT count(*) FROM denied WHERE asker = ?1", [asker.as_bytes()], |row| row.get(0))?;
    let (open, bytes, own, own_bytes): (i64, i64, i64, i64) = tx.query_row(
        "SELECT count(*), coalesce(sum(size), 0), count(*) FILTER (WHERE asker = ?2 AND state = 'waiting'), \
         coalesce(sum(size) FILTER (WHERE asker = ?2 AND state = 'waiting'), 0) FROM pending \
         WHERE state IN ('waiting', 'approved') AND open_until > ?1",
        (now, asker.as_bytes()),
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    Ok(open < MAX_OPEN
        && bytes.saturating_add(size) <= MAX_ARGS_BYTES
        && own.saturating_add(denied) < MAX_WAITING_EACH
        && own_bytes.saturating_add(size) <= MAX_ARGS_BYTES_EACH)
}

/// State of one that is kept, and until when it is open.
fn state(db: &Connection, id: &CallId) -> Result<Option<(String, i64)>, Trouble> {
    let found =
        db.query_row("SELECT state, open_until FROM pending WHERE call_id = ?1", [id.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        });
    Ok(found.optional()?)
}

/// Denies the act of one and whatever is open about it, and keeps that for as long as it counts.
fn deny(tx: &Transaction<'_>, id: &CallId, by: &OperatorId) -> Answer<()> {
    let item = tx.query_row(
        "SELECT call_id, request, state, token FROM pending WHERE call_id = ?1",
        [id.as_str()],
        columns,
    )?;
    let pending = read_item(item)?.0;
    let (act, asker) = (pending.binding().act(), pending.binding().asker());
    tx.execute(
        "UPDATE pending SET state = 'denied', token = NULL WHERE act = ?1 AND state IN ('waiting', 'approved')",
        [act.as_bytes()],
    )?;
    tx.execute(
        "INSERT OR REPLACE INTO denied (act, asker, call_id, denier, until) VALUES (?1, ?2, ?3, ?4, ?5)",
        (act.as_bytes(), asker.as_bytes(), id.as_str(), by.as_str(), sql_time(pending.denied_until())),
    )?;
    Ok(Ok(()))
}

/// Gives one its last state, without a token.
fn close(tx: &Transaction<'_>, id: &CallId, state: &str) -> Answer<()> {
    tx.execute("UPDATE pending SET state = ?2, token = NULL WHERE call_id = ?1", (id.as_str(), state))?;
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

fn read_operator(text: &str) -> Result<OperatorId, Trouble> {
    OperatorId::new(text).map_err(|_| Trouble::Damaged)
}

fn read_token(text: &str) -> Result<ApprovalToken, Trouble> {
    text.parse().map_err(|_| Trouble::Damaged)
}
