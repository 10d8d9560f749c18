use std::io::{self, BufReader, Read as _};

use countersign_merkle::{Frontier, NodeHash};

use crate::RebuiltSide;
use crate::disk::{Disk, DiskFile};
use crate::segment::{
    HEADER, LEAST_BYTES, SidePlace, completed_by, side_calls, side_header, side_name, side_offset,
};
use crate::side_files::{ResumedSide, open_side};

/// Writes the side file of the current segment, in pieces and without syncing. If that fails, the segment has no side
/// file, and a reader rebuilds it.
///
/// A kill leaves a file that lacks a piece. The next reader or writer completes it from the segment. The file has every
/// inner node: tiles of 256 hashes would halve it, but readers would have to hash again.
#[derive(Debug)]
pub(super) struct SegmentSide {
    /// Least number of records of a segment with a side file.
    from: u64,
    first: u64,
    /// Number of the next record.
    due: u64,
    /// Bytes that are not in the file yet.
    buffer: Vec<u8>,
    /// Size of the file.
    written: u64,
    file: Option<Box<dyn DiskFile>>,
    is_off: bool,
}

impl SegmentSide {
    /// Begins the file of the next segment, whose first line is `head`.
    pub(super) fn begin(&mut self, first: u64, head: &[u8]) {
        let buffer = side_header(first, head.strip_suffix(b"\n").unwrap_or(head));
        *self = Self { from: self.from, first, due: first, buffer, written: 0, file: None, is_off: false };
    }

    /// Returns a state that writes no side file.
    pub(super) const fn off(from: u64) -> Self {
        Self { from, first: 0, due: 0, buffer: Vec::new(), written: 0, file: None, is_off: true }
    }

    /// Resumes after the last record of a segment, and returns the file that was rebuilt, if any. If resuming fails,
    /// the segment has no side file.
    pub(super) fn resume(
        disk: &dyn Disk,
        first: u64,
        tree: &Frontier,
        from: u64,
    ) -> (Self, Option<RebuiltSide>) {
        let Ok(ResumedSide { written, more, rebuilt }) = ResumedSide::of(disk, first, tree) else {
            return (Self::off(from), None);
        };
        let due = tree.size().saturating_add(1);
        let mut side = Self { from, first, due, buffer: more, written, file: None, is_off: false };
        let Some(file) = rebuilt else { return (side, None) };
        let failure = side.write(disk).err();
        if failure.is_some() {
            side = Self::off(from);
        }
        (side, Some(RebuiltSide { file, failure }))
    }

    /// Adds the records of a batch that was written at offset `start`.
    pub(super) fn add(&mut self, start: u64, places: &[SidePlace], nodes: &[NodeHash]) {
        if self.is_off {
            return;
        }
        let mut nodes = nodes.iter();
        for place in places {
            let completed = completed_by(self.due) as usize;
            SidePlace { offset: start.saturating_add(place.offset), ..*place }.push_to(&mut self.buffer);
            nodes.by_ref().take(completed).for_each(|node| self.buffer.extend_from_slice(node.as_bytes()));
            self.due = self.due.saturating_add(1);
        }
    }

    /// Writes the buffer once it is large enough.
    pub(super) fn flush_much(&mut self, disk: &dyn Disk) {
        if self.buffer.len() >= LEAST_BYTES {
            self.flush(disk);
        }
    }

    /// Writes the buffer, unless the segment is too short for a side file.
    pub(super) fn flush(&mut self, disk: &dyn Disk) {
        let is_due = self.written > 0 || self.due.saturating_sub(self.first) >= self.from;
        if is_due && !self.is_off && self.write(disk).is_err() {
            *self = Self::off(self.from);
        }
    }

    fn write(&mut self, disk: &dyn Disk) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open(disk)?,
        };
        if file.size_in_place()?.is_none_or(|size| size < self.written) {
            return Err(io::ErrorKind::NotFound.into());
        }
        file.write_at(self.written, &self.buffer)?;
        self.written = self.written.saturating_add(self.buffer.len() as u64);
        self.buffer.clear();
        self.file = Some(file);
        Ok(())
    }

    /// Opens or creates the file, and cuts it to the bytes that are known to be valid.
    fn open(&self, disk: &dyn Disk) -> io::Result<Box<dyn DiskFile>> {
        let mut file = open_side(disk, self.first, self.written)?;
        if file.size_in_place()?.is_some_and(|size| size > self.written) {
            file.truncate(self.written)?;
        }
        Ok(file)
    }

    /// Completes the file of a closed segment with the list of its calls.
    pub(super) fn close(&mut self, disk: &dyn Disk) {
        self.flush(disk);
        if !self.is_off && self.written == side_offset(self.first, self.due) {
            let calls = disk.read(&side_name(self.first), HEADER).and_then(|file| {
                let records = self.written.saturating_sub(HEADER);
                side_calls(&mut BufReader::with_capacity(64 << 10, file.take(records)), self.first, self.due)
            });
            self.buffer = calls.unwrap_or_default();
            self.flush(disk);
        }
        *self = Self::off(self.from);
    }
}
