use std::collections::BTreeMap;

use countersign_canonical_json::{Recipe, ValueRef, read};
use countersign_core::{Digest, ServerName, ToolName};
use serde::Deserialize as _;
use serde_json::Value;

use crate::content::{ContentError, ContentProblem};
use crate::definition::{DefinitionError, definition_digest};
use crate::present::present;
use crate::wire::json_limits;

/// Longest instructions of a server, in bytes.
const MAX_INSTRUCTIONS: usize = 64 << 10;

/// Members of a tool's definition beside its name.
const MEMBERS: [&str; 5] = ["annotations", "description", "inputSchema", "outputSchema", "title"];

/// Tool as its server lists it, for the person who signs: title, description, annotations and both schemas.
///
/// It has no effect on decisions. In an entry with a pinned definition it must have the pinned digest.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "BTreeMap<String, Value>", into = "BTreeMap<String, Value>")]
pub struct ListedTool {
    members: BTreeMap<String, Value>,
}

impl ListedTool {
    /// Takes the covered members of a tool's definition.
    ///
    /// # Errors
    /// [`DefinitionError`], as [`definition_digest`].
    pub fn of(tool: ValueRef<'_>) -> Result<Self, DefinitionError> {
        definition_digest(tool)?;
        let member = |name: &str| Some((name.to_owned(), Value::deserialize(tool.get(name)?)));
        let mut members = BTreeMap::new();
        for (name, value) in MEMBERS.into_iter().filter_map(member) {
            members.insert(name, value.map_err(|_| DefinitionError::Inexact)?);
        }
        Ok(Self { members })
    }

    /// Member as JSON: `title`, `description`, `annotations`, `inputSchema` or `outputSchema`.
    #[must_use]
    pub fn get(&self, member: &str) -> Option<&Value> {
        self.members.get(member)
    }

    /// Digest of the definition of a tool with this name.
    pub(crate) fn definition(&self, name: &ToolName) -> Result<Digest, ContentError> {
        let name = ("name", Value::from(name.as_str()));
        let members = self.members.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let text = Value::from_iter(members.chain([name])).to_string();
        let shape = |text: String| ContentError::new("/as_listed", ContentProblem::Shape(text));
        let tool =
            read(text.as_bytes(), Recipe::Jcs1, &json_limits()).map_err(|error| shape(error.to_string()))?;
        definition_digest(tool.value()).map_err(|error| shape(error.to_string()))
    }
}

impl TryFrom<BTreeMap<String, Value>> for ListedTool {
    type Error = String;

    fn try_from(members: BTreeMap<String, Value>) -> Result<Self, String> {
        match members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
            Some(other) => Err(format!("unknown field `{other}`")),
            None => Ok(Self { members }),
        }
    }
}

impl From<ListedTool> for BTreeMap<String, Value> {
    fn from(tool: ListedTool) -> Self {
        tool.members
    }
}

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
    /// Starts an entry without instructions and info.
    #[must_use]
    pub const fn new(server: ServerName) -> Self {
        Self { server, instructions: None, info: None }
    }

    /// Pins the server's instructions, verbatim.
    #[must_use]
    pub fn with_instructions(mut self, instructions: &str) -> Self {
        self.instructions = Some(instructions.to_owned());
        self
    }

    /// Adds the server's `serverInfo`, an object. It has no effect on decisions.
    #[must_use]
    pub fn with_info(mut self, info: Value) -> Self {
        self.info = Some(info);
        self
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
