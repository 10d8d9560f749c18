//! Refusals before any content is judged: size, JSON, schema, repeated ids.

use serde_json::{Value, json};

use super::made::*;

pub(super) fn refused() -> Vec<Case> {
    let mut cases = requests();
    cases.extend(limits());
    cases.extend(texts());
    cases.extend(schema());
    cases.extend(duplicates());
    cases
}

/// A call with live arguments and its attached proposal.
fn live(proposal: Option<&str>) -> Value {
    changed(strict(good()), |vector| {
        without(vector, "proposal");
        vector["mode"] = "core".into();
        vector["live_args"] = vector["call"]["args"].clone();
        if let Some(text) = proposal {
            vector["proposal_text"] = text.into();
        }
    })
}

fn requests() -> Vec<Case> {
    let missing = |about: &str, proposal| file_refused(about, "block", "PIC_INVALID_REQUEST", live(proposal));
    vec![
        ("no_proposal", missing("a call with a high impact, and no proposal", None)),
        ("null_for_a_proposal", missing("null is no proposal", Some("null"))),
        (
            "array_for_a_proposal",
            blocked("an array is no proposal", "PIC_INVALID_REQUEST", "", live(Some("[]"))),
        ),
        (
            "text_for_a_proposal",
            blocked(
                "a text is no proposal, whatever it holds",
                "PIC_INVALID_REQUEST",
                "",
                live(Some(r#""{}""#)),
            ),
        ),
    ]
}

fn limits() -> Vec<Case> {
    let over = |about: &str, place: &str, vector| blocked(about, "PIC_LIMIT_EXCEEDED", place, vector);
    let small =
        |name: &str, most: u64| changed(strict(good()), |vector| vector["limits"] = json!({ name: most }));
    let ids = |count: usize| (0..count).map(|n| json!({"id": format!("i{n}"), "trust": "untrusted"}));
    let claims = |count: usize| (0..count).map(|_| json!({"text": "t", "evidence": []}));
    let list =
        |name: &str, entries: Vec<Value>| strict(changed(look(), |proposal| proposal[name] = entries.into()));
    let deep = format!(r#"{{"protocol":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
    let one_over = look().to_string().len() as u64 - 1;
    let padded = changed(with_text(strict(look()), look().to_string()), |vector| {
        vector["limits"] = json!({"proposal_bytes": one_over});
    });
    vec![
        ("bytes", over("a byte more than the limit", "", padded)),
        ("provenance_entries", over("65 inputs", "/provenance", list("provenance", ids(65).collect()))),
        ("claim_entries", over("65 claims", "/claims", list("claims", claims(65).collect()))),
        (
            "evidence_entries",
            over("65 pieces of evidence, of no schema", "/evidence", list("evidence", vec![json!(1); 65])),
        ),
        (
            "payload_bytes",
            evidence_failed("a payload that is too long", "/evidence/0/payload", small("payload_bytes", 100)),
        ),
        ("depth", over("nested deeper than a reader goes", "", with_text(strict(look()), deep))),
    ]
}

/// JSON that two parsers could read differently, or that is invalid.
fn texts() -> Vec<Case> {
    let good = look().to_string();
    let case = |about: &str, from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        blocked(about, "PIC_SCHEMA_INVALID", "", with_text(strict(look()), good.replacen(from, to, 1)))
    };
    let intent = r#""intent":"#;
    vec![
        ("member_twice", case("a member twice", intent, r#""intent":"buy","intent":"#)),
        (
            "member_twice_escaped",
            case("a member twice, once behind an escape", intent, r#""int\u0065nt":"buy","intent":"#),
        ),
        ("argument_twice", case("an argument twice", r#""q":"#, r#""q":1,"q":"#)),
        ("lone_surrogate", case("half of a surrogate pair", r#""hours""#, r#""\ud800""#)),
        ("lone_surrogate_in_a_name", case("half of a surrogate pair in a name", r#""q":"#, r#""\udc00":"#)),
        (
            "unsafe_integer",
            case("an integer that doubles cannot tell from the next", r#""hours""#, "9007199254740993"),
        ),
        ("unsafe_negative_integer", case("the same below zero", r#""hours""#, "-9007199254740992")),
        ("number_overflow", case("a number beyond all doubles", r#""hours""#, "1e400")),
        ("byte_order_mark", case("a byte order mark", "{", "\u{feff}{")),
        (
            "trailing_data",
            blocked(
                "a second value",
                "PIC_SCHEMA_INVALID",
                "",
                with_text(strict(look()), format!("{good}{{}}")),
            ),
        ),
        ("not_json", case("a number with a sign", r#""hours""#, "+1")),
        ("comment", case("a comment", "{", "{/**/")),
    ]
}

fn schema() -> Vec<Case> {
    let case = |about: &str, place: &str, change: &dyn Fn(&mut Value)| {
        let proposal = changed(good(), |proposal| change(proposal));
        let mut vector = strict(good());
        vector["proposal"] = proposal;
        blocked(about, "PIC_SCHEMA_INVALID", place, vector)
    };
    vec![
        ("missing_intent", case("a member is missing", "/intent", &|p| without(p, "intent"))),
        ("unknown_member", case("a member that there is not", "", &|p| p["note"] = "x".into())),
        ("other_protocol", case("another protocol", "/protocol", &|p| p["protocol"] = "PIC/1.1".into())),
        ("unknown_impact", case("an impact that there is not", "/impact", &|p| p["impact"] = "Money".into())),
        (
            "semi_trusted",
            case("a third level of trust", "/provenance/0/trust", &|p| {
                p["provenance"][0]["trust"] = "semi_trusted".into();
            }),
        ),
        (
            "provenance_without_trust",
            case("no trust is said", "/provenance/1/trust", &|p| {
                without(&mut p["provenance"][1], "trust");
            }),
        ),
        (
            "unknown_member_of_provenance",
            case("a member too many", "/provenance/0", &|p| {
                p["provenance"][0]["verified"] = true.into();
            }),
        ),
        (
            "null_source",
            case("null for absent", "/provenance/1/source", &|p| {
                p["provenance"][1]["source"] = Value::Null;
            }),
        ),
        ("claims_object", case("an object for a list", "/claims", &|p| p["claims"] = json!({}))),
        (
            "cited_number",
            case("a number for an id", "/claims/0/evidence/0", &|p| {
                p["claims"][0]["evidence"] = json!([1]);
            }),
        ),
        (
            "args_array",
            case("arguments that are no object", "/action/args", &|p| {
                p["action"]["args"] = json!([500, "acme"]);
            }),
        ),
        (
            "unknown_member_of_action",
            case("another tool beside the tool", "/action", &|p| {
                p["action"]["tool_name"] = "other".into();
            }),
        ),
        ("null_evidence", case("null for no evidence", "/evidence", &|p| p["evidence"] = Value::Null)),
        (
            "other_algorithm",
            case("another algorithm", "/evidence/0/alg", &|p| {
                p["evidence"][0]["alg"] = "ed25519ph".into();
            }),
        ),
        (
            "unknown_kind_of_evidence",
            case("another kind", "/evidence/0/type", &|p| {
                p["evidence"][0]["type"] = "url".into();
            }),
        ),
        (
            "key_in_the_proposal",
            case("a key that the proposal brings along", "/evidence/0", &|p| {
                p["evidence"][0]["public_key"] = public(&mallory()).into();
            }),
        ),
        (
            "upper_case_sha256",
            case("a digest in capitals", "/evidence/0/sha256", &|p| {
                p["evidence"][0] = json!({"id": "invoice", "type": "hash", "ref": "file://invoice.txt", "sha256": "A".repeat(64)});
            }),
        ),
        (
            "short_sha256",
            case("half a digest", "/evidence/0/sha256", &|p| {
                p["evidence"][0] = json!({"id": "invoice", "type": "hash", "ref": "file://invoice.txt", "sha256": "a".repeat(32)});
            }),
        ),
    ]
}

fn duplicates() -> Vec<Case> {
    let twice = changed(good(), |proposal| {
        let entry = proposal["evidence"][0].clone();
        proposal["evidence"].as_array_mut().unwrap().push(entry);
    });
    let mut inputs = strict(good());
    inputs["proposal"]["provenance"][1]["id"] = "invoice".into();
    let mut composed = strict(good());
    composed["proposal"]["provenance"] = json!([
        {"id": "\u{e9}", "trust": "untrusted"}, {"id": "e\u{301}", "trust": "untrusted"},
        {"id": "\u{e9}", "trust": "trusted"},
    ]);
    vec![
        ("input_twice", blocked("two inputs of one id", "PIC_DUPLICATE_ID", "/provenance/1/id", inputs)),
        (
            "ids_are_not_normalised",
            blocked(
                "only what is the same byte by byte is one id",
                "PIC_DUPLICATE_ID",
                "/provenance/2/id",
                composed,
            ),
        ),
        (
            "evidence_twice",
            blocked("two pieces of evidence of one id", "PIC_DUPLICATE_ID", "/evidence/1/id", strict(twice)),
        ),
    ]
}
