use std::io::{self, BufWriter, StdoutLock, Write as _};

use serde::Serialize;

use crate::failure::Failure;

/// Standard output. A reader that went away, or a full disk behind it, is an ordinary failure.
#[derive(Debug)]
pub(crate) struct Output {
    to: BufWriter<StdoutLock<'static>>,
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { to: BufWriter::new(io::stdout().lock()), json }
    }

    /// Whether the user asked for JSON.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.to.write_all(bytes).map_err(|error| closed(&error))
    }

    /// Writes one line of text.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes one value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|_| internal("a result is not JSON"))?;
        self.line(&text)
    }

    /// Writes the result in the form that the user asked for.
    pub(crate) fn result(&mut self, value: &impl Serialize, text: &str) -> Result<(), Failure> {
        if self.json { self.json(value) } else { self.line(text) }
    }

    /// Hands everything written so far to the reader.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.to.flush().map_err(|error| closed(&error))
    }
}

/// Writes one line to standard error. Nobody can be told when that fails.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

fn closed(error: &io::Error) -> Failure {
    Failure::new("OUTPUT_CLOSED", format!("standard output cannot be written: {error}"))
}

pub(crate) fn internal(what: &str) -> Failure {
    Failure::new("INTERNAL", what)
}
