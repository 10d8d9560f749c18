//! Why a request has no answer.

use countersign_mcp::LostRequest;

/// A request that the server did not answer.
#[derive(Debug)]
pub(crate) struct RemoteFailure {
    pub(crate) how: LostRequest,
    /// For the operator. It repeats nothing that the server sent.
    pub(crate) text: String,
}

impl RemoteFailure {
    /// Of a request that was not sent.
    pub(crate) fn not_sent(text: impl Into<String>) -> Self {
        Self { how: LostRequest::NotSent, text: text.into() }
    }

    /// Of a request that was sent.
    pub(crate) fn no_answer(text: impl Into<String>) -> Self {
        Self { how: LostRequest::NoAnswer, text: text.into() }
    }

    pub(crate) const fn code(&self) -> &'static str {
        match self.how {
            LostRequest::NotSent => "SERVER_UNREACHABLE",
            LostRequest::NoAnswer | _ => "SERVER_NO_ANSWER",
        }
    }
}
