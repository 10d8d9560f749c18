use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::Path;

use crate::{Disk, DiskFile, FolderDisk};

/// Reads a log and the archives of its oldest segments as one folder. Read-only.
///
/// If several folders have a file, it is read from the first of them.
#[derive(Clone, Debug)]
pub struct JoinedDisk(Vec<FolderDisk>);

impl JoinedDisk {
    /// Opens existing folders.
    ///
    /// # Errors
    /// As [`FolderDisk::existing`].
    pub fn existing(folders: impl IntoIterator<Item = impl AsRef<Path>>) -> io::Result<Self> {
        folders.into_iter().map(FolderDisk::existing).collect::<io::Result<_>>().map(Self)
    }

    /// Returns the result of the first folder that has the file.
    fn first<T>(&self, ask: impl Fn(&FolderDisk) -> io::Result<T>) -> io::Result<T> {
        let missing = |result: &io::Result<T>| {
            result.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let found = self.0.iter().map(ask).find(|result| !missing(result));
        found.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))
    }
}

impl Disk for JoinedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let names = self.0.iter().map(Disk::list).collect::<io::Result<Vec<_>>>()?;
        Ok(names.into_iter().flatten().collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        self.first(|disk| disk.size(name))
    }

    fn read(&self, name: &str, from: u64) -> io::Result<Box<dyn Read + Send>> {
        self.first(|disk| disk.read(name, from))
    }

    fn create(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn open(&self, _: &str) -> io::Result<Box<dyn DiskFile>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn lock(&self, _: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_folder(&self) -> io::Result<()> {
        Ok(())
    }
}
