use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::Faults;
use super::rng::Rng;

/// Bytes that the disk writes atomically.
pub(super) const SECTOR: usize = 512;

/// All files by name, as reads return them at one moment.
pub(in crate::tests) type View = BTreeMap<String, Vec<u8>>;

#[derive(Debug)]
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) page: usize,
    pub(super) faults: Faults,
    pub(super) inodes: Vec<Inode>,
    pub(super) names: BTreeMap<String, usize>,
    pub(super) durable_names: BTreeMap<String, usize>,
    pub(super) locked: BTreeSet<usize>,
    /// Number of crashes. Handles from before the last crash are invalid.
    pub(super) life: u64,
    pub(super) syncs: u64,
    /// Sum, over all files opened for reading, of the bytes after the read offset.
    pub(super) read: u64,
    /// Rate of reads: at one in this many moments; 0 is never.
    pub(super) watch: u64,
    /// Views of these reads, the oldest first.
    pub(super) seen: Vec<View>,
    /// Forbidden operation of a log on the disk.
    pub(super) misused: Option<&'static str>,
}

impl Drop for World {
    fn drop(&mut self) {
        assert!(self.misused.is_none() || std::thread::panicking(), "{:?}", self.misused);
    }
}

impl World {
    /// Notes a forbidden operation. The test fails when it drops the disk: a panic here would look like a disk failure
    /// to the log, and go no further.
    pub(super) fn deny(&mut self, misused: bool, how: &'static str) {
        self.misused = self.misused.or(misused.then_some(how));
    }

    pub(super) fn strike(&mut self, one_in: u64) -> bool {
        self.rng.one_in(one_in)
    }

    pub(super) fn view(&self) -> View {
        self.names.iter().map(|(name, id)| (name.clone(), self.inodes[*id].cache.clone())).collect()
    }

    /// Moment at which a reader may read.
    pub(super) fn moment(&mut self) {
        if self.watch > 0 && self.rng.one_in(self.watch) {
            let now = self.view();
            self.seen.push(now);
        }
    }

    pub(super) fn lookup(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Writes one page to the disk, up to `upto`.
    pub(super) fn flush(&mut self, id: usize, page: usize, upto: usize) {
        let start = page * self.page;
        let inode = &mut self.inodes[id];
        let end = inode.cache.len().min(start + upto);
        if start < end {
            if inode.disk.len() < end {
                inode.disk.resize(end, 0);
            }
            inode.disk[start..end].copy_from_slice(&inode.cache[start..end]);
        }
    }

    pub(super) fn flush_some(&mut self, id: usize) {
        for page in self.inodes[id].dirty.clone() {
            if self.rng.one_in(2) {
                self.flush(id, page, self.page);
            }
        }
    }

    pub(super) fn lose_power(&mut self) {
        for id in 0..self.inodes.len() {
            let resized = self.rng.one_in(2);
            let size = self.inodes[id].cache.len();
            if resized {
                self.inodes[id].disk.resize(size, 0);
            }
            for page in std::mem::take(&mut self.inodes[id].dirty) {
                match self.rng.below(3) {
                    0 => {}
                    1 => self.flush(id, page, self.page),
                    _ => {
                        let sectors = self.rng.below((self.page / SECTOR) as u64) as usize;
                        self.flush(id, page, sectors * SECTOR);
                    }
                }
            }
            self.inodes[id].cache = self.inodes[id].disk.clone();
        }
        for (name, id) in self.names.clone() {
            if self.durable_names.get(&name) != Some(&id) && self.rng.one_in(2) {
                self.durable_names.insert(name, id);
            }
        }
        self.names = self.durable_names.clone();
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// Content that reads return.
    pub(super) cache: Vec<u8>,
    /// Content on the disk.
    pub(super) disk: Vec<u8>,
    pub(super) dirty: BTreeSet<usize>,
}

impl Inode {
    pub(super) fn write(&mut self, start: usize, bytes: &[u8]) {
        let end = start + bytes.len();
        if self.cache.len() < end {
            self.cache.resize(end, 0);
        }
        self.cache[start..end].copy_from_slice(bytes);
    }
}
