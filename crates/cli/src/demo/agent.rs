use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use countersign_mcp::SUBMIT_PLAN;
use serde_json::{Value, json};

use super::wire;
use super::world::{Role, World, failed, member};
use crate::failure::Failure;

/// Result of one act.
#[derive(Debug)]
pub(super) enum ActResult {
    /// The operator acted, or a list was returned.
    Done,
    /// The tool ran.
    Accepted,
    /// The gate refused with this code.
    Refused(String),
    /// Anything else: an error instead of a result, or a list with too many tools.
    Odd(String),
}

impl ActResult {
    pub(super) fn is(&self, expected: &str) -> bool {
        self.text() == expected
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::Done => "done".to_owned(),
            Self::Accepted => "accept".to_owned(),
            Self::Refused(code) => code.clone(),
            Self::Odd(what) => format!("unexpected: {what}"),
        }
    }
}

/// The agent: an MCP client that talks to the gateway over pipes as if it were the server.
#[derive(Debug)]
pub(super) struct Agent {
    gateway: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    next_id: u64,
    approval_id: Option<String>,
    role: &'static Role,
}

impl Agent {
    /// Starts the role's gateway and initializes the session.
    pub(super) fn start(world: &World, role: &'static Role) -> Result<Self, Failure> {
        let mut gateway = Command::new(world.program())
            .args(world.gateway_args(role))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| failed("the gateway cannot be started", &error))?;
        let (Some(to), Some(from)) = (gateway.stdin.take(), gateway.stdout.take()) else {
            return Err(Failure::new("DEMO_FAILED", "the gateway has no pipes"));
        };
        let from = BufReader::new(from);
        let mut agent = Self { gateway, to, from, next_id: 1, approval_id: None, role };
        agent.request(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "demo-agent", "version": "1" },
            }),
        )?;
        agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(agent)
    }

    /// Lists the tools; `Odd` unless they are exactly those that were signed for this agent.
    pub(super) fn list(&mut self) -> Result<ActResult, Failure> {
        let answer = self.request("tools/list", &json!({}))?;
        let tools = answer.pointer("/result/tools").and_then(Value::as_array);
        let names: Vec<&str> = tools.into_iter().flatten().map(|tool| member(tool, "/name")).collect();
        let expected = self.role.tools.iter().chain(self.role.gateway_tools);
        Ok(if names.iter().eq(expected) { ActResult::Done } else { ActResult::Odd(names.join(",")) })
    }

    /// Calls a tool and optionally restates the goal.
    pub(super) fn call(&mut self, tool: &str, args: &Value, ask: Option<&str>) -> Result<ActResult, Failure> {
        let mut params = json!({ "name": tool, "arguments": args });
        if let (Some(ask), Some(members)) = (ask, params.as_object_mut()) {
            members.insert("_meta".to_owned(), json!({ "dev.countersign/ask": ask }));
        }
        self.make_call(&params)
    }

    /// Calls the transfer tool with an action proposal.
    pub(super) fn wire(&mut self, mut args: Value, proposal: Value) -> Result<ActResult, Failure> {
        if let Some(members) = args.as_object_mut() {
            members.insert("__pic".to_owned(), proposal);
        }
        let meta = json!({ "dev.countersign/call_id": wire::CALL_ID });
        self.make_call(&json!({ "name": wire::TOOL, "arguments": args, "_meta": meta }))
    }

    /// Submits a plan to the gateway.
    pub(super) fn submit(&mut self, steps: &Value) -> Result<ActResult, Failure> {
        self.make_call(&json!({ "name": SUBMIT_PLAN, "arguments": { "steps": steps } }))
    }

    fn make_call(&mut self, params: &Value) -> Result<ActResult, Failure> {
        let answer = self.request("tools/call", params)?;
        let Some(result) = answer.get("result") else {
            return Ok(ActResult::Odd(member(&answer, "/error/message").to_owned()));
        };
        let decision = result.pointer("/_meta/dev.countersign~1decision");
        Ok(match decision {
            Some(decision) => {
                if let Some(id) = decision.get("approval_id").and_then(Value::as_str) {
                    self.approval_id = Some(id.to_owned());
                }
                ActResult::Refused(member(decision, "/code").to_owned())
            }
            None if result.get("isError") == Some(&Value::Bool(true)) => {
                ActResult::Odd("the tool failed".to_owned())
            }
            None => ActResult::Accepted,
        })
    }

    /// Returns the id under which the last refused call can be approved.
    pub(super) fn approval_id(&mut self) -> Result<String, Failure> {
        self.approval_id.take().ok_or_else(|| Failure::new("DEMO_FAILED", "no call waits for approval"))
    }

    /// Closes the pipes and waits for the gateway to end.
    pub(super) fn stop(self) -> Result<String, Failure> {
        let Self { mut gateway, to, from, .. } = self;
        drop((to, from));
        let status = gateway.wait().map_err(|error| failed("the gateway did not end", &error))?;
        Ok(if status.success() { String::new() } else { format!(" (the gateway ended with {status})") })
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        let id = self.next_id;
        self.next_id = id.saturating_add(1);
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut line = String::new();
            let read =
                self.from.read_line(&mut line).map_err(|error| failed("the gateway is silent", &error))?;
            if read == 0 {
                return Err(Failure::new("DEMO_FAILED", "the gateway ended early"));
            }
            let message: Value = serde_json::from_str(&line)
                .map_err(|_| Failure::new("DEMO_FAILED", "the gateway wrote a line that is not JSON"))?;
            if message.get("id").and_then(Value::as_u64) == Some(id) {
                return Ok(message);
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result<(), Failure> {
        writeln!(self.to, "{message}")
            .and_then(|()| self.to.flush())
            .map_err(|error| failed("the gateway does not listen", &error))
    }
}
