//! Parts of vectors: one transfer, three keys, one gate, and ways to change one property.

use countersign::canonical_json::{Limits, read};
use countersign::core::{Digest, Recipe, Timestamp};
use countersign::keys::SigningKey;
use countersign_core::rfc3339::{self, Offset};
use serde_json::{Value, json};

/// A slug and a vector.
pub(super) type Case = (&'static str, Value);

pub(super) const NOW: &str = "2026-01-31T12:00:00Z";

/// The transfer of the stories: requested by an unread mail, with an invoice from the finance office.
pub(super) fn transfer() -> Value {
    json!({
        "protocol": "PIC/1.0",
        "intent": "pay the invoice of March",
        "impact": "money",
        "provenance": [
            {"id": "invoice", "trust": "untrusted", "source": "finance"},
            {"id": "mail", "trust": "untrusted"},
        ],
        "claims": [{"text": "the invoice is due", "evidence": ["invoice"]}],
        "action": {"tool": "payments_send", "args": {"amount": 500, "to": "acme"}},
    })
}

/// A read, without further requirements.
pub(super) fn look() -> Value {
    json!({
        "protocol": "PIC/1.0",
        "intent": "look up the opening hours",
        "impact": "read",
        "provenance": [],
        "claims": [],
        "action": {"tool": "docs_search", "args": {"q": "hours"}},
    })
}

pub(super) fn moment(value: &Value) -> Timestamp {
    rfc3339::parse(value.as_str().unwrap(), Offset::Required).unwrap()
}

pub(super) fn cfo() -> SigningKey {
    SigningKey::from_seed([1; 32])
}

pub(super) fn cto() -> SigningKey {
    SigningKey::from_seed([2; 32])
}

/// A key that is in no keyring.
pub(super) fn mallory() -> SigningKey {
    SigningKey::from_seed([3; 32])
}

pub(super) fn operator() -> SigningKey {
    SigningKey::from_seed([9; 32])
}

pub(super) fn public(key: &SigningKey) -> String {
    key.verifying_key().to_base64()
}

pub(super) fn keyring() -> Value {
    json!({"trusted_keys": {"cfo-1": public(&cfo()), "cto-1": public(&cto())}})
}

/// A keyring in which the finance officer's key states more members.
pub(super) fn scoped(scope: &Value) -> Value {
    let mut entry = scope.clone();
    entry["public_key"] = public(&cfo()).into();
    json!({"trusted_keys": {"cfo-1": entry, "cto-1": public(&cto())}})
}

/// The call of a proposal, as the gate knows it.
pub(super) fn call_of(proposal: &Value) -> Value {
    json!({
        "tool": proposal["action"]["tool"],
        "args": proposal["action"]["args"],
        "server": "bank",
        "impact": proposal["impact"],
        "call_id": "call-1",
        "principal": "alice",
        "agent": "pay-bot",
        "session": "session-1",
        "registry_version": 7,
    })
}

/// Makes a change to a value.
pub(super) fn changed(mut value: Value, change: impl FnOnce(&mut Value)) -> Value {
    change(&mut value);
    value
}

pub(super) fn without(value: &mut Value, name: &str) {
    assert!(value.as_object_mut().unwrap().remove(name).is_some(), "{name}");
}

pub(super) fn canonical(value: &Value) -> String {
    let text = value.to_string();
    read(text.as_bytes(), Recipe::PicCjson1, &Limits::hard_caps()).unwrap().as_str().to_owned()
}

pub(super) fn sha256(text: &str) -> String {
    Digest::of(text.as_bytes()).to_string()
}

/// The files of a proposal's evidence, as an attestation names them.
fn files_of(proposal: &Value) -> Value {
    let entries = proposal["evidence"].as_array().into_iter().flatten();
    let files = entries.filter(|entry| entry["type"] == "hash");
    files.map(|entry| json!({"id": entry["id"], "sha256": entry["sha256"]})).collect()
}

/// An attestation of every member, written by hand from the specification.
pub(super) fn attestation(proposal: &Value, id: &str, key_id: &str) -> Value {
    let ids: Vec<_> =
        proposal["provenance"].as_array().unwrap().iter().map(|input| input["id"].clone()).collect();
    json!({
        "attestation_version": "PIC-ATT/1.0",
        "tool": proposal["action"]["tool"],
        "impact": proposal["impact"],
        "args_digest": sha256(&canonical(&proposal["action"]["args"])),
        "claims_digest": sha256(&canonical(&proposal["claims"])),
        "intent_digest": sha256(proposal["intent"].as_str().unwrap()),
        "provenance_ids": ids,
        "audience": "gate-1",
        "issued_at": "2026-01-31T11:55:00.000Z",
        "expires_at": "2026-01-31T12:05:00.000Z",
        "x_call_id": "call-1",
        "x_principal": "alice",
        "x_agent": "pay-bot",
        "x_session": "session-1",
        "x_server": "bank",
        "x_registry_version": 7,
        "x_files": files_of(proposal),
        "x_evidence_id": id,
        "x_key_id": key_id,
        "x_nonce": format!("nonce-of-the-entry-{id}"),
    })
}

/// An evidence entry with a payload, and a signature over other bytes or the same.
pub(super) fn entry(id: &str, payload: &str, signed: &str, key: &SigningKey, key_id: &str) -> Value {
    json!({
        "id": id,
        "type": "sig",
        "ref": "inline:attestation",
        "payload": payload,
        "alg": "ed25519",
        "signature": key.sign(signed.as_bytes()).to_base64(),
        "key_id": key_id,
    })
}

pub(super) fn with_entry(mut proposal: Value, entry: Value) -> Value {
    if proposal.get("evidence").is_none() {
        proposal["evidence"] = json!([]);
    }
    proposal["evidence"].as_array_mut().unwrap().push(entry);
    proposal
}

/// The proposal with an attestation over it by a key.
pub(super) fn signed_by(proposal: Value, id: &str, key: &SigningKey, key_id: &str) -> Value {
    let payload = canonical(&attestation(&proposal, id, key_id));
    let entry = entry(id, &payload, &payload, key, key_id);
    with_entry(proposal, entry)
}

/// The transfer with an attestation that was changed before it was signed.
pub(super) fn attested(change: impl FnOnce(&mut Value)) -> Value {
    let object = changed(attestation(&transfer(), "invoice", "cfo-1"), change);
    let payload = canonical(&object);
    with_entry(transfer(), entry("invoice", &payload, &payload, &cfo(), "cfo-1"))
}

/// The transfer with a complete attestation.
pub(super) fn good() -> Value {
    attested(|_| ())
}

/// A vector of a proposal to judge under a profile, with all facts that the gate knows.
pub(super) fn base(profile: &str, proposal: Value) -> Value {
    let vector = json!({
        "mode": "evidence",
        "profile": profile,
        "now": NOW,
        "audience": "gate-1",
        "embedded_keyring": keyring(),
        "options": {
            "verify_evidence": true,
            "evidence_root_dir": "conformance/artifacts",
            "limits": true,
        },
        "call": call_of(&proposal),
    });
    changed(vector, |vector| vector["proposal"] = proposal)
}

pub(super) fn strict(proposal: Value) -> Value {
    base("strict", proposal)
}

pub(super) fn pic09(proposal: Value) -> Value {
    base("pic-0.9", proposal)
}

/// The same vector with the proposal as text, for content that a value cannot hold.
pub(super) fn with_text(mut vector: Value, text: String) -> Value {
    without(&mut vector, "proposal");
    vector["proposal_text"] = text.into();
    vector
}

pub(super) fn allowed(about: &str, vector: Value) -> Value {
    changed(vector, |vector| {
        vector["description"] = about.into();
        vector["expected"] = "allow".into();
    })
}

pub(super) fn blocked(about: &str, code: &str, place: &str, vector: Value) -> Value {
    changed(vector, |vector| {
        vector["description"] = about.into();
        vector["expected"] = "block".into();
        vector["expected_error_code"] = code.into();
        vector["place"] = place.into();
    })
}

pub(super) fn evidence_failed(about: &str, place: &str, vector: Value) -> Value {
    blocked(about, "PIC_EVIDENCE_FAILED", place, vector)
}

pub(super) fn file_refused(about: &str, verdict: &str, code: &str, vector: Value) -> Value {
    changed(vector, |vector| {
        vector["description"] = about.into();
        vector["expected"] = verdict.into();
        vector["expected_error_code"] = code.into();
    })
}

#[cfg(test)]
mod tests {
    use countersign::action_proposal::{ActionProposal, AttestationDraft, ProposalLimits, ProposedCall};

    use super::*;

    #[test]
    fn signing_side_follows_the_specification() {
        let proposal =
            ActionProposal::parse(transfer().to_string().as_bytes(), &ProposalLimits::default()).unwrap();
        let by_hand = attestation(&transfer(), "invoice", "cfo-1");
        let text = |name: &str| by_hand[name].as_str().unwrap().to_owned();
        let call = (
            text("x_server").parse().unwrap(),
            text("x_call_id").parse().unwrap(),
            text("x_principal").parse().unwrap(),
            text("x_agent").parse().unwrap(),
            text("x_session").parse().unwrap(),
        );
        let call = ProposedCall::to_tool_named("payments_send")
            .server(&call.0)
            .call_id(&call.1)
            .principal(&call.2)
            .agent(&call.3)
            .session(&call.4)
            .registry_version(7);
        let signed = AttestationDraft::for_proposal(&proposal, "invoice")
            .call(&call)
            .audience(&"gate-1".parse().unwrap())
            .issued(moment(&by_hand["issued_at"]))
            .expires(moment(&by_hand["expires_at"]))
            .nonce(&text("x_nonce"))
            .sign(&cfo(), "cfo-1")
            .unwrap();
        assert_eq!(signed.payload(), canonical(&by_hand));
        let entry: Value = serde_json::from_str(&signed.to_entry_json()).unwrap();
        assert_eq!(entry, good()["evidence"][0]);
    }
}
