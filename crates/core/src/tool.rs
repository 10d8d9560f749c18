use crate::id::{IdError, string_newtype};

/// Maximum length of a tool or server name, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// Grammar of tool and server names: `[A-Za-z0-9_.\-/]`, 1 to 128 bytes.
fn check_name(what: &'static str, text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { what });
    }
    if text.len() > MAX_NAME_BYTES {
        return Err(IdError::TooLong { what, max: MAX_NAME_BYTES });
    }
    let bad = |b: u8| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/'));
    // why: no early exit, so the loop vectorises.
    if !text.bytes().fold(false, |found, byte| found | bad(byte)) {
        return Ok(());
    }
    let at = text.bytes().position(bad).unwrap_or_default();
    Err(IdError::Character { what, at })
}

string_newtype!(
    /// Name of a tool within its server: `[A-Za-z0-9_.\-/]`, 1 to 128 bytes (MCP 2025-11-25, *Tool names*).
    ToolName, "tool name", check_name);
string_newtype!(
    /// Name of a server, or of the host's own set of tools: `[A-Za-z0-9_.\-/]`, 1 to 128 bytes.
    ServerName, "server name", check_name);

/// A tool's identity: the server's name and the tool's name within it, never one joined string.
///
/// ```
/// use countersign_core::ToolId;
/// let a = ToolId::new("server_", "_tool")?;
/// let b = ToolId::new("server", "__tool")?;
/// assert_ne!(a, b);
/// # Ok::<(), countersign_core::IdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolId {
    server: ServerName,
    name: ToolName,
}

impl ToolId {
    /// Validates both names.
    ///
    /// # Errors
    /// [`IdError`] if either name is outside the grammar.
    pub fn new(server: &str, name: &str) -> Result<Self, IdError> {
        Ok(Self { server: ServerName::new(server)?, name: ToolName::new(name)? })
    }

    /// Combines two validated names.
    #[must_use]
    pub const fn from_names(server: ServerName, name: ToolName) -> Self {
        Self { server, name }
    }

    /// Returns an equal id with texts of its own, as [`ToolName::detached`] does.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { server: self.server.detached(), name: self.name.detached() }
    }

    /// The server's name.
    #[must_use]
    pub const fn server(&self) -> &ServerName {
        &self.server
    }

    /// The tool's name within its server.
    #[must_use]
    pub const fn name(&self) -> &ToolName {
        &self.name
    }
}

/// `server:name`, for people. Neither name can contain a colon.
impl std::fmt::Display for ToolId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.server, self.name)
    }
}
