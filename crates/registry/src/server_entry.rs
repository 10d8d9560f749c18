use countersign_core::ServerName;
use serde_json::Value;

use crate::content::{ContentError, ContentProblem};
use crate::fields::present;

/// Longest instructions of a server, in bytes.
const MAX_INSTRUCTIONS: usize = 64 << 10;

/// Registry entry of a server: the instructions that its clients may get, and its name and version for the person who
/// signs.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerEntry {
    server: ServerName,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    info: Option<Value>,
}

impl ServerEntry {
    /// Creates an entry. The server's instructions are pinned verbatim. Its `serverInfo`, an object, has no effect on
    /// decisions.
    #[must_use]
    pub const fn new(server: ServerName, instructions: Option<String>, info: Option<Value>) -> Self {
        Self { server, instructions, info }
    }

    /// Name of the server.
    #[must_use]
    pub const fn server(&self) -> &ServerName {
        &self.server
    }

    /// Instructions that the server's clients may get; `None` if they get none.
    #[must_use]
    pub fn instructions(&self) -> Option<&str> {
        self.instructions.as_deref()
    }

    /// `serverInfo` of the server when the registry was drafted.
    #[must_use]
    pub const fn info(&self) -> Option<&Value> {
        self.info.as_ref()
    }

    pub(crate) fn check(&self) -> Result<(), ContentError> {
        if self.instructions.as_ref().is_some_and(|text| text.len() > MAX_INSTRUCTIONS) {
            let problem = ContentProblem::TooMany { what: "bytes of instructions", max: MAX_INSTRUCTIONS };
            return Err(ContentError::new("/instructions", problem));
        }
        if self.info.as_ref().is_some_and(|info| !info.is_object()) {
            return Err(ContentError::new("/info", ContentProblem::Shape("not an object".to_owned())));
        }
        Ok(())
    }
}
