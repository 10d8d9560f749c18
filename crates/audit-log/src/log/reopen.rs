use std::io;

use countersign_core::Timestamp;

use super::options::LogOptions;
use super::writer::{VerifiedSegment, Writer};
use crate::disk::{Disk, DiskFile};
use crate::segment::{MAX_TAIL, Scan, SegmentScanner, list_segments, read_range, segment_name};
use crate::{AuditError, LogError, Place};

/// Bytes rewritten at once.
const CHUNK: u64 = 64 << 10;

/// Continues after a failure, in a new segment, after the acknowledged records, or after a whole batch that follows
/// them.
///
/// INVARIANT: a checkpoint that reads return is not cut, even if its callers were refused: a reader may have seen it.
/// It is written again and synced with its batch, because data that a read returns may not be on the disk.
///
/// `last` is set to the number of the record after which the log continues, even if recording the cut fails.
pub(super) fn reopen(
    disk: &dyn Disk,
    options: &LogOptions,
    writer: &mut Writer,
    time: Timestamp,
    last: &mut Option<u64>,
) -> Result<(), AuditError> {
    let (first, name) = (writer.first, segment_name(writer.first));
    let size = disk.size(&name).map_err(unavailable)?;
    writer.require_lock()?;
    // At most one batch can follow, and no more than that is read into memory.
    if size.saturating_sub(writer.end) > MAX_TAIL {
        return Err(AuditError::Corrupt { at: writer.end });
    }
    let key = options.log_key();
    let mut scanner = SegmentScanner::new(disk, &key, Vec::new());
    // A segment with only a head is created again, also if an attempt to do so failed.
    let scan = match verify(disk, &mut scanner, writer, size) {
        Ok(mut scan) => {
            scanner.go_on(first, &mut scan, size)?;
            Some(scan)
        }
        Err(AuditError::Corrupt { .. } | AuditError::Log(_)) if first > writer.frontier.size() => None,
        Err(error) => return Err(error),
    };
    let kept = scan.filter(|scan| scan.kept.end > writer.end);
    let records = kept.as_ref().map_or(writer.frontier.size(), |scan| scan.kept.frontier.size());
    let (due, end) = (records.saturating_add(1), kept.as_ref().map_or(writer.end, |scan| scan.kept.end));
    require_last(disk, first, due)?;

    let mut file = disk.open(&name).map_err(unavailable)?;
    if end > writer.synced {
        write_again(disk, &mut *file, first, writer.synced, end)?;
        file.sync().map_err(AuditError::Unavailable)?;
        writer.adopt(kept);
    }
    if first != due {
        writer.keep_cut(disk, &read_range(disk, first, end.min(size), size)?).map_err(unavailable)?;
        // Also if there is nothing left to cut: an earlier cut may have failed to sync.
        file.truncate(end).map_err(AuditError::Unavailable)?;
        file.sync().map_err(AuditError::Unavailable)?;
        writer.file = Some(file);
        writer.checkpoint(options)?;
    }
    writer.begin_segment(disk).map_err(AuditError::Unavailable)?;
    // why: the record of the cut takes the next number, which a refused record had before.
    *last = Some(records);
    writer.record_cut(disk, options, time)
}

/// Verifies that the segment equals the written data, up to the acknowledged end.
fn verify(
    disk: &dyn Disk,
    scanner: &mut SegmentScanner<'_>,
    writer: &mut Writer,
    size: u64,
) -> Result<Scan, AuditError> {
    if size < writer.end {
        return Err(AuditError::Corrupt { at: size });
    }
    // Unsynced data may have been lost since: a read returns it only until the system drops its pages.
    let synced = |verified: &VerifiedSegment| verified.scan.whole.end <= writer.synced;
    let mut before = writer.verified.take().filter(|it| it.first == writer.first && synced(it));
    if let Some(verified) = &mut before
        && verified.file.size_in_place().map_err(AuditError::Unavailable)?.is_none()
    {
        before = None;
    }
    let verified = if let Some(mut verified) = before {
        scanner.go_on(writer.first, &mut verified.scan, writer.end)?;
        verified
    } else {
        let file = disk.open(&segment_name(writer.first)).map_err(unavailable)?;
        let scan = scanner.segment_upto(writer.first, true, writer.end)?;
        VerifiedSegment {
            file,
            first: writer.first,
            scan: scan.ok_or(AuditError::Corrupt { at: writer.end })?,
        }
    };
    let scan = verified.scan.clone();
    if scan.kept.end != writer.signed_end
        || scan.whole.end != writer.end
        || scan.whole.frontier != writer.frontier
    {
        return Err(AuditError::Corrupt { at: writer.end });
    }
    writer.verified = Some(verified);
    Ok(scan)
}

/// Requires the segment to be the last one. Of later segments, only the next can be this writer's, half-created.
fn require_last(disk: &dyn Disk, first: u64, due: u64) -> Result<(), AuditError> {
    let segments = list_segments(disk).map_err(AuditError::Unavailable)?;
    if segments.iter().any(|segment| *segment > first && *segment != due) {
        return Err(LogError::Gap(Place { segment: due, line: 1, byte: 0, entry: due }).into());
    }
    Ok(())
}

/// Rewrites the bytes that reads return, at the same offsets.
pub(super) fn write_again(
    disk: &dyn Disk,
    file: &mut dyn DiskFile,
    segment: u64,
    from: u64,
    to: u64,
) -> Result<(), AuditError> {
    let mut at = from;
    while at < to {
        let bytes = read_range(disk, segment, at, to.min(at.saturating_add(CHUNK)))?;
        if bytes.is_empty() {
            return Err(AuditError::Corrupt { at });
        }
        file.write_at(at, &bytes).map_err(AuditError::Unavailable)?;
        at = at.saturating_add(bytes.len() as u64);
    }
    Ok(())
}

fn unavailable(error: io::Error) -> AuditError {
    if error.kind() == io::ErrorKind::NotFound {
        AuditError::Replaced
    } else {
        AuditError::Unavailable(error)
    }
}
