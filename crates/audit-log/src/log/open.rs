use std::io;

use countersign_core::Timestamp;
use countersign_merkle::Frontier;

use super::options::{Durability, LogOptions};
use super::writer::{Writer, sign};
use crate::disk::{Disk, DiskFile};
use crate::segment::{MAX_TAIL, Scan, Scanner, list_segments, read_range, segment_name};
use crate::{AuditError, Checkpoint, LogError, Place};

/// Name of the file whose lock makes one writer.
const LOCK: &str = "lock";

/// Takes the lock, verifies what is there, cuts what nobody was told of, and stands ready behind it.
pub(super) fn open(disk: &dyn Disk, options: &LogOptions) -> Result<Writer, AuditError> {
    let mut lock = disk.lock(LOCK).map_err(AuditError::Unavailable)?.ok_or(AuditError::Locked)?;
    // Another writer may have moved it between opening and locking.
    if !lock.is_in_place().map_err(AuditError::Unavailable)? {
        return Err(AuditError::Replaced);
    }
    let key = options.log_key();
    let verified = options.known.iter().map(|note| Checkpoint::verify(note, &key));
    let known = verified.collect::<Result<Vec<_>, _>>().map_err(LogError::Known)?;

    let segments = list_segments(disk).map_err(AuditError::Unavailable)?;
    let mut scanner = Scanner::new(disk, &key, known);
    let mut end: Option<(u64, Scan)> = None;
    for segment in &segments {
        let scan = scanner.segment(*segment, Some(segment) == segments.last())?;
        end = scan.map(|scan| (*segment, scan)).or(end);
    }
    scanner.finish(end.as_ref().map_or(0, |(_, scan)| scan.kept.frontier.size()))?;
    let unbegun = segments.last().filter(|last| end.as_ref().is_none_or(|(first, _)| first != *last));
    let left = unbegun.map(|last| read_range(disk, *last, 0, MAX_TAIL)).transpose()?.unwrap_or_default();
    let (mut writer, time) = match &end {
        Some((first, scan)) => (resume(disk, options, *first, scan, lock)?, scan.kept.times.last),
        None => (begin(options, lock)?, None),
    };
    if unbegun.is_some() || end.is_none() {
        // The segment before it, where there is one, was found to end with a checkpoint.
        writer.note_cut(&left);
        writer.begin_segment(disk).map_err(AuditError::Write)?;
    }
    writer.record_cut(disk, options, options.opened_at.or(time).unwrap_or(Timestamp::EPOCH))?;
    Ok(writer)
}

/// Begins a log: its first checkpoint is of no records, and its first segment is still to be begun.
fn begin(options: &LogOptions, lock: Box<dyn DiskFile>) -> Result<Writer, AuditError> {
    let (frontier, (note, _)) = (Frontier::new(), sign(options, &Frontier::new())?);
    let (signed_end, signed_size) = (0, 0);
    Ok(Writer { lock, file: None, first: 1, end: 0, frontier, signed_end, signed_size, note, cut: None })
}

/// Goes on behind what was verified.
fn resume(
    disk: &dyn Disk,
    options: &LogOptions,
    first: u64,
    scan: &Scan,
    lock: Box<dyn DiskFile>,
) -> Result<Writer, AuditError> {
    let kept = if options.durability == Durability::System { &scan.whole } else { &scan.kept };
    // What a process wrote and could not sync may be what a read shows now, and not be on the disk; a sync of it would then
    // do nothing. Only the last batch can be like that. It is written again.
    let last = read_range(disk, first, scan.batch, kept.end)?;
    let cut = read_range(disk, first, kept.end, scan.size)?;
    let mut file = disk.open(&segment_name(first)).map_err(AuditError::Unavailable)?;
    if !cut.is_empty() {
        file.truncate(kept.end).map_err(AuditError::Write)?;
    }
    file.write_at(scan.batch, &last).map_err(AuditError::Write)?;
    file.sync().map_err(AuditError::Write)?;
    disk.sync_folder().map_err(AuditError::Write)?;
    let mut writer = Writer {
        lock,
        file: Some(file),
        first,
        end: kept.end,
        frontier: kept.frontier.clone(),
        signed_end: scan.kept.end,
        signed_size: scan.kept.frontier.size(),
        note: scan.note.clone(),
        cut: None,
    };
    writer.note_cut(&cut);
    Ok(writer)
}

/// Goes on after a failure: behind what was acknowledged, whatever a read shows now, in a new segment.
pub(super) fn reopen(
    disk: &dyn Disk,
    options: &LogOptions,
    writer: &mut Writer,
    time: Timestamp,
) -> Result<(), AuditError> {
    writer.require_lock()?;
    let due = writer.frontier.size().saturating_add(1);
    let segments = list_segments(disk).map_err(AuditError::Unavailable)?;
    // Of the segments behind the last one that counts, only the next can be ours: it was being made.
    let next = segments.iter().find(|segment| **segment > writer.first);
    if next.is_some_and(|next| *next != due) || segments.last().is_some_and(|last| *last > due) {
        return Err(LogError::Gap(Place { segment: due, line: 1, byte: 0 }).into());
    }
    let size = disk.size(&segment_name(writer.first)).map_err(unavailable)?;
    if size.saturating_sub(writer.end) > MAX_TAIL {
        return Err(AuditError::Corrupt { at: writer.end });
    }
    writer.note_cut(&read_range(disk, writer.first, writer.end.min(size), size)?);
    // A segment with nothing but a head in it is made again from the start.
    if writer.first != due {
        end_segment(disk, options, writer, size)?;
    }
    let began = writer.begin_segment(disk).map_err(AuditError::Unavailable);
    began.and_then(|()| writer.record_cut(disk, options, time))
}

/// Cuts a segment to what was acknowledged, which must still be there, and puts a checkpoint behind it if there is none.
fn end_segment(
    disk: &dyn Disk,
    options: &LogOptions,
    writer: &mut Writer,
    size: u64,
) -> Result<(), AuditError> {
    if size < writer.end {
        return Err(AuditError::Corrupt { at: size });
    }
    let mut file = disk.open(&segment_name(writer.first)).map_err(unavailable)?;
    // Also where there is nothing to cut any more: it may have been cut before, and the sync of that have failed.
    file.truncate(writer.end).map_err(AuditError::Unavailable)?;
    file.sync().map_err(AuditError::Unavailable)?;
    verify(disk, options, writer)?;
    writer.file = Some(file);
    writer.checkpoint(options)
}

/// Makes sure that the segment is what was written to it, up to what was acknowledged.
fn verify(disk: &dyn Disk, options: &LogOptions, writer: &Writer) -> Result<(), AuditError> {
    let key = options.log_key();
    let scan = Scanner::new(disk, &key, Vec::new()).segment_upto(writer.first, true, writer.end)?;
    let same = scan.is_some_and(|scan| {
        scan.kept.end == writer.signed_end
            && scan.whole.end == writer.end
            && scan.whole.frontier == writer.frontier
    });
    if same { Ok(()) } else { Err(AuditError::Corrupt { at: writer.end }) }
}

fn unavailable(error: io::Error) -> AuditError {
    if error.kind() == io::ErrorKind::NotFound {
        AuditError::Replaced
    } else {
        AuditError::Unavailable(error)
    }
}
