pub(crate) mod batch;
mod cut;
mod failure;
mod gaps;
mod group_commit;
mod keeper;
mod late;
mod new_line;
mod older;
mod open;
mod open_calls;
mod options;
mod recovery;
mod reopen;
mod share;
mod side;
pub(crate) mod state;
mod writer;

pub use cut::CutBytes;
pub use keeper::LogStart;
pub(crate) use keeper::StateKeeper;
pub(crate) use open::LOCK;
pub use options::{Durability, LogOptions};

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use countersign_core::Timestamp;
use countersign_keys::state_file::LockWait;
use countersign_merkle::TreeHead;
use parking_lot::Mutex;

use crate::closing::require_not_closed;
use crate::disk::Disk;
use crate::log_state::LogProgress;
use crate::{
    AuditError, AuditSink, DecisionLine, FolderDisk, LogError, LogKey, OutcomeRecord, RebuiltSide, Record,
    SubmittedDecision, UnrecordedAnswer,
};
use failure::LogFailure;
use new_line::NewLine;
use older::Older;
use open::Opened;
use state::LogState;

/// Durable log of records in a folder. It survives a crash, and every change to its records is detected.
///
/// A log has one JSON object per line: records, whose lines are the leaves of an RFC 9162 tree, and checkpoints of that
/// tree, signed by the log's key (C2SP tlog-checkpoint). The lines are split into segments. Sequence numbers run from 1
/// across all of them. One writer has the folder, by an advisory lock that ends with the log.
/// [`verify_log`](crate::verify_log) reads the whole log back, as [`Log::open`] does.
///
/// There is no background thread. Callers add their records to the open batch. The first caller that finds no writer at
/// work writes and syncs the batch for all of them ([`Durability`]). With [`submit`](Self::submit) one thread can have
/// many records in flight.
///
/// After a failed write or sync, every waiting caller is refused, and the file is closed and never synced again. The
/// next record reopens the log, verifies it and continues in a new segment; if that fails, the record is refused too.
/// Acknowledged records are never dropped. Refused records may still be in the log: a batch that reads back whole, with
/// its checkpoint, is kept, because a reader may have seen it. All other unacknowledged bytes are cut. They are first
/// copied to a file named `cut-` and the number of the record that names it.
///
/// If a process ended before it recorded the outcome of a call, opening the log records the outcome `unknown`
/// ([`OutcomeBy::Recovery`](crate::OutcomeBy::Recovery)). So every accepted decision gets an outcome, unless it is in
/// an archived segment.
///
/// A state next to the folder ([`LogOptions::state`]) keeps the last synced checkpoint. A folder that was deleted, cut
/// or replaced by an older copy does not continue from that checkpoint and is not opened. The state is saved when the
/// log is opened, at every [`checkpoint`](Self::checkpoint) and when the log is closed. In between it is saved once it
/// is 256 records and 64 batches behind, or 10 seconds behind by the records' own times. It never names a checkpoint
/// that is not synced.
///
/// Not protected against: a holder of the signing key can write another log, and a writer of both folder and state can
/// replace both. Against these, keep [`checkpoint`](Self::checkpoint)s elsewhere, and pass the latest one in when the
/// log is opened ([`LogOptions::known_checkpoint`]).
///
/// ```
/// use countersign_audit_log::{AuditSink, Direction, GatewayRecord, Log, LogKey, LogOptions, Record, verify_log};
/// use countersign_core::Timestamp;
/// use countersign_keys::SigningKey;
/// use countersign_tlog::note::KeyName;
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path().join("log");
/// let (origin, key) = (KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32]));
/// let public = LogKey::new(origin.clone(), key.verifying_key());
/// let log = Log::open(&folder, LogOptions::new(origin, key))?;
/// let record = GatewayRecord::new(Timestamp::EPOCH, Direction::ToServer, "MALFORMED_CALL");
/// assert_eq!(log.record(&Record::Gateway(record))?, 1);
/// assert_eq!(verify_log(&folder, &public, &[])?.records, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Log {
    disk: Box<dyn Disk>,
    options: LogOptions,
    keeper: Option<StateKeeper>,
    start: LogStart,
    state: Mutex<LogState>,
    /// Last acknowledged record and its life, copied from `state` so that they can be read without its lock.
    kept: AtomicU64,
    life: AtomicU64,
    /// Held for each record if every record is synced alone.
    turn: Mutex<()>,
    rebuilt: Vec<RebuiltSide>,
    /// Older entries that were not verified at opening, and the damage found in them.
    older: Mutex<Option<Older>>,
    damage: OnceLock<Arc<LogError>>,
}

/// Record that has a number and waits to be kept. If dropped, it is kept together with the next record that is waited
/// for, or when the log is closed.
#[derive(Debug)]
#[must_use = "a record counts once `wait` has returned"]
pub struct Pending<'a> {
    log: &'a Log,
    life: u64,
    seq: u64,
}

impl Pending<'_> {
    /// Waits until the record is kept and returns its number. If no other caller writes, it writes this record and all
    /// others that wait. It sleeps in [`park`](std::thread::park), whose token it may consume or leave set.
    ///
    /// # Errors
    /// As [`AuditSink::record`]. Also for a record that was kept, if the log has failed twice since then.
    pub fn wait(self) -> Result<u64, AuditError> {
        self.log.wait(self.life, self.seq).map(|()| self.seq)
    }
}

impl Log {
    /// Opens the log in a folder, or begins one. Creates the folder if it is missing.
    ///
    /// Reads and verifies all segments. Bytes after the last checkpoint are cut, and a
    /// [`RecoveredRecord`](crate::RecoveredRecord) records that; `System` keeps whole records there. The cut records
    /// were acknowledged only if a writer under [`Durability::System`] wrote them. An empty folder begins a log, unless
    /// the state knows one.
    ///
    /// # Errors
    /// [`AuditError::Locked`] if another writer has the folder; [`AuditError::Closed`] if it has a closing note;
    /// [`AuditError::Log`] if the log does not verify, and [`AuditError::NotContinued`] if it does not continue from
    /// its state, both of which leave it unchanged; [`AuditError::State`] if the state cannot be used;
    /// [`AuditError::Unavailable`] and [`AuditError::Write`] for errors of the system.
    pub fn open(folder: impl AsRef<Path>, options: LogOptions) -> Result<Self, AuditError> {
        let keeper = StateKeeper::new(&options, Some(folder.as_ref()))?;
        if let Some(keeper) = &keeper {
            keeper.require_log(folder.as_ref())?;
        }
        require_not_closed(folder.as_ref())?;
        Self::open_in(FolderDisk::create(folder).map_err(AuditError::Unavailable)?, options, keeper)
    }

    /// As [`open`](Self::open), on any disk. The log has a state only if the options name one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(disk: impl Disk + 'static, options: LogOptions) -> Result<Self, AuditError> {
        let keeper = StateKeeper::new(&options, None)?;
        let opened = open::open(&disk, &options, keeper, || Ok(()))?;
        Ok(Self::ready(Box::new(disk), options, opened))
    }

    fn ready(disk: Box<dyn Disk>, options: LogOptions, opened: Opened) -> Self {
        let Opened { writer, calls, keeper, start, older, rebuilt } = opened;
        let kept = writer.frontier.size();
        let state = LogState::new(writer, calls, options.opened_at);
        Self {
            disk,
            options,
            keeper,
            start,
            state: Mutex::new(state),
            kept: AtomicU64::new(kept),
            life: AtomicU64::new(0),
            turn: Mutex::default(),
            rebuilt,
            older: Mutex::new(older),
            damage: OnceLock::new(),
        }
    }

    /// Returns when an entry counts as kept.
    #[must_use]
    pub const fn durability(&self) -> Durability {
        self.options.durability
    }

    /// Assigns a number to a record and adds it to the open batch. The record counts once [`Pending::wait`] has
    /// returned.
    ///
    /// Under [`Durability::Every`] it is written and synced before this returns. If 4 MiB already wait, they are
    /// written first.
    ///
    /// # Errors
    /// As [`AuditSink::record`].
    pub fn submit(&self, record: &Record) -> Result<Pending<'_>, AuditError> {
        self.submit_line(NewLine::of(record)?)
    }

    /// Saves the last synced checkpoint in the state.
    fn save(&self, wait: LockWait) -> Result<(), AuditError> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        keeper.save(wait, || self.stand())
    }

    /// Returns how far the log has come, for a state.
    pub(crate) fn stand(&self) -> LogProgress {
        let state = self.state.lock();
        let (size, note) = (state.synced_size, Arc::clone(&state.synced_note));
        LogProgress { size, note, settled: state.calls.settled(size), gap: state.gaps.open() }
    }

    /// Waits until all submitted records are kept, and returns the signed note of a checkpoint of them, to be kept
    /// elsewhere. The records that it counts are synced, under any [`Durability`], and saved in the state, if the state
    /// can be written.
    ///
    /// # Errors
    /// As [`AuditSink::record`].
    pub fn checkpoint(&self) -> Result<String, AuditError> {
        let note = self.sign_all();
        // The state may lag behind; `save_state` reports the failure. In an outage the state keeps the gap.
        let _ = self.save(LockWait::Call);
        note
    }

    /// Saves the state up to the last kept record; under [`Durability::System`] that record is first synced under a
    /// checkpoint. Call it every few seconds if records are rare or `System` is used.
    ///
    /// # Errors
    /// [`AuditError::State`] if the state cannot be written; the log continues. Otherwise as [`AuditSink::record`].
    pub fn save_state(&self) -> Result<(), AuditError> {
        let state = self.state.lock();
        let is_behind = state.kept.size() > state.synced_size;
        drop(state);
        let signed = if self.keeper.is_some() && is_behind { self.sign_all().map(drop) } else { Ok(()) };
        self.save(LockWait::Call).and(signed)
    }

    /// Removes the log from its state and stops saving it. For a new log that is rolled back and about to be removed.
    ///
    /// # Errors
    /// [`AuditError::State`].
    pub fn forget_state(&self) -> Result<(), AuditError> {
        self.keeper.as_ref().map_or(Ok(()), StateKeeper::forget)
    }

    /// Sets another first record in the state, because those before it are about to be removed.
    pub(crate) fn begin_at(&self, first: u64) -> Result<(), AuditError> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        keeper.begin_at(first);
        self.save(LockWait::Start)
    }

    /// Returns whether opening began or resumed the log.
    #[must_use]
    pub const fn start(&self) -> LogStart {
        self.start
    }

    /// Side files that were missing or wrong when the log was opened.
    #[must_use]
    pub fn rebuilt_sides(&self) -> &[RebuiltSide] {
        &self.rebuilt
    }

    /// Verifies the entries before the checkpoint of the log's state, if that was deferred
    /// ([`LogOptions::verify_older_later`]). It takes as long as reading them and does not block the log, so a thread
    /// may do it. If it fails, every later record is refused.
    ///
    /// # Errors
    /// [`AuditError::Older`].
    pub fn verify_older(&self) -> Result<(), AuditError> {
        let older = self.older.lock().take();
        if let Some(Err(error)) = older.map(|older| older.verify(&*self.disk, &self.key())) {
            let _ = self.damage.set(Arc::new(error));
        }
        self.require_undamaged()
    }

    /// Refuses if [`verify_older`](Self::verify_older) has found damage.
    ///
    /// # Errors
    /// [`AuditError::Older`].
    pub fn require_undamaged(&self) -> Result<(), AuditError> {
        self.damage.get().map_or(Ok(()), |error| Err(AuditError::Older(Arc::clone(error))))
    }

    /// Name of the file that keeps the log's state, if there is one.
    #[must_use]
    pub fn state_name(&self) -> Option<String> {
        self.keeper.as_ref().map(StateKeeper::name)
    }

    fn sign_all(&self) -> Result<String, AuditError> {
        let mut state = self.state.lock();
        let (life, last) = (state.life, state.given());
        loop {
            if state.life != life {
                return Err(state.refusal());
            }
            if state.kept.size() >= last
                && let Some(mut writer) = state.writer.take()
            {
                if writer.is_broken() {
                    state.writer = Some(writer);
                    return Err(AuditError::Poisoned);
                }
                let done = Self::write(&mut state, &mut writer, |writer| {
                    writer.checkpoint(&self.options)?;
                    writer.side.flush(&*self.disk);
                    Ok(())
                });
                let (note, failure) = (writer.note.clone(), done.err().map(|error| LogFailure::of(&error)));
                self.settle(&mut state, writer, failure);
                return failure.map_or(Ok(note), |failure| Err(failure.error()));
            } else {
                self.lead_or_sleep(&mut state, 0);
            }
        }
    }

    /// Number of kept records, and their root hash.
    #[must_use]
    pub fn head(&self) -> TreeHead {
        let kept = self.state.lock().kept.clone();
        kept.head()
    }

    /// Number of synced records under a checkpoint. Under [`Durability::System`] it may be smaller than the size of
    /// [`head`](Self::head).
    #[must_use]
    pub fn synced_size(&self) -> u64 {
        self.state.lock().synced_size
    }

    /// Takes the list of cuts that were recorded since the last call. The first call includes those of opening.
    pub fn take_recovered(&self) -> Vec<CutBytes> {
        std::mem::take(&mut self.state.lock().recovered)
    }

    /// The log's origin and public key.
    #[must_use]
    pub fn key(&self) -> LogKey {
        self.options.log_key()
    }

    /// Signed note of the last checkpoint in the log. Under [`Durability::System`] it may count fewer records than
    /// [`head`](Self::head), and a crash may lose it together with them.
    #[must_use]
    pub fn last_checkpoint(&self) -> String {
        self.state.lock().note.to_string()
    }

    /// Writes and syncs all submitted records, with a checkpoint after them, and closes the log.
    ///
    /// # Errors
    /// As [`AuditSink::record`].
    pub fn close(self) -> Result<String, AuditError> {
        self.checkpoint()
    }
}

impl AuditSink for Log {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        self.submit(record)?.wait()
    }

    fn record_decision(&self, decision: &DecisionLine<'_>) -> Result<u64, AuditError> {
        self.submit_line(NewLine::of_decision(decision))?.wait()
    }

    fn submit_decision(&self, decision: &DecisionLine<'_>) -> Result<SubmittedDecision, AuditError> {
        let Pending { life, seq, .. } = self.submit_line(NewLine::of_decision(decision))?;
        Ok(SubmittedDecision { seq, life })
    }

    fn wait_decision(&self, submitted: SubmittedDecision) -> Result<u64, AuditError> {
        let SubmittedDecision { seq, life } = submitted;
        let state = self.state.lock();
        if state.life == life && seq > state.given() {
            return Err(AuditError::Unavailable(io::Error::other("the decision was submitted elsewhere")));
        }
        drop(state);
        self.wait(life, seq).map(|()| seq)
    }

    fn record_later(&self, outcome: &OutcomeRecord) -> Result<(), AuditError> {
        if self.options.durability == Durability::Every {
            return self.record(&Record::Outcome(outcome.clone())).map(drop);
        }
        self.state.lock().add_late(outcome);
        Ok(())
    }

    fn flush(&self) -> Result<(), AuditError> {
        let mut state = self.state.lock();
        if state.late.is_empty() {
            return Ok(());
        }
        self.require_undamaged()?;
        let time = state.latest.unwrap_or(Timestamp::EPOCH);
        let last = self.make_room(&mut state, time)?.saturating_sub(1);
        let life = state.life;
        drop(state);
        self.wait(life, last)
    }

    /// Under [`Durability::System`] only a new segment is synced.
    fn waits_for_disk(&self) -> bool {
        self.options.durability != Durability::System
    }

    /// The first entry after the outage counts the answer; until then the state does.
    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        let mut state = self.state.lock();
        let failure = state.ended.map(|ended| ended.failure);
        state.gaps.add(answer, failure);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Callers that need the result call `close`.
        let _ = self.checkpoint();
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("disk", &self.disk)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
