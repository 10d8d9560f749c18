//! Opens a session for a caller, as a gateway opens its own.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use countersign_approval_token::SessionKind;
use countersign_canonical_json::{Canonical, ValueRef};
use countersign_core::{AgentId, Digest, Millis, Principal, ServerName, SessionId, ToolId};
use countersign_host::error::HostError;
use countersign_host::random;
use countersign_host::record::OlderEntries;
use countersign_registry::definition_digest;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::access::Caller;
use crate::app::App;
use crate::body::members;
use crate::problem::Problem;
use crate::served::{ServedSession, SessionParts};

/// The body of `POST /v1/sessions`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionBody {
    agent: Option<AgentId>,
    session: Option<SessionId>,
    principal: Option<Principal>,
    goal: Option<String>,
    ttl: Option<String>,
    tools: Option<Vec<String>>,
    #[serde(rename = "definitions")]
    _definitions: Option<IgnoredAny>,
}

/// Opens a session for the caller and returns its contract as JSON.
pub(crate) fn open(app: &App, caller: &Caller, body: &Canonical) -> Result<String, Problem> {
    let asked: SessionBody = members(body)?;
    let kind = if asked.session.is_some() { SessionKind::Named } else { SessionKind::Single };
    let fault = |error: &HostError| Problem::of(error, &app.reporter);
    let id =
        asked.session.clone().map_or_else(|| random::id("session"), Ok).map_err(|error| fault(&error))?;
    let mut config = app.config.config(id.clone(), app.config.plans()).map_err(|error| fault(&error))?;
    if let Some(record) = &mut config.record {
        record.older = OlderEntries::VerifiedOnce(app.verified.clone());
    }
    let forbidden = |what: &str| {
        let text = format!("this caller may not open sessions of this {what}");
        Problem::new(StatusCode::FORBIDDEN, "CALLER_NOT_ALLOWED", text)
    };
    let agent = asked.agent.unwrap_or_else(|| config.agent.clone());
    if !caller.may_open(&agent, &config.agent) {
        return Err(forbidden("agent"));
    }
    config.agent = agent;
    if let Some(principal) = asked.principal {
        if principal != config.principal && !caller.any_principal {
            return Err(forbidden("principal"));
        }
        config.principal = principal;
    }
    if let Some(goal) = asked.goal {
        if config.goal.is_some() {
            return Err(Problem::bad("SESSION_GOAL_SET", "the configuration sets the goal"));
        }
        config.goal = Some(goal);
    }
    if let Some(tools) = asked.tools {
        config.tools = Some(tools);
    }
    if let Some(ttl) = asked.ttl {
        let ttl = ttl.parse::<Millis>().map_err(|error| Problem::bad("BODY_MALFORMED", error.to_string()))?;
        config.ttl = Some(config.ttl.map_or(ttl, |longest| longest.min(ttl)));
    }
    if let Some(definitions) = body.value().get("definitions") {
        read_definitions(definitions, &mut config.definitions)?;
    }
    let session = app.sessions.add(&id, || {
        let begin = || {
            let approval = app.config.approval.as_ref();
            let parts = SessionParts {
                owner: caller.name.clone(),
                kind,
                approval_ttl: approval.map_or(Millis::ZERO, |approval| approval.ttl()),
                notices: app.notices.clone(),
                reporter: app.reporter.clone(),
            };
            let prepared = config.prepare(&app.reporter)?;
            ServedSession::begin(app.open(prepared)?, parts)
        };
        begin().map_err(|error| fault(&error))
    })?;
    let contract = session.gate.contract();
    let tools: Vec<_> =
        contract.tools().iter().map(|tool| json!({"server": tool.server(), "name": tool.name()})).collect();
    Ok(json!({
        "session": contract.session(),
        "agent": contract.agent(),
        "principal": session.gate.principal(),
        "tools": tools,
        "registry_version": contract.registry_version(),
        "expires": contract.expires(),
        "log": session.log.map(|log| log.to_string()),
        "goal": session.gate.pinned_ask().map(|ask| ask.digest()),
    })
    .to_string())
}

/// Reads the servers' current definitions of tools: lists as in the answer to `tools/list`, by server.
fn read_definitions(servers: ValueRef<'_>, into: &mut BTreeMap<ToolId, Digest>) -> Result<(), Problem> {
    let wrong = |text: String| Problem::bad("TOOL_DEFINITION_SHAPE", text);
    for (server, tools) in servers.members() {
        let server = ServerName::new(server).map_err(|error| wrong(error.to_string()))?;
        for tool in tools.elements() {
            let digest =
                definition_digest(tool).map_err(|error| Problem::bad(error.code(), error.to_string()))?;
            let name = tool.get("name").and_then(ValueRef::as_str).unwrap_or_default();
            let id = ToolId::new(server.as_str(), name).map_err(|error| wrong(error.to_string()))?;
            into.insert(id, digest);
        }
    }
    Ok(())
}
