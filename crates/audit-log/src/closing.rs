use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use countersign_canonical_json::{Limits, Recipe, read, to_canonical};
use countersign_core::{Digest, Timestamp, escape_hidden};
use countersign_keys::SigningKey;
use countersign_keys::note::{NoteError, SignedNote, sign};
use serde::Deserialize as _;

use crate::log_files::{FileSum, read_small};
use crate::{AuditError, LogKey, LogNumber};

/// Name of the note's format.
const FORMAT: &str = "countersign-closing-1";

/// Name of the note's file in the folder that it closes.
pub(crate) const CLOSING: &str = "closing";

/// Refuses a log's folder that has a closing note, or is that of a numbered log beside one: the logs of a folder are closed together.
pub(crate) fn require_not_closed(folder: &Path) -> Result<(), AuditError> {
    let is_closed = has_note(folder) || parent_of_numbered(folder).is_some_and(|parent| has_note(&parent));
    if is_closed { Err(AuditError::Closed) } else { Ok(()) }
}

/// Whether a folder has a closing note of its own.
pub(crate) fn has_note(folder: &Path) -> bool {
    folder.join(CLOSING).symlink_metadata().is_ok()
}

/// The folder that a numbered log lies in, by the name of the log's own folder.
pub(crate) fn parent_of_numbered(folder: &Path) -> Option<PathBuf> {
    // A path such as `.` names its folder only once it is resolved. A folder that is not there yet has its name.
    let folder = folder.canonicalize().or_else(|_| std::path::absolute(folder)).ok()?;
    folder.file_name()?.to_str()?.parse::<LogNumber>().ok()?;
    folder.parent().map(Path::to_path_buf)
}

/// Name of the file with the sums of all others, as `sha256sum` writes and checks them.
pub(crate) const SUMS: &str = "closing.sha256";

/// The largest note that is read.
const MAX_NOTE: u64 = 1 << 20;

/// The largest file of sums that is read.
const MAX_SUMS: u64 = 64 << 20;

/// Statement of a log's key that its folder ends here: what of it verifies, the files as they are, and the log that goes on.
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
    /// Key of the log that goes on, with its origin.
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
    /// Note of the last checkpoint in the files that the log's key signed; it may come behind the damage.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub latest: Option<String>,
    /// The log's place in the folder: a dot for the first, or its number.
    pub log: String,
    /// The log's origin.
    pub origin: String,
    /// Note of the checkpoint in the log's state.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub state: Option<String>,
}

/// Why a folder's closing note does not hold.
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
    /// A file is missing, was added or changed since the folder was closed.
    #[error("`{name}` is not as it was when the log was closed")]
    Changed {
        /// The file.
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

impl ClosingNote {
    /// A note of these sums, to be signed by the key of the folder's first log.
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

    /// Signs it. The text is one line of canonical JSON, so it cannot be taken for a checkpoint.
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
        let limits = Limits::default().with_max_bytes(1 << 20).map_err(|_| ClosingError::Malformed)?;
        let json = read(text.as_bytes(), Recipe::Jcs1, &limits).map_err(|_| ClosingError::Malformed)?;
        let closing = Self::deserialize(json.value()).map_err(|_| ClosingError::Malformed)?;
        let is_canonical = to_canonical(&closing).is_ok_and(|canonical| canonical.bytes() == text.as_bytes());
        let is_fit = closing.format == FORMAT && closing.origin == key.origin().as_str();
        if is_canonical && is_fit { Ok(closing) } else { Err(ClosingError::Malformed) }
    }

    /// The folder's own log.
    #[must_use]
    pub fn first(&self) -> Option<&ClosedLog> {
        self.logs.iter().find(|log| log.log == LogNumber::FIRST.to_string())
    }
}

/// Verifies the closing note of a folder, by the key of its first log, and every file of the folder by its sum.
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

/// The closing note of a folder, verified, and its bytes; `None` where it has none.
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
    /// One for each regular file, by name, but for locks, side files and the note's own.
    pub(crate) files: Vec<FileSum>,
    /// Names of links, folders and all else that has no sum, escaped.
    unsummed: Vec<String>,
}

impl FolderSums {
    /// Reads all files of a folder and of the numbered logs in it.
    pub(crate) fn of(folder: &Path) -> io::Result<Self> {
        let (mut files, mut unsummed) = (Vec::new(), Vec::new());
        for (name, kind) in names_in(folder)? {
            match kind {
                Kind::Log | Kind::LeftOut => {}
                Kind::Summed => files.push(FileSum::of(folder, &name)?),
                Kind::Unsummed => unsummed.push(name),
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        unsummed.sort();
        Ok(Self { files, unsummed })
    }

    /// The lines of `closing.sha256`: sums as `sha256sum` writes them, and all other names in comments, which it skips.
    pub(crate) fn to_text(&self) -> String {
        let sums = self.files.iter().map(|sum| format!("{}  {}\n", sum.sha256, sum.name));
        let unsummed = self.unsummed.iter().map(|name| format!("{UNSUMMED}{name}\n"));
        sums.chain(unsummed).collect()
    }
}

/// Beginning of a line of `closing.sha256` that names a file without a sum.
const UNSUMMED: &str = "# no sum: ";

/// Names in a folder, and in those of the numbered logs in it, that have no sum in its `closing.sha256`, escaped: links, folders
/// and names that cannot stand there. Locks, side files and the note's own are left out. They were there when the folder was closed
/// if [`verify_closing`] succeeds; their content was not recorded.
///
/// # Errors
/// As the system reports them.
pub fn unsummed_names(folder: impl AsRef<Path>) -> io::Result<Vec<String>> {
    let names = names_in(folder.as_ref())?.into_iter();
    let mut unsummed: Vec<_> =
        names.filter(|(_, kind)| *kind == Kind::Unsummed).map(|(name, _)| name).collect();
    unsummed.sort();
    Ok(unsummed)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Folder of a numbered log.
    Log,
    Summed,
    LeftOut,
    Unsummed,
}

/// All names in a folder and in those of its numbered logs, as paths within it; escaped where they have no sum.
fn names_in(folder: &Path) -> io::Result<Vec<(String, Kind)>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (name, kind) = name_and_kind(&entry, true)?;
        if kind == Kind::Log {
            for file in fs::read_dir(entry.path())? {
                let (file, kind) = name_and_kind(&file?, false)?;
                let kind = if kind == Kind::Log { Kind::Unsummed } else { kind };
                names.push((format!("{name}/{file}"), kind));
            }
        }
        names.push((name, kind));
    }
    Ok(names)
}

fn name_and_kind(entry: &DirEntry, is_top: bool) -> io::Result<(String, Kind)> {
    let (name, about) = (entry.file_name(), entry.file_type()?);
    // A name with a line end cannot stand in a list, and `sha256sum` escapes a backslash.
    let Some(name) = name.to_str().filter(|name| !name.contains(['\n', '\r', '\\'])) else {
        return Ok((escape_hidden(&name.to_string_lossy()), Kind::Unsummed));
    };
    // why: side files can be made anew, also by readers.
    let is_own = is_top && [CLOSING, SUMS].contains(&name);
    let is_left_out = is_own || name == "lock" || name.ends_with(".part") || name.ends_with(".side");
    let kind = match (about.is_file(), about.is_dir()) {
        (true, _) if is_left_out => Kind::LeftOut,
        (true, _) => Kind::Summed,
        (_, true) if name.parse::<LogNumber>().is_ok() => Kind::Log,
        _ => return Ok((escape_hidden(name), Kind::Unsummed)),
    };
    Ok((name.to_owned(), kind))
}
