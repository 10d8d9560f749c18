//! Public vectors under `tests/vectors/tlog/recipes`: signed notes, put together a second time. `cargo run -p xtask --
//! vectors` makes them.

use countersign_test_vectors::{Vectors, hex};
use serde_json::Value;

use super::key;
use crate::base64;
use crate::note::VerifierKey;

#[test]
fn a_signature_line_holds_the_key_id_and_the_signature() {
    let files = Vectors::recipes("tlog").on_disk();
    for text in files.values() {
        let case: Value = serde_json::from_str(text).unwrap();
        let (line, input) = (case["line"].as_str().unwrap(), &case["input"]);
        let bytes = base64::decode(line.trim_end().rsplit_once(' ').unwrap().1).unwrap();
        let verifier: VerifierKey = case["verifier_key"].as_str().unwrap().parse().unwrap();
        let seconds = input["seconds"].as_u64();
        let time = seconds.map(u64::to_be_bytes);
        let time = time.as_ref().map_or(&[][..], <[u8; 8]>::as_slice);
        let text = input["text"].as_str().unwrap();
        let signed = seconds.map_or(text.to_owned(), |at| format!("cosignature/v1\ntime {at}\n{text}"));
        let signature = hex(key(7).sign(signed.as_bytes()).as_bytes());
        assert_eq!(hex(&bytes), format!("{}{}{signature}", hex(&verifier.id()), hex(time)));
    }
    assert_eq!(files.len(), 2);
}
