use std::fmt;

pub(crate) use countersign_core::error_chain as chain;
use countersign_core::escape_hidden;

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, or allowed.
    Done,
    /// Could not be done.
    Failed,
    /// The command line itself is wrong.
    Usage,
    /// Done, and the answer is no.
    Refused,
    /// An action proposal is not of its schema. This and the two below are PIC/1.0's own, for its verbs alone.
    Schema,
    /// An action proposal's evidence is missing or does not verify.
    Evidence,
    /// A keyring for evidence cannot be used.
    Keyring,
    /// Ended in order by a signal: 128 and its number.
    Signal(u8),
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage | Exit::Schema => 2,
            Exit::Refused => 3,
            Exit::Evidence => 4,
            Exit::Keyring => 6,
            Exit::Signal(status) => status,
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
    pub(crate) const fn into_refusal(self) -> Self {
        self.ending(Exit::Refused)
    }

    /// The same, ending otherwise.
    #[must_use]
    pub(crate) const fn ending(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    pub(crate) const fn code(&self) -> &'static str {
        self.code
    }

    pub(crate) const fn exit(&self) -> Exit {
        self.exit
    }

    /// The message as it is, for who shows it with care.
    pub(crate) fn message(&self) -> &str {
        &self.message
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
    countersign_action_proposal::AttestError,
    countersign_action_proposal::EndorsementError,
    countersign_action_proposal::KeyringError,
    countersign_action_proposal::PolicyError,
    countersign_action_proposal::VerifierError,
    countersign_audit_log::ArchiveError,
    countersign_audit_log::AuditError,
    countersign_audit_log::ClosingError,
    countersign_audit_log::LogError,
    countersign_audit_log::LogStateError,
    countersign_audit_log::ReceiptError,
    countersign_audit_log::RetireError,
    countersign_keys::KeyError,
    countersign_keys::RootError,
    countersign_keys::dsse::EnvelopeError,
    countersign_keys::file::KeyFileError,
    countersign_keys::note::VerifierKeyError,
    countersign_pinned_ask::AskDrift,
    countersign_pinned_ask::PinError,
    countersign_approval_token::ApprovalError,
    countersign_approval_token::MintError,
    countersign_approval_token::PendingError,
    countersign_core::SpendError,
    countersign_registry::ContentError,
    countersign_registry::DefinitionError,
    countersign_registry::DraftError,
    countersign_registry::MarkError,
    countersign_registry::NegotiateError,
    countersign_registry::RegistryError,
    countersign_mcp::GatewayError,
    countersign_mcp::SettingsError,
    countersign_sqlite::OpenError,
    countersign_tool_gate::AlarmRuleError,
    countersign_tool_gate::OpenError,
    countersign_tool_gate::QuarantineError,
);

/// Text as one line: line ends and blanks in a row become one blank, hidden characters are spelled out.
pub(crate) fn one_line(text: &str) -> String {
    escape_hidden(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}
