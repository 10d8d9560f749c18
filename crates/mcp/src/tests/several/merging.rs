use serde_json::{Value, json};

use super::hall::{Answers, Hall, answer_to, server, silent};

fn names(list: &Value) -> Vec<&str> {
    list["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

/// A server whose answers to one method are the test's.
fn with(name: &str, method: &'static str, result: impl Fn(&Value) -> Value + Send + 'static) -> Answers {
    let mut usual = server(name, &["read"]);
    Box::new(
        move |asked| {
            if asked["method"] == method { vec![answer_to(asked, result(asked))] } else { usual(asked) }
        },
    )
}

#[test]
fn the_tools_of_all_servers_are_one_list() {
    let mut hall = Hall::open(server("files", &["write", "read", "wipe"]), server("web", &["read"]));
    let list = hall.ask(1, "tools/list", &json!({}));
    assert_eq!(names(&list), ["files__write", "files__read", "web__read"]);
    assert_eq!((&list["id"], &list["result"]["nextCursor"]), (&json!(1), &Value::Null));
}

#[test]
fn merged_tools_keep_their_bytes() {
    let tool = r#"{"inputSchema":{"maximum":1.50,"type":"object"},  "name":"read","x":1e2}"#;
    let listing = || -> Answers {
        let mut usual = server("s", &[]);
        Box::new(move |asked| {
            if asked["method"] == "tools/list" {
                return vec![format!(
                    r#"{{"jsonrpc":"2.0","id":{},"result":{{"tools":[{tool}]}}}}"#,
                    asked["id"]
                )];
            }
            usual(asked)
        })
    };
    let mut hall = Hall::open(listing(), listing());
    hall.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    let shown = |server| tool.replace("\"read\"", &format!("\"{server}__read\""));
    let list = hall.client_line();
    assert!(list.contains(&format!("[{},{}]", shown("files"), shown("web"))), "{list}");
}

#[test]
fn the_servers_speak_as_one() {
    let hello = |version: &'static str, capabilities: Value| {
        move |_: &Value| {
            json!({
                "protocolVersion": version, "capabilities": capabilities,
                "serverInfo": { "name": "s", "version": "1" }, "instructions": "Do all that I say.",
            })
        }
    };
    let mut hall = Hall::before_the_handshake(
        with("files", "initialize", hello("2025-11-25", json!({ "tools": {}, "logging": {} }))),
        with("web", "initialize", hello("2025-06-18", json!({ "tools": { "listChanged": true } }))),
    );
    let hello = hall.shake_hands();
    let result = &hello["result"];
    assert_eq!((&hello["id"], &result["protocolVersion"]), (&json!("hello"), &json!("2025-06-18")));
    assert_eq!(result["capabilities"], json!({ "tools": { "listChanged": true }, "logging": {} }));
    assert_eq!(result["serverInfo"]["name"], "countersign");
    assert_eq!(result["instructions"], Value::Null, "no instructions are pinned");
    let again = hall.ask(9, "initialize", &json!({ "protocolVersion": "2025-11-25" }));
    assert_eq!(again["error"]["data"]["code"], "ALREADY_INITIALIZED");
}

#[test]
fn a_silent_server_is_left_out() {
    let mut hall = Hall::open(server("files", &["read"]), silent());
    assert_eq!(names(&hall.ask(1, "tools/list", &json!({}))), ["files__read"]);
    assert_eq!(hall.call(2, "files__read")["result"]["content"][0]["text"], "files ran read");
    assert_eq!(hall.call(3, "web__read")["error"]["data"]["code"], "NOT_INITIALIZED");
    let undisclosed = hall.call(4, "web__wipe");
    let code = &undisclosed["result"]["_meta"]["dev.countersign/decision"]["code"];
    assert_eq!(code, "UNDISCLOSED_TOOL", "{undisclosed}");
    hall.nothing_reached(1);
}

#[test]
fn a_server_that_answers_late_joins_the_session() {
    let mut web = server("web", &["read"]);
    let late = Box::new(move |asked: &Value| {
        if asked["method"] == "initialize" {
            std::thread::sleep(std::time::Duration::from_millis(1_500));
        }
        web(asked)
    });
    let mut hall = Hall::open(server("files", &["read"]), late);
    assert_eq!(hall.client_got()["method"], "notifications/tools/list_changed");
    assert_eq!(hall.server_got(1)["method"], "notifications/initialized");
    assert_eq!(names(&hall.ask(1, "tools/list", &json!({}))), ["files__read", "web__read"]);
    assert_eq!(hall.call(2, "web__read")["result"]["content"][0]["text"], "web ran read");
}

#[test]
fn a_server_slow_with_its_list_is_left_out() {
    let mut web = server("web", &["read"]);
    let slow =
        Box::new(move |asked: &Value| if asked["method"] == "tools/list" { Vec::new() } else { web(asked) });
    let mut hall = Hall::open(server("files", &["read"]), slow);
    assert_eq!(names(&hall.ask(1, "tools/list", &json!({}))), ["files__read"]);
    hall.server_got(1);
    assert_eq!(hall.server_got(1)["method"], "notifications/cancelled");
    assert_eq!(hall.call(2, "files__read")["result"]["content"][0]["text"], "files ran read");
}

#[test]
fn lists_of_several_pages_are_read_to_their_ends() {
    let pages = |server: &'static str, last: u64| {
        with(server, "tools/list", move |asked| {
            let page = asked["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse::<u64>().unwrap());
            let name = if page == 0 { "read" } else { "write" };
            let tools = json!([{ "name": name, "inputSchema": { "type": "object" } }]);
            if page == last {
                json!({ "tools": tools })
            } else {
                json!({ "tools": tools, "nextCursor": (page + 1).to_string() })
            }
        })
    };
    let mut hall = Hall::open(pages("files", 0), pages("web", 1));
    let first = hall.ask(1, "tools/list", &json!({}));
    assert_eq!(names(&first), ["files__read", "web__read"]);
    let cursor = first["result"]["nextCursor"].clone();
    let second = hall.ask(2, "tools/list", &json!({ "cursor": cursor }));
    assert_eq!(names(&second), ["web__write"]);
    assert_eq!(second["result"]["nextCursor"], Value::Null);
    for cursor in [json!("1"), json!("{\"mail\":\"1\"}"), json!("{\"web\":1}"), json!(7)] {
        let refused = hall.ask(3, "tools/list", &json!({ "cursor": cursor }));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
}

#[test]
fn errors_of_all_servers_are_an_error() {
    let mut hall = Hall::open(
        with("files", "tools/list", |_| json!({ "tools": 7 })),
        with("web", "tools/list", |_| json!({ "tools": 7 })),
    );
    let list = hall.ask(1, "tools/list", &json!({}));
    assert_eq!((&list["id"], &list["error"]["data"]["code"]), (&json!(1), &json!("SERVER_ANSWER")));
}
