use std::error::Error;
use std::fmt;

use countersign_core::escape_hidden;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, or allowed.
    Done = 0,
    /// Could not be done.
    Failed = 1,
    /// The command line itself is wrong.
    Usage = 2,
    /// Done, and the answer is no.
    Refused = 3,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
        })
    }
}

/// Why a verb ended without doing what was asked: a stable code, one line for a person, and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: &'static str,
    message: String,
    exit: Exit,
}

impl Failure {
    /// It could not be done (exit 1).
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), exit: Exit::Failed }
    }

    /// The options cannot be meant together (exit 2).
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: "USAGE", message: message.into(), exit: Exit::Usage }
    }

    /// The answer is no (exit 3).
    pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), exit: Exit::Refused }
    }

    /// The same, with what it is about in front: `` `draft.json`: .. ``.
    #[must_use]
    pub(crate) fn about(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("`{what}`: {}", self.message);
        self
    }

    /// The same, as an answer instead of a mishap (exit 3): what was to be verified does not verify.
    #[must_use]
    pub(crate) fn into_refusal(mut self) -> Self {
        self.exit = Exit::Refused;
        self
    }

    pub(crate) const fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    /// The message as one line in which nothing hides, whatever file names and messages below held.
    pub(crate) fn line(&self) -> String {
        one_line(&self.message)
    }
}

/// Takes over code and text of the errors of the crates below.
macro_rules! from_coded {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.code(), chain(&error))
            }
        }
    )+};
}

from_coded!(
    countersign_audit_log::AuditError,
    countersign_audit_log::ReadError,
    countersign_keys::KeyError,
    countersign_keys::RootError,
    countersign_keys::dsse::EnvelopeError,
    countersign_keys::file::KeyFileError,
    countersign_pinned_ask::AskDrift,
    countersign_pinned_ask::PinError,
    countersign_approval_token::ApprovalError,
    countersign_approval_token::MintError,
    countersign_approval_token::PendingError,
    countersign_approval_token::SpendError,
    countersign_registry::ContentError,
    countersign_registry::DefinitionError,
    countersign_registry::DraftError,
    countersign_registry::MarkError,
    countersign_registry::NegotiateError,
    countersign_registry::RegistryError,
    countersign_mcp::GatewayError,
    countersign_mcp::SettingsError,
    countersign_sqlite::OpenError,
    countersign_tool_gate::OpenError,
);

/// An error and its sources in one line: `outer: inner: innermost`.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

/// Text as one line: line ends and blanks in a row become one blank, hidden characters are spelled out.
pub(crate) fn one_line(text: &str) -> String {
    escape_hidden(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}
