//! Step 7: does an approval cover the call?

use countersign_approval_token::{Approval, ApprovalError, ApprovalToken, CallBinding, Partial, verify};
use countersign_core::{Digest, Timestamp};
use countersign_registry::{ApprovalRule, RegistryView};

use super::{Deciding, Subject};
use crate::call::{ARGS_RECIPE, CallDenial};
use crate::code::RejectionCode;
use crate::plan::HeldStep;
use crate::plan_approval::definition;
use crate::rejection::{ApprovalRequest, Refusal};
use crate::settings::ApprovalSettings;
use crate::terms::GateTerms;

/// Step 7: is there a valid approval of exactly this call, or of the plan that it is a step of?
pub(crate) fn check_approval<'d>(
    deciding: &mut Deciding<'d>,
    subject: &Subject<'_>,
) -> Result<Option<(Approval, &'d ApprovalSettings)>, Refusal> {
    let Deciding { terms, in_force, view, now, call, findings } = deciding;
    let definition = definition(findings.definition, subject.rules);
    let to_bind = || {
        let settings = terms.approvals.as_ref()?;
        Some((settings, binding(terms, settings, view, subject, subject.plan(), definition)))
    };
    if let Some(denial) = call.denied.filter(|denial| denial.is_of(|| Some(to_bind()?.1))) {
        findings.note_denial(denial);
        return Err(Refusal::new(RejectionCode::ApprovalDenied, "a person refused it"));
    }
    match subject.rules.entry().approval() {
        ApprovalRule::NotRequired => return Ok(None),
        ApprovalRule::Required => {
            // why: it was verified and spent at the plan's start, and no step passes under a registry that has revoked
            // its key since.
            let of_plan = subject.step.and_then(HeldStep::approval);
            if let Some(approval) = of_plan.filter(|approval| approval.covers(subject.tool, definition)) {
                findings.note_plan_approval(approval);
                return Ok(None);
            }
        }
        ApprovalRule::EachCall | _ => {}
    }
    let Some((settings, binding)) = to_bind() else {
        return Err(Refusal::new(RejectionCode::ApprovalRequired, "this gate takes no approvals"));
    };
    let mut refusal = Refusal::new(RejectionCode::ApprovalRequired, "no approval came with the call");
    for text in &call.approvals {
        match verify_one(text, settings, settings.verify.partial, &binding, view, *now) {
            Ok(approval) => {
                findings.note_approval(&approval);
                return Ok(Some((approval, settings)));
            }
            Err(worse) if refusal.code != RejectionCode::ApprovalExpired => refusal = worse,
            Err(_) => {}
        }
    }
    let (args, session_ends) = (subject.args.clone(), in_force.contract.expires());
    let partial = settings.verify.partial;
    refusal.approval_request =
        Some(Box::new(ApprovalRequest { binding, args, session_ends, partial, proposal: None }));
    Err(refusal)
}

impl CallDenial<'_> {
    /// Returns `true` if the person was asked about this call, whose approval would need this binding.
    fn is_of(&self, call: impl FnOnce() -> Option<CallBinding>) -> bool {
        self.asked.is_none_or(|asked| call().is_some_and(|call| call.act() == asked.act()))
    }
}

/// Binding required of an approval of this call, as a step of that plan. The key binds the run.
pub(crate) fn binding(
    terms: &GateTerms,
    settings: &ApprovalSettings,
    view: &RegistryView,
    subject: &Subject<'_>,
    plan: Option<Digest>,
    definition: Option<Digest>,
) -> CallBinding {
    let mut binding = CallBinding::new(
        subject.call_id.clone(),
        subject.tool.clone(),
        subject.args.digest(),
        ARGS_RECIPE,
        terms.principal.clone(),
    )
    .with_agent(terms.agent.clone())
    .with_session(terms.session.clone())
    .with_registry_version(view.snapshot().version())
    .with_audience(settings.audience.clone());
    if let Some(definition) = definition {
        binding = binding.with_definition(definition);
    }
    if let Some(root) = plan {
        binding = binding.with_plan(root);
    }
    match terms.goal {
        Some(ask) => binding.with_ask(ask),
        None => binding,
    }
}

pub(crate) fn verify_one(
    text: &str,
    settings: &ApprovalSettings,
    partial: Partial,
    binding: &CallBinding,
    view: &RegistryView,
    now: Timestamp,
) -> Result<Approval, Refusal> {
    let invalid = |reason| Refusal::new(RejectionCode::ApprovalInvalid, reason);
    let token: ApprovalToken = text.parse().map_err(|_| invalid("not a token"))?;
    let approval =
        verify(&token, &settings.keys, binding, now, &settings.verify.partial(partial)).map_err(|error| {
            match error {
                ApprovalError::Expired => Refusal::new(RejectionCode::ApprovalExpired, error.reason()),
                ApprovalError::Invalid { reason } => invalid(reason),
                _ => invalid("other"),
            }
        })?;
    if view.is_key_revoked(approval.key_id()) {
        return Err(invalid("the key is revoked"));
    }
    Ok(approval)
}
