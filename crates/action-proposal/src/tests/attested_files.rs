//! Attestations that name the files of their proposal, and the verified evidence of both.

use countersign_core::{Digest, Principal};
use serde_json::{Value, json};

use super::signing::{EVIDENCE_ID, Facts, Judge, KEY_ID, NOW, at, parse, proposal_json, sign_object, signer};
use crate::{AttestationDraft, Profile};

/// A file as evidence, besides the signed payload.
fn file(id: &str, bytes: &[u8]) -> Value {
    json!({
        "id": id, "type": "hash", "ref": format!("file://{id}.txt"), "sha256": Digest::of(bytes).to_string(),
    })
}

#[test]
fn attestation_binds_the_files_beside_it() {
    let facts = Facts::new();
    let judge = Judge::strict(&facts);
    let (scan, order) = (file("scan", b"scan"), file("order", b"order"));
    let signed_beside = |files: &[&Value]| -> Value {
        let files: Vec<Value> = files.iter().map(|file| (*file).clone()).collect();
        let signed = AttestationDraft::for_proposal(&parse(&proposal_json(&files)), EVIDENCE_ID)
            .audience(&facts.audience)
            .issued(at(NOW - 1_000))
            .expires(at(NOW + 59_000))
            .call(&facts.call())
            .nonce("0123456789abcdef")
            .sign(&signer(), KEY_ID)
            .unwrap();
        serde_json::from_str(&signed.to_entry_json()).unwrap()
    };
    // The signature comes first, so that the helper judges it. The position of files among signatures does not matter.
    let judged = |entry: &Value, files: &[&Value]| {
        let evidence: Vec<Value> = [entry].iter().chain(files).map(|entry| (*entry).clone()).collect();
        judge.judge_in(&proposal_json(&evidence)).map_err(|broken| broken.place).err()
    };
    let both = signed_beside(&[&scan, &order]);
    let object: Value = serde_json::from_str(both["payload"].as_str().unwrap()).unwrap();
    let expected = json!([
        {"id": "scan", "sha256": Digest::of(b"scan").to_string()},
        {"id": "order", "sha256": Digest::of(b"order").to_string()},
    ]);
    assert_eq!(object["x_files"], expected);
    assert_eq!(judged(&both, &[&scan, &order]), None);
    let forged = file("scan", b"forged");
    let renamed = file("scan2", b"scan");
    for files in [
        &[&order, &scan][..],
        &[&scan],
        &[],
        &[&forged, &order],
        &[&renamed, &order],
        &[&scan, &order, &forged],
    ] {
        assert_eq!(judged(&both, files), Some("payload/x_files"), "{files:?}");
    }
    let none = signed_beside(&[]);
    assert_eq!(judged(&none, &[]), None);
    assert_eq!(judged(&none, &[&scan]), Some("payload/x_files"));
    // The other profiles do not require the member, and compare it if stated.
    for profile in [Profile::Pic09, Profile::Pic08] {
        let beside = proposal_json(&[none.clone(), scan.clone()]);
        let refused = Judge::new(profile, &facts).judge_in(&beside);
        assert_eq!(refused.unwrap_err().place, "payload/x_files");
    }
}

#[test]
fn a_list_of_files_has_one_spelling() {
    let facts = Facts::new();
    let judge = Judge::strict(&facts);
    let scan = file("scan", b"scan");
    let sha256 = Digest::of(b"scan").to_string();
    let judged = |files: Value| {
        let mut object = facts.object();
        object["x_files"] = files;
        let entry = sign_object(&object);
        judge.judge_in(&proposal_json(&[entry, scan.clone()])).map_err(|broken| broken.place).err()
    };
    assert_eq!(judged(json!([{"id": "scan", "sha256": sha256}])), None);
    for other in [
        json!([{"id": "scan", "sha256": sha256.to_uppercase()}]),
        json!([{"id": "scan", "sha256": sha256, "ref": "file://scan.txt"}]),
        json!([{"id": "scan"}]),
        json!([{"sha256": sha256}]),
        json!([["scan", sha256]]),
        json!([sha256]),
        json!({"id": "scan", "sha256": sha256}),
        json!([{"id": "scan", "sha256": sha256}, null]),
    ] {
        assert_eq!(judged(other.clone()), Some("payload/x_files"), "{other}");
    }
}

#[test]
fn untrusted_text_is_not_printed() {
    let facts = Facts::new();
    let signed = facts.draft().principal(&Principal::new("SECRET").unwrap()).sign(&signer(), KEY_ID).unwrap();
    let mut evidence: Value = serde_json::from_str(&signed.to_entry_json()).unwrap();
    evidence["id"] = json!("SECRET");
    let mut proposal = proposal_json(&[evidence, file("SECRET2", b"scan")]);
    proposal["action"]["tool"] = json!("SECRET");
    let proposal = parse(&proposal);
    let draft = AttestationDraft::for_proposal(&proposal, "SECRET");
    let shown = format!("{:?} {draft:?} {:?} {signed:?}", proposal.evidence(), facts.draft());
    assert!(!shown.contains("SECRET") && !shown.contains("alice") && !shown.contains("cfo-1"), "{shown}");
    assert!(!shown.contains("0123456789abcdef") && shown.contains("payload_bytes"), "{shown}");
}

#[test]
fn draft_without_a_call_suits_other_profiles() {
    let facts = Facts::new();
    let proposal = parse(&proposal_json(&[]));
    let signed = AttestationDraft::for_proposal(&proposal, EVIDENCE_ID)
        .issued(at(NOW - 1_000))
        .expires(at(NOW + 59_000))
        .nonce("0123456789abcdef")
        .sign(&signer(), KEY_ID)
        .unwrap();
    let entry = serde_json::from_str(&signed.to_entry_json()).unwrap();
    for profile in [Profile::Pic09, Profile::Pic08] {
        assert!(Judge::new(profile, &facts).judge(&entry).is_ok());
    }
    assert_eq!(Judge::strict(&facts).place(&entry), "payload/audience");
}
