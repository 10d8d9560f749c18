use std::io;
use std::path::Path;
use std::sync::Arc;

use countersign_merkle::{Frontier, TreeHead};

use crate::segment::list_segments;
use crate::side_files::SideFiles;
use crate::{Disk, FolderDisk, LogEntries, LogError, RebuiltSide, read_disk};

/// Records of a log after a known part of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct LogBehind {
    /// The records, and the tree of the records before them. `None` if the log does not continue from the known part,
    /// or if that part ends before the first segment in the folder.
    pub found: Option<(LogEntries, Frontier)>,
    /// Side files that were missing, short or wrong and have been rebuilt.
    pub rebuilt: Vec<RebuiltSide>,
}

/// Opens a log for reading after its first `known.size()` records, found by the side files. A writer may append at the
/// same time. An empty tree stands for the archived part: reading begins with the first record in the folder.
///
/// The root proves that the log begins with the known part. The records are not verified: append their leaves to the
/// tree, and compare its head with a checkpoint's.
///
/// # Errors
/// [`LogError`] if the folder cannot be read or holds no log.
pub fn read_log_behind(folder: impl AsRef<Path>, known: &TreeHead) -> Result<LogBehind, LogError> {
    let (disk, mut rebuilt) = (FolderDisk::existing(folder)?, Vec::new());
    let segments = list_segments(&disk)?;
    if segments.is_empty() {
        return Err(LogError::Missing);
    }
    let found = match SideFiles::new(&disk, segments.clone(), known.size()) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
        sides => {
            let mut sides = sides?;
            let mut found = find(&disk, &mut sides, &segments, known);
            // A side file may be wrong. If one is, it is rebuilt, and the log is asked again.
            if found.is_none() && known.size() >= sides.archived() && sides.rebuild(&disk).is_ok() {
                found = find(&disk, &mut sides, &segments, known);
            }
            rebuilt = sides.take_rebuilt();
            found
        }
    };
    let found = match found {
        None => None,
        Some((frontier, None)) => Some((read_disk(disk)?, frontier)),
        Some((frontier, Some((segment, byte)))) => {
            let due = known.size().saturating_add(1);
            Some((LogEntries::from_place(Arc::new(disk), &segments, segment, byte, due)?, frontier))
        }
    };
    Ok(LogBehind { found, rebuilt })
}

/// Returns the tree of the known part, and the place after its last record. Without a place, the known part ends before
/// the first segment.
fn find(
    disk: &dyn Disk,
    sides: &mut SideFiles,
    segments: &[u64],
    known: &TreeHead,
) -> Option<(Frontier, Option<(u64, u64)>)> {
    let archived = sides.archived();
    let size = if known.size() == 0 { archived } else { known.size() };
    if size < archived {
        return None;
    }
    let frontier = sides.nodes(disk).frontier(size).ok()?;
    if known.size() > 0 && frontier.head() != *known {
        return None;
    }
    if size == archived {
        return Some((frontier, None));
    }
    let (_, byte) = sides.line_and_end(disk, size).ok()?;
    let at = segments.partition_point(|first| *first <= size);
    let segment = *segments.get(at.checked_sub(1)?)?;
    Some((frontier, Some((segment, byte))))
}
