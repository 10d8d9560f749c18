//! A disk in memory that fails as disks do.
//!
//! What is written lies in pages of a cache until it is synced. Before that, any page may reach the disk at any time, in any
//! order. A power cut keeps, loses or tears each of the others; it keeps or loses each new name and each change of size that was
//! not synced. A sync that fails keeps some pages and takes the others for clean: reads still show them, later syncs do not
//! write them (as Linux does). A write that fails may have written some of its bytes. What a file system keeps in its journal,
//! names and sizes, is not taken for clean by a failure. When the process ends, the cache stays and handles do not. What the
//! system takes for clean it can drop ([`SimDisk::drop_clean`]): reads then show what is on the disk.
//!
//! Somebody may read at any moment ([`SimDisk::watch`]): before and behind each change, and in the middle of a write.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "tests count with small numbers"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, Read};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Disk, DiskFile};

/// SplitMix64 (Steele, Lea and Flood, 2014): small, and the same everywhere.
#[derive(Clone, Debug)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// How often things fail: one in so many; 0 is never.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) write: u64,
    pub(super) sync: u64,
    pub(super) read: u64,
    pub(super) create: u64,
    pub(super) truncate: u64,
    pub(super) folder: u64,
}

impl Faults {
    /// Some kinds of them.
    pub(super) fn some(rng: &mut Rng) -> Self {
        let mut rare = |often: u64| if rng.one_in(2) { 0 } else { often };
        Self {
            write: rare(6),
            sync: rare(6),
            read: rare(30),
            create: rare(3),
            truncate: rare(4),
            folder: rare(4),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    Process,
    Power,
}

#[derive(Clone, Debug, Default)]
struct Inode {
    /// What reads show.
    cache: Vec<u8>,
    /// What is on the disk.
    disk: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl Inode {
    fn write(&mut self, start: usize, bytes: &[u8]) {
        let end = start + bytes.len();
        if self.cache.len() < end {
            self.cache.resize(end, 0);
        }
        self.cache[start..end].copy_from_slice(bytes);
    }
}

#[derive(Debug)]
struct World {
    rng: Rng,
    page: usize,
    faults: Faults,
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    locked: BTreeSet<usize>,
    /// Counts crashes: handles of before are of no use.
    life: u64,
    syncs: u64,
    /// How many bytes there were to read wherever something was opened to be read.
    read: u64,
    /// How often somebody reads: at one in so many moments; 0 is never.
    watch: u64,
    /// What they saw, the oldest first.
    seen: Vec<View>,
}

/// All files by their names, as reads show them at one moment.
pub(super) type View = BTreeMap<String, Vec<u8>>;

#[derive(Clone, Debug)]
pub(super) struct SimDisk(Arc<Mutex<World>>);

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    id: usize,
    name: String,
    life: u64,
    lock: bool,
    /// A sync of this handle has failed.
    failed: bool,
}

impl SimDisk {
    pub(super) fn new(seed: u64, page: usize) -> Self {
        Self(Arc::new(Mutex::new(World {
            rng: Rng(seed),
            page,
            faults: Faults::default(),
            inodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            locked: BTreeSet::new(),
            life: 0,
            syncs: 0,
            read: 0,
            watch: 0,
            seen: Vec::new(),
        })))
    }

    /// A disk that holds what somebody saw.
    pub(super) fn showing(view: View) -> Self {
        let disk = Self::new(0, 4_096);
        view.into_iter().for_each(|(name, bytes)| disk.put(&name, bytes));
        disk
    }

    /// Lets somebody read all files at one in so many moments from now on.
    pub(super) fn watch(&self, one_in: u64) {
        self.0.lock().watch = one_in;
    }

    pub(super) fn is_watched(&self) -> bool {
        self.0.lock().watch > 0
    }

    /// What was seen since this was asked last, and now.
    pub(super) fn seen(&self) -> Vec<View> {
        let mut world = self.0.lock();
        let now = world.view();
        let mut seen = std::mem::take(&mut world.seen);
        seen.push(now);
        seen
    }

    pub(super) fn set_faults(&self, faults: Faults) {
        self.0.lock().faults = faults;
    }

    pub(super) fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.0.lock().read
    }

    /// Ends the process, or takes the power away.
    pub(super) fn crash(&self, crash: Crash) {
        let mut world = self.0.lock();
        world.life += 1;
        world.locked.clear();
        if crash == Crash::Power {
            world.lose_power();
        }
    }

    /// The system needs the memory: every page that it takes for clean is read from the disk again.
    pub(super) fn drop_clean(&self) {
        let mut world = self.0.lock();
        let page = world.page;
        for inode in &mut world.inodes {
            for at in 0..inode.cache.len() {
                if !inode.dirty.contains(&(at / page)) {
                    inode.cache[at] = inode.disk.get(at).copied().unwrap_or_default();
                }
            }
        }
    }

    /// A file's bytes as reads show them.
    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        let world = self.0.lock();
        world.inodes[world.names[name]].cache.clone()
    }

    /// Puts a file there, synced.
    pub(super) fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut world = self.0.lock();
        let id = world.inodes.len();
        world.inodes.push(Inode { cache: bytes.clone(), disk: bytes, dirty: BTreeSet::new() });
        world.names.insert(name.into(), id);
        world.durable_names.insert(name.into(), id);
    }

    fn handle(&self, world: &World, name: &str, id: usize, lock: bool) -> Box<dyn DiskFile> {
        let (disk, name, life) = (self.clone(), name.into(), world.life);
        Box::new(SimFile { disk, id, name, life, lock, failed: false })
    }
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}

impl World {
    fn strike(&mut self, one_in: u64) -> bool {
        self.rng.one_in(one_in)
    }

    fn view(&self) -> View {
        self.names.iter().map(|(name, id)| (name.clone(), self.inodes[*id].cache.clone())).collect()
    }

    /// A moment at which somebody may read.
    fn moment(&mut self) {
        if self.watch > 0 && self.rng.one_in(self.watch) {
            let now = self.view();
            self.seen.push(now);
        }
    }

    fn lookup(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// One page reaches the disk, as far as `upto`.
    fn flush(&mut self, id: usize, page: usize, upto: usize) {
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

    fn flush_some(&mut self, id: usize) {
        for page in self.inodes[id].dirty.clone() {
            if self.rng.one_in(2) {
                self.flush(id, page, self.page);
            }
        }
    }

    fn lose_power(&mut self) {
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
                        let upto = self.rng.below(self.page as u64) as usize;
                        self.flush(id, page, upto);
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

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut world = self.0.lock();
        let read = world.faults.read;
        if world.strike(read) { Err(eio()) } else { Ok(world.names.keys().cloned().collect()) }
    }

    fn size(&self, name: &str) -> io::Result<u64> {
        let world = self.0.lock();
        Ok(world.inodes[world.lookup(name)?].cache.len() as u64)
    }

    fn read(&self, name: &str, from: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut world = self.0.lock();
        let (id, read) = (world.lookup(name)?, world.faults.read);
        if world.strike(read) {
            return Err(eio());
        }
        let bytes = world.inodes[id].cache[from as usize..].to_vec();
        world.read += bytes.len() as u64;
        Ok(Box::new(Cursor::new(bytes)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.0.lock();
        if world.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let create = world.faults.create;
        if world.strike(create) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let id = world.inodes.len();
        world.inodes.push(Inode::default());
        world.names.insert(name.into(), id);
        world.moment();
        Ok(self.handle(&world, name, id, false))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let world = self.0.lock();
        Ok(self.handle(&world, name, world.lookup(name)?, false))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn DiskFile>>> {
        let mut world = self.0.lock();
        let id = world.lookup(name).unwrap_or(world.inodes.len());
        if id == world.inodes.len() {
            world.inodes.push(Inode::default());
            world.names.insert(name.into(), id);
        }
        if world.locked.insert(id) { Ok(Some(self.handle(&world, name, id, true))) } else { Ok(None) }
    }

    fn sync_folder(&self) -> io::Result<()> {
        let mut world = self.0.lock();
        let folder = world.faults.folder;
        if world.strike(folder) {
            return Err(eio());
        }
        world.durable_names = world.names.clone();
        Ok(())
    }
}

impl SimFile {
    fn world(&self) -> io::Result<parking_lot::MutexGuard<'_, World>> {
        let world = self.disk.0.lock();
        if world.life == self.life { Ok(world) } else { Err(eio()) }
    }
}

impl DiskFile for SimFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world()?;
        assert!(!self.failed, "written by a handle whose sync failed");
        let write = world.faults.write;
        let failed = world.strike(write);
        let count = if failed { world.rng.below(bytes.len() as u64 + 1) as usize } else { bytes.len() };
        let (start, end, page) = (offset as usize, offset as usize + count, world.page);
        let middle = world.rng.below(count as u64 + 1) as usize;
        world.inodes[self.id].write(start, &bytes[..middle]);
        world.moment();
        world.inodes[self.id].write(start + middle, &bytes[middle..count]);
        world.moment();
        if count > 0 {
            world.inodes[self.id].dirty.extend(start / page..=(end - 1) / page);
        }
        if world.rng.one_in(8) {
            world.flush_some(self.id);
        }
        if failed { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        let mut world = self.world()?;
        let truncate = world.faults.truncate;
        if world.strike(truncate) {
            return Err(eio());
        }
        let (size, page) = (size as usize, world.page);
        let inode = &mut world.inodes[self.id];
        inode.cache.truncate(size);
        inode.dirty.retain(|dirty| dirty * page < size);
        if !size.is_multiple_of(page) {
            inode.dirty.insert(size / page);
        }
        world.moment();
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.world()?;
        assert!(!self.failed, "synced again by a handle whose sync failed");
        world.syncs += 1;
        let sync = world.faults.sync;
        if world.strike(sync) {
            world.flush_some(self.id);
            world.inodes[self.id].dirty.clear();
            drop(world);
            self.failed = true;
            return Err(eio());
        }
        for page in std::mem::take(&mut world.inodes[self.id].dirty) {
            let whole = world.page;
            world.flush(self.id, page, whole);
        }
        let size = world.inodes[self.id].cache.len();
        world.inodes[self.id].disk.resize(size, 0);
        Ok(())
    }

    fn size_in_place(&mut self) -> io::Result<Option<u64>> {
        let world = self.world()?;
        let there = world.names.get(&self.name) == Some(&self.id);
        Ok(there.then(|| world.inodes[self.id].cache.len() as u64))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut world = self.disk.0.lock();
        if self.lock && world.life == self.life {
            world.locked.remove(&self.id);
        }
    }
}
