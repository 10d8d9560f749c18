//! Hosts that share a mark, lose it, or are busy.

use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use countersign_keys::TrustRoot;
use serde_json::{Value, json};

use super::fixture::*;
use crate::*;

/// Returns a trust root with a threshold of one of two keys.
fn one_of_two() -> TrustRoot {
    TrustRoot::new(1, 1, [1, 2].map(|seed| key(seed).verifying_key())).unwrap()
}

/// Returns a registry that revokes the first key.
fn without_key_1(version: u64) -> Value {
    let mut value = desk(version);
    value["revoked"]["keys"] = json!([key(1).key_id().as_str()]);
    value
}

fn load_from(bytes: &[u8], marks: Arc<dyn HighWaterStore>) -> Result<CapabilityRegistry, RegistryError> {
    CapabilityRegistry::load(bytes, &one_of_two(), marks, LoadOptions::default(), now())
}

#[test]
fn a_key_that_the_registry_revoked_does_not_sign_the_next_root() {
    let registry = load_from(&sign_with(&without_key_1(1), &[2]), marks()).unwrap();
    let thief = TrustRoot::new(2, 1, [key(66).verifying_key()]).unwrap();
    let refused = registry.update_root(&thief.sign(&[&key(1), &key(66)]));
    assert_eq!(refused.unwrap_err().code(), "ENVELOPE_THRESHOLD");
    assert_eq!(
        registry.reload(&sign_with(&desk(2), &[66]), now()).unwrap_err().code(),
        "REGISTRY_SIGNATURES"
    );
    // The key stays revoked after a later registry no longer lists it.
    registry.reload(&sign_with(&desk(3), &[2]), now()).unwrap();
    assert!(registry.update_root(&thief.sign(&[&key(1), &key(66)])).is_err());
    assert_eq!(registry.update_root(&thief.sign(&[&key(2), &key(66)])), Ok(2));
}

/// Lets another process raise the mark between this one's read and its raise.
#[derive(Debug, Default)]
struct Racing {
    kept: MemoryHighWater,
    others: Mutex<Vec<Mark>>,
}

impl HighWaterStore for Racing {
    fn current(&self) -> Result<Option<Mark>, MarkError> {
        let seen = self.kept.current()?;
        if let Some(other) = self.others.lock().unwrap().pop() {
            self.kept.compare_and_raise(seen.as_ref(), &other)?;
        }
        Ok(seen)
    }

    fn compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        self.kept.compare_and_raise(seen, mark)
    }
}

#[test]
fn key_revoked_before_the_raise_does_not_sign() {
    let others = marks();
    load_from(&sign_with(&without_key_1(6), &[2]), others.clone()).unwrap();
    let sixth = others.current().unwrap().unwrap();
    let racing = || Arc::new(Racing { others: Mutex::new(vec![sixth.clone()]), ..Racing::default() });
    let refused = load_from(&sign_with(&desk(7), &[1]), racing());
    assert_eq!(refused.unwrap_err().code(), "REGISTRY_SIGNATURES");
    let loaded = load_from(&sign_with(&desk(7), &[2]), racing()).unwrap();
    assert!(loaded.current().is_key_revoked(&key(1).key_id()), "what was raised in between counts");
}

#[test]
fn a_mark_that_never_stands_still_is_given_up_on() {
    let step = |version| Mark::new(version, countersign_core::Digest::of(b""), Default::default());
    let store = Racing { others: Mutex::new((1..1_000).rev().map(step).collect()), ..Racing::default() };
    let refused = load_from(&sign_with(&desk(5_000), &[2]), Arc::new(store));
    assert_eq!(refused.unwrap_err().code(), "REGISTRY_MARK_MOVED");
}

#[test]
fn a_process_that_runs_does_not_go_back_when_its_mark_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mark.json");
    let mut fifth = without_key_1(5);
    fifth["revoked"]["agents"] = json!(["mailer"]);
    let registry = load_from(&sign_with(&fifth, &[2]), Arc::new(FileHighWater::new(&path))).unwrap();
    let code = |bytes: &[u8]| registry.reload(bytes, now()).unwrap_err().code();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(code(&sign_with(&desk(4), &[2])), "REGISTRY_ROLLBACK");
    assert_eq!(code(&sign_with(&desk(5), &[2])), "REGISTRY_FORK");
    assert_eq!(code(&sign_with(&desk(6), &[1])), "REGISTRY_SIGNATURES", "a key that was revoked");
    assert_eq!(registry.negotiate(&request("mailer"), now()).unwrap_err().code(), "AGENT_REVOKED");
    // An older mark in its place does not help the attacker.
    let fourth = Mark::new(4, countersign_core::Digest::of(b""), Default::default());
    FileHighWater::new(&path).compare_and_raise(None, &fourth).unwrap();
    assert_eq!(code(&sign_with(&desk(4), &[2])), "REGISTRY_ROLLBACK");
    assert_eq!(code(&sign_with(&desk(6), &[1])), "REGISTRY_SIGNATURES");
    assert_eq!(registry.reload(&sign_with(&desk(6), &[2]), now()), Ok(6));
    let left = FileHighWater::new(&path).current().unwrap().unwrap();
    assert_eq!(left.version(), 6);
    assert!(left.revoked_keys().contains(&key(1).key_id()), "the mark is whole again");
}

/// Revokes an agent from another thread during a load, and records whether it had to wait.
#[derive(Debug, Default)]
struct Busy {
    kept: MemoryHighWater,
    registry: OnceLock<Arc<CapabilityRegistry>>,
    revoked_meanwhile: Mutex<Option<bool>>,
}

impl HighWaterStore for Busy {
    fn current(&self) -> Result<Option<Mark>, MarkError> {
        if let Some(registry) = self.registry.get().cloned() {
            let (done, waiting) = mpsc::channel();
            std::thread::spawn(move || {
                registry.revoke(&agent("mailer"));
                let _ = done.send(());
            });
            let in_time = waiting.recv_timeout(Duration::from_secs(5)).is_ok();
            *self.revoked_meanwhile.lock().unwrap() = Some(in_time);
        }
        self.kept.current()
    }

    fn compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        self.kept.compare_and_raise(seen, mark)
    }
}

#[test]
fn revocation_does_not_wait_for_a_load() {
    for next in [sign_with(&desk(2), &[2]), sign_with(&desk(2), &[9])] {
        let store = Arc::new(Busy::default());
        let registry = Arc::new(load_from(&sign_with(&desk(1), &[2]), store.clone()).unwrap());
        store.registry.set(Arc::clone(&registry)).unwrap();
        let _ = registry.reload(&next, now());
        assert_eq!(*store.revoked_meanwhile.lock().unwrap(), Some(true));
        assert!(registry.view().is_agent_revoked(&agent("mailer")), "and is not lost by it");
    }
}

/// Replaces the trust root during a load.
#[derive(Debug, Default)]
struct Rooting {
    kept: MemoryHighWater,
    registry: OnceLock<Arc<CapabilityRegistry>>,
}

impl HighWaterStore for Rooting {
    fn current(&self) -> Result<Option<Mark>, MarkError> {
        if let Some(registry) = self.registry.get().cloned() {
            let next = TrustRoot::new(2, 1, [key(2).verifying_key()]).unwrap().sign(&[&key(2)]);
            let (done, waiting) = mpsc::channel();
            std::thread::spawn(move || {
                let _ = registry.update_root(&next);
                let _ = done.send(());
            });
            let _ = waiting.recv_timeout(Duration::from_secs(5));
        }
        self.kept.current()
    }

    fn compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        self.kept.compare_and_raise(seen, mark)
    }
}

#[test]
fn reload_under_a_replaced_root_is_refused() {
    let store = Arc::new(Rooting::default());
    let registry = Arc::new(load_from(&sign_with(&desk(1), &[1]), store.clone()).unwrap());
    store.registry.set(Arc::clone(&registry)).unwrap();
    let refused = registry.reload(&sign_with(&desk(2), &[1]), now());
    assert_eq!(refused.unwrap_err().code(), "REGISTRY_SIGNATURES");
    assert_eq!(registry.current().version(), 1);
    assert_eq!(registry.reload(&sign_with(&desk(2), &[2]), now()), Ok(2));
}
