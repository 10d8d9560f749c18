use std::path::PathBuf;

use clap::Args;
use countersign_committed_plan::{CommittedPlan, Plan, PlanContext};
use countersign_core::{AgentId, Millis, Principal, ServerName, SessionId};
use countersign_tool_gate::StartPlanError;

use super::file::PlanFile;
use crate::failure::Failure;
use crate::files::Source;
use crate::output::reporter;
use countersign_host::config::Config;
use countersign_host::plans::{goal_digest, unchecked};
use countersign_host::random;
use countersign_host::session::PreparedSession;

/// A plan's file, and what steps alone are for.
#[derive(Debug, Args)]
pub(super) struct PlainPlan {
    /// The plan: the whole of it, or steps alone; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: Source,
    /// Steps alone: the session's goal.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    goal: Option<String>,
    /// Steps alone: the session.
    #[arg(long)]
    session: Option<SessionId>,
    /// Steps alone: the version of the registry.
    #[arg(long, value_name = "N")]
    registry_version: Option<u64>,
}

impl PlainPlan {
    /// Reads the plan and builds its tree; also returns the plan's full text. Checks no permissions.
    pub(super) fn commit(&self) -> Result<(CommittedPlan, String), Failure> {
        let plan = self.read()?;
        let whole = plan.to_json();
        Ok((unchecked(plan)?, whole))
    }

    fn read(&self) -> Result<Plan, Failure> {
        let file = PlanFile::read(&self.file)?;
        let context = match (file.context(), &self.goal, &self.session, self.registry_version) {
            (Some(context), None, None, None) => context.clone(),
            (Some(_), ..) => {
                let text = "the plan states its own goal, session and registry version; these options are only valid for \
                            steps alone";
                return Err(Failure::usage(text));
            }
            (None, Some(goal), Some(session), Some(version)) => {
                let goal = goal_digest(goal, session)?;
                PlanContext::new(goal, session.clone(), version)?
            }
            (None, ..) => {
                let text = "the file has only steps: add their context with --goal, --session and \
                            --registry-version";
                return Err(Failure::usage(text));
            }
        };
        file.for_context(context)
    }
}

/// The session that a plan is for, as far as its steps depend on it.
#[derive(Debug, Args)]
pub(super) struct SessionOptions {
    /// The signed registry.
    #[arg(long, value_name = "FILE", requires_all = ["trust_root", "agent"])]
    registry: Option<PathBuf>,
    /// The trust root: the operators' keys whose signatures count.
    #[arg(long, value_name = "FILE", requires = "registry")]
    trust_root: Option<PathBuf>,
    /// The agent that makes the calls.
    #[arg(long, requires = "registry")]
    agent: Option<AgentId>,
    /// The tools that the session may use, as name or server:name; all that the registry lists without it.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "registry")]
    tools: Option<Vec<String>>,
    /// The session's goal.
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, requires = "registry")]
    goal: Option<String>,
    /// Id of the session; the plan's own without it, and a random one where the plan has none.
    #[arg(long)]
    pub(super) session: Option<SessionId>,
    /// How long the session may last; as long as the registry allows without it.
    #[arg(long, requires = "registry")]
    ttl: Option<Millis>,
    /// File with the highest registry version ever accepted: older versions are refused.
    #[arg(long, value_name = "FILE", requires = "registry")]
    state: Option<PathBuf>,
    /// How old the registry's signature may be; 30 days without it.
    #[arg(long, value_name = "SPAN", requires = "registry")]
    max_age: Option<Millis>,
}

impl SessionOptions {
    /// Returns `true` if a registry is given.
    pub(super) const fn has_registry(&self) -> bool {
        self.registry.is_some()
    }

    /// Builds the configuration of a session without approvals and without a record. The session's agent is watched for this
    /// session only.
    pub(super) fn config(&self, session: SessionId, server: Option<ServerName>) -> Result<Config, Failure> {
        let (Some(registry), Some(trust_root), Some(agent)) = (&self.registry, &self.trust_root, &self.agent)
        else {
            return Err(Failure::usage("--registry, --trust-root and --agent are needed"));
        };
        let principal = Principal::new("local").map_err(|error| Failure::usage(error.to_string()))?;
        let (registry, trust_root) = (registry.clone(), trust_root.clone());
        let mut config = Config::new(registry, trust_root, session, agent.clone(), principal);
        config.state.clone_from(&self.state);
        config.max_age = self.max_age.unwrap_or(config.max_age);
        config.ttl = self.ttl;
        config.tools.clone_from(&self.tools);
        config.server = server;
        config.goal.clone_from(&self.goal);
        Ok(config)
    }

    /// Returns `true` if the next run will have the same session id.
    pub(super) fn names_session(&self, file: &PlanFile) -> bool {
        self.session.is_some() || file.session().is_some()
    }

    /// Returns the session's id: the given one, else the plan's own, else a fresh one.
    pub(super) fn session_of(&self, file: &PlanFile) -> Result<SessionId, Failure> {
        match self.session.as_ref().or_else(|| file.session()) {
            Some(session) => Ok(session.clone()),
            None => Ok(random::id("session")?),
        }
    }

    /// Prepares a session for its contract only: it decides no call and creates no file.
    pub(super) fn prepare(&self, file: &PlanFile) -> Result<PreparedSession, Failure> {
        Ok(self.config(self.session_of(file)?, None)?.prepare(&reporter())?)
    }
}

/// Makes the plan for a session. Without a given goal, a whole plan keeps its own goal, unchecked.
pub(crate) fn plan_for(file: PlanFile, session: &PreparedSession) -> Result<Plan, Failure> {
    let context = match (session.plan_context(), file.context()) {
        (Ok(context), _) => context,
        (Err(StartPlanError::NoGoal), Some(own)) => {
            let version = session.registry().view().snapshot().version();
            PlanContext::new(*own.goal(), session.contract().session().clone(), version)?
        }
        (Err(StartPlanError::NoGoal), None) => {
            return Err(Failure::usage("the file has only steps: --goal is required"));
        }
        (Err(error), _) => return Err(Failure::from(error)),
    };
    file.for_context(context)
}
