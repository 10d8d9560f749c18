//! Findings about a tool's constraints and the branches of its approval rule.

use crate::approval_terms::ApprovalBranch;
use crate::constraint::Constraint;
use crate::finding::{Finding, note, warn};
use crate::range_rule::RangeRule;
use crate::schema_place::{
    has_no_items, is_required, may_be_empty_list, may_exist, named, plain, schema_range, schema_types,
};
use crate::tool_entry::ToolEntry;

/// Reports a constraint of a place that the schema does not name, or of every host under a top-level domain.
pub(crate) fn lint_place(tool: &ToolEntry, constraint: &Constraint, findings: &mut Vec<Finding>) {
    let (name, schema) = (tool.tool(), tool.args_schema());
    let first = constraint.at().as_str().split('/').nth(1).unwrap_or_default();
    let is_named = schema.pointer("/properties").and_then(|properties| properties.get(plain(first)));
    if is_named.is_none() || !may_exist(constraint.at(), schema) {
        let message =
            format!("a constraint of `{name}` is at `{}`, where the schema names nothing", constraint.at());
        warn(findings, "LINT_CONSTRAINT_PLACE", message);
    }
    for host in constraint.url_hosts() {
        if host.strip_prefix('.').is_some_and(|parent| !parent.contains('.')) {
            let message = format!("a constraint of `{name}` allows every host under `{host}`");
            warn(findings, "LINT_WIDE_HOST", message);
        }
    }
}

/// Explains each branch in words, and reports those that are probably a mistake.
pub(crate) fn lint_approval(tool: &ToolEntry, findings: &mut Vec<Finding>) {
    let (name, branches) = (tool.tool(), tool.approval_terms().unless());
    for (index, branch) in branches.iter().enumerate() {
        let number = index.saturating_add(1);
        note(findings, "LINT_APPROVAL_BRANCH", format!("`{name}` needs no approval if {branch}"));
        let mut constraints = branch.constraints().iter();
        if let Some(never) = contradiction(branch, tool) {
            let message = format!(
                "branch {number} of `{name}` never matches: the schema or another constraint excludes that {never}"
            );
            warn(findings, "LINT_BRANCH_NEVER", message);
            continue;
        }
        if constraints.all(|constraint| always_holds(constraint, tool)) {
            let message = format!("branch {number} of `{name}` matches every call: none needs an approval");
            warn(findings, "LINT_BRANCH_ALWAYS", message);
        }
        let earlier = branches.iter().take(index);
        if let Some(earlier) = earlier.zip(1..).find_map(|(it, at)| branch.implies(it).then_some(at)) {
            let message = format!("branch {number} of `{name}` adds no call to branch {earlier}");
            warn(findings, "LINT_BRANCH_REDUNDANT", message);
        }
        for constraint in branch.constraints() {
            lint_place(tool, constraint, findings);
            if lets_negative_through(constraint, branch, tool) {
                let message =
                    format!("branch {number} of `{name}` matches every negative `{}`", constraint.at());
                warn(findings, "LINT_BRANCH_NEGATIVE", message);
            }
        }
    }
}

/// Returns `true` if no call that matches the schema matches the branch, as far as that is clear.
pub(crate) fn never_matches(branch: &ApprovalBranch, tool: &ToolEntry) -> bool {
    contradiction(branch, tool).is_some()
}

fn contradiction<'b>(branch: &'b ApprovalBranch, tool: &ToolEntry) -> Option<&'b Constraint> {
    branch.constraints().iter().find(|it| can_never_hold(it, branch, tool))
}

/// Returns `true` if the schema or another constraint of the branch clearly contradicts the constraint.
fn can_never_hold(constraint: &Constraint, branch: &ApprovalBranch, tool: &ToolEntry) -> bool {
    let (at, schema) = (constraint.at(), tool.args_schema());
    let contradicts = |other: &Constraint| match (constraint.range_rule(), other.range_rule()) {
        (Some(one), Some(other)) => !one.meets(other),
        _ if constraint.is_empty_list() != other.is_empty_list() => true,
        _ => !constraint.types().iter().any(|name| other.types().contains(name)),
    };
    if branch.constraints().iter().any(|other| other.at() == at && contradicts(other)) {
        return true;
    }
    if constraint.is_empty_list() {
        return is_required(at, schema) && named(at, schema).is_some_and(|named| !may_be_empty_list(named));
    }
    let is_out_of_range = |named| {
        constraint.range_rule().zip(schema_range(named)).is_some_and(|(rule, range)| !rule.meets(range))
    };
    let has_other_type = |named| {
        schema_types(named).is_some_and(|types| !types.iter().any(|name| constraint.types().contains(name)))
    };
    !may_exist(at, schema)
        || named(at, schema).is_some_and(|named| is_out_of_range(named) || has_other_type(named))
}

/// Returns `true` if each call that matches the schema and the tool's own constraints clearly matches.
fn always_holds(constraint: &Constraint, tool: &ToolEntry) -> bool {
    let (at, schema) = (constraint.at(), tool.args_schema());
    let Some(named) = named(at, schema) else {
        return constraint.is_empty_list() && !may_exist(at, schema);
    };
    if constraint.is_empty_list() {
        return schema_types(named).is_some_and(|types| types == ["array"]) && has_no_items(named);
    }
    let is_one_value = schema_types(named)
        .is_some_and(|types| types.iter().all(|name| ["string", "number", "integer"].contains(name)));
    let is_in_range =
        constraint.range_rule().zip(schema_range(named)).is_some_and(|(rule, range)| range.implies(rule));
    let is_known = tool.constraints().iter().any(|known| known.implies(constraint));
    let has_fitting_type =
        schema_types(named).is_some_and(|types| types.iter().all(|name| constraint.types().contains(name)));
    is_required(at, schema) && is_one_value && has_fitting_type && (is_in_range || is_known)
}

/// Returns `true` if the constraint has an upper bound alone, and no other rule keeps negative numbers out.
fn lets_negative_through(constraint: &Constraint, branch: &ApprovalBranch, tool: &ToolEntry) -> bool {
    let at = constraint.at();
    let all = branch.constraints().iter().chain(tool.constraints());
    let is_bound_elsewhere =
        all.filter(|it| it.at() == at).filter_map(Constraint::range_rule).any(RangeRule::has_min);
    let is_bound_by_schema =
        named(at, tool.args_schema()).and_then(schema_range).is_some_and(RangeRule::has_min);
    constraint.range_rule().is_some() && !is_bound_elsewhere && !is_bound_by_schema
}
