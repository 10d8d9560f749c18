use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use countersign_core::Approvers;
use countersign_registry::{ApprovalBranch, ApprovalChange, ApprovalTerms};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use super::read::{UnverifiedRegistry, read_either};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use countersign_host::escape::shown_line;

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// The registry as it is.
    old: PathBuf,
    /// The registry as it would be.
    new: PathBuf,
}

/// One addition, removal or change.
#[derive(Debug, Serialize)]
struct ChangedEntry {
    /// `added`, `removed` or `changed`.
    change: &'static str,
    /// `agent`, `tool`, `server`, `revoked agent`, `revoked key` or `revoked registry`.
    what: &'static str,
    name: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    members: BTreeMap<String, OldNew>,
}

#[derive(Debug, Serialize)]
struct OldNew {
    old: Value,
    new: Value,
    /// Effect of a changed approval rule, or of changed approvers.
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct DiffReport {
    ok: bool,
    old_version: u64,
    new_version: u64,
    changes: Vec<ChangedEntry>,
}

impl Diff {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let (old, new) = (read_either(&self.old)?, read_either(&self.new)?);
        let report = DiffReport {
            ok: true,
            old_version: old.draft.version(),
            new_version: new.draft.version(),
            changes: changes(&old, &new)?,
        };
        if out.is_json() {
            out.json(&report)?;
        } else {
            out.line(&text(&report))?;
        }
        Ok(Exit::Done)
    }
}

type EntryMap = BTreeMap<(&'static str, String), Value>;

/// Lists the content of a registry by kind and name. It is taken from the draft's own text, so that an omitted value
/// equals its explicit default.
fn entries(seen: &UnverifiedRegistry) -> Result<EntryMap, Failure> {
    let text = seen.draft.to_json()?;
    let json: Value =
        serde_json::from_str(&text).map_err(|_| crate::output::internal("a draft is not JSON"))?;
    let list = |pointer: &str| json.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let agents = list("/agents").map(|agent| (("agent", text(agent, "agent")), agent.clone()));
    let tools = list("/tools")
        .map(|tool| (("tool", format!("{}:{}", text(tool, "server"), text(tool, "name"))), tool.clone()));
    let servers = list("/servers").map(|server| (("server", text(server, "server")), server.clone()));
    let revoked = [("revoked agent", "agents"), ("revoked key", "keys"), ("revoked registry", "snapshots")];
    let revoked = revoked.into_iter().flat_map(|(what, member)| {
        let names: Vec<_> = list(&format!("/revoked/{member}")).filter_map(Value::as_str).collect();
        names.into_iter().map(move |name| ((what, name.to_owned()), Value::Null)).collect::<Vec<_>>()
    });
    Ok(agents.chain(tools).chain(servers).chain(revoked).collect())
}

fn changes(old: &UnverifiedRegistry, new: &UnverifiedRegistry) -> Result<Vec<ChangedEntry>, Failure> {
    let (old, new) = (entries(old)?, entries(new)?);
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).cloned().collect();
    let change = |key: (&'static str, String)| {
        let (change, members) = match (old.get(&key), new.get(&key)) {
            (None, Some(new)) => ("added", shown_members(new)),
            (None, None) => ("added", BTreeMap::new()),
            (_, None) => ("removed", BTreeMap::new()),
            (Some(old), Some(new)) if old == new => return None,
            (Some(old), Some(new)) => ("changed", members(old, new)),
        };
        Some(ChangedEntry { change, what: key.0, name: key.1, members })
    };
    Ok(keys.into_iter().filter_map(change).collect())
}

/// Returns the members of an added entry that a model reads: its name does not show them.
fn shown_members(new: &Value) -> BTreeMap<String, OldNew> {
    let mut shown = members(&Value::Null, new);
    shown.retain(|name, _| matches!(name.as_str(), "as_listed" | "info" | "instructions"));
    shown
}

fn members(old: &Value, new: &Value) -> BTreeMap<String, OldNew> {
    let names = [old, new].into_iter().filter_map(Value::as_object).flat_map(serde_json::Map::keys);
    names
        .filter(|name| old.get(name) != new.get(name))
        .map(|name| {
            let side = |value: &Value| value.get(name).cloned().unwrap_or(Value::Null);
            let (old, new) = (side(old), side(new));
            let effect = match name.as_str() {
                "approval" => effect(&old, &new),
                "approvers" => approvers_effect(&old, &new),
                _ => None,
            };
            (name.clone(), OldNew { old, new, effect })
        })
        .collect()
}

/// Returns whether a changed approval rule lets calls through with less.
fn effect(old: &Value, new: &Value) -> Option<&'static str> {
    let (old, new) = (ApprovalTerms::deserialize(old).ok()?, ApprovalTerms::deserialize(new).ok()?);
    Some(match old.change_to(&new) {
        ApprovalChange::None => "changes no call",
        ApprovalChange::Loosens => "loosens",
        ApprovalChange::Tightens => "tightens",
        ApprovalChange::Mixed | _ => "may loosen and tighten",
    })
}

/// Returns whether changed approvers let calls through with less: fewer of them, or others. No approvers means one approval
/// of anyone.
fn approvers_effect(old: &Value, new: &Value) -> Option<&'static str> {
    let read =
        |side: &Value| if side.is_null() { Some(None) } else { Approvers::deserialize(side).ok().map(Some) };
    let covers = |strict: &Option<Approvers>, loose: &Option<Approvers>| match (strict, loose) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(strict), Some(loose)) => {
            loose.needed() <= strict.needed() && strict.names().iter().all(|name| loose.lists(name))
        }
    };
    let (old, new) = (read(old)?, read(new)?);
    Some(match (covers(&old, &new), covers(&new, &old)) {
        (true, true) => "changes no call",
        (true, false) => "loosens",
        (false, true) => "tightens",
        (false, false) => "may loosen and tighten",
    })
}

/// Returns a changed approval rule: its effect, and one line per branch that comes or goes.
fn approval_lines(sides: &OldNew) -> String {
    let terms = |side: &Value| ApprovalTerms::deserialize(side).ok();
    let rule = |side: &Value| side.get("rule").unwrap_or(side).to_string();
    let (old, new, effect) = (rule(&sides.old), rule(&sides.new), sides.effect.unwrap_or_default());
    let mut text = format!("\n    approval: {old} -> {new} ({effect})");
    let branches = |side| terms(side).map_or_else(Vec::new, |terms| terms.unless().to_vec());
    let (old, new) = (branches(&sides.old), branches(&sides.new));
    let mut add = |sign: char, these: &[ApprovalBranch], others: &[ApprovalBranch]| {
        for branch in these.iter().filter(|branch| !others.contains(branch)) {
            text.push_str(&format!("\n      {sign} no approval if {}", shown_line(&branch.to_string())));
        }
    };
    add('-', &old, &new);
    add('+', &new, &old);
    text
}

/// Returns one line per member; for `as_listed`, one line per part that a model reads.
fn lines<'a>(name: &'a str, sides: &'a OldNew) -> Vec<(&'a str, &'a Value, &'a Value)> {
    if name != "as_listed" {
        return vec![(name, &sides.old, &sides.new)];
    }
    let part = |name| {
        let side = |value: &'a Value| value.get(name).unwrap_or(&Value::Null);
        (name, side(&sides.old), side(&sides.new))
    };
    let parts = ["title", "description", "annotations", "inputSchema", "outputSchema"].map(part);
    parts.into_iter().filter(|(_, old, new)| old != new).collect()
}

fn text(report: &DiffReport) -> String {
    let mut text = format!("version {} -> {}", report.old_version, report.new_version);
    for change in &report.changes {
        let sign = match change.change {
            "added" => '+',
            "removed" => '-',
            _ => '~',
        };
        text.push_str(&format!("\n{sign} {} {}", change.what, change.name));
        for (name, sides) in &change.members {
            if name == "approval" && sides.effect.is_some() {
                text.push_str(&approval_lines(sides));
                continue;
            }
            let effect = sides.effect.map(|effect| format!(" ({effect})")).unwrap_or_default();
            for (name, old, new) in lines(name, sides) {
                let (old, new) = (shown_line(&old.to_string()), shown_line(&new.to_string()));
                text.push_str(&format!("\n    {name}: {old} -> {new}{effect}"));
            }
        }
    }
    if report.changes.is_empty() {
        text.push_str("\nno other change");
    }
    text
}
