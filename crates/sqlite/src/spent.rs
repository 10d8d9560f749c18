use countersign_core::{SpendError, SpentTokens, StoreId, Ticket, Timestamp};
use rusqlite::{Connection, Transaction};

use crate::SqliteStore;
use crate::error::StoreFailure;
use crate::schema::sql_time;

/// Keeps an id until its time is over, then deletes it and raises the horizon to the latest deleted time, in the same
/// transaction.
impl SpentTokens for SqliteStore {
    fn spend(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError> {
        self.check_issued(ticket, now)?;
        let spent = self.write(|tx| spend(tx, ticket, sql_time(now)));
        spent.unwrap_or_else(|trouble| Err(SpendError::Unavailable(Box::new(trouble))))
    }

    fn can_spend(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError> {
        self.check_issued(ticket, now)?;
        let found = self.read(|db| {
            let is_spent = "SELECT EXISTS (SELECT 1 FROM spent WHERE id = ?1)";
            let is_spent: bool = db.query_row(is_spent, [ticket.id.digest().as_bytes()], |row| row.get(0))?;
            Ok((is_spent, horizon(db)?))
        });
        let (is_spent, horizon) = found.map_err(|trouble| SpendError::Unavailable(Box::new(trouble)))?;
        if is_spent { Err(SpendError::Spent) } else { check_kept(ticket, horizon, sql_time(now)) }
    }

    fn store_id(&self) -> Option<StoreId> {
        Some(self.id().clone())
    }
}

impl SqliteStore {
    fn check_issued(&self, ticket: &Ticket, now: Timestamp) -> Result<(), SpendError> {
        match self.created().filter(|created| ticket.issued < *created) {
            Some(created) if created > now => Err(SpendError::ClockAhead),
            Some(_) => Err(SpendError::TooNew),
            None => Ok(()),
        }
    }
}

/// Spends the ticket unless it was or may have been spent.
fn spend(tx: &Transaction<'_>, ticket: &Ticket, now: i64) -> Result<Result<(), SpendError>, StoreFailure> {
    forget(tx, now)?;
    if let Err(error) = check_kept(ticket, horizon(tx)?, now) {
        return Ok(Err(error));
    }
    let inserted = tx.execute(
        "INSERT INTO spent (id, keep_until) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING",
        (ticket.id.digest().as_bytes(), sql_time(ticket.keep_until)),
    )?;
    Ok(if inserted == 1 { Ok(()) } else { Err(SpendError::Spent) })
}

/// Spends a ticket of its owner: one that was spent before stays as it is.
pub(crate) fn spend_or_keep(tx: &Transaction<'_>, ticket: &Ticket) -> Result<(), StoreFailure> {
    let insert = "INSERT INTO spent (id, keep_until) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING";
    tx.execute(insert, (ticket.id.digest().as_bytes(), sql_time(ticket.keep_until)))?;
    Ok(())
}

/// Refuses a ticket whose time is over, or that may have been deleted.
fn check_kept(ticket: &Ticket, horizon: i64, now: i64) -> Result<(), SpendError> {
    match sql_time(ticket.keep_until) {
        keep_until if keep_until <= now => Err(SpendError::Spent),
        keep_until if keep_until <= horizon => Err(SpendError::ClockAhead),
        _ => Ok(()),
    }
}

/// Deletes the ids whose time is over, and raises the horizon to the latest of their times.
fn forget(tx: &Transaction<'_>, now: i64) -> Result<(), StoreFailure> {
    let latest = "SELECT max(keep_until) FROM spent WHERE keep_until <= ?1";
    let Some(latest) = tx.query_row(latest, [now], |row| row.get::<_, Option<i64>>(0))? else {
        return Ok(());
    };
    tx.execute("DELETE FROM spent WHERE keep_until <= ?1", [now])?;
    tx.execute(
        "INSERT INTO horizon (one, at) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET at = max(at, excluded.at)",
        [latest],
    )?;
    Ok(())
}

/// Returns the latest time of a deleted id; -1 if none was deleted.
fn horizon(db: &Connection) -> Result<i64, StoreFailure> {
    Ok(db.query_row("SELECT coalesce(max(at), -1) FROM horizon", [], |row| row.get(0))?)
}
