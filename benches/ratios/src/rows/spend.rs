use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Mutex;

use countersign_approval_token::MemorySpentTokens;
use countersign_core::{Digest, Millis, SpendError, SpentId, SpentTokens, Ticket, Timestamp};
use countersign_sqlite::SqliteStore;
use rusqlite::Connection;

use crate::Operation;
use crate::{Bound, Row, Sampling, Unit, interleave, laps, run_on};

/// Spends tickets of five minutes, a thousand of them in a second.
struct Spends<'a> {
    store: &'a dyn SpentTokens,
    tickets: Vec<Ticket>,
    next: u64,
    now: Timestamp,
}

impl<'a> Spends<'a> {
    fn new(store: &'a dyn SpentTokens, now: Timestamp) -> Self {
        Self { store, tickets: Vec::new(), next: 0, now }
    }
}

impl Operation for Spends<'_> {
    fn prepare(&mut self, times: u32) {
        self.now = self.now.checked_add(Millis::from_millis(times)).unwrap();
        let keep_until = self.now.checked_add(Millis::from_secs(300)).unwrap();
        let ticket = |number: u64| {
            let id = Digest::framed("bench").field(&number.to_be_bytes()).finish();
            Ticket::new(SpentId::new(id), self.now, keep_until)
        };
        self.tickets = (self.next..self.next + u64::from(times)).map(ticket).collect();
        self.next += u64::from(times);
    }

    fn run(&mut self) {
        self.store.spend(&self.tickets.pop().unwrap(), self.now).unwrap();
    }
}

/// A map of the standard library behind a lock, without purges and without checks of times. Its hash is eight bytes of the
/// id, as that of the store; it is written again here, so that the comparison uses nothing of what it is compared with.
#[derive(Debug, Default)]
struct PlainMap(Mutex<HashMap<SpentId, Timestamp, BuildHasherDefault<FirstBytes>>>);

#[derive(Default)]
struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.first_chunk().map_or(0, |first| u64::from_ne_bytes(*first));
    }

    /// The length of the id.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

impl SpentTokens for PlainMap {
    fn spend(&self, ticket: &Ticket, _: Timestamp) -> Result<(), SpendError> {
        let before = self.0.lock().unwrap().insert(ticket.id, ticket.keep_until);
        before.map_or(Ok(()), |_| Err(SpendError::Spent))
    }
}

/// One insertion, committed: the least that a store in a file can do.
struct Commits {
    db: Connection,
    next: u64,
}

impl Operation for Commits {
    fn run(&mut self) {
        self.next += 1;
        let id = Digest::framed("bench").field(&self.next.to_be_bytes()).finish();
        let sql = "INSERT INTO spent (id, keep_until) VALUES (?1, ?2)";
        self.db.execute(sql, (id.as_bytes(), 1_790_000_300_000_i64)).unwrap();
    }
}

pub(super) fn spend(sampling: Sampling) -> Vec<Row> {
    let now = Timestamp::from_millis(1_790_000_000_000).unwrap();
    let memory = MemorySpentTokens::new();
    // The store has its usual size: the tickets of five minutes at a thousand a second would be 300,000; here 100,000.
    let mut spends = Spends::new(&memory, now);
    laps(&mut spends, 100_000);
    let map = PlainMap::default();
    let mut inserts = Spends::new(&map, now);
    laps(&mut inserts, 100_000);
    let rounds = interleave(
        sampling,
        &mut [&mut |times| run_on(&mut spends, times), &mut |times| run_on(&mut inserts, times)],
    );
    let apart = interleave(
        sampling,
        &mut [&mut |times| laps(&mut spends, times), &mut |times| laps(&mut inserts, times)],
    );
    let in_memory =
        Row::new("spend in memory", rounds.nanos(0), Unit::Nanos).goal(Bound::AtMost(200.0)).note(format!(
            "an insertion into a `HashMap` of as many behind a `Mutex`: {:.0} ns; with the clock read around each: {:.0} and {:.0} ns",
            rounds.nanos(1).median,
            apart.nanos(0).median,
            apart.nanos(1).median,
        ));

    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("store.sqlite"), now).unwrap();
    let mut spends = Spends::new(&store, now);
    let db = Connection::open(folder.path().join("bare.sqlite")).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.pragma_update(None, "synchronous", "FULL").unwrap();
    let table = "CREATE TABLE spent (id BLOB PRIMARY KEY NOT NULL, keep_until INTEGER NOT NULL) STRICT, WITHOUT ROWID";
    db.execute_batch(table).unwrap();
    let mut commits = Commits { db, next: 0 };
    let rounds = interleave(
        sampling,
        &mut [&mut |times| laps(&mut spends, times), &mut |times| laps(&mut commits, times)],
    );
    let [ours, floor] = [0, 1].map(|side| rounds.nanos(side).median / 1_000.0);
    let in_file = Row::new("spend in SQLite, one by one / one WAL commit", rounds.ratio(0, 1), Unit::Times)
        .goal(Bound::AtMost(1.3))
        .note(format!("{ours:.0} / {floor:.0} us"));
    vec![in_memory, in_file]
}
