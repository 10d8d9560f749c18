use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use countersign_audit_log::{
    AuditError, AuditSink, CallRecord, Escaped, Record, RecordedTool, RefusedRecord, RefusedRow,
};
use countersign_core::{AgentId, SessionId, Timestamp};
use parking_lot::Mutex;

use crate::metrics::Summed;

/// The most refusals at once that any rate allows.
const MAX_BURST: u32 = 10_000;
/// The most refusals in a second that any rate allows.
const MAX_PER_SECOND: u32 = 1_000;

/// Time after which a sum is recorded.
const SUM_FOR: u64 = 10_000;
/// Time after which a sum is recorded again that could not be.
const RETRY_AFTER: u64 = 1_000;

/// Most names that are kept of the made-up ones in the time of one sum.
const NAMES: usize = 16;

/// A token bucket for the refusals of one session: so many have an entry of their own, and what comes beyond is recorded as a
/// sum ([`RefusedRecord`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalRate {
    burst: u32,
    per_second: u32,
}

/// A rate is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a rate of refusals has a burst of 1 to {MAX_BURST} and 1 to {MAX_PER_SECOND} per second")]
#[non_exhaustive]
pub struct RefusalRateError;

impl RefusalRateError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "REFUSAL_RATE"
    }
}

impl RefusalRate {
    /// Default for calls: 1,000, then 10 a second.
    pub const CALLS: Self = Self { burst: 1_000, per_second: 10 };
    /// Default for messages that are no calls: 50, then 5 a second.
    pub const MESSAGES: Self = Self { burst: 50, per_second: 5 };

    /// Makes a rate.
    ///
    /// # Errors
    /// [`RefusalRateError`] unless the burst is 1 to 10,000 and the rate 1 to 1,000 a second.
    pub const fn new(burst: u32, per_second: u32) -> Result<Self, RefusalRateError> {
        let is_within = burst > 0 && burst <= MAX_BURST && per_second > 0 && per_second <= MAX_PER_SECOND;
        if is_within { Ok(Self { burst, per_second }) } else { Err(RefusalRateError) }
    }
}

/// Decides which refusals of one session have an entry of their own, and records sums of all others.
///
/// It has no thread and no clock. A sum is due 10 s after its first refusal, and recorded by the caller of
/// [`write`](Self::write) then: a [`ToolGate`](crate::ToolGate) at its next decision and at its end, a gateway from a thread of its
/// own.
#[derive(Debug)]
pub struct Refusals {
    sink: Arc<dyn AuditSink>,
    session: SessionId,
    agent: Option<AgentId>,
    rate: RefusalRate,
    summed: Summed,
    sums: Mutex<Sums>,
    /// Held while a sum is recorded: what comes behind it is recorded behind it.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Sums {
    bucket: Bucket,
    questions: Bucket,
    sum: Option<RefusedRecord>,
    /// When the sum is to be recorded, in milliseconds.
    due: u64,
    /// Since when names are counted, and how many were kept since.
    names: (u64, usize),
}

/// Tokens in thousandths, which is what one token a second gains in a millisecond.
#[derive(Debug, Default)]
struct Bucket {
    used: u64,
    seen: u64,
}

impl Bucket {
    fn takes(&mut self, rate: RefusalRate, now: u64) -> bool {
        let gained = now.saturating_sub(self.seen).saturating_mul(rate.per_second.into());
        // A clock that was ahead does not keep the tokens away.
        self.seen = if self.seen > now.saturating_add(SUM_FOR) { now } else { self.seen.max(now) };
        self.used = self.used.saturating_sub(gained);
        let used = self.used.saturating_add(1_000);
        if used > u64::from(rate.burst).saturating_mul(1_000) {
            return false;
        }
        self.used = used;
        true
    }
}

impl Refusals {
    /// Sums of a session's refusals, of an agent's calls or of messages that are no calls.
    #[must_use]
    pub fn new(
        sink: Arc<dyn AuditSink>,
        session: SessionId,
        agent: Option<AgentId>,
        rate: RefusalRate,
    ) -> Self {
        let (summed, sums, writing) = (Summed::default(), Mutex::default(), Mutex::default());
        Self { sink, session, agent, rate, summed, sums, writing }
    }

    /// Counts each refusal that is added to a sum.
    #[must_use]
    pub(crate) fn counted_by(mut self, summed: Summed) -> Self {
        self.summed = summed;
        self
    }

    /// Returns `true` if a refusal is to have an entry of its own. Otherwise [`add`](Self::add) it.
    #[must_use]
    pub fn takes(&self, now: Timestamp) -> bool {
        self.sums.lock().bucket.takes(self.rate, now.as_millis())
    }

    /// The same for a refusal after which a person is asked for an approval. Those have a bucket of their own, so that no flood
    /// of other refusals uses it up. Where this returns `false`, nothing is asked: a question has an entry.
    #[must_use]
    pub fn takes_question(&self, now: Timestamp) -> bool {
        self.sums.lock().questions.takes(self.rate, now.as_millis())
    }

    /// Adds a refusal to the sum. `made_up` is a name that no registry lists.
    pub fn add(&self, now: Timestamp, row: RefusedRow, made_up: Option<&str>) {
        self.summed.count();
        let mut sums = self.sums.lock();
        let Sums { sum, due, names, .. } = &mut *sums;
        let sum = sum.get_or_insert_with(|| {
            *due = now.as_millis().saturating_add(SUM_FOR);
            RefusedRecord::new(self.session.clone(), self.agent.clone(), now)
        });
        sum.to = sum.to.max(now);
        sum.add(row);
        if let Some(name) = made_up {
            if now.as_millis().saturating_sub(names.0) >= SUM_FOR {
                *names = (now.as_millis(), 0);
            }
            let before = sum.names.len();
            sum.add_made_up(1, (names.1 < NAMES).then(|| Escaped::new(name)));
            names.1 = names.1.saturating_add(sum.names.len().saturating_sub(before));
        }
    }

    /// Adds a refused decision to the sum. `known` is its tool, where a registry lists it.
    pub fn add_call(&self, call: &CallRecord, known: Option<RecordedTool>) {
        let mut row = RefusedRow::new(call.code.as_ref().map_or("", |code| code.as_str()));
        row.about_plan = call.about_plan;
        let RecordedTool { server, name, .. } = &call.tool;
        // A call that could not be read names no tool.
        let is_made_up = known.is_none() && !call.about_plan && name.as_str() != "?";
        let made_up = is_made_up.then(|| format!("{server}:{name}"));
        row.tool = if call.about_plan { Some(call.tool.clone()) } else { known };
        self.add(call.time, row, made_up.as_deref());
    }

    /// Whether there is a sum that is to be recorded now.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        let sums = self.sums.lock();
        // A clock that was ahead postpones no sum.
        let is_due = now.as_millis() >= sums.due || sums.due > now.as_millis().saturating_add(SUM_FOR);
        sums.sum.is_some() && is_due
    }

    /// Records the sum, if there is one. Where that fails, the sum is kept.
    ///
    /// # Errors
    /// [`AuditError`] of the sink.
    pub fn write(&self, now: Timestamp) -> Result<(), AuditError> {
        let _writing = self.writing.lock();
        let Some(mut sum) = self.sums.lock().sum.take() else { return Ok(()) };
        sum.time = now.max(sum.to);
        let record = Record::Refused(sum);
        // why: without the lock, so that no refusal waits for a sync.
        let recorded = catch_unwind(AssertUnwindSafe(|| self.sink.record(&record)));
        let result = recorded.unwrap_or(Err(AuditError::Poisoned)).map(drop);
        if let (Err(_), Record::Refused(mut sum)) = (&result, record) {
            let mut sums = self.sums.lock();
            if let Some(later) = sums.sum.take() {
                sum.absorb(later);
            }
            sums.sum = Some(sum);
            sums.due = now.as_millis().saturating_add(RETRY_AFTER);
        }
        result
    }
}

/// The session's end.
impl Drop for Refusals {
    fn drop(&mut self) {
        let end = self.sums.lock().sum.as_ref().map(|sum| sum.to);
        if let Some(end) = end {
            // No one is left to try again.
            let _ = self.write(end);
        }
    }
}
