use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use countersign_audit_log::Record;

use countersign_host::entries::{Entry, Logs};

use super::entries::print;
use super::follow::{Follower, Followers, segments};
use super::show::{EntryFilter, say_unverified};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// The log's folder. Where several logs lie in it, all are read, merged by time, and each line names its log.
    folder: PathBuf,
    /// How many entries to print from the end, at most 10,000.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(..=10_000))]
    lines: u16,
    /// Follow new entries, into the log's next segments too, until interrupted.
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    wanted: EntryFilter,
}

impl Tail {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let about = |failure: Failure| failure.about(self.folder.display());
        let (last, mut followers) = self.last_of_all().map_err(about)?;
        say_unverified();
        for entry in &last {
            print(out, entry)?;
        }
        if !self.follow {
            return Ok(Exit::Done);
        }
        loop {
            out.flush()?;
            sleep(PAUSE);
            while let Some(entry) = followers.next_entry().map_err(about)? {
                if self.wanted.wants(&entry.record) {
                    print(out, &entry)?;
                }
            }
        }
    }

    /// Returns the last wanted entries of all logs, merged by time, and the followers that continue after them.
    fn last_of_all(&self) -> Result<(Vec<Entry>, Followers), Failure> {
        let (mut logs, mut followers, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for (number, name, folder) in Logs::of(&self.folder)?.each() {
            let (of_log, follower) = self.last(&folder)?;
            logs.push((name, of_log));
            followers.push((number, follower));
        }
        // Entries of one log keep their order, even if a clock was set back.
        let time = |(_, entries): &&mut (_, VecDeque<(u64, Record)>)| {
            entries.front().map(|(_, record)| record.time())
        };
        while let Some((log, entries)) =
            logs.iter_mut().filter(|(_, entries)| !entries.is_empty()).min_by_key(time)
        {
            last.extend(entries.pop_front().map(|(seq, record)| Entry { log: *log, seq, record }));
        }
        let more = last.len().saturating_sub(usize::from(self.lines));
        last.drain(..more);
        Ok((last, Followers::after(&self.folder, followers)))
    }

    /// Returns the last wanted entries of one log and a follower that continues after them. Reads as few segments as
    /// possible.
    fn last(&self, folder: &Path) -> Result<(VecDeque<(u64, Record)>, Follower), Failure> {
        let mut segments = segments(folder)?;
        let mut first = segments.pop().ok_or_else(Follower::no_log)?;
        let (mut last, follower) = self.last_of_segment(folder, first, None)?;
        while last.len() < usize::from(self.lines)
            && let Some(earlier) = segments.pop()
        {
            let (mut before, _) = self.last_of_segment(folder, earlier, Some(first))?;
            before.append(&mut last);
            self.cut(&mut before);
            (first, last) = (earlier, before);
        }
        Ok((last, follower))
    }

    /// Returns the last wanted entries of one segment, as [`last`](Self::last) does. Starts near the end, and further
    /// back if it finds too few.
    fn last_of_segment(
        &self,
        folder: &Path,
        first: u64,
        next: Option<u64>,
    ) -> Result<(VecDeque<(u64, Record)>, Follower), Failure> {
        let mut entries = u64::from(self.lines);
        loop {
            let (mut follower, is_all) = Follower::near_end(folder, first, next, entries)?;
            let last = self.last_before(&mut follower, next.unwrap_or(u64::MAX))?;
            if is_all || last.len() >= usize::from(self.lines) {
                return Ok((last, follower));
            }
            entries = entries.saturating_mul(16);
        }
    }

    /// Reads to the end of the log or up to entry `end`, and returns the last wanted entries.
    fn last_before(&self, follower: &mut Follower, end: u64) -> Result<VecDeque<(u64, Record)>, Failure> {
        let mut last = VecDeque::new();
        while let Some((seq, record)) = follower.next_entry()?.filter(|(seq, _)| *seq < end) {
            if self.wanted.wants(&record) {
                last.push_back((seq, record));
                self.cut(&mut last);
            }
        }
        Ok(last)
    }

    fn cut(&self, last: &mut VecDeque<(u64, Record)>) {
        let more = last.len().saturating_sub(usize::from(self.lines));
        last.drain(..more);
    }
}
