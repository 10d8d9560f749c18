use std::ffi::OsString;

use clap::Args;
use countersign_canonical_json::ValueRef;
use countersign_core::{AgentId, Millis, OperatorId, ServerName, ToolName};
use countersign_mcp::SUBMIT_PLAN;
use countersign_registry::{FORMAT, RegistryDraft, definition_digest};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, one_line};
use crate::interrupt::Interrupt;
use crate::output::{Output, internal, note};
use crate::server::Server;

#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// What the registry shall call the server.
    #[arg(long)]
    name: ServerName,
    /// The agent that the draft lists the tools for.
    #[arg(long, default_value = "agent")]
    agent: AgentId,
    /// Who registers the agent.
    #[arg(long, default_value = "operator")]
    registered_by: OperatorId,
    /// How long to wait for each answer of the server.
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    wait: Millis,
    /// The command that starts the server and its arguments, after `--`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true, value_name = "SERVER")]
    server: Vec<OsString>,
}

impl Inspect {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let mut server = Server::start(&self.server, &Interrupt::watch()?)?;
        let mut client = server.client(self.wait)?;
        client.initialize()?;
        let pages = client.list_tools()?;
        drop(client);
        server.end();

        let mut tools = Vec::new();
        for tool in
            pages.iter().filter_map(|page| page.value().pointer("/result/tools")).flat_map(ValueRef::elements)
        {
            match self.entry(tool) {
                Ok(entry) => tools.push(entry),
                Err(failure) => {
                    let name = tool.get("name").and_then(ValueRef::as_str).unwrap_or("?");
                    note(&format!(
                        "warning {}: tool `{}` is left out: {}",
                        failure.code(),
                        one_line(name),
                        failure.line()
                    ));
                }
            }
        }
        if tools.is_empty() {
            return Err(Failure::new("SERVER_NO_TOOLS", "the server lists no tool that a registry can hold"));
        }
        let draft = self.draft(&tools);
        RegistryDraft::from_json(draft.to_string().as_bytes())?;
        if out.is_json() {
            out.json(&draft)?;
        } else {
            let text = serde_json::to_string_pretty(&draft).map_err(|_| internal("a draft is not JSON"))?;
            out.line(&text)?;
            note(
                "note: every tool is `irreversible` and needs an approval; lower what you know to be harmless, then sign",
            );
        }
        Ok(Exit::Done)
    }

    /// One tool as tight as can be: lowering it is for the operator to do, on purpose.
    fn entry(&self, tool: ValueRef<'_>) -> Result<Value, Failure> {
        let definition = definition_digest(tool)?;
        let name = tool.get("name").and_then(ValueRef::as_str).unwrap_or_default();
        if name == SUBMIT_PLAN {
            return Err(Failure::new("TOOL_NAME", "the name is that of the gateway's own tool"));
        }
        let name = ToolName::new(name).map_err(|error| Failure::new("TOOL_NAME", error.to_string()))?;
        let schema = match tool.get("inputSchema") {
            Some(schema) => Value::deserialize(schema)
                .map_err(|error| Failure::new("TOOL_DEFINITION_SHAPE", error.to_string()))?,
            None => json!({"type": "object"}),
        };
        let entry = json!({
            "server": self.name,
            "name": name,
            "impact": "irreversible",
            "approval": "required",
            "ask": "not_required",
            "evidence": "not_required",
            "plan": "not_required",
            "definition": definition,
            "args_schema": schema,
        });
        RegistryDraft::from_json(self.draft(std::slice::from_ref(&entry)).to_string().as_bytes())?;
        Ok(entry)
    }

    fn draft(&self, tools: &[Value]) -> Value {
        let ids: Vec<_> =
            tools.iter().map(|tool| json!({"server": tool["server"], "name": tool["name"]})).collect();
        json!({
            "format": FORMAT,
            "version": 1,
            "agents": [{
                "agent": self.agent,
                "version": 1,
                "registered_by": self.registered_by,
                "tools": ids,
                "max_session": "1h",
            }],
            "tools": tools,
            "revoked": {"agents": [], "keys": [], "snapshots": []},
        })
    }
}
