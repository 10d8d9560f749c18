use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use countersign_audit_log::{
    AuditError, AuditSink, CallRecord, CallRecordRef, Escaped, EscapedRef, Record, RecordedTool,
    RefusedRecord, RefusedRow,
};
use countersign_core::{AgentId, Clock, SessionId, Timestamp};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::metrics::Summed;

/// Maximum burst of any rate.
const MAX_BURST: u32 = 10_000;
/// Maximum number of refusals per second of any rate.
const MAX_PER_SECOND: u32 = 1_000;

/// Time after which a sum is recorded, in milliseconds.
const SUM_FOR: u64 = 10_000;
/// Delay before a sum whose recording failed is recorded again, in milliseconds.
const RETRY_AFTER: u64 = 1_000;

/// Maximum number of made-up names kept in the time of one sum.
const NAMES: usize = 16;

/// Rate of rows with a tool in sums that were not due yet.
const TOOL_ROWS: RefusalRate = RefusalRate { burst: 1_000, per_second: 10 };

/// A token bucket for the refusals of one session: those within the rate have an entry of their own, and the others are
/// recorded as a sum ([`RefusedRecord`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalRate {
    burst: u32,
    per_second: u32,
}

/// A rate is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("refusal rate out of range: burst of 1 to {MAX_BURST} and 1 to {MAX_PER_SECOND} per second expected")]
#[non_exhaustive]
pub struct RefusalRateError;

impl RefusalRateError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "REFUSAL_RATE"
    }
}

countersign_core::coded!(RefusalRateError);

impl RefusalRate {
    /// Default for calls: 1,000, then 10 a second.
    pub const CALLS: Self = Self { burst: 1_000, per_second: 10 };
    /// Default for messages that are not calls: 50, then 5 a second.
    pub const MESSAGES: Self = Self { burst: 50, per_second: 5 };

    /// Builds a rate.
    ///
    /// # Errors
    /// [`RefusalRateError`] unless the burst is 1 to 10,000 and the rate 1 to 1,000 a second.
    pub const fn new(burst: u32, per_second: u32) -> Result<Self, RefusalRateError> {
        let is_within = burst > 0 && burst <= MAX_BURST && per_second > 0 && per_second <= MAX_PER_SECOND;
        if is_within { Ok(Self { burst, per_second }) } else { Err(RefusalRateError) }
    }
}

/// Decides which refusals of one session have an entry of their own, and records all others as sums.
///
/// It has no thread. A sum is due 10 s after its first refusal, and is recorded by the next call of
/// [`write`](Self::write): a [`ToolGate`](crate::ToolGate) calls it at its next decision and at its end, a gateway from
/// a thread of its own.
#[derive(Debug)]
pub struct Refusals {
    sink: Arc<dyn AuditSink>,
    session: SessionId,
    agent: Option<AgentId>,
    rate: RefusalRate,
    summed: Summed,
    clock: Option<Arc<dyn Clock>>,
    /// Last reading of the clock, in milliseconds.
    latest: AtomicU64,
    /// Whether a sum waits or is being recorded. Written under the lock of `sums`; cleared only under that of `writing`,
    /// too.
    has_sum: AtomicBool,
    sums: Mutex<Option<Box<Sums>>>,
    /// Held while a sum is recorded: an entry that follows the sum is recorded after it.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Sums {
    bucket: Bucket,
    questions: Bucket,
    /// Bucket for rows with a tool in sums that were not due yet.
    tools: Bucket,
    sum: Option<RefusedRecord>,
    /// A sum whose recording failed. It is kept unchanged: the log may contain it already, and then contains it twice.
    failed: Option<RefusedRecord>,
    /// Number of the last sum.
    number: u64,
    /// Time at which the sum is due, in milliseconds.
    due: u64,
    /// Start of the present count of names, in milliseconds, and the number of names kept since.
    names: (u64, usize),
}

/// A name that no registry lists, of a tool or of a method.
#[derive(Clone, Copy)]
enum MadeUp<'a> {
    Method(&'a str),
    Tool(&'a str, &'a str),
}

impl MadeUp<'_> {
    fn text(self) -> Escaped<256> {
        match self {
            Self::Method(name) => Escaped::new(name),
            Self::Tool(server, name) => Escaped::new(&format!("{server}:{name}")),
        }
    }

    /// Returns `true` if a kept name is this one. A name that was escaped or cut is taken for another one.
    fn is(self, kept: &str) -> bool {
        match self {
            Self::Method(name) => kept == name,
            Self::Tool(server, name) => kept.split_once(':') == Some((server, name)),
        }
    }
}

/// Tokens in thousandths: at one token a second, the gain of a millisecond.
#[derive(Debug, Default)]
struct Bucket {
    used: u64,
    seen: u64,
}

impl Bucket {
    fn takes(&mut self, rate: RefusalRate, now: u64, tokens: u64) -> bool {
        let gained = now.saturating_sub(self.seen).saturating_mul(rate.per_second.into());
        // A clock that was ahead does not block the bucket, and a clock that goes back gains no tokens.
        self.seen = if self.seen > now.saturating_add(SUM_FOR) { now } else { self.seen.max(now) };
        self.used = self.used.saturating_sub(gained);
        let used = self.used.saturating_add(tokens.saturating_mul(1_000));
        if used > u64::from(rate.burst).saturating_mul(1_000) {
            return false;
        }
        self.used = used;
        true
    }
}

impl Refusals {
    /// Builds the sums of a session's refusals: of an agent's calls, or of messages that are not calls.
    #[must_use]
    pub fn new(
        sink: Arc<dyn AuditSink>,
        session: SessionId,
        agent: Option<AgentId>,
        rate: RefusalRate,
    ) -> Self {
        let (summed, sums, writing) = (Summed::default(), Mutex::default(), Mutex::default());
        let (latest, has_sum) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { sink, session, agent, rate, summed, clock: None, latest, has_sum, sums, writing }
    }

    /// Measures rates and sums by this clock. The recorded time stands still after the clock was ahead.
    #[must_use]
    pub(crate) fn timed_by(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Builds the sums of the session's refused messages that are not calls, with the same record and clock.
    pub(crate) fn of_messages(&self, session: SessionId, rate: RefusalRate) -> Self {
        let mut messages = Self::new(Arc::clone(&self.sink), session, None, rate);
        messages.clock.clone_from(&self.clock);
        messages
    }

    /// The record in which the sums are recorded.
    pub(crate) fn sink(&self) -> &dyn AuditSink {
        &*self.sink
    }

    /// Counts each refusal that is added to a sum.
    #[must_use]
    pub(crate) fn counted_by(mut self, summed: Summed) -> Self {
        self.summed = summed;
        self
    }

    /// Returns `true` if a refusal gets an entry of its own. Otherwise, [`add`](Self::add) it.
    #[must_use]
    pub fn takes(&self, now: Timestamp) -> bool {
        self.takes_at(self.reading(now))
    }

    /// As [`takes`](Self::takes), by a reading of the clock that was made for this refusal.
    pub(crate) fn takes_at(&self, reading: u64) -> bool {
        self.latest.store(reading, Ordering::SeqCst);
        self.sums().bucket.takes(self.rate, reading, 1)
    }

    /// Returns `true` if a refusal that asks a person for an approval gets an entry of its own. Those have a bucket of
    /// their own, so that no flood of other refusals uses it up. If this returns `false`, do not ask: every question
    /// has an entry.
    #[must_use]
    pub fn takes_question(&self, now: Timestamp) -> bool {
        let now = self.reading(now);
        self.sums().questions.takes(self.rate, now, 1)
    }

    /// Adds a refusal to the sum. `made_up` is a name that no registry lists.
    pub fn add(&self, now: Timestamp, row: RefusedRow, made_up: Option<&str>) {
        self.add_row(now, row, made_up.map(MadeUp::Method));
    }

    fn add_row(&self, now: Timestamp, row: RefusedRow, made_up: Option<MadeUp<'_>>) {
        self.summed.count();
        let reading = self.reading(now);
        let mut sums = self.sums();
        self.has_sum.store(true, Ordering::SeqCst);
        let Sums { sum, failed, number, due, names, .. } = &mut *sums;
        let sum = sum.get_or_insert_with(|| {
            if failed.is_none() {
                *due = reading.saturating_add(SUM_FOR);
            }
            *number = number.saturating_add(1);
            let mut sum = RefusedRecord::new(self.session.clone(), self.agent.clone(), now);
            sum.number = Some(*number);
            sum
        });
        sum.to = sum.to.max(now);
        sum.add(row);
        if let Some(name) = made_up {
            if reading.abs_diff(names.0) >= SUM_FOR {
                *names = (reading, 0);
            }
            let before = sum.names.len();
            let is_new = names.1 < NAMES && !sum.names.iter().any(|kept| name.is(kept.as_str()));
            sum.add_made_up(1, is_new.then(|| name.text()));
            names.1 = names.1.saturating_add(sum.names.len().saturating_sub(before));
        }
    }

    /// Adds a refused decision to the sum. `known` is its tool, if a registry lists it.
    pub fn add_call(&self, call: &CallRecord, known: Option<RecordedTool>) {
        self.add_decision(&call.into(), known);
    }

    pub(crate) fn add_decision(&self, call: &CallRecordRef<'_>, known: Option<RecordedTool>) {
        let code = call.code.map_or_else(|| Escaped::fixed(""), EscapedRef::to_escaped);
        let mut row = RefusedRow::new(code);
        row.about_plan = call.about_plan;
        let (server, name) = call.tool.names();
        // A call that could not be read names no tool.
        let is_made_up = known.is_none() && !call.about_plan && name != "?";
        let made_up = is_made_up.then_some(MadeUp::Tool(server, name));
        row.tool = if call.about_plan { Some(call.tool.to_tool()) } else { known };
        self.add_row(call.time, row, made_up);
    }

    /// Returns `true` if a sum is due.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        if !self.has_sum.load(Ordering::SeqCst) {
            return false;
        }
        let now = self.reading(now);
        self.sums().is_due(now)
    }

    /// Records the sum, if there is one. If that fails, the sum is kept. A sum that is not due yet leaves out its tools
    /// once many such sums had tools. So the next acceptance does not wait for the end of a flood, and a flood of
    /// accepted and refused calls adds little more to the log than its acceptances.
    ///
    /// # Errors
    /// [`AuditError`] of the sink.
    pub fn write(&self, now: Timestamp) -> Result<(), AuditError> {
        if !self.has_sum.load(Ordering::SeqCst) {
            return Ok(());
        }
        let _writing = self.writing.lock();
        // why: no loop. A flood that continues meanwhile fills the next sum, which has a due time of its own.
        if let Some(failed) = self.take_failed() {
            self.record(failed, now)?;
        }
        self.take(now).map_or(Ok(()), |sum| self.record(sum, now))?;
        let sums = self.sums();
        // why: until here other threads wait, so that their entries follow the sum.
        self.has_sum.store(sums.sum.is_some() || sums.failed.is_some(), Ordering::SeqCst);
        Ok(())
    }

    fn record(&self, mut sum: RefusedRecord, now: Timestamp) -> Result<(), AuditError> {
        sum.time = now.max(sum.to);
        let record = Record::Refused(sum);
        // why: without the lock, so that no refusal waits for a sync.
        let recorded = catch_unwind(AssertUnwindSafe(|| self.sink.record(&record)));
        let result = recorded.unwrap_or(Err(AuditError::Poisoned)).map(drop);
        if let (Err(_), Record::Refused(sum)) = (&result, record) {
            let due = self.reading(now).saturating_add(RETRY_AFTER);
            let mut sums = self.sums();
            (sums.failed, sums.due) = (Some(sum), due);
        }
        result
    }

    /// Locks the sums. They are made for the session's first refusal.
    fn sums(&self) -> MappedMutexGuard<'_, Sums> {
        MutexGuard::map(self.sums.lock(), |sums| &mut **sums.get_or_insert_default())
    }

    /// Takes the sum whose recording failed.
    fn take_failed(&self) -> Option<RefusedRecord> {
        self.sums().failed.take()
    }

    /// Takes the sum of the refusals since then.
    fn take(&self, now: Timestamp) -> Option<RefusedRecord> {
        let now = self.reading(now);
        let mut sums = self.sums();
        let is_due = sums.is_due(now);
        let mut sum = sums.sum.take()?;
        let rows = sum.rows.iter().filter(|row| row.tool.is_some()).count();
        if !is_due && !sums.tools.takes(TOOL_ROWS, now, rows as u64) {
            sum.leave_out_tools();
        }
        Some(sum)
    }

    /// Reads the clock, which goes back when the recorded time stands still. A failed reading returns the last one.
    pub(crate) fn reading(&self, now: Timestamp) -> u64 {
        let Some(clock) = &self.clock else { return now.as_millis() };
        // The clock is the host's and may panic.
        match catch_unwind(AssertUnwindSafe(|| clock.now())) {
            Ok(Ok(now)) => {
                self.latest.store(now.as_millis(), Ordering::SeqCst);
                now.as_millis()
            }
            Ok(Err(_)) | Err(_) => self.latest.load(Ordering::SeqCst),
        }
    }
}

impl Sums {
    fn is_due(&self, now: u64) -> bool {
        // A clock that was ahead postpones no sum.
        let is_due = now >= self.due || self.due > now.saturating_add(SUM_FOR);
        (self.sum.is_some() || self.failed.is_some()) && is_due
    }
}

/// Records the remaining sum at the session's end.
impl Drop for Refusals {
    fn drop(&mut self) {
        let Some(sums) = self.sums.get_mut() else { return };
        let end = sums.sum.as_ref().or(sums.failed.as_ref()).map(|sum| sum.to);
        if let Some(end) = end {
            // No caller is left to retry.
            let _ = self.write(end);
        }
    }
}
