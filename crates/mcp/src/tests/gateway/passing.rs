use serde_json::json;

use super::desk::{Desk, Setup};

#[test]
fn the_handshake_passes_unchanged() {
    let mut desk = Desk::before_the_handshake(Setup::default());
    let initialize = concat!(
        r#"{"id":0,"jsonrpc":"2.0","method":"initialize","params":{"capabilities":{"roots":{"listChanged":true}},"#,
        r#""clientInfo":{"name":"c","version":"1"},"protocolVersion":"2025-11-25"}}"#
    );
    desk.send(initialize);
    let sent = desk.server_line();
    let (wire, params) = sent.split_once(',').unwrap();
    assert_eq!(Some(params), initialize.split_once(',').map(|(_, params)| params));
    let result = concat!(
        r#"{"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"#,
        r#""serverInfo":{"name":"s","version":"1"}},"jsonrpc":"2.0","id":0}"#
    );
    desk.serve(&result.replace(r#""id":0"#, wire.trim_start_matches('{')));
    assert_eq!(desk.client_line(), result);
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    desk.send(initialized);
    assert_eq!(desk.server_line(), initialized);
    assert!(desk.record().is_empty());
}

#[test]
fn a_server_that_chooses_a_version_of_another_era_is_refused() {
    let mut desk = Desk::before_the_handshake(Setup::default());
    desk.send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#);
    let wire = desk.wire_id();
    desk.answer(&wire, &json!({ "protocolVersion": "2026-07-28" }));
    assert_eq!(desk.error(&json!(0)), (-32603, "PROTOCOL_VERSION".into()));
    assert_eq!(desk.record(), ["PROTOCOL_VERSION"]);
}

#[test]
fn requests_and_notifications_pass_both_ways() {
    let mut desk = Desk::open();
    desk.send(r#"{"id":"l","jsonrpc":"2.0","method":"logging/setLevel","params":{"level":"debug"}}"#);
    let sent = desk.server_got();
    assert_eq!(
        (&sent["method"], &sent["params"]),
        (&json!("logging/setLevel"), &json!({ "level": "debug" }))
    );
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":0.5,"progressToken":"t"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
    ] {
        desk.send(line);
        assert_eq!(desk.server_line(), line);
    }
    for line in [
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":  "x"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":0.10}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:y"}}"#,
        r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#,
    ] {
        desk.serve(line);
        assert_eq!(desk.client_line(), line);
    }
    desk.answer(&sent["id"], &json!({}));
    assert_eq!(desk.client_got()["id"], "l");
    let pong = r#"{"id":9,"jsonrpc":"2.0","result":{}}"#;
    desk.send(pong);
    assert_eq!(desk.server_line(), pong);
    assert!(desk.record().is_empty());
}

#[test]
fn ids_of_both_kinds_and_both_directions_do_not_meet() {
    let mut desk = Desk::open();
    desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    desk.send(r#"{"jsonrpc":"2.0","id":"1","method":"ping"}"#);
    desk.serve(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(desk.client_got()["method"], "ping");
    desk.send(r#"{"jsonrpc":"2.0","id":1,"result":{"from":"client"}}"#);
    let (number, text) = (desk.wire_id(), desk.wire_id());
    assert_eq!(desk.wire_id(), 1);
    desk.answer(&text, &json!({}));
    desk.answer(&number, &json!({}));
    assert_eq!(desk.client_got()["id"], "1");
    assert_eq!(desk.client_got()["id"], 1);
}

#[test]
fn a_cancelled_request_of_the_client_passes_as_cancelled() {
    let mut desk = Desk::open();
    desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let wire = desk.wire_id();
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    desk.send(cancelled);
    assert_eq!(desk.server_got()["params"], json!({ "requestId": wire }));
    // The second time there is nothing to cancel.
    desk.send(cancelled);
    desk.nothing_reached_the_server();
    assert!(desk.record().is_empty());
}

#[test]
fn late_answer_to_a_cancelled_request_is_dropped() {
    let mut desk = Desk::open();
    desk.serve(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
    desk.client_got();
    let cancelled = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    desk.serve(cancelled);
    assert_eq!(desk.client_line(), cancelled);
    desk.send(r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}"#);
    desk.nothing_reached_the_server();
    assert!(desk.record().is_empty());
}

#[test]
fn own_metadata_is_stripped_from_client_messages() {
    let mut desk = Desk::open();
    desk.send(
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"dev.countersign/ask":"g","progressToken":1}}}"#,
    );
    let asked = desk.server_got();
    assert_eq!(asked["params"], json!({ "_meta": { "progressToken": 1 } }));
    desk.send(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"_meta":{"dev.countersign/x":1}}}"#,
    );
    assert_eq!(desk.server_got()["params"], json!({ "_meta": {}, "requestId": asked["id"] }));
}

#[test]
fn unknown_members_of_the_client_are_cut_and_recorded_once() {
    let mut desk = Desk::open();
    for (method, sent, passed) in [
        (
            "ping",
            json!({ "secret": "s", "_meta": { "progressToken": 1, "note": "s" } }),
            json!({ "_meta": { "progressToken": 1 } }),
        ),
        ("logging/setLevel", json!({ "level": "debug", "secret": "s" }), json!({ "level": "debug" })),
        ("logging/setLevel", json!({ "level": "secret" }), json!({})),
        (
            "notifications/progress",
            json!({ "progressToken": "t", "progress": 1, "message": "m".repeat(1_025), "secret": 1 }),
            json!({ "progressToken": "t", "progress": 1 }),
        ),
    ] {
        for id in 0..2 {
            let mut line = json!({ "jsonrpc": "2.0", "method": method, "params": sent });
            if !method.starts_with("notifications/") {
                line["id"] = json!(format!("{method}{id}"));
            }
            desk.send(&line.to_string());
            let got = desk.server_got();
            assert_eq!((&got["method"], &got["params"]), (&json!(method), &passed));
            if got.get("id").is_some() {
                desk.answer(&got["id"], &json!({}));
                desk.client_got();
            }
        }
    }
    assert_eq!(desk.record(), ["UNKNOWN_MEMBER"; 3], "one entry for each method");
}

#[test]
fn unknown_members_of_the_server_are_cut_out_of_the_bytes() {
    let mut desk = Desk::open();
    for _ in 0..2 {
        desk.serve(
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":1, "progress":0.10,"progressToken":1, "y":{}}}"#,
        );
        assert_eq!(
            desk.client_line(),
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":0.10,"progressToken":1}}"#
        );
    }
    assert_eq!(desk.record(), ["UNKNOWN_MEMBER"]);
}

#[test]
fn members_of_methods_that_the_operator_adds_stay() {
    let setup = Setup::default();
    let settings = setup.settings.clone().allow_client_method("resources/read").unwrap();
    let mut desk = Desk::with(Setup { settings, ..setup });
    desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"x:y","any":1,"_meta":{"k":1}}}"#);
    assert_eq!(desk.server_got()["params"], json!({ "uri": "x:y", "any": 1, "_meta": { "k": 1 } }));
    assert!(desk.record().is_empty());
}
