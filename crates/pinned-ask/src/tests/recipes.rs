//! Public vectors under `tests/vectors/pinned-ask/recipes`: hashes of goals and of texts that cannot be goals. Each is
//! recomputed from its input.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use countersign_core::Digest;

use super::vectors::{Text, files};
use super::*;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    #[serde(rename = "description")]
    _description: String,
    kind: String,
    label: String,
    input: Input,
    fields: Vec<Field>,
    /// Omitted for long goals.
    bytes: Option<String>,
    sha256: Digest,
    code: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    session: SessionId,
    goal: Text,
    normalised: Option<Text>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Field {
    name: String,
    hex: Text,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Concatenates the parts, each preceded by its length as eight big-endian bytes.
fn framed(parts: [&str; 3]) -> Vec<u8> {
    parts
        .into_iter()
        .flat_map(|part| [&(part.len() as u64).to_be_bytes(), part.as_bytes()].concat())
        .collect()
}

/// The library's digest of the goal, and the code if the goal is refused.
fn said(input: &Input) -> (Digest, Option<&'static str>) {
    let (goal, ttl) = (input.goal.text(), Millis::from_secs(60));
    match PinnedAsk::pin(&goal, &input.session, ttl, at(1_000)) {
        Ok(pin) => (pin.digest(), None),
        Err(error) => {
            let pin = PinnedAsk::pin("another goal", &input.session, ttl, at(1_000)).unwrap();
            let drift = pin.verify(&goal, &input.session, at(1_000)).unwrap_err();
            assert_eq!(drift.code(), "ASK_DRIFT");
            (drift.restated().unwrap(), Some(error.code()))
        }
    }
}

#[test]
fn recipe_vectors_hold() {
    let (mut goals, mut refused, mut digests) = (0, BTreeSet::new(), BTreeSet::new());
    for (path, vector) in files::<Vector>("recipes") {
        let (path, input) = (path.display(), &vector.input);
        let (label, hashed) = match vector.kind.as_str() {
            "goal" => ("countersign/ask-1/unicode-17.0.0", input.normalised.as_ref().unwrap().text()),
            "refused-goal" => ("countersign/ask-1/unicode-17.0.0/refused", input.goal.text()),
            other => panic!("{path}: {other}"),
        };
        assert_eq!(vector.label, label, "{path}");
        let bytes = framed([label, input.session.as_str(), &hashed]);
        let fields: Vec<_> = vector.fields.iter().map(|f| (f.name.as_str(), f.hex.text())).collect();
        let expected =
            [("session", hex(input.session.as_str().as_bytes())), ("goal", hex(hashed.as_bytes()))];
        assert_eq!(fields, expected, "{path}");
        assert_eq!(vector.bytes.is_none(), hashed.len() > 1_024, "{path}");
        assert!(vector.bytes.is_none_or(|text| text == hex(&bytes)), "{path}");
        assert_eq!(Digest::of(&bytes), vector.sha256, "{path}");
        assert_eq!(said(input), (vector.sha256, vector.code.as_deref()), "{path}");
        match vector.code {
            None => {
                assert_eq!(normalise(&input.goal.text()).unwrap(), hashed, "{path}");
                goals += 1;
            }
            Some(code) => {
                assert_eq!(vector.kind, "refused-goal", "{path}");
                refused.insert(code);
            }
        }
        assert!(digests.insert(vector.sha256.to_string()), "{path}");
    }
    assert!(goals >= 7 && digests.len() >= goals + 9, "{goals} goals of {}", digests.len());
    assert_eq!(refused.into_iter().collect::<Vec<_>>(), ["ASK_EMPTY", "ASK_TOO_LONG"]);
}
