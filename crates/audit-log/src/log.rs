pub(crate) mod batch;
mod life;
mod open;
mod options;
mod reopen;
mod state;
mod writer;

pub use options::{Durability, LogOptions};

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use countersign_core::Timestamp;
use countersign_merkle::{LeafHash, MAX_SIZE, TreeHead};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::disk::Disk;
use crate::line::{LINE, record_body, record_prefix};
use crate::segment::MAX_LINE;
use crate::{AuditError, AuditSink, FolderDisk, LogKey, Record};
use batch::{Batch, MAX_BATCH};
use life::{Failure, Life};
use state::State;
use writer::Writer;

/// The most bytes of a line that its sequence number takes: `{"seq":` and twenty digits.
const MAX_PREFIX: usize = 27;

/// How long a caller waits, before it writes, for those who were told together with it: they would fall into two crowds
/// otherwise, and each wait for the write of the other. They are back after what it takes to wake them, if they come at all. It
/// waits as long again while an eighth of them came, so six times at most.
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
/// for somebody may have read it; anything else that nobody was told of is cut, and the cut recorded.
///
/// What it does not do: whoever holds the signing key can write another log, and whoever can write the folder can cut its
/// end behind a checkpoint or restore an older copy. Against both, keep [`checkpoint`](Self::checkpoint)s elsewhere, and
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
    state: Mutex<State>,
    /// Told whenever a batch is done, or nobody writes any more.
    wake: Condvar,
    /// Told once most of those are back who were told together.
    back: Condvar,
    /// Held through a record where each is synced alone.
    turn: Mutex<()>,
}

/// A record that has a number and waits to be kept. Dropped, it is kept with the next that is waited for, or when the log
/// is closed.
#[derive(Debug)]
#[must_use = "a record counts once `wait` has returned"]
pub struct Pending<'a> {
    log: &'a Log,
    life: Arc<Life>,
    seq: u64,
}

impl Pending<'_> {
    /// Waits until the record is kept, and writes it, and all others that wait, if nobody else does. Gives its number.
    ///
    /// # Errors
    /// As [`AuditSink::record`].
    pub fn wait(self) -> Result<u64, AuditError> {
        self.log.wait(&self.life, self.seq).map(|()| self.seq)
    }
}

impl Log {
    /// Opens the log in a folder to be continued, or begins one; makes the folder if it is not there.
    ///
    /// Reads and verifies all segments that are there. What comes behind the last checkpoint nobody was told to be kept: it is
    /// cut, and a [`RecoveredRecord`](crate::RecoveredRecord) says so. An empty folder begins a log, whatever was there once:
    /// that it was another only a checkpoint kept elsewhere can tell.
    ///
    /// # Errors
    /// [`AuditError::Locked`] while another writer has it; [`AuditError::Log`] when it does not verify, which leaves it as it
    /// was; [`AuditError::Unavailable`] and [`AuditError::Write`] as the system reports them.
    pub fn open(folder: impl AsRef<Path>, options: LogOptions) -> Result<Self, AuditError> {
        Self::open_on(FolderDisk::create(folder).map_err(AuditError::Unavailable)?, options)
    }

    /// As [`open`](Self::open), on any disk.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(disk: impl Disk + 'static, options: LogOptions) -> Result<Self, AuditError> {
        let disk = Box::new(disk);
        let writer = open::open(&*disk, &options)?;
        let state = State {
            life: Life::new(writer.frontier.size()),
            frontier: writer.frontier.clone(),
            open: Batch::default(),
            spare: Batch::default(),
            kept: writer.frontier.clone(),
            note: writer.note.as_str().into(),
            writer: Some(writer),
            crowd: 0,
            reopening: false,
        };
        Ok(Self {
            disk,
            options,
            state: Mutex::new(state),
            wake: Condvar::new(),
            back: Condvar::new(),
            turn: Mutex::default(),
        })
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
        self.wait(&pending.life, pending.seq)?;
        Ok(pending)
    }

    fn enqueue(&self, record: &Record) -> Result<Pending<'_>, AuditError> {
        let mut body = Vec::with_capacity(LINE);
        record_body(record, &mut body)?;
        if body.len().saturating_add(MAX_PREFIX) > MAX_LINE {
            return Err(AuditError::TooLong);
        }
        let mut guard = self.state.lock();
        loop {
            let broken = guard.writer.as_ref().is_some_and(Writer::is_broken);
            if broken && !guard.reopening {
                self.reopen(&mut guard, record.time())?;
            } else if guard.reopening {
                self.wake.wait(&mut guard);
            } else if guard.open.len() >= MAX_BATCH {
                // Those who wait are told of it if this fails, and it is tried again here.
                self.lead_or_wait(&mut guard);
            } else {
                break;
            }
        }
        let seq = guard.given().saturating_add(1);
        if seq > MAX_SIZE {
            return Err(AuditError::TooLong);
        }
        guard.open.push(seq, &body);
        let life = Arc::clone(&guard.life);
        // Hashed by whoever brings it, many at a time, and while another batch is on its way to the disk.
        let leaf = MutexGuard::unlocked(&mut guard, || {
            let mut line = Vec::with_capacity(body.len().saturating_add(MAX_PREFIX));
            record_prefix(seq, &mut line);
            line.extend_from_slice(&body);
            LeafHash::of(&line)
        });
        if Arc::ptr_eq(&guard.life, &life) {
            let State { open, frontier, .. } = &mut *guard;
            open.put(seq, leaf, frontier).map_err(|_| AuditError::TooLong)?;
            if !guard.is_early() {
                self.back.notify_all();
            }
        }
        Ok(Pending { log: self, life, seq })
    }

    fn wait(&self, life: &Life, seq: u64) -> Result<(), AuditError> {
        let kept = || life.kept.load(Ordering::Acquire) >= seq;
        if kept() {
            return Ok(());
        }
        let mut state = self.state.lock();
        let (mut patience, mut due) = (PATIENCE, 0);
        loop {
            if kept() {
                return Ok(());
            }
            if let Some(failure) = life.failure.get() {
                return Err(failure.error());
            }
            let (free, early) = (state.writer.is_some(), state.is_early());
            let durability = self.options.durability;
            if durability == Durability::Group && free && early && state.in_flight() >= due {
                due = state.in_flight().saturating_add(state.crowd.div_ceil(8));
                self.back.wait_for(&mut state, MOMENT);
            } else if durability == Durability::System && patience > 0 && (!free || early) {
                // Somebody else's write is done sooner than a thread sleeps and wakes.
                patience = patience.saturating_sub(1);
                MutexGuard::unlocked(&mut state, std::thread::yield_now);
            } else {
                self.lead_or_wait(&mut state);
            }
        }
    }

    /// Writes the open batch if nobody writes; otherwise waits until somebody is done.
    fn lead_or_wait(&self, state: &mut MutexGuard<'_, State>) {
        let Some(mut writer) = state.writer.take() else {
            self.wake.wait(state);
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
        self.settle(state, writer, written.err());
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
    fn settle(&self, state: &mut MutexGuard<'_, State>, writer: Writer, error: Option<AuditError>) {
        let kept = writer.frontier.size();
        state.crowd = state.in_flight();
        state.kept.clone_from(&writer.frontier);
        if *state.note != *writer.note {
            state.note = writer.note.as_str().into();
        }
        match error {
            None => state.life.kept.store(kept, Ordering::Release),
            Some(error) => {
                let _ = state.life.failure.set(Failure::of(&error));
                state.life = Life::new(kept);
                state.open.clear();
                state.frontier.clone_from(&writer.frontier);
            }
        }
        state.writer = Some(writer);
        self.wake.notify_all();
        self.back.notify_all();
    }

    /// Opens the log anew after a failure. INVARIANT: nobody waits for a record of the life that begins.
    fn reopen(&self, state: &mut MutexGuard<'_, State>, time: Timestamp) -> Result<(), AuditError> {
        let Some(mut writer) = state.writer.take() else { return Ok(()) };
        state.reopening = true;
        let done = Self::write(state, &mut writer, |writer| {
            reopen::reopen(&*self.disk, &self.options, writer, time)
        });
        state.reopening = false;
        state.frontier.clone_from(&writer.frontier);
        state.life = Life::new(writer.frontier.size());
        self.settle(state, writer, None);
        done
    }

    /// Waits until everything that was submitted is kept, and gives the signed note of a checkpoint of it, to be kept elsewhere.
    /// What it counts is synced, under any [`Durability`].
    ///
    /// # Errors
    /// As [`AuditSink::record`].
    pub fn checkpoint(&self) -> Result<String, AuditError> {
        let mut state = self.state.lock();
        let (life, last) = (Arc::clone(&state.life), state.given());
        loop {
            if let Some(failure) = life.failure.get() {
                return Err(failure.error());
            }
            if life.kept.load(Ordering::Acquire) >= last
                && let Some(mut writer) = state.writer.take()
            {
                if writer.is_broken() {
                    state.writer = Some(writer);
                    return Err(AuditError::Poisoned);
                }
                let done = Self::write(&mut state, &mut writer, |writer| writer.checkpoint(&self.options));
                let note = writer.note.clone();
                let failed = done.is_err();
                self.settle(&mut state, writer, done.err());
                if !failed {
                    return Ok(note);
                }
                continue;
            }
            self.lead_or_wait(&mut state);
        }
    }

    /// How many records are kept, and what they hash to.
    #[must_use]
    pub fn head(&self) -> TreeHead {
        let kept = self.state.lock().kept.clone();
        kept.head()
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
