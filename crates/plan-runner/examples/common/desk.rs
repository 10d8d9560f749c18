// The set-up that the operator of a support desk does once, in a folder for temporary files: tickets, parcels and an outbox;
// tools that work on them; a signed registry; a gate that refuses every call without a plan; rules for plans; and a person who
// approves plans. The keys are for examples only: real ones come from `countersign keys generate`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign::Countersign;
use countersign::approval_token::{MemorySpentTokens, MintTerms, mint};
use countersign::audit_log::MemorySink;
use countersign::canonical_json::Canonical;
use countersign::core::{
    AgentId, Audience, Clock as _, ImpactClass, KeyId, Millis, OperatorId, Principal, RunId, SessionId,
    SystemClock, TokenId, ToolId,
};
use countersign::keys::trusted::write_public;
use countersign::keys::{Keyring, RunKeys, ServerSecret, SigningKey, TrustRoot};
use countersign::registry::RegistryDraft;
use countersign::tool_gate::{ApprovalRequest, ApprovalSettings, ToolGate};
use countersign_plan_runner::{
    Actors, Approval, Chat, FlowRules, ModelInspector, ModelPlanner, ModelResponder, PlanRunner, RunEnd,
    RunError, RunEvent, Task, ToolError, Tools,
};

pub(crate) type Failed = Box<dyn std::error::Error>;

/// The session's goal, as the user stated it.
pub(crate) const GOAL: &str = "Answer ticket T-1001 of ada@customers.example";

/// A desk on disk, with a gate in front of its tools.
pub(crate) struct Desk {
    folder: PathBuf,
    gate: ToolGate,
    rules: FlowRules,
}

impl Desk {
    /// Sets up the desk, with this text in the ticket and this one about the parcel.
    pub(crate) fn open(name: &str, ticket: &str, parcel: &str) -> Result<Self, Failed> {
        let folder = std::env::temp_dir().join(format!("countersign-{name}-{}", std::process::id()));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        for part in ["tickets", "parcels", "outbox"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("tickets/T-1001"), ticket)?;
        fs::write(folder.join("parcels/T-1001"), parcel)?;
        fs::write(folder.join("customers"), "ada@customers.example\nbob@customers.example\n")?;
        let gate = open_gate(&folder)?;
        let rules = FlowRules::builder().no_egress_after_private().most_calls(ImpactClass::External, 1);
        let rules = rules.build(gate.registry().view().snapshot())?;
        Ok(Self { folder, gate, rules })
    }

    /// Runs the task with these models, and prints the events as they happen.
    pub(crate) fn run(
        &self,
        prompt: &str,
        planner: impl Chat,
        inspector: impl Chat,
        responder: impl Chat,
    ) -> Result<RunEnd, RunError> {
        let (mut rules, mut inspector) = (self.rules.clone(), ModelInspector::new(inspector));
        let (mut planner, mut responder) = (ModelPlanner::new(planner), ModelResponder::new(responder));
        let mut tools = DeskTools { folder: &self.folder };
        let mut approver = |request: &ApprovalRequest| approve(request).unwrap_or(Approval::Deny);
        let mut observer = |event: &RunEvent<'_>| tell(event);
        let actors = Actors::new(&mut planner, vec![&mut rules, &mut inspector], &mut responder, &mut tools)
            .approver(&mut approver)
            .observer(&mut observer);
        let runner = PlanRunner::new(self.gate.clone(), Arc::new(SystemClock::new()));
        runner.run(&Task::new(prompt).goal(GOAL), actors)
    }

    /// The letters that were sent, each with its recipient.
    pub(crate) fn outbox(&self) -> Result<Vec<(String, String)>, Failed> {
        let mut letters = Vec::new();
        for entry in fs::read_dir(self.folder.join("outbox"))? {
            let path = entry?.path();
            let to = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            letters.push((to, fs::read_to_string(path)?));
        }
        Ok(letters)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.folder);
    }
}

/// Prints an event, without any argument's value.
fn tell(event: &RunEvent<'_>) {
    match event {
        RunEvent::Planned { steps } => println!("  the planner wrote a plan of {steps} steps"),
        RunEvent::Committed { root } => println!("  committed: {root}"),
        RunEvent::Inspected { inspector } => println!("  inspected: the {inspector} let it pass"),
        RunEvent::Started { approval, .. } => println!("  started; approval of the whole plan: {approval:?}"),
        RunEvent::StepVerified { step, tool, record } => {
            println!("  step {step} verified, record {record}: {tool} runs");
        }
        RunEvent::StepRan { step, bytes } => println!("  step {step} returned {bytes} bytes"),
        RunEvent::StepRefused { step, code } => println!("  step {step} refused: {code}"),
        RunEvent::Verified { calls } => println!("  root found again; the trace holds {calls} calls"),
        RunEvent::Finished => println!("  the planner wrote the answer"),
        RunEvent::Halted { code } => println!("  halted: {code}"),
        RunEvent::Answered | _ => println!("  {event:?}"),
    }
}

/// The desk's tools. They receive only calls that the gate has accepted.
struct DeskTools<'a> {
    folder: &'a Path,
}

impl Tools for DeskTools<'_> {
    fn run(&mut self, tool: &ToolId, args: &Canonical) -> Result<Vec<u8>, ToolError> {
        let arg = |name: &str| args.value().get(name).and_then(|value| value.as_str()).unwrap_or_default();
        match tool.name().as_str() {
            "read_ticket" => fs::read(self.folder.join("tickets").join(arg("id"))).map_err(ToolError::new),
            "track_parcel" => {
                fs::read(self.folder.join("parcels").join(arg("ticket"))).map_err(ToolError::new)
            }
            "list_customers" => fs::read(self.folder.join("customers")).map_err(ToolError::new),
            "send_mail" => {
                let letter = self.folder.join("outbox").join(arg("to"));
                fs::write(letter, arg("body")).map_err(ToolError::new)?;
                Ok(b"sent".to_vec())
            }
            _ => Err(ToolError::new("the desk has no such tool")),
        }
    }
}

/// The decision of a person who saw the plan and approves exactly that plan.
fn approve(request: &ApprovalRequest) -> Result<Approval, Failed> {
    let steps = request.args().value().get("steps").map_or(0, |steps| steps.len());
    println!("  approver sees the plan: {steps} steps");
    let terms = MintTerms::new(
        TokenId::new("approval-1")?,
        OperatorId::new("grace@example.com")?,
        SystemClock::new().now()?,
        Millis::from_secs(300),
    );
    let token = mint(&run_keys()?, request.binding(), &terms, Millis::from_secs(3_600))?;
    Ok(Approval::Token(token.as_str().to_owned()))
}

fn run_keys() -> Result<RunKeys, Failed> {
    let secret = ServerSecret::new(KeyId::new("approvals-2026")?, &[9; 32])?;
    Ok(Keyring::new(secret).for_run(&RunId::new("run-1")?))
}

fn open_gate(folder: &Path) -> Result<ToolGate, Failed> {
    let now = SystemClock::new().now()?;
    let operator = SigningKey::from_seed([7; 32]);
    let (registry, root) = (folder.join("registry.json"), folder.join("trust-root.json"));
    write_public(&root, TrustRoot::new(1, 1, vec![operator.verifying_key()])?.to_json().as_bytes())?;
    let expires = now.checked_add(Millis::from_secs(3_600))?;
    let envelope = RegistryDraft::from_json(DRAFT.as_bytes())?.sign(now, expires, &[&operator])?;
    write_public(&registry, envelope.to_json().as_bytes())?;
    let spent = Arc::new(MemorySpentTokens::new());
    Ok(Countersign::load(registry, root, folder.join("registry.state"))?
        .session(
            AgentId::new("support-bot")?,
            SessionId::new("session-1")?,
            Principal::new("ada@example.com")?,
        )
        .goal(GOAL)
        .approvals(ApprovalSettings::new(run_keys()?, spent, Audience::new("desk-gate")?))
        .plan_first()
        .open(MemorySink::new())?)
}

const DRAFT: &str = r#"{
  "format": "countersign-registry-1",
  "version": 1,
  "agents": [{
    "agent": "support-bot", "version": 1, "registered_by": "desk-operator",
    "tools": [{"server": "desk", "name": "read_ticket"}, {"server": "desk", "name": "track_parcel"},
              {"server": "desk", "name": "list_customers"}, {"server": "desk", "name": "send_mail"}],
    "output_tags": ["answer"], "max_session": "30m"
  }],
  "tools": [
    {"server": "desk", "name": "read_ticket", "impact": "read", "approval": "not_required",
     "args_schema": {"type": "object", "properties": {"id": {"type": "string", "pattern": "^T-[0-9]{1,9}$"}},
                     "required": ["id"], "additionalProperties": false}},
    {"server": "desk", "name": "track_parcel", "impact": "read", "approval": "not_required",
     "args_schema": {"type": "object", "properties": {"ticket": {"type": "string", "pattern": "^T-[0-9]{1,9}$"}},
                     "required": ["ticket"], "additionalProperties": false}},
    {"server": "desk", "name": "list_customers", "impact": "privacy", "approval": "not_required",
     "args_schema": {"type": "object", "additionalProperties": false}},
    {"server": "desk", "name": "send_mail", "impact": "external", "approval": "required", "plan": "required",
     "args_schema": {"type": "object", "properties": {"to": {"type": "string"}, "body": {"type": "string"}},
                     "required": ["to", "body"], "additionalProperties": false},
     "constraints": [{"kind": "email_domain", "at": "/to", "domains": ["customers.example"]}],
     "data_args": ["/body"]}
  ],
  "revoked": {"agents": [], "keys": [], "snapshots": []}
}"#;
