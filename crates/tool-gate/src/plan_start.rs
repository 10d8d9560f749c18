//! How a gate gets its plan: committed under the contract, approved where it is to be, on record.

use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_approval_token::{CallBinding, Partial};
use countersign_audit_log::{CallRecord, OutcomeKind, RecordedTool, Verdict};
use countersign_canonical_json::{Canonical, Limits, read};
use countersign_committed_plan::{
    CommitError, CommittedPlan, OpenPlace, Plan, PlanContext, PlanContract, PlanCursor, PlanError, PlanRoot,
    PlanUseError, Step,
};
use countersign_core::{CallId, Timestamp, ToolId};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{ArgPlace, ContractError, RegistryView, SessionContract, ToolRules};

use crate::accepted::InFlight;
use crate::code::RejectionCode;
use crate::decide::{ARGS_RECIPE, Refusal, spend_approval, verify_one};
use crate::gate::{Inner, ToolGate};
use crate::plan::{PlanApproval, RunningPlan};
use crate::rejection::ApprovalRequest;

/// What an approval of a whole plan binds as its tool, and what the plan's start is on record as.
const PLAN_TOOL: (&str, &str) = ("countersign", "submit_plan");

/// Holds a plan to be started, with the approval of the whole of it where there is one.
#[derive(Clone, Debug)]
pub struct PlanSettings {
    plan: Plan,
    approval: Option<String>,
}

impl PlanSettings {
    /// Takes a plan that nobody has approved as a whole: each of its calls needs the approval that its tool's rule asks for.
    #[must_use]
    pub const fn new(plan: Plan) -> Self {
        Self { plan, approval: None }
    }

    /// Adds an approval token for the whole plan ([`ToolGate::plan_approval_request`]). It is verified and spent when the plan is
    /// started, and no step needs another one but those to tools whose rule asks for an approval of each call.
    #[must_use]
    pub fn approval(mut self, token: &str) -> Self {
        self.approval = Some(token.to_owned());
        self
    }
}

/// Why a plan cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartPlanError {
    /// The gate has a plan already, running, halted or finished.
    #[error("the gate has a plan already")]
    Started,
    /// The session has no pinned goal that the plan could be for.
    #[error("the session has no pinned goal")]
    NoGoal,
    /// The session's contract does not hold any more.
    #[error(transparent)]
    Contract(#[from] ContractError),
    /// The registry's version is not one that a plan can name.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The plan is for another session, goal or registry.
    #[error(transparent)]
    Use(#[from] PlanUseError),
    /// The plan has a step that the operator does not allow.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The plan's approval was refused, or the plan's start cannot be recorded.
    #[error("{}", .0.message())]
    Refused(RejectionCode),
}

impl StartPlanError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Started => "PLAN_STARTED",
            Self::NoGoal => "PLAN_NO_GOAL",
            Self::Contract(error) => error.code(),
            Self::Plan(error) => error.code(),
            Self::Use(error) => error.code(),
            Self::Commit(error) => error.code(),
            Self::Refused(code) => code.as_str(),
        }
    }
}

/// Checks a plan against what a session may do, and commits it. Whoever shows the plan to an approver can do this; a gate does
/// it again by itself when the plan is started.
///
/// What an open argument may be is what the registry lists as a tool's data arguments; everything else of a step is fixed,
/// and has to fit the tool's schema and constraints.
///
/// # Errors
/// [`CommitError`] at the first step that is not allowed.
pub fn commit_plan(
    plan: Plan,
    contract: &SessionContract,
    view: &RegistryView,
) -> Result<CommittedPlan, CommitError> {
    plan.commit(&Allowed { contract, view })
}

/// What the contract and the registry of this moment allow, as a plan asks for it.
struct Allowed<'a> {
    contract: &'a SessionContract,
    view: &'a RegistryView,
}

impl Allowed<'_> {
    fn rules(&self, tool: &ToolId) -> Option<&ToolRules> {
        self.contract.disclosed(self.view, tool)
    }
}

impl PlanContract for Allowed<'_> {
    fn discloses(&self, tool: &ToolId) -> bool {
        self.rules(tool).is_some()
    }

    fn is_data(&self, tool: &ToolId, place: &OpenPlace) -> bool {
        let (Some(rules), Ok(place)) = (self.rules(tool), ArgPlace::new(place.as_str())) else {
            return false;
        };
        rules.entry().data_args().iter().any(|data| data.covers(&place))
    }

    fn fits(&self, step: &Step) -> bool {
        let open: Result<Vec<_>, _> = step.open().iter().map(|place| ArgPlace::new(place.as_str())).collect();
        let (Some(rules), Ok(open)) = (self.rules(step.tool()), open) else {
            return false;
        };
        rules.check_planned_args(step.args(), &open).is_ok()
    }
}

/// What is known of a plan that is to be started, for its record.
struct Start<'a> {
    inner: &'a Inner,
    now: Timestamp,
    registry_version: u64,
    args: Option<Canonical>,
    root: Option<PlanRoot>,
    approval: Option<PlanApproval>,
}

impl Start<'_> {
    fn record(&self, refused: Option<&StartPlanError>) -> CallRecord {
        let contract = &self.inner.contract;
        let call_id = self.root.map_or_else(|| "plan".to_owned(), |root| root.to_string());
        let mut record = CallRecord::new(
            self.now,
            contract.session().clone(),
            contract.agent().clone(),
            self.inner.principal.clone(),
            &call_id,
            RecordedTool::new(PLAN_TOOL.0, PLAN_TOOL.1),
            if refused.is_some() { Verdict::Reject } else { Verdict::Accept },
            self.registry_version,
        );
        record.args = self.args.as_ref().map(Canonical::digest);
        record.args_recipe = self.args.as_ref().map(|_| ARGS_RECIPE.as_str().into());
        record.ask = self.inner.ask.as_ref().map(PinnedAsk::digest);
        record.plan = self.root.map(|root| root.digest());
        record.code = refused.map(|error| error.code().into());
        record.reason = refused.map(|error| error.to_string().as_str().into());
        if let Some(approval) = &self.approval {
            record.approval = Some(approval.token_id.clone());
            record.approver = Some(approval.approver.clone());
        }
        record
    }
}

impl ToolGate {
    /// What a plan for this session is made for: its pinned goal, the session, and the registry of this moment.
    ///
    /// # Errors
    /// [`StartPlanError`] without a pinned goal.
    pub fn plan_context(&self) -> Result<PlanContext, StartPlanError> {
        context(self.inner(), &self.registry().view())
    }

    /// What an approver would have to approve, were the whole plan to be approved: its arguments are the plan.
    ///
    /// # Errors
    /// [`StartPlanError`] when the plan could not be started, or the gate takes no approvals.
    pub fn plan_approval_request(&self, plan: &Plan) -> Result<ApprovalRequest, StartPlanError> {
        let inner = self.inner();
        let view = inner.registry.view();
        let root = *commit(inner, plan.clone(), &view)?.root();
        let args = canonical(plan)?;
        Ok(ApprovalRequest { binding: binding(inner, &view, &args, root)?, args })
    }

    /// Holds every call from now on to a plan: its next call passes, and no other. The plan is checked against the contract and
    /// committed, its approval is verified and spent, and the start is on record before this returns. A gate has one plan.
    ///
    /// # Errors
    /// [`StartPlanError`] when the gate has a plan, the plan is for another session, goal or registry, has a step that the operator
    /// does not allow, or its approval does not verify or was used. The gate is as it was then.
    pub fn start_plan(&self, settings: PlanSettings) -> Result<PlanRoot, StartPlanError> {
        let inner = self.inner();
        let _one_at_a_time = inner.starting_plan.lock();
        let view = inner.registry.view();
        let mut start = Start {
            inner,
            now: inner.latest(),
            registry_version: view.snapshot().version(),
            args: None,
            root: None,
            approval: None,
        };
        // The stores are the embedder's.
        let started = catch_unwind(AssertUnwindSafe(|| prepare(&mut start, settings, &view)))
            .unwrap_or(Err(StartPlanError::Refused(RejectionCode::Internal)));
        let unrecorded = |()| StartPlanError::Refused(RejectionCode::AuditUnavailable);
        let cursor = match started {
            Ok(cursor) => cursor,
            Err(error) => {
                inner.record(start.record(Some(&error))).map_err(unrecorded)?;
                return Err(error);
            }
        };
        let decision = inner.record(start.record(None)).map_err(unrecorded)?;
        let Start { now, approval, .. } = start;
        let root = *cursor.plan().root();
        let id = CallId::new(&root.to_string());
        if inner.plan.set(RunningPlan::new(cursor, approval)).is_err() {
            return Err(StartPlanError::Started);
        }
        if let Ok(id) = id {
            let in_flight = InFlight::new(std::sync::Arc::clone(inner), id, decision, now, None);
            in_flight.finish(OutcomeKind::Returned);
        }
        Ok(root)
    }
}

/// Everything that comes before the record.
fn prepare(
    start: &mut Start<'_>,
    settings: PlanSettings,
    view: &RegistryView,
) -> Result<PlanCursor<Vec<u8>>, StartPlanError> {
    let inner = start.inner;
    start.now = inner.now().map_err(|_| StartPlanError::Refused(RejectionCode::Internal))?;
    if inner.record_is_lost() {
        return Err(StartPlanError::Refused(RejectionCode::AuditUnavailable));
    }
    if inner.plan.get().is_some() {
        return Err(StartPlanError::Started);
    }
    inner.contract.check(view, start.now)?;
    let PlanSettings { plan, approval } = settings;
    let args = start.args.insert(canonical(&plan)?);
    let committed = commit(inner, plan, view)?;
    let root = *committed.root();
    start.root = Some(root);
    let cursor = PlanCursor::start(committed, &context(inner, view)?)?;
    if let Some(token) = &approval {
        let refused = |refusal: Refusal| StartPlanError::Refused(refusal.code);
        let taken = inner.approvals.as_ref();
        let taken = taken.ok_or(StartPlanError::Refused(RejectionCode::ApprovalInvalid))?;
        let binding = binding(inner, view, args, root)?;
        // A plan is approved for this session and this registry, or it is not approved.
        let approval =
            verify_one(token, taken, Partial::Refuse, &binding, view, start.now).map_err(refused)?;
        let spent = spend_approval(approval, taken, start.now).map_err(refused)?;
        start.approval = Some(PlanApproval::from(&spent));
    }
    Ok(cursor)
}

fn context(inner: &Inner, view: &RegistryView) -> Result<PlanContext, StartPlanError> {
    let goal = inner.ask.as_ref().map(PinnedAsk::digest).ok_or(StartPlanError::NoGoal)?;
    Ok(PlanContext::new(goal, inner.contract.session().clone(), view.snapshot().version())?)
}

/// Commits a plan that was made for this session, this goal and this registry.
fn commit(inner: &Inner, plan: Plan, view: &RegistryView) -> Result<CommittedPlan, StartPlanError> {
    plan.header().check(&context(inner, view)?)?;
    Ok(commit_plan(plan, &inner.contract, view)?)
}

/// The plan as the arguments of its own start.
fn canonical(plan: &Plan) -> Result<Canonical, StartPlanError> {
    let json = plan.to_json();
    read(json.as_bytes(), ARGS_RECIPE, &Limits::hard_caps())
        .map_err(|_| StartPlanError::Refused(RejectionCode::LimitExceeded))
}

/// Everything that an approval of the whole plan has to bind.
fn binding(
    inner: &Inner,
    view: &RegistryView,
    args: &Canonical,
    root: PlanRoot,
) -> Result<CallBinding, StartPlanError> {
    let taken = inner.approvals.as_ref();
    let settings = taken.ok_or(StartPlanError::Refused(RejectionCode::ApprovalInvalid))?;
    let internal = |_| StartPlanError::Refused(RejectionCode::Internal);
    let call_id = CallId::new(&root.to_string()).map_err(internal)?;
    let tool = ToolId::new(PLAN_TOOL.0, PLAN_TOOL.1).map_err(internal)?;
    let binding = CallBinding::new(call_id, tool, args.digest(), ARGS_RECIPE, inner.principal.clone())
        .with_agent(inner.contract.agent().clone())
        .with_session(inner.contract.session().clone())
        .with_registry_version(view.snapshot().version())
        .with_audience(settings.audience.clone())
        .with_plan(root.digest());
    Ok(match inner.ask.as_ref().map(PinnedAsk::digest) {
        Some(ask) => binding.with_ask(ask),
        None => binding,
    })
}
