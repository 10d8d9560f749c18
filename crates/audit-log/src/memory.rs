use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::{AuditError, AuditSink, Record};

/// How many records are kept unless said otherwise: enough to look back over a few minutes of a busy host, a few
/// megabytes at most.
const DEFAULT_KEPT: usize = 4_096;

/// Keeps the latest records in memory, and the exact number of all. For tests and for hosts that keep no file.
///
/// Nothing in it outlives the process: whoever needs to know afterwards what happened uses a
/// [`FileSink`](crate::FileSink).
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
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    latest: VecDeque<(u64, Record)>,
}

impl MemorySink {
    /// Makes one that keeps the latest 4,096 records.
    #[must_use]
    pub fn new() -> Self {
        Self::keeping(DEFAULT_KEPT)
    }

    /// Makes one that keeps the latest `kept` records.
    #[must_use]
    pub fn keeping(kept: usize) -> Self {
        Self { kept, state: Mutex::default() }
    }

    /// How many records there were in all.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.state.lock().count
    }

    /// The latest records with their sequence numbers, oldest first.
    #[must_use]
    pub fn latest(&self) -> Vec<(u64, Record)> {
        self.state.lock().latest.iter().cloned().collect()
    }
}

impl Default for MemorySink {
    fn default() -> Self {
        Self::new()
    }
}

impl AuditSink for MemorySink {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let record = record.clone();
        let mut state = self.state.lock();
        let sequence = state.count.checked_add(1).ok_or(AuditError::TooLong)?;
        state.count = sequence;
        state.latest.push_back((sequence, record));
        if state.latest.len() > self.kept {
            state.latest.pop_front();
        }
        Ok(sequence)
    }
}
