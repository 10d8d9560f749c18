//! Public vectors under `tests/vectors/approval-token`, run through the library. `cargo run -p xtask -- vectors` makes
//! them.

use base64ct::{Base64, Encoding as _};
use countersign_test_vectors::Vectors;
use serde_json::Value;

use super::*;

#[test]
fn every_vector_on_disk_has_its_verdict() {
    let files = Vectors::of("approval-token").on_disk();
    assert!(files.len() >= 50);
    for (name, text) in files {
        let case: Value = serde_json::from_str(&text).unwrap();
        let result = run(&case);
        let expected = case["expect"].as_str().unwrap();
        assert_eq!(name.starts_with("accept/"), expected == "ok", "{name}");
        match result {
            Ok(_) => assert_eq!(expected, "ok", "{name}"),
            Err(error) => {
                assert_eq!(error.code(), expected, "{name}");
                if let Some(reason) = case.get("reason") {
                    assert_eq!(error.reason(), reason.as_str().unwrap(), "{name}");
                }
            }
        }
    }
}

fn run(case: &Value) -> Result<Approval, ApprovalError> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut secrets = case["keys"].as_array().unwrap().iter().map(|key| {
        let secret = Base64::decode_vec(&text(&key["secret"])).unwrap();
        ServerSecret::new(KeyId::new(&text(&key["key_id"])).unwrap(), &secret).unwrap()
    });
    let keyring = Keyring::new(secrets.next().unwrap());
    let keyring = secrets.fold(keyring, |ring, secret| ring.accept(secret).unwrap());
    let keys = keyring.for_run(&RunId::new(&text(&case["run"])).unwrap());
    let binding: CallFacts = serde_json::from_value(case["binding"].clone()).unwrap();
    let partial = if case["partial"] == "accept" { Partial::Accept } else { Partial::Refuse };
    let now = at(case["now"].as_u64().unwrap());
    let skew = Millis::new(case["skew"].as_u64().unwrap()).unwrap();
    let token: ApprovalToken = case["token"].as_str().unwrap().parse()?;
    // The default lifetime is an hour.
    let most =
        case.get("max_lifetime").map_or(DEFAULT_TTL_CAP, |most| Millis::new(most.as_u64().unwrap()).unwrap());
    verify(&token, &keys, &binding, now, &STRICT.skew(skew).partial(partial).max_lifetime(most))
}
