use countersign_approval_token::PendingError;
use countersign_audit_log::Direction;
use countersign_core::Timestamp;
use countersign_tool_gate::{ApprovalRequest, ApproverAnswer, CallDesk, DeskHost};

use crate::fault::Fault;
use crate::link::Link;
use crate::session_end::denial_ends;

/// Returns the desk of one call or plan. `given` is the answer that it comes with.
pub(crate) fn desk<'l>(link: &'l Link, given: Option<&'l ApproverAnswer>) -> CallDesk<'l> {
    CallDesk::new(link.approvals.as_ref(), given, link)
}

impl DeskHost for Link {
    fn now(&self) -> Option<Timestamp> {
        self.clock.now().inspect_err(|_| self.record(Direction::ToServer, None, Fault::Internal)).ok()
    }

    fn denial_ends(&self, request: &ApprovalRequest) -> Timestamp {
        denial_ends(self, request)
    }

    fn store_failed(&self, error: &PendingError) {
        self.record(Direction::ToServer, None, Fault::PendingStore(error.code()));
    }
}
