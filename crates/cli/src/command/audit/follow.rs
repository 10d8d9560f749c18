use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use countersign_audit_log::{LogError, Record};
use serde::Deserialize;

use crate::failure::Failure;
use crate::files::open_regular;

/// The longest line that is read, its end included.
const MAX_LINE: u64 = 1 << 16;

/// What the lines of a log begin with that are no entries: its checkpoints, and the heads of its segments.
const NO_ENTRIES: [&[u8]; 2] = [b"{\"checkpoint\":", b"{\"segment\":"];

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
/// Verifies nothing.
#[derive(Debug)]
pub(crate) struct Follower {
    path: PathBuf,
    input: BufReader<File>,
    /// How much of the file was read.
    read: u64,
    /// The beginning of a line that does not end yet.
    line: Vec<u8>,
    /// The number of the last entry; none before the first.
    last: Option<u64>,
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
        let input = open(&path)?;
        let folder = folder.to_owned();
        Ok(Self { path, input, read: 0, line: Vec::new(), last: None, folder, segment, next: None })
    }

    /// That there are no segments.
    pub(crate) fn no_log() -> Failure {
        LogError::Missing.into()
    }

    /// The next entry, if it is there.
    pub(crate) fn next_entry(&mut self) -> Result<Option<(u64, Record)>, Failure> {
        while self.has_line()? {
            let line = std::mem::take(&mut self.line);
            if NO_ENTRIES.iter().any(|start| line.starts_with(start)) {
                continue;
            }
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            let Line { seq, record } = serde_json::from_slice(text).map_err(|_| damaged())?;
            if self.last.is_some_and(|last| last.checked_add(1) != Some(seq)) {
                return Err(damaged());
            }
            self.last = Some(seq);
            return Ok(Some((seq, record)));
        }
        Ok(None)
    }

    /// Reads on to the end of a line, into the next segment where there is one.
    fn has_line(&mut self) -> Result<bool, Failure> {
        loop {
            let room = MAX_LINE.saturating_sub(self.line.len() as u64);
            let read =
                self.input.by_ref().take(room).read_until(b'\n', &mut self.line).map_err(unreadable)?;
            self.read = self.read.saturating_add(read as u64);
            if self.line.ends_with(b"\n") {
                return Ok(true);
            }
            if self.line.len() as u64 >= MAX_LINE {
                return Err(damaged());
            }
            if std::fs::metadata(&self.path).map_err(unreadable)?.len() < self.read {
                let text = "the record was cut: what was shown last may not have been kept";
                return Err(Failure::new("AUDIT_REPLACED", text));
            }
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
            self.line.clear();
        }
    }
}

fn open(path: &Path) -> Result<BufReader<File>, Failure> {
    let (file, _) = open_regular(path).map_err(unreadable)?;
    Ok(BufReader::new(file))
}

fn unreadable(error: io::Error) -> Failure {
    LogError::Io(error).into()
}

fn damaged() -> Failure {
    Failure::new("AUDIT_CORRUPT", "what comes next is not the next entry")
}
