use std::io;

use countersign_core::Timestamp;
use countersign_merkle::Frontier;

use super::batch::{Batch, MAX_BATCH};
use super::cut::{self, CutBytes, read_all};
use super::options::{Durability, LogOptions};
use super::side::SegmentSide;
use crate::disk::{Disk, DiskFile};
use crate::line::record_body;
use crate::segment::{Head, MAX_LINE, MAX_TAIL, Scan, checkpoint_line, segment_name};
use crate::{AuditError, Checkpoint, Record, RecoveredRecord};

/// Acknowledged part of the log, and the file that continues it.
#[derive(Debug)]
pub(super) struct Writer {
    /// Lock that makes this the only writer.
    pub(super) lock: Box<dyn DiskFile>,
    /// `None` after a failure.
    pub(super) file: Option<Box<dyn DiskFile>>,
    /// First record of the segment.
    pub(super) first: u64,
    /// Size of the segment in bytes.
    pub(super) end: u64,
    /// Tree of all records.
    pub(super) frontier: Frontier,
    /// End of the segment's last checkpoint, and the number of records that it counts.
    pub(super) signed_end: u64,
    pub(super) signed_size: u64,
    /// Note of the last checkpoint.
    pub(super) note: String,
    /// Synced size of the segment: all of it, except under `System` and after a further sync has failed.
    pub(super) synced: u64,
    /// Bytes that were cut, until that is recorded.
    pub(super) cut: Option<CutBytes>,
    /// Bytes that this writer wrote into a segment without acknowledged records: they may be cut without being saved.
    pub(super) own: Vec<u8>,
    /// Cuts that were recorded and not returned to a caller yet.
    pub(super) recovered: Vec<CutBytes>,
    /// Part of the segment that need not be read again on reopening.
    pub(super) verified: Option<VerifiedSegment>,
    /// Side file of the segment.
    pub(super) side: SegmentSide,
}

/// Part of a segment that was verified as written. It is not read again while the file is the same and no shorter.
#[derive(Debug)]
pub(super) struct VerifiedSegment {
    /// Handle to detect whether the file is the same. It is never written or synced.
    pub(super) file: Box<dyn DiskFile>,
    pub(super) first: u64,
    pub(super) scan: Scan,
}

impl Writer {
    pub(super) const fn is_broken(&self) -> bool {
        self.file.is_none()
    }

    /// Writes a batch and syncs it if the options say so. `frontier` is the tree after it. If that fails, everything
    /// stays unchanged, except that there is no file.
    pub(super) fn append(
        &mut self,
        disk: &dyn Disk,
        options: &LogOptions,
        batch: &mut Batch,
        frontier: &Frontier,
    ) -> Result<(), AuditError> {
        if batch.is_empty() {
            return Ok(());
        }
        if self.end >= options.segment_bytes && self.frontier.size() >= self.first {
            self.rotate(disk, options)?;
        }
        let bytes = self.end.saturating_sub(self.signed_end).saturating_add(batch.len() as u64);
        let records = frontier.size().saturating_sub(self.signed_size);
        let system = options.durability == Durability::System;
        let signed = !system || records >= options.checkpoint_every || bytes >= MAX_BATCH as u64;
        let mut note = None;
        if signed {
            let (new, line) = sign(options, frontier)?;
            batch.push_checkpoint(&line);
            note = Some(new);
        }
        let start = self.end;
        self.write(batch.bytes(), !system)?;
        self.side.add(start, batch.places(), batch.nodes());
        self.side.flush_much(disk);
        self.own.clear();
        self.frontier.clone_from(frontier);
        if let Some(note) = note {
            self.signed(note);
        }
        Ok(())
    }

    /// Writes a checkpoint after the last record, if it has none, and syncs the unsynced part.
    pub(super) fn checkpoint(&mut self, options: &LogOptions) -> Result<(), AuditError> {
        if self.frontier.size() == self.signed_size {
            // Written with the last batch; under `System` it is not synced.
            return self.write(&[], options.durability == Durability::System);
        }
        let (note, line) = sign(options, &self.frontier)?;
        self.write(&line, true)?;
        self.signed(note);
        Ok(())
    }

    fn signed(&mut self, note: String) {
        (self.signed_end, self.signed_size, self.note) = (self.end, self.frontier.size(), note);
    }

    /// Returns size and note of the last checkpoint, if it is synced.
    pub(super) fn synced_checkpoint(&self) -> Option<(u64, &str)> {
        (self.signed_end <= self.synced).then_some((self.signed_size, self.note.as_str()))
    }

    /// Fails once another writer could take a lock of that name: the folder was replaced, or the lock was deleted.
    pub(super) fn require_lock(&mut self) -> Result<(), AuditError> {
        let size = self.lock.size_in_place().map_err(AuditError::Unavailable)?;
        size.map(drop).ok_or(AuditError::LockReplaced)
    }

    /// Appends bytes. INVARIANT: `file` is `None` until everything has succeeded.
    fn write(&mut self, bytes: &[u8], sync: bool) -> Result<(), AuditError> {
        let mut file = self.file.take().ok_or(AuditError::Poisoned)?;
        // If the folder was replaced, both are gone.
        let size = file.size_in_place().map_err(AuditError::Write)?.ok_or(AuditError::Replaced)?;
        self.require_lock()?;
        if size != self.end {
            return Err(AuditError::Corrupt { at: self.end.min(size) });
        }
        if !bytes.is_empty() {
            file.write_at(self.end, bytes).map_err(AuditError::Write)?;
        }
        if sync {
            file.sync().map_err(AuditError::Write)?;
        }
        // A process that takes over the folder from here on finds all of the bytes, and does not cut them.
        self.require_lock()?;
        self.end = self.end.saturating_add(bytes.len() as u64);
        if sync {
            self.synced = self.end;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Ends the segment with a synced checkpoint, and begins the next one.
    fn rotate(&mut self, disk: &dyn Disk, options: &LogOptions) -> Result<(), AuditError> {
        self.checkpoint(options)?;
        self.side.close(disk);
        self.file = None;
        let had_cut = self.cut.is_some();
        self.begin_segment(disk).map_err(AuditError::Write)?;
        if self.cut.is_some() && !had_cut {
            // The record of the cut comes first, but the batch has its numbers already.
            self.file = None;
            return Err(AuditError::Write(io::ErrorKind::AlreadyExists.into()));
        }
        Ok(())
    }

    /// Begins a segment after the last record, which a checkpoint must count. An existing file of that name was never
    /// completed.
    pub(super) fn begin_segment(&mut self, disk: &dyn Disk) -> io::Result<()> {
        let first = self.frontier.size().saturating_add(1);
        let name = segment_name(first);
        let head = Head::new(&self.frontier, &self.note).to_line()?;
        let mut file = match disk.create(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let left = read_all(disk, &name, MAX_TAIL.saturating_add(MAX_LINE as u64))?;
                if !self.own.starts_with(&left) {
                    self.keep_cut(disk, left.strip_prefix(head.as_slice()).unwrap_or(&left))?;
                }
                let mut file = disk.open(&name)?;
                file.truncate(0)?;
                file.sync()?;
                file
            }
            other => other?,
        };
        self.own.clone_from(&head);
        file.write_at(0, &head)?;
        file.sync()?;
        disk.sync_folder()?;
        let end = head.len() as u64;
        (self.first, self.end, self.signed_end, self.synced) = (first, end, end, end);
        (self.file, self.verified) = (Some(file), None);
        self.side.begin(first, &head);
        Ok(())
    }

    /// Marks everything as synced. Adopts the batch after a failure that ends with its checkpoint, if there is one.
    pub(super) fn adopt(&mut self, batch: Option<Scan>) {
        if let Some(Scan { kept, note, .. }) = batch {
            if kept.frontier.size() > self.frontier.size() {
                // Until a cut is recorded, no other record is written.
                self.recovered.extend(self.cut.take());
            }
            (self.end, self.frontier) = (kept.end, kept.frontier);
            self.signed(note);
        }
        self.synced = self.end;
    }

    /// Saves bytes that are about to be cut, and keeps them until the cut is recorded.
    pub(super) fn keep_cut(&mut self, disk: &dyn Disk, bytes: &[u8]) -> io::Result<()> {
        if !bytes.is_empty() {
            self.cut = cut::keep(disk, self.frontier.size().saturating_add(1), bytes)?;
        }
        Ok(())
    }

    /// Records the cut, if there is one.
    pub(super) fn record_cut(
        &mut self,
        disk: &dyn Disk,
        options: &LogOptions,
        time: Timestamp,
    ) -> Result<(), AuditError> {
        let Some(CutBytes { file, bytes, digest }) = &self.cut else { return Ok(()) };
        let mut record = RecoveredRecord::new(time, *bytes, *digest);
        record.file = Some(file.as_str().into());
        let (mut batch, mut body, mut frontier) = (Batch::default(), Vec::new(), self.frontier.clone());
        record_body(&Record::Recovered(record), &mut body)?;
        batch.push(frontier.size().saturating_add(1), &body, 0);
        batch.complete(&mut frontier).map_err(|_| AuditError::TooLong)?;
        self.own.extend_from_slice(batch.bytes());
        self.append(disk, options, &mut batch, &frontier)?;
        self.recovered.extend(self.cut.take());
        Ok(())
    }
}

/// Signs a checkpoint, and returns its note and its line.
pub(super) fn sign(options: &LogOptions, frontier: &Frontier) -> Result<(String, Vec<u8>), AuditError> {
    let note = Checkpoint::new(options.origin.clone(), frontier.head()).sign(&options.key);
    let line = checkpoint_line(&note).map_err(AuditError::Write)?;
    Ok((note, line))
}
