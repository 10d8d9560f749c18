//! Recording of refused messages: in a thread of its own, and as a sum beyond their rate limit.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_audit_log::{
    CallRecord, Direction, EndReason, GatewayRecord, Instructions, Record, RefusedRow, ServerRecord,
};
use countersign_canonical_json::ValueRef;
use countersign_core::Timestamp;
use countersign_tool_gate::InFlight;

use crate::era_2025;
use crate::fault::Fault;
use crate::link::{Job, Link, MAX_WAITING, Recording};

/// Records the waiting refusals, one after another.
pub(crate) fn record_refusals(link: &Link) {
    while let Some(job) = link.recording.jobs.take() {
        // A callback of the host, such as the one for call ids, may panic.
        let _ = catch_unwind(AssertUnwindSafe(|| (job.work)(link)));
    }
}

impl Link {
    /// Queues a refused message for the record without waiting. A failed record changes nothing here, since the message is
    /// refused already; the gate, which shares the sink, notices the failure itself.
    pub(crate) fn record(&self, direction: Direction, method: Option<&str>, fault: Fault) {
        let now = self.now();
        let Recording { jobs, refused } = &self.recording;
        let row = row_of(direction, fault);
        if refused.takes(now) {
            let record = self.gateway_record(now, direction, method, fault);
            let work = move |link: &Self| {
                link.keep(&Record::Gateway(record));
            };
            if jobs.offer(1, Job { row: row.clone(), work: Box::new(work) }, MAX_WAITING).is_ok() {
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

    /// Builds the record that the server has promised the result of an accepted call.
    pub(crate) fn pending_record(&self, call: &InFlight) -> GatewayRecord {
        let fault = Fault::TaskPending;
        let mut record = self.gateway_record(self.now(), Direction::ToClient, Some(era_2025::CALL), fault);
        let reason = format!("{}: {} of record {}", fault.reason(), call.call_id(), call.decision());
        record.reason = Some(reason.as_str().into());
        record
    }

    /// Queues the record of a promise. It is no refusal, so no rate limits it.
    pub(crate) fn record_pending(&self, record: GatewayRecord) {
        let row = row_of(Direction::ToClient, Fault::TaskPending);
        let work = move |link: &Self| {
            link.keep(&Record::Gateway(record));
        };
        self.recording.jobs.push(1, Job { row, work: Box::new(work) });
    }

    /// Records the server's own description from the handshake. The session's own entry precedes it.
    ///
    /// # Errors
    /// [`Fault::Unrecorded`]: the handshake then fails, since the client would receive an unrecorded description.
    pub(crate) fn record_server(&self, result: ValueRef<'_>, dropped: Option<Fault>) -> Result<(), Fault> {
        let session = self.gate.contract().session().clone();
        let mut record = ServerRecord::new(self.now(), session, self.settings.server().clone());
        let (name, version) = era_2025::server_info(result);
        (record.name, record.version) = (name.map(Into::into), version.map(Into::into));
        record.instructions = era_2025::instructions_of(result)
            .map(|_| if dropped.is_some() { Instructions::Dropped } else { Instructions::Passed });
        self.keep(&Record::Server(record)).map(drop).ok_or(Fault::Unrecorded)
    }

    /// Refuses a client's call for a fault, in the recording thread, so that the thread that reads the client does not wait for a
    /// sync. If the end comes first, the refusal is counted in the sum.
    pub(crate) fn refuse_later(&self, fault: Fault, work: impl FnOnce(&Self) + Send + 'static) {
        let Recording { jobs, refused } = &self.recording;
        let row = row_of(Direction::ToServer, fault);
        if !jobs.push(1, Job { row: row.clone(), work: Box::new(work) }) {
            refused.add(self.now(), row, None);
        }
    }

    /// Records the refusal of a plan, or beyond the rate limit adds it to the sum; then it has no record number.
    pub(crate) fn keep_refusal(&self, record: CallRecord) -> Result<Option<u64>, ()> {
        let refusals = self.gate.refusals();
        if refusals.takes(record.time) {
            return self.keep(&Record::Decision(record)).map(Some).ok_or(());
        }
        refusals.add_call(&record, None);
        Ok(None)
    }

    /// Records the outcomes that wait and the sums that are due, because a call that would trigger it may never come.
    pub(crate) fn record_late(&self) {
        // On failure the sink keeps them.
        let _ = self.sink.flush();
        let now = self.now();
        for refused in [self.gate.refusals(), &self.recording.refused] {
            if refused.is_due(now) {
                // On failure the sum is kept and written again later.
                let _ = refused.write(now);
            }
        }
    }

    /// Records the session's end. On failure the record has no end, and the sink reports the cause to the operator.
    pub(crate) fn end_session(&self, reason: EndReason) {
        // The session of several gateways ends with the last of them.
        if self.settings.shown.is_none() {
            let _ = self.gate.end_session(reason);
        }
    }

    /// Records the waiting refusals and the sums, for at most `limit`. Later refusals are counted in a sum.
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
