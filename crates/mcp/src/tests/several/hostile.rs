use serde_json::{Value, json};

use super::hall::{Hall, server, settings};
use crate::{Gateway, GatewaySettings, Gateways, ProposalHint, SettingsError};
use countersign_core::ServerName;

/// A server that does not answer calls.
fn holds_calls(name: &str) -> super::hall::Answers {
    let mut usual = server(name, &["read"]);
    Box::new(move |asked| if asked["method"] == "tools/call" { Vec::new() } else { usual(asked) })
}

#[test]
fn an_ended_server_fails_its_own_calls_alone() {
    let mut hall = Hall::open(server("files", &["read"]), holds_calls("web"));
    hall.send(
        &json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": { "name": "web__read" } }),
    );
    hall.server_got(1);
    hall.server_got(1);
    hall.end_server(1);
    let failed = hall.client_got();
    assert_eq!((&failed["id"], &failed["error"]["data"]["code"]), (&json!(5), &json!("SERVER_ENDED")));
    assert_eq!(hall.call(6, "web__read")["error"]["data"]["code"], "SERVER_ENDED");
    assert_eq!(hall.call(7, "files__read")["result"]["content"][0]["text"], "files ran read");
    let list = hall.ask(8, "tools/list", &json!({}));
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 1, "{list}");
}

#[test]
fn a_server_answers_no_call_of_another() {
    let mut hall = Hall::open(server("files", &["read"]), holds_calls("web"));
    hall.send(
        &json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": { "name": "web__read" } }),
    );
    hall.server_got(1);
    let wire = hall.server_got(1)["id"].clone();
    for id in [&wire, &json!(5)] {
        hall.serve(0, &json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [] } }));
    }
    assert_eq!(hall.call(6, "files__read")["id"], 6);
    hall.serve(1, &json!({ "jsonrpc": "2.0", "id": wire, "result": { "content": [{ "type": "text", "text": "own" }] } }));
    let own = hall.client_got();
    assert_eq!((&own["id"], &own["result"]["content"][0]["text"]), (&json!(5), &json!("own")));
}

#[test]
fn a_server_reports_progress_of_its_own_calls_alone() {
    let mut hall = Hall::open(server("files", &["read"]), holds_calls("web"));
    let params = json!({ "name": "web__read", "_meta": { "progressToken": "t" } });
    hall.send(&json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params }));
    hall.server_got(1);
    hall.server_got(1);
    let progress = |message: &str| {
        let params = json!({ "progressToken": "t", "progress": 1, "message": message });
        json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params })
    };
    hall.serve(0, &progress("forged"));
    assert_eq!(hall.call(6, "files__read")["id"], 6);
    hall.serve(1, &progress("own"));
    assert_eq!(hall.client_got()["params"]["message"], "own");
}

#[test]
fn a_server_that_reads_nothing_holds_up_no_other() {
    let limits = || crate::GatewayLimits::default().client_line(65_536).unwrap();
    let (resume, wait) = std::sync::mpsc::channel::<()>();
    let mut stuck = holds_calls("web");
    let stuck = Box::new(move |asked: &Value| {
        if asked["method"] == "tools/call" {
            let _ = wait.recv();
        }
        stuck(asked)
    });
    let mut hall = Hall::with([
        (settings("files").limits(limits()), server("files", &["read"])),
        (settings("web").limits(limits()), stuck),
    ]);
    hall.shake_hands();
    let long = "x".repeat(30_000);
    for id in 0..40 {
        let params = json!({ "name": "web__read", "arguments": { "q": long } });
        hall.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }));
    }
    hall.send(&json!({ "jsonrpc": "2.0", "id": "honest", "method": "tools/call", "params": { "name": "files__read" } }));
    let (mut refused, mut honest) = (0, false);
    while !honest {
        let line = hall.client_got();
        honest = line["id"] == "honest";
        refused += i32::from(line["error"]["data"]["code"] == "TOO_MANY_REQUESTS");
    }
    assert!(refused > 0);
    drop(resume);
}

#[test]
fn malformed_lines_are_refused_by_one_gateway() {
    let mut hall = Hall::open(server("files", &["read"]), server("web", &["read"]));
    for line in ["{", "[]", "7", r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping"}"#] {
        hall.send_line(line);
        assert!(hall.client_got().get("error").is_some() || line.contains("tools/call"), "{line}");
    }
    let refused = hall.ask(2, "resources/subscribe", &json!({ "uri": "file:///x" }));
    assert_eq!(refused["error"]["data"]["code"], "METHOD_NOT_ALLOWED");
    let calls = hall.call(3, "files__read");
    assert_eq!(calls["id"], 3, "{calls}");
}

#[test]
fn gateways_that_do_not_fit_are_refused() {
    let hall = Hall::open(server("files", &["read"]), server("web", &["read"]));
    let gateway = |settings: GatewaySettings| {
        Gateway::new(
            settings,
            hall.gate.clone(),
            std::sync::Arc::clone(&hall.world.sink) as _,
            std::sync::Arc::clone(&hall.world.clock) as _,
            None,
            Box::new(|| Err(crate::CallIdError::new())),
            Box::new(|| {}),
        )
    };
    let mut group = Gateways::new();
    let mut add = |settings| group.add(gateway(settings), std::io::sink(), std::io::empty());
    let alone = GatewaySettings::new(ServerName::new("web").unwrap());
    for unfit in [
        alone,
        settings("web").allow_client_method("prompts/get").unwrap(),
        settings("web").proposals(ProposalHint::Tool),
    ] {
        assert!(matches!(add(unfit), Err(SettingsError::Several(_))));
    }
    add(settings("web")).unwrap();
    assert!(matches!(add(settings("web")), Err(SettingsError::Several(_))));
    assert!(Gateways::new().run(std::io::empty(), std::io::sink()).is_err());
}
