use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use countersign_audit_log::{Record, SessionRecord, read_log};
use countersign_keys::file::read_public_key;
use countersign_keys::trusted::write_public;
use countersign_mcp::SUBMIT_PLAN;
use serde_json::{Value, json};

use super::{desk, wire};
use crate::failure::Failure;
use crate::files::{Replace, must_be_free};

/// The user's goal, which the configuration pins.
pub(super) const GOAL: &str = "Answer ticket T-1001 and refund the double charge";

/// The goal of the agent that must submit plans.
pub(super) const PLANNED_GOAL: &str = "Make up for the late parcel of ticket T-1003";

/// One agent, and the configuration of its gateway.
#[derive(Debug)]
pub(super) struct Role {
    agent: &'static str,
    goal: &'static str,
    /// The desk's tools that the operator allows it, in the desk's order.
    pub(super) tools: &'static [&'static str],
    /// The tools that the gateway adds.
    pub(super) gateway_tools: &'static [&'static str],
    /// File name of the gateway's configuration, and its part about approvals and evidence.
    config: &'static str,
    asks_for: &'static str,
}

/// The agents, in order of appearance.
pub(super) const ROLES: [Role; 3] = [
    Role {
        agent: "support-bot",
        goal: GOAL,
        tools: &["search", "summarize", "send_email", "refund"],
        gateway_tools: &[],
        config: "gateway.toml",
        asks_for: "[approval]\nkey_file = \"approval.key\"\nstore = \"approvals.sqlite\"\n\
                   audience = \"desk-gateway\"\nttl = \"10m\"\n",
    },
    Role {
        agent: "accounts-bot",
        goal: "Pay the invoices that are due",
        tools: &["search", wire::TOOL],
        gateway_tools: &[],
        config: "payments.toml",
        asks_for: "[proposals]\nkeyring = \"keyring.json\"\nevidence_root = \"evidence\"\n\
                   audience = \"payments-gateway\"\nstore = \"attestations.sqlite\"\n",
    },
    Role {
        agent: "parcel-bot",
        goal: PLANNED_GOAL,
        tools: &["search", "send_email", "refund"],
        gateway_tools: &[SUBMIT_PLAN],
        config: "parcels.toml",
        asks_for: "[approval]\nkey_file = \"approval.key\"\nstore = \"plans.sqlite\"\n\
                   audience = \"parcels-gateway\"\nttl = \"10m\"\n\n\
                   [plan]\nrule = \"always\"\nsubmit = true\n",
    },
];

/// Name of the log's key.
const ORIGIN: &str = "countersign.demo/log";

/// File with the log's public key.
const LOG_KEY: &str = "log.vkey";

/// File to which the finance officer writes the attested proposal.
const ATTESTED: &str = "attested.json";

/// A folder with the operator's files: keys, registry, configuration. The operator uses this same binary, as a person
/// would.
#[derive(Debug)]
pub(super) struct World {
    program: PathBuf,
    folder: PathBuf,
    record: PathBuf,
}

impl World {
    pub(super) fn create(record: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = record {
            // The demo's log has a fresh key, so it cannot continue an existing log.
            must_be_free(path, Replace::Never)?;
        }
        let program =
            std::env::current_exe().map_err(|error| failed("this program cannot find itself", &error))?;
        let name: String =
            countersign_host::random::id::<countersign_core::RunId>("countersign-demo")?.to_string();
        let folder = std::path::absolute(std::env::temp_dir().join(name))
            .map_err(|error| failed("the folder for temporary files is not usable", &error))?;
        private_folder(&folder)
            .map_err(|error| failed(&format!("`{}` cannot be made", folder.display()), &error))?;
        let record = match record {
            None => folder.join("log"),
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
        world.operator(&[
            "keys",
            "generate",
            "--kind",
            "log",
            "--origin",
            ORIGIN,
            "--out",
            "log.key",
            "--public-out",
            LOG_KEY,
        ])?;
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
        for role in &ROLES {
            world.write(role.config, &world.config(role))?;
        }
        world.appoint_finance_officer()?;
        Ok(world)
    }

    pub(super) fn program(&self) -> &Path {
        &self.program
    }

    pub(super) fn record(&self) -> &Path {
        &self.record
    }

    /// Returns the file with the log's public key.
    pub(super) fn log_key(&self) -> PathBuf {
        self.folder.join(LOG_KEY)
    }

    /// Verifies the log as an auditor would, with its public key only. Returns the result in one line.
    pub(super) fn verify_log(&self) -> Result<String, Failure> {
        let mut args = ["audit", "verify"].map(OsString::from).to_vec();
        args.extend([self.record.clone().into(), "--key".into(), LOG_KEY.into()]);
        let found = self.run(&args)?;
        Ok(found.lines().next().unwrap_or_default().to_owned())
    }

    /// Returns the arguments that start the gateway in front of the desk.
    pub(super) fn gateway_args(&self, role: &Role) -> Vec<OsString> {
        let mut args: Vec<OsString> = ["mcp", "run", "--config"].map(OsString::from).into();
        args.push(self.folder.join(role.config).into());
        args.push("--".into());
        args.push(self.program.clone().into());
        args.extend(["demo-desk", "--ledger"].map(OsString::from));
        args.push(self.folder.join("ledger.txt").into());
        args
    }

    /// Approves, as the operator, the call or plan that waits under this id at this agent's gateway.
    pub(super) fn approve(&self, id: &str, role: &Role) -> Result<(), Failure> {
        self.operator(&["approve", id, "--config", role.config, "--yes"])
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

    /// Gives the finance officer a key for transfers, and files an invoice as evidence.
    fn appoint_finance_officer(&self) -> Result<(), Failure> {
        let (key, public) = ("finance.key", "finance.pub");
        self.operator(&["keys", "generate", "--kind", "ed25519", "--out", key, "--public-out", public])?;
        let officer = read_public_key(&self.folder.join(public))?;
        let keyring = json!({
            "trusted_keys": { "finance-1": { "public_key": officer.to_base64(), "tools": [wire::TOOL] } },
        });
        self.write("keyring.json", &keyring.to_string())?;
        self.operator(&["keys", "keyring", "keyring.json"])?;
        fs::create_dir(self.folder.join("evidence"))
            .map_err(|error| failed("the evidence folder cannot be made", &error))?;
        self.write(&format!("evidence/{}", wire::INVOICE.0), wire::INVOICE.1)
    }

    /// Signs, as the finance officer, for the one transfer that the agent will order. Agent and session come from the
    /// record, not from the agent.
    pub(super) fn attest(&self) -> Result<(), Failure> {
        let session = self.last_session()?;
        self.write("proposal.json", &wire::proposal(wire::Reason::Attested).to_string())?;
        let (id, version) = (session.session.to_string(), session.registry_version.to_string());
        let goal = session.ask.map(|ask| ask.to_string()).unwrap_or_default();
        let mut args = vec!["proposal", "attest", "--proposal", "proposal.json", "--yes", "--into", ATTESTED];
        args.extend(["--evidence-root", "evidence"]);
        args.extend(["--key", "finance.key", "--key-id", "finance-1", "--evidence-id", "finance"]);
        args.extend(["--audience", "payments-gateway", "--server", "desk", "--call-id", wire::CALL_ID]);
        args.extend(["--principal", session.principal.as_str(), "--agent", session.agent.as_str()]);
        args.extend(["--session", &id, "--registry-version", &version, "--ask", &goal]);
        self.operator(&args)
    }

    /// Returns the proposal with the finance officer's attestation.
    pub(super) fn attested(&self) -> Result<Value, Failure> {
        let text = fs::read(self.folder.join(ATTESTED))
            .map_err(|error| failed("the attested proposal cannot be read", &error))?;
        serde_json::from_slice(&text)
            .map_err(|_| Failure::new("DEMO_FAILED", "the attested proposal is not JSON"))
    }

    /// Returns the last session in the record.
    fn last_session(&self) -> Result<SessionRecord, Failure> {
        let lost = || Failure::new("DEMO_FAILED", "the record holds no session");
        let mut last = None;
        for entry in read_log(&self.record)? {
            if let Record::Session(session) = entry?.into_record() {
                last = Some(session);
            }
        }
        last.ok_or_else(lost)
    }

    /// Returns the desk's side effects, one per line.
    pub(super) fn ledger(&self) -> Result<Vec<String>, Failure> {
        match fs::read_to_string(self.folder.join("ledger.txt")) {
            Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(failed("the ledger cannot be read", &error)),
        }
    }

    /// Runs one verb of this binary in the demo's folder, as the operator would.
    fn operator(&self, args: &[&str]) -> Result<(), Failure> {
        self.run(&args.iter().map(OsString::from).collect::<Vec<_>>()).map(drop)
    }

    fn run(&self, args: &[OsString]) -> Result<String, Failure> {
        let done = Command::new(&self.program)
            .args(args)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed("the operator's command cannot be started", &error))?;
        if done.status.success() {
            return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let line = args.join(OsStr::new(" "));
        Err(Failure::new("DEMO_FAILED", format!("`countersign {}`: {}", line.display(), said.trim())))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        write_public(&self.folder.join(name), text.as_bytes())
            .map_err(|error| failed("the demo's folder cannot be written", &error))
    }

    /// Builds the registry draft for the agents. Each tool is pinned to its definition.
    fn draft(&self) -> Result<Value, Failure> {
        let mut tools = Vec::new();
        for tool in desk::tools() {
            let name = member(&tool, "/name").to_owned();
            let rules = match name.as_str() {
                "search" => json!({ "impact": "read", "approval": "not_required" }),
                "summarize" => json!({ "impact": "compute", "approval": "not_required" }),
                "send_email" => json!({
                    "impact": "external",
                    "approval": "not_required",
                    "constraints": [{ "kind": "email_domain", "at": "/to", "domains": ["customers.example"] }],
                    "data_args": ["/body"],
                }),
                "refund" => json!({ "impact": "money", "approval": "required", "ask": "required" }),
                wire::TOOL => {
                    json!({ "impact": "money", "approval": "not_required", "evidence": "required" })
                }
                _ => json!({ "impact": "irreversible", "approval": "required" }),
            };
            tools.push(entry(&name, &tool, rules)?);
        }
        let agents: Vec<Value> = ROLES
            .iter()
            .map(|role| {
                let id = |name: &&str| json!({ "server": "desk", "name": name });
                json!({
                    "agent": role.agent,
                    "version": 1,
                    "registered_by": "desk-operator",
                    "tools": role.tools.iter().map(id).collect::<Vec<_>>(),
                    "output_tags": ["answer"],
                    "max_session": "1h",
                })
            })
            .collect();
        Ok(json!({
            "format": "countersign-registry-1",
            "version": 1,
            "agents": agents,
            "tools": tools,
            "revoked": { "agents": [], "keys": [], "snapshots": [] },
        }))
    }

    fn config(&self, role: &Role) -> String {
        let record = Value::from(self.record.to_string_lossy().into_owned());
        let (agent, goal, asks_for) = (Value::from(role.agent), Value::from(role.goal), role.asks_for);
        // A JSON string is a TOML basic string.
        format!(
            "[registry]\nfile = \"registry.json\"\ntrust_root = \"trust-root.json\"\nstate = \"registry.state\"\n\n\
             [session]\nagent = {agent}\nprincipal = \"ada@customers.example\"\ngoal = {goal}\nttl = \"1h\"\n\n\
             {asks_for}\n[record]\nfolder = {record}\nkey_file = \"log.key\"\norigin = \"{ORIGIN}\"\n\n[server]\nname = \"desk\"\n"
        )
    }
}

/// Builds one tool's entry: the rules, the schema that the desk declares, and the digest of the whole definition.
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

/// Creates a folder that only the current user can enter, within a world-writable folder.
fn private_folder(path: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Text at a JSON pointer; empty if missing.
pub(super) fn member<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
