mod line;
mod options;
mod plan;
pub(crate) mod proposals;

use std::io;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use clap::Args;
use countersign_action_proposal::{Profile, SpentEndorsement, VerifiedEvidence};
use countersign_audit_log::EndReason;
use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::{CallId, Digest, ImpactClass, ToolId};
use countersign_tool_gate::{AcceptedCall, Rejection, RejectionCode, ToolCall, ToolGate};
use serde::Serialize;

use crate::failure::{Exit, Failure, one_line};
use crate::output::{Output, internal, note, reporter, watch_signals};
use countersign_host::decision::DecisionText;
use countersign_host::escape::shown_id;
use countersign_host::interrupt::Interrupt;
use countersign_host::lines::{Line, next_line};
use countersign_host::session::SessionEnd;
use countersign_host::signals::AgentWatch;
use line::CallLine;
use options::{CheckOptions, Minting};
use plan::{PlanOptions, start};

/// Most bytes of a line: arguments and goal at their limits, a token, and JSON escapes.
const LINE_BYTES: usize = 8 << 20;
/// Extra nesting depth of a line beyond arguments: a proposal contains an action, and the action contains the arguments
/// again.
const PROPOSAL_DEPTH: usize = 3;

/// Decide about calls that come as lines of JSON on standard input.
///
/// Opens one session of one agent, under a signed registry, and answers each line with one line. Nothing is run: who
/// asked runs what was accepted. A line is
///
/// {"call_id": "..", "tool": "..", "args": {..}} and perhaps "server", "ask" (the goal, restated), "approval" (a
/// token, or a list of them where the tool needs several), "proposal" (a PIC/1.0 action proposal; as "__pic" it may stand in "args" as well) and "plan_step" (which step
/// of --plan it is, from 1 on),
///
/// and its answer {"call_id", "decision": "accept" or "reject"}, with "code", "message", "retry" and "unlock" for a
/// refusal, and "args_digest" where the arguments could be read; a refusal that comes after the approval was used up has
/// "approval": "spent", and "attestation": "spent" where an attestation was. A tool without "server" is the one of that name that the session discloses. Where proposals are
/// looked at, the answer has the "profile" that they are judged by, and that to an accepted call its "impact" and the
/// "evidence" that verified, by id and SHA-256, with the "endorsement" and the number of its use that the call took. To
/// APPROVAL_REQUIRED belongs the command that mints the approval: with
/// --json it is the member "mint", without it a line on standard error.
///
/// A tool whose definition the registry pins needs --definitions; without it, its calls are refused
/// (TOOL_DEFINITION_UNKNOWN), and standard error says so at the start.
///
/// The exit code is 0 when every call was accepted and 3 when any was refused. A signal (SIGTERM, SIGINT, SIGHUP) ends it
/// behind the call that is being decided; the exit code is then 128 and the signal's number.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    echo '{\"call_id\":\"c1\",\"tool\":\"search\",\"args\":{\"query\":\"refunds\"}}' | \\\n    \
    countersign check --registry registry.dsse.json --trust-root trust-root.json --agent support-bot \\\n      --no-record")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    options: CheckOptions,
    #[command(flatten)]
    plan: Box<PlanOptions>,
}

/// One answer.
#[derive(Debug, Serialize)]
struct CheckedLine<'a> {
    #[serde(flatten)]
    text: DecisionText<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impact: Option<ImpactClass>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evidence: Vec<Evidence<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mint: Option<String>,
}

/// One verified piece of evidence.
#[derive(Debug, Serialize)]
struct Evidence<'a> {
    id: &'a str,
    sha256: Digest,
    /// Id of the endorsement that the call used; `endorsement_use` is the number of the use.
    #[serde(skip_serializing_if = "Option::is_none")]
    endorsement: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endorsement_use: Option<u32>,
}

impl<'a> Evidence<'a> {
    fn new(verified: &'a VerifiedEvidence) -> Self {
        let spent = verified.endorsement();
        Self {
            id: verified.id(),
            sha256: verified.digest(),
            endorsement: spent.map(SpentEndorsement::id),
            endorsement_use: spent.map(SpentEndorsement::number),
        }
    }
}

/// Destination of the answers, and the settings that all of them share.
struct Answers<'o> {
    out: &'o mut Output,
    profile: Option<Profile>,
    minting: Option<Minting>,
}

impl CheckArgs {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let proposals = &self.options.proposals;
        let proposal = proposals.read()?;
        let (session, plan) = self.plan.prepare(self.options.config()?, self.options.session.as_ref())?;
        if let [first, more @ ..] = session.tools_without_definition().as_slice() {
            let others = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            note(&format!(
                "warning TOOL_DEFINITION_UNKNOWN: the registry pins the definition of {first}{others}; calls are refused \
                 without --definitions SERVER=FILE (the server's answer to tools/list)"
            ));
        }
        let session = session.open()?;
        let mut at_end = SessionEnd::new(&session);
        let gate = session.gate;
        plan.map_or(Ok(()), |plan| start(&gate, plan))?;
        let mut answers = Answers { out, profile: proposals.profile(), minting: self.options.minting() };
        let limits = Limits::default()
            .bytes(LINE_BYTES)
            .and_then(|limits| limits.depth(limits.max_depth().saturating_add(PROPOSAL_DEPTH)))
            .map_err(|error| Failure::new(error.code(), error.to_string()))?;
        let watch = AgentWatch::new(gate.clone(), reporter());
        let interrupt = watch_signals()?;
        let lines = read_lines(&interrupt)?;
        let mut exit = Exit::Done;
        while let Some(line) = next(&lines, &interrupt)? {
            let bytes = match line {
                Line::Whole(bytes) if bytes.trim_ascii().is_empty() => continue,
                Line::Whole(bytes) => bytes,
                Line::TooLong => {
                    answers.refuse(&gate.refuse_malformed("-", "the line is too long"), None, None)?;
                    exit = Exit::Refused;
                    continue;
                }
            };
            let accepted = match read(&bytes, Recipe::Jcs1, &limits) {
                Ok(line) => self.decide(&mut answers, &gate, &line, proposal.as_deref())?,
                Err(error) => {
                    answers.refuse(&gate.refuse_malformed("-", &error.to_string()), None, None)?;
                    false
                }
            };
            if !accepted {
                exit = Exit::Refused;
            }
            watch.look_at_signals();
        }
        let signal = interrupt.signal();
        at_end.set(if signal.is_some() { EndReason::Signal } else { EndReason::Client });
        Ok(signal.map_or(exit, Exit::from))
    }

    /// Decides one call and answers it; returns `true` if it was accepted. `proposal` is for calls without a proposal
    /// of their own.
    fn decide(
        &self,
        answers: &mut Answers<'_>,
        gate: &ToolGate,
        line: &Canonical,
        proposal: Option<&[u8]>,
    ) -> Result<bool, Failure> {
        let call = match CallLine::read(line) {
            Ok(call) => call,
            Err(bad) => {
                let rejection = gate.refuse_malformed(bad.call_id.unwrap_or("-"), &bad.reason);
                // The operator sees the reason; the agent receives only the code.
                note(&format!("{}: {}", shown_id(rejection.call_id()), one_line(&bad.reason)));
                answers.refuse(&rejection, bad.call_id, None)?;
                return Ok(false);
            }
        };
        let args_digest = call.args_digest();
        let server = call.server.or_else(|| self.default_server(gate, call.tool));
        // The gate holds the value of this one reading of the line to its own limits.
        let mut asked = ToolCall::from_read(call.call_id, server, call.tool, &call.args);
        if let Some(ask) = call.ask {
            asked = asked.ask(ask);
        }
        if let Some(step) = call.plan_step {
            asked = asked.plan_step(step);
        }
        asked = call.approvals.iter().fold(asked, |asked, token| asked.approval(token));
        if let Some(own) = &call.proposal {
            asked = asked.proposal(own.bytes());
        } else if let Some(proposal) = proposal.filter(|_| !call.has_proposal_among_args()) {
            asked = asked.proposal(proposal);
        }
        match gate.check(&asked) {
            Ok(accepted) => {
                answers.accept(call.call_id, &accepted)?;
                // The caller runs the tool now and does not report the outcome here, so the outcome is recorded as
                // unknown.
                drop(accepted);
                Ok(true)
            }
            Err(rejection) => {
                answers.refuse(&rejection, Some(call.call_id), Some(args_digest))?;
                Ok(false)
            }
        }
    }

    /// Returns `--server` for a line without a server, if several disclosed tools have the given name.
    fn default_server(&self, gate: &ToolGate, tool: &str) -> Option<&str> {
        let named = |id: &&ToolId| id.name().as_str() == tool;
        let several = gate.contract().tools().iter().filter(named).count() > 1;
        self.options.server.as_ref().filter(|_| several).map(|server| server.as_str())
    }
}

/// Reads standard input in a thread, because a read cannot be interrupted. A signal queues an end of input.
fn read_lines(interrupt: &Interrupt) -> Result<Receiver<io::Result<Option<Line>>>, Failure> {
    let (sender, lines) = sync_channel(1);
    let waker = sender.clone();
    // If the channel is full, a line is waiting and the receiver is awake.
    interrupt.on_signal(move || drop(waker.try_send(Ok(None))));
    let read = move || {
        let mut input = io::stdin().lock();
        loop {
            let line = next_line(&mut input, LINE_BYTES);
            let is_last = !matches!(line, Ok(Some(_)));
            if sender.send(line).is_err() || is_last {
                break;
            }
        }
    };
    match thread::Builder::new().name("countersign-input".to_owned()).spawn(read) {
        Ok(_) => Ok(lines),
        Err(_) => Err(internal("thread for standard input could not be started")),
    }
}

/// Returns the next line; `None` at the end of the input or after a signal.
fn next(lines: &Receiver<io::Result<Option<Line>>>, interrupt: &Interrupt) -> Result<Option<Line>, Failure> {
    let line = lines.recv().unwrap_or(Ok(None));
    if interrupt.signal().is_some() {
        return Ok(None);
    }
    line.map_err(|error| Failure::new("FILE_UNREADABLE", format!("standard input cannot be read: {error}")))
}

impl Answers<'_> {
    fn accept(&mut self, call_id: &str, accepted: &AcceptedCall) -> Result<(), Failure> {
        let evidence = accepted.evidence().iter();
        self.print_result(&CheckedLine {
            text: DecisionText::accept(call_id, accepted.args().digest()),
            profile: self.profile.map(Profile::as_str),
            impact: self.profile.map(|_| accepted.impact()),
            evidence: evidence.map(Evidence::new).collect(),
            mint: None,
        })
    }

    fn refuse(
        &mut self,
        rejection: &Rejection,
        call_id: Option<&str>,
        args_digest: Option<Digest>,
    ) -> Result<(), Failure> {
        // An invalid id is returned with its invisible characters escaped.
        let call_id = call_id.map(|id| if CallId::new(id).is_ok() { id } else { rejection.call_id() });
        let wanted =
            rejection.approval_request().filter(|_| rejection.code() == RejectionCode::ApprovalRequired);
        let mint = self.minting.as_ref().zip(wanted).map(|(minting, request)| minting.line(request));
        if let Some(mint) = mint.as_ref().filter(|_| !self.out.is_json()) {
            note(&format!("to approve {}: {mint}", shown_id(rejection.call_id())));
        }
        self.print_result(&CheckedLine {
            text: DecisionText::reject(rejection, call_id, args_digest),
            profile: self.profile.map(Profile::as_str),
            impact: None,
            evidence: Vec::new(),
            mint: mint.filter(|_| self.out.is_json()),
        })
    }

    /// Writes and flushes one answer: the peer waits for it.
    fn print_result(&mut self, line: &CheckedLine<'_>) -> Result<(), Failure> {
        self.out.json(line)?;
        self.out.flush()
    }
}
