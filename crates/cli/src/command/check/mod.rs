mod line;
mod options;

use std::io::{self, BufRead};

use clap::Args;
use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::{CallId, Digest, ToolId};
use countersign_tool_gate::{Rejection, ToolCall, ToolGate};
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::lines::{Line, next_line};
use crate::output::Output;
use line::CallLine;
use options::Options;

/// The longest line: arguments at their limit, a goal at its, a token, and what their JSON escapes add.
const LINE_BYTES: usize = 8 << 20;

/// Decide about calls that come as lines of JSON on standard input.
///
/// Opens one session of one agent, under a signed registry, and answers each line with one line. Nothing is run: who
/// asked runs what was accepted. A line is
///
/// {"call_id": "..", "tool": "..", "args": {..}} and perhaps "server", "ask" (the goal, restated) and "approval" (a
/// token),
///
/// and its answer {"call_id", "decision": "accept" or "reject"}, with "code", "message", "retry" and "unlock" for a
/// refusal, and "args_digest" where the arguments could be read. A tool without "server" is the one of that name that
/// the session discloses.
///
/// The exit code is 0 when every call was accepted and 3 when any was refused.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    echo '{\"call_id\":\"c1\",\"tool\":\"search\",\"args\":{\"query\":\"refunds\"}}' | \\\n    \
    countersign check --registry registry.dsse.json --trust-root trust-root.json --agent support-bot")]
pub(crate) struct Check {
    #[command(flatten)]
    options: Options,
}

/// One answer.
#[derive(Debug, Serialize)]
struct Decision<'a> {
    call_id: Option<&'a str>,
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unlock: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args_digest: Option<Digest>,
}

impl Check {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let gate = self.options.plan()?.prepare()?.open()?.gate;
        let limits = Limits::default()
            .with_max_bytes(LINE_BYTES)
            .and_then(|limits| limits.with_max_depth(limits.max_depth().saturating_add(1)))
            .map_err(|error| Failure::new(error.code(), error.to_string()))?;
        let mut input = io::stdin().lock();
        let mut exit = Exit::Done;
        while let Some(line) = read_line(&mut input)? {
            let bytes = match line {
                Line::Whole(bytes) if bytes.trim_ascii().is_empty() => continue,
                Line::Whole(bytes) => bytes,
                Line::TooLong => {
                    refuse(out, &gate.refuse_malformed("-", "the line is too long"), None, None)?;
                    exit = Exit::Refused;
                    continue;
                }
            };
            let accepted = match read(&bytes, Recipe::Jcs1, &limits) {
                Ok(line) => self.decide(out, &gate, &line)?,
                Err(error) => {
                    refuse(out, &gate.refuse_malformed("-", &error.to_string()), None, None)?;
                    false
                }
            };
            if !accepted {
                exit = Exit::Refused;
            }
        }
        Ok(exit)
    }

    fn decide(&self, out: &mut Output, gate: &ToolGate, line: &Canonical) -> Result<bool, Failure> {
        let call = match CallLine::read(line) {
            Ok(call) => call,
            Err(bad) => {
                let rejection = gate.refuse_malformed(bad.call_id.unwrap_or("-"), bad.reason);
                refuse(out, &rejection, bad.call_id, None)?;
                return Ok(false);
            }
        };
        let args_digest = call.args.digest();
        // What the gate reads, within its own limits, is the canonical text of this one reading of the line.
        let args = call.args.bytes();
        let mut asked = match call.server.or_else(|| self.default_server(gate, call.tool)) {
            Some(server) => ToolCall::new(call.call_id, server, call.tool, args),
            None => ToolCall::by_name(call.call_id, call.tool, args),
        };
        if let Some(ask) = call.ask {
            asked = asked.ask(ask);
        }
        if let Some(token) = call.approval {
            asked = asked.approval(token);
        }
        match gate.check(&asked) {
            Ok(accepted) => {
                tell(
                    out,
                    &Decision {
                        call_id: Some(call.call_id),
                        decision: "accept",
                        code: None,
                        message: None,
                        retry: None,
                        unlock: None,
                        args_digest: Some(args_digest),
                    },
                )?;
                // Whoever asked runs it now, and does not say here how it ended: unknown is what goes on record.
                drop(accepted);
                Ok(true)
            }
            Err(rejection) => {
                refuse(out, &rejection, Some(call.call_id), Some(args_digest))?;
                Ok(false)
            }
        }
    }

    /// The server of a line that names none, where the tool's name alone would be nobody's: `--server`.
    fn default_server(&self, gate: &ToolGate, tool: &str) -> Option<&str> {
        let named = |id: &&ToolId| id.name().as_str() == tool;
        let several = gate.contract().tools().iter().filter(named).count() > 1;
        self.options.server.as_ref().filter(|_| several).map(|server| server.as_str())
    }
}

fn read_line(input: &mut impl BufRead) -> Result<Option<Line>, Failure> {
    next_line(input, LINE_BYTES)
        .map_err(|error| Failure::new("FILE_UNREADABLE", format!("standard input cannot be read: {error}")))
}

fn refuse(
    out: &mut Output,
    rejection: &Rejection,
    call_id: Option<&str>,
    args_digest: Option<Digest>,
) -> Result<(), Failure> {
    // An id that is none comes back with what hides in it spelled out.
    let call_id = call_id.map(|id| if CallId::new(id).is_ok() { id } else { rejection.call_id() });
    let decision = Decision {
        call_id,
        decision: "reject",
        code: Some(rejection.code().as_str()),
        message: Some(rejection.message()),
        retry: Some(rejection.retry().as_str()),
        unlock: rejection.unlock(),
        args_digest,
    };
    tell(out, &decision)
}

/// Each answer goes out at once: the other side waits for it.
fn tell(out: &mut Output, decision: &Decision<'_>) -> Result<(), Failure> {
    out.json(decision)?;
    out.flush()
}
