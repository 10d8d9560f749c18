use std::path::PathBuf;
use std::sync::Arc;

use countersign_core::Timestamp;
use countersign_keys::SigningKey;
use countersign_keys::note::KeyName;

use crate::log_state::StateStore;
use crate::segment::LEAST;
use crate::{LogKey, LogStateFile};

/// What has happened to a record when [`AuditSink::record`](crate::AuditSink::record) returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// It was written and synced, alone, with a checkpoint of its own. It outlives a power cut.
    Every,
    /// As `Every`, but together with all others that waited. The default.
    #[default]
    Group,
    /// The system has it, which syncs when it likes. It outlives the process, not a power cut; and a log whose pages were
    /// lost in another order than they were written in is refused when it is opened again. Checkpoints come at a count, at
    /// the end of each segment, on demand and at the end of the log. After the process was killed it is to be opened with this
    /// again, which writes and syncs the last segment once more: any other cuts what no checkpoint counts yet, and records the
    /// cut.
    System,
}

/// How a [`Log`](crate::Log) is kept.
///
/// ```
/// use countersign_audit_log::{Durability, LogOptions};
/// use countersign_keys::{SigningKey, note::KeyName};
/// let key = SigningKey::from_seed([7; 32]);
/// let options = LogOptions::new(KeyName::new("example.com/log")?, key).durability(Durability::Every);
/// # Ok::<(), countersign_keys::note::VerifierKeyError>(())
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
    /// A segment of so many records has a side file.
    pub(super) side_from: u64,
}

/// Where the log's state is kept.
#[derive(Debug)]
pub(super) enum StatePlace {
    /// Beside the log's folder.
    Beside,
    Kept(Arc<dyn StateStore>),
    Nowhere,
}

impl LogOptions {
    /// Takes the log's origin, which is also the name of its key, and the key that signs its checkpoints. No two logs may
    /// have both in common.
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

    /// Sets when a record counts as kept. [`Durability::Group`] unless set.
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets how many bytes a segment has before the next one begins; 64 MiB unless set. A segment is longer by up to one batch.
    pub const fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// Sets after how many records there is a checkpoint under [`Durability::System`]; 256 unless set.
    pub const fn checkpoint_every(mut self, records: u64) -> Self {
        self.checkpoint_every = records;
        self
    }

    /// Adds the signed note of a checkpoint that was kept elsewhere. A log that does not go on from it is not opened.
    pub fn known_checkpoint(mut self, note: impl Into<String>) -> Self {
        self.known.push(note.into());
        self
    }

    /// Says what time it is, for the record of what was cut. The log reads no clock.
    pub const fn opened_at(mut self, time: Timestamp) -> Self {
        self.opened_at = Some(time);
        self
    }

    /// Sets the file that keeps the log's origin, first record and last synced checkpoint: a log that does not go on from them
    /// is not opened. Logs of several folders may share one. Unless set, a log in a folder has the folder's name with
    /// `.state` behind it, and one on another [`Disk`](crate::Disk) has none.
    pub fn state(mut self, path: impl Into<PathBuf>) -> Self {
        self.state = StatePlace::Kept(Arc::new(LogStateFile::new(path)));
        self
    }

    /// Opens the log from the checkpoint of its state on, by the side files. The caller has [`Log::verify_older`](crate::Log::verify_older)
    /// verify what is older. Without a state, and where a side file does not lead to its checkpoint, all is verified first.
    pub const fn verify_older_later(mut self) -> Self {
        self.verifies_later = true;
        self
    }

    /// Keeps no state: a log that was deleted, cut at its end or replaced by an older copy is opened all the same, unless a
    /// [`known_checkpoint`](Self::known_checkpoint) finds it.
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

    /// Public key of the log. In a folder of several it is that of the first; [`LogNumber::key`](crate::LogNumber::key) derives
    /// the others from it.
    #[must_use]
    pub fn log_key(&self) -> LogKey {
        LogKey::new(self.origin.clone(), self.key.verifying_key())
    }
}
