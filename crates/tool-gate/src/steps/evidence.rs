//! Step 8: does the evidence verify and back the claims?

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_action_proposal::{
    ActionProposal, ProposalError, ProposalVerifier, ProposedCall, VerifiedEvidence, VerifiedProposal,
};
use countersign_core::{Clock, EvidenceGap, ImpactClass, KeyId};
use countersign_keys::VerifyingKey;
use countersign_registry::{EvidenceRule, RegistryView, ToolRules};

use super::args::Reservation;
use super::{Deciding, Subject};
use crate::code::RejectionCode;
use crate::rejection::Refusal;
use crate::settings::ProposalSettings;

/// Recorded reason of a call that lacks a required proposal.
pub const NO_PROPOSAL: &str = "no proposal came with the call";

/// Strictest impact, and the verified proposal if one came.
pub(crate) struct CheckedEvidence<'d> {
    pub(crate) impact: ImpactClass,
    pub(crate) proposal: Option<(VerifiedProposal, &'d ProposalSettings)>,
}

/// Step 8: requires a proposal if the tool's rule or an impact does, and verifies every proposal that comes. `clock`
/// gives the time for the evidence, because reading it takes time.
pub(crate) fn check_evidence<'d>(
    deciding: &mut Deciding<'d>,
    subject: &Subject<'_>,
    reservation: &mut Reservation<'_>,
    clock: &dyn Clock,
) -> Result<CheckedEvidence<'d>, Refusal> {
    let of_registry = subject.rules.entry().impact();
    let Some(settings) = &deciding.terms.proposals else {
        takes_no_proposals(subject.rules)?;
        if deciding.call.proposal.is_some_and(|json| !json.trim_ascii_start().starts_with(b"{")) {
            return Err(Refusal::new(
                RejectionCode::PicInvalidRequest,
                "what came as a proposal is no object",
            ));
        }
        return Ok(CheckedEvidence { impact: of_registry, proposal: None });
    };
    let impact = operator_impact(settings, subject);
    if impact > of_registry {
        deciding.findings.note_effective_impact(impact);
    }
    let Some(json) = subject.proposal else {
        needs_no_proposal(settings, subject)?;
        return Ok(CheckedEvidence { impact, proposal: None });
    };
    // why: evidence is read and signatures are verified even for a worthless proposal.
    reservation.charge();
    // Resolvers are the embedder's code.
    let verified = catch_unwind(AssertUnwindSafe(|| {
        let proposal = settings.verifier.parse(json).map_err(|error| refused(&error))?;
        deciding.findings.note_proposal(&proposal);
        verify(settings, proposal, subject, clock)
    }))
    .unwrap_or_else(|_| Err(Refusal::new(RejectionCode::Internal, "verifying the proposal panicked")))?;
    deciding.findings.note_verified(&verified);
    check_not_revoked(&verified, &settings.verifier, deciding.view)?;
    Ok(CheckedEvidence { impact: impact.max(verified.impact()), proposal: Some((verified, settings)) })
}

fn policy_impact(settings: &ProposalSettings, subject: &Subject<'_>) -> Option<ImpactClass> {
    settings.verifier.policy().impact_of(subject.facts.tool.name().as_str())
}

/// Strictest impact that the operator states.
pub(crate) fn operator_impact(settings: &ProposalSettings, subject: &Subject<'_>) -> ImpactClass {
    let of_registry = subject.rules.entry().impact();
    policy_impact(settings, subject).map_or(of_registry, |impact| impact.max(of_registry))
}

/// Refuses a call without a proposal if one is required.
pub(crate) fn needs_no_proposal(settings: &ProposalSettings, subject: &Subject<'_>) -> Result<(), Refusal> {
    // A policy that requires a proposal for one impact need not require it for a stricter one, so each impact is checked.
    let of_registry = subject.rules.entry().impact();
    let mut impacts = std::iter::once(of_registry).chain(policy_impact(settings, subject));
    came_without_proposal(subject.rules, impacts.any(|impact| settings.verifier.requires_proposal(impact)))
}

/// Returns `true` if the tool's rule requires evidence whatever the impact.
fn requires_evidence(rules: &ToolRules) -> bool {
    rules.entry().evidence() != EvidenceRule::NotRequired
}

/// Step 8 at a gate that takes no proposals.
///
/// # Errors
/// [`Refusal`] if the tool's rule requires evidence.
pub fn takes_no_proposals(rules: &ToolRules) -> Result<(), Refusal> {
    if requires_evidence(rules) {
        return Err(Refusal::new(RejectionCode::PicEvidenceFailed, "this gate takes no proposals"));
    }
    Ok(())
}

/// Step 8 for a call without a proposal. `is_required`: the policy requires one.
///
/// # Errors
/// [`Refusal`] if policy or rule require one.
pub fn came_without_proposal(rules: &ToolRules, is_required: bool) -> Result<(), Refusal> {
    if is_required || requires_evidence(rules) {
        let refusal = Refusal::new(RejectionCode::PicInvalidRequest, NO_PROPOSAL);
        return Err(refusal.lacking(Some(EvidenceGap::Proposal)));
    }
    Ok(())
}

fn refused(error: &ProposalError) -> Refusal {
    Refusal::new(error.code().into(), error.detail()).lacking(error.gap())
}

/// Verifies the proposal against the call as the gate knows it.
pub(crate) fn verify(
    settings: &ProposalSettings,
    proposal: ActionProposal,
    subject: &Subject<'_>,
    clock: &dyn Clock,
) -> Result<VerifiedProposal, Refusal> {
    let mut call = ProposedCall::of(subject.facts).impact(subject.rules.entry().impact());
    if requires_evidence(subject.rules) {
        call = call.evidence_required();
    }
    proposal.verify(&settings.verifier, &call, clock).map_err(|error| refused(&error))
}

/// Looks up signers and endorsers among the revoked keys of this decision's registry: the verifier is older than it. A key
/// can be revoked by its id in the keyring, too.
///
/// # Errors
/// [`Refusal`] if the registry revokes one of these keys.
pub fn check_not_revoked(
    verified: &VerifiedProposal,
    verifier: &ProposalVerifier,
    view: &RegistryView,
) -> Result<(), Refusal> {
    let failed = |reason| Err(Refusal::new(RejectionCode::PicEvidenceFailed, reason));
    let is_revoked = |key: &VerifyingKey| view.is_key_revoked(&key.key_id());
    let is_id_revoked = |id: &str| KeyId::new(id).is_ok_and(|id| view.is_key_revoked(&id));
    let mut signers = verified.evidence().iter().filter_map(VerifiedEvidence::signer);
    if signers.any(|(id, key)| is_id_revoked(id) || is_revoked(key)) {
        return failed("the registry revokes a key that signed");
    }
    let is_endorsed = verified.evidence().iter().any(VerifiedEvidence::endorsed);
    if is_endorsed && !verifier.endorsed().is_some_and(|endorsed| endorsed.still_counts(&is_revoked)) {
        return failed("the registry revokes a key that endorsed");
    }
    Ok(())
}
