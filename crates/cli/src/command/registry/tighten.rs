mod seen;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use countersign_audit_log::{CallRecord, Record, RecordedValues, Verdict};
use countersign_host::entries::Entry;
use countersign_registry::Constraint;
use serde::Serialize;
use serde_json::{Value, json};

use self::seen::SeenValues;
use super::read::{parts, read_either};
use crate::command::audit::{KeySource, unverified, verified};
use crate::failure::{Exit, Failure, one_line};
use crate::files::{must_be_free, write_file};
use crate::output::{Output, internal, note};

/// Code of a call outside of a tool's constraints, which observe mode overlooks.
const OUTSIDE: &str = "ARGS_CONSTRAINT";
/// Deepest place in arguments that were recorded whole.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct Tighten {
    /// The log's folder. Where several logs lie in it, all are read.
    folder: PathBuf,
    /// The registry to tighten, signed or a draft.
    #[arg(long, value_name = "FILE")]
    registry: PathBuf,
    /// Where the draft goes.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Replace that file.
    #[arg(long)]
    force: bool,
    /// The log's public key, `origin+id+key`, or a file that holds it. Without it, nothing is verified.
    #[arg(long, value_name = "KEY")]
    key: Option<KeySource>,
    /// A checkpoint of the log that was kept elsewhere: the log must extend it. May be given several times.
    #[arg(long, value_name = "FILE", requires = "key")]
    checkpoint: Vec<PathBuf>,
}

/// Accepted calls of one tool.
#[derive(Debug, Default)]
struct AcceptedCalls {
    calls: u64,
    /// Calls that only observe mode let through against a constraint. No rule is drafted from them.
    outside: u64,
    args: BTreeMap<String, SeenValues>,
}

/// What the record says about each tool, and the tools that each agent used.
#[derive(Debug, Default)]
struct RecordedUse {
    tools: BTreeMap<String, AcceptedCalls>,
    agents: BTreeSet<(String, String)>,
}

/// A drafted rule with its evidence.
#[derive(Debug, Serialize)]
struct DraftedRule {
    tool: String,
    rule: Constraint,
    calls: u64,
    first_entry: u64,
    last_entry: u64,
}

/// What the draft has less or more than the registry.
#[derive(Debug, Default, Serialize)]
struct Tightened {
    rules: Vec<DraftedRule>,
    /// Tools that an agent loses, as `agent tool`.
    unused: Vec<String>,
    /// Agents without an accepted call: they stay as they are.
    idle: Vec<String>,
    /// Calls against a constraint, by tool.
    outside: BTreeMap<String, u64>,
}

impl Tighten {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        must_be_free(&self.out, self.force.into())?;
        let usage = self.usage()?;
        if usage.tools.is_empty() {
            return Err(Failure::new("NO_CALLS_ON_RECORD", "no accepted call is recorded")
                .about(self.folder.display()));
        }
        let registry = read_either(&self.registry)?;
        let mut draft = registry.json;
        if let Some(members) = draft.as_object_mut() {
            members.remove("issued");
            members.remove("expires");
            let next = registry.draft.version().saturating_add(1);
            members.insert("version".to_owned(), json!(next));
        }
        let mut tightened = Tightened::default();
        drop_unused(&mut draft, &usage, &mut tightened);
        add_rules(&mut draft, &usage, &mut tightened)?;
        let text = serde_json::to_string_pretty(&draft).map_err(|_| internal("a draft is not JSON"))?;
        parts(text.as_bytes())?;
        write_file(&self.out, format!("{text}\n").as_bytes(), self.force.into())?;
        if self.key.is_none() {
            note("note: log not verified; give its public key with --key");
        }
        report(out, &tightened)?;
        Ok(Exit::Done)
    }

    /// Reads the accepted calls. With a key, they are known to be verified only after the last one.
    fn usage(&self) -> Result<RecordedUse, Failure> {
        let entries = match &self.key {
            Some(key) => verified(&self.folder, &key.read()?, &self.checkpoint)?,
            None => unverified(&self.folder)?,
        };
        let mut usage = RecordedUse::default();
        for read in entries {
            let Entry { seq, record, .. } = read?;
            if let Record::Decision(call) = &record
                && call.verdict == Verdict::Accept
                && !call.about_plan
            {
                usage.add(seq, call);
            }
        }
        Ok(usage)
    }
}

impl RecordedUse {
    fn add(&mut self, entry: u64, call: &CallRecord) {
        let tool = format!("{}:{}", call.tool.server.as_str(), call.tool.name.as_str());
        self.agents.insert((call.agent.as_str().to_owned(), tool.clone()));
        let used = self.tools.entry(tool).or_default();
        used.calls = used.calls.saturating_add(1);
        if call.observed.iter().flatten().any(|code| code.as_str() == OUTSIDE) {
            used.outside = used.outside.saturating_add(1);
        } else {
            used.add_values(entry, &call.values);
        }
    }
}

impl AcceptedCalls {
    fn add_values(&mut self, entry: u64, values: &RecordedValues) {
        for value in values {
            let Some(pointer) = value.pointer.unescape() else { continue };
            let json = value.value.unescape().and_then(|text| serde_json::from_str(&text).ok());
            match json {
                Some(json) => self.add_value(entry, &pointer, &json, 0),
                None => self.args.entry(pointer).or_default().add_cut(entry),
            }
        }
    }

    /// Counts a value, or each value in it.
    fn add_value(&mut self, entry: u64, pointer: &str, value: &Value, depth: usize) {
        if let (Value::Object(members), true) = (value, depth < MAX_DEPTH) {
            for (name, value) in members {
                let below = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                self.add_value(entry, &below, value, depth.saturating_add(1));
            }
            return;
        }
        self.args.entry(pointer.to_owned()).or_default().add(entry, value);
    }
}

/// Takes from each agent the tools that it did not use, and from the draft those that no agent has.
fn drop_unused(draft: &mut Value, usage: &RecordedUse, tightened: &mut Tightened) {
    let name = |value: &Value, member: &str| {
        value.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let tool_name = |tool: &Value| format!("{}:{}", name(tool, "server"), name(tool, "name"));
    let mut kept = BTreeSet::new();
    for agent in draft.get_mut("agents").and_then(Value::as_array_mut).into_iter().flatten() {
        let id = name(agent, "agent");
        let is_idle = !usage.agents.iter().any(|(user, _)| *user == id);
        let Some(tools) = agent.get_mut("tools").and_then(Value::as_array_mut) else { continue };
        if is_idle {
            tightened.idle.push(id);
        } else {
            tools.retain(|tool| {
                let tool = tool_name(tool);
                let is_used = usage.agents.contains(&(id.clone(), tool.clone()));
                if !is_used {
                    tightened.unused.push(format!("{id} {tool}"));
                }
                is_used
            });
        }
        kept.extend(tools.iter().map(tool_name));
    }
    if let Some(tools) = draft.get_mut("tools").and_then(Value::as_array_mut) {
        tools.retain(|tool| kept.contains(&tool_name(tool)));
    }
}

/// Adds the rules that hold the recorded values, beside those that a tool has already.
fn add_rules(draft: &mut Value, usage: &RecordedUse, tightened: &mut Tightened) -> Result<(), Failure> {
    for tool in draft.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        let part = |member| tool.get(member).and_then(Value::as_str).unwrap_or_default();
        let name = format!("{}:{}", part("server"), part("name"));
        let Some(used) = usage.tools.get(&name) else { continue };
        if used.outside > 0 {
            tightened.outside.insert(name.clone(), used.outside);
        }
        let Some(members) = tool.as_object_mut() else { continue };
        let constraints = members.entry("constraints").or_insert_with(|| json!([]));
        let Some(constraints) = constraints.as_array_mut() else { continue };
        for (pointer, seen) in &used.args {
            let (Some(rule), Some((first_entry, last_entry))) = (seen.rule(pointer), seen.entries) else {
                continue;
            };
            let json = serde_json::to_value(&rule).map_err(|_| internal("a rule is not JSON"))?;
            let is_same = |known: &Value| {
                serde_json::from_value(known.clone()).is_ok_and(|known: Constraint| known == rule)
            };
            if !constraints.iter().any(is_same) {
                constraints.push(json);
                let calls = seen.calls;
                tightened.rules.push(DraftedRule {
                    tool: name.clone(),
                    rule,
                    calls,
                    first_entry,
                    last_entry,
                });
            }
        }
    }
    Ok(())
}

fn report(out: &mut Output, tightened: &Tightened) -> Result<(), Failure> {
    if out.is_json() {
        let mut json = json!(tightened);
        if let Some(members) = json.as_object_mut() {
            members.insert("ok".to_owned(), json!(true));
        }
        return out.json(&json);
    }
    for DraftedRule { tool, rule, calls, first_entry, last_entry } in &tightened.rules {
        let rule = one_line(&rule.to_string());
        out.line(&format!("rule    {tool}: {rule}  ({calls} calls, entries {first_entry} to {last_entry})"))?;
    }
    for unused in &tightened.unused {
        out.line(&format!("unused  {unused}"))?;
    }
    for idle in &tightened.idle {
        out.line(&format!("idle    {idle}: no accepted call, so its tools stay"))?;
    }
    for (tool, calls) in &tightened.outside {
        out.line(&format!("outside {tool}: {calls} calls against its constraints count for no rule"))?;
    }
    out.line("Read the draft, then `registry lint`, `simulate` and `registry sign` it.")
}
