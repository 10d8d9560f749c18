//! Makes a span of each call that a sink keeps. The record is written first; a span neither adds to it nor changes it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use countersign_audit_log::{
    AuditError, AuditSink, CallRecord, OutcomeKind, OutcomeRecord, Record, RecordedTool, UnrecordedAnswer,
    Verdict,
};
use countersign_core::Timestamp;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{Span as _, SpanBuilder, SpanKind, Status, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracer;

/// Most accepted calls without an outcome; above it, the oldest is dropped.
const WAITING: usize = 4_096;
/// Name of every tool that the session does not disclose.
const UNKNOWN: &str = "(unknown)";
/// Value of `error.type` for a call whose tool failed.
const TOOL_FAILED: &str = "tool_error";
/// Value of `error.type` for a call with an unknown outcome.
const OUTCOME_UNKNOWN: &str = "outcome_unknown";
/// Value of `error.type` for a call that never began, if the gate has no code for it.
const NOT_RUN: &str = "not_run";

/// Number of spans made, and of those that were sent.
#[derive(Debug, Default)]
pub(super) struct SpanCounts {
    made: AtomicU64,
    pub(super) sent: AtomicU64,
}

impl SpanCounts {
    /// Counts a call that becomes a span, even if the span is lost.
    pub(super) fn count(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn lost(&self) -> u64 {
        self.made.load(Ordering::Relaxed).saturating_sub(self.sent.load(Ordering::Relaxed))
    }
}

/// A sink that wraps another one.
#[derive(Debug)]
pub(super) struct CallSpans {
    sink: Arc<dyn AuditSink>,
    tracer: SdkTracer,
    tally: Arc<SpanCounts>,
    seen: Mutex<SpanFacts>,
}

/// Recorded facts that are still needed.
#[derive(Debug, Default)]
struct SpanFacts {
    /// Tools that sessions disclose: at most as many as the registry has. All other names are invented.
    tools: HashSet<(String, String)>,
    /// Accepted calls without a recorded outcome, by the sequence number of the decision.
    waiting: BTreeMap<u64, SpannedCall>,
}

/// Content of a call's span. It contains no argument.
#[derive(Debug)]
struct SpannedCall {
    start: Timestamp,
    /// The host's `traceparent`, as received.
    trace: Option<String>,
    tool: String,
    about: Vec<KeyValue>,
}

impl AuditSink for CallSpans {
    fn record(&self, record: &Record) -> Result<u64, AuditError> {
        let sequence = self.sink.record(record)?;
        match record {
            Record::Session(session) if session.code.is_none() => {
                let names = session.tools.iter().map(|tool| names(&RecordedTool::from(tool)));
                self.seen().tools.extend(names);
            }
            Record::Decision(decision) => self.decided(sequence, decision),
            Record::Outcome(outcome) => self.ended(outcome),
            Record::Session(_) | Record::Gateway(_) | Record::Recovered(_) | Record::Standing(_) | _ => {}
        }
        Ok(sequence)
    }

    fn record_later(&self, outcome: &OutcomeRecord) -> Result<(), AuditError> {
        self.sink.record_later(outcome)?;
        self.ended(outcome);
        Ok(())
    }

    fn flush(&self) -> Result<(), AuditError> {
        self.sink.flush()
    }

    fn waits_for_disk(&self) -> bool {
        self.sink.waits_for_disk()
    }

    fn note_unrecorded(&self, answer: &UnrecordedAnswer<'_>) {
        self.sink.note_unrecorded(answer);
    }
}

impl CallSpans {
    pub(super) fn new(sink: Arc<dyn AuditSink>, tracer: SdkTracer, tally: Arc<SpanCounts>) -> Self {
        Self { sink, tracer, tally, seen: Mutex::default() }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, SpanFacts> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decided(&self, sequence: u64, decision: &CallRecord) {
        let mut seen = self.seen();
        let known = seen.tools.contains(&names(&decision.tool));
        let call = SpannedCall::new(sequence, decision, known);
        self.tally.count();
        match (decision.verdict, &decision.code) {
            (Verdict::Accept, _) => {
                seen.waiting.insert(sequence, call);
                if seen.waiting.len() > WAITING {
                    seen.waiting.pop_first();
                }
            }
            (Verdict::Reject, code) => {
                drop(seen);
                let code = code.as_ref().map_or_else(String::new, ToString::to_string);
                self.emit(call, decision.time, Some(code));
            }
        }
    }

    fn ended(&self, outcome: &OutcomeRecord) {
        let Some(call) = self.seen().waiting.remove(&outcome.decision) else { return };
        let error = match outcome.outcome {
            OutcomeKind::Returned => None,
            OutcomeKind::Failed => Some(TOOL_FAILED),
            OutcomeKind::NotRun => Some(outcome.code.as_ref().map_or(NOT_RUN, |code| code.as_str())),
            OutcomeKind::Unknown | _ => Some(OUTCOME_UNKNOWN),
        };
        self.emit(call, outcome.time, error.map(ToOwned::to_owned));
    }

    /// Makes a span and passes it to the queue, which never blocks.
    fn emit(&self, call: SpannedCall, end: Timestamp, error: Option<String>) {
        let SpannedCall { start, trace, tool, mut about } = call;
        let mut status = Status::Unset;
        if let Some(error) = error {
            status = Status::error(error.clone());
            about.push(KeyValue::new("error.type", error));
        }
        let span = SpanBuilder::from_name(format!("execute_tool {tool}"))
            .with_kind(SpanKind::Server)
            .with_start_time(system(start))
            .with_attributes(about);
        let mut span = self.tracer.build_with_context(span, &parent(trace));
        span.set_status(status);
        span.end_with_timestamp(system(end));
    }
}

impl SpannedCall {
    fn new(sequence: u64, decision: &CallRecord, known: bool) -> Self {
        let tool = if known { decision.tool.name.as_str() } else { UNKNOWN };
        let code = decision.code.as_ref().map_or("ACCEPTED", |code| code.as_str());
        let mut about = vec![
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", tool.to_owned()),
            KeyValue::new("gen_ai.tool.call.id", decision.call_id.to_string()),
            KeyValue::new("gen_ai.agent.id", decision.agent.to_string()),
            KeyValue::new("gen_ai.conversation.id", decision.session.to_string()),
            KeyValue::new("mcp.method.name", "tools/call"),
            KeyValue::new("network.transport", "pipe"),
            KeyValue::new("countersign.code", code.to_owned()),
            KeyValue::new("countersign.record.sequence", signed(sequence)),
            KeyValue::new("countersign.registry.version", signed(decision.registry_version)),
        ];
        if known {
            about.push(KeyValue::new("countersign.server", decision.tool.server.to_string()));
        }
        if let Some(id) = &decision.request_id {
            about.push(KeyValue::new("jsonrpc.request.id", id.to_string()));
        }
        let trace = decision.trace.as_ref().map(ToString::to_string);
        Self { start: decision.time, trace, tool: tool.to_owned(), about }
    }
}

fn names(tool: &RecordedTool) -> (String, String) {
    (tool.server.to_string(), tool.name.to_string())
}

/// Returns the host's span as the parent, if it sent a valid one.
fn parent(trace: Option<String>) -> Context {
    let carrier: HashMap<String, String> =
        trace.map(|trace| ("traceparent".to_owned(), trace)).into_iter().collect();
    TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier)
}

/// Converts to the signed type of attributes. Sequence numbers and versions stay far below its maximum.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn system(time: Timestamp) -> SystemTime {
    let since = Duration::from_millis(time.as_millis());
    SystemTime::UNIX_EPOCH.checked_add(since).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
