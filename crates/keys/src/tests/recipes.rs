//! Public vectors under `tests/vectors/keys/recipes`: fingerprints, derived keys and signed bytes. `cargo run -p xtask --
//! vectors` makes them, fingerprints and derived keys without the code that is tested here.

use countersign_core::{KeyId, RunId};
use countersign_test_vectors::{Vectors, hex};
use serde_json::{Value, json};

use super::{key, unhex, unhex_all};
use crate::dsse::Envelope;
use crate::{ServerSecret, TrustRoot, VerifyingKey};

#[test]
fn the_library_computes_each_recipe_on_disk() {
    let files = Vectors::recipes("keys").on_disk();
    for (name, text) in &files {
        let case: Value = serde_json::from_str(text).unwrap();
        let (label, input) = (case["label"].as_str().unwrap(), &case["input"]);
        let text = |member: &str| input[member].as_str().unwrap();
        match (case["kind"].as_str().unwrap(), label) {
            ("fingerprint", "countersign/ed25519-key-1") => {
                let key = VerifyingKey::from_base64(text("public")).unwrap();
                assert_eq!(json!(key.fingerprint()), case["sha256"], "{name}");
                assert_eq!(json!(key.key_id()), input["key_id"], "{name}");
            }
            ("fingerprint", "countersign/trust-root-1") => {
                let root = TrustRoot::from_json(text("file").as_bytes()).unwrap();
                assert_eq!(json!(root.fingerprint()), case["sha256"], "{name}");
            }
            ("derived-key", _) => {
                let secret = unhex::<32>(text("secret"));
                let secret = ServerSecret::new(KeyId::new(text("key_id")).unwrap(), &secret).unwrap();
                let derived = match label {
                    "countersign/run-key-1" => secret.run_key(&RunId::new(text("name")).unwrap()),
                    _ => secret.named_key(text("name")),
                };
                let tag = derived.tag(case["message"].as_str().unwrap().as_bytes());
                assert_eq!(hex(tag.as_bytes()), case["tag"], "{name}");
            }
            ("envelope", _) => {
                let envelope = Envelope::sign(label, text("payload").as_bytes(), &[&key(7)]).to_json();
                assert_eq!(envelope, case["envelope"], "{name}");
                assert!(
                    envelope.contains(&key(7).sign(&unhex_all(case["bytes"].as_str().unwrap())).to_base64()),
                    "{name}"
                );
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(files.len() >= 10);
}
