use countersign_audit_log::SessionRecord;
use countersign_core::{Timestamp, ToolId};
use countersign_registry::{NegotiateError, NegotiationRequest, RegistryView, SessionContract, Wanted};

use crate::code::RejectionCode;
use crate::decide::agent_code;
use crate::usage::Usage;

/// One session as it would have been under the other registry.
#[derive(Debug)]
pub(super) struct Session {
    /// Its place among all sessions.
    pub(super) opened: u64,
    /// The version of the registry that its contract came from.
    pub(super) version: u64,
    /// What it disclosed.
    pub(super) disclosed: Vec<ToolId>,
    pub(super) expires: Timestamp,
    /// The contract that it would have had, or why there would have been none.
    pub(super) contract: Result<SessionContract, RejectionCode>,
    pub(super) usage: Usage,
    pub(super) history: History,
}

/// What is known of a session's calls so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum History {
    /// Each got the answer on record.
    AsRecorded,
    /// One got another answer.
    Changed,
    /// Nobody can say how one was answered.
    Unclear,
}

impl Session {
    /// Opens a session that is on record, by a registry that is in force at every moment.
    pub(super) fn open(opened: u64, record: &SessionRecord, view: &RegistryView) -> Self {
        Self {
            opened,
            version: record.registry_version,
            disclosed: record.tools.clone(),
            expires: record.expires,
            contract: negotiate(record, view),
            usage: Usage::default(),
            history: History::AsRecorded,
        }
    }

    pub(super) fn note(&mut self, history: History) {
        self.history = self.history.max(history);
    }
}

/// What the session would have got for the asking: all that is listed, or as much of it as it asked for, for as long as it
/// had at most.
fn negotiate(record: &SessionRecord, view: &RegistryView) -> Result<SessionContract, RejectionCode> {
    let span = record.expires.since(record.time);
    if span.is_zero() {
        return Err(RejectionCode::ContractExpired);
    }
    let mut request = NegotiationRequest::new(record.session.clone(), record.agent.clone());
    if let Some(entry) = view.snapshot().agent(&record.agent) {
        request = request.ttl(span.min(entry.max_session()));
        if record.narrowed {
            let listed = record.tools.iter().filter(|tool| entry.lists(tool)).cloned();
            request = request.wanted_tools(Wanted::these(listed));
        }
    }
    view.negotiate(&request, record.time).map_err(|error| {
        if let NegotiateError::Agent(error) = error {
            agent_code(error)
        } else {
            RejectionCode::ContractExpired
        }
    })
}
