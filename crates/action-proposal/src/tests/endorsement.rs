use countersign_core::{Digest, ImpactClass, Principal, ServerName};
use countersign_keys::dsse::Envelope;
use countersign_keys::{SigningKey, TrustRoot};
use serde_json::{Value, json};

use super::signing::{NOW, at};
use crate::{EndorsedDigests, EndorsementDraft, EndorsementError};

const PAYLOAD_TYPE: &str = "application/vnd.countersign.evidence-digests+json";

fn operator(seed: u8) -> SigningKey {
    SigningKey::from_seed([seed; 32])
}

fn root(threshold: usize) -> TrustRoot {
    TrustRoot::new(1, threshold, [operator(1).verifying_key(), operator(2).verifying_key()]).unwrap()
}

fn invoice() -> Digest {
    Digest::of(b"invoice")
}

/// Issued an hour ago for a day, with these entries.
fn list(digests: &[Value]) -> Value {
    json!({
        "format": "countersign-evidence-digests-1", "issued": NOW - 3_600_000, "expires": NOW + 82_800_000,
        "digests": digests,
    })
}

fn entry() -> Value {
    json!({"sha256": invoice().to_string()})
}

fn sign(draft: &Value) -> Envelope {
    EndorsementDraft::from_json(draft.to_string().as_bytes()).unwrap().to_envelope(&[&operator(1)])
}

fn load(envelope: &Envelope) -> Result<EndorsedDigests, EndorsementError> {
    EndorsedDigests::load(envelope.to_json().as_bytes(), &root(1), at(NOW))
}

fn loaded(digests: &[Value]) -> EndorsedDigests {
    load(&sign(&list(digests))).unwrap()
}

/// Code of the refusal of a draft; signed nevertheless, it must not load either.
fn refusal(draft: &Value) -> &'static str {
    let error = EndorsementDraft::from_json(draft.to_string().as_bytes()).unwrap_err();
    let text = countersign_canonical_json::to_canonical(draft).unwrap();
    let forced = Envelope::sign(PAYLOAD_TYPE, text.bytes(), &[&operator(1)]);
    assert_eq!(load(&forced).unwrap_err().code(), error.code(), "{draft}");
    error.code()
}

fn finds(
    list: &EndorsedDigests,
    tool: &str,
    impacts: &[ImpactClass],
    principal: Option<&str>,
    now: u64,
) -> bool {
    let principal = principal.map(|name| Principal::new(name).unwrap());
    list.find(&invoice(), tool, None, impacts, principal.as_ref(), at(now)).is_some()
}

#[test]
fn endorsed_digest_is_found() {
    let list = loaded(&[entry()]);
    let found = list.find(&invoice(), "pay", None, &[ImpactClass::Money], None, at(NOW)).unwrap();
    assert_eq!((found.digest(), found.expires(), list.len()), (invoice(), None, 1));
    assert!(list.find(&Digest::of(b"other"), "pay", None, &[ImpactClass::Money], None, at(NOW)).is_none());
    assert_eq!((list.issued(), list.expires()), (at(NOW - 3_600_000), at(NOW + 82_800_000)));
    assert!(loaded(&[]).is_empty());
}

#[test]
fn list_below_the_threshold_is_refused() {
    let draft = EndorsementDraft::from_json(list(&[entry()]).to_string().as_bytes()).unwrap();
    let load = |keys: &[&SigningKey], threshold| {
        let envelope = draft.to_envelope(keys).to_json();
        EndorsedDigests::load(envelope.as_bytes(), &root(threshold), at(NOW))
            .map_err(|error| error.code())
            .err()
    };
    assert_eq!(load(&[&operator(1), &operator(2)], 2), None);
    assert_eq!(load(&[&operator(1)], 2), Some("ENVELOPE_THRESHOLD"));
    assert_eq!(load(&[&operator(3)], 1), Some("ENVELOPE_THRESHOLD"));
    assert_eq!(load(&[], 1), Some("ENVELOPE_THRESHOLD"));
}

#[test]
fn a_key_that_the_operator_has_revoked_signs_nothing() {
    let envelope = sign(&list(&[entry()])).to_json();
    let revoked = operator(1).verifying_key();
    let load = |revoked: &dyn Fn(&countersign_keys::VerifyingKey) -> bool| {
        EndorsedDigests::load_unless_revoked(envelope.as_bytes(), &root(1), revoked, at(NOW)).is_ok()
    };
    assert!(load(&|_| false));
    assert!(!load(&|key| *key == revoked));
}

#[test]
fn a_changed_or_mistyped_envelope_is_refused() {
    let text = list(&[entry()]).to_string();
    let canonical = countersign_canonical_json::to_canonical(&list(&[entry()])).unwrap();
    let of_type = |payload_type: &str, payload: &[u8]| {
        load(&Envelope::sign(payload_type, payload, &[&operator(1)])).map_err(|error| error.code()).err()
    };
    assert_eq!(of_type(PAYLOAD_TYPE, canonical.bytes()), None);
    for other in ["application/vnd.countersign.registry+json", "application/json", ""] {
        assert_eq!(of_type(other, canonical.bytes()), Some("ENVELOPE_PAYLOAD_TYPE"));
    }
    let spaced = text.replacen(':', ": ", 1);
    assert_eq!(of_type(PAYLOAD_TYPE, spaced.as_bytes()), Some("ENDORSEMENT_NOT_CANONICAL"));
    assert_eq!(of_type(PAYLOAD_TYPE, b"{"), Some("JSON_UNEXPECTED_END"));
    let doubled = text.replacen('{', "{\"issued\":1,", 1);
    assert_eq!(of_type(PAYLOAD_TYPE, doubled.as_bytes()), Some("JSON_DUPLICATE_NAME"));
    let swapped = sign(&list(&[])).to_json();
    let signed: Value = serde_json::from_str(&sign(&list(&[entry()])).to_json()).unwrap();
    let mut mixed: Value = serde_json::from_str(&swapped).unwrap();
    mixed["signatures"] = signed["signatures"].clone();
    let error = EndorsedDigests::load(mixed.to_string().as_bytes(), &root(1), at(NOW)).unwrap_err();
    assert_eq!(error.code(), "ENVELOPE_THRESHOLD");
}

#[test]
fn a_list_counts_from_its_issue_until_just_before_it_expires() {
    let envelope = sign(&list(&[entry()])).to_json();
    let load = |now| {
        EndorsedDigests::load(envelope.as_bytes(), &root(1), at(now)).map_err(|error| error.code()).err()
    };
    let (issued, expires) = (NOW - 3_600_000, NOW + 82_800_000);
    assert_eq!(load(issued - 60_001), Some("ENDORSEMENT_NOT_YET_VALID"));
    assert_eq!(load(issued - 60_000), None);
    assert_eq!(load(expires - 1), None);
    assert_eq!(load(expires), Some("ENDORSEMENT_EXPIRED"));
    let list = loaded(&[entry()]);
    assert!(finds(&list, "pay", &[ImpactClass::Money], None, expires - 1));
    assert!(!finds(&list, "pay", &[ImpactClass::Money], None, expires));
}

#[test]
fn a_digest_of_its_own_expiry_ends_with_it() {
    let list = loaded(&[json!({"sha256": invoice().to_string(), "expires": NOW + 10})]);
    assert!(finds(&list, "pay", &[ImpactClass::Money], None, NOW + 9));
    assert!(!finds(&list, "pay", &[ImpactClass::Money], None, NOW + 10));
}

#[test]
fn endorsement_backs_only_its_scope() {
    let list = loaded(&[json!({
        "sha256": invoice().to_string(), "tools": ["pay"], "impacts": ["money", "write"], "principals": ["alice"],
    })]);
    let money = [ImpactClass::Money];
    assert!(finds(&list, "pay", &money, Some("alice"), NOW));
    assert!(!finds(&list, "refund", &money, Some("alice"), NOW));
    assert!(!finds(&list, "pay", &[ImpactClass::Privacy], Some("alice"), NOW));
    assert!(!finds(&list, "pay", &money, Some("eve"), NOW));
    assert!(!finds(&list, "pay", &money, None, NOW));
    // Every impact in question must be in scope.
    assert!(finds(&list, "pay", &[ImpactClass::Money, ImpactClass::Write], Some("alice"), NOW));
    assert!(!finds(&list, "pay", &[ImpactClass::Money, ImpactClass::Irreversible], Some("alice"), NOW));
}

#[test]
fn endorsement_for_a_server_backs_no_other() {
    let list = loaded(&[json!({"sha256": invoice().to_string(), "servers": ["bank", "shop"]})]);
    let (bank, mail) = (ServerName::new("bank").unwrap(), ServerName::new("mail").unwrap());
    let finds = |server| list.find(&invoice(), "pay", server, &[ImpactClass::Money], None, at(NOW)).is_some();
    assert!(finds(Some(&bank)) && !finds(Some(&mail)) && !finds(None));
    let anywhere = loaded(&[entry()]);
    assert!(anywhere.find(&invoice(), "pay", None, &[ImpactClass::Money], None, at(NOW)).is_some());
}

#[test]
fn list_counts_while_enough_signers_remain() {
    let draft = EndorsementDraft::from_json(list(&[entry()]).to_string().as_bytes()).unwrap();
    let keys: Vec<SigningKey> = (1..=3).map(operator).collect();
    let public: Vec<_> = keys.iter().map(SigningKey::verifying_key).collect();
    let root = TrustRoot::new(1, 2, public.clone()).unwrap();
    let load = |count: usize| {
        let envelope = draft.to_envelope(&keys.iter().take(count).collect::<Vec<_>>()).to_json();
        EndorsedDigests::load(envelope.as_bytes(), &root, at(NOW)).unwrap()
    };
    let without = |gone: &'static [usize]| {
        let gone: Vec<_> = gone.iter().map(|index| public[*index]).collect();
        move |key: &countersign_keys::VerifyingKey| gone.contains(key)
    };
    let (two, three) = (load(2), load(3));
    assert_eq!((two.threshold(), two.signers().len(), three.signers().len()), (2, 2, 3));
    for list in [&two, &three] {
        assert!(list.still_counts(&without(&[])));
        assert!(!list.still_counts(&without(&[0, 1])) && !list.still_counts(&|_| true));
    }
    // A key that did not sign does not count, and a third one that did makes up for it.
    assert!(two.still_counts(&without(&[2])) && !two.still_counts(&without(&[1])));
    assert!(three.still_counts(&without(&[1])) && !three.still_counts(&without(&[0, 2])));
    // A key revoked at loading counts as not having signed.
    let all = draft.to_envelope(&keys.iter().collect::<Vec<_>>()).to_json();
    let loaded =
        EndorsedDigests::load_unless_revoked(all.as_bytes(), &root, &without(&[0]), at(NOW)).unwrap();
    assert_eq!(loaded.signers().len(), 2);
    assert!(!loaded.signers().contains(&public[0]));
}

#[test]
fn scopes_of_one_digest_do_not_mix() {
    let digest = invoice().to_string();
    let list = loaded(&[
        json!({"sha256": digest, "tools": ["pay"], "principals": ["alice"]}),
        json!({"sha256": digest, "tools": ["refund"], "principals": ["bob"]}),
    ]);
    let finds = |tool, principal| finds(&list, tool, &[ImpactClass::Money], Some(principal), NOW);
    assert!(finds("pay", "alice") && finds("refund", "bob"));
    assert!(!finds("pay", "bob") && !finds("refund", "alice"));
    assert_eq!(list.len(), 1);
}

#[test]
fn a_list_with_one_fault_is_refused_as_a_whole() {
    let digest = invoice().to_string();
    let with = |name: &str, value: Value| {
        let mut draft = list(&[entry()]);
        draft[name] = value;
        draft
    };
    let with_entry = |name: &str, value: Value| {
        let mut changed = entry();
        changed[name] = value;
        list(&[entry(), changed])
    };
    for (draft, code) in [
        (with("format", json!("countersign-evidence-digests-2")), "ENDORSEMENT_FORMAT"),
        (with("format", json!(1)), "ENDORSEMENT_MALFORMED"),
        (with("more", json!(1)), "ENDORSEMENT_MALFORMED"),
        (with("issued", json!(-1)), "ENDORSEMENT_MALFORMED"),
        (with("issued", json!("2026-01-31T12:00:00Z")), "ENDORSEMENT_MALFORMED"),
        (with("expires", json!(null)), "ENDORSEMENT_MALFORMED"),
        (with("digests", json!({})), "ENDORSEMENT_MALFORMED"),
        (with("expires", json!(NOW - 3_600_000)), "ENDORSEMENT_TIMES"),
        (with_entry("sha256", json!(digest.to_uppercase())), "ENDORSEMENT_MALFORMED"),
        (with_entry("sha256", json!("")), "ENDORSEMENT_MALFORMED"),
        (with_entry("sha512", json!(digest)), "ENDORSEMENT_MALFORMED"),
        (with_entry("expires", json!(null)), "ENDORSEMENT_MALFORMED"),
        (with_entry("expires", json!(NOW - 3_600_000)), "ENDORSEMENT_TIMES"),
        (with_entry("tools", json!(null)), "ENDORSEMENT_MALFORMED"),
        (with_entry("tools", json!([])), "ENDORSEMENT_SCOPE"),
        (with_entry("tools", json!(["*"])), "ENDORSEMENT_SCOPE"),
        (with_entry("servers", json!([])), "ENDORSEMENT_SCOPE"),
        (with_entry("servers", json!(["bank", "bank"])), "ENDORSEMENT_SCOPE"),
        (with_entry("servers", json!(["a bank"])), "ENDORSEMENT_MALFORMED"),
        (with_entry("servers", json!(null)), "ENDORSEMENT_MALFORMED"),
        (with_entry("impacts", json!([])), "ENDORSEMENT_SCOPE"),
        (with_entry("impacts", json!(["huge"])), "ENDORSEMENT_MALFORMED"),
        (with_entry("principals", json!([])), "ENDORSEMENT_SCOPE"),
        (with_entry("principals", json!([" alice"])), "ENDORSEMENT_MALFORMED"),
        (json!([]), "ENDORSEMENT_MALFORMED"),
        (json!({}), "ENDORSEMENT_MALFORMED"),
    ] {
        assert_eq!(refusal(&draft), code, "{draft}");
    }
    for name in ["format", "issued", "expires", "digests"] {
        let mut draft = list(&[entry()]);
        draft.as_object_mut().unwrap().remove(name);
        assert_eq!(refusal(&draft), "ENDORSEMENT_MALFORMED", "{name}");
    }
}

#[test]
fn a_list_over_a_limit_is_refused() {
    let most = vec![entry(); 4_096];
    assert_eq!(loaded(&most).len(), 1);
    let more = vec![entry(); 4_097];
    assert_eq!(refusal(&list(&more)), "ENDORSEMENT_TOO_MANY");
    let long = vec![b' '; (4 << 20) + 1];
    assert_eq!(EndorsementDraft::from_json(&long).unwrap_err().code(), "ENDORSEMENT_TOO_LARGE");
    let envelope = vec![b' '; 6 << 20];
    let error = EndorsedDigests::load(&envelope, &root(1), at(NOW)).unwrap_err();
    assert_eq!(error.code(), "ENVELOPE_TOO_LARGE");
}
