//! Cost of verifying a proposal with one piece of signed evidence, beside its floor: one verification of the same
//! signature over the same bytes.
//!
//! The difference consists of parsing the payload, its canonical form and digest, the look-up of the key, every
//! comparison that the profile requires, and the causal rule over the proposal. Parsing the proposal is not included.
//!
//! Criterion measures one after the other, seconds apart. A shared machine drifts by more than their difference, so
//! they are also measured in turns: the last line of each kind gives the medians of the pairs, and their ratio.

use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};

use countersign_action_proposal::{
    ActionProposal, AttestationDraft, EvidenceKeyring, Profile, ProposalLimits, ProposalVerifier,
    ProposedCall, SignedAttestation,
};
use countersign_core::{
    AgentId, Audience, CallId, Digest, ImpactClass, ManualClock, Principal, ServerName, SessionId, Timestamp,
    ToolName,
};
use countersign_keys::{Signature, SigningKey};
use criterion::{BatchSize, Criterion};

type Failure = Box<dyn std::error::Error>;

/// Payment of an invoice, with this evidence.
fn proposal(evidence: &str) -> Result<ActionProposal, Failure> {
    let json = format!(
        r#"{{"protocol":"PIC/1.0","intent":"Pay invoice 4711 of ACME","impact":"money",
            "provenance":[{{"id":"invoice-4711","trust":"untrusted","source":"accounting"}}],
            "claims":[{{"text":"Invoice 4711 is approved","evidence":["invoice-4711"]}}],
            "action":{{"tool":"payments_send","args":{{"amount":500,"currency":"EUR","to":"ACME"}}}},
            "evidence":[{evidence}]}}"#
    );
    Ok(ActionProposal::parse(json.as_bytes(), &ProposalLimits::default())?)
}

/// Facts of the call and the signing key, equal for signing and verifying.
struct World {
    key: SigningKey,
    tool: ToolName,
    server: ServerName,
    call_id: CallId,
    principal: Principal,
    agent: AgentId,
    session: SessionId,
    audience: Audience,
    args: Digest,
    now: Timestamp,
}

impl World {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            key: SigningKey::from_seed([7; 32]),
            tool: ToolName::new("payments_send")?,
            server: ServerName::new("bank")?,
            call_id: CallId::new("call-0001")?,
            principal: Principal::new("alice@example.com")?,
            agent: AgentId::new("payments-bot")?,
            session: SessionId::new("session-0001")?,
            audience: Audience::new("gate-1")?,
            args: proposal("")?.args_digest(),
            now: Timestamp::from_millis(1_769_860_800_000)?,
        })
    }

    fn call(&self) -> ProposedCall<'_> {
        ProposedCall::new(&self.tool)
            .server(&self.server)
            .args(self.args)
            .impact(ImpactClass::Money)
            .call_id(&self.call_id)
            .principal(&self.principal)
            .agent(&self.agent)
            .session(&self.session)
            .registry_version(7)
            .ask(Digest::of(b"ask"))
    }

    /// Members that the reference requires, with the end and the nonce of every attestation.
    fn bare_draft(&self) -> Result<AttestationDraft, Failure> {
        let draft = AttestationDraft::for_proposal(&proposal("")?, "invoice-4711")
            .issued(self.now)
            .expires(Timestamp::from_millis(self.now.as_millis().saturating_add(60_000))?)
            .nonce("5d1f0c6b9a3e47d8");
        Ok(draft)
    }

    /// Members that the strict profile requires.
    fn draft(&self) -> Result<AttestationDraft, Failure> {
        Ok(self.bare_draft()?.audience(&self.audience).call(&self.call()))
    }

    /// A hundred keys, one of which signs.
    fn verifier(&self, profile: Profile) -> Result<ProposalVerifier, Failure> {
        let others = (100..200_u8).map(|seed| {
            let key = SigningKey::from_seed([seed; 32]).verifying_key();
            format!(r#""key-{seed}":"{}","#, key.to_base64())
        });
        let signer = self.key.verifying_key().to_base64();
        let keyring = format!(
            r#"{{"trusted_keys":{{{}"cfo-2026":{{"public_key":"{signer}","tools":["payments_send"],"impacts":["money"]}}}}}}"#,
            others.collect::<String>()
        );
        let builder = ProposalVerifier::builder(profile)
            .keyring(EvidenceKeyring::from_json(keyring.as_bytes())?)
            .audience(self.audience.clone());
        Ok(builder.build()?)
    }
}

/// Kind of evidence, with its profile.
struct Kind {
    name: &'static str,
    profile: Profile,
    payload: String,
    signature: Signature,
    entry: String,
}

impl Kind {
    fn all(world: &World) -> Result<[Self; 3], Failure> {
        let of = |name, profile, signed: &SignedAttestation| Self {
            name,
            profile,
            payload: signed.payload().to_owned(),
            signature: *signed.signature(),
            entry: signed.to_entry_json(),
        };
        let opaque = "amount=500;currency=EUR;invoice=4711";
        let signature = world.key.sign(opaque.as_bytes());
        let entry = format!(
            r#"{{"id":"invoice-4711","type":"sig","ref":"inline:approval","alg":"ed25519","key_id":"cfo-2026",
                "payload":"{opaque}","signature":"{}"}}"#,
            signature.to_base64()
        );
        Ok([
            of("attestation for one call", Profile::Strict, &world.draft()?.sign(&world.key, "cfo-2026")?),
            of("attestation", Profile::Pic09, &world.bare_draft()?.sign(&world.key, "cfo-2026")?),
            Self {
                name: "opaque text",
                profile: Profile::Pic09,
                payload: opaque.to_owned(),
                signature,
                entry,
            },
        ])
    }
}

/// Measures floor and verification in turns. Returns the medians of `pairs` pairs, in this order. Each proposal is
/// parsed just before, as at a gate, and each of the two goes first in every other pair.
fn in_turns<F, V>(
    pairs: usize,
    kind: &Kind,
    floor: impl Fn() -> F,
    verify: impl Fn(Option<ActionProposal>) -> V,
) -> (Duration, Duration) {
    let (mut floors, mut verifications) = (Vec::with_capacity(pairs), Vec::with_capacity(pairs));
    for pair in 0..pairs {
        let unverified = proposal(&kind.entry).ok();
        if pair % 2 == 0 {
            floors.push(time(&floor));
            verifications.push(time(|| verify(unverified)));
        } else {
            verifications.push(time(|| verify(unverified)));
            floors.push(time(&floor));
        }
    }
    (median(floors), median(verifications))
}

/// Measures the work, without dropping its result.
#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    let result = black_box(work());
    let time = start.elapsed();
    drop(result);
    time
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn bench(criterion: &mut Criterion) -> Result<(), Failure> {
    // `cargo test` passes `--test`: everything runs once, without measuring.
    let pairs = if std::env::args().any(|argument| argument == "--test") { 2 } else { 4_000 };
    let world = World::new()?;
    let (call, clock, public) = (world.call(), ManualClock::new(world.now), world.key.verifying_key());
    for kind in &Kind::all(&world)? {
        let verifier = world.verifier(kind.profile)?;
        // A refusal would make the measurement worthless.
        let verified = proposal(&kind.entry)?.verify(&verifier, &call, &clock)?;
        if verified.keys().count() != 1 {
            return Err("the evidence was not looked at".into());
        }
        let mut group = criterion.benchmark_group(kind.name);
        let floor = || public.verify(black_box(kind.payload.as_bytes()), black_box(&kind.signature));
        let run = |proposal: Option<ActionProposal>| proposal?.verify(&verifier, &call, &clock).ok();
        group.bench_function("floor: one Ed25519 verification of its payload", |b| b.iter(floor));
        group.bench_function("verify the proposal with it", |b| {
            b.iter_batched(|| proposal(&kind.entry).ok(), run, BatchSize::SmallInput);
        });
        group.finish();
        let (floor, verification) = in_turns(pairs, kind, floor, run);
        writeln!(
            std::io::stdout(),
            "{} in turns: floor {floor:.2?}, verification {verification:.2?}, ratio {:.3}\n",
            kind.name,
            verification.as_secs_f64() / floor.as_secs_f64(),
        )?;
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}
