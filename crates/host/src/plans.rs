//! The operator's settings for plans: which calls need one, which clients may submit, what a breach does.

use std::path::PathBuf;

use countersign_committed_plan::{
    Breaches, CommitError, CommittedPlan, OnBreach, OpenPlace, Plan, PlanContract, Step,
};
use countersign_core::{Digest, Millis, SessionId, ToolId};
use countersign_pinned_ask::PinnedAsk;
use serde::Deserialize;

use crate::error::HostError;
use crate::time::now;

/// Which calls need a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "two or three cases, each handled everywhere")]
pub enum Rule {
    /// Those to tools whose rule asks for one.
    #[default]
    ByTool,
    /// Every call.
    Always,
}

/// Which plans that a client submits have to be approved as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "two or three cases, each handled everywhere")]
pub enum Approve {
    /// Those with a step that needs an approval, and amendments.
    #[default]
    WhereNeeded,
    /// Every one.
    Whole,
}

/// Response to a call that is not the plan's next one. It is refused either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::exhaustive_enums, reason = "two or three cases, each handled everywhere")]
pub enum Breach {
    /// The first one halts the plan.
    #[default]
    Halt,
    /// The plan's own next call still passes.
    Refuse,
}

/// Returns a plan's response to a call that is not its next one.
///
/// # Errors
/// `CONFIG_CONFLICT` for a number of breaches without [`Breach::Refuse`], and a number that is not allowed.
pub fn on_breach(what: Breach, breaches: Option<u32>) -> Result<OnBreach, HostError> {
    match (what, breaches) {
        (Breach::Halt, None) => Ok(OnBreach::Halt),
        (Breach::Halt, Some(_)) => {
            let text = "`breaches` requires `on_breach` to be `refuse`";
            Err(HostError::new("CONFIG_CONFLICT", text))
        }
        (Breach::Refuse, None) => Ok(OnBreach::Refuse(Breaches::default())),
        (Breach::Refuse, Some(breaches)) => Breaches::new(breaches)
            .map(OnBreach::Refuse)
            .map_err(|error| HostError::new(error.code(), error.to_string())),
    }
}

/// The `[plan]` table of the configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PlanPart {
    /// Which calls need a plan.
    #[serde(default)]
    pub rule: Rule,
    /// The plan to start with.
    pub file: Option<PathBuf>,
    /// Approval of the whole of that plan.
    pub approval_file: Option<PathBuf>,
    /// Whether the client may submit plans.
    #[serde(default)]
    pub submit: bool,
    /// Which submitted plans have to be approved as a whole.
    #[serde(default)]
    pub approve: Approve,
    /// Response to a call that is not the plan's next one.
    #[serde(default)]
    pub on_breach: Breach,
    /// Number of such calls that halt the plan, with [`Breach::Refuse`].
    pub breaches: Option<u32>,
}

/// Other settings of the configuration that plans depend on.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the caller fills in every member")]
pub struct Around {
    /// The session has a goal.
    pub has_goal: bool,
    /// Calls can be approved.
    pub has_approvals: bool,
    /// The operator named the session.
    pub names_session: bool,
}

impl PlanPart {
    /// Iterates over all paths in it.
    pub fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.file, &mut self.approval_file].into_iter().flatten()
    }

    /// Refuses settings that contradict each other.
    ///
    /// # Errors
    /// `CONFIG_CONFLICT`, `CONFIG_NO_GOAL`, `CONFIG_NO_APPROVALS`.
    pub fn check(&self, around: &Around) -> Result<(), HostError> {
        let conflict = |text: &str| Err(HostError::new("CONFIG_CONFLICT", text));
        let no_approvals = |text: &str| Err(HostError::new("CONFIG_NO_APPROVALS", text));
        let whole = self.approve == Approve::Whole;
        match self {
            Self { file: None, submit: false, rule: Rule::Always, .. } => {
                conflict("no plan, and every call needs one: `plan` requires a `file` or `submit`")
            }
            Self { file: None, submit: false, .. } if whole => {
                conflict("no plan to approve: `plan` requires a `file` or `submit`")
            }
            Self { file: None, approval_file: Some(_), .. } => {
                conflict("no plan for `approval_file`: `plan` requires a `file`")
            }
            Self { file: Some(_), approval_file: None, .. } if whole => {
                conflict("approval of the whole plan missing: `plan` requires an `approval_file`")
            }
            Self { approval_file: Some(_), .. } if !around.names_session => {
                conflict("an approval of a plan binds the session: name it with --session")
            }
            Self { file: None, submit: false, .. } => Ok(()),
            _ if !around.has_goal => {
                let text = "no pinned goal for the plan: `session` requires a `goal` or a `goal_file`";
                Err(HostError::new("CONFIG_NO_GOAL", text))
            }
            _ if !around.has_approvals && (whole || self.approval_file.is_some()) => {
                no_approvals("`approval` missing in the configuration: the plan must be approved")
            }
            _ => Ok(()),
        }
    }

    /// Returns the plan's response to calls other than its next one.
    ///
    /// # Errors
    /// Those of [`on_breach`].
    pub fn on_breach(&self) -> Result<OnBreach, HostError> {
        on_breach(self.on_breach, self.breaches)
    }
}

/// Returns the digest that a goal has when it is pinned to a session. It does not depend on how long the pin counts.
///
/// # Errors
/// A goal that cannot be pinned.
pub fn goal_digest(goal: &str, session: &SessionId) -> Result<Digest, HostError> {
    Ok(PinnedAsk::pin(goal, session, Millis::from_secs(1), now()?)?.digest())
}

/// Commits a plan only to build its tree. No contract is checked, and nothing may run by the result.
///
/// # Errors
/// A plan that cannot be committed under any contract.
pub fn unchecked(plan: Plan) -> Result<CommittedPlan, CommitError> {
    plan.commit(&Unchecked)
}

struct Unchecked;

impl PlanContract for Unchecked {
    fn discloses(&self, _: &ToolId) -> bool {
        true
    }

    fn is_data(&self, _: &ToolId, _: &OpenPlace) -> bool {
        true
    }

    fn fits(&self, _: &Step) -> bool {
        true
    }
}
