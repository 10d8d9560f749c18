use std::sync::Arc;

use countersign::audit_log::AuditSink;
use countersign::tool_gate::ToolGateBuilder;
use countersign_testing::{TestRegistry, TestTool, World};

/// A gate over a registry with one agent and one harmless tool.
pub(crate) fn gate(sink: Arc<dyn AuditSink>) -> ToolGateBuilder {
    World::of(&TestRegistry::of([TestTool::read("search")])).bare_with(sink)
}
