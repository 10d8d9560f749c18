//! Public vectors under `tests/vectors/registry/recipes`: hashes and seals of a registry. `cargo run -p xtask -- vectors`
//! makes them, hashes without the code that is tested here.

use std::collections::BTreeSet;

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::Digest;
use countersign_keys::MacKey;
use countersign_test_vectors::Vectors;
use serde_json::{Value, json};

use super::fixture::*;
use crate::*;

/// The library's digest or sealed text for the input of a vector.
fn computed(case: &Value) -> Value {
    let input = &case["input"];
    match (case["kind"].as_str().unwrap(), case["label"].as_str().unwrap()) {
        ("entry", "countersign/agent-entry-1") => {
            json!(
                draft(&desk(1)).agents().find(|agent| json!(agent) == input["entry"]).unwrap().fingerprint()
            )
        }
        ("entry", "countersign/tool-entry-1") => {
            let entry: ToolEntry = serde_json::from_value(input["entry"].clone()).unwrap();
            assert_eq!(json!(entry), input["entry"]);
            json!(entry.fingerprint())
        }
        ("definition", "countersign/tool-def-1") => {
            let listed = input["listed"].as_str().unwrap().as_bytes();
            let tool = read(listed, Recipe::Jcs1, &Limits::default()).unwrap();
            json!(definition_digest(tool.value()).unwrap())
        }
        ("definition", label) => json!(Digest::framed(label).finish()),
        ("seal", _) => {
            let agent = input["agent"].as_str().unwrap();
            let contract = load(&desk(1)).negotiate(&request(agent), now()).unwrap();
            contract.seal(&MacKey::from_bytes(&[1; 32]).unwrap()).unwrap().into()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_library_computes_each_recipe_on_disk() {
    let (files, mut results) = (Vectors::recipes("registry").on_disk(), BTreeSet::new());
    for (name, text) in &files {
        let case: Value = serde_json::from_str(text).unwrap();
        let result = computed(&case);
        assert_eq!(&result, case.get("sha256").unwrap_or(&case["sealed"]), "{name}");
        assert!(results.insert(result.to_string()), "{name}: another input has this result");
    }
    assert!(files.len() >= 11);
}

#[test]
fn no_definition_has_the_unknown_digest() {
    let unknown = Digest::framed("countersign/tool-definition-unknown").finish();
    // A definition without text does not have it either, under the label of definitions.
    assert_ne!(unknown, Digest::framed("countersign/tool-def-1").finish());
    assert_ne!(unknown, Digest::framed("countersign/tool-def-1").field(b"").finish());
}
