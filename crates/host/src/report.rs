//! Lines for the operator.

use std::fmt;
use std::sync::Arc;

use crate::error::HostError;

/// Receives lines for the operator, such as warnings, also from background threads. Clones share the receiver.
#[derive(Clone)]
pub struct Reporter(Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter").finish_non_exhaustive()
    }
}

impl Reporter {
    /// Makes a reporter that passes each line, without its line end, to `receive`. It must not block for long.
    #[must_use]
    pub fn new(receive: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(receive))
    }

    /// Reports one line.
    pub fn note(&self, line: &str) {
        (self.0)(line);
    }

    /// Reports a warning: `warning CODE: text`.
    pub fn warn(&self, code: &str, text: &str) {
        self.note(&format!("warning {code}: {text}"));
    }

    /// Reports an error as a warning.
    pub fn warn_of(&self, error: &HostError) {
        self.warn(error.code(), &error.line());
    }
}
