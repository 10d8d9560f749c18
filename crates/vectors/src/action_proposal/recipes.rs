//! Public vectors under `tests/vectors/action-proposal/recipes`: ids of attestations in the spent set and signed
//! lists of endorsed digests, built a second time; and accepted and refused nonces.

use std::collections::BTreeMap;
use std::sync::Arc;

use countersign::core::{Audience, Digest, ManualClock, Millis, SpendError, SpentTokens, Ticket, Timestamp};
use countersign::keys::{SigningKey, TrustRoot};
use countersign_test_vectors::{Framed, hex, numbered};
use serde_json::{Value, json};

use super::made::*;
use countersign::action_proposal::{
    ActionProposal, EndorsedDigests, EndorsementDraft, EvidenceKeyring, MemoryEvidence, Profile,
    ProposalLimits, ProposalVerifier, ProposalVerifierBuilder, ProposedCall, VerifiedProposal,
};

/// The first and the last character of a nonce, and one that JSON escapes.
const EDGES: &str = "!~\"\\!~\"\\!~\"\\!~\"\\";

/// Id in the spent set of the attestation with this nonce, after verification at a strict gate.
fn spent_by(key: &SigningKey, key_id: &str, nonce: &str) -> Digest {
    let object =
        changed(attestation(&transfer(), "invoice", key_id), |object| object["x_nonce"] = nonce.into());
    let payload = canonical(&object);
    let proposal = with_entry(transfer(), entry("invoice", &payload, &payload, key, key_id));
    let verified = verified_at(&proposal, verifier(), moment(&NOW.into()));
    *verified.evidence()[0].attestation().unwrap().0.digest()
}

fn verifier() -> ProposalVerifierBuilder {
    ProposalVerifier::builder(Profile::Strict)
        .keyring(EvidenceKeyring::from_json(keyring().to_string().as_bytes()).unwrap())
        .audience(Audience::new("gate-1").unwrap())
}

/// Verifies a proposal for the call that it proposes.
fn verified_at(proposal: &Value, verifier: ProposalVerifierBuilder, now: Timestamp) -> VerifiedProposal {
    let call = call_of(proposal);
    let member = |name: &str| call[name].as_str().unwrap();
    let (server, id) = (member("server").parse().unwrap(), member("call_id").parse().unwrap());
    let (principal, agent) = (member("principal").parse().unwrap(), member("agent").parse().unwrap());
    let session = member("session").parse().unwrap();
    let parsed = ActionProposal::parse(proposal.to_string().as_bytes(), &ProposalLimits::default()).unwrap();
    let known = ProposedCall::to_tool_named("payments_send")
        .server(&server)
        .call_id(&id)
        .principal(&principal)
        .agent(&agent)
        .session(&session)
        .registry_version(7)
        .args(parsed.args_digest())
        .impact(member("impact").parse().unwrap());
    let clock = ManualClock::new(now);
    parsed.verify(&verifier.build().unwrap(), &known, &clock).unwrap()
}

fn spent(about: &str, key: &SigningKey, key_id: &str, nonce: &str) -> Value {
    let public = key.verifying_key();
    let framed = Framed::new("countersign/attestation-1")
        .field("public", public.as_bytes())
        .field("nonce", nonce.as_bytes());
    let digest = spent_by(key, key_id, nonce);
    assert_eq!(Digest::of(&framed.bytes()), digest, "{about}");
    framed.vector(about, "spent", &json!({ "public": public.to_base64(), "nonce": nonce }), digest)
}

/// The envelope of a list of endorsed digests: the signature covers DSSE's encoding of type and payload.
fn endorsement(about: &str, digests: &Value) -> Value {
    let (label, key) = ("application/vnd.countersign.evidence-digests+json", operator());
    let list = json!({
        "format": "countersign-evidence-digests-1", "issued": 1_769_857_200_000_i64,
        "expires": 1_769_947_200_000_i64, "digests": digests,
    });
    let payload = canonical(&list);
    let bytes = format!("DSSEv1 {} {label} {} {payload}", label.len(), payload.len());
    let signature = key.sign(bytes.as_bytes());
    let draft = EndorsementDraft::from_json(list.to_string().as_bytes()).unwrap();
    let envelope = draft.to_envelope(&[&key]).to_json();
    let written: Value = serde_json::from_str(&envelope).unwrap();
    assert_eq!(written["signatures"][0]["sig"], signature.to_base64(), "{about}");
    json!({
        "description": about, "kind": "envelope", "label": label,
        "input": { "seed": hex(&[9; 32]), "payload": payload }, "public": public(&key),
        "bytes": hex(bytes.as_bytes()), "signature": hex(signature.as_bytes()), "envelope": envelope,
    })
}

/// An entry that binds arguments, with one use more than a call needs.
fn bound_entry() -> Value {
    json!({
        "sha256": sha256("a file"), "tools": ["payments_send"], "issued": 1_769_857_200_000_i64,
        "expires": 1_769_947_200_000_i64, "uses": 2,
        "bounds": [{"pointer": "/to", "equals": "zo\u{e9}"}, {"pointer": "/amount", "min": 1, "max": 1200.5}],
    })
}

/// Id of an entry: the canonical entry without its uses.
fn endorsement_id(about: &str, entry: &Value) -> Value {
    let list = json!({
        "format": "countersign-evidence-digests-1", "issued": 1_769_857_200_000_i64,
        "expires": 1_769_947_200_000_i64, "digests": [entry],
    });
    let draft = EndorsementDraft::from_json(list.to_string().as_bytes()).unwrap();
    let text = canonical(&changed(entry.clone(), |entry| without(entry, "uses")));
    let framed = Framed::new("countersign/endorsement-1").field("entry", text.as_bytes());
    let id = draft.entries()[0].id();
    assert_eq!(Digest::of(&framed.bytes()), id, "{about}");
    framed.vector(about, "endorsement", entry, id)
}

/// Id in the spent set of the last spent use.
#[derive(Debug, Default)]
struct LastSpent(std::sync::Mutex<Vec<Digest>>);

impl SpentTokens for LastSpent {
    fn spend(&self, ticket: &Ticket, _: Timestamp) -> Result<(), SpendError> {
        let mut spent = self.0.lock().unwrap();
        if spent.contains(ticket.id.digest()) {
            return Err(SpendError::Spent);
        }
        spent.push(*ticket.id.digest());
        Ok(())
    }
}

/// The use of that number of an entry.
fn endorsement_use(about: &str, number: u64) -> Value {
    // Times at the beginning of 2026, an hour apart.
    let (issued, expires, invoice) = (1_767_225_599_000_u64, 1_767_229_200_000_u64, b"invoice");
    let entry = json!({
        "sha256": Digest::of(invoice).to_string(), "uses": 2, "issued": issued, "expires": expires,
        "bounds": [{"pointer": "/to", "equals": "acme"}],
    });
    let list = json!({
        "format": "countersign-evidence-digests-1", "issued": issued, "expires": expires, "digests": [entry],
    });
    let envelope =
        EndorsementDraft::from_json(list.to_string().as_bytes()).unwrap().to_envelope(&[&operator()]);
    let root = TrustRoot::new(1, 1, vec![operator().verifying_key()]).unwrap();
    let now = Timestamp::from_millis(1_767_225_600_000).unwrap();
    let endorsed = EndorsedDigests::load(envelope.to_json().as_bytes(), &root, now).unwrap();
    let files = Arc::new(MemoryEvidence::new().with("file://invoice.txt", *invoice));
    let file = json!({
        "id": "invoice", "type": "hash", "ref": "file://invoice.txt", "sha256": Digest::of(invoice).to_string(),
    });
    let proposal = with_entry(transfer(), file);
    let store = LastSpent::default();
    let mut spent = None;
    for _ in 0..number {
        let gate = verifier().resolver(Arc::clone(&files) as _).endorsed(endorsed.clone());
        let verified = verified_at(&proposal, gate, now);
        let done = verified.spend(&store, now, Millis::ZERO).unwrap();
        spent = done.evidence()[0].endorsement().copied();
    }
    let spent = spent.unwrap();
    assert_eq!(u64::from(spent.number()), number);
    let framed = Framed::new("countersign/endorsement-use-1")
        .field("endorsement", spent.id().as_bytes())
        .field("number", &number.to_be_bytes());
    let digest = *store.0.lock().unwrap().last().unwrap();
    assert_eq!(Digest::of(&framed.bytes()), digest, "{about}");
    framed.vector(about, "spent", &json!({"endorsement": spent.id().to_string(), "number": number}), digest)
}

fn recipes() -> Vec<Case> {
    let digest = sha256("a file");
    let scoped = json!([{
        "sha256": digest, "tools": ["payments_send"], "impacts": ["money"], "principals": ["zo\u{e9}\u{1f600}"],
    }]);
    vec![
        (
            "spent",
            spent(
                "an attestation is spent by its nonce under its key",
                &cfo(),
                "cfo-1",
                "nonce-of-the-entry",
            ),
        ),
        (
            "spent_under_another_key",
            spent("the same nonce under another key", &cto(), "cto-1", "nonce-of-the-entry"),
        ),
        ("spent_shortest_nonce", spent("a nonce of 16 characters", &cfo(), "cfo-1", "0123456789abcdef")),
        (
            "spent_other_case",
            spent("a nonce is taken as it is, capitals included", &cfo(), "cfo-1", "0123456789ABCDEF"),
        ),
        ("spent_longest_nonce", spent("a nonce of 128 characters", &cfo(), "cfo-1", &"n".repeat(128))),
        (
            "spent_edges_of_the_alphabet",
            spent("the first and last visible characters, and escapes", &cfo(), "cfo-1", EDGES),
        ),
        ("endorsed_digest", endorsement("a list of one digest", &json!([{ "sha256": digest }]))),
        ("endorsed_digest_in_scope", endorsement("a scope, and names beyond ASCII", &scoped)),
        (
            "endorsed_digest_for_arguments",
            endorsement("bounds, uses and times of its own", &json!([bound_entry()])),
        ),
        ("endorsement_id", endorsement_id("an entry's id leaves its uses out", &bound_entry())),
        ("endorsement_first_use", endorsement_use("the first use of an entry", 1)),
        ("endorsement_second_use", endorsement_use("the second use of the same entry", 2)),
    ]
}

pub(super) fn accepted() -> Vec<Case> {
    let case = |about: &str, nonce: &str| {
        allowed(about, strict(attested(|object| object["x_nonce"] = nonce.into())))
    };
    vec![
        ("shortest_nonce", case("a nonce of 16 characters", &"n".repeat(16))),
        ("longest_nonce", case("a nonce of 128 characters", &"n".repeat(128))),
        ("nonce_of_edges_of_the_alphabet", case("the first and last visible characters, and escapes", EDGES)),
    ]
}

pub(super) fn refused() -> Vec<Case> {
    let case = |about: &str, nonce: Value| {
        let vector = strict(attested(|object| object["x_nonce"] = nonce));
        evidence_failed(about, "/evidence/0/payload/x_nonce", vector)
    };
    vec![
        ("empty_nonce", case("no character at all", "".into())),
        ("nonce_of_16_bytes_beyond_ascii", case("eight letters of two bytes", "\u{e9}".repeat(8).into())),
        ("nonce_of_a_line", case("a line break at the end", "0123456789abcdef\n".into())),
        (
            "nonce_with_delete",
            case("the character after the last visible one", "0123456789abcde\u{7f}".into()),
        ),
        ("nonce_of_digits", case("a number", 1_234_567_890_123_456_u64.into())),
    ]
}

pub(crate) fn files() -> BTreeMap<String, String> {
    numbered("recipes", recipes())
}

#[cfg(test)]
#[test]
fn no_two_attestations_of_the_recipes_are_spent_by_one_digest() {
    let cases = recipes();
    let spent: Vec<_> = cases.iter().filter_map(|(_, case)| case["sha256"].as_str()).collect();
    let different: std::collections::BTreeSet<_> = spent.iter().collect();
    // Two of them are entry ids and no spent ids, and differ as well.
    assert_eq!((spent.len(), different.len()), (9, 9));
}
