//! Tasks in place of results, between peers of the stateless era.

use countersign_testing::TestTool;
use serde_json::{Value, json};

use super::desk::{Desk, Setup};
use crate::Era;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn request(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { EXTENSION: {}, "com.example/other": {} } },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn call(id: u64, name: &str) -> Value {
    request(id, "tools/call", json!({ "name": name, "arguments": {} }))
}

fn about(id: u64, method: &str, task: &str) -> Value {
    request(id, method, json!({ "taskId": task }))
}

/// A desk whose agent has `long`, which may be a task, and `short`, which may not.
fn desk() -> Desk {
    let mut setup = Setup::default().patient();
    setup.settings =
        setup.settings.server_era(Era::Stateless).allow_server_method("elicitation/create").unwrap();
    setup.reads = vec![TestTool::read("long").member("tasks", "allowed"), TestTool::read("short")];
    let mut desk = Desk::before_the_handshake(setup);
    desk.send(&request(0, "server/discover", json!({})).to_string());
    let asked = desk.server_got();
    let capabilities = json!({ "tools": {}, "extensions": { EXTENSION: {}, "com.example/other": {} } });
    desk.answer(&asked["id"], &json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities }));
    let offered = desk.client_got()["result"]["capabilities"].clone();
    assert_eq!(offered, json!({ "tools": {}, "extensions": { EXTENSION: {} } }));
    assert_eq!(desk.server_got()["method"], "subscriptions/listen");
    desk.send(&request(0, "tools/list", json!({})).to_string());
    let id = desk.wire_id();
    let tool = |name| json!({ "name": name, "inputSchema": { "type": "object" } });
    desk.answer(&id, &json!({ "tools": [tool("long"), tool("short")] }));
    desk.client_got();
    desk
}

fn task(id: &str, status: &str, more: &Value) -> Value {
    // A result that states its server is passed on unchanged.
    let meta = json!({ "io.modelcontextprotocol/serverInfo": { "name": "s", "version": "1" } });
    let mut task = json!({ "taskId": id, "status": status, "resultType": "complete", "_meta": meta });
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

/// Calls `long`, whose result the server promises as the task `t`.
fn promise(desk: &mut Desk, id: u64) {
    desk.send(&call(id, "long").to_string());
    let asked = desk.server_got();
    let declared = &asked["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    assert_eq!(*declared, json!({ EXTENSION: {} }));
    desk.answer(&asked["id"], &task("t", "working", &json!({ "resultType": "task" })));
    let got = desk.client_got();
    assert_eq!(
        (&got["id"], &got["result"]["resultType"], &got["result"]["taskId"]),
        (&json!(id), &json!("task"), &json!("t"))
    );
}

/// Asks for the task, and lets the server answer. Returns what the client gets.
fn poll(desk: &mut Desk, id: u64, result: &Value) -> Value {
    desk.send(&about(id, "tasks/get", "t").to_string());
    let asked = desk.server_got();
    assert_eq!((&asked["method"], &asked["params"]["taskId"]), (&json!("tasks/get"), &json!("t")));
    desk.answer(&asked["id"], result);
    desk.client_got()
}

#[test]
fn the_result_of_a_task_is_the_outcome_of_its_call() {
    let done = |is_error: bool| json!({ "result": { "content": [], "isError": is_error, "resultType": "complete" } });
    for (ended, outcome) in [
        (task("t", "completed", &done(false)), "Returned"),
        (task("t", "completed", &done(true)), "Failed"),
        (task("t", "failed", &json!({ "error": { "code": -1, "message": "no" } })), "Failed"),
        (task("t", "cancelled", &json!({})), "Unknown"),
    ] {
        let mut desk = desk();
        promise(&mut desk, 1);
        assert_eq!(poll(&mut desk, 2, &task("t", "working", &json!({})))["result"]["status"], "working");
        assert_eq!(poll(&mut desk, 3, &ended)["result"], ended);
        let mut expected = ["ACCEPT", outcome, "TASK_PENDING"];
        expected.sort_unstable();
        assert_eq!(desk.sorted_record(), expected);
        desk.send(&about(4, "tasks/get", "t").to_string());
        assert_eq!(desk.error(&json!(4)), (-32_602, "TASK_UNKNOWN".into()), "it has ended");
    }
}

#[test]
fn a_task_is_taken_only_where_the_registry_allows_it() {
    let mut desk = desk();
    desk.send(&call(1, "short").to_string());
    let asked = desk.server_got();
    let declared = &asked["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*declared, json!({}));
    desk.answer(&asked["id"], &task("t", "working", &json!({ "resultType": "task" })));
    assert_eq!(desk.error(&json!(1)), (-32_603, "SERVER_ANSWER".into()));
    desk.send(&about(2, "tasks/get", "t").to_string());
    assert_eq!(desk.error(&json!(2)), (-32_602, "TASK_UNKNOWN".into()));
    // A client that did not declare the extension gets no task.
    let mut plain = call(3, "long");
    plain["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    desk.send(&plain.to_string());
    let asked = desk.server_got();
    desk.answer(&asked["id"], &task("u", "working", &json!({ "resultType": "task" })));
    assert_eq!(desk.error(&json!(3)), (-32_603, "SERVER_ANSWER".into()));
}

#[test]
fn a_session_without_such_tools_has_no_tasks() {
    let mut setup = Setup::default().patient();
    setup.settings = setup.settings.server_era(Era::Stateless);
    let mut desk = Desk::before_the_handshake(setup);
    desk.send(&request(0, "server/discover", json!({})).to_string());
    let asked = desk.server_got();
    let capabilities = json!({ "tools": {}, "extensions": { EXTENSION: {} } });
    desk.answer(&asked["id"], &json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities }));
    assert_eq!(desk.client_got()["result"]["capabilities"], json!({ "tools": {} }));
    for method in ["tasks/get", "tasks/update", "tasks/cancel", "tasks/list"] {
        desk.send(&about(1, method, "t").to_string());
        assert_eq!(desk.error(&json!(1)), (-32_601, "METHOD_NOT_ALLOWED".into()), "{method}");
    }
}

#[test]
fn a_malformed_promise_is_the_servers_fault() {
    for bad in [
        json!({ "resultType": "task" }),
        json!({ "resultType": "task", "taskId": "" }),
        json!({ "resultType": "task", "taskId": 7 }),
        json!({ "resultType": "task", "taskId": "a".repeat(257) }),
        json!({ "resultType": "task", "taskId": "t", "content": [] }),
        json!({ "resultType": "task", "taskId": "t", "inputRequests": {} }),
        json!({ "resultType": "complete", "taskId": "t" }),
        json!({ "taskId": "t", "content": [] }),
    ] {
        let mut desk = desk();
        desk.send(&call(1, "long").to_string());
        let id = desk.wire_id();
        desk.answer(&id, &bad);
        assert_eq!(desk.error(&json!(1)), (-32_603, "SERVER_ANSWER".into()), "{bad}");
        assert_eq!(desk.sorted_record(), ["ACCEPT", "SERVER_ANSWER", "Unknown"], "{bad}");
    }
    let mut desk = desk();
    promise(&mut desk, 1);
    desk.send(&call(2, "long").to_string());
    let id = desk.wire_id();
    desk.answer(&id, &task("t", "working", &json!({ "resultType": "task" })));
    assert_eq!(desk.error(&json!(2)), (-32_603, "SERVER_ANSWER".into()), "the id is another call's");
}

#[test]
fn a_malformed_state_of_a_task_is_the_servers_fault() {
    let mut desk = desk();
    promise(&mut desk, 1);
    let form = json!({ "method": "elicitation/create", "params": { "message": "Who?" } });
    for bad in [
        json!({}),
        task("u", "completed", &json!({ "result": { "content": [] } })),
        task("t", "completed", &json!({})),
        task("t", "completed", &json!({ "result": { "resultType": "input_required", "requestState": "s" } })),
        task("t", "completed", &json!({ "result": { "taskId": "v" } })),
        task("t", "done", &json!({})),
        task("t", "working", &json!({ "inputRequests": { "a": form } })),
        task("t", "working", &json!({ "resultType": "task" })),
        task("t", "input_required", &json!({})),
        // The client of this test shows no forms.
        task("t", "input_required", &json!({ "inputRequests": { "a": form } })),
        task(
            "t",
            "input_required",
            &json!({ "inputRequests": { "a": { "method": "sampling/createMessage" } } }),
        ),
    ] {
        let got = poll(&mut desk, 2, &bad);
        assert_eq!(got["error"]["data"]["code"], "SERVER_ANSWER", "{bad}");
    }
    let done = task("t", "completed", &json!({ "result": { "content": [] } }));
    assert_eq!(poll(&mut desk, 3, &done)["result"], done, "the task is still the call's");
}

#[test]
fn input_for_a_task_passes_if_it_may_be_asked_for() {
    let mut desk = desk();
    promise(&mut desk, 1);
    let form = json!({ "method": "elicitation/create", "params": { "message": "Who?" } });
    let asks = task("t", "input_required", &json!({ "inputRequests": { "a": form } }));
    let mut get = about(2, "tasks/get", "t");
    get["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["elicitation"] = json!({});
    desk.send(&get.to_string());
    let asked = desk.server_got();
    let declared = &asked["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*declared, json!({ "elicitation": {}, "extensions": { EXTENSION: {} } }));
    desk.answer(&asked["id"], &asks);
    assert_eq!(desk.client_got()["result"], asks);
    let answer = json!({ "a": { "action": "accept", "content": {} } });
    desk.send(&request(3, "tasks/update", json!({ "taskId": "t", "inputResponses": answer })).to_string());
    let asked = desk.server_got();
    assert_eq!(asked["params"]["inputResponses"], answer);
    desk.answer(&asked["id"], &json!({ "resultType": "complete" }));
    assert_eq!(desk.client_got()["id"], 3);
    desk.send(&about(4, "tasks/cancel", "t").to_string());
    let id = desk.wire_id();
    desk.answer(&id, &json!({ "resultType": "complete" }));
    assert_eq!(desk.client_got()["id"], 4);
    for params in [json!({}), json!({ "taskId": 7 }), json!({ "taskId": "t", "more": 1 })] {
        desk.send(&request(5, "tasks/get", params).to_string());
        assert_eq!(desk.error(&json!(5)), (-32_602, "BAD_PARAMS".into()));
    }
}

#[test]
fn a_task_that_has_not_ended_has_an_unknown_outcome() {
    let mut desk = desk();
    promise(&mut desk, 1);
    desk.close_client();
    desk.server_sees_the_end();
    desk.close_server();
    desk.ended();
    assert_eq!(desk.sorted_record(), ["ACCEPT", "TASK_PENDING", "Unknown"]);
    let reasons = desk.gateway_reasons();
    assert_eq!(reasons, ["the server promised the result of an accepted call: call-1 of record 3"]);
}
