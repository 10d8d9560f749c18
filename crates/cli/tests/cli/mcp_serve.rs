//! The MCP endpoint over HTTP. `tests/peers/mcp_serve.py` has it with stock clients.

#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::gateway;

pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A gateway over HTTP that runs in a bench's folder.
pub(crate) struct Endpoint {
    pub(crate) bench: Bench,
    child: Child,
    pub(crate) address: String,
}

struct Answer {
    status: u16,
    head: String,
    body: Value,
}

fn serving(table: &str) -> Bench {
    let bench = gateway();
    let plain = bench.read("gateway.toml");
    bench.write("gateway.toml", format!("{plain}\n[serve]\n{table}\n"));
    let tokens = format!("[[token]]\ntoken = \"{TOKEN}\"\nname = \"ada\"\nmay = [\"check\"]\n");
    bench.write(
        "tokens",
        format!("{tokens}[[token]]\ntoken = \"{TOKEN}b\"\nname = \"bob\"\nmay = [\"read\"]\n"),
    );
    bench.mode("tokens", 0o600);
    bench
}

impl Endpoint {
    pub(crate) fn start() -> Self {
        let bench = serving("token_file = \"tokens\"\nlisten = \"127.0.0.1:0\"");
        let args = ["mcp", "serve", "--config", "gateway.toml", "--", "sh", "server.sh"];
        let mut child = bench.command(&args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let (_, address) = line.trim().split_once("http://").unwrap();
        let address = address.strip_suffix("/mcp").unwrap().to_owned();
        Self { bench, child, address }
    }

    fn send(&self, token: &str, more: &str, body: &Value) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let (body, host) = (body.to_string(), &self.address);
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nConnection: close\r\nContent-Length: {}\r\n{more}\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_owned(), body: serde_json::from_str(body).unwrap_or_default() }
    }

    pub(crate) fn end(mut self) -> Bench {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(143));
        self.bench
    }
}

fn stated(method: &str) -> String {
    format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n")
}

fn request(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

#[test]
fn endpoint_settings_that_leave_it_open_are_refused() {
    let refused = |table: &str, code| {
        serving(table).fails("mcp serve --config gateway.toml -- sh server.sh", 1, code);
    };
    refused("", "SERVE_NO_CALLERS");
    refused("token_file = \"none\"", "FILE_MISSING");
    refused("token_file = \"tokens\"\nlisten = \"192.0.2.1:1\"", "SERVE_LISTEN_ANYWHERE");
    refused("token_file = \"tokens\"\n[plan]\nfile = \"plan.json\"", "CONFIG_CONFLICT");
}

#[test]
fn plan_and_doctor_reach_a_server_at_a_url() {
    let endpoint = Endpoint::start();
    let bench = &endpoint.bench;
    std::fs::create_dir(bench.path("far")).unwrap();
    bench.write("far.token", TOKEN);
    bench.mode("far.token", 0o600);
    let url =
        format!("url = \"http://{}/mcp\"\n[server.remote]\ntoken_file = \"far.token\"\n", endpoint.address);
    let near = bench
        .read("gateway.toml")
        .replace("\"log\"", "\"far/log\"\nstate = \"far/state\"")
        .replace("mark.json", "far.json");
    bench.write("far.toml", near.replace("name = \"desk\"\n", &format!("name = \"desk\"\n{url}")));
    bench.write("steps.json", json!([{"tool": "desk:search", "args": {"query": "x"}}]).to_string());

    let ran = bench.run("plan run steps.json --config far.toml --session s1");
    assert!(ran.code == 0 && ran.out.contains("done"), "{ran:?}");
    // The endpoint writes its files meanwhile, so `fails` cannot compare them.
    let both = bench.run("plan run steps.json --config far.toml -- sh server.sh");
    assert!(both.code == 1 && both.err.contains("CONFIG_CONFLICT"), "{both:?}");
    let neither = bench.run("plan run steps.json --config gateway.toml");
    assert!(neither.code == 2 && neither.err.contains("USAGE"), "{neither:?}");
    let looked = bench.run("doctor --config far.toml");
    assert!(looked.code == 0 && looked.out.contains("the gateway starts"), "{looked:?}");
    endpoint.end();
}

#[test]
fn an_authorization_server_needs_public_keys() {
    let oauth = "[serve.oauth]\nissuer = \"https://a.example\"\nresource = \"https://b.example/mcp\"\njwks_file = \"jwks\"";
    let bench = serving(oauth);
    let command = "mcp serve --config gateway.toml -- sh server.sh";
    bench.fails(command, 1, "FILE_MISSING");
    bench.write("jwks", r#"{"keys": []}"#);
    bench.mode("jwks", 0o644);
    bench.fails(command, 1, "JWKS_FILE");
    bench.fails("serve --config gateway.toml", 1, "CONFIG_CONFLICT");
    let other = serving(&oauth.replace("https://b.example/mcp", "b.example"));
    other.fails(command, 1, "CONFIG_OAUTH");
}

#[test]
fn a_call_over_http_is_decided_for_its_caller() {
    let endpoint = Endpoint::start();
    let call = request("tools/call", json!({"name": "search", "arguments": {"query": "x"}}));
    let headers = stated("tools/call") + "Mcp-Name: search\r\n";
    let done = endpoint.send(TOKEN, &headers, &call);
    assert_eq!(
        (done.status, &done.body["result"]["content"][0]["text"]),
        (200, &json!("done")),
        "{}",
        done.head
    );
    let unlisted = request("tools/call", json!({"name": "wipe", "arguments": {}}));
    let refused = endpoint.send(TOKEN, &(stated("tools/call") + "Mcp-Name: wipe\r\n"), &unlisted);
    assert_eq!((refused.status, &refused.body["result"]["isError"]), (200, &json!(true)));
    let bench = endpoint.end();
    bench.verified();
    let entries = bench.entries();
    let decisions: Vec<_> =
        entries.iter().filter(|it| it["type"] == "decision").map(|it| &it["code"]).collect();
    assert_eq!(decisions, [&Value::Null, &json!("UNDISCLOSED_TOOL")]);
    assert!(entries.iter().any(|it| it["type"] == "session" && it["principal"] == "ada"), "{entries:?}");
}

#[test]
fn nothing_without_the_right_credential_reaches_a_gateway() {
    let endpoint = Endpoint::start();
    let call = request("tools/call", json!({"name": "search", "arguments": {}}));
    let headers = stated("tools/call") + "Mcp-Name: search\r\n";
    let unknown = endpoint.send("x", &headers, &call);
    assert!(unknown.head.to_lowercase().contains("www-authenticate: bearer"), "{}", unknown.head);
    let other = endpoint.send(&format!("{TOKEN}b"), &headers, &call);
    let wrong = endpoint.send(TOKEN, &(stated("tools/call") + "Mcp-Name: wipe\r\n"), &call);
    let foreign = endpoint.send(TOKEN, &format!("{headers}Origin: http://evil.example\r\n"), &call);
    let statuses = [&unknown, &other, &wrong, &foreign].map(|answer| answer.status);
    assert_eq!(statuses, [401, 403, 400, 403]);
    assert_eq!(
        (&wrong.body["error"]["code"], &other.body["code"]),
        (&json!(-32_020), &json!("CALLER_NOT_ALLOWED"))
    );
    let bench = endpoint.end();
    assert!(!bench.path("calls.txt").exists() && !bench.path("log").exists());
}

#[test]
fn a_session_over_http_belongs_to_its_caller() {
    let endpoint = Endpoint::start();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let begun = endpoint.send(
        TOKEN,
        "",
        &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
    );
    let id = begun.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
    let session = format!("Mcp-Session-Id: {id}\r\n");
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let statuses = [
        endpoint.send(TOKEN, &session, &ready).status,
        endpoint.send(TOKEN, &session, &list).status,
        endpoint.send(TOKEN, &format!("{session}MCP-Protocol-Version: 2025-06-18\r\n"), &list).status,
        endpoint.send(TOKEN, "", &list).status,
        endpoint.send(TOKEN, "Mcp-Session-Id: mcp-0\r\n", &list).status,
        endpoint.send(TOKEN, &format!("{session}{session}"), &list).status,
    ];
    assert_eq!(statuses, [202, 200, 400, 400, 404, 400]);
    endpoint.end().verified();
}
