//! Endorsements at money: their bound arguments and their uses.

use std::sync::Mutex;
use std::thread;

use countersign_core::{Digest, Millis, SpendError, SpentTokens, Ticket, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::spend::Spent;
use super::world::{
    NOW, at, attested, built, cfo, code, endorsed, files, for_acme, gate, hash_entry, judge, outcome,
    transfer, with_evidence,
};
use crate::{
    EndorsedDigests, EndorsementDraft, Profile, ProposalSpendError, ProposalVerifier, SpentProposal,
};

const INVOICE: &[u8] = b"invoice: 500 to acme";
const PROFILES: [Profile; 3] = [Profile::Strict, Profile::Pic09, Profile::Pic08];
const SKEW: Millis = Millis::from_secs(5);

/// The transfer with the invoice as a file, with these arguments.
fn filed(args: Value) -> Value {
    let mut value = with_evidence(transfer(), hash_entry("invoice", "file://invoice.txt", INVOICE));
    value["action"]["args"] = args;
    value
}

fn acme() -> Value {
    json!({"to": "acme", "amount": 500})
}

/// A verifier whose operator endorses the invoice with these members.
fn verifier(profile: Profile, entry: &Value) -> ProposalVerifier {
    with_list(profile, endorsed(INVOICE, entry))
}

fn with_list(profile: Profile, list: EndorsedDigests) -> ProposalVerifier {
    let gate = gate(profile).verify_evidence().sanitize_trust();
    built(gate.resolver(files(&[("file://invoice.txt", INVOICE)])).endorsed(list))
}

/// An entry with these bounds, and times of its own.
fn bounds(bounds: &Value) -> Value {
    let mut entry = for_acme(&json!({}));
    entry["bounds"] = bounds.clone();
    entry
}

fn uses(count: u32) -> Value {
    let mut entry = for_acme(&json!({}));
    entry["uses"] = json!(count);
    entry
}

/// Judges the invoice's transfer and spends it.
fn pay(verifier: &ProposalVerifier, store: &dyn SpentTokens) -> Result<SpentProposal, ProposalSpendError> {
    judge(&filed(acme()), verifier).unwrap().spend(store, at(NOW), SKEW)
}

fn paid_code(verifier: &ProposalVerifier, store: &dyn SpentTokens) -> &'static str {
    pay(verifier, store).map_or_else(|error| error.code(), |_| "allow")
}

/// Code of the refusal of a list with this one entry.
fn refusal(entry: &Value) -> &'static str {
    draft(entry).map_or_else(|error| error.code(), |_| "loads")
}

fn draft(entry: &Value) -> Result<EndorsementDraft, crate::EndorsementError> {
    let mut entry = entry.clone();
    entry["sha256"] = json!(Digest::of(INVOICE));
    let list = json!({
        "format": "countersign-evidence-digests-1", "issued": NOW, "expires": NOW + 3_600_000, "digests": [entry],
    });
    EndorsementDraft::from_json(list.to_string().as_bytes())
}

#[test]
fn an_unbound_entry_backs_no_high_impact_under_any_profile() {
    for profile in PROFILES {
        let unbound = verifier(profile, &json!({"tools": ["payments_send"], "impacts": ["money", "write"]}));
        let (refused, detail) = outcome(judge(&filed(acme()), &unbound));
        assert_eq!(refused, "PIC_VERIFIER_FAILED", "{profile}");
        assert!(detail.ends_with("binds no arguments"), "{detail}");
        let mut low = filed(acme());
        low["impact"] = json!("write");
        let twice = [judge(&low, &unbound).unwrap(), judge(&low, &unbound).unwrap()];
        let store = Spent::default();
        assert!(twice.into_iter().all(|verified| verified.spend(&store, at(NOW), SKEW).is_ok()));
        assert!(store.kept.lock().unwrap().is_empty(), "nothing is counted at a low impact");
    }
}

#[test]
fn a_bound_entry_backs_its_arguments_alone_under_any_profile() {
    let entry = bounds(&json!([{"pointer": "/to", "equals": "acme"}, {"pointer": "/amount", "max": 500}]));
    for profile in PROFILES {
        let verifier = verifier(profile, &entry);
        let judged = |args: Value| code(judge(&filed(args), &verifier));
        assert_eq!(judged(acme()), "allow", "{profile}");
        for other in [
            json!({"to": "acme", "amount": 9_999_999}),
            json!({"to": "mallory", "amount": 500}),
            json!({"to": ["acme"], "amount": 500}),
            json!({"to": "acme", "amount": "500"}),
            json!({"to": "acme"}),
            json!({}),
        ] {
            assert_eq!(judged(other.clone()), "PIC_VERIFIER_FAILED", "{profile} {other}");
        }
    }
    let (_, detail) = outcome(judge(&filed(json!({})), &verifier(Profile::Strict, &entry)));
    assert!(detail.ends_with("is for other arguments"), "{detail}");
}

#[test]
fn a_member_that_looks_like_a_bound_one_meets_no_bound() {
    let entry = bounds(&json!([{"pointer": "/to", "equals": "acme"}, {"pointer": "/amount", "max": 500}]));
    let verifier = verifier(Profile::Strict, &entry);
    let judged = |args: Value| code(judge(&filed(args), &verifier));
    for other in ["To", "tO", "t\u{43e}", "AMOUNT", "amount "] {
        let mut args = acme();
        args[other] = json!("mallory");
        assert_eq!(judged(args), "PIC_VERIFIER_FAILED", "{other}");
    }
    let mut args = acme();
    args["note"] = json!("thanks");
    assert_eq!(judged(args.clone()), "allow");
    for n in 0..256 {
        args[format!("n{n}")] = json!(n);
    }
    assert_eq!(judged(args), "PIC_VERIFIER_FAILED");
}

#[test]
fn exact_arguments_allow_no_other_member() {
    let mut entry = for_acme(&json!({"args": Digest::of(br#"{"amount":500,"to":"acme"}"#)}));
    entry.as_object_mut().unwrap().remove("bounds");
    let verifier = verifier(Profile::Strict, &entry);
    assert_eq!(code(judge(&filed(acme()), &verifier)), "allow");
    assert_eq!(code(judge(&filed(json!({"amount": 500.0, "to": "acme"})), &verifier)), "allow");
    let more = json!({"amount": 500, "to": "acme", "memo": ""});
    assert_eq!(code(judge(&filed(more), &verifier)), "PIC_VERIFIER_FAILED");
}

#[test]
fn a_number_that_was_rounded_meets_no_bound() {
    let verifier = verifier(Profile::Pic09, &bounds(&json!([{"pointer": "/amount", "max": 500}])));
    let text = filed(acme()).to_string();
    let judged = |amount: &str| {
        let proposal = super::world::parse_text(&text.replace("500,", amount)).unwrap();
        let facts = super::world::Facts::new(proposal.tool());
        let call = facts.call_for(&proposal);
        code(proposal.verify(&verifier, &call, &super::world::clock()))
    };
    assert_eq!(judged("500.0,"), "allow");
    assert_eq!(judged("500.00000000000000000001,"), "PIC_VERIFIER_FAILED");
}

#[test]
fn bounds_that_say_too_little_or_too_much_are_refused() {
    let one = |bound: Value| bounds(&json!([bound]));
    for (entry, expected) in [
        (bounds(&json!([])), "ENDORSEMENT_BOUNDS"),
        (bounds(&json!({})), "ENDORSEMENT_MALFORMED"),
        (bounds(&json!(null)), "ENDORSEMENT_MALFORMED"),
        (one(json!({"pointer": "/to"})), "ENDORSEMENT_BOUNDS"),
        (one(json!({"pointer": "to", "equals": 1})), "ENDORSEMENT_BOUNDS"),
        (one(json!({"pointer": "/a~2", "equals": 1})), "ENDORSEMENT_BOUNDS"),
        (one(json!({"pointer": "/a~", "equals": 1})), "ENDORSEMENT_BOUNDS"),
        (one(json!({"pointer": 1, "equals": 1})), "ENDORSEMENT_MALFORMED"),
        (one(json!({"equals": 1})), "ENDORSEMENT_MALFORMED"),
        (one(json!({"pointer": "/to", "equal": 1})), "ENDORSEMENT_MALFORMED"),
        (one(json!({"pointer": "/to", "equals": 1, "min": 1})), "ENDORSEMENT_BOUNDS"),
        (one(json!({"pointer": "/to", "min": "1"})), "ENDORSEMENT_MALFORMED"),
        (one(json!({"pointer": "/to", "max": null})), "ENDORSEMENT_MALFORMED"),
        (one(json!({"pointer": "/to", "min": 2, "max": 1})), "ENDORSEMENT_BOUNDS"),
        (bounds(&json!([{"pointer": "/to", "min": 1}, {"pointer": "/to", "max": 2}])), "ENDORSEMENT_BOUNDS"),
        (for_acme(&json!({"args": Digest::of(b"{}")})), "ENDORSEMENT_BOUNDS"),
        (json!({"args": null}), "ENDORSEMENT_MALFORMED"),
        (json!({"args": "00"}), "ENDORSEMENT_MALFORMED"),
        (uses(0), "ENDORSEMENT_USES"),
        (uses(101), "ENDORSEMENT_USES"),
        (for_acme(&json!({"uses": 1.5})), "ENDORSEMENT_MALFORMED"),
        (for_acme(&json!({"uses": null})), "ENDORSEMENT_MALFORMED"),
        (json!({"uses": 1}), "ENDORSEMENT_NO_TIMES"),
        (json!({"uses": 1, "expires": NOW + 1}), "ENDORSEMENT_NO_TIMES"),
        (json!({"bounds": [{"pointer": "", "equals": {}}], "issued": NOW}), "ENDORSEMENT_NO_TIMES"),
        (json!({"issued": NOW + 1}), "ENDORSEMENT_TIMES"),
        (uses(100), "loads"),
        (one(json!({"pointer": "", "equals": {"to": null}})), "loads"),
        (one(json!({"pointer": "/a~0~1", "min": -0.5, "max": -0.5})), "loads"),
    ] {
        assert_eq!(refusal(&entry), expected, "{entry}");
    }
    let many = |count: u32| {
        let all: Vec<_> = (0..count).map(|n| json!({"pointer": format!("/{n}"), "min": 0})).collect();
        refusal(&bounds(&json!(all)))
    };
    assert_eq!((many(64), many(65)), ("loads", "ENDORSEMENT_BOUNDS"));
}

#[test]
fn an_endorsement_counts_as_often_as_it_says() {
    for profile in PROFILES {
        for (entry, count) in [(for_acme(&json!({})), 1), (uses(3), 3)] {
            let (verifier, store) = (verifier(profile, &entry), Spent::default());
            for number in 1..=count {
                let spent = pay(&verifier, &store).unwrap();
                assert_eq!(spent.evidence()[0].endorsement().unwrap().number(), number);
            }
            assert_eq!(paid_code(&verifier, &store), "PIC_VERIFIER_FAILED", "{profile} {count}");
            // Each is kept until the entry's own end.
            assert!(store.kept.lock().unwrap().iter().all(|kept| *kept == at(NOW + 3_600_000 + 5_000)));
        }
    }
}

#[test]
fn signing_a_list_again_restores_no_use() {
    let store = Spent::default();
    assert_eq!(paid_code(&verifier(Profile::Strict, &uses(1)), &store), "allow");
    let mut entry = uses(1);
    entry["sha256"] = json!(Digest::of(INVOICE));
    let again = |entry: &Value| {
        let operator = countersign_keys::SigningKey::from_seed([8; 32]);
        let list = json!({
            "format": "countersign-evidence-digests-1", "issued": NOW, "expires": NOW + 9_000_000,
            "digests": [{"sha256": Digest::of(b"another file")}, entry],
        });
        let draft = EndorsementDraft::from_json(list.to_string().as_bytes()).unwrap();
        let root = countersign_keys::TrustRoot::new(2, 1, vec![operator.verifying_key()]).unwrap();
        let envelope = draft.to_envelope(&[&operator]).to_json();
        with_list(Profile::Strict, EndorsedDigests::load(envelope.as_bytes(), &root, at(NOW)).unwrap())
    };
    assert_eq!(paid_code(&again(&entry), &store), "PIC_VERIFIER_FAILED");
    // More uses are additional uses.
    entry["uses"] = json!(2);
    assert_eq!(paid_code(&again(&entry), &store), "allow");
    assert_eq!(paid_code(&again(&entry), &store), "PIC_VERIFIER_FAILED");
}

#[test]
fn several_claims_and_entries_of_one_file_take_one_use() {
    let (verifier, store) = (verifier(Profile::Strict, &for_acme(&json!({}))), Spent::default());
    let mut value = filed(acme());
    let again = hash_entry("mail", "file://invoice.txt", INVOICE);
    value["evidence"].as_array_mut().unwrap().push(again);
    value["claims"] = json!([
        {"text": "due", "evidence": ["invoice", "mail"]}, {"text": "approved", "evidence": ["invoice"]},
    ]);
    let spent = judge(&value, &verifier).unwrap().spend(&store, at(NOW), SKEW).unwrap();
    assert_eq!(store.kept.lock().unwrap().len(), 1);
    assert!(spent.evidence().iter().all(|evidence| evidence.endorsement().unwrap().number() == 1));
}

#[test]
fn an_endorsed_file_that_no_claim_cites_takes_no_use() {
    let (verifier, store) = (verifier(Profile::Strict, &for_acme(&json!({}))), Spent::default());
    let mut value = filed(acme());
    value["claims"][0]["evidence"] = json!(["mail"]);
    let facts = super::world::Facts::new("payments_send");
    let value = attested(value, "mail", &cfo(), "cfo-1", &facts);
    assert!(judge(&value, &verifier).unwrap().spend(&store, at(NOW), SKEW).is_ok());
    assert_eq!(store.kept.lock().unwrap().len(), 1, "the attestation alone");
    assert_eq!(paid_code(&verifier, &store), "allow");
}

#[test]
fn a_spent_attestation_costs_no_endorsement() {
    let (verifier, store) = (verifier(Profile::Strict, &for_acme(&json!({}))), Spent::default());
    let facts = super::world::Facts::new("payments_send");
    let mut value = filed(acme());
    value["claims"][0]["evidence"] = json!(["mail"]);
    let attested_alone = attested(value.clone(), "mail", &cfo(), "cfo-1", &facts);
    assert!(judge(&attested_alone, &verifier).unwrap().spend(&store, at(NOW), SKEW).is_ok());
    value["claims"][0]["evidence"] = json!(["invoice", "mail"]);
    let both = attested(value, "mail", &cfo(), "cfo-1", &facts);
    let refused = judge(&both, &verifier).unwrap().spend(&store, at(NOW), SKEW).unwrap_err();
    assert_eq!(refused.code(), "PIC_EVIDENCE_FAILED");
    assert_eq!(paid_code(&verifier, &store), "allow");
}

#[test]
fn a_second_entry_counts_where_the_first_is_used_up() {
    let operator = countersign_keys::SigningKey::from_seed([9; 32]);
    let mut entries = [uses(1), uses(1)];
    for (entry, issued) in entries.iter_mut().zip([NOW - 2_000, NOW - 1_000]) {
        entry["sha256"] = json!(Digest::of(INVOICE));
        entry["issued"] = json!(issued);
    }
    let list = json!({
        "format": "countersign-evidence-digests-1", "issued": NOW, "expires": NOW + 9_000_000, "digests": entries,
    });
    let draft = EndorsementDraft::from_json(list.to_string().as_bytes()).unwrap();
    let root = countersign_keys::TrustRoot::new(1, 1, vec![operator.verifying_key()]).unwrap();
    let envelope = draft.to_envelope(&[&operator]).to_json();
    let list = EndorsedDigests::load(envelope.as_bytes(), &root, at(NOW)).unwrap();
    let (verifier, store) = (with_list(Profile::Strict, list), Spent::default());
    let codes = [(); 3].map(|()| paid_code(&verifier, &store));
    assert_eq!(codes, ["allow", "allow", "PIC_VERIFIER_FAILED"]);
}

#[test]
fn entries_that_are_carried_over_keep_their_uses() {
    let operator = countersign_keys::SigningKey::from_seed([9; 32]);
    let root = countersign_keys::TrustRoot::new(1, 1, vec![operator.verifying_key()]).unwrap();
    let list = |issued: u64, digests: Value| {
        let list = json!({
            "format": "countersign-evidence-digests-1", "issued": issued, "expires": issued + 9_000_000,
            "digests": digests,
        });
        EndorsementDraft::from_json(list.to_string().as_bytes()).unwrap()
    };
    let digest = json!(Digest::of(INVOICE));
    let mut bound = uses(1);
    bound["sha256"] = digest.clone();
    let ended = json!({"sha256": Digest::of(b"old"), "expires": NOW});
    let first = list(NOW - 1_000, json!([bound, {"sha256": Digest::of(b"unbound")}, ended]));
    let envelope = |draft: &EndorsementDraft| draft.to_envelope(&[&operator]).to_json();
    let load =
        |draft: &EndorsementDraft| EndorsedDigests::load(envelope(draft).as_bytes(), &root, at(NOW)).unwrap();
    let second = list(NOW, json!([{"sha256": Digest::of(b"new")}]));
    let second = second.carry_over(envelope(&first).as_bytes(), &root).unwrap();
    let digests: Vec<_> = second.entries().iter().map(|entry| entry.digest()).collect();
    assert_eq!(digests, [b"new" as &[u8], INVOICE, b"unbound"].map(Digest::of));
    assert_eq!(second.entries()[1].id(), first.entries()[0].id());
    // Without an expiry of its own it ends as before.
    assert_eq!(second.entries()[2].expires(), Some(at(NOW - 1_000 + 9_000_000)));
    let store = Spent::default();
    assert_eq!(paid_code(&with_list(Profile::Strict, load(&first)), &store), "allow");
    assert_eq!(paid_code(&with_list(Profile::Strict, load(&second)), &store), "PIC_VERIFIER_FAILED");
    let stranger = countersign_keys::SigningKey::from_seed([7; 32]);
    let others = first.to_envelope(&[&stranger]).to_json();
    let refused = list(NOW, json!([])).carry_over(others.as_bytes(), &root).unwrap_err();
    assert_eq!(refused.code(), "ENVELOPE_THRESHOLD");
}

/// Answers every ticket with one error.
#[derive(Debug)]
struct Answering(fn() -> SpendError, Mutex<usize>);

impl SpentTokens for Answering {
    fn spend(&self, _: &Ticket, _: Timestamp) -> Result<(), SpendError> {
        *self.1.lock().unwrap() += 1;
        Err((self.0)())
    }
}

#[test]
fn a_store_that_cannot_say_refuses_with_its_own_code() {
    let verifier = verifier(Profile::Strict, &uses(3));
    for (error, expected, asked) in [
        ((|| SpendError::TooNew) as fn() -> SpendError, "STORE_TOO_NEW", 3),
        (|| SpendError::ClockAhead, "STORE_CLOCK_AHEAD", 3),
        (|| SpendError::Unavailable("closed".into()), "STORE_UNAVAILABLE", 1),
    ] {
        let store = Answering(error, Mutex::new(0));
        assert_eq!(paid_code(&verifier, &store), expected);
        assert_eq!(*store.1.lock().unwrap(), asked, "{expected}");
    }
}

#[test]
fn an_endorsement_that_ends_before_it_is_spent_is_not_spent() {
    let (verifier, store) = (verifier(Profile::Strict, &for_acme(&json!({}))), Spent::default());
    let spend = |now: u64| judge(&filed(acme()), &verifier).unwrap().spend(&store, at(now), SKEW);
    assert_eq!(spend(NOW + 3_600_000).unwrap_err().code(), "PIC_VERIFIER_FAILED");
    assert!(spend(NOW + 3_599_999).is_ok());
}

#[test]
fn calls_at_once_never_take_more_uses_than_there_are() {
    let (verifier, store) = (verifier(Profile::Strict, &uses(3)), Spent::default());
    let paid = thread::scope(|scope| {
        let runs: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| (0..4).filter(|_| paid_code(&verifier, &store) == "allow").count()))
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).sum::<usize>()
    });
    assert_eq!((paid, store.kept.lock().unwrap().len()), (3, 3));
}

/// A JSON value: scalars, and small lists and objects.
fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|truth| json!(truth)),
        (-3_i32..3).prop_map(|number| json!(number)),
        (-3_i32..3).prop_map(|number| json!(f64::from(number))),
        prop::sample::select(vec!["", "1", "true", "null", "a", "/", "~"]).prop_map(|text| json!(text)),
    ];
    scalar.prop_recursive(2, 8, 3, |inner| {
        let name = prop::sample::select(vec!["to", "amount", "a/b", "~", "0", ""]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..3).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A bound holds exactly where the reference's own look-up finds an equal value, or a number within.
    #[test]
    fn a_bound_holds_where_the_value_does_and_nowhere_else(
        args in prop::collection::btree_map(prop::sample::select(vec!["to", "amount", "a/b", "~"]), any_json(), 0..4),
        pointer in prop::sample::select(vec!["/to", "/amount", "/a~1b", "/~0", "/to/0", "/to/to", "/to/", "/amount/01"]),
        wanted in any_json(), min in -3_i32..3, range in any::<bool>(),
    ) {
        let args: Value = args.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let bound = if range {
            json!({"pointer": pointer, "min": min, "max": min + 1})
        } else {
            json!({"pointer": pointer, "equals": wanted})
        };
        // Numbers are compared as doubles: 1 and 1.0 are one.
        let canonical = |value: &Value| countersign_canonical_json::to_canonical(value).unwrap().as_str().to_owned();
        let expected = args.pointer(pointer).is_some_and(|value| match value.as_f64() {
            Some(number) if range => number >= f64::from(min) && number <= f64::from(min + 1),
            _ => !range && canonical(value) == canonical(&wanted),
        });
        let verifier = verifier(Profile::Strict, &bounds(&json!([bound])));
        let allowed = judge(&filed(args.clone()), &verifier).is_ok();
        prop_assert_eq!(allowed, expected, "{} {}", bound, args);
    }
}
