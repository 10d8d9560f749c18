use countersign_core::Timestamp;
use countersign_merkle::Frontier;

use super::cut;
use super::keeper::{LogStart, StateKeeper};
use super::older::{Behind, Older};
use super::open_calls::OpenCalls;
use super::options::{Durability, LogOptions};
use super::recovery;
use super::reopen::write_again;
use super::side::SegmentSide;
use super::writer::{Writer, sign};
use crate::closing::CLOSING;
use crate::disk::{Disk, DiskFile};
use crate::log_files::step;
use crate::log_state::require_segments;
use crate::segment::{Scan, SegmentScanner, list_segments, read_range, segment_name};
use crate::{AuditError, Checkpoint, LogError, RebuiltSide};

/// Name of the lock file that ensures a single writer.
pub(crate) const LOCK: &str = "lock";

/// Log that is ready for writing.
pub(super) struct Opened {
    pub(super) writer: Writer,
    pub(super) calls: OpenCalls,
    pub(super) keeper: Option<StateKeeper>,
    pub(super) start: LogStart,
    /// Entries that are not verified yet.
    pub(super) older: Option<Older>,
    /// Side files that were rebuilt.
    pub(super) rebuilt: Vec<RebuiltSide>,
}

/// Takes the lock, verifies the log and compares it with its state, cuts unacknowledged bytes, and returns a writer
/// after them. `require` is called under the lock, before anything is written.
pub(super) fn open(
    disk: &dyn Disk,
    options: &LogOptions,
    mut keeper: Option<StateKeeper>,
    require: impl FnOnce() -> Result<(), AuditError>,
) -> Result<Opened, AuditError> {
    let mut lock = disk.lock(LOCK).map_err(AuditError::Unavailable)?.ok_or(AuditError::Locked)?;
    step().map_err(AuditError::Unavailable)?;
    if disk.list().map_err(AuditError::Unavailable)?.iter().any(|name| name == CLOSING) {
        return Err(AuditError::Closed);
    }
    require()?;
    // INVARIANT: this is the last check. The path still leads to the locked file, so all earlier findings are of this
    // folder. A retirement writes its note before it looks for locks.
    if lock.size_in_place().map_err(AuditError::Unavailable)?.is_none() {
        return Err(AuditError::Replaced);
    }
    let key = options.log_key();
    let verified = options.known.iter().map(|note| Checkpoint::verify(note, &key));
    let mut known = verified.collect::<Result<Vec<_>, _>>().map_err(LogError::Known)?;

    let segments = list_segments(disk).map_err(AuditError::Unavailable)?;
    let kept = keeper.as_ref().map(StateKeeper::known).transpose()?.flatten();
    known.extend(kept.iter().map(|kept| kept.checkpoint.clone()));
    let of_state = kept.as_ref().map_or(Ok(()), |kept| require_segments(kept, segments.first().copied()));
    let behind = kept.as_ref().filter(|_| options.verifies_later && of_state.is_ok());
    let behind = behind.and_then(|kept| Behind::find(disk, &key, &segments, &kept.checkpoint, &known));
    // On any fault there, a scan of the whole log reports its place.
    let behind = behind.and_then(|behind| {
        let found = scan_behind(&segments, SegmentScanner::new(disk, &key, known.clone()), &behind).ok()?;
        Some((behind, found))
    });
    let (scanned, older, mut rebuilt, synced) = match behind {
        Some((Behind { segment, mark, older, rebuilt, .. }, end)) => {
            // The state names only synced data.
            let synced = if segment == end.0 { mark.end } else { 0 };
            (Ok(Some(end)), Some(older), rebuilt, synced)
        }
        None => {
            let scanned = of_state.and_then(|()| scan(&segments, SegmentScanner::new(disk, &key, known)));
            (scanned, None, Vec::new(), 0)
        }
    };
    let end = scanned.map_err(|error| match (&keeper, &kept) {
        (Some(keeper), Some(kept)) => keeper.explain(error, kept),
        _ => error.into(),
    })?;
    let unbegun = segments.last().filter(|last| end.as_ref().is_none_or(|(first, _)| first != *last));
    let (mut writer, time) = match &end {
        Some((first, scan)) => (resume(disk, options, *first, scan, synced, lock)?, scan.kept.times.last),
        None => (begin(disk, options, lock)?, None),
    };
    if unbegun.is_some() || end.is_none() {
        // The segment before it, if there is one, ends with a checkpoint.
        writer.begin_segment(disk).map_err(AuditError::Write)?;
    }
    if let (Some((first, _)), None) = (&end, unbegun) {
        let (side, anew) = SegmentSide::resume(disk, *first, &writer.frontier, options.side_from);
        writer.side = side;
        rebuilt.extend(anew);
    }
    let time = options.opened_at.or(time).unwrap_or(Timestamp::EPOCH);
    writer.record_cut(disk, options, time)?;
    let calls = recovery::recover(disk, options, &mut writer, kept.as_ref(), time)?;
    step().map_err(AuditError::Unavailable)?;
    if let Some(keeper) = &mut keeper {
        keeper.begin(segments.first().copied().unwrap_or(1), &writer, &calls)?;
    }
    let start = match (segments.is_empty(), &keeper, &kept) {
        (true, ..) => LogStart::Begun,
        (false, Some(_), None) => LogStart::Adopted,
        (false, ..) => LogStart::Resumed,
    };
    Ok(Opened { writer, calls, keeper, start, older, rebuilt })
}

/// Reads all segments; returns the last one that was begun.
fn scan(segments: &[u64], mut scanner: SegmentScanner<'_>) -> Result<Option<(u64, Scan)>, LogError> {
    let mut end: Option<(u64, Scan)> = None;
    for segment in segments {
        let scan = scanner.segment(*segment, Some(segment) == segments.last())?;
        end = scan.map(|scan| (*segment, scan)).or(end);
    }
    scanner.finish(end.as_ref().map_or(0, |(_, scan)| scan.kept.frontier.size()))?;
    Ok(end)
}

/// As [`scan`], starting at the checkpoint of the log's state.
fn scan_behind(
    segments: &[u64],
    mut scanner: SegmentScanner<'_>,
    behind: &Behind,
) -> Result<(u64, Scan), LogError> {
    let Behind { segment, mark, note, .. } = behind;
    let is_last = |first: u64| segments.last() == Some(&first);
    let mut end = (*segment, scanner.segment_behind(*segment, is_last(*segment), mark, note)?);
    for first in segments.iter().filter(|first| *first > segment) {
        if let Some(scan) = scanner.segment(*first, is_last(*first))? {
            end = (*first, scan);
        }
    }
    scanner.finish(end.1.kept.frontier.size())?;
    Ok(end)
}

/// Begins a log: its first checkpoint counts no records, and its first segment does not exist yet.
fn begin(disk: &dyn Disk, options: &LogOptions, lock: Box<dyn DiskFile>) -> Result<Writer, AuditError> {
    let (frontier, (note, _)) = (Frontier::new(), sign(options, &Frontier::new())?);
    let (signed_end, signed_size) = (0, 0);
    Ok(Writer {
        lock,
        file: None,
        first: 1,
        end: 0,
        frontier,
        signed_end,
        signed_size,
        note,
        synced: 0,
        cut: cut::keep(disk, 1, &[]).map_err(AuditError::Unavailable)?,
        own: Vec::new(),
        recovered: Vec::new(),
        verified: None,
        side: SegmentSide::off(options.side_from),
    })
}

/// Resumes after the verified part.
fn resume(
    disk: &dyn Disk,
    options: &LogOptions,
    first: u64,
    scan: &Scan,
    known_synced: u64,
    lock: Box<dyn DiskFile>,
) -> Result<Writer, AuditError> {
    let system = options.durability == Durability::System;
    let kept = if system { &scan.whole } else { &scan.kept };
    let cut = read_range(disk, first, kept.end, scan.size)?;
    let mut file = disk.open(&segment_name(first)).map_err(AuditError::Unavailable)?;
    let kept_cut =
        cut::keep(disk, kept.frontier.size().saturating_add(1), &cut).map_err(AuditError::Write)?;
    if !cut.is_empty() {
        file.truncate(kept.end).map_err(AuditError::Write)?;
    }
    // A read may return data that a process wrote but could not sync, and that is not on the disk; syncing it now would
    // do nothing. Only the last batch can be in that state, and under `System` the whole segment. It is written again.
    write_again(disk, &mut *file, first, if system { known_synced } else { scan.batch }, kept.end)?;
    file.sync().map_err(AuditError::Write)?;
    disk.sync_folder().map_err(AuditError::Write)?;
    Ok(Writer {
        lock,
        file: Some(file),
        first,
        end: kept.end,
        frontier: kept.frontier.clone(),
        signed_end: scan.kept.end,
        signed_size: scan.kept.frontier.size(),
        note: scan.note.clone(),
        synced: kept.end,
        cut: kept_cut,
        own: Vec::new(),
        recovered: Vec::new(),
        verified: None,
        side: SegmentSide::off(options.side_from),
    })
}
