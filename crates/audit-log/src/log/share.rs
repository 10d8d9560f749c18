use std::io;
use std::path::Path;

use super::Log;
use super::keeper::Keeper;
use super::options::LogOptions;
use crate::closing::is_closed;
use crate::{AuditError, FolderDisk, LogNumber, LogStates, OpenLogError};

impl Log {
    /// Opens the first log of a folder that no other writer has: the folder's own, or else the numbered one with the smallest
    /// number. The options are those of the folder's own log; a numbered log's origin is derived from theirs ([`LogNumber`]), and
    /// of the checkpoints that were kept elsewhere each log gets those of its origin.
    ///
    /// # Errors
    /// [`OpenLogError`]: as [`Log::open`]; [`AuditError::Locked`] when every number is in use.
    pub fn open_shared(
        folder: impl AsRef<Path>,
        options: LogOptions,
    ) -> Result<(Self, LogNumber), OpenLogError> {
        open_from(folder.as_ref(), options, LogNumber::FIRST)
    }

    /// As [`open_shared`](Self::open_shared), and leaves the folder's own log alone.
    ///
    /// # Errors
    /// As [`open_shared`](Self::open_shared).
    pub fn open_numbered(
        folder: impl AsRef<Path>,
        options: LogOptions,
    ) -> Result<(Self, LogNumber), OpenLogError> {
        open_from(folder.as_ref(), options, LogNumber::second())
    }
}

impl Log {
    /// The signed note of the last checkpoint that is synced.
    #[must_use]
    pub fn synced_checkpoint(&self) -> String {
        self.state.lock().synced_note.to_string()
    }

    /// All logs of the log's state; empty where it has none.
    ///
    /// # Errors
    /// [`AuditError::State`].
    pub fn known_logs(&self) -> Result<LogStates, AuditError> {
        self.keeper.as_ref().map_or_else(|| Ok(LogStates::default()), Keeper::states)
    }
}

fn open_from(
    folder: &Path,
    mut options: LogOptions,
    from: LogNumber,
) -> Result<(Log, LogNumber), OpenLogError> {
    if is_closed(folder) {
        return Err(OpenLogError { log: from, source: AuditError::Closed });
    }
    let (first, known) = (options.origin.clone(), std::mem::take(&mut options.known));
    let mut last = from;
    for log in from.and_later() {
        last = log;
        let failed = |source| OpenLogError { log, source };
        let origin = log.origin(&first).map_err(io::Error::other);
        options.origin = origin.map_err(|error| failed(AuditError::Unavailable(error)))?;
        let of_log = |note: &&String| LogNumber::of_note(note, &first) == log;
        options.known = known.iter().filter(of_log).cloned().collect();
        if log != LogNumber::FIRST
            && log.folder_in(folder).symlink_metadata().is_ok_and(|about| about.is_symlink())
        {
            // Readers of the folder follow no links.
            return Err(failed(AuditError::Unavailable(io::Error::other(
                "a link in the place of a log's folder",
            ))));
        }
        let keeper = Keeper::new(&options, Some(folder)).map_err(failed)?;
        if let Some(keeper) = &keeper {
            keeper.require_log(&log.folder_in(folder)).map_err(failed)?;
        }
        let disk = FolderDisk::create(folder).and_then(|disk| {
            if log == LogNumber::FIRST { Ok(disk) } else { FolderDisk::create(log.folder_in(folder)) }
        });
        let disk = disk.map_err(|error| failed(AuditError::Unavailable(error)))?;
        match super::open::open(&disk, &options, keeper) {
            Ok(opened) => return Ok((Log::ready(Box::new(disk), options, opened), log)),
            Err(AuditError::Locked) => {}
            // Its last writer took it away again in this moment: it had made it in vain.
            Err(AuditError::Replaced) if log != LogNumber::FIRST => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(OpenLogError { log: last, source: AuditError::Locked })
}
