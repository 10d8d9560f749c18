use countersign_audit_log::{AuditError, Record};
use countersign_registry::{ContractError, SessionContract};

use crate::gate::ToolGate;
use crate::parts::GateParts;

/// Why a session is not renewed. Its terms are unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RenewError {
    /// The contract belongs to another session, agent or line of agents.
    #[error("the contract belongs to another session")]
    OtherSession,
    /// The contract was negotiated before the one in force.
    #[error("the contract is older than the one in force")]
    Older,
    /// The contract does not hold under the registry in force.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// The clock is unavailable.
    #[error("clock unavailable")]
    Clock,
    /// The renewal cannot be recorded.
    #[error("the renewal cannot be recorded")]
    Audit(#[source] AuditError),
}

impl RenewError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::OtherSession => "CONTRACT_OTHER_SESSION",
            Self::Older => "CONTRACT_OLDER",
            Self::Contract(error) => error.code(),
            Self::Clock => "CLOCK_UNAVAILABLE",
            Self::Audit(_) => "AUDIT_UNAVAILABLE",
        }
    }
}

countersign_core::coded!(RenewError);

impl ToolGate {
    /// Continues the session under a newly negotiated contract, for example after the first one has expired. The
    /// contract takes effect with the next decision. A call that was accepted before runs only if the new contract
    /// discloses its tool, and only until the end of the contract under which it was accepted.
    ///
    /// No budget is reset: call limits, rates, counts, alarm, quarantine, the plan's position and spent approvals
    /// belong to the session. The pinned goal is valid at least until the new contract's end. An expired pin is renewed
    /// too if it ended with its contract, at the same millisecond
    /// ([`ToolGateBuilder::pinned_ask`](crate::ToolGateBuilder::pinned_ask)); any other stays expired. A noted
    /// definition is deleted if the new contract does not disclose its tool. The renewal is recorded before it takes
    /// effect, as a `session` entry that says `renewed`.
    ///
    /// Approvals stay valid until their own expiry; like denials, they bind the registry's version. A host that keeps
    /// denials must keep them beyond [`ApprovalRequest::session_ends`](crate::ApprovalRequest::session_ends), which is
    /// the end of one contract: until the registry under which the question was asked has expired.
    ///
    /// ```
    /// use countersign_core::Timestamp;
    /// use countersign_registry::NegotiationRequest;
    /// use countersign_tool_gate::ToolGate;
    /// fn renew(gate: &ToolGate, now: Timestamp) -> Result<(), Box<dyn std::error::Error>> {
    ///     let old = gate.contract();
    ///     let request = NegotiationRequest::new(old.session().clone(), old.agent().clone());
    ///     Ok(gate.renew(gate.registry().negotiate(&request, now)?)?)
    /// }
    /// ```
    ///
    /// # Errors
    /// [`RenewError`]; nothing has changed.
    pub fn renew(&self, contract: SessionContract) -> Result<(), RenewError> {
        let GateParts { terms, progress, recorder } = &**self.parts();
        let _renewing = progress.renewing.lock();
        let old = progress.in_force();
        let of = |it: &SessionContract| (it.session().clone(), it.agent().clone(), it.ancestors().to_vec());
        if of(&contract) != of(&old.contract) {
            return Err(RenewError::OtherSession);
        }
        if contract.issued() < old.contract.issued() {
            return Err(RenewError::Older);
        }
        let now = progress.clock.now().map_err(|_| RenewError::Clock)?;
        contract.check(&terms.view(now), now)?;
        let mut record = terms.session_record(now, &contract);
        record.renewed = true;
        recorder.sink.record(&Record::Session(record)).map_err(RenewError::Audit)?;
        progress.replace_terms(old.under(contract, now));
        Ok(())
    }
}
