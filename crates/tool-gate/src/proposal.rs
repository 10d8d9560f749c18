//! Step 8: does the evidence verify and back the claims?

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use countersign_action_proposal::{
    ActionProposal, ProposalCode, ProposalError, ProposalVerifier, ProposedCall, VerifiedProposal,
};
use countersign_canonical_json::{Canonical, ValueRef};
use countersign_core::{ImpactClass, Millis, RequestId, SpentTokens};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{EvidenceRule, RegistryView};

use crate::call::ToolCall;
use crate::code::RejectionCode;
use crate::decide::{Asked, Refusal};
use crate::facts::Facts;
use crate::gate::Inner;

/// The member of the arguments that a proposal travels as.
const PROPOSAL_MEMBER: &str = "__pic";

/// The member of the arguments by which the agent's side correlates the request.
const REQUEST_ID_MEMBER: &str = "__pic_request_id";

/// Says how action proposals are verified and where their attestations are spent.
#[derive(Clone, Debug)]
pub struct ProposalSettings {
    pub(crate) verifier: Arc<ProposalVerifier>,
    pub(crate) spent: Arc<dyn SpentTokens>,
    pub(crate) skew: Millis,
}

impl ProposalSettings {
    /// Takes the operator's verifier and the store of used tickets; it may be the one in which approvals are spent. A used
    /// attestation is kept there for 5 seconds after it expires.
    #[must_use]
    pub fn new(verifier: Arc<ProposalVerifier>, spent: Arc<dyn SpentTokens>) -> Self {
        Self { verifier, spent, skew: Millis::from_secs(5) }
    }

    /// Sets for how long after its expiry a used attestation is kept: by how much the clocks of gates that share the store
    /// may differ.
    #[must_use]
    pub const fn skew(mut self, skew: Millis) -> Self {
        self.skew = skew;
        self
    }
}

/// Takes the reserved members off. What is left is what everything after this sees.
pub(crate) fn take_off(sent: Canonical) -> (Canonical, Reserved) {
    let value = sent.value();
    if value.get(PROPOSAL_MEMBER).is_none() && value.get(REQUEST_ID_MEMBER).is_none() {
        return (sent, Reserved(None));
    }
    let args = sent.without(&[PROPOSAL_MEMBER, REQUEST_ID_MEMBER]);
    (args, Reserved(Some(sent)))
}

/// What travelled among the arguments and is none of the tool's.
pub(crate) struct Reserved(Option<Canonical>);

impl Reserved {
    fn member(&self, name: &str) -> Option<ValueRef<'_>> {
        self.0.as_ref()?.value().get(name)
    }

    pub(crate) fn proposal(&self) -> Option<ValueRef<'_>> {
        self.member(PROPOSAL_MEMBER)
    }

    pub(crate) fn request_id(&self) -> Result<Option<RequestId>, ()> {
        let Some(member) = self.member(REQUEST_ID_MEMBER) else { return Ok(None) };
        member.as_str().and_then(|id| RequestId::new(id).ok()).map(Some).ok_or(())
    }
}

/// What step 8 found: how bad the call can be, and the proposal that backs it where one came.
pub(crate) struct Backing<'g> {
    pub(crate) impact: ImpactClass,
    pub(crate) proposal: Option<(VerifiedProposal, &'g ProposalSettings)>,
}

/// Asks for a proposal where the tool's rule or the impact does, and verifies every one that comes.
pub(crate) fn backed<'g>(
    gate: &'g Inner,
    call: &ToolCall<'_>,
    reserved: &Reserved,
    view: &RegistryView,
    asked: &Asked<'_>,
    facts: &mut Facts<'_>,
) -> Result<Backing<'g>, Refusal> {
    let entry = asked.rules.entry();
    let is_required = entry.evidence() != EvidenceRule::NotRequired;
    let Some(settings) = &gate.proposals else {
        return if is_required {
            Err(Refusal::new(RejectionCode::PicEvidenceFailed, "this gate takes no proposals"))
        } else {
            Ok(Backing { impact: entry.impact(), proposal: None })
        };
    };
    let by_policy = settings.verifier.policy().impact_of(asked.tool.name().as_str());
    let impact = by_policy.map_or(entry.impact(), |impact| impact.max(entry.impact()));
    // Among the arguments, its numbers were read as theirs are, which is stricter than PIC/1.0.
    let among = || reserved.proposal().map(|value| Cow::Owned(value.canonical_text().into_bytes()));
    let Some(json) = call.proposal.map(Cow::Borrowed).or_else(among) else {
        return if is_required || settings.verifier.requires_proposal(impact) {
            Err(Refusal::new(RejectionCode::PicInvalidRequest, "no proposal came with the call"))
        } else {
            Ok(Backing { impact, proposal: None })
        };
    };
    // Resolvers are the embedder's code.
    let verified = catch_unwind(AssertUnwindSafe(|| verify(gate, settings, &json, view, asked, facts)))
        .unwrap_or_else(|_| Err(Refusal::new(RejectionCode::Internal, "verifying the proposal panicked")))?;
    facts.note_verified(&verified);
    if verified.keys().any(|key| view.snapshot().is_key_revoked(&key.key_id())) {
        return Err(Refusal::new(RejectionCode::PicEvidenceFailed, "the registry revokes a key that signed"));
    }
    // The verifier asks for evidence by impact; the operator may ask for it of any tool.
    if is_required && verified.evidence().is_empty() {
        return Err(Refusal::new(ProposalCode::EvidenceRequired.into(), "the tool's rule asks for evidence"));
    }
    Ok(Backing { impact: impact.max(verified.impact()), proposal: Some((verified, settings)) })
}

/// Holds the proposal against the call as the gate knows it.
fn verify(
    gate: &Inner,
    settings: &ProposalSettings,
    json: &[u8],
    view: &RegistryView,
    asked: &Asked<'_>,
    facts: &mut Facts<'_>,
) -> Result<VerifiedProposal, Refusal> {
    let refusal = |error: ProposalError| Refusal::new(error.code().into(), error.detail());
    let proposal = ActionProposal::parse(json, settings.verifier.limits()).map_err(refusal)?;
    facts.note_proposal(&proposal);
    let mut call = ProposedCall::new(asked.tool.name())
        .server(asked.tool.server())
        .args(asked.args.digest())
        .impact(asked.rules.entry().impact())
        .call_id(asked.call_id)
        .principal(&gate.principal)
        .agent(gate.contract.agent())
        .session(gate.contract.session())
        .registry_version(view.snapshot().version());
    if let Some(ask) = gate.ask.as_ref().map(PinnedAsk::digest) {
        call = call.ask(ask);
    }
    proposal.verify(&settings.verifier, &call, gate).map_err(refusal)
}
