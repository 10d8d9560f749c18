//! Step 8: does the evidence verify and back the claims?

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_action_proposal::{
    ActionProposal, EvidenceEntry, ProposalError, ProposalVerifier, ProposedCall, VerifiedEvidence,
    VerifiedProposal,
};
use countersign_approval_token::{EvidenceForm, EvidenceSummary, ProposalSummary};
use countersign_canonical_json::{Canonical, ValueRef};
use countersign_core::{ImpactClass, KeyId, RequestId};
use countersign_keys::VerifyingKey;
use countersign_registry::{EvidenceRule, RegistryView, ToolRules};

use crate::call::ToolCall;
use crate::code::RejectionCode;
use crate::decide::Asked;
use crate::findings::Findings;
use crate::parts::GateParts;
use crate::rejection::Refusal;
use crate::settings::ProposalSettings;
use crate::usage::Reservation;

/// The member of the arguments that a proposal travels as.
pub const PROPOSAL_MEMBER: &str = "__pic";

/// What the record says of a call that should have come with a proposal and had none.
pub(crate) const NO_PROPOSAL: &str = "no proposal came with the call";

/// The member of the arguments by which the agent's side correlates the request.
pub const REQUEST_ID_MEMBER: &str = "__pic_request_id";

/// Takes off what travels among the arguments and is none of the tool's. What is left is what the tool gets and what
/// schemas, approvals, proposals and records are about. Members of that name further down are the tool's own.
///
/// ```
/// use countersign_canonical_json::{Limits, Recipe, read};
/// let sent = br#"{"to":"bob","__pic_request_id":"r-7","__pic":{"protocol":"PIC/1.0"}}"#;
/// let sent = read(sent, Recipe::Jcs1, &Limits::default())?;
/// assert_eq!(countersign_tool_gate::own_arguments(sent).as_str(), r#"{"to":"bob"}"#);
/// # Ok::<(), countersign_canonical_json::JsonError>(())
/// ```
#[must_use]
pub fn own_arguments(sent: Canonical) -> Canonical {
    sent.without(&[PROPOSAL_MEMBER, REQUEST_ID_MEMBER])
}

/// What travelled among the arguments and is none of the tool's.
pub(crate) struct Reserved {
    /// The proposal's canonical text.
    pub(crate) proposal: Option<String>,
    request_id: Option<Result<RequestId, ()>>,
}

impl Reserved {
    /// What `sent` has of it.
    pub(crate) fn of(sent: &Canonical) -> Self {
        let member = |name| sent.value().get(name);
        let read = |id: ValueRef<'_>| id.as_str().and_then(|id| RequestId::new(id).ok()).ok_or(());
        Self {
            proposal: member(PROPOSAL_MEMBER).map(ValueRef::canonical_text),
            request_id: member(REQUEST_ID_MEMBER).map(read),
        }
    }

    /// The proposal that came beside the arguments of a call, or else among them. There its numbers were read as theirs
    /// are, which is stricter than PIC/1.0.
    fn proposal_of<'c>(&'c self, call: &ToolCall<'c>) -> Option<&'c [u8]> {
        call.proposal.or(self.proposal.as_deref().map(str::as_bytes))
    }

    /// The id that the agent's side gave; an error where it is malformed.
    pub(crate) fn take_request_id(&mut self) -> Result<Option<RequestId>, ()> {
        self.request_id.take().transpose()
    }
}

/// What step 8 found: how bad the call can be, and the proposal that backs it where one came.
pub(crate) struct Backing<'g> {
    pub(crate) impact: ImpactClass,
    pub(crate) proposal: Option<(VerifiedProposal, &'g ProposalSettings)>,
}

/// Asks for a proposal where the tool's rule or an impact does, and verifies every one that comes.
pub(crate) fn backed<'g>(
    gate: &'g GateParts,
    call: &ToolCall<'_>,
    reserved: &Reserved,
    view: &RegistryView,
    asked: &Asked<'_>,
    reservation: &mut Reservation<'_>,
    findings: &mut Findings,
) -> Result<Backing<'g>, Refusal> {
    let of_registry = asked.rules.entry().impact();
    let Some(settings) = &gate.terms.proposals else {
        takes_no_proposals(asked.rules)?;
        if call.proposal.is_some_and(|json| !json.trim_ascii_start().starts_with(b"{")) {
            return Err(Refusal::new(
                RejectionCode::PicInvalidRequest,
                "what came as a proposal is no object",
            ));
        }
        return Ok(Backing { impact: of_registry, proposal: None });
    };
    let by_policy = settings.verifier.policy().impact_of(asked.tool.name().as_str());
    let impact = by_policy.map_or(of_registry, |impact| impact.max(of_registry));
    if impact > of_registry {
        findings.note_effective_impact(impact);
    }
    let Some(json) = reserved.proposal_of(call) else {
        // What is asked of an impact is not asked of every worse one, so each is looked at by itself.
        let mut impacts = std::iter::once(of_registry).chain(by_policy);
        let is_required = impacts.any(|impact| settings.verifier.requires_proposal(impact));
        came_without_proposal(asked.rules, is_required)?;
        return Ok(Backing { impact, proposal: None });
    };
    // Evidence is read and signatures are verified before a proposal is found to be worth nothing.
    reservation.worked();
    // Resolvers are the embedder's code.
    let verified = catch_unwind(AssertUnwindSafe(|| verify(gate, settings, json, view, asked, findings)))
        .unwrap_or_else(|_| Err(Refusal::new(RejectionCode::Internal, "verifying the proposal panicked")))?;
    findings.note_verified(&verified);
    nobody_is_revoked(&verified, &settings.verifier, view)?;
    Ok(Backing { impact: impact.max(verified.impact()), proposal: Some((verified, settings)) })
}

/// Says whether the tool's rule asks for evidence whatever the impact.
fn asks_for_evidence(rules: &ToolRules) -> bool {
    rules.entry().evidence() != EvidenceRule::NotRequired
}

pub(crate) fn takes_no_proposals(rules: &ToolRules) -> Result<(), Refusal> {
    if asks_for_evidence(rules) {
        return Err(Refusal::new(RejectionCode::PicEvidenceFailed, "this gate takes no proposals"));
    }
    Ok(())
}

pub(crate) fn came_without_proposal(rules: &ToolRules, is_required: bool) -> Result<(), Refusal> {
    if is_required || asks_for_evidence(rules) {
        return Err(Refusal::new(RejectionCode::PicInvalidRequest, NO_PROPOSAL));
    }
    Ok(())
}

/// Holds whoever stands behind the evidence against the registry of this very decision: the verifier was made once, and
/// keys are revoked while it is in use. A key that signed can be revoked by the id in the keyring, too.
fn nobody_is_revoked(
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

/// Adds what comes of the call's proposal to a question for a person. The refusal stays as it is.
pub(crate) fn with_proposal(
    mut refusal: Refusal,
    gate: &GateParts,
    call: &ToolCall<'_>,
    reserved: &Reserved,
    view: &RegistryView,
    asked: &Asked<'_>,
    reservation: &mut Reservation<'_>,
) -> Refusal {
    let came = gate.terms.proposals.as_ref().zip(reserved.proposal_of(call));
    if let (Some(request), Some((settings, json))) = (refusal.approval_request.as_deref_mut(), came) {
        // As costly as at step 8, and bounded by the same rate.
        reservation.worked();
        let profile = settings.verifier.profile().as_str();
        let summary = catch_unwind(AssertUnwindSafe(|| summarise(gate, settings, json, view, asked)))
            .unwrap_or_else(|_| ProposalSummary::new(profile, "").refused(RejectionCode::Internal.as_str()));
        request.proposal = Some(Box::new(summary));
    }
    refusal
}

/// Says what comes of a proposal. What it has as evidence counts as verified only where the whole of it verifies.
fn summarise(
    gate: &GateParts,
    settings: &ProposalSettings,
    json: &[u8],
    view: &RegistryView,
    asked: &Asked<'_>,
) -> ProposalSummary {
    let profile = settings.verifier.profile().as_str();
    let proposal = match settings.verifier.parse(json) {
        Ok(proposal) => proposal,
        Err(error) => return ProposalSummary::new(profile, "").refused(error.code().as_str()),
    };
    let summary = ProposalSummary::new(profile, proposal.intent());
    let summary =
        proposal.claims().iter().fold(summary, |all, claim| all.claim(claim.text(), claim.evidence()));
    let entries: Vec<_> = proposal.evidence().iter().map(unverified).collect();
    let verified = hold(gate, settings, proposal, view, asked)
        .and_then(|verified| nobody_is_revoked(&verified, &settings.verifier, view).map(|()| verified));
    let (summary, evidence) = match &verified {
        Ok(verified) => (summary.impact(verified.impact().as_str()), verified.evidence()),
        Err(refusal) => (summary.refused(refusal.code.as_str()), &[][..]),
    };
    // Where evidence is skipped, fewer entries verified than there are.
    let looked_at = evidence.iter().map(Some).chain(std::iter::repeat(None));
    entries.into_iter().zip(looked_at).fold(summary, |all, (entry, verified)| {
        all.evidence(verified.map_or(entry, |piece| match piece.signer() {
            Some((key, _)) => EvidenceSummary::signature(piece.id(), piece.digest(), key),
            None => EvidenceSummary::file(piece.id(), piece.digest(), piece.endorsed()),
        }))
    })
}

fn unverified(entry: &EvidenceEntry) -> EvidenceSummary {
    let kind = match entry {
        EvidenceEntry::Hash(_) => EvidenceForm::Hash,
        EvidenceEntry::Signature(_) | _ => EvidenceForm::Sig,
    };
    EvidenceSummary::unverified(entry.id(), kind)
}

/// Reads the proposal and holds it against the call.
fn verify(
    gate: &GateParts,
    settings: &ProposalSettings,
    json: &[u8],
    view: &RegistryView,
    asked: &Asked<'_>,
    findings: &mut Findings,
) -> Result<VerifiedProposal, Refusal> {
    let proposal = settings.verifier.parse(json).map_err(|error| refused(&error))?;
    findings.note_proposal(&proposal);
    hold(gate, settings, proposal, view, asked)
}

fn refused(error: &ProposalError) -> Refusal {
    Refusal::new(error.code().into(), error.detail())
}

/// Holds the proposal against the call as the gate knows it.
fn hold(
    gate: &GateParts,
    settings: &ProposalSettings,
    proposal: ActionProposal,
    view: &RegistryView,
    asked: &Asked<'_>,
) -> Result<VerifiedProposal, Refusal> {
    let mut call = ProposedCall::new(asked.tool.name())
        .server(asked.tool.server())
        .args(asked.args.digest())
        .impact(asked.rules.entry().impact())
        .call_id(asked.call_id)
        .principal(&gate.terms.principal)
        .agent(&gate.terms.agent)
        .session(&gate.terms.session)
        .registry_version(view.snapshot().version());
    if asks_for_evidence(asked.rules) {
        call = call.evidence_required();
    }
    if let Some(ask) = gate.terms.goal {
        call = call.ask(ask);
    }
    if let Some(root) = asked.plan() {
        call = call.plan(root);
    }
    proposal.verify(&settings.verifier, &call, &gate.progress.clock).map_err(|error| refused(&error))
}
