use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use countersign_core::Timestamp;
use countersign_registry::ApprovalRule;
use serde_json::{Value, json};

use super::read::{UnverifiedRegistry, read_either};
use crate::failure::{Exit, Failure, one_line};
use crate::output::Output;
use countersign_host::escape::{shown_id, shown_line};

#[derive(Debug, Args)]
pub(crate) struct RegistryShowArgs {
    /// A draft or a signed registry.
    file: PathBuf,
}

impl RegistryShowArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let seen = read_either(&self.file)?;
        let report = json!({
            "ok": true,
            "verified": false,
            "signed": seen.key_ids.is_some(),
            "key_ids": seen.key_ids,
            "registry": seen.json,
        });
        out.result(&report, &text(&seen))?;
        Ok(Exit::Done)
    }
}

fn text(seen: &UnverifiedRegistry) -> String {
    let draft = &seen.draft;
    let mut text = format!("registry version {}", draft.version());
    match &seen.key_ids {
        None => text.push_str(", a draft"),
        Some(ids) => {
            let ids: Vec<_> = ids.iter().map(|id| one_line(id)).collect();
            let _ = write!(text, ", says it is signed by {}; not verified here", ids.join(", "));
        }
    }
    for (label, name) in [("issued ", "issued"), ("expires", "expires")] {
        let millis = seen.json.get(name).and_then(Value::as_u64);
        if let Some(time) = millis.and_then(|millis| Timestamp::from_millis(millis).ok()) {
            let _ = write!(text, "\n{label} {time}");
        }
    }
    for agent in draft.agents() {
        let revoked = if draft.revoked().agents().contains(agent.agent()) { ", REVOKED" } else { "" };
        let _ = write!(
            text,
            "\nagent {} (version {}, by {}, sessions of up to {}{revoked})",
            agent.agent(),
            agent.version(),
            agent.registered_by(),
            agent.max_session()
        );
        for tool in agent.tools() {
            let _ = write!(text, "\n  {tool}");
        }
    }
    for tool in draft.tools() {
        let mut needs = Vec::new();
        match tool.approval() {
            ApprovalRule::Required => needs.push("an approval"),
            ApprovalRule::EachCall => needs.push("an approval of each call"),
            ApprovalRule::NotRequired | _ => {}
        }
        if tool.ask().is_required() {
            needs.push("the goal restated");
        }
        if tool.evidence().is_required() {
            needs.push("evidence");
        }
        if tool.plan().is_required() {
            needs.push("a plan");
        }
        let needs = if needs.is_empty() { "nothing more".to_owned() } else { needs.join(", ") };
        let impact = json!(tool.impact());
        let _ = write!(
            text,
            "\ntool {} ({}): needs {needs}; {} constraints{}",
            tool.tool(),
            impact.as_str().unwrap_or("?"),
            tool.constraints().len(),
            if tool.definition().is_some() { "; definition pinned" } else { "" }
        );
        if let Some(approvers) = tool.approvers() {
            let names: Vec<_> = approvers.names().iter().map(|name| shown_id(name.as_str())).collect();
            let _ = write!(text, "\n  {} of {} approve", approvers.needed(), names.join(", "));
        }
        for branch in tool.approval_terms().unless() {
            let _ = write!(text, "\n  no approval if {}", shown_line(&branch.to_string()));
        }
        for member in ["title", "description", "annotations"] {
            if let Some(value) = tool.as_listed().and_then(|tool| tool.get(member)) {
                let _ = write!(text, "\n  {member} {}", shown_line(&value.to_string()));
            }
        }
    }
    for server in draft.servers() {
        let _ = write!(text, "\nserver {}", server.server());
        let instructions = server.instructions().map(|text| json!(text));
        for (label, value) in [("info", server.info()), ("instructions", instructions.as_ref())] {
            if let Some(value) = value {
                let _ = write!(text, "\n  {label} {}", shown_line(&value.to_string()));
            }
        }
    }
    let revoked = draft.revoked();
    for agent in revoked.agents() {
        let _ = write!(text, "\nrevoked agent {agent}");
    }
    for key in revoked.keys() {
        let _ = write!(text, "\nrevoked key {key}");
    }
    for snapshot in revoked.snapshots() {
        let _ = write!(text, "\nrevoked registry {snapshot}");
    }
    text
}
