use std::collections::BTreeMap;
use std::sync::Arc;

use countersign_core::{Timestamp, ToolId};
use countersign_registry::{CapabilityRegistry, SessionContract};

use crate::agent_row::AgentRow;
use crate::code::RejectionCode;
use crate::counts::Counts;
use crate::snapshot::Standing;
use crate::stats::CallStats;

/// The rows that one session's answers are counted in. They are looked up once, so that counting takes no lock that
/// is shared by sessions of different agents.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) stats: Arc<CallStats>,
    pub(crate) session: Counts,
    agent: Arc<AgentRow>,
    /// The agents whose sessions led to this one.
    ancestors: Vec<Arc<AgentRow>>,
    disclosed: BTreeMap<ToolId, Arc<Counts>>,
}

impl Rows {
    pub(crate) fn new(stats: Arc<CallStats>, contract: &SessionContract) -> Self {
        let agent = stats.agent_row(contract.agent());
        let ancestors = contract.ancestors().iter().map(|agent| stats.agent_row(agent)).collect();
        let disclosed = contract.tools().iter().map(|tool| (tool.clone(), stats.tool_row(tool))).collect();
        Self { stats, session: Counts::default(), agent, ancestors, disclosed }
    }

    /// Refuses while the agent is quarantined, or one that led to its session: it must not act through another.
    pub(crate) fn check(&self) -> Result<(), RejectionCode> {
        let is_quarantined = |row: &Arc<AgentRow>| row.standing() == Standing::Quarantined;
        if self.ancestors.iter().chain([&self.agent]).any(is_quarantined) {
            return Err(RejectionCode::AgentQuarantined);
        }
        Ok(())
    }

    /// Counts one answer, once in each row. `tool` is what the call means, or may be a name that was made up.
    pub(crate) fn count(
        &self,
        time: Timestamp,
        refused: Option<RejectionCode>,
        tool: Option<&ToolId>,
        registry: &CapabilityRegistry,
    ) {
        self.session.count(time, refused);
        self.agent.count(time, refused);
        self.stats.overall().count(time, refused);
        let Some(tool) = tool else { return self.stats.unknown_tools().count(time, refused) };
        if let Some(row) = self.disclosed.get(tool) {
            row.count(time, refused);
        } else if registry.current().tool(tool).is_some() {
            self.stats.tool_row(tool).count(time, refused);
        } else {
            self.stats.unknown_tools().count(time, refused);
        }
    }
}
