#![cfg(unix)]

use std::process::Stdio;

use serde_json::{Value, json};

use crate::bench::{Bench, RECORD_OPTIONS, Run, unannounced};

/// Shell script of a server with three tools. It logs each call and its own end. The query of a call selects the server's
/// behaviour.
const SERVER: &str = r#"
title=first wire=first
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"id":\([0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      answer '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      answer '"result":{"tools":[{"name":"search","title":"'$title'","inputSchema":{"type":"object"}},{"name":"mail","inputSchema":{"type":"object"}},{"name":"wire","title":"'$wire'","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
      printf '%s\n' "$line" >> calls.txt
      case "$line" in
        *'"query":"says no"'*) answer '"result":{"content":[{"type":"text","text":"SECRET"}],"isError":true}' ;;
        *'"query":"is wrong"'*) answer '"error":{"code":1,"message":"SECRET"}' ;;
        *'"query":"hangs"'*) ;;
        *'"query":"dies"'*) exit 7 ;;
        *'"query":"takes the log"'*) mv log elsewhere; answer '"result":{"content":[],"isError":true}' ;;
        *'"query":"garbles"'*) echo SECRET ;;
        *'"query":"says null"'*) answer '"result":null' ;;
        *'"query":"says text"'*) answer '"result":"SECRET"' ;;
        *'"query":"says no in text"'*) answer '"result":{"content":[],"isError":"true"}' ;;
        *'"query":"says both"'*) answer '"result":{"content":[]},"error":{"code":1,"message":"SECRET"}' ;;
        *'"query":"says neither"'*) answer '"results":{}' ;;
        *'"query":"is of another protocol"'*) printf '{"id":%s,"result":{"content":[]}}\n' "$id" ;;
        *'"query":"naps"'*) answer '"result":{}'; exec sleep 600 ;;
        *'"query":"asks"'*)
          printf '{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{}}\n'
          read -r told; printf '%s\n' "$told" >> told.txt
          answer '"result":{"content":[]}' ;;
        *'"query":"changes the wire"'*)
          wire=second
          printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
          answer '"result":{"content":[]}' ;;
        *'"query":"changes"'*)
          title=second
          printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
          answer '"result":{"content":[]}' ;;
        *) answer '"result":{"content":[{"type":"text","text":"found \u001b[2J\u202e"}],"isError":false}' ;;
      esac ;;
  esac
done
echo ended >> ended.txt
"#;

const RUN: &str = "plan run --registry reg.json --trust-root root.json --agent bot --goal Help";

/// Returns keys and a registry drafted from the server: `search` is free, `mail` needs an approval, `wire` one for each call.
pub(crate) fn open() -> Bench {
    let bench = Bench::new();
    bench.write("server.sh", SERVER);
    bench.ok("keys generate --kind ed25519 --out op.key --public-out op.pub");
    bench.ok("keys generate --kind hmac --out gate.key");
    bench.log_key();
    bench.ok("keys trust --threshold 1 --out root.json op.pub");
    let run = bench.run("mcp inspect --name desk --agent bot -- sh server.sh");
    let mut draft: Value = serde_json::from_str(&run.out).unwrap();
    for tool in draft["tools"].as_array_mut().unwrap() {
        let (impact, approval) = match tool["name"].as_str().unwrap() {
            "search" => ("read", "not_required"),
            "mail" => ("external", "required"),
            _ => ("money", "each_call"),
        };
        tool["impact"] = json!(impact);
        tool["approval"] = json!(approval);
        tool["data_args"] = json!(["/body", "/query"]);
    }
    bench.write("draft.json", draft.to_string());
    bench.ok("registry sign draft.json --key op.key --out reg.json");
    bench
}

/// Runs steps in the session `s1` with further options.
pub(crate) fn run(bench: &Bench, steps: &Value, more: &[&str]) -> Run {
    bench.write("steps.json", steps.to_string());
    let args = RUN
        .split_whitespace()
        .chain(RECORD_OPTIONS.split_whitespace())
        .chain(["steps.json", "--session", "s1"])
        .chain(more.iter().copied());
    let args: Vec<_> = args.chain(["--", "sh", "server.sh"]).collect();
    bench.run_args(&args, "")
}

pub(crate) fn search(query: &str) -> Value {
    json!({"tool": "desk:search", "args": {"query": query}})
}

pub(crate) fn mail() -> Value {
    json!({"tool": "desk:mail", "args": {"to": "ada", "body": "<DYNAMIC>"}, "description": "answer"})
}

pub(crate) fn lines(bench: &Bench, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(bench.path(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Returns the arguments of every call that reached the server.
pub(crate) fn calls(bench: &Bench) -> Vec<Value> {
    let calls = lines(bench, "calls.txt");
    calls
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["params"]["arguments"].clone())
        .collect()
}

#[track_caller]
pub(crate) fn ends(run: &Run, exit: i32, code: &str) {
    assert_eq!(run.code, exit, "{run:?}");
    assert!(run.err.starts_with(&format!("error {code}: ")), "{run:?}");
    assert!(!run.err.contains("panicked") && !run.out.contains("SECRET"), "{run:?}");
}

pub(crate) fn outcomes(bench: &Bench) -> Vec<Value> {
    let entries = bench.entries();
    entries.iter().filter(|entry| entry["type"] == "outcome").map(|entry| entry["outcome"].clone()).collect()
}

#[test]
fn every_step_runs_and_is_shown_when_all_have() {
    let bench = open();
    bench.write("fill.json", r#"{"2":{"query":"the second"}}"#);
    let steps = json!([search("the first"), search("<DYNAMIC>")]);
    let ran = run(&bench, &steps, &["--fill", "fill.json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(calls(&bench), [json!({"query": "the first"}), json!({"query": "the second"})]);
    let text: Vec<_> = ran.out.lines().collect();
    assert!(
        text[0].starts_with("plan ") && text[0].ends_with(" started: 2 steps, session s1, registry 1"),
        "{ran:?}"
    );
    assert_eq!(text[1], "step 1 of 2  desk:search  verified, runs");
    assert_eq!(text[2], "step 2 of 2  desk:search  verified, runs");
    let root = text[0].split_whitespace().nth(1).unwrap();
    assert_eq!(text[3], format!("the plan's root was found again: {root}"));
    // Invisible characters in the server's answer are escaped, and the server was left to end by itself.
    assert!(ran.out.contains(r#""text": "found \u001b[2J\u202e""#), "{ran:?}");
    assert!(!ran.out.contains(['\u{1b}', '\u{202e}']), "{ran:?}");
    assert_eq!(
        lines(&bench, "ended.txt"),
        ["ended", "ended"],
        "once for `mcp inspect`, and once for the run"
    );
    // The record has the plan's start, each call as a step of the plan, and the plan's end.
    assert_eq!(outcomes(&bench), ["returned"; 4]);
    let shown = bench.run("audit show log --verdict accept").out;
    assert!(shown.contains("/step-2 desk:search (step 2 of the plan) accept"), "{shown}");
    assert_eq!(shown.matches("countersign:finish_plan (no call) accept").count(), 1, "{shown}");
    assert_eq!(shown.matches(" of the plan)").count(), 2, "the start is no step: {shown}");
}

#[test]
fn plan_run_reports_the_same_as_json() {
    let bench = open();
    let text = run(&bench, &json!([search("x")]), &[]).done();
    assert!(text.contains(" started: 1 step, session s1, registry 1\n"), "{text}");
    let ran = run(&bench, &json!([search("x")]), &["--json"]);
    let told: Vec<Value> = ran.done().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.len(), 3);
    assert_eq!((&told[0]["event"], &told[0]["approved"]), (&json!("started"), &json!(false)));
    assert_eq!((&told[1]["event"], &told[1]["step"]), (&json!("verified"), &json!(1)));
    assert_eq!(told[1]["call_id"], format!("{}/step-1", told[0]["root"].as_str().unwrap()));
    assert_eq!((&told[2]["ok"], &told[2]["root"]), (&json!(true), &told[0]["root"]));
    let step = &told[2]["trace"][0];
    assert_eq!((&step["record"], &step["args_digest"]), (&told[1]["record"], &told[1]["args_digest"]));
    let result: Value = serde_json::from_str(step["result"].as_str().unwrap()).unwrap();
    assert_eq!(result["content"][0]["text"], "found \u{1b}[2J\u{202e}");
}

#[test]
fn repeatable_step_runs_once_for_each_fill() {
    let bench = open();
    bench.write("fill.json", r#"{"1":[{"query":"a"},{"query":"b"}],"2":[{},{}]}"#);
    let mut steps = json!([search("<DYNAMIC>"), search("c")]);
    steps[0]["max_calls"] = json!(2);
    steps[1]["max_calls"] = json!(3);
    let ran = run(&bench, &steps, &["--fill", "fill.json", "--json"]).done();
    let queries: Vec<_> = calls(&bench).iter().map(|args| args["query"].clone()).collect();
    assert_eq!(queries, ["a", "b", "c", "c"]);
    let ids = ["step-1-1", "step-1-2", "step-2-1", "step-2-2"];
    assert!(ids.iter().all(|id| ran.contains(&format!("/{id}\""))), "{ran}");
}

#[test]
fn invalid_plan_run_starts_nothing() {
    let bench = open();
    let fill = |fill: &str| {
        bench.write("fill.json", fill);
        run(&bench, &json!([search("x"), mail()]), &["--fill", "fill.json"])
    };
    ends(&run(&bench, &json!([mail()]), &[]), 1, "FILL_MISSING");
    ends(&fill("{}"), 1, "FILL_MISSING");
    ends(&fill(r#"{"2":{"body":"x","to":"eve"}}"#), 1, "FILL_NOT_OPEN");
    ends(&fill(r#"{"1":{"query":"y"},"2":{"body":"x"}}"#), 1, "FILL_NOT_OPEN");
    ends(&fill(r#"{"3":{},"2":{"body":"x"}}"#), 1, "FILL_NO_SUCH_STEP");
    ends(&fill(r#"{"2":[{"body":"x"},{"body":"y"}]}"#), 1, "FILL_CALLS");
    ends(&fill(&format!(r#"{{"2":{{"body":"{}"}}}}"#, "x".repeat(1 << 20))), 1, "JSON_TOO_LARGE");
    ends(&fill("[]"), 1, "FILL_SHAPE");
    ends(&fill(""), 1, "JSON_UNEXPECTED_END");
    ends(&fill(r#"{"2":{},"2":{"body":"x"}}"#), 1, "JSON_DUPLICATE_NAME");
    ends(&fill(&" ".repeat(10 << 20)), 1, "JSON_TOO_LARGE");
    ends(
        &run(&bench, &json!([{"tool": "mail:send", "args": {}}]), &["--server", "desk"]),
        1,
        "PLAN_OTHER_SERVER",
    );
    ends(&run(&bench, &json!([search("x"), {"tool": "mail:send", "args": {}}]), &[]), 1, "PLAN_OTHER_SERVER");
    ends(&run(&bench, &json!([{"tool": "desk:wipe", "args": {}}]), &[]), 3, "PLAN_TOOL_UNDISCLOSED");
    ends(
        &run(&bench, &json!([{"tool": "desk:mail", "args": {"to": "<DYNAMIC>"}}]), &["--fill", "no.json"]),
        1,
        "FILE_MISSING",
    );
    ends(&run(&bench, &json!([]), &[]), 1, "PLAN_EMPTY");
    let plain = "plan run steps.json --registry reg.json --trust-root root.json --agent bot";
    bench.write("steps.json", json!([search("x")]).to_string());
    bench.fails(&format!("{plain} -- sh server.sh"), 3, "PLAN_NO_GOAL");
    bench.fails(&format!("{plain} --goal Help"), 2, "USAGE");
    bench.fails(&format!("{plain} --goal Help --config x.toml -- sh server.sh"), 2, "USAGE");
    bench.fails("plan run steps.json -- sh server.sh", 2, "USAGE");
    bench.fails("plan run - --config x.toml --fill - -- sh server.sh", 2, "USAGE");
    bench.fails("plan run steps.json --config nowhere.toml -- sh server.sh", 1, "FILE_MISSING");
    bench.fails(&format!("{plain} --goal Help --step-approval x -- sh server.sh"), 2, "USAGE");
    bench.fails(&format!("{plain} --goal Help -- ./no-such-server"), 1, "SERVER_START");
    bench.fails(&format!("{plain} --goal Help -- true"), 1, "SERVER_ENDED");
    assert_eq!(calls(&bench), Vec::<Value>::new());
    assert!(!bench.path("log").exists());
}

#[test]
fn fill_that_breaks_the_schema_starts_nothing() {
    let bench = open();
    let mut draft: Value = serde_json::from_str(&bench.read("draft.json")).unwrap();
    for tool in draft["tools"].as_array_mut().unwrap() {
        tool["args_schema"] = json!({"type": "object", "properties": {"body": {"type": "string"}}});
    }
    bench.write("draft.json", draft.to_string());
    bench.ok("registry sign draft.json --key op.key --out reg.json --force");
    bench.write("fill.json", r#"{"2":{"body":7}}"#);
    let filled =
        run(&bench, &json!([search("x"), mail()]), &["--fill", "fill.json", "--approval-key", "gate.key"]);
    ends(&filled, 3, "ARGS_SCHEMA");
    assert!(filled.err.contains("step 2 (desk:mail): the argument at `/body`") && filled.out.is_empty());
    assert!(calls(&bench).is_empty() && !bench.path("log").exists());
}

#[test]
fn failed_tool_ends_the_run_without_a_result() {
    let bench = open();
    for (query, exit, code) in [
        ("says no", 1, "PLAN_STEP_FAILED"),
        ("is wrong", 1, "PLAN_STEP_FAILED"),
        ("hangs", 1, "SERVER_TIMEOUT"),
        ("dies", 1, "SERVER_ENDED"),
        ("garbles", 1, "SERVER_ANSWER"),
        ("says null", 1, "PLAN_STEP_FAILED"),
        ("says text", 1, "PLAN_STEP_FAILED"),
        ("says no in text", 1, "PLAN_STEP_FAILED"),
        ("says both", 1, "SERVER_ANSWER"),
        ("says neither", 1, "SERVER_ANSWER"),
        ("is of another protocol", 1, "SERVER_ANSWER"),
    ] {
        let steps = json!([search("first"), search(query), search("third")]);
        let ran = run(&bench, &steps, &["--wait", "2s"]);
        ends(&ran, exit, code);
        assert!(!ran.out.contains("found"), "{ran:?}");
        assert_eq!(calls(&bench).len(), 2, "the third is never asked for");
        std::fs::remove_file(bench.path("calls.txt")).unwrap();
        let entries = bench.entries();
        let [.., halt, end] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!((&halt["tool"]["name"], &halt["reason"]), (&json!("halt_plan"), &json!(code)));
        assert_eq!((&end["type"], &end["reason"]), (&json!("end"), &json!("error")));
        let last = outcomes(&bench).pop().unwrap();
        assert_eq!(last, if code == "PLAN_STEP_FAILED" { "failed" } else { "unknown" }, "{query}");
    }
}

#[test]
fn run_with_a_closed_output_makes_no_call() {
    let bench = open();
    bench.write("steps.json", json!([search("x")]).to_string());
    let line = format!("{RUN} steps.json {RECORD_OPTIONS} --session s1 -- sh server.sh");
    let mut command = bench.command(&line.split_whitespace().collect::<Vec<_>>());
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let run = child.wait_with_output().unwrap();
    let err = unannounced(&String::from_utf8(run.stderr).unwrap());
    assert!(run.status.code() == Some(1) && err.starts_with("error OUTPUT_CLOSED: "), "{err}");
    assert!(calls(&bench).is_empty(), "no call is made of which nobody is told");
    let entries = bench.entries();
    let halt = &entries[entries.len() - 2];
    assert_eq!((&halt["tool"]["name"], &halt["reason"]), (&json!("halt_plan"), &json!("OUTPUT_CLOSED")));
}

#[test]
fn unrecorded_halt_is_reported() {
    let bench = open();
    let ran = run(&bench, &json!([search("takes the log"), search("x")]), &[]);
    let told: Vec<_> = ran.err.lines().collect();
    assert_eq!((ran.code, told.len()), (1, 3), "{ran:?}");
    assert!(told[0].starts_with("warning AUDIT_REPLACED: `log`: recording failed, "), "{ran:?}");
    assert!(told[1].starts_with("warning AUDIT_UNAVAILABLE: the halt of the plan "), "{ran:?}");
    assert!(told[2].starts_with("error PLAN_STEP_FAILED: "), "{ran:?}");
}

#[test]
fn long_server_error_is_shown_cut() {
    let bench = open();
    let long = format!(r#"answer '"error":{{"code":1,"message":"a\u001b[2J{}"}}'"#, "b".repeat(100_000));
    let lists = "*'\"method\":\"tools/list\"'*)";
    bench.write("server.sh", SERVER.replace(lists, &format!("{lists} {long} ;;\n    *never*)")));
    let ran = run(&bench, &json!([search("x")]), &[]);
    ends(&ran, 1, "SERVER_ANSWER");
    assert!(
        ran.err.contains(r"error response to `tools/list`: a\u{1b}[2Jbbb") && ran.err.len() < 400,
        "{ran:?}"
    );
}

#[test]
fn request_of_a_server_is_refused_during_a_run() {
    let bench = open();
    run(&bench, &json!([search("asks")]), &[]).done();
    let told: Value = serde_json::from_str(&lines(&bench, "told.txt")[0]).unwrap();
    assert_eq!((&told["id"], &told["error"]["code"]), (&json!("q"), &json!(-32601)));
}

#[test]
fn a_tool_that_is_another_one_than_was_signed_is_not_called() {
    let bench = open();
    let steps = json!([search("changes"), search("second")]);
    let ran = run(&bench, &steps, &[]);
    ends(&ran, 3, "TOOL_DEFINITION_CHANGED");
    assert!(ran.err.contains("step 2 (desk:search)"), "{ran:?}");
    assert_eq!(calls(&bench).len(), 1);
    bench.write("server.sh", SERVER.replace("title=first", "title=other"));
    ends(&run(&bench, &steps, &[]), 3, "TOOL_DEFINITION_CHANGED");
    // If a list has the tool twice, the definition is ambiguous.
    bench.write("server.sh", SERVER.replace(r#""name":"mail""#, r#""name":"search""#));
    ends(&run(&bench, &steps, &[]), 3, "TOOL_DEFINITION_UNKNOWN");
    assert_eq!(calls(&bench).len(), 1);
}

#[test]
fn a_server_that_does_not_read_is_not_waited_for_for_ever() {
    let bench = open();
    let steps = json!([search("naps"), search(&"x".repeat(300_000))]);
    ends(&run(&bench, &steps, &["--wait", "1s"]), 1, "SERVER_TIMEOUT");
    assert_eq!(outcomes(&bench), ["returned", "returned", "unknown"]);
}

#[test]
fn lingering_server_is_ended_with_its_children() {
    let bench = open();
    let sleeper = "sh -c 'sleep 30; echo awake >> awake.txt'";
    bench.write("server.sh", format!("{SERVER}\n{sleeper} & exec {sleeper}"));
    // why: the test reads standard error until no process holds it. A sleeper that survived would write its file before that.
    run(&bench, &json!([search("x")]), &[]).done();
    assert!(!bench.path("awake.txt").exists());
}

#[test]
fn a_plan_may_come_from_standard_input_and_its_token_too() {
    let bench = open();
    let args: Vec<_> = RUN.split_whitespace().chain("- --session s1 -- sh server.sh".split(' ')).collect();
    let ran = bench.run_args(&args, &json!({"steps": [search("x")]}).to_string());
    assert_eq!((ran.code, calls(&bench).len()), (0, 1), "{ran:?}");
    // An unneeded token is verified all the same.
    bench.write("steps.json", json!([search("x")]).to_string());
    let line = format!("{RUN} steps.json --session s1 --approval-key gate.key --approval - -- sh server.sh");
    ends(&bench.feed(&line, "cs1.nonsense\n"), 3, "APPROVAL_INVALID");
    assert_eq!(calls(&bench).len(), 1);
}

#[test]
fn a_plan_for_something_else_is_not_started() {
    let bench = open();
    bench.write("steps.json", json!([search("x")]).to_string());
    let session = "--registry reg.json --trust-root root.json --agent bot --goal Help";
    bench.ok(&format!("plan commit steps.json {session} --session s1 --out plan.json"));
    let run = |more: &str| bench.run(&format!("{RUN} plan.json {more} -- sh server.sh"));
    ends(&run("--session s2"), 3, "PLAN_OTHER_SESSION");
    assert_eq!(run("").code, 0, "the session is the plan's own");
    let mut amendment: Value = serde_json::from_str(&bench.read("plan.json")).unwrap();
    amendment["amends"] = json!({"root": "0".repeat(64), "position": 0});
    bench.write("plan.json", amendment.to_string());
    ends(&run(""), 3, "PLAN_AMENDMENT_LINK");
    let hinder = "plan run plan.json --registry reg.json --trust-root root.json --agent bot --goal Hinder";
    bench.fails(&format!("{hinder} -- sh server.sh"), 3, "PLAN_OTHER_GOAL");
    assert_eq!(calls(&bench).len(), 1);
}
