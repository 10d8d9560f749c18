use std::mem;
use std::sync::Arc;

use countersign_audit_log::KnownTool;
use countersign_core::ToolId;
use parking_lot::RwLock;

use crate::counts::Counts;
use crate::metrics::AnswerMetrics;

/// Tools that one session has used, by server and name. The contracts of the session bound their number.
#[derive(Debug, Default)]
pub(crate) struct UsedTools(RwLock<Box<[Arc<UsedTool>]>>);

/// A tool that the session has used, with the rows in which its calls are counted.
#[derive(Debug)]
pub(crate) struct UsedTool {
    /// Shares no reference count with the registry, whose texts all sessions read.
    pub(crate) id: ToolId,
    /// The tool as its calls are recorded.
    pub(crate) recorded: KnownTool,
    pub(crate) counts: Arc<Counts>,
    pub(crate) metrics: Arc<AnswerMetrics>,
}

impl UsedTool {
    pub(crate) fn new(id: ToolId, counts: Arc<Counts>, metrics: Arc<AnswerMetrics>) -> Self {
        Self { recorded: KnownTool::new(&id), id, counts, metrics }
    }

    fn names(&self) -> (&str, &str) {
        (self.id.server().as_str(), self.id.name().as_str())
    }
}

impl UsedTools {
    /// Returns the tool with these names.
    pub(crate) fn find(&self, server: &str, name: &str) -> Option<Arc<UsedTool>> {
        let tools = self.0.read();
        let place = tools.binary_search_by(|tool| tool.names().cmp(&(server, name))).ok()?;
        tools.get(place).map(Arc::clone)
    }

    /// Returns a tool of this name on any server.
    pub(crate) fn find_name(&self, name: &str) -> Option<Arc<UsedTool>> {
        self.0.read().iter().find(|tool| tool.id.name().as_str() == name).map(Arc::clone)
    }

    /// Adds a tool, and returns it or the one that was added before.
    pub(crate) fn add(&self, tool: UsedTool) -> Arc<UsedTool> {
        let mut tools = self.0.write();
        match tools.binary_search_by(|other| other.names().cmp(&tool.names())) {
            Ok(place) => tools.get(place).map(Arc::clone).unwrap_or_else(|| Arc::new(tool)),
            Err(place) => {
                let tool = Arc::new(tool);
                let mut more = mem::take(&mut *tools).into_vec();
                more.insert(place, Arc::clone(&tool));
                *tools = more.into();
                tool
            }
        }
    }
}
