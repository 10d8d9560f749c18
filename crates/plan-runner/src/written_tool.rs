use std::fmt;

use countersign_core::{IdError, ServerName, ToolId, ToolName};
use countersign_registry::SessionContract;

/// A tool's name as a model writes it: `name` or `server:name`.
///
/// ```
/// use countersign_plan_runner::WrittenTool;
/// let tool: WrittenTool = "mail:send".parse()?;
/// assert_eq!((tool.server().map(|server| server.as_str()), tool.name().as_str()), (Some("mail"), "send"));
/// assert_eq!("send".parse::<WrittenTool>()?.to_string(), "send");
/// # Ok::<(), countersign_core::IdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenTool {
    server: Option<ServerName>,
    name: ToolName,
}

impl WrittenTool {
    /// The server, if the model named one.
    #[must_use]
    pub const fn server(&self) -> Option<&ServerName> {
        self.server.as_ref()
    }

    /// The tool's name within its server.
    #[must_use]
    pub const fn name(&self) -> &ToolName {
        &self.name
    }

    /// Resolves the tool. Without a server, it is the one tool of that name that the session discloses; if several
    /// servers have one, the result is `None`.
    pub(crate) fn resolve(&self, contract: &SessionContract) -> Option<ToolId> {
        if let Some(server) = &self.server {
            return Some(ToolId::from_names(server.clone(), self.name.clone()));
        }
        let mut tools = contract.tools().iter().filter(|tool| *tool.name() == self.name);
        let found = tools.next()?;
        if tools.next().is_some() { None } else { Some(found.clone()) }
    }
}

impl std::str::FromStr for WrittenTool {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (server, name) = match text.split_once(':') {
            Some((server, name)) => (Some(ServerName::new(server)?), name),
            None => (None, text),
        };
        Ok(Self { server, name: ToolName::new(name)? })
    }
}

impl fmt::Display for WrittenTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) => write!(f, "{server}:{}", self.name),
            None => self.name.fmt(f),
        }
    }
}
