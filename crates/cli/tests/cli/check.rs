use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::audit_log::FIRST;
use crate::bench::{Bench, RECORD_OPTIONS, Run, lines_of};
use crate::desk;

const CHECK: &str = "check --registry reg.json --trust-root root.json --agent support-bot";
const UNRECORDED: &str = "check --registry reg.json --trust-root root.json --agent support-bot --no-record";

/// Options that bind a refund of this desk, beside the call, in the session `s1`.
const BOUND: [&str; 8] =
    ["--session", "s1", "--agent", "support-bot", "--audience", "check", "--registry-version", "1"];

/// Options of a session that accepts approvals.
const APPROVED: [&str; 6] = ["--principal", "alice", "--approval-key", "gate.key", "--session", "s1"];

/// Runs `check` on these lines with further options. Returns the decisions and the exit code.
fn check(bench: &Bench, options: &[&str], lines: &[Value]) -> (Vec<Value>, i32) {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let run = raw(bench, &[options, &["--json"]].concat(), &input);
    assert_eq!(run.err, "", "{run:?}");
    (decisions(&run), run.code)
}

fn raw(bench: &Bench, options: &[&str], input: &str) -> Run {
    let check = if options.contains(&"--record") { CHECK } else { UNRECORDED };
    let args: Vec<_> = check.split_whitespace().chain(options.iter().copied()).collect();
    bench.run_args(&args, input)
}

fn decisions(run: &Run) -> Vec<Value> {
    run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn call(id: &str, tool: &str, args: Value) -> Value {
    json!({"call_id": id, "tool": tool, "args": args})
}

fn code(decision: &Value) -> &str {
    decision["code"].as_str().unwrap_or("-")
}

fn mint(bench: &Bench, id: &str, args: &str, more: &[&str]) -> String {
    bench.write("mint.json", args);
    let line = "token mint --key-file gate.key --server desk --tool refund --args mint.json --principal alice --ttl 5m";
    let args: Vec<_> = line.split_whitespace().chain(["--call-id", id]).chain(more.iter().copied()).collect();
    bench.run_args(&args, "").done().trim_end().to_owned()
}

#[test]
fn a_disclosed_tool_is_accepted_and_others_are_refused_alike() {
    let bench = desk::open();
    let (decisions, exit) = check(
        &bench,
        &[],
        &[
            call("c1", "search", json!({"query": "x"})),
            call("c2", "no_such_tool", json!({})),
            call("c3", "delete", json!({})),
            json!({"call_id": "c4", "server": "desk", "tool": "search", "args": {}}),
            json!({"call_id": "c5", "server": "mail", "tool": "search", "args": {}}),
        ],
    );
    assert_eq!(exit, 3);
    assert_eq!(decisions[0]["decision"], "accept");
    assert_eq!(decisions[0]["call_id"], "c1");
    let digest = bench.feed("json digest", "{\"query\":\"x\"}").done();
    assert_eq!(decisions[0]["args_digest"], digest.trim_end());
    assert_eq!(decisions[0].as_object().unwrap().len(), 3);
    for (at, id) in [(1, "c2"), (2, "c3"), (4, "c5")] {
        let decision = &decisions[at];
        assert_eq!(decision["decision"], "reject");
        assert_eq!((code(decision), decision["call_id"].as_str()), ("UNDISCLOSED_TOOL", Some(id)));
        assert_eq!((&decision["message"], &decision["retry"]), (&decisions[1]["message"], &json!("never")));
    }
    assert_eq!(decisions[3]["decision"], "accept");
}

#[test]
fn the_exit_code_is_0_when_all_were_accepted() {
    let bench = desk::open();
    assert_eq!(check(&bench, &[], &[]), (vec![], 0));
    let (_, exit) = check(&bench, &[], &[call("c1", "search", json!({})), call("c2", "search", json!({}))]);
    assert_eq!(exit, 0);
}

#[test]
fn a_name_that_two_servers_have_needs_the_server() {
    let bench = desk::open();
    let list = [call("c1", "list", json!({}))];
    assert_eq!(code(&check(&bench, &[], &list).0[0]), "UNDISCLOSED_TOOL");
    assert_eq!(check(&bench, &["--server", "mail"], &list).0[0]["decision"], "accept");
    assert_eq!(check(&bench, &["--server", "nowhere"], &list).0[0]["decision"], "reject");
    assert_eq!(check(&bench, &["--tools", "mail:list"], &list).0[0]["decision"], "accept");
}

#[test]
fn a_bad_line_is_a_decision_and_the_stream_goes_on() {
    let bench = desk::open();
    let deep =
        format!("{{\"call_id\":\"d\",\"tool\":\"search\",\"args\":{}{}}}", "[".repeat(40), "]".repeat(40));
    let bad = [
        "nonsense",
        "[]",
        "{}",
        "{\"call_id\":\"b1\",\"tool\":\"search\"}",
        "{\"call_id\":\"b2\",\"args\":{}}",
        "{\"tool\":\"search\",\"args\":{}}",
        "{\"call_id\":7,\"tool\":\"search\",\"args\":{}}",
        "{\"call_id\":\"b3\",\"tool\":\"search\",\"args\":{},\"extra\":1}",
        "{\"call_id\":\"b4\",\"tool\":\"search\",\"args\":{},\"server\":null}",
        "{\"call_id\":\"b5\",\"tool\":\"search\",\"args\":[]}",
        "{\"call_id\":\"b6\",\"tool\":\"search\",\"args\":{\"query\":1,\"query\":2}}",
        "{\"call_id\":\"b7\",\"tool\":\"search\",\"args\":{\"id\":9007199254740993}}",
        "{\"call_id\":\"\",\"tool\":\"search\",\"args\":{}}",
        "{\"call_id\":\"a\\u202eb\",\"tool\":\"search\",\"args\":{}}",
        "{\"call_id\":\"b8\",\"tool\":\"sea rch\",\"args\":{}}",
        &deep,
    ];
    let mut input = bad.join("\n");
    input.push_str("\n\n{\"call_id\":\"good\",\"tool\":\"search\",\"args\":{}}");
    let run = raw(&bench, &[], &input);
    let decisions = decisions(&run);
    assert_eq!((decisions.len(), run.code), (bad.len() + 1, 3));
    assert!(
        run.err.contains("b3: the line has an unknown member `extra`\n") && !run.out.contains("extra"),
        "{run:?}"
    );
    for (line, decision) in bad.iter().zip(&decisions) {
        assert_eq!(code(decision), "MALFORMED_CALL", "{line}: {decision}");
        assert_eq!(decision["decision"], "reject", "{line}");
    }
    assert_eq!(decisions[0]["call_id"], Value::Null);
    assert_eq!(decisions[3]["call_id"], "b1");
    assert_eq!(decisions[13]["call_id"], "a\\u{202e}b");
    assert_eq!(decisions[bad.len()]["decision"], "accept");
}

#[test]
fn a_line_that_is_not_utf8_and_one_that_is_too_long_are_refused() {
    let bench = desk::open();
    let mut child = bench
        .command(&UNRECORDED.split_whitespace().collect::<Vec<_>>())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        stdin.write_all(b"{\"call_id\":\"\xff\"}\n").unwrap();
        stdin.write_all(&vec![b'x'; 9 << 20]).unwrap();
        stdin.write_all(b"\n{\"call_id\":\"c\",\"tool\":\"search\",\"args\":{}}\n").unwrap();
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let decisions: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(decisions.len(), 3, "{text}");
    assert_eq!((code(&decisions[0]), code(&decisions[1])), ("MALFORMED_CALL", "MALFORMED_CALL"));
    assert_eq!(decisions[2]["decision"], "accept");
}

#[test]
fn oversized_arguments_exceed_a_limit() {
    let bench = desk::open();
    let large = call("c1", "search", json!({"query": "x".repeat(1_100_000)}));
    assert_eq!(code(&check(&bench, &[], &[large]).0[0]), "LIMIT_EXCEEDED");
}

#[test]
fn an_answer_comes_before_the_next_question() {
    let bench = desk::open();
    let mut child = bench
        .command(&UNRECORDED.split_whitespace().collect::<Vec<_>>())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let answers = lines_of(child.stdout.take().unwrap());
    for id in ["c1", "c2", "c3"] {
        writeln!(stdin, "{}", call(id, "search", json!({}))).unwrap();
        stdin.flush().unwrap();
        let answer: Value =
            serde_json::from_str(&answers.recv_timeout(Duration::from_secs(30)).unwrap()).unwrap();
        assert_eq!(answer["call_id"], id);
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_minted_approval_is_accepted_once_and_then_spent() {
    let bench = desk::open();
    let args = "{\"amount\":10,\"id\":7}";
    let token = mint(&bench, "c1", args, &BOUND);
    let mut asked = call("c1", "refund", json!({"id": 7, "amount": 10.0}));
    let (decisions, _) = check(&bench, &APPROVED, &[asked.clone()]);
    assert_eq!(code(&decisions[0]), "APPROVAL_REQUIRED");
    assert_eq!(decisions[0]["retry"], "after_approval");
    assert!(decisions[0]["unlock"].is_string());
    asked["approval"] = json!(token);
    let (decisions, exit) = check(&bench, &APPROVED, &[asked.clone(), asked.clone()]);
    assert_eq!(decisions[0]["decision"], "accept", "{decisions:?}");
    assert_eq!((code(&decisions[1]), exit), ("APPROVAL_SPENT", 3));
    let (decisions, _) = check(&bench, &APPROVED, &[asked]);
    assert_eq!(code(&decisions[0]), "APPROVAL_SPENT", "a second process remembers");
}

#[test]
fn an_approval_is_of_one_exact_call() {
    let bench = desk::open();
    let token = mint(&bench, "c1", "{\"amount\":10,\"id\":7}", &BOUND);
    let with = |mut line: Value| {
        line["approval"] = json!(token);
        line
    };
    let (decisions, _) = check(
        &bench,
        &APPROVED,
        &[
            with(call("c2", "refund", json!({"id": 7, "amount": 10}))),
            with(call("c1", "refund", json!({"id": 7, "amount": 11}))),
            with(call("c1", "refund", json!({"id": 7, "amount": 10, "query": "x"}))),
        ],
    );
    let codes: Vec<_> = decisions.iter().map(code).collect();
    assert_eq!(codes, ["APPROVAL_INVALID"; 3]);
    let right = [with(call("c1", "refund", json!({"id": 7, "amount": 10})))];
    let mallory = ["--principal", "mallory", "--approval-key", "gate.key", "--session", "s1"];
    assert_eq!(code(&check(&bench, &mallory, &right).0[0]), "APPROVAL_INVALID");
    let other_run = [&APPROVED[..], &["--run", "other"]].concat();
    assert_eq!(code(&check(&bench, &other_run, &right).0[0]), "APPROVAL_INVALID");
    let shorter = [&APPROVED[..], &["--approval-ttl", "299s"]].concat();
    assert_eq!(code(&check(&bench, &shorter, &right).0[0]), "APPROVAL_INVALID");
    assert_eq!(code(&check(&bench, &["--principal", "alice"], &right).0[0]), "APPROVAL_REQUIRED");
    assert_eq!(check(&bench, &APPROVED, &right).0[0]["decision"], "accept");
}

#[test]
fn a_token_without_session_or_agent_is_refused() {
    let bench = desk::open();
    let ask = |left_out: &[&str]| {
        let bound: Vec<_> =
            BOUND.chunks(2).filter(|pair| !left_out.contains(&pair[0])).flatten().copied().collect();
        let mut line = call("c1", "refund", json!({"id": 7}));
        line["approval"] = json!(mint(&bench, "c1", "{\"id\":7}", &bound));
        [line]
    };
    let all = ["--session", "--agent", "--audience", "--registry-version"];
    for left_out in [&all[..1], &all[1..2], &all[2..3], &all[3..], &all[..2], &all[..]] {
        assert_eq!(code(&check(&bench, &APPROVED, &ask(left_out)).0[0]), "APPROVAL_INVALID", "{left_out:?}");
    }
    // The former option changes nothing.
    let strict = [&APPROVED[..], &["--strict-bindings"]].concat();
    assert_eq!(code(&check(&bench, &strict, &ask(&all)).0[0]), "APPROVAL_INVALID");
    assert_eq!(check(&bench, &strict, &ask(&[])).0[0]["decision"], "accept");
    let weak = [&APPROVED[..], &["--dangerous-accept-partial-bindings"]].concat();
    assert_eq!(check(&bench, &weak, &ask(&all)).0[0]["decision"], "accept");
    let both =
        format!("{UNRECORDED} --approval-key gate.key --strict-bindings --dangerous-accept-partial-bindings");
    bench.fails(&both, 2, "USAGE");
}

#[test]
fn a_carried_binding_must_hold_even_where_others_are_left_out() {
    let bench = desk::open();
    let options = [&APPROVED[..], &["--dangerous-accept-partial-bindings"]].concat();
    for (name, value) in
        [("--session", "s2"), ("--agent", "reader"), ("--audience", "x"), ("--registry-version", "2")]
    {
        let mut line = call("c1", "refund", json!({}));
        line["approval"] = json!(mint(&bench, "c1", "{}", &[name, value]));
        assert_eq!(code(&check(&bench, &options, &[line]).0[0]), "APPROVAL_INVALID", "{name}");
    }
}

/// Runs a line in the shell, with the binary on its path.
#[cfg(unix)]
fn shell(bench: &Bench, line: &str) -> String {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_countersign"));
    let path = format!("{}:{}", binary.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = std::process::Command::new("sh");
    let ran = command.args(["-c", line]).env("PATH", path).current_dir(bench.folder()).output().unwrap();
    assert!(ran.status.success() && ran.stderr.is_empty(), "{line}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap().trim_end().to_owned()
}

#[cfg(unix)]
#[test]
fn the_mint_command_of_a_refusal_approves_that_call() {
    let bench = desk::open();
    let odd = "it's \"$(touch made)\" `touch made` \\ \n \u{202e} %s; touch made # \u{1f600}";
    let line = json!({"call_id": "c'1 $(touch made)", "tool": "refund", "args": {"query": odd}});
    for (principal, session) in [("o'hara \"$HOME\"", "-s1"), ("-p", "s 1; touch made"), ("~", "*")] {
        let principal = format!("--principal={principal}");
        let session = format!("--session={session}");
        let goal = ["--goal", "Help alice's $x"];
        let options = [&[&*principal, &session, "--approval-key", "gate.key"][..], &goal].concat();
        let (refused, _) = check(&bench, &options, std::slice::from_ref(&line));
        assert_eq!(code(&refused[0]), "APPROVAL_REQUIRED");
        let mint = refused[0]["mint"].as_str().unwrap();
        assert!(!mint.contains('\u{202e}') && mint.lines().count() == 1, "{mint}");
        let mut approved = line.clone();
        approved["approval"] = json!(shell(&bench, mint));
        assert_eq!(check(&bench, &options, &[approved]).0[0]["decision"], "accept", "{mint}");
        // Text output shows the command to the operator, on standard error.
        let run = raw(&bench, &options, &line.to_string());
        // An id that is more than one word is quoted.
        assert_eq!(run.err, format!("to approve {}: {mint}\n", json!(line["call_id"])));
        assert!(!run.out.contains("mint"), "{run:?}");
    }
    assert!(!bench.path("made").exists());
}

#[test]
fn unknown_member_is_recorded_by_its_name() {
    let bench = desk::open();
    let mut line = call("c1", "search", json!({}));
    line["aproval\u{202e}"] = json!("x");
    let log: Vec<_> = RECORD_OPTIONS.split_whitespace().collect();
    let run = raw(&bench, &log, &line.to_string());
    assert!(!run.out.contains("aproval") && run.err.contains("`aproval\\u{202e}`"), "{run:?}");
    let refused = bench.entries().into_iter().find(|entry| entry["code"] == "MALFORMED_CALL").unwrap();
    assert!(refused["reason"].as_str().unwrap().contains("unknown member `aproval"), "{refused}");
}

#[test]
fn mint_refuses_a_tool_that_the_registry_does_not_list() {
    let bench = desk::open();
    bench.write("args.json", "{}");
    let mint = |tool: &str, more: &str| {
        format!(
            "token mint --key-file gate.key --call-id c1 --server desk --tool {tool} --args args.json --principal alice \
             --ttl 5m --registry reg.json --trust-root root.json {more}"
        )
    };
    bench.fails(&mint("invented", ""), 3, "CAPABILITY_NOT_LISTED");
    bench.fails(&mint("delete", "--agent support-bot"), 3, "CAPABILITY_NOT_LISTED");
    bench.fails(&mint("refund", "--agent nobody"), 3, "CAPABILITY_NOT_LISTED");
    bench.ok(&mint("delete", ""));
    bench.ok(&mint("refund", "--agent support-bot"));
    bench.fails(&mint("refund", "").replace("--trust-root root.json", ""), 2, "USAGE");
    bench.ok("keys generate --kind ed25519 --out mallory.key --public-out mallory.pub");
    bench.ok("keys trust --threshold 1 --out other.json mallory.pub");
    let unsigned = bench.run(&mint("refund", "").replace("root.json", "other.json"));
    assert!(unsigned.code == 3 && unsigned.out.is_empty(), "{unsigned:?}");
}

#[test]
fn wanted_tools_narrow_the_session_and_cannot_widen_it() {
    let bench = desk::open();
    let lines = [call("c1", "search", json!({})), call("c2", "refund", json!({}))];
    let (decisions, _) = check(&bench, &["--tools", "search"], &lines);
    assert_eq!((code(&decisions[0]), code(&decisions[1])), ("-", "UNDISCLOSED_TOOL"));
    bench.fails(&format!("{UNRECORDED} --tools search,delete"), 3, "CAPABILITY_NOT_LISTED");
    bench.fails(&format!("{UNRECORDED} --tools desk:delete"), 3, "CAPABILITY_NOT_LISTED");
    bench.fails(&format!("{UNRECORDED} --tools nothing"), 3, "CAPABILITY_NOT_LISTED");
    bench.fails(&format!("{UNRECORDED} --tools list"), 2, "USAGE");
    bench.fails(&format!("{UNRECORDED} --tools a:b:c"), 2, "USAGE");
}

#[test]
fn every_decision_is_in_the_record() {
    let bench = desk::open();
    let lines =
        [call("c1", "search", json!({"query": "secret-text"})), call("c2", "nope", json!({})), json!(7)];
    let log: Vec<_> = RECORD_OPTIONS.split_whitespace().collect();
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let run = raw(&bench, &[&log[..], &["--session", "s1"]].concat(), &input);
    assert_eq!(run.err, "-: the line is not an object\n");
    assert_eq!(bench.verified()["records"], 6);
    let text = bench.run("audit show log").out;
    assert!(text.contains("c1 desk:search accept") && text.contains("reject UNDISCLOSED_TOOL"), "{text}");
    assert!(text.contains("c1 of 2: unknown") && text.contains("reject MALFORMED_CALL"), "{text}");
    assert!(!bench.read(FIRST).contains("secret-text"));
    let stats = bench.run("stats log --json").value();
    assert_eq!(stats["agents"]["support-bot"]["accepted"], 1);
    assert_eq!(stats["agents"]["support-bot"]["undisclosed_attempts"], 1);
    check(&bench, &log, &lines[..1]);
    assert_eq!(bench.verified()["records"], 10);
}

#[test]
fn no_session_is_opened_for_an_agent_that_may_not() {
    let bench = desk::open();
    let check = |agent: &str, registry: &str| {
        format!("check --registry {registry} --trust-root root.json --agent {agent} {RECORD_OPTIONS}")
    };
    bench.fails(&check("nobody", "reg.json"), 3, "AGENT_NOT_REGISTERED");
    bench.ok("registry revoke reg.json --agent reader --key op.key --out next.json");
    bench.fails(&check("reader", "next.json"), 3, "AGENT_REVOKED");
    bench.ok("registry sign draft.json --key op.key --ttl 1ms --out short.json");
    std::thread::sleep(std::time::Duration::from_millis(10));
    bench.fails(&check("reader", "short.json"), 3, "REGISTRY_STALE");
    bench.fails(&check("reader", "draft.json"), 3, "REGISTRY_ENVELOPE");
    bench.fails(&check("reader", "missing.json"), 1, "FILE_MISSING");
    bench.fails(&format!("{UNRECORDED} --ttl 2h"), 3, "SESSION_TTL");
    assert!(!bench.path("log").exists());
}

#[test]
fn an_older_registry_is_refused_once_a_newer_was_accepted() {
    let bench = desk::open();
    bench.ok("registry revoke reg.json --agent reader --key op.key --out next.json");
    let check = |registry: &str| {
        format!(
            "check --registry {registry} --trust-root root.json --agent support-bot --no-record --state mark.json"
        )
    };
    assert_eq!(bench.run(&check("reg.json")).code, 0);
    assert_eq!(bench.run(&check("next.json")).code, 0);
    bench.fails(&check("reg.json"), 3, "REGISTRY_ROLLBACK");
    bench.fails("registry verify reg.json --trust-root root.json --state mark.json", 3, "REGISTRY_ROLLBACK");
    bench.write("mark.json", "noise");
    bench.fails(&check("next.json"), 1, "REGISTRY_MARK_CORRUPT");
}

#[test]
fn a_pinned_definition_needs_the_servers_own_list() {
    let bench = desk::open();
    let listed = json!({"tools": [{"name": "search", "description": "Finds tickets.", "inputSchema": {"type": "object"}}]});
    bench.write("list.json", listed.to_string());
    let mut draft = desk::draft();
    draft["tools"][0]["definition"] = json!("0".repeat(64));
    desk::sign(&bench, &draft, "reg.json");
    let lines = [call("c1", "search", json!({}))];
    let decisions = check(&bench, &["--definitions", "desk=list.json"], &lines).0;
    assert_eq!(code(&decisions[0]), "TOOL_DEFINITION_CHANGED");
    bench.fails(&format!("{UNRECORDED} --definitions list.json"), 2, "USAGE");
    bench.fails(&format!("{UNRECORDED} --definitions desk=root.json"), 1, "TOOL_DEFINITION_SHAPE");
    bench.fails(&format!("{UNRECORDED} --definitions desk=missing.json"), 1, "FILE_MISSING");
}

#[test]
fn missing_definitions_are_reported_at_start() {
    let bench = desk::open();
    let mut draft = desk::draft();
    draft["tools"][0]["definition"] = json!("0".repeat(64));
    desk::sign(&bench, &draft, "reg.json");
    let ran = bench.feed(UNRECORDED, &call("c1", "search", json!({})).to_string());
    let decision: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, code(&decision)), (3, "TOOL_DEFINITION_UNKNOWN"));
    assert_eq!(decision["unlock"], "the tool's definition from its server");
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    assert!(ran.err.starts_with("warning TOOL_DEFINITION_UNKNOWN: "), "{}", ran.err);
    assert!(ran.err.contains("desk:search") && ran.err.contains("--definitions"), "{}", ran.err);
    // A session without the tool needs no tool definition.
    assert_eq!(bench.run(&format!("{UNRECORDED} --tools refund")).err, "");
}

#[test]
fn impossible_options_are_refused_before_any_file_is_made() {
    let bench = desk::open();
    bench.fails(&format!("{UNRECORDED} --goal -"), 2, "USAGE");
    bench.fails(&format!("{UNRECORDED} --spent s.sqlite"), 2, "USAGE");
    bench.fails(&format!("{UNRECORDED} --strict-bindings"), 2, "USAGE");
    bench.fails(&format!("{CHECK} --approval-key op.key {RECORD_OPTIONS}"), 1, "KEY_FILE_KIND");
    let not_a_folder = RECORD_OPTIONS.replace("--record log", "--record reg.json");
    bench.fails(&format!("{CHECK} {not_a_folder}"), 1, "AUDIT_UNAVAILABLE");
    bench.fails(
        &format!("{CHECK} --approval-key gate.key --spent . {RECORD_OPTIONS}"),
        1,
        "STORE_NOT_A_FILE",
    );
    bench.fails(
        &format!("{CHECK} --approval-key gate.key {not_a_folder} --state mark.json"),
        1,
        "AUDIT_UNAVAILABLE",
    );
    bench.fails("check --registry reg.json --trust-root root.json --no-record", 2, "USAGE");
    bench.fails(CHECK, 2, "USAGE");
    bench.fails(&format!("{UNRECORDED} {RECORD_OPTIONS}"), 2, "USAGE");
    #[cfg(unix)]
    {
        bench.mode("gate.key", 0o604);
        bench.fails(&format!("{CHECK} --approval-key gate.key {RECORD_OPTIONS}"), 1, "KEY_FILE_TOO_OPEN");
    }
}

#[test]
fn a_reader_of_decisions_that_went_away_ends_the_run() {
    let bench = desk::open();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = bench
        .command(&UNRECORDED.split_whitespace().collect::<Vec<_>>())
        .stdin(Stdio::piped())
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", call("c1", "search", json!({}))).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.starts_with(b"error OUTPUT_CLOSED: "));
}

#[test]
fn check_reports_a_signal_once() {
    let bench = desk::open();
    let calls = |count: u32| (0..count).map(|n| format!("{}\n", call(&n.to_string(), "delete", json!({}))));
    assert_eq!(raw(&bench, &[], &calls(19).collect::<String>()).err, "");
    let run = raw(&bench, &[], &calls(40).collect::<String>());
    let warning =
        "warning SIGNAL_UNDISCLOSED: agent support-bot calls many tools that its session does not disclose\n";
    assert_eq!((run.code, run.err.as_str()), (3, warning), "{run:?}");
}
