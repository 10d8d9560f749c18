//! Keys: fingerprints, derived keys and signed bytes.

use std::collections::BTreeMap;

use countersign_keys::dsse::Envelope;
use countersign_keys::{MacKey, SigningKey, TrustRoot};
use countersign_test_vectors::{Framed, hex, numbered};
use hkdf::Hkdf;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::framed_vector;

pub(crate) fn recipe_files() -> BTreeMap<String, String> {
    numbered("recipes", recipes())
}

/// A signing key with a fixed seed.
fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed([seed; 32])
}

/// A root of version 1 over keys with fixed seeds.
fn root(threshold: usize, seeds: &[u8]) -> TrustRoot {
    TrustRoot::new(1, threshold, seeds.iter().map(|seed| key(*seed).verifying_key())).unwrap()
}

fn fingerprint(about: &str, key: &SigningKey) -> Value {
    let public = key.verifying_key();
    let framed = Framed::new("countersign/ed25519-key-1").field("public", public.as_bytes());
    let input = json!({ "public": public.to_base64(), "key_id": public.key_id() });
    framed_vector(about, "fingerprint", &framed, &input)
}

fn root_fingerprint(about: &str, root: &TrustRoot) -> Value {
    let text = root.to_json();
    let framed = Framed::new("countersign/trust-root-1").field("file", text.as_bytes());
    framed_vector(about, "fingerprint", &framed, &json!({ "file": text }))
}

/// A key derived from a secret of 32 bytes of value 1: the info, the key, and a message's tag.
fn derived(about: &str, label: &str, id: &str, name: &str) -> Value {
    let secret = [1; 32];
    let info = Framed::new(label).field("key_id", id.as_bytes()).field("name", name.as_bytes()).bytes();
    let mut okm = [0; 32];
    Hkdf::<Sha256>::new(None, &secret).expand(&info, &mut okm).unwrap();
    let tag = MacKey::from_bytes(&okm).unwrap().tag(b"message");
    json!({
        "description": about, "kind": "derived-key", "label": label,
        "input": { "secret": hex(&secret), "key_id": id, "name": name },
        "info": hex(&info), "key": hex(&okm), "message": "message", "tag": hex(tag.as_bytes()),
    })
}

/// The envelope of a payload, with the signed encoding of type and payload.
fn envelope(about: &str, payload_type: &str, payload: &str) -> Value {
    let (size, length) = (payload_type.len(), payload.len());
    let bytes = format!("DSSEv1 {size} {payload_type} {length} {payload}");
    let signature = key(7).sign(bytes.as_bytes());
    let text = Envelope::sign(payload_type, payload.as_bytes(), &[&key(7)]).to_json();
    json!({
        "description": about, "kind": "envelope", "label": payload_type,
        "input": { "seed": hex(&[7; 32]), "payload": payload }, "public": key(7).verifying_key().to_base64(),
        "bytes": hex(bytes.as_bytes()), "signature": hex(signature.as_bytes()), "envelope": text,
    })
}

fn recipes() -> Vec<(&'static str, Value)> {
    let (run, purpose) = ("countersign/run-key-1", "countersign/purpose-key-1");
    let next = root(1, &[1]).to_json();
    vec![
        ("key", fingerprint("an Ed25519 public key", &key(1))),
        ("another_key", fingerprint("another one", &key(2))),
        ("trust_root", root_fingerprint("a root of one key", &root(1, &[1]))),
        ("trust_root_of_three", root_fingerprint("two of three keys", &root(2, &[1, 2, 3]))),
        ("run_key", derived("the key of a run", run, "k1", "run-1")),
        ("run_key_border_left", derived("the border of key id and run", run, "a", "bc")),
        ("run_key_border_right", derived("the same characters with the border elsewhere", run, "ab", "c")),
        ("purpose_key", derived("the key of a purpose of the same name", purpose, "k1", "run-1")),
        (
            "envelope_of_a_root",
            envelope("a trust root", "application/vnd.countersign.trust-root+json", &next),
        ),
        (
            "envelope_of_another_type",
            envelope("the same bytes as a registry", "application/vnd.countersign.registry+json", &next),
        ),
    ]
}
