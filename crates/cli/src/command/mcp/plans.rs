//! How a gateway's session follows plans: the operator's settings, and the plan at the start.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use countersign_committed_plan::{Breaches, OnBreach, Plan, PlanUseError};
use countersign_core::ServerName;
use countersign_mcp::{GatewaySettings, PlanApprovals, read_plan};
use countersign_tool_gate::{StartPlanError, commit_plan};
use serde::Deserialize;

use crate::failure::{Failure, chain};
use crate::files::{TEXT_BYTES, read_file, read_text_file};
use crate::session::PreparedSession;

/// Which calls need a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Rule {
    /// Those to tools whose rule asks for one.
    #[default]
    ByTool,
    /// Every call.
    Always,
}

/// Which plans that a client submits have to be approved as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Approve {
    /// Those with a step that needs an approval, and amendments.
    #[default]
    WhereNeeded,
    /// Every one.
    Whole,
}

/// Response to a call that is not the plan's next one. It is refused either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum Breach {
    /// The first one halts the plan.
    #[default]
    Halt,
    /// The plan's own next call still passes.
    Refuse,
}

/// What the command line says of calls that are not the plan's next one.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct BreachFlags {
    /// What a call does to the plan that is not its next one: `halt` without it. Such a call is refused either way.
    #[arg(long, value_name = "WHAT")]
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
        on_breach(self.on_breach.unwrap_or_default(), self.breaches)
    }
}

fn on_breach(what: Breach, breaches: Option<u32>) -> Result<OnBreach, Failure> {
    match (what, breaches) {
        (Breach::Halt, None) => Ok(OnBreach::Halt),
        (Breach::Halt, Some(_)) => {
            let text =
                "`breaches` counts the calls that a plan outlives: it needs `on_breach` to be `refuse`";
            Err(Failure::new("CONFIG_CONFLICT", text))
        }
        (Breach::Refuse, None) => Ok(OnBreach::Refuse(Breaches::default())),
        (Breach::Refuse, Some(breaches)) => Breaches::new(breaches)
            .map(OnBreach::Refuse)
            .map_err(|error| Failure::new(error.code(), error.to_string())),
    }
}

/// The `[plan]` table of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanPart {
    #[serde(default)]
    rule: Rule,
    file: Option<PathBuf>,
    approval_file: Option<PathBuf>,
    #[serde(default)]
    submit: bool,
    #[serde(default)]
    approve: Approve,
    #[serde(default)]
    on_breach: Breach,
    breaches: Option<u32>,
}

/// What the command line says instead of the configuration.
#[derive(Debug, Args)]
pub(crate) struct PlanFlags {
    /// Which calls need a plan.
    #[arg(long, value_name = "RULE")]
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
    #[arg(long, value_name = "WHICH")]
    plan_approve: Option<Approve>,
    #[command(flatten)]
    breach: BreachFlags,
}

/// Other settings of the configuration that plans depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    pub(crate) has_goal: bool,
    pub(crate) has_approvals: bool,
    pub(crate) names_session: bool,
}

/// The first plan of a session, checked against the session's contract.
#[derive(Debug)]
pub(crate) struct FirstPlan {
    pub(crate) plan: Plan,
    pub(crate) approval: Option<String>,
}

impl PlanPart {
    /// Iterates over all paths in it.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.file, &mut self.approval_file].into_iter().flatten()
    }

    /// Overrides the settings by those of the command line.
    #[must_use]
    pub(crate) fn or(self, flags: &PlanFlags) -> Self {
        Self {
            rule: flags.plan_rule.unwrap_or(self.rule),
            file: flags.plan_file.clone().or(self.file),
            approval_file: flags.plan_approval.clone().or(self.approval_file),
            submit: flags.plan_submit || self.submit,
            approve: flags.plan_approve.unwrap_or(self.approve),
            on_breach: flags.breach.on_breach.unwrap_or(self.on_breach),
            breaches: flags.breach.breaches.or(self.breaches),
        }
    }

    /// Refuses settings that contradict each other.
    pub(crate) fn check(&self, around: &Around) -> Result<(), Failure> {
        let conflict = |text: &str| Err(Failure::new("CONFIG_CONFLICT", text));
        let no_approvals = |text: &str| Err(Failure::new("CONFIG_NO_APPROVALS", text));
        let whole = self.approve == Approve::Whole;
        match self {
            Self { file: None, submit: false, rule: Rule::Always, .. } => {
                conflict("every call needs a plan, and there is none: `plan` needs a `file` or `submit`")
            }
            Self { file: None, submit: false, .. } if whole => {
                conflict("`plan` says what to approve, and lets no plan in: it needs a `file` or `submit`")
            }
            Self { file: None, approval_file: Some(_), .. } => {
                conflict("the approval in `plan` is of a plan, and there is none: it needs a `file`")
            }
            Self { file: Some(_), approval_file: None, .. } if whole => {
                conflict("the plan has to be approved as a whole: `plan` needs an `approval_file`")
            }
            Self { approval_file: Some(_), .. } if !around.names_session => {
                conflict("an approval of a plan binds the session: name it with --session")
            }
            Self { file: None, submit: false, .. } => Ok(()),
            _ if !around.has_goal => {
                let text = "a plan is for a pinned goal: `session` needs a `goal` or a `goal_file`";
                Err(Failure::new("CONFIG_NO_GOAL", text))
            }
            _ if !around.has_approvals && (whole || self.approval_file.is_some()) => {
                no_approvals("the plan is to be approved, and the configuration has no `approval`")
            }
            _ => Ok(()),
        }
    }

    /// Returns the plan's response to calls other than its next one.
    pub(crate) fn on_breach(&self) -> Result<OnBreach, Failure> {
        on_breach(self.on_breach, self.breaches)
    }

    /// Returns the rule: which calls need a plan.
    pub(crate) const fn rule(&self) -> Rule {
        self.rule
    }

    /// Adds the rules for plans that the client submits to the gateway's settings.
    pub(crate) fn settings(&self, settings: GatewaySettings) -> Result<GatewaySettings, Failure> {
        if !self.submit {
            return Ok(settings);
        }
        Ok(settings.with_plans(match self.approve {
            Approve::WhereNeeded => PlanApprovals::WhereNeeded,
            Approve::Whole => PlanApprovals::Always,
        })?)
    }

    /// Reads the first plan and checks it as the gate will. Creates no file.
    pub(crate) fn prepare(
        &self,
        session: &PreparedSession,
        server: &ServerName,
    ) -> Result<Option<FirstPlan>, Failure> {
        let Some(path) = &self.file else {
            return Ok(None);
        };
        let bytes = read_file(path, TEXT_BYTES)?;
        let plan = checked(&bytes, session, server).map_err(|error| failure(&error).about(path.display()))?;
        let approval = match &self.approval_file {
            Some(path) => Some(read_text_file(path)?.trim().to_owned()),
            None => None,
        };
        Ok(Some(FirstPlan { plan, approval }))
    }
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
