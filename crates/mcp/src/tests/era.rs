use std::collections::BTreeSet;

use super::json;
use crate::cut::{Edits, ValuePosition};
use crate::era_2025::{
    ClientNotification, ClientRequest, Page, ServerNotification, call_line, client_notification,
    client_request, cut_ours, is_known_version, is_success, keep_items, next_page, outside_call, page_of,
    read_call, server_notification, server_request_passes, tools_of,
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
fn malformed_call_params_are_refused() {
    let fits =
        json(r#"{"name":"t","arguments":{"a":1},"_meta":{"progressToken":1,"dev.countersign/ask":"g"}}"#);
    let call = read_call(Some(fits.value())).unwrap();
    assert_eq!((call.name, call.meta.ask), ("t", Some("g")));
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
    assert_eq!(call.meta.call_id.unwrap().as_str(), "Pay:77_b.1-2");
    assert_eq!(call.meta.proposal.unwrap().canonical_text(), r#"{"a":1}"#);
    for proposal in ["null", "[]", "7", r#""{}""#] {
        let text = format!(r#"{{"name":"t","_meta":{{"dev.countersign/proposal":{proposal}}}}}"#);
        let call = json(&text);
        let found = read_call(Some(call.value())).unwrap().meta.proposal.unwrap().canonical_text();
        assert_eq!(found, proposal, "the gate refuses it");
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
fn plan_step_in_metadata_must_be_a_whole_number() {
    let step = |step: &str| {
        let text = format!(r#"{{"name":"t","_meta":{{"dev.countersign/plan_step":{step}}}}}"#);
        read_call(Some(json(&text).value())).map(|call| call.meta.plan_step.unwrap())
    };
    assert_eq!([step("1"), step("2.0"), step("0")], [Some(1), Some(2), Some(0)]);
    for other in ["null", "-1", "1.5", "\"1\"", "[1]", "true", "1e300"] {
        assert_eq!(step(other), None, "{other}");
    }
    assert_eq!(read_call(Some(json(r#"{"name":"t"}"#).value())).unwrap().meta.plan_step, None);
}

#[test]
fn the_first_page_of_tools_is_the_one_without_a_cursor() {
    assert_eq!(page_of(None), Page::First);
    assert_eq!(page_of(Some(json("{}").value())), Page::First);
    assert_eq!(page_of(Some(json(r#"{"_meta":{"cursor":"2"}}"#).value())), Page::First);
    assert_eq!(page_of(Some(json(r#"{"cursor":null}"#).value())), Page::First);
    for cursor in [r#""2""#, r#""""#] {
        assert_eq!(page_of(Some(json(&format!(r#"{{"cursor":{cursor}}}"#)).value())), Page::Later);
    }
    let page = json(r#"{"nextCursor":"2","tools":[{"name":"a"}]}"#);
    assert_eq!(tools_of(page.value()).unwrap().count(), 1);
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
    let line = concat!(
        r#"{"jsonrpc":"2.0", "id":1,"result":{"z/dev.countersign/":1,"#,
        r#""_meta":{"dev.countersign\u002fdecision":{},"k":1.0 , "dev.countersign/x":[]},"r":[1]}}"#
    );
    let message = json(line);
    let cut = |within| {
        let mut edits = Edits::new(line.as_bytes());
        let found = cut_ours(&mut edits, &ValuePosition::new(line.as_bytes()), message.value(), within);
        (found, String::from_utf8(edits.finish()).unwrap())
    };
    let rest = r#"{"jsonrpc":"2.0", "id":1,"result":{"z/dev.countersign/":1,"_meta":{"k":1.0},"r":[1]}}"#;
    assert_eq!(cut("result"), (true, rest.into()));
    assert_eq!(cut("params"), (false, line.into()));
}

#[test]
fn reserved_members_are_stripped_from_call_metadata() {
    let meta = json(
        r#"{"__pic":{"a":1},"__pic_request_id":"r","__pics":1,"dev.countersign/ask":"g","k":{"__pic":1}}"#,
    );
    assert_eq!(outside_call(meta.value()).unwrap(), r#"{"__pics":1,"k":{"__pic":1}}"#);
    assert_eq!(outside_call(json(r#"{"__pic":1}"#).value()).unwrap(), "{}");
    assert_eq!(outside_call(json(r#"{"k":{"__pic":1}}"#).value()), None);
}

#[test]
fn a_page_of_tools_keeps_its_cursor_and_its_other_members() {
    let page = r#"{"result":{"tools":[{"name":"a"}, {"name" : "b"}],"nextCursor":"c","_meta":{"k":1}}}"#;
    let keep = |kept: &[usize], own: &[&str]| {
        let mut edits = Edits::new(page.as_bytes());
        keep_items(&mut edits, &ValuePosition::new(page.as_bytes()), "tools", kept, own);
        String::from_utf8(edits.finish()).unwrap()
    };
    let rest = r#","nextCursor":"c","_meta":{"k":1},"cacheScope":"private"}}"#;
    assert_eq!(keep(&[0], &[]), format!(r#"{{"result":{{"tools":[{{"name":"a"}}]{rest}"#));
    assert_eq!(keep(&[1], &["7"]), format!(r#"{{"result":{{"tools":[{{"name" : "b"}},7]{rest}"#));
    assert_eq!(keep(&[], &["7"]), format!(r#"{{"result":{{"tools":[7]{rest}"#));
    assert_eq!(next_page(json(page).value().get("result").unwrap()).as_deref(), Some("c"));
    assert!(tools_of(json(r#"{"tools":{}}"#).value()).is_none());
    assert!(tools_of(json("[]").value()).is_none());
}

#[test]
fn a_protocol_version_of_another_era_is_not_known() {
    for (version, known) in [("2025-11-25", true), ("2024-11-05", true), ("2026-07-28", false)] {
        let result = json(&format!(r#"{{"protocolVersion":"{version}"}}"#));
        assert_eq!(is_known_version(result.value()), known, "{version}");
    }
    assert!(!is_known_version(json("{}").value()));
}

#[test]
fn result_marked_as_an_error_is_a_failure() {
    assert!(is_success(Body::Result(json("{}").value())));
    assert!(is_success(Body::Result(json(r#"{"isError":false}"#).value())));
    for no_success in [
        r#"{"isError":true}"#,
        r#"{"isError":"true"}"#,
        r#"{"isError":1}"#,
        r#"{"isError":null}"#,
        "null",
        r#""x""#,
        "[]",
    ] {
        assert!(!is_success(Body::Result(json(no_success).value())), "{no_success}");
    }
    assert!(!is_success(Body::Error));
}
