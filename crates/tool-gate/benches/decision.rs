//! Measures one decision with an approval, from raw arguments to the record in memory, beside its floor in the same
//! run: SHA-256 of the arguments and HMAC-SHA-256 of the token's text. Also measures one decision about a step of a
//! plan of 16 steps, at a gate that has the plan and at one that has its root, beside the same call without a plan.
#![expect(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    reason = "a bench that cannot be set up has to stop, and its numbers are small"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_approval_token::{MemorySpentTokens, MintTerms, mint};
use countersign_audit_log::{AuditSink, MemorySink};
use countersign_canonical_json::{Limits, Recipe};
use countersign_committed_plan::{Plan, Step};
use countersign_core::SpentTokens;
use countersign_core::{
    AgentId, Audience, Clock, KeyId, ManualClock, Millis, OperatorId, Principal, RunId, SessionId, Timestamp,
    TokenId, ToolId,
};
use countersign_keys::{Keyring, RunKeys, ServerSecret, SigningKey, TrustRoot};
use countersign_pinned_ask::PinnedAsk;
use countersign_registry::{
    CapabilityRegistry, LoadOptions, MemoryHighWater, NegotiationRequest, RegistryDraft,
};
use countersign_tool_gate::{
    ApprovalSettings, PlanRootSettings, PlanSettings, ToolCall, ToolGate, commit_plan,
};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};

const DRAFT: &str = r#"{
  "format": "countersign-registry-1", "version": 1,
  "agents": [{"agent": "bot", "version": 1, "registered_by": "ops", "max_session": "1h", "output_tags": [],
    "tools": [{"server": "desk", "name": "refund"}, {"server": "desk", "name": "search"}]}],
  "tools": [{"server": "desk", "name": "refund", "impact": "money", "approval": "required",
    "args_schema": {"type": "object", "properties": {"ticket": {"type": "string"}}}},
   {"server": "desk", "name": "search", "impact": "read", "approval": "not_required",
    "args_schema": {"type": "object", "properties": {"ticket": {"type": "string"}}}}],
  "revoked": {"agents": [], "keys": [], "snapshots": []}
}"#;

fn keys() -> RunKeys {
    let secret = ServerSecret::new(KeyId::new("k").unwrap(), &[9; 32]).unwrap();
    Keyring::new(secret).for_run(&RunId::new("run").unwrap())
}

fn open(now: Timestamp) -> ToolGate {
    let operator = SigningKey::from_seed([7; 32]);
    let root = TrustRoot::new(1, 1, vec![operator.verifying_key()]).unwrap();
    let draft = RegistryDraft::from_json(DRAFT.as_bytes()).unwrap();
    let signed = draft.sign(now, now.checked_add(Millis::from_secs(86_400)).unwrap(), &[&operator]).unwrap();
    let marks = Arc::new(MemoryHighWater::new());
    let registry =
        CapabilityRegistry::load(signed.to_json().as_bytes(), &root, marks, LoadOptions::default(), now)
            .unwrap();
    let request = NegotiationRequest::new(SessionId::new("s").unwrap(), AgentId::new("bot").unwrap());
    let contract = registry.negotiate(&request, now).unwrap();
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(now));
    let sink: Arc<dyn AuditSink> = Arc::new(MemorySink::new());
    let spent: Arc<dyn SpentTokens> = Arc::new(MemorySpentTokens::new());
    let pin = PinnedAsk::pin("Answer", contract.session(), Millis::from_secs(3_600), now).unwrap();
    ToolGate::builder(Arc::new(registry), contract, Principal::new("ada").unwrap(), clock, sink)
        .pinned_ask(pin)
        .approvals(ApprovalSettings::new(keys(), spent, Audience::new("gate").unwrap()))
        .open()
        .unwrap()
}

/// Arguments of exactly this many bytes.
fn args_of(bytes: usize) -> Vec<u8> {
    let fill = bytes.saturating_sub(r#"{"ticket":""}"#.len());
    format!(r#"{{"ticket":"{}"}}"#, "T".repeat(fill)).into_bytes()
}

fn decision(c: &mut Criterion) {
    let now = Timestamp::from_millis(1_790_000_000_000).unwrap();
    let gate = open(now);
    let next = AtomicU64::new(0);
    let run_keys = keys();
    let mut group = c.benchmark_group("decision");
    for bytes in [26, 1_024, 65_536] {
        let args = args_of(bytes);
        let refused = gate.check(&ToolCall::new("c", "desk", "refund", &args)).unwrap_err();
        let binding = refused.approval_request().unwrap().binding().clone();
        let token = || {
            let id = TokenId::new(&format!("t{}", next.fetch_add(1, Ordering::Relaxed))).unwrap();
            let terms = MintTerms::new(id, OperatorId::new("ops").unwrap(), now, Millis::from_secs(300));
            mint(&run_keys, &binding, &terms, Millis::from_secs(3_600)).unwrap()
        };
        let text = token().as_str().to_owned();
        let mac = Hmac::<Sha256>::new_from_slice(&[9; 32]).unwrap();
        group.bench_function(BenchmarkId::new("floor: SHA-256 and HMAC", bytes), |b| {
            b.iter(|| {
                let digest = Sha256::digest(std::hint::black_box(&args));
                let mut mac = mac.clone();
                mac.update(std::hint::black_box(text.as_bytes()));
                (digest, mac.finalize())
            });
        });
        group.bench_function(BenchmarkId::new("approved call", bytes), |b| {
            b.iter_batched(
                token,
                |token| {
                    gate.check(&ToolCall::new("c", "desk", "refund", &args).approval(token.as_str())).unwrap()
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// Maximum number of calls of each step.
const TIMES: u32 = 1_000;

/// A plan of 16 steps, each of them the same call.
fn plan(gate: &ToolGate, args: &[u8]) -> Plan {
    let tool = ToolId::new("desk", "search").unwrap();
    let step = Step::new(tool, args, &[]).unwrap().calls(TIMES).unwrap();
    Plan::new(gate.plan_context().unwrap(), vec![step; 16]).unwrap()
}

/// A gate with a plan. After all its calls were made, it is replaced by a new one.
struct Planned {
    open: Box<dyn Fn() -> ToolGate>,
    gate: ToolGate,
    made: u32,
}

impl Planned {
    fn new(open: impl Fn() -> ToolGate + 'static) -> Self {
        Self { gate: open(), open: Box::new(open), made: 0 }
    }

    /// Returns the gate and the number of the current step.
    fn next(&mut self) -> (ToolGate, u64) {
        if self.made == 16 * TIMES {
            (self.gate, self.made) = ((self.open)(), 0);
        }
        let step = self.made / TIMES + 1;
        self.made += 1;
        (self.gate.clone(), step.into())
    }
}

fn planned_step(c: &mut Criterion) {
    let now = Timestamp::from_millis(1_790_000_000_000).unwrap();
    let args = args_of(200);
    let unplanned = open(now);
    let committed =
        commit_plan(plan(&unplanned, &args), &unplanned.contract(), &unplanned.registry().view()).unwrap();
    let proofs: Vec<_> = (1..=16).map(|step| committed.prove_step(step).unwrap().to_json()).collect();
    let header = PlanRootSettings::new(*committed.root(), committed.header_proof().unwrap());
    let mut group = c.benchmark_group("a call of 200 bytes");
    let call = || ToolCall::new("c", "desk", "search", &args);
    group.bench_function("without a plan", |b| {
        b.iter_batched(|| unplanned.clone(), |gate| gate.check(&call()).unwrap(), BatchSize::SmallInput);
    });
    let of_whole = args.clone();
    let mut whole = Planned::new(move || {
        let gate = open(now);
        gate.start_plan(PlanSettings::new(plan(&gate, &of_whole))).unwrap();
        gate
    });
    group.bench_function("a step of a plan", |b| {
        b.iter_batched(
            || whole.next(),
            |(gate, step)| gate.check(&call().plan_step(step)).unwrap(),
            BatchSize::PerIteration,
        );
    });
    let mut root = Planned::new(move || {
        let gate = open(now);
        gate.start_plan_root(header.clone()).unwrap();
        gate
    });
    group.bench_function("a proved step, with the root alone", |b| {
        b.iter_batched(
            || root.next(),
            |(gate, step)| {
                let proof = proofs.get(usize::try_from(step).unwrap() - 1).unwrap();
                gate.check(&call().plan_proof(proof.as_bytes())).unwrap()
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn digest_of_args(c: &mut Criterion) {
    let limits = Limits::default();
    let mut group = c.benchmark_group("args digest");
    for bytes in [26, 1_024, 65_536] {
        let args = args_of(bytes);
        let mac = Hmac::<Sha256>::new_from_slice(&[9; 32]).unwrap();
        group.bench_function(BenchmarkId::new("floor: SHA-256 and HMAC", bytes), |b| {
            b.iter(|| {
                let mut mac = mac.clone();
                mac.update(std::hint::black_box(&args));
                (Sha256::digest(std::hint::black_box(&args)), mac.finalize())
            });
        });
        group.bench_function(BenchmarkId::new("strict read and digest", bytes), |b| {
            b.iter(|| {
                countersign_canonical_json::digest(std::hint::black_box(&args), Recipe::Jcs1, &limits)
                    .unwrap()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decision, planned_step, digest_of_args);
criterion_main!(benches);
