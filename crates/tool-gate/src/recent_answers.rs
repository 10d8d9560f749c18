//! The last decisions and undisclosed names of a session.

use std::collections::VecDeque;

use countersign_audit_log::{CallRecord, DecisionLine, RecordedTool};

/// Number of undisclosed names that a gate remembers.
const RECENT_NAMES: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct RecentAnswers {
    /// Lines of the last decisions without their numbers, one after another, and their lengths: a copy of a record would
    /// need an allocation for each of its members.
    lines: VecDeque<u8>,
    lengths: VecDeque<usize>,
    undisclosed: VecDeque<RecordedTool>,
}

impl RecentAnswers {
    /// Keeps the line of a decision as one of the last `most`.
    pub(crate) fn keep(&mut self, line: &[u8], most: usize) {
        if self.lengths.len() >= most {
            let oldest = self.lengths.pop_front().unwrap_or_default();
            self.lines.drain(..oldest.min(self.lines.len()));
        }
        self.lines.extend(line);
        self.lengths.push_back(line.len());
    }

    pub(crate) fn keep_undisclosed(&mut self, tool: RecordedTool) {
        if self.undisclosed.len() == RECENT_NAMES {
            self.undisclosed.pop_front();
        }
        self.undisclosed.push_back(tool);
    }

    /// Returns the kept decisions, oldest first.
    pub(crate) fn records(&mut self) -> Vec<CallRecord> {
        let mut rest = &*self.lines.make_contiguous();
        let records = self.lengths.iter().filter_map(|length| {
            let (line, later) = rest.split_at_checked(*length)?;
            rest = later;
            DecisionLine::parse(line)
        });
        records.collect()
    }

    pub(crate) fn undisclosed_attempts(&self, count: u64) -> UndisclosedAttempts {
        let shown = |tool: &RecordedTool| format!("{}:{}", tool.server, tool.name);
        UndisclosedAttempts { count, recent: self.undisclosed.iter().map(shown).collect() }
    }
}

/// The agent's attempts to call tools that its session does not disclose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndisclosedAttempts {
    count: u64,
    recent: Vec<String>,
}

impl UndisclosedAttempts {
    /// Returns the exact number of attempts, including [observed](crate::ToolGate::observe) ones.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the last names, oldest first, as `server:name` with invisible characters escaped; at most 64 of them. A
    /// server that the call did not name is shown as `?`.
    #[must_use]
    pub fn recent(&self) -> &[String] {
        &self.recent
    }
}
