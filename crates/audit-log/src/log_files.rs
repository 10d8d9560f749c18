//! Copies, moves and sums files of a log, each step durable before the next one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use countersign_core::Digest;
use sha2::{Digest as _, Sha256};

use crate::folder_disk::sync_folder;

/// Bytes read at once.
const BUFFER: usize = 256 << 10;

/// Size and SHA-256 of a file.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FileSum {
    /// Size in bytes.
    pub bytes: u64,
    /// Name of the file, as a path within the folder.
    pub name: String,
    /// SHA-256 of the file.
    pub sha256: Digest,
}

impl FileSum {
    /// Reads and sums a file of a folder.
    pub(crate) fn of(folder: &Path, name: &str) -> io::Result<Self> {
        let path = folder.join(name);
        require_file(&path)?;
        let (mut file, mut hash, mut bytes) = (File::open(path)?, Sha256::new(), 0_u64);
        let mut buffer = vec![0; BUFFER];
        loop {
            let read = file.read(&mut buffer)?;
            let Some(part) = buffer.get(..read).filter(|part| !part.is_empty()) else { break };
            hash.update(part);
            bytes = bytes.saturating_add(read as u64);
        }
        Ok(Self { bytes, name: name.to_owned(), sha256: Digest::from_bytes(hash.finalize().into()) })
    }

    /// Sums the bytes of a file.
    pub(crate) fn of_bytes(name: &str, bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u64, name: name.to_owned(), sha256: Digest::of(bytes) }
    }

    /// Returns whether the folder's file of that name is equal; `None` if the folder has no such file.
    pub(crate) fn is_in(&self, folder: &Path) -> io::Result<Option<bool>> {
        match Self::of(folder, &self.name) {
            Ok(there) => Ok(Some(there == *self)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Refuses links, folders and pipes.
fn require_file(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_file() { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Writes a new file into a folder, durably: `fill` writes its content, and the file appears whole or not at all. The
/// name must be free. A half-written file of an earlier process is replaced.
pub(crate) fn write_new(
    folder: &Path,
    name: &str,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let (path, part) = (folder.join(name), folder.join(format!(".{name}.part")));
    if path.symlink_metadata().is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    remove(&part)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&part)?;
    fill(&mut file)?;
    file.sync_all()?;
    drop(file);
    step()?;
    fs::rename(&part, &path)?;
    sync_folder(folder)
}

/// As [`write_new`], with the given bytes.
pub(crate) fn write_bytes(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    write_new(folder, name, |file| file.write_all(bytes))
}

/// Copies a file to another folder, possibly on another file system, and reads the copy back.
pub(crate) fn copy_file(sum: &FileSum, from: &Path, to: &Path) -> io::Result<()> {
    write_new(to, &sum.name, |file| io::copy(&mut File::open(from.join(&sum.name))?, file).map(drop))?;
    if sum.is_in(to)? == Some(true) { Ok(()) } else { Err(io::Error::other("the copy differs")) }
}

/// Reads a regular file of at most `most` bytes.
pub(crate) fn read_small(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    require_file(path)?;
    let mut bytes = Vec::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}

/// Removes a file; a missing file is not an error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Point at which the process may be killed. Tests stop here.
#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "tests stop here")]
pub(crate) const fn step() -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub(crate) use stop::step;

#[cfg(test)]
pub(crate) mod stop {
    use std::cell::{Cell, RefCell};
    use std::io;

    thread_local! {
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
        static THEN: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    /// Stops at the step after `steps` others; never for `None`.
    pub(crate) fn stop_after(steps: Option<u32>) {
        LEFT.set(steps);
        THEN.take();
    }

    /// Calls `then` at the step after `steps` others, and continues.
    pub(crate) fn pause_after(steps: u32, then: impl FnOnce() + 'static) {
        LEFT.set(Some(steps));
        THEN.set(Some(Box::new(then)));
    }

    pub(crate) fn step() -> io::Result<()> {
        match LEFT.get() {
            Some(0) => {
                let Some(then) = THEN.take() else { return Err(io::Error::other("stopped")) };
                LEFT.set(None);
                then();
                Ok(())
            }
            Some(left) => {
                LEFT.set(left.checked_sub(1));
                Ok(())
            }
            None => Ok(()),
        }
    }
}
