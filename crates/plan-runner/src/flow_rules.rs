use std::collections::{BTreeMap, BTreeSet};

use countersign_core::{ImpactClass, ToolId};
use countersign_registry::RegistrySnapshot;

use crate::async_actors::{AsyncInspector, BoxFuture};
use crate::inspect::{Halt, InspectedStep, Inspection, Inspector};

/// Inspects plans by the operator's rules on tools, impacts and the flow from step to step, without a model.
///
/// The rules cover a plan's shape. The registry's schemas and constraints cover the values of the arguments.
///
/// ```
/// # use countersign_keys::{SigningKey, TrustRoot};
/// # use countersign_registry::{CapabilityRegistry, LoadOptions, MemoryHighWater, RegistryDraft};
/// # use countersign_core::{ImpactClass, Millis, Timestamp, ToolId};
/// # let now = Timestamp::from_millis(1_790_000_000_000)?;
/// # let operator = SigningKey::from_seed([7; 32]);
/// # let root = TrustRoot::new(1, 1, vec![operator.verifying_key()])?;
/// # let draft = RegistryDraft::from_json(br#"{"format":"countersign-registry-1","version":1,"agents":[],
/// #   "tools":[{"server":"desk","name":"wipe","impact":"irreversible","approval":"required","args_schema":{}}],
/// #   "revoked":{"agents":[],"keys":[],"snapshots":[]}}"#)?;
/// # let signed = draft.sign(now, now.checked_add(Millis::from_secs(60))?, &[&operator])?.to_json();
/// # let marks = std::sync::Arc::new(MemoryHighWater::new());
/// # let registry = CapabilityRegistry::load(signed.as_bytes(), &root, marks, LoadOptions::default(), now)?;
/// use countersign_plan_runner::FlowRules;
/// let rules = FlowRules::builder()
///     .forbid(ToolId::new("desk", "wipe")?)
///     .most_calls(ImpactClass::Money, 1)
///     .no_egress_after_private()
///     .build(registry.view().snapshot())?;
///
/// let unknown = FlowRules::builder().forbid(ToolId::new("desk", "wype")?).build(registry.view().snapshot());
/// assert_eq!(unknown.map_err(|error| error.code()).err(), Some("FLOW_RULES_TOOL_UNKNOWN"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct FlowRules {
    rules: FlowRulesBuilder,
}

/// Error of unusable rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowRulesError {
    /// There is no rule, so every plan would pass.
    #[error("no flow rules")]
    Empty,
    /// A rule names a tool that the registry does not list.
    #[error("unknown tool in a flow rule: `{tool}` is not in the registry")]
    UnknownTool {
        /// The tool.
        tool: ToolId,
    },
    /// Tools are marked as reading private data or as leading outside, but no rule uses the mark.
    #[error("marked tools without a flow rule that uses the mark")]
    Unused,
}

impl FlowRulesError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "FLOW_RULES_EMPTY",
            Self::UnknownTool { .. } => "FLOW_RULES_TOOL_UNKNOWN",
            Self::Unused => "FLOW_RULES_UNUSED",
        }
    }
}

countersign_core::coded!(FlowRulesError);

/// Builder of [`FlowRules`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct FlowRulesBuilder {
    forbidden: BTreeSet<ToolId>,
    /// Maximum number of calls by impact class.
    most: BTreeMap<&'static str, u64>,
    egress: EgressRule,
    private: BTreeSet<ToolId>,
    outside: BTreeSet<ToolId>,
}

/// The rule on egress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EgressRule {
    /// No rule.
    #[default]
    Free,
    /// Halts a plan at an egress step after a step that reads private data.
    NotAfterPrivate,
}

impl FlowRulesBuilder {
    /// Halts every plan that has a step with this tool (`FLOW_TOOL_FORBIDDEN`).
    pub fn forbid(mut self, tool: ToolId) -> Self {
        self.forbidden.insert(tool);
        self
    }

    /// Halts a plan whose steps of this impact allow more calls than this, together (`FLOW_IMPACT_LIMIT`).
    pub fn most_calls(mut self, impact: ImpactClass, calls: u64) -> Self {
        self.most.insert(impact.as_str(), calls);
        self
    }

    /// Halts a plan that leads outside after a step that reads private data (`FLOW_EGRESS_AFTER_PRIVATE`).
    ///
    /// Tools of the impact `privacy` read private data, and so do [marked](Self::reads_private) tools. Tools of the impacts
    /// `external`, `money` and `irreversible` lead outside, and so do [marked](Self::leads_outside) tools. A tool that does both may
    /// have one call in a plan, and no egress may follow it.
    pub fn no_egress_after_private(mut self) -> Self {
        self.egress = EgressRule::NotAfterPrivate;
        self
    }

    /// Marks a tool as reading private data, whatever its impact.
    pub fn reads_private(mut self, tool: ToolId) -> Self {
        self.private.insert(tool);
        self
    }

    /// Marks a tool as leading outside, whatever its impact.
    pub fn leads_outside(mut self, tool: ToolId) -> Self {
        self.outside.insert(tool);
        self
    }

    /// Checks the rules against their registry.
    ///
    /// # Errors
    /// [`FlowRulesError`] if there is no rule, a tool is unknown, or no rule uses a mark.
    pub fn build(self, registry: &RegistrySnapshot) -> Result<FlowRules, FlowRulesError> {
        let is_free = self.egress == EgressRule::Free;
        if self.forbidden.is_empty() && self.most.is_empty() && is_free {
            return Err(FlowRulesError::Empty);
        }
        if is_free && !(self.private.is_empty() && self.outside.is_empty()) {
            return Err(FlowRulesError::Unused);
        }
        let named = self.forbidden.iter().chain(&self.private).chain(&self.outside);
        if let Some(tool) = named.into_iter().find(|tool| registry.tool(tool).is_none()) {
            return Err(FlowRulesError::UnknownTool { tool: tool.clone() });
        }
        Ok(FlowRules { rules: self })
    }
}

impl FlowRules {
    /// Creates a builder without rules.
    pub fn builder() -> FlowRulesBuilder {
        FlowRulesBuilder::default()
    }

    fn check(&self, plan: &Inspection<'_>) -> Result<(), Halt> {
        let mut calls: BTreeMap<&'static str, u64> = BTreeMap::new();
        let mut private_was_read = false;
        for step in plan.steps() {
            if self.rules.forbidden.contains(step.tool()) {
                return Err(Halt::new("FLOW_TOOL_FORBIDDEN").at_step(step.index()));
            }
            let sum = calls.entry(step.impact().as_str()).or_default();
            *sum = sum.saturating_add(u64::from(step.max_calls()));
            if self.rules.most.get(step.impact().as_str()).is_some_and(|most| *sum > *most) {
                return Err(Halt::new("FLOW_IMPACT_LIMIT").at_step(step.index()));
            }
            let reads = self.reads_private(&step);
            // In a step with several calls, the second call comes after the first.
            let before = private_was_read || (reads && step.max_calls() > 1);
            if before && self.is_forbidden_egress(&step) {
                return Err(Halt::new("FLOW_EGRESS_AFTER_PRIVATE").at_step(step.index()));
            }
            private_was_read |= reads;
        }
        Ok(())
    }

    fn reads_private(&self, step: &InspectedStep<'_>) -> bool {
        step.impact() == ImpactClass::Privacy || self.rules.private.contains(step.tool())
    }

    fn is_forbidden_egress(&self, step: &InspectedStep<'_>) -> bool {
        use ImpactClass::{External, Irreversible, Money};
        let leads_outside = matches!(step.impact(), External | Money | Irreversible)
            || self.rules.outside.contains(step.tool());
        self.rules.egress == EgressRule::NotAfterPrivate && leads_outside
    }
}

impl Inspector for FlowRules {
    fn name(&self) -> &str {
        "flow rules"
    }

    fn inspect(&mut self, plan: &Inspection<'_>) -> Result<(), Halt> {
        self.check(plan)
    }
}

impl AsyncInspector for FlowRules {
    fn name(&self) -> &str {
        "flow rules"
    }

    fn inspect<'a>(&'a mut self, plan: &'a Inspection<'a>) -> BoxFuture<'a, Result<(), Halt>> {
        Box::pin(std::future::ready(self.check(plan)))
    }
}
