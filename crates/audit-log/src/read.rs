use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use countersign_core::Timestamp;

use crate::tail::{MAX_LINE_BYTES, can_be_torn};
use crate::{ReadError, Record};

/// A line as it is written.
#[derive(serde::Serialize)]
pub(crate) struct WireLine<'a> {
    pub(crate) seq: u64,
    #[serde(flatten)]
    pub(crate) record: &'a Record,
}

/// A line as it is read.
#[derive(serde::Deserialize)]
struct ReadLine {
    seq: u64,
    #[serde(flatten)]
    record: Record,
}

/// Reads one line, without its newline.
pub(crate) fn parse_line(line: &[u8]) -> Option<(u64, Record)> {
    serde_json::from_slice(line).ok().map(|ReadLine { seq, record }| (seq, record))
}

/// Opens a file of records to be read from the start, line by line. It may be written at the same time.
///
/// # Errors
/// [`ReadError`] when the path cannot be opened or is no regular file.
pub fn read_lines(path: impl AsRef<Path>) -> Result<Lines, ReadError> {
    // Opening a FIFO would wait for its writer. What counts is the handle, below.
    if !std::fs::metadata(&path)?.is_file() {
        return Err(ReadError::NotAFile);
    }
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(ReadError::NotAFile);
    }
    Ok(Lines { input: BufReader::new(file), line: 0, last: 0, over: false })
}

/// Yields the records of a file with their sequence numbers, as they stand: it is for [`verify`] to say whether the
/// numbers are the right ones. Ends after the first error. Holds one line at a time.
#[derive(Debug)]
pub struct Lines {
    input: BufReader<File>,
    line: u64,
    /// Sequence number of the line before; 0 when there is none.
    last: u64,
    over: bool,
}

impl Lines {
    fn read_next(&mut self) -> Result<Option<(u64, Record)>, ReadError> {
        let mut bytes = Vec::new();
        self.input.by_ref().take(MAX_LINE_BYTES as u64).read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        self.line = self.line.saturating_add(1);
        let line = self.line;
        let Some((b'\n', text)) = bytes.split_last() else {
            return Err(if bytes.len() == MAX_LINE_BYTES {
                ReadError::TooLong { line }
            } else if can_be_torn(&bytes, self.last) {
                ReadError::Torn { line }
            } else {
                ReadError::Malformed { line }
            });
        };
        let (sequence, record) = parse_line(text).ok_or(ReadError::Malformed { line })?;
        self.last = sequence;
        Ok(Some((sequence, record)))
    }
}

impl Iterator for Lines {
    type Item = Result<(u64, Record), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let read = self.read_next().transpose();
        self.over = !matches!(read, Some(Ok(_)));
        read
    }
}

/// What a file of records holds, once all of it was read and found in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// The number of records, which is also the last sequence number.
    pub records: u64,
    /// Time of the first record.
    pub first: Option<Timestamp>,
    /// Time of the last record.
    pub last: Option<Timestamp>,
    /// How many records are older than the one before them: a clock was set back, or somebody was at work.
    pub time_went_back: u64,
    /// Sequence number of the first such record.
    pub first_went_back: Option<u64>,
}

/// Reads a whole file of records and says whether each line is one and the numbers run from 1 without a gap.
///
/// It notices lines that were removed, added, repeated or moved. It does not notice a line that was rewritten with
/// care, nor a tail that was cut at a line's end.
///
/// # Errors
/// [`ReadError`] at the first line that is not in order.
pub fn verify(path: impl AsRef<Path>) -> Result<Summary, ReadError> {
    let mut summary = Summary::default();
    for read in read_lines(path)? {
        let (found, record) = read?;
        let expected = summary.records.saturating_add(1);
        if found != expected {
            return Err(ReadError::Sequence { line: expected, expected, found });
        }
        let time = record.time();
        if summary.last.is_some_and(|last| time < last) {
            summary.time_went_back = summary.time_went_back.saturating_add(1);
            summary.first_went_back.get_or_insert(found);
        }
        summary.first.get_or_insert(time);
        summary.last = Some(time);
        summary.records = found;
    }
    Ok(summary)
}
