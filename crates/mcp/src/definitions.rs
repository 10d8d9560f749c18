use std::collections::BTreeMap;
use std::time::Duration;

use countersign_audit_log::Direction;
use countersign_canonical_json::ValueRef;
use countersign_core::{Digest, ToolId, ToolName};
use countersign_registry::{ServerEntry, ToolRules, definition_digest, is_read_name};

use crate::era_2025::{self, Page};
use crate::fault::Fault;
use crate::link::Link;
use crate::listing::{Deadline, PageAnswer};
use crate::proposing::{self, is_own_tool};
use crate::request_purpose::RequestPurpose;
use crate::session_end::look_at_session;
use crate::submission;

/// Maximum number of tool pages that the gateway requests. A server with more has a cursor that never ends.
const MAX_PAGES: usize = 100;
/// Maximum number of attempts when the tools change during a listing.
const MAX_ATTEMPTS: usize = 3;

/// One reviewed page of tools.
#[derive(Debug)]
pub(crate) struct Reviewed {
    /// The tools that the client may see, by position in the page.
    pub(crate) kept: Vec<usize>,
    /// Their names.
    pub(crate) names: Vec<ToolName>,
    /// Those of them that announce the member `__pic`.
    pub(crate) announced: Vec<usize>,
    /// The gateway's own tools, on the client's first page.
    pub(crate) own: Vec<&'static str>,
    tools: Vec<ToolName>,
    next: Option<String>,
}

impl From<Reviewed> for PageAnswer {
    fn from(page: Reviewed) -> Self {
        Self::Noted { tools: page.tools, next: page.next }
    }
}

/// Reviews one page of the server's tools, an answer to a request of this epoch. Reports the definition of each disclosed
/// tool to the gate. Keeps a tool if its definition equals the registry's pin, or the registry has no pin, and if it can be
/// called without a task. Returns `None` if `result` is not a page of tools.
pub(crate) fn review_page(link: &Link, result: ValueRef<'_>, epoch: u64, page: Page) -> Option<Reviewed> {
    // An expired session shows no tools; a renewed one shows its new tools.
    look_at_session(link);
    let mut seen: BTreeMap<ToolId, Option<(Digest, usize)>> = BTreeMap::new();
    let (mut order, mut tasks) = (Vec::new(), Vec::new());
    for (at, tool) in era_2025::tools_of(result)?.enumerate() {
        if is_own_tool(tool) || is_read_tool(tool) {
            link.record(Direction::ToClient, None, Fault::ReservedTool);
            continue;
        }
        let Some(id) = disclosed(link, tool) else {
            continue;
        };
        if era_2025::needs_task(tool) {
            tasks.push(at);
        }
        let read = definition_digest(tool).ok().map(|digest| (digest, at));
        if let Some(first) = seen.get_mut(&id) {
            // Two tools share a name, so it is unknown which one a call would reach.
            *first = None;
        } else {
            order.push(id.clone());
            seen.insert(id, read);
        }
    }
    let view = link.gate.registry().view();
    let is_alive = link.is_session_alive();
    let (mut kept, mut names, mut announced, mut tools) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for id in order {
        let name = id.name().clone();
        match seen.get(&id).copied().flatten() {
            Some((digest, at)) => {
                link.gate.note_definition(&id, digest);
                let rules = link.gate.contract().disclosed(&view, &id);
                let fits =
                    |rules: &ToolRules| rules.entry().definition().is_none_or(|pinned| pinned == digest);
                if is_alive && !tasks.contains(&at) && rules.is_some_and(fits) {
                    kept.push(at);
                    names.push(name.clone());
                    if link.settings.proposals.in_schema() && link.gate.requires_proposal(&id) {
                        announced.push(at);
                    }
                }
            }
            None => {
                link.record(Direction::ToClient, None, Fault::DefinitionUnreadable);
                link.gate.note_definition(&id, unknown_definition());
            }
        }
        link.listing.note(epoch, name.clone());
        tools.push(name);
    }
    let own = if is_alive && page == Page::First { own_tools(link) } else { Vec::new() };
    Some(Reviewed { kept, names, announced, own, tools, next: era_2025::next_page(result) })
}

/// The definitions of the gateway's own tools in this session.
fn own_tools(link: &Link) -> Vec<&'static str> {
    let plans = link.settings.plans.map(|_| submission::DEFINITION);
    let proposes = link.settings.proposals.as_tool()
        && link.gate.contract().tools().iter().any(|tool| link.gate.requires_proposal(tool));
    plans.into_iter().chain(proposes.then_some(proposing::DEFINITION)).collect()
}

/// Returns the fault in the server's instructions, if any. They pass only if they equal the registry's pin word for word.
pub(crate) fn review_instructions(link: &Link, result: ValueRef<'_>) -> Option<Fault> {
    let instructions = era_2025::instructions_of(result)?;
    let view = link.gate.registry().view();
    match view.snapshot().server(link.settings.server()).and_then(ServerEntry::instructions) {
        Some(pinned) if instructions.as_str() == Some(pinned) => None,
        Some(_) => Some(Fault::InstructionsChanged),
        None => Some(Fault::InstructionsUnpinned),
    }
}

/// Returns whether a tool of a server has the name of a read. The registry's entry of that name is no tool.
fn is_read_tool(tool: ValueRef<'_>) -> bool {
    tool.get("name").and_then(ValueRef::as_str).is_some_and(is_read_name)
}

/// Returns whether the definition of a disclosed tool must still be requested. A read has none. An unpinned definition is requested once
/// too, because approvals bind the definition that was seen.
pub(crate) fn is_unknown(link: &Link, tool: &ToolId) -> bool {
    link.gate.contract().discloses(tool)
        && !is_read_name(tool.name().as_str())
        && !link.listing.knows(tool.name())
        && (is_pinned(link, tool) || !link.listing.has_failed())
}

fn is_pinned(link: &Link, tool: &ToolId) -> bool {
    let view = link.gate.registry().view();
    view.snapshot().tool(tool).is_some_and(|rules| rules.entry().definition().is_some())
}

/// Obtains the definition of a disclosed tool before a call to it is decided. If it is unavailable and the registry pins
/// one, the gate forgets the definition that it saw before, and so refuses the call.
///
/// The gateway waits for the whole list up to the limit in the settings. After a failure it pauses before it requests
/// another list; otherwise each call in a row would wait for a server that does not answer.
pub(crate) fn know_definition(link: &Link, tool: &ToolId) {
    if !is_unknown(link, tool) {
        return;
    }
    let wait = Duration::from_millis(link.settings.limits.list_wait.as_millis());
    if link.listing.is_paused(wait) {
        link.gate.forget_definition(tool);
        return;
    }
    let deadline = Deadline::within(wait);
    for _ in 0..MAX_ATTEMPTS {
        let epoch = link.listing.epoch();
        let Some(listed) = list_tools(link, epoch, deadline) else {
            break;
        };
        if link.listing.epoch() != epoch {
            continue;
        }
        let contract = link.gate.contract();
        let is_ours = |t: &&ToolId| t.server() == link.settings.server() && !is_read_name(t.name().as_str());
        let ours = contract.tools().iter().filter(is_ours);
        for unclear in ours.filter(|tool| listed.get(tool.name()) != Some(&Listed::Once)) {
            if is_pinned(link, unclear) && !listed.contains_key(unclear.name()) {
                link.gate.forget_definition(unclear);
            } else {
                // No definition equals it, so an approval that binds an earlier definition does not fit.
                link.gate.note_definition(unclear, unknown_definition());
            }
            link.listing.note(epoch, unclear.name().clone());
        }
        link.listing.succeed();
        return;
    }
    link.listing.fail();
    if is_pinned(link, tool) {
        link.gate.forget_definition(tool);
    }
}

/// Number of times that a tool occurs in one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    Once,
    /// It is unknown which of the definitions a call would reach.
    Again,
}

/// Requests all pages of the server's tools.
fn list_tools(link: &Link, epoch: u64, deadline: Deadline) -> Option<BTreeMap<ToolName, Listed>> {
    let (mut listed, mut cursor) = (BTreeMap::new(), None);
    for _ in 0..MAX_PAGES {
        let serial = link.asked.lock().reserve();
        link.listing.ask(serial);
        link.asked.lock().open_own(serial, RequestPurpose::Own { serial, epoch }).ok()?;
        let id = link.asked.lock().wire_id(serial);
        let answer = if link.send_to_server(era_2025::list_tools_line(&id, cursor.as_deref())) {
            link.listing.wait(deadline)
        } else {
            PageAnswer::Failed
        };
        let PageAnswer::Noted { tools, next } = answer else {
            link.asked.lock().withdraw(serial);
            return None;
        };
        for tool in tools {
            listed.entry(tool).and_modify(|listed| *listed = Listed::Again).or_insert(Listed::Once);
        }
        match next {
            Some(next) => cursor = Some(next),
            None => return Some(listed),
        }
    }
    None
}

fn disclosed(link: &Link, tool: ValueRef<'_>) -> Option<ToolId> {
    let name = ToolName::new(tool.get("name")?.as_str()?).ok()?;
    let id = ToolId::from_names(link.settings.server().clone(), name);
    link.gate.contract().discloses(&id).then_some(id)
}

/// Placeholder for an unknown definition: a digest that no definition has.
pub(crate) fn unknown_definition() -> Digest {
    Digest::framed("countersign/tool-definition-unknown").finish()
}
