//! What the gateway does when a disk, a file or a peer does not do its part.

#![cfg(unix)]

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::bench::Bench;
use crate::mcp::{Client, SERVER, await_hello, decision, gateway};

const RUN: [&str; 7] = ["mcp", "run", "--config", "gateway.toml", "--", "sh", "server.sh"];

/// Waits for a process, and ends it when it takes too long.
fn ends_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    for _ in 0..limit.as_millis() / 20 {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The codes of the messages and reloads that a gateway put on record.
fn gateway_codes(bench: &Bench) -> Vec<String> {
    let entries = bench.entries();
    let entries = entries.iter().filter(|record| record["type"] == "gateway");
    entries.map(|record| record["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_revocation_is_not_lost_to_a_failure_that_passes() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    std::fs::create_dir(bench.path("mark.json.new")).unwrap();
    bench.ok("registry revoke reg.json --agent bot --key op.key --out reg.json --force");
    for _ in 0..2 {
        assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    }
    std::fs::remove_dir(bench.path("mark.json.new")).unwrap();
    assert_eq!(decision(&client.call("search", json!({})))["code"], "AGENT_REVOKED");
    let (code, err) = client.end();
    assert_eq!((code, err.lines().count()), (0, 1), "{err}");
    assert_eq!(gateway_codes(&bench), ["REGISTRY_MARK_UNAVAILABLE"]);
}

#[test]
fn each_failed_reload_is_on_record_once() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    let good = bench.read("reg.json");
    let call = |client: &mut Client| client.call("search", json!({}))["content"][0]["text"] == "done";
    assert!(call(&mut client));
    for noise in ["noise", "other noise"] {
        bench.write("reg.json", noise);
        assert!(call(&mut client) && call(&mut client));
    }
    std::fs::remove_file(bench.path("reg.json")).unwrap();
    assert!(call(&mut client) && call(&mut client));
    make_fifo(&bench.path("reg.json"));
    assert!(call(&mut client) && call(&mut client));
    std::fs::remove_file(bench.path("reg.json")).unwrap();
    bench.write("reg.json", good);
    assert!(call(&mut client));
    let (code, err) = client.end();
    assert_eq!((code, err.lines().count()), (0, 4), "{err}");
    let codes = ["REGISTRY_ENVELOPE", "REGISTRY_ENVELOPE", "FILE_MISSING", "FILE_UNREADABLE"];
    assert_eq!(gateway_codes(&bench), codes);
}

#[test]
fn no_verb_waits_for_the_writer_of_a_pipe() {
    let bench = gateway();
    make_fifo(&bench.path("pipe"));
    std::fs::create_dir(bench.path("pipes")).unwrap();
    make_fifo(&bench.path("pipes/000000000001.jsonl"));
    let lines = [
        ("registry lint pipe", "FILE_UNREADABLE"),
        ("registry verify pipe --trust-root root.json", "FILE_UNREADABLE"),
        ("mcp run --config pipe -- true", "FILE_UNREADABLE"),
        ("stats pipe", "AUDIT_UNAVAILABLE"),
        ("audit verify pipe --key log.vkey", "AUDIT_UNAVAILABLE"),
        ("stats pipes", "AUDIT_UNAVAILABLE"),
        ("audit tail pipes", "AUDIT_UNAVAILABLE"),
        ("audit verify pipes --key log.vkey", "AUDIT_UNAVAILABLE"),
        (
            "check --registry reg.json --trust-root root.json --agent bot --state pipe",
            "REGISTRY_MARK_UNAVAILABLE",
        ),
    ];
    for (line, code) in lines {
        let mut child = bench
            .command(&line.split_whitespace().collect::<Vec<_>>())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let status = ends_within(&mut child, Duration::from_secs(10));
        let err = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert!(status.is_some_and(|status| !status.success()), "{line}: {status:?} {err}");
        assert!(err.starts_with(&format!("error {code}: ")), "{line}: {err}");
    }
}

#[test]
fn a_client_that_does_not_read_does_not_keep_the_gateway_alive() {
    let bench = gateway();
    let big = r#""text":"%s"}]}}\n' "$id" "$(head -c 900000 /dev/zero | tr '\0' a)""#;
    let server = SERVER.replace(r#""text":"done"}]}}\n' "$id""#, big);
    assert_ne!(server, SERVER);
    bench.write("server.sh", server);
    let mut child = bench.command(&RUN).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}
        }}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "search", "arguments": {}}}),
    ];
    for message in messages {
        writeln!(to, "{message}").unwrap();
        if message["method"] == "initialize" {
            await_hello(&mut child);
        }
    }
    drop(to);
    let status = ends_within(&mut child, Duration::from_secs(40));
    assert_eq!(status.and_then(|status| status.code()), Some(0));
    assert_eq!(bench.read("calls.txt").lines().count(), 1);
}

#[test]
#[cfg(target_os = "linux")]
fn what_the_server_started_ends_with_it() {
    let bench = gateway();
    bench.write("server.sh", "sh -c 'echo $$ > pid.part; mv pid.part pid; exec sleep 600'\n:\n");
    let mut child = bench.command(&RUN).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    for _ in 0..1_000 {
        if bench.path("pid").exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let stat = format!("/proc/{}/stat", bench.read("pid").trim());
    drop(child.stdin.take());
    assert!(ends_within(&mut child, Duration::from_secs(40)).is_some());
    // Nobody may be there to collect it, but it does not run any more.
    let runs = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
    for _ in 0..100 {
        if !runs() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = Command::new("kill").args(["-KILL", bench.read("pid").trim()]).status();
    panic!("the server's own child is still running");
}
