use std::path::{Path, PathBuf};

use countersign_audit_log::{LogEntries, LogKey, LogNumber, Record, list_logs, read_log};
use countersign_merkle::{Frontier, TreeHead};
use serde::Serialize;

use super::describe::describe;
use super::log::{VerifiedLog, changed, require_all, verify_all};
use crate::failure::Failure;
use crate::output::{Output, note};

/// One entry of a log.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Number of the log, if the folder has several.
    pub(crate) log: Option<LogNumber>,
    pub(crate) seq: u64,
    pub(crate) record: Record,
}

/// The logs of a folder: all that exist, or the folder's own if it has none.
#[derive(Debug)]
pub(crate) struct Logs {
    folder: PathBuf,
    numbers: Vec<LogNumber>,
}

impl Logs {
    pub(crate) fn of(folder: &Path) -> Result<Self, Failure> {
        let numbers = list_logs(folder).map_err(|error| Failure::from(error).about(folder.display()))?;
        let numbers = if numbers.is_empty() { vec![LogNumber::FIRST] } else { numbers };
        Ok(Self { folder: folder.to_owned(), numbers })
    }

    /// Iterates over the logs: number, name (only if entries must name their log) and folder.
    pub(crate) fn each(&self) -> impl Iterator<Item = (LogNumber, Option<LogNumber>, PathBuf)> {
        self.numbers.iter().map(|number| {
            let name = self.is_several().then_some(*number);
            (*number, name, number.folder_in(&self.folder))
        })
    }

    /// Returns `true` if the folder's own log is missing.
    fn lacks_first(&self) -> bool {
        !self.numbers.contains(&LogNumber::FIRST)
    }

    /// Returns `true` if entries must name their log.
    pub(crate) fn is_several(&self) -> bool {
        self.numbers != [LogNumber::FIRST]
    }
}

/// The entries of all logs of a folder, merged by time. Entries of one log keep their order.
#[derive(Debug)]
pub(crate) struct Entries {
    logs: Vec<OneLog>,
}

#[derive(Debug)]
struct OneLog {
    name: Option<LogNumber>,
    folder: PathBuf,
    entries: LogEntries,
    end: ReadTo,
    /// Tree over the entries read so far; without it, entries are not compared with checkpoints.
    check: Option<Check>,
    next: Option<Result<(u64, Record), Failure>>,
}

/// The end of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadTo {
    /// The end of the log.
    End,
    /// This entry, which must exist.
    Entry(u64),
    /// The last readable entry: after a crash, anything may follow the last checkpoint.
    Torn,
}

/// Compares entries with checkpoints.
#[derive(Debug)]
struct Check {
    frontier: Frontier,
    heads: Vec<TreeHead>,
}

/// The part of a log to read.
#[derive(Debug)]
pub(crate) struct LogPart {
    pub(crate) folder: PathBuf,
    pub(crate) entries: LogEntries,
    /// Tree over the entries before the part.
    pub(crate) frontier: Frontier,
    /// Heads of checkpoints; the tree must match each at its size.
    pub(crate) heads: Vec<TreeHead>,
    pub(crate) end: ReadTo,
}

impl Entries {
    /// Reads all logs of the folder without verifying anything.
    pub(crate) fn read(folder: &Path) -> Result<Self, Failure> {
        let logs = Logs::of(folder)?;
        if logs.lacks_first() {
            let folder = folder.display();
            note(&format!(
                "warning AUDIT_MISSING: {folder}: the folder's own log is gone, and numbered ones are left"
            ));
        }
        let logs = logs.each().map(|(_, name, folder)| OneLog::read(name, folder, ReadTo::End, None));
        Ok(Self { logs: logs.collect::<Result<_, _>>()? })
    }

    /// Verifies all logs, then reads the entries under their last checkpoints. The entries are known to be the verified
    /// ones only after the last one was read.
    pub(crate) fn verified(folder: &Path, key: &LogKey, kept: &[PathBuf]) -> Result<Self, Failure> {
        let kept: Vec<_> = kept.iter().map(|path| (None, path.clone())).collect();
        let verified = verify_all(folder, key, &kept, None)?;
        let open = |log: VerifiedLog| {
            require_all(&log.folder, &log.summary)?;
            let head = *log.summary.checkpoint.head();
            let check = Check { frontier: Frontier::new(), heads: vec![head] };
            OneLog::read(log.name, log.folder, ReadTo::Entry(log.summary.records), Some(check))
        };
        Ok(Self { logs: verified.into_iter().map(open).collect::<Result<_, Failure>>()? })
    }

    /// Reads parts of logs and compares each part with its checkpoints.
    pub(crate) fn of_parts(parts: impl IntoIterator<Item = LogPart>) -> Self {
        let open = |part: LogPart| {
            let LogPart { folder, entries, frontier, heads, end } = part;
            OneLog::of(None, folder, entries, end, Some(Check { frontier, heads }))
        };
        Self { logs: parts.into_iter().map(open).collect() }
    }

    /// Continues to read fully read logs, each up to its new end.
    pub(crate) fn read_on(&mut self, ends: impl IntoIterator<Item = ReadTo>) {
        for (log, end) in self.logs.iter_mut().zip(ends) {
            log.end = end;
            log.advance();
        }
    }
}

impl OneLog {
    fn read(
        name: Option<LogNumber>,
        folder: PathBuf,
        end: ReadTo,
        check: Option<Check>,
    ) -> Result<Self, Failure> {
        let entries = read_log(&folder).map_err(|error| Failure::from(error).about(folder.display()))?;
        Ok(Self::of(name, folder, entries, end, check))
    }

    fn of(
        name: Option<LogNumber>,
        folder: PathBuf,
        entries: LogEntries,
        end: ReadTo,
        check: Option<Check>,
    ) -> Self {
        let mut log = Self { name, folder, entries, end, check, next: None };
        log.advance();
        log
    }

    /// Reads one entry ahead and returns the entry before it.
    fn advance(&mut self) -> Option<Result<(u64, Record), Failure>> {
        let next = self.read_next().map(|read| read.map_err(|failure| failure.about(self.folder.display())));
        std::mem::replace(&mut self.next, next)
    }

    fn read_next(&mut self) -> Option<Result<(u64, Record), Failure>> {
        // All entries up to the end may be archived.
        if matches!(self.end, ReadTo::Entry(end) if self.entries.next_seq() > end) {
            return None;
        }
        let entry = match (self.entries.next(), self.end) {
            (Some(Ok(entry)), _) => entry,
            (Some(Err(error)), ReadTo::End | ReadTo::Entry(_)) => return Some(Err(error.into())),
            (None, ReadTo::Entry(_)) => return Some(Err(changed())),
            (Some(Err(_)) | None, _) => return None,
        };
        if let Some(Check { frontier, heads }) = &mut self.check {
            let appended = frontier.append(entry.leaf()).is_ok();
            let differs = |head: &TreeHead| head.size() == frontier.size() && *head != frontier.head();
            if !appended || heads.iter().any(differs) {
                return Some(Err(changed()));
            }
        }
        Some(Ok((entry.seq(), entry.into_record())))
    }
}

impl Iterator for Entries {
    type Item = Result<Entry, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let due = |log: &&mut OneLog| match &log.next {
            // A read failure is reported first.
            Some(Err(_)) => (0, None),
            Some(Ok((_, record))) => (1, Some(record.time())),
            None => (2, None),
        };
        let log = self.logs.iter_mut().min_by_key(due)?;
        let name = log.name;
        let read = log.advance()?;
        Some(read.map(|(seq, record)| Entry { log: name, seq, record }))
    }
}

/// JSON form of one entry.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
    seq: u64,
    #[serde(flatten)]
    record: &'a Record,
}

/// Prints one entry in the requested output format.
pub(super) fn print(out: &mut Output, entry: &Entry) -> Result<(), Failure> {
    let Entry { log, seq, record } = entry;
    if out.is_json() {
        return out.json(&Line { log: log.map(|log| log.to_string()), seq: *seq, record });
    }
    let name = log.map(|log| format!("{log:<3} ")).unwrap_or_default();
    out.line(&format!("{name}{}", describe(*seq, record)))
}
