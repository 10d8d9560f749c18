//! A state file shared by several processes: replaced as a whole, by rename, under a lock file.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::trusted::{
    PRIVATE_MODE, UntrustedFile, check_trusted, create_new, open_regular, open_regular_with, set_mode,
    with_mode,
};

/// Time to wait for a lock that another process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockWait {
    /// At a start: five seconds.
    Start,
    /// Between two calls: 20 ms.
    Call,
}

impl LockWait {
    const fn tries(self) -> (u32, Duration) {
        match self {
            Self::Start => (500, Duration::from_millis(10)),
            Self::Call => (5, Duration::from_millis(5)),
        }
    }
}

/// A state file cannot be read, locked or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateFileError {
    /// A user other than root and the process's user may have written the file or its lock.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// The file exceeds the limit.
    #[error("larger than {max} bytes")]
    TooLarge {
        /// Maximum size in bytes.
        max: u64,
    },
    /// The lock cannot be opened, or another process holds it.
    #[error("cannot be locked")]
    Lock(#[source] io::Error),
    /// The file cannot be read, or is not a regular file.
    #[error("cannot be read")]
    Read(#[source] io::Error),
    /// The file cannot be replaced.
    #[error("cannot be written")]
    Write(#[source] io::Error),
}

/// A state file, private to its owner (0600) and always complete: a write creates a new file beside it (`.new`),
/// syncs it, renames it over the old one and syncs the folder, under an exclusive lock (`.lock`).
///
/// A file or lock that users other than root and the process's user may have written is refused. One that other users
/// may read is restricted to its owner when it is opened.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// Creates a handle for the path without opening it.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; `None` if it does not exist. Needs no lock, because the rename is atomic.
    ///
    /// # Errors
    /// [`StateFileError`]. [`StateFileError::Untrusted`] is detected before a byte is read.
    pub fn read(&self, max: u64) -> Result<Option<Vec<u8>>, StateFileError> {
        let (file, about) = match open_regular(&self.path) {
            Ok(opened) => opened,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(StateFileError::Read(error)),
        };
        check_trusted(&self.path, &about)?;
        narrow(&self.path, &file, &about);
        let mut bytes = Vec::new();
        file.take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(StateFileError::Read)?;
        if u64::try_from(bytes.len()).is_ok_and(|len| len <= max) {
            Ok(Some(bytes))
        } else {
            Err(StateFileError::TooLarge { max })
        }
    }

    /// Acquires the lock, which is released when the returned value is dropped. Creates a missing lock file.
    ///
    /// # Errors
    /// [`StateFileError::Lock`], [`StateFileError::Untrusted`].
    pub fn lock(&self, wait: LockWait) -> Result<LockedState<'_>, StateFileError> {
        let path = self.beside(".lock");
        let (tries, pause) = wait.tries();
        for tries_left in (0..tries).rev() {
            let mut options = OpenOptions::new();
            let options = with_mode(options.write(true).create(true).truncate(false), PRIVATE_MODE);
            let (file, about) = open_regular_with(&path, options).map_err(StateFileError::Lock)?;
            narrow(&path, &file, &about);
            check_trusted(&path, &file.metadata().map_err(StateFileError::Lock)?)?;
            match file.try_lock() {
                // why: its last holder may have removed the file between opening and locking.
                Ok(()) if is_same(path.metadata(), &about) => {
                    return Ok(LockedState { state: self, lock: file });
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) if tries_left > 0 => std::thread::sleep(pause),
                Err(error) => return Err(StateFileError::Lock(error.into())),
            }
        }
        Err(StateFileError::Lock(ErrorKind::WouldBlock.into()))
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(suffix);
        name.into()
    }
}

/// A [`StateFile`] under its lock.
#[derive(Debug)]
pub struct LockedState<'a> {
    state: &'a StateFile,
    lock: File,
}

impl Drop for LockedState<'_> {
    /// A process that another thread is just starting has a copy of the file, so closing it may not give the lock back.
    fn drop(&mut self) {
        // Closing gives it back too, later.
        let _ = self.lock.unlock();
    }
}

impl LockedState<'_> {
    /// As [`StateFile::read`].
    ///
    /// # Errors
    /// As [`StateFile::read`].
    pub fn read(&self, max: u64) -> Result<Option<Vec<u8>>, StateFileError> {
        self.state.read(max)
    }

    /// Replaces the file, durably.
    ///
    /// # Errors
    /// [`StateFileError::Write`]; the file is then the old one or the new one.
    pub fn replace(&self, bytes: &[u8]) -> Result<(), StateFileError> {
        self.write(bytes).map_err(StateFileError::Write)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let (path, new) = (&self.state.path, self.state.beside(".new"));
        // A process that crashed may have left one.
        remove(&new)?;
        let mut file = create_new(&new, PRIVATE_MODE)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        fs::rename(&new, path)?;
        sync_folder(path)
    }

    /// Removes the file and its lock.
    ///
    /// # Errors
    /// [`StateFileError::Write`].
    pub fn remove(self) -> Result<(), StateFileError> {
        remove(&self.state.path).map_err(StateFileError::Write)?;
        remove(&self.state.beside(".lock")).map_err(StateFileError::Write)
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Removes all permissions of group and others. A file of root's stays unchanged unless the process is root. So does
/// the target of a symbolic link: a planted link must not change another file's permissions.
fn narrow(path: &Path, file: &File, about: &Metadata) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        if about.mode() & 0o077 != 0 && is_same(path.symlink_metadata(), about) {
            let _ = set_mode(file, PRIVATE_MODE);
        }
    }
    #[cfg(not(unix))]
    let _ = (path, file, about, set_mode);
}

/// Returns whether a path leads to this very file.
#[cfg(unix)]
fn is_same(named: io::Result<Metadata>, about: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    named.is_ok_and(|named| (named.dev(), named.ino()) == (about.dev(), about.ino()))
}

/// Other systems do not remove open files.
#[cfg(not(unix))]
fn is_same(_: io::Result<Metadata>, _: &Metadata) -> bool {
    true
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Other systems cannot open a folder for syncing.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{LockWait, StateFile};

    #[test]
    fn a_removed_state_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFile::new(folder.path().join("state"));
        let lock = state.lock(LockWait::Start).unwrap();
        lock.replace(b"one").unwrap();
        assert!(state.lock(LockWait::Call).is_err(), "it is held");
        lock.remove().unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(state.lock(LockWait::Call).unwrap().read(9).unwrap(), None);
    }
}
