use countersign_core::Timestamp;
use countersign_core::{SpendError, SpentId, SpentTokens};
use rusqlite::Transaction;

use crate::store::{SqliteStore, sql_time};
use crate::trouble::Trouble;

/// Keeps an id until its time is over, then forgets it and remembers, in the same transaction, up to which moment
/// something may have been forgotten.
impl SpentTokens for SqliteStore {
    fn spend(&self, id: &SpentId, keep_until: Timestamp, now: Timestamp) -> Result<(), SpendError> {
        let fresh = self.write(|tx| spend(tx, id.digest().as_bytes(), sql_time(keep_until), sql_time(now)));
        match fresh {
            Ok(true) => Ok(()),
            Ok(false) => Err(SpendError::Spent),
            Err(trouble) => Err(SpendError::Unavailable(Box::new(trouble))),
        }
    }
}

impl SqliteStore {
    /// Says whether an id was spent, as far as is known without spending it: what was forgotten since is not, and it may be spent
    /// right after. Only [`spend`](SpentTokens::spend) decides.
    ///
    /// # Errors
    /// [`SpendError::Unavailable`] when the store cannot say.
    pub fn is_spent(&self, id: &SpentId) -> Result<bool, SpendError> {
        let found = self.read(|db| {
            let is_spent = "SELECT EXISTS (SELECT 1 FROM spent WHERE id = ?1)";
            Ok(db.query_row(is_spent, [id.digest().as_bytes()], |row| row.get(0))?)
        });
        found.map_err(|trouble| SpendError::Unavailable(Box::new(trouble)))
    }
}

/// Says whether the id was unspent, and spends it.
fn spend(tx: &Transaction<'_>, id: &[u8; 32], keep_until: i64, now: i64) -> Result<bool, Trouble> {
    let horizon = forget(tx, now)?;
    if keep_until <= horizon.max(now) {
        return Ok(false);
    }
    let inserted = tx.execute(
        "INSERT INTO spent (id, keep_until) VALUES (?1, ?2) ON CONFLICT (id) DO NOTHING",
        (id, keep_until),
    )?;
    Ok(inserted == 1)
}

/// Forgets what need not be kept, and gives the moment up to which anything may have been forgotten.
fn forget(tx: &Transaction<'_>, now: i64) -> Result<i64, Trouble> {
    if tx.execute("DELETE FROM spent WHERE keep_until <= ?1", [now])? > 0 {
        tx.execute(
            "INSERT INTO horizon (one, at) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET at = max(at, excluded.at)",
            [now],
        )?;
    }
    Ok(tx.query_row("SELECT coalesce(max(at), -1) FROM horizon", [], |row| row.get(0))?)
}
