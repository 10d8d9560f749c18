//! Public vectors under `tests/vectors/grant`. `cargo run -p xtask -- vectors` makes them, without the code that is tested here.

use base64ct::{Base64, Encoding as _};
use countersign_approval_token::{ApprovalError, GrantToken, verify_grant};
use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{CallFacts, KeyId, Millis, RunId, Timestamp};
use countersign_keys::{Keyring, ServerSecret};
use countersign_test_vectors::Vectors;
use serde_json::{Value, json};

use crate::steps::grant::holds;

#[test]
fn every_grant_on_disk_has_its_verdict() {
    let files = Vectors::of("grant").on_disk();
    assert!(files.len() >= 30);
    for (name, text) in files {
        let case: Value = serde_json::from_str(&text).unwrap();
        let expected = case["expect"].as_str().unwrap();
        assert_eq!(name.starts_with("accept/"), expected == "ok", "{name}");
        match verdict(&case) {
            Ok(()) => assert_eq!(expected, "ok", "{name}"),
            Err(error) => {
                assert_eq!(error.code(), expected, "{name}");
                assert_eq!(error.reason(), case["reason"].as_str().unwrap_or("expired"), "{name}");
            }
        }
    }
}

fn verdict(case: &Value) -> Result<(), ApprovalError> {
    let millis = |name: &str| Millis::new(case[name].as_u64().unwrap()).unwrap();
    let key = &case["keys"][0];
    let secret = Base64::decode_vec(key["secret"].as_str().unwrap()).unwrap();
    let secret = ServerSecret::new(KeyId::new(key["key_id"].as_str().unwrap()).unwrap(), &secret).unwrap();
    let keys = Keyring::new(secret).for_run(&RunId::new(case["run"].as_str().unwrap()).unwrap());
    let call: CallFacts = serde_json::from_value(case["call"].clone()).unwrap();
    let args =
        read(case["arguments"].as_str().unwrap().as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap();
    let now = Timestamp::from_millis(case["now"].as_u64().unwrap()).unwrap();
    let limits = (millis("skew"), millis("max_lifetime"));
    let text = case["grant"].as_str().unwrap();
    verify_grant(text, &keys, &call, now, limits, |conditions| holds(conditions, &args)).map(drop)
}

#[test]
fn the_library_computes_each_recipe_of_grants() {
    let files = Vectors::recipes("grant").on_disk();
    assert!(files.len() >= 4);
    let seal: Value = files
        .values()
        .map(|text| serde_json::from_str(text).unwrap())
        .find(|it: &Value| it["kind"] == "seal")
        .unwrap();
    let grant: GrantToken = seal["sealed"].as_str().unwrap().parse().unwrap();
    let mut facts = grant.claimed().unwrap();
    assert_eq!(json!(facts), seal["input"]["members"]);
    for text in files.values() {
        let case: Value = serde_json::from_str(text).unwrap();
        if case["kind"] == "use" {
            facts.grant_id = case["input"]["grant_id"].as_str().unwrap().parse().unwrap();
            let number = u32::try_from(case["input"]["number"].as_u64().unwrap()).unwrap();
            assert_eq!(json!(facts.ticket(number, Millis::ZERO).id.digest()), case["sha256"]);
        }
    }
}
