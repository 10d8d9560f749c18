use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use countersign_audit_log::{
    AuditError, AuditSink, CallRecord, MemorySink, OutcomeKind, OutcomeRecord, Record, RecordedTool,
    RecordedValues, SessionRecord, Verdict,
};
use countersign_core::{AgentId, Principal, SessionId, Timestamp, ToolId};
use opentelemetry::trace::{SpanId, SpanKind, Status, TracerProvider as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SimpleSpanProcessor, SpanData, SpanExporter};

use super::{CallSpans, SpanCounts, WAITING};
use crate::export::traces::provider;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Kept {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch);
        Ok(())
    }
}

/// A sink wrapped with spans, and the exported spans.
struct World {
    spans: CallSpans,
    kept: Kept,
    _provider: SdkTracerProvider,
}

impl World {
    fn new(sink: impl AuditSink + 'static) -> Self {
        let kept = Kept::default();
        let provider = provider("test".to_owned(), SimpleSpanProcessor::new(kept.clone()));
        let spans = CallSpans::new(Arc::new(sink), provider.tracer("test"), Arc::new(SpanCounts::default()));
        Self { spans, kept, _provider: provider }
    }

    /// Starts with a session that discloses one tool.
    fn open() -> Self {
        let world = Self::new(MemorySink::keeping(0));
        let tools = vec![ToolId::new("desk", "search").unwrap()];
        let session = SessionRecord::new(at(0), session(), agent(), principal(), 7, tools, at(9_000));
        world.spans.record(&Record::Session(session)).unwrap();
        world
    }

    fn record(&self, call: CallRecord) -> u64 {
        self.spans.record(&Record::Decision(call)).unwrap()
    }

    fn end(&self, decision: u64, outcome: OutcomeKind, time: u64) {
        let ended = OutcomeRecord::new(at(time), session(), "c1", decision, outcome);
        self.spans.record(&Record::Outcome(ended)).unwrap();
    }

    fn spans(&self) -> Vec<SpanData> {
        std::mem::take(&mut *self.kept.0.lock().unwrap())
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis.saturating_add(1_000_000)).unwrap()
}

fn session() -> SessionId {
    "s1".parse().unwrap()
}

fn agent() -> AgentId {
    "bot".parse().unwrap()
}

fn principal() -> Principal {
    "alice@example.com".parse().unwrap()
}

fn call(name: &str, verdict: Verdict) -> CallRecord {
    let tool = RecordedTool::new("desk", name);
    let mut call = CallRecord::new(at(5), session(), agent(), principal(), "c1", tool, verdict, 7);
    call.trace = Some(format!("00-{TRACE}-00f067aa0ba902b7-01").as_str().into());
    call.request_id = Some("41".parse().unwrap());
    call
}

fn refused(name: &str, code: &str) -> CallRecord {
    let mut call = call(name, Verdict::Reject);
    call.code = Some(code.into());
    call
}

/// Returns the attributes as sorted lines.
fn about(span: &SpanData) -> Vec<String> {
    let mut lines: Vec<_> =
        span.attributes.iter().map(|pair| format!("{}={}", pair.key, pair.value)).collect();
    lines.sort();
    lines
}

#[test]
fn an_accepted_call_is_a_span_from_its_decision_to_its_outcome() {
    let world = World::open();
    let decision = world.record(call("search", Verdict::Accept));
    assert!(world.spans().is_empty(), "it has not ended");
    world.end(decision, OutcomeKind::Returned, 30);
    let [span] = &world.spans()[..] else { panic!("one call, one span") };
    assert_eq!(span.name, "execute_tool search");
    assert_eq!((&span.span_kind, &span.status), (&SpanKind::Server, &Status::Unset));
    let since = |time: std::time::SystemTime| time.duration_since(UNIX_EPOCH).unwrap();
    let (start, end) = (Duration::from_millis(1_000_005), Duration::from_millis(1_000_030));
    assert_eq!((since(span.start_time), since(span.end_time)), (start, end));
    assert_eq!(span.span_context.trace_id().to_string(), TRACE);
    assert_eq!(span.parent_span_id.to_string(), "00f067aa0ba902b7");
    assert!(span.parent_span_is_remote);
    assert_eq!(
        about(span),
        [
            "countersign.code=ACCEPTED",
            "countersign.record.sequence=2",
            "countersign.registry.version=7",
            "countersign.server=desk",
            "gen_ai.agent.id=bot",
            "gen_ai.conversation.id=s1",
            "gen_ai.operation.name=execute_tool",
            "gen_ai.tool.call.id=c1",
            "gen_ai.tool.name=search",
            "jsonrpc.request.id=41",
            "mcp.method.name=tools/call",
            "network.transport=pipe",
        ]
    );
    world.end(decision, OutcomeKind::Returned, 40);
    assert!(world.spans().is_empty(), "it ends once");
}

#[test]
fn a_refused_call_is_a_span_with_its_code_as_error() {
    let world = World::open();
    world.record(refused("search", "ARGS_CONSTRAINT"));
    let [span] = &world.spans()[..] else { panic!("one call, one span") };
    assert_eq!(span.start_time, span.end_time);
    assert_eq!(span.status, Status::error("ARGS_CONSTRAINT"));
    let about = about(span);
    assert!(about.contains(&"error.type=ARGS_CONSTRAINT".to_owned()), "{about:?}");
    assert!(about.contains(&"countersign.code=ARGS_CONSTRAINT".to_owned()), "{about:?}");
}

#[test]
fn failed_or_unknown_outcome_marks_the_span_as_an_error() {
    let world = World::open();
    for (outcome, error) in [(OutcomeKind::Failed, "tool_error"), (OutcomeKind::Unknown, "outcome_unknown")] {
        let decision = world.record(call("search", Verdict::Accept));
        world.end(decision, outcome, 30);
        let [span] = &world.spans()[..] else { panic!("one call, one span") };
        assert_eq!(span.status, Status::error(error));
        let about = about(span);
        assert!(about.contains(&format!("error.type={error}")), "{about:?}");
        assert!(about.contains(&"countersign.code=ACCEPTED".to_owned()), "{about:?}");
    }
}

#[test]
fn a_name_that_was_made_up_is_in_no_span() {
    let world = World::open();
    for name in ["delete_everything", "?", "search ", "Search", ""] {
        world.record(refused(name, "UNDISCLOSED_TOOL"));
        let [span] = &world.spans()[..] else { panic!("one call, one span") };
        assert_eq!(span.name, "execute_tool (unknown)", "{name}");
        let about = about(span);
        assert!(about.contains(&"gen_ai.tool.name=(unknown)".to_owned()), "{about:?}");
        assert!(!about.iter().any(|line| line.starts_with("countersign.server=")), "{about:?}");
        assert!(!format!("{span:?}").contains("delete_everything"));
    }
    // The same name on another server is another tool.
    let mut other = refused("search", "UNDISCLOSED_TOOL");
    other.tool = RecordedTool::new("other", "search");
    world.record(other);
    assert_eq!(world.spans()[0].name, "execute_tool (unknown)");
}

#[test]
fn no_value_reason_or_person_is_in_a_span() {
    let world = World::open();
    let mut full = refused("search", "ARGS_SCHEMA");
    full.values = RecordedValues::new([("/query", "\"secret value\"")]);
    full.reason = Some("secret reason".into());
    full.approver = Some("secret-approver".parse().unwrap());
    world.record(full);
    let shown = format!("{:?}", world.spans());
    assert!(!shown.contains("secret") && !shown.contains("alice") && !shown.contains("/query"), "{shown}");
}

#[test]
fn trace_flags_of_the_caller_do_not_disable_sampling() {
    let world = World::open();
    let traced = |trace: &str| {
        let mut call = refused("search", "ARGS_SCHEMA");
        call.trace = Some(trace.into());
        world.record(call);
        let spans = world.spans();
        let [span] = &spans[..] else { panic!("{trace}: one call, one span") };
        assert!(span.span_context.is_sampled());
        (span.span_context.trace_id().to_string(), span.parent_span_id)
    };
    for flags in ["00", "01"] {
        let (trace, parent) = traced(&format!("00-{TRACE}-00f067aa0ba902b7-{flags}"));
        assert_eq!((trace.as_str(), parent.to_string().as_str()), (TRACE, "00f067aa0ba902b7"), "{flags}");
    }
    for none in ["", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "x\u{1b}[2J"] {
        let (trace, parent) = traced(none);
        assert!(trace != TRACE && parent == SpanId::INVALID, "{none}");
    }
}

#[test]
fn accepted_calls_that_never_end_do_not_fill_the_memory() {
    let world = World::open();
    let decisions: Vec<u64> =
        (0..WAITING.saturating_add(100)).map(|_| world.record(call("search", Verdict::Accept))).collect();
    assert_eq!(world.spans.seen().waiting.len(), WAITING);
    let (forgotten, waiting) = decisions.split_at(100);
    for decision in forgotten {
        world.end(*decision, OutcomeKind::Returned, 30);
    }
    assert!(world.spans().is_empty());
    for decision in waiting {
        world.end(*decision, OutcomeKind::Returned, 30);
    }
    assert_eq!(world.spans().len(), WAITING);
}

#[test]
fn unrecorded_call_has_no_span() {
    #[derive(Debug)]
    struct Full;

    impl AuditSink for Full {
        fn record(&self, _: &Record) -> Result<u64, AuditError> {
            Err(AuditError::Poisoned)
        }
    }

    let world = World::new(Full);
    let failed = world.spans.record(&Record::Decision(refused("search", "ARGS_SCHEMA")));
    assert!(failed.is_err());
    assert!(world.spans().is_empty());
}
