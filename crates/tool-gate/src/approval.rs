//! Step 7: is there an approval, and of what?

use countersign_approval_token::{Approval, ApprovalError, ApprovalToken, CallBinding, Partial, verify};
use countersign_core::{Digest, Timestamp};
use countersign_registry::{ApprovalRule, RegistryView};

use crate::call::{ARGS_RECIPE, Denial, ToolCall};
use crate::code::RejectionCode;
use crate::decide::Asked;
use crate::findings::Findings;
use crate::parts::GateParts;
use crate::plan::HeldStep;
use crate::plan_approval::definition;
use crate::rejection::ApprovalRequest;
use crate::rejection::Refusal;
use crate::settings::ApprovalSettings;

/// Asks whether there is a valid approval for exactly this call, or for the plan that it is a step of.
pub(crate) fn approved<'g>(
    gate: &'g GateParts,
    call: &ToolCall<'_>,
    view: &RegistryView,
    asked: &Asked<'_>,
    now: Timestamp,
    findings: &mut Findings,
) -> Result<Option<(Approval, &'g ApprovalSettings)>, Refusal> {
    let definition = definition(findings.definition, asked.rules);
    let to_bind = || {
        let settings = gate.terms.approvals.as_ref()?;
        Some((settings, binding(gate, settings, view, asked, asked.plan(), definition)))
    };
    if let Some(denial) = call.denied.filter(|denial| denial.is_of(|| Some(to_bind()?.1))) {
        findings.note_denial(denial);
        return Err(Refusal::new(RejectionCode::ApprovalDenied, "a person refused it"));
    }
    match asked.rules.entry().approval() {
        ApprovalRule::NotRequired => return Ok(None),
        ApprovalRule::Required => {
            // Verified and spent when the plan was started. A registry that revokes its key is another one than the plan's.
            let of_plan = asked.step.and_then(HeldStep::approval);
            if let Some(approval) = of_plan.filter(|approval| approval.covers(asked.tool, definition)) {
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
        match verify_one(text, settings, settings.verify.partial, &binding, view, now) {
            Ok(approval) => {
                findings.note_approval(&approval);
                return Ok(Some((approval, settings)));
            }
            Err(worse) if refusal.code != RejectionCode::ApprovalExpired => refusal = worse,
            Err(_) => {}
        }
    }
    let (args, session_ends) = (asked.args.clone(), gate.progress.in_force().contract.expires());
    let partial = settings.verify.partial;
    refusal.approval_request =
        Some(Box::new(ApprovalRequest { binding, args, session_ends, partial, proposal: None }));
    Err(refusal)
}

impl Denial<'_> {
    /// Whether it is about the call that an approval would have to bind like this.
    fn is_of(&self, call: impl FnOnce() -> Option<CallBinding>) -> bool {
        self.asked.is_none_or(|asked| call().is_some_and(|call| call.act() == asked.act()))
    }
}

/// Everything that an approval of this call, as one of that plan, has to bind. The run is bound by the key.
pub(crate) fn binding(
    gate: &GateParts,
    settings: &ApprovalSettings,
    view: &RegistryView,
    asked: &Asked<'_>,
    plan: Option<Digest>,
    definition: Option<Digest>,
) -> CallBinding {
    let mut binding = CallBinding::new(
        asked.call_id.clone(),
        asked.tool.clone(),
        asked.args.digest(),
        ARGS_RECIPE,
        gate.terms.principal.clone(),
    )
    .with_agent(gate.terms.agent.clone())
    .with_session(gate.terms.session.clone())
    .with_registry_version(view.snapshot().version())
    .with_audience(settings.audience.clone());
    if let Some(definition) = definition {
        binding = binding.with_definition(definition);
    }
    if let Some(root) = plan {
        binding = binding.with_plan(root);
    }
    match gate.terms.goal {
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
