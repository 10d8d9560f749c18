//! Parsing of proposals, and their digests.

use countersign_core::{Digest, ImpactClass};
use serde_json::{Value, json};

use super::world::{code, look, outcome, parse, parse_text, parsed, transfer};
use crate::{ActionProposal, EvidenceEntry, ProposalLimits, TrustLevel};

#[test]
fn parsed_proposal_has_its_members() {
    let mut value = transfer();
    value["provenance"][1]["trust"] = json!("trusted");
    value["evidence"] = json!([
        {"id": "invoice", "type": "hash", "ref": "file://invoice.txt", "sha256": "0".repeat(64), "attestor": "me"},
        {"id": "mail", "type": "sig", "ref": "inline:x", "payload": "p", "alg": "ed25519", "signature": "s",
         "key_id": "k", "signer": "somebody", "attestor": "me"},
    ]);
    let proposal = parsed(&value);
    assert_eq!(proposal.intent(), "pay the invoice of March");
    assert_eq!(proposal.impact(), ImpactClass::Money);
    assert_eq!(proposal.tool(), "payments_send");
    assert_eq!(proposal.args().canonical_text(), r#"{"amount":500,"to":"acme"}"#);
    let inputs: Vec<_> =
        proposal.provenance().iter().map(|input| (input.id(), input.claimed(), input.source())).collect();
    assert_eq!(
        inputs,
        [("invoice", TrustLevel::Untrusted, Some("finance")), ("mail", TrustLevel::Trusted, None)]
    );
    let [claim] = proposal.claims() else { panic!("one claim") };
    assert_eq!(claim.text(), "the invoice is due");
    assert_eq!(claim.evidence().collect::<Vec<_>>(), ["invoice"]);
    let [EvidenceEntry::Hash(hash), EvidenceEntry::Signature(signature)] = proposal.evidence() else {
        panic!("two entries")
    };
    assert_eq!((hash.reference(), hash.sha256()), ("file://invoice.txt", Digest::from_bytes([0; 32])));
    assert_eq!((signature.payload(), signature.signature(), signature.key_id()), ("p", "s", "k"));
}

/// Computed with the reference release, 0.9.1.
#[test]
fn the_digests_are_those_of_the_reference() {
    let text = r#"{ "protocol": "PIC/1.0", "intent": "caf\u00e9 \"now\"", "impact": "money",
        "provenance": [{"trust": "untrusted", "id": "b"}, {"id": "a", "trust": "trusted"}],
        "claims": [{"text": "1 < 2", "evidence": ["a", "b"]}],
        "action": {"tool": "pay", "args": {"z": 1.0, "a": 1e-7, "\u20ac": [1E20, -0, 0.30000000000000001]}} }"#;
    let proposal = parse_text(text).unwrap();
    let digests =
        [proposal.digest(), proposal.args_digest(), proposal.claims_digest(), proposal.intent_digest()]
            .map(|digest| digest.to_string());
    assert_eq!(digests, REFERENCE_DIGESTS);
}

const REFERENCE_DIGESTS: [&str; 4] = [
    "bc9294859aa9c7815327022e0f3313e4814aaa37abf2ccbf0a1c3fafc29d9637",
    "07a4f9ed2824ce87eee9670692e56e47831536cccedb95240de584fdf76aece8",
    "e4c1f151ea14344718c558eefdfdb72b683a085a8fc72f86ae7cc403c1acaca4",
    "e105d4ff81da697161530691e92afdfe76e65cd1b665d0b5a58781f0745e4298",
];

#[test]
fn spelling_changes_no_digest_and_a_value_changes_its_own() {
    let spelled = r#"{"intent":"look up the opening hours","protocol":"PIC\/1.0","impact":"read","claims":[],
        "provenance":[],"action":{"args":{"q":"\u0068ours"},"tool":"docs_search"}}"#;
    let (one, other) = (parsed(&look()), parse_text(spelled).unwrap());
    assert_eq!(one.digest(), other.digest());
    assert_eq!(one.args_digest(), other.args_digest());
    let mut changed = look();
    changed["action"]["args"]["q"] = json!("Hours");
    let changed = parsed(&changed);
    assert_ne!(one.digest(), changed.digest());
    assert_ne!(one.args_digest(), changed.args_digest());
    assert_eq!(one.claims_digest(), changed.claims_digest());
    assert_eq!(one.intent_digest(), changed.intent_digest());
}

#[test]
fn proposal_must_be_an_object() {
    for text in ["null", "[]", "\"PIC/1.0\"", "7", "true", "[{}]"] {
        assert_eq!(code(parse_text(text)), "PIC_INVALID_REQUEST", "{text}");
    }
}

#[test]
fn ambiguous_json_is_refused() {
    let good = look().to_string();
    assert_eq!(code(parse_text(&good)), "allow");
    let cases = [
        good.replacen('{', r#"{"intent":"another","#, 1),
        good.replacen("\"q\"", r#""\u0071":1,"q""#, 1),
        good.replacen("\"hours\"", r#""\ud800""#, 1),
        good.replacen("\"hours\"", "NaN", 1),
        good.replacen("\"hours\"", "1e400", 1),
        good.replacen("\"hours\"", "9007199254740992", 1),
        good.replacen("\"hours\"", "01", 1),
        format!("\u{feff}{good}"),
        format!("{good} x"),
        format!("// a word\n{good}"),
        good.replacen(",", ",,", 1),
        String::new(),
    ];
    for text in cases {
        assert_eq!(code(parse_text(&text)), "PIC_SCHEMA_INVALID", "{text}");
    }
    let mut bytes = good.into_bytes();
    bytes[20] = 0xFF;
    assert_eq!(code(ActionProposal::parse(&bytes, &ProposalLimits::default())), "PIC_SCHEMA_INVALID");
}

#[test]
fn rounded_numbers_follow_pic_cjson() {
    let mut value = look().to_string();
    value = value.replacen("\"hours\"", "[0.30000000000000001,1e-400,9007199254740991]", 1);
    assert_eq!(parse_text(&value).unwrap().args().canonical_text(), r#"{"q":[0.3,0,9007199254740991]}"#);
}

/// A read whose text has exactly this many bytes, without separators or numbers in its filling.
fn look_of(bytes: usize) -> Value {
    let mut value = look();
    value["intent"] = json!("");
    let empty = value.to_string().len();
    value["intent"] = json!("x".repeat(bytes - empty));
    value
}

#[test]
fn proposal_size_limit_is_exact() {
    let separators = 15;
    let limits = ProposalLimits::default();
    let largest = look_of(64_000 - separators).to_string();
    assert_eq!(outcome(ActionProposal::parse(largest.as_bytes(), &limits)), ("allow", String::new()));
    // The reference writes the value again, with a space after each separator.
    let counted = look_of(64_000 - separators + 1).to_string();
    assert_eq!(code(ActionProposal::parse(counted.as_bytes(), &limits)), "PIC_LIMIT_EXCEEDED");
    let padded = format!("{}{}", look(), " ".repeat(64_000));
    assert_eq!(code(ActionProposal::parse(padded.as_bytes(), &limits)), "PIC_LIMIT_EXCEEDED");
    assert_eq!(
        code(ActionProposal::parse(look().to_string().as_bytes(), &limits.proposal_bytes(100))),
        "PIC_LIMIT_EXCEEDED"
    );
}

#[test]
fn separators_and_numbers_count_as_the_reference_writes_them() {
    let sized = |filling: &str| {
        let text = look().to_string().replacen("\"hours\"", &format!("[{filling}]"), 1);
        assert!(text.len() < 64_000, "{}", text.len());
        code(parse_text(&text))
    };
    // The reference counts 3 bytes each: `0, `.
    assert_eq!(sized(&["0"; 21_200].join(",")), "allow");
    assert_eq!(sized(&["0"; 21_400].join(",")), "PIC_LIMIT_EXCEEDED");
    // The reference counts 22 bytes and a separator: `1.2345678901234567e+16, `. The canonical form has 17 digits.
    assert_eq!(sized(&["12345678901234567.0"; 2_500].join(",")), "allow");
    assert_eq!(sized(&["12345678901234567.0"; 2_700].join(",")), "PIC_LIMIT_EXCEEDED");
    // The content of strings does not change.
    assert_eq!(sized(&format!("\"{}\"", ",:.1e\\\"".repeat(8_000))), "allow");
}

#[test]
fn list_over_64_entries_is_refused_before_the_schema() {
    for name in ["provenance", "claims", "evidence"] {
        let mut value = look();
        value[name] = json!(vec![7; 65]);
        let (code, detail) = outcome(parse(&value));
        assert_eq!(
            (code, detail.starts_with(&format!("/{name}: "))),
            ("PIC_LIMIT_EXCEEDED", true),
            "{detail}"
        );
        value[name] = json!(vec![7; 64]);
        assert_eq!(outcome(parse(&value)), ("PIC_SCHEMA_INVALID", format!("/{name}/0: must be an object")));
    }
    let mut value = look();
    value["provenance"] =
        (0..64).map(|n| json!({"id": format!("i{n}"), "trust": "untrusted"})).collect::<Vec<_>>().into();
    value["claims"] = json!(vec![json!({"text": "t", "evidence": vec!["i0"; 100]}); 64]);
    assert_eq!(outcome(parse(&value)), ("allow", String::new()));
    let two = ProposalLimits::default().items(2);
    let tight = ActionProposal::parse(value.to_string().as_bytes(), &two);
    assert_eq!(outcome(tight).1, "/provenance: must have no more entries than the limit");
}

#[test]
fn nesting_beyond_128_exceeds_the_limit() {
    let nested = |depth: usize| {
        let filling = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        code(parse_text(&look().to_string().replacen("\"hours\"", &filling, 1)))
    };
    assert_eq!(nested(33), "allow");
    assert_eq!(nested(125), "allow");
    assert_eq!(nested(126), "PIC_LIMIT_EXCEEDED");
    assert_eq!(nested(30_000), "PIC_LIMIT_EXCEEDED");
    let million = "[".repeat(1_000_000);
    let wide = ProposalLimits::default().proposal_bytes(2_000_000);
    assert_eq!(code(ActionProposal::parse(million.as_bytes(), &wide)), "PIC_LIMIT_EXCEEDED");
}

#[test]
fn duplicate_input_ids_are_refused() {
    let mut value = transfer();
    value["provenance"][1]["id"] = json!("invoice");
    assert_eq!(
        outcome(parse(&value)),
        ("PIC_DUPLICATE_ID", "/provenance/1/id: must be no id of an entry before it".to_owned())
    );
    for other in ["Invoice", "invoice ", "invo\u{200b}ice", "inv\u{043e}ice", ""] {
        value["provenance"][1]["id"] = json!(other);
        assert_eq!(code(parse(&value)), "allow", "{other}");
    }
    // Two spellings of one accented letter are two ids.
    value["provenance"][0]["id"] = json!("caf\u{e9}");
    value["provenance"][1]["id"] = json!("cafe\u{301}");
    assert_eq!(code(parse(&value)), "allow");
}

#[test]
fn debug_output_omits_content() {
    let mut value = transfer();
    value["intent"] = json!("SECRET");
    value["provenance"][0] = json!({"id": "SECRET-id", "trust": "untrusted", "source": "SECRET"});
    value["claims"][0] = json!({"text": "SECRET", "evidence": ["SECRET-id"]});
    value["action"]["args"]["to"] = json!("SECRET");
    let proposal = parsed(&value);
    let shown = format!("{proposal:?} {:?} {:?}", proposal.provenance(), proposal.claims());
    assert!(!shown.contains("SECRET"), "{shown}");
    assert!(shown.contains(&proposal.digest().to_string()));
}
