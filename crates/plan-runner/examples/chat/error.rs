use std::error::Error;

use countersign_canonical_json::JsonError;

/// Error of a chat model's set-up or answer. It never holds the key, nor any sent or received text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChatError {
    /// The base URL is neither `https` nor `http` to a loopback address, or has a user, a query or a fragment.
    #[error(
        "invalid base URL: https, or http to a loopback address, without user, query or fragment expected"
    )]
    Endpoint,
    /// The model's name is empty, too long, or has an invisible character.
    #[error("invalid model name: 1 to 256 bytes without invisible characters expected")]
    ModelName,
    /// A limit is zero.
    #[error("limit is zero")]
    Limit,
    /// The environment variable is missing or empty, or the file cannot be read.
    #[error("API key not found")]
    KeyMissing,
    /// The key is empty, too long, or has a character other than visible ASCII.
    #[error("invalid API key: 1 to 4,096 visible ASCII characters expected")]
    Key,
    /// No complete answer arrived in time.
    #[error("timeout: no complete response from the server")]
    Timeout,
    /// The server is unreachable, failed authentication, or closed the connection early.
    #[error("server unreachable or connection lost")]
    Transport(#[source] Box<dyn Error + Send + Sync>),
    /// The server's answer is longer than the limit.
    #[error("response too large: over the limit")]
    TooLarge,
    /// The server answered with a redirect, which is not followed.
    #[error("redirect not followed: status {status}")]
    Redirect {
        /// The HTTP status.
        status: u16,
    },
    /// The server rejects the key.
    #[error("API key rejected by the server: status {status}")]
    Unauthorized {
        /// The HTTP status.
        status: u16,
    },
    /// The server limits the request rate.
    #[error("rate limit of the server reached")]
    Busy,
    /// The server refuses the request.
    #[error("request rejected by the server: status {status}")]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The server failed.
    #[error("server error: status {status}")]
    Server {
        /// The HTTP status.
        status: u16,
    },
    /// The answer is not strict JSON.
    #[error("the server's response is not strict JSON")]
    Json(#[source] JsonError),
    /// The answer has no text in `choices[0].message.content`.
    #[error("no text in the server's response")]
    Shape,
    /// The model's answer is incomplete: it ran out of tokens, or was stopped.
    #[error("response incomplete: the model did not finish")]
    Unfinished,
}

impl ChatError {
    /// The stable code.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Endpoint => "CHAT_ENDPOINT",
            Self::ModelName => "CHAT_MODEL_NAME",
            Self::Limit => "CHAT_LIMIT",
            Self::KeyMissing => "CHAT_KEY_MISSING",
            Self::Key => "CHAT_KEY",
            Self::Timeout => "CHAT_TIMEOUT",
            Self::Transport(_) => "CHAT_TRANSPORT",
            Self::TooLarge => "CHAT_TOO_LARGE",
            Self::Redirect { .. } => "CHAT_REDIRECT",
            Self::Unauthorized { .. } => "CHAT_UNAUTHORIZED",
            Self::Busy => "CHAT_BUSY",
            Self::Refused { .. } => "CHAT_REFUSED",
            Self::Server { .. } => "CHAT_SERVER",
            Self::Json(_) => "CHAT_JSON",
            Self::Shape => "CHAT_SHAPE",
            Self::Unfinished => "CHAT_UNFINISHED",
        }
    }
}
