use std::io::{self, BufWriter, IsTerminal as _, Stdout, Write as _};

use serde::Serialize;
use serde_json::json;

use countersign_host::interrupt::Interrupt;
use countersign_host::report::Reporter;

use crate::failure::{Exit, Failure};
use crate::look::painted;

/// Standard output. A closed pipe and a full disk are ordinary failures.
#[derive(Debug)]
pub(crate) struct Output {
    // Not locked: a verb may pass standard output to a protocol.
    to: BufWriter<Stdout>,
    json: bool,
    protocol: bool,
    reader: OutputReader,
}

/// State of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputReader {
    /// Must receive everything: a broken pipe is an error.
    Needed,
    /// May close the pipe once it has read enough.
    Looking,
    /// Has closed the pipe early, as it may.
    Gone,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { to: BufWriter::new(io::stdout()), json, protocol: false, reader: OutputReader::Needed }
    }

    /// Returns `true` if the user asked for JSON.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Runs a verb that only displays something. If the reader closes the pipe early, as `head` does, the verb ends
    /// without a failure.
    pub(crate) fn show(
        &mut self,
        show: impl FnOnce(&mut Self) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        self.reader = OutputReader::Looking;
        let ended = show(self).and_then(|exit| self.flush().map(|()| exit));
        if self.reader == OutputReader::Gone { Ok(Exit::Done) } else { ended }
    }

    /// Reserves standard output for a protocol: from here on errors go to standard error in either form.
    pub(crate) const fn leave_to_protocol(&mut self) {
        self.protocol = true;
    }

    /// Prints a failure in the requested format. A failure to print it is ignored.
    pub(crate) fn fail(&mut self, code: &str, message: &str) {
        let plain = format!("error {code}: {message}");
        if !self.json {
            return note(&plain);
        }
        let report = json!({"ok": false, "error": {"code": code, "message": message}});
        if self.protocol {
            note(&report.to_string());
        } else if self.json(&report).and_then(|()| self.flush()).is_err() {
            note(&plain);
        }
    }

    /// Writes raw bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.to.write_all(bytes);
        self.written(written)
    }

    /// Writes one line of text.
    pub(crate) fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes one line of text whose first word says how bad it is.
    pub(crate) fn leveled(&mut self, text: &str) -> Result<(), Failure> {
        let line = painted(text, &io::stdout());
        self.line(&line)
    }

    /// Writes a value as one line of JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|_| internal("a result is not JSON"))?;
        self.line(&text)
    }

    /// Writes the result in the requested format.
    pub(crate) fn result(&mut self, value: &impl Serialize, text: &str) -> Result<(), Failure> {
        if self.json { self.json(value) } else { self.line(text) }
    }

    /// Flushes the buffer, unless standard output is reserved for a protocol.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        if self.protocol {
            // A thread blocked on a peer that does not read may hold standard output forever.
            return Ok(());
        }
        if self.reader == OutputReader::Gone {
            return Ok(());
        }
        let written = self.to.flush();
        self.written(written)
    }

    fn written(&mut self, written: io::Result<()>) -> Result<(), Failure> {
        written.map_err(|error| {
            if self.reader == OutputReader::Looking && error.kind() == io::ErrorKind::BrokenPipe {
                self.reader = OutputReader::Gone;
            }
            closed(&error)
        })
    }
}

/// Writes one line to standard error. A failure is ignored.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", painted(text, &io::stderr()));
}

/// Returns the reporter of this program: it writes to standard error.
pub(crate) fn reporter() -> Reporter {
    Reporter::new(note)
}

/// Handles the signals that end the program.
pub(crate) fn watch_signals() -> Result<Interrupt, Failure> {
    Ok(Interrupt::watch(|signal| std::process::exit(signal.status().into()))?)
}

pub(crate) fn closed(error: &io::Error) -> Failure {
    Failure::new("OUTPUT_CLOSED", format!("standard output cannot be written: {error}"))
}

pub(crate) fn internal(what: &str) -> Failure {
    Failure::new("INTERNAL", what)
}

/// Asks a person at the terminal and returns the typed line. The question goes to standard error, because standard
/// output is for the result.
///
/// # Errors
/// `NOT_A_TERMINAL` if standard input is not a terminal, or if reading or writing fails.
pub(crate) fn ask_at_terminal(question: &str) -> Result<String, Failure> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::new("NOT_A_TERMINAL", "no terminal to ask on: use a terminal, or --yes"));
    }
    let mut screen = io::stderr().lock();
    let mut answer = String::new();
    write!(screen, "{question}")
        .and_then(|()| screen.flush())
        .and_then(|()| stdin.read_line(&mut answer))
        .map_err(|error| Failure::new("NOT_A_TERMINAL", error.to_string()))?;
    Ok(answer)
}

/// Formats a count with its noun in the singular or plural.
pub(crate) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}
