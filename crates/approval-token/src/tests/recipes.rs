//! Public vectors under `tests/vectors/approval-token/recipes`: the framed hashes beside tokens, and the sealing of
//! tokens. `cargo run -p xtask -- vectors` makes them, without the code that is tested here.

use std::collections::BTreeSet;

use countersign_test_vectors::Vectors;
use serde_json::{Value, json};

use super::*;
use crate::pending::asker_of;
use crate::spent::spent_id;

fn facts(input: &Value) -> CallFacts {
    serde_json::from_value(input.clone()).unwrap()
}

/// The library's digest or token for the input of a vector.
fn computed(case: &Value) -> Value {
    let input = &case["input"];
    let text = |name: &str| input[name].as_str().unwrap();
    match case["kind"].as_str().unwrap() {
        "act" => json!(facts(input).act()),
        "asker" if input["kind"] == "session" => {
            json!(asker_of(&bare("c").session(SessionId::new(text("id")).unwrap())))
        }
        "asker" => {
            let mut call = bare("c");
            call.principal = Principal::new(text("id")).unwrap();
            json!(asker_of(&call))
        }
        "spent" => {
            let (run, token) = (RunId::new(text("run")).unwrap(), TokenId::new(text("token_id")).unwrap());
            json!(spent_id(&run, &token).digest())
        }
        "seal" => {
            let call = if input["members"]["agent"].is_null() { bare("c") } else { full("c") };
            minted(&call, &terms("t")).as_str().into()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_library_computes_each_recipe_on_disk() {
    let (files, mut results) = (Vectors::recipes("approval-token").on_disk(), BTreeSet::new());
    for (name, text) in &files {
        let case: Value = serde_json::from_str(text).unwrap();
        let result = computed(&case);
        assert_eq!(&result, case.get("sha256").unwrap_or(&case["sealed"]), "{name}");
        assert!(results.insert(result.to_string()), "{name}: another input has this result");
    }
    assert!(files.len() >= 13);
}
