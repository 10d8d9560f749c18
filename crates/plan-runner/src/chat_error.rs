use std::error::Error;

use countersign_canonical_json::JsonError;

/// Why a chat model cannot be set up, or gave no answer. Never holds the key, nor anything that was sent or received.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The base URL is not `https`, nor `http` to this machine itself, or has a user, a query or a fragment.
    #[error("a base URL is https, or http to a loopback address, and has no user, query or fragment")]
    Endpoint,
    /// The model's name is empty or too long, or hides a character.
    #[error("a model's name has 1 to 256 bytes and nothing hidden")]
    ModelName,
    /// A limit is zero.
    #[error("a limit of zero lets nothing through")]
    Limit,
    /// The environment has no such variable, or the file cannot be read.
    #[error("there is no key where it should be")]
    KeyMissing,
    /// The key is empty or too long, or holds something else than visible ASCII characters.
    #[error("a key has 1 to 4,096 visible ASCII characters")]
    Key,
    /// There was no whole answer in time.
    #[error("there was no whole answer in time")]
    Timeout,
    /// The server cannot be reached, is not who it should be, or broke off.
    #[error("the server cannot be reached or broke off")]
    Transport(#[source] Box<dyn Error + Send + Sync>),
    /// The server's answer is longer than the limit.
    #[error("the server's answer is longer than the limit")]
    TooLarge,
    /// The server sends the client elsewhere, and it does not go.
    #[error("the server answers with a redirect, status {status}")]
    Redirect {
        /// The HTTP status.
        status: u16,
    },
    /// The server does not take the key.
    #[error("the server does not take the key, status {status}")]
    Unauthorized {
        /// The HTTP status.
        status: u16,
    },
    /// The server is asked too often.
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
    /// The model did not come to an end: it ran out of tokens, or was stopped.
    #[error("the model did not come to an end")]
    Unfinished,
}

impl ChatError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
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
