use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use countersign_audit_log::{FolderDisk, LogError, LogNumber, Record, list_logs, place_before_end};
use serde::Deserialize;

use super::entries::Entry;
use crate::failure::Failure;

/// The longest line that is read, its end included.
const MAX_LINE: u64 = 1 << 16;

/// What the lines of a log begin with that are no entries: its checkpoints, and the heads of its segments.
const NO_ENTRIES: [&[u8]; 2] = [b"{\"checkpoint\":", b"{\"segment\":"];

/// Follows all logs of a folder, those too that are begun meanwhile. What is there is merged by time.
#[derive(Debug)]
pub(crate) struct Followers {
    folder: PathBuf,
    each: Vec<Followed>,
}

#[derive(Debug)]
struct Followed {
    number: LogNumber,
    follower: Follower,
    next: Option<(u64, Record)>,
}

impl Followers {
    /// Goes on behind what these have given.
    pub(crate) fn after(folder: &Path, each: Vec<(LogNumber, Follower)>) -> Self {
        let each = each.into_iter().map(|(number, follower)| Followed { number, follower, next: None });
        Self { folder: folder.to_owned(), each: each.collect() }
    }

    /// Starts with the first entry of each log.
    pub(crate) fn start(folder: &Path) -> Result<Self, Failure> {
        let mut all = Self::after(folder, Vec::new());
        all.look()?;
        if all.each.is_empty() { Err(Follower::no_log()) } else { Ok(all) }
    }

    /// Takes up the logs that were begun since this was asked last.
    fn look(&mut self) -> Result<(), Failure> {
        for number in list_logs(&self.folder)? {
            if self.each.iter().all(|followed| followed.number != number) {
                let folder = number.folder_in(&self.folder);
                let first = segments(&folder)?.first().copied().ok_or_else(Follower::no_log)?;
                let follower = Follower::start(&folder, first)?;
                self.each.push(Followed { number, follower, next: None });
            }
        }
        Ok(())
    }

    /// The next entry of all that are there.
    pub(crate) fn next_entry(&mut self) -> Result<Option<Entry>, Failure> {
        for followed in &mut self.each {
            if followed.next.is_none() {
                followed.next = followed.follower.next_entry()?;
            }
        }
        let is_several = self.each.iter().any(|followed| followed.number != LogNumber::FIRST);
        let time = |followed: &&mut Followed| followed.next.as_ref().map(|(_, record)| record.time());
        let there = self.each.iter_mut().filter(|followed| followed.next.is_some());
        let Some(followed) = there.min_by_key(time) else {
            self.look()?;
            return Ok(None);
        };
        let log = is_several.then_some(followed.number);
        Ok(followed.next.take().map(|(seq, record)| Entry { log, seq, record }))
    }
}

/// The first numbers of the segments in a log's folder, in order. Each is the name of a file, in twelve digits or more.
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

/// Reads the entries of a log that is being written: those that are there, and when asked again, those that came since.
/// Verifies nothing, but that the last entry that was given out is still there.
#[derive(Debug)]
pub(crate) struct Follower {
    path: PathBuf,
    input: BufReader<File>,
    /// How much of the file was read, in whole lines.
    read: u64,
    /// The line that was read last.
    line: Vec<u8>,
    /// The line of the last entry that the file gave, and where it ends.
    given: (Vec<u8>, u64),
    /// The number of the last entry; none before the first.
    last: Option<u64>,
    /// Nothing more was there when it was asked for: what was given out may have been cut since.
    waited: bool,
    folder: PathBuf,
    segment: u64,
    /// The segment that comes next, where it is there already.
    next: Option<u64>,
}

#[derive(Deserialize)]
struct Line {
    seq: u64,
    #[serde(flatten)]
    record: Record,
}

impl Follower {
    /// Starts with the first entry of a segment.
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

    /// Starts some entries before the end of a segment, where its side file names their place, and otherwise with its first entry.
    /// Also returns whether that is where it starts. `next` is the segment behind it.
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

    /// That there are no segments.
    pub(crate) fn no_log() -> Failure {
        LogError::Missing.into()
    }

    /// The next entry, if it is there.
    pub(crate) fn next_entry(&mut self) -> Result<Option<(u64, Record)>, Failure> {
        if std::mem::take(&mut self.waited) {
            self.go_back()?;
        }
        while self.has_line()? {
            if NO_ENTRIES.iter().any(|start| self.line.starts_with(start)) {
                continue;
            }
            let text = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            let entry = serde_json::from_slice::<Line>(text).ok();
            let due = |seq| self.last.is_none_or(|last| last.checked_add(1) == Some(seq));
            let Some(Line { seq, record }) = entry.filter(|entry| due(entry.seq)) else {
                return Err(self.cut_or_damaged());
            };
            self.last = Some(seq);
            self.given = (std::mem::take(&mut self.line), self.read);
            return Ok(Some((seq, record)));
        }
        self.waited = true;
        Ok(None)
    }

    /// Reads on to the end of a line, into the next segment where there is one.
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
            // A line without an end may never get one: who writes the log cuts what was not finished.
            self.go_back()?;
            let Some(next) = self.next.take() else {
                self.next = segments(&self.folder)?.into_iter().find(|segment| *segment > self.segment);
                if self.next.is_none() {
                    return Ok(false);
                }
                // What was written to this segment before the next one was begun may have come just now.
                continue;
            };
            self.segment = next;
            self.path = self.folder.join(segment_name(next));
            self.input = open(&self.path)?;
            self.read = 0;
            self.given = (Vec::new(), 0);
        }
    }

    /// Goes back behind the last entry that was given out, which has to be there still. All that comes behind it is read
    /// again, since it may be another.
    fn go_back(&mut self) -> Result<(), Failure> {
        let (line, end) = &self.given;
        let cut = std::fs::metadata(&self.path).map_err(unreadable)?.len() < *end;
        let mut there = Vec::with_capacity(line.len());
        let length = line.len() as u64;
        self.input.seek(SeekFrom::Start(end.saturating_sub(length))).map_err(unreadable)?;
        self.input.by_ref().take(length).read_to_end(&mut there).map_err(unreadable)?;
        if cut || there != *line {
            let text = "the record was cut: what was shown last may not have been kept";
            return Err(Failure::new("AUDIT_REPLACED", text));
        }
        // What was read ahead is let go: it may be cut before it is looked at.
        self.input.seek(SeekFrom::Start(*end)).map_err(unreadable)?;
        self.read = *end;
        Ok(())
    }

    /// Why what was read is not the next entry.
    fn cut_or_damaged(&mut self) -> Failure {
        let damaged = || Failure::new("AUDIT_CORRUPT", "what comes next is not the next entry");
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
