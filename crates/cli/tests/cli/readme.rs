//! README and `docs`: outputs match the binary, configurations are valid, and commands run or at least parse.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bench::Bench;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the code blocks of a page in this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(workspace().join(page)).unwrap();
    let block = |from: &str| from.split_once("```").unwrap().0.to_owned();
    page.split(&format!("```{language}\n")).skip(1).map(block).collect()
}

/// Returns every page with commands or configurations.
fn pages() -> Vec<String> {
    let docs = std::fs::read_dir(workspace().join("docs")).unwrap();
    let names = docs.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages = names.filter(|name| name.ends_with(".md")).map(|name| format!("docs/{name}"));
    std::iter::once("README.md".to_owned()).chain(pages).collect()
}

/// Returns the complete configuration on the gateway page.
fn whole() -> String {
    blocks("docs/gateway.md", "toml").swap_remove(0)
}

/// Returns the configuration with its keys replaced by those of the block.
fn with(whole: &str, block: &str) -> String {
    let mut config: toml::Table = whole.parse().unwrap();
    for (name, part) in block.parse::<toml::Table>().unwrap() {
        let own = config.entry(name).or_insert_with(|| toml::Table::new().into());
        match (own.as_table_mut(), part) {
            (Some(own), toml::Value::Table(part)) => own.extend(part),
            (_, part) => *own = part,
        }
    }
    config.to_string()
}

/// Returns the block with its optional keys no longer commented out.
fn uncommented(block: &str) -> String {
    let is_key = |line: &str| {
        line.split_once(" = ")
            .is_some_and(|(key, _)| key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
    };
    let line = |line: &str| match line.strip_prefix("# ") {
        Some(rest) if is_key(rest) => rest.to_owned(),
        _ => line.to_owned(),
    };
    block.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the code with which the gateway refuses a configuration.
fn refusal(bench: &Bench, config: &str) -> String {
    bench.write("gateway.toml", config);
    let at_a_url = config.lines().any(|line| line.starts_with("url = "));
    let run = bench.run(if at_a_url {
        "mcp run --config gateway.toml"
    } else {
        "mcp run --config gateway.toml -- true"
    });
    assert_eq!(run.code, 1, "{run:?}");
    let code = run.err.strip_prefix("error ").and_then(|rest| rest.split_once(": "));
    code.unwrap_or_else(|| panic!("{run:?}")).0.to_owned()
}

#[test]
fn documented_configurations_lack_only_their_files() {
    let bench = Bench::new();
    let whole = whole();
    let mut checked = 0;
    for page in pages() {
        for block in blocks(&page, "toml") {
            let expected: &[&str] = match page.as_str() {
                // The plan's approval binds a session. The page explains how to name one.
                "docs/plans.md" => &["CONFIG_CONFLICT"],
                "docs/metrics.md" | "docs/traces.md" => &["KEY_FILE_MISSING", "FEATURE_MISSING"],
                "docs/remote.md" | "docs/several.md" => &["FILE_MISSING"],
                _ => &["KEY_FILE_MISSING"],
            };
            let whole = match page.as_str() {
                "docs/remote.md" => with(&whole, "[server]\nurl = \"https://tickets.example/mcp\""),
                _ => whole.clone(),
            };
            let code = refusal(&bench, &with(&whole, &block));
            assert!(expected.contains(&code.as_str()), "{page}: {code}\n{block}");
            let code = refusal(&bench, &with(&whole, &uncommented(&block)));
            assert_ne!(code, "CONFIG_MALFORMED", "{page}\n{block}");
            checked += 1;
        }
    }
    assert!(checked >= 7, "{checked}");
}

#[test]
fn misspelt_key_of_the_configuration_is_refused() {
    let bench = Bench::new();
    let whole = whole();
    assert_eq!(refusal(&bench, &whole.replace("principal", "principle")), "CONFIG_MALFORMED");
    let signals = blocks("docs/record.md", "toml").swap_remove(0).replace("0.7 ", "0.95 ");
    assert_eq!(refusal(&bench, &with(&whole, &signals)), "ALARM_SHARES");
}

#[test]
fn documented_demo_matches_its_output() {
    let bench = Bench::new();
    let printed = bench.ok("demo --record log");
    let rows = |text: &str| -> Vec<String> {
        text.lines().filter(|line| line.starts_with(' ')).map(str::to_owned).collect()
    };
    let printed = rows(&printed);
    assert_eq!(rows(&blocks("docs/demo.md", "text")[0]), printed);
    assert_eq!(printed.len(), 65, "a heading, and two lines for each thing done");
    // The README shows some of the pairs, in order.
    let shown = blocks("README.md", "text").swap_remove(0);
    let shown: Vec<&str> = shown.lines().collect();
    let mut pairs = printed[1..].chunks(2);
    assert!(shown.chunks(2).all(|pair| pairs.any(|printed| printed == pair)), "{shown:#?}");
    assert_eq!(shown.len(), 10);
}

/// Runs a script in the bench's folder, with these programs first on the path.
fn shell(bench: &Bench, script: &str, stubs: &[(&str, &str)]) -> std::process::Output {
    let bin = bench.folder().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    for (name, text) in stubs {
        let path = bin.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_countersign")).parent().unwrap();
    let path = format!("{}:{}:{}", bin.display(), binary.display(), std::env::var("PATH").unwrap());
    std::process::Command::new("sh")
        .args(["-ec", script])
        .env("PATH", path)
        .env("COUNTERSIGN", env!("CARGO_BIN_EXE_countersign"))
        .envs([("SESSION", "s1"), ("CALL", "c7"), ("TOKEN", "cs1"), ("ASK", &"a".repeat(64))])
        .current_dir(bench.folder())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap()
}

/// Runs a script that must succeed. Returns its standard error.
#[track_caller]
fn runs(bench: &Bench, script: &str, stubs: &[(&str, &str)]) -> String {
    let run = shell(bench, script, stubs);
    let (out, err) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
    assert!(run.status.success(), "{script}\n{out}\n{err}");
    err
}

/// Stub that adds `--help` behind the documented arguments. An unknown option or value still fails, because it comes first.
#[cfg(unix)]
const PARSER: &str = r#"
n=$#; placed=
while [ "$n" -gt 0 ]; do
  argument=$1; shift; n=$((n - 1))
  if [ "$argument" = -- ] && [ -z "$placed" ]; then set -- "$@" --help; placed=1; fi
  set -- "$@" "$argument"
done
[ -n "$placed" ] || set -- "$@" --help
"$COUNTERSIGN" "$@" > out.txt 2>&1 < /dev/null || { echo "$*"; cat out.txt; } >> failed.txt
echo "$*" >> parsed.txt
case "$*" in "plan show "*) echo "root  $ASK" ;; esac
"#;

#[test]
#[cfg(unix)]
fn documented_commands_are_parsed() {
    for page in pages() {
        let bench = Bench::new();
        let script = blocks(&page, "sh").join("\n");
        bench.write("failed.txt", "");
        bench.write("parsed.txt", "");
        let stubs = [("countersign", PARSER), ("cargo", ""), ("npx", "")];
        shell(&bench, &format!("set +e\n{script}"), &stubs);
        assert_eq!(bench.read("failed.txt"), "", "{page}");
        let commands = script.lines().filter(|line| line.starts_with("countersign ")).count();
        assert!(bench.read("parsed.txt").lines().count() >= commands, "{page}");
    }
}

#[test]
fn documented_json_is_json() {
    let mut checked = 0;
    for page in pages() {
        for block in blocks(&page, "json") {
            // In the page of the log format, each line is one JSON text, some of them shortened with `…`.
            let block = block.replace(", …", "");
            let is_log = page == "docs/log-format.md";
            let texts: Vec<&str> = if is_log { block.lines().collect() } else { vec![&block] };
            for text in texts {
                assert!(serde_json::from_str::<Value>(text).is_ok(), "{page}: {text}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 6, "{checked}");
}

/// Shell script of a server with the two tools that the pages use.
#[cfg(unix)]
fn files() -> String {
    let tool = |name: &str| serde_json::json!({"name": name, "inputSchema": {"type": "object"}});
    countersign_testing::DeskServer::of([tool("read_text_file"), tool("write_file")]).script()
}

#[test]
#[cfg(unix)]
fn documented_gateway_gives_the_documented_answers() {
    use serde_json::json;

    let bench = Bench::new();
    let files = files();
    let stubs = [("npx", files.as_str()), ("cargo", "")];
    let scripts = blocks("docs/gateway.md", "sh");
    runs(&bench, &scripts[0], &stubs);
    bench.write("gateway.toml", whole());

    // Runs the command as the client starts it.
    let shown = blocks("README.md", "json");
    let client: Value = serde_json::from_str(&blocks("docs/gateway.md", "json")[0]).unwrap();
    assert_eq!(client["command"], "countersign");
    let args = client["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let args: Vec<&str> = args.map(|arg| arg.strip_prefix("/etc/countersign/").unwrap_or(arg)).collect();
    let mut command = bench.command(&args);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", bench.folder().join("bin").display()));
    let mut client = crate::mcp::Client::start_command(command);

    let call = json!({"name": "write_file", "arguments": {"path": "paid/17.txt"},
        "_meta": {"dev.countersign/call_id": "k3f9"}});
    let refused = client.ask("tools/call", call.clone());
    assert_eq!(refused["result"], serde_json::from_str::<Value>(&shown[0]).unwrap());
    runs(&bench, &scripts[1], &stubs);
    let asked = blocks("docs/approvals.md", "sh").swap_remove(0);
    let asked: Vec<&str> = asked.lines().take(3).collect();
    runs(&bench, &asked.join("\n").replace("--by ada", "--by ada --yes"), &stubs);
    let passed = client.ask("tools/call", call.clone());
    assert_eq!(passed["result"]["content"][0]["text"], "done", "{passed}");
    let again = client.ask("tools/call", call);
    assert_eq!(again["result"]["isError"], true, "{again}");
    client.leave();
}

#[test]
fn walk_through_of_evidence_runs_as_documented() {
    let bench = Bench::new();
    bench.ok("keys generate --kind ed25519 --out operator.key --public-out operator.pub");
    std::fs::create_dir(bench.folder().join("evidence")).unwrap();
    bench.write("evidence/invoice-77.txt", "invoice 77");
    bench.write("evidence/order-9.txt", "order 9");
    for script in blocks("docs/evidence.md", "sh") {
        runs(&bench, &script.replace("--into signed.json", "--yes --into signed.json"), &[]);
    }
    let list: Value = serde_json::from_str(&bench.read("endorsed-2.dsse.json")).unwrap();
    assert!(list["signatures"].is_array(), "{list}");
}

#[test]
fn walk_through_of_plans_runs_as_documented() {
    let bench = Bench::new();
    bench.ok("keys generate --kind ed25519 --out operator.key --public-out operator.pub");
    bench.ok("keys generate --kind hmac --out approval.key");
    bench.log_key();
    bench.ok("keys trust --threshold 1 --out trust-root.json operator.pub");
    let script = blocks("docs/plans.md", "sh").swap_remove(0);
    assert!(script.contains("plan run") && script.contains("merkle verify-inclusion"));
    let err = runs(&bench, &format!("set +e\n{script}"), &[]);
    let errors: Vec<&str> = err.lines().filter(|line| line.starts_with("error ")).collect();
    assert_eq!(errors.len(), 2, "{err}");
    assert!(errors[0].starts_with("error APPROVAL_REQUIRED: "), "{err}");
    assert!(errors[1].starts_with("error PLAN_STEP_MISMATCH: "), "{err}");
    assert!(bench.read("ledger.txt").contains("grace@customers.example"), "{err}");
    assert!(!bench.read("ledger.txt").contains("eve"));
    assert!(bench.ok("audit verify plan-log --key log.vkey").contains("entries of example.com/log verified"));
}
