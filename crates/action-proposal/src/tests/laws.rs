//! What holds of every proposal.

use std::sync::LazyLock;

use countersign_core::ImpactClass;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{
    Facts, attested, attested_transfer, built, cfo, clock, code, cto, endorsed, files, gate, hash_entry,
    judge, keyring_of, parsed, transfer, with_evidence,
};
use crate::{
    ActionProposal, Profile, ProposalLimits, ProposalPolicy, ProposalVerifier, ProposalVerifierBuilder,
};

const INVOICE: &[u8] = b"invoice 77: 500 to acme";

static STRICT: LazyLock<ProposalVerifier> = LazyLock::new(|| built(gate(Profile::Strict)));

/// Every place of a value, as pointers, the whole first.
fn places(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                places(element, &format!("{at}/{index}"), all);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                places(member, &format!("{at}/{name}"), all);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What no signature covers and nothing is decided by: what the agent says of trust and sources, and of the signer.
fn is_free(place: &str) -> bool {
    let mut tokens = place.split('/').skip(1);
    match (tokens.next(), tokens.next(), tokens.next()) {
        (Some("provenance"), Some(_), Some(member)) => member == "trust" || member == "source",
        (Some("evidence"), Some(_), Some(member)) => member == "ref",
        _ => false,
    }
}

/// What the first payload is as an object, if it is one.
fn signed_object(value: &Value) -> Option<Value> {
    serde_json::from_str(value["evidence"][0]["payload"].as_str()?).ok()
}

/// Other values of the same kind and of others.
fn changes(value: &Value) -> Vec<Value> {
    let mut others = vec![json!(null), json!({"x": 1}), json!(["x"]), json!(1e300), json!("x")];
    match value {
        Value::String(text) => {
            others.extend([json!(format!("{text} ")), json!(text.to_uppercase()), json!("")]);
            others
                .extend(text.char_indices().map(|(at, _)| json!(format!("{}~{}", &text[..at], &text[at..]))));
        }
        Value::Number(number) => others.push(json!(number.as_i64().unwrap() + 1)),
        Value::Array(elements) => {
            let mut more = elements.clone();
            more.extend(elements.first().cloned());
            others.extend([json!(more), json!(elements.iter().rev().collect::<Vec<_>>()), json!([])]);
        }
        Value::Object(members) => {
            let mut more = members.clone();
            more.insert("extra".to_owned(), json!(null));
            others.extend([json!(more), json!({})]);
        }
        Value::Null | Value::Bool(_) => {}
    }
    others.retain(|other| other != value);
    others
}

#[test]
fn any_change_of_one_member_of_a_signed_high_impact_proposal_is_refused() {
    let signed = attested_transfer();
    let facts = Facts::new("payments_send");
    let proposal = parsed(&signed);
    let call = facts.call_for(&proposal);
    let verdict = |value: &Value| {
        ActionProposal::parse(value.to_string().as_bytes(), &ProposalLimits::default())
            .and_then(|proposal| proposal.verify(&STRICT, &call, &clock()))
    };
    assert_eq!(code(verdict(&signed)), "allow");
    let mut all = Vec::new();
    places(&signed, "", &mut all);
    let (mut changed, mut free) = (0, 0);
    for place in &all {
        for other in changes(signed.pointer(place).unwrap()) {
            let mut value = signed.clone();
            *value.pointer_mut(place).unwrap() = other;
            // Other blanks in a payload are the same object, and that was signed.
            let same = is_free(place)
                || signed_object(&value) == signed_object(&signed) && place.ends_with("/payload");
            assert!(same || verdict(&value).is_err(), "{place}: {value}");
            if same { free += 1 } else { changed += 1 }
        }
        if let Some((object, name)) = place.rsplit_once('/') {
            let mut value = signed.clone();
            if let Some(members) = value.pointer_mut(object).unwrap().as_object_mut() {
                members.remove(name).unwrap();
                assert!(is_free(place) || verdict(&value).is_err(), "{place} removed");
                changed += 1;
            }
        }
    }
    assert!(changed > 1_000 && free > 10, "{changed} {free}");
}

#[test]
fn any_character_of_what_was_signed_counts() {
    let signed = attested_transfer();
    for member in ["payload", "signature", "key_id", "id"] {
        let text = signed["evidence"][0][member].as_str().unwrap();
        for at in 0..text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= 1;
            let mut value = signed.clone();
            value["evidence"][0][member] = json!(String::from_utf8(bytes).unwrap());
            assert_ne!(code(judge(&value, &STRICT)), "allow", "{member} {at}");
        }
    }
}

/// One of the ways to have evidence, on a proposal of some impact.
const EVIDENCE: [&str; 8] = [
    "none",
    "attested",
    "attested twice",
    "one key twice",
    "opaque",
    "file",
    "file and attested",
    "elsewhere",
];

fn proposal_with(evidence: &str, impact: ImpactClass, cited: &Value, facts: &Facts) -> Value {
    let mut value = transfer();
    value["impact"] = json!(impact);
    value["claims"][0]["evidence"] = cited.clone();
    let filed = |value| with_evidence(value, hash_entry("invoice", "file://invoice.txt", INVOICE));
    let first = |value| attested(value, "invoice", &cfo(), "cfo-1", facts);
    match evidence {
        "attested" => first(value),
        "attested twice" => attested(first(value), "mail", &cto(), "cto-1", facts),
        "one key twice" => attested(first(value), "mail", &cfo(), "cfo-1", facts),
        "opaque" => with_evidence(
            value,
            json!({"id": "invoice", "type": "sig", "ref": "inline:x", "payload": "yes", "alg": "ed25519",
                   "signature": cfo().sign(b"yes").to_base64(), "key_id": "cfo-1"}),
        ),
        "file" => filed(value),
        "file and attested" => filed(attested(value, "mail", &cto(), "cto-1", facts)),
        "elsewhere" => {
            let mut other = Facts::new("payments_send");
            other.call_id = countersign_core::CallId::new("another-call").unwrap();
            attested(value, "invoice", &cfo(), "cfo-1", &other)
        }
        _ => value,
    }
}

/// One of the ways to configure a gate, under a profile.
fn gate_with(profile: Profile, policy: &str, threshold: usize, endorse: bool) -> ProposalVerifier {
    let gate = gate(profile)
        .keyring(keyring_of(&json!({"irreversible": threshold, "write": threshold})))
        .resolver(files(&[("file://invoice.txt", INVOICE)]));
    let gate: ProposalVerifierBuilder =
        if endorse { gate.endorsed(endorsed(INVOICE, &json!({"impacts": ["money"]}))) } else { gate };
    built(match policy {
        "none" => gate,
        text => gate.policy(ProposalPolicy::from_json(text.as_bytes()).unwrap()),
    })
}

#[test]
fn whatever_strict_allows_pic_0_9_allows_as_well() {
    let facts = Facts::new("payments_send");
    let policies = [
        "none",
        "{}",
        r#"{"impact_by_tool":{"payments_send":"money"}}"#,
        r#"{"impact_by_tool":{"x":"read"}}"#,
    ];
    let (mut allowed, mut stricter) = (0, 0);
    for evidence in EVIDENCE {
        for impact in ImpactClass::ALL {
            for cited in
                [json!(["invoice"]), json!(["mail", "invoice"]), json!(["invoice", "nobody"]), json!([])]
            {
                let value = proposal_with(evidence, impact, &cited, &facts);
                for policy in policies {
                    for (threshold, endorse) in [(1, false), (2, true)] {
                        let strict = gate_with(Profile::Strict, policy, threshold, endorse);
                        let pic = gate_with(Profile::Pic09, policy, threshold, endorse);
                        for stated in [None, Some(ImpactClass::Read), Some(ImpactClass::Money)] {
                            let judged = |verifier: &ProposalVerifier| {
                                let proposal = parsed(&value);
                                let call = facts.call_for(&proposal);
                                let call = stated.map_or(call, |impact| call.impact(impact));
                                code(proposal.verify(verifier, &call, &clock()))
                            };
                            match (judged(&strict), judged(&pic)) {
                                ("allow", "allow") => allowed += 1,
                                ("allow", refused) => {
                                    panic!("{refused}: {evidence} {stated:?} {policy} {value}")
                                }
                                (_, "allow") => stricter += 1,
                                _ => {}
                            }
                        }
                    }
                }
            }
        }
    }
    assert!(allowed > 500 && stricter > 500, "{allowed} {stricter}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn parsing_any_bytes_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        let result = ActionProposal::parse(&bytes, &ProposalLimits::default());
        prop_assert!(result.is_err(), "no proposal is this short");
    }

    #[test]
    fn parsing_and_verifying_a_broken_proposal_never_panics(
        at in any::<prop::sample::Index>(), with in proptest::collection::vec(any::<u8>(), 0..4), cut in 0_usize..8,
    ) {
        let mut bytes = attested_transfer().to_string().into_bytes();
        let at = at.index(bytes.len());
        let end = (at + cut).min(bytes.len());
        bytes.splice(at..end, with);
        for profile in Profile::ALL {
            if let Ok(proposal) = ActionProposal::parse(&bytes, &ProposalLimits::default()) {
                let facts = Facts::new("payments_send");
                let call = facts.call_for(&proposal);
                let verifier = built(gate(profile).verify_evidence().resolver(files(&[])));
                let _ = code(proposal.verify(&verifier, &call, &clock()));
            }
        }
    }

    #[test]
    fn parsing_what_has_the_members_of_a_proposal_never_panics(
        values in proptest::collection::vec((0_usize..40, 0_usize..8), 1..6),
    ) {
        let mut value = with_evidence(attested_transfer(), hash_entry("a", "file://a", b"a"));
        for (place, other) in values {
            let mut all = Vec::new();
            places(&value, "", &mut all);
            let place = &all[place % all.len()];
            let others = [
                json!(null), json!(true), json!(-1.5e300), json!(""), json!("\u{0}\u{202e}"), json!([[]]),
                json!({"id": {}}), json!([null, {"trust": []}]),
            ];
            *value.pointer_mut(place).unwrap() = others[other].clone();
            let _ = ActionProposal::parse(value.to_string().as_bytes(), &ProposalLimits::default()).is_ok();
        }
    }
}
