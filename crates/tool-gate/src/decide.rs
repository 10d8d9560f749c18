//! The checks, top-down in the order of [`GateStep::ALL`]: steps 0 to 10, and a last look. Of step 0, only ids and names
//! are read before the tool is known. Step 11, the record, is in `gate.rs`.

use countersign_action_proposal::SpentProposal;
use countersign_approval_token::SpentApproval;
use countersign_canonical_json::Canonical;
use countersign_core::{CallFacts, ClockError, Digest, ImpactClass, Timestamp, ToolId};
use countersign_registry::{Limits, RegistryView, SessionContract};

use crate::call::ToolCall;
use crate::call_ids::IdUse;
use crate::code::RejectionCode;
use crate::findings::Findings;
use crate::observed::{self, overlook};
use crate::order::{GateStep, StepsTaken};
use crate::parts::GateParts;
use crate::plan::HeldStep;
use crate::plan_approval::definition;
use crate::progress::BorrowedTerms;
use crate::question::{add_proposal, ask_for_evidence};
use crate::rejection::Refusal;
use crate::steps::approval::check_approval;
use crate::steps::args::{Reservation, Usage, check_args};
use crate::steps::evidence::check_evidence;
use crate::steps::intent::{check_goal, check_still_free, next_step};
use crate::steps::read::{read_call, read_ids};
use crate::steps::session::{check_agent, check_definition, disclosed_tool, listed_tool};
use crate::steps::spend::{check_user_checks, spend};
use crate::steps::{Deciding, ParsedCall, Subject};

/// A call that has passed steps 0 to 10.
pub(crate) struct Cleared<'g> {
    pub(crate) call: ClearedCall,
    pub(crate) reservation: Option<Reservation<'g>>,
    /// In a box, as most calls are no step of a plan.
    pub(crate) step: Option<Box<HeldStep<'g>>>,
}

/// The part of a cleared call that its acceptance keeps.
#[derive(Debug)]
pub(crate) struct ClearedCall {
    pub(crate) facts: CallFacts,
    pub(crate) args: Canonical,
    pub(crate) impact: ImpactClass,
    pub(crate) approval: Option<SpentApproval>,
    pub(crate) proposal: Option<SpentProposal>,
    pub(crate) basis: CallBasis,
}

/// Registry and contract of the decision. Both must still stand when the call runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallBasis {
    version: u64,
    /// Fingerprint of the tool's entry.
    entry: Digest,
    has_approval: bool,
    has_proposal: bool,
    /// End of the contract in force at the decision: a renewal extends no accepted call.
    pub(crate) ends: Timestamp,
}

/// Runs every check in turn; the first refusal ends the decision. A call passes only if all of [`GateStep::ALL`] did, in
/// that order; then, and only then, `cleared` is set.
pub(crate) fn decide<'g>(
    gate: &'g GateParts,
    call: &ToolCall<'_>,
    in_force: &BorrowedTerms,
    findings: &mut Findings,
    cleared: &mut Option<Cleared<'g>>,
) -> Result<(), Refusal> {
    let GateParts { terms, progress, recorder } = gate;
    let clock = &progress.clock;
    let (now, reading) = clock.read().map_err(clock_unavailable)?;
    (findings.time, findings.reading) = (now, Some(reading));
    findings.observed = observed::begin(terms.observe_until, now);
    if recorder.is_lost() {
        return Err(Refusal::new(
            RejectionCode::AuditUnavailable,
            "an earlier outcome could not be recorded",
        ));
    }
    let mut steps = StepsTaken::start();
    let call_id = steps.take(GateStep::Ids, read_ids(call, &recorder.rows, findings))?;
    let view = terms.view(now);
    findings.registry_version = view.snapshot().version();
    let deciding = &mut Deciding { terms, in_force, view: &view, now, call, findings };
    let agent = check_agent(&recorder.rows, &in_force.contract, &view, now);
    let agent = steps.take(GateStep::Agent, agent)?;
    let (tool, rules) = steps.take(GateStep::Tool, disclosed_tool(deciding, &recorder.rows, agent))?;
    // why: only now, so that a call of an agent that may not call, or of an undisclosed tool, costs the same whatever
    // its arguments are.
    let parsed = steps.take(GateStep::Read, read_call(deciding, progress.plan.get()))?;
    deciding.findings.definition = progress.definition(&tool);
    steps.take(GateStep::Definition, check_definition(rules, deciding.findings.definition))?;
    deciding.findings.note_values(&terms.recorded, &tool, &parsed.args);
    let fitting = overlook(&mut deciding.findings.observed, call, check_args(rules, &parsed.args), ());
    steps.take(GateStep::Args, fitting)?;
    let limits = [agent.limits(), rules.entry().limits()];
    let mut reservation = steps.take(GateStep::Limits, reserve(deciding, &progress.usage, &tool, limits))?;
    steps.take(GateStep::Goal, check_goal(deciding, rules))?;
    let step = steps.take(GateStep::Plan, next_step(deciding, progress.plan.get(), rules, &parsed))?;
    let ParsedCall { args, reserved_proposal, .. } = parsed;
    let definition = definition(deciding.findings.definition, rules);
    let plan = step.as_ref().map(|step| step.root().digest());
    let facts = terms.call_facts(call_id, tool, args.digest(), definition, plan, view.snapshot().version());
    let proposal = call.proposal.or(reserved_proposal.as_deref().map(str::as_bytes));
    let subject = Subject { facts: &facts, args: &args, rules, step: step.as_deref(), proposal };
    let ids = progress.call_ids.as_deref();
    let id = IdUse::new(ids, &facts, call, &in_force.contract, now);
    steps.take(GateStep::CallId, id.check())?;
    let approval = check_approval(deciding, &subject);
    let approval = overlook(&mut deciding.findings.observed, call, approval, None)
        .map_err(|refusal| add_proposal(refusal, deciding, &subject, &mut reservation, clock));
    let approval = steps.take(GateStep::Approval, approval)?;
    let backing = check_evidence(deciding, &subject, &mut reservation, clock)
        .map_err(|refusal| ask_for_evidence(refusal, deciding, &subject));
    let backing = steps.take(GateStep::Evidence, backing)?;
    let agreed = check_user_checks(terms, &subject, backing.impact)
        .and_then(|()| check_still_free(progress.plan.get(), step.as_deref()));
    steps.take(GateStep::HostChecks, agreed)?;
    // why: the clock is read again only if the host's code, a store or a file may have taken a long time since.
    let has_waited = backing.proposal.is_some() || !terms.checks.is_empty();
    let time = if has_waited { None } else { Some(now) };
    let spent = spend(clock, time, backing.proposal, approval, deciding.findings);
    // why: last, so that of two tries of one id, the one that loses its approval leaves the id to the other.
    let spent = spent.and_then(|spent| id.spend().map(|()| spent));
    let (proposal, approval) = steps.take(GateStep::Spend, spent)?;
    let basis = CallBasis {
        version: view.snapshot().version(),
        entry: rules.entry().fingerprint(),
        has_approval: approval.is_some(),
        has_proposal: proposal.is_some(),
        ends: observed::ends(
            deciding.findings.observed.as_deref(),
            terms.observe_until,
            in_force.contract.expires(),
        ),
    };
    let has_waited =
        has_waited || approval.is_some() || ids.is_some() || recorder.rows.stats.store().is_some();
    let before = FirstLook { in_force, view: &view, now, has_waited };
    steps.take(GateStep::LastLook, last_look(gate, &facts.tool, &basis, &before, deciding.findings))?;
    steps.end()?;
    let impact = backing.impact;
    let call = ClearedCall { facts, args, impact, approval, proposal, basis };
    *cleared = Some(Cleared { call, reservation: Some(reservation), step });
    Ok(())
}

/// Step 4. Under observation the rates are left out, and the limits of the session are not.
fn reserve<'g>(
    deciding: &mut Deciding<'_>,
    usage: &'g Usage,
    tool: &ToolId,
    [session, own]: [&Limits; 2],
) -> Result<Reservation<'g>, Refusal> {
    let (now, call) = (deciding.now, deciding.call);
    let reserved = usage.reserve(tool, now, session, own).map(Some).map_err(Refusal::from);
    match overlook(&mut deciding.findings.observed, call, reserved, None)? {
        Some(reservation) => Ok(reservation),
        None => Ok(usage.reserve(tool, now, &session.without_rate(), &own.without_rate())?),
    }
}

/// Inputs and results of steps 1 and 2.
struct FirstLook<'d> {
    in_force: &'d BorrowedTerms,
    view: &'d RegistryView,
    now: Timestamp,
    /// Whether a long time may have passed since.
    has_waited: bool,
}

/// Repeats steps 1 and 2 right before the record: user checks and stores may have taken a long time.
fn last_look(
    gate: &GateParts,
    tool: &ToolId,
    basis: &CallBasis,
    before: &FirstLook<'_>,
    findings: &mut Findings,
) -> Result<(), Refusal> {
    let GateParts { terms, progress, .. } = gate;
    // why: clock and file were read a moment ago if the call has not waited.
    let mut now = before.now;
    if before.has_waited {
        now = progress.clock.now().map_err(clock_unavailable)?;
        terms.registry.refresh(now);
    }
    findings.time = now;
    let is_same = progress.is_unchanged(before.in_force) && terms.registry.is_in_force(before.view);
    let stands = if is_same && now == before.now {
        // why: the same contract, registry, definition and time give the same answers.
        check_not_lost(gate).and_then(|()| gate.recorder.rows.check(now))
    } else {
        let (in_force, view) = (progress.in_force(), terms.registry.borrow_view());
        check_still_stands(gate, &in_force.contract, tool, basis, &view, now)
            .inspect_err(|_| findings.registry_version = view.snapshot().version())
    };
    stands.map_err(|refusal| refusal.meanwhile(findings.used))
}

fn check_not_lost(gate: &GateParts) -> Result<(), Refusal> {
    if gate.recorder.is_lost() {
        return Err(Refusal::new(RejectionCode::AuditUnavailable, "an outcome could not be recorded"));
    }
    Ok(())
}

fn clock_unavailable(_: ClockError) -> Refusal {
    Refusal::new(RejectionCode::Internal, "clock unavailable")
}

/// Repeats steps 1 and 2 for a call that has passed both before. Under another registry, the tool's entry must be the
/// same, and approvals and attestations no longer count: they bind the registry's version, and their keys may be
/// revoked.
pub(crate) fn check_still_stands(
    gate: &GateParts,
    contract: &SessionContract,
    tool: &ToolId,
    basis: &CallBasis,
    view: &RegistryView,
    now: Timestamp,
) -> Result<(), Refusal> {
    let GateParts { progress, recorder, .. } = gate;
    check_not_lost(gate)?;
    let agent = check_agent(&recorder.rows, contract, view, now)?;
    let rules = listed_tool(contract, tool, contract.disclosed_to(agent, view, tool))?;
    check_definition(rules, progress.definition(tool))?;
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
