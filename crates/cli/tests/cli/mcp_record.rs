//! The record of a gateway that ends, and of a gateway whose record fails.

#![cfg(unix)]

use std::fs::{OpenOptions, rename};
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::bench::{Bench, unannounced};
use crate::mcp::{Client, SERVER, await_hello, decision, gateway};

const SEGMENT: &str = "log/000000000001.jsonl";

/// Returns a gateway with durability `system`, which leaves syncing to the operating system.
fn under_system() -> Bench {
    let bench = gateway();
    let config = bench.read("gateway.toml");
    bench.write("gateway.toml", config.replace("[server]", "durability = \"system\"\n[server]"));
    bench
}

/// Checks that a checkpoint covers the whole record, up to the last call's outcome and the session's end.
fn is_closed(bench: &Bench, round: u64, outcome: &str) {
    let told = bench.verified();
    assert_eq!(told["tail_bytes"], 0, "round {round}: {told}");
    let entries = bench.entries();
    let [.., last, end] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!((&end["seq"], &end["type"]), (&told["records"], &json!("end")), "round {round}");
    assert_eq!(last["outcome"], outcome, "round {round}");
}

/// Cuts the last ten bytes off a log's segment.
fn cut(bench: &Bench, segment: &str) {
    let file = OpenOptions::new().write(true).open(bench.path(segment)).unwrap();
    file.set_len(file.metadata().unwrap().len() - 10).unwrap();
}

#[test]
fn checkpoint_covers_all_records_after_the_client_ends() {
    let bench = under_system();
    for round in 0..12 {
        let mut client = Client::start(&bench);
        assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
        assert_eq!(client.end(), (0, String::new()));
        is_closed(&bench, round, "returned");
    }
}

#[test]
fn checkpoint_covers_all_records_after_the_server_ends() {
    let bench = under_system();
    let server = SERVER.replace("printf '%s\\n' \"$line\" >> calls.txt", "exit 0");
    assert_ne!(server, SERVER);
    bench.write("server.sh", server);
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}
        }}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {}}}),
    ];
    for round in 0..8 {
        let mut child = bench
            .command(&["mcp", "run", "--config", "gateway.toml", "--", "sh", "server.sh"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut to = child.stdin.take().unwrap();
        for message in &messages {
            writeln!(to, "{message}").unwrap();
            if message["method"] == "initialize" {
                await_hello(&mut child);
            }
        }
        // The client does not close its side: only the server's end ends the gateway.
        let ended = child.wait_with_output().unwrap();
        let err = unannounced(&String::from_utf8(ended.stderr).unwrap());
        assert_eq!(ended.status.code(), Some(1), "{err}");
        assert!(err.starts_with("error SERVER_ENDED: ") && err.lines().count() == 1, "{err}");
        is_closed(&bench, round, "unknown");
        drop(to);
    }
}

#[test]
fn failing_record_is_reported_once_before_the_end() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    cut(&bench, SEGMENT);
    for _ in 0..3 {
        assert_eq!(decision(&client.call("search", json!({})))["code"], "AUDIT_UNAVAILABLE");
    }
    let (code, err) = client.end();
    let told: Vec<_> = err.lines().collect();
    assert_eq!((code, told.len()), (1, 2), "{err}");
    let fails =
        "warning AUDIT_CORRUPT: `log`: recording failed, calls are refused: the record is damaged at ";
    assert!(told[0].starts_with(fails), "{err}");
    let ended = "error AUDIT_CORRUPT: `log`: the record could not be closed: the record is damaged at ";
    assert!(told[1].starts_with(ended), "{err}");
}

#[test]
fn resumed_record_is_reported_once() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    for _ in 0..2 {
        rename(bench.path("log"), bench.path("away")).unwrap();
        for _ in 0..2 {
            assert_eq!(decision(&client.call("search", json!({})))["code"], "AUDIT_UNAVAILABLE");
        }
        rename(bench.path("away"), bench.path("log")).unwrap();
        for _ in 0..2 {
            assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
        }
    }
    let (code, err) = client.end();
    let told: Vec<_> = err.lines().map(|line| line.split(": ").next().unwrap()).collect();
    let (fails, works) = ("warning AUDIT_REPLACED", "warning AUDIT_RESUMED");
    assert_eq!((code, told), (0, vec![fails, works, fails, works]), "{err}");
    assert_eq!(bench.verified()["tail_bytes"], 0);
}

#[test]
fn outage_leaves_a_recorded_gap() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    let refused = |client: &mut Client, calls: u64| {
        rename(bench.path("log"), bench.path("away")).unwrap();
        for _ in 0..calls {
            assert_eq!(decision(&client.call("search", json!({})))["code"], "AUDIT_UNAVAILABLE");
        }
    };
    refused(&mut client, 3);
    rename(bench.path("away"), bench.path("log")).unwrap();
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    // The gateway ends during the second outage.
    refused(&mut client, 2);
    assert_eq!(client.end().0, 1);
    rename(bench.path("away"), bench.path("log")).unwrap();
    assert_eq!(Client::start(&bench).end().0, 0);
    let entries = bench.entries();
    let gaps: Vec<_> = entries.iter().filter(|entry| entry["type"] == "gap").collect();
    let told = |gap: &Value| (gap["reason"].clone(), gap["answers"].clone());
    let due = |count: u64| (json!("AUDIT_REPLACED"), json!([{"code": "AUDIT_UNAVAILABLE", "count": count}]));
    assert_eq!(gaps.iter().map(|gap| told(gap)).collect::<Vec<_>>(), [due(3), due(2)]);
    assert_eq!(gaps[0]["seq"], 3, "it comes before the call that passes");
    let shown = bench.run("audit show log").out;
    assert!(shown.contains(" (AUDIT_REPLACED): AUDIT_UNAVAILABLE 3\n"), "{shown}");
}

#[test]
fn record_failure_found_at_the_end_is_a_failure() {
    let bench = gateway();
    let config = bench.read("gateway.toml");
    bench.write("gateway.toml", config.replace("\"log\"", r#""lo\u001b[2Jg""#));
    let mut client = Client::start(&bench);
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    cut(&bench, "lo\u{1b}[2Jg/000000000001.jsonl");
    let (code, err) = client.end();
    assert_eq!((code, err.lines().count()), (1, 2), "{err}");
    let (fails, ended) = err.split_once('\n').unwrap();
    assert!(fails.starts_with("warning AUDIT_CORRUPT: `lo\\u{1b}[2Jg`: recording failed"), "{err}");
    assert!(
        ended.starts_with("error AUDIT_CORRUPT: `lo\\u{1b}[2Jg`: the record could not be closed"),
        "{err}"
    );
}

#[test]
fn damage_before_the_state_refuses_every_call() {
    let bench = under_system();
    let mut client = Client::start(&bench);
    for _ in 0..150 {
        client.call("search", json!({}));
    }
    assert_eq!(client.end(), (0, String::new()));
    let text = bench.read(SEGMENT);
    let changed = text.replacen("\"name\":\"search\"", "\"name\":\"seerch\"", 1);
    assert!(changed != text && bench.path("log/000000000001.side").exists());
    bench.write(SEGMENT, changed);
    let mut client = Client::start_refusable(&bench);
    if client.hello["result"].is_object() {
        let refused =
            (0..10_000).map(|_| client.call("search", json!({}))).find(|answer| answer["isError"] == true);
        assert_eq!(decision(&refused.unwrap())["code"], "AUDIT_UNAVAILABLE");
        assert_eq!(decision(&client.call("search", json!({})))["code"], "AUDIT_UNAVAILABLE");
    } else {
        // The gateway found the damage before it recorded the server's entry.
        assert_eq!(client.hello["error"]["data"]["code"], "AUDIT_UNAVAILABLE");
    }
    let (code, err) = client.end();
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("warning AUDIT_CORRUPT: `log`: recording failed, calls are refused"), "{err}");
}

#[test]
fn cause_of_the_end_outranks_a_record_failure() {
    let bench = gateway();
    let server = SERVER.replace("printf '%s\\n' \"$line\" >> calls.txt", "mv log away; exit 0");
    assert_ne!(server, SERVER);
    bench.write("server.sh", server);
    let mut client = Client::start(&bench);
    let answer = client.ask("tools/call", json!({"name": "search", "arguments": {}}));
    assert_eq!(answer["error"]["data"]["code"], "SERVER_ENDED");
    let (code, err) = client.end();
    let told: Vec<_> = err.lines().map(|line| line.split(": ").next().unwrap()).collect();
    let warning = "warning AUDIT_REPLACED";
    // Neither the call's outcome nor a later checkpoint could be recorded.
    assert_eq!((code, told), (1, vec![warning, warning, "error SERVER_ENDED"]), "{err}");
}

#[test]
fn session_expiry_is_reported_to_client_and_operator() {
    let bench = gateway();
    let config = bench.read("gateway.toml");
    bench.write("gateway.toml", config.replace("ttl = \"30m\"", "ttl = \"3s\""));
    let mut client = Client::start(&bench);
    assert_eq!(client.next_notification()["method"], "notifications/tools/list_changed");
    let refused = client.call("search", json!({}));
    assert_eq!(decision(&refused)["code"], "CONTRACT_EXPIRED");
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with(" Start this server again in the MCP client to open a new session."), "{text}");
    let told = "warning SESSION_EXPIRED: the session's time is over: every call is refused until the client starts the server again\n";
    assert_eq!(client.end(), (0, told.to_owned()));
}
