use countersign_canonical_json::{Kind, Limits, Recipe, ValueRef, read};
use countersign_committed_plan::{Plan, PlanContext, PlanError, PlanLimits, Step};
use countersign_core::SessionId;
use serde_json::json;

use crate::failure::Failure;
use crate::files::Source;

/// Content of a plan file. Only the form is checked.
#[derive(Debug)]
pub(crate) enum PlanFile {
    /// A plan with its context, and whether its text is the committed text.
    Whole(Plan, Spelling),
    /// Steps without a context.
    Steps(Vec<Step>),
}

/// Spelling of a whole plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// Its canonical JSON is the text that is committed.
    AsCommitted,
    /// Equivalent, but written in another of the permitted ways.
    Other,
}

impl PlanFile {
    /// Reads a plan file strictly, in either form.
    pub(crate) fn read(from: &Source) -> Result<Self, Failure> {
        Ok(Self::parse(&Self::read_bytes(from)?)?)
    }

    /// Reads the bytes of a plan file.
    pub(super) fn read_bytes(from: &Source) -> Result<Vec<u8>, Failure> {
        // One byte more than the reader accepts, so that the reader refuses oversized input with its own code.
        let cap = u64::try_from(PlanLimits::default().max_bytes()).unwrap_or(u64::MAX).saturating_add(1);
        from.read_prefix(cap)
    }

    /// Parses a plan file strictly, in either form.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, PlanError> {
        let limits = &PlanLimits::default();
        // Determines the form. Input that cannot be read here is left for the reader of whole plans to refuse.
        let Ok(json) = read(bytes, Recipe::Jcs1, &Limits::hard_caps()) else {
            return Ok(Self::Whole(Plan::from_json(bytes, limits)?, Spelling::Other));
        };
        match list_of(json.value()).filter(|_| bytes.len() <= limits.max_bytes()) {
            Some(list) => Step::list_from_json(spelled_out(list).as_bytes(), limits).map(Self::Steps),
            None => {
                let plan = Plan::from_json(bytes, limits)?;
                let is_same = plan.to_json() == json.as_str();
                Ok(Self::Whole(plan, if is_same { Spelling::AsCommitted } else { Spelling::Other }))
            }
        }
    }

    /// Returns the steps.
    pub(super) fn steps(&self) -> &[Step] {
        match self {
            Self::Whole(plan, _) => plan.steps(),
            Self::Steps(steps) => steps,
        }
    }

    /// Returns `true` if the file's canonical JSON is the text that an approval of the whole plan binds as arguments.
    pub(super) const fn is_as_committed(&self) -> bool {
        matches!(self, Self::Whole(_, Spelling::AsCommitted))
    }

    /// Returns the plan's own context.
    pub(super) fn context(&self) -> Option<&PlanContext> {
        match self {
            Self::Whole(plan, _) => Some(plan.header().context()),
            Self::Steps(_) => None,
        }
    }

    /// Returns the session in the plan's own context.
    pub(crate) fn session(&self) -> Option<&SessionId> {
        self.context().map(PlanContext::session)
    }

    /// Makes the plan for a session, a goal and a registry, or checks that a whole plan is for them.
    pub(super) fn for_context(self, context: PlanContext) -> Result<Plan, Failure> {
        match self {
            Self::Whole(plan, _) => {
                plan.header().check(&context).map_err(|error| Failure::from(error).into_refusal())?;
                Ok(plan)
            }
            Self::Steps(steps) => Ok(Plan::new(context, steps)?),
        }
    }
}

/// Returns the list of steps if the value is one, or an object with `steps` as its only member.
fn list_of(value: ValueRef<'_>) -> Option<ValueRef<'_>> {
    let list = if value.kind() == Kind::Object && value.len() == 1 { value.get("steps")? } else { value };
    Some(list).filter(|list| list.kind() == Kind::Array)
}

/// Rewrites each tool `server:name` in the list as an object. Malformed steps are left for the reader to refuse.
fn spelled_out(list: ValueRef<'_>) -> String {
    let step = |step: ValueRef<'_>| {
        if step.kind() != Kind::Object {
            return step.canonical_text();
        }
        let members = step.members().map(|(name, value)| {
            let tool = value.as_str().filter(|_| name == "tool").and_then(|tool| tool.split_once(':'));
            let value = tool.map_or_else(
                || value.canonical_text(),
                |(server, name)| json!({"server": server, "name": name}).to_string(),
            );
            format!("{}:{value}", json!(name))
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    format!("[{}]", list.elements().map(step).collect::<Vec<_>>().join(","))
}
