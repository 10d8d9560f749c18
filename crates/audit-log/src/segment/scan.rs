use std::io::{BufRead as _, BufReader, Read};

use countersign_core::Timestamp;
use countersign_merkle::{Frontier, LeafHash};

use super::line::{CHECKPOINT, Head, MAX_LINE, is_checkpoint, is_object, parse_checkpoint, time_of};
use super::place::segment_name;
use super::tail::{MAX_TAIL, begins_line, first_damage, is_torn_head};
use crate::line::record_prefix;
use crate::{Checkpoint, Disk, LogError, LogKey, Place};

/// Bytes read at once.
const BUFFER: usize = 256 << 10;

/// Times in the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) first: Option<Timestamp>,
    pub(crate) last: Option<Timestamp>,
    /// Number of records with a time before that of the record before them.
    pub(crate) went_back: u64,
    pub(crate) first_went_back: Option<u64>,
}

impl Times {
    fn add(&mut self, seq: u64, time: Timestamp) {
        if self.last.is_some_and(|last| time < last) {
            self.went_back = self.went_back.saturating_add(1);
            self.first_went_back.get_or_insert(seq);
        }
        self.first.get_or_insert(time);
        self.last = Some(time);
    }
}

/// Position in a segment, and the log up to there.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScanPosition {
    /// Offset in the segment.
    pub(crate) end: u64,
    /// Lines up to there.
    pub(crate) lines: u64,
    /// Tree of all records up to there.
    pub(crate) frontier: Frontier,
    pub(crate) times: Times,
}

/// Content of a segment.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    /// Position of its last checkpoint.
    pub(crate) kept: ScanPosition,
    /// Position of its last whole record, if nothing was lost before it; otherwise as `kept`.
    pub(crate) whole: ScanPosition,
    /// Offset of the batch that ends with that checkpoint.
    pub(crate) batch: u64,
    /// Note of that checkpoint.
    pub(crate) note: String,
    /// Size of the segment in bytes.
    pub(crate) size: u64,
}

/// Reads segments in order, and keeps one line, one frontier and no record in memory.
pub(crate) struct SegmentScanner<'a> {
    disk: &'a dyn Disk,
    key: &'a LogKey,
    /// Checkpoints kept elsewhere that the scan has not reached yet, the smallest last.
    known: Vec<Checkpoint>,
    most_known: u64,
    /// Known checkpoint that the records differ from. It is a fork once a checkpoint of the log follows; before that
    /// the records may be damaged.
    forked: Option<u64>,
    /// Position of the scan; `None` before the first segment.
    at: Option<ScanPosition>,
    note: String,
    pub(crate) checkpoints: u64,
}

impl std::fmt::Debug for SegmentScanner<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scanner").field("at", &self.at).finish_non_exhaustive()
    }
}

impl<'a> SegmentScanner<'a> {
    pub(crate) fn new(disk: &'a dyn Disk, key: &'a LogKey, mut known: Vec<Checkpoint>) -> Self {
        known.sort_by_key(|checkpoint| std::cmp::Reverse(checkpoint.size()));
        let most_known = known.first().map_or(0, Checkpoint::size);
        Self { disk, key, known, most_known, forked: None, at: None, note: String::new(), checkpoints: 0 }
    }

    /// Note of the last verified checkpoint; empty before the first.
    pub(crate) fn note(&self) -> &str {
        &self.note
    }

    /// Reads one segment. `last` marks the log's last segment. Returns `None` if that was never begun.
    pub(crate) fn segment(&mut self, first: u64, last: bool) -> Result<Option<Scan>, LogError> {
        let size = self.disk.size(&segment_name(first))?;
        self.segment_upto(first, last, size)
    }

    /// As [`segment`](Self::segment), as if the file had `size` bytes.
    pub(crate) fn segment_upto(
        &mut self,
        first: u64,
        last: bool,
        size: u64,
    ) -> Result<Option<Scan>, LogError> {
        let mut lines = Lines::open(self.disk, first, &ScanPosition::default(), size)?;
        let mark = match self.head(&mut lines) {
            Ok(mark) => mark,
            Err(error) => return self.torn_head(error, first, last, size),
        };
        let (kept, note) = (mark.clone(), self.note.clone());
        let scan = Scan { kept, whole: mark, batch: 0, note, size };
        self.rest(first, last, &mut lines, scan).map(Some)
    }

    /// As [`segment`](Self::segment), for the first segment to read, starting after one of its checkpoints that was
    /// verified.
    pub(crate) fn segment_behind(
        &mut self,
        first: u64,
        last: bool,
        mark: &ScanPosition,
        note: &str,
    ) -> Result<Scan, LogError> {
        let size = self.disk.size(&segment_name(first))?;
        self.known.retain(|known| known.size() > mark.frontier.size());
        note.clone_into(&mut self.note);
        let mut lines = Lines::open(self.disk, first, mark, size)?;
        let (kept, whole, note) = (mark.clone(), mark.clone(), note.to_owned());
        self.rest(first, last, &mut lines, Scan { kept, whole, batch: mark.end, note, size })
    }

    /// Reads the rest of a segment.
    fn rest(&mut self, first: u64, last: bool, lines: &mut Lines, mut scan: Scan) -> Result<Scan, LogError> {
        let trouble = self.lines(lines, &mut scan)?;
        let rest = scan.size.saturating_sub(scan.kept.end);
        if (!last && rest > 0) || rest > MAX_TAIL {
            let due = scan.whole.frontier.size().saturating_add(1);
            return Err(trouble.unwrap_or(LogError::Unfinished(lines.place(due))));
        }
        if rest > 0 {
            self.tail(first, &mut scan, trouble)?;
        }
        self.at = Some(scan.kept.clone());
        Ok(scan)
    }

    /// Refuses bytes after the last checkpoint unless a crash can have left them. If the crash lost a page, none of
    /// them count.
    fn tail(&self, first: u64, scan: &mut Scan, trouble: Option<LogError>) -> Result<(), LogError> {
        let kept = &scan.kept;
        let bytes = read_range(self.disk, first, kept.end, scan.size)?;
        let is_lost = bytes.contains(&0);
        let trouble = trouble.filter(|trouble| !matches!(trouble, LogError::Unfinished(_)));
        let due = kept.frontier.size().saturating_add(1);
        let damage = first_damage(&bytes, kept.end, due, self.key);
        match (trouble, damage) {
            (Some(trouble), Some(_)) => return Err(trouble),
            // Only a lost page explains a wrong line.
            (Some(trouble), None) if !is_lost => return Err(trouble),
            (None, Some(at)) => {
                let before = bytes.iter().take(at).filter(|byte| **byte == b'\n').count() as u64;
                let line = kept.lines.saturating_add(before).saturating_add(1);
                let byte = kept.end.saturating_add(at as u64);
                let entry = due.saturating_add(before);
                return Err(LogError::Malformed(Place { segment: first, line, byte, entry }));
            }
            (_, None) => {}
        }
        if is_lost {
            scan.whole.clone_from(&scan.kept);
        }
        Ok(())
    }

    /// Continues after the last whole record of a scan, up to the first fault, and moves the scan there.
    pub(crate) fn go_on(&mut self, first: u64, scan: &mut Scan, size: u64) -> Result<(), LogError> {
        self.note.clone_from(&scan.note);
        scan.size = size;
        let mut lines = Lines::open(self.disk, first, &scan.whole, size)?;
        self.lines(&mut lines, scan).map(drop)
    }

    /// Reads lines to the end, or to the first wrong one, whose error it returns.
    fn lines(&mut self, lines: &mut Lines, scan: &mut Scan) -> Result<Option<LogError>, LogError> {
        let mut mark = scan.whole.clone();
        let trouble = loop {
            match self.line(lines, &mut mark, scan) {
                Ok(LineKind::Record) => {}
                Ok(LineKind::Checkpoint) => {
                    scan.batch = scan.kept.end;
                    scan.kept.clone_from(&mark);
                    scan.note.clone_from(&self.note);
                }
                Ok(LineKind::End) => break None,
                Err(LogError::Io(error)) => return Err(error.into()),
                Err(trouble) => break Some(trouble),
            }
        };
        scan.whole = mark;
        Ok(trouble)
    }

    /// Returns `None` if the last segment is the remains of a crash while it was created: the log then ends with the
    /// one before it.
    fn torn_head(
        &self,
        error: LogError,
        first: u64,
        last: bool,
        size: u64,
    ) -> Result<Option<Scan>, LogError> {
        let follows = first == self.at.as_ref().map_or(1, |mark| mark.frontier.size().saturating_add(1));
        if !last || !follows || size > MAX_LINE as u64 {
            return Err(error);
        }
        let bytes = read_range(self.disk, first, 0, size)?;
        if is_torn_head(&bytes, first) { Ok(None) } else { Err(error) }
    }

    fn head(&mut self, lines: &mut Lines) -> Result<ScanPosition, LogError> {
        let place = lines.place(lines.segment);
        let LineEnding::Whole = lines.read()? else { return Err(LogError::Malformed(place)) };
        let head = Head::parse(&lines.buffer).ok_or(LogError::Malformed(place))?;
        let before = head.segment.first.checked_sub(1).filter(|_| head.segment.first == place.segment);
        let before = before.ok_or(LogError::Malformed(place))?;
        let frontier =
            Frontier::from_parts(before, head.segment.peaks).map_err(|_| LogError::Malformed(place))?;
        if self.at.is_none() || head.checkpoint != self.note {
            let signed = Checkpoint::verify(&head.checkpoint, self.key)
                .map_err(|source| LogError::Signature { at: place, source })?;
            if signed.size() != before || *signed.root() != frontier.root() {
                return Err(LogError::Root(place));
            }
        }
        match &self.at {
            Some(last) if last.frontier.size() != before => return Err(LogError::Gap(place)),
            Some(last) if last.frontier.root() != frontier.root() => {
                return Err(LogError::Fork { size: before });
            }
            Some(last) if last.frontier != frontier => return Err(LogError::Root(place)),
            Some(_) => {}
            None => self.begin(&frontier)?,
        }
        self.note = head.checkpoint;
        let times = self.at.as_ref().map(|mark| mark.times).unwrap_or_default();
        Ok(ScanPosition { end: lines.end, lines: 1, frontier, times })
    }

    /// Refuses a known checkpoint from before the first segment: it could not be compared.
    fn begin(&mut self, frontier: &Frontier) -> Result<(), LogError> {
        if let Some(known) = self.known.last().filter(|known| known.size() < frontier.size()) {
            return Err(LogError::Archived { first: frontier.size(), asked: known.size() });
        }
        self.compare(frontier);
        self.require_same()
    }

    /// Compares the known checkpoints of exactly this size.
    fn compare(&mut self, frontier: &Frontier) {
        while let Some(known) = self.known.pop_if(|known| known.size() == frontier.size()) {
            if *known.root() != frontier.root() {
                self.forked.get_or_insert(known.size());
            }
        }
    }

    fn require_same(&self) -> Result<(), LogError> {
        self.forked.map_or(Ok(()), |size| Err(LogError::Fork { size }))
    }

    fn line(
        &mut self,
        lines: &mut Lines,
        mark: &mut ScanPosition,
        scan: &Scan,
    ) -> Result<LineKind, LogError> {
        let seq = mark.frontier.size().saturating_add(1);
        let place = lines.place(seq);
        lines.due.clear();
        record_prefix(seq, &mut lines.due);
        lines.due.push(b',');
        match lines.read()? {
            LineEnding::Whole => {}
            LineEnding::End => return Ok(LineKind::End),
            LineEnding::TooLong => return Err(LogError::TooLong(place)),
            LineEnding::Unfinished if lines.can_be_due() => return Err(LogError::Unfinished(place)),
            LineEnding::Unfinished => return Err(LogError::Malformed(place)),
        }
        let line = lines.buffer.as_slice();
        let step = if let Some(rest) = line.strip_prefix(lines.due.as_slice()) {
            self.record(seq, line, rest, mark)
                .map_err(|error| error.unwrap_or(LogError::Malformed(place)))?;
            LineKind::Record
        } else if is_checkpoint(line) {
            let place = Place { entry: mark.frontier.size(), ..place };
            self.note = self.checkpoint(line, place, mark, scan)?;
            self.require_same()?;
            self.checkpoints = self.checkpoints.saturating_add(1);
            LineKind::Checkpoint
        } else if line.starts_with(b"{\"seq\":") {
            return Err(LogError::Sequence { at: place, expected: seq });
        } else {
            return Err(LogError::Malformed(place));
        };
        (mark.end, mark.lines) = (lines.end, lines.number);
        Ok(step)
    }

    /// Adds a record line. `rest` follows the sequence number. An error without a cause means a malformed line.
    fn record(
        &mut self,
        seq: u64,
        line: &[u8],
        rest: &[u8],
        mark: &mut ScanPosition,
    ) -> Result<(), Option<LogError>> {
        let time = time_of(rest).filter(|_| is_object(line)).ok_or(None)?;
        mark.frontier.append(LeafHash::of(line)).map_err(|_| None)?;
        mark.times.add(seq, time);
        self.compare(&mark.frontier);
        Ok(())
    }

    /// Verifies a checkpoint line, and returns its note.
    fn checkpoint(
        &self,
        line: &[u8],
        place: Place,
        mark: &ScanPosition,
        scan: &Scan,
    ) -> Result<String, LogError> {
        let note = parse_checkpoint(line).ok_or(LogError::Malformed(place))?;
        let signed = Checkpoint::verify(&note, self.key)
            .map_err(|source| LogError::Signature { at: place, source })?;
        let last = scan.kept.frontier.size();
        if signed.size() <= last {
            return Err(LogError::Older { at: place, size: signed.size(), last });
        }
        if *signed.head() != mark.frontier.head() {
            let line = scan.kept.lines.saturating_add(1);
            let entry = scan.kept.frontier.size().saturating_add(1);
            return Err(LogError::Root(Place { byte: scan.kept.end, line, entry, ..place }));
        }
        Ok(note)
    }

    /// Ends the scan after all segments. Fails if a known checkpoint was not reached.
    pub(crate) fn finish(&self, records: u64) -> Result<(), LogError> {
        self.require_same()?;
        if self.most_known > records {
            return Err(LogError::RolledBack { records, known: self.most_known });
        }
        Ok(())
    }
}

/// Reads a byte range of a segment. The caller limits its size.
pub(crate) fn read_range(disk: &dyn Disk, first: u64, from: u64, to: u64) -> Result<Vec<u8>, LogError> {
    let mut bytes = Vec::new();
    disk.read(&segment_name(first), from)?.take(to.saturating_sub(from)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Kind of a line.
#[derive(Clone, Copy)]
enum LineKind {
    Record,
    Checkpoint,
    End,
}

/// Result of reading a line.
#[derive(Clone, Copy)]
enum LineEnding {
    Whole,
    /// The file ends before the line does.
    Unfinished,
    TooLong,
    End,
}

struct Lines {
    input: BufReader<std::io::Take<Box<dyn Read + Send>>>,
    segment: u64,
    number: u64,
    /// Offset after the last line that was read.
    end: u64,
    buffer: Vec<u8>,
    /// Prefix of the next record.
    due: Vec<u8>,
}

impl Lines {
    /// Opens a segment at a mark, as if it had `size` bytes.
    fn open(disk: &dyn Disk, segment: u64, from: &ScanPosition, size: u64) -> Result<Self, LogError> {
        let (number, end) = (from.lines, from.end);
        let input = disk.read(&segment_name(segment), end)?.take(size.saturating_sub(end));
        let input = BufReader::with_capacity(BUFFER, input);
        Ok(Self { input, segment, number, end, buffer: Vec::new(), due: Vec::new() })
    }

    /// Reads a line into the buffer, without its newline.
    fn read(&mut self) -> Result<LineEnding, LogError> {
        self.buffer.clear();
        let most = (MAX_LINE as u64).saturating_add(1);
        let read = self.input.by_ref().take(most).read_until(b'\n', &mut self.buffer)? as u64;
        self.end = self.end.saturating_add(read);
        self.number = self.number.saturating_add(1);
        Ok(if self.buffer.pop_if(|last| *last == b'\n').is_some() {
            LineEnding::Whole
        } else if read == 0 {
            LineEnding::End
        } else if read == most {
            LineEnding::TooLong
        } else {
            LineEnding::Unfinished
        })
    }

    /// Place of the next line.
    const fn place(&self, entry: u64) -> Place {
        Place { segment: self.segment, line: self.number.saturating_add(1), byte: self.end, entry }
    }

    /// Returns whether the unfinished line can be the beginning of the next one.
    fn can_be_due(&self) -> bool {
        begins_line(&self.buffer, &self.due) || begins_line(&self.buffer, CHECKPOINT)
    }
}
