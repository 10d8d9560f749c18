use std::sync::Arc;

use countersign_action_proposal::{ActionProposal, VerifiedEvidence, VerifiedProposal};
use countersign_audit_log::{
    CallRecordRef, CoApproval, Escaped, EscapedRef, EvidenceRecord, OriginRef, ProposalRecord, RecordedTool,
    RecordedValues, ToolRef, Verdict,
};
use countersign_canonical_json::Canonical;
use countersign_committed_plan::PlanRoot;
use countersign_core::{
    CallId, Digest, ImpactClass, OperatorId, RequestId, Timestamp, TokenId, ToolId, ToolName,
};
use countersign_signals::Probe;

use crate::approvals::GivenApprovals;
use crate::call::{ARGS_RECIPE, CallDenial, ToolCall};
use crate::code::RejectionCode;
use crate::conduct::{call_key, probe_of};
use crate::observed::begin;
use crate::plan_approval::SpentPlanApproval;
use crate::recorded_fields::RecordedFields;
use crate::rejection::UsedUp;
use crate::settings::ProposalSettings;
use crate::terms::GateTerms;
use crate::used_tools::UsedTool;

/// The spent approvals of a call: the first, and those beside it.
pub(crate) type SpentIds<'a> = (Option<&'a TokenId>, &'a [CoApproval]);

/// Findings about a call during its decision, for its record.
pub(crate) struct Findings {
    pub(crate) time: Timestamp,
    /// Reading of the clock for this decision; `None` if it failed.
    pub(crate) reading: Option<u64>,
    pub(crate) registry_version: u64,
    /// Id and names of the call, once they are read.
    pub(crate) call_id: Option<CallId>,
    pub(crate) request_id: Option<RequestId>,
    pub(crate) called: Option<CalledTool>,
    pub(crate) definition: Option<Digest>,
    pub(crate) args: Option<Digest>,
    pub(crate) impact: Option<ImpactClass>,
    pub(crate) ask_restated: Option<Digest>,
    /// Approval and attestations that this call has used up.
    pub(crate) used: UsedUp,
    approval: Option<(TokenId, OperatorId)>,
    /// The use of a grant that the call took.
    pub(crate) grant_use: Option<u32>,
    co_approvals: Vec<CoApproval>,
    pub(crate) denied_by: Option<Escaped<256>>,
    /// Codes that observe mode overlooked; `None` outside that mode.
    pub(crate) observed: Option<Vec<Escaped<64>>>,
    values: RecordedValues,
    plan: Option<PlanRoot>,
    pub(crate) plan_step: Option<u64>,
    /// Profile of proposals, with findings about the call's proposal.
    pub(crate) proposal: Option<Box<ProposalRecord>>,
}

/// The tool that a call names.
pub(crate) enum CalledTool {
    /// The session has used it before.
    Used(Arc<UsedTool>),
    Named(ToolId),
    /// The call names no server, and the contract has not been asked yet which one it means.
    Unplaced(ToolName),
}

impl CalledTool {
    /// The tool; `None` if its server is unknown.
    pub(crate) fn id(&self) -> Option<&ToolId> {
        match self {
            Self::Used(used) => Some(&used.id),
            Self::Named(id) => Some(id),
            Self::Unplaced(_) => None,
        }
    }

    pub(crate) fn name(&self) -> &ToolName {
        match self {
            Self::Used(used) => used.id.name(),
            Self::Named(id) => id.name(),
            Self::Unplaced(name) => name,
        }
    }
}

impl Findings {
    /// Begins a decision. `plan` is the plan in force.
    pub(crate) fn new(
        terms: &GateTerms,
        time: Timestamp,
        registry_version: u64,
        plan: Option<PlanRoot>,
    ) -> Self {
        let record =
            |settings: &ProposalSettings| Box::new(ProposalRecord::new(settings.verifier.profile().as_str()));
        Self {
            time,
            reading: None,
            registry_version,
            call_id: None,
            request_id: None,
            called: None,
            definition: None,
            args: None,
            impact: None,
            ask_restated: None,
            used: UsedUp::default(),
            approval: None,
            grant_use: None,
            co_approvals: Vec::new(),
            denied_by: None,
            observed: begin(terms.observe_until, time),
            values: RecordedValues::default(),
            plan,
            plan_step: None,
            proposal: terms.proposals.as_ref().map(record),
        }
    }

    /// Returns the approvals that the call has spent.
    pub(crate) fn spent_approvals(&self) -> SpentIds<'_> {
        if !self.used.approval {
            return (None, &[]);
        }
        (self.approval.as_ref().map(|(id, _)| id), &self.co_approvals)
    }

    /// Returns `true` if an approval of the call was verified.
    pub(crate) const fn has_approval(&self) -> bool {
        self.approval.is_some()
    }

    /// Returns the tool that the call named; `None` if the names are not well formed, or if the server is unknown.
    pub(crate) fn tool(&self) -> Option<&ToolId> {
        self.called.as_ref().and_then(CalledTool::id)
    }

    /// Returns the tool, if the session has used it before.
    pub(crate) fn used_tool(&self) -> Option<&UsedTool> {
        if let Some(CalledTool::Used(used)) = &self.called { Some(used) } else { None }
    }

    pub(crate) fn note_approvals(&mut self, approvals: &GivenApprovals) {
        let [first, others] = approvals.parts();
        self.approval = first.first().map(|it| (it.token_id().clone(), it.approver().clone()));
        let others = others.iter();
        self.co_approvals =
            others.map(|it| CoApproval::new(it.token_id().clone(), it.approver().clone())).collect();
    }

    /// Notes the person who denied the call.
    pub(crate) fn note_denial(&mut self, denial: CallDenial<'_>) {
        self.denied_by = denial.by.map(Escaped::new);
    }

    /// Notes the values that the operator wants recorded. At this point the tool is known to be one of the session's.
    pub(crate) fn note_values(&mut self, recorded: &RecordedFields, tool: &ToolId, args: &Canonical) {
        self.values = recorded.values(tool, args);
    }

    pub(crate) const fn note_plan(&mut self, root: PlanRoot) {
        self.plan = Some(root);
    }

    /// Notes the plan's approval, which counts for this call.
    pub(crate) fn note_plan_approval(&mut self, approval: &SpentPlanApproval) {
        self.approval = Some((approval.token_id.clone(), approval.approver.clone()));
    }

    pub(crate) fn note_proposal(&mut self, proposal: &ActionProposal) {
        if let Some(record) = &mut self.proposal {
            record.digest = Some(proposal.digest());
            record.intent = Some(proposal.intent_digest());
        }
    }

    /// Notes an impact other than the registry's.
    pub(crate) fn note_effective_impact(&mut self, impact: ImpactClass) {
        if let Some(record) = &mut self.proposal {
            record.impact = Some(impact.as_str().into());
        }
    }

    pub(crate) fn note_verified(&mut self, verified: &VerifiedProposal) {
        self.note_effective_impact(verified.impact());
        self.note_evidence(verified.evidence());
    }

    /// Notes the verified evidence, with the endorsements of which a use was spent.
    pub(crate) fn note_evidence(&mut self, evidence: &[VerifiedEvidence]) {
        if let Some(record) = &mut self.proposal {
            record.set_evidence(evidence.iter().map(|evidence| {
                let (id, digest) = (evidence.id(), evidence.digest());
                match (evidence.signer(), evidence.endorsement()) {
                    (Some((key, _)), _) => EvidenceRecord::signature(id, digest, key),
                    (None, Some(spent)) => EvidenceRecord::endorsed(id, digest, spent.id(), spent.number()),
                    (None, None) => EvidenceRecord::hash(id, digest),
                }
            }));
        }
    }

    /// Returns the answer in the form that the signals count.
    pub(crate) fn probe(&self, refused: Option<RejectionCode>) -> Option<Probe> {
        probe_of(refused, self.has_approval(), || {
            let tool = self.tool()?;
            Some(call_key(tool.server().as_str(), tool.name().as_str(), self.args?))
        })
    }

    /// Returns the tool as it is recorded. A server that is not named is recorded as `?`.
    pub(crate) fn recorded_tool(&self, call: &ToolCall<'_>) -> RecordedTool {
        let sent = || call.server.map_or_else(|| Escaped::fixed("?"), Escaped::new);
        let server = self.tool().map_or_else(sent, |tool| tool.server().clone().into());
        let sent = || call.name.into();
        let name = self.called.as_ref().map_or_else(sent, |called| Escaped::from(called.name().clone()));
        RecordedTool::new(server, name)
    }

    /// Returns the decision as it is recorded, with the code and reason of a refusal. `tool` is used unless the session
    /// has used the tool before.
    pub(crate) fn record<'a>(
        &'a self,
        terms: &'a GateTerms,
        call: &ToolCall<'a>,
        call_id: EscapedRef<'a, 256>,
        tool: impl FnOnce() -> ToolRef<'a>,
        refused: Option<(&'a Escaped<64>, Option<&'a Escaped<512>>)>,
    ) -> CallRecordRef<'a> {
        let used = self.used_tool().map(|used| ToolRef::Known(&used.recorded));
        CallRecordRef {
            time: self.time,
            origin: OriginRef::Known(terms.origin()),
            call_id,
            request_id: self.request_id.as_ref(),
            trace: call.trace.filter(|text| is_traceparent(text)).and_then(EscapedRef::plain),
            tool: used.unwrap_or_else(tool),
            definition: self.definition,
            args: self.args,
            args_recipe: self.args.map(|_| ARGS_RECIPE.into()),
            edited_from: call.edited_from,
            values: &self.values,
            impact: self.impact.map(Into::into),
            verdict: if refused.is_some() { Verdict::Reject } else { Verdict::Accept },
            code: refused.map(|(code, _)| code.borrowed()),
            waits: false,
            observed: self.observed.as_deref(),
            reason: refused.and_then(|(_, reason)| reason).map(|reason| reason.borrowed()),
            registry_version: self.registry_version,
            ask: terms.goal,
            ask_restated: self.ask_restated,
            plan: self.plan.map(|root| root.digest()),
            plan_step: self.plan_step,
            about_plan: false,
            approval: self.approval.as_ref().map(|(id, _)| id),
            approver: self.approval.as_ref().map(|(_, approver)| approver),
            grant_use: self.grant_use,
            co_approvals: &self.co_approvals,
            denied_by: self.denied_by.as_ref().map(|by| by.borrowed()),
            proposal: self.proposal.as_deref(),
        }
    }
}

/// Returns `true` for a `traceparent` of version 00: `00`, the trace's id, the parent's id and the flags, in lower-case
/// hexadecimal, and neither id all zero (W3C Trace Context, section 3.2). Later versions are unknown here.
fn is_traceparent(text: &str) -> bool {
    let mut fields = text.split('-');
    let mut next = |digits| fields.next().filter(|field| is_hex(field, digits));
    let known = (next(2), next(32), next(16), next(2));
    let (Some("00"), Some(trace), Some(parent), Some(_)) = known else { return false };
    let is_zero = |id: &str| id.bytes().all(|digit| digit == b'0');
    fields.next().is_none() && !is_zero(trace) && !is_zero(parent)
}

fn is_hex(field: &str, digits: usize) -> bool {
    field.len() == digits && field.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
