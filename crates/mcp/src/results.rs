//! The gateway's own answers to calls: refusals, and committed plans.

use countersign_approval_token::DenialReason;
use countersign_committed_plan::OnBreach;
use countersign_core::{EvidenceGap, escape_hidden};
use countersign_tool_gate::{FiledQuestion, RejectionCode};

use crate::compose::Object;
use crate::era_2025::{DECISION, PLAN};
use crate::message::{RpcId, numbered_error_line, result_line};

/// Sentence for the client beside the gate's own: a host keeps asking for a "new session" that only it can open.
const ADVICE: &str = "Start this server again in the MCP client to open a new session";

/// Number of the error that answers a refused read.
const REFUSED_READ: i32 = 403;

/// Texts of a refusal for the client. None comes from the arguments or from internal state, except that the reason for a
/// denial is the approver's own text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusalText<'a> {
    pub(crate) code: &'a str,
    pub(crate) message: &'a str,
    pub(crate) retry: &'a str,
    pub(crate) unlock: Option<&'a str>,
    /// The gateway's own sentence beside the gate's.
    pub(crate) advice: Option<&'static str>,
    /// The id of the question, if it asks for an approval.
    pub(crate) approval_id: Option<&'a str>,
    /// The same, if it asks for an attestation.
    pub(crate) attestation_id: Option<&'a str>,
    /// The beginning of that id that a person may type.
    pub(crate) short_id: Option<&'a str>,
    /// The missing part of the evidence.
    pub(crate) missing: Option<EvidenceGap>,
    /// Number of approvals by different persons that the call needs.
    pub(crate) needed: usize,
    pub(crate) call_id: Option<&'a str>,
    /// Whether the text names the call's id too. A model reads the text and may never see the metadata.
    pub(crate) tells_call_id: bool,
    pub(crate) record: Option<u64>,
    /// Whether the call used up its approval before it was refused.
    pub(crate) is_approval_spent: bool,
    /// Whether the call used up its attestations before it was refused.
    pub(crate) is_attestation_spent: bool,
    /// The approver's reason for denying the call.
    pub(crate) reason: Option<&'a DenialReason>,
}

impl<'a> RefusalText<'a> {
    /// Names the question that waits for a person.
    pub(crate) fn asking(self, question: Option<&'a FiledQuestion>) -> Self {
        let Some(question) = question else { return self };
        let id = |lacks: bool| lacks.then(|| question.id.as_str());
        let (approval_id, attestation_id) = (id(question.lacks_approval), id(question.lacks_evidence));
        Self { approval_id, attestation_id, short_id: Some(&question.short), ..self }
    }

    /// Creates the refusal of a call with a code's fixed texts.
    pub(crate) fn of(code: RejectionCode, call_id: &'a str) -> Self {
        Self {
            code: code.as_str(),
            message: code.message(),
            retry: code.retry().as_str(),
            unlock: code.unlock(),
            advice: advice(code),
            approval_id: None,
            attestation_id: None,
            short_id: None,
            missing: None,
            needed: 1,
            call_id: Some(call_id),
            tells_call_id: is_unlocked_by_name(code),
            record: None,
            is_approval_spent: false,
            is_attestation_spent: false,
            reason: None,
        }
    }
}

/// Remedy for a refusal that only the client can apply.
pub(crate) fn advice(code: RejectionCode) -> Option<&'static str> {
    (code == RejectionCode::ContractExpired).then_some(ADVICE)
}

/// Returns whether the remedy names the call: an approval of it, or an attestation to it, under its id.
const fn is_unlocked_by_name(code: RejectionCode) -> bool {
    matches!(
        code,
        RejectionCode::ApprovalRequired
            | RejectionCode::ApprovalInvalid
            | RejectionCode::ApprovalExpired
            | RejectionCode::ApprovalSpent
            | RejectionCode::StoreTooNew
            | RejectionCode::PicInvalidRequest
            | RejectionCode::PicEvidenceRequired
            | RejectionCode::PicEvidenceFailed
            | RejectionCode::PicVerifierFailed
    )
}

/// Builds the answer to a refused call: a result, which the model reads, marked as an error.
pub(crate) fn refusal_line(id: &RpcId, refusal: RefusalText<'_>) -> String {
    let (text, decision) = texts(refusal);
    let result = Object::new()
        .raw("_meta", &Object::new().raw(DECISION, &decision.finish()).finish())
        .raw("content", &content(&text))
        .raw("isError", "true")
        .finish();
    result_line(id, &result)
}

/// Builds the answer to a refused read: an error, whose data is the decision. Its number is outside of the range that JSON-RPC
/// reserves.
pub(crate) fn refused_read_line(id: &RpcId, refusal: RefusalText<'_>) -> String {
    let (text, decision) = texts(refusal);
    numbered_error_line(Some(id), REFUSED_READ, &text, decision)
}

/// The text of a refusal for a model, and the decision for programs.
fn texts(refusal: RefusalText<'_>) -> (String, Object) {
    let mut text = format!("Refused by Countersign: {}. {}.", refusal.code, refusal.message);
    // Invisible characters and quotes are escaped, so the text cannot end early or pass for more than a quotation.
    let reason = refusal.reason.map(|reason| escape_hidden(reason.as_str()).replace('"', "\\u{22}"));
    if let Some(reason) = &reason {
        text.push_str(&format!(" The person who refused it wrote: \"{reason}\"."));
    }
    let told = refusal.call_id.filter(|_| refusal.tells_call_id && refusal.short_id.is_none());
    let short = |id: Option<&str>| id.and(refusal.short_id);
    let ids = [
        (" Missing: ", refusal.missing.map(EvidenceGap::message)),
        (" What would help: ", refusal.unlock),
        (" ", refusal.advice),
        (" Approval id: ", short(refusal.approval_id)),
        (" Attestation id: ", short(refusal.attestation_id)),
        (" Call id: ", told),
    ];
    for (what, value) in ids {
        if let Some(value) = value {
            text.extend([what, value, "."]);
        }
    }
    if refusal.needed > 1 {
        text.push_str(&format!(" It needs the approvals of {} persons.", refusal.needed));
    }
    if refusal.is_approval_spent {
        text.push_str(" The approval is spent.");
    }
    if refusal.is_attestation_spent {
        text.push_str(" The attestation is spent.");
    }
    let mut decision = Object::new()
        .maybe_string("approval", refusal.is_approval_spent.then_some("spent"))
        .maybe_string("approval_id", refusal.approval_id)
        .maybe_string("attestation", refusal.is_attestation_spent.then_some("spent"))
        .maybe_string("attestation_id", refusal.attestation_id)
        .maybe_string("call_id", refusal.call_id)
        .string("code", refusal.code)
        .maybe_string("missing", refusal.missing.map(EvidenceGap::as_str))
        .maybe_string("reason", reason.as_deref());
    if let Some(record) = refusal.record {
        decision = decision.raw("record", &record.to_string());
    }
    (text, decision.string("retry", refusal.retry).maybe_string("unlock", refusal.unlock))
}

/// A plan to which the session is now committed.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    pub(crate) root: String,
    pub(crate) steps: u64,
    pub(crate) kind: PlanKind,
    pub(crate) on_breach: OnBreach,
}

/// Whether a plan is the session's first or an amendment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanKind {
    Plan,
    /// It replaced the steps that had not run.
    Amendment,
}

/// Builds the answer to a committed plan.
pub(crate) fn committed_line(id: &RpcId, plan: &Committed) -> String {
    let (root, steps) = (&plan.root, plan.steps);
    let what = match plan.kind {
        PlanKind::Plan => "the plan",
        PlanKind::Amendment => "the amendment, in place of the steps that had not run",
    };
    let end = match plan.on_breach {
        OnBreach::Refuse(breaches) if breaches.get() > 1 => {
            format!("Any other call is refused, and the last of {} such calls ends the plan.", breaches.get())
        }
        OnBreach::Halt | OnBreach::Refuse(_) | _ => {
            "The first call that is not the plan's next one ends the plan.".to_owned()
        }
    };
    let text = format!(
        "Committed by Countersign: {what}. Steps: {steps}. Root: {root}. Call the steps in their order now. {end}"
    );
    let plan = Object::new().string("root", root).raw("steps", &steps.to_string()).finish();
    let result = Object::new()
        .raw("_meta", &Object::new().raw(PLAN, &plan).finish())
        .raw("content", &content(&text))
        .raw("isError", "false")
        .raw("structuredContent", &plan)
        .finish();
    result_line(id, &result)
}

pub(crate) fn content(text: &str) -> String {
    format!("[{}]", Object::new().string("text", text).string("type", "text").finish())
}
