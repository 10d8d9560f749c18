use std::collections::BTreeSet;

use countersign_canonical_json::Canonical;
use countersign_core::{Approvers, Digest, ImpactClass, ServerName, ToolId, ToolName};
use serde_json::Value;

use crate::approval_terms::ApprovalTerms;
use crate::args_error::ArgsError;
use crate::constraint::Constraint;
use crate::content::{ApprovalTermsError, ContentError, ContentProblem};
use crate::definition::ListedTool;
use crate::fields::{CanonicalEntry, check_count, distinct, present};
use crate::limits::Limits;
use crate::place::ArgPlace;
use crate::rule::{ApprovalRule, AskRule, EvidenceRule, PlanRule, TaskRule};
use crate::schema::ArgsSchema;

/// Most constraints, and most data arguments, of one tool.
const MAX_PLACES: usize = 64;

/// Registry entry of one tool: its impact, the requirements of a call, and the limits of its arguments.
///
/// The schema is compiled and the constraints are prepared when the entry is built, so that a call costs only the
/// checks.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "ToolEntryBuilder", into = "ToolEntryBuilder")]
pub struct ToolEntry {
    tool: ToolId,
    impact: ImpactClass,
    approval: ApprovalTerms,
    approvers: Option<Box<Approvers>>,
    ask: AskRule,
    evidence: EvidenceRule,
    plan: PlanRule,
    tasks: TaskRule,
    definition: Option<Digest>,
    as_listed: Option<ListedTool>,
    schema: ArgsSchema,
    constraints: Vec<Constraint>,
    data_args: BTreeSet<ArgPlace>,
    limits: Limits,
    fingerprint: Digest,
}

impl ToolEntry {
    /// Starts an entry with its mandatory parts: the tool, its impact, its approval rule, and the JSON Schema of its
    /// arguments.
    pub fn builder(
        tool: &ToolId,
        impact: ImpactClass,
        approval: ApprovalRule,
        args_schema: Value,
    ) -> ToolEntryBuilder {
        ToolEntryBuilder {
            server: tool.server().clone(),
            name: tool.name().clone(),
            impact,
            approval: ApprovalTerms::always(approval),
            approvers: None,
            ask: AskRule::NotRequired,
            evidence: EvidenceRule::NotRequired,
            plan: PlanRule::NotRequired,
            tasks: TaskRule::NotAllowed,
            definition: None,
            as_listed: None,
            args_schema,
            constraints: Vec::new(),
            data_args: Vec::new(),
            limits: Limits::none(),
        }
    }

    /// Id of the tool.
    #[must_use]
    pub const fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// Impact of the tool.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.impact
    }

    /// Approval that a call needs, unless its arguments match a branch
    /// ([`approval_terms`](Self::approval_terms)).
    #[must_use]
    pub const fn approval(&self) -> ApprovalRule {
        self.approval.rule()
    }

    /// Approval that a call needs, and the branches of arguments that need none.
    #[must_use]
    pub const fn approval_terms(&self) -> &ApprovalTerms {
        &self.approval
    }

    /// Returns the approval that a call with these arguments needs. A tool with [`approvers`](Self::approvers) needs one
    /// of each call: the approver of a plan need not be one of them. The `open` places of a planned call have no value
    /// yet, so a branch that constrains one of them does not match.
    #[must_use]
    pub fn approval_of(&self, args: &Canonical, open: &[ArgPlace]) -> ApprovalRule {
        let rule = self.approval.of_call(args, open);
        if rule.is_required() && self.approvers.is_some() { ApprovalRule::EachCall } else { rule }
    }

    /// Persons who may approve a call, and how many of them must. Without them, one approval by anyone with the key.
    #[must_use]
    pub fn approvers(&self) -> Option<&Approvers> {
        self.approvers.as_deref()
    }

    /// Whether a call must restate the pinned goal.
    #[must_use]
    pub const fn ask(&self) -> AskRule {
        self.ask
    }

    /// Whether a call needs evidence, whatever its impact.
    #[must_use]
    pub const fn evidence(&self) -> EvidenceRule {
        self.evidence
    }

    /// Whether a call must be a step of a committed plan.
    #[must_use]
    pub const fn plan(&self) -> PlanRule {
        self.plan
    }

    /// Whether the server may answer a call with a task.
    #[must_use]
    pub const fn tasks(&self) -> TaskRule {
        self.tasks
    }

    /// Digest of the tool's definition at its server, if pinned ([`definition_digest`](crate::definition_digest)).
    #[must_use]
    pub const fn definition(&self) -> Option<Digest> {
        self.definition
    }

    /// Tool as its server lists it, for the person who signs. It has no effect on decisions.
    #[must_use]
    pub const fn as_listed(&self) -> Option<&ListedTool> {
        self.as_listed.as_ref()
    }

    /// JSON Schema of the arguments.
    #[must_use]
    pub fn args_schema(&self) -> &Value {
        self.schema.source()
    }

    /// Restrictions of the arguments beyond the schema.
    #[must_use]
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Arguments that a plan may leave open, because they are data and not destinations.
    #[must_use]
    pub const fn data_args(&self) -> &BTreeSet<ArgPlace> {
        &self.data_args
    }

    /// Call limits of a session for this tool.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Digest of the whole entry: recipe `tool-entry-1`, a label and the entry's `jcs-1` JSON.
    #[must_use]
    pub const fn fingerprint(&self) -> Digest {
        self.fingerprint
    }

    pub(crate) const fn schema(&self) -> &ArgsSchema {
        &self.schema
    }

    fn canonical(&self) -> Result<CanonicalEntry, ContentError> {
        let text = CanonicalEntry::new();
        let mut text = if self.approval.unless().is_empty() {
            text.plain("approval", &self.approval)?
        } else {
            text.any("approval", &self.approval)?
        };
        if let Some(approvers) = &self.approvers {
            text = text.any("approvers", approvers)?;
        }
        text = text.written("args_schema", self.schema.canonical());
        if let Some(listed) = &self.as_listed {
            text = text.any("as_listed", listed)?;
        }
        text = text.plain("ask", &self.ask)?;
        text = if self.constraints.is_empty() {
            text.written("constraints", "[]")
        } else {
            text.any("constraints", &self.constraints)?
        };
        text = text.plain("data_args", &self.data_args)?;
        if let Some(definition) = &self.definition {
            text = text.plain("definition", definition)?;
        }
        text = text.plain("evidence", &self.evidence)?.plain("impact", &self.impact)?;
        if !self.limits.is_none() {
            text = text.any("limits", &self.limits)?;
        }
        text = text.plain("name", self.tool.name())?.plain("plan", &self.plan)?;
        text = text.plain("server", self.tool.server())?;
        if self.tasks.is_allowed() { text.plain("tasks", &self.tasks) } else { Ok(text) }
    }
}

/// Digest of a tool's whole entry; equals [`ToolEntry::fingerprint`].
#[must_use]
pub const fn tool_fingerprint(entry: &ToolEntry) -> Digest {
    entry.fingerprint()
}

/// Builder of a [`ToolEntry`], and its form in a draft. [`build`](Self::build) does all checks.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct ToolEntryBuilder {
    server: ServerName,
    name: ToolName,
    impact: ImpactClass,
    approval: ApprovalTerms,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    approvers: Option<Box<Approvers>>,
    #[serde(default)]
    ask: AskRule,
    #[serde(default)]
    evidence: EvidenceRule,
    #[serde(default)]
    plan: PlanRule,
    #[serde(default, skip_serializing_if = "TaskRule::is_not_allowed")]
    tasks: TaskRule,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    definition: Option<Digest>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    as_listed: Option<ListedTool>,
    args_schema: Value,
    #[serde(default)]
    constraints: Vec<Constraint>,
    #[serde(default)]
    data_args: Vec<ArgPlace>,
    #[serde(default, skip_serializing_if = "Limits::is_none")]
    limits: Limits,
}

impl ToolEntryBuilder {
    /// Adds a branch: calls whose arguments match all of these constraints need no approval.
    pub fn approval_unless(mut self, constraints: Vec<Constraint>) -> Self {
        self.approval.push(constraints);
        self
    }

    /// Sets the persons who may approve a call, and how many of them must.
    pub fn approvers(mut self, approvers: Approvers) -> Self {
        self.approvers = Some(Box::new(approvers));
        self
    }

    /// Sets whether a call must restate the pinned goal.
    pub const fn ask(mut self, rule: AskRule) -> Self {
        self.ask = rule;
        self
    }

    /// Sets whether a call needs evidence.
    pub const fn evidence(mut self, rule: EvidenceRule) -> Self {
        self.evidence = rule;
        self
    }

    /// Sets whether a call must be a step of a committed plan.
    pub const fn plan(mut self, rule: PlanRule) -> Self {
        self.plan = rule;
        self
    }

    /// Sets whether the server may answer a call with a task.
    pub const fn tasks(mut self, rule: TaskRule) -> Self {
        self.tasks = rule;
        self
    }

    /// Pins the tool's definition at its server.
    pub const fn definition(mut self, digest: Digest) -> Self {
        self.definition = Some(digest);
        self
    }

    /// Adds the tool as its server lists it, for the person who signs.
    pub fn as_listed(mut self, tool: ListedTool) -> Self {
        self.as_listed = Some(tool);
        self
    }

    /// Adds a restriction of an argument beyond the schema.
    pub fn constraint(mut self, constraint: Constraint) -> Self {
        self.constraints.push(constraint);
        self
    }

    /// Marks an argument as data, which a plan may leave open.
    pub fn data_arg(mut self, place: ArgPlace) -> Self {
        self.data_args.push(place);
        self
    }

    /// Sets the call limits of a session for this tool.
    pub const fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Checks all parts, compiles the schema and computes the fingerprint.
    ///
    /// # Errors
    /// [`ContentError`] if the schema does not compile, an item is listed twice or too often, an argument is both
    /// data and constrained, the approval rule has an empty branch, or the listed definition is not the pinned one.
    pub fn build(self) -> Result<ToolEntry, ContentError> {
        self.build_with(ArgsSchema::compile)
    }

    /// As [`build`](Self::build), with the compiler of its schema.
    pub(crate) fn build_with(
        self,
        compile: impl FnOnce(Value) -> Result<ArgsSchema, ContentError>,
    ) -> Result<ToolEntry, ContentError> {
        if let (Some(listed), Some(pinned)) = (&self.as_listed, self.definition)
            && listed.definition(&self.name)? != pinned
        {
            return Err(ContentError::new("/as_listed", ContentProblem::Definition));
        }
        self.approval.check()?;
        if self.approvers.is_some() && !self.approval.rule().is_required() {
            let problem = ContentProblem::Approval(ApprovalTermsError::NothingToApprove);
            return Err(ContentError::new("/approvers", problem));
        }
        check_count("/constraints", "constraints of one tool", self.constraints.len(), MAX_PLACES)?;
        check_count("/data_args", "data arguments of one tool", self.data_args.len(), MAX_PLACES)?;
        for (index, place) in self.data_args.iter().enumerate() {
            let overlaps = |c: &Constraint| place.covers(c.at()) || c.at().covers(place);
            if self.constraints.iter().any(overlaps) {
                let problem = ContentProblem::DataPlace(place.clone());
                return Err(ContentError::new(format!("/data_args/{index}"), problem));
            }
        }
        let schema = compile(self.args_schema).map_err(|error| error.beneath("/args_schema"))?;
        let mut entry = ToolEntry {
            tool: ToolId::from_names(self.server, self.name),
            impact: self.impact,
            approval: self.approval,
            approvers: self.approvers,
            ask: self.ask,
            evidence: self.evidence,
            plan: self.plan,
            tasks: self.tasks,
            definition: self.definition,
            as_listed: self.as_listed,
            schema,
            constraints: self.constraints,
            data_args: distinct("/data_args", self.data_args)?,
            limits: self.limits,
            fingerprint: Digest::from_bytes([0; 32]),
        };
        entry.fingerprint = entry.canonical()?.fingerprint("countersign/tool-entry-1");
        Ok(entry)
    }
}

impl TryFrom<ToolEntryBuilder> for ToolEntry {
    type Error = ContentError;
    fn try_from(fields: ToolEntryBuilder) -> Result<Self, ContentError> {
        fields.build()
    }
}

impl From<ToolEntry> for ToolEntryBuilder {
    fn from(entry: ToolEntry) -> Self {
        let rule = entry.approval.rule();
        let fresh = ToolEntry::builder(&entry.tool, entry.impact, rule, entry.schema.source().clone());
        Self {
            approval: entry.approval,
            approvers: entry.approvers,
            ask: entry.ask,
            evidence: entry.evidence,
            plan: entry.plan,
            tasks: entry.tasks,
            definition: entry.definition,
            as_listed: entry.as_listed,
            constraints: entry.constraints,
            data_args: entry.data_args.into_iter().collect(),
            limits: entry.limits,
            ..fresh
        }
    }
}

/// Entry of a tool, ready to check calls.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRules {
    entry: ToolEntry,
}

impl ToolRules {
    /// Wraps an entry.
    #[must_use]
    pub const fn new(entry: ToolEntry) -> Self {
        Self { entry }
    }

    /// Entry of the tool.
    #[must_use]
    pub const fn entry(&self) -> &ToolEntry {
        &self.entry
    }

    /// Checks a call's arguments against the schema and every constraint.
    ///
    /// # Errors
    /// [`ArgsError`] with the place and the rule of the first mismatch. Arguments that are not an object are a mismatch.
    /// Under a recursive schema, and in large arguments, a schema's error states neither place nor rule.
    pub fn check_args(&self, args: &Canonical) -> Result<(), ArgsError> {
        self.entry.schema().check(args)?;
        self.check_constraints(args)
    }

    /// Checks the fixed part of a planned call's arguments against the schema and every constraint. The `open` places
    /// have no value yet: mismatches there do not count, nor do those that depend on their values (such as `anyOf` of
    /// the enclosing object). The arguments of the actual call still need [`check_args`](Self::check_args).
    ///
    /// Fails if the check cannot be completed in bounded time. Under a recursive schema the arguments must match as they
    /// are, or with one of a few values in the open places.
    ///
    /// # Errors
    /// As [`check_args`](Self::check_args).
    pub fn check_planned_args(&self, args: &Canonical, open: &[ArgPlace]) -> Result<(), ArgsError> {
        self.entry.schema().check_around(args, open)?;
        self.check_constraints(args)
    }

    fn check_constraints(&self, args: &Canonical) -> Result<(), ArgsError> {
        match self.entry.constraints().iter().find(|constraint| !constraint.fits(args.value())) {
            Some(misfit) => {
                Err(ArgsError::Constraint { place: misfit.at().as_str().to_owned(), kind: misfit.kind() })
            }
            None => Ok(()),
        }
    }
}
