use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::desk;
use crate::failure::Failure;

/// The goal that the user gave, and that the configuration pins.
pub(super) const GOAL: &str = "Answer ticket T-1001 and refund the double charge";

/// What the operator gives the agent: four of the desk's five tools.
pub(super) const DISCLOSED: [&str; 4] = ["search", "summarize", "send_email", "refund"];

/// A folder with everything that an operator sets up: keys, registry, configuration. The operator works through this
/// same binary, as people do.
#[derive(Debug)]
pub(super) struct World {
    program: PathBuf,
    folder: PathBuf,
    record: PathBuf,
}

impl World {
    pub(super) fn create(record: Option<&Path>) -> Result<Self, Failure> {
        let program =
            std::env::current_exe().map_err(|error| failed("this program cannot find itself", &error))?;
        let name: String = crate::random::id::<countersign_core::RunId>("countersign-demo")?.to_string();
        let folder = std::path::absolute(std::env::temp_dir().join(name))
            .map_err(|error| failed("the folder for temporary files is not usable", &error))?;
        fs::create_dir(&folder)
            .map_err(|error| failed(&format!("`{}` cannot be made", folder.display()), &error))?;
        let record = match record {
            None => folder.join("record.jsonl"),
            Some(path) => std::path::absolute(path)
                .map_err(|error| failed("the record's path is not usable", &error))?,
        };
        let world = Self { program, folder, record };
        world.operator(&[
            "keys",
            "generate",
            "--kind",
            "ed25519",
            "--out",
            "operator.key",
            "--public-out",
            "operator.pub",
        ])?;
        world.operator(&["keys", "generate", "--kind", "hmac", "--out", "approval.key"])?;
        world.operator(&["keys", "trust", "--threshold", "1", "--out", "trust-root.json", "operator.pub"])?;
        world.write("draft.json", &world.draft()?.to_string())?;
        world.operator(&[
            "registry",
            "sign",
            "draft.json",
            "--key",
            "operator.key",
            "--ttl",
            "1d",
            "--out",
            "registry.json",
        ])?;
        world.write("gateway.toml", &world.config())?;
        Ok(world)
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn record(&self) -> &Path {
        &self.record
    }

    /// How to start the gateway in front of the desk.
    pub(super) fn gateway_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = ["mcp", "run", "--config"].map(OsString::from).into();
        args.push(self.folder.join("gateway.toml").into());
        args.push("--".into());
        args.push(self.program.clone().into());
        args.extend(["demo-desk", "--ledger"].map(OsString::from));
        args.push(self.folder.join("ledger.txt").into());
        args
    }

    /// The operator looks at the call that waits under this id, and approves it.
    pub(super) fn approve(&self, id: &str) -> Result<(), Failure> {
        self.operator(&["approve", id, "--config", "gateway.toml", "--yes"])
    }

    pub(super) fn revoke_agent(&self) -> Result<(), Failure> {
        self.operator(&[
            "registry",
            "revoke",
            "registry.json",
            "--agent",
            "support-bot",
            "--key",
            "operator.key",
            "--ttl",
            "1d",
            "--out",
            "registry.json",
            "--force",
        ])
    }

    /// What the desk did, one side effect a line.
    pub(super) fn ledger(&self) -> Result<Vec<String>, Failure> {
        match fs::read_to_string(self.folder.join("ledger.txt")) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed("the ledger cannot be read", &error)),
        }
    }

    /// Runs one verb of this binary as the operator would, in the demo's folder.
    fn operator(&self, args: &[&str]) -> Result<(), Failure> {
        let done = Command::new(&self.program)
            .args(args)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed("the operator's command cannot be started", &error))?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(Failure::new("DEMO_FAILED", format!("`countersign {}`: {}", args.join(" "), said.trim())))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        fs::write(self.folder.join(name), text)
            .map_err(|error| failed("the demo's folder cannot be written", &error))
    }

    /// What the operator lets the agent do: four of the desk's five tools, each pinned to its definition.
    fn draft(&self) -> Result<Value, Failure> {
        let mut tools = Vec::new();
        for tool in desk::tools() {
            let name = super::member(&tool, "/name").to_owned();
            let rules = match name.as_str() {
                "search" => json!({ "impact": "read", "approval": "not_required" }),
                "summarize" => json!({ "impact": "compute", "approval": "not_required" }),
                "send_email" => json!({
                    "impact": "external",
                    "approval": "not_required",
                    "constraints": [{ "kind": "email_domain", "at": "/to", "domains": ["customers.example"] }],
                }),
                "refund" => json!({ "impact": "money", "approval": "required", "ask": "required" }),
                _ => json!({ "impact": "irreversible", "approval": "required" }),
            };
            tools.push(entry(&name, &tool, rules)?);
        }
        let disclosed = DISCLOSED.map(|name| json!({ "server": "desk", "name": name }));
        Ok(json!({
            "format": "countersign-registry-1",
            "version": 1,
            "agents": [{
                "agent": "support-bot",
                "version": 1,
                "registered_by": "desk-operator",
                "tools": disclosed,
                "output_tags": ["answer"],
                "max_session": "1h",
            }],
            "tools": tools,
            "revoked": { "agents": [], "keys": [], "snapshots": [] },
        }))
    }

    fn config(&self) -> String {
        let record = Value::from(self.record.to_string_lossy().into_owned());
        let goal = Value::from(GOAL);
        // A JSON string is a TOML basic string.
        format!(
            "[registry]\nfile = \"registry.json\"\ntrust_root = \"trust-root.json\"\nstate = \"registry.state\"\n\n\
             [session]\nagent = \"support-bot\"\nprincipal = \"ada@customers.example\"\ngoal = {goal}\nttl = \"1h\"\n\n\
             [approval]\nkey_file = \"approval.key\"\nstore = \"approvals.sqlite\"\naudience = \"desk-gateway\"\n\
             ttl = \"10m\"\n\n[record]\nfile = {record}\n\n[server]\nname = \"desk\"\n"
        )
    }
}

/// One tool's entry: the rules, the schema that the desk declares, and the digest of its whole definition.
fn entry(name: &str, tool: &Value, rules: Value) -> Result<Value, Failure> {
    let text = tool.to_string();
    let limits = countersign_canonical_json::Limits::default();
    let read =
        countersign_canonical_json::read(text.as_bytes(), countersign_canonical_json::Recipe::Jcs1, &limits)
            .map_err(|error| Failure::new("DEMO_FAILED", error.to_string()))?;
    let definition = countersign_registry::definition_digest(read.value())
        .map_err(|error| Failure::new("DEMO_FAILED", error.to_string()))?;
    let mut entry = rules;
    if let Some(members) = entry.as_object_mut() {
        members.insert("server".to_owned(), "desk".into());
        members.insert("name".to_owned(), name.into());
        members.insert("definition".to_owned(), definition.to_string().into());
        members.insert("args_schema".to_owned(), tool.get("inputSchema").cloned().unwrap_or_default());
    }
    Ok(entry)
}

pub(super) fn failed(what: &str, error: &io::Error) -> Failure {
    Failure::new("DEMO_FAILED", format!("{what}: {error}"))
}
