use std::fmt::Debug;
use std::io;

/// Storage that a [`Log`](crate::Log) needs for its segments: a flat folder of named files that are appended to, cut
/// and synced. [`FolderDisk`](crate::FolderDisk) is a folder of the file system.
///
/// Until [`DiskFile::sync`] has returned, a crash may lose, tear or reorder written data; until
/// [`sync_folder`](Self::sync_folder) has returned, it may lose the name of a new file. After a failed sync, a read
/// proves nothing about the data on disk. The log then drops the handle and never syncs the file through it again.
pub trait Disk: Debug + Send + Sync {
    /// Lists the names in the folder, in any order.
    ///
    /// # Errors
    /// Errors of the system.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Returns the size of a file in bytes.
    ///
    /// # Errors
    /// Errors of the system; [`io::ErrorKind::InvalidInput`] for anything but a regular file.
    fn size(&self, name: &str) -> io::Result<u64>;

    /// Opens a file for reading from an offset.
    ///
    /// # Errors
    /// As [`size`](Self::size).
    fn read(&self, name: &str, from: u64) -> io::Result<Box<dyn io::Read + Send>>;

    /// Creates a new file, accessible to its owner only.
    ///
    /// # Errors
    /// Errors of the system; [`io::ErrorKind::AlreadyExists`] if the name is taken.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// Opens an existing file for writing.
    ///
    /// # Errors
    /// As [`size`](Self::size).
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;

    /// As [`open`](Self::open), for a file that is overwritten regardless of its content. Refused if the file has a
    /// second name, such as a hard link.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    fn open_only(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.open(name)
    }

    /// Removes the name of a file. A second name of the file stays.
    ///
    /// # Errors
    /// Errors of the system; [`io::ErrorKind::Unsupported`] unless the disk implements it.
    fn remove(&self, name: &str) -> io::Result<()> {
        let _ = name;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Takes the lock of that name. Dropping the returned file releases it. Returns `None` while another writer has it.
    ///
    /// # Errors
    /// Errors of the system.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>>;

    /// Syncs the folder, so that the names of new files survive a crash.
    ///
    /// # Errors
    /// Errors of the system.
    fn sync_folder(&self) -> io::Result<()>;
}

/// One open file of a [`Disk`].
pub trait DiskFile: Debug + Send {
    /// Returns the size of the file in bytes; `None` if its name no longer leads to it.
    ///
    /// # Errors
    /// Errors of the system.
    fn size_in_place(&mut self) -> io::Result<Option<u64>>;

    /// Writes all of the bytes at an offset.
    ///
    /// # Errors
    /// Errors of the system; some of the bytes may have been written.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file to a size.
    ///
    /// # Errors
    /// Errors of the system.
    fn truncate(&mut self, size: u64) -> io::Result<()>;

    /// Syncs the file, so that writes and cuts survive a crash.
    ///
    /// # Errors
    /// Errors of the system. Data that was not synced before may then be lost, even if a later sync succeeds.
    fn sync(&mut self) -> io::Result<()>;
}
