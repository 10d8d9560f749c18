use countersign_audit_log::Verdict;
use countersign_core::SessionId;

use super::plan_world::*;
use super::world::*;
use crate::RejectionCode::*;
use crate::*;

#[test]
fn denied_call_is_refused_permanently() {
    let world = World::new();
    let gate = world.gate();
    let refused = gate.check(&refund("c").denied_by("olga\u{1b}[2J")).unwrap_err();
    assert_eq!((refused.code(), refused.retry(), refused.unlock()), (ApprovalDenied, Retry::Never, None));
    assert_eq!(refused.message(), "a person refused this call");
    assert!(refused.approval_request().is_none(), "nobody is to be asked again");
    let entry = last_decision(&world);
    assert_eq!(entry.denied_by.unwrap().as_str(), "olga\\u{1b}[2J");
    assert_eq!(
        (entry.code.unwrap().as_str(), entry.approval, entry.approver),
        ("APPROVAL_DENIED", None, None)
    );
    assert_eq!(code(&gate, &refund("c").denied()), Some(ApprovalDenied));
    assert_eq!(last_decision(&world).denied_by, None);
    // Without the host's word the gate decides as before: it does not remember the denial.
    assert_eq!(code(&gate, &refund("c")), Some(ApprovalRequired));
    assert_eq!(last_decision(&world).denied_by, None);
}

#[test]
fn denial_overrides_an_approval_or_a_lenient_rule() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c"));
    let call = refund("c").approval(token.as_str());
    assert_eq!(code(&gate, &call.clone().denied_by("olga")), Some(ApprovalDenied));
    assert_eq!(last_decision(&world).approval, None);
    assert_eq!(code(&gate, &call), None, "and the approval was not spent by it");
    assert_eq!(code(&gate, &search("s").denied()), Some(ApprovalDenied));
    let bare = world.bare().open().unwrap();
    assert_eq!(code(&bare, &refund("c").denied()), Some(ApprovalDenied), "where no approvals are taken, too");
}

#[test]
fn denial_is_checked_where_approvals_are() {
    let world = World::new();
    let gate = world.full().user_check("no", |_: &CheckedCall<'_>| Err("no".to_owned())).open().unwrap();
    let call = |name, args| ToolCall::new("c", "desk", name, args).denied_by("olga");
    assert_eq!(code(&gate, &call("nothing", b"{" as &[u8])), Some(UndisclosedTool));
    assert_eq!(code(&gate, &call("pinned", b"{")), Some(MalformedCall));
    assert_eq!(code(&gate, &call("pinned", b"{}")), Some(ToolDefinitionUnknown));
    assert_eq!(code(&gate, &call("refund", b"{}")), Some(ArgsSchema));
    assert_eq!(code(&gate, &call("refund", REFUND).ask("x")), Some(AskDrift));
    assert_eq!(code(&gate, &call("planned", b"{}")), Some(PlanRequired));
    assert_eq!(last_decision(&world).denied_by, None, "what was not asked is not on record as the answer");
    assert_eq!(code(&gate, &call("proven", b"{}")), Some(ApprovalDenied));
    assert_eq!(code(&gate, &call("refund", REFUND)), Some(ApprovalDenied));
}

#[test]
fn denial_applies_to_the_same_question_alone() {
    let world = World::new();
    let gate = world.gate();
    let request = |call: &ToolCall<'_>| gate.check(call).unwrap_err().approval_request().unwrap().clone();
    let asked = request(&refund("c1"));
    let denied = |id| code(&gate, &refund(id).denied_as(asked.binding(), "olga"));
    assert_eq!(denied("c1"), Some(ApprovalDenied));
    assert_eq!(denied("c2"), Some(ApprovalDenied), "another id is the same question");
    let more = br#"{"ticket":"T-1001","amount":50}"#;
    let more = ToolCall::new("c1", "desk", "refund", more).denied_as(asked.binding(), "olga");
    assert_eq!(code(&gate, &more), Some(ApprovalRequired));
    assert_eq!(code(&gate, &search("s").denied_as(asked.binding(), "olga")), None);
    let bare = world.bare().open().unwrap();
    assert_eq!(code(&bare, &refund("c1").denied_as(asked.binding(), "olga")), Some(ApprovalRequired));
    world.reload(2, NONE_REVOKED);
    assert_eq!(denied("c1"), Some(ApprovalRequired), "under another registry it is another question");
    assert_eq!(last_decision(&world).denied_by, None);
}

#[test]
fn denied_step_keeps_its_place_in_the_plan() {
    let world = World::new();
    let gate = world.gate();
    let alone = gate.check(&refund("c")).unwrap_err().approval_request().unwrap().clone();
    start_plan(&gate, steps()).unwrap();
    assert_eq!(code(&gate, &search("c1")), None);
    assert_eq!(code(&gate, &refund("c2").denied_as(alone.binding(), "olga")), Some(ApprovalRequired));
    assert_eq!(code(&gate, &refund("c2").denied_by("olga")), Some(ApprovalDenied));
    let token = world.approve(&gate, &refund("c2"));
    assert_eq!(code(&gate, &refund("c2").approval(token.as_str())), None);
}

#[test]
fn plan_denial_is_recorded_with_its_root() {
    let world = World::new();
    let gate = world.gate();
    let plan = plan_of(&gate, steps());
    let root = *committed(&gate, plan.clone()).root();
    let asked = gate.plan_approval_request(&plan).unwrap();
    // A change between question and answer does not weaken the denial.
    world.reload(2, NONE_REVOKED);
    let refused = gate.refuse_plan(&asked, Some("olga\u{1b}[2J"));
    assert_eq!(refused.code(), "APPROVAL_DENIED");
    let entry = last_decision(&world);
    assert_eq!((entry.verdict, entry.code.unwrap().as_str()), (Verdict::Reject, "APPROVAL_DENIED"));
    assert_eq!((entry.tool.server.as_str(), entry.tool.name.as_str()), PLAN_TOOL);
    assert_eq!((entry.plan, entry.call_id.as_str()), (Some(root.digest()), root.to_string().as_str()));
    assert_eq!(entry.denied_by.unwrap().as_str(), "olga\\u{1b}[2J");
    assert_eq!(entry.args, Some(asked.binding().args));
    assert_eq!((gate.plan_root(), gate.counts().rejected()), (None, 0), "no plan, and no call");
    assert_eq!(gate.refuse_plan(&asked, None).code(), "APPROVAL_DENIED");
    assert_eq!((last_decision(&world).plan, last_decision(&world).denied_by), (Some(root.digest()), None));
}

#[test]
fn denied_amendment_leaves_the_plan_running() {
    let world = World::new();
    let gate = world.planned();
    let before = gate.plan_root();
    let amendment = amendment_of(&gate, steps());
    let root = committed(&gate, amendment.clone()).root().digest();
    let asked = gate.plan_approval_request(&amendment).unwrap();
    assert_eq!(gate.refuse_plan(&asked, Some("olga")).code(), "APPROVAL_DENIED");
    assert_eq!(last_decision(&world).plan, Some(root));
    assert_eq!((gate.plan_root(), code(&gate, &search("c"))), (before, None));
}

#[test]
fn foreign_request_cannot_deny_a_plan() {
    let world = World::new();
    let gate = world.gate();
    let call = gate.check(&refund("c")).unwrap_err().approval_request().unwrap().clone();
    let asked = gate.plan_approval_request(&plan_of(&gate, steps())).unwrap();
    let other = SessionId::new("another").unwrap();
    let elsewhere = ApprovalRequest { binding: asked.binding().clone().session(other), ..asked };
    for foreign in [call, elsewhere] {
        assert_eq!(gate.refuse_plan(&foreign, Some("olga")).code(), "INTERNAL");
        let entry = last_decision(&world);
        assert_eq!((entry.code.unwrap().as_str(), entry.plan, entry.denied_by), ("INTERNAL", None, None));
    }
}

#[test]
fn a_denied_call_counts_once_and_takes_nothing_of_the_limits() {
    let world = World::new();
    let gate = world.capped();
    for _ in 0..5 {
        assert_eq!(code(&gate, &search("c").denied()), Some(ApprovalDenied));
    }
    assert_eq!((gate.counts().rejected_with(ApprovalDenied), gate.counts().accepted()), (5, 0));
    assert_eq!(gate.counts().rejected(), 5);
    assert_eq!((code(&gate, &search("c")), code(&gate, &search("d"))), (None, None));
}

#[test]
fn approval_request_states_the_session_end() {
    let world = World::new();
    let gate = world.gate();
    let refused = gate.check(&refund("c")).unwrap_err();
    assert_eq!(refused.approval_request().unwrap().session_ends(), gate.contract().expires());
    let plan = gate.plan_approval_request(&plan_of(&gate, steps())).unwrap();
    assert_eq!(plan.session_ends(), gate.contract().expires());
}

#[test]
fn only_a_valid_trace_is_recorded() {
    let world = World::new();
    let gate = world.gate();
    let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let recorded = |trace: &str| {
        assert_eq!(code(&gate, &search("c").trace(trace)), None);
        last_decision(&world).trace.map(|trace| trace.as_str().to_owned())
    };
    for trace in [good, "00-00000000000000000000000000000001-0000000000000001-ff"] {
        assert_eq!(recorded(trace).as_deref(), Some(trace));
    }
    let zeroes = |text: &str| "0".repeat(text.len());
    for none in [
        "",
        "00",
        &good.to_uppercase(),
        &good.replacen("00", "01", 1),
        &good.replacen("00", "ff", 1),
        &good.replacen("00", "0g", 1),
        &good.replace("4bf92f3577b34da6a3ce929d0e0e4736", &zeroes("4bf92f3577b34da6a3ce929d0e0e4736")),
        &good.replace("00f067aa0ba902b7", &zeroes("00f067aa0ba902b7")),
        &good.replace("4bf92f", "4bf92"),
        &good.replace("b7-01", "b7-1"),
        &good.replace('-', "_"),
        &format!("{good}-00"),
        &format!("{good} "),
        &format!(" {good}"),
        &format!("{good}\n"),
        &good.replace("4b", "\u{e9}"),
        &"00-".repeat(1 << 16),
    ] {
        assert_eq!(recorded(none), None, "{none}");
    }
    // A refusal also has its place in the trace.
    assert_eq!(code(&gate, &refund("c").trace(good)), Some(ApprovalRequired));
    assert_eq!(last_decision(&world).trace.unwrap().as_str(), good);
}
