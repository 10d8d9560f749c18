//! A small support desk: the operator's keys, the registry and the gate's key.

use serde_json::{Value, json};

use crate::bench::Bench;

/// Returns a draft with one tool of each relevant kind.
pub(crate) fn draft() -> Value {
    let open = json!({
        "type": "object",
        "properties": {"query": {"type": "string"}, "id": {"type": "integer"}, "amount": {"type": "number"}},
        "additionalProperties": false
    });
    let tool = |server: &str, name: &str, impact: &str, approval: &str, ask: &str| {
        json!({
            "server": server, "name": name, "impact": impact, "approval": approval, "ask": ask,
            "args_schema": open
        })
    };
    let id = |server: &str, name: &str| json!({"server": server, "name": name});
    json!({
        "format": "countersign-registry-1",
        "version": 1,
        "agents": [
            {
                "agent": "support-bot", "version": 1, "registered_by": "ops", "max_session": "1h",
                "tools": [id("desk", "search"), id("desk", "refund"), id("desk", "close"), id("mail", "search2"),
                          id("desk", "list"), id("mail", "list")]
            },
            {
                "agent": "reader", "version": 1, "registered_by": "ops", "max_session": "1h",
                "tools": [id("desk", "search")]
            }
        ],
        "tools": [
            tool("desk", "search", "read", "not_required", "not_required"),
            tool("desk", "refund", "money", "required", "not_required"),
            tool("desk", "close", "write", "not_required", "required"),
            tool("desk", "delete", "irreversible", "required", "not_required"),
            tool("mail", "search2", "read", "not_required", "not_required"),
            tool("desk", "list", "read", "not_required", "not_required"),
            tool("mail", "list", "read", "not_required", "not_required")
        ]
    })
}

/// Returns a desk with the keys `op.key`, `gate.key` (with its store of spent tokens) and `log.key`, a trust root `root.json`
/// and the signed registry `reg.json`.
pub(crate) fn open() -> Bench {
    let bench = Bench::new();
    bench.ok("keys generate --kind ed25519 --out op.key --public-out op.pub");
    bench.ok("keys generate --kind hmac --out gate.key --id gate-1");
    bench.ok("store init gate.key.spent.sqlite");
    bench.log_key();
    bench.ok("keys trust --threshold 1 --out root.json op.pub");
    sign(&bench, &draft(), "reg.json");
    bench
}

/// Signs a draft and writes the registry to `out`.
pub(crate) fn sign(bench: &Bench, draft: &Value, out: &str) {
    bench.write("draft.json", draft.to_string());
    bench.ok(&format!("registry sign draft.json --key op.key --ttl 30d --out {out} --force"));
}
