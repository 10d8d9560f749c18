//! Tasks of servers of the stateless era, of which two use one id.

use countersign_audit_log::Record;
use serde_json::{Value, json};

use super::hall::{Answers, Hall, answer_to, settings};
use crate::Era;

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// A server that promises each result as the task `t`.
fn promising(name: &'static str) -> Answers {
    Box::new(move |asked| {
        let task = |status: &str, kind: &str| json!({ "taskId": "t", "status": status, "resultType": kind });
        let content = json!({ "content": [{ "type": "text", "text": name }], "resultType": "complete" });
        let result = match asked["method"].as_str() {
            Some("server/discover") => json!({
                "supportedVersions": ["2026-07-28"], "resultType": "complete",
                "capabilities": { "tools": {}, "extensions": { EXTENSION: {} } },
            }),
            Some("tools/list") => {
                json!({ "tools": [{ "name": "write", "inputSchema": { "type": "object" } }], "resultType": "complete" })
            }
            Some("tools/call") => task("working", "task"),
            Some("tasks/get") if asked["params"]["taskId"] == "t" => {
                let mut task = task("completed", "complete");
                task["result"] = content;
                task
            }
            _ => return Vec::new(),
        };
        vec![answer_to(asked, result)]
    })
}

fn request(id: &str, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { EXTENSION: {} } },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[test]
fn tasks_of_two_servers_may_have_one_id() {
    let of = |name: &'static str| (settings(name).server_era(Era::Stateless), promising(name));
    let mut hall = Hall::with([of("files"), of("web")]);
    for name in ["files", "web"] {
        hall.send(&request(name, "tools/call", json!({ "name": format!("{name}__write") })));
        let promise = hall.client_got();
        assert_eq!(promise["result"]["taskId"], format!("{name}__t"), "{promise}");
    }
    for other in ["t", "mail__t", "web__u"] {
        hall.send(&request(other, "tasks/get", json!({ "taskId": other })));
        let refused = hall.client_got();
        assert_eq!(refused["error"]["data"]["code"], "TASK_UNKNOWN", "{refused}");
    }
    for name in ["web", "files"] {
        let task = format!("{name}__t");
        hall.send(&request(name, "tasks/get", json!({ "taskId": task })));
        let done = hall.client_got();
        assert_eq!((&done["id"], &done["result"]["taskId"]), (&json!(name), &json!(task)), "{done}");
        assert_eq!(done["result"]["result"]["content"][0]["text"], name);
    }
    let outcomes = hall.records().into_iter().filter(|record| matches!(record, Record::Outcome(_))).count();
    assert_eq!(outcomes, 2);
}
