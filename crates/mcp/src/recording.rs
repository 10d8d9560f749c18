//! Refused messages on their way to the record: in a thread of its own, and beyond their rate as a sum.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_audit_log::{CallRecord, Direction, GatewayRecord, Record, RefusedRow};
use countersign_core::Timestamp;
use countersign_tool_gate::Refusals;

use crate::fault::Fault;
use crate::link::Link;
use crate::queue::Queue;

/// How many refusals may wait to be recorded. A message beyond is counted in the sum, and a client with so many unread calls waits.
const MAX_WAITING: usize = 4_096;

type Job = Box<dyn FnOnce(&Link) + Send>;

/// What waits to be recorded, and the sum of messages beyond the rate.
pub(crate) struct Recording {
    jobs: Queue<Job>,
    refused: Refusals,
}

impl Recording {
    pub(crate) fn new(refused: Refusals) -> Self {
        Self { jobs: Queue::new(MAX_WAITING), refused }
    }

    /// Ends the thread, with what is left unrecorded.
    pub(crate) fn kill(&self) {
        self.jobs.kill();
    }

    #[cfg(test)]
    pub(crate) fn wait(&self) {
        self.jobs.wait_idle(std::time::Duration::from_secs(20));
    }
}

/// Records what waits, one after the other.
pub(crate) fn record_refusals(link: &Link) {
    while let Some(job) = link.recording.jobs.take() {
        // What the host gave, ids of calls for one, may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| job(link)));
    }
}

impl Link {
    /// Has a refused message recorded, and never waits for that. A record that fails changes nothing here, since the message is
    /// refused already; the gate, which shares the sink, notices for itself.
    pub(crate) fn record(&self, direction: Direction, method: Option<&str>, fault: Fault) {
        let now = self.now();
        let Recording { jobs, refused } = &self.recording;
        if refused.takes(now) {
            let record = self.gateway_record(now, direction, method, fault);
            let job = move |link: &Self| {
                link.keep(&Record::Gateway(record));
            };
            if jobs.offer(1, Box::new(job), MAX_WAITING) {
                return;
            }
        }
        let mut row = RefusedRow::new(fault.code());
        row.direction = Some(direction);
        refused.add(now, row, method.filter(|_| fault == Fault::NotAllowed));
    }

    fn gateway_record(
        &self,
        now: Timestamp,
        direction: Direction,
        method: Option<&str>,
        fault: Fault,
    ) -> GatewayRecord {
        let mut record = GatewayRecord::new(now, direction, fault.code());
        record.session = Some(self.gate.contract().session().clone());
        record.method = method.map(Into::into);
        record.reason = Some(fault.reason().into());
        record
    }

    /// Does what needs the record in the thread that records, so that the one that reads a peer does not wait for a sync.
    pub(crate) fn later(&self, job: impl FnOnce(&Self) + Send + 'static) {
        if self.recording.jobs.is_closed() {
            return job(self);
        }
        self.recording.jobs.push(1, Box::new(job));
    }

    /// Records the refusal of a plan, or adds it to the sum of those beyond the rate: then it has no number.
    pub(crate) fn keep_refusal(&self, record: CallRecord) -> Result<Option<u64>, ()> {
        let refusals = self.gate.refusals();
        if refusals.takes(record.time) {
            return self.keep(&Record::Decision(record)).map(Some).ok_or(());
        }
        refusals.add_call(&record, None);
        Ok(None)
    }

    /// Records the sums that are due. A call that would do it may never come.
    pub(crate) fn record_due_sums(&self) {
        let now = self.now();
        for refused in [self.gate.refusals(), &self.recording.refused] {
            if refused.is_due(now) {
                // It is kept where that fails, and tried again.
                let _ = refused.write(now);
            }
        }
    }

    /// Records what waits and what was summed, for at most `limit`. What is refused after that is in a sum.
    pub(crate) fn end_recording(&self, limit: std::time::Duration) {
        let Recording { jobs, refused } = &self.recording;
        jobs.close();
        jobs.wait_idle(limit);
        let now = self.now();
        for refused in [self.gate.refusals(), refused] {
            let _ = refused.write(now);
        }
    }
}
