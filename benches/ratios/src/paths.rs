//! The hot paths whose instructions are counted.

use std::hint::black_box;

use countersign_approval_token::{ApprovalToken, DEFAULT_TTL_CAP, VerifyTerms, mint, verify};
use countersign_audit_log::{AuditSink as _, CallRecord, MemorySink, Record, RecordedTool, Verdict};
use countersign_canonical_json::{Limits, Recipe, digest};
use countersign_core::{AgentId, Audience, CallFacts, CallId, Digest, Millis, Principal, SessionId, ToolId};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{CapabilityRegistry, LoadOptions, MemoryHighWater};
use countersign_testing::{TestRegistry, TestTool, World};
use sha2::{Digest as _, Sha256};

use crate::decisions::{ApprovedCall, FreeCall, UndisclosedCall};
use crate::rows::plan::PlannedCall;
use crate::{Bare, BenchWorld, Operation, Plain, structured_args};

/// A path that was set up, and its hashes, which are not counted.
#[expect(missing_debug_implementations, reason = "it holds closures")]
pub struct ReadyPath {
    /// The path.
    pub path: Box<dyn Operation>,
    /// The hashes of the path, if there are any.
    pub hashes: Option<Box<dyn Fn()>>,
}

/// Name of a path, number of operations to count, and how it is set up. The number makes the operations cost much more
/// than the set-up differs from run to run: keys of hash tables are random.
pub type HotPath = (&'static str, u32, fn() -> ReadyPath);

/// All paths. A decision is counted with its outcome's record.
pub const PATHS: [HotPath; 12] = [
    ("approved-26", 1_000, || with_bare(ApprovedCall::of(BenchWorld::small(), 26), ApprovedCall::bare)),
    ("approved-1k", 1_000, || with_bare(ApprovedCall::of(BenchWorld::small(), 1 << 10), ApprovedCall::bare)),
    ("free-26", 2_000, || with_bare(FreeCall::of(BenchWorld::small(), 26), FreeCall::bare)),
    ("free-64k", 30, || with_bare(FreeCall::of(BenchWorld::small(), 64 << 10), FreeCall::bare)),
    ("undisclosed", 2_000, || {
        with_bare(UndisclosedCall::of(BenchWorld::small(), 1 << 10), UndisclosedCall::bare)
    }),
    ("digest-64k", 30, digest_of_text),
    ("token", 4_000, token),
    ("goal", 4_000, goal),
    ("record", 4_000, record),
    ("plan-whole", 1_000, || plain(PlannedCall::whole())),
    ("plan-root", 1_000, || plain(PlannedCall::root())),
    ("registry", 20, registry),
];

fn with_bare<O: Operation + 'static>(mut path: O, bare: fn(&mut O) -> Bare) -> ReadyPath {
    let bare = bare(&mut path);
    ReadyPath { path: Box::new(path), hashes: Some(Box::new(move || bare.run())) }
}

fn plain(path: impl Operation + 'static) -> ReadyPath {
    ReadyPath { path: Box::new(path), hashes: None }
}

fn digest_of_text() -> ReadyPath {
    let args = structured_args(64 << 10);
    let canonical = countersign_canonical_json::read(&args, Recipe::Jcs1, &Limits::default()).unwrap();
    let limits = Limits::default();
    let path = Plain(move || {
        black_box(digest(black_box(&args), Recipe::Jcs1, &limits).unwrap());
    });
    let hashes = move || {
        black_box(Sha256::digest(black_box(canonical.bytes())));
    };
    ReadyPath { path: Box::new(path), hashes: Some(Box::new(hashes)) }
}

/// Parsing and verifying of an approval.
fn token() -> ReadyPath {
    let world = World::new();
    let tool = ToolId::new("desk", "refund").unwrap();
    let principal = Principal::new("ada@example.com").unwrap();
    let binding =
        CallFacts::new(CallId::new("call-1").unwrap(), tool, Digest::of(b"{}"), Recipe::Jcs1, principal)
            .agent(AgentId::new("support-bot").unwrap())
            .session(SessionId::new("session-1").unwrap())
            .definition(Digest::of(b"definition"))
            .ask(Digest::of(b"ask"))
            .registry_version(7)
            .audience(Audience::new("gate-1").unwrap());
    let (keys, now) = (World::keys(), world.now());
    let text = mint(&keys, &binding, &world.terms(1), DEFAULT_TTL_CAP).unwrap().as_str().to_owned();
    plain(Plain(move || {
        let token: ApprovalToken = black_box(&text).parse().unwrap();
        let _ = black_box(verify(&token, &keys, &binding, now, &VerifyTerms::default()).unwrap());
    }))
}

fn goal() -> ReadyPath {
    let (session, now) = (SessionId::new("session-1").unwrap(), World::start());
    let goal = "answer ticket t-1001 of the customer who wrote about a broken lamp ".repeat(16);
    let pin = PinnedAsk::pin(&goal, &session, Millis::from_secs(600), now).unwrap();
    let text = goal.clone();
    let path = Plain(move || pin.verify(black_box(&goal), &session, now).unwrap());
    let hashes = move || {
        black_box(Sha256::digest(black_box(&text)));
    };
    ReadyPath { path: Box::new(path), hashes: Some(Box::new(hashes)) }
}

fn record() -> ReadyPath {
    let mut record = CallRecord::new(
        World::start(),
        SessionId::new("session-0123456789").unwrap(),
        AgentId::new("support-bot").unwrap(),
        Principal::new("alice@example.com").unwrap(),
        "call-1",
        RecordedTool::new("payments", "send_refund"),
        Verdict::Accept,
        7,
    );
    record.args = Some(Digest::of(b"arguments"));
    record.impact = Some("money".into());
    let (record, sink) = (Record::Decision(record), MemorySink::keeping(64));
    plain(Plain(move || {
        black_box(sink.record(black_box(&record)).unwrap());
    }))
}

/// The verified load of a registry of 200 tools.
fn registry() -> ReadyPath {
    let (now, root) = (World::start(), TestRegistry::trust_root());
    let tool = |at: u32| {
        let schema = serde_json::json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        TestTool::read(&format!("tool-{at}")).args_schema(&schema)
    };
    let signed = TestRegistry::of((0..200).map(tool)).sign(now);
    plain(Plain(move || {
        let marks = std::sync::Arc::new(MemoryHighWater::new());
        let options = LoadOptions::default();
        black_box(CapabilityRegistry::load(black_box(&signed), &root, marks, options, now).unwrap());
    }))
}
