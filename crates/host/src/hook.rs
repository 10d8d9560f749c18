//! Decides one call of a host with command hooks: one process, one event, one decision.
//!
//! The record and the store keep a session between two processes: spent approvals, questions,
//! denials and grants. Counts of calls do not, so a contract that limits them is refused.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use countersign_approval_token::{PendingApprovals, PendingError};
use countersign_audit_log::EndReason;
use countersign_core::{Clock, Millis, SessionId, Timestamp, ToolId, escape_hidden};
use countersign_tool_gate::{
    ApproverAnswer, CallApprovals, CallDesk, DeskHost, FiledQuestion, Rejection, RejectionCode, ToolCall,
    ToolGate,
};

use crate::config_file::ConfigFile;
use crate::error::HostError;
use crate::hook_event::{HookEvent, HookHost};
use crate::notify::Notifier;
use crate::person::system_principal;
use crate::random;
use crate::record::OlderEntries;
use crate::report::Reporter;
use crate::session::{OpenSession, PreparedSession, SessionEnd};
use crate::signals::AgentWatch;

/// Interval of looks at a question that waits.
const LOOK: Duration = Duration::from_millis(50);

/// The answer to one event.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a caller that misses one would let a call pass")]
pub enum HookAnswer {
    /// The call may go on to the host's own checks.
    Accepted,
    /// The call must not run. The text is for the model: a code, its sentence, and what would help.
    Refused(String),
}

/// One session of a hook, open for one call.
struct HookSession {
    gate: ToolGate,
    clock: Arc<dyn Clock>,
    approvals: Option<CallApprovals>,
    notifier: Option<Notifier>,
    reporter: Reporter,
    /// When the wait for a person ends.
    until: Timestamp,
}

impl DeskHost for HookSession {
    fn now(&self) -> Option<Timestamp> {
        self.clock.now().ok()
    }

    fn store_failed(&self, error: &PendingError) {
        self.reporter.warn(error.code(), &error.to_string());
    }
}

/// Decides the event of one call. Waits for a person's answer until `patience` is over, if only that is missing.
///
/// # Errors
/// An input, a store or a record that fails. The caller refuses the call.
pub fn decide(
    config: &ConfigFile,
    host: HookHost,
    event: &[u8],
    patience: Millis,
    reporter: &Reporter,
) -> Result<HookAnswer, HostError> {
    let event = HookEvent::read(host, event);
    let named = match &event {
        Ok(event) => Some(event.session.clone()),
        Err(bad) => bad.session.clone(),
    };
    let session = named.map_or_else(|| random::id("hook"), Ok)?;
    let opened = prepare(config, session, reporter)?.open()?;
    let mut end = SessionEnd::new(&opened);
    let waits = config.approval.as_ref().and_then(|approval| approval.stated_hold());
    let until = crate::time::now()?.saturating_add(waits.map_or(patience, |hold| hold.min(patience)));
    let session = HookSession::new(config, opened, until, reporter)?;
    let watch = AgentWatch::new(session.gate.clone(), reporter.clone());
    watch.look();
    let answer = match event {
        Ok(event) => session.answer(config.server.one()?.name.as_str(), &event)?,
        Err(bad) => HookAnswer::Refused(text_of(&session.gate.refuse_malformed("-", &bad.reason))),
    };
    watch.look_at_signals();
    end.set(EndReason::Client);
    end.end()?;
    Ok(answer)
}

/// Prepares the host's session. Its principal is the user of this process.
fn prepare(
    config: &ConfigFile,
    session: SessionId,
    reporter: &Reporter,
) -> Result<PreparedSession, HostError> {
    let plans = config.plans();
    config.check_plans(plans, Some(&session))?;
    let mut settings = config.config(session, plans)?;
    settings.principal = system_principal()?;
    if let Some(record) = &mut settings.record {
        record.older = OlderEntries::LeftToOthers;
    }
    let prepared = settings.prepare(reporter)?;
    require_no_limits(&prepared)?;
    Ok(prepared)
}

/// Refuses a contract whose limits a process that decides one call cannot keep.
fn require_no_limits(prepared: &PreparedSession) -> Result<(), HostError> {
    let (contract, view) = (prepared.contract(), prepared.registry().view());
    let is_limited =
        |tool: &&ToolId| view.snapshot().tool(tool).is_some_and(|rules| !rules.entry().limits().is_none());
    let of_agent = view.snapshot().agent(contract.agent()).is_some_and(|agent| !agent.limits().is_none());
    let what = match contract.tools().iter().find(is_limited) {
        _ if of_agent => format!("the agent {}", contract.agent()),
        Some(tool) => format!("the tool {tool}"),
        None => return Ok(()),
    };
    let text =
        format!("the registry limits the calls of {what}: a hook cannot count them over its processes");
    Err(HostError::new("HOOK_LIMITS", text))
}

impl HookSession {
    fn new(
        config: &ConfigFile,
        opened: OpenSession,
        until: Timestamp,
        reporter: &Reporter,
    ) -> Result<Self, HostError> {
        let notifier = config.approval.as_ref().map(|approval| approval.notifier(reporter)).transpose()?;
        let ttl = config.approval.as_ref().map_or(Millis::ZERO, |approval| approval.ttl());
        let store = opened.pending.map(|store| -> Arc<dyn PendingApprovals> { store });
        Ok(Self {
            gate: opened.gate,
            clock: opened.clock,
            approvals: store.map(|store| CallApprovals::new(store, ttl)),
            notifier: notifier.flatten(),
            reporter: reporter.clone(),
            until,
        })
    }

    /// Decides the call, and once more if a person answers meanwhile.
    fn answer(&self, server: &str, event: &HookEvent) -> Result<HookAnswer, HostError> {
        let (mut rejection, mut question) = match self.decide(server, event, None)? {
            Ok(()) => return Ok(HookAnswer::Accepted),
            Err(refused) => refused,
        };
        let mut given = None;
        if let Some(asked) = &question {
            self.wait(asked)?;
            given = self.find(server, event)?;
        }
        if given.is_some() {
            (rejection, question) = match self.decide(server, event, given.as_ref())? {
                Ok(()) => return Ok(HookAnswer::Accepted),
                Err(refused) => refused,
            };
        }
        let mut text = text_of(&rejection);
        if let Some(question) = &question {
            text.push_str(&format!(" (it waits as {})", question.short));
        }
        if rejection.code() == RejectionCode::ApprovalDenied
            && let Some(ApproverAnswer::Denied(_, denial)) = self.find(server, event)?
            && let Some(reason) = &denial.reason
        {
            text.push_str(&format!("; the approver's reason: {:?}", escape_hidden(reason.as_str())));
        }
        Ok(HookAnswer::Refused(text))
    }

    /// Asks the gate once. An accepted call is dispatched to the host, and its outcome is unknown to this process.
    fn decide(
        &self,
        server: &str,
        event: &HookEvent,
        given: Option<&ApproverAnswer>,
    ) -> Result<Result<(), (Rejection, Option<FiledQuestion>)>, HostError> {
        // An answer binds the id of the call that was refused for lack of it.
        let call_id = given.and_then(ApproverAnswer::call_id).cloned().map_or_else(random::call_id, Ok)?;
        let mut call = ToolCall::from_read(call_id.as_str(), Some(server), &event.tool, &event.args);
        if let Some(id) = &event.tool_use {
            call = call.request_id(id);
        }
        for token in given.iter().flat_map(|given| given.tokens()) {
            call = call.approval(token.as_str());
        }
        if let Some(proposal) = given.and_then(ApproverAnswer::attested) {
            call = call.proposal(proposal.as_bytes());
        }
        if let Some(ApproverAnswer::Denied(binding, denial)) = given {
            call = call.denied_as(binding, denial.by.as_str());
        }
        let desk = CallDesk::new(self.approvals.as_ref(), given, self);
        let decision = self.gate.check_asking(&call, &desk);
        if let (Some(given), Some(approvals)) = (given, &self.approvals)
            && let Err(error) = approvals.retire_answer(given, decision.as_ref().err())
        {
            self.store_failed(&error);
        }
        let rejection = match decision.map(countersign_tool_gate::AcceptedCall::dispatch) {
            Ok(Ok(_)) => return Ok(Ok(())),
            Ok(Err(rejection)) | Err(rejection) => rejection,
        };
        let question = desk.filed().and_then(Result::ok).filter(|_| rejection.question().is_some());
        Ok(Err((rejection, question)))
    }

    /// Waits until the question has its answer, or the time for it is over.
    fn wait(&self, question: &FiledQuestion) -> Result<(), HostError> {
        let Some(approvals) = &self.approvals else { return Ok(()) };
        if let (true, Some(notifier)) = (question.is_new, &self.notifier)
            && let Some((pending, _)) = approvals.state(&question.id)?
        {
            notifier.notify(&pending, &question.short);
        }
        let mut now = crate::time::now()?;
        while now < self.until && approvals.is_waiting(&question.id, now)? {
            thread::sleep(LOOK);
            now = crate::time::now()?;
        }
        Ok(())
    }

    /// Finds a person's answer to exactly this call, which the gate has asked about before.
    fn find(&self, server: &str, event: &HookEvent) -> Result<Option<ApproverAnswer>, HostError> {
        let Some(approvals) = &self.approvals else { return Ok(None) };
        let tool = ToolId::new(server, &event.tool).map_err(|error| HostError::usage(error.to_string()))?;
        let version = self.gate.registry().view().snapshot().version();
        Ok(approvals.find(&tool, event.args.own().digest(), version, crate::time::now()?)?)
    }
}

/// The line of a refusal: nothing in it comes from the arguments, from a file or from an error.
fn text_of(rejection: &Rejection) -> String {
    let unlock = rejection.unlock().map(|unlock| format!("; needed: {unlock}")).unwrap_or_default();
    format!("countersign refused: {}: {}{unlock}", rejection.code(), rejection.message())
}
