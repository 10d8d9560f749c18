use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use countersign_audit_log::{AuditError, AuditSink, Log, Record, UnrecordedAnswer};

use crate::failure::{Failure, chain};
use crate::output::note;
use crate::record::health::Synced;

/// How often the log's state is brought up to date.
const STATE_SAVED: Duration = Duration::from_secs(10);

/// A session's log. Tells the operator on standard error when it fails and when it works again, once each time: the agent
/// alone would hear of it otherwise, as the reason why its calls are refused.
#[derive(Debug)]
pub(crate) struct ToldLog {
    log: Log,
    folder: PathBuf,
    /// Held for reading through each record, so that the end comes behind all of them.
    life: RwLock<Life>,
    state: Mutex<State>,
    /// Whether the log's state could be saved the last time.
    state_kept: Mutex<bool>,
    /// Files with checkpoints that are kept elsewhere.
    #[cfg_attr(not(feature = "prometheus"), expect(dead_code, reason = "for metrics alone"))]
    kept: Vec<PathBuf>,
    synced: Synced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Open,
    Ended,
}

/// How the last record went that was heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Works,
    Fails { code: &'static str, why: String },
}

impl AuditSink for ToldLog {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        if *life == Life::Ended {
            // No checkpoint would come behind it.
            return Err(AuditError::Unavailable(io::Error::other("its session has ended")));
        }
        let kept = self.log.record(record);
        self.synced.note(&self.log);
        self.heard(State::of(&kept));
        kept
    }

    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        let life = self.life.read().unwrap_or_else(PoisonError::into_inner);
        // What comes behind the end is in no outage.
        if *life == Life::Open {
            self.log.note_unrecorded(answer);
        }
    }
}

impl ToldLog {
    pub(crate) fn new(log: Log, folder: PathBuf, kept: Vec<PathBuf>) -> Self {
        report_cuts(&log, &folder);
        Self {
            synced: Synced::opened(&log),
            kept,
            log,
            folder,
            life: RwLock::new(Life::Open),
            state: Mutex::new(State::Works),
            state_kept: Mutex::new(true),
        }
    }

    pub(crate) const fn log(&self) -> &Log {
        &self.log
    }

    /// Returns `true` once nothing is recorded any more.
    pub(crate) fn has_ended(&self) -> bool {
        *self.life.read().unwrap_or_else(PoisonError::into_inner) == Life::Ended
    }

    /// Saves the log's state every few seconds, for as long as the log is in use.
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
            // The log saves it by itself, if less often.
            warn(&Failure::new("AUDIT_STATE", format!("no thread for the log's state: {error}")));
        }
    }

    /// Verifies entries older than the log's state, behind the first answers. Damage there refuses every call.
    pub(crate) fn verify_older(this: &Arc<Self>) {
        let log = Arc::clone(this);
        let verify = move || {
            if let Err(error) = log.log.verify_older() {
                log.heard(State::of(&Err(error)));
            }
        };
        let thread = std::thread::Builder::new().name("countersign-verify".to_owned());
        if thread.spawn(verify).is_err() {
            // Then it takes its time now.
            if let Err(error) = this.log.verify_older() {
                this.heard(State::of(&Err(error)));
            }
        }
    }

    /// Saves the log's state, and reports a failure once. What the log itself reports is not for here.
    fn save_state(&self) {
        let saved = self.log.save_state();
        self.synced.note(&self.log);
        let mut kept = self.state_kept.lock().unwrap_or_else(PoisonError::into_inner);
        match saved {
            Err(error @ AuditError::State { .. }) => {
                if std::mem::replace(&mut *kept, false) {
                    let text = format!("cannot be saved, and is tried again: {}", chain(&error));
                    warn(&self.failure(error.code(), &text));
                }
            }
            Ok(()) => *kept = true,
            Err(_) => {}
        }
    }

    /// Puts a checkpoint behind all that is on record, and refuses whatever still comes. A thread that nobody waits for may
    /// hold the log for longer than the process lasts, so that it is never dropped.
    pub(crate) fn end(&self) -> Result<(), Failure> {
        let mut life = self.life.write().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *life, Life::Ended) == Life::Ended {
            return Ok(());
        }
        let ended = self.log.checkpoint();
        report_cuts(&self.log, &self.folder);
        if ended.is_ok() {
            self.save_state();
        }
        ended.and_then(|_| self.log.require_undamaged()).map_err(|error| {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let (code, why) = match (&error, state) {
                // What failed before says more than that it did.
                (AuditError::Poisoned, State::Fails { code, why }) => (code, why),
                (_, State::Works | State::Fails { .. }) => (error.code(), chain(&error)),
            };
            self.failure(code, &format!("the record could not be ended in order: {why}"))
        })
    }

    /// Ends the record, and reports a failure on standard error unless an earlier one was reported.
    pub(crate) fn end_reported(&self) {
        let ended = self.end();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Err(failure), State::Works) = (ended, &*state) {
            warn(&failure);
        }
    }

    /// Tells of what is heard of a record, if it is another thing than before.
    fn heard(&self, now: State) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*state, &now) {
            (State::Works, State::Works) => return,
            (State::Fails { .. }, State::Fails { .. }) => {}
            (State::Works, State::Fails { code, why }) => {
                warn(&self.failure(code, &format!("the record fails, and calls are refused: {why}")));
            }
            (State::Fails { .. }, State::Works) => {
                report_cuts(&self.log, &self.folder);
                warn(&self.failure("AUDIT_RESUMED", "the record works again"));
            }
        }
        *state = now;
    }

    fn failure(&self, code: &'static str, text: &str) -> Failure {
        Failure::new(code, text).about(self.folder.display())
    }
}

impl Drop for ToldLog {
    fn drop(&mut self) {
        self.end_reported();
    }
}

impl State {
    fn of(kept: &Result<u64, AuditError>) -> Self {
        match kept {
            Ok(_) => Self::Works,
            Err(error) => Self::Fails { code: error.code(), why: chain(error) },
        }
    }
}

/// Reports what the log cut since this was called last, and where the bytes are.
pub(super) fn report_cuts(log: &Log, folder: &Path) {
    for cut in log.take_recovered() {
        let file = folder.join(cut.file);
        let text =
            format!("{} bytes were cut behind the last checkpoint, and are in {}", cut.bytes, file.display());
        warn(&Failure::new("AUDIT_RECOVERED", text).about(folder.display()));
    }
}

fn warn(failure: &Failure) {
    note(&format!("warning {}: {}", failure.code(), failure.line()));
}

#[cfg(feature = "prometheus")]
impl ToldLog {
    /// How the record fares now.
    pub(crate) fn health(&self) -> super::RecordHealth {
        super::RecordHealth::of(&self.log, &self.folder, &self.synced, &self.kept)
    }
}
