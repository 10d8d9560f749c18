mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, BufReader, Read};

use countersign_merkle::{Frontier, LeafHash, NodeHash, StoredNodes};

use self::writer::SideWriter;
pub(crate) use self::writer::open_side;
use crate::Disk;
use crate::line::record_prefix;
use crate::segment::{
    HEADER, Head, LEAST, MAX_LINE, SidePlace, each_place, is_checkpoint, is_object, line_tag, node_offset,
    read_node, read_u64, segment_name, side_calls, side_header, side_name, side_offset,
};

/// Most bytes by which a side file may lag behind a log's last segment: data that the writer has not flushed, and a
/// batch in progress.
const LAG: u64 = 8 << 20;

/// Bytes read at once.
const BUFFER: usize = 64 << 10;

/// Most bytes kept in memory of segments whose side files cannot be written, besides those of one segment.
const HELD: usize = 32 << 20;

/// Sizes in bytes of one call in the list that ends the side file of a closed segment, and of the list's length.
const CALL: u64 = 16;
const COUNT: u64 = 8;

/// Side file of a segment that was missing, short or wrong, and was rebuilt.
#[derive(Debug)]
#[non_exhaustive]
pub struct RebuiltSide {
    /// Name of the file in the log's folder.
    pub file: String,
    /// Reason why it could not be written.
    pub failure: Option<io::Error>,
}

/// Side files of a log's segments. Missing parts are read from the segments. Nothing that they return is verified.
#[derive(Debug)]
pub(crate) struct SideFiles {
    /// First record of each segment.
    segments: Vec<u64>,
    /// Number of records.
    size: u64,
    /// Tree before the first segment.
    before: Frontier,
    sides: BTreeMap<u64, SideFile>,
    /// Segments whose side files are missing or wrong and stay so. The segment is read instead.
    ignored: BTreeSet<u64>,
    rebuilt: Vec<RebuiltSide>,
}

/// Side file of one segment, as far as it is used, and the data after that.
#[derive(Debug)]
struct SideFile {
    first: u64,
    /// Number after the last record.
    end: u64,
    on_disk: u64,
    more: Vec<u8>,
    /// Offset and length of the list of calls.
    calls: Option<(u64, u64)>,
}

/// Side file with which the writer of a segment continues.
#[derive(Debug)]
pub(crate) struct ResumedSide {
    /// Bytes of the file that are valid.
    pub(crate) written: u64,
    /// Data after that, up to the last record.
    pub(crate) more: Vec<u8>,
    /// Name of the file, if it was missing or wrong.
    pub(crate) rebuilt: Option<String>,
}

/// Start of a segment.
struct Start {
    /// Tree before the segment.
    before: Frontier,
    /// Length of the head's line.
    length: u64,
    /// Header of the side file.
    header: Vec<u8>,
}

impl ResumedSide {
    /// Resumes the side file of a segment that ends with the last record of a verified tree.
    pub(crate) fn of(disk: &dyn Disk, first: u64, tree: &Frontier) -> io::Result<Self> {
        let (start, end) = (Start::read(disk, first)?, tree.size().saturating_add(1));
        let leads_there = |side: &mut SideFile| {
            side.catch_up(disk, &start, end)?;
            each_place(&mut side.places(disk)?, first, end, |_, _| {})?;
            if side.frontier(disk, &start)? == *tree { Ok(()) } else { Err(damaged()) }
        };
        if let Some(size) = start.size_of_side(disk, first) {
            let mut side = SideFile::on_disk(first, end, size);
            let written = side.on_disk;
            if leads_there(&mut side).is_ok() {
                return Ok(Self { written, more: side.more, rebuilt: None });
            }
        }
        let mut side = SideFile::on_disk(first, end, HEADER);
        leads_there(&mut side)?;
        let rebuilt = side.is_worth_a_file().then(|| side_name(first));
        Ok(Self { written: 0, more: [start.header, side.more].concat(), rebuilt })
    }
}

fn damaged() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

impl SideFiles {
    /// Builds the list for the segments of a log with `size` records.
    pub(crate) fn new(disk: &dyn Disk, segments: Vec<u64>, size: u64) -> io::Result<Self> {
        let before = Start::read(disk, *segments.first().ok_or_else(damaged)?)?.before;
        let (sides, ignored, rebuilt) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Ok(Self { segments, size, before, sides, ignored, rebuilt })
    }

    /// Number of the records before the first segment.
    pub(crate) const fn archived(&self) -> u64 {
        self.before.size()
    }

    /// First records of the segments.
    pub(crate) fn segments(&self) -> &[u64] {
        &self.segments
    }

    /// Nodes of the log's tree.
    pub(crate) fn nodes<'a>(
        &'a mut self,
        disk: &'a dyn Disk,
    ) -> StoredNodes<impl FnMut(u32, u64) -> Option<NodeHash> + 'a> {
        StoredNodes(|level, index| self.node(disk, level, index).ok())
    }

    fn node(&mut self, disk: &dyn Disk, level: u32, index: u64) -> io::Result<NodeHash> {
        let last = last_of(level, index).ok_or_else(damaged)?;
        if last <= self.archived() {
            return peak(&self.before, level, index).ok_or_else(damaged);
        }
        self.side_of(disk, last)?.node(disk, level, last)
    }

    /// Returns the line of a record, without its newline, and the offset of the next line.
    pub(crate) fn line_and_end(&mut self, disk: &dyn Disk, seq: u64) -> io::Result<(Vec<u8>, u64)> {
        self.side_of(disk, seq)?.line(disk, seq)
    }

    /// Returns the segment of a record, and the offset of its line.
    pub(crate) fn place(&mut self, disk: &dyn Disk, seq: u64) -> io::Result<(u64, u64)> {
        let side = self.side_of(disk, seq)?;
        let (line, next) = side.line(disk, seq)?;
        let length = (line.len() as u64).saturating_add(1);
        Ok((side.first, next.saturating_sub(length)))
    }

    /// Returns the line of a record, without its newline.
    pub(crate) fn line(&mut self, disk: &dyn Disk, seq: u64) -> io::Result<Vec<u8>> {
        self.side_of(disk, seq)?.line(disk, seq).map(|(line, _)| line)
    }

    /// Returns the records whose call has the tag, in order.
    pub(crate) fn tagged(&mut self, disk: &dyn Disk, tag: u64) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for first in self.segments_with_records() {
            self.load(disk, first)?;
            if let Some(side) = self.sides.get(&first) {
                side.tagged(disk, tag, &mut found)?;
            }
        }
        Ok(found)
    }

    /// Takes the list of files that were rebuilt since the last call.
    pub(crate) fn take_rebuilt(&mut self) -> Vec<RebuiltSide> {
        std::mem::take(&mut self.rebuilt)
    }

    /// Returns the first records of the segments with records under the checkpoint. A crash can leave a segment without
    /// a head.
    fn segments_with_records(&self) -> Vec<u64> {
        self.segments.iter().copied().filter(|first| *first <= self.size).collect()
    }

    fn side_of(&mut self, disk: &dyn Disk, seq: u64) -> io::Result<&SideFile> {
        let at = self.segments.partition_point(|first| *first <= seq);
        let first = at.checked_sub(1).and_then(|at| self.segments.get(at)).copied().ok_or_else(damaged)?;
        self.load(disk, first)?;
        self.sides.get(&first).filter(|side| seq < side.end).ok_or_else(damaged)
    }

    /// Returns the number after a segment's last record, and whether another segment begins there.
    fn end_of(&self, first: u64) -> (u64, bool) {
        let next = self.segments.get(self.segments.partition_point(|segment| *segment <= first));
        (next.copied().unwrap_or_else(|| self.size.saturating_add(1).max(first)), next.is_some())
    }

    /// Reads the side file of a segment, and the missing part from the segment.
    fn load(&mut self, disk: &dyn Disk, first: u64) -> io::Result<()> {
        if self.sides.contains_key(&first) {
            return Ok(());
        }
        let ((end, is_closed), start) = (self.end_of(first), Start::read(disk, first)?);
        let is_ignored = self.ignored.contains(&first);
        let found = if is_ignored { None } else { start.size_of_side(disk, first) };
        let mut side = SideFile::loaded(disk, first, end, found.unwrap_or(HEADER), is_closed);
        let is_short = match found {
            Some(_) if is_closed => side.calls.is_none(),
            Some(_) => side.end < end && side.lag(disk)? > LAG,
            None => !is_ignored,
        };
        if is_short && end.saturating_sub(first) >= LEAST {
            side = self.complete(disk, &side, &start, end, is_closed)?;
        }
        side.catch_up(disk, &start, end)?;
        let held: usize = self.sides.values().map(|side| side.more.len()).sum();
        if held > HELD {
            self.sides.clear();
        }
        self.sides.insert(first, side);
        Ok(())
    }

    /// Rebuilds all side files from the segments, which must be verified. Only files that differ are written.
    pub(crate) fn rebuild(&mut self, disk: &dyn Disk) -> io::Result<()> {
        self.sides.clear();
        for first in self.segments_with_records() {
            let ((end, is_closed), start) = (self.end_of(first), Start::read(disk, first)?);
            let side = SideFile::on_disk(first, end, HEADER);
            if side.is_on(disk, &start, end, is_closed).is_ok() {
                continue;
            }
            if end.saturating_sub(first) >= LEAST {
                self.complete(disk, &side, &start, end, is_closed)?;
            } else {
                self.ignored.insert(first);
            }
        }
        Ok(())
    }

    /// Writes the missing part of a side file, and returns the completed file; an empty one if it cannot be written.
    ///
    /// # Errors
    /// `InvalidData` if the existing part does not lead to the rest.
    fn complete(
        &mut self,
        disk: &dyn Disk,
        side: &SideFile,
        start: &Start,
        end: u64,
        is_closed: bool,
    ) -> io::Result<SideFile> {
        let first = side.first;
        let (size, failure) = match side.complete(disk, start, end, is_closed) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(error),
            Err(error) => {
                self.ignored.insert(first);
                (HEADER, Some(error))
            }
            Ok(size) => (size, None),
        };
        self.rebuilt.push(RebuiltSide { file: side_name(first), failure });
        Ok(SideFile::loaded(disk, first, end, size, is_closed))
    }
}

impl SideFile {
    /// Returns the part of a segment's records that a file of `size` bytes covers.
    fn on_disk(first: u64, end: u64, size: u64) -> Self {
        let (mut low, mut high) = (first, end);
        while low < high {
            let middle = low.midpoint(high).saturating_add(1).min(high);
            if side_offset(first, middle) <= size {
                low = middle;
            } else {
                high = middle.saturating_sub(1);
            }
        }
        Self { first, end: low, on_disk: side_offset(first, low), more: Vec::new(), calls: None }
    }

    /// As [`on_disk`](Self::on_disk), with the list of calls if another segment follows.
    fn loaded(disk: &dyn Disk, first: u64, end: u64, size: u64, is_closed: bool) -> Self {
        let mut side = Self::on_disk(first, end, size);
        if is_closed && side.end == end {
            side.calls = side.calls_on_disk(disk, size);
        }
        side
    }

    fn read<'s>(&'s self, disk: &dyn Disk, offset: u64) -> io::Result<Box<dyn Read + 's>> {
        let Some(rest) = self.on_disk.checked_sub(offset).filter(|rest| *rest > 0) else {
            let from = usize::try_from(offset.saturating_sub(self.on_disk)).map_err(|_| damaged())?;
            return Ok(Box::new(self.more.get(from..).unwrap_or_default()));
        };
        let file = disk.read(&side_name(self.first), offset)?;
        Ok(Box::new(file.take(rest).chain(self.more.as_slice())))
    }

    fn node(&self, disk: &dyn Disk, level: u32, last: u64) -> io::Result<NodeHash> {
        if level == 0 {
            return self.line(disk, last).map(|(line, _)| LeafHash::of(&line).into());
        }
        read_node(&mut self.read(disk, node_offset(self.first, last, level))?)
    }

    /// Returns the line of a record, without its newline, and the offset of the next line.
    fn line(&self, disk: &dyn Disk, seq: u64) -> io::Result<(Vec<u8>, u64)> {
        let place = SidePlace::read(&mut self.read(disk, side_offset(self.first, seq))?)?;
        let mut input = BufReader::new(disk.read(&segment_name(self.first), place.offset)?);
        let line = read_line(&mut input)?.filter(|line| rest_of(line, seq).is_some()).ok_or_else(damaged)?;
        let next = place.offset.saturating_add(line.len() as u64).saturating_add(1);
        Ok((line, next))
    }

    fn tagged(&self, disk: &dyn Disk, tag: u64, found: &mut Vec<u64>) -> io::Result<()> {
        let Some((start, count)) = self.calls else {
            return each_place(&mut self.places(disk)?, self.first, self.end, |seq, place| {
                found.extend((place.tag == tag).then_some(seq));
            });
        };
        // In the list a tag comes before its record number, where a place has offset and tag.
        let call = |at: u64| {
            let offset = start.saturating_add(at.saturating_mul(CALL));
            let SidePlace { offset, tag } = SidePlace::read(&mut disk.read(&side_name(self.first), offset)?)?;
            Ok::<_, io::Error>((offset, tag))
        };
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low.midpoint(high);
            if call(middle)?.0 < tag { low = middle.saturating_add(1) } else { high = middle }
        }
        while low < count {
            let (of, seq) = call(low)?;
            if of != tag {
                break;
            }
            if seq >= self.end || seq < self.first || found.last().is_some_and(|before| *before >= seq) {
                return Err(damaged());
            }
            found.push(seq);
            low = low.saturating_add(1);
        }
        Ok(())
    }

    /// Reads the segment up to a record, and keeps the data that the side file lacks.
    fn catch_up(&mut self, disk: &dyn Disk, start: &Start, end: u64) -> io::Result<()> {
        let mut more = std::mem::take(&mut self.more);
        let read = self.read_on(disk, start, end, |bytes| {
            more.extend_from_slice(bytes);
            Ok(())
        });
        (self.more, self.end) = (more, self.end.max(end));
        read
    }

    /// Returns the bytes of the segment after the last record in the side file.
    fn lag(&self, disk: &dyn Disk) -> io::Result<u64> {
        let size = disk.size(&segment_name(self.first))?;
        let Some(before) = self.end.checked_sub(1).filter(|before| *before >= self.first) else {
            return Ok(size);
        };
        Ok(size.saturating_sub(self.line(disk, before)?.1))
    }

    /// Reads the records after the last one here up to number `end`, and passes on their data for the side file.
    fn read_on(
        &self,
        disk: &dyn Disk,
        start: &Start,
        end: u64,
        mut put: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.end >= end {
            return Ok(());
        }
        let (mut tree, mut at, mut seq) = (start.before.clone(), start.length, self.end);
        if self.end > self.first {
            tree = self.frontier(disk, start)?;
            at = self.line(disk, self.end.saturating_sub(1))?.1;
        }
        let mut input = BufReader::with_capacity(BUFFER, disk.read(&segment_name(self.first), at)?);
        let mut bytes = Vec::new();
        while seq < end {
            let line = read_line(&mut input)?.ok_or_else(damaged)?;
            let next = at.saturating_add(line.len() as u64).saturating_add(1);
            let offset = std::mem::replace(&mut at, next);
            let Some(rest) = rest_of(&line, seq).filter(|_| is_object(&line)) else {
                if is_checkpoint(&line) { continue } else { return Err(damaged()) }
            };
            bytes.clear();
            SidePlace { offset, tag: line_tag(rest) }.push_to(&mut bytes);
            tree.append_with(LeafHash::of(&line), |node| bytes.extend_from_slice(node.as_bytes()))
                .map_err(|_| damaged())?;
            put(&bytes)?;
            seq = seq.saturating_add(1);
        }
        Ok(())
    }

    /// Returns the tree of all records up to the last one here.
    fn frontier(&self, disk: &dyn Disk, start: &Start) -> io::Result<Frontier> {
        let node = |level, index| {
            let last = last_of(level, index)?;
            if last < self.first {
                peak(&start.before, level, index)
            } else {
                self.node(disk, level, last).ok()
            }
        };
        StoredNodes(node).frontier(self.end.saturating_sub(1)).map_err(|_| damaged())
    }

    fn places<'s>(&'s self, disk: &dyn Disk) -> io::Result<BufReader<Box<dyn Read + 's>>> {
        Ok(BufReader::with_capacity(BUFFER, self.read(disk, HEADER)?))
    }

    /// Returns the list that ends a file of that size, if it has its stated length and no more calls than the segment
    /// has records.
    fn calls_on_disk(&self, disk: &dyn Disk, size: u64) -> Option<(u64, u64)> {
        let start = side_offset(self.first, self.end);
        let listed = size.checked_sub(start)?.checked_sub(COUNT)?;
        let count = read_u64(&mut disk.read(&side_name(self.first), size.checked_sub(COUNT)?).ok()?).ok()?;
        let is_whole = self.more.is_empty() && count.checked_mul(CALL)? == listed;
        (is_whole && count <= self.end.saturating_sub(self.first)).then_some((start, count))
    }

    const fn is_worth_a_file(&self) -> bool {
        self.end.saturating_sub(self.first) >= LEAST
    }

    /// Appends the missing data to the file, and returns its size.
    fn complete(&self, disk: &dyn Disk, start: &Start, end: u64, is_closed: bool) -> io::Result<u64> {
        let mut out = SideWriter::open(disk, self.first, self.on_disk)?;
        out.put(&start.header)?;
        out.go_on_at(self.on_disk)?;
        self.read_on(disk, start, end, |bytes| out.put(bytes))?;
        if is_closed {
            out.flush()?;
            let places = disk.read(&side_name(self.first), HEADER)?;
            out.put(&side_calls(&mut BufReader::with_capacity(BUFFER, places), self.first, end)?)?;
            out.flush()?;
            out.cut()?;
        }
        out.flush()
    }

    /// Compares the file with the expected content; if the segment is not closed, only as far as the file goes.
    ///
    /// # Errors
    /// `InvalidData` if it differs.
    fn is_on(&self, disk: &dyn Disk, start: &Start, end: u64, is_closed: bool) -> io::Result<()> {
        let size = start.size_of_side(disk, self.first).ok_or_else(damaged)?;
        let whole = side_offset(self.first, end);
        let mut found = BufReader::with_capacity(BUFFER, disk.read(&side_name(self.first), HEADER)?);
        let mut left = if is_closed { size } else { size.min(whole) }.saturating_sub(HEADER);
        let mut same = |due: &[u8]| {
            let due =
                due.get(..usize::try_from(left).unwrap_or(usize::MAX).min(due.len())).unwrap_or_default();
            let mut there = vec![0; due.len()];
            found.read_exact(&mut there)?;
            left = left.saturating_sub(due.len() as u64);
            if there == due { Ok(()) } else { Err(damaged()) }
        };
        self.read_on(disk, start, end, &mut same)?;
        if !is_closed {
            return Ok(());
        }
        let places = disk.read(&side_name(self.first), HEADER)?;
        let calls = side_calls(&mut BufReader::with_capacity(BUFFER, places), self.first, end)?;
        same(&calls)?;
        if size == whole.saturating_add(calls.len() as u64) { Ok(()) } else { Err(damaged()) }
    }
}

impl Start {
    fn read(disk: &dyn Disk, first: u64) -> io::Result<Self> {
        let mut input = BufReader::new(disk.read(&segment_name(first), 0)?);
        let line = read_line(&mut input)?.ok_or_else(damaged)?;
        let head = Head::parse(&line).filter(|head| head.segment.first == first).ok_or_else(damaged)?;
        let before = Frontier::from_parts(first.saturating_sub(1), head.segment.peaks);
        Ok(Self {
            before: before.map_err(|_| damaged())?,
            length: (line.len() as u64).saturating_add(1),
            header: side_header(first, &line),
        })
    }

    /// Returns the size of the side file, if it exists and begins with this segment's header.
    fn size_of_side(&self, disk: &dyn Disk, first: u64) -> Option<u64> {
        let (name, mut found) = (side_name(first), Vec::new());
        let size = disk.size(&name).ok()?;
        disk.read(&name, 0).ok()?.take(HEADER).read_to_end(&mut found).ok()?;
        (found == self.header).then_some(size)
    }
}

/// Returns the number and the offset of a record near the end of a segment: `records` before the last one in the
/// segment's side file. `next` is the next segment. Returns `None` if the side file is missing, or its place is not the
/// start of that record.
///
/// Nothing is verified.
#[must_use]
pub fn place_before_end(disk: &dyn Disk, first: u64, next: Option<u64>, records: u64) -> Option<(u64, u64)> {
    let size = Start::read(disk, first).ok()?.size_of_side(disk, first)?;
    let side = SideFile::on_disk(first, next.unwrap_or_else(|| first.saturating_add(size / CALL)), size);
    let seq = side.end.saturating_sub(records).max(first);
    let place = SidePlace::read(&mut side.read(disk, side_offset(first, seq)).ok()?).ok()?;
    let mut input = BufReader::new(disk.read(&segment_name(first), place.offset.checked_sub(1)?).ok()?);
    let begins = read_line(&mut input).ok()?.is_some_and(|end| end.is_empty());
    let line = read_line(&mut input).ok()??;
    (begins && rest_of(&line, seq).is_some()).then_some((seq, place.offset))
}

/// Returns the last record of a subtree, given its level and index.
fn last_of(level: u32, index: u64) -> Option<u64> {
    index.checked_add(1)?.checked_mul(1_u64.checked_shl(level)?)
}

/// Returns the peak of a tree that is the node of that level and index.
fn peak(tree: &Frontier, level: u32, index: u64) -> Option<NodeHash> {
    let size = tree.size();
    let larger = size.unbounded_shr(level.saturating_add(1));
    // The peaks of larger subtrees come first.
    let is_peak = size.unbounded_shr(level) & 1 == 1 && larger.checked_mul(2) == Some(index);
    let at = usize::try_from(larger.count_ones()).ok()?;
    if is_peak { tree.peaks().get(at).copied() } else { None }
}

/// Reads a line without its newline; returns `None` if there is no whole line.
fn read_line(input: &mut impl io::BufRead) -> io::Result<Option<Vec<u8>>> {
    let (most, mut line) = ((MAX_LINE as u64).saturating_add(1), Vec::new());
    input.by_ref().take(most).read_until(b'\n', &mut line)?;
    Ok(line.pop_if(|last| *last == b'\n').map(|_| line))
}

/// Returns the rest of a record line after its number, if it has that number.
pub(crate) fn rest_of(line: &[u8], seq: u64) -> Option<&[u8]> {
    let mut due = Vec::new();
    record_prefix(seq, &mut due);
    due.push(b',');
    line.strip_prefix(due.as_slice())
}
