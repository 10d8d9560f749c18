#![cfg(unix)]

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, decision, gateway};

/// A bench whose gateway has the servers `desk` and `mail`, and a third that cannot be started.
fn servers() -> Bench {
    let bench = gateway();
    let config = bench.read("gateway.toml").replace("ttl = \"5m\"", "ttl = \"5m\"\naudience = \"office\"");
    let tables = ["desk", "mail"]
        .map(|name| format!("[[server]]\nname = \"{name}\"\ncommand = [\"sh\", \"server.sh\"]\n"));
    bench.write("gateway.toml", config.replace("[server]\nname = \"desk\"\n", &tables.concat()));
    let run = bench.run("mcp inspect --config gateway.toml");
    assert_eq!(run.code, 0, "{run:?}");
    let mut draft: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&draft["agents"][0]["agent"], draft["tools"].as_array().unwrap().len()), (&json!("bot"), 6));
    for tool in draft["tools"].as_array_mut().unwrap() {
        if tool["name"] == "search" {
            tool["approval"] = json!("not_required");
        }
    }
    draft["version"] = json!(2);
    bench.write("draft.json", draft.to_string());
    bench.ok("registry sign draft.json --key op.key --out reg.json --force");
    bench
}

fn start(bench: &Bench) -> Client {
    Client::start_command(bench.command(&["mcp", "run", "--config", "gateway.toml"]))
}

/// Checks that a verb that speaks MCP on its output refuses to start.
fn refuses(bench: &Bench, line: &str, code: &str) {
    let run = bench.run(line);
    let starts = run.err.starts_with(&format!("error {code}: "));
    assert!(run.code == 1 && starts && run.out.is_empty(), "{run:?}");
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[test]
fn one_gateway_has_the_tools_of_several_servers() {
    let bench = servers();
    let mut client = start(&bench);
    let list = client.ask("tools/list", json!({}));
    let names: Vec<_> = list["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["desk__search", "desk__refund", "mail__search", "mail__refund"]);
    for tool in ["desk__search", "mail__search"] {
        assert_eq!(text(&client.call(tool, json!({"query": "x"}))), "done");
    }
    assert!(text(&client.call("mail__refund", json!({}))).contains("APPROVAL_REQUIRED"));
    assert!(text(&client.call("search", json!({}))).contains("UNDISCLOSED_TOOL"));
    assert_eq!(client.end().0, 0);
    assert_eq!(bench.read("calls.txt").lines().count(), 2);
    bench.verified();
    let entries = bench.entries();
    let tools: Vec<_> = entries.iter().filter(|it| it["type"] == "decision").map(|it| &it["tool"]).collect();
    assert_eq!(
        tools[..3],
        [
            &json!({"server": "desk", "name": "search"}),
            &json!({"server": "mail", "name": "search"}),
            &json!({"server": "mail", "name": "refund"})
        ]
    );
    for once in ["session", "end"] {
        assert_eq!(entries.iter().filter(|it| it["type"] == once).count(), 1, "{entries:?}");
    }
}

#[test]
fn a_server_that_cannot_start_is_left_out() {
    let bench = servers();
    let config = bench.read("gateway.toml");
    let (first, mail) = config.split_once("name = \"mail\"\n").unwrap();
    let missing = mail.replace("\"sh\"", "\"./no-such-program\"");
    bench.write("gateway.toml", format!("{first}name = \"mail\"\n{missing}"));
    let mut client = start(&bench);
    assert_eq!(client.ask("tools/list", json!({}))["result"]["tools"].as_array().unwrap().len(), 2);
    assert_eq!(text(&client.call("desk__search", json!({"query": "x"}))), "done");
    let (code, err) = client.end();
    assert!(code == 0 && err.contains("SERVER_START"), "{code} {err}");
    let inspected = bench.run("mcp inspect --config gateway.toml");
    assert!(inspected.code == 1 && inspected.err.contains("error SERVER_START: `mail`"), "{inspected:?}");
}

#[test]
fn an_approval_is_for_the_tool_of_one_server() {
    let bench = servers();
    let mut client = start(&bench);
    let asked = client.call("mail__refund", json!({"amount": 1}));
    let id = decision(&asked)["approval_id"].as_str().unwrap().to_owned();
    bench.ok(&format!("approve {id} --config gateway.toml --yes"));
    assert!(text(&client.call("desk__refund", json!({"amount": 1}))).contains("APPROVAL_REQUIRED"));
    assert_eq!(text(&client.call("mail__refund", json!({"amount": 1}))), "done");
    assert!(text(&client.call("mail__refund", json!({"amount": 1}))).contains("Refused"));
    assert_eq!(client.end().0, 0);
}

#[test]
fn settings_that_several_servers_cannot_have_are_refused() {
    let bench = servers();
    let config = bench.read("gateway.toml");
    let fails = |changed: String, code: &str| {
        bench.write("gateway.toml", changed);
        refuses(&bench, "mcp run --config gateway.toml", code);
    };
    fails(config.replace("audience = \"office\"", ""), "CONFIG_CONFLICT");
    fails(config.replace("\"mail\"", "\"desk\""), "CONFIG_MALFORMED");
    fails(config.replace("\"mail\"", "\"my__mail\""), "GATEWAY_PREFIX");
    fails(format!("{config}methods = [\"prompts/get\"]\n"), "GATEWAY_SEVERAL");
    fails(config.replace("[record]", "[plan]\nsubmit = true\n[record]"), "CONFIG_CONFLICT");
    fails(format!("{config}url = \"https://mail.example/mcp\"\n"), "CONFIG_CONFLICT");
    fails(
        config.split("[[server]]").next().unwrap().replace("[registry]", "server = []\n[registry]"),
        "CONFIG_MALFORMED",
    );
    bench.write("gateway.toml", &config);
    refuses(&bench, "mcp run --config gateway.toml -- sh server.sh", "CONFIG_CONFLICT");
    bench.write("plan.json", json!([{"tool": "desk:search", "args": {"query": "x"}}]).to_string());
    bench.fails("plan run plan.json --config gateway.toml", 1, "CONFIG_CONFLICT");
}

#[test]
fn the_command_of_one_server_may_be_in_its_table() {
    let bench = gateway();
    let config = bench.read("gateway.toml");
    bench.write("gateway.toml", format!("{config}command = [\"sh\", \"server.sh\"]\n"));
    let mut client = start(&bench);
    assert_eq!(text(&client.call("search", json!({"query": "x"}))), "done");
    assert_eq!(client.end().0, 0);
    refuses(&bench, "mcp run --config gateway.toml -- sh server.sh", "CONFIG_CONFLICT");
    bench.fails("mcp inspect", 2, "USAGE");
}
