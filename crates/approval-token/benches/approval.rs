//! Cost of an approval at the gate, beside its floor: one HMAC over the same payload. Cost of a spend in memory.

use std::hint::black_box;

use countersign_approval_token::{
    ApprovalToken, DEFAULT_TTL_CAP, MemorySpentTokens, MintTerms, VerifyTerms, mint, verify, verify_text,
};
use countersign_canonical_json::Recipe;
use countersign_core::{
    AgentId, Audience, CallFacts, CallId, Digest, KeyId, Millis, OperatorId, Principal, RunId, SessionId,
    SpentId, SpentTokens as _, Ticket, Timestamp, TokenId, ToolId,
};
use countersign_keys::sealed::{PayloadBuffer, SealedText};
use countersign_keys::{Keyring, RunKeys, ServerSecret};
use criterion::{BatchSize, Criterion};

/// Keys, call and time of all benches. The digest of the arguments is precomputed.
fn call() -> Result<(RunKeys, CallFacts, Timestamp), Box<dyn std::error::Error>> {
    let keyring = Keyring::new(ServerSecret::new(KeyId::new("2026-01")?, &[7; 32])?);
    let binding = CallFacts::new(
        CallId::new("call-0001")?,
        ToolId::new("desk", "refund")?,
        Digest::of(b"arguments of 26 bytes long"),
        Recipe::Jcs1,
        Principal::new("alice@example.com")?,
    )
    .agent(AgentId::new("support-bot")?)
    .session(SessionId::new("session-0001")?)
    .definition(Digest::of(b"definition"))
    .ask(Digest::of(b"ask"))
    .registry_version(7)
    .audience(Audience::new("gate-1")?);
    Ok((keyring.for_run(&RunId::new("run-0001")?), binding, Timestamp::from_millis(1_000_000)?))
}

fn bench(criterion: &mut Criterion) -> Result<(), Box<dyn std::error::Error>> {
    let (keys, binding, now) = call()?;
    let skew = Millis::from_secs(5);
    let minute = Millis::from_secs(60);
    let approver = OperatorId::new("olga")?;
    let fresh = |n: u64| -> Option<ApprovalToken> {
        let terms =
            MintTerms::new(TokenId::new(&format!("token-{n:012}")).ok()?, approver.clone(), now, minute);
        mint(&keys, &binding, &terms, DEFAULT_TTL_CAP).ok()
    };
    let token = fresh(0).ok_or("no token")?;
    let mut buffer = PayloadBuffer::default();
    let sealed = SealedText::parse("cs1", token.as_str(), &mut buffer)?;
    let payload = sealed.open("countersign/approval-1", keys.active().1)?.to_vec();
    let mut group = criterion.benchmark_group("approval");
    group.bench_function("floor: one HMAC over the payload", |b| {
        b.iter(|| keys.active().1.tag(black_box(&payload)));
    });
    group.bench_function("parse", |b| b.iter(|| black_box(token.as_str()).parse::<ApprovalToken>()));
    group.bench_function("verify from text", |b| {
        b.iter(|| verify_text(black_box(token.as_str()), &keys, &binding, now, &VerifyTerms::default()));
    });
    let (spent, mut ids) = (MemorySpentTokens::new(), 1..);
    group.bench_function("verify and spend", |b| {
        let setup = || ids.next().and_then(fresh);
        let run = |token: Option<ApprovalToken>| {
            let approval = verify(token.as_ref()?, &keys, &binding, now, &VerifyTerms::default()).ok()?;
            approval.spend(&spent, now, skew).ok()
        };
        b.iter_batched(setup, run, BatchSize::SmallInput);
    });
    let (spent, mut ids) = (MemorySpentTokens::new(), 0_u64..);
    group.bench_function("spend", |b| {
        let setup = || {
            // A ticket lives for 65 seconds, and a million of them are spent a minute.
            let n = ids.next().unwrap_or_default();
            let now = now.saturating_add(Millis::new(n / 16).unwrap_or(Millis::ZERO));
            let id = SpentId::new(Digest::of(&n.to_be_bytes()));
            (Ticket::new(id, now, now.saturating_add(Millis::from_secs(65))), now)
        };
        b.iter_batched(setup, |(ticket, now)| spent.spend(&ticket, now), BatchSize::SmallInput);
    });
    group.bench_function("mint", |b| b.iter(|| fresh(black_box(1))));
    group.finish();
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}
