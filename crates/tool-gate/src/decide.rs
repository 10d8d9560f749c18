//! The checks, top-down in the order in which they run (steps 0 to 10, and a last look; but of step 0 only ids and names are
//! read before step 1). Step 11, the record, is in `gate.rs`.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_action_proposal::{ProposalSpendError, SpentProposal, VerifiedProposal};
use countersign_approval_token::{Approval, SpentApproval};
use countersign_canonical_json::{Canonical, JsonErrorKind, Kind, read};
use countersign_committed_plan::{PlanLimits, PlanProblem, StepProof};
use countersign_core::{
    CallId, Digest, IdError, ImpactClass, RequestId, ServerName, SpendError, Timestamp, ToolId, ToolName,
};
use countersign_registry::{
    AgentEntry, AgentError, ArgsError, ContractError, RegistryView, SessionContract, ToolRules,
};

use crate::approval::approved;
use crate::ask::pinned_goal;
use crate::call::{ARGS_RECIPE, ToolCall};
use crate::code::RejectionCode;
use crate::findings::Findings;
use crate::parts::GateParts;
use crate::plan::{HeldStep, next_step, still_free};
use crate::plan_commit::Allowed;
use crate::proposal::{Reserved, backed, own_arguments, with_proposal};
use crate::rejection::{Refusal, UsedUp};
use crate::settings::ApprovalSettings;
use crate::settings::ProposalSettings;
use crate::usage::Reservation;
use crate::user_check::CheckedCall;

/// A call that has passed steps 0 to 10.
pub(crate) struct Cleared<'g> {
    pub(crate) call_id: CallId,
    pub(crate) tool: ToolId,
    pub(crate) args: Canonical,
    pub(crate) impact: ImpactClass,
    pub(crate) approval: Option<SpentApproval>,
    pub(crate) proposal: Option<SpentProposal>,
    pub(crate) reservation: Reservation<'g>,
    pub(crate) step: Option<HeldStep<'g>>,
    pub(crate) basis: Basis,
}

/// What of the registry a call was decided by, and has to stand until it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Basis {
    version: u64,
    /// Fingerprint of the tool's entry.
    entry: Digest,
    has_approval: bool,
    has_proposal: bool,
    /// End of the contract in force at the decision: a renewal prolongs no call that is held.
    pub(crate) ends: Timestamp,
}

/// Asks every question in turn; the first no ends it.
pub(crate) fn decide<'g>(
    gate: &'g GateParts,
    call: &ToolCall<'_>,
    findings: &mut Findings,
) -> Result<Cleared<'g>, Refusal> {
    let now = gate
        .progress
        .clock
        .now()
        .map_err(|_| Refusal::new(RejectionCode::Internal, "the time cannot be told"))?;
    findings.time = now;
    if gate.recorder.is_lost() {
        return Err(Refusal::new(
            RejectionCode::AuditUnavailable,
            "an earlier outcome could not be recorded",
        ));
    }
    let ids = read_ids(call, findings)?;
    let (terms, view) = (gate.progress.in_force(), gate.terms.view(now));
    findings.registry_version = view.snapshot().version();
    let agent = living_agent(gate, &terms.contract, &view, now)?;
    // why: only now, so that an agent that may call nothing has nothing read or digested for it.
    let read = read_call(gate, call, ids, findings)?;
    let (tool, rules) = disclosed_tool(gate, &terms.contract, &view, &read, findings)?;
    findings.note_values(&gate.terms.recorded, &tool, &read.args);
    fitting_args(rules, &read.args)?;
    let mut reservation = gate
        .progress
        .usage
        .reserve(&tool, now, agent.limits(), rules.entry().limits())
        .map_err(|code| Refusal::new(code, ""))?;
    pinned_goal(terms.ask.as_deref(), call, rules, now, findings)?;
    let step =
        next_step(gate, call, &Allowed { contract: &terms.contract, view: &view }, rules, &read, findings)?;
    let asked = Asked { call_id: &read.call_id, tool: &tool, args: &read.args, rules, step: step.as_ref() };
    let approval = approved(gate, call, &view, &asked, now, findings).map_err(|refusal| {
        with_proposal(refusal, gate, call, &read.reserved, &view, &asked, &mut reservation)
    })?;
    let backing = backed(gate, call, &read.reserved, &view, &asked, &mut reservation, findings)?;
    user_checks(gate, &asked, backing.impact)?;
    still_free(gate, step.as_ref())?;
    let (proposal, approval) = spend(gate, backing.proposal, approval, findings)?;
    let basis = Basis {
        version: view.snapshot().version(),
        entry: rules.entry().fingerprint(),
        has_approval: approval.is_some(),
        has_proposal: proposal.is_some(),
        ends: terms.contract.expires(),
    };
    last_look(gate, &tool, &basis, findings)?;
    let Read { call_id, args, .. } = read;
    Ok(Cleared { call_id, tool, args, impact: backing.impact, approval, proposal, reservation, step, basis })
}

/// Ids and names of a call, read.
struct Ids {
    call_id: CallId,
    server: Option<ServerName>,
    name: ToolName,
}

/// What step 0 made of a call.
pub(crate) struct Read {
    call_id: CallId,
    server: Option<ServerName>,
    name: ToolName,
    /// The tool's own arguments, without what travelled among them.
    pub(crate) args: Canonical,
    reserved: Reserved,
    /// What is to prove the plan's step. Nobody has verified it yet.
    pub(crate) proof: Option<StepProof>,
}

/// A call to a disclosed tool.
pub(crate) struct Asked<'a> {
    pub(crate) call_id: &'a CallId,
    pub(crate) tool: &'a ToolId,
    pub(crate) args: &'a Canonical,
    pub(crate) rules: &'a ToolRules,
    /// The turn that it holds, where it is a step of a plan.
    pub(crate) step: Option<&'a HeldStep<'a>>,
}

impl Asked<'_> {
    /// Root of the plan that it is a step of.
    pub(crate) fn plan(&self) -> Option<Digest> {
        self.step.map(|step| step.root().digest())
    }
}

fn malformed(reason: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal::new(RejectionCode::MalformedCall, reason)
}

/// Step 0, first part: are ids and names well formed?
fn read_ids(call: &ToolCall<'_>, findings: &mut Findings) -> Result<Ids, Refusal> {
    let id_error = |error: IdError| malformed(error.to_string());
    let call_id = CallId::new(call.call_id).map_err(id_error)?;
    findings.request_id = call.request_id.map(RequestId::new).transpose().map_err(id_error)?;
    let server = call.server.map(ServerName::new).transpose().map_err(id_error)?;
    let name = ToolName::new(call.name).map_err(id_error)?;
    Ok(Ids { call_id, server, name })
}

/// Step 0, second part, asked after step 1: is all the rest well formed and within limits?
fn read_call(
    gate: &GateParts,
    call: &ToolCall<'_>,
    ids: Ids,
    findings: &mut Findings,
) -> Result<Read, Refusal> {
    if call.approvals.len() > gate.terms.limits.approvals {
        return Err(Refusal::new(RejectionCode::LimitExceeded, "too many approvals came with the call"));
    }
    let sent = read(call.args, ARGS_RECIPE, &gate.terms.limits.args).map_err(|error| {
        use JsonErrorKind::{TooDeep, TooLarge, TooWide};
        let too_much = matches!(error.kind(), TooLarge | TooDeep | TooWide);
        let code = if too_much { RejectionCode::LimitExceeded } else { RejectionCode::MalformedCall };
        Refusal::new(code, format!("arguments: {error}"))
    })?;
    let mut reserved = Reserved::of(&sent);
    let args = own_arguments(sent);
    findings.args = Some(args.digest());
    if args.value().kind() != Kind::Object {
        return Err(malformed("arguments are not an object"));
    }
    let among = reserved.take_request_id().map_err(|()| malformed("`__pic_request_id` is not an id"))?;
    findings.request_id = findings.request_id.take().or(among);
    if call.proposal.is_some() && reserved.proposal.is_some() {
        return Err(malformed("a proposal came beside the arguments and another among them"));
    }
    let proof = call.plan_proof.map(read_proof).transpose()?;
    let Ids { call_id, server, name } = ids;
    Ok(Read { call_id, server, name, args, reserved, proof })
}

fn read_proof(json: &[u8]) -> Result<StepProof, Refusal> {
    StepProof::from_json(json, &PlanLimits::default()).map_err(|error| {
        let too_much = error.problem() == PlanProblem::Limit;
        let code = if too_much { RejectionCode::LimitExceeded } else { RejectionCode::MalformedCall };
        Refusal::new(code, format!("plan proof: {error}"))
    })
}

/// Step 1: is the contract alive, the registry fresh, the agent neither revoked nor quarantined now?
pub(crate) fn living_agent<'v>(
    gate: &GateParts,
    contract: &SessionContract,
    view: &'v RegistryView,
    now: Timestamp,
) -> Result<&'v AgentEntry, Refusal> {
    holding_contract(contract, view, now)?;
    gate.recorder.rows.check(now)?;
    view.snapshot()
        .agent(&gate.terms.agent)
        .ok_or_else(|| Refusal::new(RejectionCode::AgentNotRegistered, ""))
}

/// Asks once more right before the record: user checks and stores may have taken their time.
fn last_look(gate: &GateParts, tool: &ToolId, basis: &Basis, findings: &mut Findings) -> Result<(), Refusal> {
    let now = gate
        .progress
        .clock
        .now()
        .map_err(|_| Refusal::new(RejectionCode::Internal, "the time cannot be told"))?;
    let (terms, view) = (gate.progress.in_force(), gate.terms.view(now));
    findings.time = now;
    still_stands(gate, &terms.contract, tool, basis, &view, now).map_err(|refusal| {
        findings.registry_version = view.snapshot().version();
        refusal.meanwhile(findings.used)
    })
}

/// Asks steps 1 and 2 again of a call that has passed both before. Under another registry, the tool's entry has to be the same, and
/// approvals and attestations no longer count: they bind the registry's version, and their keys may be revoked.
pub(crate) fn still_stands(
    gate: &GateParts,
    contract: &SessionContract,
    tool: &ToolId,
    basis: &Basis,
    view: &RegistryView,
    now: Timestamp,
) -> Result<(), Refusal> {
    if gate.recorder.is_lost() {
        return Err(Refusal::new(RejectionCode::AuditUnavailable, "an outcome could not be recorded"));
    }
    living_agent(gate, contract, view, now)?;
    let rules = listed_tool(contract, view, tool)?;
    pinned_definition(rules, gate.progress.definition(tool))?;
    let code = if view.snapshot().version() == basis.version {
        return Ok(());
    } else if rules.entry().fingerprint() != basis.entry {
        RejectionCode::CallExpired
    } else if basis.has_approval {
        RejectionCode::ApprovalInvalid
    } else if basis.has_proposal {
        RejectionCode::PicEvidenceFailed
    } else {
        return Ok(());
    };
    Err(Refusal::new(code, "the registry is another one"))
}

/// Step 1, but for quarantine.
pub(crate) fn holding_contract(
    contract: &SessionContract,
    view: &RegistryView,
    now: Timestamp,
) -> Result<(), Refusal> {
    contract.check(view, now).map_err(|error| Refusal::new(contract_code(error), error.to_string()))
}

pub(crate) const fn contract_code(error: ContractError) -> RejectionCode {
    match error {
        ContractError::Agent(error) => agent_code(error),
        ContractError::Expired | ContractError::Superseded | _ => RejectionCode::ContractExpired,
    }
}

pub(crate) const fn agent_code(error: AgentError) -> RejectionCode {
    match error {
        AgentError::Freshness(_) => RejectionCode::RegistryStale,
        AgentError::NotRegistered => RejectionCode::AgentNotRegistered,
        AgentError::Revoked => RejectionCode::AgentRevoked,
        _ => RejectionCode::ContractExpired,
    }
}

/// Step 2: is the tool disclosed, then and now, and is its definition the pinned one?
fn disclosed_tool<'v>(
    gate: &GateParts,
    contract: &SessionContract,
    view: &'v RegistryView,
    read: &Read,
    findings: &mut Findings,
) -> Result<(ToolId, &'v ToolRules), Refusal> {
    let tool = meant_tool(contract, read.server.as_ref(), &read.name)?;
    findings.tool = Some(tool.clone());
    let rules = listed_tool(contract, view, &tool)?;
    findings.impact = Some(rules.entry().impact());
    findings.definition = gate.progress.definition(&tool);
    pinned_definition(rules, findings.definition)?;
    Ok((tool, rules))
}

/// The tool that the call names, or the only one of that name where it names no server.
pub(crate) fn meant_tool(
    contract: &SessionContract,
    server: Option<&ServerName>,
    name: &ToolName,
) -> Result<ToolId, Refusal> {
    let unclear = || Refusal::new(RejectionCode::UndisclosedTool, "no one server discloses the name");
    match server {
        Some(server) => Ok(ToolId::from_names(server.clone(), name.clone())),
        None => only_tool(contract.tools(), name).cloned().ok_or_else(unclear),
    }
}

/// The tool of this name, if there is one of one server alone.
pub(crate) fn only_tool<'a>(
    tools: impl IntoIterator<Item = &'a ToolId>,
    name: &ToolName,
) -> Option<&'a ToolId> {
    let mut named = tools.into_iter().filter(|tool| tool.name() == name);
    let found = named.next()?;
    if named.next().is_some() { None } else { Some(found) }
}

pub(crate) fn listed_tool<'v>(
    contract: &SessionContract,
    view: &'v RegistryView,
    tool: &ToolId,
) -> Result<&'v ToolRules, Refusal> {
    contract.disclosed(view, tool).ok_or_else(|| {
        let listed_once = contract.discloses(tool);
        let reason = if listed_once { "no longer listed for the agent" } else { "not in the contract" };
        Refusal::new(RejectionCode::UndisclosedTool, reason)
    })
}

pub(crate) fn pinned_definition(rules: &ToolRules, seen: Option<Digest>) -> Result<(), Refusal> {
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

/// Step 3, whose refusal says the place and the rule and never the value.
pub(crate) fn fitting_args(rules: &ToolRules, args: &Canonical) -> Result<(), Refusal> {
    rules.check_args(args).map_err(|error| {
        let code = match error {
            ArgsError::Schema { .. } => RejectionCode::ArgsSchema,
            ArgsError::Constraint { .. } => RejectionCode::ArgsConstraint,
            _ => RejectionCode::Internal,
        };
        Refusal::new(code, error.to_string())
    })
}

/// Step 9: do the embedder's own checks agree?
fn user_checks(gate: &GateParts, asked: &Asked<'_>, impact: ImpactClass) -> Result<(), Refusal> {
    let shown = CheckedCall {
        call_id: asked.call_id,
        tool: asked.tool,
        args: asked.args,
        impact,
        agent: &gate.terms.agent,
        session: &gate.terms.session,
        principal: &gate.terms.principal,
    };
    for (name, check) in &gate.terms.checks {
        match catch_unwind(AssertUnwindSafe(|| check.check(&shown))) {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => {
                return Err(Refusal::new(RejectionCode::CheckRefused, format!("{name}: {reason}")));
            }
            Err(_) => return Err(Refusal::new(RejectionCode::CheckRefused, format!("{name}: panicked"))),
        }
    }
    Ok(())
}

/// Step 10: are attestations, endorsements and approval unspent, and now spent, durably?
///
/// What backs the proposal goes first. A call that fails there has cost no one's approval, and of one call's codes the one of step 8
/// still comes before the one of step 10. A call that fails at its approval has used its attestations up, which were good
/// for this call alone, and one use of each endorsement.
fn spend(
    gate: &GateParts,
    proposal: Option<(VerifiedProposal, &ProposalSettings)>,
    approval: Option<(Approval, &ApprovalSettings)>,
    findings: &mut Findings,
) -> Result<(Option<SpentProposal>, Option<SpentApproval>), Refusal> {
    if proposal.is_none() && approval.is_none() {
        return Ok((None, None));
    }
    // Evidence and the embedder's checks may have taken their time.
    let now = gate
        .progress
        .clock
        .now()
        .map_err(|_| Refusal::new(RejectionCode::Internal, "the time cannot be told"))?;
    let proposal = match proposal {
        None => None,
        Some((verified, settings)) => {
            let spent = verified.spend(&*settings.spent, now, settings.skew);
            let spent = spent.map_err(|error| {
                let (what, code) = match &error {
                    ProposalSpendError::Endorsement { evidence, .. } => {
                        findings.note_evidence(evidence);
                        ("endorsement", RejectionCode::PicVerifierFailed)
                    }
                    ProposalSpendError::Attestation(_) | _ => {
                        ("attestation", RejectionCode::PicEvidenceFailed)
                    }
                };
                spend_refusal(error.cause(), what, [code; 2])
            })?;
            findings.note_evidence(spent.evidence());
            Some(spent)
        }
    };
    findings.used = UsedUp::of(None, proposal.as_ref());
    let approval = match approval {
        None => None,
        Some((approval, settings)) => Some(spend_approval(approval, settings, now)?),
    };
    findings.used = UsedUp::of(approval.as_ref(), proposal.as_ref());
    Ok((proposal, approval))
}

pub(crate) fn spend_approval(
    approval: Approval,
    settings: &ApprovalSettings,
    now: Timestamp,
) -> Result<SpentApproval, Refusal> {
    let codes = [RejectionCode::ApprovalSpent, RejectionCode::ApprovalExpired];
    approval
        .spend(&*settings.spent, now, settings.verify.skew)
        .map_err(|error| spend_refusal(&error, "approval", codes))
}

/// Step 10's error: `codes` are for what was spent before and for what has expired.
fn spend_refusal(error: &SpendError, what: &str, [spent, expired]: [RejectionCode; 2]) -> Refusal {
    let code = match error {
        SpendError::Spent => spent,
        SpendError::Expired => expired,
        SpendError::ClockAhead => RejectionCode::StoreClockAhead,
        SpendError::TooNew => RejectionCode::StoreTooNew,
        SpendError::Unavailable(_) | _ => RejectionCode::StoreUnavailable,
    };
    Refusal::new(code, format!("{what}: {error}"))
}
