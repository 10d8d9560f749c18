use std::fmt;
use std::io;

use crate::Disk;

const SUFFIX: &str = ".jsonl";

/// Returns the name of the segment that begins with that record.
pub(crate) fn segment_name(first: u64) -> String {
    format!("{first:012}{SUFFIX}")
}

/// Lists the segments in a folder by their first records, in order. Ignores other files.
pub(crate) fn list_segments(disk: &dyn Disk) -> io::Result<Vec<u64>> {
    let number = |name: String| {
        let first = name.strip_suffix(SUFFIX)?.parse().ok()?;
        (first > 0 && segment_name(first) == name).then_some(first)
    };
    let mut segments: Vec<u64> = disk.list()?.into_iter().filter_map(number).collect();
    segments.sort_unstable();
    Ok(segments)
}

/// Position of a line in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// First sequence number of the segment, as in its file name.
    pub segment: u64,
    /// Line number in the segment, from 1.
    pub line: u64,
    /// Offset of the line's first byte.
    pub byte: u64,
    /// Number of the entry on this line, or of the entry expected there. For a checkpoint, number of the last entry
    /// before it.
    pub entry: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segment, line, byte, entry } = self;
        write!(f, "line {line} of {} (entry {entry}, byte {byte})", segment_name(*segment))
    }
}
