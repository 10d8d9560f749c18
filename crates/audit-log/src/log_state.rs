use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_canonical_json::{Limits, Recipe, read, to_canonical};
use countersign_keys::state_file::{LockWait, StateFile, StateFileError};
use countersign_keys::trusted::UntrustedFile;
use countersign_tlog::note::KeyName;
use serde::Deserialize as _;

use crate::{Checkpoint, CheckpointError, GapRecord, LogError, LogKey};

/// Format name in the file.
const FORMAT: &str = "countersign-record-state-1";

/// Largest state that is read: about ten thousand logs.
const MAX_BYTES: usize = 4 << 20;

/// Last synced checkpoint of each log that was ever opened with this state, keyed by the log's origin.
///
/// A log is compared with its own entry; a deleted, cut or older log does not continue from it. An attacker who can
/// replace both log and state is not detected.
#[derive(Clone, Debug, Default)]
pub struct LogStates(Vec<WireLog>);

/// A log as its state knows it, under a checkpoint signed by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownLog {
    /// Sequence number of the first record in the folder: 1, unless older segments were archived.
    pub first: u64,
    /// Last synced checkpoint.
    pub checkpoint: Checkpoint,
    /// Number up to which each accepted decision has an outcome; 0 if unknown.
    pub(crate) settled: u64,
    /// Answers without an entry when the log's last process ended, or when it saved the state.
    pub(crate) gap: Option<GapRecord>,
}

/// Progress of a log, for its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogProgress {
    /// Size and note of the last synced checkpoint.
    pub(crate) size: u64,
    pub(crate) note: Arc<str>,
    /// Number up to which each accepted decision has an outcome.
    pub(crate) settled: u64,
    /// Answers without an entry.
    pub(crate) gap: Option<GapRecord>,
}

/// Reason why a log's state cannot be used. The log is then not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogStateError {
    /// Other users may have written the file.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// The file has another format, or is damaged.
    #[error("malformed")]
    Malformed,
    /// The checkpoint of the log is not signed by the log's key.
    #[error("its checkpoint does not belong to this log")]
    Signature(#[source] CheckpointError),
    /// The file cannot be locked, read or written.
    #[error("not available")]
    Unavailable(#[source] StateFileError),
}

impl LogStateError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Untrusted(error) => error.code(),
            Self::Malformed | Self::Unavailable(_) => "AUDIT_STATE",
            Self::Signature(_) => "AUDIT_SIGNATURE",
        }
    }
}

countersign_core::coded!(LogStateError);

impl From<StateFileError> for LogStateError {
    fn from(error: StateFileError) -> Self {
        if let StateFileError::Untrusted(error) = error {
            Self::Untrusted(error)
        } else {
            Self::Unavailable(error)
        }
    }
}

impl LogStates {
    /// Returns the log of that key; `None` if the state does not know its origin.
    ///
    /// # Errors
    /// [`LogStateError::Signature`]; [`LogStateError::Malformed`] if a number differs from the checkpoint's.
    pub fn log(&self, key: &LogKey) -> Result<Option<KnownLog>, LogStateError> {
        let Some(log) = self.0.iter().find(|log| log.origin == key.origin().as_str()) else {
            return Ok(None);
        };
        let checkpoint = Checkpoint::verify(&log.checkpoint, key).map_err(LogStateError::Signature)?;
        let settled = log.settled.unwrap_or_default();
        if checkpoint.size() == log.size && log.first > 0 && settled <= log.size {
            Ok(Some(KnownLog { first: log.first, checkpoint, settled, gap: log.gap.clone() }))
        } else {
            Err(LogStateError::Malformed)
        }
    }

    /// Note of a log's checkpoint, with its signature unverified.
    pub(crate) fn note_of(&self, key: &LogKey) -> Option<String> {
        let log = self.0.iter().find(|log| log.origin == key.origin().as_str());
        log.map(|log| log.checkpoint.clone())
    }

    /// Origins of all logs that the state knows.
    pub fn origins(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|log| log.origin.as_str())
    }

    pub(crate) fn set(&mut self, origin: &KeyName, first: u64, stand: &LogProgress) {
        self.remove(origin);
        let LogProgress { size, note, settled, gap } = stand;
        let (origin, checkpoint) = (origin.as_str().to_owned(), (**note).to_owned());
        let (size, settled, gap) = (*size, Some(*settled), gap.clone());
        self.0.push(WireLog { origin, first, size, checkpoint, settled, gap });
        self.0.sort_by(|one, other| one.origin.cmp(&other.origin));
    }

    pub(crate) fn remove(&mut self, origin: &KeyName) {
        self.0.retain(|log| log.origin != origin.as_str());
    }

    fn parse(bytes: &[u8]) -> Result<Self, LogStateError> {
        let malformed = |_| LogStateError::Malformed;
        let limits = Limits::default().bytes(MAX_BYTES).map_err(malformed)?;
        let limits = limits.width(MAX_BYTES).map_err(malformed)?;
        let canonical = read(bytes, Recipe::Jcs1, &limits).map_err(|_| LogStateError::Malformed)?;
        let wire = WireStates::deserialize(canonical.value()).map_err(|_| LogStateError::Malformed)?;
        let is_sorted = wire.logs.is_sorted_by(|one, other| one.origin < other.origin);
        if wire.format == FORMAT && is_sorted { Ok(Self(wire.logs)) } else { Err(LogStateError::Malformed) }
    }

    fn to_bytes(&self) -> Result<Vec<u8>, LogStateError> {
        let wire = WireStates { format: FORMAT.to_owned(), logs: self.0.clone() };
        let text = to_canonical(&wire).map_err(|_| LogStateError::Malformed)?;
        Ok(text.bytes().to_vec())
    }
}

/// State of logs in a file that several processes share: mode 0600, replaced by rename under a lock file beside it.
#[derive(Clone, Debug)]
pub struct LogStateFile(StateFile);

impl LogStateFile {
    /// Names the file. Nothing is opened yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(StateFile::new(path))
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Reads the state; returns `None` if the file is missing.
    ///
    /// # Errors
    /// [`LogStateError`].
    pub fn read(&self) -> Result<Option<LogStates>, LogStateError> {
        let bytes = self.0.read(MAX_BYTES as u64)?;
        bytes.map(|bytes| LogStates::parse(&bytes)).transpose()
    }
}

/// Storage for the state of logs.
pub(crate) trait StateStore: fmt::Debug + Send + Sync {
    /// Name used in messages.
    fn name(&self) -> String;

    fn read(&self) -> Result<LogStates, LogStateError>;

    /// Changes the state in one durable step. After an error it is the old state or the new one.
    fn update(&self, wait: LockWait, change: &mut dyn FnMut(&mut LogStates)) -> Result<(), LogStateError>;
}

impl StateStore for LogStateFile {
    fn name(&self) -> String {
        self.path().display().to_string()
    }

    fn read(&self) -> Result<LogStates, LogStateError> {
        Self::read(self).map(Option::unwrap_or_default)
    }

    fn update(&self, wait: LockWait, change: &mut dyn FnMut(&mut LogStates)) -> Result<(), LogStateError> {
        let locked = self.0.lock(wait)?;
        let mut states = StateStore::read(self)?;
        change(&mut states);
        if states.0.is_empty() {
            return Ok(locked.remove()?);
        }
        Ok(locked.replace(&states.to_bytes()?)?)
    }
}

/// Refuses a log that lacks records which the state knows. `first_here` is the first record of the first segment.
pub(crate) fn require_segments(known: &KnownLog, first_here: Option<u64>) -> Result<(), LogError> {
    match first_here {
        None => Err(LogError::Gone { known: known.checkpoint.size() }),
        Some(here) if here > known.first => {
            Err(LogError::OldestGone { first: known.first, last: here.saturating_sub(1) })
        }
        Some(_) => Ok(()),
    }
}

#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WireLog {
    origin: String,
    /// Sequence number of the first record in the folder.
    first: u64,
    /// Number of records under the checkpoint.
    size: u64,
    /// Signed note of the last synced checkpoint.
    checkpoint: String,
    /// Number up to which each accepted decision has an outcome. Older states have none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    settled: Option<u64>,
    /// Answers without an entry, if there are any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    gap: Option<GapRecord>,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WireStates {
    format: String,
    logs: Vec<WireLog>,
}
