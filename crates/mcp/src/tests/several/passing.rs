use countersign_audit_log::Record;
use countersign_core::Millis;
use serde_json::{Value, json};

use super::hall::{Hall, server, silent};
use crate::GatewayEnd;

fn hall() -> Hall {
    Hall::open(server("files", &["read", "write"]), server("web", &["read"]))
}

#[test]
fn a_call_reaches_the_server_of_its_name_alone() {
    let mut hall = hall();
    let done = hall.call(1, "web__read");
    assert_eq!(done["result"]["content"][0]["text"], "web ran read", "{done}");
    let begun = hall.server_got(1);
    assert_eq!(begun["method"], "notifications/initialized");
    assert_eq!(hall.server_got(1)["params"]["name"], "read");
    assert_eq!(hall.server_got(0)["method"], "notifications/initialized");
    hall.nothing_reached(0);
    assert_eq!(hall.decisions(), ["web:read ACCEPT"]);
}

#[test]
fn a_name_of_no_server_is_undisclosed() {
    let mut hall = hall();
    for (at, name) in ["read", "mail__read", "web_read", "__read", "web.read"].into_iter().enumerate() {
        let refused = hall.call(at, name);
        let code = &refused["result"]["_meta"]["dev.countersign/decision"]["code"];
        assert_eq!(code, "UNDISCLOSED_TOOL", "{refused}");
    }
    for name in ["files__", "web__wipe", "files__web__read"] {
        assert_eq!(hall.call("x", name)["result"]["isError"], true);
    }
    for at in [0, 1] {
        assert_eq!(hall.server_got(at)["method"], "notifications/initialized");
        hall.nothing_reached(at);
    }
    assert!(hall.decisions().iter().all(|decision| !decision.contains("ACCEPT")), "{:?}", hall.decisions());
}

#[test]
fn servers_that_ask_under_one_id_get_their_own_answers() {
    let mut hall = hall();
    let ask = json!({ "jsonrpc": "2.0", "id": 7, "method": "roots/list" });
    hall.serve(0, &ask);
    let first = hall.client_got();
    hall.serve(1, &ask);
    let second = hall.client_got();
    assert_ne!(first["id"], second["id"]);
    for (asked, uri) in [(&second, "file:///web"), (&first, "file:///files")] {
        let roots = json!({ "roots": [{ "uri": uri }] });
        hall.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": roots }));
    }
    for (at, uri) in [(0, "file:///files"), (1, "file:///web")] {
        assert_eq!(hall.server_got(at)["method"], "notifications/initialized");
        let answer = hall.server_got(at);
        assert_eq!((&answer["id"], &answer["result"]["roots"][0]["uri"]), (&json!(7), &json!(uri)));
    }
}

#[test]
fn a_server_withdraws_its_own_request_alone() {
    let hall = hall();
    let ask = json!({ "jsonrpc": "2.0", "id": 7, "method": "roots/list" });
    hall.serve(0, &ask);
    let asked = hall.client_got();
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    hall.serve(1, &cancel);
    hall.serve(0, &cancel);
    assert_eq!(hall.client_got()["params"]["requestId"], asked["id"]);
}

#[test]
fn a_cancellation_reaches_the_server_of_the_call() {
    let mut hall = Hall::open(server("files", &["read"]), {
        let mut web = server("web", &["read"]);
        Box::new(move |asked| if asked["method"] == "tools/call" { Vec::new() } else { web(asked) })
    });
    hall.send(
        &json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": { "name": "web__read" } }),
    );
    hall.server_got(1);
    let call = hall.server_got(1);
    hall.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 5 } }),
    );
    assert_eq!(hall.server_got(1)["params"]["requestId"], call["id"]);
    hall.server_got(0);
    hall.nothing_reached(0);
}

#[test]
fn a_ping_needs_one_server() {
    let mut hall = Hall::before_the_handshake(silent(), server("web", &["read"]));
    let answer = hall.ask("p", "ping", &json!({}));
    assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "p", "result": {} }));
}

#[test]
fn an_id_in_use_is_refused_once() {
    let mut hall = Hall::open(server("files", &["read"]), {
        let mut web = server("web", &["read"]);
        Box::new(move |asked| if asked["method"] == "tools/call" { Vec::new() } else { web(asked) })
    });
    let call = |id: u8, name: &str| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name } });
    hall.send(&call(5, "web__read"));
    hall.server_got(1);
    let wire = hall.server_got(1);
    hall.send(&call(5, "files__read"));
    // A later call that arrived shows that the one before it was read.
    hall.send(&call(6, "web__read"));
    hall.server_got(1);
    hall.serve(1, &json!({ "jsonrpc": "2.0", "id": wire["id"], "result": { "content": [] } }));
    assert_eq!(hall.client_got()["result"]["content"], json!([]));
    let refused = hall.client_got();
    assert_eq!((&refused["id"], &refused["result"]["isError"]), (&json!(5), &json!(true)), "{refused}");
    hall.server_got(0);
    hall.nothing_reached(0);
}

#[test]
fn the_session_ends_once_with_its_last_server() {
    let mut hall = hall();
    hall.end_server(0);
    assert_eq!(hall.call(1, "web__read")["result"]["content"][0]["text"], "web ran read");
    assert_eq!(hall.leave(), GatewayEnd::ClientClosed);
    let records = hall.records();
    let ends = records.iter().filter(|record| matches!(record, Record::End(_))).count();
    assert!(ends == 1 && matches!(records.last(), Some(Record::End(_))), "{records:#?}");
}

#[test]
fn the_end_of_all_servers_ends_the_session() {
    let mut hall = hall();
    hall.end_server(0);
    hall.end_server(1);
    assert_eq!(hall.ended(), GatewayEnd::ServerEnded);
}

#[test]
fn stop_handles_end_all_gateways() {
    let mut hall = hall();
    hall.stops.iter().for_each(|stop| stop.stop(std::time::Duration::ZERO));
    assert_eq!(hall.ended(), GatewayEnd::Stopped);
}

#[test]
fn the_end_of_the_contract_is_made_known_once() {
    let hall = hall();
    hall.world.clock.advance(Millis::from_secs(400 * 86_400)).unwrap();
    let changed: Value = hall.client_got();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    let codes = hall
        .records()
        .into_iter()
        .filter(|record| matches!(record, Record::Gateway(it) if it.code.as_str() == "SESSION_EXPIRED"));
    assert_eq!(codes.count(), 1);
}
