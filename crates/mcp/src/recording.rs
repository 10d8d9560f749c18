//! Refused messages on their way to the record: in a thread of its own, and beyond their rate as a sum.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_audit_log::{
    CallRecord, Direction, EndReason, GatewayRecord, Instructions, Record, RefusedRow, ServerRecord,
};
use countersign_canonical_json::ValueRef;
use countersign_core::Timestamp;
use countersign_tool_gate::Refusals;

use crate::era_2025;
use crate::fault::Fault;
use crate::link::Link;
use crate::queue::Queue;

/// How many refusals may wait to be recorded. A message beyond is counted in the sum, and a client with so many unread calls waits.
const MAX_WAITING: usize = 4_096;

/// A refusal that waits to be recorded.
struct Job {
    /// Counts it in the sum where the end comes first.
    row: RefusedRow,
    work: Box<dyn FnOnce(&Link) + Send>,
}

/// What waits to be recorded, and the sum of messages beyond the rate.
pub(crate) struct Recording {
    jobs: Queue<Job>,
    refused: Refusals,
}

impl Recording {
    pub(crate) fn new(refused: Refusals) -> Self {
        Self { jobs: Queue::new(MAX_WAITING), refused }
    }

    /// Ends the thread. The rest stays unrecorded.
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
        let _ = catch_unwind(AssertUnwindSafe(|| (job.work)(link)));
    }
}

impl Link {
    /// Has a refused message recorded, and never waits for that. A record that fails changes nothing here, since the message is
    /// refused already; the gate, which shares the sink, notices for itself.
    pub(crate) fn record(&self, direction: Direction, method: Option<&str>, fault: Fault) {
        let now = self.now();
        let Recording { jobs, refused } = &self.recording;
        let row = row_of(direction, fault);
        if refused.takes(now) {
            let record = self.gateway_record(now, direction, method, fault);
            let work = move |link: &Self| {
                link.keep(&Record::Gateway(record));
            };
            if jobs.offer(1, Job { row: row.clone(), work: Box::new(work) }, MAX_WAITING) {
                return;
            }
        }
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

    /// Records the server as it described itself in the handshake. A session's own entry is older than that.
    ///
    /// # Errors
    /// [`Fault::Unrecorded`]: the handshake fails then, since the client would get what is not on record.
    pub(crate) fn record_server(&self, result: ValueRef<'_>, dropped: Option<Fault>) -> Result<(), Fault> {
        let session = self.gate.contract().session().clone();
        let mut record = ServerRecord::new(self.now(), session, self.settings.server().clone());
        let (name, version) = era_2025::server_info(result);
        (record.name, record.version) = (name.map(Into::into), version.map(Into::into));
        record.instructions = era_2025::instructions_of(result)
            .map(|_| if dropped.is_some() { Instructions::Dropped } else { Instructions::Passed });
        self.keep(&Record::Server(record)).map(drop).ok_or(Fault::Unrecorded)
    }

    /// Refuses a call of the client's for this fault in the thread that records, so that the one that reads the client does not
    /// wait for a sync. Where the end comes first, the refusal is in the sum.
    pub(crate) fn refuse_later(&self, fault: Fault, work: impl FnOnce(&Self) + Send + 'static) {
        let Recording { jobs, refused } = &self.recording;
        let row = row_of(Direction::ToServer, fault);
        if !jobs.push(1, Job { row: row.clone(), work: Box::new(work) }) {
            refused.add(self.now(), row, None);
        }
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

    /// Records the session's end. Where that fails, there is none: the sink tells the operator why.
    pub(crate) fn end_session(&self, reason: EndReason) {
        let _ = self.gate.end_session(reason);
    }

    /// Records what waits and what was summed, for at most `limit`. Later refusals are in a sum.
    pub(crate) fn end_recording(&self, limit: std::time::Duration) {
        let Recording { jobs, refused } = &self.recording;
        jobs.close();
        jobs.wait_idle(limit);
        let now = self.now();
        for Job { row, .. } in jobs.drain() {
            refused.add(now, row, None);
        }
        for refused in [self.gate.refusals(), refused] {
            let _ = refused.write(now);
        }
    }
}

fn row_of(direction: Direction, fault: Fault) -> RefusedRow {
    let mut row = RefusedRow::new(fault.code());
    row.direction = Some(direction);
    row
}
