//! The event that a host with command hooks writes before it runs a tool.

use std::fmt;
use std::str::FromStr;

use countersign_canonical_json::{Canonical, Kind, Limits, Recipe, ValueRef, read};
use countersign_core::SessionId;
use countersign_tool_gate::CallArgs;

/// Largest event, in bytes.
pub const EVENT_BYTES: usize = 8 << 20;

/// A program that asks a command before it runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each host has a format of its own")]
pub enum HookHost {
    /// Claude Code, `PreToolUse`.
    ClaudeCode,
    /// Cursor, `preToolUse` and its `before` events.
    Cursor,
    /// GitHub Copilot, `preToolUse` in either of its formats.
    Copilot,
}

impl HookHost {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ClaudeCode, Self::Cursor, Self::Copilot];

    /// The name on the command line, which is the server of the host's tools in a draft.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Copilot => "copilot",
        }
    }
}

impl fmt::Display for HookHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for HookHost {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|host| host.as_str() == text);
        found.ok_or("claude-code, cursor or copilot expected")
    }
}

/// A call of a host's tool, as its hook learns of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct HookEvent {
    /// The host's session.
    pub session: SessionId,
    /// The tool's name, as the host spells it.
    pub tool: String,
    /// The arguments.
    pub args: CallArgs,
    /// The host's id of the call, if it gives one.
    pub tool_use: Option<String>,
}

/// Why an event is not a call that can be decided.
#[derive(Debug)]
#[non_exhaustive]
pub struct BadHookEvent {
    /// The host's session, if it could be read.
    pub session: Option<SessionId>,
    /// The reason, for the record.
    pub reason: String,
}

impl HookEvent {
    /// Reads an event strictly, once.
    ///
    /// # Errors
    /// [`BadHookEvent`] if it is no event of this host, or of another moment than before a call.
    pub fn read(host: HookHost, event: &[u8]) -> Result<Self, BadHookEvent> {
        let bad = |reason: &str| BadHookEvent { session: None, reason: reason.to_owned() };
        let event = read_json(event).map_err(|reason| bad(&reason))?;
        let value = event.value();
        let name = value.get("hook_event_name").and_then(ValueRef::as_str);
        let session = session_of(host, name.is_some(), value);
        let bad = |reason: &str| BadHookEvent { session: session.clone(), reason: reason.to_owned() };
        let (tool, args) = match host {
            HookHost::ClaudeCode => claude_code(&event, name),
            HookHost::Cursor => cursor(&event, name),
            HookHost::Copilot => copilot(&event, name),
        }
        .map_err(|reason| bad(&reason))?;
        let tool_use = value.get("tool_use_id").and_then(ValueRef::as_str).map(str::to_owned);
        let session = session.clone().ok_or_else(|| bad("the session's id is missing"))?;
        Ok(Self { session, tool, args: CallArgs::new(args), tool_use })
    }
}

/// A tool's name and its arguments.
type NamedCall = (String, Canonical);

fn session_of(host: HookHost, is_named: bool, event: ValueRef<'_>) -> Option<SessionId> {
    let member = match host {
        HookHost::Cursor => "conversation_id",
        HookHost::Copilot if !is_named => "sessionId",
        HookHost::ClaudeCode | HookHost::Copilot => "session_id",
    };
    SessionId::new(event.get(member)?.as_str()?).ok()
}

fn claude_code(event: &Canonical, name: Option<&str>) -> Result<NamedCall, String> {
    match name {
        Some("PreToolUse") => Ok((text(event, "tool_name")?, object(event, "tool_input")?)),
        _ => Err("`PreToolUse` expected".to_owned()),
    }
}

/// The events with names of their own have the arguments beside the event's other members.
fn cursor(event: &Canonical, name: Option<&str>) -> Result<NamedCall, String> {
    match name {
        Some("preToolUse") => {
            let name = text(event, "tool_name")?;
            // A name in the registry has no colon.
            let name = name.strip_prefix("MCP:").map(|tool| format!("MCP/{tool}")).unwrap_or(name);
            Ok((name, object(event, "tool_input")?))
        }
        Some("beforeMCPExecution") => {
            Ok((format!("MCP/{}", text(event, "tool_name")?), object(event, "tool_input")?))
        }
        Some("beforeShellExecution") => Ok(("Shell".to_owned(), pick(event, &["command", "cwd"])?)),
        Some("beforeReadFile") => Ok(("Read".to_owned(), pick(event, &["file_path"])?)),
        _ => {
            Err("`preToolUse`, or an event before a shell command, an MCP call or a reading expected"
                .to_owned())
        }
    }
}

fn copilot(event: &Canonical, name: Option<&str>) -> Result<NamedCall, String> {
    match name {
        None => Ok((text(event, "toolName")?, object(event, "toolArgs")?)),
        Some("PreToolUse" | "preToolUse") => Ok((text(event, "tool_name")?, object(event, "tool_input")?)),
        Some(_) => Err("`preToolUse` expected".to_owned()),
    }
}

fn text(event: &Canonical, member: &str) -> Result<String, String> {
    let found = event.value().get(member).and_then(ValueRef::as_str);
    found.map(str::to_owned).ok_or_else(|| format!("`{member}` is missing or no text"))
}

/// Arguments that a host writes as an object, or as the JSON text of one.
fn object(event: &Canonical, member: &str) -> Result<Canonical, String> {
    let args = event.value().get(member).ok_or_else(|| format!("`{member}` is missing"))?;
    let args = match args.as_str() {
        Some(text) => read_json(text.as_bytes())?,
        None => event.subtree(args),
    };
    if args.value().kind() == Kind::Object { Ok(args) } else { Err(format!("`{member}` is no object")) }
}

/// The members of the event that are arguments.
fn pick(event: &Canonical, members: &[&str]) -> Result<Canonical, String> {
    let others: Vec<_> =
        event.value().members().map(|(name, _)| name).filter(|name| !members.contains(name)).collect();
    let args = event.clone().without(&others);
    let missing = members.iter().find(|member| args.value().get(member).is_none());
    missing.map_or_else(|| Ok(args.clone()), |member| Err(format!("`{member}` is missing")))
}

fn read_json(text: &[u8]) -> Result<Canonical, String> {
    let limits = Limits::default();
    let limits =
        limits.bytes(EVENT_BYTES).and_then(|limits| limits.depth(limits.max_depth().saturating_add(1)));
    let limits = limits.map_err(|error| error.to_string())?;
    read(text, Recipe::Jcs1, &limits).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
