use std::error::Error;

use countersign_canonical_json::JsonError;

/// Error of a chat model's set-up or answer. It never holds the key, nor any sent or received text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChatError {
    /// The base URL is neither `https` nor `http` to a loopback address, or has a user, a query or a fragment.
    #[error("a base URL is https, or http to a loopback address, and has no user, query or fragment")]
    Endpoint,
    /// The model's name is empty, too long, or has an invisible character.
    #[error("a model's name has 1 to 256 bytes and nothing hidden")]
    ModelName,
    /// A limit is zero.
    #[error("a limit of zero lets nothing through")]
    Limit,
    /// The environment variable is missing or empty, or the file cannot be read.
    #[error("there is no key where it should be")]
    KeyMissing,
    /// The key is empty, too long, or has a character other than visible ASCII.
    #[error("a key has 1 to 4,096 visible ASCII characters")]
    Key,
    /// No complete answer arrived in time.
    #[error("there was no whole answer in time")]
    Timeout,
    /// The server is unreachable, failed authentication, or closed the connection early.
    #[error("the server cannot be reached or broke off")]
    Transport(#[source] Box<dyn Error + Send + Sync>),
    /// The server's answer is longer than the limit.
    #[error("the server's answer is longer than the limit")]
    TooLarge,
    /// The server answered with a redirect, which is not followed.
    #[error("the server answers with a redirect, status {status}")]
    Redirect {
        /// The HTTP status.
        status: u16,
    },
    /// The server rejects the key.
    #[error("the server does not take the key, status {status}")]
    Unauthorized {
        /// The HTTP status.
        status: u16,
    },
    /// The server limits the request rate.
    #[error("the server is asked too often")]
    Busy,
    /// The server refuses the request.
    #[error("the server refuses the request, status {status}")]
    Refused {
        /// The HTTP status.
        status: u16,
    },
    /// The server failed.
    #[error("the server failed, status {status}")]
    Server {
        /// The HTTP status.
        status: u16,
    },
    /// The answer is not strict JSON.
    #[error("the server's answer is not JSON that can be read in one way only")]
    Json(#[source] JsonError),
    /// The answer has no text in `choices[0].message.content`.
    #[error("the server's answer holds no text")]
    Shape,
    /// The model's answer is incomplete: it ran out of tokens, or was stopped.
    #[error("the model did not come to an end")]
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
