//! Questions of refused calls: the summary of a proposal for the approver, and the evidence that a call lacks.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_action_proposal::EvidenceEntry;
use countersign_approval_token::{EvidenceForm, EvidenceSummary, ProposalSummary, WantedEvidence};
use countersign_core::{Clock, EvidenceGap};

use crate::code::RejectionCode;
use crate::rejection::{ApprovalRequest, Refusal};
use crate::settings::ProposalSettings;
use crate::steps::args::Reservation;
use crate::steps::evidence::{check_not_revoked, needs_no_proposal, operator_impact, verify};
use crate::steps::{Deciding, Subject};

/// Adds the summary to a refusal that comes with a question, and the evidence that the call would lack once it is
/// approved. The refusal stays as it is.
pub(crate) fn add_proposal(
    mut refusal: Refusal,
    deciding: &Deciding<'_>,
    subject: &Subject<'_>,
    reservation: &mut Reservation<'_>,
    clock: &dyn Clock,
) -> Refusal {
    let (Some(request), Some(settings)) =
        (refusal.approval_request.as_deref_mut(), &deciding.terms.proposals)
    else {
        return refusal;
    };
    let gap = if let Some(json) = subject.proposal {
        // As costly as step 8, and bounded by the same rate.
        reservation.charge();
        let profile = settings.verifier.profile().as_str();
        let summary = catch_unwind(AssertUnwindSafe(|| summarise(deciding, settings, json, subject, clock)));
        let failed = || ProposalSummary::new(profile, "").refused(RejectionCode::Internal.as_str());
        let (summary, gap) = summary.unwrap_or_else(|_| (failed(), None));
        request.proposal = Some(Box::new(summary));
        gap
    } else {
        needs_no_proposal(settings, subject).err().and_then(|refusal| refusal.gap)
    };
    request.evidence = gap.map(|gap| wanted(gap, settings, subject));
    refusal
}

/// Adds the question for an attestation to a refusal of step 8 that lacks one.
pub(crate) fn ask_for_evidence(
    mut refusal: Refusal,
    deciding: &Deciding<'_>,
    subject: &Subject<'_>,
) -> Refusal {
    if let (Some(gap), Some(settings)) = (refusal.gap, &deciding.terms.proposals) {
        refusal.approval_request = Some(Box::new(ApprovalRequest {
            needs_approval: false,
            evidence: Some(wanted(gap, settings, subject)),
            ..ApprovalRequest::of(deciding, subject)
        }));
    }
    refusal
}

fn wanted(gap: EvidenceGap, settings: &ProposalSettings, subject: &Subject<'_>) -> Box<WantedEvidence> {
    let wanted = WantedEvidence::new(gap, operator_impact(settings, subject));
    Box::new(match subject.proposal.map(std::str::from_utf8) {
        Some(Ok(text)) => wanted.proposal(text),
        Some(Err(_)) | None => wanted,
    })
}

/// Summarises a proposal, with the missing part of its evidence. Its evidence counts as verified only if the whole
/// proposal verifies.
fn summarise(
    deciding: &Deciding<'_>,
    settings: &ProposalSettings,
    json: &[u8],
    subject: &Subject<'_>,
    clock: &dyn Clock,
) -> (ProposalSummary, Option<EvidenceGap>) {
    let profile = settings.verifier.profile().as_str();
    let proposal = match settings.verifier.parse(json) {
        Ok(proposal) => proposal,
        Err(error) => return (ProposalSummary::new(profile, "").refused(error.code().as_str()), None),
    };
    let summary = ProposalSummary::new(profile, proposal.intent());
    let summary =
        proposal.claims().iter().fold(summary, |all, claim| all.claim(claim.text(), claim.evidence()));
    let entries: Vec<_> = proposal.evidence().iter().map(unverified).collect();
    let verified = verify(settings, proposal, subject, clock).and_then(|verified| {
        check_not_revoked(&verified, &settings.verifier, deciding.view).map(|()| verified)
    });
    let (summary, evidence) = match &verified {
        Ok(verified) => (summary.impact(verified.impact().as_str()), verified.evidence()),
        Err(refusal) => (summary.refused(refusal.code.as_str()), &[][..]),
    };
    // If evidence was skipped, fewer entries verified than exist.
    let looked_at = evidence.iter().map(Some).chain(std::iter::repeat(None));
    let summary = entries.into_iter().zip(looked_at).fold(summary, |all, (entry, verified)| {
        all.evidence(verified.map_or(entry, |piece| match piece.signer() {
            Some((key, _)) => EvidenceSummary::signature(piece.id(), piece.digest(), key),
            None => EvidenceSummary::file(piece.id(), piece.digest(), piece.endorsed()),
        }))
    });
    (summary, verified.err().and_then(|refusal| refusal.gap))
}

fn unverified(entry: &EvidenceEntry) -> EvidenceSummary {
    let kind = match entry {
        EvidenceEntry::Hash(_) => EvidenceForm::Hash,
        EvidenceEntry::Signature(_) | _ => EvidenceForm::Sig,
    };
    EvidenceSummary::unverified(entry.id(), kind)
}
