use std::array;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use countersign_core::thread_number;
use countersign_merkle::{Frontier, LeafHash, MAX_SIZE, TreeHead};
use parking_lot::{Mutex, MutexGuard};

use crate::line::{LateLine, parse_line};
use crate::{AuditError, AuditSink, DecisionLine, Record};

/// Number of records kept by default: a few minutes of a busy host, and a few megabytes at most.
const DEFAULT_KEPT: usize = 4_096;

/// Number of shards. Up to as many threads have one each.
const SHARDS: usize = 8;

/// Number of leaves in a shard at which a thread adds them to the tree. why: it is odd, so that a caller whose decisions and
/// outcomes alternate spends this time on both alike.
const WAITING: usize = 63;

/// Keeps the latest records in memory, and the exact number and the tree of all records. The tree's leaves are the
/// lines that a [`Log`](crate::Log) would hold. For tests and for hosts that keep no file.
///
/// Nothing in it survives the process. For records that must outlive it, use a [`Log`](crate::Log).
///
/// ```
/// use countersign_audit_log::{AuditSink, Direction, GatewayRecord, MemorySink, Record};
/// use countersign_core::Timestamp;
/// let sink = MemorySink::new();
/// let record = GatewayRecord::new(Timestamp::EPOCH, Direction::ToServer, "MALFORMED_CALL");
/// assert_eq!(sink.record(&Record::Gateway(record))?, 1);
/// assert_eq!(sink.count(), 1);
/// # Ok::<(), countersign_audit_log::AuditError>(())
/// ```
#[derive(Debug)]
pub struct MemorySink {
    kept: u64,
    /// Number of the last record, in the tree or about to be.
    given: CachePadded<AtomicU64>,
    shards: [CachePadded<Mutex<Shard>>; SHARDS],
    tree: Mutex<Tree>,
}

/// Value on cache lines of its own, so that threads that write neighbouring values do not slow each other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePadded<T>(T);

/// Records of one thread, or of a few. why: a thread reuses the buffers of its own lines, which are in the cache of its core.
#[derive(Debug, Default)]
struct Shard {
    /// In the order of their numbers.
    lines: VecDeque<(u64, LateLine)>,
    /// Leaves that are not in the tree yet.
    leaves: Vec<(u64, LeafHash)>,
}

/// The tree of all records.
#[derive(Debug, Default)]
struct Tree {
    frontier: Frontier,
    /// Leaves that follow one that is still hashed.
    early: Vec<(u64, LeafHash)>,
}

impl MemorySink {
    /// Builds a sink that keeps the latest 4,096 records.
    #[must_use]
    pub fn new() -> Self {
        Self::keeping(DEFAULT_KEPT)
    }

    /// Builds a sink that keeps the latest `kept` records.
    #[must_use]
    pub fn keeping(kept: usize) -> Self {
        Self {
            kept: u64::try_from(kept).unwrap_or(u64::MAX),
            given: CachePadded::default(),
            shards: array::from_fn(|_| CachePadded::default()),
            tree: Mutex::default(),
        }
    }

    /// Number of all records so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.settled().frontier.size()
    }

    /// Number of all records so far, and their root hash.
    #[must_use]
    pub fn head(&self) -> TreeHead {
        self.settled().frontier.head()
    }

    /// Latest records with their sequence numbers, oldest first.
    #[must_use]
    pub fn latest(&self) -> Vec<(u64, Record)> {
        let tree = self.settled();
        let shards: Vec<_> = self.shards.iter().map(|shard| shard.0.lock()).collect();
        let last = shards.iter().filter_map(|shard| shard.lines.back()).map(|(number, _)| *number).max();
        // A thread may have recorded more since, and dropped what they replace.
        let dropped = last.unwrap_or_default().saturating_sub(self.kept);
        let is_kept = |number: &u64| *number > dropped && *number <= tree.frontier.size();
        let lines = shards.iter().flat_map(|shard| &shard.lines).filter(|(number, _)| is_kept(number));
        let mut records: Vec<_> = lines.filter_map(|(_, line)| parse_line(line.as_bytes())).collect();
        records.sort_unstable_by_key(|(number, _)| *number);
        records
    }

    /// Waits until the tree has every record that has a number now.
    fn settled(&self) -> MutexGuard<'_, Tree> {
        let last = self.given.0.load(Ordering::SeqCst);
        let mut tree = self.tree.lock();
        loop {
            self.settle(&mut tree);
            if tree.frontier.size() >= last {
                return tree;
            }
            MutexGuard::unlocked(&mut tree, thread::yield_now);
        }
    }

    /// Adds the leaves of all shards to the tree, up to one that is still hashed. Drops old lines of shards that are no longer
    /// written.
    fn settle(&self, tree: &mut Tree) {
        let dropped = tree.frontier.size().saturating_sub(self.kept);
        for shard in &self.shards {
            let mut shard = shard.0.lock();
            tree.early.append(&mut shard.leaves);
            shard.drop_lines(dropped);
        }
        tree.grow();
    }

    /// Hashes the line without a lock. The tree gets the lines in the order of their numbers, some at a time.
    fn keep(&self, mut line: LateLine) -> Result<u64, AuditError> {
        // INVARIANT: each number gets a line, since later lines wait for it.
        let next = |given: u64| given.checked_add(1).filter(|next| *next < MAX_SIZE);
        let given = self.given.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        let number = given.map_err(|_| AuditError::TooLong)?.saturating_add(1);
        let leaf = line.number(number).leaf();
        let shard = self.shards.get(thread_number() % SHARDS).unwrap_or(&self.shards[0]);
        let (spare, waiting) = shard.0.lock().put(number, line, leaf, self.kept);
        spare.keep_spare();
        if waiting >= WAITING
            && let Some(mut tree) = self.tree.try_lock()
        {
            self.settle(&mut tree);
        }
        Ok(number)
    }
}

impl Default for MemorySink {
    fn default() -> Self {
        Self::new()
    }
}

impl AuditSink for MemorySink {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let mut line = LateLine::take_spare();
        line.write(record)?;
        self.keep(line)
    }

    fn record_decision(&self, decision: &DecisionLine<'_>) -> Result<u64, AuditError> {
        let mut line = LateLine::take_spare();
        line.copy(decision.body());
        self.keep(line)
    }

    fn waits_for_disk(&self) -> bool {
        false
    }
}

impl Shard {
    /// Keeps a line. Returns one that it replaces, for its buffer, and the number of leaves that wait for the tree.
    fn put(&mut self, number: u64, line: LateLine, leaf: LeafHash, kept: u64) -> (LateLine, usize) {
        // Another thread may have put a later line in this shard already.
        let place =
            self.lines.iter().rposition(|(other, _)| *other < number).map_or(0, |at| at.saturating_add(1));
        self.lines.insert(place, (number, line));
        self.leaves.push((number, leaf));
        (self.drop_lines(number.saturating_sub(kept)), self.leaves.len())
    }

    /// Drops the lines up to this number, and returns the last of them.
    fn drop_lines(&mut self, last: u64) -> LateLine {
        let mut dropped = LateLine::default();
        while let Some((_, line)) = self.lines.pop_front_if(|(number, _)| *number <= last) {
            dropped = line;
        }
        dropped
    }
}

impl Tree {
    /// Appends the leaves that are next.
    fn grow(&mut self) {
        self.early.sort_unstable_by_key(|(number, _)| *number);
        let mut grown = 0_usize;
        while let Some((number, leaf)) = self.early.get(grown)
            && *number == self.frontier.size().saturating_add(1)
            && self.frontier.append(*leaf).is_ok()
        {
            grown = grown.saturating_add(1);
        }
        self.early.drain(..grown);
    }
}
