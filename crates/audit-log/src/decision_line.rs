//! Decisions as lines, written from borrowed parts: a [`CallRecord`] of its own would be built for the line alone.

use std::cell::Cell;

use countersign_core::{
    AgentId, Digest, OperatorId, Principal, RequestId, SessionId, Timestamp, TokenId, ToolId,
};

use crate::line::{self, LINE};
use crate::text::EscapedRef;
use crate::{AuditError, CallRecord, ProposalRecord, Record, RecordedTool, RecordedValues, Verdict};

/// Session, agent and principal of calls, with their part of a line, which is written once.
#[derive(Clone, Debug)]
pub struct CallOrigin {
    session: SessionId,
    agent: AgentId,
    principal: Principal,
    part: Box<[u8]>,
}

impl CallOrigin {
    /// Writes the part of the line.
    #[must_use]
    pub fn new(session: SessionId, agent: AgentId, principal: Principal) -> Self {
        let mut part = Vec::new();
        line::origin(&mut part, OriginRef::Named(&session, &agent, &principal));
        Self { session, agent, principal, part: part.into() }
    }

    pub(crate) const fn part(&self) -> &[u8] {
        &self.part
    }
}

/// A tool with its part of a line, which is written once.
#[derive(Clone, Debug)]
pub struct KnownTool {
    tool: RecordedTool,
    part: Box<[u8]>,
}

impl KnownTool {
    /// Writes the part of the line.
    #[must_use]
    pub fn new(tool: &ToolId) -> Self {
        let (tool, mut part) = (RecordedTool::from(tool), Vec::new());
        line::tool(&mut part, (&tool).into());
        Self { tool, part: part.into() }
    }

    pub(crate) const fn part(&self) -> &[u8] {
        &self.part
    }
}

/// Session, agent and principal of a borrowed record.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "they were written before, or were not")]
pub enum OriginRef<'a> {
    /// They were written before.
    Known(&'a CallOrigin),
    /// They are written for this record.
    Named(&'a SessionId, &'a AgentId, &'a Principal),
}

/// Tool of a borrowed record.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "it was written before, or was not")]
pub enum ToolRef<'a> {
    /// It was written before.
    Known(&'a KnownTool),
    /// Names of the server and of the tool within it.
    Named(EscapedRef<'a, 128>, EscapedRef<'a, 128>),
}

impl<'a> From<&'a RecordedTool> for ToolRef<'a> {
    fn from(tool: &'a RecordedTool) -> Self {
        Self::Named(tool.server.borrowed(), tool.name.borrowed())
    }
}

impl<'a> ToolRef<'a> {
    /// Returns the names of the server and of the tool within it.
    #[must_use]
    pub fn names(self) -> (&'a str, &'a str) {
        match self {
            Self::Known(known) => (known.tool.server.as_str(), known.tool.name.as_str()),
            Self::Named(server, name) => (server.as_str(), name.as_str()),
        }
    }

    /// Returns the record's own form.
    #[must_use]
    pub fn to_tool(self) -> RecordedTool {
        match self {
            Self::Known(known) => known.tool.clone(),
            Self::Named(server, name) => {
                RecordedTool { server: server.to_escaped(), name: name.to_escaped() }
            }
        }
    }
}

/// A [`CallRecord`] of borrowed parts. The members are the same.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "`CallRecord` says what each member is")]
#[expect(clippy::exhaustive_structs, reason = "a gate states each member of its decisions")]
pub struct CallRecordRef<'a> {
    pub time: Timestamp,
    pub origin: OriginRef<'a>,
    pub call_id: EscapedRef<'a, 256>,
    pub request_id: Option<&'a RequestId>,
    pub trace: Option<EscapedRef<'a, 64>>,
    pub tool: ToolRef<'a>,
    pub definition: Option<Digest>,
    pub args: Option<Digest>,
    pub args_recipe: Option<EscapedRef<'a, 32>>,
    pub values: &'a RecordedValues,
    pub impact: Option<EscapedRef<'a, 32>>,
    pub verdict: Verdict,
    pub code: Option<EscapedRef<'a, 64>>,
    pub reason: Option<EscapedRef<'a, 512>>,
    pub registry_version: u64,
    pub ask: Option<Digest>,
    pub ask_restated: Option<Digest>,
    pub plan: Option<Digest>,
    pub plan_step: Option<u64>,
    pub about_plan: bool,
    pub approval: Option<&'a TokenId>,
    pub approver: Option<&'a OperatorId>,
    pub denied_by: Option<EscapedRef<'a, 256>>,
    pub proposal: Option<&'a ProposalRecord>,
}

impl<'a> From<&'a CallRecord> for CallRecordRef<'a> {
    fn from(call: &'a CallRecord) -> Self {
        Self {
            time: call.time,
            origin: OriginRef::Named(&call.session, &call.agent, &call.principal),
            call_id: call.call_id.borrowed(),
            request_id: call.request_id.as_ref(),
            trace: call.trace.as_ref().map(|trace| trace.borrowed()),
            tool: (&call.tool).into(),
            definition: call.definition,
            args: call.args,
            args_recipe: call.args_recipe.as_ref().map(|recipe| recipe.borrowed()),
            values: &call.values,
            impact: call.impact.as_ref().map(|impact| impact.borrowed()),
            verdict: call.verdict,
            code: call.code.as_ref().map(|code| code.borrowed()),
            reason: call.reason.as_ref().map(|reason| reason.borrowed()),
            registry_version: call.registry_version,
            ask: call.ask,
            ask_restated: call.ask_restated,
            plan: call.plan,
            plan_step: call.plan_step,
            about_plan: call.about_plan,
            approval: call.approval.as_ref(),
            approver: call.approver.as_ref(),
            denied_by: call.denied_by.as_ref().map(|by| by.borrowed()),
            proposal: call.proposal.as_deref(),
        }
    }
}

impl CallRecordRef<'_> {
    /// Copies the parts into a record.
    #[must_use]
    pub fn to_record(&self) -> CallRecord {
        let (session, agent, principal) = match self.origin {
            OriginRef::Known(CallOrigin { session, agent, principal, .. })
            | OriginRef::Named(session, agent, principal) => (session, agent, principal),
        };
        CallRecord {
            time: self.time,
            session: session.clone(),
            agent: agent.clone(),
            principal: principal.clone(),
            call_id: self.call_id.to_escaped(),
            request_id: self.request_id.cloned(),
            trace: self.trace.map(EscapedRef::to_escaped),
            tool: self.tool.to_tool(),
            definition: self.definition,
            args: self.args,
            args_recipe: self.args_recipe.map(EscapedRef::to_escaped),
            values: self.values.clone(),
            impact: self.impact.map(EscapedRef::to_escaped),
            verdict: self.verdict,
            code: self.code.map(EscapedRef::to_escaped),
            reason: self.reason.map(EscapedRef::to_escaped),
            registry_version: self.registry_version,
            ask: self.ask,
            ask_restated: self.ask_restated,
            plan: self.plan,
            plan_step: self.plan_step,
            about_plan: self.about_plan,
            approval: self.approval.cloned(),
            approver: self.approver.cloned(),
            denied_by: self.denied_by.map(EscapedRef::to_escaped),
            proposal: self.proposal.cloned().map(Box::new),
        }
    }
}

thread_local! {
    /// Buffer of the line that this thread wrote last.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A decision, with the line that is recorded of it except the sequence number. Made once for all that keep it.
///
/// ```
/// use countersign_audit_log::{AuditSink, CallRecord, DecisionLine, MemorySink, Record, RecordedTool, Verdict};
/// use countersign_core::{AgentId, Principal, SessionId, Timestamp};
/// let (session, agent) = (SessionId::new("session-1")?, AgentId::new("support-bot")?);
/// let tool = RecordedTool::new("desk", "search");
/// let principal = Principal::new("ada@example.com")?;
/// let call = CallRecord::new(Timestamp::EPOCH, session, agent, principal, "call-1", tool, Verdict::Accept, 1);
/// let sink = MemorySink::new();
/// sink.record_decision(&DecisionLine::new(&(&call).into())?)?;
/// assert_eq!(sink.latest(), [(1, Record::Decision(call))]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DecisionLine<'a> {
    call: &'a CallRecordRef<'a>,
    body: Vec<u8>,
}

impl<'a> DecisionLine<'a> {
    /// Writes the line.
    ///
    /// # Errors
    /// [`AuditError::Write`] if a member cannot be written.
    pub fn new(call: &'a CallRecordRef<'a>) -> Result<Self, AuditError> {
        // The spare buffer is gone if the thread is ending.
        let mut body = SPARE.try_with(Cell::take).unwrap_or_default();
        body.clear();
        body.reserve(LINE);
        line::decision(&mut body, call)?;
        Ok(Self { call, body })
    }

    /// The decision.
    #[must_use]
    pub const fn call(&self) -> &CallRecordRef<'a> {
        self.call
    }

    /// The line after its sequence number, from the comma on.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Reads a decision back from the [body](Self::body) of its line.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<CallRecord> {
        let line = [b"{\"seq\":0", body].concat();
        let (_, Record::Decision(call)) = line::parse_line(&line)? else { return None };
        Some(call)
    }
}

impl Drop for DecisionLine<'_> {
    fn drop(&mut self) {
        let body = std::mem::take(&mut self.body);
        let _ = SPARE.try_with(|spare| spare.set(body));
    }
}
