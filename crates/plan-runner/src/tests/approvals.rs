use countersign_audit_log::Verdict;
use countersign_tool_gate::{ApprovalRequest, RejectionCode};

use super::case::*;
use super::world::token;
use crate::*;

const REFUND: &str = r#""tool":"refund","args":{"amount":49}"#;
const WIPE: &str = r#""tool":"wipe","args":{}"#;

fn refund() -> Case {
    Case::new(plan(&[REFUND])).turn(turn("refund", r#"{"amount":49}"#))
}

fn wipe() -> Case {
    Case::new(plan(&[WIPE])).turn(turn("wipe", "{}"))
}

#[test]
fn one_approval_of_the_whole_plan_is_enough_for_its_steps() {
    let outcome = refund().approver(|request| Approval::Token(token(request, 1))).run();
    assert_eq!((outcome.code(), outcome.ran.len()), ("", 1));
    assert_eq!(outcome.approver_saw, ["countersign:submit_plan"]);
    assert!(outcome.events.iter().any(|event| event.ends_with("approval: Spent }")));
}

#[test]
fn without_an_approver_a_step_that_needs_an_approval_is_refused() {
    let outcome = refund().run();
    assert_eq!((outcome.code(), outcome.ran.len()), ("APPROVAL_REQUIRED", 0));
    assert!(outcome.events.iter().any(|event| event.ends_with("approval: None }")));
    let abstains = refund().approver(|_| Approval::Abstain).run();
    assert_eq!((abstains.code(), abstains.ran.len()), ("APPROVAL_REQUIRED", 0));
    assert_eq!(abstains.approver_saw, ["countersign:submit_plan", "desk:refund"]);
}

#[test]
fn a_call_can_be_approved_where_the_plan_was_not() {
    let outcome = refund()
        .approver(|request| match request.binding().tool.name().as_str() {
            "refund" => Approval::Token(token(request, 1)),
            _ => Approval::Abstain,
        })
        .run();
    assert_eq!((outcome.code(), outcome.ran.len()), ("", 1));
}

#[test]
fn denial_ends_a_run_that_needs_no_approval() {
    let outcome = Case::new(plan(&[READ])).turn(read_turn()).approver(|_| Approval::Deny).run();
    assert_eq!((outcome.code(), outcome.ran.len()), ("APPROVAL_DENIED", 0));
    assert_eq!(outcome.gate.plan_root(), None);
}

#[test]
fn plan_denial_record_names_its_root_and_approver() {
    for (approver, name) in [
        ((|_| Approval::DenyBy("olga".to_owned())) as fn(&ApprovalRequest) -> Approval, Some("olga")),
        (|_| Approval::Deny, None),
    ] {
        let outcome = refund().approver(approver).run();
        assert!(matches!(outcome.end, Err(RunError::Denied)), "{:?}", outcome.end);
        let committed = outcome.events.iter().find(|event| event.starts_with("Committed")).unwrap();
        let [denied] = &outcome.gate.call_log()[..] else { panic!("one record, of the no") };
        assert_eq!(
            (denied.verdict, denied.code.as_ref().unwrap().as_str()),
            (Verdict::Reject, "APPROVAL_DENIED")
        );
        assert!(committed.contains(&denied.plan.unwrap().to_string()), "{committed}");
        assert_eq!(denied.denied_by.as_ref().map(|by| by.as_str()), name);
    }
}

#[test]
fn unrecorded_plan_denial_ends_run_as_audit_unavailable() {
    // The one record is the session's opening.
    let outcome = refund().approver(|_| Approval::Deny).gate(|world| world.gate_that_records(1)).run();
    assert_eq!((outcome.code(), outcome.ran.len()), ("AUDIT_UNAVAILABLE", 0));
}

#[test]
fn unrecorded_call_denial_ends_run_as_audit_unavailable() {
    let denying = |gate| {
        wipe()
            .approver(|request| match request.binding().tool.name().as_str() {
                "wipe" => Approval::Deny,
                _ => Approval::Abstain,
            })
            .gate(gate)
            .run()
    };
    // The records before the denial: the session's opening, the plan's start with its outcome, and the question.
    let lost = denying(|world| world.gate_that_records(4));
    assert_eq!((lost.code(), lost.ran.len()), ("AUDIT_UNAVAILABLE", 0));
    assert!(matches!(lost.end, Err(RunError::Refused { step: 1, .. })), "{:?}", lost.end);
    let kept = denying(|world| world.gate_that_records(5));
    assert_eq!((kept.code(), kept.ran.len()), ("APPROVAL_DENIED", 0));
}

#[test]
fn a_token_that_is_not_one_of_this_plan_starts_nothing() {
    let outcome = refund().approver(|_| Approval::Token("cs1.a.b".to_owned())).run();
    assert_eq!((outcome.code(), outcome.gate.plan_root()), ("APPROVAL_INVALID", None));
}

#[test]
fn each_call_tool_is_approved_when_it_is_called() {
    let outcome = wipe()
        .approver(|request| {
            let number = if request.binding().tool.name().as_str() == "wipe" { 2 } else { 1 };
            Approval::Token(token(request, number))
        })
        .run();
    assert_eq!((outcome.code(), outcome.ran.len()), ("", 1));
    assert_eq!(outcome.approver_saw, ["countersign:submit_plan", "desk:wipe"]);
}

#[test]
fn a_call_whose_approval_is_refused_or_wrong_is_not_run() {
    let denied = wipe()
        .approver(|request| match request.binding().tool.name().as_str() {
            "wipe" => Approval::Deny,
            _ => Approval::Token(token(request, 1)),
        })
        .run();
    assert_eq!((denied.code(), denied.ran.len()), ("APPROVAL_DENIED", 0));
    assert_eq!(denied.gate.counts().rejected_with(RejectionCode::ApprovalDenied), 1, "the gate was told");
    let named = wipe()
        .approver(|request| match request.binding().tool.name().as_str() {
            "wipe" => Approval::DenyBy("olga".to_owned()),
            _ => Approval::Abstain,
        })
        .run();
    assert_eq!((named.code(), named.ran.len()), ("APPROVAL_DENIED", 0));
    let names: Vec<_> = named.gate.call_log().into_iter().filter_map(|record| record.denied_by).collect();
    assert_eq!(names.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["olga"]);
    let forged = wipe()
        .approver(|request| match request.binding().tool.name().as_str() {
            "wipe" => Approval::Token("cs1.a.b".to_owned()),
            _ => Approval::Token(token(request, 1)),
        })
        .run();
    assert_eq!((forged.code(), forged.ran.len()), ("APPROVAL_INVALID", 0));
}

#[test]
fn plan_halted_by_an_inspector_reaches_no_approver() {
    let outcome = refund()
        .inspectors(vec![Ok(()), Err(Halt::new("TOO_RISKY").at_step(1).because("moves money"))])
        .approver(|request| Approval::Token(token(request, 1)))
        .run();
    assert_eq!((outcome.code(), outcome.ran.len(), outcome.gate.plan_root()), ("TOO_RISKY", 0, None));
    assert!(outcome.approver_saw.is_empty() && outcome.responder_saw.is_empty());
    let error = outcome.end.unwrap_err();
    assert_eq!(error.step(), Some(1));
    assert!(!format!("{error:?} {error}").contains("moves money"));
    assert!(!outcome.events.join(" ").contains("moves money"));
}

#[test]
fn a_plan_without_an_inspector_is_refused() {
    let outcome = Case::new(plan(&[READ])).inspectors(Vec::new()).turn(read_turn()).run();
    assert_eq!((outcome.code(), outcome.gate.plan_root()), ("PLAN_UNINSPECTED", None));
    let asked = refund().inspectors(Vec::new()).approver(|request| Approval::Token(token(request, 1))).run();
    assert_eq!(asked.code(), "PLAN_UNINSPECTED");
    assert!(asked.approver_saw.is_empty());
    assert_eq!(Case::new("An answer.").inspectors(Vec::new()).run().code(), "", "an answer needs none");
}

#[test]
fn an_approval_never_shows_its_token() {
    assert_eq!(format!("{:?}", Approval::Token("cs1.secret".to_owned())), "Token(..)");
    assert_eq!(format!("{:?}", Approval::DenyBy("olga".to_owned())), "DenyBy(\"olga\")");
}
