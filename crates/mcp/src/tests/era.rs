use std::collections::BTreeSet;

use countersign_tool_gate::RejectionCode;

use super::json;
use crate::era_2025::{
    ClientNotification, ClientRequest, Refusal, ServerNotification, call_line, client_notification,
    client_request, is_known_version, is_success, outside, outside_call, read_call, refusal_line,
    server_notification, server_request_passes, tools_of, tools_page, without_ours,
};
use crate::message::{Body, RpcId};

#[test]
fn methods_of_the_client_are_refused_unless_known_or_listed() {
    let none = BTreeSet::new();
    let listed = BTreeSet::from(["resources/read".into(), "notifications/x".into()]);
    for (method, plain, with) in [
        ("initialize", ClientRequest::Initialize, ClientRequest::Initialize),
        ("ping", ClientRequest::Pass, ClientRequest::Pass),
        ("logging/setLevel", ClientRequest::Pass, ClientRequest::Pass),
        ("tools/list", ClientRequest::ListTools, ClientRequest::ListTools),
        ("tools/call", ClientRequest::Call, ClientRequest::Call),
        ("resources/read", ClientRequest::Refuse, ClientRequest::Pass),
        ("resources/list", ClientRequest::Refuse, ClientRequest::Refuse),
        ("prompts/get", ClientRequest::Refuse, ClientRequest::Refuse),
        ("completion/complete", ClientRequest::Refuse, ClientRequest::Refuse),
        ("tasks/result", ClientRequest::Refuse, ClientRequest::Refuse),
        ("Tools/call", ClientRequest::Refuse, ClientRequest::Refuse),
        ("tools/call ", ClientRequest::Refuse, ClientRequest::Refuse),
        ("", ClientRequest::Refuse, ClientRequest::Refuse),
        ("notifications/x", ClientRequest::Refuse, ClientRequest::Refuse),
        ("notifications/initialized", ClientRequest::Refuse, ClientRequest::Refuse),
    ] {
        assert_eq!(client_request(method, &none), plain, "{method}");
        assert_eq!(client_request(method, &listed), with, "{method}");
    }
}

#[test]
fn a_request_without_an_id_is_no_notification() {
    let listed = BTreeSet::from(["resources/read".into(), "notifications/x".into()]);
    for (method, expected) in [
        ("notifications/initialized", ClientNotification::Pass),
        ("notifications/progress", ClientNotification::Pass),
        ("notifications/roots/list_changed", ClientNotification::Pass),
        ("notifications/cancelled", ClientNotification::Cancelled),
        ("notifications/x", ClientNotification::Pass),
        ("notifications/y", ClientNotification::Refuse),
        ("tools/call", ClientNotification::Request),
        ("ping", ClientNotification::Request),
        ("resources/read", ClientNotification::Request),
    ] {
        assert_eq!(client_notification(method, &listed), expected, "{method}");
    }
}

#[test]
fn methods_of_the_server_are_refused_unless_known_or_listed() {
    let none = BTreeSet::new();
    let listed = BTreeSet::from(["sampling/createMessage".into()]);
    for (method, plain, with) in [
        ("ping", true, true),
        ("roots/list", true, true),
        ("sampling/createMessage", false, true),
        ("elicitation/create", false, false),
        ("tools/call", false, false),
        ("notifications/message", false, false),
    ] {
        assert_eq!(server_request_passes(method, &none), plain, "{method}");
        assert_eq!(server_request_passes(method, &listed), with, "{method}");
    }
    for method in
        ["message", "progress", "resources/list_changed", "resources/updated", "prompts/list_changed"]
    {
        let method = format!("notifications/{method}");
        assert_eq!(server_notification(&method, &none), ServerNotification::Pass, "{method}");
    }
    let changed = server_notification("notifications/tools/list_changed", &none);
    assert_eq!(changed, ServerNotification::ToolsChanged);
    assert_eq!(server_notification("notifications/cancelled", &none), ServerNotification::Cancelled);
    assert_eq!(server_notification("notifications/tasks/status", &none), ServerNotification::Refuse);
    assert_eq!(server_notification("ping", &none), ServerNotification::Refuse);
}

#[test]
fn params_of_a_call_hold_a_name_arguments_and_metadata_and_nothing_else() {
    let fits =
        json(r#"{"name":"t","arguments":{"a":1},"_meta":{"progressToken":1,"dev.countersign/ask":"g"}}"#);
    let call = read_call(Some(fits.value())).unwrap();
    assert_eq!((call.name, call.ask), ("t", Some("g")));
    assert!(read_call(Some(json(r#"{"name":"t"}"#).value())).is_some());
    for text in [
        r#"{}"#,
        r#"{"name":7}"#,
        r#"{"name":null,"arguments":{}}"#,
        r#"{"name":"t","arguments":[]}"#,
        r#"{"name":"t","arguments":null}"#,
        r#"{"name":"t","arguments":"{}"}"#,
        r#"{"name":"t","task":{}}"#,
        r#"{"name":"t","Name":"u"}"#,
        r#"{"name":"t","arguments":{},"Arguments":{}}"#,
        r#"{"name":"t","_meta":[]}"#,
        r#"{"name":"t","_meta":{"dev.countersign/ask":7}}"#,
    ] {
        assert!(read_call(Some(json(text).value())).is_none(), "{text}");
    }
    assert!(read_call(None).is_none());
}

#[test]
fn a_proposal_and_a_call_id_may_come_as_metadata() {
    let fits = json(
        r#"{"name":"t","_meta":{"dev.countersign/call_id":"Pay:77_b.1-2","dev.countersign/proposal":{"a":1}}}"#,
    );
    let call = read_call(Some(fits.value())).unwrap();
    assert_eq!(call.call_id.unwrap().as_str(), "Pay:77_b.1-2");
    assert_eq!(call.proposal.unwrap().canonical_text(), r#"{"a":1}"#);
    for proposal in ["null", "[]", "7", r#""{}""#] {
        let text = format!(r#"{{"name":"t","_meta":{{"dev.countersign/proposal":{proposal}}}}}"#);
        assert!(read_call(Some(json(&text).value())).is_none(), "{text}");
    }
    let long = format!("\"{}\"", "a".repeat(257));
    let ids = [
        "null",
        "7",
        r#""""#,
        r#"" a""#,
        r#""a b""#,
        r#""a\u202eb""#,
        r#""-a""#,
        r#"".a""#,
        r#""$(a)""#,
        r#""a;b""#,
        r#""a/b""#,
        r#""a`b""#,
        r#""ä""#,
        r#""list""#,
        &long,
    ];
    for id in ids {
        let text = format!(r#"{{"name":"t","_meta":{{"dev.countersign/call_id":{id}}}}}"#);
        assert!(read_call(Some(json(&text).value())).is_none(), "{text}");
    }
}

#[test]
fn the_call_that_goes_on_is_built_from_parts() {
    let args = json(r#"{"b":1,"a":2.0}"#);
    assert_eq!(
        call_line(&RpcId::Number(3), "t", &args, Some(r#"{"progressToken":9}"#)),
        concat!(
            r#"{"id":3,"jsonrpc":"2.0","method":"tools/call","#,
            r#""params":{"_meta":{"progressToken":9},"arguments":{"a":2,"b":1},"name":"t"}}"#
        )
    );
}

#[test]
fn our_own_metadata_never_passes_and_everything_else_stays() {
    let meta = json(
        r#"{"dev.countersign/ask":"g","dev.countersign/x":{"y":1},"progressToken":"p","z/dev.countersign/":1}"#,
    );
    assert_eq!(outside(meta.value()).unwrap(), r#"{"progressToken":"p","z/dev.countersign/":1}"#);
    assert_eq!(outside(json(r#"{"progressToken":"p"}"#).value()), None);
    let message =
        json(r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{"dev.countersign/decision":{},"k":1},"r":[1]}}"#);
    assert_eq!(
        without_ours(message.value(), "result").unwrap(),
        r#"{"id":1,"jsonrpc":"2.0","result":{"_meta":{"k":1},"r":[1]}}"#
    );
    assert_eq!(without_ours(message.value(), "params"), None);
}

#[test]
fn what_is_none_of_the_tools_arguments_is_none_of_a_calls_metadata() {
    let meta = json(
        r#"{"__pic":{"a":1},"__pic_request_id":"r","__pics":1,"dev.countersign/ask":"g","k":{"__pic":1}}"#,
    );
    assert_eq!(outside_call(meta.value()).unwrap(), r#"{"__pics":1,"k":{"__pic":1}}"#);
    assert_eq!(outside_call(json(r#"{"__pic":1}"#).value()).unwrap(), "{}");
    assert_eq!(outside_call(json(r#"{"k":{"__pic":1}}"#).value()), None);
}

#[test]
fn a_page_of_tools_keeps_its_cursor_and_its_other_members() {
    let page = json(r#"{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"c","_meta":{"k":1}}"#);
    let kept: Vec<_> = tools_of(page.value()).unwrap().take(1).collect();
    let cut = tools_page(page.value(), &kept);
    assert_eq!(cut.result, r#"{"_meta":{"k":1},"nextCursor":"c","tools":[{"name":"a"}]}"#);
    assert_eq!(cut.next.as_deref(), Some("c"));
    assert!(tools_of(json(r#"{"tools":{}}"#).value()).is_none());
    assert!(tools_of(json("[]").value()).is_none());
}

#[test]
fn a_protocol_version_of_another_era_is_not_known() {
    for (version, known) in [("2025-11-25", true), ("2024-11-05", true), ("2026-07-28", false)] {
        let result = json(&format!(r#"{{"protocolVersion":"{version}"}}"#));
        assert_eq!(is_known_version(Body::Result(result.value())), known, "{version}");
    }
    assert!(!is_known_version(Body::Result(json("{}").value())));
    assert!(is_known_version(Body::Error));
}

#[test]
fn a_result_that_says_it_is_an_error_is_a_failure() {
    assert!(is_success(Body::Result(json("{}").value())));
    assert!(is_success(Body::Result(json(r#"{"isError":false}"#).value())));
    assert!(!is_success(Body::Result(json(r#"{"isError":true}"#).value())));
    assert!(!is_success(Body::Error));
}

#[test]
fn a_refusal_is_a_result_with_a_decision_for_programs_and_a_text_for_the_model() {
    let line = refusal_line(
        &RpcId::Number(1),
        Refusal {
            code: RejectionCode::ApprovalRequired,
            retry: "after_approval",
            unlock: Some("an approval"),
            approval_id: Some("c-1"),
            call_id: "c-1",
            record: Some(9),
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
             Approval id: c-1."
        )
    );
}

#[test]
fn a_model_reads_the_id_of_a_call_that_somebody_could_approve_or_attest_to() {
    let text = |code: RejectionCode, approval_id: Option<&str>| {
        let refusal =
            Refusal { code, retry: "never", unlock: None, approval_id, call_id: "c-1", record: None };
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
    // One that waits for its approver has that id and no other.
    let waiting = text(RejectionCode::ApprovalRequired, Some("c-0"));
    assert!(waiting.ends_with(" Approval id: c-0.") && !waiting.contains("c-1"), "{waiting}");
}
