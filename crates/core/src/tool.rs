use crate::id::{IdError, string_newtype};

/// The longest tool or server name, in bytes.
const MAX_NAME_BYTES: usize = 128;

/// The grammar of tool and server names: `[A-Za-z0-9_.\-/]`, 1 to 128 bytes.
fn check_name(what: &'static str, text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { what });
    }
    if text.len() > MAX_NAME_BYTES {
        return Err(IdError::TooLong { what, max: MAX_NAME_BYTES });
    }
    let bad = |b: u8| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/'));
    match text.bytes().position(bad) {
        Some(at) => Err(IdError::Character { what, at }),
        None => Ok(()),
    }
}

string_newtype!(
    /// Names a tool within its server: `[A-Za-z0-9_.\-/]`, 1 to 128 bytes (MCP 2025-11-25, *Tool names*).
    ToolName, "tool name", check_name);
string_newtype!(
    /// Names a server, or the host's own set of tools: `[A-Za-z0-9_.\-/]`, 1 to 128 bytes.
    ServerName, "server name", check_name);

/// Identifies a tool: a server's name and a name within that server, never one joined string.
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
    /// Reads and checks both names.
    ///
    /// # Errors
    /// [`IdError`] when either name is outside the grammar.
    pub fn new(server: &str, name: &str) -> Result<Self, IdError> {
        Ok(Self { server: ServerName::new(server)?, name: ToolName::new(name)? })
    }

    /// Joins two names that were checked already.
    #[must_use]
    pub const fn from_names(server: ServerName, name: ToolName) -> Self {
        Self { server, name }
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

/// Writes `server:name`, for people to read; neither name can hold a colon.
impl std::fmt::Display for ToolId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.server, self.name)
    }
}
