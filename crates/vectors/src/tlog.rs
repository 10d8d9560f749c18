//! Signed notes and cosignatures.

use std::collections::BTreeMap;

use countersign_core::Timestamp;
use countersign_keys::SigningKey;
use countersign_test_vectors::{hex, numbered};
use countersign_tlog::note::{KeyName, VerifierKey, cosignature_line, signature_line};
use serde_json::{Value, json};

pub(crate) fn recipe_files() -> BTreeMap<String, String> {
    numbered("recipes", recipes())
}

/// A signature line for a note's text, or a cosignature line if there is a time.
fn note(about: &str, text: &str, seconds: Option<u64>) -> Value {
    let name = KeyName::new("example.com/log").unwrap();
    let key = SigningKey::from_seed([7; 32]);
    let public = key.verifying_key();
    let (bytes, line, verifier) = match seconds {
        None => {
            let line = signature_line(text, &name, &key);
            (text.to_owned(), line, VerifierKey::new(name, public))
        }
        Some(seconds) => {
            let at = Timestamp::from_millis(seconds * 1_000).unwrap();
            let line = cosignature_line(text, &name, &key, at);
            (format!("cosignature/v1\ntime {seconds}\n{text}"), line, VerifierKey::cosigner(name, public))
        }
    };
    let signature = key.sign(bytes.as_bytes());
    json!({
        "description": about, "kind": "note", "label": seconds.map(|_| "cosignature/v1"),
        "input": { "seed": hex(&[7; 32]), "text": text, "seconds": seconds }, "verifier_key": verifier.to_string(),
        "public": public.to_base64(), "bytes": hex(bytes.as_bytes()), "signature": hex(signature.as_bytes()), "line": line,
    })
}

fn recipes() -> Vec<(&'static str, Value)> {
    vec![
        ("note", note("a note that is signed as it is", "example.com/log\n7\n", None)),
        (
            "cosignature",
            note("the same note, cosigned by a witness", "example.com/log\n7\n", Some(1_790_000_000)),
        ),
    ]
}
