use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_keys::state_file::LockWait;
use parking_lot::Mutex;

use super::open_calls::OpenCalls;
use super::options::{LogOptions, StatePlace};
use super::writer::Writer;
use crate::log_state::{LogProgress, StateStore, require_segments};
use crate::segment::list_segments;
use crate::{AuditError, FolderDisk, KnownLog, LogError, LogKey, LogStateError, LogStateFile, LogStates};

/// Relation of an opened log to its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogStart {
    /// The folder held no log, and no state knew one.
    Begun,
    /// The log existed, and no state knew it.
    Adopted,
    /// The log continues from its state; or it existed and was opened without a state.
    Resumed,
}

/// Keeps the last synced checkpoint of one log in a state.
#[derive(Debug)]
pub(crate) struct StateKeeper {
    store: Arc<dyn StateStore>,
    key: LogKey,
    /// First record in the folder.
    first: AtomicU64,
    /// Last save. Locked during a save, so that no older one follows.
    saved: Mutex<Saved>,
}

#[derive(Debug, PartialEq, Eq)]
enum Saved {
    Nothing,
    Stand(LogProgress),
    /// The new log was rolled back: nothing is saved any more.
    Forgotten,
}

impl StateKeeper {
    /// Builds the keeper of a log in a folder, or of one on another disk; `None` if it has no state.
    pub(crate) fn new(options: &LogOptions, folder: Option<&Path>) -> Result<Option<Self>, AuditError> {
        let store = match (&options.state, folder) {
            (StatePlace::Nowhere, _) | (StatePlace::Beside, None) => return Ok(None),
            (StatePlace::Kept(store), _) => Arc::clone(store),
            (StatePlace::Beside, Some(folder)) => {
                let path = state_beside(folder).map_err(AuditError::Unavailable)?;
                Arc::new(LogStateFile::new(path))
            }
        };
        let saved = Mutex::new(Saved::Nothing);
        Ok(Some(Self { store, key: options.log_key(), first: AtomicU64::new(1), saved }))
    }

    pub(crate) fn name(&self) -> String {
        self.store.name()
    }

    /// Returns all logs of the state.
    pub(crate) fn states(&self) -> Result<LogStates, AuditError> {
        self.store.read().map_err(|error| self.failed(error))
    }

    /// Returns the log as its state knows it.
    pub(crate) fn known(&self) -> Result<Option<KnownLog>, AuditError> {
        self.known_in(&self.states()?, &self.key)
    }

    /// Returns the log of that key as these states know it.
    pub(crate) fn known_in(&self, states: &LogStates, key: &LogKey) -> Result<Option<KnownLog>, AuditError> {
        states.log(key).map_err(|error| self.failed(error))
    }

    /// Refuses a folder whose log is missing, before anything is created there.
    pub(super) fn require_log(&self, folder: &Path) -> Result<(), AuditError> {
        let Some(known) = self.known()? else { return Ok(()) };
        let segments = match FolderDisk::existing(folder).and_then(|disk| list_segments(&disk)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(AuditError::Unavailable)?,
        };
        // The process that began the log may have rolled it back in the meantime: first the state, then the segment.
        match require_segments(&known, segments.first().copied()) {
            Err(error) if self.known()?.is_some() => Err(self.not_continued(error)),
            _ => Ok(()),
        }
    }

    /// Returns the error as `NotContinued` if the state is its reason.
    pub(super) fn explain(&self, error: LogError, known: &KnownLog) -> AuditError {
        let size = known.checkpoint.size();
        let is_of_state = matches!(error, LogError::Gone { .. } | LogError::OldestGone { .. })
            || matches!(error, LogError::RolledBack { known: at, .. } | LogError::Fork { size: at } if at == size);
        if is_of_state { self.not_continued(error) } else { error.into() }
    }

    fn not_continued(&self, source: LogError) -> AuditError {
        AuditError::NotContinued { state: self.name(), source: Box::new(source) }
    }

    fn failed(&self, source: LogStateError) -> AuditError {
        AuditError::State { state: self.name(), source }
    }

    /// Saves the progress of a log that was just opened.
    pub(super) fn begin(&mut self, first: u64, writer: &Writer, calls: &OpenCalls) -> Result<(), AuditError> {
        *self.first.get_mut() = first;
        let Some((size, note)) = writer.synced_checkpoint() else { return Ok(()) };
        self.save(LockWait::Start, || LogProgress {
            size,
            note: note.into(),
            settled: calls.settled(size),
            gap: None,
        })
    }

    /// Saves the state. INVARIANT: `latest` returns a synced checkpoint, with its size and note.
    pub(super) fn save(
        &self,
        wait: LockWait,
        latest: impl FnOnce() -> LogProgress,
    ) -> Result<(), AuditError> {
        let mut saved = self.saved.lock();
        // why: `latest` runs under the lock; otherwise an earlier checkpoint could be saved after a later one.
        let now = Saved::Stand(latest());
        if *saved == Saved::Forgotten || *saved == now {
            return Ok(());
        }
        if let Saved::Stand(stand) = &now {
            let (origin, first) = (self.key.origin(), self.first.load(Ordering::Relaxed));
            let done = self.store.update(wait, &mut |states| states.set(origin, first, stand));
            done.map_err(|error| self.failed(error))?;
        }
        *saved = now;
        Ok(())
    }

    /// Sets the first record in the folder, for the next save.
    pub(super) fn begin_at(&self, first: u64) {
        let mut saved = self.saved.lock();
        self.first.store(first, Ordering::Relaxed);
        if *saved != Saved::Forgotten {
            *saved = Saved::Nothing;
        }
    }

    /// Removes the log from the state permanently.
    pub(super) fn forget(&self) -> Result<(), AuditError> {
        let mut saved = self.saved.lock();
        *saved = Saved::Forgotten;
        let done = self.store.update(LockWait::Start, &mut |states| states.remove(self.key.origin()));
        done.map_err(|error| self.failed(error))
    }
}

/// Returns the folder's path with `.state` appended to its name.
fn state_beside(folder: &Path) -> io::Result<PathBuf> {
    let folder = std::path::absolute(folder)?;
    let name = folder.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut name = OsString::from(name);
    name.push(".state");
    Ok(folder.with_file_name(name))
}
