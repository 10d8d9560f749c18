use std::error::Error;

use countersign_canonical_json::Canonical;
use countersign_core::ToolId;

/// Error of a tool.
#[derive(Debug, thiserror::Error)]
#[error("the tool failed")]
pub struct ToolError {
    source: Box<dyn Error + Send + Sync>,
}

impl ToolError {
    /// Wraps the cause.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: source.into() }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "TOOL_FAILED"
    }
}

countersign_core::coded!(ToolError);

/// Runs the tools. Called only for calls that the gate has accepted, once for each.
///
/// ```
/// use countersign_canonical_json::Canonical;
/// use countersign_core::ToolId;
/// use countersign_plan_runner::{ToolError, Tools};
/// struct Files(std::path::PathBuf);
/// impl Tools for Files {
///     fn run(&mut self, tool: &ToolId, args: &Canonical) -> Result<Vec<u8>, ToolError> {
///         match tool.name().as_str() {
///             "read" => {
///                 let name = args.value().get("name").and_then(|name| name.as_str()).unwrap_or_default();
///                 std::fs::read(self.0.join(name)).map_err(ToolError::new)
///             }
///             _ => Err(ToolError::new("no such tool")),
///         }
///     }
/// }
/// ```
pub trait Tools {
    /// Runs one call with the arguments that the gate has checked, and returns its result.
    ///
    /// # Errors
    /// [`ToolError`] if the tool failed; the run then ends.
    fn run(&mut self, tool: &ToolId, args: &Canonical) -> Result<Vec<u8>, ToolError>;
}
