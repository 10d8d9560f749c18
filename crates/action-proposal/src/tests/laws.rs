//! Laws of every proposal.

use std::sync::LazyLock;

use countersign_core::ImpactClass;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::{
    Facts, attested, attested_transfer, built, cfo, clock, code, cto, endorsed, files, for_acme, gate,
    hash_entry, judge, keyring_of, parsed, transfer, with_evidence,
};
use crate::{
    ActionProposal, EvidenceKeyring, Profile, ProposalLimits, ProposalPolicy, ProposalVerifier,
    ProposalVerifierBuilder,
};

const INVOICE: &[u8] = b"invoice 77: 500 to acme";

static STRICT: LazyLock<ProposalVerifier> = LazyLock::new(|| built(gate(Profile::Strict)));

/// Collects every place of a value as a pointer, the whole value first.
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

/// Members that no signature covers and no decision uses: the agent's trust, sources and signer.
fn is_free(place: &str) -> bool {
    let mut tokens = place.split('/').skip(1);
    match (tokens.next(), tokens.next(), tokens.next()) {
        (Some("provenance"), Some(_), Some(member)) => member == "trust" || member == "source",
        (Some("evidence"), Some(_), Some(member)) => member == "ref",
        _ => false,
    }
}

/// The first payload as an object, if it is one.
fn signed_object(value: &Value) -> Option<Value> {
    serde_json::from_str(value["evidence"][0]["payload"].as_str()?).ok()
}

/// Returns other values, of the same type and of other types.
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
fn changed_member_of_a_signed_proposal_is_refused() {
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
            // Other whitespace in a payload spells the same signed object.
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
fn any_changed_character_of_signed_text_is_refused() {
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

/// Kinds of evidence of a proposal.
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
        "file and attested" => attested(filed(value), "mail", &cto(), "cto-1", facts),
        "elsewhere" => {
            let mut other = Facts::new("payments_send");
            other.call_id = countersign_core::CallId::new("another-call").unwrap();
            attested(value, "invoice", &cfo(), "cfo-1", &other)
        }
        _ => value,
    }
}

/// A configuration of a gate, under a profile.
fn gate_with(profile: Profile, policy: &str, threshold: usize, endorse: bool) -> ProposalVerifier {
    let gate = gate(profile)
        .keyring(keyring_of(&json!({"irreversible": threshold, "write": threshold})))
        .resolver(files(&[("file://invoice.txt", INVOICE)]));
    let gate: ProposalVerifierBuilder = if endorse {
        gate.endorsed(endorsed(INVOICE, &for_acme(&json!({"impacts": ["money"]}))))
    } else {
        gate
    };
    built(match policy {
        "none" => gate,
        text => gate.policy(ProposalPolicy::from_json(text.as_bytes()).unwrap()),
    })
}

#[test]
fn pic_0_9_allows_all_that_strict_allows() {
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

/// Settings of an operator, and properties of a proposal.
#[derive(Clone, Debug)]
struct Setting {
    high: Vec<ImpactClass>,
    asks_evidence: Vec<ImpactClass>,
    thresholds: Value,
    key_scope: Option<Vec<ImpactClass>>,
    endorsed_for: Option<Vec<ImpactClass>>,
    evidence: &'static str,
    evidence_required: bool,
}

impl Setting {
    /// Whether a proposal of this impact is accepted with these impacts of call and policy.
    fn accepts(
        &self,
        profile: Profile,
        proposed: ImpactClass,
        called: Option<ImpactClass>,
        listed: Option<ImpactClass>,
    ) -> bool {
        let facts = Facts::new("payments_send");
        let mut file: Value = serde_json::from_str(&keyring_of(&self.thresholds).to_json()).unwrap();
        if let Some(impacts) = &self.key_scope {
            let key = &mut file["trusted_keys"]["cfo-1"];
            *key = json!({"public_key": cfo().verifying_key().to_base64(), "impacts": impacts});
        }
        let mut policy = json!({"require_evidence_for_impacts": self.asks_evidence});
        if let Some(listed) = listed {
            policy["impact_by_tool"] = json!({"payments_send": listed});
        }
        let mut gate = gate(profile)
            .keyring(EvidenceKeyring::from_json(file.to_string().as_bytes()).unwrap())
            .resolver(files(&[("file://invoice.txt", INVOICE)]))
            .policy(ProposalPolicy::from_json(policy.to_string().as_bytes()).unwrap())
            .high(self.high.iter().copied().collect());
        if let Some(impacts) = &self.endorsed_for {
            gate = gate.endorsed(endorsed(INVOICE, &for_acme(&json!({"impacts": impacts}))));
        }
        let cited = json!(["invoice", "mail"]);
        let proposal = parsed(&proposal_with(self.evidence, proposed, &cited, &facts));
        let mut call = facts.call_for(&proposal);
        if let Some(called) = called {
            call = call.impact(called);
        }
        if self.evidence_required {
            call = call.evidence_required();
        }
        proposal.verify(&built(gate), &call, &clock()).is_ok()
    }
}

/// Any impact, weighted towards the low ones, which an operator may declare high.
fn impact() -> impl Strategy<Value = ImpactClass> {
    let low = ImpactClass::ALL.into_iter().filter(|impact| !impact.is_high()).collect::<Vec<_>>();
    prop_oneof![3 => prop::sample::select(low), 1 => prop::sample::select(ImpactClass::ALL.to_vec())]
}

fn some_impacts(least: usize, most: usize) -> impl Strategy<Value = Vec<ImpactClass>> {
    prop::sample::subsequence(ImpactClass::ALL.to_vec(), least..=most)
}

/// Any evidence, weighted towards none and a file without endorsement, so that requirements show in the verdict.
fn evidence() -> impl Strategy<Value = &'static str> {
    prop_oneof![1 => Just("none"), 1 => Just("file"), 2 => prop::sample::select(EVIDENCE.to_vec())]
}

/// An operator who set each option independently.
fn any_setting() -> impl Strategy<Value = Setting> {
    let thresholds = proptest::collection::btree_map(impact(), 1..=2_usize, 0..2);
    let scopes = (prop::option::of(some_impacts(1, 6)), prop::option::of(some_impacts(1, 6)));
    let required = prop::bool::weighted(0.1);
    let all = (some_impacts(0, 3), some_impacts(1, 2), thresholds, scopes, evidence(), required);
    all.prop_map(
        |(high, asks_evidence, thresholds, (key_scope, endorsed_for), evidence, evidence_required)| {
            let thresholds = thresholds.into_iter().map(|(impact, count)| (impact.to_string(), json!(count)));
            let thresholds = Value::Object(thresholds.collect());
            Setting { high, asks_evidence, thresholds, key_scope, endorsed_for, evidence, evidence_required }
        },
    )
}

/// An operator whose requirements rise with the impact, and whose keys cover every impact.
fn rising_setting() -> impl Strategy<Value = Setting> {
    let from = || impact().prop_map(|least| ImpactClass::ALL.into_iter().filter(|i| *i >= least).collect());
    (from(), from(), impact(), impact(), evidence(), any::<bool>(), any::<bool>()).prop_map(
        |(high, asks_evidence, one, two, evidence, endorse, evidence_required)| {
            let asked = |impact: &ImpactClass| u8::from(*impact >= one) + u8::from(*impact >= two);
            let stated = ImpactClass::ALL.into_iter().filter(|impact| asked(impact) > 0);
            let thresholds = stated.map(|impact| (impact.to_string(), json!(asked(&impact))));
            Setting {
                high,
                asks_evidence,
                thresholds: Value::Object(thresholds.collect()),
                key_scope: None,
                endorsed_for: endorse.then(|| ImpactClass::ALL.to_vec()),
                evidence,
                evidence_required,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Under any settings an additional stated impact adds requirements and removes none. An agent that states more
    /// than the operator gains nothing where stating exactly that is refused.
    #[test]
    fn stating_one_more_impact_never_helps(
        setting in any_setting(), proposed in impact(), called in prop::option::of(impact()),
        listed in prop::option::of(impact()),
    ) {
        let accepts = |proposed, called, listed| setting.accepts(Profile::Strict, proposed, called, listed);
        if accepts(proposed, called, listed) {
            prop_assert!(accepts(proposed, None, listed), "the call's");
            prop_assert!(accepts(proposed, called, None), "the policy's");
            if let Some(operators) = called.max(listed) {
                prop_assert!(accepts(operators, called, listed), "the proposal's");
            }
        }
    }

    /// If requirements rise with the impact, raising any of the three stated impacts never helps.
    #[test]
    fn raising_an_impact_never_helps(
        setting in rising_setting(), impacts in [impact(), impact(), impact()], lower in impact(),
    ) {
        let [proposed, called, listed] = impacts;
        let accepts = |proposed, called, listed| {
            setting.accepts(Profile::Strict, proposed, Some(called), Some(listed))
        };
        if accepts(proposed, called, listed) {
            // Below the operator's impact it is refused for that.
            prop_assert!(accepts(lower.clamp(called.max(listed), proposed), called, listed));
            prop_assert!(accepts(proposed, called.min(lower), listed));
            prop_assert!(accepts(proposed, called, listed.min(lower)));
        }
    }

    #[test]
    fn counting_more_as_high_never_helps(
        setting in any_setting(), more in impact(), proposed in impact(), called in prop::option::of(impact()),
        listed in prop::option::of(impact()),
    ) {
        let mut higher = setting.clone();
        higher.high.push(more);
        for profile in Profile::ALL {
            if higher.accepts(profile, proposed, called, listed) {
                prop_assert!(setting.accepts(profile, proposed, called, listed), "{}", profile);
            }
        }
    }
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
    fn parsing_any_proposal_shape_never_panics(
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
