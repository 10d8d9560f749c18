//! Checks the gateway's own hash recipe against its public vector.

use std::path::Path;

use crate::definitions::unknown_definition;

#[test]
fn unknown_definition_digest_matches_its_vector() {
    let file = "../../tests/vectors/registry/recipes/010_definition_unknown.json";
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let vector: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(unknown_definition().to_string(), vector["sha256"]);
}
