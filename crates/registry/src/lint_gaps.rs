//! Findings about arguments that a rule seems to be missing for, by their names and types.

use std::collections::BTreeSet;

use countersign_core::ImpactClass;
use serde_json::Value;

use crate::constraint::{Constraint, is_index};
use crate::finding::{Finding, note, warn};
use crate::lint_rules::never_matches;
use crate::place::ArgPlace;
use crate::schema_place::{named, schema_range, schema_types};
use crate::tier::words;
use crate::tool_entry::ToolEntry;

/// Deepest object in a schema that is looked into.
const MAX_DEPTH: usize = 8;
const PATHS: [&str; 12] = [
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filepath",
    "dir",
    "directory",
    "directories",
    "folder",
    "folders",
    "cwd",
];
const URLS: [&str; 12] = [
    "url", "urls", "uri", "uris", "href", "host", "hosts", "hostname", "domain", "endpoint", "webhook",
    "link",
];
const AMOUNTS: [&str; 7] = ["amount", "price", "total", "sum", "value", "cents", "fee"];
const RECIPIENTS: [&str; 9] =
    ["to", "cc", "bcc", "recipient", "recipients", "attendees", "invitees", "participants", "members"];

/// An argument that the schema names.
struct NamedArg<'s> {
    place: String,
    words: Vec<String>,
    schema: &'s Value,
}

impl NamedArg<'_> {
    /// Returns `true` if the argument is about one of these: the last word says what it holds.
    fn is_about(&self, list: &[&str]) -> bool {
        self.words.last().is_some_and(|word| list.contains(&word.as_str()))
    }

    fn may_be(&self, kinds: &[&str]) -> bool {
        schema_types(self.schema).is_none_or(|types| types.iter().any(|name| kinds.contains(name)))
    }

    /// Returns `true` if the schema lists the values, or a constraint stands at the argument or in it.
    fn is_held(&self, constraints: &[&Constraint]) -> bool {
        let lists = |schema: &Value| schema.get("enum").or_else(|| schema.get("const")).is_some();
        let is_listed = lists(self.schema) || self.schema.get("items").is_some_and(lists);
        is_listed || constraints.iter().any(|constraint| self.has(constraint.at()))
    }

    fn has(&self, place: &ArgPlace) -> bool {
        let rest = place.as_str().strip_prefix(&self.place);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn has_maximum(&self, constraints: &[&Constraint]) -> bool {
        let ranges = constraints.iter().filter(|it| it.at().as_str() == self.place);
        let ranges = ranges.filter_map(|constraint| constraint.range_rule());
        ranges.chain(schema_range(self.schema)).any(|range| range.has_max())
    }
}

/// Reports paths, URLs and amounts without a rule, recipients beside a constrained one, and rules for one element of a list.
pub(crate) fn lint_gaps(tool: &ToolEntry, findings: &mut Vec<Finding>) {
    let mut args = Vec::new();
    collect(tool.args_schema(), "", 0, &mut args);
    let first = findings.len();
    let mut ways = free_ways(tool);
    let sees_all = ways.is_empty();
    if sees_all {
        ways.push(tool.constraints().iter().collect());
    }
    for constraints in ways {
        lint_open(tool, &args, &constraints, sees_all, findings);
        lint_recipients(tool, &args, &constraints, findings);
        for constraint in constraints {
            lint_one_element(tool, constraint, findings);
        }
    }
    // Several branches may have the same gap.
    let mut known = BTreeSet::new();
    let new = findings.split_off(first);
    findings.extend(new.into_iter().filter(|finding| known.insert(finding.message().to_owned())));
}

/// The constraints that hold for a call of each branch that may need no approval, those of the tool among them.
fn free_ways(tool: &ToolEntry) -> Vec<Vec<&Constraint>> {
    let own = || tool.constraints().iter();
    let branches = tool.approval_terms().unless().iter();
    let mut ways: Vec<Vec<_>> = branches
        .filter(|branch| !never_matches(branch, tool))
        .map(|branch| own().chain(branch.constraints()).collect())
        .collect();
    if !tool.approval().is_required() {
        ways.push(own().collect());
    }
    ways
}

fn lint_open(
    tool: &ToolEntry,
    args: &[NamedArg<'_>],
    constraints: &[&Constraint],
    sees_all: bool,
    findings: &mut Vec<Finding>,
) {
    let name = tool.tool();
    let mut report = |code, message| {
        if sees_all { note(findings, code, message) } else { warn(findings, code, message) }
    };
    for arg in args {
        let (place, is_text) = (&arg.place, arg.may_be(&["string", "array"]));
        let is_open = !arg.is_held(constraints);
        if is_text && is_open && arg.is_about(&PATHS) {
            report("LINT_PATH_OPEN", format!("`{name}` takes any path at `{place}`: `path_within` holds it"));
        }
        if is_text && is_open && arg.is_about(&URLS) {
            report("LINT_URL_OPEN", format!("`{name}` takes any address at `{place}`: `url` holds its host"));
        }
        let is_amount = tool.impact() == ImpactClass::Money && arg.is_about(&AMOUNTS);
        if is_amount && arg.may_be(&["number", "integer"]) && !arg.has_maximum(constraints) {
            report("LINT_AMOUNT_OPEN", format!("`{name}` moves money without a maximum at `{place}`"));
        }
    }
}

/// Reports recipients that no rule holds, although one does hold others of the same call.
fn lint_recipients(
    tool: &ToolEntry,
    args: &[NamedArg<'_>],
    constraints: &[&Constraint],
    findings: &mut Vec<Finding>,
) {
    let recipients = || args.iter().filter(|arg| arg.is_about(&RECIPIENTS));
    let Some(held) = recipients().find(|arg| constraints.iter().any(|it| arg.has(it.at()))) else { return };
    let held = &held.place;
    for open in recipients().filter(|arg| !arg.is_held(constraints)) {
        let message = format!("`{}` holds `{held}` to a rule and leaves `{}` open", tool.tool(), open.place);
        warn(findings, "LINT_RECIPIENT_OPEN", message);
    }
}

/// Reports a constraint on one element of a list that may have others.
fn lint_one_element(tool: &ToolEntry, constraint: &Constraint, findings: &mut Vec<Finding>) {
    let at = constraint.at().as_str();
    let lists = at.match_indices('/').filter_map(|(start, _)| {
        let index = at.get(start..)?.split('/').nth(1).filter(|token| is_index(token))?;
        let list = ArgPlace::new(at.get(..start)?).ok()?;
        Some((named(&list, tool.args_schema())?, index.parse::<u64>().ok()?))
    });
    let is_list = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("array");
    let longest = |schema: &Value| schema.get("maxItems").and_then(Value::as_u64).unwrap_or(u64::MAX);
    if lists.into_iter().any(|(schema, index)| is_list(schema) && longest(schema) > index.saturating_add(1)) {
        let message = format!("a constraint of `{}` is at `{at}`: other elements are open", tool.tool());
        warn(findings, "LINT_ONE_ELEMENT", message);
    }
}

fn collect<'s>(schema: &'s Value, above: &str, depth: usize, args: &mut Vec<NamedArg<'s>>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten().filter(|_| depth < MAX_DEPTH) {
        let place = format!("{above}/{}", name.replace('~', "~0").replace('/', "~1"));
        args.push(NamedArg { words: words(name), schema, place: place.clone() });
        collect(schema, &place, depth.saturating_add(1), args);
    }
}
