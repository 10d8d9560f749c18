use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use countersign_canonical_json::{Limits, Recipe, read, to_canonical};
use countersign_core::{Digest, KeyId};
use countersign_keys::trusted::{
    PRIVATE_MODE, check_trusted, create_new, open_regular, open_regular_with, with_mode,
};
use serde::Deserialize as _;

use crate::agent_entry::MAX_VERSION;
use crate::mark::{HighWaterStore, Mark, MarkError};

/// The name of the file's format.
const FORMAT: &str = "countersign-mark-1";

/// The largest file that is read: room for every revoked key that a mark remembers.
const MAX_BYTES: usize = 32 << 20;

/// How often the lock is tried, and how far apart: five seconds in all at a start, 20 ms between two calls.
const START_TRIES: u32 = 500;
const CALL_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
const CALL_PAUSE: Duration = Duration::from_millis(5);

/// Keeps the mark in a file that several processes share.
///
/// Every raise holds an exclusive lock on a file beside it (`.lock`), writes a new file (`.new`), syncs it, renames it
/// over the old one and syncs the folder. A missing file is the first load; an unreadable or corrupt one refuses, and so
/// does one that others than root and the process's user can have written. The mark and its lock are for their owner
/// alone (0600); older ones are narrowed when they are opened.
#[derive(Debug)]
pub struct FileHighWater {
    path: PathBuf,
}

impl FileHighWater {
    /// Names the file. Nothing is opened yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(suffix);
        name.into()
    }

    fn lock(&self, tries: u32, pause: Duration) -> Result<File, MarkError> {
        let path = self.beside(".lock");
        let locked = |_| MarkError::Unavailable("locked");
        let mut options = OpenOptions::new();
        let options = with_mode(options.write(true).create(true).truncate(false), PRIVATE_MODE);
        let (file, about) = open_regular_with(&path, options).map_err(locked)?;
        narrow(&path, &file, &about);
        check_trusted(&path, &file.metadata().map_err(locked)?)?;
        for tries_left in (0..tries).rev() {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if tries_left > 0 => std::thread::sleep(pause),
                Err(_) => break,
            }
        }
        Err(MarkError::Unavailable("locked"))
    }

    fn raise(&self, lock: &File, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        let _held = lock;
        let stored = self.read()?;
        let raised = mark.swapped_in(seen, stored.as_ref())?;
        if stored.as_ref() == Some(&raised) { Ok(()) } else { self.write(&raised) }
    }

    fn read(&self) -> Result<Option<Mark>, MarkError> {
        let (file, about) = match open_regular(&self.path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(_) => return Err(MarkError::Unavailable("read")),
        };
        check_trusted(&self.path, &about)?;
        narrow(&self.path, &file, &about);
        let mut bytes = Vec::new();
        let most = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX).saturating_add(1);
        file.take(most).read_to_end(&mut bytes).map_err(|_| MarkError::Unavailable("read"))?;
        parse(&bytes).map(Some)
    }

    fn write(&self, mark: &Mark) -> Result<(), MarkError> {
        let refused = |_| MarkError::Unavailable("written");
        let wire = WireMark {
            format: FORMAT.to_owned(),
            version: mark.version(),
            digest: mark.digest(),
            revoked_keys: mark.revoked_keys().iter().cloned().collect(),
        };
        let text = to_canonical(&wire).map_err(|_| MarkError::Unavailable("written"))?;
        let path = self.beside(".new");
        match std::fs::remove_file(&path) {
            // What a process that died left behind.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => return Err(MarkError::Unavailable("written")),
        }
        let mut file = create_new(&path, PRIVATE_MODE).map_err(refused)?;
        file.write_all(text.bytes()).map_err(refused)?;
        file.sync_all().map_err(refused)?;
        drop(file);
        std::fs::rename(&path, &self.path).map_err(refused)?;
        sync_folder(&self.path).map_err(refused)
    }
}

impl HighWaterStore for FileHighWater {
    fn current(&self) -> Result<Option<Mark>, MarkError> {
        // A rename puts a whole file in place, so reading needs no lock.
        self.read()
    }

    fn compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        self.raise(&self.lock(START_TRIES, LOCK_PAUSE)?, seen, mark)
    }

    fn try_compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        self.raise(&self.lock(CALL_TRIES, CALL_PAUSE)?, seen, mark)
    }
}

/// Takes every right away from group and others. A file of root's stays as it is where the process is not root, and so does one
/// that a link leads to: it is not the operator's state that a link planted beside it would narrow.
fn narrow(path: &Path, file: &File, about: &Metadata) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let is_itself = |named: Metadata| (named.dev(), named.ino()) == (about.dev(), about.ino());
        if about.mode() & 0o077 != 0 && path.symlink_metadata().is_ok_and(is_itself) {
            let _ = countersign_keys::trusted::set_mode(file, PRIVATE_MODE);
        }
    }
    #[cfg(not(unix))]
    let _ = (path, file, about);
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Elsewhere a folder cannot be opened for syncing.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
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
    let limits = Limits::default().with_max_bytes(MAX_BYTES).map_err(|_| MarkError::Corrupt)?;
    let limits = limits.with_max_width(MAX_BYTES).map_err(|_| MarkError::Corrupt)?;
    let canonical = read(bytes, Recipe::Jcs1, &limits).map_err(|_| MarkError::Corrupt)?;
    let wire = WireMark::deserialize(canonical.value()).map_err(|_| MarkError::Corrupt)?;
    if wire.format != FORMAT || wire.version == 0 || wire.version > MAX_VERSION {
        return Err(MarkError::Corrupt);
    }
    Ok(Mark::new(wire.version, wire.digest, wire.revoked_keys.into_iter().collect()))
}
