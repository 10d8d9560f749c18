//! The schema of PIC/1.0, place by place.

use serde_json::{Value, json};

use super::world::{outcome, parse, parsed, transfer, with_evidence};

fn full() -> Value {
    let value = with_evidence(
        transfer(),
        json!({"id": "invoice", "type": "hash", "ref": "file://a", "sha256": "a".repeat(64), "attestor": "a"}),
    );
    with_evidence(
        value,
        json!({"id": "mail", "type": "sig", "ref": "inline:x", "payload": "p", "alg": "ed25519", "signature": "s",
               "key_id": "k", "signer": "somebody", "attestor": "a"}),
    )
}

/// Error of a proposal with another value at `pointer`.
fn with(pointer: &str, other: Value) -> (&'static str, String) {
    let mut value = full();
    *value.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = other;
    outcome(parse(&value))
}

/// Error of a proposal without the member at `pointer`.
fn without(pointer: &str) -> (&'static str, String) {
    let mut value = full();
    let (object, name) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(object).unwrap().as_object_mut().unwrap().remove(name).unwrap();
    outcome(parse(&value))
}

fn refused(place: &str, rule: &str) -> (&'static str, String) {
    ("PIC_SCHEMA_INVALID", format!("{place}: {rule}"))
}

const STRINGS: [&str; 20] = [
    "/protocol",
    "/intent",
    "/impact",
    "/provenance/0/id",
    "/provenance/0/trust",
    "/provenance/0/source",
    "/claims/0/text",
    "/claims/0/evidence/0",
    "/action/tool",
    "/evidence/0/id",
    "/evidence/0/type",
    "/evidence/0/ref",
    "/evidence/0/sha256",
    "/evidence/0/attestor",
    "/evidence/1/payload",
    "/evidence/1/alg",
    "/evidence/1/signature",
    "/evidence/1/key_id",
    "/evidence/1/signer",
    "/evidence/1/ref",
];

const OBJECTS: [&str; 6] =
    ["/provenance/1", "/claims/0", "/action", "/action/args", "/evidence/0", "/evidence/1"];

const ARRAYS: [&str; 4] = ["/provenance", "/claims", "/claims/0/evidence", "/evidence"];

#[test]
fn every_string_must_be_one() {
    for place in STRINGS {
        for other in [json!(null), json!(7), json!(true), json!(["x"]), json!({"x": 1})] {
            assert_eq!(with(place, other), refused(place, "must be a string"));
        }
    }
}

#[test]
fn every_object_must_be_one() {
    for place in OBJECTS {
        for other in [json!(null), json!("x"), json!([]), json!(1)] {
            assert_eq!(with(place, other), refused(place, "must be an object"));
        }
    }
}

#[test]
fn every_list_must_be_one() {
    for place in ARRAYS {
        for other in [json!(null), json!("x"), json!({}), json!(1)] {
            assert_eq!(with(place, other), refused(place, "must be an array"));
        }
    }
}

#[test]
fn missing_member_is_reported_at_its_place() {
    let optional = ["/provenance/0/source", "/evidence/0/attestor", "/evidence/1/signer", "/evidence"];
    let elements = ["/claims/0/evidence/0", "/provenance/1", "/claims/0", "/evidence/0", "/evidence/1"];
    let all = STRINGS.iter().chain(&OBJECTS).chain(&ARRAYS).filter(|place| !elements.contains(place));
    let mut required = 0;
    for place in all {
        if optional.contains(place) {
            assert_eq!(without(place), ("allow", String::new()), "{place}");
        } else {
            assert_eq!(without(place), refused(place, "must be there"));
            required += 1;
        }
    }
    assert_eq!(required, 21);
}

#[test]
fn unknown_member_is_refused_without_its_name() {
    for place in ["", "/provenance/0", "/claims/0", "/action", "/evidence/0", "/evidence/1"] {
        let mut value = full();
        value.pointer_mut(place).unwrap()["SECRET"] = json!(1);
        assert_eq!(
            outcome(parse(&value)),
            refused(place, "must have no member that the schema does not name")
        );
    }
    // A member of the other kind of evidence.
    let mut value = full();
    value["evidence"][0]["payload"] = json!("p");
    assert_eq!(outcome(parse(&value)).0, "PIC_SCHEMA_INVALID");
    let mut value = full();
    value["evidence"][1]["sha256"] = json!("a".repeat(64));
    assert_eq!(outcome(parse(&value)).0, "PIC_SCHEMA_INVALID");
    // Arguments belong to the tool.
    let mut value = full();
    value["action"]["args"] = json!({"anything": {"protocol": null}, "": []});
    assert_eq!(outcome(parse(&value)).0, "allow");
}

#[test]
fn words_are_those_of_the_schema_and_no_others() {
    for other in ["PIC/1.1", "PIC/1.0 ", "pic/1.0", ""] {
        assert_eq!(with("/protocol", json!(other)), refused("/protocol", "must be `PIC/1.0`"));
    }
    for impact in ["read", "write", "external", "irreversible", "money", "compute", "privacy"] {
        assert_eq!(with("/impact", json!(impact)).0, "allow");
    }
    for other in ["none", "Money", "money ", ""] {
        assert_eq!(
            with("/impact", json!(other)),
            refused("/impact", "must be one of the seven impact classes")
        );
    }
    // An older draft had a third.
    for other in ["semi_trusted", "Trusted", "trusted ", ""] {
        let rule = "must be `trusted` or `untrusted`";
        assert_eq!(with("/provenance/0/trust", json!(other)), refused("/provenance/0/trust", rule));
    }
    for other in ["file", "Hash", "signature", ""] {
        assert_eq!(
            with("/evidence/0/type", json!(other)),
            refused("/evidence/0/type", "must be `hash` or `sig`")
        );
    }
    for other in ["Ed25519", "rsa", "none", ""] {
        assert_eq!(with("/evidence/1/alg", json!(other)), refused("/evidence/1/alg", "must be `ed25519`"));
    }
}

#[test]
fn a_sha256_is_64_lower_case_hexadecimal_digits() {
    let rule = "must be 64 lower-case hexadecimal digits";
    let wrong = [
        "A".repeat(64),
        "a".repeat(63),
        "a".repeat(65),
        format!("{}g", "a".repeat(63)),
        format!("{}\n", "a".repeat(64)),
        format!(" {}", "a".repeat(64)),
        format!("0x{}", "a".repeat(62)),
        String::new(),
    ];
    for other in wrong {
        assert_eq!(with("/evidence/0/sha256", json!(other)), refused("/evidence/0/sha256", rule));
    }
}

#[test]
fn schema_allows_empty_strings_and_lists() {
    let mut value = full();
    for place in ["/intent", "/action/tool", "/provenance/0/id", "/provenance/0/source", "/claims/0/text"] {
        *value.pointer_mut(place).unwrap() = json!("");
    }
    for place in ["/claims/0/evidence", "/evidence"] {
        *value.pointer_mut(place).unwrap() = json!([]);
    }
    *value.pointer_mut("/action/args").unwrap() = json!({});
    let proposal = parsed(&value);
    assert_eq!((proposal.tool(), proposal.evidence().len(), proposal.args().len()), ("", 0, 0));
}

#[test]
fn refusal_contains_no_value() {
    let mut places: Vec<&str> = STRINGS.iter().chain(&OBJECTS).chain(&ARRAYS).copied().collect();
    places.extend(["/provenance/0", "/action/args/to"]);
    let mut refused = 0;
    for place in places {
        for other in [json!("SECRET"), json!({"SECRET": "SECRET"}), json!(["SECRET"])] {
            let mut value = full();
            *value.pointer_mut(place).unwrap() = other;
            if let Err(error) = parse(&value) {
                let text = format!("{error} {error:?} {}", error.detail());
                assert!(!text.contains("SECRET"), "{text}");
                refused += 1;
            }
        }
    }
    assert!(refused > 50);
}
