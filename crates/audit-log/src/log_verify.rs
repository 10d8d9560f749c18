use std::path::Path;

use countersign_core::Timestamp;

use crate::segment::{Scanner, list_segments};
use crate::{Checkpoint, Disk, FolderDisk, LogError, LogKey};

/// What a log holds, once all of it was read and found to be what its checkpoints were signed for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogSummary {
    /// The last sequence number under a checkpoint.
    pub records: u64,
    /// The sequence number of the first record that is here: 1, unless older segments were archived.
    pub first_here: u64,
    /// How many segments there are.
    pub segments: u64,
    /// How many checkpoint lines there are, each with its signature verified and its root compared.
    pub checkpoints: u64,
    /// How many records come behind the last checkpoint. They were not verified: no checkpoint speaks for them.
    pub unsigned: u64,
    /// The last checkpoint.
    pub checkpoint: Checkpoint,
    /// The signed note of it.
    pub note: String,
    /// How many bytes come behind it: what is being written now, or what a crash left. No checkpoint speaks for them.
    pub tail_bytes: u64,
    /// Time of the first record that is here.
    pub first: Option<Timestamp>,
    /// Time of the last record.
    pub last: Option<Timestamp>,
    /// How many records are older than the one before them: a clock was set back, or somebody was at work.
    pub time_went_back: u64,
    /// Sequence number of the first such record.
    pub first_went_back: Option<u64>,
}

/// Reads a whole log and verifies it: heads, sequence numbers, every root and every signature.
///
/// It finds whatever is changed, removed, added or moved before the last checkpoint, and says on which line it noticed. A
/// checkpoint alone can be taken out from between others unnoticed: the next one says all that it said. A log that was cut right behind one
/// of its checkpoints, or replaced by an older copy, is only found by a checkpoint that was kept elsewhere: `known`. Whoever
/// has the log's signing key can write another log; that too is found by such a checkpoint alone.
///
/// While it is being written, the last checkpoint may be of a batch that is not synced yet. The log keeps what was read here,
/// also when the sync fails, as long as the system still shows it; but a power cut can take it, and another is then signed in
/// its place. What is given out of a log
/// in use has to be under [`Log::checkpoint`](crate::Log::checkpoint), or [`Log::last_checkpoint`](crate::Log::last_checkpoint).
///
/// Holds one line, one frontier and, at the end of the log, at most 16 MiB that no checkpoint speaks for.
///
/// # Errors
/// [`LogError`] at the first thing that is not in order.
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
    walk(&mut Scanner::new(disk, key, known.to_vec()), disk, key)
}

/// Verifies a log that may be damaged, and gives the note of the last checkpoint up to which it verifies.
pub(crate) fn survey(disk: &dyn Disk, key: &LogKey) -> (Option<String>, Result<(), LogError>) {
    let mut scanner = Scanner::new(disk, key, Vec::new());
    let result = walk(&mut scanner, disk, key).map(drop);
    (Some(scanner.note().to_owned()).filter(|note| !note.is_empty()), result)
}

fn walk(scanner: &mut Scanner<'_>, disk: &dyn Disk, key: &LogKey) -> Result<LogSummary, LogError> {
    let segments = list_segments(disk)?;
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return Err(LogError::Missing);
    };
    let mut summary: Option<LogSummary> = None;
    for segment in &segments {
        let Some(scan) = scanner.segment(*segment, segment == last)? else {
            // A crash in the making of the segment: its bytes are all there is behind the last checkpoint.
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
