//! One attestation, one act.

use std::collections::BTreeSet;
use std::sync::Mutex;

use countersign_core::{Digest, Millis, SpendError, SpentId, SpentTokens, Timestamp};

use super::world::{
    Facts, NOW, at, attested, attested_transfer, built, cfo, cto, files, gate, hash_entry, judge, look,
    transfer, with_evidence,
};
use crate::Profile;

const SKEW: Millis = Millis::from_secs(5);

/// Keeps what was spent, and until when.
#[derive(Debug, Default)]
struct Spent {
    ids: Mutex<BTreeSet<[u8; 32]>>,
    kept: Mutex<Vec<Timestamp>>,
}

impl SpentTokens for Spent {
    fn spend(&self, id: &SpentId, keep_until: Timestamp, _: Timestamp) -> Result<(), SpendError> {
        if !self.ids.lock().unwrap().insert(*id.digest().as_bytes()) {
            return Err(SpendError::Spent);
        }
        self.kept.lock().unwrap().push(keep_until);
        Ok(())
    }
}

#[test]
fn a_strict_attestation_is_spent_once_and_refused_the_second_time() {
    let (store, verifier) = (Spent::default(), built(gate(Profile::Strict)));
    let verified = judge(&attested_transfer(), &verifier).unwrap();
    let (digest, intent) = (verified.digest(), verified.intent_digest());
    let spent = verified.spend(&store, at(NOW), SKEW).unwrap();
    assert_eq!((spent.digest(), spent.intent_digest()), (digest, intent));
    assert_eq!((spent.profile(), spent.impact().as_str()), (Profile::Strict, "money"));
    assert_eq!(*store.kept.lock().unwrap(), [at(NOW + 600_000 + 5_000)]);
    // It verifies again, as verifying is pure, and is not spent again.
    let again = judge(&attested_transfer(), &verifier).unwrap().spend(&store, at(NOW), SKEW);
    assert!(matches!(again, Err(SpendError::Spent)));
}

#[test]
fn an_attestation_that_expires_before_it_is_spent_is_not_spent() {
    let (store, verifier) = (Spent::default(), built(gate(Profile::Strict)));
    let spend = |now: u64| judge(&attested_transfer(), &verifier).unwrap().spend(&store, at(now), SKEW);
    assert!(matches!(spend(NOW + 600_000), Err(SpendError::Expired)));
    assert!(store.kept.lock().unwrap().is_empty());
    assert!(spend(NOW + 599_999).is_ok());
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
fn what_may_be_used_again_asks_nothing_of_the_store() {
    /// Refuses everything.
    #[derive(Debug)]
    struct Closed;
    impl SpentTokens for Closed {
        fn spend(&self, _: &SpentId, _: Timestamp, _: Timestamp) -> Result<(), SpendError> {
            Err(SpendError::Unavailable("closed".into()))
        }
    }
    let strict = built(gate(Profile::Strict));
    assert!(judge(&look(), &strict).unwrap().spend(&Closed, at(NOW), SKEW).is_ok());
    let refused = judge(&attested_transfer(), &strict).unwrap().spend(&Closed, at(NOW), SKEW);
    assert!(matches!(refused, Err(SpendError::Unavailable(_))));
    for profile in [Profile::Pic09, Profile::Pic08] {
        let verifier = built(gate(profile).verify_evidence().sanitize_trust());
        assert!(judge(&attested_transfer(), &verifier).unwrap().spend(&Closed, at(NOW), SKEW).is_ok());
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
