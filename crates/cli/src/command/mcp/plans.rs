//! The plan options of verbs, and the plan at the start of a gateway's session.

use std::path::PathBuf;

use clap::Args;
use countersign_committed_plan::{OnBreach, Plan, PlanUseError};
use countersign_core::ServerName;
use countersign_host::files::{TEXT_BYTES, read_file, read_text_file};
use countersign_host::plans::{Approve, Breach, PlanPart, Rule, on_breach};
use countersign_host::server_part::Servers;
use countersign_host::session::PreparedSession;
use countersign_mcp::read_plan;
use countersign_tool_gate::{StartPlanError, commit_plan};

use crate::failure::{Failure, chain};
use crate::record_args::{Word, words};

const RULES: &[Word<Rule>] = &[
    ("by_tool", "Those to tools whose rule asks for one", Rule::ByTool),
    ("always", "Every call", Rule::Always),
];

const APPROVALS: &[Word<Approve>] = &[
    ("where_needed", "Those with a step that needs an approval, and amendments", Approve::WhereNeeded),
    ("whole", "Every one", Approve::Whole),
];

const BREACHES: &[Word<Breach>] = &[
    ("halt", "The first one halts the plan", Breach::Halt),
    ("refuse", "The plan's own next call still passes", Breach::Refuse),
];

/// What the command line says of calls that are not the plan's next one.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct BreachFlags {
    /// Effect on the plan of a call that is not its next one; without it, `halt`. Such a call is refused either way.
    #[arg(long, value_name = "WHAT", value_parser = words(BREACHES))]
    on_breach: Option<Breach>,
    /// With `refuse`: how many such calls halt the plan; 8 without it.
    #[arg(long, value_name = "N")]
    breaches: Option<u32>,
}

impl BreachFlags {
    /// Returns `true` if any of the options is given.
    pub(crate) const fn is_given(self) -> bool {
        self.on_breach.is_some() || self.breaches.is_some()
    }

    /// Returns the plan's response to breaches.
    pub(crate) fn on_breach(self) -> Result<OnBreach, Failure> {
        Ok(on_breach(self.on_breach.unwrap_or_default(), self.breaches)?)
    }
}

/// What the command line says instead of the configuration.
#[derive(Debug, Args)]
pub(crate) struct PlanFlags {
    /// Which calls need a plan.
    #[arg(long, value_name = "RULE", value_parser = words(RULES))]
    plan_rule: Option<Rule>,
    /// Start with this plan.
    #[arg(long, value_name = "FILE")]
    plan_file: Option<PathBuf>,
    /// Start the plan with this approval of the whole of it. It binds the session: name it with --session.
    #[arg(long, value_name = "FILE")]
    plan_approval: Option<PathBuf>,
    /// Let the client submit plans.
    #[arg(long)]
    plan_submit: bool,
    /// Which of those have to be approved as a whole.
    #[arg(long, value_name = "WHICH", value_parser = words(APPROVALS))]
    plan_approve: Option<Approve>,
    #[command(flatten)]
    breach: BreachFlags,
}

impl PlanFlags {
    /// Overrides the configuration's settings.
    pub(super) fn override_settings(&self, plans: &mut PlanPart) {
        plans.rule = self.plan_rule.unwrap_or(plans.rule);
        plans.file = self.plan_file.clone().or_else(|| plans.file.take());
        plans.approval_file = self.plan_approval.clone().or_else(|| plans.approval_file.take());
        plans.submit |= self.plan_submit;
        plans.approve = self.plan_approve.unwrap_or(plans.approve);
        plans.on_breach = self.breach.on_breach.unwrap_or(plans.on_breach);
        plans.breaches = self.breach.breaches.or(plans.breaches);
    }
}

/// The first plan of a session, checked against the session's contract.
#[derive(Debug)]
pub(super) struct FirstPlan {
    pub(super) plan: Plan,
    pub(super) approval: Option<String>,
}

/// Reads the first plan and checks it as the gate will. Creates no file.
pub(super) fn first_plan(
    plans: &PlanPart,
    session: &PreparedSession,
    servers: &Servers,
) -> Result<Option<FirstPlan>, Failure> {
    let Some(path) = &plans.file else {
        return Ok(None);
    };
    let server = &servers.one()?.name;
    let bytes = read_file(path, TEXT_BYTES)?;
    let plan = checked(&bytes, session, server).map_err(|error| failure(&error).about(path.display()))?;
    let approval = match &plans.approval_file {
        Some(path) => Some(read_text_file(path)?.trim().to_owned()),
        None => None,
    };
    Ok(Some(FirstPlan { plan, approval }))
}

/// Returns the plan if the session may start it.
fn checked(bytes: &[u8], session: &PreparedSession, server: &ServerName) -> Result<Plan, StartPlanError> {
    let context = session.plan_context()?;
    let plan = read_plan(bytes, server, context.clone())?;
    plan.header().check(&context)?;
    if plan.header().amends().is_some() {
        return Err(PlanUseError::Link.into());
    }
    commit_plan(plan.clone(), session.contract(), &session.registry().view())?;
    Ok(plan)
}

/// Maps an error to a failure: a malformed plan is an error (exit 1), a plan that the session may not start is refused
/// (exit 3).
pub(crate) fn failure(error: &StartPlanError) -> Failure {
    let text = chain(error);
    if matches!(error, StartPlanError::Plan(_)) {
        Failure::new(error.code(), text)
    } else {
        Failure::refused(error.code(), text)
    }
}
