use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign::core::{Clock as _, SystemClock};
use countersign::keys::SigningKey;
use countersign::keys::file::{write_log_key, write_server_secret};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{GateVector, Surface, VectorCall, VectorEvent, is_missing_approval};
use crate::{DeskServer, LineProcess, McpClient, TestRegistry, World};

/// The command line: `countersign check` reads the calls as lines.
#[derive(Clone, Debug)]
pub struct CommandLineSurface {
    binary: PathBuf,
}

/// The gateway: `countersign mcp run` between a client and a [`DeskServer`].
#[derive(Clone, Debug)]
pub struct GatewaySurface {
    binary: PathBuf,
}

impl CommandLineSurface {
    /// Surface of this binary.
    #[must_use]
    pub fn of(binary: impl Into<PathBuf>) -> Self {
        Self { binary: binary.into() }
    }
}

impl GatewaySurface {
    /// Surface of this binary.
    #[must_use]
    pub fn of(binary: impl Into<PathBuf>) -> Self {
        Self { binary: binary.into() }
    }
}

/// A folder with the registry and the gate's key.
struct Prepared<'a> {
    binary: &'a Path,
    folder: TempDir,
}

impl<'a> Prepared<'a> {
    fn of(binary: &'a Path, vector: &GateVector) -> Self {
        let prepared = Self { binary, folder: tempfile::tempdir().expect("a folder") };
        prepared.publish(&vector.registry());
        let folder = prepared.folder.path();
        write_server_secret(&folder.join("gate.key"), &World::secret()).expect("a writable folder");
        let log_key = SigningKey::from_seed([8; 32]);
        write_log_key(&folder.join("log.key"), &log_key).expect("a writable folder");
        prepared
    }

    fn publish(&self, registry: &TestRegistry) {
        registry.write(self.folder.path(), SystemClock::new().now().expect("the time"));
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).expect("a writable folder");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.binary);
        command.args(args).current_dir(self.folder.path());
        command
    }

    /// Runs a command that must succeed, and returns its output.
    fn ok(&self, args: &[&str]) -> String {
        self.done(self.command(args))
    }

    fn done(&self, mut command: Command) -> String {
        let output = command.output().expect("a command that starts");
        assert!(output.status.success(), "{command:?} in {}: {output:?}", self.folder.path().display());
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a line of shell with the binary on the path.
    fn shell(&self, line: &str) -> String {
        let folder = self.binary.parent().expect("the binary's folder").display();
        let path = format!("{folder}:{}", std::env::var("PATH").expect("a path"));
        let mut command = Command::new("sh");
        command.args(["-c", line]).env("PATH", path).current_dir(self.folder.path());
        self.done(command)
    }
}

impl Surface for CommandLineSurface {
    fn name(&self) -> &str {
        "command-line"
    }

    fn decide(&self, vector: &GateVector) -> Vec<Result<(), String>> {
        let prepared = Prepared::of(&self.binary, vector);
        let mut args = vec!["check", "--registry", "registry.json", "--trust-root", "root.json"];
        args.extend(["--agent", "support-bot", "--principal", "ada", "--session", "session-1"]);
        args.extend(["--approval-key", "gate.key", "--no-record", "--json"]);
        if let Some(goal) = vector.goal() {
            args.extend(["--goal", goal]);
        }
        if let Some(listed) = vector.listed() {
            prepared.write("listed.json", &json!({ "tools": listed }).to_string());
            args.extend(["--definitions", "desk=listed.json"]);
        }
        let mut check = LineProcess::start(prepared.command(&args));
        // why: a line that is no call is answered when the session is open. Only then may the registry change.
        check.tell("{}");
        let _ = check.line();
        let mut decisions = Vec::new();
        for event in vector.events() {
            match event {
                VectorEvent::Call(call) => decisions.push(decide_line(&prepared, &mut check, &call)),
                VectorEvent::Publish(registry) => prepared.publish(&registry),
                VectorEvent::Wait(_) => cannot_wait(vector),
            }
        }
        check.leave();
        let _ = check.exit();
        decisions
    }
}

fn decide_line(
    prepared: &Prepared<'_>,
    check: &mut LineProcess,
    call: &VectorCall<'_>,
) -> Result<(), String> {
    let (first, answer) = say(check, call, None);
    if !call.is_approved || !is_missing_approval(&first) {
        return first;
    }
    let token = prepared.shell(answer["mint"].as_str().expect("the command that mints the approval"));
    say(check, call, Some(token.trim_end())).0
}

fn say(
    check: &mut LineProcess,
    call: &VectorCall<'_>,
    approval: Option<&str>,
) -> (Result<(), String>, Value) {
    let mut line = json!({ "call_id": call.id, "server": call.server, "tool": call.tool });
    for (name, value) in [("ask", call.ask), ("approval", approval)] {
        if let Some(value) = value {
            line[name] = json!(value);
        }
    }
    let line = line.to_string();
    let rest = line.strip_prefix('{').expect("an object");
    check.tell(&format!("{{\"args\":{},{rest}", call.args));
    let answer: Value = serde_json::from_str(&check.line()).expect("a decision in JSON");
    (decision(answer["decision"] == "accept", &answer), answer)
}

/// Reads the decision: accepted if `is_accepted`, or else the code.
fn decision(is_accepted: bool, answer: &Value) -> Result<(), String> {
    match answer["code"].as_str() {
        Some(code) => Err(code.to_owned()),
        None if is_accepted => Ok(()),
        None => Err(format!("no decision: {answer}")),
    }
}

impl Surface for GatewaySurface {
    fn name(&self) -> &str {
        "gateway"
    }

    fn decide(&self, vector: &GateVector) -> Vec<Result<(), String>> {
        let prepared = Prepared::of(&self.binary, vector);
        prepared.write("gateway.toml", &config(vector.goal()));
        let draft = vector.registry();
        let drafted = draft.draft()["tools"].as_array().expect("a list of tools").iter();
        let listed = drafted.filter(|tool| tool["server"] == "desk");
        let listed = listed.map(|tool| json!({ "name": tool["name"], "inputSchema": tool["args_schema"] }));
        DeskServer::of(vector.listed().cloned().unwrap_or_else(|| listed.collect()))
            .write(prepared.folder.path());
        let command = prepared.command(&["mcp", "run", "--config", "gateway.toml", "--", "sh", "server.sh"]);
        let mut client = McpClient::start(command);
        let mut decisions = Vec::new();
        for event in vector.events() {
            match event {
                VectorEvent::Call(call) => decisions.push(decide_call(&prepared, &mut client, &call)),
                VectorEvent::Publish(registry) => prepared.publish(&registry),
                VectorEvent::Wait(_) => cannot_wait(vector),
            }
        }
        let (code, err) = client.end();
        assert_eq!(code, 0, "{err}");
        decisions
    }
}

fn config(goal: Option<&str>) -> String {
    let goal = goal.map_or_else(String::new, |goal| format!("goal = {}\n", json!(goal)));
    format!(
        r#"[registry]
file = "registry.json"
trust_root = "root.json"
state = "state.json"
[session]
agent = "support-bot"
principal = "ada"
{goal}[approval]
key_file = "gate.key"
store = "approvals.sqlite"
[record]
folder = "log"
key_file = "log.key"
origin = "example.com/log"
[server]
name = "desk"
"#
    )
}

fn decide_call(prepared: &Prepared<'_>, client: &mut McpClient, call: &VectorCall<'_>) -> Result<(), String> {
    let (first, answer) = request(client, call);
    if !call.is_approved || !is_missing_approval(&first) {
        return first;
    }
    let id = answer["approval_id"].as_str().expect("the id of an approval");
    prepared.ok(&["approve", id, "--config", "gateway.toml", "--yes"]);
    request(client, call).0
}

/// Calls the tool. Returns the decision, and what the gateway says of it.
fn request(client: &mut McpClient, call: &VectorCall<'_>) -> (Result<(), String>, Value) {
    let meta = call
        .ask
        .map_or_else(String::new, |ask| format!(",\"_meta\":{}", json!({ "dev.countersign/ask": ask })));
    let (name, args) = (json!(call.tool), &call.args);
    let id = client.send_text("tools/call", &format!(r#"{{"name":{name},"arguments":{args}{meta}}}"#));
    let answer = client.answer(id);
    if let Some(error) = answer.get("error") {
        return (decision(false, &error["data"]), error["data"].clone());
    }
    let told = answer["result"]["_meta"]["dev.countersign/decision"].clone();
    (decision(answer["result"]["content"][0]["text"] == "done", &told), told)
}

#[expect(clippy::panic, reason = "a vector that does not fit the surface is a fault of the test")]
fn cannot_wait(vector: &GateVector) -> ! {
    panic!("{}: this surface reads the system's clock", vector.name())
}
