//! Decisions of borrowed parts: a [`CallRecord`] of its own would be built for the line alone.

use countersign_core::{AgentId, Digest, OperatorId, Principal, RequestId, SessionId, Timestamp, TokenId};

use crate::text::EscapedRef;
use crate::{CallRecord, CoApproval, Escaped, ProposalRecord, RecordedTool, RecordedValues, Verdict};

/// Session, agent and principal of calls, with their part of a line, which is written once.
#[derive(Clone, Debug)]
pub struct CallOrigin {
    pub(crate) session: SessionId,
    pub(crate) agent: AgentId,
    pub(crate) principal: Principal,
    pub(crate) part: Box<[u8]>,
}

impl CallOrigin {
    pub(crate) const fn part(&self) -> &[u8] {
        &self.part
    }
}

/// A tool with its part of a line, which is written once.
#[derive(Clone, Debug)]
pub struct KnownTool {
    pub(crate) tool: RecordedTool,
    pub(crate) part: Box<[u8]>,
}

impl KnownTool {
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
    pub edited_from: Option<&'a Digest>,
    pub values: &'a RecordedValues,
    pub impact: Option<EscapedRef<'a, 32>>,
    pub verdict: Verdict,
    pub code: Option<EscapedRef<'a, 64>>,
    pub waits: bool,
    pub observed: Option<&'a [Escaped<64>]>,
    pub reason: Option<EscapedRef<'a, 512>>,
    pub registry_version: u64,
    pub ask: Option<Digest>,
    pub ask_restated: Option<Digest>,
    pub plan: Option<Digest>,
    pub plan_step: Option<u64>,
    pub about_plan: bool,
    pub approval: Option<&'a TokenId>,
    pub approver: Option<&'a OperatorId>,
    pub grant_use: Option<u32>,
    pub co_approvals: &'a [CoApproval],
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
            edited_from: call.edited_from.as_ref(),
            values: &call.values,
            impact: call.impact.as_ref().map(|impact| impact.borrowed()),
            verdict: call.verdict,
            code: call.code.as_ref().map(|code| code.borrowed()),
            waits: call.waits,
            observed: call.observed.as_deref(),
            reason: call.reason.as_ref().map(|reason| reason.borrowed()),
            registry_version: call.registry_version,
            ask: call.ask,
            ask_restated: call.ask_restated,
            plan: call.plan,
            plan_step: call.plan_step,
            about_plan: call.about_plan,
            approval: call.approval.as_ref(),
            approver: call.approver.as_ref(),
            grant_use: call.grant_use,
            co_approvals: &call.co_approvals,
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
            edited_from: self.edited_from.copied(),
            values: self.values.clone(),
            impact: self.impact.map(EscapedRef::to_escaped),
            verdict: self.verdict,
            code: self.code.map(EscapedRef::to_escaped),
            waits: self.waits,
            observed: self.observed.map(<[_]>::to_vec),
            reason: self.reason.map(EscapedRef::to_escaped),
            registry_version: self.registry_version,
            ask: self.ask,
            ask_restated: self.ask_restated,
            plan: self.plan,
            plan_step: self.plan_step,
            about_plan: self.about_plan,
            approval: self.approval.cloned(),
            approver: self.approver.cloned(),
            grant_use: self.grant_use,
            co_approvals: self.co_approvals.to_vec(),
            denied_by: self.denied_by.map(EscapedRef::to_escaped),
            proposal: self.proposal.cloned().map(Box::new),
        }
    }
}
