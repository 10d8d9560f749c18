use std::path::Path;

use countersign_audit_log::{Lines, LogEntries, LogEntry, ReadError, Record, read_lines, read_log};
use serde::Serialize;

use super::describe::describe;
use crate::failure::Failure;
use crate::output::Output;

/// The entries of a record in order, as they stand: those of a file, or of all segments of a log. Nothing is verified.
#[derive(Debug)]
pub(crate) struct Entries<'p> {
    path: &'p Path,
    from: From,
}

#[derive(Debug)]
enum From {
    File(Lines),
    Log(LogEntries),
}

impl<'p> Entries<'p> {
    pub(crate) fn read(path: &'p Path) -> Result<Self, Failure> {
        let from = if path.is_dir() {
            read_log(path).map(From::Log).map_err(Failure::from)
        } else {
            read_lines(path).map(From::File).map_err(Failure::from)
        };
        Ok(Self { path, from: from.map_err(|failure| failure.about(path.display()))? })
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<(u64, Record), Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = match &mut self.from {
            From::File(lines) => lines.next()?.map_err(Failure::from),
            From::Log(entries) => entries.next()?.map(numbered).map_err(Failure::from),
        };
        Some(read.map_err(|failure| failure.about(self.path.display())))
    }
}

fn numbered(entry: LogEntry) -> (u64, Record) {
    (entry.seq(), entry.into_record())
}

/// Whether what could not be read is a last line that does not end, which was never acknowledged.
pub(crate) fn is_torn(failure: &Failure) -> bool {
    failure.code() == ReadError::Torn { line: 0 }.code()
}

/// One entry as a record has it.
#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    #[serde(flatten)]
    record: &'a Record,
}

/// Prints one entry in the form that the user asked for.
pub(super) fn print(out: &mut Output, seq: u64, record: &Record) -> Result<(), Failure> {
    if out.is_json() { out.json(&Line { seq, record }) } else { out.line(&describe(seq, record)) }
}
