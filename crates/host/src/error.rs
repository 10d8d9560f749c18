//! The error of this crate: a stable code, one line for a person, and what kind of end it means.

use std::error::Error;
use std::fmt;

pub use countersign_core::error_chain as chain;
use countersign_core::{Coded, escape_hidden};

/// What an error means for a program that ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// It could not be done.
    Failed,
    /// Settings contradict each other.
    Usage,
    /// An input does not verify, or is not allowed.
    Refused,
    /// A signal came. Holds the exit status of a process that the signal ended.
    Interrupted(u8),
}

/// Why a session or a part of it cannot be opened, kept or ended.
#[derive(Debug)]
pub struct HostError {
    code: &'static str,
    message: String,
    kind: ErrorKind,
}

impl HostError {
    /// Makes an error of the kind [`ErrorKind::Failed`].
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), kind: ErrorKind::Failed }
    }

    /// Makes an error of the kind [`ErrorKind::Usage`].
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: "USAGE", message: message.into(), kind: ErrorKind::Usage }
    }

    /// Makes an error of the kind [`ErrorKind::Refused`].
    #[must_use]
    pub fn refused(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), kind: ErrorKind::Refused }
    }

    /// Makes the error of a fault that no input should cause.
    #[must_use]
    pub fn internal(message: &str) -> Self {
        Self::new("INTERNAL", message)
    }

    pub(crate) fn interrupted(message: String, status: u8) -> Self {
        Self { code: "INTERRUPTED", message, kind: ErrorKind::Interrupted(status) }
    }

    /// Puts the subject in front of the message: `` `draft.json`: .. ``.
    #[must_use]
    pub fn about(mut self, subject: impl fmt::Display) -> Self {
        self.message = format!("`{subject}`: {}", self.message);
        self
    }

    /// Sets the kind to [`ErrorKind::Refused`]: the subject does not verify.
    #[must_use]
    pub const fn into_refusal(mut self) -> Self {
        self.kind = ErrorKind::Refused;
        self
    }

    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the message unescaped; the caller must escape it.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the message on one line with invisible characters escaped, whatever file names it contains.
    #[must_use]
    pub fn line(&self) -> String {
        one_line(&self.message)
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line())
    }
}

impl Error for HostError {}

/// Keeps the code of an error, and its text with that of its sources.
impl<E: Coded + Error> From<E> for HostError {
    fn from(error: E) -> Self {
        Self::new(error.code(), chain(&error))
    }
}

/// Joins text into one line: each run of whitespace becomes one space, invisible characters are escaped.
#[must_use]
pub fn one_line(text: &str) -> String {
    escape_hidden(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}
