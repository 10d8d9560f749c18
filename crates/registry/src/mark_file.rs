use std::path::{Path, PathBuf};

use countersign_canonical_json::{Limits, Recipe, read, to_canonical};
use countersign_core::{Digest, KeyId};
use countersign_keys::state_file::{LockWait, LockedState, StateFile, StateFileError};
use serde::Deserialize as _;

use crate::fields::MAX_VERSION;
use crate::mark::{HighWaterStore, Mark, MarkError};

/// Name of the file format.
const FORMAT: &str = "countersign-mark-1";

/// Largest file, in bytes: room for every revoked key of a mark.
const MAX_BYTES: usize = 32 << 20;

/// Mark in a file that several processes share.
///
/// Every raise takes an exclusive lock on a file beside it (`.lock`), writes a new file (`.new`), syncs it, renames
/// it over the old one and syncs the folder. A missing file means the first load. An unreadable or corrupt file is
/// refused, and so is a file that users other than root and the process's own could have written. Mark and lock have
/// mode 0600; wider modes of older files are narrowed on opening.
#[derive(Debug)]
pub struct FileHighWater {
    file: StateFile,
}

impl FileHighWater {
    /// Names the file without opening it.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { file: StateFile::new(path) }
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    fn raise(&self, wait: LockWait, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        let locked = self.file.lock(wait).map_err(mark_error)?;
        let stored = locked.read(MAX_BYTES as u64).map_err(mark_error)?;
        let stored = stored.map(|bytes| parse(&bytes)).transpose()?;
        let raised = mark.swapped_in(seen, stored.as_ref())?;
        if stored.as_ref() == Some(&raised) { Ok(()) } else { write(&locked, &raised) }
    }
}

impl HighWaterStore for FileHighWater {
    fn current(&self) -> Result<Option<Mark>, MarkError> {
        let stored = self.file.read(MAX_BYTES as u64).map_err(mark_error)?;
        stored.map(|bytes| parse(&bytes)).transpose()
    }

    fn compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        self.raise(LockWait::Start, seen, mark)
    }

    fn try_compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        self.raise(LockWait::Call, seen, mark)
    }
}

fn mark_error(error: StateFileError) -> MarkError {
    match error {
        StateFileError::Untrusted(error) => error.into(),
        StateFileError::TooLarge { .. } => MarkError::Corrupt,
        StateFileError::Lock(_) => MarkError::Unavailable("locked"),
        StateFileError::Write(_) => MarkError::Unavailable("written"),
        StateFileError::Read(_) | _ => MarkError::Unavailable("read"),
    }
}

fn write(locked: &LockedState<'_>, mark: &Mark) -> Result<(), MarkError> {
    let wire = WireMark {
        format: FORMAT.to_owned(),
        version: mark.version(),
        digest: mark.digest(),
        revoked_keys: mark.revoked_keys().iter().cloned().collect(),
    };
    let text = to_canonical(&wire).map_err(|_| MarkError::Unavailable("written"))?;
    locked.replace(text.bytes()).map_err(mark_error)
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WireMark {
    format: String,
    version: u64,
    digest: Digest,
    revoked_keys: Vec<KeyId>,
}

fn parse(bytes: &[u8]) -> Result<Mark, MarkError> {
    let limits = Limits::default().bytes(MAX_BYTES).map_err(|_| MarkError::Corrupt)?;
    let limits = limits.width(MAX_BYTES).map_err(|_| MarkError::Corrupt)?;
    let canonical = read(bytes, Recipe::Jcs1, &limits).map_err(|_| MarkError::Corrupt)?;
    let wire = WireMark::deserialize(canonical.value()).map_err(|_| MarkError::Corrupt)?;
    if wire.format != FORMAT || wire.version == 0 || wire.version > MAX_VERSION {
        return Err(MarkError::Corrupt);
    }
    Ok(Mark::new(wire.version, wire.digest, wire.revoked_keys.into_iter().collect()))
}
