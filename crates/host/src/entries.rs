//! Reads the entries of a folder's logs, merged by time.

use std::path::{Path, PathBuf};

use countersign_audit_log::{LogEntries, LogNumber, Record, list_logs, read_log};
use countersign_merkle::{Frontier, TreeHead};

use crate::error::HostError;

/// One entry of a log.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "readers of a log build it, too")]
pub struct Entry {
    /// Number of the log, if the folder has several.
    pub log: Option<LogNumber>,
    /// Its number in the log.
    pub seq: u64,
    /// Its content.
    pub record: Record,
}

/// The logs of a folder: all that exist, or the folder's own if it has none.
#[derive(Debug)]
pub struct Logs {
    folder: PathBuf,
    numbers: Vec<LogNumber>,
}

impl Logs {
    /// Lists the logs of a folder.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn of(folder: &Path) -> Result<Self, HostError> {
        let numbers = list_logs(folder).map_err(|error| HostError::from(error).about(folder.display()))?;
        let numbers = if numbers.is_empty() { vec![LogNumber::FIRST] } else { numbers };
        Ok(Self { folder: folder.to_owned(), numbers })
    }

    /// Iterates over the logs: number, name (only if entries must name their log) and folder.
    pub fn each(&self) -> impl Iterator<Item = (LogNumber, Option<LogNumber>, PathBuf)> {
        self.numbers.iter().map(|number| {
            let name = self.is_several().then_some(*number);
            (*number, name, number.folder_in(&self.folder))
        })
    }

    /// Returns `true` if the folder's own log is missing.
    #[must_use]
    pub fn lacks_first(&self) -> bool {
        !self.numbers.contains(&LogNumber::FIRST)
    }

    /// Returns `true` if entries must name their log.
    #[must_use]
    pub fn is_several(&self) -> bool {
        self.numbers != [LogNumber::FIRST]
    }
}

/// The entries of all logs of a folder, merged by time. Entries of one log keep their order.
#[derive(Debug)]
pub struct Entries {
    logs: Vec<OneLog>,
}

#[derive(Debug)]
struct OneLog {
    name: Option<LogNumber>,
    folder: PathBuf,
    entries: LogEntries,
    end: ReadTo,
    /// Tree over the entries read so far; without it, entries are not compared with checkpoints.
    check: Option<CheckpointComparison>,
    next: Option<Result<(u64, Record), HostError>>,
}

/// The end of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each end is handled everywhere")]
pub enum ReadTo {
    /// The end of the log.
    End,
    /// This entry, which must exist.
    Entry(u64),
    /// The last readable entry: after a crash, anything may follow the last checkpoint.
    Torn,
}

/// Compares entries with checkpoints.
#[derive(Debug)]
struct CheckpointComparison {
    frontier: Frontier,
    heads: Vec<TreeHead>,
}

/// The part of a log to read.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills in every member")]
pub struct LogPart {
    /// The log's name, if entries must name their log.
    pub name: Option<LogNumber>,
    /// The log's folder.
    pub folder: PathBuf,
    /// Its entries, from the first one of the part.
    pub entries: LogEntries,
    /// Tree over the entries before the part.
    pub frontier: Frontier,
    /// Heads of checkpoints; the tree must match each at its size.
    pub heads: Vec<TreeHead>,
    /// The end of the part.
    pub end: ReadTo,
}

impl Entries {
    /// Reads all logs of the folder without verifying anything.
    ///
    /// # Errors
    /// A folder or a log that cannot be read.
    pub fn read(logs: &Logs) -> Result<Self, HostError> {
        let logs = logs.each().map(|(_, name, folder)| {
            let entries = open(&folder)?;
            Ok(OneLog::of(name, folder, entries, ReadTo::End, None))
        });
        Ok(Self { logs: logs.collect::<Result<_, HostError>>()? })
    }

    /// Reads parts of logs and compares each part with its checkpoints.
    pub fn of_parts(parts: impl IntoIterator<Item = LogPart>) -> Self {
        let open = |part: LogPart| {
            let LogPart { name, folder, entries, frontier, heads, end } = part;
            OneLog::of(name, folder, entries, end, Some(CheckpointComparison { frontier, heads }))
        };
        Self { logs: parts.into_iter().map(open).collect() }
    }

    /// Continues to read fully read logs, each up to its new end.
    pub fn read_on(&mut self, ends: impl IntoIterator<Item = ReadTo>) {
        for (log, end) in self.logs.iter_mut().zip(ends) {
            log.end = end;
            log.advance();
        }
    }
}

impl OneLog {
    fn of(
        name: Option<LogNumber>,
        folder: PathBuf,
        entries: LogEntries,
        end: ReadTo,
        check: Option<CheckpointComparison>,
    ) -> Self {
        let mut log = Self { name, folder, entries, end, check, next: None };
        log.advance();
        log
    }

    /// Reads one entry ahead and returns the entry before it.
    fn advance(&mut self) -> Option<Result<(u64, Record), HostError>> {
        let next = self.read_next().map(|read| read.map_err(|failure| failure.about(self.folder.display())));
        std::mem::replace(&mut self.next, next)
    }

    fn read_next(&mut self) -> Option<Result<(u64, Record), HostError>> {
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
        if let Some(CheckpointComparison { frontier, heads }) = &mut self.check {
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
    type Item = Result<Entry, HostError>;

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

/// Opens a log's entries, from the first one.
///
/// # Errors
/// A log that cannot be read.
pub fn open(folder: &Path) -> Result<LogEntries, HostError> {
    read_log(folder).map_err(|error| HostError::from(error).about(folder.display()))
}

/// Error for a log whose second reading differs from the verified one.
#[must_use]
pub fn changed() -> HostError {
    HostError::refused("AUDIT_CORRUPT", "the log was changed while it was read")
}
