//! One attestation, one act.

use std::collections::BTreeSet;
use std::sync::Mutex;

use countersign_core::{Digest, ManualClock, Millis, SpendError, SpentTokens, Ticket, Timestamp};
use serde_json::{Value, json};

use super::world::{
    Facts, NOW, at, attested, attested_transfer, built, cfo, cto, files, gate, hash_entry, judge, look,
    millis, parsed, transfer, with_evidence,
};
use crate::{EvidenceKeyring, Profile, ProposalSpendError, ProposalVerifierBuilder};

const SKEW: Millis = Millis::from_secs(5);

/// Keeps the spent ids and their ends.
#[derive(Debug, Default)]
pub(super) struct Spent {
    ids: Mutex<BTreeSet<[u8; 32]>>,
    pub(super) kept: Mutex<Vec<Timestamp>>,
}

impl SpentTokens for Spent {
    fn spend(&self, ticket: &Ticket, _: Timestamp) -> Result<(), SpendError> {
        if !self.ids.lock().unwrap().insert(*ticket.id.digest().as_bytes()) {
            return Err(SpendError::Spent);
        }
        self.kept.lock().unwrap().push(ticket.keep_until);
        Ok(())
    }
}

#[test]
fn strict_attestation_is_spent_once() {
    let (store, verifier) = (Spent::default(), built(gate(Profile::Strict)));
    let verified = judge(&attested_transfer(), &verifier).unwrap();
    let (digest, intent) = (verified.digest(), verified.intent_digest());
    let spent = verified.spend(&store, at(NOW), SKEW).unwrap();
    assert_eq!((spent.digest(), spent.intent_digest()), (digest, intent));
    assert_eq!((spent.profile(), spent.impact().as_str()), (Profile::Strict, "money"));
    assert_eq!(*store.kept.lock().unwrap(), [at(NOW + 600_000 + 5_000)]);
    // It verifies again, since verification is pure, and is not spent again.
    let again = judge(&attested_transfer(), &verifier).unwrap().spend(&store, at(NOW), SKEW);
    assert!(matches!(again, Err(ProposalSpendError::Attestation(SpendError::Spent))));
}

#[test]
fn attestation_expired_before_its_spend_is_refused() {
    let (store, verifier) = (Spent::default(), built(gate(Profile::Strict)));
    let spend = |now: u64| judge(&attested_transfer(), &verifier).unwrap().spend(&store, at(now), SKEW);
    assert!(matches!(spend(NOW + 600_000), Err(ProposalSpendError::Attestation(SpendError::Expired))));
    assert!(store.kept.lock().unwrap().is_empty());
    assert!(spend(NOW + 599_999).is_ok());
}

/// Judges the transfer, issued a minute ago for ten more minutes, and spends it now.
fn kept(gate: ProposalVerifierBuilder, now: u64) -> Result<Timestamp, ProposalSpendError> {
    let store = Spent::default();
    let verified = judge(&attested_transfer(), &built(gate)).unwrap();
    let _ = verified.spend(&store, at(now), SKEW)?;
    let kept = store.kept.lock().unwrap();
    Ok(kept[0])
}

#[test]
fn attestation_ends_with_its_key() {
    let ending = |end: &str| {
        let file = json!({"trusted_keys": {
            "cfo-1": {"public_key": cfo().verifying_key().to_base64(), "expires_at": end},
        }});
        gate(Profile::Strict).keyring(EvidenceKeyring::from_json(file.to_string().as_bytes()).unwrap())
    };
    let soon = || ending("2026-01-01T00:00:10Z");
    let verified = judge(&attested_transfer(), &built(soon())).unwrap();
    assert_eq!(verified.evidence()[0].attestation().unwrap().1, at(NOW + 10_000));
    assert_eq!(kept(soon(), NOW + 10_000).unwrap_err().code(), "PIC_EVIDENCE_FAILED");
    // Prolonging the key does not revive it.
    assert_eq!(kept(soon(), NOW + 9_999).unwrap(), at(NOW + 600_000 + 5_000));
    assert_eq!(kept(ending("2027-01-01T00:00:00Z"), NOW + 599_999).unwrap(), at(NOW + 600_000 + 5_000));
}

#[test]
fn attestation_is_kept_for_its_allowed_age() {
    // Issued a minute ago: it verifies up to the last millisecond of the second minute.
    let young = || gate(Profile::Strict).max_attestation_age(millis(120_000));
    assert_eq!(kept(young(), NOW + 60_000).unwrap(), at(NOW + 60_001 + 5_000));
    assert!(matches!(kept(young(), NOW + 60_001), Err(ProposalSpendError::Attestation(SpendError::Expired))));
    let judged = |now: u64| {
        let (proposal, facts) = (parsed(&attested_transfer()), Facts::new("payments_send"));
        let call = facts.call_for(&proposal);
        proposal.verify(&built(young()), &call, &ManualClock::new(at(now))).is_ok()
    };
    assert!(judged(NOW + 60_000) && !judged(NOW + 60_001));
}

#[test]
fn every_attestation_of_a_proposal_is_spent() {
    let (store, verifier) = (Spent::default(), built(gate(Profile::Strict)));
    let facts = Facts::new("payments_send");
    let one = attested(transfer(), "invoice", &cfo(), "cfo-1", &facts);
    let both = attested(one.clone(), "mail", &cto(), "cto-1", &facts);
    assert!(judge(&both, &verifier).unwrap().spend(&store, at(NOW), SKEW).is_ok());
    assert_eq!(store.kept.lock().unwrap().len(), 2);
    assert!(judge(&one, &verifier).unwrap().spend(&store, at(NOW), SKEW).is_err());
    let ids: Vec<Digest> = judge(&both, &verifier)
        .unwrap()
        .evidence()
        .iter()
        .map(|evidence| *evidence.attestation().unwrap().0.digest())
        .collect();
    assert!(ids.iter().all(|id| store.ids.lock().unwrap().contains(id.as_bytes())));
}

#[test]
fn reusable_attestation_does_not_use_the_store() {
    /// Refuses everything.
    #[derive(Debug)]
    struct Closed;
    impl SpentTokens for Closed {
        fn spend(&self, _: &Ticket, _: Timestamp) -> Result<(), SpendError> {
            Err(SpendError::Unavailable("closed".into()))
        }
    }
    let strict = built(gate(Profile::Strict));
    assert!(judge(&look(), &strict).unwrap().spend(&Closed, at(NOW), SKEW).is_ok());
    let refused = judge(&attested_transfer(), &strict).unwrap().spend(&Closed, at(NOW), SKEW);
    assert!(matches!(refused, Err(ProposalSpendError::Attestation(SpendError::Unavailable(_)))));
    for profile in [Profile::Pic09, Profile::Pic08] {
        let verifier = built(gate(profile).verify_evidence().sanitize_trust());
        assert!(judge(&reusable(), &verifier).unwrap().spend(&Closed, at(NOW), SKEW).is_ok());
    }
}

/// The transfer with an attestation that has no nonce.
fn reusable() -> Value {
    let mut value = attested_transfer();
    let entry = &mut value["evidence"][0];
    let mut object: Value = serde_json::from_str(entry["payload"].as_str().unwrap()).unwrap();
    object.as_object_mut().unwrap().remove("x_nonce").unwrap();
    let payload = object.to_string();
    entry["signature"] = json!(cfo().sign(payload.as_bytes()).to_base64());
    entry["payload"] = json!(payload);
    value
}

#[test]
fn an_attestation_with_a_nonce_is_spent_by_every_profile() {
    for profile in Profile::ALL {
        let verifier = built(gate(profile).verify_evidence().sanitize_trust());
        let store = Spent::default();
        let spend = |value: &Value| judge(value, &verifier).unwrap().spend(&store, at(NOW), SKEW);
        assert!(spend(&attested_transfer()).is_ok());
        assert!(
            matches!(spend(&attested_transfer()), Err(ProposalSpendError::Attestation(SpendError::Spent))),
            "{profile}"
        );
    }
}

#[test]
fn the_tool_gets_the_bytes_that_were_hashed() {
    let value = with_evidence(look(), hash_entry("a", "file://a", b"hashed"));
    let verifier = built(gate(Profile::Strict).resolver(files(&[("file://a", b"hashed")])));
    let spent = judge(&value, &verifier).unwrap().spend(&Spent::default(), at(NOW), SKEW).unwrap();
    assert_eq!(spent.evidence().len(), 1);
    let [evidence] = <[_; 1]>::try_from(spent.into_evidence()).unwrap();
    assert_eq!(evidence.bytes(), Some(&b"hashed"[..]));
}
