use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use countersign_merkle::LeafHash;

use crate::line::parse_line;
use crate::segment::{Head, MAX_LINE, is_checkpoint, list_segments, segment_name};
use crate::{Disk, FolderDisk, LogError, Place, Record};

/// One record line of a log, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    seq: u64,
    line: Vec<u8>,
    record: Record,
}

impl LogEntry {
    pub(crate) const fn new(seq: u64, line: Vec<u8>, record: Record) -> Self {
        Self { seq, line, record }
    }

    /// The record's sequence number.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// Exact bytes of the line, without its newline: the input of the leaf hash.
    #[must_use]
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// The record.
    #[must_use]
    pub const fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the record and drops the line.
    #[must_use]
    pub fn into_record(self) -> Record {
        self.record
    }

    /// Leaf of the log's tree, at index `seq - 1`.
    #[must_use]
    pub fn leaf(&self) -> LeafHash {
        LeafHash::of(&self.line)
    }
}

/// Opens a log for reading from its first segment, record by record. A writer may append at the same time.
///
/// # Errors
/// [`LogError`] if the folder cannot be read or holds no log.
pub fn read_log(folder: impl AsRef<Path>) -> Result<LogEntries, LogError> {
    read_disk(FolderDisk::existing(folder)?)
}

/// As [`read_log`], on any disk.
///
/// # Errors
/// As [`read_log`].
pub fn read_disk(disk: impl Disk + 'static) -> Result<LogEntries, LogError> {
    let mut segments = list_segments(&disk)?;
    let due = *segments.first().ok_or(LogError::Missing)?;
    segments.reverse();
    let (disk, place) = (Arc::new(disk), Place { segment: due, line: 0, byte: 0, entry: due });
    Ok(LogEntries { disk, segments, input: None, place, due, last: None, over: false })
}

/// Iterator over the records of a log in order, across its segments. It checks that the sequence numbers are
/// consecutive and verifies nothing else: use [`verify_log`](crate::verify_log) for that. It ends after the first
/// error. It holds one line in memory.
///
/// A last line without a newline ends the iteration: it is still being written, or was torn.
pub struct LogEntries {
    disk: Arc<dyn Disk>,
    /// Segments still to be read, the next one last.
    segments: Vec<u64>,
    input: Option<BufReader<Box<dyn Read + Send>>>,
    place: Place,
    due: u64,
    /// Last record to read, which must exist; `None` reads all.
    last: Option<u64>,
    over: bool,
}

impl std::fmt::Debug for LogEntries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogEntries")
            .field("disk", &self.disk)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

impl LogEntries {
    /// Reads from one record to another, which must exist. `place` is the segment and offset of the first one; without
    /// it there are no records.
    pub(crate) fn between(
        disk: Arc<dyn Disk>,
        mut segments: Vec<u64>,
        place: Option<(u64, u64)>,
        first: u64,
        last: u64,
    ) -> io::Result<Self> {
        let (segment, byte) = place.unwrap_or_default();
        segments.retain(|begin| *begin > segment && *begin <= last);
        segments.reverse();
        let open = |(segment, byte)| {
            let input = disk.read(&segment_name(segment), byte)?;
            Ok::<_, io::Error>(BufReader::with_capacity(64 << 10, input))
        };
        let input = place.map(open).transpose()?;
        let (over, place) = (input.is_none(), Place { segment, line: 0, byte, entry: first });
        Ok(Self { disk, segments, input, place, due: first, last: Some(last), over })
    }

    /// Reads from an offset in a segment where the record `due` begins, or checkpoints before it.
    pub(crate) fn from_place(
        disk: Arc<dyn Disk>,
        segments: &[u64],
        segment: u64,
        byte: u64,
        due: u64,
    ) -> Result<Self, LogError> {
        let input = disk.read(&segment_name(segment), byte)?;
        let input = Some(BufReader::with_capacity(64 << 10, input));
        let segments = segments.iter().rev().copied().take_while(|first| *first > segment).collect();
        let place = Place { segment, line: 1, byte, entry: due };
        Ok(Self { disk, segments, input, place, due, last: None, over: false })
    }

    /// Sequence number of the next record; at first, that of the first segment's first record.
    #[must_use]
    pub const fn next_seq(&self) -> u64 {
        self.due
    }

    fn read_next(&mut self) -> Result<Option<LogEntry>, LogError> {
        loop {
            let Some(input) = &mut self.input else {
                let Some(segment) = self.segments.pop() else { return Ok(None) };
                let input = self.disk.read(&segment_name(segment), 0)?;
                self.input = Some(BufReader::with_capacity(64 << 10, input));
                self.place = Place { segment, line: 0, byte: 0, entry: self.due };
                continue;
            };
            let mut line = Vec::new();
            let most = (MAX_LINE as u64).saturating_add(1);
            let read = input.by_ref().take(most).read_until(b'\n', &mut line)? as u64;
            let at = Place { line: self.place.line.saturating_add(1), entry: self.due, ..self.place };
            if line.pop_if(|last| *last == b'\n').is_none() {
                if read == most {
                    return Err(LogError::TooLong(at));
                }
                if !line.is_empty() && !self.segments.is_empty() {
                    return Err(LogError::Unfinished(at));
                }
                self.input = None;
                continue;
            }
            self.place = Place { byte: at.byte.saturating_add(read), ..at };
            let is_head = at.line == 1 && Head::parse(&line).is_some();
            if is_head || is_checkpoint(&line) {
                continue;
            }
            let (seq, record) = parse_line(&line).ok_or(LogError::Malformed(at))?;
            if seq != self.due {
                return Err(LogError::Sequence { at, expected: self.due });
            }
            self.due = seq.saturating_add(1);
            return Ok(Some(LogEntry { seq, line, record }));
        }
    }
}

impl Iterator for LogEntries {
    type Item = Result<LogEntry, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over || self.last.is_some_and(|last| last < self.due) {
            return None;
        }
        let read = match self.read_next() {
            // The record existed before.
            Ok(None) if self.last.is_some() => Some(Err(LogError::Unfinished(self.place))),
            read => read.transpose(),
        };
        self.over = !matches!(read, Some(Ok(_)));
        read
    }
}
