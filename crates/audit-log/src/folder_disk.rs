use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use countersign_keys::trusted::{open_unfollowed_with, require_only_name};

use crate::{Disk, DiskFile};

/// Folder of the file system.
///
/// ```
/// use countersign_audit_log::{Disk, FolderDisk};
/// # let folder = tempfile::tempdir()?;
/// let disk = FolderDisk::create(folder.path().join("log"))?;
/// disk.create("a")?.write_at(0, b"bytes")?;
/// assert_eq!((disk.list()?, disk.size("a")?), (vec!["a".to_owned()], 5));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FolderDisk {
    /// Absolute, so that it leads to the same folder after the process changes its working directory.
    path: PathBuf,
}

impl FolderDisk {
    /// Opens an existing folder.
    ///
    /// # Errors
    /// Errors of the system; [`io::ErrorKind::NotADirectory`] for anything but a folder.
    pub fn existing(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        if fs::metadata(&path)?.is_dir() {
            Ok(Self { path })
        } else {
            Err(io::ErrorKind::NotADirectory.into())
        }
    }

    /// Opens a folder. Creates it if it is missing, for its owner only (mode 0700). Its parent must exist.
    ///
    /// # Errors
    /// As [`existing`](Self::existing).
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        match private_folder().create(&path) {
            Ok(()) => path.parent().map_or(Ok(()), sync_folder)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        Self::existing(path)
    }

    /// Path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether a writer has the lock of that name. Creates nothing. A lock that cannot be read counts as free.
    pub(crate) fn is_locked(&self, name: &str) -> bool {
        let Ok(mut lock) = self.file(name, &mut Self::options()) else { return false };
        let tried = lock.file.try_lock();
        lock.is_locked = tried.is_ok();
        matches!(tried, Err(TryLockError::WouldBlock))
    }

    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options
    }

    /// Opens a file for writing, never through a link, whose target is not the log's.
    fn file(&self, name: &str, options: &mut OpenOptions) -> io::Result<FolderFile> {
        let path = self.path.join(name);
        let (file, about) = open_unfollowed_with(&path, options)?;
        Ok(FolderFile { file, path, identity: identity(&about), is_locked: false })
    }
}

#[cfg(unix)]
fn private_folder() -> fs::DirBuilder {
    let mut builder = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

#[cfg(not(unix))]
fn private_folder() -> fs::DirBuilder {
    fs::DirBuilder::new()
}

/// Refuses anything but a regular file. Opening a FIFO for reading would block, so callers check before opening, and
/// check the open file again.
fn require_file(metadata: &fs::Metadata) -> io::Result<()> {
    if metadata.is_file() { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

impl Disk for FolderDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().into_string()));
        // A name that is not Unicode is not the log's.
        names.filter_map(|name: io::Result<_>| name.map(Result::ok).transpose()).collect()
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        let metadata = fs::metadata(self.path.join(name))?;
        require_file(&metadata)?;
        Ok(metadata.len())
    }

    fn read(&self, name: &str, from: u64) -> io::Result<Box<dyn Read + Send>> {
        self.size(name)?;
        let mut file = File::open(self.path.join(name))?;
        require_file(&file.metadata()?)?;
        file.seek(SeekFrom::Start(from))?;
        Ok(Box::new(file))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.file(name, Self::options().create_new(true))?))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.file(name, &mut Self::options())?))
    }

    fn open_only(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.file(name, &mut Self::options())?;
        require_only_name(&file.path, &file.file.metadata()?)?;
        Ok(Box::new(file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        let mut file = self.file(name, Self::options().create(true).truncate(false))?;
        match file.file.try_lock() {
            Ok(()) => {
                file.is_locked = true;
                Ok(Some(Box::new(file)))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        sync_folder(&self.path)
    }
}

#[cfg(unix)]
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(not(unix))]
pub(crate) const fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

#[derive(Debug)]
struct FolderFile {
    file: File,
    path: PathBuf,
    identity: FileIdentity,
    is_locked: bool,
}

impl Drop for FolderFile {
    /// Gives the lock back at once: a process that another thread is just starting has a copy of every open file
    /// until it runs its program, and closing the file here would leave the lock to that copy.
    fn drop(&mut self) {
        if self.is_locked {
            // Closing gives it back too, later.
            let _ = self.file.unlock();
        }
    }
}

impl DiskFile for FolderFile {
    fn size_in_place(&mut self) -> io::Result<Option<u64>> {
        match self.path.metadata() {
            Ok(there) => Ok((identity(&there) == self.identity).then_some(there.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        write_all_at(&mut self.file, offset, bytes)
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(unix)]
fn write_all_at(file: &mut File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn write_all_at(file: &mut File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    io::Write::write_all(file, bytes)
}

/// Identity of a file: its device and inode.
#[cfg(unix)]
type FileIdentity = (u64, u64);

#[cfg(not(unix))]
type FileIdentity = ();

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> FileIdentity {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
const fn identity(_: &fs::Metadata) -> FileIdentity {}
