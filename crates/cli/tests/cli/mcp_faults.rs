//! The gateway when a disk, a file or a peer fails.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, SERVER, await_hello, decision, gateway};

const RUN: [&str; 7] = ["mcp", "run", "--config", "gateway.toml", "--", "sh", "server.sh"];

/// Waits for a process, and kills it if it takes too long.
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

/// Returns the codes of the messages and reloads that a gateway recorded.
fn gateway_codes(bench: &Bench) -> Vec<String> {
    let entries = bench.entries();
    let entries = entries.iter().filter(|record| record["type"] == "gateway");
    entries.map(|record| record["code"].as_str().unwrap().to_owned()).collect()
}

/// A fault that keeps the mark from being stored, with its beginning and its end.
struct Cause {
    name: &'static str,
    code: &'static str,
    begins: fn(&Bench) -> Option<File>,
    ends: fn(&Bench),
}

const CAUSES: [Cause; 4] = [
    Cause {
        name: "the lock is held by another process",
        code: "REGISTRY_MARK_UNAVAILABLE",
        begins: |bench| {
            let lock = File::open(bench.path("state/mark.json.lock")).unwrap();
            lock.lock().unwrap();
            Some(lock)
        },
        ends: |_| {},
    },
    Cause {
        name: "the folder takes no new file",
        code: "REGISTRY_MARK_UNAVAILABLE",
        begins: |bench| {
            std::fs::create_dir(bench.path("state/mark.json.new")).unwrap();
            None
        },
        ends: |bench| std::fs::remove_dir(bench.path("state/mark.json.new")).unwrap(),
    },
    Cause {
        name: "the volume is gone",
        code: "REGISTRY_MARK_UNAVAILABLE",
        begins: |bench| {
            std::fs::rename(bench.path("state"), bench.path("away")).unwrap();
            bench.write("state", "");
            None
        },
        ends: |bench| {
            std::fs::remove_file(bench.path("state")).unwrap();
            std::fs::rename(bench.path("away"), bench.path("state")).unwrap();
        },
    },
    Cause {
        name: "the mark is corrupt",
        code: "REGISTRY_MARK_CORRUPT",
        begins: |bench| {
            std::fs::rename(bench.path("state/mark.json"), bench.path("good.json")).unwrap();
            bench.write("state/mark.json", "{}");
            None
        },
        ends: |bench| std::fs::rename(bench.path("good.json"), bench.path("state/mark.json")).unwrap(),
    },
];

/// Returns a gateway whose mark has its own folder, and whose registry lists a second agent.
fn gateway_with_state() -> Bench {
    let bench = gateway();
    std::fs::create_dir(bench.path("state")).unwrap();
    let config = bench.read("gateway.toml").replace("\"mark.json\"", "\"state/mark.json\"");
    bench.write("gateway.toml", config);
    let mut draft: Value = serde_json::from_str(&bench.read("draft.json")).unwrap();
    let mut other = draft["agents"][0].clone();
    other["agent"] = json!("other");
    draft["agents"].as_array_mut().unwrap().push(other);
    bench.write("draft.json", draft.to_string());
    bench.ok("registry sign draft.json --key op.key --out reg.json --force");
    bench
}

/// Makes a hundred calls, none of which may run or wait. Returns the codes of their refusals.
#[expect(clippy::disallowed_methods, reason = "how long a call waits is what is promised")]
fn hundred_refusals(bench: &Bench, client: &mut Client) -> BTreeSet<String> {
    let ran = bench.read("calls.txt").lines().count();
    let mut codes = BTreeSet::new();
    for _ in 0..100 {
        let started = Instant::now();
        codes.insert(decision(&client.call("search", json!({})))["code"].as_str().unwrap().to_owned());
        // The documentation promises 100 ms on an idle machine. A start waits five seconds for a lock.
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
    assert_eq!(bench.read("calls.txt").lines().count(), ran, "a call ran");
    codes
}

/// Calls until the answer is as expected. The next retry may be five seconds away.
fn calls_until(client: &mut Client, expected: impl Fn(&Value) -> bool) -> bool {
    for _ in 0..200 {
        if expected(&client.call("search", json!({}))) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    false
}

fn runs(answer: &Value) -> bool {
    answer["content"][0]["text"] == "done"
}

#[test]
fn no_call_runs_while_a_revocation_cannot_be_stored() {
    for Cause { name, code, begins, ends } in CAUSES {
        let bench = gateway_with_state();
        let mut client = Client::start(&bench);
        assert!(runs(&client.call("search", json!({}))), "{name}");
        let held = begins(&bench);
        bench.ok("registry revoke reg.json --agent bot --key op.key --out reg.json --force");
        let codes = hundred_refusals(&bench, &mut client);
        assert_eq!(codes, BTreeSet::from(["AGENT_REVOKED".to_owned()]), "{name}");
        drop(held);
        ends(&bench);
        let (exit, err) = client.end();
        assert_eq!((exit, err.lines().count()), (0, 1), "{name}: {err}");
        assert_eq!(gateway_codes(&bench), [code], "{name}");
    }
}

#[test]
fn other_agents_wait_until_a_revocation_is_stored() {
    for Cause { name, begins, ends, .. } in CAUSES {
        let bench = gateway_with_state();
        let mut client = Client::start(&bench);
        assert!(runs(&client.call("search", json!({}))), "{name}");
        let held = begins(&bench);
        bench.ok("registry revoke reg.json --agent other --key op.key --out reg.json --force");
        let codes = hundred_refusals(&bench, &mut client);
        assert_eq!(codes, BTreeSet::from(["REGISTRY_STALE".to_owned()]), "{name}");
        drop(held);
        ends(&bench);
        assert!(calls_until(&mut client, runs), "{name}: it does not recover");
        client.end();
        let mark: Value = serde_json::from_str(&bench.read("state/mark.json")).unwrap();
        assert_eq!(mark["version"], 2, "{name}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_revocation_counts_on_a_full_disk() {
    let bench = gateway_with_state();
    // As on a full disk, no file can grow beyond 128 KiB. The log stays below that, the mark would not.
    let mut client = Client::start_under(&bench, "trap '' XFSZ; ulimit -f 256");
    assert!(runs(&client.call("search", json!({}))));
    let mut draft: Value = serde_json::from_str(&bench.read("draft.json")).unwrap();
    draft["version"] = json!(2);
    let keys: Vec<_> = (0..4_000).map(|n| format!("a-key-that-was-revoked-once-{n:016}")).collect();
    draft["revoked"]["keys"] = json!(keys);
    bench.write("draft.json", draft.to_string());
    bench.ok("registry sign draft.json --key op.key --out reg.json --force");
    assert_eq!(hundred_refusals(&bench, &mut client), BTreeSet::from(["REGISTRY_STALE".to_owned()]));
    client.end();
    assert_eq!(gateway_codes(&bench), ["REGISTRY_MARK_UNAVAILABLE"]);
    let mark: Value = serde_json::from_str(&bench.read("state/mark.json")).unwrap();
    assert_eq!(mark["version"], 1);
}

#[test]
fn each_failed_reload_is_recorded_once() {
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
            "check --registry reg.json --trust-root root.json --agent bot --no-record --state pipe",
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
fn child_processes_end_with_the_server() {
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
    // A process that has ended may stay a zombie: no parent may be there to collect it.
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
