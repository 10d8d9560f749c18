use std::path::Path;

use countersign_audit_log::{LogEntries, Record, read_log};
use serde::Serialize;

use super::describe::describe;
use crate::failure::Failure;
use crate::output::Output;

/// The entries of a log in order, as they stand. Nothing is verified.
#[derive(Debug)]
pub(crate) struct Entries<'p> {
    folder: &'p Path,
    entries: LogEntries,
}

impl<'p> Entries<'p> {
    pub(crate) fn read(folder: &'p Path) -> Result<Self, Failure> {
        let entries = read_log(folder).map_err(|error| Failure::from(error).about(folder.display()))?;
        Ok(Self { folder, entries })
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<(u64, Record), Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.entries.next()?.map(|entry| (entry.seq(), entry.into_record()));
        Some(read.map_err(|error| Failure::from(error).about(self.folder.display())))
    }
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
