use std::io;
use std::path::Path;

use countersign_tlog::note::KeyName;

use super::Log;
use super::keeper::StateKeeper;
use super::open::LOCK;
use super::options::LogOptions;
use crate::closing::require_not_closed;
use crate::log_files::step;
use crate::log_state::require_segments;
use crate::segment::{list_segments, read_head};
use crate::{
    AuditError, Checkpoint, FolderDisk, KnownLog, LogError, LogKey, LogNumber, LogProver, LogStates,
    OpenLogError, Place, list_logs,
};

/// Number of times that a log beside this one is opened again after its state has changed: its writer can roll it back
/// once and archive once meanwhile, and begin it anew.
const RETRIES: u32 = 3;

impl Log {
    /// Opens the first log of a folder that no other writer has: the folder's own, or else the numbered one with the
    /// smallest number. The options are those of the folder's own log; a numbered log's origin is derived from theirs
    /// ([`LogNumber`]). Each log gets the known checkpoints of its own origin.
    ///
    /// # Errors
    /// [`OpenLogError`]: as [`Log::open`]; [`AuditError::Locked`] if every number is in use; [`AuditError::Origin`] if the
    /// folder holds no log and the state knows one whose numbered log has this origin.
    pub fn open_shared(
        folder: impl AsRef<Path>,
        options: LogOptions,
    ) -> Result<(Self, LogNumber), OpenLogError> {
        open_from(folder.as_ref(), options, LogNumber::FIRST)
    }

    /// As [`open_shared`](Self::open_shared), but skips the folder's own log.
    ///
    /// # Errors
    /// As [`open_shared`](Self::open_shared).
    pub fn open_numbered(
        folder: impl AsRef<Path>,
        options: LogOptions,
    ) -> Result<(Self, LogNumber), OpenLogError> {
        open_from(folder.as_ref(), options, LogNumber::second())
    }

    /// As [`open`](Self::open), of an existing folder.
    pub(crate) fn open_existing(disk: FolderDisk, options: LogOptions) -> Result<Self, AuditError> {
        let keeper = StateKeeper::new(&options, Some(disk.path()))?;
        Self::open_in(disk, options, keeper)
    }

    pub(super) fn open_in(
        disk: FolderDisk,
        options: LogOptions,
        keeper: Option<StateKeeper>,
    ) -> Result<Self, AuditError> {
        let opened = super::open::open(&disk, &options, keeper, || require_not_closed(disk.path()))?;
        Ok(Self::ready(Box::new(disk), options, opened))
    }
}

impl Log {
    /// Signed note of the last synced checkpoint.
    #[must_use]
    pub fn synced_checkpoint(&self) -> String {
        self.state.lock().synced_note.to_string()
    }

    /// Opens another log of the folder for proofs. It must continue from the state, if that knows it. `states` are
    /// [`known_logs`](Self::known_logs). Returns `None` if neither the folder nor the state has the log.
    ///
    /// # Errors
    /// [`AuditError::NotContinued`] if the log does not continue from its state; [`AuditError::Log`] if it does not
    /// verify; [`AuditError::State`]; [`AuditError::Unavailable`].
    pub fn open_beside(
        &self,
        folder: &Path,
        key: &LogKey,
        states: &LogStates,
    ) -> Result<Option<LogProver>, AuditError> {
        let Some(keeper) = &self.keeper else {
            return match open_known(folder, key, None) {
                Err(LogError::Missing) => Ok(None),
                opened => Ok(opened.map(Some)?),
            };
        };
        let mut known = keeper.known_in(states, key)?;
        let mut opened = open_known(folder, key, known.as_ref());
        for _ in 0..RETRIES {
            // Its writer may have rolled it back or archived in the meantime: first the state, then the segment.
            if !opened.as_ref().is_err_and(lacks_records) {
                break;
            }
            let now = keeper.known_in(&keeper.states()?, key)?;
            if now == known {
                break;
            }
            known = now;
            opened = open_known(folder, key, known.as_ref());
        }
        match (opened, &known) {
            (Ok(prover), _) => Ok(Some(prover)),
            (Err(LogError::Missing), None) => Ok(None),
            (Err(error), None) => Err(error.into()),
            (Err(error), Some(known)) => Err(keeper.explain(error, known)),
        }
    }

    /// Returns all logs of the log's state; empty if the log has no state.
    ///
    /// # Errors
    /// [`AuditError::State`].
    pub fn known_logs(&self) -> Result<LogStates, AuditError> {
        self.keeper.as_ref().map_or_else(|| Ok(LogStates::default()), StateKeeper::states)
    }
}

/// Returns `true` if a log without its known records can be the reason. Damage has others, and finding it again takes
/// as long as reading the log.
const fn lacks_records(error: &LogError) -> bool {
    matches!(
        error,
        LogError::Missing
            | LogError::Gone { .. }
            | LogError::OldestGone { .. }
            | LogError::Archived { .. }
            | LogError::RolledBack { .. }
    )
}

/// Opens a log, which must continue from its state. A log that the state knows and the folder lacks is gone.
fn open_known(folder: &Path, key: &LogKey, known: Option<&KnownLog>) -> Result<LogProver, LogError> {
    let disk = FolderDisk::existing(folder).map_err(LogError::from);
    let checkpoints: Vec<_> = known.iter().map(|known| known.checkpoint.clone()).collect();
    let prover = match disk.and_then(|disk| LogProver::open(disk, key, &checkpoints)) {
        Err(LogError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Err(LogError::Missing),
        opened => opened,
    };
    match (prover, known) {
        (Err(LogError::Missing), Some(known)) => Err(LogError::Gone { known: known.checkpoint.size() }),
        (Ok(prover), Some(known)) => {
            require_segments(known, Some(prover.first_here()))?;
            Ok(prover)
        }
        (prover, _) => prover,
    }
}

fn open_from(
    folder: &Path,
    mut options: LogOptions,
    from: LogNumber,
) -> Result<(Log, LogNumber), OpenLogError> {
    let failed_first = |source| OpenLogError { log: from, source };
    require_not_closed(folder).map_err(failed_first)?;
    let first_key = options.log_key();
    let first_keeper = StateKeeper::new(&options, Some(folder)).map_err(failed_first)?;
    if let Some(keeper) = &first_keeper {
        require_origin(keeper, first_key.origin(), folder).map_err(failed_first)?;
    }
    // why: if no state knows the log, a folder that is retired from here on would be begun anew.
    let may_make = first_keeper.is_some() || folder.symlink_metadata().is_err();
    let require_first = || {
        require_not_closed(folder)?;
        require_first(folder, &first_key, first_keeper.as_ref())
    };
    let known = std::mem::take(&mut options.known);
    let mut last = from;
    for log in from.and_later() {
        last = log;
        let failed = |source| OpenLogError { log, source };
        let origin = log.origin(first_key.origin()).map_err(io::Error::other);
        options.origin = origin.map_err(|error| failed(AuditError::Unavailable(error)))?;
        let of_log = |note: &&String| LogNumber::of_note(note, first_key.origin()) == log;
        options.known = known.iter().filter(of_log).cloned().collect();
        if log != LogNumber::FIRST
            && log.folder_in(folder).symlink_metadata().is_ok_and(|about| about.is_symlink())
        {
            // Readers of the folder follow no links.
            return Err(failed(AuditError::Unavailable(io::Error::other(
                "a link in the place of a log's folder",
            ))));
        }
        // why: its writer has verified it. Each signature here would be verified for each log in use.
        if FolderDisk::existing(log.folder_in(folder)).is_ok_and(|disk| disk.is_locked(LOCK)) {
            continue;
        }
        let keeper = StateKeeper::new(&options, Some(folder)).map_err(failed)?;
        if let Some(keeper) = &keeper {
            keeper.require_log(&log.folder_in(folder)).map_err(failed)?;
        }
        if log != LogNumber::FIRST {
            require_first().map_err(|source| OpenLogError { log: LogNumber::FIRST, source })?;
        }
        let disk = step().and_then(|()| {
            let disk = if may_make { FolderDisk::create(folder) } else { FolderDisk::existing(folder) }?;
            if log == LogNumber::FIRST { Ok(disk) } else { FolderDisk::create(log.folder_in(folder)) }
        });
        let disk = disk.map_err(|error| failed(AuditError::Unavailable(error)))?;
        let opened = super::open::open(&disk, &options, keeper, || {
            if log == LogNumber::FIRST { Ok(()) } else { require_first() }
        });
        match opened {
            Ok(opened) => return Ok((Log::ready(Box::new(disk), options, opened), log)),
            Err(AuditError::Locked) => {}
            // Its last writer has just removed the log again: it rolled back a new log.
            Err(AuditError::Replaced) if log != LogNumber::FIRST => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(OpenLogError { log: last, source: AuditError::Locked })
}

/// Refuses a folder whose own log is missing, or has a key or origin other than the one that the numbered log's is
/// derived from. A first log that is being begun, or was not begun yet, is accepted.
fn require_first(folder: &Path, key: &LogKey, keeper: Option<&StateKeeper>) -> Result<(), AuditError> {
    if let Some(keeper) = keeper {
        keeper.require_log(folder)?;
    }
    let disk = FolderDisk::existing(folder);
    let first = disk.and_then(|disk| Ok(list_segments(&disk)?.first().map(|first| (disk, *first))));
    let first = match first {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        first => first.map_err(AuditError::Unavailable)?,
    };
    let Some((disk, first)) = first else { return Ok(()) };
    // Readers of that log find damage in it.
    let Ok(head) = read_head(&disk, first) else { return Ok(()) };
    let at = Place { segment: first, line: 1, byte: 0, entry: first };
    let signed = Checkpoint::verify(&head.checkpoint, key);
    Ok(signed.map(drop).map_err(|source| LogError::Signature { at, source })?)
}

/// Refuses to begin a folder's first log under an origin that belongs to a numbered log of another folder.
fn require_origin(keeper: &StateKeeper, own: &KeyName, folder: &Path) -> Result<(), AuditError> {
    let (states, own) = (keeper.states()?, own.as_str());
    let first = states.origins().find(|first| LogNumber::of_origin(own, first).is_some());
    let Some(first) = first else { return Ok(()) };
    let is_known = states.origins().any(|origin| origin == own);
    if is_known || list_logs(folder).is_ok_and(|logs| !logs.is_empty()) {
        return Ok(());
    }
    Err(AuditError::Origin { origin: own.to_owned(), first: first.to_owned(), state: keeper.name() })
}
