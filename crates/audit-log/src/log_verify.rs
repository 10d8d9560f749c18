use std::path::Path;

use countersign_core::Timestamp;

use crate::segment::{SegmentScanner, list_segments};
use crate::{Checkpoint, Disk, FolderDisk, LogError, LogKey};

/// Contents of a log whose every line was read and verified under its checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSummary {
    /// Last sequence number under a checkpoint.
    pub records: u64,
    /// Sequence number of the first record in the folder: 1, unless older segments were archived.
    pub first_here: u64,
    /// Number of segments.
    pub segments: u64,
    /// Number of checkpoint lines. Each signature was verified and each root compared.
    pub checkpoints: u64,
    /// Number of records after the last checkpoint. They are not verified, because no checkpoint covers them.
    pub unsigned: u64,
    /// The last checkpoint.
    pub checkpoint: Checkpoint,
    /// Signed note of the last checkpoint.
    pub note: String,
    /// Number of bytes after it: the current write, or the remains of a crash. No checkpoint covers them.
    pub tail_bytes: u64,
    /// Time of the first record in the folder.
    pub first: Option<Timestamp>,
    /// Time of the last record.
    pub last: Option<Timestamp>,
    /// Number of records with a time before that of the record before them: a clock was set back, or someone tampered.
    pub time_went_back: u64,
    /// Sequence number of the first such record.
    pub first_went_back: Option<u64>,
}

/// Reads a whole log and verifies it: heads, sequence numbers, every root and every signature.
///
/// It finds every change, removal, insertion or move before the last checkpoint, and names the line where it noticed.
/// One exception: a checkpoint between others can be removed unnoticed, because the next one covers the same lines. If
/// a log was cut directly after a checkpoint, or replaced by an older copy, only a checkpoint kept elsewhere (`known`)
/// reveals it. The same holds for another log written by a holder of the signing key.
///
/// While the log is being written, the last checkpoint may belong to a batch that is not synced yet. If that sync
/// fails, the log still keeps the lines that a reader saw, as long as the system returns them. A power cut can lose
/// them, and another checkpoint is then signed in their place. So before results of a log in use are published, they
/// have to be under [`Log::checkpoint`](crate::Log::checkpoint) or
/// [`Log::last_checkpoint`](crate::Log::last_checkpoint).
///
/// Holds one line, one frontier and, at the end of the log, at most 16 MiB that no checkpoint covers.
///
/// # Errors
/// [`LogError`] at the first fault.
pub fn verify_log(
    folder: impl AsRef<Path>,
    key: &LogKey,
    known: &[Checkpoint],
) -> Result<LogSummary, LogError> {
    verify_disk(&FolderDisk::existing(folder)?, key, known)
}

/// As [`verify_log`], on any disk.
///
/// # Errors
/// As [`verify_log`].
pub fn verify_disk(disk: &dyn Disk, key: &LogKey, known: &[Checkpoint]) -> Result<LogSummary, LogError> {
    walk(&mut SegmentScanner::new(disk, key, known.to_vec()), disk, key)
}

/// Verifies a log that may be damaged, and returns the note of the last checkpoint up to which it verifies.
pub(crate) fn survey(disk: &dyn Disk, key: &LogKey) -> (Option<String>, Result<(), LogError>) {
    let mut scanner = SegmentScanner::new(disk, key, Vec::new());
    let result = walk(&mut scanner, disk, key).map(drop);
    (Some(scanner.note().to_owned()).filter(|note| !note.is_empty()), result)
}

fn walk(scanner: &mut SegmentScanner<'_>, disk: &dyn Disk, key: &LogKey) -> Result<LogSummary, LogError> {
    let segments = list_segments(disk)?;
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return Err(LogError::Missing);
    };
    let mut summary: Option<LogSummary> = None;
    for segment in &segments {
        let Some(scan) = scanner.segment(*segment, segment == last)? else {
            // A crash while the segment was created: its bytes are all that follow the last checkpoint.
            let size = disk.size(&crate::segment::segment_name(*segment))?;
            if let Some(summary) = &mut summary {
                summary.tail_bytes = summary.tail_bytes.saturating_add(size);
            }
            continue;
        };
        let times = scan.kept.times;
        summary = Some(LogSummary {
            records: scan.kept.frontier.size(),
            first_here: *first,
            segments: segments.len() as u64,
            checkpoints: scanner.checkpoints,
            unsigned: scan.whole.frontier.size().saturating_sub(scan.kept.frontier.size()),
            checkpoint: Checkpoint::new(key.origin().clone(), scan.kept.frontier.head()),
            note: scan.note,
            tail_bytes: scan.size.saturating_sub(scan.kept.end),
            first: times.first,
            last: times.last,
            time_went_back: times.went_back,
            first_went_back: times.first_went_back,
        });
    }
    let summary = summary.ok_or(LogError::Missing)?;
    scanner.finish(summary.records)?;
    Ok(summary)
}
