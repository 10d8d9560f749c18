//! The record of a session's decisions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use countersign_audit_log::{
    AuditSink, CallRecord, CallRecordRef, DecisionLine, RecordedTool, RecordedValues, UnrecordedAnswer,
};
use countersign_core::Timestamp;
use parking_lot::Mutex;

use crate::code::RejectionCode;
use crate::findings::SpentIds;
use crate::recent_answers::{RecentAnswers, UndisclosedAttempts};
use crate::rows::Rows;

pub(crate) struct GateRecorder {
    pub(crate) sink: Arc<dyn AuditSink>,
    pub(crate) rows: Rows,
    /// Set when an outcome could not be recorded: the record is incomplete, so every later call is refused.
    is_lost: AtomicBool,
    /// Set once the session's end was recorded or its recording failed.
    has_ended: AtomicBool,
    /// In a box once there is an answer, as a session is to be small.
    recent: Mutex<Option<Box<RecentAnswers>>>,
    /// Number of recent records to keep. Half a word, as a session is to be small.
    keeps: u32,
}

impl GateRecorder {
    pub(crate) fn new(sink: Arc<dyn AuditSink>, rows: Rows, keeps: usize) -> Self {
        let (is_lost, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let keeps = u32::try_from(keeps).unwrap_or(u32::MAX);
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

    /// Records the refusals that are in sums. why: before an acceptance, so that a replayed alarm sees their order.
    pub(crate) fn record_refusals(&self, time: Timestamp) -> Result<(), ()> {
        self.rows.refused.write(time).map_err(drop)
    }

    /// Records a decision about a plan.
    pub(crate) fn record_plan(&self, record: &CallRecord) -> Result<u64, ()> {
        self.record(&record.into())
    }

    /// Remembers a decision that is recorded elsewhere: in a sum, or in a batch.
    pub(crate) fn remember(&self, call: &CallRecordRef<'_>) {
        if let Ok(line) = DecisionLine::new(call) {
            self.remember_line(&line);
        }
    }

    fn remember_line(&self, line: &DecisionLine<'_>) {
        if !line.call().values.is_empty() {
            return self.remember(&CallRecordRef { values: &RecordedValues::default(), ..*line.call() });
        }
        if self.keeps > 0 {
            self.recent.lock().get_or_insert_default().keep(line.body(), self.keeps as usize);
        }
    }

    pub(crate) fn remember_undisclosed(&self, tool: RecordedTool) {
        self.recent.lock().get_or_insert_default().keep_undisclosed(tool);
    }

    /// Returns the last decisions, oldest first.
    pub(crate) fn recent_records(&self) -> Vec<CallRecord> {
        self.recent.lock().as_mut().map(|recent| recent.records()).unwrap_or_default()
    }

    pub(crate) fn attempted_undisclosed(&self) -> UndisclosedAttempts {
        let count = self.rows.session.rejected_with(RejectionCode::UndisclosedTool);
        self.recent.lock().as_deref().unwrap_or(&RecentAnswers::default()).undisclosed_attempts(count)
    }

    /// Lets the sink count an answer that could not be recorded; `spent` are the approvals that were spent for it.
    pub(crate) fn note_unrecorded(&self, time: Timestamp, (approval, co_approvals): SpentIds<'_>) {
        let code = RejectionCode::AuditUnavailable.as_str();
        let answer = UnrecordedAnswer { time, code, approval, co_approvals };
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
