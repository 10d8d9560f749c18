//! Drafts a registry from what a server offers.

use countersign_canonical_json::{Kind, ValueRef};
use countersign_core::{AgentId, Millis, OperatorId, ServerName, ToolName};
use countersign_host::interrupt::Interrupt;
use countersign_host::server_part::EraName;
use countersign_mcp::SUBMIT_PLAN;
use countersign_registry::{
    FORMAT, ListedTool, RegistryDraft, ServerEntry, ToolTier, definition_digest, is_read_name,
};
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::failure::{Failure, one_line};
use crate::listed_reads::ListedReads;
use crate::mcp_server::McpServer;
use crate::output::{internal, note};

/// Most bytes of a message of the server.
pub(crate) const MAX_MESSAGE: usize = 16 << 20;

/// Names under which a server's tools are drafted.
#[derive(Debug)]
pub(crate) struct Drafting {
    pub(crate) name: ServerName,
    pub(crate) agent: AgentId,
    pub(crate) registered_by: OperatorId,
    pub(crate) version: u64,
    /// How long to wait for each answer of the server.
    pub(crate) wait: Millis,
}

/// Returns the tier of a tool out of its name and the listed definition.
pub(crate) fn tier_of(name: &str, listed: &ListedTool) -> ToolTier {
    if is_read_name(name) {
        return ToolTier::ReadsInside;
    }
    ToolTier::of(&json!({
        "name": name, "annotations": listed.get("annotations"), "inputSchema": listed.get("inputSchema"),
    }))
}

/// Reports an entry that a registry cannot contain. `kind` stands before its name.
fn left_out(kind: &str, name: Option<&str>, failure: &Failure) {
    let name = one_line(name.unwrap_or("?"));
    note(&format!("warning {}: {kind}`{name}` is left out: {}", failure.code(), failure.line()));
}

impl Drafting {
    /// Drafts the tools of a server that `start` starts. A server of the stateless era may end at `initialize`: with
    /// [`EraName::Auto`] it is started once more, and discovered. Returns the draft and the era that a configuration has to name.
    pub(crate) fn settled(
        &self,
        start: impl Fn() -> Result<McpServer, Failure>,
        era: EraName,
        interrupt: &Interrupt,
    ) -> Result<(Value, EraName), Failure> {
        let ended = match self.draft_of(start()?, era, interrupt) {
            Err(failure) if era == EraName::Auto && failure.code() == "SERVER_ENDED" => failure,
            drafted => return drafted.map(|draft| (draft, era)),
        };
        // Of a server that ends either way, the first end is the one to report.
        let drafted = self.draft_of(start()?, EraName::Stateless, interrupt);
        drafted.map(|draft| (draft, EraName::Stateless)).map_err(|_| ended)
    }

    /// Lists the server's tools, ends it, and returns the draft. Tools that a registry cannot contain are reported.
    fn draft_of(&self, mut server: McpServer, era: EraName, interrupt: &Interrupt) -> Result<Value, Failure> {
        let mut client = server.client(self.wait, interrupt)?;
        let hello = client.initialize_to_list(era)?;
        let pages = client.list_settled_tools()?;
        let reads = ListedReads::list(&mut client, hello.value())?;
        drop(client);
        server.end();

        let mut tools = Vec::new();
        for tool in
            pages.iter().filter_map(|page| page.value().pointer("/result/tools")).flat_map(ValueRef::elements)
        {
            match self.entry(tool) {
                Ok(entry) => tools.push(entry),
                Err(failure) => {
                    left_out("tool ", tool.get("name").and_then(ValueRef::as_str), &failure);
                }
            }
        }
        if tools.is_empty() {
            return Err(Failure::new(
                "SERVER_NO_TOOLS",
                "no tool in the server's list that a registry can contain",
            ));
        }
        tools.extend(self.read_entries(&reads));
        let draft = self.draft(&tools, self.server_entry(hello.value())?.as_ref());
        RegistryDraft::from_json(draft.to_string().as_bytes())?;
        Ok(draft)
    }

    /// Builds the entry with the server's name, version and instructions, for the operator to read. Instructions that a
    /// registry cannot hold are left out and so are not pinned.
    fn server_entry(&self, hello: ValueRef<'_>) -> Result<Option<ServerEntry>, Failure> {
        let info = hello.pointer("/result/serverInfo").filter(|info| info.kind() == Kind::Object);
        let info = info.map(Value::deserialize).transpose();
        let info = info.map_err(|_| internal("an object is not JSON"))?;
        let instructions = hello.pointer("/result/instructions").and_then(ValueRef::as_str);
        let named = |instructions| ServerEntry::new(self.name.clone(), instructions, info.clone());
        let pinned = instructions.map(|text| named(Some(text.to_owned())));
        let holds = |entry: &ServerEntry| {
            let draft = self.draft(&[], Some(entry)).to_string();
            RegistryDraft::from_json(draft.as_bytes())
        };
        match pinned.as_ref().map(holds) {
            Some(Ok(_)) => return Ok(pinned),
            Some(Err(error)) => {
                let failure = Failure::from(error);
                note(&format!(
                    "warning {}: the server's instructions are left out: {}",
                    failure.code(),
                    failure.line()
                ));
            }
            None => {}
        }
        Ok(Some(named(None)).filter(|entry| entry.info().is_some() && holds(entry).is_ok()))
    }

    /// Builds the entries of what the server lets its clients read. One that a registry cannot contain is reported.
    fn read_entries(&self, reads: &ListedReads) -> Vec<Value> {
        let mut kept = Vec::new();
        for mut entry in reads.entries() {
            if let Some(members) = entry.as_object_mut() {
                members.insert("server".to_owned(), json!(self.name));
            }
            let draft = self.draft(std::slice::from_ref(&entry), None).to_string();
            match RegistryDraft::from_json(draft.as_bytes()) {
                Ok(_) => kept.push(entry),
                Err(error) => left_out("", entry.get("name").and_then(Value::as_str), &Failure::from(error)),
            }
        }
        kept
    }

    /// Builds the entry of a tool by its tier. The operator decides whether it is right.
    fn entry(&self, tool: ValueRef<'_>) -> Result<Value, Failure> {
        let definition = definition_digest(tool)?;
        let name = tool.get("name").and_then(ValueRef::as_str).unwrap_or_default();
        if name == SUBMIT_PLAN || is_read_name(name) {
            return Err(Failure::new("TOOL_NAME", "tool name reserved by the gateway"));
        }
        let name = ToolName::new(name).map_err(|error| Failure::new("TOOL_NAME", error.to_string()))?;
        let schema = match tool.get("inputSchema") {
            Some(schema) => Value::deserialize(schema)
                .map_err(|error| Failure::new("TOOL_DEFINITION_SHAPE", error.to_string()))?,
            None => json!({"type": "object"}),
        };
        let listed = ListedTool::of(tool)?;
        let tier = tier_of(name.as_str(), &listed);
        let entry = json!({
            "server": self.name,
            "name": name,
            "impact": tier.impact(),
            "approval": if tier.is_free() { "not_required" } else { "required" },
            "ask": "not_required",
            "evidence": "not_required",
            "plan": "not_required",
            "definition": definition,
            "as_listed": listed,
            "args_schema": schema,
        });
        RegistryDraft::from_json(self.draft(std::slice::from_ref(&entry), None).to_string().as_bytes())?;
        Ok(entry)
    }

    fn draft(&self, tools: &[Value], server: Option<&ServerEntry>) -> Value {
        let ids: Vec<_> =
            tools.iter().map(|tool| json!({"server": tool["server"], "name": tool["name"]})).collect();
        let agent = json!({
            "agent": self.agent,
            "version": 1,
            "registered_by": self.registered_by,
            "tools": ids,
            "max_session": "1h",
        });
        json!({
            "format": FORMAT,
            "version": self.version,
            // A registry cannot contain an agent without tools.
            "agents": Some(agent).filter(|_| !ids.is_empty()).into_iter().collect::<Vec<_>>(),
            "tools": tools,
            "servers": server.into_iter().collect::<Vec<_>>(),
            "revoked": {"agents": [], "keys": [], "snapshots": []},
        })
    }
}
