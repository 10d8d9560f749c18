use std::path::PathBuf;

use clap::Args;
use countersign_committed_plan::{CommittedPlan, Step};
use countersign_core::RunId;
use countersign_registry::{ApprovalRule, RegistryView, SessionContract};
use countersign_tool_gate::{commit_plan, step_approval};
use serde_json::json;

use super::file::PlanFile;
use super::options::{SessionOptions, plan_for};
use countersign_host::inputs::run_keys;

use crate::command::token::DEFAULT_RUN;
use crate::failure::{Exit, Failure};
use crate::files::{Replace, Source, must_be_free, write_file};
use crate::output::Output;

#[derive(Debug, Args)]
pub(crate) struct Commit {
    /// The plan: the whole of it, or steps alone; `-` is standard input.
    file: Source,
    #[command(flatten)]
    session: SessionOptions,
    /// File to write the whole plan to, as it is committed.
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it is there.
    #[arg(long, requires = "out")]
    force: bool,
    /// Seal the root for the session with the run's key of this HMAC key file, for a gate that keeps nothing.
    #[arg(long, value_name = "KEYFILE")]
    seal: Option<PathBuf>,
    /// Run whose key seals.
    #[arg(long, default_value = DEFAULT_RUN)]
    run: RunId,
}

impl Commit {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let replace = Replace::from(self.force);
        if let Some(path) = &self.out {
            must_be_free(path, replace)?;
        }
        let file = PlanFile::read(&self.file)?;
        let session = self.session.prepare(&file)?;
        let plan = plan_for(file, &session)?;
        let whole = plan.to_json();
        let view = session.registry().view();
        let committed = commit_plan(plan, session.contract(), &view)
            .map_err(|error| Failure::from(error).into_refusal())?;
        let seal = self.sealed(&committed)?;
        if let Some(path) = &self.out {
            write_file(path, format!("{whole}\n").as_bytes(), replace)?;
        }
        let context = committed.header().context();
        let (root, version) = (committed.root(), context.registry_version());
        let needing = |rule| needing(committed.steps(), session.contract(), &view, rule);
        let (approval, each_call) = (needing(ApprovalRule::Required), needing(ApprovalRule::EachCall));
        let report = json!({
            "ok": true,
            "root": root,
            "steps": committed.header().steps(),
            "goal": context.goal(),
            "session": context.session(),
            "registry_version": version,
            "agent": session.contract().agent(),
            "approval": approval,
            "approval_each_call": each_call,
            "sealed": seal,
        });
        let mut text = format!(
            "root     {root}\nsteps    {}\nsession  {}\nregistry {version}",
            committed.header().steps(),
            context.session(),
        );
        if !approval.is_empty() {
            text.push_str(&format!("\napproval of the plan, for steps {}", listed(&approval)));
        }
        if !each_call.is_empty() {
            text.push_str(&format!("\napproval of each call, for steps {}", listed(&each_call)));
        }
        if let Some(seal) = &seal {
            text.push_str(&format!("\nsealed   {seal}"));
        }
        out.result(&report, &text)?;
        Ok(Exit::Done)
    }

    fn sealed(&self, plan: &CommittedPlan) -> Result<Option<String>, Failure> {
        let Some(path) = &self.seal else {
            return Ok(None);
        };
        let keys = run_keys(path, &self.run)?;
        let (_, key) = keys.active();
        let seal = plan.root().seal(plan.header().context().session(), key);
        seal.map(Some).map_err(Failure::from)
    }
}

/// Returns the steps whose calls need this approval.
pub(super) fn needing(
    steps: &[Step],
    contract: &SessionContract,
    view: &RegistryView,
    rule: ApprovalRule,
) -> Vec<u64> {
    let needing = (1..).zip(steps).filter(|(_, step)| {
        let rules = contract.disclosed(view, step.tool());
        rules.is_some_and(|rules| step_approval(rules, step) == rule)
    });
    needing.map(|(number, _)| number).collect()
}

fn listed(steps: &[u64]) -> String {
    steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
