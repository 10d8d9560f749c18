use std::path::PathBuf;
use std::sync::Arc;

use countersign_core::Timestamp;
use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;

use crate::log_state::StateStore;
use crate::segment::LEAST;
use crate::{LogKey, LogStateFile};

/// State of a record when [`AuditSink::record`](crate::AuditSink::record) returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// The record was written and synced alone, with its own checkpoint. It survives a power cut.
    Every,
    /// As `Every`, but together with all other waiting records. The default.
    #[default]
    Group,
    /// The system has the record and syncs it later. It survives the end of the process, but not a power cut. If pages
    /// were lost out of order, the log is refused when it is opened again. Checkpoints are written after a number of
    /// records, at the end of each segment, on demand and at the end of the log. After the process was killed, open the
    /// log with `System` again, which writes and syncs the last segment once more. Any other setting cuts the records
    /// that no checkpoint counts yet, and records the cut.
    System,
}

/// Settings of a [`Log`](crate::Log).
///
/// ```
/// use countersign_audit_log::{Durability, LogOptions};
/// use countersign_keys::SigningKey;
/// use countersign_tlog::note::KeyName;
/// let key = SigningKey::from_seed([7; 32]);
/// let options = LogOptions::new(KeyName::new("example.com/log")?, key).durability(Durability::Every);
/// # Ok::<(), countersign_tlog::note::VerifierKeyError>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct LogOptions {
    pub(super) origin: KeyName,
    pub(super) key: SigningKey,
    pub(super) durability: Durability,
    pub(super) segment_bytes: u64,
    pub(super) checkpoint_every: u64,
    pub(super) known: Vec<String>,
    pub(super) opened_at: Option<Timestamp>,
    pub(super) state: StatePlace,
    pub(super) verifies_later: bool,
    /// Least number of records of a segment with a side file.
    pub(super) side_from: u64,
}

/// Where the log's state is kept.
#[derive(Debug)]
pub(super) enum StatePlace {
    /// Next to the log's folder.
    Beside,
    Kept(Arc<dyn StateStore>),
    Nowhere,
}

impl LogOptions {
    /// Takes the log's origin, which is also the name of its key, and the key that signs its checkpoints. No two logs
    /// may share both.
    pub const fn new(origin: KeyName, key: SigningKey) -> Self {
        Self {
            origin,
            key,
            durability: Durability::Group,
            segment_bytes: 64 << 20,
            checkpoint_every: 256,
            known: Vec::new(),
            opened_at: None,
            state: StatePlace::Beside,
            verifies_later: false,
            side_from: LEAST,
        }
    }

    /// Sets when a record counts as kept. Default: [`Durability::Group`].
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the size in bytes at which the next segment begins. Default: 64 MiB. A segment can exceed it by one batch.
    pub const fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Sets the number of records between checkpoints under [`Durability::System`]. Default: 256.
    pub const fn checkpoint_every(mut self, records: u64) -> Self {
        self.checkpoint_every = records;
        self
    }

    /// Adds the signed note of a checkpoint kept elsewhere. A log that does not continue from it is not opened.
    pub fn known_checkpoint(mut self, note: impl Into<String>) -> Self {
        self.known.push(note.into());
        self
    }

    /// Sets the time for the record of cut bytes. The log reads no clock.
    pub const fn opened_at(mut self, time: Timestamp) -> Self {
        self.opened_at = Some(time);
        self
    }

    /// Sets the file that keeps the log's origin, first record and last synced checkpoint. A log that does not continue
    /// from them is not opened. Logs of several folders may share one file. Default: the folder's name followed by
    /// `.state` for a log in a folder, and no state on another [`Disk`](crate::Disk).
    pub fn state(mut self, path: impl Into<PathBuf>) -> Self {
        self.state = StatePlace::Kept(Arc::new(LogStateFile::new(path)));
        self
    }

    /// Opens the log from the checkpoint of its state, by the side files. The caller then calls
    /// [`Log::verify_older`](crate::Log::verify_older) to verify the older entries. Without a state, or if a side file
    /// does not lead to its checkpoint, everything is verified first.
    pub const fn verify_older_later(mut self) -> Self {
        self.verifies_later = true;
        self
    }

    /// Keeps no state. A log that was deleted, cut at its end or replaced by an older copy is then opened all the same,
    /// unless a [`known_checkpoint`](Self::known_checkpoint) reveals it.
    pub fn dangerous_without_state(mut self) -> Self {
        self.state = StatePlace::Nowhere;
        self
    }

    #[cfg(test)]
    pub(crate) const fn side_from(mut self, records: u64) -> Self {
        self.side_from = records;
        self
    }

    #[cfg(test)]
    pub(crate) fn state_store(mut self, store: Arc<dyn StateStore>) -> Self {
        self.state = StatePlace::Kept(store);
        self
    }

    /// Public key of the log. In a folder of several logs it is the first log's;
    /// [`LogNumber::key`](crate::LogNumber::key) derives the others from it.
    #[must_use]
    pub fn log_key(&self) -> LogKey {
        LogKey::new(self.origin.clone(), self.key.verifying_key())
    }
}
