//! Public vectors under `tests/vectors/tlog/recipes`: signed notes, put together independently.
//! `COUNTERSIGN_WRITE_VECTORS=1` writes them.

use countersign_test_vectors::{Vectors, hex, numbered};
use serde_json::{Value, json};

use super::{at, key};
use crate::base64;
use crate::note::{KeyName, VerifierKey, cosignature_line, signature_line};

/// A signature line for a note's text, or a cosignature line if there is a time.
fn note(about: &str, text: &str, seconds: Option<u64>) -> Value {
    let name = KeyName::new("example.com/log").unwrap();
    let public = key(7).verifying_key();
    let (bytes, line, verifier) = match seconds {
        None => {
            let line = signature_line(text, &name, &key(7));
            (text.to_owned(), line, VerifierKey::new(name, public))
        }
        Some(seconds) => {
            let at = at(seconds * 1_000);
            let line = cosignature_line(text, &name, &key(7), at);
            (format!("cosignature/v1\ntime {seconds}\n{text}"), line, VerifierKey::cosigner(name, public))
        }
    };
    let signature = key(7).sign(bytes.as_bytes());
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

#[test]
fn the_recipes_on_disk_are_those_that_are_made() {
    Vectors::recipes("tlog").hold(&numbered("recipes", recipes()));
}

#[test]
fn a_signature_line_holds_the_key_id_and_the_signature() {
    for (_, case) in recipes().into_iter() {
        let line = case["line"].as_str().unwrap();
        let bytes = base64::decode(line.trim_end().rsplit_once(' ').unwrap().1).unwrap();
        let verifier: VerifierKey = case["verifier_key"].as_str().unwrap().parse().unwrap();
        let time = case["input"]["seconds"].as_u64().map(u64::to_be_bytes);
        let time = time.as_ref().map_or(&[][..], <[u8; 8]>::as_slice);
        assert_eq!(
            hex(&bytes),
            format!("{}{}{}", hex(&verifier.id()), hex(time), case["signature"].as_str().unwrap())
        );
    }
}
