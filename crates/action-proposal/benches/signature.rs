//! What the verification of a proposal with one piece of signed evidence costs, beside the least that it could: one
//! verification of the same signature over the same bytes.
//!
//! Between the two lie reading what was signed, its canonical form and digest, the look-up of the key, every comparison
//! that the profile asks for, and the causal rule over the proposal. Reading the proposal itself is not in it.

use std::hint::black_box;

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

/// A payment over an invoice, with this for its evidence.
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

/// Who calls, and when: the same for signing and for verifying.
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

    /// What the reference asks for, and the end and the nonce that every attestation has.
    fn bare_draft(&self) -> Result<AttestationDraft, Failure> {
        let draft = AttestationDraft::for_proposal(&proposal("")?, "invoice-4711")
            .issued(self.now)
            .expires(Timestamp::from_millis(self.now.as_millis().saturating_add(60_000))?)
            .nonce("5d1f0c6b9a3e47d8");
        Ok(draft)
    }

    /// What the strict profile asks for.
    fn draft(&self) -> Result<AttestationDraft, Failure> {
        Ok(self.bare_draft()?.audience(&self.audience).call(&self.call()))
    }

    /// A hundred keys, of which one signs.
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

/// One kind of evidence, with the profile that it is made for.
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

fn bench(criterion: &mut Criterion) -> Result<(), Failure> {
    let world = World::new()?;
    let (call, clock, public) = (world.call(), ManualClock::new(world.now), world.key.verifying_key());
    for kind in &Kind::all(&world)? {
        let verifier = world.verifier(kind.profile)?;
        // A bench of a refusal would be worth nothing.
        let verified = proposal(&kind.entry)?.verify(&verifier, &call, &clock)?;
        if verified.keys().count() != 1 {
            return Err("the evidence was not looked at".into());
        }
        let mut group = criterion.benchmark_group(kind.name);
        group.bench_function("floor: one Ed25519 verification of its payload", |b| {
            b.iter(|| public.verify(black_box(kind.payload.as_bytes()), black_box(&kind.signature)));
        });
        group.bench_function("verify the proposal with it", |b| {
            let run = |proposal: Option<ActionProposal>| proposal?.verify(&verifier, &call, &clock).ok();
            b.iter_batched(|| proposal(&kind.entry).ok(), run, BatchSize::SmallInput);
        });
        group.finish();
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}
