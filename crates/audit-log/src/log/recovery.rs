use std::io::{BufRead as _, BufReader};

use countersign_core::Timestamp;
use memchr::memmem;

use super::batch::{Batch, MAX_BATCH};
use super::open_calls::OpenCalls;
use super::options::{Durability, LogOptions};
use super::writer::Writer;
use crate::disk::Disk;
use crate::line::parse_line;
use crate::line::record_body;
use crate::segment::{is_checkpoint, list_segments, segment_name};
use crate::{
    AuditError, GapRecord, KnownLog, LogError, OutcomeBy, OutcomeKind, OutcomeRecord, Place, Record,
};

/// Bytes read at once.
const BUFFER: usize = 256 << 10;

/// Records the remains of earlier processes: the gap in the state, and an unknown outcome for each accepted decision
/// without an outcome. Those processes have ended: the caller has the log's lock and has written nothing yet.
///
/// Reads the log from the number up to which, by the state, all decisions have an outcome. These entries are verified
/// already, or will be after the first answer.
pub(super) fn recover(
    disk: &dyn Disk,
    options: &LogOptions,
    writer: &mut Writer,
    known: Option<&KnownLog>,
    time: Timestamp,
) -> Result<OpenCalls, AuditError> {
    let (mut calls, size) = (OpenCalls::default(), writer.frontier.size());
    let settled = known.map_or(0, |known| known.settled);
    let mut gap = known.and_then(|known| Some((known.checkpoint.size(), known.gap.clone()?)));
    // If the last process ended normally, there is nothing to read.
    let last = if settled < size { u64::MAX } else { 0 };
    entries(disk, settled, last, |seq, line| {
        match Trace::of(line) {
            Trace::Accepted => calls.accepted(seq),
            Trace::Ended(decision) => calls.ended(decision),
            Trace::Gap => {
                // The state was saved before this entry, and not since.
                let is_this = |gap: &GapRecord| matches!(parse_line(line), Some((_, Record::Gap(it))) if it.from == gap.from);
                gap.take_if(|(size, gap)| seq > *size && is_this(gap));
            }
            Trace::Other => {}
        }
        Ok(())
    })?;
    let mut batch = Batch::default();
    if let Some((_, mut gap)) = gap {
        gap.time = time.max(gap.to);
        push(&mut batch, writer, &Record::Gap(gap))?;
        append(disk, options, writer, &mut batch)?;
    }
    let open = calls.take();
    if let (Some(first), Some(last)) = (open.first(), open.last()) {
        entries(disk, first.saturating_sub(1), *last, |seq, line| {
            if !open.contains(&seq) {
                return Ok(());
            }
            push(&mut batch, writer, &unknown(seq, line, time)?)?;
            if batch.len() < MAX_BATCH { Ok(()) } else { append(disk, options, writer, &mut batch) }
        })?;
        append(disk, options, writer, &mut batch)?;
    }
    if options.durability == Durability::System && writer.frontier.size() > size {
        // From here on the state may count these records.
        writer.checkpoint(options)?;
    }
    Ok(calls)
}

/// Returns the unknown outcome of the decision on this line.
fn unknown(seq: u64, line: &[u8], time: Timestamp) -> Result<Record, AuditError> {
    let Some((_, Record::Decision(call))) = parse_line(line) else {
        return Err(LogError::Malformed(Place { segment: 0, line: 0, byte: 0, entry: seq }).into());
    };
    Ok(Record::Outcome(OutcomeRecord {
        time: time.max(call.time),
        session: call.session,
        call_id: call.call_id,
        decision: seq,
        outcome: OutcomeKind::Unknown,
        duration_ms: None,
        code: None,
        by: Some(OutcomeBy::Recovery),
    }))
}

fn push(batch: &mut Batch, writer: &Writer, record: &Record) -> Result<(), AuditError> {
    let mut body = Vec::new();
    record_body(record, &mut body)?;
    let size = writer.frontier.size().saturating_add(batch.due());
    batch.push(size.saturating_add(1), &body, 0);
    Ok(())
}

fn append(
    disk: &dyn Disk,
    options: &LogOptions,
    writer: &mut Writer,
    batch: &mut Batch,
) -> Result<(), AuditError> {
    let mut frontier = writer.frontier.clone();
    batch.complete(&mut frontier).map_err(|_| AuditError::TooLong)?;
    writer.append(disk, options, batch, &frontier)?;
    batch.clear();
    Ok(())
}

/// Part of an entry that shows the remains of an earlier process. Entries have one spelling, and a quote inside a text
/// always follows a backslash, so a match is never part of a text.
enum Trace {
    Accepted,
    Gap,
    /// Outcome of the decision with that number.
    Ended(u64),
    Other,
}

impl Trace {
    fn of(line: &[u8]) -> Self {
        let kind = line.iter().position(|byte| *byte == b',').and_then(|comma| line.get(comma..));
        let kind = kind.unwrap_or_default();
        if kind.starts_with(b",\"type\":\"decision\"") {
            let accepts = memmem::find(kind, b",\"verdict\":\"accept\"").is_some();
            if accepts { Self::Accepted } else { Self::Other }
        } else if kind.starts_with(b",\"type\":\"outcome\"") {
            number_behind(kind, b",\"decision\":").map_or(Self::Other, Self::Ended)
        } else if kind.starts_with(b",\"type\":\"gap\"") {
            Self::Gap
        } else {
            Self::Other
        }
    }
}

fn number_behind(line: &[u8], member: &[u8]) -> Option<u64> {
    let rest = line.get(memmem::find(line, member)?.saturating_add(member.len())..)?;
    let digits = rest.split(|byte| !byte.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Reads the entries after number `behind` up to number `last`, each with its number.
fn entries(
    disk: &dyn Disk,
    behind: u64,
    last: u64,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), AuditError>,
) -> Result<(), AuditError> {
    if last <= behind {
        return Ok(());
    }
    let segments = list_segments(disk).map_err(AuditError::Unavailable)?;
    let is_behind = segments.partition_point(|first| *first <= behind.saturating_add(1));
    let mut line = Vec::new();
    for first in segments.iter().skip(is_behind.saturating_sub(1)) {
        let input = disk.read(&segment_name(*first), 0).map_err(AuditError::Unavailable)?;
        let mut input = BufReader::with_capacity(BUFFER, input);
        // The head is not an entry.
        let mut seq = *first;
        for is_head in std::iter::once(true).chain(std::iter::repeat(false)) {
            line.clear();
            let read = input.read_until(b'\n', &mut line).map_err(AuditError::Unavailable)?;
            if read == 0 {
                break;
            }
            if is_head || is_checkpoint(&line) {
                continue;
            }
            if seq > last {
                return Ok(());
            }
            if seq > behind {
                take(seq, line.strip_suffix(b"\n").unwrap_or(&line))?;
            }
            seq = seq.saturating_add(1);
        }
    }
    Ok(())
}
