/// Why a configuration of a client is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientFileError {
    /// The file is not what the client reads.
    #[error("not a configuration of MCP servers: {0}")]
    Malformed(String),
    /// An entry has a member twice, so that two readers may see two servers.
    #[error("server `{0}` has a member twice, or there are two servers of that name")]
    Twice(String),
    /// The file has no server of that name, or none with a command.
    #[error("no server `{0}` with a command")]
    NoServer(String),
    /// The text of an entry by URL before `wrap` is unknown, or a person changed what `wrap` wrote.
    #[error("the entry of server `{0}` before `wrap` is unknown: write its URL by hand")]
    NoOriginal(String),
}

impl ClientFileError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "CLIENT_FILE_MALFORMED",
            Self::Twice(_) => "CLIENT_FILE_TWICE",
            Self::NoServer(_) => "CLIENT_FILE_SERVER",
            Self::NoOriginal(_) => "CLIENT_FILE_ORIGINAL",
        }
    }
}

countersign_core::coded!(ClientFileError);
