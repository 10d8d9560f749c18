use std::cell::RefCell;

use countersign_approval_token::PendingError;
use countersign_core::Timestamp;

use crate::call_approvals::{ApproverAnswer, CallApprovals, FiledQuestion};
use crate::rejection::{ApprovalDesk, ApprovalRequest, NotFiled};

/// Clock, time of denials and reports of the host of a [`CallDesk`].
pub trait DeskHost {
    /// Returns the time; `None` if the clock is unavailable.
    fn now(&self) -> Option<Timestamp>;

    /// Returns the end of a denial of this call. By default it is the end of the session's contract.
    fn denial_ends(&self, request: &ApprovalRequest) -> Timestamp {
        request.session_ends()
    }

    /// Reports a failure of the store, which no rejection code carries.
    fn store_failed(&self, error: &PendingError);
}

/// Files the question of one call, if its host has a store for questions.
pub struct CallDesk<'d> {
    approvals: Option<&'d CallApprovals>,
    given: Option<&'d ApproverAnswer>,
    host: &'d dyn DeskHost,
    filed: RefCell<Option<Result<FiledQuestion, NotFiled>>>,
}

impl<'d> CallDesk<'d> {
    /// Takes the store and the answer that the call comes with.
    #[must_use]
    pub const fn new(
        approvals: Option<&'d CallApprovals>,
        given: Option<&'d ApproverAnswer>,
        host: &'d dyn DeskHost,
    ) -> Self {
        Self { approvals, given, host, filed: RefCell::new(None) }
    }

    /// Returns the question, or the reason that it was not filed; `None` if the gate asked nothing.
    #[must_use]
    pub fn filed(self) -> Option<Result<FiledQuestion, NotFiled>> {
        self.filed.into_inner()
    }

    fn ask(&self, request: &ApprovalRequest, approvals: &CallApprovals) -> Result<FiledQuestion, NotFiled> {
        let now = self.host.now().ok_or(NotFiled::Unavailable)?;
        approvals.ask(request, self.host.denial_ends(request), now).map_err(|error| {
            let why = NotFiled::from(&error);
            if !matches!(why, NotFiled::Denied | NotFiled::Full) {
                self.host.store_failed(&error);
            }
            why
        })
    }
}

impl ApprovalDesk for CallDesk<'_> {
    fn file(&self, request: &ApprovalRequest) -> Result<(), NotFiled> {
        let Some(approvals) = self.approvals else { return Ok(()) };
        // A question cannot be filed again under an id that was approved before.
        if request.needs_approval() && self.given.is_some_and(|given| !given.tokens().is_empty()) {
            return Ok(());
        }
        let filed = self.ask(request, approvals);
        let result = filed.as_ref().map(drop).map_err(|why| *why);
        *self.filed.borrow_mut() = Some(filed);
        result
    }

    /// A call that comes with an attestation is not asked about again: the attestation is void, and the next try asks.
    fn takes_evidence(&self) -> bool {
        self.approvals.is_some() && self.given.is_none_or(|given| given.attested().is_none())
    }

    fn withdraw(&self, _: &ApprovalRequest) {
        let filed = self.filed.borrow_mut().take();
        if let (Some(Ok(question)), Some(approvals)) = (filed, self.approvals)
            && let Err(error) = approvals.withdraw(&question)
        {
            self.host.store_failed(&error);
        }
    }
}

impl std::fmt::Debug for CallDesk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallDesk").field("filed", &self.filed).finish_non_exhaustive()
    }
}
