use std::fmt;

use countersign_host::error::{ErrorKind, HostError};
pub(crate) use countersign_host::error::{chain, one_line};
use countersign_host::interrupt::EndSignal;

/// Outcome of the process, as an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, or allowed.
    Done,
    /// Could not be done.
    Failed,
    /// Wrong command line.
    Usage,
    /// Completed; the answer is a refusal.
    Refused,
    /// An action proposal violates its schema. This code and the two below are PIC/1.0's own, for its verbs only.
    Schema,
    /// An action proposal's evidence is missing or does not verify.
    Evidence,
    /// A keyring for evidence is unusable.
    Keyring,
    /// Ended in order after a signal: 128 plus its number.
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

/// Reason why a verb did not succeed: a stable code, one line for a person, and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: &'static str,
    message: String,
    exit: Exit,
}

impl Failure {
    /// An operation that could not be done (exit 1).
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), exit: Exit::Failed }
    }

    /// Names the option that replaces a file, if one that exists was in the way.
    pub(crate) fn naming_force(mut self) -> Self {
        if self.code == "FILE_EXISTS" {
            self.message.push_str(" (--force replaces it)");
        }
        self
    }

    /// Options that contradict each other (exit 2).
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { code: "USAGE", message: message.into(), exit: Exit::Usage }
    }

    /// A refusal (exit 3).
    pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), exit: Exit::Refused }
    }

    /// Puts the subject in front of the message: `` `draft.json`: .. ``.
    #[must_use]
    pub(crate) fn about(mut self, what: impl fmt::Display) -> Self {
        self.message = format!("`{what}`: {}", self.message);
        self
    }

    /// Turns the error into a refusal (exit 3): the subject does not verify.
    #[must_use]
    pub(crate) const fn into_refusal(self) -> Self {
        self.ending(Exit::Refused)
    }

    /// Sets the exit code.
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

    /// Returns the message unescaped; the caller must escape it.
    #[cfg(feature = "witness")]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the message on one line with invisible characters escaped, whatever file names it contains.
    pub(crate) fn line(&self) -> String {
        one_line(&self.message)
    }
}

/// Converts an error of the host, and through it each error with a code.
impl<E> From<E> for Failure
where
    HostError: From<E>,
{
    fn from(error: E) -> Self {
        let error = HostError::from(error);
        let exit = match error.kind() {
            ErrorKind::Usage => Exit::Usage,
            ErrorKind::Refused => Exit::Refused,
            ErrorKind::Interrupted(status) => Exit::Signal(status),
            ErrorKind::Failed | _ => Exit::Failed,
        };
        Self { code: error.code(), message: error.message().to_owned(), exit }
    }
}

impl From<EndSignal> for Exit {
    fn from(signal: EndSignal) -> Self {
        Self::Signal(signal.status())
    }
}
