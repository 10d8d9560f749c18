//! Decisions as lines, each written once.

use std::cell::Cell;

use countersign_core::{AgentId, Principal, SessionId, ToolId};

use crate::line::{self, LINE};
use crate::{AuditError, CallOrigin, CallRecord, CallRecordRef, KnownTool, OriginRef, Record, RecordedTool};

impl CallOrigin {
    /// Writes the part of the line.
    #[must_use]
    pub fn new(session: SessionId, agent: AgentId, principal: Principal) -> Self {
        let mut part = Vec::new();
        line::origin(&mut part, OriginRef::Named(&session, &agent, &principal));
        Self { session, agent, principal, part: part.into() }
    }
}

impl KnownTool {
    /// Writes the part of the line.
    #[must_use]
    pub fn new(tool: &ToolId) -> Self {
        let (tool, mut part) = (RecordedTool::from(tool), Vec::new());
        line::tool(&mut part, (&tool).into());
        Self { tool, part: part.into() }
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
