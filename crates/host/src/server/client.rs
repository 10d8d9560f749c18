use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::Duration;

use countersign_canonical_json::{Canonical, Kind, Limits, Recipe, ValueRef, read};
use countersign_core::{Millis, ToolName};
use serde_json::json;

use crate::error::HostError;
use crate::inputs::malformed;
use crate::interrupt::{DRAIN, Interrupt};
use crate::lines::{Line, next_line};
use crate::server_part::EraName;

/// Most bytes of a line from a server.
const LINE_BYTES: usize = 16 << 20;
/// Most messages that a server may send before its answer.
const MAX_MESSAGES: usize = 1_000;
/// Most pages of a list to request.
const MAX_PAGES: usize = 256;
/// Most lists of tools to request until one stays the same.
const MAX_LISTS: usize = 8;
/// Most characters of a server's own text to display.
const SHOWN_CHARS: usize = 200;
/// Interval at which a wait for an answer checks for signals.
const PAUSE: Duration = Duration::from_millis(20);
/// Protocol revision that the client offers.
const REVISION: &str = "2025-11-25";
/// Revision of the stateless era, for servers that make no handshake.
const STATELESS: &str = "2026-07-28";
/// Errors with which such a server refuses `initialize`: the method, its params, its headers, the revision (MCP 2026-07-28, *Versioning and
/// Compatibility*).
const NO_HANDSHAKE: [i64; 4] = [-32601, -32602, -32020, -32022];

/// An MCP client of one server, with one request at a time.
#[derive(Debug)]
pub struct Client {
    to: Sender<String>,
    from: Receiver<Result<Canonical, HostError>>,
    wait: Duration,
    interrupt: Interrupt,
    next_id: u64,
    tools_changed: bool,
    /// Metadata of each request to a server of the stateless era, as JSON.
    metadata: Option<String>,
}

/// Result of an answered call.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "two or three cases, each handled everywhere")]
pub enum CallEnd {
    /// The result, as canonical JSON.
    Returned(Vec<u8>),
    /// The server answered with an error, or the result is marked as one.
    Failed,
}

impl Client {
    /// Makes a client of the server that reads `to` and writes `from`. Each answer may take `wait`.
    #[must_use]
    pub fn new(
        mut to: impl Write + Send + 'static,
        from: impl Read + Send + 'static,
        wait: Millis,
        interrupt: Interrupt,
    ) -> Self {
        // A thread writes, so that a server that does not read cannot block longer than the time limit of its answers.
        // The thread and the server's input end with the client.
        let (lines, waiting) = channel::<String>();
        std::thread::spawn(move || {
            for line in waiting {
                if writeln!(to, "{line}").and_then(|()| to.flush()).is_err() {
                    break;
                }
            }
        });
        // A thread reads, so that a wait can end. It ends with the server's output.
        let (sender, receiver) = sync_channel(16);
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            while let Some(message) = next_message(&mut from) {
                if sender.send(message).is_err() {
                    break;
                }
            }
        });
        let wait = Duration::from_millis(wait.as_millis());
        Self { to: lines, from: receiver, wait, interrupt, next_id: 1, tools_changed: false, metadata: None }
    }

    /// Initializes the session and returns the server's answer. The client declares no capability. A server of the stateless era is
    /// discovered, and its answer has the form of that to `initialize`: with [`EraName::Stateless`] at once, with [`EraName::Auto`]
    /// once it has refused `initialize`, and with [`EraName::Handshake`] never.
    ///
    /// # Errors
    /// `SERVER_ENDED`, `SERVER_TIMEOUT`, `SERVER_ANSWER`, `INTERRUPTED`.
    pub fn initialize(&mut self, era: EraName) -> Result<Canonical, HostError> {
        self.initialize_with(era, &json!({}))
    }

    /// Initializes a session that only lists tools. The client declares all capabilities of its revision, since some servers offer
    /// some tools to such clients alone. It answers requests for roots with an empty list, and refuses all others.
    ///
    /// # Errors
    /// `SERVER_ENDED`, `SERVER_TIMEOUT`, `SERVER_ANSWER`, `INTERRUPTED`.
    pub fn initialize_to_list(&mut self, era: EraName) -> Result<Canonical, HostError> {
        self.initialize_with(
            era,
            &json!({
                "roots": {"listChanged": true},
                "sampling": {"context": {}, "tools": {}},
                "elicitation": {"form": {}, "url": {}},
            }),
        )
    }

    fn initialize_with(
        &mut self,
        era: EraName,
        capabilities: &serde_json::Value,
    ) -> Result<Canonical, HostError> {
        if era == EraName::Stateless {
            return match self.discover(capabilities)? {
                Some(discovered) => Ok(discovered),
                None => Err(answered_badly("no answer to `server/discover` that names revision 2026-07-28")),
            };
        }
        let params = json!({
            "protocolVersion": REVISION,
            "capabilities": capabilities,
            "clientInfo": {"name": "countersign", "version": env!("CARGO_PKG_VERSION")},
        });
        let answer = self.ask("initialize", &params.to_string())?;
        let code = answer.value().pointer("/error/code").and_then(ValueRef::as_i64);
        if era == EraName::Auto
            && code.is_some_and(|code| NO_HANDSHAKE.contains(&code))
            && let Some(discovered) = self.discover(capabilities)?
        {
            return Ok(discovered);
        }
        let answer = with_result("initialize", answer)?;
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string())?;
        Ok(answer)
    }

    /// Asks a server that refused `initialize` whether it is of the stateless era. Returns `None` if it is of neither.
    fn discover(&mut self, capabilities: &serde_json::Value) -> Result<Option<Canonical>, HostError> {
        let metadata = json!({
            "io.modelcontextprotocol/protocolVersion": STATELESS,
            "io.modelcontextprotocol/clientInfo": {"name": "countersign", "version": env!("CARGO_PKG_VERSION")},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        self.metadata = Some(metadata.to_string());
        let answer = self.ask("server/discover", "{}")?;
        let result = answer.value().get("result");
        let versions = result.and_then(|result| result.get("supportedVersions"));
        let speaks = |versions: ValueRef<'_>| versions.elements().any(|it| it.as_str() == Some(STATELESS));
        let Some(result) = result.filter(|_| versions.is_some_and(speaks)) else {
            self.metadata = None;
            return Ok(None);
        };
        let text =
            |value: Option<ValueRef<'_>>| value.map_or_else(|| "null".to_owned(), ValueRef::canonical_text);
        let info = result.get("_meta").and_then(|meta| meta.get("io.modelcontextprotocol/serverInfo"));
        let mut hello = format!(
            r#"{{"result":{{"capabilities":{},"protocolVersion":"{REVISION}","serverInfo":{}"#,
            text(result.get("capabilities")),
            text(info),
        );
        if let Some(instructions) = result.get("instructions") {
            hello.push_str(&format!(r#","instructions":{}"#, instructions.canonical_text()));
        }
        hello.push_str("}}");
        let limits = Limits::hard_caps().bytes(LINE_BYTES).unwrap_or_default();
        read(hello.as_bytes(), Recipe::Rfc8785, &limits).map(Some).map_err(|error| malformed(&error))
    }

    /// Lists all tools page by page; returns each answer to `tools/list` as received.
    ///
    /// # Errors
    /// `SERVER_ENDED`, `SERVER_TIMEOUT`, `SERVER_ANSWER`, `INTERRUPTED`.
    pub fn list_tools(&mut self) -> Result<Vec<Canonical>, HostError> {
        self.tools_changed = false;
        self.list("tools/list")
    }

    /// Sends a request for a list, such as `prompts/list`, page by page; returns each answer as received.
    ///
    /// # Errors
    /// `SERVER_ENDED`, `SERVER_TIMEOUT`, `SERVER_ANSWER`, `INTERRUPTED`.
    pub fn list(&mut self, method: &str) -> Result<Vec<Canonical>, HostError> {
        let mut pages = Vec::new();
        let mut cursor: Option<String> = None;
        while pages.len() < MAX_PAGES {
            let params = cursor.as_ref().map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
            let page = self.ask_for_result(method, &params.to_string())?;
            let next = page.value().pointer("/result/nextCursor").and_then(ValueRef::as_str);
            cursor = next.map(str::to_owned);
            pages.push(page);
            if cursor.is_none() {
                return Ok(pages);
            }
        }
        Err(answered_badly(&format!("more than 256 pages of `{method}`")))
    }

    /// Lists all tools until the server announces no change meanwhile: some add tools once they know the client.
    ///
    /// # Errors
    /// `SERVER_ENDED`, `SERVER_TIMEOUT`, `SERVER_ANSWER`, `INTERRUPTED`.
    pub fn list_settled_tools(&mut self) -> Result<Vec<Canonical>, HostError> {
        for _ in 0..MAX_LISTS {
            let pages = self.list_tools()?;
            if !self.tools_changed {
                return Ok(pages);
            }
        }
        Err(answered_badly("a list of tools that keeps changing"))
    }

    /// Returns `true` if the server announced a change of its tools since they were listed.
    #[must_use]
    pub const fn have_tools_changed(&self) -> bool {
        self.tools_changed
    }

    /// Calls a tool with exactly these arguments.
    ///
    /// # Errors
    /// `SERVER_ENDED`, `SERVER_TIMEOUT`, `SERVER_ANSWER`, `INTERRUPTED`.
    pub fn call(&mut self, tool: &ToolName, args: &Canonical) -> Result<CallEnd, HostError> {
        let params = format!(r#"{{"arguments":{},"name":{}}}"#, args.as_str(), json!(tool));
        let answer = self.ask("tools/call", &params)?;
        // A result whose `isError` is not a boolean is not a success.
        let is_success = |result: &ValueRef<'_>| {
            let is_error = result.get("isError").map(ValueRef::as_bool);
            result.kind() == Kind::Object && is_error.is_none_or(|is_error| is_error == Some(false))
        };
        // A request for input is no result (MCP 2026-07-28, *Multi Round-Trip Requests*).
        let is_final = |result: &ValueRef<'_>| {
            result.get("resultType").is_none_or(|kind| kind.as_str() == Some("complete"))
        };
        let result = answer.value().get("result").filter(is_success).filter(is_final);
        Ok(result.map_or(CallEnd::Failed, |result| CallEnd::Returned(result.canonical_text().into_bytes())))
    }

    fn ask_for_result(&mut self, method: &str, params: &str) -> Result<Canonical, HostError> {
        let answer = self.ask(method, params)?;
        with_result(method, answer)
    }

    /// Returns an error once a signal has come, so that no new work begins.
    ///
    /// # Errors
    /// `INTERRUPTED`.
    pub fn check_interrupt(&self) -> Result<(), HostError> {
        self.interrupt.check()
    }

    /// Sends a request and waits for its answer, which may be a result or an error.
    fn ask(&mut self, method: &str, params: &str) -> Result<Canonical, HostError> {
        self.check_interrupt()?;
        let id = self.next_id;
        self.next_id = id.saturating_add(1);
        let params = match &self.metadata {
            Some(metadata) => with_member(params, "_meta", metadata),
            None => params.to_owned(),
        };
        self.send(format!(r#"{{"id":{id},"jsonrpc":"2.0","method":"{method}","params":{params}}}"#))?;
        for _ in 0..MAX_MESSAGES {
            let message = self.receive(method)?;
            let value = message.value();
            if let Some(asked) = value.get("method").and_then(ValueRef::as_str) {
                self.tools_changed |= asked == "notifications/tools/list_changed";
                self.answer(asked, value.get("id"))?;
                continue;
            }
            if value.get("id").and_then(ValueRef::as_u64) == Some(id) {
                return if is_answer(value) {
                    Ok(message)
                } else {
                    Err(answered_badly(&format!("response to `{method}` is not JSON-RPC 2.0")))
                };
            }
        }
        Err(answered_badly("messages without a response"))
    }

    /// Waits for the server's next message. After a signal the limit is [`DRAIN`]; a second signal ends the wait.
    fn receive(&self, method: &str) -> Result<Canonical, HostError> {
        let (mut left, mut drain) = (self.wait, DRAIN);
        loop {
            match self.from.recv_timeout(left.min(PAUSE)) {
                Ok(message) => return message,
                Err(RecvTimeoutError::Disconnected) => {
                    let text = format!("the server ended before it answered `{method}`");
                    return Err(HostError::new("SERVER_ENDED", text));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            left = left.saturating_sub(PAUSE);
            if left.is_zero() {
                let text = format!("the server did not answer `{method}` in time");
                return Err(HostError::new("SERVER_TIMEOUT", text));
            }
            if let Some(signal) = self.interrupt.signal() {
                drain = drain.saturating_sub(PAUSE);
                if drain.is_zero() || self.interrupt.is_repeated() {
                    return Err(signal.into());
                }
            }
        }
    }

    /// Answers a request of the server: a ping and a list of roots with a result, anything else with an error.
    fn answer(&self, method: &str, id: Option<ValueRef<'_>>) -> Result<(), HostError> {
        let Some(id) = id else {
            return Ok(());
        };
        let answer = match method {
            "ping" => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            "roots/list" => json!({"jsonrpc": "2.0", "id": id, "result": {"roots": []}}),
            _ => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "method not found"}})
            }
        };
        self.send(answer.to_string())
    }

    fn send(&self, message: String) -> Result<(), HostError> {
        self.to.send(message).map_err(|_| HostError::new("SERVER_ENDED", "the server closed its input"))
    }
}

fn next_message(from: &mut impl BufRead) -> Option<Result<Canonical, HostError>> {
    let limits = Limits::hard_caps();
    match next_line(from, LINE_BYTES) {
        Ok(None) | Err(_) => None,
        Ok(Some(Line::TooLong)) => Some(Err(answered_badly("line of more than 16 MiB"))),
        Ok(Some(Line::Whole(line))) => Some(read(&line, Recipe::Rfc8785, &limits).map_err(|error| {
            let failure = malformed(&error);
            HostError::new(
                "SERVER_ANSWER",
                format!("the server wrote a line that is not JSON: {}", failure.line()),
            )
        })),
    }
}

/// Returns `true` for a response of JSON-RPC 2.0, section 5: it has either a result or an error.
fn is_answer(value: ValueRef<'_>) -> bool {
    value.get("jsonrpc").and_then(ValueRef::as_str) == Some("2.0")
        && value.get("result").is_some() != value.get("error").is_some()
}

fn answered_badly(what: &str) -> HostError {
    HostError::new("SERVER_ANSWER", format!("MCP protocol violation by the server: {what}"))
}

/// Returns the answer if it has a result, and otherwise the server's error.
fn with_result(method: &str, answer: Canonical) -> Result<Canonical, HostError> {
    if let Some(error) = answer.value().pointer("/error/message").and_then(ValueRef::as_str) {
        let error: String = error.chars().take(SHOWN_CHARS).collect();
        return Err(answered_badly(&format!("error response to `{method}`: {error}")));
    }
    if answer.value().get("result").is_none() {
        return Err(answered_badly(&format!("response to `{method}` without a result")));
    }
    Ok(answer)
}

/// Appends a member to the text of an object that does not have it.
fn with_member(object: &str, name: &str, value: &str) -> String {
    let inner = object.trim().strip_suffix('}').unwrap_or_default();
    let comma = if inner == "{" { "" } else { "," };
    format!(r#"{inner}{comma}"{name}":{value}}}"#)
}
