//! Step 7: does an approval cover the call?

use countersign_approval_token::{Approval, ApprovalError, Partial, verify_text};
use countersign_core::{CallFacts, Timestamp};
use countersign_registry::{ApprovalRule, RegistryView};

use super::{Deciding, Subject};
use crate::call::CallDenial;
use crate::code::RejectionCode;
use crate::plan::HeldStep;
use crate::rejection::{ApprovalRequest, Refusal};
use crate::settings::ApprovalSettings;

/// Step 7: is there a valid approval of exactly this call, or of the plan that it is a step of?
pub(crate) fn check_approval<'d>(
    deciding: &mut Deciding<'d>,
    subject: &Subject<'_>,
) -> Result<Option<(Approval, &'d ApprovalSettings)>, Refusal> {
    let Deciding { terms, in_force, view, now, call, findings } = deciding;
    let (facts, settings) = (subject.facts, terms.approvals.as_ref());
    if let Some(denial) = call.denied.filter(|denial| denial.is_of(settings.map(|_| facts))) {
        findings.note_denial(denial);
        return Err(Refusal::new(RejectionCode::ApprovalDenied, "a person refused it"));
    }
    match subject.rules.entry().approval() {
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
    let mut refusal = Refusal::new(RejectionCode::ApprovalRequired, "no approval came with the call");
    for text in call.approvals.iter() {
        match verify_one(text, settings, settings.verify.partial, facts, view, *now) {
            Ok(approval) => {
                findings.note_approval(&approval);
                return Ok(Some((approval, settings)));
            }
            Err(worse) if refusal.code != RejectionCode::ApprovalExpired => refusal = worse,
            Err(_) => {}
        }
    }
    let (binding, args) = (facts.clone(), subject.args.clone());
    let (session_ends, partial) = (in_force.contract.expires(), settings.verify.partial);
    refusal.approval_request =
        Some(Box::new(ApprovalRequest { binding, args, session_ends, partial, proposal: None }));
    Err(refusal)
}

impl CallDenial<'_> {
    /// Returns `true` if the person was asked about this call; `None` if the gate takes no approvals.
    fn is_of(&self, call: Option<&CallFacts>) -> bool {
        self.asked.is_none_or(|asked| call.is_some_and(|call| call.act() == asked.act()))
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
    let approval = verify_text(text, &settings.keys, binding, now, &settings.verify.partial(partial))
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
