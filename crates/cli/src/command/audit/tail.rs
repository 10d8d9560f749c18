use std::collections::VecDeque;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use clap::Args;
use countersign_audit_log::Record;

use super::entries::print;
use super::follow::{Follower, segments};
use super::show::{Wanted, say_unverified};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How long to wait before looking for more.
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct Tail {
    /// The log's folder.
    folder: PathBuf,
    /// How many entries to print from the end, at most 10,000.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(..=10_000))]
    lines: u16,
    /// Go on with the entries that come, into the log's next segments too, until interrupted.
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    wanted: Wanted,
}

impl Tail {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let about = |failure: Failure| failure.about(self.folder.display());
        let (last, mut follower) = self.last().map_err(about)?;
        say_unverified();
        for (seq, record) in last {
            print(out, seq, &record)?;
        }
        if !self.follow {
            return Ok(Exit::Done);
        }
        loop {
            out.flush()?;
            sleep(PAUSE);
            while let Some((seq, record)) = follower.next_entry().map_err(about)? {
                if self.wanted.wants(&record) {
                    print(out, seq, &record)?;
                }
            }
        }
    }

    /// The last entries that are wanted, and where to go on behind them. No more segments are read than hold them.
    fn last(&self) -> Result<(VecDeque<(u64, Record)>, Follower), Failure> {
        let mut segments = segments(&self.folder)?;
        let mut first = segments.pop().ok_or_else(Follower::no_log)?;
        let mut follower = Follower::start(&self.folder, first)?;
        let mut last = self.last_before(&mut follower, u64::MAX)?;
        while last.len() < usize::from(self.lines)
            && let Some(earlier) = segments.pop()
        {
            let mut before = self.last_before(&mut Follower::start(&self.folder, earlier)?, first)?;
            before.append(&mut last);
            self.cut(&mut before);
            (first, last) = (earlier, before);
        }
        Ok((last, follower))
    }

    /// Reads on to the end, or to the entry with that number; gives the last ones that are wanted.
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
