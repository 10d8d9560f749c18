use std::collections::VecDeque;
use std::sync::Arc;

use countersign_approval_token::{
    ApprovalToken, AttestedProposal, DenialReason, PendingApproval, PendingApprovals, PendingDenial,
    PendingError, PendingState,
};
use countersign_canonical_json::Canonical;
use countersign_core::{CallFacts, CallId, Digest, Millis, Timestamp, ToolId};
use parking_lot::Mutex;

use crate::call::CallArgs;
use crate::code::RejectionCode;
use crate::rejection::{ApprovalRequest, Rejection};

/// Maximum number of remembered calls that wait for approval, equal to the number that a store holds open.
const MAX_ASKED: usize = 1_024;

/// Step at which evidence is verified.
const EVIDENCE_STEP: u8 = 8;

/// An approver's answer about a call.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a new answer has to break every match")]
pub enum ApproverAnswer {
    /// Approved; the tokens bind this call id. A call has several if it needs the approvals of several persons.
    Approved(CallId, Vec<ApprovalToken>),
    /// Attested to; the attestation binds this call id, and so do the tokens of a call that needed both.
    Attested(CallId, Box<AttestedProposal>, Vec<ApprovalToken>),
    /// Approved with other arguments than the agent's.
    Edited(Box<EditedCall>),
    /// Denied by an approver.
    Denied(Box<CallFacts>, PendingDenial),
}

/// Arguments that a person approved in place of the agent's.
#[derive(Debug)]
#[non_exhaustive]
pub struct EditedCall {
    /// The id that the token binds.
    pub id: CallId,
    /// The token of the approval; it binds `args`.
    pub token: ApprovalToken,
    /// The person's arguments.
    pub args: CallArgs,
    /// Digest of the agent's.
    pub asked: Digest,
}

/// A question that waits for an answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FiledQuestion {
    /// The id to approve under.
    pub id: CallId,
    /// The beginning of the id that a person may type.
    pub short: String,
    /// Whether this request created the question.
    pub is_new: bool,
    /// Whether the call lacks an approval.
    pub lacks_approval: bool,
    /// Whether the call lacks evidence that an attestation would give.
    pub lacks_evidence: bool,
    /// Number of approvals by different persons that it needs.
    pub needed: usize,
}

/// Files calls that need an approval, and finds the answer when the client retries the same call.
///
/// The gate computes the binding that an approval needs, and returns it when it refuses the call. The binding is kept
/// here until the retry. Approvals bind the session, and a session has one gate, so no other process asks for it.
#[derive(Debug)]
pub struct CallApprovals {
    store: Arc<dyn PendingApprovals>,
    ttl: Millis,
    asked: Mutex<VecDeque<CallFacts>>,
}

impl ApproverAnswer {
    /// Returns the id that the answers bind.
    #[must_use]
    pub const fn call_id(&self) -> Option<&CallId> {
        match self {
            Self::Approved(id, _) | Self::Attested(id, ..) => Some(id),
            Self::Edited(edited) => Some(&edited.id),
            Self::Denied(..) => None,
        }
    }

    /// Returns the tokens of an approval.
    #[must_use]
    pub fn tokens(&self) -> &[ApprovalToken] {
        match self {
            Self::Approved(_, tokens) | Self::Attested(_, _, tokens) => tokens,
            Self::Edited(edited) => std::slice::from_ref(&edited.token),
            Self::Denied(..) => &[],
        }
    }

    /// Returns the proposal that was attested to.
    #[must_use]
    pub fn attested(&self) -> Option<&str> {
        match self {
            Self::Attested(_, proposal, _) => Some(proposal.proposal()),
            Self::Approved(..) | Self::Edited(..) | Self::Denied(..) => None,
        }
    }

    /// Returns the arguments of an edited call.
    #[must_use]
    pub fn edited(&self) -> Option<&EditedCall> {
        match self {
            Self::Edited(edited) => Some(edited),
            Self::Approved(..) | Self::Attested(..) | Self::Denied(..) => None,
        }
    }

    /// Returns the arguments with which the call is decided, if they are not those of the call as it came: a person's own, or,
    /// beside an attested proposal, the call's without its reserved members.
    #[must_use]
    pub fn args_for(&self, call: &CallArgs) -> Option<CallArgs> {
        match self {
            Self::Edited(edited) => Some(edited.args.clone()),
            Self::Attested(..) => Some(CallArgs::new(call.own().clone())),
            Self::Approved(..) | Self::Denied(..) => None,
        }
    }

    /// Returns the approver's reason for a denial.
    #[must_use]
    pub fn reason(&self) -> Option<&DenialReason> {
        match self {
            Self::Denied(_, denial) => denial.reason.as_ref(),
            Self::Approved(..) | Self::Attested(..) | Self::Edited(..) => None,
        }
    }
}

impl CallApprovals {
    /// Keeps questions in `store`, each open for `ttl`.
    #[must_use]
    pub const fn new(store: Arc<dyn PendingApprovals>, ttl: Millis) -> Self {
        Self { store, ttl, asked: Mutex::new(VecDeque::new()) }
    }

    /// Returns the answer to exactly this binding.
    ///
    /// # Errors
    /// [`PendingError`] of the store.
    pub fn answer(
        &self,
        binding: &CallFacts,
        now: Timestamp,
    ) -> Result<Option<ApproverAnswer>, PendingError> {
        if let Some(denial) = self.store.find_denied(binding, now)? {
            return Ok(Some(ApproverAnswer::Denied(Box::new(binding.clone()), denial)));
        }
        let approved = match self.store.find_approved(binding, now)? {
            None => None,
            Some((id, first)) => {
                let asked = self.store.get(&id)?.map(|(asked, _)| asked);
                if let Some((asked, args)) =
                    asked.and_then(|asked| asked.edited_args().map(|args| (asked, args)))
                {
                    return self.edited(id, first, &asked, args, now).map(Some);
                }
                let mut tokens = self.store.approvals(&id)?;
                if tokens.is_empty() {
                    tokens.push(first);
                }
                Some((id, tokens))
            }
        };
        Ok(match (self.store.find_attested(binding, now)?, approved) {
            (Some((id, proposal)), approved) => {
                let tokens = approved.filter(|(of, _)| *of == id).map(|(_, tokens)| tokens);
                Some(ApproverAnswer::Attested(id, Box::new(proposal), tokens.unwrap_or_default()))
            }
            (None, Some((id, tokens))) => Some(ApproverAnswer::Approved(id, tokens)),
            (None, None) => None,
        })
    }

    /// Returns the answer with a person's own arguments; the denial, if the same arguments were denied before.
    fn edited(
        &self,
        id: CallId,
        token: ApprovalToken,
        asked: &PendingApproval,
        args: Canonical,
        now: Timestamp,
    ) -> Result<ApproverAnswer, PendingError> {
        let binding = asked.binding();
        if let Some(denial) = self.store.find_denied(&asked.edited_binding(), now)? {
            return Ok(ApproverAnswer::Denied(Box::new(binding.clone()), denial));
        }
        let (args, asked) = (CallArgs::new(args), binding.args);
        Ok(ApproverAnswer::Edited(Box::new(EditedCall { id, token, args, asked })))
    }

    /// Files an approval request and returns the id to approve it under. A denial counts until `denial_ends`. A call that was
    /// denied before is remembered too, so that its next try is refused as denied.
    ///
    /// # Errors
    /// [`PendingError`] of the store.
    pub fn ask(
        &self,
        request: &ApprovalRequest,
        denial_ends: Timestamp,
        now: Timestamp,
    ) -> Result<FiledQuestion, PendingError> {
        let binding = request.binding();
        let is_known = self.store.get(&binding.call_id)?.is_some();
        let mut wanted =
            PendingApproval::new(binding.clone(), request.args(), now, self.ttl)?.session_end(denial_ends);
        if let Some(approvers) = request.approvers() {
            wanted = wanted.approved_by_several(approvers.clone());
        }
        if let Some(proposal) = request.proposal() {
            wanted = wanted.summary(proposal.clone());
        }
        if request.takes_grants() {
            wanted = wanted.grantable();
        }
        if let Some(evidence) = request.evidence() {
            wanted = wanted.wanting(evidence.clone(), request.needs_approval());
        }
        let filed = match self.store.request(&wanted) {
            Ok(id) => {
                let (short, is_new) = (self.store.short_id(&id, now)?, !is_known && id == binding.call_id);
                let (lacks_approval, lacks_evidence) =
                    (request.needs_approval(), request.evidence().is_some());
                let needed = if lacks_approval { wanted.needed() } else { 1 };
                Ok(FiledQuestion { id, short, is_new, needed, lacks_approval, lacks_evidence })
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
    ///
    /// # Errors
    /// [`PendingError`] of the store.
    pub fn state(&self, id: &CallId) -> Result<Option<(PendingApproval, PendingState)>, PendingError> {
        self.store.get(id)
    }

    /// Returns `true` if an answer to the question is missing, and can still be given.
    ///
    /// # Errors
    /// [`PendingError`] of the store.
    pub fn is_waiting(&self, id: &CallId, now: Timestamp) -> Result<bool, PendingError> {
        let Some((asked, state)) = self.store.get(id)? else { return Ok(false) };
        let lacks_approval = match state {
            PendingState::Waiting => asked.needs_approval(),
            PendingState::Approved(_) => false,
            PendingState::Denied | PendingState::Used | _ => return Ok(false),
        };
        let lacks_evidence = asked.evidence().is_some() && self.store.attestation(id)?.is_none();
        Ok((lacks_approval || lacks_evidence) && now < asked.expires())
    }

    /// Returns the number of approvals that a question has so far.
    ///
    /// # Errors
    /// [`PendingError`] of the store.
    pub fn given(&self, id: &CallId) -> Result<usize, PendingError> {
        self.store.approvals(id).map(|tokens| tokens.len())
    }

    /// Withdraws a question that was filed just now.
    ///
    /// # Errors
    /// [`PendingError`] of the store.
    pub fn withdraw(&self, question: &FiledQuestion) -> Result<(), PendingError> {
        if question.is_new { self.store.withdraw(&question.id) } else { Ok(()) }
    }

    /// Finds the answer to this call. A question under another registry version concerns another call.
    ///
    /// # Errors
    /// [`PendingError`] of the store.
    pub fn find(
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
    ///
    /// # Errors
    /// [`PendingError`] of the store.
    pub fn retire(&self, id: &CallId, refused: Option<RejectionCode>) -> Result<(), PendingError> {
        if refused.is_none_or(is_end_of_token) { self.store.mark_used(id) } else { Ok(()) }
    }

    /// Removes the answers that a call came with, as far as it used them or they never can be used. `refused` is the refusal
    /// of the call; without one, it was accepted.
    ///
    /// # Errors
    /// [`PendingError`] of the store.
    pub fn retire_answer(
        &self,
        answer: &ApproverAnswer,
        refused: Option<&Rejection>,
    ) -> Result<(), PendingError> {
        let Some(id) = answer.call_id() else { return Ok(()) };
        let Some(refused) = refused else { return self.store.mark_used(id) };
        let is_of_token = refused.approval_spent() || is_end_of_token(refused.code());
        if !answer.tokens().is_empty() && is_of_token {
            return self.store.mark_used(id);
        }
        let is_of_evidence = refused.code().step() == EVIDENCE_STEP || is_of_token;
        if answer.attested().is_some() && (refused.attestation_spent() || is_of_evidence) {
            return self.store.drop_attestation(id);
        }
        Ok(())
    }
}

/// Returns `true` for a refusal after which the token never counts.
const fn is_end_of_token(code: RejectionCode) -> bool {
    matches!(
        code,
        RejectionCode::ApprovalSpent
            | RejectionCode::ApprovalExpired
            | RejectionCode::ApprovalInvalid
            | RejectionCode::StoreTooNew
    )
}
fn is_same_call(binding: &CallFacts, tool: &ToolId, args: Digest) -> bool {
    binding.tool == *tool && binding.args == args
}
