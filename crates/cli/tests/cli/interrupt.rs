//! Verbs under a signal, and the end of the server's processes.

#![cfg(target_os = "linux")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::{Bench, RECORD_OPTIONS, unannounced};
use crate::mcp::{Client, gateway};
use crate::{desk, plan_run};

/// Signals, each with the exit code of a process that it ends.
const SIGNALS: [(&str, i32); 3] = [("TERM", 143), ("INT", 130), ("HUP", 129)];

/// Longer than any step of these tests may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server that ignores the end of its input and every signal that can be ignored. Its child process does the same.
const STUBBORN: &str = r#"
import json, os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
with open("pids.txt", "w") as pids:
    pids.write(f"{os.getpid()} {child.pid}")
schema = {"type": "object", "properties": {"query": {"type": "string"}}}
tools = [{"name": "search", "description": "Finds tickets.", "inputSchema": schema}]
results = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}},
    "tools/list": {"tools": tools},
    "tools/call": {"content": [{"type": "text", "text": "done"}]},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    if message["method"] == "tools/call":
        with open("calls.txt", "a") as calls:
            calls.write(line)
        query = message["params"]["arguments"].get("query")
        if query == "hangs":
            continue
        if query == "is slow":
            time.sleep(0.3)
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}), flush=True)
time.sleep(600)
"#;

/// Returns a gateway in front of the stubborn server. Its durability is `system`, which syncs nothing by itself: an orderly end
/// still loses nothing.
fn stubborn() -> Bench {
    let bench = gateway();
    let config = bench.read("gateway.toml");
    bench.write("gateway.toml", config.replace("[server]", "durability = \"system\"\n[server]"));
    bench.write("stubborn.py", STUBBORN);
    bench.write("server.sh", "exec python3 stubborn.py");
    bench
}

/// Waits until the condition holds, at most [`PATIENCE`].
#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_millis() / 20 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}");
}

#[track_caller]
fn wait_for_call(bench: &Bench) {
    wait_until("no call reached the server", || bench.path("calls.txt").exists());
}

/// Checks that the server and its child process are gone.
#[track_caller]
fn no_process_is_left(bench: &Bench) {
    let is_gone = |pid: &str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // It may still be a zombie.
        stat.is_empty() || stat.contains(") Z ")
    };
    let pids = bench.read("pids.txt");
    assert_eq!(pids.split(' ').count(), 2);
    wait_until("a process is left", || pids.split(' ').all(is_gone));
}

fn send(signal: &str, pid: u32) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status().unwrap();
    assert!(sent.success());
}

/// Checks that a checkpoint covers the whole record, which ends with this outcome and the session's end.
#[track_caller]
fn is_closed_after(bench: &Bench, outcome: &str, reason: &str) {
    ends_with(bench, reason);
    let entries = bench.entries();
    assert_eq!(entries[entries.len() - 2]["outcome"], outcome);
}

#[track_caller]
fn ends_with(bench: &Bench, reason: &str) {
    assert_eq!(bench.verified()["tail_bytes"], 0);
    let end = bench.entries().pop().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("end"), &json!(reason)));
}

#[test]
fn each_signal_ends_a_gateway_and_its_servers_group() {
    for (signal, code) in SIGNALS {
        let bench = stubborn();
        let mut client = Client::start(&bench);
        assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
        send(signal, client.pid());
        assert_eq!(client.exit(), (code, String::new()));
        no_process_is_left(&bench);
        is_closed_after(&bench, "returned", "signal");
    }
}

#[test]
fn an_ignored_sigint_ends_a_gateway_as_well() {
    let bench = stubborn();
    let mut child = Command::new("sh")
        .args(["-c", "trap '' INT; exec \"$0\" mcp run --config gateway.toml -- sh server.sh"])
        .arg(env!("CARGO_BIN_EXE_countersign"))
        .current_dir(bench.folder())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("no server", || bench.path("pids.txt").exists() && bench.read("pids.txt").contains(' '));
    send("INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    no_process_is_left(&bench);
}

#[test]
fn a_call_in_flight_is_answered_after_a_signal() {
    let bench = stubborn();
    let mut client = Client::start(&bench);
    let id = client.send("tools/call", json!({"name": "search", "arguments": {"query": "is slow"}}));
    wait_for_call(&bench);
    send("TERM", client.pid());
    assert_eq!(client.answer(id)["result"]["content"][0]["text"], "done");
    assert_eq!(client.exit(), (143, String::new()));
    no_process_is_left(&bench);
    is_closed_after(&bench, "returned", "signal");
}

#[test]
fn a_call_without_an_answer_is_unknown_after_a_signal() {
    let bench = stubborn();
    let mut client = Client::start(&bench);
    let id = client.send("tools/call", json!({"name": "search", "arguments": {"query": "hangs"}}));
    wait_for_call(&bench);
    send("TERM", client.pid());
    assert_eq!(client.answer(id)["error"]["data"]["code"], "GATEWAY_STOPPED");
    assert_eq!(client.exit(), (143, String::new()));
    no_process_is_left(&bench);
    is_closed_after(&bench, "unknown", "signal");
}

#[test]
fn a_signal_shortens_the_end_of_a_gateway_whose_client_left() {
    let bench = stubborn();
    let mut client = Client::start(&bench);
    client.send("tools/call", json!({"name": "search", "arguments": {"query": "hangs"}}));
    wait_for_call(&bench);
    let pid = client.pid();
    client.leave();
    // why: the input must end first. A signal that overtakes it would become the reason.
    std::thread::sleep(Duration::from_millis(500));
    send("TERM", pid);
    assert_eq!(client.exit(), (143, String::new()));
    no_process_is_left(&bench);
    is_closed_after(&bench, "unknown", "client");
}

#[test]
fn a_client_that_leaves_ends_the_servers_group() {
    let bench = stubborn();
    let mut client = Client::start(&bench);
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    assert_eq!(client.end(), (0, String::new()));
    no_process_is_left(&bench);
}

#[test]
fn processes_left_by_a_server_end_with_the_gateway() {
    let bench = stubborn();
    // This server ends with its input.
    bench.write("stubborn.py", STUBBORN.trim_end().trim_end_matches("time.sleep(600)"));
    let client = Client::start(&bench);
    assert_eq!(client.end(), (0, String::new()));
    no_process_is_left(&bench);
}

#[test]
fn a_gateway_that_cannot_start_leaves_no_server() {
    let bench = stubborn();
    bench.write("log", "not a folder");
    let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert_eq!(run.code, 1, "{run:?}");
    if bench.path("pids.txt").exists() {
        no_process_is_left(&bench);
    }
}

#[test]
fn a_signal_ends_check_with_a_checkpoint() {
    for (signal, code) in SIGNALS {
        let bench = desk::open();
        let line = format!(
            "check --registry reg.json --trust-root root.json --agent reader {RECORD_OPTIONS} --record-durability system"
        );
        let mut child: Child = bench
            .command(&line.split_whitespace().collect::<Vec<_>>())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut to = child.stdin.take().unwrap();
        writeln!(to, "{}", json!({"call_id": "c1", "tool": "search", "args": {}})).unwrap();
        let mut answer = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut answer).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&answer).unwrap()["decision"], "accept");
        send(signal, child.id());
        assert_eq!(child.wait().unwrap().code(), Some(code));
        ends_with(&bench, "signal");
        drop(to);
    }
}

#[test]
fn a_signal_halts_the_plan_that_is_run() {
    for (signal, code) in SIGNALS {
        let bench = plan_run::open();
        bench.write("stubborn.py", STUBBORN.replace("\"description\": \"Finds tickets.\", ", ""));
        bench.write("server.sh", "exec python3 stubborn.py");
        let draft = bench.read("draft.json");
        let mut draft: Value = serde_json::from_str(&draft).unwrap();
        for tool in draft["tools"].as_array_mut().unwrap() {
            tool.as_object_mut().unwrap().remove("definition");
        }
        bench.write("draft.json", draft.to_string());
        bench.ok("registry sign draft.json --key op.key --out reg.json --force");
        let steps = json!({"steps": [plan_run::search("hangs"), plan_run::search("never")]});
        bench.write("steps.json", steps.to_string());
        let line = format!(
            "plan run --registry reg.json --trust-root root.json --agent bot --goal Help --session s1 {RECORD_OPTIONS} \
             --record-durability system steps.json -- sh server.sh"
        );
        let child = bench
            .command(&line.split_whitespace().collect::<Vec<_>>())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_call(&bench);
        send(signal, child.id());
        let ended = child.wait_with_output().unwrap();
        let err = unannounced(&String::from_utf8(ended.stderr).unwrap());
        assert_eq!(ended.status.code(), Some(code), "{err}");
        assert_eq!(err, format!("error INTERRUPTED: ended by SIG{signal}\n"));
        no_process_is_left(&bench);
        assert_eq!(plan_run::calls(&bench).len(), 1);
        assert_eq!(plan_run::outcomes(&bench), ["returned", "unknown"]);
        ends_with(&bench, "signal");
        let entries = bench.entries();
        let halt = &entries[entries.len() - 2];
        assert_eq!((&halt["tool"]["name"], &halt["reason"]), (&json!("halt_plan"), &json!("INTERRUPTED")));
    }
}
