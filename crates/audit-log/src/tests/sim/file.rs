use std::io;

use parking_lot::MutexGuard;

use super::world::World;
use super::{DiskFile, SimDisk, eio};

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    pub(super) id: usize,
    pub(super) name: String,
    pub(super) life: u64,
    pub(super) lock: bool,
    /// Whether a sync of this handle has failed.
    pub(super) failed: bool,
}

impl SimFile {
    fn world(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = self.disk.0.lock();
        if world.life == self.life { Ok(world) } else { Err(eio()) }
    }
}

impl DiskFile for SimFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world()?;
        world.deny(self.failed, "written by a handle whose sync failed");
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
        world.deny(self.failed, "synced again by a handle whose sync failed");
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
