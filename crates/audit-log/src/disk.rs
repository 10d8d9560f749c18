mod folder;
mod joined;

pub use folder::FolderDisk;
pub(crate) use folder::sync_folder;
pub use joined::JoinedDisk;

use std::fmt::Debug;
use std::io;

/// What a [`Log`](crate::Log) needs of the place where its segments lie: a flat folder of files that are named, grow at
/// their end, are cut, and are synced. [`FolderDisk`] is a folder of the file system.
///
/// What was written may be lost, torn or reordered by a crash until [`DiskFile::sync`] returned, and the name of a new
/// file until [`sync_folder`](Self::sync_folder) did. After a failed sync nothing may be concluded from what a read
/// shows; the log then lets the file go and never syncs it again by the same handle.
pub trait Disk: Debug + Send + Sync {
    /// The names of what lies in the folder, in any order.
    ///
    /// # Errors
    /// As the system reports them.
    fn list(&self) -> io::Result<Vec<String>>;

    /// How long a file is, in bytes.
    ///
    /// # Errors
    /// As the system reports them; [`io::ErrorKind::InvalidInput`] for anything but a regular file.
    fn size(&self, name: &str) -> io::Result<u64>;

    /// Opens a file to be read from an offset on.
    ///
    /// # Errors
    /// As [`size`](Self::size).
    fn read(&self, name: &str, from: u64) -> io::Result<Box<dyn io::Read + Send>>;

    /// Makes a file that was not there, for its owner alone.
    ///
    /// # Errors
    /// As the system reports them; [`io::ErrorKind::AlreadyExists`] when there is one of that name.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file that is there, to be written.
    ///
    /// # Errors
    /// As [`size`](Self::size).
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// As [`open`](Self::open), for a file that is written over without regard to its content: refused where it has a second
    /// name, as a hard link has.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_only(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.open(name)
    }

    /// Takes the lock of that name, which ends with what is returned. `None` while another writer has it.
    ///
    /// # Errors
    /// As the system reports them.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>>;

    /// Makes the names of new files outlive a crash.
    ///
    /// # Errors
    /// As the system reports them.
    fn sync_folder(&self) -> io::Result<()>;
}

/// One open file of a [`Disk`].
pub trait DiskFile: Debug + Send {
    /// How long the file is, in bytes, if its name still leads to it, and not to another or to none.
    ///
    /// # Errors
    /// As the system reports them.
    fn size_in_place(&mut self) -> io::Result<Option<u64>>;

    /// Writes all of the bytes at an offset.
    ///
    /// # Errors
    /// As the system reports them; some of the bytes may have been written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file.
    ///
    /// # Errors
    /// As the system reports them.
    fn truncate(&mut self, size: u64) -> io::Result<()>;

    /// Makes what was written and cut outlive a crash.
    ///
    /// # Errors
    /// As the system reports them. What was not synced before may then be lost, whatever a later sync says.
    fn sync(&mut self) -> io::Result<()>;
}
