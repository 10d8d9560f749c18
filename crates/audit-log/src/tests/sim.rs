//! In-memory disk that fails as real disks do.
//!
//! Written data lies in cache pages until it is synced. Before that, any page may reach the disk at any time, in any
//! order. A power cut keeps or loses each of the others, or tears it between two sectors of 512 bytes. It also keeps or
//! loses each new name and each change of size that was not synced. A failed sync keeps some pages and marks the others
//! as clean: reads still return them, but later syncs do not write them (as Linux does). A failed write may have
//! written some of its bytes. Names and sizes, which a file system keeps in its journal, are not marked as clean by a
//! failure. When the process ends, the cache stays, but handles do not. The system can drop pages that are marked as
//! clean ([`SimDisk::drop_clean`]): reads then return the data on the disk.
//!
//! A reader may read at any moment ([`SimDisk::watch`]): before and after each change, and in the middle of a write.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "tests count with small numbers"
)]

#[path = "sim/file.rs"]
mod file;
#[path = "sim/rng.rs"]
mod rng;
#[path = "sim/world.rs"]
mod world;

pub(super) use rng::Rng;
pub(super) use world::View;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, Read};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Disk, DiskFile};
use file::SimFile;
use world::{Inode, SECTOR, World};

/// Rates of faults: one in this many operations; 0 is never.
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
    /// Returns random rates for some kinds of faults.
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

#[derive(Clone, Debug)]
pub(super) struct SimDisk(Arc<Mutex<World>>);

impl SimDisk {
    pub(super) fn new(seed: u64, page: usize) -> Self {
        assert!(page.is_multiple_of(SECTOR), "a page is made of sectors");
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
            misused: None,
        })))
    }

    /// Returns a disk with the files of a view.
    pub(super) fn showing(view: View) -> Self {
        let disk = Self::new(0, 4_096);
        view.into_iter().for_each(|(name, bytes)| disk.put(&name, bytes));
        disk
    }

    /// Makes a reader read all files at one in `one_in` moments from now on.
    pub(super) fn watch(&self, one_in: u64) {
        self.0.lock().watch = one_in;
    }

    pub(super) fn is_watched(&self) -> bool {
        self.0.lock().watch > 0
    }

    /// Returns the views since the last call, and the current one.
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

    /// Ends the process, or cuts the power.
    pub(super) fn crash(&self, crash: Crash) {
        let mut world = self.0.lock();
        world.life += 1;
        world.locked.clear();
        if crash == Crash::Power {
            world.lose_power();
        }
    }

    /// Drops the cache: every page that is marked as clean is read from the disk again.
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

    /// Returns a file's bytes as reads return them.
    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        let world = self.0.lock();
        world.inodes[world.names[name]].cache.clone()
    }

    /// Adds a file that is synced.
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
        // As with a real file, nothing can be read after the end.
        let bytes = world.inodes[id].cache.get(from as usize..).unwrap_or_default().to_vec();
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

fn eio() -> io::Error {
    io::Error::from_raw_os_error(5)
}
