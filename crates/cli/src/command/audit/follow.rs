use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use countersign_audit_log::{FolderDisk, LogError, LogNumber, Record, list_logs, place_before_end};
use serde::Deserialize;

use crate::failure::Failure;
use countersign_host::entries::Entry;

/// Most bytes of a line, including its line feed.
const MAX_LINE: u64 = 1 << 16;

/// Prefixes of lines that are not entries: checkpoints and segment heads.
const NO_ENTRIES: [&[u8]; 2] = [b"{\"checkpoint\":", b"{\"segment\":"];

/// Follows all logs of a folder, including logs that begin later. Available entries are merged by time.
#[derive(Debug)]
pub(crate) struct Followers {
    folder: PathBuf,
    each: Vec<FollowedLog>,
}

#[derive(Debug)]
struct FollowedLog {
    number: LogNumber,
    follower: Follower,
    next: Option<(u64, Record)>,
}

impl Followers {
    /// Continues after the entries that these followers returned.
    pub(crate) fn after(folder: &Path, each: Vec<(LogNumber, Follower)>) -> Self {
        let each = each.into_iter().map(|(number, follower)| FollowedLog { number, follower, next: None });
        Self { folder: folder.to_owned(), each: each.collect() }
    }

    /// Starts at the first entry of each log.
    pub(crate) fn start(folder: &Path) -> Result<Self, Failure> {
        let mut all = Self::after(folder, Vec::new());
        all.look()?;
        if all.each.is_empty() { Err(Follower::no_log()) } else { Ok(all) }
    }

    /// Adds the logs that began since the last call.
    fn look(&mut self) -> Result<(), Failure> {
        for number in list_logs(&self.folder)? {
            if self.each.iter().all(|followed| followed.number != number) {
                let folder = number.folder_in(&self.folder);
                let first = segments(&folder)?.first().copied().ok_or_else(Follower::no_log)?;
                let follower = Follower::start(&folder, first)?;
                self.each.push(FollowedLog { number, follower, next: None });
            }
        }
        Ok(())
    }

    /// Returns the earliest available entry of all logs, if there is one.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, Failure> {
        for followed in &mut self.each {
            if followed.next.is_none() {
                followed.next = followed.follower.next_entry()?;
            }
        }
        let is_several = self.each.iter().any(|followed| followed.number != LogNumber::FIRST);
        let time = |followed: &&mut FollowedLog| followed.next.as_ref().map(|(_, record)| record.time());
        let there = self.each.iter_mut().filter(|followed| followed.next.is_some());
        let Some(followed) = there.min_by_key(time) else {
            self.look()?;
            return Ok(None);
        };
        let log = is_several.then_some(followed.number);
        Ok(followed.next.take().map(|(seq, record)| Entry { log, seq, record }))
    }
}

/// Returns the first entry numbers of the segments in a log's folder, in order. Each is a file name of twelve or more
/// digits.
pub(crate) fn segments(folder: &Path) -> Result<Vec<u64>, Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let first = name.to_str().and_then(|name| name.strip_suffix(".jsonl")?.parse().ok());
        found.extend(first.filter(|first| *first > 0 && *name == *segment_name(*first)));
    }
    found.sort_unstable();
    Ok(found)
}

fn segment_name(first: u64) -> String {
    format!("{first:012}.jsonl")
}

/// Reads the entries of a log that is being written: first those that exist, then, on later calls, new ones. The only
/// check is that the last returned entry still exists.
#[derive(Debug)]
pub(crate) struct Follower {
    path: PathBuf,
    input: BufReader<File>,
    /// Number of bytes read from the file, in whole lines.
    read: u64,
    /// The last line that was read.
    line: Vec<u8>,
    /// Line of the last entry that this file returned, and the offset of its end.
    given: (Vec<u8>, u64),
    /// Number of the last returned entry; `None` before the first.
    last: Option<u64>,
    /// The last call found no entry; the last returned entry may have been cut since.
    waited: bool,
    folder: PathBuf,
    segment: u64,
    /// The next segment, if it exists already.
    next: Option<u64>,
}

#[derive(Deserialize)]
struct FollowedLine {
    seq: u64,
    #[serde(flatten)]
    record: Record,
}

impl Follower {
    /// Starts at the first entry of a segment.
    pub(crate) fn start(folder: &Path, segment: u64) -> Result<Self, Failure> {
        let path = folder.join(segment_name(segment));
        Ok(Self {
            input: open(&path)?,
            path,
            read: 0,
            line: Vec::new(),
            given: (Vec::new(), 0),
            last: None,
            waited: false,
            folder: folder.to_owned(),
            segment,
            next: None,
        })
    }

    /// Starts about `entries` entries before the end of a segment if its side file has the offset, and otherwise at its
    /// first entry. Returns `true` in the second case. `next` is the segment that follows.
    pub(crate) fn near_end(
        folder: &Path,
        segment: u64,
        next: Option<u64>,
        entries: u64,
    ) -> Result<(Self, bool), Failure> {
        let disk = FolderDisk::existing(folder).map_err(unreadable)?;
        let mut follower = Self::start(folder, segment)?;
        let Some((seq, offset)) =
            place_before_end(&disk, segment, next, entries).filter(|(seq, _)| *seq > segment)
        else {
            return Ok((follower, true));
        };
        follower.input.seek(SeekFrom::Start(offset)).map_err(unreadable)?;
        follower.read = offset;
        follower.given = (Vec::new(), offset);
        follower.last = seq.checked_sub(1);
        Ok((follower, false))
    }

    /// Failure for a folder without segments.
    pub(crate) fn no_log() -> Failure {
        LogError::Missing.into()
    }

    /// Returns the next entry, if it is available.
    pub(crate) fn next_entry(&mut self) -> Result<Option<(u64, Record)>, Failure> {
        if std::mem::take(&mut self.waited) {
            self.go_back()?;
        }
        while self.has_line()? {
            if NO_ENTRIES.iter().any(|start| self.line.starts_with(start)) {
                continue;
            }
            let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            let entry = serde_json::from_slice::<FollowedLine>(text).ok();
            let due = |seq| self.last.is_none_or(|last| last.checked_add(1) == Some(seq));
            let Some(FollowedLine { seq, record }) = entry.filter(|entry| due(entry.seq)) else {
                return Err(self.cut_or_damaged());
            };
            self.last = Some(seq);
            self.given = (std::mem::take(&mut self.line), self.read);
            return Ok(Some((seq, record)));
        }
        self.waited = true;
        Ok(None)
    }

    /// Reads a complete line, if necessary from the next segment; returns `false` if there is none yet.
    fn has_line(&mut self) -> Result<bool, Failure> {
        loop {
            self.line.clear();
            let read =
                self.input.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line).map_err(unreadable)?;
            if self.line.ends_with(b"\n") {
                self.read = self.read.saturating_add(read as u64);
                return Ok(true);
            }
            if self.line.len() as u64 >= MAX_LINE {
                return Err(self.cut_or_damaged());
            }
            // A partial line may never be completed: the next writer cuts it.
            self.go_back()?;
            let Some(next) = self.next.take() else {
                self.next = segments(&self.folder)?.into_iter().find(|segment| *segment > self.segment);
                if self.next.is_none() {
                    return Ok(false);
                }
                // The writer may have added lines to this segment just before it began the next one.
                continue;
            };
            self.segment = next;
            self.path = self.folder.join(segment_name(next));
            self.input = open(&self.path)?;
            self.read = 0;
            self.given = (Vec::new(), 0);
        }
    }

    /// Seeks to the end of the last returned entry and checks that the entry still exists. Everything after it is read
    /// again, since it may have changed.
    fn go_back(&mut self) -> Result<(), Failure> {
        let (line, end) = &self.given;
        let cut = std::fs::metadata(&self.path).map_err(unreadable)?.len() < *end;
        let mut there = Vec::with_capacity(line.len());
        let length = line.len() as u64;
        self.input.seek(SeekFrom::Start(end.saturating_sub(length))).map_err(unreadable)?;
        self.input.by_ref().take(length).read_to_end(&mut there).map_err(unreadable)?;
        if cut || there != *line {
            let text = "record truncated: the entries shown last may be lost";
            return Err(Failure::new("AUDIT_REPLACED", text));
        }
        // Seeking discards the read-ahead buffer: the file may be cut before those bytes are used.
        self.input.seek(SeekFrom::Start(*end)).map_err(unreadable)?;
        self.read = *end;
        Ok(())
    }

    /// Returns the failure for bytes that are not the next entry: a cut log or a damaged one.
    fn cut_or_damaged(&mut self) -> Failure {
        let damaged = || Failure::new("AUDIT_CORRUPT", "record damaged: the next line is not the next entry");
        self.go_back().err().unwrap_or_else(damaged)
    }
}

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let (file, _) = countersign_keys::trusted::open_regular(path).map_err(unreadable)?;
    Ok(BufReader::new(file))
}

fn unreadable(error: io::Error) -> Failure {
    LogError::Io(error).into()
}
