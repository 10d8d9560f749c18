use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use countersign_canonical_json::{Limits, Recipe, read, to_canonical};
use countersign_core::{Digest, Timestamp, escape_hidden};
use countersign_keys::SigningKey;
use countersign_tlog::note::{NoteError, SignedNote, sign};
use serde::Deserialize as _;

use crate::log_files::{FileSum, read_small};
use crate::{AuditError, LogKey, LogNumber};

/// Format name in the note.
const FORMAT: &str = "countersign-closing-1";

/// File name of the note in the folder that it closes.
pub(crate) const CLOSING: &str = "closing";

/// Refuses a log's folder that has a closing note, or a numbered log's folder whose parent has one: the logs of a
/// folder are closed together.
pub(crate) fn require_not_closed(folder: &Path) -> Result<(), AuditError> {
    let is_closed = has_note(folder) || parent_of_numbered(folder).is_some_and(|parent| has_note(&parent));
    if is_closed { Err(AuditError::Closed) } else { Ok(()) }
}

/// Returns whether a folder has its own closing note.
pub(crate) fn has_note(folder: &Path) -> bool {
    folder.join(CLOSING).symlink_metadata().is_ok()
}

/// Returns the folder that contains a numbered log, judged by the name of the log's own folder.
pub(crate) fn parent_of_numbered(folder: &Path) -> Option<PathBuf> {
    // A path such as `.` shows the folder's name only once it is resolved. A missing folder keeps the name in its path.
    let folder = folder.canonicalize().or_else(|_| std::path::absolute(folder)).ok()?;
    folder.file_name()?.to_str()?.parse::<LogNumber>().ok()?;
    folder.parent().map(Path::to_path_buf)
}

/// Name of the file with the sums of all others, in the format of `sha256sum`.
pub(crate) const SUMS: &str = "closing.sha256";

/// Largest note that is read, in bytes.
const MAX_NOTE: u64 = 1 << 20;

/// Largest file of sums that is read, in bytes.
const MAX_SUMS: u64 = 64 << 20;

/// Statement, signed by a log's key, that its folder is closed: which part verifies, the sums of its files, and the log
/// that continues it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ClosingNote {
    /// Total size of the files in bytes.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    format: String,
    /// Each log of the folder.
    pub logs: Vec<ClosedLog>,
    /// Origin and key of the log that continues it.
    pub next: String,
    /// Origin of the folder's first log, which is the name of the signing key.
    pub origin: String,
    /// SHA-256 of the file `closing.sha256`, which has the sum of each file.
    pub sums: Digest,
    /// Time at which the folder was closed.
    pub time: Timestamp,
}

/// A log of a folder that was closed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ClosedLog {
    /// Note of the last checkpoint up to which the log verifies.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub checkpoint: Option<String>,
    /// Code of the damage, if the log does not verify.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<String>,
    /// Note of the last checkpoint in the files that the log's key signed. It may come after the damage.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub latest: Option<String>,
    /// The log's place in the folder: `.` for the first, or its number.
    pub log: String,
    /// The log's origin.
    pub origin: String,
    /// Note of the checkpoint in the log's state.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<String>,
}

/// Reason why a folder's closing note does not verify.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClosingError {
    /// The folder has no closing note.
    #[error("the folder has no closing note")]
    Missing,
    /// The note is not signed by the key.
    #[error("the closing note is not signed by the log's key")]
    Note(#[from] NoteError),
    /// The note has another format.
    #[error("the closing note is malformed")]
    Malformed,
    /// A file was removed, added or changed after the folder was closed.
    #[error("`{name}` has changed since the log was closed")]
    Changed {
        /// Name of the file.
        name: String,
    },
    /// The folder cannot be read.
    #[error("the folder cannot be read")]
    Io(#[from] io::Error),
}

impl ClosingError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing | Self::Io(_) => "AUDIT_UNAVAILABLE",
            Self::Note(_) => "AUDIT_SIGNATURE",
            Self::Malformed | Self::Changed { .. } => "AUDIT_CORRUPT",
        }
    }
}

countersign_core::coded!(ClosingError);

impl ClosingNote {
    /// Builds a note of these sums, to be signed by the key of the folder's first log.
    pub(crate) fn new(
        origin: &str,
        next: &LogKey,
        logs: Vec<ClosedLog>,
        sums: &FolderSums,
        time: Timestamp,
    ) -> Self {
        Self {
            bytes: sums.files.iter().map(|sum| sum.bytes).fold(0, u64::saturating_add),
            files: sums.files.len() as u64,
            format: FORMAT.to_owned(),
            logs,
            next: next.to_string(),
            origin: origin.to_owned(),
            sums: Digest::of(sums.to_text().as_bytes()),
            time,
        }
    }

    /// Signs the note. The text is one line of canonical JSON, so it cannot be mistaken for a checkpoint.
    pub(crate) fn sign(&self, log: &LogKey, key: &SigningKey) -> Result<String, ClosingError> {
        let text = to_canonical(self).map_err(|_| ClosingError::Malformed)?;
        let text = str::from_utf8(text.bytes()).map_err(|_| ClosingError::Malformed)?;
        Ok(sign(&format!("{text}\n"), log.origin(), key)?)
    }

    /// Reads a note and verifies that the key of the folder's first log signed it.
    ///
    /// # Errors
    /// [`ClosingError::Note`], [`ClosingError::Malformed`].
    pub fn verify(note: &str, key: &LogKey) -> Result<Self, ClosingError> {
        let opened = SignedNote::parse(note)?.open(std::slice::from_ref(key.verifier_key()))?;
        let text = opened.text().strip_suffix('\n').ok_or(ClosingError::Malformed)?;
        let limits = Limits::default().bytes(1 << 20).map_err(|_| ClosingError::Malformed)?;
        let json = read(text.as_bytes(), Recipe::Jcs1, &limits).map_err(|_| ClosingError::Malformed)?;
        let closing = Self::deserialize(json.value()).map_err(|_| ClosingError::Malformed)?;
        let is_canonical = to_canonical(&closing).is_ok_and(|canonical| canonical.bytes() == text.as_bytes());
        let is_fit = closing.format == FORMAT && closing.origin == key.origin().as_str();
        if is_canonical && is_fit { Ok(closing) } else { Err(ClosingError::Malformed) }
    }

    /// Returns the entry of the folder's own log.
    #[must_use]
    pub fn first(&self) -> Option<&ClosedLog> {
        self.logs.iter().find(|log| log.log == LogNumber::FIRST.to_string())
    }
}

/// Verifies the closing note of a folder with the key of its first log, and every file of the folder by its sum.
///
/// # Errors
/// [`ClosingError`].
pub fn verify_closing(folder: impl AsRef<Path>, key: &LogKey) -> Result<ClosingNote, ClosingError> {
    let folder = folder.as_ref();
    let (_, closing) = read_closing(folder, key)?.ok_or(ClosingError::Missing)?;
    let text = read_small(&folder.join(SUMS), MAX_SUMS)?;
    if Digest::of(&text) != closing.sums {
        return Err(ClosingError::Changed { name: SUMS.to_owned() });
    }
    let then = String::from_utf8(text).map_err(|_| ClosingError::Malformed)?;
    let now = FolderSums::of(folder)?.to_text();
    if now != then {
        let mut differing = now.lines().filter(|line| !then.lines().any(|other| other == *line));
        let mut gone = then.lines().filter(|line| !now.lines().any(|other| other == *line));
        let line = gone.next().or_else(|| differing.next()).unwrap_or_default();
        let summed = || line.split_once("  ").map_or(line, |(_, name)| name);
        let name = line.strip_prefix(UNSUMMED).unwrap_or_else(summed);
        return Err(ClosingError::Changed { name: name.to_owned() });
    }
    Ok(closing)
}

/// Reads and verifies the closing note of a folder, and returns it with its text; `None` if the folder has no note.
pub(crate) fn read_closing(
    folder: &Path,
    key: &LogKey,
) -> Result<Option<(String, ClosingNote)>, ClosingError> {
    let bytes = match read_small(&folder.join(CLOSING), MAX_NOTE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let note = String::from_utf8(bytes).map_err(|_| ClosingError::Malformed)?;
    let closing = ClosingNote::verify(&note, key)?;
    Ok(Some((note, closing)))
}

/// Sums of a folder's files.
#[derive(Debug)]
pub(crate) struct FolderSums {
    /// Sum of each regular file, sorted by name, except locks, side files and the note's own files.
    pub(crate) files: Vec<FileSum>,
    /// Escaped names of links, folders and all other entries without a sum.
    unsummed: Vec<String>,
}

impl FolderSums {
    /// Sums all files of a folder and of the numbered logs in it.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let (mut files, mut unsummed) = (Vec::new(), Vec::new());
        for (name, kind) in names_in(folder)? {
            match kind {
                ListedAs::Log | ListedAs::LeftOut => {}
                ListedAs::Summed => files.push(FileSum::of(folder, &name)?),
                ListedAs::Unsummed => unsummed.push(name),
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        unsummed.sort();
        Ok(Self { files, unsummed })
    }

    /// Returns the lines of `closing.sha256`: sums in the format of `sha256sum`, and all other names in comments, which
    /// it skips.
    pub(crate) fn to_text(&self) -> String {
        let sums = self.files.iter().map(|sum| format!("{}  {}\n", sum.sha256, sum.name));
        let unsummed = self.unsummed.iter().map(|name| format!("{UNSUMMED}{name}\n"));
        sums.chain(unsummed).collect()
    }
}

/// Prefix of a line of `closing.sha256` that names a file without a sum.
const UNSUMMED: &str = "# no sum: ";

/// Lists the escaped names in a folder, and in its numbered logs, that have no sum in `closing.sha256`: links, folders
/// and names that the format cannot represent. Leaves out locks, side files and the note's own files. If
/// [`verify_closing`] succeeds, the names existed when the folder was closed; their content was not recorded.
///
/// # Errors
/// Errors of the system.
pub fn unsummed_names(folder: impl AsRef<Path>) -> io::Result<Vec<String>> {
    let names = names_in(folder.as_ref())?.into_iter();
    let mut unsummed: Vec<_> =
        names.filter(|(_, kind)| *kind == ListedAs::Unsummed).map(|(name, _)| name).collect();
    unsummed.sort();
    Ok(unsummed)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ListedAs {
    /// Folder of a numbered log.
    Log,
    Summed,
    LeftOut,
    Unsummed,
}

/// Returns all names in a folder and in its numbered logs, as paths within it; escaped if they have no sum.
fn names_in(folder: &Path) -> io::Result<Vec<(String, ListedAs)>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (name, kind) = name_and_kind(&entry, true)?;
        if kind == ListedAs::Log {
            for file in fs::read_dir(entry.path())? {
                let (file, kind) = name_and_kind(&file?, false)?;
                let kind = if kind == ListedAs::Log { ListedAs::Unsummed } else { kind };
                names.push((format!("{name}/{file}"), kind));
            }
        }
        names.push((name, kind));
    }
    Ok(names)
}

fn name_and_kind(entry: &DirEntry, is_top: bool) -> io::Result<(String, ListedAs)> {
    let (name, about) = (entry.file_name(), entry.file_type()?);
    // A list cannot contain a name with a line end, and `sha256sum` escapes a backslash.
    let Some(name) = name.to_str().filter(|name| !name.contains(['\n', '\r', '\\'])) else {
        return Ok((escape_hidden(&name.to_string_lossy()), ListedAs::Unsummed));
    };
    // why: side files can be rebuilt, also by readers.
    let is_own = is_top && [CLOSING, SUMS].contains(&name);
    let is_left_out = is_own || name == "lock" || name.ends_with(".part") || name.ends_with(".side");
    let kind = match (about.is_file(), about.is_dir()) {
        (true, _) if is_left_out => ListedAs::LeftOut,
        (true, _) => ListedAs::Summed,
        (_, true) if name.parse::<LogNumber>().is_ok() => ListedAs::Log,
        _ => return Ok((escape_hidden(name), ListedAs::Unsummed)),
    };
    Ok((name.to_owned(), kind))
}
