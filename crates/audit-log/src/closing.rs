use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use countersign_canonical_json::{Limits, Recipe, read, to_canonical};
use countersign_core::{Digest, Timestamp};
use countersign_keys::SigningKey;
use countersign_keys::note::{NoteError, SignedNote, sign};
use serde::Deserialize as _;

use crate::log_files::{FileSum, read_small};
use crate::{LogKey, LogNumber};

/// Name of the note's format.
const FORMAT: &str = "countersign-closing-1";

/// Name of the note's file in the folder that it closes.
pub(crate) const CLOSING: &str = "closing";

/// Whether a log's folder has a closing note, or is that of a numbered log beside one: the logs of a folder are closed together.
pub(crate) fn is_closed(folder: &Path) -> bool {
    let has_note = |folder: &Path| folder.join(CLOSING).symlink_metadata().is_ok();
    has_note(folder) || parent_of_numbered(folder).is_some_and(|parent| has_note(&parent))
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
        sums: &[FileSum],
        time: Timestamp,
    ) -> Self {
        Self {
            bytes: sums.iter().map(|sum| sum.bytes).fold(0, u64::saturating_add),
            files: sums.len() as u64,
            format: FORMAT.to_owned(),
            logs,
            next: next.to_string(),
            origin: origin.to_owned(),
            sums: Digest::of(sums_text(sums).as_bytes()),
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
    let found = sum_files(folder)?;
    let text = String::from_utf8(text).map_err(|_| ClosingError::Malformed)?;
    let (now, then) = (sums_text(&found), text);
    if now != then {
        let mut differing = now.lines().filter(|line| !then.lines().any(|other| other == *line));
        let mut gone = then.lines().filter(|line| !now.lines().any(|other| other == *line));
        let line = gone.next().or_else(|| differing.next()).unwrap_or_default();
        let name = line.split_once("  ").map_or(line, |(_, name)| name);
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

/// Sums of all files of a folder and of the numbered logs in it, by name, but for locks, side files and the note's own.
pub(crate) fn sum_files(folder: &Path) -> io::Result<Vec<FileSum>> {
    let mut sums = Vec::new();
    for name in names_in(folder)? {
        if name.parse::<LogNumber>().is_ok() && folder.join(&name).is_dir() {
            for file in names_in(&folder.join(&name))? {
                sums.extend(sum_of(folder, &format!("{name}/{file}"))?);
            }
        } else {
            sums.extend(sum_of(folder, &name)?);
        }
    }
    sums.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(sums)
}

fn sum_of(folder: &Path, name: &str) -> io::Result<Option<FileSum>> {
    // why: side files can be made anew, also by readers.
    let is_own = [CLOSING, SUMS].contains(&name) || name.ends_with(".part") || name.ends_with(".side");
    let is_lock = name == "lock" || name.ends_with("/lock");
    if is_own || is_lock || !folder.join(name).symlink_metadata()?.is_file() {
        return Ok(None);
    }
    FileSum::of(folder, name).map(Some)
}

/// Names in a folder. One with a newline cannot stand in a list.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string()));
    let names = names.filter_map(|name: io::Result<_>| name.map(Result::ok).transpose());
    names.filter(|name| name.as_ref().is_ok_and(|name| !name.contains(['\n', '\r', '\\']))).collect()
}

/// The sums as `sha256sum` writes them.
pub(crate) fn sums_text(sums: &[FileSum]) -> String {
    sums.iter().map(|sum| format!("{}  {}\n", sum.sha256, sum.name)).collect()
}
