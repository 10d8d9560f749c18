use clap::Args;
use countersign_canonical_json::{Kind, ValueRef, write_string};
use countersign_committed_plan::{CommittedPlan, DYNAMIC, OpenPlace, Step};
use serde_json::{Value, json};

use super::options::PlainPlan;
use super::tree::TreeNode;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use countersign_host::escape::shown_json;

#[derive(Debug, Args)]
pub(crate) struct PlanShowArgs {
    #[command(flatten)]
    plan: PlainPlan,
}

impl PlanShowArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let (plan, whole) = self.plan.commit()?;
        let tree = TreeNode::of(&plan, &whole)?;
        if out.is_json() {
            out.json(&report(&plan, &tree))?;
        } else {
            out.line(&text(&plan, &tree))?;
        }
        Ok(Exit::Done)
    }
}

fn report(plan: &CommittedPlan, tree: &TreeNode) -> Value {
    let header = plan.header();
    let context = header.context();
    let step = |(index, step): (u64, &Step)| {
        json!({
            "index": index,
            "tool": step.tool(),
            "description": step.description(),
            "max_calls": step.max_calls(),
            "args": step.args().as_str(),
            "fixed": fixed(step).into_iter().map(|(place, _)| place).collect::<Vec<_>>(),
            "open": step.open().iter().map(OpenPlace::as_str).collect::<Vec<_>>(),
        })
    };
    json!({
        "ok": true,
        "checked": false,
        "root": plan.root(),
        "goal": context.goal(),
        "session": context.session(),
        "registry_version": context.registry_version(),
        "amends": header.amends().map(|amends| json!({"root": amends.root(), "position": amends.position()})),
        "steps": (1..).zip(plan.steps()).map(step).collect::<Vec<_>>(),
        "tree": tree,
    })
}

fn text(plan: &CommittedPlan, tree: &TreeNode) -> String {
    let header = plan.header();
    let context = header.context();
    let mut text = format!(
        "root     {}\ngoal     (sha-256 {})\nsession  {}\nregistry {}",
        plan.root(),
        context.goal(),
        context.session(),
        context.registry_version()
    );
    if let Some(amends) = header.amends() {
        text.push_str(&format!("\namends   {} after step {}", amends.root(), amends.position()));
    }
    text.push_str("\nwhether any step is allowed was not looked at here\n\n");
    text.push_str(&tree.draw(&|leaf| match plan.step(leaf) {
        None => "the header".to_owned(),
        Some(step) => format!("step {leaf}: {}", step.tool()),
    }));
    for (index, step) in (1..).zip(plan.steps()) {
        let calls = match step.max_calls() {
            1 => "once".to_owned(),
            most => format!("once to {most} times"),
        };
        text.push_str(&format!("\n\nstep {index}  {}  {calls}", step.tool()));
        if let Some(description) = step.description() {
            text.push_str(&format!("\n  for    {}", quoted(description)));
        }
        for (place, value) in fixed(step) {
            text.push_str(&format!("\n  fixed  {} = {}", quoted(&place), shown_json(&value)));
        }
        for place in step.open() {
            text.push_str(&format!("\n  open   {}", quoted(place.as_str())));
        }
        if step.args().value().is_empty() {
            text.push_str("\n  no arguments");
        }
    }
    text
}

/// Quotes text, with invisible characters escaped.
fn quoted(text: &str) -> String {
    let mut json = String::new();
    write_string(&mut json, text);
    shown_json(&json)
}

/// Lists the fixed arguments: JSON Pointer and canonical text of each.
fn fixed(step: &Step) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(step.args().value(), String::new(), &mut found);
    found
}

/// Collects the fixed values. The recursion depth is that of the arguments, which the reader limits.
fn collect(value: ValueRef<'_>, at: String, found: &mut Vec<(String, String)>) {
    if value.as_str() == Some(DYNAMIC) {
        return;
    }
    let is_leaf = !matches!(value.kind(), Kind::Object | Kind::Array) || value.is_empty();
    if is_leaf {
        if !at.is_empty() {
            found.push((at, value.canonical_text()));
        }
        return;
    }
    for (name, member) in value.members() {
        collect(member, format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")), found);
    }
    for (index, element) in value.elements().enumerate() {
        collect(element, format!("{at}/{index}"), found);
    }
}
