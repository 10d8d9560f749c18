//! A gateway that renews its session whenever the session expires.

#![cfg(unix)]

use std::fs::rename;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, decision, gateway};

/// Returns a gateway whose sessions last two seconds.
fn renewing() -> Bench {
    let bench = gateway();
    let config = bench.read("gateway.toml");
    bench.write("gateway.toml", config.replace("ttl = \"30m\"", "ttl = \"2s\"\nrenew = true"));
    bench
}

/// Signs a later registry in place of the current one.
fn put_in_force(bench: &Bench, version: u64, change: impl FnOnce(&mut Value)) {
    let mut draft: Value = serde_json::from_str(&bench.read("draft.json")).unwrap();
    draft["version"] = json!(version);
    change(&mut draft);
    bench.write("draft.json", draft.to_string());
    bench.ok("registry sign draft.json --key op.key --out next.json --force");
    rename(bench.path("next.json"), bench.path("reg.json")).unwrap();
}

fn renewals(bench: &Bench) -> usize {
    bench.entries().iter().filter(|entry| entry["renewed"] == true).count()
}

/// Waits until the session has been renewed `more` more times.
fn await_renewals(bench: &Bench, more: usize) {
    let wanted = renewals(bench) + more;
    for _ in 0..300 {
        if renewals(bench) >= wanted {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the session is not renewed");
}

/// Ends the gateway. Returns the codes of its warnings without those of renewals, and checks that there were some.
fn warnings(client: Client) -> Vec<String> {
    let (code, err) = client.end();
    assert_eq!(code, 0, "{err}");
    let codes = err.lines().map(|line| line.strip_prefix("warning ").unwrap().split(": ").next().unwrap());
    let (renewed, others): (Vec<_>, Vec<_>) = codes.partition(|code| *code == "SESSION_RENEWED");
    assert!(!renewed.is_empty(), "{err}");
    others.into_iter().map(str::to_owned).collect()
}

#[test]
fn renewed_session_goes_on_with_its_limits() {
    let bench = renewing();
    put_in_force(&bench, 1, |draft| {
        for tool in draft["tools"].as_array_mut().unwrap() {
            tool["limits"] = json!({"max_calls": 2});
        }
    });
    let mut client = Client::start(&bench);
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    await_renewals(&bench, 2);
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    assert_eq!(decision(&client.call("search", json!({})))["code"], "CALL_LIMIT");
    assert_eq!(warnings(client), [""; 0]);

    let sessions: Vec<_> = bench.entries().into_iter().filter(|entry| entry["type"] == "session").collect();
    let (first, last) = (&sessions[0], &sessions[sessions.len() - 1]);
    assert_eq!((first.get("renewed"), &last["renewed"]), (None, &json!(true)));
    assert_eq!((&first["session"], &first["ask"]), (&last["session"], &last["ask"]));
    assert_eq!(bench.verified()["tail_bytes"], 0);
    let shown = bench.run("audit show log").out;
    assert!(shown.contains("bot for alice under registry 1: renewed with 2 tools until "), "{shown}");
    let stats = bench.run("stats log --json").value();
    assert_eq!((&stats["total"]["accepted"], &stats["total"]["rejected"]), (&json!(2), &json!(1)));
}

#[test]
fn simulation_of_a_renewed_session_is_determined() {
    let bench = renewing();
    let mut config = bench.read("gateway.toml");
    config = config.replace("[server]", "[record.arguments]\n\"desk:search\" = [\"\"]\n[server]");
    bench.write("gateway.toml", config);
    put_in_force(&bench, 1, |draft| {
        for tool in draft["tools"].as_array_mut().unwrap() {
            tool["limits"] = json!({"max_calls": 2});
        }
    });
    let mut client = Client::start(&bench);
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    await_renewals(&bench, 1);
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    assert_eq!(warnings(client), [""; 0]);
    std::fs::copy(bench.path("reg.json"), bench.path("was.json")).unwrap();
    put_in_force(&bench, 2, |draft| {
        for tool in draft["tools"].as_array_mut().unwrap() {
            tool["limits"] = json!({"max_calls": 1});
        }
    });
    let simulate = "simulate log --trust-root root.json --key log.vkey --json --registry";
    let same = bench.run(&format!("{simulate} was.json --fail-on-change --fail-on-undetermined")).value();
    assert_eq!((&same["total"]["same"], &same["undetermined"]), (&json!(2), &json!(0)));
    let fewer = bench.run(&format!("{simulate} reg.json --was was.json --fail-on-undetermined")).value();
    assert_eq!((&fewer["changed"], &fewer["undetermined"]), (&json!(1), &json!(0)), "{fewer}");
}

#[test]
fn session_of_a_revoked_agent_is_not_renewed() {
    let bench = renewing();
    let client = Client::start(&bench);
    await_renewals(&bench, 1);
    bench.ok("registry revoke reg.json --agent bot --key op.key --out next.json");
    rename(bench.path("next.json"), bench.path("reg.json")).unwrap();
    client.next_notification();
    let mut client = client;
    let refused = client.call("search", json!({}));
    assert_eq!(decision(&refused)["code"], "CONTRACT_EXPIRED");
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with(" Start this server again in the MCP client to open a new session."), "{text}");
    assert_eq!(warnings(client), ["AGENT_REVOKED", "SESSION_EXPIRED"]);
}

#[test]
fn removed_tool_is_gone_after_a_renewal() {
    let bench = renewing();
    let mut client = Client::start(&bench);
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    await_renewals(&bench, 1);
    put_in_force(&bench, 2, |draft| {
        draft["agents"][0]["tools"] = json!([{"server": "desk", "name": "refund"}]);
    });
    client.next_notification();
    assert_eq!(decision(&client.call("search", json!({})))["code"], "UNDISCLOSED_TOOL");
    assert_eq!(warnings(client), [""; 0]);
}

#[test]
fn tool_put_on_is_there_after_a_renewal() {
    let bench = renewing();
    let mut client = Client::start(&bench);
    assert_eq!(decision(&client.call("wipe", json!({})))["code"], "UNDISCLOSED_TOOL");
    await_renewals(&bench, 1);
    put_in_force(&bench, 2, |draft| {
        let wipe =
            draft["tools"].as_array_mut().unwrap().iter_mut().find(|tool| tool["name"] == "wipe").unwrap();
        wipe["approval"] = json!("not_required");
        draft["agents"][0]["tools"].as_array_mut().unwrap().push(json!({"server": "desk", "name": "wipe"}));
    });
    client.next_notification();
    assert_eq!(client.call("wipe", json!({}))["content"][0]["text"], "done");
}

#[test]
fn changed_rules_count_after_a_renewal() {
    let bench = renewing();
    let mut client = Client::start(&bench);
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    put_in_force(&bench, 2, |draft| {
        let tools = draft["tools"].as_array_mut().unwrap();
        tools.iter_mut().find(|tool| tool["name"] == "search").unwrap()["ask"] = json!("required");
    });
    await_renewals(&bench, 2);
    assert_eq!(decision(&client.call("search", json!({})))["code"], "ASK_REQUIRED");
    assert_eq!(
        bench.entries().iter().rfind(|entry| entry["renewed"] == true).unwrap()["registry_version"],
        2
    );
}

#[test]
fn denial_outlasts_a_renewal_in_the_store() {
    let bench = renewing();
    let mut client = Client::start(&bench);
    let refused = client.call("refund", json!({"id": 7}));
    let id = decision(&refused)["approval_id"].as_str().unwrap().to_owned();
    await_renewals(&bench, 1);
    bench.ok(&format!("approve {id} --config gateway.toml --deny --by olga"));
    await_renewals(&bench, 2);
    // Each question deletes the denials that have expired from the store.
    assert_eq!(decision(&client.call("refund", json!({"id": 8})))["code"], "APPROVAL_REQUIRED");
    assert_eq!(decision(&client.call("refund", json!({"id": 7})))["code"], "APPROVAL_DENIED");
    assert_eq!(warnings(client), [""; 0]);
}

#[test]
fn approval_is_used_after_a_renewal() {
    let bench = renewing();
    let mut client = Client::start(&bench);
    let refused = client.call("refund", json!({"id": 7}));
    let id = decision(&refused)["approval_id"].as_str().unwrap().to_owned();
    bench.ok(&format!("approve {id} --config gateway.toml --yes --by olga"));
    await_renewals(&bench, 1);
    assert_eq!(client.call("refund", json!({"id": 7}))["content"][0]["text"], "done");
    assert_eq!(decision(&client.call("refund", json!({"id": 7})))["code"], "APPROVAL_REQUIRED");
}

#[test]
fn renewal_waits_for_the_record() {
    let bench = renewing();
    let mut client = Client::start(&bench);
    await_renewals(&bench, 1);
    rename(bench.path("log"), bench.path("away")).unwrap();
    client.next_notification();
    assert_eq!(decision(&client.call("search", json!({})))["code"], "AUDIT_UNAVAILABLE");
    rename(bench.path("away"), bench.path("log")).unwrap();
    client.next_notification();
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    let told = warnings(client);
    assert!(
        told.contains(&"AUDIT_UNAVAILABLE".to_owned()) && told.contains(&"SESSION_EXPIRED".to_owned()),
        "{told:?}"
    );
    assert_eq!(bench.verified()["tail_bytes"], 0);
}
