use std::collections::BTreeMap;
use std::io::{self, Cursor, ErrorKind, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign::audit_log::{Disk, DiskFile};

/// Files of a log in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryDisk(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl MemoryDisk {
    pub(crate) fn of(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self(Arc::new(Mutex::new(files.into_iter().collect())))
    }

    /// The segments, by name.
    pub(crate) fn segments(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.files().clone();
        files.retain(|name, _| name.ends_with(".jsonl"));
        files
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files().keys().cloned().collect())
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        let files = self.files();
        files.get(name).map(|bytes| bytes.len() as u64).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn read(&self, name: &str, from: u64) -> io::Result<Box<dyn Read + Send>> {
        let bytes = self.files().get(name).cloned().ok_or(ErrorKind::NotFound)?;
        let mut input = Cursor::new(bytes);
        input.set_position(from);
        Ok(Box::new(input))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut files = self.files();
        if files.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        files.insert(name.to_owned(), Vec::new());
        Ok(Box::new(MemoryFile { disk: self.clone(), name: name.to_owned() }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.size(name)?;
        Ok(Box::new(MemoryFile { disk: self.clone(), name: name.to_owned() }))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        self.files().entry(name.to_owned()).or_default();
        self.open(name).map(Some)
    }

    fn sync_folder(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that is open for writing.
#[derive(Debug)]
struct MemoryFile {
    disk: MemoryDisk,
    name: String,
}

impl DiskFile for MemoryFile {
    fn size_in_place(&mut self) -> io::Result<Option<u64>> {
        Ok(self.disk.size(&self.name).ok())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut files, start) = (self.disk.files(), usize::try_from(offset).map_err(io::Error::other)?);
        let file = files.get_mut(&self.name).ok_or(ErrorKind::NotFound)?;
        let end = start.checked_add(bytes.len()).ok_or(ErrorKind::InvalidInput)?;
        file.resize(file.len().max(end), 0);
        file.get_mut(start..end).ok_or(ErrorKind::InvalidInput)?.copy_from_slice(bytes);
        Ok(())
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        let mut files = self.disk.files();
        let file = files.get_mut(&self.name).ok_or(ErrorKind::NotFound)?;
        file.resize(usize::try_from(size).map_err(io::Error::other)?, 0);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
