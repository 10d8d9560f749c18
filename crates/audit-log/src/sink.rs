use std::collections::VecDeque;

use countersign_merkle::{Frontier, LeafHash, TreeHead};
use parking_lot::Mutex;

use crate::line::parse_line;
use crate::line::{LINE, record_body, record_prefix};
use crate::{AuditError, Record, UnrecordedAnswer};

/// Number of records kept by default: a few minutes of a busy host, and a few megabytes at most.
const DEFAULT_KEPT: usize = 4_096;

/// Keeps records. A decision counts only once its record is kept.
///
/// A sink numbers its records from 1 upwards, without gaps. It may be called from many threads.
pub trait AuditSink: Send + Sync + std::fmt::Debug {
    /// Keeps one record and returns its sequence number.
    ///
    /// # Errors
    /// [`AuditError`] if the sink cannot confirm that the record is kept. The caller must then refuse the action that
    /// the record allowed, and must not submit the same record again.
    fn record(&self, record: &Record) -> Result<u64, AuditError>;

    /// Counts an answer that was given although [`record`](Self::record) had failed, for the entry of the outage
    /// ([`GapRecord`](crate::GapRecord)). A sink that wraps another one forwards it; a sink that keeps nothing ignores
    /// it.
    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        let _ = answer;
    }
}

impl<S: AuditSink + ?Sized> AuditSink for std::sync::Arc<S> {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        (**self).record(record)
    }

    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        (**self).note_unrecorded(answer);
    }
}

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
    kept: usize,
    state: Mutex<LatestRecords>,
}

#[derive(Debug, Default)]
struct LatestRecords {
    frontier: Frontier,
    /// Lines of the latest records: a copy of a record would need an allocation for each of its members.
    latest: VecDeque<Vec<u8>>,
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
        Self { kept, state: Mutex::default() }
    }

    /// Number of all records so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.state.lock().frontier.size()
    }

    /// Number of all records so far, and their root hash.
    #[must_use]
    pub fn head(&self) -> TreeHead {
        self.state.lock().frontier.head()
    }

    /// Latest records with their sequence numbers, oldest first.
    #[must_use]
    pub fn latest(&self) -> Vec<(u64, Record)> {
        self.state.lock().latest.iter().take(self.kept).filter_map(|line| parse_line(line)).collect()
    }
}

impl Default for MemorySink {
    fn default() -> Self {
        Self::new()
    }
}

impl AuditSink for MemorySink {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let mut state = self.state.lock();
        let sequence = state.frontier.size().checked_add(1).ok_or(AuditError::TooLong)?;
        let full = state.latest.len() >= self.kept.max(1);
        let mut line =
            if full { state.latest.pop_front() } else { None }.unwrap_or_else(|| Vec::with_capacity(LINE));
        line.clear();
        record_prefix(sequence, &mut line);
        record_body(record, &mut line)?;
        state.frontier.append(LeafHash::of(&line)).map_err(|_| AuditError::TooLong)?;
        state.latest.push_back(line);
        Ok(sequence)
    }
}
