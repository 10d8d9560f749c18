//! Treatment and limits of each entry of evidence.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_core::{Clock, ClockError, Digest, ManualClock, Timestamp};
use serde_json::{Value, json};

use super::world::{
    Facts, NOW, answer, at, attested, attested_transfer, built, cfo, clock, code, cto, files, gate,
    hash_entry, judge, look, millis, outcome, parsed, transfer, verdict, with_evidence,
};
use crate::{
    EvidenceBudget, EvidenceKeyring, EvidenceResolver, Profile, ProposalLimits, ProposalPolicy, ResolveError,
    ResolvedEvidence,
};

fn failed(place: &str, rule: &str) -> (&'static str, String) {
    ("PIC_EVIDENCE_FAILED", format!("{place}: {rule}"))
}

#[test]
fn a_file_must_have_the_digest_that_it_is_said_to_have() {
    let value = with_evidence(look(), hash_entry("a", "file://a.txt", b"one"));
    for profile in Profile::ALL {
        let with = |bytes: &[u8]| {
            answer(&value, gate(profile).verify_evidence().resolver(files(&[("file://a.txt", bytes)])))
        };
        assert_eq!(with(b"one").0, "allow");
        assert_eq!(with(b"two"), failed("/evidence/0/sha256", "must be the digest of the file"));
        assert_eq!(with(b""), failed("/evidence/0/sha256", "must be the digest of the file"));
    }
}

#[test]
fn a_file_that_cannot_be_had_fails() {
    let verifier = built(gate(Profile::Strict).resolver(files(&[("file://a.txt", b"one")])));
    let with = |reference: &str| {
        outcome(judge(&with_evidence(look(), hash_entry("a", reference, b"one")), &verifier))
    };
    assert_eq!(with("file://a.txt").0, "allow");
    assert_eq!(with("file://b.txt"), failed("/evidence/0/ref", "nothing is there"));
    let rule = "the reference is not a plain relative file reference";
    for reference in ["file://../a.txt", "file:///a.txt", "http://a.txt", "a.txt", "file://%61.txt", ""] {
        assert_eq!(with(reference), failed("/evidence/0/ref", rule), "{reference}");
    }
    let nowhere =
        judge(&with_evidence(look(), hash_entry("a", "file://a.txt", b"one")), &built(gate(Profile::Strict)));
    assert_eq!(outcome(nowhere), failed("/evidence/0/ref", "needs an evidence folder, and none is set"));
}

#[test]
fn handed_on_bytes_are_the_hashed_ones() {
    let value = with_evidence(look(), hash_entry("a", "file://a.txt", b"SECRET"));
    let verified =
        judge(&value, &built(gate(Profile::Strict).resolver(files(&[("file://a.txt", b"SECRET")])))).unwrap();
    let [evidence] = verified.evidence() else { panic!("one entry") };
    assert_eq!(
        (evidence.id(), evidence.digest(), evidence.bytes()),
        ("a", Digest::of(b"SECRET"), Some(&b"SECRET"[..]))
    );
    assert_eq!(evidence.signer(), None);
    assert!(evidence.attestation().is_none());
    let shown = format!("{verified:?}");
    assert!(!shown.contains("SECRET") && !shown.contains("83, 69"), "{shown}");
}

#[test]
fn first_failing_entry_is_reported() {
    let resolver = || files(&[("file://a", b"a"), ("file://b", b"b")]);
    let good = [hash_entry("a", "file://a", b"a"), hash_entry("b", "file://b", b"b")];
    let bad = [hash_entry("x", "file://a", b"other"), hash_entry("y", "file://none", b"")];
    let judged = |entries: &[&Value]| {
        let value = entries.iter().fold(look(), |value, entry| with_evidence(value, (*entry).clone()));
        answer(&value, gate(Profile::Pic09).resolver(resolver()))
    };
    assert_eq!(judged(&[&good[0], &good[1]]).0, "allow");
    assert_eq!(judged(&[&good[0], &bad[0], &bad[1]]).1, "/evidence/1/sha256: must be the digest of the file");
    assert_eq!(judged(&[&good[0], &bad[1], &bad[0]]).1, "/evidence/1/ref: nothing is there");
    assert_eq!(judged(&[&bad[1], &good[0], &good[1]]).1, "/evidence/0/ref: nothing is there");
    // A valid signature does not make up for it.
    let filed = with_evidence(transfer(), bad[1].clone());
    let both = attested(filed, "invoice", &cfo(), "cfo-1", &Facts::new("payments_send"));
    let refused = answer(&both, gate(Profile::Strict).resolver(resolver()));
    assert_eq!(refused, failed("/evidence/0/ref", "nothing is there"));
}

#[test]
fn failing_signature_is_reported_at_its_place() {
    let mut value = attested_transfer();
    value["evidence"][0]["key_id"] = json!("cto-1");
    let refused = answer(&value, gate(Profile::Strict));
    assert_eq!(refused, failed("/evidence/0/signature", "must be the key's over the payload"));
    value["evidence"][0]["key_id"] = json!("cfo-2");
    let refused = answer(&value, gate(Profile::Strict));
    assert_eq!(refused, failed("/evidence/0/key_id", "must be in the keyring"));
    let none = gate(Profile::Strict).keyring(EvidenceKeyring::empty());
    assert_eq!(verdict(&attested_transfer(), none), "PIC_EVIDENCE_FAILED");
}

#[test]
fn key_must_cover_the_policys_impact() {
    let file = json!({"trusted_keys": {"cfo-1": {"public_key": cfo().verifying_key().to_base64(), "impacts": ["irreversible"]}}});
    let keyring = EvidenceKeyring::from_json(file.to_string().as_bytes()).unwrap();
    let mut value = transfer();
    value["impact"] = json!("irreversible");
    let value = attested(value, "invoice", &cfo(), "cfo-1", &Facts::new("payments_send"));
    assert_eq!(verdict(&value, gate(Profile::Strict).keyring(keyring.clone())), "allow");
    let policy = ProposalPolicy::from_json(br#"{"impact_by_tool": {"payments_send": "money"}}"#).unwrap();
    let refused = answer(&value, gate(Profile::Strict).keyring(keyring).policy(policy));
    assert_eq!(refused, failed("/evidence/0/key_id", "must be a key for this impact"));
}

#[test]
fn evidence_that_is_skipped_is_not_looked_at() {
    let value = with_evidence(look(), hash_entry("a", "file://../../etc", b"x"));
    let verified = judge(&value, &built(gate(Profile::Pic09).dangerous_skip_evidence())).unwrap();
    assert!(verified.evidence().is_empty());
    assert_eq!(verdict(&value, gate(Profile::Pic08)), "allow");
    assert_eq!(verdict(&value, gate(Profile::Pic08).verify_evidence()), "PIC_EVIDENCE_FAILED");
    // So it raises no trust.
    let skipping = built(gate(Profile::Pic09).dangerous_skip_evidence());
    assert_eq!(code(judge(&attested_transfer(), &skipping)), "PIC_VERIFIER_FAILED");
}

/// Files bounded only by their size, which count the bytes read and take time.
#[derive(Debug)]
struct Endless {
    bytes: u64,
    served: AtomicU64,
    clock: Arc<ManualClock>,
    millis_a_file: u32,
}

impl Endless {
    fn new(bytes: u64, millis_a_file: u32) -> Arc<Self> {
        let clock = Arc::new(ManualClock::new(at(NOW)));
        Arc::new(Self { bytes, served: AtomicU64::new(0), clock, millis_a_file })
    }
}

impl EvidenceResolver for Endless {
    fn resolve(&self, _: &str, budget: &mut EvidenceBudget<'_>) -> Result<ResolvedEvidence, ResolveError> {
        self.clock.advance(millis(self.millis_a_file)).unwrap();
        let mut left = std::io::repeat(0).take(self.bytes);
        let read = budget.read(&mut left);
        self.served.fetch_add(self.bytes - left.limit(), Ordering::SeqCst);
        read
    }
}

fn zeros(bytes: usize) -> Digest {
    Digest::of(&vec![0; bytes])
}

fn sixty_four(digest: Digest) -> Value {
    let entry = |n: usize| json!({"id": format!("e{n}"), "type": "hash", "ref": format!("file://{n}"), "sha256": digest.to_string()});
    (0..64).fold(look(), |value, n| with_evidence(value, entry(n)))
}

#[test]
fn sixty_four_largest_files_exceed_the_budget() {
    let largest = 5 * 1_024 * 1_024;
    let files = Endless::new(largest as u64, 0);
    let verifier = built(gate(Profile::Strict).resolver(files.clone()));
    let value = sixty_four(zeros(largest));
    let proposal = parsed(&value);
    let facts = Facts::new("docs_search");
    let call = facts.call_for(&proposal);
    let refused = outcome(proposal.verify(&verifier, &call, &*files.clock));
    assert_eq!(refused.0, "PIC_LIMIT_EXCEEDED");
    assert_eq!(refused.1, "/evidence/3/ref: the proposal's evidence has more bytes than it may have");
    let served = files.served.load(Ordering::SeqCst);
    let total = 16 * 1_024 * 1_024;
    assert!((total..=total + 64 * 1_024).contains(&served), "{served}");
}

#[test]
fn a_file_over_the_limit_fails_as_a_piece_of_evidence() {
    let files = Endless::new(5 * 1_024 * 1_024 + 1, 0);
    let verifier = built(gate(Profile::Strict).resolver(files.clone()));
    let refused = outcome(judge(&sixty_four(zeros(1)), &verifier));
    assert_eq!(refused, failed("/evidence/0/ref", "it has more bytes than one file may have"));
}

/// Reads with a budget of its own, as if without limits.
#[derive(Debug)]
struct Generous(usize);

impl EvidenceResolver for Generous {
    fn resolve(&self, _: &str, _: &mut EvidenceBudget<'_>) -> Result<ResolvedEvidence, ResolveError> {
        let clock = clock();
        let mut own = EvidenceBudget::start(&clock, u64::MAX, u64::MAX, millis(1_000))?;
        own.read(std::io::repeat(0).take(self.0 as u64))
    }
}

#[test]
fn resolver_that_ignores_the_budget_is_limited() {
    let limits = ProposalLimits::default().file_bytes(4).total_bytes(7);
    let judged = |bytes: usize, entries: usize| {
        let mut value = sixty_four(zeros(bytes));
        value["evidence"].as_array_mut().unwrap().truncate(entries);
        answer(&value, gate(Profile::Strict).limits(limits).resolver(Arc::new(Generous(bytes))))
    };
    assert_eq!(judged(4, 1).0, "allow");
    assert_eq!(judged(3, 2).0, "allow");
    assert_eq!(judged(5, 1), failed("/evidence/0/ref", "it has more bytes than one file may have"));
    let detail = "/evidence/1/ref: the proposal's evidence has more bytes than it may have".to_owned();
    assert_eq!(judged(4, 2), ("PIC_LIMIT_EXCEEDED", detail));
}

#[test]
fn time_that_is_over_stops_the_work() {
    // 64 files of 10 ms: the fifty-first is not started.
    let files = Endless::new(1, 10);
    let verifier = built(gate(Profile::Strict).resolver(files.clone()));
    let proposal = parsed(&sixty_four(zeros(1)));
    let facts = Facts::new("docs_search");
    let call = facts.call_for(&proposal);
    let refused = outcome(proposal.verify(&verifier, &call, &*files.clock));
    assert_eq!(refused.0, "PIC_LIMIT_EXCEEDED", "{}", refused.1);
    assert_eq!(files.served.load(Ordering::SeqCst), 50);
}

#[test]
fn the_last_millisecond_is_in_time_and_the_next_is_not() {
    let value = with_evidence(
        look(),
        json!({"id": "a", "type": "hash", "ref": "file://a", "sha256": zeros(1).to_string()}),
    );
    for (taken, expected) in [(500, "allow"), (501, "PIC_LIMIT_EXCEEDED")] {
        let files = Endless::new(1, taken);
        let verifier = built(gate(Profile::Strict).resolver(files.clone()));
        let proposal = parsed(&value);
        let facts = Facts::new("docs_search");
        let call = facts.call_for(&proposal);
        let result = proposal.verify(&verifier, &call, &*files.clock);
        if let Ok(verified) = &result {
            assert_eq!(verified.elapsed(), millis(500));
        }
        assert_eq!(code(result), expected);
    }
}

/// A clock that advances by this many milliseconds at each reading.
#[derive(Debug)]
struct Slow {
    clock: ManualClock,
    millis_a_look: u32,
}

impl Slow {
    fn new(millis_a_look: u32) -> Self {
        Self { clock: clock(), millis_a_look }
    }
}

impl Clock for Slow {
    fn now(&self) -> Result<Timestamp, ClockError> {
        self.clock.advance(millis(self.millis_a_look)).unwrap();
        self.clock.now()
    }
}

#[test]
fn time_is_looked_at_before_each_signature() {
    let entry = |n: usize, key_id: &str| {
        json!({"id": format!("e{n}"), "type": "sig", "ref": "inline:x", "payload": "yes", "alg": "ed25519",
               "signature": cfo().sign(b"yes").to_base64(), "key_id": key_id})
    };
    let value = (0..60).fold(look(), |value, n| with_evidence(value, entry(n, "cfo-1")));
    // The last one fails, if it is reached.
    let value = with_evidence(value, entry(60, "nobody"));
    let verifier = built(gate(Profile::Pic09));
    let judged =
        |clock: &Slow| code(parsed(&value).verify(&verifier, &crate::ProposedCall::unbound(), clock));
    assert_eq!(judged(&Slow::new(1)), "PIC_EVIDENCE_FAILED");
    assert_eq!(judged(&Slow::new(20)), "PIC_LIMIT_EXCEEDED");
}

#[test]
fn deadline_is_checked_at_the_end() {
    for (taken, expected) in [(500, "allow"), (501, "PIC_LIMIT_EXCEEDED")] {
        let verifier = built(gate(Profile::Strict));
        let judged = parsed(&look()).verify(&verifier, &crate::ProposedCall::unbound(), &Slow::new(taken));
        assert_eq!(code(judged), expected);
    }
}

#[test]
fn without_a_clock_nothing_verifies() {
    let broken = clock();
    broken.break_down();
    for profile in Profile::ALL {
        let refused = parsed(&look()).verify(&built(gate(profile)), &crate::ProposedCall::unbound(), &broken);
        assert_eq!(outcome(refused), ("PIC_INTERNAL_ERROR", "the clock: must tell the time".to_owned()));
    }
}

#[test]
fn limits_are_the_verifiers() {
    let value = attested_transfer();
    let tight = ProposalLimits::default().payload_bytes(100);
    let refused = judge(&value, &built(gate(Profile::Strict).limits(tight)));
    assert_eq!(outcome(refused), failed("/evidence/0/payload", "must have no more bytes than the limit"));
    let entry = hash_entry("a", "file://a", b"four");
    let resolver = || files(&[("file://a", b"four")]);
    let small = ProposalLimits::default().file_bytes(3);
    let refused = judge(
        &with_evidence(look(), entry.clone()),
        &built(gate(Profile::Strict).limits(small).resolver(resolver())),
    );
    assert_eq!(code(refused), "PIC_EVIDENCE_FAILED");
    let few = ProposalLimits::default().total_bytes(3);
    let refused =
        judge(&with_evidence(look(), entry), &built(gate(Profile::Strict).limits(few).resolver(resolver())));
    assert_eq!(code(refused), "PIC_LIMIT_EXCEEDED");
}

#[test]
fn an_attestation_of_another_call_is_refused_by_every_profile() {
    let mut facts = Facts::new("payments_send");
    facts.call_id = countersign_core::CallId::new("call-2").unwrap();
    let value = attested(transfer(), "invoice", &cto(), "cto-1", &facts);
    for profile in Profile::ALL {
        let verifier = built(gate(profile).verify_evidence().sanitize_trust());
        assert_eq!(code(judge(&value, &verifier)), "PIC_EVIDENCE_FAILED", "{profile}");
    }
}
