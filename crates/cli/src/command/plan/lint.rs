use clap::Args;
use countersign_committed_plan::{CommitError, OpenPlace, Plan, PlanContext, Step};
use countersign_core::Digest;
use countersign_registry::ArgPlace;
use countersign_tool_gate::commit_plan;
use serde::Serialize;
use serde_json::json;

use super::file::PlanFile;
use super::options::{SessionOptions, plan_for};
use crate::failure::{Exit, Failure, one_line};
use crate::files::Source;
use crate::output::{Output, counted};
use countersign_host::session::PreparedSession;

#[derive(Debug, Args)]
pub(crate) struct PlanLintArgs {
    /// The plan: the whole of it, or steps alone; `-` is standard input.
    file: Source,
    #[command(flatten)]
    session: SessionOptions,
}

/// One step that the contract does not allow.
#[derive(Debug, Serialize)]
struct DisallowedStep {
    step: u64,
    tool: String,
    code: &'static str,
    message: String,
}

impl PlanLintArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let file = PlanFile::parse(&PlanFile::read_bytes(&self.file)?)
            .map_err(|error| Failure::from(error).into_refusal())?;
        let steps = file.steps().to_vec();
        let count = counted(steps.len() as u64, "step");
        if !self.session.has_registry() {
            let report = json!({"ok": true, "steps": steps.len(), "checked": false, "findings": []});
            let text = format!("{count}; without a registry, only the form was looked at");
            out.result(&report, &text)?;
            return Ok(Exit::Done);
        }
        let session = self.session.prepare(&file)?;
        if file.context().is_some() {
            plan_for(file, &session)?;
        }
        let findings = findings(&steps, &session)?;
        let (agent, version) = (session.contract().agent(), session.registry().view().snapshot().version());
        let report = json!({
            "ok": findings.is_empty(), "steps": steps.len(), "checked": true, "agent": agent,
            "registry_version": version, "findings": findings,
        });
        let lines = findings.iter().map(|found| {
            format!("step {} {} {}: {}", found.step, found.tool, found.code, one_line(&found.message))
        });
        let text = if findings.is_empty() {
            format!("{count}, allowed to {agent} under registry {version}")
        } else {
            lines.collect::<Vec<_>>().join("\n")
        };
        out.result(&report, &text)?;
        Ok(if findings.is_empty() { Exit::Done } else { Exit::Refused })
    }
}

/// Finds the steps that the session's contract does not allow. Each step is committed as a plan of its own.
fn findings(steps: &[Step], session: &PreparedSession) -> Result<Vec<DisallowedStep>, Failure> {
    let view = session.registry().view();
    // The result does not depend on the goal.
    let context =
        PlanContext::new(Digest::of(b""), session.contract().session().clone(), view.snapshot().version());
    let context = context?;
    let mut findings = Vec::new();
    for (number, step) in (1..).zip(steps) {
        let alone = Plan::new(context.clone(), vec![step.clone()]);
        let alone = alone?;
        if let Err(error) = commit_plan(alone, session.contract(), &view) {
            let (tool, message) = (step.tool().to_string(), message(&error, step, session));
            findings.push(DisallowedStep { step: number, tool, code: error.code(), message });
        }
    }
    Ok(findings)
}

/// Describes the error with the affected places, but without values.
fn message(error: &CommitError, step: &Step, session: &PreparedSession) -> String {
    let places: Vec<_> = step.open().iter().map(OpenPlace::as_str).collect();
    match error {
        CommitError::Undisclosed { .. } => "the tool is not disclosed to the session".to_owned(),
        CommitError::ControlOpen { .. } => {
            format!("an argument that is not data is left open, of {}", places.join(", "))
        }
        CommitError::Args { .. } | _ => {
            let view = session.registry().view();
            let places: Option<Vec<_>> = places.iter().map(|place| ArgPlace::new(place).ok()).collect();
            let rules = session.contract().disclosed(&view, step.tool()).zip(places);
            let misfit = rules.and_then(|(rules, open)| rules.check_planned_args(step.args(), &open).err());
            misfit.map_or_else(|| error.to_string(), |misfit| misfit.to_string())
        }
    }
}
