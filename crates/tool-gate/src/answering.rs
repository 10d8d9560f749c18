//! A host's own approvals and denials, given to the gate that asked.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_approval_token::{ApprovalToken, MintError, MintTerms, mint};
use countersign_audit_log::{AnswerRecord, AnswerVerdict, AuditError, Record};
use countersign_core::{Digest, IdError, Millis, OperatorId, Timestamp, TokenId};

use crate::call::ToolCall;
use crate::gate::ToolGate;
use crate::parts::GateParts;
use crate::rejection::{ApprovalRequest, Rejection};

/// Why an answer to an [`ApprovalRequest`] does not count.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// The request is of another session, principal, gate or registry version, or of a plan.
    #[error("the request is of another session, gate or registry version")]
    Foreign,
    /// The gate takes no approvals, or the call needs none.
    #[error("the call needs no approval of this gate")]
    NotNeeded,
    /// The person may not approve calls of this tool.
    #[error("the person is not an approver of this tool")]
    Approver,
    /// No token can be minted: the lifetime is zero or above the gate's, or the approver is the agent.
    #[error(transparent)]
    Mint(#[from] MintError),
    /// The clock is unavailable.
    #[error("clock unavailable")]
    Clock,
    /// The answer cannot be recorded.
    #[error("the answer cannot be recorded")]
    Audit(#[source] AuditError),
}

impl AnswerError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Foreign => "REQUEST_FOREIGN",
            Self::NotNeeded => "REQUEST_NOT_NEEDED",
            Self::Approver => "PENDING_APPROVER",
            Self::Mint(error) => error.code(),
            Self::Clock => "CLOCK_UNAVAILABLE",
            Self::Audit(_) => "AUDIT_UNAVAILABLE",
        }
    }
}

countersign_core::coded!(AnswerError);

impl ToolGate {
    /// Approves one call in the name of a person whom the host has authenticated. The answer is recorded before the token is
    /// returned; the token counts for exactly this call, once. The token's id is derived from the call, the person, and the
    /// time.
    ///
    /// # Errors
    /// [`AnswerError`]; the call stays unapproved.
    pub fn approve(
        &self,
        request: &ApprovalRequest,
        approver: &OperatorId,
        ttl: Millis,
    ) -> Result<ApprovalToken, AnswerError> {
        let now = self.time()?;
        let id = token_id(request, approver, now).map_err(|_| AnswerError::Mint(MintError::Binding))?;
        self.approve_as(request, &MintTerms::new(id, approver.clone(), now, ttl))
    }

    /// Approves one call under given terms: an engine that replays its workflow gets the same token again.
    ///
    /// # Errors
    /// As [`approve`](Self::approve).
    pub fn approve_as(
        &self,
        request: &ApprovalRequest,
        terms: &MintTerms,
    ) -> Result<ApprovalToken, AnswerError> {
        let parts = self.parts();
        let settings = parts.terms.approvals.as_ref().ok_or(AnswerError::NotNeeded)?;
        parts.check_own(request)?;
        if !request.needs_approval() {
            return Err(AnswerError::NotNeeded);
        }
        let view = parts.terms.registry.view();
        let listed = view.snapshot().tool(&request.binding.tool).and_then(|rules| rules.entry().approvers());
        if listed.is_some_and(|approvers| !approvers.lists(terms.approver())) {
            return Err(AnswerError::Approver);
        }
        let token = mint(&settings.keys, &request.binding, terms, settings.terms.verify.max_lifetime)?;
        let (now, approver) = (self.time()?, terms.approver().clone());
        let mut answer = AnswerRecord::about(now, &request.binding, AnswerVerdict::Approved, approver);
        answer.approval = Some(terms.token_id().clone());
        answer.expires = token.claimed_expiry();
        let recorded = catch_unwind(AssertUnwindSafe(|| parts.recorder.sink.record(&Record::Answer(answer))));
        recorded.unwrap_or(Err(AuditError::Poisoned)).map_err(AnswerError::Audit)?;
        Ok(token)
    }

    /// Denies one call in the name of a person. The call is decided once more, is refused, and the refusal, which is recorded,
    /// is the answer for the agent. The same call may be asked about again.
    ///
    /// # Errors
    /// [`AnswerError::Foreign`].
    pub fn deny(&self, request: &ApprovalRequest, person: &str) -> Result<Rejection, AnswerError> {
        self.parts().check_own(request)?;
        let binding = &request.binding;
        let (id, tool) = (binding.call_id.as_str(), &binding.tool);
        let (server, name) = (tool.server().as_str(), tool.name().as_str());
        let call = ToolCall::new(id, server, name, request.args.bytes()).denied_by(person);
        match self.check(&call) {
            Err(rejection) => Ok(rejection),
            // Not reached: a denied call is refused at step 7 at the latest.
            Ok(_) => Err(AnswerError::NotNeeded),
        }
    }

    fn time(&self) -> Result<Timestamp, AnswerError> {
        let now = || self.parts().progress.clock.now();
        // The clock is the host's, and may panic.
        catch_unwind(AssertUnwindSafe(now)).ok().and_then(Result::ok).ok_or(AnswerError::Clock)
    }
}

impl GateParts {
    /// Checks that a request is of this session's gate, of a tool, and under the registry in force.
    fn check_own(&self, request: &ApprovalRequest) -> Result<(), AnswerError> {
        let (asked, view) = (&request.binding, self.terms.registry.view());
        if view.snapshot().tool(&asked.tool).is_none() {
            return Err(AnswerError::Foreign);
        }
        let own = self.terms.call_facts(
            asked.call_id.clone(),
            asked.tool.clone(),
            asked.args,
            asked.definition,
            asked.plan,
            view.snapshot().version(),
        );
        if *asked == own { Ok(()) } else { Err(AnswerError::Foreign) }
    }
}

/// Returns the id of a token: equal for equal answers in one millisecond, which are one approval.
fn token_id(request: &ApprovalRequest, approver: &OperatorId, now: Timestamp) -> Result<TokenId, IdError> {
    let (binding, time) = (&request.binding, now.as_millis());
    let answer = format!("{} {} {approver} {time}", binding.act(), binding.call_id);
    TokenId::new(&Digest::of(answer.as_bytes()).to_string())
}
