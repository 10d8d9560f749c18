//! Step 7: does an approval cover the call?

use countersign_approval_token::{Approval, ApprovalError, Partial, verify_text};
use countersign_core::{CallFacts, Timestamp};
use countersign_registry::{ApprovalRule, RegistryView};

use super::{Deciding, GivenApprovals, Subject};
use crate::code::RejectionCode;
use crate::plan::HeldStep;
use crate::rejection::{ApprovalRequest, Refusal};
use crate::settings::ApprovalSettings;

/// Step 7: are there as many valid approvals of exactly this call as it needs, or one of the plan that it is a step of?
pub(crate) fn check_approval<'d>(
    deciding: &mut Deciding<'d>,
    subject: &Subject<'_>,
) -> Result<Option<(GivenApprovals, &'d ApprovalSettings)>, Refusal> {
    let Deciding { terms, view, now, call, findings, .. } = deciding;
    let (facts, settings) = (subject.facts, terms.approvals.as_ref());
    if let Some(denial) = call.denied.filter(|denial| denial.is_of(facts)) {
        findings.note_denial(denial);
        return Err(Refusal::new(RejectionCode::ApprovalDenied, "a person refused it"));
    }
    let rule = subject.rules.entry().approval_of(subject.args, &[]);
    match rule {
        // An edited call runs once: without an approval to spend, it could run again.
        ApprovalRule::NotRequired if call.edited_from.is_some() => {}
        ApprovalRule::NotRequired => return Ok(None),
        ApprovalRule::Required => {
            // why: it was verified and spent at the plan's start, and no step passes under a registry that has revoked
            // its key since.
            let of_plan = subject.step.and_then(HeldStep::approval);
            if let Some(approval) = of_plan.filter(|approval| approval.covers(&facts.tool, facts.definition))
            {
                findings.note_plan_approval(approval);
                return Ok(None);
            }
        }
        ApprovalRule::EachCall | _ => {}
    }
    let Some(settings) = settings else {
        return Err(Refusal::new(RejectionCode::ApprovalRequired, "this gate takes no approvals"));
    };
    let approvers = subject.rules.entry().approvers();
    let mut given = GivenApprovals::default();
    let mut refusal = Refusal::new(RejectionCode::ApprovalRequired, "no approval came with the call");
    for text in call.approvals.iter() {
        let verified = verify_one(text, settings, settings.terms.verify.partial, facts, view, *now);
        match verified.and_then(|approval| given.add(approval, approvers)) {
            Ok(true) => {
                findings.note_approvals(&given);
                return Ok(Some((given, settings)));
            }
            Ok(false) => {}
            Err(worse) if refusal.code != RejectionCode::ApprovalExpired => refusal = worse,
            Err(_) => {}
        }
    }
    given.note_missing(approvers, &mut refusal);
    let takes_grants =
        rule == ApprovalRule::Required && settings.terms.grants.is_some() && call.edited_from.is_none();
    if takes_grants && let Some(given) = GivenApprovals::by_grant(settings, facts, subject.args, view, *now) {
        findings.note_approvals(&given);
        return Ok(Some((given, settings)));
    }
    refusal.approval_request =
        Some(Box::new(ApprovalRequest { takes_grants, ..ApprovalRequest::of(deciding, subject) }));
    Err(refusal)
}

impl ApprovalRequest {
    /// Asks for an approval of this call.
    pub(crate) fn of(deciding: &Deciding<'_>, subject: &Subject<'_>) -> Self {
        Self {
            binding: subject.facts.clone(),
            args: subject.args.clone(),
            session_ends: deciding.in_force.contract.expires(),
            partial: deciding.terms.approvals.as_ref().map_or(Partial::Refuse, |it| it.terms.verify.partial),
            proposal: None,
            takes_grants: false,
            needs_approval: true,
            evidence: None,
            approvers: subject.rules.entry().approvers().cloned().map(Box::new),
        }
    }
}

pub(crate) fn verify_one(
    text: &str,
    settings: &ApprovalSettings,
    partial: Partial,
    binding: &CallFacts,
    view: &RegistryView,
    now: Timestamp,
) -> Result<Approval, Refusal> {
    let invalid = |reason| Refusal::new(RejectionCode::ApprovalInvalid, reason);
    let approval = verify_text(text, &settings.keys, binding, now, &settings.terms.verify.partial(partial))
        .map_err(|error| match error {
        ApprovalError::Expired => Refusal::new(RejectionCode::ApprovalExpired, error.reason()),
        ApprovalError::Invalid { reason: "shape" } => invalid("not a token"),
        ApprovalError::Invalid { reason } => invalid(reason),
        _ => invalid("other"),
    })?;
    if view.is_key_revoked(approval.key_id()) {
        return Err(invalid("the key is revoked"));
    }
    Ok(approval)
}
