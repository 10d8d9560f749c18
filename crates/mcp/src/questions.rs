use std::cell::RefCell;

use countersign_approval_token::PendingError;
use countersign_audit_log::Direction;
use countersign_tool_gate::{ApprovalDesk, ApprovalRequest, NotFiled};

use crate::approvals::{CallApprovals, FiledQuestion};
use crate::fault::Fault;
use crate::link::Link;
use crate::session_end::denial_ends;

/// Files the questions of one call or plan, if the gateway has a store for them.
pub(crate) struct QuestionDesk<'l> {
    link: &'l Link,
    filed: RefCell<Option<Result<FiledQuestion, NotFiled>>>,
}

impl<'l> QuestionDesk<'l> {
    pub(crate) const fn new(link: &'l Link) -> Self {
        Self { link, filed: RefCell::new(None) }
    }

    /// The question, or the reason that the question was not filed; `None` if the gate asked nothing.
    pub(crate) fn filed(self) -> Option<Result<FiledQuestion, NotFiled>> {
        self.filed.into_inner()
    }

    fn ask(&self, request: &ApprovalRequest, approvals: &CallApprovals) -> Result<FiledQuestion, NotFiled> {
        let link = self.link;
        let Ok(now) = link.clock.now() else {
            link.record(Direction::ToServer, None, Fault::Internal);
            return Err(NotFiled::Unavailable);
        };
        approvals.ask(request, denial_ends(link, request), now).map_err(|error| {
            let why = match &error {
                PendingError::Denied => return NotFiled::Denied,
                PendingError::Full => return NotFiled::Full,
                PendingError::Conflict => NotFiled::IdInUse,
                PendingError::Unavailable(_) | _ => NotFiled::Unavailable,
            };
            // The rejection code does not carry the store's error.
            link.record(Direction::ToServer, None, Fault::PendingStore(error.code()));
            why
        })
    }
}

impl ApprovalDesk for QuestionDesk<'_> {
    fn file(&self, request: &ApprovalRequest) -> Result<(), NotFiled> {
        let Some(approvals) = &self.link.approvals else { return Ok(()) };
        let filed = self.ask(request, approvals);
        let result = filed.as_ref().map(drop).map_err(|why| *why);
        *self.filed.borrow_mut() = Some(filed);
        result
    }

    fn withdraw(&self, _: &ApprovalRequest) {
        let filed = self.filed.borrow_mut().take();
        if let (Some(Ok(question)), Some(approvals)) = (filed, &self.link.approvals) {
            self.link.note_store(approvals.withdraw(&question));
        }
    }
}
