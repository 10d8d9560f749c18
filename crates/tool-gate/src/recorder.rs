//! The record of a session's decisions.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_audit_log::{
    AuditSink, CallRecord, CallRecordRef, DecisionLine, RecordedTool, RecordedValues, UnrecordedAnswer,
};
use countersign_core::{Timestamp, TokenId};
use parking_lot::Mutex;

use crate::code::RejectionCode;
use crate::rows::Rows;

/// Number of undisclosed names that a gate remembers.
const RECENT_NAMES: usize = 64;

pub(crate) struct GateRecorder {
    pub(crate) sink: Arc<dyn AuditSink>,
    pub(crate) rows: Rows,
    /// Set when an outcome could not be recorded: the record is incomplete, so every later call is refused.
    is_lost: AtomicBool,
    /// Set once the session's end was recorded or its recording failed.
    has_ended: AtomicBool,
    recent: Mutex<RecentAnswers>,
    /// Number of recent records to keep.
    keeps: usize,
}

#[derive(Debug, Default)]
struct RecentAnswers {
    /// Lines of the last decisions without their numbers, one after another, and their lengths: a copy of a record would
    /// need an allocation for each of its members.
    lines: VecDeque<u8>,
    lengths: VecDeque<usize>,
    undisclosed: VecDeque<RecordedTool>,
}

impl GateRecorder {
    pub(crate) fn new(sink: Arc<dyn AuditSink>, rows: Rows, keeps: usize) -> Self {
        let (is_lost, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { sink, rows, is_lost, has_ended, recent: Mutex::default(), keeps }
    }

    /// Records a decision, and remembers it only if that succeeds.
    pub(crate) fn record(&self, call: &CallRecordRef<'_>) -> Result<u64, ()> {
        let line = DecisionLine::new(call).map_err(drop)?;
        match catch_unwind(AssertUnwindSafe(|| self.sink.record_decision(&line))) {
            Ok(Ok(sequence)) => {
                self.remember_line(&line);
                Ok(sequence)
            }
            Ok(Err(_)) | Err(_) => Err(()),
        }
    }

    /// Records a decision about a plan.
    pub(crate) fn record_plan(&self, record: &CallRecord) -> Result<u64, ()> {
        self.record(&record.into())
    }

    /// Remembers a decision that is recorded in a sum.
    pub(crate) fn remember(&self, call: &CallRecordRef<'_>) {
        if let Ok(line) = DecisionLine::new(call) {
            self.remember_line(&line);
        }
    }

    fn remember_line(&self, line: &DecisionLine<'_>) {
        if !line.call().values.is_empty() {
            return self.remember(&CallRecordRef { values: &RecordedValues::default(), ..*line.call() });
        }
        if self.keeps == 0 {
            return;
        }
        let RecentAnswers { lines, lengths, .. } = &mut *self.recent.lock();
        if lengths.len() >= self.keeps {
            let oldest = lengths.pop_front().unwrap_or_default();
            lines.drain(..oldest.min(lines.len()));
        }
        lines.extend(line.body());
        lengths.push_back(line.body().len());
    }

    pub(crate) fn remember_undisclosed(&self, tool: RecordedTool) {
        let mut recent = self.recent.lock();
        if recent.undisclosed.len() == RECENT_NAMES {
            recent.undisclosed.pop_front();
        }
        recent.undisclosed.push_back(tool);
    }

    /// Returns the last decisions, oldest first.
    pub(crate) fn recent_records(&self) -> Vec<CallRecord> {
        let RecentAnswers { lines, lengths, .. } = &mut *self.recent.lock();
        let mut rest = &*lines.make_contiguous();
        let records = lengths.iter().filter_map(|length| {
            let (line, later) = rest.split_at_checked(*length)?;
            rest = later;
            DecisionLine::parse(line)
        });
        records.collect()
    }

    pub(crate) fn attempted_undisclosed(&self) -> UndisclosedAttempts {
        let recent: Vec<_> = self.recent.lock().undisclosed.iter().cloned().collect();
        UndisclosedAttempts {
            count: self.rows.session.rejected_with(RejectionCode::UndisclosedTool),
            recent: recent.iter().map(|tool| format!("{}:{}", tool.server, tool.name)).collect(),
        }
    }

    /// Lets the sink count an answer that could not be recorded; `spent` is the approval that was spent for it.
    pub(crate) fn note_unrecorded(&self, time: Timestamp, spent: Option<&TokenId>) {
        let code = RejectionCode::AuditUnavailable.as_str();
        let answer = UnrecordedAnswer { time, code, approval: spent };
        // The sink is the embedder's and may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| self.sink.note_unrecorded(&answer)));
    }

    /// Marks the record as incomplete: every later call is refused.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }

    /// Marks the session as ended; returns `false` if it had ended before.
    pub(crate) fn end(&self) -> bool {
        !self.has_ended.swap(true, Ordering::SeqCst)
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
