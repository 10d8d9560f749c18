use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use countersign_keys::VerifyingKey;
use countersign_tlog::note::{KeyName, VerifierKeyError};

use crate::segment::{list_segments, read_head, read_notes};
use crate::{AuditError, Checkpoint, Disk, FolderDisk, LogError, LogKey};

/// Most numbered logs in a folder besides its first.
const MAX_LOGS: u16 = 1_024;

/// Position of a log among the logs of one folder. The first lies in the folder itself, each other in a subfolder named
/// after its number.
///
/// One key signs all of them. Two trees under one origin would be a fork, so each numbered log has its own origin: the
/// first log's, followed by the number, as in `example.com/log/2`.
///
/// ```
/// use countersign_audit_log::LogNumber;
/// use countersign_tlog::note::KeyName;
/// let second: LogNumber = "2".parse()?;
/// assert_eq!(second.origin(&KeyName::new("example.com/log")?)?.as_str(), "example.com/log/2");
/// assert_eq!(second.folder_in("log".as_ref()), std::path::Path::new("log/2"));
/// # Ok::<(), countersign_tlog::note::VerifierKeyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogNumber(u16);

impl LogNumber {
    /// The log in the folder itself.
    pub const FIRST: Self = Self(0);

    /// Iterates over this number and all later ones.
    pub(crate) fn and_later(self) -> impl Iterator<Item = Self> {
        (self.0..=MAX_LOGS).map(Self)
    }

    /// First of the numbered logs.
    pub(crate) const fn second() -> Self {
        Self(1)
    }

    /// Returns the folder of the log.
    #[must_use]
    pub fn folder_in(self, folder: &Path) -> PathBuf {
        if self == Self::FIRST { folder.to_owned() } else { folder.join(self.to_string()) }
    }

    /// Returns the log's origin, derived from the first log's.
    ///
    /// # Errors
    /// [`VerifierKeyError::Name`] if it would be too long for a name.
    pub fn origin(self, first: &KeyName) -> Result<KeyName, VerifierKeyError> {
        if self == Self::FIRST { Ok(first.clone()) } else { KeyName::new(&format!("{first}/{self}")) }
    }

    /// Returns the log's public key, derived from the first log's.
    ///
    /// # Errors
    /// As [`origin`](Self::origin).
    pub fn key(self, first: &LogKey) -> Result<LogKey, VerifierKeyError> {
        Ok(LogKey::new(self.origin(first.origin())?, *first.verifying_key()))
    }

    /// Returns the log of a folder that a checkpoint's note claims to belong to. `first` is the first log's origin.
    /// Nothing is verified; a note of another origin counts as the first log's.
    #[must_use]
    pub fn of_note(note: &str, first: &KeyName) -> Self {
        let origin = note.lines().next().unwrap_or_default();
        Self::of_origin(origin, first.as_str()).unwrap_or(Self::FIRST)
    }

    /// Returns the number of the numbered log that has this origin beside the first log; `None` if the origin is not
    /// derived from the first log's.
    pub(crate) fn of_origin(origin: &str, first: &str) -> Option<Self> {
        origin.strip_prefix(first)?.strip_prefix('/')?.parse().ok()
    }
}

/// Parses the number of a numbered log; accepts only its canonical spelling.
impl FromStr for LogNumber {
    type Err = VerifierKeyError;

    fn from_str(text: &str) -> Result<Self, VerifierKeyError> {
        let number = text.parse().map_err(|_| VerifierKeyError::Name)?;
        let fits = (1..=MAX_LOGS).contains(&number) && number.to_string() == text;
        if fits { Ok(Self(number)) } else { Err(VerifierKeyError::Name) }
    }
}

/// Path within the folder; `.` for the first log.
impl fmt::Display for LogNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::FIRST { f.pad(".") } else { f.pad(&self.0.to_string()) }
    }
}

/// Reason why a log of a folder could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("the log `{log}` of the folder cannot be opened")]
#[non_exhaustive]
pub struct OpenLogError {
    /// The log.
    pub log: LogNumber,
    /// The reason.
    pub source: AuditError,
}

/// Lists the logs of a folder, in the order of their numbers. Skips a subfolder without a segment, and one that its
/// writer removes meanwhile.
///
/// # Errors
/// [`LogError::Io`] if the folder cannot be read, or if a link has a numbered log's name: its target is not a log of
/// this folder.
pub fn list_logs(folder: impl AsRef<Path>) -> Result<Vec<LogNumber>, LogError> {
    let folder = folder.as_ref();
    let disk = FolderDisk::existing(folder)?;
    let mut found = Vec::new();
    if !list_segments(&disk)?.is_empty() {
        found.push(LogNumber::FIRST);
    }
    for number in disk.list()?.iter().filter_map(|name| name.parse::<LogNumber>().ok()) {
        match holds_log(&number.folder_in(folder)) {
            Ok(true) => found.push(number),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns whether a numbered log's path is a folder with a segment.
fn holds_log(path: &Path) -> io::Result<bool> {
    let about = path.symlink_metadata()?;
    if about.is_symlink() {
        let name = path.file_name().unwrap_or_default().display();
        return Err(io::Error::other(format!("`{name}` is a link, not a log's folder")));
    }
    Ok(about.is_dir() && !list_segments(&FolderDisk::existing(path)?)?.is_empty())
}

/// Returns the key to verify the log in a folder with. `given` is the log's own key, or that of the first log in its
/// parent folder; the origin in the numbered log selects one of the two. Nothing is verified.
#[must_use]
pub fn key_of_log(folder: impl AsRef<Path>, given: &LogKey) -> LogKey {
    let derived = derived_key(folder.as_ref(), given);
    derived.unwrap_or_else(|| given.clone())
}

/// Returns the key of the log in a folder, whole or damaged: the given key under the origin that the log begins with.
///
/// If the log's first line is damaged, the origin is that of all checkpoints in it that the key signed. Returns `None`
/// if the key signed none, or signed some under another origin: a line that someone added does not identify the log.
///
/// # Errors
/// [`LogError::Io`].
pub fn signed_key(folder: impl AsRef<Path>, key: &VerifyingKey) -> Result<Option<LogKey>, LogError> {
    let disk = FolderDisk::existing(folder)?;
    let segments = list_segments(&disk)?;
    let Some(first) = segments.first() else { return Ok(None) };
    match read_head(&disk, *first) {
        Err(LogError::Io(error)) => return Err(error.into()),
        Ok(head) => {
            if let Some(found) = signed_by(&head.checkpoint, key) {
                return Ok(Some(LogKey::new(found.origin().clone(), *key)));
            }
        }
        Err(_) => {}
    }
    let mut origin: Option<KeyName> = None;
    for segment in segments {
        for found in read_notes(&disk, segment)?.iter().filter_map(|note| signed_by(note, key)) {
            if origin.get_or_insert_with(|| found.origin().clone()) != found.origin() {
                return Ok(None);
            }
        }
    }
    Ok(origin.map(|origin| LogKey::new(origin, *key)))
}

/// Returns the checkpoint of a note, if the key signed it under the note's own origin.
fn signed_by(note: &str, key: &VerifyingKey) -> Option<Checkpoint> {
    let origin = KeyName::new(note.lines().next()?).ok()?;
    Checkpoint::verify(note, &LogKey::new(origin, *key)).ok()
}

/// Returns the note of the last checkpoint in the segments that verifies with the log's key.
pub(crate) fn last_signed(disk: &dyn Disk, key: &LogKey) -> Result<Option<String>, LogError> {
    for segment in list_segments(disk)?.into_iter().rev() {
        let notes = read_notes(disk, segment)?;
        let last = notes.into_iter().rev().find(|note| Checkpoint::verify(note, key).is_ok());
        if last.is_some() {
            return Ok(last);
        }
    }
    Ok(None)
}

fn derived_key(folder: &Path, given: &LogKey) -> Option<LogKey> {
    let number: LogNumber = folder.canonicalize().ok()?.file_name()?.to_str()?.parse().ok()?;
    let key = number.key(given).ok()?;
    let disk = FolderDisk::existing(folder).ok()?;
    let first = *list_segments(&disk).ok()?.first()?;
    let head = read_head(&disk, first).ok()?;
    (head.checkpoint.lines().next() == Some(key.origin().as_str())).then_some(key)
}
