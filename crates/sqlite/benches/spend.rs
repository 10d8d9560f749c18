//! Cost of spending a ticket in a store, beside its floor: one insertion of the same bytes in one transaction of the
//! write-ahead log, under the same settings.

use std::path::Path;

use countersign_core::{Digest, Millis, SpentId, SpentTokens as _, Ticket, Timestamp};
use countersign_sqlite::SqliteStore;
use criterion::{BatchSize, Criterion};
use rusqlite::{Connection, Statement};

type Failure = Box<dyn std::error::Error>;

/// A database with the table of spent tickets alone.
fn floor(path: &Path) -> Result<Connection, Failure> {
    let db = Connection::open(path)?;
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.execute_batch(
        "CREATE TABLE spent (id BLOB PRIMARY KEY NOT NULL, keep_until INTEGER NOT NULL) STRICT, WITHOUT ROWID;
         CREATE INDEX spent_by_time ON spent (keep_until);",
    )?;
    Ok(db)
}

/// Inserts in a transaction of its own, as SQLite does without `BEGIN`.
fn insert(prepared: &mut Statement<'_>, ticket: &Ticket) -> Result<usize, Failure> {
    let keep_until = i64::try_from(ticket.keep_until.as_millis())?;
    Ok(prepared.execute((ticket.id.digest().as_bytes(), keep_until))?)
}

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().configure_from_args();
    let folder = tempfile::tempdir()?;
    let now = Timestamp::from_millis(1_700_000_000_000)?;
    let keep_until = now.saturating_add(Millis::from_secs(60));
    let mut numbers = 0_u64..;
    let mut ticket = || {
        let id = Digest::of(&numbers.next().unwrap_or_default().to_be_bytes());
        Ticket::new(SpentId::new(id), now, keep_until)
    };
    let db = floor(&folder.path().join("floor.db"))?;
    let mut prepared = db.prepare("INSERT INTO spent (id, keep_until) VALUES (?1, ?2)")?;
    let store = SqliteStore::create(folder.path().join("store.db"), now)?;
    let mut group = criterion.benchmark_group("spend");
    group.bench_function("floor: one commit", |b| {
        b.iter_batched(&mut ticket, |ticket| insert(&mut prepared, &ticket).is_ok(), BatchSize::SmallInput);
    });
    group.bench_function("in a store", |b| {
        b.iter_batched(&mut ticket, |ticket| store.spend(&ticket, now).is_ok(), BatchSize::SmallInput);
    });
    group.finish();
    criterion.final_summary();
    Ok(())
}
