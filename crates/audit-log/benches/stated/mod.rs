//! A disk whose sync takes as long as is said, if the one below is no slower: what a log costs beside its syncs can then be
//! compared from machine to machine.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use countersign_audit_log::{Disk, DiskFile, FolderDisk};

/// What a sync takes: about what a good drive without a battery behind its cache needs.
pub(crate) const SYNC: Duration = Duration::from_millis(2);

/// Syncs, and waits until [`SYNC`] is over.
#[expect(clippy::disallowed_methods, reason = "a bench takes real time")]
pub(crate) fn stated(sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let began = Instant::now();
    sync()?;
    std::thread::sleep(SYNC.saturating_sub(began.elapsed()));
    Ok(())
}

/// A folder whose syncs are [`stated`].
#[derive(Debug)]
pub(crate) struct StatedDisk(FolderDisk);

#[derive(Debug)]
struct StatedFile(Box<dyn DiskFile>);

impl StatedDisk {
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        FolderDisk::create(folder).map(Self)
    }
}

impl Disk for StatedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        self.0.size(name)
    }

    fn read(&self, name: &str, from: u64) -> io::Result<Box<dyn io::Read + Send>> {
        self.0.read(name, from)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(StatedFile(self.0.create(name)?)))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(StatedFile(self.0.open(name)?)))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        self.0.lock(name)
    }

    fn sync_folder(&self) -> io::Result<()> {
        stated(|| self.0.sync_folder())
    }
}

impl DiskFile for StatedFile {
    fn size_in_place(&mut self) -> io::Result<Option<u64>> {
        self.0.size_in_place()
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.0.truncate(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        stated(|| self.0.sync())
    }
}
