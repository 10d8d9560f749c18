//! Needs of a tool that a gateway announces before a call.

use countersign_core::ToolId;

use crate::gate::ToolGate;
use crate::steps::evidence::came_without_proposal;

impl ToolGate {
    /// Returns `true` if a call of this tool is refused without an action proposal: the tool's rule, its impact or the policy
    /// requires one.
    #[must_use]
    pub fn requires_proposal(&self, tool: &ToolId) -> bool {
        let terms = &self.parts().terms;
        let (Some(settings), view) = (&terms.proposals, terms.registry.view()) else { return false };
        let Some(rules) = view.snapshot().tool(tool) else { return false };
        let by_policy = settings.verifier.policy().impact_of(tool.name().as_str());
        let mut impacts = std::iter::once(rules.entry().impact()).chain(by_policy);
        came_without_proposal(rules, impacts.any(|impact| settings.verifier.requires_proposal(impact)))
            .is_err()
    }
}
