use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use countersign_core::{Digest, Timestamp};
use countersign_keys::{SigningKey, VerifyingKey};
use countersign_tlog::note::{KeyName, SignedNote};

use crate::closing::{CLOSING, ClosedLog, FolderSums, SUMS, has_note, read_closing};
use crate::folder_disk::sync_folder;
use crate::log::{LOCK, StateKeeper};
use crate::log_files::{read_small, remove, step, write_bytes};
use crate::log_number::last_signed;
use crate::log_state::require_segments;
use crate::log_verify::survey;
use crate::segment::list_segments;
use crate::{
    AuditError, AuditSink as _, BeganRecord, ClosingError, ClosingNote, Disk as _, DiskFile, FolderDisk,
    KnownLog, Log, LogError, LogKey, LogNumber, LogOptions, LogStates, Record, list_logs, read_log,
    signed_key, verify_closing, verify_disk,
};

/// Selection of logs that may be retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetireWhich {
    /// Any log, even a damaged one or one that does not continue from its state.
    Any,
    /// Only a folder whose logs all verify and continue from their state.
    Sound,
}

/// A retired log, and the log that continues it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retired {
    /// Folder that the retired log was moved to.
    pub folder: PathBuf,
    /// Note that closed it.
    pub closing: ClosingNote,
    /// SHA-256 of the note's file.
    pub digest: Digest,
    /// Sequence number of the entry in the new log that names the note: 1, unless another process wrote there in between.
    pub seq: u64,
}

/// Reason why a log could not be retired. Its files are unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetireError {
    /// The log cannot be read, is in use, or does not verify although it has to; or the new log cannot be opened.
    #[error(transparent)]
    Log(#[from] AuditError),
    /// The state's entry of a log in the folder is damaged, or has a checkpoint that another key signed.
    #[error("log `{origin}`")]
    State {
        /// Origin of the log.
        origin: KeyName,
        /// Reason of the failure.
        source: AuditError,
    },
    /// The folder has a closing note that does not verify.
    #[error(transparent)]
    Closing(#[from] ClosingError),
    /// The log has no checkpoint signed by the key.
    #[error("no checkpoint in the folder is signed by the key")]
    Key,
    /// The log is a numbered one, whose origin is derived from the first log of its folder.
    #[error("numbered log: its origin derives from its parent folder, retire that folder with all its logs")]
    Numbered,
    /// The new origin belongs or belonged to a log.
    #[error("origin `{origin}` already used by a log: choose another, two logs under one origin are a fork")]
    Origin {
        /// The new origin.
        origin: KeyName,
    },
    /// The folder was closed for another log.
    #[error("the folder is already closed, its successor is `{next}`")]
    Closed {
        /// Key of that log.
        next: String,
    },
    /// A file cannot be read, written or moved.
    #[error("`{name}` cannot be retired")]
    File {
        /// Name of the file or folder.
        name: String,
        /// Reason of the failure.
        source: io::Error,
    },
}

impl RetireError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Log(error) | Self::State { source: error, .. } => error.code(),
            Self::Closing(error) => error.code(),
            Self::Key => "AUDIT_SIGNATURE",
            Self::Numbered => "RETIRE_NUMBERED",
            Self::Origin { .. } => "RETIRE_ORIGIN",
            Self::Closed { .. } => "AUDIT_CLOSED",
            Self::File { .. } => "RETIRE_FILE",
        }
    }
}

countersign_core::coded!(RetireError);

/// Closes a folder of logs, moves it aside and begins another log in its place, under another origin. It signs a note
/// of the verified part and of the sums of all files ([`ClosingNote`]). It renames the folder to its name followed by
/// `.retired-` and the beginning of the note's digest. It then records that in the new log ([`BeganRecord`]). `key` is
/// the old log's key. `next` has the new origin and key, and the state, which keeps the old origin.
///
/// Nothing is removed. After an interruption the same call finishes the work; until then no writer opens the log.
///
/// # Errors
/// [`RetireError`].
pub fn retire_log(
    folder: impl AsRef<Path>,
    key: &SigningKey,
    next: LogOptions,
    which: RetireWhich,
    now: Timestamp,
) -> Result<Retired, RetireError> {
    let folder = Folder::of(folder.as_ref())?;
    let (moved, _locks) = match folder.find_moved(&key.verifying_key(), &next.log_key())? {
        Some(moved) => (moved, Locks::new()),
        None => folder.close(key, &next, which, now)?,
    };
    let (path, note, closing) = moved;
    let digest = Digest::of(note.as_bytes());
    let log = Log::open(&folder.path, next)?;
    step().map_err(failed(&folder.name))?;
    let began = began(&folder.path, digest)?;
    let record = BeganRecord::new(now, &closing.origin, digest);
    let seq = began.map_or_else(|| log.record(&Record::Began(record)), Ok)?;
    log.checkpoint()?;
    Ok(Retired { folder: path, closing, digest, seq })
}

/// Finds the log that an interrupted [`retire_log`] closed and moved, by its key and the key of the log that continues
/// it. That log may not exist yet, or may be unknown to the state.
///
/// # Errors
/// [`RetireError`].
pub fn interrupted_retirement(
    folder: impl AsRef<Path>,
    key: &VerifyingKey,
    next: &LogKey,
) -> Result<Option<LogKey>, RetireError> {
    let moved = Folder::of(folder.as_ref())?.find_moved(key, next)?;
    let origin = moved.and_then(|(_, _, closing)| KeyName::new(&closing.origin).ok());
    Ok(origin.map(|origin| LogKey::new(origin, *key)))
}

/// Locks of the logs in a folder.
type Locks = BTreeMap<LogNumber, Box<dyn DiskFile>>;

/// Path of a closed folder, its note as text, and the parsed note.
type Moved = (PathBuf, String, ClosingNote);

/// Folder of a log.
struct Folder {
    path: PathBuf,
    parent: PathBuf,
    name: String,
}

impl Folder {
    fn of(given: &Path) -> Result<Self, RetireError> {
        let failed = || failed(&given.display().to_string());
        let path = std::path::absolute(given).map_err(failed())?;
        let invalid = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text);
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| failed()(invalid("it has no name")))?.to_owned();
        let parent = path.parent().ok_or_else(|| failed()(invalid("it has no parent")))?.to_owned();
        let path = parent.join(&name);
        if path.symlink_metadata().is_ok_and(|about| about.is_symlink()) {
            return Err(failed()(invalid("it is a link: name the folder itself")));
        }
        Ok(Self { path, parent, name })
    }

    /// Refuses a folder that was closed and has the name that a closed folder is moved to.
    fn require_unmoved(&self, key: &VerifyingKey) -> Result<(), RetireError> {
        let Some((note, closing)) = read_any_closing(&self.path, key) else { return Ok(()) };
        let suffix = retired_suffix(Digest::of(note.as_bytes()));
        if self.name.contains(&suffix) { Err(RetireError::Closed { next: closing.next }) } else { Ok(()) }
    }

    /// Finds the closed folder that an interrupted call moved. Refuses an origin that was retired before.
    fn find_moved(&self, key: &VerifyingKey, next: &LogKey) -> Result<Option<Moved>, RetireError> {
        self.require_unmoved(key)?;
        let is_used =
            |(_, _, closing): &Moved| closing.logs.iter().any(|log| log.origin == next.origin().as_str());
        let goes_on = |moved: &Moved| moved.2.next == next.to_string() && Self::is_of_its_log(moved, key);
        let retired = self.retired(key)?;
        if retired.iter().any(is_used) {
            return Err(RetireError::Origin { origin: next.origin().clone() });
        }
        // why: a closed folder next to one that was not moved yet is a copy of it.
        let Some(moved) = retired.into_iter().find(goes_on).filter(|_| !has_note(&self.path)) else {
            return Ok(None);
        };
        let here = if self.path.symlink_metadata().is_ok() { signed_key(&self.path, key) } else { Ok(None) };
        match here.map_err(AuditError::from)? {
            Some(here) if here != *next => Err(RetireError::Origin { origin: next.origin().clone() }),
            _ => Ok(Some(moved)),
        }
    }

    /// Returns whether the note of a closed folder is signed under the origin that the folder's first log begins with.
    fn is_of_its_log((path, _, closing): &Moved, key: &VerifyingKey) -> bool {
        let first = Self::of(path).and_then(|folder| folder.first_key(key));
        first.is_ok_and(|first| first.origin().as_str() == closing.origin)
    }

    /// Lists the folders next to this one that were moved there under a note of the key, and copies of them.
    fn retired(&self, key: &VerifyingKey) -> Result<Vec<Moved>, RetireError> {
        let prefix = format!("{}.retired-", self.name);
        let io = || failed(&self.parent.display().to_string());
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.parent).map_err(io())? {
            let entry = entry.map_err(io())?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
                let closing = read_any_closing(&entry.path(), key);
                found.extend(closing.map(|(note, closing)| (entry.path(), note, closing)));
            }
        }
        // The moved folder has a shorter name than its copies.
        found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        Ok(found)
    }

    /// Writes the note and moves the folder. Its logs stay locked.
    fn close(
        &self,
        key: &SigningKey,
        next: &LogOptions,
        which: RetireWhich,
        now: Timestamp,
    ) -> Result<(Moved, Locks), RetireError> {
        // A folder that another key signed is left unchanged, without a lock file in it.
        self.first_key(&key.verifying_key())?;
        let mut locks = Locks::new();
        self.lock(&mut locks)?;
        let first = self.first_key(&key.verifying_key())?;
        let logs = self.logs()?;
        let next_key = next.log_key();
        let (note, closing) = match read_closing(&self.path, &first)? {
            Some((_, closing)) if closing.next != next_key.to_string() => {
                return Err(RetireError::Closed { next: closing.next });
            }
            // The files may have changed since an interrupted call signed the note.
            Some((note, _)) => (note, verify_closing(&self.path, &first)?),
            None => {
                let keeper = StateKeeper::new(next, Some(&self.path))?;
                let closed = self.survey(&first, &next_key, &logs, keeper.as_ref(), which)?;
                self.write_note(&first, key, &next_key, closed, now)?
            }
        };
        let undo = |error| {
            // The log continues as before.
            let _ = remove(&self.path.join(CLOSING)).and_then(|()| remove(&self.path.join(SUMS)));
            error
        };
        // why: a process may have begun a numbered log, or locked its folder, before it could see the note.
        self.lock(&mut locks).map_err(undo)?;
        if self.logs().map_err(undo)? != logs {
            return Err(undo(AuditError::Locked.into()));
        }
        let moved = self.free_name(Digest::of(note.as_bytes()));
        let name = moved.display().to_string();
        step().map_err(failed(&name))?;
        fs::rename(&self.path, &moved)
            .map_err(|source| undo(RetireError::File { name: name.clone(), source }))?;
        sync_folder(&self.parent).and_then(|()| step()).map_err(failed(&name))?;
        Ok(((moved, note, closing), locks))
    }

    /// Returns the path to move the folder to: its name with the beginning of the note's digest, and a number if a copy
    /// has that name.
    fn free_name(&self, note: Digest) -> PathBuf {
        let name = format!("{}{}", self.name, retired_suffix(note));
        let others = (2_u64..).map(|copy| format!("{name}-{copy}"));
        let all = std::iter::once(name.clone()).chain(others).map(|name| self.parent.join(name));
        let mut free = all.filter(|path| path.symlink_metadata().is_err());
        free.next().unwrap_or_else(|| self.parent.join(&name))
    }

    fn logs(&self) -> Result<Vec<LogNumber>, RetireError> {
        Ok(list_logs(&self.path).map_err(AuditError::from)?)
    }

    /// Returns the key of the folder's first log, by the checkpoint that it begins with, or by that of another log in
    /// the folder.
    fn first_key(&self, key: &VerifyingKey) -> Result<LogKey, RetireError> {
        for number in self.logs()? {
            let found = signed_key(number.folder_in(&self.path), key).map_err(AuditError::from)?;
            let Some(found) = found else { continue };
            let origin = found.origin().as_str();
            if number == LogNumber::FIRST {
                let is_numbered = self.name.parse::<LogNumber>().is_ok();
                return if is_numbered && origin.ends_with(&format!("/{}", self.name)) {
                    Err(RetireError::Numbered)
                } else {
                    Ok(found)
                };
            }
            let first = origin.strip_suffix(&format!("/{number}")).and_then(|first| KeyName::new(first).ok());
            if let Some(first) = first {
                return Ok(LogKey::new(first, *key));
            }
        }
        Err(RetireError::Key)
    }

    /// Locks every log of the folder against writers, and every numbered folder in which a log can be begun.
    fn lock(&self, locks: &mut Locks) -> Result<(), RetireError> {
        let names = FolderDisk::existing(&self.path).and_then(|disk| disk.list());
        let names = names.map_err(AuditError::Unavailable)?;
        let numbered = names.iter().filter_map(|name| name.parse::<LogNumber>().ok());
        for number in std::iter::once(LogNumber::FIRST).chain(numbered) {
            let path = number.folder_in(&self.path);
            if locks.contains_key(&number) || !path.symlink_metadata().is_ok_and(|about| about.is_dir()) {
                continue;
            }
            let lock = FolderDisk::existing(path).and_then(|disk| disk.lock(LOCK));
            let mut lock = lock.map_err(AuditError::Unavailable)?.ok_or(AuditError::Locked)?;
            // Another call may have moved the folder between opening and locking.
            if lock.size_in_place().map_err(AuditError::Unavailable)?.is_none() {
                return Err(AuditError::Replaced.into());
            }
            locks.insert(number, lock);
        }
        Ok(())
    }

    /// Verifies each log that is in the folder or in the state.
    fn survey(
        &self,
        first: &LogKey,
        next: &LogKey,
        logs: &[LogNumber],
        keeper: Option<&StateKeeper>,
        which: RetireWhich,
    ) -> Result<Vec<ClosedLog>, RetireError> {
        let states = &keeper.map_or(Ok(LogStates::default()), StateKeeper::states)?;
        require_new(first, next.origin(), states)?;
        let mut due: BTreeSet<_> = logs.iter().copied().collect();
        for origin in states.origins() {
            let number = LogNumber::of_note(origin, first.origin());
            if number.origin(first.origin()).is_ok_and(|known| known.as_str() == origin) {
                due.insert(number);
            }
        }
        let mut closed = Vec::new();
        for number in due {
            let key = number.key(first).map_err(|_| LogError::Missing).map_err(AuditError::from)?;
            let known = states.log(&key).map_err(|source| {
                let state = keeper.map(StateKeeper::name).unwrap_or_default();
                RetireError::State {
                    origin: key.origin().clone(),
                    source: AuditError::State { state, source },
                }
            })?;
            let disk = FolderDisk::existing(number.folder_in(&self.path));
            let (log, result) = judge(disk.ok().as_ref(), number, &key, known.as_ref(), states)?;
            if let (RetireWhich::Sound, Err(error)) = (which, result) {
                return Err(AuditError::from(error).into());
            }
            closed.push(log);
        }
        Ok(closed)
    }

    fn write_note(
        &self,
        first: &LogKey,
        key: &SigningKey,
        next: &LogKey,
        logs: Vec<ClosedLog>,
        now: Timestamp,
    ) -> Result<(String, ClosingNote), RetireError> {
        let name = self.path.display().to_string();
        let sums = FolderSums::of(&self.path).map_err(failed(&name))?;
        for sum in &sums.files {
            // A process that was killed may not have synced all data that a read returns.
            let synced = File::open(self.path.join(&sum.name)).and_then(|file| file.sync_all());
            synced.map_err(failed(&sum.name))?;
        }
        let closing = ClosingNote::new(first.origin().as_str(), next, logs, &sums, now);
        let note = closing.sign(first, key)?;
        let write = || {
            remove(&self.path.join(SUMS))?;
            step()?;
            write_bytes(&self.path, SUMS, sums.to_text().as_bytes())?;
            step()?;
            write_bytes(&self.path, CLOSING, note.as_bytes())?;
            step()
        };
        write().map_err(failed(&name))?;
        Ok((note, closing))
    }
}

/// Returns the suffix of the name that a closed folder is moved to.
fn retired_suffix(note: Digest) -> String {
    let digest = note.to_string();
    format!(".retired-{}", digest.get(..12).unwrap_or(&digest))
}

/// Returns how far a log verifies, and the reason why no further.
fn judge(
    disk: Option<&FolderDisk>,
    number: LogNumber,
    key: &LogKey,
    known: Option<&KnownLog>,
    states: &LogStates,
) -> Result<(ClosedLog, Result<(), LogError>), RetireError> {
    let Some(disk) = disk else {
        let gone = LogError::Gone { known: known.map_or(0, |known| known.checkpoint.size()) };
        return Ok((closed(number, key, states, None, None, Some(&gone)), Err(gone)));
    };
    let segments = list_segments(disk).map_err(AuditError::Unavailable)?;
    let (checkpoint, mut result) = survey(disk, key);
    if let Some(known) = known {
        let checkpoints = std::slice::from_ref(&known.checkpoint);
        let goes_on = require_segments(known, segments.first().copied())
            .and_then(|()| verify_disk(disk, key, checkpoints).map(drop));
        result = result.and(goes_on);
    }
    let latest = last_signed(disk, key).map_err(AuditError::from)?;
    Ok((closed(number, key, states, checkpoint, latest, result.as_ref().err()), result))
}

fn closed(
    number: LogNumber,
    key: &LogKey,
    states: &LogStates,
    checkpoint: Option<String>,
    latest: Option<String>,
    damage: Option<&LogError>,
) -> ClosedLog {
    ClosedLog {
        checkpoint,
        code: damage.map(|damage| damage.code().to_owned()),
        latest,
        log: number.to_string(),
        origin: key.origin().as_str().to_owned(),
        state: states.note_of(key),
    }
}

/// Refuses an origin that belongs or belonged to a log, and one that a numbered log next to it would have.
fn require_new(first: &LogKey, next: &KeyName, states: &LogStates) -> Result<(), RetireError> {
    let derived = |name: &str, of: &str| LogNumber::of_origin(name, of).is_some();
    let is_used =
        |used: &str| used == next.as_str() || derived(used, next.as_str()) || derived(next.as_str(), used);
    if is_used(first.origin().as_str()) || states.origins().any(is_used) {
        return Err(RetireError::Origin { origin: next.clone() });
    }
    Ok(())
}

/// Returns the closing note of a folder, if this key signed it, under any origin.
fn read_any_closing(folder: &Path, key: &VerifyingKey) -> Option<(String, ClosingNote)> {
    #[derive(serde::Deserialize)]
    struct OfOrigin {
        origin: String,
    }
    let note = String::from_utf8(read_small(&folder.join(CLOSING), 1 << 20).ok()?).ok()?;
    let text = SignedNote::parse(&note).ok()?.unverified_text();
    let OfOrigin { origin } = serde_json::from_str(text).ok()?;
    let key = LogKey::new(KeyName::new(&origin).ok()?, *key);
    let closing = ClosingNote::verify(&note, &key).ok()?;
    Some((note, closing))
}

/// Returns the number of the entry that names the note.
fn began(folder: &Path, closing: Digest) -> Result<Option<u64>, AuditError> {
    for entry in read_log(folder)? {
        let entry = entry?;
        if matches!(entry.record(), Record::Began(began) if began.closing == closing) {
            return Ok(Some(entry.seq()));
        }
    }
    Ok(None)
}

fn failed(name: &str) -> impl FnOnce(io::Error) -> RetireError + use<> {
    let name = name.to_owned();
    |source| RetireError::File { name, source }
}
