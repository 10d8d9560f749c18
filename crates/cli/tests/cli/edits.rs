//! Approvals with other arguments than the agent's, at a running gateway.

#![cfg(unix)]

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, decision, gateway};

const CONFIG: &str = "--config gateway.toml";

/// A gateway whose refunds are at most 100, with this further member of the tool's entry.
fn with(name: &str, member: Value) -> Bench {
    let bench = gateway();
    let mut draft: Value = serde_json::from_str(&bench.read("draft.json")).unwrap();
    for tool in draft["tools"].as_array_mut().unwrap() {
        if tool["name"] == "refund" {
            tool["constraints"] = json!([{"kind": "number", "at": "/amount", "max": 100}]);
            tool[name] = member.clone();
        }
    }
    bench.write("edits.json", draft.to_string());
    bench.ok("registry sign edits.json --key op.key --out reg.json --force");
    bench
}

fn asked(client: &mut Client) -> String {
    let refusal = client.call("refund", json!({"amount": 50}));
    decision(&refusal)["approval_id"].as_str().unwrap().to_owned()
}

fn edit(bench: &Bench, id: &str, args: &Value) {
    bench.write("args.json", args.to_string());
    let said = bench.ok(&format!("approve {id} {CONFIG} --yes --by ada --edit args.json"));
    assert!(said.contains(" approved by ada with edited arguments until "), "{said}");
}

fn ran(bench: &Bench) -> Vec<Value> {
    let calls = std::fs::read_to_string(bench.path("calls.txt")).unwrap_or_default();
    let args = |line: &str| serde_json::from_str::<Value>(line).unwrap()["params"]["arguments"].clone();
    calls.lines().map(args).collect()
}

#[test]
fn edited_call_runs_once_and_the_agent_is_told() {
    let bench = with("approval", json!("required"));
    let mut client = Client::start(&bench);
    let id = asked(&mut client);
    edit(&bench, &id, &json!({"amount": 20, "note": "part"}));
    assert!(bench.ok(&format!("approve {id} {CONFIG} --show")).contains("\nedited     (sha-256 "));
    let result = client.call("refund", json!({"amount": 50}));
    assert_eq!(result["content"][0]["text"], "done");
    let told = result["content"][1]["text"].as_str().unwrap();
    assert!(told.starts_with("A person edited the arguments of this call before it ran."), "{told}");
    assert!(told.ends_with("{\"amount\":20,\"note\":\"part\"}"), "{told}");
    assert_eq!(result["_meta"]["dev.countersign/decision"]["edited"], true);
    for amount in [50, 20] {
        let again = client.call("refund", json!({"amount": amount}));
        assert_eq!(decision(&again)["code"], "APPROVAL_REQUIRED", "{again}");
    }
    client.end();
    assert_eq!(ran(&bench), [json!({"amount": 20, "note": "part"})]);
}

#[test]
fn record_names_both_digests_of_an_edit() {
    let bench = with("approval", json!("required"));
    let mut client = Client::start(&bench);
    let id = asked(&mut client);
    edit(&bench, &id, &json!({"amount": 20}));
    client.call("refund", json!({"amount": 50}));
    client.end();
    let entries = bench.entries();
    let answer = entries.iter().find(|entry| entry["type"] == "answer").unwrap();
    let accepted = entries.iter().find(|entry| entry["verdict"] == "accept").unwrap();
    assert_eq!((&answer["args"], &answer["edited_to"]), (&accepted["edited_from"], &accepted["args"]));
    assert_eq!((&answer["call_id"], &answer["approver"]), (&accepted["call_id"], &accepted["approver"]));
    let shown = bench.run("audit show log").out;
    assert!(shown.contains(" (edited, asked for arguments "), "{shown}");
    assert!(shown.contains("; edited to arguments "), "{shown}");
    bench.verified();
}

#[test]
fn edit_that_the_gate_would_refuse_costs_nothing() {
    let bench = with("approval", json!("required"));
    let mut client = Client::start(&bench);
    let id = asked(&mut client);
    for (args, exit, code) in [
        ("{\"amount\":101}", 3, "ARGS_CONSTRAINT"),
        ("{\"amount\":50}", 1, "PENDING_EDIT"),
        ("[1]", 1, "PENDING_EDIT"),
        ("{\"amount\":1,\"__pic\":{}}", 1, "PENDING_EDIT"),
        ("{\"amount\":1,\"amount\":2}", 1, "JSON_DUPLICATE_NAME"),
        ("", 1, "JSON_UNEXPECTED_END"),
    ] {
        bench.write("args.json", args);
        bench.fails(&format!("approve {id} {CONFIG} --yes --by ada --edit args.json"), exit, code);
    }
    bench.fails(&format!("approve {id} {CONFIG} --yes --edit none.json"), 1, "FILE_MISSING");
    bench.fails(&format!("approve {id} {CONFIG} --deny --edit args.json"), 2, "USAGE");
    assert!(!bench.entries().iter().any(|entry| entry["type"] == "answer"), "no answer counts");
    bench.ok(&format!("approve {id} {CONFIG} --yes --by ada"));
    assert_eq!(client.call("refund", json!({"amount": 50}))["content"][0]["text"], "done");
    client.end();
    assert_eq!(ran(&bench), [json!({"amount": 50})]);
}

#[test]
fn edit_to_a_denied_call_is_refused() {
    let bench = with("approval", json!("required"));
    let mut client = Client::start(&bench);
    let id = asked(&mut client);
    let other = client.call("refund", json!({"amount": 20}));
    let other = decision(&other)["approval_id"].as_str().unwrap().to_owned();
    bench.ok(&format!("approve {other} {CONFIG} --deny --by bob"));
    bench.write("args.json", "{\"amount\":20}");
    bench.fails(&format!("approve {id} {CONFIG} --yes --by ada --edit args.json"), 1, "PENDING_DENIED");
    edit(&bench, &id, &json!({"amount": 21}));
    client.call("refund", json!({"amount": 21}));
    let third = bench.run(&format!("approve list {CONFIG} --json")).value();
    let third = third["pending"][0]["call_id"].as_str().unwrap().to_owned();
    bench.ok(&format!("approve {third} {CONFIG} --deny --by bob"));
    let refused = client.call("refund", json!({"amount": 50}));
    assert_eq!(decision(&refused)["code"], "APPROVAL_DENIED", "the later denial counts, too");
    client.end();
    assert!(ran(&bench).is_empty());
}

#[test]
fn edit_that_needs_no_approval_runs_once_all_the_same() {
    let free =
        json!({"rule": "required", "unless": [[{"kind": "number", "at": "/amount", "min": 0, "max": 20}]]});
    let bench = with("approval", free);
    let mut client = Client::start(&bench);
    let id = asked(&mut client);
    edit(&bench, &id, &json!({"amount": 20}));
    client.call("refund", json!({"amount": 50}));
    assert_eq!(decision(&client.call("refund", json!({"amount": 50})))["code"], "APPROVAL_REQUIRED");
    client.end();
    assert_eq!(ran(&bench), [json!({"amount": 20})]);
    let accepted = bench.entries().into_iter().find(|entry| entry["verdict"] == "accept").unwrap();
    assert_eq!(accepted["approver"], "ada");
}

#[test]
fn call_of_several_approvers_takes_no_edit() {
    let bench = with("approvers", json!({"names": ["ada", "bob"], "needed": 2}));
    let mut client = Client::start(&bench);
    let id = asked(&mut client);
    bench.write("args.json", "{\"amount\":20}");
    bench.fails(&format!("approve {id} {CONFIG} --yes --by ada --edit args.json"), 1, "PENDING_EDIT");
    client.end();
}

#[test]
fn held_call_runs_with_the_edited_arguments() {
    let bench = with("approval", json!("required"));
    let held = bench.read("gateway.toml").replace("[approval]\n", "[approval]\nhold = \"60s\"\n");
    bench.write("gateway.toml", held);
    let mut client = Client::start(&bench);
    let meta = json!({"progressToken": "p"});
    let call = json!({"name": "refund", "arguments": {"amount": 50}, "_meta": meta});
    let asked = client.send("tools/call", call);
    let id = client.next_progress().strip_prefix("waits for approval: ").unwrap().to_owned();
    edit(&bench, &id, &json!({"amount": 20}));
    let answer = client.answer(asked);
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    client.end();
    assert_eq!(ran(&bench), [json!({"amount": 20})]);
}
