#![cfg(unix)]

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, SERVER};

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
    assert!(String::from_utf8(output.stderr).unwrap().contains(code), "{line}");
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

/// Starts the server of an entry as a client does.
fn start(bench: &Bench, server: &str) -> Client {
    let text = bench.read("mcp.json");
    let name = format!("\"{server}\":");
    let (_, entry) = text.split_once(&name).unwrap();
    let entry = entry.lines().next().unwrap().trim().trim_end_matches(',');
    let entry: Value = serde_json::from_str(&format!("{entry}}}")).unwrap();
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
    bench.write(
        "mcp.json",
        r#"{"servers": {"far": {"url": "https://example.com/mcp"}, "gone": {"command": "./no-such-server"}}}"#,
    );
    let before = bench.read("mcp.json");
    let output = run(&bench, "wrap mcp.json --yes");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let shown = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(shown.contains("far") && shown.contains("gone"), "{shown}");
    assert_eq!(bench.read("mcp.json"), before);
}
