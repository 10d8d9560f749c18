use countersign_approval_token::{
    ApprovalToken, DenialReason, PendingApproval, PendingApprovals, PendingDenial, PendingError,
    PendingState, SESSION_SILENCE, SessionKind, asker_of_session, short_id,
};
use countersign_core::{CallFacts, CallId, Digest, OperatorId, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, named_params};

use crate::SqliteStore;
use crate::error::StoreFailure;
use crate::schema::sql_time;

/// Maximum number of open questions (waiting, or approved and unused).
const MAX_OPEN: i64 = 1_024;

/// Maximum size of the arguments of all open questions, in bytes.
const MAX_ARGS_BYTES: i64 = 64 << 20;

/// Maximum number of questions that wait for one asker.
const MAX_WAITING_EACH: i64 = 64;

/// Maximum size of the arguments of one asker's waiting questions, in bytes.
const MAX_ARGS_BYTES_EACH: i64 = 4 << 20;

/// Maximum number of closed questions (decided or expired) that are kept, so that their state can be read.
const MAX_CLOSED: i64 = 256;

/// Last sign of life of a session that was ended explicitly.
const NEVER: i64 = i64::MIN;

/// SQL condition for questions whose session has ended. Its parameter `:silent` is [`silent`].
const ENDED: &str = "EXISTS (SELECT 1 FROM session WHERE session.asker = pending.asker \
     AND session.named = 0 AND session.alive <= :silent)";

/// Returns the latest sign of life with which a session counts as ended at `now`.
fn silent(now: Timestamp) -> i64 {
    sql_time(now).saturating_sub(i64::try_from(SESSION_SILENCE.as_millis()).unwrap_or(i64::MAX))
}

/// Follows the same rules as [`MemoryPendingApprovals`](countersign_approval_token::MemoryPendingApprovals); a test
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
        flat(self.read(|db| waiting(db, now, false)))
    }

    fn list_ended(&self, now: Timestamp) -> Result<Vec<PendingApproval>, PendingError> {
        flat(self.read(|db| waiting(db, now, true)))
    }

    fn short_id(&self, id: &CallId, now: Timestamp) -> Result<String, PendingError> {
        let letters: String = id.as_str().chars().take(4).collect();
        flat(self.read(|db| {
            let mut statement = db.prepare(&format!(
                "SELECT call_id FROM pending WHERE state = 'waiting' AND open_until > :now AND NOT {ENDED} \
                 AND call_id <> :id AND substr(call_id, 1, length(:letters)) = :letters"
            ))?;
            let params = named_params! {":now": sql_time(now), ":silent": silent(now), ":id": id.as_str(), ":letters": letters};
            let others: Vec<String> = statement.query_map(params, |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(Ok(short_id(id.as_str(), others.iter().map(String::as_str)).to_owned()))
        }))
    }

    fn note_alive(&self, session: &SessionId, kind: SessionKind, now: Timestamp) -> Result<(), PendingError> {
        let (asker, is_named) = (asker_of_session(session), kind == SessionKind::Named);
        flat(self.write(|tx| {
            tx.execute(
                "DELETE FROM session WHERE asker <> :asker AND (named = 1 OR alive <= :silent) \
                 AND NOT EXISTS (SELECT 1 FROM pending WHERE pending.asker = session.asker)",
                named_params! {":asker": asker.as_bytes(), ":silent": silent(now)},
            )?;
            tx.execute(
                "INSERT INTO session (asker, named, alive) VALUES (?1, ?2, ?3) ON CONFLICT (asker) DO UPDATE \
                 SET named = excluded.named, alive = excluded.alive WHERE named = 1 OR alive <> ?4",
                (asker.as_bytes(), is_named, sql_time(now), NEVER),
            )?;
            Ok(Ok(()))
        }))
    }

    fn end_session(&self, session: &SessionId) -> Result<(), PendingError> {
        flat(self.write(|tx| {
            let end = "UPDATE session SET alive = ?2 WHERE asker = ?1 AND named = 0";
            tx.execute(end, (asker_of_session(session).as_bytes(), NEVER))?;
            Ok(Ok(()))
        }))
    }

    fn has_session_ended(&self, pending: &PendingApproval, now: Timestamp) -> Result<bool, PendingError> {
        flat(self.read(|db| has_ended(db, &pending.asker(), now).map(Ok)))
    }

    fn approve(&self, id: &CallId, token: &ApprovalToken, now: Timestamp) -> Result<(), PendingError> {
        flat(self.write(|tx| {
            let Some((state, open_until)) = state(tx, id)? else { return Ok(Err(PendingError::Unknown)) };
            if state != "waiting" {
                return Ok(Err(PendingError::Decided));
            }
            let ended = format!("SELECT {ENDED} FROM pending WHERE call_id = :id");
            let params = named_params! {":id": id.as_str(), ":silent": silent(now)};
            if tx.query_row(&ended, params, |row| row.get(0))? {
                return Ok(Err(PendingError::SessionEnded));
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

    fn deny_because(
        &self,
        id: &CallId,
        by: &OperatorId,
        reason: Option<&DenialReason>,
    ) -> Result<(), PendingError> {
        flat(self.write(|tx| match state(tx, id)? {
            None => Ok(Err(PendingError::Unknown)),
            Some((state, _)) if state == "denied" || state == "used" => Ok(Err(PendingError::Decided)),
            Some(_) => deny(tx, id, by, reason),
        }))
    }

    fn find_denied(&self, act: &CallFacts, now: Timestamp) -> Result<Option<PendingDenial>, PendingError> {
        flat(self.read(|db| {
            let found: Option<(String, String, Option<String>)> = db
                .query_row(
                    "SELECT call_id, denier, text FROM denied LEFT JOIN reason USING (act) \
                     WHERE act = ?1 AND until > ?2",
                    (act.act().as_bytes(), sql_time(now)),
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
                )
                .optional()?;
            let read = |(id, by, reason): (String, String, Option<String>)| {
                let reason = reason.map(|text| DenialReason::new(&text)).transpose();
                let reason = reason.map_err(|_| StoreFailure::Damaged)?;
                Ok(PendingDenial::new(read_id(&id)?, read_operator(&by)?, reason))
            };
            found.map(read).transpose().map(Ok)
        }))
    }

    fn find_approved(
        &self,
        act: &CallFacts,
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

    fn withdraw(&self, id: &CallId) -> Result<(), PendingError> {
        flat(self.write(|tx| match state(tx, id)? {
            None => Ok(Err(PendingError::Unknown)),
            Some((state, _)) if state == "waiting" => {
                tx.execute("DELETE FROM pending WHERE call_id = ?1", [id.as_str()])?;
                Ok(Ok(()))
            }
            Some(_) => Ok(Err(PendingError::Decided)),
        }))
    }
}

impl SqliteStore {
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
            let mut statement = db.prepare(
                &format!(
                    "SELECT call_id, state = 'waiting' AND open_until > :now AND NOT {ENDED} AS waits FROM pending \
                     WHERE substr(call_id, 1, length(:id)) = :id ORDER BY waits DESC, number LIMIT 32"
                ),
            )?;
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

/// Result of a query: the store's failure outside, the answer inside.
type QueryResult<T> = Result<Result<T, PendingError>, StoreFailure>;

fn flat<T>(answer: QueryResult<T>) -> Result<T, PendingError> {
    answer.unwrap_or_else(|trouble| Err(PendingError::Unavailable(Box::new(trouble))))
}

/// Returns the questions that wait in sessions that have ended, or in the others.
fn waiting(db: &Connection, now: Timestamp, ended: bool) -> QueryResult<Vec<PendingApproval>> {
    let mut statement = db.prepare(&format!(
        "SELECT call_id, request, state, token FROM pending \
         WHERE state = 'waiting' AND open_until > :now AND {ENDED} = :ended ORDER BY number"
    ))?;
    let params = named_params! {":now": sql_time(now), ":silent": silent(now), ":ended": ended};
    let rows = statement.query_map(params, columns)?;
    let items: Result<Vec<_>, StoreFailure> = rows.map(|row| Ok(read_item(row?)?.0)).collect();
    items.map(Ok)
}

fn has_ended(db: &Connection, asker: &Digest, now: Timestamp) -> Result<bool, StoreFailure> {
    let ended = "SELECT EXISTS (SELECT 1 FROM session WHERE asker = ?1 AND named = 0 AND alive <= ?2)";
    Ok(db.query_row(ended, (asker.as_bytes(), silent(now)), |row| row.get(0))?)
}

fn request(tx: &Transaction<'_>, pending: &PendingApproval) -> QueryResult<CallId> {
    let (now, id, act) = (sql_time(pending.requested()), pending.id(), pending.binding().act());
    let (asker, silent) = (pending.asker(), silent(pending.requested()));
    // The request is a sign of life of its asker.
    let alive = "UPDATE session SET alive = ?2 WHERE asker = ?1 AND alive <> ?3";
    tx.execute(alive, (asker.as_bytes(), now, NEVER))?;
    tx.execute("DELETE FROM denied WHERE until <= ?1", [now])?;
    tx.execute("DELETE FROM reason WHERE act NOT IN (SELECT act FROM denied)", [])?;
    let is_denied = "SELECT EXISTS (SELECT 1 FROM denied WHERE act = ?1)";
    if tx.query_row(is_denied, [act.as_bytes()], |row| row.get(0))? {
        return Ok(Err(PendingError::Denied));
    }
    let same: Option<String> = tx
        .query_row(
            &format!(
                "SELECT call_id FROM pending WHERE act = :act AND open_until > :now \
                 AND (state = 'approved' OR (state = 'waiting' AND NOT {ENDED})) ORDER BY number LIMIT 1"
            ),
            named_params! {":act": act.as_bytes(), ":now": now, ":silent": silent},
            |row| row.get(0),
        )
        .optional()?;
    if let Some(same) = same {
        return Ok(Ok(read_id(&same)?));
    }
    if state(tx, id)?.is_some() {
        return Ok(Err(PendingError::Conflict));
    }
    let size = pending.args().len().try_into().unwrap_or(i64::MAX);
    if !has_room(tx, &asker, size, now, silent)? {
        return Ok(Err(PendingError::Full));
    }
    let text = serde_json::to_string(pending).map_err(|_| StoreFailure::Damaged)?;
    tx.execute(
        &format!(
            "DELETE FROM pending WHERE number IN (SELECT number FROM pending \
             WHERE state NOT IN ('waiting', 'approved') OR open_until <= :now OR (state = 'waiting' AND {ENDED}) \
             ORDER BY number DESC LIMIT -1 OFFSET :kept)"
        ),
        named_params! {":now": now, ":silent": silent, ":kept": MAX_CLOSED},
    )?;
    tx.execute(
        "INSERT INTO pending (call_id, act, asker, size, open_until, state, request) \
         VALUES (?1, ?2, ?3, ?4, ?5, 'waiting', ?6)",
        (id.as_str(), act.as_bytes(), asker.as_bytes(), size, sql_time(pending.expires()), text),
    )?;
    Ok(Ok(id.clone()))
}

/// Returns `true` if one more question of `size` bytes fits the limits: those of all open questions, and those of the
/// questions that wait for this asker or were denied to it.
fn has_room(
    tx: &Transaction<'_>,
    asker: &Digest,
    size: i64,
    now: i64,
    silent: i64,
) -> Result<bool, StoreFailure> {
    let denied: i64 =
        tx.query_row("SELECT count(*) FROM denied WHERE asker = ?1", [asker.as_bytes()], |row| row.get(0))?;
    let (open, bytes, own, own_bytes): (i64, i64, i64, i64) = tx.query_row(
        &format!(
            "SELECT count(*), coalesce(sum(size), 0), count(*) FILTER (WHERE asker = :asker AND state = 'waiting'), \
             coalesce(sum(size) FILTER (WHERE asker = :asker AND state = 'waiting'), 0) FROM pending \
             WHERE (state = 'approved' OR (state = 'waiting' AND NOT {ENDED})) AND open_until > :now"
        ),
        named_params! {":now": now, ":asker": asker.as_bytes(), ":silent": silent},
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    Ok(open < MAX_OPEN
        && bytes.saturating_add(size) <= MAX_ARGS_BYTES
        && own.saturating_add(denied) < MAX_WAITING_EACH
        && own_bytes.saturating_add(size) <= MAX_ARGS_BYTES_EACH)
}

/// Returns the state of a stored question and the end of the time in which it is open.
fn state(db: &Connection, id: &CallId) -> Result<Option<(String, i64)>, StoreFailure> {
    let found =
        db.query_row("SELECT state, open_until FROM pending WHERE call_id = ?1", [id.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        });
    Ok(found.optional()?)
}

/// Denies the question's act and all open questions about it, and stores the denial for as long as it counts.
fn deny(
    tx: &Transaction<'_>,
    id: &CallId,
    by: &OperatorId,
    reason: Option<&DenialReason>,
) -> QueryResult<()> {
    let item = tx.query_row(
        "SELECT call_id, request, state, token FROM pending WHERE call_id = ?1",
        [id.as_str()],
        columns,
    )?;
    let pending = read_item(item)?.0;
    let (act, asker) = (pending.binding().act(), pending.asker());
    tx.execute(
        "UPDATE pending SET state = 'denied', token = NULL WHERE act = ?1 AND state IN ('waiting', 'approved')",
        [act.as_bytes()],
    )?;
    tx.execute(
        "INSERT OR REPLACE INTO denied (act, asker, call_id, denier, until) VALUES (?1, ?2, ?3, ?4, ?5)",
        (act.as_bytes(), asker.as_bytes(), id.as_str(), by.as_str(), sql_time(pending.denied_until())),
    )?;
    tx.execute("DELETE FROM reason WHERE act = ?1", [act.as_bytes()])?;
    if let Some(reason) = reason {
        let insert = "INSERT INTO reason (act, text) VALUES (?1, ?2)";
        tx.execute(insert, (act.as_bytes(), reason.as_str()))?;
    }
    Ok(Ok(()))
}

/// Sets a question's final state and deletes its token.
fn close(tx: &Transaction<'_>, id: &CallId, state: &str) -> QueryResult<()> {
    tx.execute("UPDATE pending SET state = ?2, token = NULL WHERE call_id = ?1", (id.as_str(), state))?;
    Ok(Ok(()))
}

/// Columns of a row: id, request, state and token.
type PendingRow = (String, String, String, Option<String>);

fn columns(row: &Row<'_>) -> rusqlite::Result<PendingRow> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
}

/// Parses a row with the constructors of its types: the file is untrusted input.
fn read_item(
    (id, request, state, token): PendingRow,
) -> Result<(PendingApproval, PendingState), StoreFailure> {
    let pending: PendingApproval = serde_json::from_str(&request).map_err(|_| StoreFailure::Damaged)?;
    if pending.id().as_str() != id {
        return Err(StoreFailure::Damaged);
    }
    let state = match (state.as_str(), token) {
        ("waiting", None) => PendingState::Waiting,
        ("approved", Some(token)) => PendingState::Approved(read_token(&token)?),
        ("denied", None) => PendingState::Denied,
        ("used", None) => PendingState::Used,
        _ => return Err(StoreFailure::Damaged),
    };
    Ok((pending, state))
}

fn read_id(text: &str) -> Result<CallId, StoreFailure> {
    CallId::new(text).map_err(|_| StoreFailure::Damaged)
}

fn read_operator(text: &str) -> Result<OperatorId, StoreFailure> {
    OperatorId::new(text).map_err(|_| StoreFailure::Damaged)
}

fn read_token(text: &str) -> Result<ApprovalToken, StoreFailure> {
    text.parse().map_err(|_| StoreFailure::Damaged)
}
