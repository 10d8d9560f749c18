pub(crate) mod batch;
mod cut;
mod failure;
mod gaps;
mod keeper;
mod older;
mod open;
mod open_calls;
mod options;
mod recovery;
mod reopen;
mod retire;
mod share;
mod side;
pub(crate) mod sleepers;
mod state;
mod writer;

pub use cut::CutBytes;
pub use keeper::LogStart;
pub(crate) use keeper::Stand;
pub use options::{Durability, LogOptions};
pub use retire::{RetireError, RetireWhich, Retired, interrupted_retirement, retire_log};

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Duration;

use countersign_core::Timestamp;
use countersign_keys::state_file::LockWait;
use countersign_merkle::{MAX_SIZE, TreeHead};
use parking_lot::{Mutex, MutexGuard};

use crate::closing::require_not_closed;
use crate::disk::Disk;
use crate::line::{LINE, MAX_PREFIX, record_body};
use crate::segment::{MAX_LINE, call_tag};
use crate::{AuditError, AuditSink, FolderDisk, LogError, LogKey, RebuiltSide, Record, UnrecordedAnswer};
use batch::{Batch, MAX_BATCH};
use failure::Failure;
use gaps::Gaps;
use keeper::{Keeper, Tried};
use older::Older;
use open::Opened;
use sleepers::Sleepers;
use state::State;
use writer::Writer;

/// How long one caller waits, before it writes, for those who were told together with it: they would fall into two crowds
/// otherwise, and each wait for the write of the other. They are back after what it takes to wake them, if they come at all. It
/// waits as long again while an eighth of them came, so eight times at most.
const MOMENT: Duration = Duration::from_micros(250);

/// How often a caller gives way to others under [`Durability::System`] before it writes or sleeps: for some fifty microseconds
/// where there is nobody else to run, and no longer than others run where there is.
const PATIENCE: u32 = 128;

/// Keeps records in a folder, so that they outlive a crash and no change of them goes unnoticed.
///
/// One JSON object a line: records, whose lines are the leaves of an RFC 9162 tree, and checkpoints of that tree, signed by
/// the log's key (C2SP tlog-checkpoint). Segments of some size follow on each other; sequence numbers run from 1 for ever.
/// One writer has the folder, by an advisory lock that ends with the log. [`verify_log`](crate::verify_log) reads all of it
/// back, as [`Log::open`] does.
///
/// There is no thread: callers put their records into the open batch, and the first that finds nobody writing writes and
/// syncs the batch for all of them ([`Durability`]). [`submit`](Self::submit) lets one thread have many in flight.
///
/// After a failed write or sync everybody who waits is refused, and the file is let go, never to be synced again. The next
/// record first opens it anew, verifies it and goes on in a new segment; or it is refused in turn. What was acknowledged is
/// never given up. What was refused may still be in the log: a batch that reads show whole, with its checkpoint, is kept,
/// for a reader may have seen it; anything else that was not acknowledged is cut. Before that, the bytes are kept in a file of
/// their own, `cut-` and the number of the record that names it.
///
/// A call whose process ended before its outcome was recorded gets the outcome `unknown` when the log is opened
/// ([`OutcomeBy::Recovery`](crate::OutcomeBy::Recovery)): each accepted decision has one in the end, unless it is in an archived segment.
///
/// A state beside the folder ([`LogOptions::state`]) keeps the last synced checkpoint. A folder that was deleted, cut or
/// replaced by an older copy does not go on from it and is not opened. The state is saved when the log is opened, at every
/// [`checkpoint`](Self::checkpoint) and at the end; and in between once it is 256 records and 64 batches behind, or 10 seconds
/// by the records' own times. It never names a checkpoint that is not synced.
///
/// What it does not do: a holder of the signing key can write another log, and a writer of folder and state can
/// replace both. Against both, keep [`checkpoint`](Self::checkpoint)s elsewhere, and
/// give the latest one back when the log is opened ([`LogOptions::known_checkpoint`]).
///
/// ```
/// use countersign_audit_log::{AuditSink, Direction, GatewayRecord, Log, LogKey, LogOptions, Record, verify_log};
/// use countersign_core::Timestamp;
/// use countersign_keys::{SigningKey, note::KeyName};
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
    keeper: Option<Keeper>,
    start: LogStart,
    state: Mutex<State>,
    /// The last record that is acknowledged, and the life that it is of: the state's, to be read without its lock.
    kept: AtomicU64,
    life: AtomicU64,
    /// Held through a record where each is synced alone.
    turn: Mutex<()>,
    rebuilt: Vec<RebuiltSide>,
    /// Older entries that were not verified at opening, and the damage found in them.
    older: Mutex<Option<Older>>,
    damage: OnceLock<Arc<LogError>>,
}

/// A record that has a number and waits to be kept. Dropped, it is kept with the next that is waited for, or when the log
/// is closed.
#[derive(Debug)]
#[must_use = "a record counts once `wait` has returned"]
pub struct Pending<'a> {
    log: &'a Log,
    life: u64,
    seq: u64,
}

impl Pending<'_> {
    /// Waits until the record is kept, and writes it, and all others that wait, if nobody else does. Gives its number. It sleeps
    /// by [`thread::park`], whose token it may use up or leave behind.
    ///
    /// # Errors
    /// As [`AuditSink::record`]. Also for a record that was kept, if the log has failed twice since.
    pub fn wait(self) -> Result<u64, AuditError> {
        self.log.wait(self.life, self.seq).map(|()| self.seq)
    }
}

impl Log {
    /// Opens the log in a folder to be continued, or begins one; makes the folder if it is not there.
    ///
    /// Reads and verifies all segments that are there. What comes behind the last checkpoint nobody was told to be kept: it is
    /// cut, and a [`RecoveredRecord`](crate::RecoveredRecord) says so. An empty folder begins a log, unless the state knows one.
    ///
    /// # Errors
    /// [`AuditError::Locked`] while another writer has it; [`AuditError::Closed`] behind a closing note; [`AuditError::Log`] when it does not verify, and
    /// [`AuditError::NotContinued`] when it does not go on from its state, which leave it as it was; [`AuditError::State`] when the
    /// state cannot be used; [`AuditError::Unavailable`] and [`AuditError::Write`] as the system reports them.
    pub fn open(folder: impl AsRef<Path>, options: LogOptions) -> Result<Self, AuditError> {
        let keeper = Keeper::new(&options, Some(folder.as_ref()))?;
        if let Some(keeper) = &keeper {
            keeper.require_log(folder.as_ref())?;
        }
        require_not_closed(folder.as_ref())?;
        Self::open_in(FolderDisk::create(folder).map_err(AuditError::Unavailable)?, options, keeper)
    }

    /// As [`open`](Self::open), on any disk. It has a state only where the options name one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(disk: impl Disk + 'static, options: LogOptions) -> Result<Self, AuditError> {
        let keeper = Keeper::new(&options, None)?;
        let opened = open::open(&disk, &options, keeper, || Ok(()))?;
        Ok(Self::ready(Box::new(disk), options, opened))
    }

    fn ready(disk: Box<dyn Disk>, options: LogOptions, opened: Opened) -> Self {
        let Opened { mut writer, calls, keeper, start, older, rebuilt } = opened;
        let kept = writer.frontier.size();
        let note: Arc<str> = writer.note.as_str().into();
        let state = State {
            life: 0,
            ended: None,
            frontier: writer.frontier.clone(),
            open: Batch::default(),
            spare: Batch::default(),
            kept: writer.frontier.clone(),
            note: Arc::clone(&note),
            calls,
            gaps: Gaps::default(),
            recovered: std::mem::take(&mut writer.recovered),
            synced_size: writer.signed_size,
            synced_note: note,
            batches: 0,
            latest: None,
            tried: Tried::new(writer.signed_size, options.opened_at),
            writer: Some(writer),
            crowd: 0,
            watched: false,
            sleepers: Sleepers::default(),
            reopening: false,
        };
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

    /// Gives a record its number and a place in the open batch. It counts once [`Pending::wait`] has returned.
    ///
    /// Under [`Durability::Every`] it is written and synced before this returns. Where 4 MiB wait already, those come first.
    ///
    /// # Errors
    /// As [`AuditSink::record`].
    pub fn submit(&self, record: &Record) -> Result<Pending<'_>, AuditError> {
        if self.options.durability != Durability::Every {
            return self.enqueue(record);
        }
        let _turn = self.turn.lock();
        let pending = self.enqueue(record)?;
        self.wait(pending.life, pending.seq)?;
        Ok(pending)
    }

    fn enqueue(&self, record: &Record) -> Result<Pending<'_>, AuditError> {
        self.require_undamaged()?;
        let mut body = Vec::with_capacity(LINE);
        record_body(record, &mut body)?;
        if body.len().saturating_add(MAX_PREFIX) > MAX_LINE {
            return Err(AuditError::TooLong);
        }
        let tag = if let Record::Decision(call) = record { call_tag(call.call_id.as_str()) } else { 0 };
        let mut guard = self.state.lock();
        guard.note_time(record.time());
        loop {
            if guard.reopening {
                Self::sleep(&mut guard, 0, None);
            } else if guard.writer.as_ref().is_some_and(Writer::is_broken) {
                self.reopen(&mut guard, record.time())?;
            } else if guard.open.len() >= MAX_BATCH {
                // Those who wait are told of it if this fails, and it is tried again here.
                if !Self::hash(&mut guard) {
                    self.lead_or_sleep(&mut guard, 0);
                }
            } else {
                break;
            }
        }
        let mut seq = guard.given().saturating_add(1);
        if seq >= MAX_SIZE {
            return Err(AuditError::TooLong);
        }
        if let Some(gap) = guard.gaps.take(seq, record.time()) {
            let mut body = Vec::new();
            record_body(&gap, &mut body)?;
            guard.open.push(seq, &body, 0);
            seq = seq.saturating_add(1);
        }
        guard.open.push(seq, &body, tag);
        guard.calls.note(seq, record);
        Ok(Pending { log: self, life: guard.life, seq })
    }

    fn wait(&self, life: u64, seq: u64) -> Result<(), AuditError> {
        // In this order: who sees what a later life has kept sees that life too; what an earlier one has kept ends before `seq`.
        if self.kept.load(Ordering::Acquire) >= seq && self.life.load(Ordering::Acquire) == life {
            return Ok(());
        }
        let mut state = self.state.lock();
        let (mut patience, mut due) = (PATIENCE, 0);
        loop {
            if let Some(told) = state.told(life, seq) {
                return told;
            }
            if Self::hash(&mut state) {
                continue;
            }
            let (free, early) = (state.writer.is_some(), state.is_early());
            let durability = self.options.durability;
            if durability == Durability::System && patience > 0 && (!free || early) {
                // Somebody else's write is done sooner than a thread sleeps and wakes.
                patience = patience.saturating_sub(1);
                MutexGuard::unlocked(&mut state, thread::yield_now);
            } else if durability == Durability::Group && free && early && state.watched {
                Self::sleep(&mut state, seq, None);
            } else if durability == Durability::Group && free && early && state.in_flight() >= due {
                due = state.in_flight().saturating_add(state.crowd.div_ceil(8));
                state.watched = true;
                Self::sleep(&mut state, seq, Some(MOMENT));
                state.watched = false;
            } else {
                self.lead_or_sleep(&mut state, seq);
            }
        }
    }

    /// Hashes some of the records that nobody hashes yet, while others have the state. Says whether there were any.
    fn hash(state: &mut MutexGuard<'_, State>) -> bool {
        let State { open, frontier, life, .. } = &mut **state;
        let (life, Some(claim)) = (*life, open.claim(frontier)) else { return false };
        let leaves = MutexGuard::unlocked(state, || claim.leaves());
        // After a failure their numbers can be those of other records.
        if state.life == life {
            let State { open, frontier, .. } = &mut **state;
            open.put(&claim, &leaves, frontier);
        }
        true
    }

    /// Sleeps until the record of a number is kept, or somebody has to see to it; for 0, until the writer is back; or shorter.
    fn sleep(state: &mut MutexGuard<'_, State>, seq: u64, moment: Option<Duration>) {
        let this = thread::current();
        state.sleepers.add(seq, this.clone());
        MutexGuard::unlocked(state, || moment.map_or_else(thread::park, thread::park_timeout));
        if moment.is_some() {
            state.sleepers.remove(&this);
        }
    }

    /// Writes the open batch if nobody writes; otherwise sleeps until somebody is done.
    fn lead_or_sleep(&self, state: &mut MutexGuard<'_, State>, seq: u64) {
        let Some(mut writer) = state.writer.take() else {
            Self::sleep(state, seq, None);
            return;
        };
        let spare = std::mem::take(&mut state.spare);
        let mut batch = std::mem::replace(&mut state.open, spare);
        let complete = batch.complete(&mut state.frontier).map_err(|_| AuditError::TooLong);
        let frontier = state.frontier.clone();
        let written = Self::write(state, &mut writer, |writer| {
            complete?;
            writer.append(&*self.disk, &self.options, &mut batch, frontier)
        });
        batch.clear();
        state.spare = batch;
        state.batches = state.batches.saturating_add(1);
        self.settle(state, writer, written.err().map(|error| Failure::of(&error)));
        if self.keeper.is_some() && state.take_due() {
            // Behind the batch, while others write the next one. A failure is for `save_state` to report.
            let _ = MutexGuard::unlocked(state, || self.save(LockWait::Call));
        }
    }

    /// Saves the last synced checkpoint in the state.
    fn save(&self, wait: LockWait) -> Result<(), AuditError> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        keeper.save(wait, || self.stand())
    }

    /// How far the log has come, for a state.
    pub(crate) fn stand(&self) -> Stand {
        let state = self.state.lock();
        let (size, note) = (state.synced_size, Arc::clone(&state.synced_note));
        Stand { size, note, settled: state.calls.settled(size), gap: state.gaps.open() }
    }

    /// Lets the writer work while others have the state. A disk that panics has failed: who waits must not wait for ever.
    fn write(
        state: &mut MutexGuard<'_, State>,
        writer: &mut Writer,
        work: impl FnOnce(&mut Writer) -> Result<(), AuditError>,
    ) -> Result<(), AuditError> {
        MutexGuard::unlocked(state, || {
            let done = catch_unwind(AssertUnwindSafe(|| work(writer)))
                .unwrap_or_else(|_| Err(AuditError::Write(io::ErrorKind::Other.into())));
            if done.is_err() {
                writer.file = None;
            }
            done
        })
    }

    /// Takes the writer back, and tells everybody how it went.
    fn settle(&self, state: &mut MutexGuard<'_, State>, mut writer: Writer, failure: Option<Failure>) {
        state.recovered.append(&mut writer.recovered);
        state.crowd = state.in_flight();
        state.kept.clone_from(&writer.frontier);
        if *state.note != *writer.note {
            state.note = writer.note.as_str().into();
        }
        if let Some((size, _)) = writer.synced_checkpoint() {
            (state.synced_size, state.synced_note) = (size, Arc::clone(&state.note));
            state.calls.synced(size);
            state.gaps.synced(size);
        }
        if let Some(failure) = failure {
            state.end_life(failure);
        }
        state.writer = Some(writer);
        // In this order: see `wait`.
        self.life.store(state.life, Ordering::Release);
        self.kept.store(state.kept.size(), Ordering::Release);
        let sleepers = state.wake();
        MutexGuard::unlocked(state, || sleepers.iter().for_each(Thread::unpark));
    }

    /// Opens the log anew after a failure. INVARIANT: nobody waits for a record of the life that begins.
    fn reopen(&self, state: &mut MutexGuard<'_, State>, time: Timestamp) -> Result<(), AuditError> {
        let Some(mut writer) = state.writer.take() else { return Ok(()) };
        state.reopening = true;
        let mut last = None;
        let done = Self::write(state, &mut writer, |writer| {
            reopen::reopen(&*self.disk, &self.options, writer, time, &mut last)
        });
        state.reopening = false;
        if let Some(last) = last {
            state.calls.cut_behind(last);
            state.gaps.cut_behind(last);
        }
        state.frontier.clone_from(&writer.frontier);
        self.settle(state, writer, None);
        done
    }

    /// Waits until everything that was submitted is kept, and gives the signed note of a checkpoint of it, to be kept elsewhere.
    /// What it counts is synced, under any [`Durability`], and saved in the state, if that can be written.
    ///
    /// # Errors
    /// As [`AuditSink::record`].
    pub fn checkpoint(&self) -> Result<String, AuditError> {
        let note = self.sign_all();
        // The state may lag behind; `save_state` reports the failure. In an outage it keeps the gap.
        let _ = self.save(LockWait::Call);
        note
    }

    /// Brings the state up to the last record that is kept; under [`Durability::System`] that is first synced under a checkpoint.
    /// Where records are rare or `System` is used, call it every few seconds.
    ///
    /// # Errors
    /// [`AuditError::State`] when the state cannot be written; the log goes on. Otherwise as [`AuditSink::record`].
    pub fn save_state(&self) -> Result<(), AuditError> {
        let state = self.state.lock();
        let is_behind = state.kept.size() > state.synced_size;
        drop(state);
        let signed = if self.keeper.is_some() && is_behind { self.sign_all().map(drop) } else { Ok(()) };
        self.save(LockWait::Call).and(signed)
    }

    /// Takes the log out of its state, which then no longer knows it, and saves it no more: for a log that was begun in vain and
    /// is about to be removed.
    ///
    /// # Errors
    /// [`AuditError::State`].
    pub fn forget_state(&self) -> Result<(), AuditError> {
        self.keeper.as_ref().map_or(Ok(()), Keeper::forget)
    }

    /// Has the state name another first record: those before it are about to be removed.
    pub(crate) fn begin_at(&self, first: u64) -> Result<(), AuditError> {
        let Some(keeper) = &self.keeper else { return Ok(()) };
        keeper.begin_at(first);
        self.save(LockWait::Start)
    }

    /// Whether the log was begun or resumed when it was opened.
    #[must_use]
    pub const fn start(&self) -> LogStart {
        self.start
    }

    /// The side files that were found to be missing or wrong when the log was opened.
    #[must_use]
    pub fn rebuilt_sides(&self) -> &[RebuiltSide] {
        &self.rebuilt
    }

    /// Verifies what is older than the checkpoint of the log's state, if that was left for later
    /// ([`LogOptions::verify_older_later`]). It takes as long as reading it, for which the log is not held up: a thread may do it. Where it fails,
    /// every record is refused from then on.
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

    /// The file that keeps the log's state, if one does.
    #[must_use]
    pub fn state_name(&self) -> Option<String> {
        self.keeper.as_ref().map(Keeper::name)
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
                let (note, failure) = (writer.note.clone(), done.err().map(|error| Failure::of(&error)));
                self.settle(&mut state, writer, failure);
                return failure.map_or(Ok(note), |failure| Err(failure.error()));
            } else if !Self::hash(&mut state) {
                self.lead_or_sleep(&mut state, 0);
            }
        }
    }

    /// How many records are kept, and what they hash to.
    #[must_use]
    pub fn head(&self) -> TreeHead {
        let kept = self.state.lock().kept.clone();
        kept.head()
    }

    /// Number of records that are synced under a checkpoint. Under [`Durability::System`] it may be smaller than the size of
    /// [`head`](Self::head).
    #[must_use]
    pub fn synced_size(&self) -> u64 {
        self.state.lock().synced_size
    }

    /// Takes what was cut and recorded since the log was opened, that included, or since this was called last.
    pub fn take_recovered(&self) -> Vec<CutBytes> {
        std::mem::take(&mut self.state.lock().recovered)
    }

    /// The log's origin and public key.
    #[must_use]
    pub fn key(&self) -> LogKey {
        self.options.log_key()
    }

    /// The signed note of the last checkpoint that stands in the log. Under [`Durability::System`] it may count fewer records
    /// than [`head`](Self::head), and be lost with them.
    #[must_use]
    pub fn last_checkpoint(&self) -> String {
        self.state.lock().note.to_string()
    }

    /// Writes and syncs what was submitted, with a checkpoint behind it, and ends the log.
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

    /// The first entry after the outage counts the answer, and until then the state does.
    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        let mut state = self.state.lock();
        let failure = state.ended.map(|ended| ended.failure);
        state.gaps.add(answer, failure);
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
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
