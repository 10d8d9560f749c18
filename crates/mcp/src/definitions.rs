use std::collections::BTreeMap;

use countersign_audit_log::Direction;
use countersign_canonical_json::ValueRef;
use countersign_core::{Digest, ToolId, ToolName};
use countersign_registry::{ServerEntry, ToolRules, definition_digest};

use crate::era_2025::{self, Page};
use crate::fault::Fault;
use crate::link::{Asked, Link};
use crate::listing::{Deadline, PageAnswer};
use crate::session_end::look_at_session;
use crate::submission::{DEFINITION, SUBMIT_PLAN};

/// The most pages of tools that the gateway asks for. A server with more has a cursor that never ends.
const MAX_PAGES: usize = 100;
/// How often the gateway starts again because the tools changed while it asked.
const MAX_ATTEMPTS: usize = 3;

/// One page of tools, reviewed.
#[derive(Debug)]
pub(crate) struct Reviewed {
    /// The tools that the client may see, by their places in the page.
    pub(crate) kept: Vec<usize>,
    /// The gateway's own tool, on the first page that the client gets.
    pub(crate) own: Option<&'static str>,
    tools: Vec<ToolName>,
    next: Option<String>,
}

impl From<Reviewed> for PageAnswer {
    fn from(page: Reviewed) -> Self {
        Self::Noted { tools: page.tools, next: page.next }
    }
}

/// Looks at one page of the server's tools, in answer to a question of this epoch: tells the gate what it saw of the
/// disclosed ones, and keeps those whose definition is the one that the registry pins, where it pins one, unless they can only
/// be called as tasks. `None` when this is no page of tools.
pub(crate) fn review_page(link: &Link, result: ValueRef<'_>, epoch: u64, page: Page) -> Option<Reviewed> {
    // A session whose time is over shows no tools, one that goes on its new ones.
    look_at_session(link);
    let mut seen: BTreeMap<ToolId, Option<(Digest, usize)>> = BTreeMap::new();
    let (mut order, mut tasks) = (Vec::new(), Vec::new());
    for (at, tool) in era_2025::tools_of(result)?.enumerate() {
        if tool.get("name").and_then(ValueRef::as_str) == Some(SUBMIT_PLAN) {
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
            // Two tools under one name: which one a call would reach, nobody can say.
            *first = None;
        } else {
            order.push(id.clone());
            seen.insert(id, read);
        }
    }
    let view = link.gate.registry().view();
    let is_alive = link.clock.now().is_ok_and(|now| link.gate.contract().check(&view, now).is_ok());
    let (mut kept, mut tools) = (Vec::new(), Vec::new());
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
    let own = link.settings.plans().filter(|_| is_alive && page == Page::First).map(|_| DEFINITION);
    Some(Reviewed { kept, own, tools, next: era_2025::next_page(result) })
}

/// Returns what is wrong with the server's instructions: they pass only word by word as the registry pins them, like tools.
pub(crate) fn review_instructions(link: &Link, result: ValueRef<'_>) -> Option<Fault> {
    let instructions = era_2025::instructions_of(result)?;
    let view = link.gate.registry().view();
    match view.snapshot().server(link.settings.server()).and_then(ServerEntry::instructions) {
        Some(pinned) if instructions.as_str() == Some(pinned) => None,
        Some(_) => Some(Fault::InstructionsChanged),
        None => Some(Fault::InstructionsUnpinned),
    }
}

/// Says whether the definition of a disclosed tool is still to be asked for. One that is not pinned is asked for too, once,
/// because approvals bind the definition that was seen.
pub(crate) fn is_unknown(link: &Link, tool: &ToolId) -> bool {
    link.gate.contract().discloses(tool)
        && !link.listing.knows(tool.name())
        && (is_pinned(link, tool) || !link.listing.has_failed())
}

fn is_pinned(link: &Link, tool: &ToolId) -> bool {
    let view = link.gate.registry().view();
    view.snapshot().tool(tool).is_some_and(|rules| rules.entry().definition().is_some())
}

/// Sees to it that the definition of a disclosed tool is known before a call to it is decided. Where it cannot be
/// known and the registry pins one, the gate forgets what it saw before, and so refuses the call.
///
/// The whole list is waited for as long as the settings say. Another one is not asked for at once: calls in a row would each wait for
/// a server that does not answer.
pub(crate) fn know_definition(link: &Link, tool: &ToolId) {
    if !is_unknown(link, tool) {
        return;
    }
    let wait = link.settings.limits().list_wait();
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
        let ours = contract.tools().iter().filter(|t| t.server() == link.settings.server());
        for unclear in ours.filter(|tool| listed.get(tool.name()) != Some(&Listed::Once)) {
            if is_pinned(link, unclear) && !listed.contains_key(unclear.name()) {
                link.gate.forget_definition(unclear);
            } else {
                // Nothing is equal to it: an approval that binds what was seen before does not fit.
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

/// How often a tool was on the pages of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    Once,
    /// Which of the definitions a call would reach, nobody can say.
    Again,
}

/// Asks the server for all pages of its tools.
fn list_tools(link: &Link, epoch: u64, deadline: Deadline) -> Option<BTreeMap<ToolName, Listed>> {
    let (mut listed, mut cursor) = (BTreeMap::new(), None);
    for _ in 0..MAX_PAGES {
        let serial = link.asked.lock().reserve();
        link.listing.ask(serial);
        link.asked.lock().open_own(serial, Asked::Own { serial, epoch }).ok()?;
        let id = link.asked.lock().wire_id(serial);
        let answer = if link.tell_server(era_2025::list_tools_line(&id, cursor.as_deref())) {
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

/// Stands for a definition that is not known: the digest of no definition, so that none is equal to it.
pub(crate) fn unknown_definition() -> Digest {
    Digest::framed("countersign/tool-definition-unknown").finish()
}
