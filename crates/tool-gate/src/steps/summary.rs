//! Summary of a call's proposal for the person who is asked to approve the call.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_action_proposal::EvidenceEntry;
use countersign_approval_token::{EvidenceForm, EvidenceSummary, ProposalSummary};
use countersign_core::Clock;

use super::args::Reservation;
use super::evidence::{check_not_revoked, verify};
use super::{Deciding, Subject};
use crate::code::RejectionCode;
use crate::rejection::Refusal;
use crate::settings::ProposalSettings;

/// Adds the summary to a refusal that comes with a question. The refusal stays as it is.
pub(crate) fn add_proposal(
    mut refusal: Refusal,
    deciding: &Deciding<'_>,
    subject: &Subject<'_>,
    reservation: &mut Reservation<'_>,
    clock: &dyn Clock,
) -> Refusal {
    let came = deciding.terms.proposals.as_ref().zip(subject.proposal);
    if let (Some(request), Some((settings, json))) = (refusal.approval_request.as_deref_mut(), came) {
        // As costly as step 8, and bounded by the same rate.
        reservation.charge();
        let profile = settings.verifier.profile().as_str();
        let summary = catch_unwind(AssertUnwindSafe(|| summarise(deciding, settings, json, subject, clock)));
        let summary = summary
            .unwrap_or_else(|_| ProposalSummary::new(profile, "").refused(RejectionCode::Internal.as_str()));
        request.proposal = Some(Box::new(summary));
    }
    refusal
}

/// Summarises a proposal. Its evidence counts as verified only if the whole proposal verifies.
fn summarise(
    deciding: &Deciding<'_>,
    settings: &ProposalSettings,
    json: &[u8],
    subject: &Subject<'_>,
    clock: &dyn Clock,
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
    let verified = verify(settings, proposal, subject, clock).and_then(|verified| {
        check_not_revoked(&verified, &settings.verifier, deciding.view).map(|()| verified)
    });
    let (summary, evidence) = match &verified {
        Ok(verified) => (summary.impact(verified.impact().as_str()), verified.evidence()),
        Err(refusal) => (summary.refused(refusal.code.as_str()), &[][..]),
    };
    // If evidence was skipped, fewer entries verified than exist.
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
