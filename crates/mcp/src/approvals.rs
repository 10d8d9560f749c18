use std::collections::VecDeque;
use std::sync::Arc;

use countersign_approval_token::{
    ApprovalToken, PendingApproval, PendingApprovals, PendingDenial, PendingError, PendingState,
};
use countersign_core::{CallFacts, CallId, Digest, Millis, Timestamp, ToolId};
use countersign_tool_gate::{ApprovalRequest, RejectionCode};
use parking_lot::Mutex;

/// Maximum number of remembered calls that wait for approval, equal to the number that a store holds open.
const MAX_ASKED: usize = 1_024;

/// An approver's answer about a call.
#[derive(Debug)]
pub(crate) enum ApproverAnswer {
    /// Approved; the token binds this call id.
    Approved(CallId, ApprovalToken),
    /// Denied by an approver.
    Denied(Box<CallFacts>, PendingDenial),
}

/// A question that waits for an answer.
#[derive(Clone, Debug)]
pub(crate) struct FiledQuestion {
    /// The id to approve under.
    pub(crate) id: CallId,
    /// The beginning of the id that a person may type.
    pub(crate) short: String,
    /// Whether this request created the question.
    pub(crate) is_new: bool,
}

/// Files calls that need an approval, and finds the answer when the client retries the same call.
///
/// The gate computes the binding that an approval needs, and returns it when it refuses the call. The binding is kept
/// here until the retry. Approvals bind the session, and a session has one gateway, so no other gateway asks for it.
#[derive(Debug)]
pub(crate) struct CallApprovals {
    store: Arc<dyn PendingApprovals>,
    ttl: Millis,
    asked: Mutex<VecDeque<CallFacts>>,
}

impl CallApprovals {
    pub(crate) const fn new(store: Arc<dyn PendingApprovals>, ttl: Millis) -> Self {
        Self { store, ttl, asked: Mutex::new(VecDeque::new()) }
    }

    /// Returns the answer to exactly this binding.
    pub(crate) fn answer(
        &self,
        binding: &CallFacts,
        now: Timestamp,
    ) -> Result<Option<ApproverAnswer>, PendingError> {
        if let Some(denial) = self.store.find_denied(binding, now)? {
            return Ok(Some(ApproverAnswer::Denied(Box::new(binding.clone()), denial)));
        }
        let approved = self.store.find_approved(binding, now)?;
        Ok(approved.map(|(id, token)| ApproverAnswer::Approved(id, token)))
    }

    /// Files an approval request and returns the id to approve it under. A denial counts until `denial_ends`. A call that was
    /// denied before is remembered too, so that its next try is refused as denied.
    pub(crate) fn ask(
        &self,
        request: &ApprovalRequest,
        denial_ends: Timestamp,
        now: Timestamp,
    ) -> Result<FiledQuestion, PendingError> {
        let binding = request.binding();
        let is_known = self.store.get(&binding.call_id)?.is_some();
        let mut wanted =
            PendingApproval::new(binding.clone(), request.args(), now, self.ttl)?.session_end(denial_ends);
        if let Some(proposal) = request.proposal() {
            wanted = wanted.summary(proposal.clone());
        }
        let filed = match self.store.request(&wanted) {
            Ok(id) => {
                let (short, is_new) = (self.store.short_id(&id, now)?, !is_known && id == binding.call_id);
                Ok(FiledQuestion { id, short, is_new })
            }
            Err(PendingError::Denied) => Err(PendingError::Denied),
            Err(error) => return Err(error),
        };
        let mut asked = self.asked.lock();
        asked.retain(|old| !is_same_call(old, &binding.tool, binding.args));
        if asked.len() >= MAX_ASKED {
            asked.pop_front();
        }
        asked.push_back(binding.clone());
        filed
    }

    /// Returns a question and its state.
    pub(crate) fn state(&self, id: &CallId) -> Result<Option<(PendingApproval, PendingState)>, PendingError> {
        self.store.get(id)
    }

    /// Withdraws a question that was filed just now.
    pub(crate) fn withdraw(&self, question: &FiledQuestion) -> Result<(), PendingError> {
        if question.is_new { self.store.withdraw(&question.id) } else { Ok(()) }
    }

    /// Finds the answer to this call. A question under another registry version concerns another call.
    pub(crate) fn find(
        &self,
        tool: &ToolId,
        args: Digest,
        registry_version: u64,
        now: Timestamp,
    ) -> Result<Option<ApproverAnswer>, PendingError> {
        let binding = self.asked.lock().iter().find(|old| is_same_call(old, tool, args)).cloned();
        match binding {
            Some(binding) if binding.registry_version == Some(registry_version) => self.answer(&binding, now),
            _ => Ok(None),
        }
    }

    /// Removes an approval that was used or never can be, so that the next try asks for a new one. The gate's own store of
    /// spent tokens, not this removal, prevents a second use.
    pub(crate) fn retire(&self, id: &CallId, refused: Option<RejectionCode>) -> Result<(), PendingError> {
        let is_over = refused.is_none_or(|code| {
            matches!(
                code,
                RejectionCode::ApprovalSpent
                    | RejectionCode::ApprovalExpired
                    | RejectionCode::ApprovalInvalid
                    | RejectionCode::StoreTooNew
            )
        });
        if is_over { self.store.mark_used(id) } else { Ok(()) }
    }
}

fn is_same_call(binding: &CallFacts, tool: &ToolId, args: Digest) -> bool {
    binding.tool == *tool && binding.args == args
}
