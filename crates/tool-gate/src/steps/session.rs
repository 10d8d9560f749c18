//! Steps 1 and 2: may the session act now, and is the tool one of its own?

use std::borrow::Cow;

use countersign_core::{Digest, ServerName, Timestamp, ToolId, ToolName};
use countersign_registry::{AgentEntry, AgentError, ContractError, RegistryView, SessionContract, ToolRules};

use super::Deciding;
use crate::code::RejectionCode;
use crate::findings::CalledTool;
use crate::rejection::Refusal;
use crate::rows::Rows;

/// Step 1: is the contract alive, the registry fresh, the agent neither revoked nor quarantined now?
pub(crate) fn check_agent<'v>(
    rows: &Rows,
    contract: &SessionContract,
    view: &'v RegistryView,
    now: Timestamp,
) -> Result<&'v AgentEntry, Refusal> {
    let agent = contract.agent_entry(view, now).map_err(contract_refusal)?;
    rows.check(now)?;
    Ok(agent)
}

fn contract_refusal(error: ContractError) -> Refusal {
    Refusal::new(contract_code(error), error.to_string())
}

/// Step 1 except quarantine: is the contract alive under this registry?
///
/// # Errors
/// [`Refusal`] if it is not.
pub fn check_contract(
    contract: &SessionContract,
    view: &RegistryView,
    now: Timestamp,
) -> Result<(), Refusal> {
    contract.check(view, now).map_err(contract_refusal)
}

/// Returns the code of a contract that does not stand.
#[must_use]
pub const fn contract_code(error: ContractError) -> RejectionCode {
    match error {
        ContractError::Agent(error) => agent_code(error),
        ContractError::Expired | ContractError::Superseded | _ => RejectionCode::ContractExpired,
    }
}

/// Returns the code of an agent that may not call.
#[must_use]
pub const fn agent_code(error: AgentError) -> RejectionCode {
    match error {
        AgentError::Freshness(_) => RejectionCode::RegistryStale,
        AgentError::NotRegistered => RejectionCode::AgentNotRegistered,
        AgentError::Revoked => RejectionCode::AgentRevoked,
        _ => RejectionCode::ContractExpired,
    }
}

/// Step 2: is the tool disclosed, then and now?
pub(crate) fn disclosed_tool<'d>(
    deciding: &mut Deciding<'d>,
    rows: &Rows,
    agent: &AgentEntry,
) -> Result<(ToolId, &'d ToolRules), Refusal> {
    let Deciding { in_force, view, findings, .. } = deciding;
    if let Some(CalledTool::Unplaced(name)) = &findings.called {
        let listed = meant_tool(&in_force.contract, None, name)?;
        let used = rows.used.find(listed.server().as_str(), listed.name().as_str());
        findings.called = Some(used.map_or_else(|| CalledTool::Named(listed.into_owned()), CalledTool::Used));
    }
    // INVARIANT: step 0 has read the names.
    let unread = || Refusal::new(RejectionCode::Internal, "the names of the call were not read");
    let tool = findings.tool().ok_or_else(unread)?;
    let contract = &in_force.contract;
    let rules = listed_tool(contract, tool, contract.disclosed_to(agent, view, tool))?;
    let tool = tool.clone();
    findings.impact = Some(rules.entry().impact());
    Ok((tool, rules))
}

/// Returns the tool that the call names. Without a server, the name must be unique among the disclosed tools.
///
/// # Errors
/// [`Refusal`] if no server or several disclose the name.
pub fn meant_tool<'c>(
    contract: &'c SessionContract,
    server: Option<&ServerName>,
    name: &ToolName,
) -> Result<Cow<'c, ToolId>, Refusal> {
    let unclear = || Refusal::new(RejectionCode::UndisclosedTool, "no one server discloses the name");
    match server {
        Some(server) => Ok(Cow::Owned(ToolId::from_names(server.clone(), name.clone()))),
        None => only_tool(contract.tools(), name).map(Cow::Borrowed).ok_or_else(unclear),
    }
}

/// Returns the tool of this name, if exactly one server has it.
pub fn only_tool<'a>(tools: impl IntoIterator<Item = &'a ToolId>, name: &ToolName) -> Option<&'a ToolId> {
    let mut named = tools.into_iter().filter(|tool| tool.name() == name);
    let found = named.next()?;
    if named.next().is_some() { None } else { Some(found) }
}

/// Returns the rules of a tool that the contract discloses and the registry still lists, as
/// [`SessionContract::disclosed`] found them.
///
/// # Errors
/// [`Refusal`] if it is not disclosed.
pub fn listed_tool<'v>(
    contract: &SessionContract,
    tool: &ToolId,
    found: Option<&'v ToolRules>,
) -> Result<&'v ToolRules, Refusal> {
    found.ok_or_else(|| {
        let listed_once = contract.discloses(tool);
        let reason = if listed_once { "no longer listed for the agent" } else { "not in the contract" };
        Refusal::new(RejectionCode::UndisclosedTool, reason)
    })
}

/// Step 2: is the definition the pinned one?
///
/// # Errors
/// [`Refusal`] if it is another one, or was not seen.
pub fn check_definition(rules: &ToolRules, seen: Option<Digest>) -> Result<(), Refusal> {
    use RejectionCode::{ToolDefinitionChanged, ToolDefinitionUnknown};
    match (rules.entry().definition(), seen) {
        (Some(pinned), Some(seen)) if pinned == seen => Ok(()),
        (Some(_), Some(_)) => {
            Err(Refusal::new(ToolDefinitionChanged, "the server's definition is another one"))
        }
        (Some(_), None) => Err(Refusal::new(ToolDefinitionUnknown, "the server's definition was not seen")),
        (None, _) => Ok(()),
    }
}

/// Returns `true` if a tool of this name is disclosed, on any server.
#[must_use]
pub fn is_name_disclosed(contract: &SessionContract, name: &str) -> bool {
    contract.tools().iter().any(|tool| tool.name().as_str() == name)
}
