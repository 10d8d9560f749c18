//! Steps 9 and 10: do the embedder's checks agree, and are evidence and approval spent?

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_action_proposal::{ProposalSpendError, SpentProposal, VerifiedProposal};
use countersign_approval_token::{Approval, SpentApproval};
use countersign_core::{Clock, ImpactClass, SpendError, Timestamp};

use super::{GivenApprovals, Subject};
use crate::code::RejectionCode;
use crate::findings::Findings;
use crate::rejection::{Refusal, UsedUp};
use crate::settings::{ApprovalSettings, ProposalSettings};
use crate::terms::GateTerms;

/// Codes for an approval that was spent before, and for an expired one.
const APPROVAL_CODES: [RejectionCode; 2] = [RejectionCode::ApprovalSpent, RejectionCode::ApprovalExpired];

/// Step 9: do the embedder's own checks agree?
pub(crate) fn check_user_checks(
    terms: &GateTerms,
    subject: &Subject<'_>,
    impact: ImpactClass,
) -> Result<(), Refusal> {
    let checked = subject.checked(terms, impact);
    for (name, check) in &*terms.checks {
        match catch_unwind(AssertUnwindSafe(|| check.check(&checked))) {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => {
                return Err(Refusal::new(RejectionCode::CheckRefused, format!("{name}: {reason}")));
            }
            Err(_) => return Err(Refusal::new(RejectionCode::CheckRefused, format!("{name}: panicked"))),
        }
    }
    Ok(())
}

/// Step 10: are attestations, endorsements and approval unspent, and now spent, durably?
///
/// The proposal's evidence is spent first: a call that fails there has used up no approval, and the code of step 8
/// still comes before that of step 10. A call that fails at its approval has used up its attestations, which were valid
/// only for this call, and one use of each endorsement.
///
/// `now` is the time, or `None` if evidence or the embedder's checks may have taken a long time.
pub(crate) fn spend(
    clock: &dyn Clock,
    now: Option<Timestamp>,
    proposal: Option<(VerifiedProposal, &ProposalSettings)>,
    approvals: Option<(GivenApprovals, &ApprovalSettings)>,
    findings: &mut Findings,
) -> Result<(Option<SpentProposal>, Option<SpentApproval>), Refusal> {
    if proposal.is_none() && approvals.is_none() {
        return Ok((None, None));
    }
    let read = || clock.now().map_err(|_| Refusal::new(RejectionCode::Internal, "clock unavailable"));
    let now = now.map_or_else(read, Ok)?;
    let proposal = match proposal {
        None => None,
        Some((verified, settings)) => {
            let spent = verified.spend(&*settings.spent, now, settings.skew);
            let spent = spent.map_err(|error| {
                let (what, code) = match &error {
                    ProposalSpendError::Endorsement { evidence, .. } => {
                        findings.note_evidence(evidence);
                        // Attestations are spent before endorsements.
                        findings.used.attestation = evidence.iter().any(|it| it.attestation().is_some());
                        ("endorsement", RejectionCode::PicVerifierFailed)
                    }
                    ProposalSpendError::Attestation(_) | _ => {
                        ("attestation", RejectionCode::PicEvidenceFailed)
                    }
                };
                spend_refusal(error.cause(), what, [code; 2])
            })?;
            findings.note_evidence(spent.evidence());
            Some(spent)
        }
    };
    findings.used = UsedUp::of(None, proposal.as_ref());
    let approval = match approvals {
        None => None,
        Some((approvals, settings)) => spend_all(approvals, settings, now, &mut findings.used)?,
    };
    findings.grant_use = approval.as_ref().and_then(SpentApproval::grant_use);
    Ok((proposal, approval))
}

/// Spends each approval and returns the first. If a later one cannot be spent, the call is refused, and the earlier ones
/// stay spent.
fn spend_all(
    approvals: GivenApprovals,
    settings: &ApprovalSettings,
    now: Timestamp,
    used: &mut UsedUp,
) -> Result<Option<SpentApproval>, Refusal> {
    // An approval that has expired costs no other one.
    if approvals.iter().any(|approval| now >= approval.expires()) {
        return Err(spend_refusal(&SpendError::Expired, "approval", APPROVAL_CODES));
    }
    let mut first = None;
    for approval in approvals.into_all() {
        let spent = spend_approval(approval, settings, now)?;
        used.approval = true;
        first.get_or_insert(spent);
    }
    Ok(first)
}

pub(crate) fn spend_approval(
    approval: Approval,
    settings: &ApprovalSettings,
    now: Timestamp,
) -> Result<SpentApproval, Refusal> {
    approval
        .spend(&*settings.spent, now, settings.terms.verify.skew)
        .map_err(|error| spend_refusal(&error, "approval", APPROVAL_CODES))
}

/// Refusal of step 10, with a code for a token spent before and a code for an expired one.
fn spend_refusal(error: &SpendError, what: &str, [spent, expired]: [RejectionCode; 2]) -> Refusal {
    let code = match error {
        SpendError::Spent => spent,
        SpendError::Expired => expired,
        SpendError::ClockAhead => RejectionCode::StoreClockAhead,
        SpendError::TooNew => RejectionCode::StoreTooNew,
        SpendError::Unavailable(_) | _ => RejectionCode::StoreUnavailable,
    };
    Refusal::new(code, format!("{what}: {error}"))
}
