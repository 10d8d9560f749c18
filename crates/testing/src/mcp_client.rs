use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// Longest wait for a line. A passing test does not reach it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that reads and writes lines.
#[derive(Debug)]
pub struct LineProcess {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<String>,
}

impl LineProcess {
    /// Starts the command with pipes.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().expect("a command that starts");
        let (to, out) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        let (sender, from) = channel();
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, to, from }
    }

    /// Writes a line.
    pub fn tell(&mut self, line: &str) {
        let written = writeln!(self.to.as_mut().expect("an open input"), "{line}");
        if let Err(error) = written {
            self.fail(&error.to_string());
        }
    }

    /// Waits for the next line.
    #[must_use]
    pub fn line(&self) -> String {
        self.from.recv_timeout(PATIENCE).expect("a line of output")
    }

    /// Shows why the process does not read any more.
    #[expect(clippy::panic, reason = "a helper of tests fails by panicking")]
    fn fail(&mut self, error: &str) -> ! {
        let told = self.child.stderr.take().map(std::io::read_to_string);
        panic!("the process has ended: {error}: {told:?}")
    }

    /// Process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process.
    pub fn kill(mut self) {
        self.child.kill().expect("a running process");
        self.child.wait().expect("an end");
    }

    /// Closes the standard input.
    pub fn leave(&mut self) {
        drop(self.to.take());
    }

    /// Waits for the end. Returns exit code and standard error.
    #[must_use]
    pub fn exit(self) -> (i32, String) {
        let output = self.child.wait_with_output().expect("an end");
        let code = output.status.code().expect("no signal ended it");
        (code, String::from_utf8(output.stderr).expect("text"))
    }
}

/// An MCP client on the standard input and output of a gateway.
///
/// Start it with a command such as `countersign mcp run --config gateway.toml -- sh server.sh`.
#[derive(Debug)]
#[non_exhaustive]
pub struct McpClient {
    process: LineProcess,
    id: u64,
    /// Answer to `initialize`.
    pub hello: Value,
}

impl McpClient {
    /// Starts the gateway and initialises the session.
    #[must_use]
    pub fn start(command: Command) -> Self {
        let client = Self::start_refusable(command);
        assert!(client.hello["result"].is_object(), "{}", client.hello);
        client
    }

    /// Starts the gateway, which may refuse the session.
    #[must_use]
    pub fn start_refusable(command: Command) -> Self {
        let mut client = Self { process: LineProcess::start(command), id: 0, hello: Value::Null };
        let info = json!({ "name": "t", "version": "1" });
        client.hello = client.ask(
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info }),
        );
        client.tell(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    /// Sends a message.
    pub fn tell(&mut self, message: &Value) {
        self.tell_text(&message.to_string());
    }

    /// Sends a line, which may be no message.
    pub fn tell_text(&mut self, line: &str) {
        self.process.tell(line);
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, method: &str, params: impl Into<Value>) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, params: impl Into<Value>) -> u64 {
        self.send_text(method, &params.into().to_string())
    }

    /// Sends a request whose parameters are JSON text, and returns its id.
    pub fn send_text(&mut self, method: &str, params: &str) -> u64 {
        self.id = self.id.saturating_add(1);
        let (id, method) = (self.id, json!(method));
        self.tell_text(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{method},"params":{params}}}"#));
        self.id
    }

    /// Waits for the answer to a request.
    #[must_use]
    pub fn answer(&self, id: u64) -> Value {
        self.next(|message| message["id"] == json!(id))
    }

    /// Waits for the next `list_changed` notification.
    #[expect(clippy::must_use_candidate, reason = "a test may only wait for it")]
    pub fn next_notification(&self) -> Value {
        self.next(|message| {
            message["method"].as_str().is_some_and(|method| method.ends_with("/list_changed"))
        })
    }

    /// Waits for the next progress notification and returns its message.
    #[must_use]
    pub fn next_progress(&self) -> String {
        let progress = self.next(|message| message["method"] == "notifications/progress");
        progress["params"]["message"].as_str().unwrap_or_default().to_owned()
    }

    fn next(&self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message: Value = serde_json::from_str(&self.process.line()).expect("JSON");
            if fits(&message) {
                return message;
            }
        }
    }

    /// Calls a tool and returns the result.
    pub fn call(&mut self, tool: &str, arguments: impl Into<Value>) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments.into() }))["result"].clone()
    }

    /// Process id of the gateway.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Kills the gateway.
    pub fn kill(self) {
        self.process.kill();
    }

    /// Closes the gateway's standard input.
    pub fn leave(&mut self) {
        self.process.leave();
    }

    /// Closes the gateway's standard input and waits for the end. Returns exit code and standard error.
    #[must_use]
    pub fn end(mut self) -> (i32, String) {
        self.leave();
        self.exit()
    }

    /// Waits for the end. Returns exit code and standard error.
    #[must_use]
    pub fn exit(self) -> (i32, String) {
        self.process.exit()
    }
}
