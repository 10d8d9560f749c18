//! Approval of a whole plan, and the recorded entry about a plan.

use std::collections::BTreeMap;

use countersign_approval_token::SpentApproval;
use countersign_audit_log::{CallRecord, RecordedTool, Verdict};
use countersign_canonical_json::{Canonical, to_canonical};
use countersign_committed_plan::PlanRoot;
use countersign_core::{CallFacts, CallId, Digest, OperatorId, Timestamp, TokenId, ToolId};
use countersign_registry::{RegistryView, ToolRules};

use crate::code::RejectionCode;
use crate::plan_commit::Allowed;
use crate::plan_error::StartPlanError;
use crate::terms::GateTerms;

/// Server and name of the tool that an approval of a whole plan binds, and under which the plan's start is recorded.
pub const PLAN_TOOL: (&str, &str) = ("countersign", "submit_plan");

/// Domain label of the digest of a plan's definitions.
const DEFINITIONS: &str = "countersign/plan-definitions-1";

/// Known definitions of the tools that an approval of a plan covers: as the server gave them, or else as the registry
/// pins them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Definitions(BTreeMap<ToolId, Digest>);

impl Definitions {
    pub(crate) fn of<'a>(
        seen: impl Fn(&ToolId) -> Option<Digest>,
        Allowed { contract, view }: &Allowed<'_>,
        tools: impl Iterator<Item = &'a ToolId>,
    ) -> Self {
        let known = |tool: &ToolId| {
            definition(seen(tool), contract.disclosed(view, tool)?).map(|it| (tool.clone(), it))
        };
        Self(tools.filter_map(known).collect())
    }

    /// Returns one digest over all definitions (`plan-definitions-1`): SHA-256 over the label and the `jcs-1` object of
    /// server name to tool name to definition, each framed. `None` if no definition is known.
    fn digest(&self) -> Result<Option<Digest>, StartPlanError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let mut servers: BTreeMap<&str, BTreeMap<&str, &Digest>> = BTreeMap::new();
        for (tool, definition) in &self.0 {
            servers.entry(tool.server().as_str()).or_default().insert(tool.name().as_str(), definition);
        }
        let text = to_canonical(&servers).map_err(|_| StartPlanError::from(RejectionCode::Internal))?;
        Ok(Some(Digest::framed(DEFINITIONS).field(text.bytes()).finish()))
    }
}

/// Returns the definition that counts for a tool: the one that was seen, or else the one that the registry pins.
pub(crate) fn definition(seen: Option<Digest>, rules: &ToolRules) -> Option<Digest> {
    seen.or(rules.entry().definition())
}

/// The spent approval of a whole plan.
#[derive(Debug)]
pub(crate) struct SpentPlanApproval {
    pub(crate) token_id: TokenId,
    pub(crate) approver: OperatorId,
    definitions: Definitions,
}

impl SpentPlanApproval {
    pub(crate) fn new(spent: &SpentApproval, definitions: Definitions) -> Self {
        Self { token_id: spent.token_id().clone(), approver: spent.approver().clone(), definitions }
    }

    /// Returns `true` if the approval covers a call to a tool with this definition: not if the approver knew another
    /// definition.
    pub(crate) fn covers(&self, tool: &ToolId, definition: Option<Digest>) -> bool {
        self.definitions.0.get(tool).is_none_or(|approved| definition == Some(*approved))
    }
}

/// Facts that an approval of the whole plan binds. The key binds the run.
pub(crate) fn plan_facts(
    terms: &GateTerms,
    view: &RegistryView,
    args: &Canonical,
    root: PlanRoot,
    definitions: &Definitions,
) -> Result<CallFacts, StartPlanError> {
    if terms.approvals.is_none() {
        return Err(StartPlanError::Refused(RejectionCode::ApprovalInvalid));
    }
    let internal = |_| StartPlanError::Refused(RejectionCode::Internal);
    let call_id = CallId::new(&root.to_string()).map_err(internal)?;
    let tool = ToolId::new(PLAN_TOOL.0, PLAN_TOOL.1).map_err(internal)?;
    let (definition, version) = (definitions.digest()?, view.snapshot().version());
    Ok(terms.call_facts(call_id, tool, args.digest(), definition, Some(root.digest()), version))
}

/// Recorded call id of a plan without a root. Other plans use their root as id.
const NO_ROOT: &str = "plan";

/// Makes an entry about a plan itself, without the optional members.
pub(crate) fn plan_entry(
    terms: &GateTerms,
    time: Timestamp,
    root: Option<Digest>,
    what: &str,
    verdict: Verdict,
    registry_version: u64,
) -> CallRecord {
    let id = root.map_or_else(|| NO_ROOT.to_owned(), |root| root.to_string());
    let tool = RecordedTool::new(PLAN_TOOL.0, what);
    let mut record = terms.entry(time, id.as_str(), tool, verdict, registry_version);
    record.plan = root;
    record.about_plan = true;
    record
}
