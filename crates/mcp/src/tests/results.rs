use countersign_committed_plan::{Breaches, OnBreach};
use countersign_core::EvidenceGap;
use countersign_tool_gate::RejectionCode;

use super::json;
use crate::message::RpcId;
use crate::results::{Committed, PlanKind, RefusalText, committed_line, refusal_line};

#[test]
fn refusal_is_a_result_with_a_structured_decision() {
    let line = refusal_line(
        &RpcId::Number(1),
        RefusalText {
            unlock: Some("an approval"),
            approval_id: Some("c-1"),
            short_id: Some("c"),
            record: Some(9),
            ..RefusalText::of(RejectionCode::ApprovalRequired, "c-1")
        },
    );
    let read = json(&line);
    assert_eq!(read.as_str(), line, "canonical");
    let result = read.value().get("result").unwrap();
    assert_eq!(result.get("isError").unwrap().as_bool(), Some(true));
    assert_eq!(
        result.get("_meta").unwrap().canonical_text(),
        concat!(
            r#"{"dev.countersign/decision":{"approval_id":"c-1","call_id":"c-1","code":"APPROVAL_REQUIRED","#,
            r#""record":9,"retry":"after_approval","unlock":"an approval"}}"#
        )
    );
    assert_eq!(
        result.pointer("/content/0/text").unwrap().as_str(),
        Some(
            "Refused by Countersign: APPROVAL_REQUIRED. a person must approve this call. What would help: an approval. \
             Approval id: c."
        )
    );
}

#[test]
fn approvable_refusal_shows_its_call_id_to_the_model() {
    let text = |code: RejectionCode, approval_id| {
        let refusal =
            RefusalText { unlock: None, approval_id, short_id: approval_id, ..RefusalText::of(code, "c-1") };
        let line = json(&refusal_line(&RpcId::Number(1), refusal));
        line.value().pointer("/result/content/0/text").unwrap().as_str().unwrap().to_owned()
    };
    for (code, named) in [
        (RejectionCode::ApprovalRequired, true),
        (RejectionCode::ApprovalInvalid, true),
        (RejectionCode::ApprovalExpired, true),
        (RejectionCode::ApprovalSpent, true),
        (RejectionCode::PicInvalidRequest, true),
        (RejectionCode::PicEvidenceRequired, true),
        (RejectionCode::PicEvidenceFailed, true),
        (RejectionCode::PicVerifierFailed, true),
        (RejectionCode::PicSchemaInvalid, false),
        (RejectionCode::UndisclosedTool, false),
        (RejectionCode::ArgsSchema, false),
        (RejectionCode::StoreUnavailable, false),
        (RejectionCode::Internal, false),
    ] {
        assert_eq!(text(code, None).ends_with(" Call id: c-1."), named, "{code}");
    }
    // A call that waits for its approver shows the approval id only.
    let waiting = text(RejectionCode::ApprovalRequired, Some("c-0"));
    assert!(waiting.ends_with(" Approval id: c-0.") && !waiting.contains("c-1"), "{waiting}");
}

#[test]
fn refusal_names_the_missing_evidence() {
    let refusal = RefusalText {
        attestation_id: Some("c-1"),
        short_id: Some("c"),
        missing: Some(EvidenceGap::TrustedClaim),
        unlock: None,
        ..RefusalText::of(RejectionCode::PicVerifierFailed, "c-1")
    };
    let line = json(&refusal_line(&RpcId::Number(1), refusal));
    let result = line.value().get("result").unwrap();
    let decision = result.pointer("/_meta/dev.countersign~1decision").unwrap();
    assert_eq!(decision.get("missing").unwrap().as_str(), Some("trusted_claim"));
    assert_eq!(decision.get("attestation_id").unwrap().as_str(), Some("c-1"));
    let text = result.pointer("/content/0/text").unwrap().as_str().unwrap();
    assert!(text.ends_with(". Missing: a claim that cites a trusted input. Attestation id: c."), "{text}");
}

#[test]
fn committed_plan_names_its_root_in_every_part() {
    for (kind, told) in
        [(PlanKind::Plan, "the plan. Steps: 3."), (PlanKind::Amendment, "in place of the steps")]
    {
        let on_breach = OnBreach::Halt;
        let line =
            committed_line(&RpcId::Number(1), &Committed { root: "ab12".into(), steps: 3, kind, on_breach });
        let read = json(&line);
        assert_eq!(read.as_str(), line, "canonical");
        let at = |pointer: &str| read.value().pointer(pointer).unwrap().canonical_text();
        let named = r#"{"root":"ab12","steps":3}"#;
        assert_eq!(
            (
                at("/result/isError"),
                at("/result/structuredContent"),
                at("/result/_meta/dev.countersign~1plan")
            ),
            ("false".into(), named.into(), named.into())
        );
        let text = at("/result/content/0/text");
        assert!(text.contains(told) && text.contains("ab12"), "{text}");
    }
}

#[test]
fn committed_plan_states_its_breach_limit() {
    let text = |on_breach| {
        let plan = Committed { root: "ab12".into(), steps: 3, kind: PlanKind::Plan, on_breach };
        let line = json(&committed_line(&RpcId::Number(1), &plan));
        line.value().pointer("/result/content/0/text").unwrap().as_str().unwrap().to_owned()
    };
    assert!(text(OnBreach::Halt).ends_with(" The first call that is not the plan's next one ends the plan."));
    let refuse = OnBreach::Refuse(Breaches::default());
    assert!(
        text(refuse).ends_with(" Any other call is refused, and the last of 8 such calls ends the plan.")
    );
}
