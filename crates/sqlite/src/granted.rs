use countersign_approval_token::{
    GrantFacts, GrantToken, Grants, MAX_GRANT_USES, PendingError, REVOKED_SKEW, StoredGrant, may_cover,
};
use countersign_core::{CallFacts, Millis, Timestamp, TokenId};
use rusqlite::{Connection, OptionalExtension as _, Transaction};

use crate::SqliteStore;
use crate::error::StoreFailure;
use crate::pending::{QueryResult, flat};
use crate::schema::sql_time;
use crate::spent::spend_or_keep;

/// Maximum number of grants that have not expired.
const MAX_GRANTS: i64 = 1_024;

/// Maximum number of grants that a gate is given for one call.
const MAX_OFFERED: usize = 4;

impl Grants for SqliteStore {
    fn add_grant(&self, grant: &GrantToken, now: Timestamp) -> Result<(), PendingError> {
        let facts = grant.claimed().ok_or(PendingError::Token)?;
        flat(self.write(|tx| add(tx, grant, &facts, now)))
    }

    fn grants_for(&self, call: &CallFacts, now: Timestamp) -> Result<Vec<GrantToken>, PendingError> {
        flat(self.read(|db| {
            let mut offered = Vec::new();
            let tool = Some((call.tool.server().as_str(), call.tool.name().as_str()));
            for (grant, facts, is_revoked) in rows(db, tool, now)? {
                let is_open = !is_revoked && may_cover(&facts, call) && used(db, &facts)? < facts.uses;
                if is_open && offered.len() < MAX_OFFERED {
                    offered.push(grant);
                }
            }
            Ok(Ok(offered))
        }))
    }

    fn list_grants(&self, now: Timestamp) -> Result<Vec<StoredGrant>, PendingError> {
        flat(self.read(|db| {
            let stored = rows(db, None, now)?.into_iter().map(|(_, facts, is_revoked)| {
                let used = used(db, &facts)?;
                Ok(StoredGrant::new(facts, used, is_revoked))
            });
            stored.collect::<Result<_, _>>().map(Ok)
        }))
    }

    fn revoke_grant(&self, id: &TokenId, now: Timestamp) -> Result<(), PendingError> {
        flat(self.write(|tx| revoke(tx, id, now)))
    }
}

fn add(tx: &Transaction<'_>, grant: &GrantToken, facts: &GrantFacts, now: Timestamp) -> QueryResult<()> {
    if facts.expires <= now {
        return Ok(Err(PendingError::Expired));
    }
    let now = sql_time(now);
    tx.execute("DELETE FROM granted WHERE until <= ?1", [now])?;
    let is_known = "SELECT EXISTS (SELECT 1 FROM granted WHERE id = ?1)";
    if tx.query_row(is_known, [facts.grant_id.as_str()], |row| row.get(0))? {
        return Ok(Err(PendingError::Conflict));
    }
    let stored: i64 = tx.query_row("SELECT count(*) FROM granted", [], |row| row.get(0))?;
    if stored >= MAX_GRANTS {
        return Ok(Err(PendingError::Full));
    }
    let (server, tool) = (facts.tool.server().as_str(), facts.tool.name().as_str());
    let insert =
        "INSERT INTO granted (id, server, tool, until, revoked, text) VALUES (?1, ?2, ?3, ?4, 0, ?5)";
    tx.execute(insert, (facts.grant_id.as_str(), server, tool, sql_time(facts.expires), grant.as_str()))?;
    Ok(Ok(()))
}

fn revoke(tx: &Transaction<'_>, id: &TokenId, now: Timestamp) -> QueryResult<()> {
    let found = "SELECT text FROM granted WHERE id = ?1 AND until > ?2";
    let text: Option<String> =
        tx.query_row(found, (id.as_str(), sql_time(now)), |row| row.get(0)).optional()?;
    let Some(text) = text else { return Ok(Err(PendingError::Unknown)) };
    let (_, facts) = read_grant(&text)?;
    if used(tx, &facts)? >= facts.uses {
        return Ok(Err(PendingError::Decided));
    }
    for number in 1..=facts.uses {
        spend_or_keep(tx, &facts.ticket(number, REVOKED_SKEW))?;
    }
    tx.execute("UPDATE granted SET revoked = 1 WHERE id = ?1", [id.as_str()])?;
    Ok(Ok(()))
}

/// Number of uses in the set of spent tickets.
fn used(db: &Connection, facts: &GrantFacts) -> Result<u32, StoreFailure> {
    let mut is_spent = db.prepare("SELECT EXISTS (SELECT 1 FROM spent WHERE id = ?1)")?;
    let mut used = 0_u32;
    for number in 1..=facts.uses {
        let ticket = facts.ticket(number, Millis::ZERO);
        let spent: bool = is_spent.query_row([ticket.id.digest().as_bytes()], |row| row.get(0))?;
        used = used.saturating_add(u32::from(spent));
    }
    Ok(used)
}

/// Returns the unexpired grants, of one tool or of all, oldest first: the text, its claims, and whether it was revoked.
fn rows(
    db: &Connection,
    tool: Option<(&str, &str)>,
    now: Timestamp,
) -> Result<Vec<(GrantToken, GrantFacts, bool)>, StoreFailure> {
    let (server, name) = tool.unzip();
    let mut statement = db.prepare(
        "SELECT text, revoked FROM granted WHERE until > ?1 AND (?2 IS NULL OR (server = ?2 AND tool = ?3)) \
         ORDER BY number",
    )?;
    let found = statement.query_map((sql_time(now), server, name), |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?))
    })?;
    found
        .map(|row| {
            let (text, is_revoked) = row?;
            let (grant, facts) = read_grant(&text)?;
            Ok((grant, facts, is_revoked))
        })
        .collect()
}

/// Parses a stored grant: the file is untrusted input.
fn read_grant(text: &str) -> Result<(GrantToken, GrantFacts), StoreFailure> {
    let grant: GrantToken = text.parse().map_err(|_| StoreFailure::Damaged)?;
    let facts = grant.claimed().filter(|facts| facts.uses <= MAX_GRANT_USES);
    Ok((grant, facts.ok_or(StoreFailure::Damaged)?))
}
