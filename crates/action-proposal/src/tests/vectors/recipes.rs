//! Public vectors under `tests/vectors/action-proposal/recipes`: ids of attestations in the spent set and signed
//! lists of endorsed digests, built a second time; and accepted and refused nonces.

use countersign_core::{Audience, Digest, ManualClock, Millis, SpendError, SpentTokens, Ticket, Timestamp};
use countersign_keys::SigningKey;
use countersign_test_vectors::{Framed, Vectors, hex, numbered};
use serde_json::{Value, json};

use super::made::*;
use crate::tests::world;
use crate::{
    ActionProposal, EndorsementDraft, EvidenceKeyring, Profile, ProposalLimits, ProposalVerifier,
    ProposedCall,
};

/// The first and the last character of a nonce, and one that JSON escapes.
const EDGES: &str = "!~\"\\!~\"\\!~\"\\!~\"\\";

/// Id in the spent set of the attestation with this nonce, after verification at a strict gate.
fn spent_by(key: &SigningKey, key_id: &str, nonce: &str) -> Digest {
    let object =
        changed(attestation(&transfer(), "invoice", key_id), |object| object["x_nonce"] = nonce.into());
    let payload = canonical(&object);
    let proposal = with_entry(transfer(), entry("invoice", &payload, &payload, key, key_id));
    let call = call_of(&proposal);
    let (server, id) = (super::member(&call["server"]), super::member(&call["call_id"]));
    let (principal, agent) = (super::member(&call["principal"]), super::member(&call["agent"]));
    let session = super::member(&call["session"]);
    let mut known = ProposedCall::to_tool_named("payments_send")
        .server(&server)
        .call_id(&id)
        .principal(&principal)
        .agent(&agent)
        .session(&session)
        .registry_version(7);
    known.args = Some(super::digest_of(&call["args"].to_string()));
    known.impact = Some(super::member(&call["impact"]));
    let verifier = ProposalVerifier::builder(Profile::Strict)
        .keyring(EvidenceKeyring::from_json(keyring().to_string().as_bytes()).unwrap())
        .audience(Audience::new("gate-1").unwrap())
        .build()
        .unwrap();
    let clock = ManualClock::new(super::moment(&NOW.into()));
    let proposal =
        ActionProposal::parse(proposal.to_string().as_bytes(), &ProposalLimits::default()).unwrap();
    let verified = proposal.verify(&verifier, &known, &clock).unwrap();
    *verified.evidence()[0].attestation().unwrap().0.digest()
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
    let entry = world::for_acme(&json!({"uses": 2}));
    let verifier = world::gate(Profile::Strict)
        .resolver(world::files(&[("file://invoice.txt", b"invoice")]))
        .endorsed(world::endorsed(b"invoice", &entry));
    let verifier = world::built(verifier);
    let file = world::hash_entry("invoice", "file://invoice.txt", b"invoice");
    let proposal = world::with_evidence(world::transfer(), file);
    let store = LastSpent::default();
    let mut spent = None;
    for _ in 0..number {
        let verified = world::judge(&proposal, &verifier).unwrap();
        let done = verified.spend(&store, world::at(world::NOW), Millis::ZERO).unwrap();
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

#[test]
fn the_recipes_on_disk_are_those_that_are_made() {
    Vectors::recipes("action-proposal").hold(&numbered("recipes", recipes()));
}

#[test]
fn no_two_attestations_of_the_recipes_are_spent_by_one_digest() {
    let cases = recipes();
    let spent: Vec<_> = cases.iter().filter_map(|(_, case)| case["sha256"].as_str()).collect();
    let different: std::collections::BTreeSet<_> = spent.iter().collect();
    // Two of them are entry ids and no spent ids, and differ as well.
    assert_eq!((spent.len(), different.len()), (9, 9));
}
