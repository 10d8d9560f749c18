use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use countersign_audit_log::{
    AuditError, AuditSink, DecisionLine, Log, OutcomeRecord, Record, SubmittedDecision, UnrecordedAnswer,
};

use crate::error::{HostError, chain};
use crate::record::health::Synced;
use crate::report::Reporter;

/// Interval between two saves of the log's state.
const STATE_SAVED: Duration = Duration::from_secs(10);

/// A session's log. Reports when it fails and when it works again, once each: otherwise only the
/// agent would notice, from its refused calls.
#[derive(Debug)]
pub(crate) struct ReportingLog {
    log: Log,
    folder: PathBuf,
    /// Held for reading during each record, so that the end follows all of them.
    life: RwLock<Life>,
    state: Mutex<RecordState>,
    /// Whether the last save of the log's state succeeded.
    state_kept: Mutex<bool>,
    /// Files with checkpoints that are kept elsewhere.
    #[cfg_attr(not(feature = "prometheus"), expect(dead_code, reason = "for metrics alone"))]
    kept: Vec<PathBuf>,
    synced: Synced,
    reporter: Reporter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    Ended,
}

impl Life {
    fn require_open(self) -> Result<(), AuditError> {
        match self {
            Self::Open => Ok(()),
            // No checkpoint would cover it.
            Self::Ended => Err(AuditError::Unavailable(io::Error::other("its session has ended"))),
        }
    }
}

/// Result of the last observed record.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RecordState {
    Works,
    Fails { code: &'static str, why: String },
}

impl AuditSink for ReportingLog {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        life.require_open()?;
        let kept = self.log.record(record);
        self.synced.note(&self.log);
        self.observe(RecordState::of(&kept));
        kept
    }

    fn record_decision(&self, decision: &DecisionLine<'_>) -> Result<u64, AuditError> {
        let life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        life.require_open()?;
        let kept = self.log.record_decision(decision);
        self.synced.note(&self.log);
        self.observe(RecordState::of(&kept));
        kept
    }

    fn submit_decision(&self, decision: &DecisionLine<'_>) -> Result<SubmittedDecision, AuditError> {
        let life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        life.require_open()?;
        let taken = self.log.submit_decision(decision);
        // why: a decision that is taken does not show that the log works; waiting for it does.
        if let Err(error) = &taken {
            self.observe(RecordState::failed(error));
        }
        taken
    }

    fn wait_decision(&self, submitted: SubmittedDecision) -> Result<u64, AuditError> {
        // why: not refused after the end, which kept all that was submitted.
        let _life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        let kept = self.log.wait_decision(submitted);
        self.synced.note(&self.log);
        self.observe(RecordState::of(&kept));
        kept
    }

    fn record_later(&self, outcome: &OutcomeRecord) -> Result<(), AuditError> {
        let life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        life.require_open()?;
        // why: unobserved, since it does not show that the log works.
        self.log.record_later(outcome)
    }

    fn flush(&self) -> Result<(), AuditError> {
        let life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        life.require_open()?;
        let kept = self.log.flush();
        self.synced.note(&self.log);
        // why: without outcomes it does not show that the log works.
        if let Err(error) = &kept {
            self.observe(RecordState::failed(error));
        }
        kept
    }

    fn waits_for_disk(&self) -> bool {
        self.log.waits_for_disk()
    }

    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        let life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        // An answer after the end belongs to no outage.
        if *life == Life::Open {
            self.log.note_unrecorded(answer);
        }
    }
}

impl ReportingLog {
    pub(crate) fn new(log: Log, folder: PathBuf, kept: Vec<PathBuf>, reporter: Reporter) -> Self {
        report_cuts(&log, &folder, &reporter);
        Self {
            synced: Synced::opened(&log),
            kept,
            log,
            folder,
            life: RwLock::new(Life::Open),
            state: Mutex::new(RecordState::Works),
            state_kept: Mutex::new(true),
            reporter,
        }
    }

    /// Returns where lines for the operator go.
    pub(crate) const fn reporter(&self) -> &Reporter {
        &self.reporter
    }

    pub(crate) const fn log(&self) -> &Log {
        &self.log
    }

    /// Returns `true` once the log has ended and accepts no more records.
    pub(crate) fn has_ended(&self) -> bool {
        *self.life.read().unwrap_or_else(PoisonError::into_inner) == Life::Ended
    }

    /// Saves the log's state every few seconds while the log is in use.
    pub(crate) fn keep_state(this: &Arc<Self>) {
        let weak = Arc::downgrade(this);
        let keep = move || {
            loop {
                std::thread::sleep(STATE_SAVED);
                let Some(log) = weak.upgrade() else { return };
                let life = log.life.read().unwrap_or_else(PoisonError::into_inner);
                if *life == Life::Ended {
                    return;
                }
                log.save_state();
            }
        };
        let thread = std::thread::Builder::new().name("countersign-state".to_owned());
        if let Err(error) = thread.spawn(keep) {
            // The log also saves it itself, but less often.
            this.reporter.warn_of(&HostError::new(
                "AUDIT_STATE",
                format!("thread for the log's state could not be started: {error}"),
            ));
        }
    }

    /// Verifies entries older than the log's state in the background, so that the first answers need not wait. Damage
    /// there makes every call refused. Without damage, `verified` is called.
    pub(crate) fn verify_older(this: &Arc<Self>, verified: impl FnOnce() + Clone + Send + 'static) {
        let (log, done) = (Arc::clone(this), verified.clone());
        let verify = move || match log.log.verify_older() {
            Ok(_) => done(),
            Err(error) => log.observe(RecordState::failed(&error)),
        };
        let thread = std::thread::Builder::new().name("countersign-verify".to_owned());
        if thread.spawn(verify).is_err() {
            // Without a thread it runs here, which delays the start.
            match this.log.verify_older() {
                Ok(_) => verified(),
                Err(error) => this.observe(RecordState::of(&Err(error))),
            }
        }
    }

    /// Saves the log's state and reports a failure once. Failures of the log itself are reported elsewhere.
    fn save_state(&self) {
        let saved = self.log.save_state();
        self.synced.note(&self.log);
        let mut kept = self.state_kept.lock().unwrap_or_else(PoisonError::into_inner);
        match saved {
            Err(error @ AuditError::State { .. }) => {
                if std::mem::replace(&mut *kept, false) {
                    let text = format!("cannot be saved, will be retried: {}", chain(&error));
                    self.reporter.warn_of(&self.failure(error.code(), &text));
                }
            }
            Ok(()) => *kept = true,
            Err(_) => {}
        }
    }

    /// Writes a checkpoint over all records and refuses any later one. why: a thread that is not joined may hold the
    /// log until the process ends, so that the log is never dropped.
    pub(crate) fn end(&self) -> Result<(), HostError> {
        let mut life = self.life.write().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *life, Life::Ended) == Life::Ended {
            return Ok(());
        }
        let ended = self.log.checkpoint();
        report_cuts(&self.log, &self.folder, &self.reporter);
        if ended.is_ok() {
            self.save_state();
        }
        ended.and_then(|_| self.log.require_undamaged()).map_err(|error| {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let (code, why) = match (&error, state) {
                // The earlier failure explains more than the fact that there was one.
                (AuditError::Poisoned, RecordState::Fails { code, why }) => (code, why),
                (_, RecordState::Works | RecordState::Fails { .. }) => (error.code(), chain(&error)),
            };
            self.failure(code, &format!("the record could not be closed: {why}"))
        })
    }

    /// Ends the record, and reports a failure unless an earlier one was reported.
    pub(crate) fn end_reported(&self) {
        let ended = self.end();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Err(failure), RecordState::Works) = (ended, &*state) {
            self.reporter.warn_of(&failure);
        }
    }

    /// Reports a change between working and failing.
    fn observe(&self, now: RecordState) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*state, &now) {
            (RecordState::Works, RecordState::Works) => return,
            (RecordState::Fails { .. }, RecordState::Fails { .. }) => {}
            (RecordState::Works, RecordState::Fails { code, why }) => {
                self.reporter
                    .warn_of(&self.failure(code, &format!("recording failed, calls are refused: {why}")));
            }
            (RecordState::Fails { .. }, RecordState::Works) => {
                report_cuts(&self.log, &self.folder, &self.reporter);
                self.reporter.warn_of(&self.failure("AUDIT_RESUMED", "recording resumed"));
            }
        }
        *state = now;
    }

    fn failure(&self, code: &'static str, text: &str) -> HostError {
        HostError::new(code, text).about(self.folder.display())
    }
}

impl Drop for ReportingLog {
    fn drop(&mut self) {
        self.end_reported();
    }
}

impl RecordState {
    fn of(kept: &Result<u64, AuditError>) -> Self {
        match kept {
            Ok(_) => Self::Works,
            Err(error) => Self::failed(error),
        }
    }

    fn failed(error: &AuditError) -> Self {
        Self::Fails { code: error.code(), why: chain(error) }
    }
}

/// Reports the bytes that the log cut since the last call, and the file that contains them.
pub(super) fn report_cuts(log: &Log, folder: &Path, reporter: &Reporter) {
    for cut in log.take_recovered() {
        let file = folder.join(cut.file);
        let text =
            format!("{} bytes after the last checkpoint were cut and saved in {}", cut.bytes, file.display());
        reporter.warn_of(&HostError::new("AUDIT_RECOVERED", text).about(folder.display()));
    }
}

#[cfg(feature = "prometheus")]
impl ReportingLog {
    /// Returns the current health of the record.
    pub(crate) fn health(&self) -> super::RecordHealth {
        super::RecordHealth::of(&self.log, &self.folder, &self.synced, &self.kept)
    }
}
