//! The plan that a session follows.

use std::path::PathBuf;

use clap::Args;
use countersign_committed_plan::Plan;
use countersign_core::SessionId;
use countersign_tool_gate::{PlanSettings, ToolGate, commit_plan};

use crate::command::mcp::plans::{BreachFlags, failure};
use crate::command::plan::{PlanFile, plan_for};
use crate::failure::Failure;
use crate::files::{Source, read_text_file};
use crate::output::reporter;
use countersign_host::config::Config;
use countersign_host::session::PreparedSession;

/// The plan that the session starts with.
#[derive(Debug, Args)]
pub(super) struct PlanOptions {
    /// Hold the session to this plan: the whole of it, or steps alone. Its next call passes, and no other.
    #[arg(long = "plan", value_name = "FILE", requires = "goal")]
    file: Option<PathBuf>,
    /// Start the plan with this approval of the whole of it. It binds the session.
    #[arg(long, value_name = "FILE", requires_all = ["file", "approval_key"])]
    plan_approval: Option<PathBuf>,
    #[command(flatten)]
    breach: BreachFlags,
}

impl PlanOptions {
    /// Prepares the session and its first plan, if there is one. Without a `named` session, the plan's own session is
    /// used. Creates no file.
    pub(super) fn prepare(
        &self,
        mut config: Config,
        named: Option<&SessionId>,
    ) -> Result<(PreparedSession, Option<PlanSettings>), Failure> {
        let Some(path) = &self.file else {
            if self.breach.is_given() {
                return Err(Failure::usage("--on-breach and --breaches require --plan"));
            }
            return Ok((config.prepare(&reporter())?, None));
        };
        let file =
            PlanFile::read(&Source::File(path.clone())).map_err(|error| error.about(path.display()))?;
        let approval = self.plan_approval.as_ref().map(|path| read_text_file(path)).transpose()?;
        if let (None, Some(own)) = (named, file.session()) {
            config.session = own.clone();
        }
        config.on_breach = self.breach.on_breach()?;
        let session = config.prepare(&reporter())?;
        let settings = PlanSettings::new(checked(file, &session)?);
        Ok((
            session,
            Some(match approval {
                Some(token) => settings.approval(token.trim()),
                None => settings,
            }),
        ))
    }
}

/// Starts the plan. The gate records the start or the reason for a refusal.
pub(super) fn start(gate: &ToolGate, plan: PlanSettings) -> Result<(), Failure> {
    gate.start_plan(plan).map(drop).map_err(|error| failure(&error))
}

/// Returns the plan if the session may start it.
fn checked(file: PlanFile, session: &PreparedSession) -> Result<Plan, Failure> {
    let plan = plan_for(file, session)?;
    commit_plan(plan.clone(), session.contract(), &session.registry().view())
        .map_err(|error| failure(&error.into()))?;
    Ok(plan)
}
