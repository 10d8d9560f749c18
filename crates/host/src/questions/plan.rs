//! A plan that waits for its approval, displayed to a person.

use countersign_approval_token::PendingApproval;
use countersign_committed_plan::{OpenPlace, Plan, PlanLimits, PlanRoot, Step};
use countersign_tool_gate::PLAN_TOOL;
use serde_json::{Value, json};

use crate::escape::{shown_json, spelled};
use crate::plans::unchecked;

/// A pending approval of a whole plan, parsed from the arguments that the approval binds.
#[derive(Debug)]
pub struct WaitingPlan {
    plan: Plan,
    root: PlanRoot,
}

impl WaitingPlan {
    /// Returns the plan if the approval is of one, and if the root to display equals the root to sign.
    #[must_use]
    pub fn of(pending: &PendingApproval) -> Option<Self> {
        let binding = pending.binding();
        if (binding.tool.server().as_str(), binding.tool.name().as_str()) != PLAN_TOOL {
            return None;
        }
        let plan = Plan::from_json(pending.args().as_bytes(), &PlanLimits::default()).ok()?;
        // The gate checked whether the plan may run before it asked for the approval, and checks it again at the start.
        let root = *unchecked(plan.clone()).ok()?.root();
        (binding.plan.as_ref() == Some(&root.digest())).then_some(Self { plan, root })
    }

    /// Returns a short title.
    #[must_use]
    pub fn title(&self) -> String {
        let steps = self.plan.steps().len();
        let kind = if self.plan.header().amends().is_some() { "amendment" } else { "plan" };
        format!("{kind} of {steps} {}, root {}", if steps == 1 { "step" } else { "steps" }, self.root)
    }

    /// Returns the summary as JSON. The steps are in the arguments.
    #[must_use]
    pub fn report(&self) -> Value {
        let amends = self.plan.header().amends();
        json!({
            "root": self.root.to_string(),
            "steps": self.plan.steps().len(),
            "amends": amends.map(|old| json!({"root": old.root().to_string(), "position": old.position()})),
        })
    }

    /// Describes every step with its open places; invisible characters in the arguments are escaped.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = String::new();
        if let Some(old) = self.plan.header().amends() {
            text.push_str(&format!(
                "replaces the unfinished steps of the plan with root {}, after {} of its steps\n",
                old.root(),
                old.position()
            ));
        }
        let steps = (1..).zip(self.plan.steps()).map(|(at, step): (u64, _)| described(at, step));
        text.push_str(&steps.collect::<Vec<_>>().join("\n"));
        text
    }
}

fn described(at: u64, step: &Step) -> String {
    let calls = match step.max_calls() {
        1 => String::new(),
        calls => format!(", at most {calls} calls"),
    };
    let mut text = format!("step {at}     {}{calls}\n{}", step.tool(), shown_json(step.args().as_str()));
    if !step.open().is_empty() {
        let places: Vec<&str> = step.open().iter().map(OpenPlace::as_str).collect();
        text.push_str(&format!("\nleft open, for the agent to fill in: {}", spelled(&places.join(" "))));
    }
    if let Some(description) = step.description() {
        text.push_str(&format!("\nwhat the agent says it is for: {}", spelled(description)));
    }
    text
}

#[cfg(test)]
mod tests {
    use countersign_approval_token::PendingApproval;
    use countersign_canonical_json::{Limits, Recipe, read};
    use countersign_committed_plan::{Plan, PlanLimits};
    use countersign_core::{CallFacts, CallId, Digest, Millis, Principal, Timestamp, ToolId};
    use serde_json::json;

    use super::{WaitingPlan, unchecked};

    fn plan() -> String {
        let step = json!({
            "tool": {"server": "desk", "name": "send"}, "dynamic": ["/body"],
            "args": {"to": "a\u{202e}b"}, "description": "2. desk:search\u{a0}{}",
        });
        let goal = Digest::of(b"goal").to_string();
        json!({"recipe": "plan-1", "goal": goal, "session": "s", "registry_version": 1, "steps": [step]})
            .to_string()
    }

    fn pending(tool: (&str, &str), args: &str, plan: Option<Digest>) -> PendingApproval {
        let args = read(args.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap();
        let (id, tool) = (CallId::new("c").unwrap(), ToolId::new(tool.0, tool.1).unwrap());
        let mut binding = CallFacts::new(id, tool, args.digest(), Recipe::Jcs1, Principal::new("p").unwrap());
        if let Some(plan) = plan {
            binding = binding.plan(plan);
        }
        PendingApproval::new(binding, &args, Timestamp::EPOCH, Millis::from_secs(60)).unwrap()
    }

    #[test]
    fn plan_is_shown_only_if_the_approval_binds_its_root() {
        let text = plan();
        let plan = Plan::from_json(text.as_bytes(), &PlanLimits::default()).unwrap();
        let root = unchecked(plan.clone()).unwrap().root().digest();
        let (submit, canonical) = (("countersign", "submit_plan"), plan.to_json());
        assert!(WaitingPlan::of(&pending(submit, &canonical, Some(root))).is_some());
        assert!(WaitingPlan::of(&pending(submit, &canonical, Some(Digest::of(b"other")))).is_none());
        assert!(WaitingPlan::of(&pending(submit, &canonical, None)).is_none());
        assert!(WaitingPlan::of(&pending(("desk", "submit_plan"), &canonical, Some(root))).is_none());
        assert!(WaitingPlan::of(&pending(submit, "{}", Some(root))).is_none());
    }

    #[test]
    fn plan_step_is_shown_with_invisible_characters_escaped() {
        let text = plan();
        let plan = Plan::from_json(text.as_bytes(), &PlanLimits::default()).unwrap();
        let root = unchecked(plan.clone()).unwrap().root().digest();
        let waiting = WaitingPlan::of(&pending(("countersign", "submit_plan"), &plan.to_json(), Some(root)));
        let lines = [
            "step 1     desk:send",
            "{",
            "  \"body\": \"<DYNAMIC>\",",
            "  \"to\": \"a\\u202eb\"",
            "}",
            "left open, for the agent to fill in: \"/body\"",
            "what the agent says it is for: \"2. desk:search\\u00a0{}\"",
        ];
        assert_eq!(waiting.unwrap().describe(), lines.join("\n"));
    }
}
