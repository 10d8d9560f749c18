#![cfg(unix)]

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, SERVER};
use crate::mcp_serve::{Endpoint, TOKEN};

const SECRET: &str = "s3cret-4711";

/// A client's configuration with one server that starts.
fn client() -> Bench {
    let bench = Bench::new();
    bench.write("server.sh", SERVER);
    let server = bench.path("server.sh");
    let text = format!(
        "\u{feff}{{\r\n  // mine\r\n  \"mcpServers\": {{\r\n    \"desk\": {{ \"command\": \"sh\", \"args\": [\"{}\"],\r\n      \
         \"env\": {{\"TOKEN\": \"{SECRET}\"}}, }},\r\n  }},\r\n}}\r\n",
        server.display()
    );
    bench.write("mcp.json", text);
    bench
}

fn run(bench: &Bench, line: &str) -> Output {
    let mut command = bench.command(&line.split_whitespace().collect::<Vec<_>>());
    command.env("XDG_CONFIG_HOME", bench.path("home")).output().unwrap()
}

#[track_caller]
fn done(bench: &Bench, line: &str) -> String {
    let output = run(bench, line);
    assert_eq!(output.status.code(), Some(0), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn unchanged(bench: &Bench, line: &str, exit: i32, code: &str) {
    let before = bench.read("mcp.json");
    let output = run(bench, line);
    assert_eq!(output.status.code(), Some(exit), "{output:?}");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(said.contains(code), "{line}: {said}");
    assert_eq!(bench.read("mcp.json"), before);
}

#[test]
fn unwrap_gives_back_the_bytes_of_before_wrap() {
    let bench = client();
    let before = bench.read("mcp.json");
    done(&bench, "wrap mcp.json --yes");
    let wrapped = bench.read("mcp.json");
    assert_ne!(wrapped, before);
    done(&bench, "wrap mcp.json --yes");
    assert_eq!(bench.read("mcp.json"), wrapped, "wrapped twice");
    done(&bench, "unwrap mcp.json");
    assert_eq!(bench.read("mcp.json"), before);
}

/// Runs a copy of the program under another file name.
fn run_as(bench: &Bench, name: &str, line: &str) -> Output {
    let copy = bench.path(name);
    if !copy.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_countersign"), &copy).unwrap();
    }
    let mut command = Command::new(copy);
    command.args(line.split_whitespace()).current_dir(bench.folder());
    command.env("XDG_CONFIG_HOME", bench.path("home")).output().unwrap()
}

#[test]
fn a_renamed_program_recognises_its_entries() {
    let bench = client();
    let before = bench.read("mcp.json");
    let done = |line| assert_eq!(run_as(&bench, "countersign-1.2", line).status.code(), Some(0), "{line}");
    done("wrap mcp.json --yes");
    let wrapped = bench.read("mcp.json");
    assert!(wrapped.contains("countersign-1.2"));
    done("wrap mcp.json --yes");
    assert_eq!(bench.read("mcp.json"), wrapped, "wrapped twice");
    done("unwrap mcp.json");
    assert_eq!(bench.read("mcp.json"), before);
    let other = run_as(&bench, "cs", "wrap mcp.json --yes");
    assert!(String::from_utf8_lossy(&other.stderr).contains("PROGRAM_PATH"), "{other:?}");
    assert_eq!(bench.read("mcp.json"), before);
}

/// Starts the server of an entry as a client does.
fn start(bench: &Bench, server: &str) -> Client {
    let text = bench.read("mcp.json");
    let name = format!("\"{server}\":");
    let (_, entry) = text.split_once(&name).unwrap();
    let entry = entry.lines().next().unwrap().trim().trim_end_matches(',');
    // An entry whose environment follows ends in another line.
    let entry = serde_json::from_str(entry).or_else(|_| serde_json::from_str(&format!("{entry}}}")));
    let entry: Value = entry.unwrap();
    let args = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let mut command = Command::new(entry["command"].as_str().unwrap());
    command.args(args).current_dir(bench.folder()).env("XDG_CONFIG_HOME", bench.path("home"));
    Client::start_command(command)
}

#[test]
fn a_wrapped_entry_starts_a_gateway() {
    let bench = client();
    done(&bench, "wrap mcp.json --yes");
    let refused = start(&bench, "desk").call("delete_everything", json!({}));
    assert_eq!(refused["_meta"]["dev.countersign/decision"]["code"], "UNDISCLOSED_TOOL", "{refused}");
}

#[test]
fn server_that_ends_at_initialize_is_asked_for_its_era() {
    let bench = client();
    let hello = r#"'"method":"initialize"'*)"#;
    let discover = r#"'"method":"initialize"'*) exit 3 ;;
    *'"method":"server/discover"'*)
      printf '{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}\n' "$id" ;;
    *never*)"#;
    bench.write("server.sh", SERVER.replacen(hello, discover, 1));
    done(&bench, "wrap mcp.json --yes");
    let refused = start(&bench, "desk").call("delete_everything", json!({}));
    assert_eq!(refused["_meta"]["dev.countersign/decision"]["code"], "UNDISCLOSED_TOOL", "{refused}");
    let inspected = run(&bench, "mcp inspect --name desk -- sh server.sh");
    assert_eq!(inspected.status.code(), Some(0));
    assert!(
        String::from_utf8_lossy(&inspected.stderr).contains("set `era = \"stateless\"`"),
        "{inspected:?}"
    );

    bench.write("server.sh", "exit 3");
    let ended = run(&bench, "mcp inspect --name desk -- sh server.sh");
    assert!(String::from_utf8_lossy(&ended.stderr).contains("SERVER_ENDED"), "{ended:?}");
}

#[test]
fn an_id_alone_names_the_question_of_its_profile() {
    let bench = client();
    let text = bench.read("mcp.json");
    let (desk, server) = text.split_once("\"desk\"").unwrap();
    let (server, end) = server.split_once("}, },").unwrap();
    bench.write("mcp.json", format!("{desk}\"desk\"{server}}}, }},\r\n    \"shop\"{server}}}, }},{end}"));
    done(&bench, "wrap mcp.json --yes");
    let mut clients = ["desk", "shop"].map(|server| start(&bench, server));
    std::thread::scope(|scope| {
        let calls =
            clients.each_mut().map(|client| scope.spawn(|| client.call("refund", json!({"amount": 1}))));
        // Soon both calls are held.
        let looks = (0..500)
            .map(|_| -> Value { serde_json::from_str(&done(&bench, "--json approve list")).unwrap() });
        let listed = looks.map(|list| list["pending"].as_array().unwrap().clone());
        let listed = listed.into_iter().find(|pending| pending.len() == 2).unwrap();
        for question in &listed {
            let id = question["call_id"].as_str().unwrap();
            done(&bench, &format!("approve {id} --yes --by ada"));
        }
        for call in calls {
            let ran = call.join().unwrap();
            assert_eq!(ran["content"][0]["text"], "done", "{ran}");
        }
    });
    drop(clients);
    let profiles = std::fs::read_dir(bench.path("home/countersign/profiles")).unwrap();
    let answers = profiles.map(|profile| {
        let mut grep = Command::new("grep");
        let found =
            grep.args(["-rh", "\"type\":\"answer\""]).arg(profile.unwrap().path().join("log")).output();
        String::from_utf8(found.unwrap().stdout).unwrap().lines().count()
    });
    assert_eq!(answers.collect::<Vec<_>>(), [1, 1], "each answer is in the log of its profile");
}

/// Asks for a refund through the wrapped entry, without waiting for a person.
fn refund(bench: &Bench) -> Value {
    let profiles = std::fs::read_dir(bench.path("home/countersign/profiles")).unwrap();
    for profile in profiles {
        let config = profile.unwrap().path().join("gateway.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text.replace("hold = \"45s\"", "")).unwrap();
    }
    start(bench, "desk").call("refund", json!({"amount": 1}))
}

#[test]
fn observe_lets_calls_run_until_its_end() {
    let bench = client();
    let shown = done(&bench, "wrap mcp.json --yes --observe 1h");
    assert!(shown.contains("only lack an approval"), "{shown}");
    assert_eq!(refund(&bench)["content"][0]["text"], "done");
    done(&bench, "unwrap mcp.json");
    done(&bench, "wrap mcp.json --yes --observe 1s");
    std::thread::sleep(std::time::Duration::from_secs(1));
    let refused = refund(&bench);
    assert_eq!(refused["_meta"]["dev.countersign/decision"]["code"], "APPROVAL_REQUIRED", "{refused}");
}

#[test]
fn wrap_without_observe_ends_it() {
    let bench = client();
    done(&bench, "wrap mcp.json --yes --observe 31d");
    done(&bench, "unwrap mcp.json");
    done(&bench, "wrap mcp.json --yes");
    let refused = refund(&bench);
    assert_eq!(refused["_meta"]["dev.countersign/decision"]["code"], "APPROVAL_REQUIRED", "{refused}");
}

#[test]
fn observe_without_a_near_end_is_refused() {
    let bench = client();
    for span in ["0s", "32d"] {
        unchanged(&bench, &format!("wrap mcp.json --yes --observe {span}"), 1, "CONFIG_OBSERVE");
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    let bench = client();
    let before = bench.read("mcp.json");
    assert!(done(&bench, "wrap mcp.json --dry-run").contains("refund"));
    assert_eq!(bench.read("mcp.json"), before);
    assert!(!bench.path("home/countersign/profiles").exists());
}

#[test]
fn a_secret_of_the_environment_is_in_no_file_of_ours() {
    let bench = client();
    done(&bench, "wrap mcp.json --yes");
    let found = Command::new("grep").args(["-r", SECRET]).arg(bench.path("home")).output().unwrap();
    assert_eq!(found.status.code(), Some(1), "{found:?}");
}

#[test]
fn a_link_or_read_only_file_stays_as_it_is() {
    let bench = client();
    std::os::unix::fs::symlink(bench.path("mcp.json"), bench.path("link.json")).unwrap();
    unchanged(&bench, "wrap link.json --yes", 3, "CLIENT_FILE_LINKED");
    bench.mode("mcp.json", 0o444);
    unchanged(&bench, "wrap mcp.json --yes", 3, "CLIENT_FILE_READ_ONLY");
}

#[test]
fn a_malformed_configuration_stays_as_it_is() {
    for text in ["", "[]", "{", r#"{"mcpServers": [1]}"#, r#"{"mcpServers": {"a": {"command": 1}}}"#] {
        let bench = client();
        bench.write("mcp.json", text);
        unchanged(&bench, "wrap mcp.json --yes", 1, "CLIENT_FILE_MALFORMED");
    }
}

#[test]
fn countersign_alone_shows_the_protected_servers() {
    let bench = client();
    std::fs::create_dir(bench.path(".cursor")).unwrap();
    std::fs::rename(bench.path("mcp.json"), bench.path(".cursor/mcp.json")).unwrap();
    let shown = |line: &str| {
        let mut command = bench.command(&line.split_whitespace().collect::<Vec<_>>());
        command.env("XDG_CONFIG_HOME", bench.path("home")).env("HOME", bench.folder());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, help) = shown("");
    assert!(code == Some(2) && help.contains("Usage: countersign"), "nothing is set up: {help}");
    done(&bench, "wrap .cursor/mcp.json --yes");
    bench.write("mcp.json", bench.read(".cursor/mcp.json"));
    start(&bench, "desk").call("delete_everything", json!({}));
    let (code, status) = shown("");
    assert!(code == Some(0) && status.contains("0 accepted, 1 refused, 0 waited"), "{status}");
    let (_, status) = shown("wrap --status --json");
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["servers"][0]["decided_in_24h"], json!({"accepted": 0, "refused": 1, "waited": 0}));
}

#[test]
fn open_entries_are_named_and_stay() {
    let bench = client();
    let far = r#""url": "http://127.0.0.1:1/mcp""#;
    let entries = [
        ("far", far.to_owned(), "SERVER_ENDED"),
        ("old", format!("\"type\": \"sse\", {far}"), "`sse`"),
        ("keyed", format!("{far}, \"headers\": {{\"X-Api-Key\": \"k\"}}"), "`X-Api-Key`"),
        ("basic", format!("{far}, \"headers\": {{\"Authorization\": \"Basic eDp5\"}}"), "`Authorization`"),
        (
            "hidden",
            format!("{far}, \"headers\": {{\"Authorization\": \"Bearer ${{input:key}}\"}}"),
            "only the client",
        ),
        ("elsewhere", r#""url": "http://192.168.0.1/mcp""#.to_owned(), "SERVER_URL"),
        ("gone", r#""command": "./no-such-server""#.to_owned(), "SERVER_START"),
    ];
    let listed = entries.each_ref().map(|(name, entry, _)| format!("\"{name}\": {{{entry}}}")).join(", ");
    bench.write("mcp.json", format!("{{\"servers\": {{{listed}}}}}"));
    let before = bench.read("mcp.json");
    let output = run(&bench, "wrap mcp.json --yes --wait 2s");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let shown = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    for (name, _, why) in &entries {
        let line = shown.lines().find(|line| line.starts_with(&format!("still open: {name}: ")));
        assert!(line.is_some_and(|line| line.contains(why)), "{name}: {shown}");
    }
    assert_eq!(bench.read("mcp.json"), before);
}

#[test]
fn server_at_a_url_is_wrapped_with_its_token() {
    let endpoint = Endpoint::start();
    let bench = client();
    let url = format!("http://{}/mcp", endpoint.address);
    let entry = |url: &str| {
        format!(
            "{{\"mcpServers\": {{\n\"far\": {{ \"type\": \"http\", \"url\": \"{url}\",\n \"headers\": {{\"Authorization\": \
             \"Bearer {TOKEN}\"}} }}\n}} }}\n"
        )
    };
    bench.write("mcp.json", entry(&url));
    done(&bench, "wrap mcp.json --dry-run");
    assert!(!bench.path("home/countersign/profiles").exists(), "a dry run writes nothing");
    done(&bench, "wrap mcp.json --yes --observe 1h");
    assert!(!bench.read("mcp.json").contains(TOKEN));
    let found = start(&bench, "far").call("search", json!({"query": "x"}));
    assert_eq!(found["content"][0]["text"], "done", "{found}");
    let refused = start(&bench, "far").call("delete_everything", json!({}));
    assert_eq!(refused["_meta"]["dev.countersign/decision"]["code"], "UNDISCLOSED_TOOL", "{refused}");

    let wrapped = bench.read("mcp.json");
    done(&bench, "unwrap mcp.json");
    assert_eq!(bench.read("mcp.json"), entry(&url));
    // Another server under the same name needs another profile.
    bench.write("mcp.json", entry(&format!("{url}/other")));
    unchanged(&bench, "wrap mcp.json --yes", 3, "CONFIG_CONFLICT");
    bench.write("mcp.json", wrapped);
    std::fs::remove_dir_all(bench.path("home/countersign/profiles")).unwrap();
    unchanged(&bench, "unwrap mcp.json", 1, "CLIENT_FILE_ORIGINAL");
    endpoint.end();
}

/// A project in which a program with this version answers for Claude Code.
fn project(version: &str) -> Bench {
    let bench = client();
    std::fs::rename(bench.path("mcp.json"), bench.path(".mcp.json")).unwrap();
    std::fs::create_dir(bench.path("bin")).unwrap();
    bench.write("bin/claude", format!("#!/bin/sh\necho '{version} (Claude Code)'\n"));
    bench.mode("bin/claude", 0o755);
    bench
}

fn in_project(bench: &Bench, line: &str) -> Output {
    let mut command = bench.command(&line.split_whitespace().collect::<Vec<_>>());
    let path = format!("{}:{}", bench.path("bin").display(), std::env::var("PATH").unwrap());
    command.env("XDG_CONFIG_HOME", bench.path("home")).env("HOME", bench.folder()).env("PATH", path);
    command.output().unwrap()
}

/// Runs the hook of the settings as its host does, for this call.
fn hooked(bench: &Bench, tool: &str, input: &Value) -> (Option<i32>, String) {
    use std::io::Write as _;
    let settings: Value = serde_json::from_str(&bench.read(".claude/settings.local.json")).unwrap();
    let hook = &settings["hooks"]["PreToolUse"][0];
    assert_eq!((&hook["matcher"], &hook["hooks"][0]["onFailure"]), (&json!("*"), &json!("block")));
    let mut command = Command::new("sh");
    command.args(["-c", &hook["hooks"][0]["command"].as_str().unwrap().replace("600s", "9s")]);
    command.env("XDG_CONFIG_HOME", bench.path("home")).current_dir(bench.folder());
    command.stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let event = json!({"hook_event_name": "PreToolUse", "session_id": "s1", "cwd": bench.folder(),
        "tool_name": tool, "tool_input": input});
    child.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn wrap_of_a_client_guards_its_own_tools_by_a_hook() {
    let bench = project("2.1.330");
    std::fs::create_dir(bench.path(".claude")).unwrap();
    let before = "{\n  \"model\": \"opus\",\n  \"hooks\": {\"Stop\": []}\n}\n";
    bench.write(".claude/settings.local.json", before);
    let wrapped = in_project(&bench, "wrap claude-code --yes");
    assert_eq!(wrapped.status.code(), Some(0), "{wrapped:?}");
    assert!(String::from_utf8(wrapped.stdout).unwrap().contains("built-in tools"));
    let inside = bench.path("notes.txt");
    assert_eq!(hooked(&bench, "Read", &json!({"file_path": inside})).0, Some(0));
    let (code, line) = hooked(&bench, "Bash", &json!({"command": "ls"}));
    assert!(code == Some(2) && line.contains("APPROVAL_REQUIRED"), "{line}");
    // The gateway in front of its server decides about an MCP tool.
    assert_eq!(hooked(&bench, "mcp__desk__search", &json!({"query": "x"})).0, Some(0));
    let (code, line) = hooked(&bench, "mcp__other__search", &json!({}));
    assert!(code == Some(2) && line.contains("UNDISCLOSED_TOOL"), "{line}");
    let (code, line) = hooked(&bench, "made_up", &json!({}));
    assert!(code == Some(2) && line.contains("UNDISCLOSED_TOOL"), "{line}");
    let after = bench.read(".claude/settings.local.json");
    assert_eq!(in_project(&bench, "wrap claude-code --yes").status.code(), Some(0));
    assert_eq!(bench.read(".claude/settings.local.json"), after, "wrapped twice");
    let status = String::from_utf8(in_project(&bench, "wrap --status").stdout).unwrap();
    assert!(
        status.lines().any(|line| line.contains("built-in tools") && line.contains("protected")),
        "{status}"
    );
    assert_eq!(in_project(&bench, "unwrap claude-code").status.code(), Some(0));
    assert_eq!(bench.read(".claude/settings.local.json"), before);
}

#[test]
fn settings_that_wrap_made_are_gone_after_unwrap() {
    let bench = project("2.1.295");
    std::fs::remove_file(bench.path(".mcp.json")).unwrap();
    assert_eq!(in_project(&bench, "wrap claude-code --yes").status.code(), Some(0));
    assert_eq!(hooked(&bench, "Bash", &json!({"command": "ls"})).0, Some(2));
    let unwrapped = in_project(&bench, "unwrap claude-code");
    assert_eq!(unwrapped.status.code(), Some(0), "{unwrapped:?}");
    assert!(!bench.path(".claude/settings.local.json").exists());
}

#[test]
fn host_that_runs_a_tool_when_its_hook_fails_gets_no_hook() {
    let bench = project("2.1.294");
    let wrapped = in_project(&bench, "wrap claude-code --yes");
    assert_eq!(wrapped.status.code(), Some(3));
    let text = String::from_utf8(wrapped.stdout).unwrap();
    assert!(text.contains("still open: built-in tools: Claude Code 2.1.294"), "{text}");
    assert!(!bench.path(".claude").exists());
    assert_eq!(in_project(&bench, "wrap claude-code --yes --no-hook").status.code(), Some(0));
}

#[test]
fn hook_that_was_changed_is_left_to_a_person() {
    let bench = project("2.1.330");
    in_project(&bench, "wrap claude-code --yes");
    let changed = bench.read(".claude/settings.local.json").replace("600s", "60s");
    bench.write(".claude/settings.local.json", &changed);
    let unwrapped = in_project(&bench, "unwrap claude-code");
    assert_eq!(unwrapped.status.code(), Some(1));
    assert!(String::from_utf8(unwrapped.stderr).unwrap().starts_with("error HOOK_CHANGED: "));
    assert_eq!(bench.read(".claude/settings.local.json"), changed);
    let status = String::from_utf8(in_project(&bench, "wrap --status").stdout).unwrap();
    assert!(status.contains("open: its hook was taken away"), "{status}");
}

#[test]
fn server_that_is_wrapped_later_passes_the_hook() {
    let bench = project("2.1.330");
    in_project(&bench, "wrap claude-code --yes");
    let late = json!({"command": "sh", "args": [bench.path("server.sh")]});
    let servers = "\"mcpServers\": {";
    bench.write(
        ".mcp.json",
        bench.read(".mcp.json").replace(servers, &format!("{servers} \"late one\": {late},")),
    );
    assert_eq!(hooked(&bench, "mcp__late_one__search", &json!({})).0, Some(2));
    let wrapped = in_project(&bench, "wrap claude-code --yes");
    assert_eq!(wrapped.status.code(), Some(0), "{wrapped:?}");
    assert_eq!(hooked(&bench, "mcp__late_one__search", &json!({})).0, Some(0));
    assert_eq!(hooked(&bench, "mcp__desk__search", &json!({})).0, Some(0));
}

#[test]
fn mcp_tool_named_without_its_server_needs_an_approval() {
    let bench = project("2.1.330");
    std::fs::rename(bench.path("bin/claude"), bench.path("bin/cursor")).unwrap();
    std::fs::create_dir(bench.path(".cursor")).unwrap();
    std::fs::rename(bench.path(".mcp.json"), bench.path(".cursor/mcp.json")).unwrap();
    let wrapped = in_project(&bench, "wrap cursor --yes");
    assert_eq!(wrapped.status.code(), Some(0), "{wrapped:?}");
    let hooks: Value = serde_json::from_str(&bench.read(".cursor/hooks.json")).unwrap();
    let hook = &hooks["hooks"]["preToolUse"][0];
    assert_eq!((&hooks["version"], &hook["failClosed"]), (&json!(1), &json!(true)));
    let mut words = hook["command"].as_str().unwrap().split(' ').skip_while(|word| *word != "--profile");
    let draft = bench.read(&format!("home/countersign/profiles/{}/draft.json", words.nth(1).unwrap()));
    let draft: Value = serde_json::from_str(&draft).unwrap();
    let tool = draft["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "MCP/search").unwrap();
    assert_eq!(tool["approval"], "required");
    assert_eq!(in_project(&bench, "unwrap cursor").status.code(), Some(0));
    assert!(!bench.path(".cursor/hooks.json").exists());
}
