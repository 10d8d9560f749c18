use std::collections::BTreeSet;

use countersign_audit_log::SessionRecord;
use countersign_core::{AgentId, Timestamp, ToolId};
use countersign_registry::{
    AgentEntry, NegotiateError, NegotiationRequest, RegistrySnapshot, RegistryView, SessionContract, Wanted,
};
use countersign_tool_gate::RejectionCode;
use countersign_tool_gate::rules::{Usage, agent_code, contract_code};

use crate::answer::{End, Missing};

/// A session as it would have been under the other registry.
#[derive(Debug)]
pub(crate) struct Session {
    /// Number of the session among all sessions.
    pub(crate) opened: u64,
    /// Version of the registry of its contract.
    pub(crate) version: u64,
    /// Tools that it disclosed.
    pub(crate) disclosed: Vec<ToolId>,
    pub(crate) expires: Timestamp,
    /// Agents of the sessions that led to it, and its own agent last.
    pub(crate) line: Vec<AgentId>,
    pub(crate) parents: Parents,
    /// The contract that it would have had, or the reason why it would have had none.
    pub(crate) contract: Result<SessionContract, End>,
    /// Tools that it may have disclosed in addition, if its parents had.
    pub(crate) more: BTreeSet<ToolId>,
    pub(crate) gates: Gates,
    pub(crate) usage: Usage,
    pub(crate) history: CallHistory,
}

/// State of the sessions that led to one, under the other registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parents {
    /// No session led to it, or the registry is the recorded one.
    Known,
    /// They lasted as long as recorded.
    Lasted,
    /// They may have ended before this session.
    Unclear,
}

/// Whether one gate counted the session's calls, or perhaps several, each for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gates {
    One,
    Several,
}

/// Answers to a session's calls so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallHistory {
    /// Each got the recorded answer.
    AsRecorded,
    /// One got another answer.
    Changed,
    /// The answer to one is unknown.
    Unclear,
}

impl Session {
    /// Opens a recorded session by a registry that is in force at every moment. `was` is the registry under which it
    /// was opened, if that is known.
    pub(crate) fn open(
        opened: u64,
        record: &SessionRecord,
        view: &RegistryView,
        was: Option<&RegistrySnapshot>,
    ) -> Self {
        let line: Vec<AgentId> = record.ancestors.iter().chain([&record.agent]).cloned().collect();
        let parents = parents(record, view, was);
        let listed = |tool: &&ToolId| {
            line.iter().all(|agent| view.snapshot().agent(agent).is_some_and(|entry| entry.lists(tool)))
        };
        // A session has its tools from all agents of its line.
        let own = Wanted::these(record.tools.iter().filter(listed).cloned());
        let is_all = record.ancestors.is_empty() && !record.narrowed;
        let contract = negotiate(record, &line, view, parents, if is_all { &Wanted::All } else { &own });
        let most = match (&contract, parents) {
            (Err(_), _) | (_, Parents::Known) => None,
            (Ok(_), Parents::Lasted | Parents::Unclear) => {
                negotiate(record, &line, view, parents, &Wanted::All).ok()
            }
        };
        let (had, most) = (contract.as_ref().map(SessionContract::tools), most.as_ref());
        let more = most.zip(had.ok()).map(|(most, had)| most.tools().difference(had).cloned().collect());
        Self {
            opened,
            version: record.registry_version,
            disclosed: record.tools.clone(),
            expires: record.expires,
            parents,
            more: more.unwrap_or_default(),
            contract,
            line,
            gates: Gates::One,
            usage: Usage::default(),
            history: CallHistory::AsRecorded,
        }
    }

    /// Continues under the terms of `later`, with all counts so far.
    pub(crate) fn renew(&mut self, later: Self) {
        let Self { opened, gates, history, .. } = *self;
        let usage = std::mem::take(&mut self.usage);
        *self = Self { opened, gates, history, usage, ..later };
    }

    pub(crate) fn note(&mut self, history: CallHistory) {
        self.history = self.history.max(history);
    }
}

/// Returns the state of the parents. A parent to which the other registry gives less time may have ended: the record
/// does not show when it began.
fn parents(record: &SessionRecord, view: &RegistryView, was: Option<&RegistrySnapshot>) -> Parents {
    let now = view.snapshot();
    if record.ancestors.is_empty() || record.registry_version == now.version() {
        return Parents::Known;
    }
    let longest =
        |registry: &RegistrySnapshot, agent: &AgentId| registry.agent(agent).map(AgentEntry::max_session);
    let lasted = |agent: &AgentId| was.is_some_and(|was| longest(now, agent) >= longest(was, agent));
    if record.ancestors.iter().all(lasted) { Parents::Lasted } else { Parents::Unclear }
}

/// Negotiates the contract that the session would have been given, each agent of its line under the one before:
/// `wanted`, for at most the recorded time.
fn negotiate(
    record: &SessionRecord,
    line: &[AgentId],
    view: &RegistryView,
    parents: Parents,
    wanted: &Wanted<ToolId>,
) -> Result<SessionContract, End> {
    let span = record.expires.since(record.time);
    let mut last: Result<SessionContract, End> = Err(RejectionCode::ContractExpired.into());
    if span.is_zero() {
        return last;
    }
    for (place, agent) in line.iter().enumerate() {
        let mut request = NegotiationRequest::new(record.session.clone(), agent.clone());
        if let Some(entry) = view.snapshot().agent(agent) {
            request = request.ttl(span.min(entry.max_session())).wanted_tools(wanted.clone());
        }
        let contract = match &last {
            Ok(parent) if place > 0 => view.negotiate_under(parent, &request, record.time),
            _ => view.negotiate(&request, record.time),
        };
        last = Ok(contract.map_err(|error| match parents {
            // The session that would open it may have ended.
            Parents::Unclear if place > 0 => End::Unknown(Missing::Parent),
            Parents::Unclear | Parents::Lasted | Parents::Known => refusal(&error).into(),
        })?);
    }
    last
}

const fn refusal(error: &NegotiateError) -> RejectionCode {
    if let NegotiateError::Agent(error) = error {
        return agent_code(*error);
    }
    if let NegotiateError::Parent(error) = error {
        return contract_code(*error);
    }
    RejectionCode::ContractExpired
}
