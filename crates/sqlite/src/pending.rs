use countersign_approval_token::{
    ApprovalToken, AttestedProposal, DenialReason, PendingApproval, PendingApprovals, PendingDenial,
    PendingError, PendingState, SESSION_SILENCE, SessionKind, asker_of_session, first_expiry, short_id,
};
use countersign_canonical_json::Canonical;
use countersign_core::{CallFacts, CallId, Digest, OperatorId, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Transaction, named_params};

use crate::SqliteStore;
use crate::error::StoreFailure;
use crate::pending_row::{columns, read_answer, read_id, read_item, read_operator, read_token};
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

/// SQL query of one question.
const ROW: &str = "SELECT call_id, request, state, token FROM pending WHERE call_id = ?1";

/// SQL condition for questions whose session has ended. Its parameter `:silent` is [`silent`].
pub(crate) const ENDED: &str = "EXISTS (SELECT 1 FROM session WHERE session.asker = pending.asker \
     AND session.named = 0 AND session.alive <= :silent)";

/// SQL condition for questions of which an answer is missing.
pub(crate) const LACKS: &str = "((state = 'waiting' AND NOT EXISTS (SELECT 1 FROM evidence \
     WHERE evidence.call_id = pending.call_id AND alone = 1 AND answer IS NOT NULL)) \
     OR (state = 'approved' AND EXISTS (SELECT 1 FROM evidence \
     WHERE evidence.call_id = pending.call_id AND answer IS NULL)))";

/// SQL condition for questions that lack an answer, of a session that has ended.
fn withdrawn() -> String {
    format!("(state = 'waiting' AND {LACKS} AND {ENDED})")
}

/// Returns the latest sign of life with which a session counts as ended at `now`.
pub(crate) fn silent(now: Timestamp) -> i64 {
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
            let found = db.query_row(ROW, [id.as_str()], columns).optional()?;
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
                "SELECT call_id FROM pending WHERE {LACKS} AND open_until > :now AND NOT {ENDED} \
                 AND call_id <> :id AND substr(call_id, 1, length(:letters)) = :letters"
            ))?;
            let params = named_params! {":now": sql_time(now), ":silent": silent(now), ":id": id.as_str(), ":letters": letters};
            let others: Vec<String> = statement.query_map(params, |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(Ok(short_id(id.as_str(), others.iter().map(String::as_str)).to_owned()))
        }))
    }

    fn note_alive(&self, session: &SessionId, kind: SessionKind, now: Timestamp) -> Result<(), PendingError> {
        let (asker, is_named) = (asker_of_session(session), kind == SessionKind::Named);
        flat(self.write_unsynced(|tx| {
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
        flat(self.write_unsynced(|tx| {
            let end = "UPDATE session SET alive = ?2 WHERE asker = ?1 AND named = 0";
            tx.execute(end, (asker_of_session(session).as_bytes(), NEVER))?;
            Ok(Ok(()))
        }))
    }

    fn has_session_ended(&self, pending: &PendingApproval, now: Timestamp) -> Result<bool, PendingError> {
        flat(self.read(|db| has_ended(db, &pending.asker(), now).map(Ok)))
    }

    fn approve(&self, id: &CallId, token: &ApprovalToken, now: Timestamp) -> Result<(), PendingError> {
        flat(self.write(|tx| approve(tx, id, token, None, now)))
    }

    fn approve_edited(
        &self,
        id: &CallId,
        token: &ApprovalToken,
        args: &Canonical,
        now: Timestamp,
    ) -> Result<(), PendingError> {
        flat(self.write(|tx| approve(tx, id, token, Some(args), now)))
    }

    fn approvals(&self, id: &CallId) -> Result<Vec<ApprovalToken>, PendingError> {
        flat(self.read(|db| tokens(db, id).map(Ok)))
    }

    fn deny_because(
        &self,
        id: &CallId,
        by: &OperatorId,
        reason: Option<&DenialReason>,
    ) -> Result<(), PendingError> {
        flat(self.write(|tx| match state(tx, id)? {
            None => Ok(Err(PendingError::Unknown)),
            Some((state, _)) if is_decided(&state) => Ok(Err(PendingError::Decided)),
            Some(_) => deny(tx, id, by, reason),
        }))
    }

    fn cover(&self, id: &CallId) -> Result<(), PendingError> {
        flat(self.write(|tx| match state(tx, id)? {
            None => Ok(Err(PendingError::Unknown)),
            Some((state, _)) if state == "waiting" => close(tx, id, "used"),
            Some(_) => Ok(Err(PendingError::Decided)),
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

    fn attest(&self, id: &CallId, answer: &AttestedProposal, now: Timestamp) -> Result<(), PendingError> {
        flat(self.write(|tx| {
            let Some((state, open_until)) = state(tx, id)? else { return Ok(Err(PendingError::Unknown)) };
            let wanted = evidence(tx, id)?;
            if is_decided(&state) || wanted.as_ref().is_some_and(|row| row.answer.is_some()) {
                return Ok(Err(PendingError::Decided));
            }
            let Some(wanted) = wanted else { return Ok(Err(PendingError::Kind)) };
            if is_of_ended_session(tx, id, now)? {
                return Ok(Err(PendingError::SessionEnded));
            }
            let (now, until) = (sql_time(now), sql_time(answer.expires()));
            if open_until <= now || until <= now {
                return Ok(Err(PendingError::Expired));
            }
            let text = serde_json::to_string(answer).map_err(|_| StoreFailure::Damaged)?;
            let set = "UPDATE evidence SET answer = ?2, until = ?3 WHERE call_id = ?1";
            tx.execute(set, (id.as_str(), text, until))?;
            if wanted.alone {
                tx.execute("UPDATE pending SET open_until = ?2 WHERE call_id = ?1", (id.as_str(), until))?;
            }
            Ok(Ok(()))
        }))
    }

    fn attestation(&self, id: &CallId) -> Result<Option<AttestedProposal>, PendingError> {
        flat(self.read(|db| Ok(Ok(evidence(db, id)?.and_then(|row| row.answer)))))
    }

    fn find_attested(
        &self,
        act: &CallFacts,
        now: Timestamp,
    ) -> Result<Option<(CallId, AttestedProposal)>, PendingError> {
        flat(self.read(|db| {
            let found: Option<(String, String)> = db
                .query_row(
                    "SELECT call_id, answer FROM pending JOIN evidence USING (call_id) WHERE act = ?1 \
                     AND state IN ('waiting', 'approved') AND open_until > ?2 AND until > ?2 ORDER BY number LIMIT 1",
                    (act.act().as_bytes(), sql_time(now)),
                    |row| Ok((row.get(0)?, row.get(1)?)),
                )
                .optional()?;
            found.map(|(id, answer)| Ok((read_id(&id)?, read_answer(&answer)?))).transpose().map(Ok)
        }))
    }

    fn drop_attestation(&self, id: &CallId) -> Result<(), PendingError> {
        flat(self.write(|tx| match state(tx, id)? {
            None => Ok(Err(PendingError::Unknown)),
            Some((state, _)) => {
                let wanted = evidence(tx, id)?;
                if state == "waiting" && wanted.is_some_and(|row| row.alone && row.answer.is_some()) {
                    return close(tx, id, "used");
                }
                forget_answer(tx, id)?;
                Ok(Ok(()))
            }
        }))
    }

    fn mark_used(&self, id: &CallId) -> Result<(), PendingError> {
        flat(self.write(|tx| match state(tx, id)? {
            None => Ok(Err(PendingError::Unknown)),
            Some((state, _)) if state == "approved" => close(tx, id, "used"),
            Some((state, _)) if state == "waiting" => match evidence(tx, id)? {
                Some(row) if row.alone && row.answer.is_some() => close(tx, id, "used"),
                Some(_) | None => Ok(Err(PendingError::Decided)),
            },
            Some(_) => Ok(Err(PendingError::Decided)),
        }))
    }

    fn withdraw(&self, id: &CallId) -> Result<(), PendingError> {
        flat(self.write(|tx| match state(tx, id)? {
            None => Ok(Err(PendingError::Unknown)),
            Some((state, _)) if state == "waiting" => {
                tx.execute("DELETE FROM pending WHERE call_id = ?1", [id.as_str()])?;
                tx.execute("DELETE FROM evidence WHERE call_id = ?1", [id.as_str()])?;
                forget_tokens(tx, id)?;
                Ok(Ok(()))
            }
            Some(_) => Ok(Err(PendingError::Decided)),
        }))
    }
}

/// Result of a query: the store's failure outside, the answer inside.
pub(crate) type QueryResult<T> = Result<Result<T, PendingError>, StoreFailure>;

pub(crate) fn flat<T>(answer: QueryResult<T>) -> Result<T, PendingError> {
    answer.unwrap_or_else(|trouble| Err(PendingError::Unavailable(Box::new(trouble))))
}

/// Returns the questions that wait in sessions that have ended, or in the others.
fn waiting(db: &Connection, now: Timestamp, ended: bool) -> QueryResult<Vec<PendingApproval>> {
    let mut statement = db.prepare(&format!(
        "SELECT call_id, request, state, token FROM pending \
         WHERE {LACKS} AND open_until > :now AND {ENDED} = :ended ORDER BY number"
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

/// Keeps an approval, with the arguments that the approver put in place of the agent's.
fn approve(
    tx: &Transaction<'_>,
    id: &CallId,
    token: &ApprovalToken,
    edited: Option<&Canonical>,
    now: Timestamp,
) -> QueryResult<()> {
    let Some((state, open_until)) = state(tx, id)? else { return Ok(Err(PendingError::Unknown)) };
    if state != "waiting" {
        return Ok(Err(PendingError::Decided));
    }
    if evidence(tx, id)?.is_some_and(|row| row.alone) {
        return Ok(Err(PendingError::Kind));
    }
    if is_of_ended_session(tx, id, now)? {
        return Ok(Err(PendingError::SessionEnded));
    }
    if open_until <= sql_time(now) {
        return Ok(Err(PendingError::Expired));
    }
    let (asked, _) = read_item(tx.query_row(ROW, [id.as_str()], columns)?)?;
    let edited = match edited.map(|args| asked.edited(args)).transpose() {
        Ok(edited) => edited,
        Err(error) => return Ok(Err(error)),
    };
    let tokens = match asked.add_token(tokens(tx, id)?, token, now) {
        Ok(tokens) => tokens,
        Err(error) => return Ok(Err(error)),
    };
    let is_approved = tokens.len() >= asked.needed();
    keep_tokens(tx, id, &tokens, is_approved)?;
    if let Some(edited) = edited {
        let text = serde_json::to_string(&edited).map_err(|_| StoreFailure::Damaged)?;
        let set = "UPDATE pending SET request = ?2, size = ?3 WHERE call_id = ?1";
        tx.execute(set, (id.as_str(), text, size_of(&edited)))?;
    }
    Ok(Ok(()))
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
                 AND state IN ('waiting', 'approved') AND NOT {withdrawn} ORDER BY number LIMIT 1",
                withdrawn = withdrawn()
            ),
            named_params! {":act": act.as_bytes(), ":now": now, ":silent": silent},
            |row| row.get(0),
        )
        .optional()?;
    if let Some(same) = same {
        return merge(tx, &read_id(&same)?, pending, silent);
    }
    if state(tx, id)?.is_some() {
        return Ok(Err(PendingError::Conflict));
    }
    let size = size_of(pending);
    if !has_room(tx, &asker, (1, size), now, silent)? {
        return Ok(Err(PendingError::Full));
    }
    let text = serde_json::to_string(pending).map_err(|_| StoreFailure::Damaged)?;
    tx.execute(
        &format!(
            "DELETE FROM pending WHERE number IN (SELECT number FROM pending \
             WHERE state NOT IN ('waiting', 'approved') OR open_until <= :now OR {withdrawn} \
             ORDER BY number DESC LIMIT -1 OFFSET :kept)",
            withdrawn = withdrawn()
        ),
        named_params! {":now": now, ":silent": silent, ":kept": MAX_CLOSED},
    )?;
    tx.execute("DELETE FROM evidence WHERE call_id NOT IN (SELECT call_id FROM pending)", [])?;
    tx.execute("DELETE FROM approval WHERE call_id NOT IN (SELECT call_id FROM pending)", [])?;
    tx.execute(
        "INSERT INTO pending (call_id, act, asker, size, open_until, state, request) \
         VALUES (?1, ?2, ?3, ?4, ?5, 'waiting', ?6)",
        (id.as_str(), act.as_bytes(), asker.as_bytes(), size, sql_time(pending.expires()), text),
    )?;
    want_evidence(tx, pending)?;
    Ok(Ok(id.clone()))
}

/// Adds the answers that a later request asks for to the open question about the same act.
fn merge(tx: &Transaction<'_>, id: &CallId, later: &PendingApproval, silent: i64) -> QueryResult<CallId> {
    let (asked, _) = read_item(tx.query_row(ROW, [id.as_str()], columns)?)?;
    let is_attested = evidence(tx, id)?.is_some_and(|row| row.answer.is_some());
    let merged = asked.merged(later, is_attested);
    if merged == asked {
        return Ok(Ok(id.clone()));
    }
    let (size, now) = (size_of(&merged), sql_time(later.requested()));
    let grown = size.saturating_sub(size_of(&asked));
    if grown > 0 && !has_room(tx, &merged.asker(), (0, grown), now, silent)? {
        return Ok(Err(PendingError::Full));
    }
    let text = serde_json::to_string(&merged).map_err(|_| StoreFailure::Damaged)?;
    let update = "UPDATE pending SET request = ?2, size = ?3 WHERE call_id = ?1";
    tx.execute(update, (id.as_str(), text, size))?;
    want_evidence(tx, &merged)?;
    Ok(Ok(id.clone()))
}

/// Notes that a question asks for an attestation, if it does. An answer that is there stays.
fn want_evidence(tx: &Transaction<'_>, pending: &PendingApproval) -> Result<(), StoreFailure> {
    if pending.evidence().is_some() {
        tx.execute(
            "INSERT INTO evidence (call_id, alone) VALUES (?1, ?2) \
             ON CONFLICT (call_id) DO UPDATE SET alone = excluded.alone",
            (pending.id().as_str(), !pending.needs_approval()),
        )?;
    }
    Ok(())
}

/// Attestation of a question that asks for one.
struct EvidenceRow {
    /// The question asks for nothing else.
    alone: bool,
    answer: Option<AttestedProposal>,
}

fn evidence(db: &Connection, id: &CallId) -> Result<Option<EvidenceRow>, StoreFailure> {
    let found: Option<(bool, Option<String>)> = db
        .query_row("SELECT alone, answer FROM evidence WHERE call_id = ?1", [id.as_str()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    let Some((alone, answer)) = found else { return Ok(None) };
    Ok(Some(EvidenceRow { alone, answer: answer.as_deref().map(read_answer).transpose()? }))
}

/// Stores the tokens of a question, which is approved with the last one that it needs.
fn keep_tokens(
    tx: &Transaction<'_>,
    id: &CallId,
    tokens: &[ApprovalToken],
    is_approved: bool,
) -> Result<(), StoreFailure> {
    forget_tokens(tx, id)?;
    for (number, token) in (0_u32..).zip(tokens) {
        let insert = "INSERT INTO approval (call_id, number, token) VALUES (?1, ?2, ?3)";
        tx.execute(insert, (id.as_str(), number, token.as_str()))?;
    }
    if let (true, Some(first), Some(expiry)) = (is_approved, tokens.first(), first_expiry(tokens)) {
        tx.execute(
            "UPDATE pending SET state = 'approved', token = ?2, open_until = ?3 WHERE call_id = ?1",
            (id.as_str(), first.as_str(), sql_time(expiry)),
        )?;
    }
    Ok(())
}

/// Returns the tokens of a question. One that was approved by an earlier version has its only token in its own row.
fn tokens(db: &Connection, id: &CallId) -> Result<Vec<ApprovalToken>, StoreFailure> {
    let mut statement = db.prepare(
        "SELECT token, number FROM approval WHERE call_id = ?1 UNION ALL SELECT token, 0 FROM pending \
         WHERE call_id = ?1 AND token IS NOT NULL AND NOT EXISTS (SELECT 1 FROM approval WHERE call_id = ?1) \
         ORDER BY 2",
    )?;
    let rows = statement.query_map([id.as_str()], |row| row.get::<_, String>(0))?;
    rows.map(|token| read_token(&token?)).collect()
}

fn forget_tokens(tx: &Transaction<'_>, id: &CallId) -> Result<(), StoreFailure> {
    tx.execute("DELETE FROM approval WHERE call_id = ?1", [id.as_str()])?;
    Ok(())
}

fn forget_answer(tx: &Transaction<'_>, id: &CallId) -> Result<(), StoreFailure> {
    tx.execute("UPDATE evidence SET answer = NULL, until = NULL WHERE call_id = ?1", [id.as_str()])?;
    Ok(())
}

fn is_of_ended_session(db: &Connection, id: &CallId, now: Timestamp) -> Result<bool, StoreFailure> {
    let ended = format!("SELECT {ENDED} FROM pending WHERE call_id = :id");
    let params = named_params! {":id": id.as_str(), ":silent": silent(now)};
    Ok(db.query_row(&ended, params, |row| row.get(0))?)
}

fn is_decided(state: &str) -> bool {
    matches!(state, "denied" | "used")
}

fn size_of(pending: &PendingApproval) -> i64 {
    pending.size().try_into().unwrap_or(i64::MAX)
}

/// Returns `true` if so many more questions of so many bytes fit the limits: those of all open questions, and those of
/// the questions that wait for this asker or were denied to it.
fn has_room(
    tx: &Transaction<'_>,
    asker: &Digest,
    (more, size): (i64, i64),
    now: i64,
    silent: i64,
) -> Result<bool, StoreFailure> {
    let denied: i64 =
        tx.query_row("SELECT count(*) FROM denied WHERE asker = ?1", [asker.as_bytes()], |row| row.get(0))?;
    let (open, bytes, own, own_bytes): (i64, i64, i64, i64) = tx.query_row(
        &format!(
            "SELECT count(*), coalesce(sum(size), 0), count(*) FILTER (WHERE asker = :asker AND {LACKS}), \
             coalesce(sum(size) FILTER (WHERE asker = :asker AND {LACKS}), 0) FROM pending \
             WHERE state IN ('waiting', 'approved') AND NOT {withdrawn} AND open_until > :now",
            withdrawn = withdrawn()
        ),
        named_params! {":now": now, ":asker": asker.as_bytes(), ":silent": silent},
        |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
    )?;
    Ok(open.saturating_add(more) <= MAX_OPEN
        && bytes.saturating_add(size) <= MAX_ARGS_BYTES
        && (more == 0 || own.saturating_add(denied).saturating_add(more) <= MAX_WAITING_EACH)
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
    let item = tx.query_row(ROW, [id.as_str()], columns)?;
    let pending = read_item(item)?.0;
    let (act, asker) = (pending.binding().act(), pending.asker());
    tx.execute(
        "UPDATE pending SET state = 'denied', token = NULL WHERE act = ?1 AND state IN ('waiting', 'approved')",
        [act.as_bytes()],
    )?;
    tx.execute(
        "UPDATE evidence SET answer = NULL, until = NULL \
         WHERE call_id IN (SELECT call_id FROM pending WHERE act = ?1)",
        [act.as_bytes()],
    )?;
    tx.execute(
        "DELETE FROM approval WHERE call_id IN (SELECT call_id FROM pending WHERE act = ?1)",
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

/// Sets a question's final state and deletes its answers.
fn close(tx: &Transaction<'_>, id: &CallId, state: &str) -> QueryResult<()> {
    forget_answer(tx, id)?;
    forget_tokens(tx, id)?;
    tx.execute("UPDATE pending SET state = ?2, token = NULL WHERE call_id = ?1", (id.as_str(), state))?;
    Ok(Ok(()))
}
