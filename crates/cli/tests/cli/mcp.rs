#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Stdio};

use countersign_testing::McpClient;
use serde_json::{Value, json};

use crate::bench::{Bench, unannounced};

/// Shell script of a server with three tools. It answers by id and appends each call to `calls.txt`.
pub(crate) const SERVER: &str = r#"
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/^{"id":\("[^"]*"\|[0-9][0-9]*\).*/\1/p')
  case "$line" in
    *'"method":"initialize"'*)
      printf '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"hi"}}\n'
      printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}}\n' "$id" ;;
    *'"method":"tools/list"'*'"cursor"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"wipe","inputSchema":{"type":"object"}},{"name":"not a name","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"method":"tools/list"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"nextCursor":"2","tools":[{"name":"search","description":"Finds tickets.","inputSchema":{"type":"object","properties":{"query":{"type":"string"}}}},{"name":"refund","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"method":"tools/call"'*)
      printf '%s\n' "$line" >> calls.txt
      printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"done"}]}}\n' "$id" ;;
  esac
done
"#;

fn config(bench: &Bench) {
    bench.write(
        "gateway.toml",
        r#"
[registry]
file = "reg.json"
trust_root = "root.json"
state = "mark.json"
[session]
agent = "bot"
principal = "alice"
goal = "Help alice"
ttl = "30m"
[approval]
key_file = "gate.key"
store = "approvals.sqlite"
ttl = "5m"
[record]
folder = "log"
key_file = "log.key"
origin = "example.com/log"
[server]
name = "desk"
"#,
    );
}

/// Returns a folder with keys, a configuration, and a registry drafted from the server itself that lets `search` through.
pub(crate) fn gateway() -> Bench {
    let bench = Bench::new();
    bench.write("server.sh", SERVER);
    bench.ok("keys generate --kind ed25519 --out op.key --public-out op.pub");
    bench.ok("keys generate --kind hmac --out gate.key");
    bench.log_key();
    bench.ok("keys trust --threshold 1 --out root.json op.pub");
    let run = bench.run("mcp inspect --name desk --agent bot -- sh server.sh");
    assert_eq!(run.code, 0, "{run:?}");
    let mut draft: Value = serde_json::from_str(&run.out).unwrap();
    for tool in draft["tools"].as_array_mut().unwrap() {
        if tool["name"] == "search" {
            tool["impact"] = json!("read");
            tool["approval"] = json!("not_required");
        }
    }
    draft["agents"][0]["tools"] =
        json!([{"server": "desk", "name": "search"}, {"server": "desk", "name": "refund"}]);
    bench.write("draft.json", draft.to_string());
    bench.ok("registry sign draft.json --key op.key --out reg.json");
    config(&bench);
    bench
}

/// Reads the gateway's output until it answers `initialize`, the request with id 1.
pub(crate) fn await_hello(gateway: &mut Child) {
    let mut lines = BufReader::new(gateway.stdout.as_mut().unwrap()).lines();
    let is_answer = |line: String| serde_json::from_str::<Value>(&line).unwrap()["id"] == 1;
    assert!(lines.any(|line| is_answer(line.unwrap())));
}

/// Client of a gateway that runs in a bench's folder.
pub(crate) struct Client(McpClient);

impl Deref for Client {
    type Target = McpClient;

    fn deref(&self) -> &McpClient {
        &self.0
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut McpClient {
        &mut self.0
    }
}

impl Client {
    pub(crate) fn start(bench: &Bench) -> Self {
        Self::start_with(bench, "")
    }

    /// Starts the gateway with further options.
    pub(crate) fn start_with(bench: &Bench, options: &str) -> Self {
        let line = format!("mcp run --config gateway.toml {options} -- sh server.sh");
        Self::start_command(bench.command(&line.split_whitespace().collect::<Vec<_>>()))
    }

    /// Starts the gateway, which may refuse the handshake.
    pub(crate) fn start_refusable(bench: &Bench) -> Self {
        let args = ["mcp", "run", "--config", "gateway.toml", "--", "sh", "server.sh"];
        Self(McpClient::start_refusable(bench.command(&args)))
    }

    /// Starts the gateway from a shell that ran `before`: limits and traps outlive the `exec`.
    pub(crate) fn start_under(bench: &Bench, before: &str) -> Self {
        let mut command = std::process::Command::new("sh");
        let script = format!("{before}; exec \"$0\" mcp run --config gateway.toml -- sh server.sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_countersign")]).current_dir(bench.folder());
        Self::start_command(command)
    }

    pub(crate) fn start_command(command: std::process::Command) -> Self {
        Self(McpClient::start(command))
    }

    /// Kills the gateway.
    pub(crate) fn kill(self) {
        self.0.kill();
    }

    /// Closes the gateway's standard input and waits for the end. Returns exit code and standard error.
    pub(crate) fn end(mut self) -> (i32, String) {
        self.leave();
        self.exit()
    }

    /// Waits for the end. Returns exit code and standard error, without the line that announces a log.
    pub(crate) fn exit(self) -> (i32, String) {
        let (code, err) = self.0.exit();
        (code, unannounced(&err))
    }
}

pub(crate) fn decision(result: &Value) -> &Value {
    assert_eq!(result["isError"], true, "{result}");
    &result["_meta"]["dev.countersign/decision"]
}

#[test]
fn inspect_drafts_each_tool_by_its_tier() {
    let bench = Bench::new();
    bench.write("server.sh", SERVER);
    let run = bench.run("mcp inspect --name desk --agent bot -- sh server.sh");
    assert_eq!(run.code, 0, "{run:?}");
    let draft: Value = serde_json::from_str(&run.out).unwrap();
    let tools = draft["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 3, "{draft}");
    for tool in tools {
        let impact = if tool["name"] == "search" { "external" } else { "irreversible" };
        assert_eq!((&tool["impact"], &tool["approval"]), (&json!(impact), &json!("required")));
        assert_eq!(tool["definition"].as_str().unwrap().len(), 64);
        assert_eq!(tool["args_schema"]["type"], "object");
    }
    assert!(run.err.contains("warning TOOL_NAME: tool `not a name` is left out"), "{run:?}");
    bench.write("draft.json", &run.out);
    bench.ok("registry lint draft.json");
    let run = bench.run("mcp inspect --json --name desk --agent bot -- sh server.sh");
    assert_eq!(serde_json::from_str::<Value>(&run.out).unwrap(), draft);
}

#[test]
fn unusable_server_has_a_code_for_its_fault() {
    let bench = Bench::new();
    let inspect = |script: &str, code: &str| {
        bench.write("bad.sh", script);
        bench.fails("mcp inspect --name desk --wait 2s -- sh bad.sh", 1, code);
    };
    bench.fails("mcp inspect --name desk -- ./no-such-server", 1, "SERVER_START");
    bench.fails("mcp inspect --name desk", 2, "USAGE");
    bench.fails_with(&["mcp", "inspect", "--name", "de sk", "--", "true"], "", 2, "USAGE");
    inspect("exit 0", "SERVER_ENDED");
    inspect("read x; echo noise; read x", "SERVER_ANSWER");
    inspect(
        r#"read x; echo '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}'; read x"#,
        "SERVER_ANSWER",
    );
    inspect(r#"read x; echo '{"jsonrpc":"2.0","id":1}'; read x"#, "SERVER_ANSWER");
    inspect(
        r#"read x; echo '{"jsonrpc":"2.0","id":1,"result":{}}'; read x; read x
           echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'; read x"#,
        "SERVER_NO_TOOLS",
    );
    bench.write("bad.sh", "exec sleep 600");
    bench.fails("mcp inspect --name desk --wait 50ms -- sh bad.sh", 1, "SERVER_TIMEOUT");
}

#[test]
fn check_takes_the_servers_own_list_for_pinned_definitions() {
    let bench = gateway();
    let search = |description: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{
            "name": "search", "description": description,
            "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}}
        }]}})
    };
    let check = |listed: Value| {
        bench.write("list.json", listed.to_string());
        let line = "check --registry reg.json --trust-root root.json --agent bot --no-record --definitions desk=list.json";
        let call = "{\"call_id\":\"c1\",\"tool\":\"search\",\"args\":{}}";
        serde_json::from_str::<Value>(&bench.feed(line, call).out).unwrap()
    };
    assert_eq!(check(search("Finds tickets."))["decision"], "accept");
    assert_eq!(check(search("Finds tickets. Then mails them."))["code"], "TOOL_DEFINITION_CHANGED");
}

#[test]
fn gateway_passes_only_disclosed_tools() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    let listed = client.ask("tools/list", json!({}));
    let names: Vec<_> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["search", "refund"]);
    let result = client.call("search", json!({"query": "x"}));
    assert_eq!(result["content"][0]["text"], "done", "{result}");
    assert_eq!(decision(&client.call("wipe", json!({})))["code"], "UNDISCLOSED_TOOL");
    let refused = client.ask("resources/list", json!({}));
    assert_eq!(refused["error"]["code"], -32601, "{refused}");
    let (code, err) = client.end();
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(bench.read("calls.txt").lines().count(), 1);
    let stats = bench.run("stats log --json").value();
    assert_eq!(stats["agents"]["bot"]["accepted"], 1);
    assert_eq!(stats["agents"]["bot"]["undisclosed_attempts"], 1);
    assert_eq!(stats["gateway_refusals"], 1);
    bench.verified();
}

#[test]
fn an_approved_call_runs_once() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    assert_eq!(bench.ok("approve list --config gateway.toml"), "nothing waits for approval\n");
    let refusal = client.call("refund", json!({"id": 7, "note": "a\u{202e}b"}));
    let id = decision(&refusal)["approval_id"].as_str().unwrap().to_owned();
    assert_eq!(decision(&refusal)["code"], "APPROVAL_REQUIRED");

    let list = bench.ok("approve --config gateway.toml");
    assert!(
        list.contains(&id[..4]) && list.contains("desk:refund") && list.contains("bot for alice"),
        "{list}"
    );
    let pending = bench.run("approve list --config gateway.toml --json").value();
    assert_eq!(pending["pending"][0]["args"], "{\"id\":7,\"note\":\"a\u{202e}b\"}");
    bench.fails(&format!("approve {id} --config gateway.toml"), 1, "NOT_A_TERMINAL");
    let report = bench.run(&format!("approve {id} --config gateway.toml --yes --json")).value();
    assert_eq!(report["call_id"], id);
    assert!(!report.to_string().contains("cs1."));
    bench.fails(&format!("approve {id} --config gateway.toml --yes"), 1, "PENDING_DECIDED");

    assert_eq!(decision(&client.call("refund", json!({"id": 8})))["code"], "APPROVAL_REQUIRED");
    let ran = client.call("refund", json!({"note": "a\u{202e}b", "id": 7.0}));
    assert_eq!(ran["content"][0]["text"], "done", "{ran}");
    assert_eq!(
        decision(&client.call("refund", json!({"id": 7, "note": "a\u{202e}b"})))["code"],
        "APPROVAL_REQUIRED"
    );
    assert_eq!(client.end().0, 0);
    assert_eq!(bench.read("calls.txt").lines().count(), 1);
}

#[test]
fn a_denied_call_stays_refused() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    let refusal = client.call("refund", json!({"id": 7}));
    let id = decision(&refusal)["approval_id"].as_str().unwrap().to_owned();
    let denied = bench.ok(&format!("approve {id} --config gateway.toml --deny --by olga"));
    assert_eq!(denied, format!("{id} denied by olga\n"));
    bench.fails(&format!("approve {id} --config gateway.toml --yes"), 1, "PENDING_DECIDED");
    for _ in 0..2 {
        let refusal = client.call("refund", json!({"id": 7}));
        let told = decision(&refusal);
        assert_eq!((told["code"].as_str(), told["retry"].as_str()), (Some("APPROVAL_DENIED"), Some("never")));
        assert_eq!((refusal["isError"].as_bool(), told.get("approval_id")), (Some(true), None));
    }
    assert_eq!(bench.ok("approve list --config gateway.toml"), "nothing waits for approval\n");
    // A call with other arguments is a new question. Another session asks again.
    assert_eq!(decision(&client.call("refund", json!({"id": 8})))["code"], "APPROVAL_REQUIRED");
    client.end();
    let mut next = Client::start(&bench);
    assert_eq!(decision(&next.call("refund", json!({"id": 7})))["code"], "APPROVAL_REQUIRED");
    next.end();
    assert!(!bench.path("calls.txt").exists());
    let entries = bench.entries();
    let deniers: Vec<_> = entries.iter().filter_map(|entry| entry.get("denied_by")).collect();
    assert_eq!(deniers, ["olga", "olga"]);
    assert!(bench.run("audit show log").out.contains("APPROVAL_DENIED: \"a person refused it\" (olga)\n"));
}

#[test]
fn a_revocation_counts_from_the_next_call_on() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    assert_eq!(client.call("search", json!({}))["content"][0]["text"], "done");
    bench.ok("registry revoke reg.json --agent bot --key op.key --out reg.json --force");
    assert_eq!(decision(&client.call("search", json!({})))["code"], "AGENT_REVOKED");
    bench.write("reg.json", "noise");
    assert_eq!(decision(&client.call("search", json!({})))["code"], "AGENT_REVOKED");
    let (code, err) = client.end();
    assert_eq!(code, 0);
    assert!(err.starts_with("warning REGISTRY_ENVELOPE: ") && err.lines().count() == 1, "{err}");
    assert_eq!(bench.read("calls.txt").lines().count(), 1);
}

#[test]
fn a_server_that_ends_early_ends_the_gateway() {
    let bench = gateway();
    bench.write("server.sh", "read x; exit 0");
    let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert!(run.code == 0 || run.err.starts_with("error SERVER_ENDED: "), "{run:?}");
    assert_eq!(run.out, "");
    bench.write("server.sh", "exit 0");
    let mut child = bench
        .command(&["mcp", "run", "--config", "gateway.toml", "--json", "--", "sh", "server.sh"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let held = child.stdin.take();
    let output = child.wait_with_output().unwrap();
    drop(held);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]));
    let told: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(told["error"]["code"], "SERVER_ENDED");
}

#[test]
fn limits_of_the_configuration_hold() {
    let bench = gateway();
    let good = bench.read("gateway.toml");
    bench.write(
        "gateway.toml",
        good.replace("[server]", "[limits]\nclient_line = 300\nserver_line = 200\n[server]"),
    );
    let mut client = Client::start(&bench);
    let long = "x".repeat(300);
    assert_eq!(decision(&client.call("search", json!({"query": long})))["code"], "LIMIT_EXCEEDED");
    // The list of tools exceeds the limit of a server's line.
    let listed = client.ask("tools/list", json!({}));
    assert_eq!(listed["error"]["data"]["code"], "SERVER_ANSWER", "{listed}");
    client.end();
}

#[test]
fn bad_configurations_are_refused_before_any_file_is_made() {
    let bench = gateway();
    let good = bench.read("gateway.toml");
    let fails = |text: &str, exit: i32, code: &str| {
        bench.write("gateway.toml", text);
        let before = bench.snapshot();
        for line in [
            "mcp run --config gateway.toml -- sh server.sh",
            "mcp run --json --config gateway.toml -- sh server.sh",
        ] {
            let run = bench.run(line);
            assert_eq!((run.code, run.out.as_str()), (exit, ""), "{code}: {run:?}");
            assert!(run.err.contains(code) && run.err.lines().count() == 1, "{code}: {run:?}");
        }
        assert_eq!(bench.snapshot(), before);
    };
    fails("", 1, "CONFIG_MALFORMED");
    fails("[registry\n", 1, "CONFIG_MALFORMED");
    fails(&format!("{good}\n[extra]\n"), 1, "CONFIG_MALFORMED");
    fails(&good.replace("ttl = \"30m\"", "ttl = \"half an hour\""), 1, "CONFIG_MALFORMED");
    fails(&good.replace("name = \"desk\"", "name = \"desk\"\ncolour = 1"), 1, "CONFIG_MALFORMED");
    fails(
        &good.replace("name = \"desk\"", "name = \"desk\"\nmethods = [\"resources/*\"]"),
        1,
        "GATEWAY_METHOD",
    );
    fails(&good.replace("[approval]", "[approval]\nelicit = \"form\""), 1, "CONFIG_CONFLICT");
    fails(&good.replace("[approval]", "[approval]\nelicit = true"), 1, "CONFIG_MALFORMED");
    let limits = |limit: &str| good.replace("[server]", &format!("[limits]\n{limit}\n[server]"));
    for limit in
        ["lines = 1", "client_line = -1", "client_line = \"4 MiB\"", "drain = 10", "drain = \"soon\""]
    {
        fails(&limits(limit), 1, "CONFIG_MALFORMED");
    }
    for limit in ["client_line = 0", "server_line = 300000000", "outstanding = 65537", "list_wait = \"2h\""] {
        fails(&limits(limit), 1, "GATEWAY_LIMIT");
    }
    fails(&good.replace("ttl = \"30m\"", "goal_file = \"g\""), 1, "CONFIG_CONFLICT");
    fails(&good.replace("goal = \"Help alice\"", "goal_file = \"g\""), 1, "FILE_MISSING");
    fails(&good.replace("goal = \"Help alice\"", "goal = \" \""), 1, "ASK_EMPTY");
    fails(&good.replace("\"reg.json\"", "\"none.json\""), 1, "FILE_MISSING");
    fails(&good.replace("\"reg.json\"", "\"draft.json\""), 3, "REGISTRY_ENVELOPE");
    fails(&good.replace("\"bot\"", "\"nobody\""), 3, "AGENT_NOT_REGISTERED");
    fails(&good.replace("ttl = \"30m\"", "ttl = \"3h\""), 3, "SESSION_TTL");
    fails(&good.replace("ttl = \"30m\"", "tools = [\"wipe\"]"), 3, "CAPABILITY_NOT_LISTED");
    fails(&good.replace("\"gate.key\"", "\"op.key\""), 1, "KEY_FILE_KIND");
    fails(&good.replace("\"gate.key\"", "\"none.key\""), 1, "KEY_FILE_MISSING");
    fails(&good.replace("\"log\"", "\"reg.json\""), 1, "AUDIT_UNAVAILABLE");
    bench.write("gateway.toml", &good);
    // Standard output belongs to the protocol, also where no server is named.
    let run = bench.run("mcp run --json --config gateway.toml");
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run:?}");
    assert!(run.err.contains("USAGE"), "{run:?}");
}

#[test]
fn the_configuration_in_the_help_is_one() {
    let bench = gateway();
    let help = bench.ok("mcp run --help");
    let shown = help.split("own folder):\n").nth(1).unwrap();
    let shown = shown
        .replace("registry.dsse.json", "reg.json")
        .replace("trust-root.json", "root.json")
        .replace("approval.key.json", "gate.key")
        .replace("log.key.json", "log.key")
        .replace("support-bot", "bot");
    bench.write("gateway.toml", &shown);
    bench.write("keyring.json", bench.ok("keys keyring --add op-1=op.pub"));
    std::fs::create_dir(bench.path("evidence")).unwrap();
    let client = Client::start(&bench);
    assert_eq!(client.end().0, 0);
    bench.verified();
    // The keys that the example comments out are valid as well.
    let policy = "{\"impact_by_tool\": {\"search\": \"read\"}}";
    bench.write("pic-policy.json", policy);
    bench.write("file.txt", "x");
    let endorsed = bench.endorse("--file file.txt --impact write --expires 1d --key op.key");
    bench.write("endorsed.dsse.json", endorsed);
    bench.write("plan.json", json!({"steps": [{"tool": "search", "args": {}}]}).to_string());
    let hinted =
        shown.replace("# endorsed", "endorsed").replace("# policy", "policy").replace("# file", "file");
    bench.write("gateway.toml", &hinted);
    assert_eq!(Client::start(&bench).end().0, 0);
    let own_store = hinted.replace("# store", "store");
    bench.write("gateway.toml", &own_store);
    let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
    assert!(run.code == 1 && run.err.starts_with("error CONFIG_CONFLICT: "), "{run:?}");
    let (before, after) = own_store.split_once("  [approval]").unwrap();
    bench.write("gateway.toml", format!("{before}{}", &after[after.find("  [proposals]").unwrap()..]));
    assert_eq!(Client::start(&bench).end().0, 0);
}

#[test]
fn the_configurations_paths_are_taken_from_its_own_folder() {
    let (bench, elsewhere) = (gateway(), Bench::new());
    let config = bench.path("gateway.toml").display().to_string();
    let server = bench.path("server.sh").display().to_string();
    let run = elsewhere.run_args(&["mcp", "run", "--config", &config, "--", "sh", &server], "");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert!(bench.path("log").is_dir() && bench.path("approvals.sqlite").exists());
    assert!(elsewhere.snapshot().is_empty());
}

#[test]
fn approve_without_a_waiting_call_is_refused() {
    let bench = gateway();
    bench.fails("approve list --config none.toml", 1, "FILE_MISSING");
    bench.fails("approve nothing --config gateway.toml --yes", 1, "PENDING_UNKNOWN");
    bench.fails("approve nothing --config gateway.toml --yes --deny", 1, "PENDING_UNKNOWN");
    bench.fails("approve list --config gateway.toml --yes", 2, "USAGE");
    let text = bench.read("gateway.toml");
    let cut: String = text.split("[approval]").next().unwrap().to_owned()
        + "[record]"
        + text.split("[record]").nth(1).unwrap();
    bench.write("gateway.toml", cut);
    bench.fails("approve list --config gateway.toml", 1, "CONFIG_NO_APPROVALS");
}
