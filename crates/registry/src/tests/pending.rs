//! Registries that verify while their mark cannot be stored.

use std::sync::Arc;

use countersign_core::{Digest, KeyId};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::fixture::*;
use crate::*;

/// Store that fails on demand, and counts the raises between calls.
#[derive(Debug, Default)]
struct Failing {
    kept: MemoryHighWater,
    reading: Mutex<Option<MarkError>>,
    storing: Mutex<Option<MarkError>>,
    tries: Mutex<u32>,
}

impl HighWaterStore for Failing {
    fn current(&self) -> Result<Option<Mark>, MarkError> {
        self.reading.lock().clone().map_or_else(|| self.kept.current(), Err)
    }

    fn compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        let mut tries = self.tries.lock();
        *tries = tries.saturating_add(1);
        drop(tries);
        self.storing.lock().clone().map_or(Ok(()), Err)?;
        self.kept.compare_and_raise(seen, mark)
    }
}

fn loaded() -> (Arc<Failing>, CapabilityRegistry) {
    let store = Arc::new(Failing::default());
    let options = LoadOptions::default();
    let registry = CapabilityRegistry::load(&sign(&desk(1)), &root(), store.clone(), options, now()).unwrap();
    *store.tries.lock() = 0;
    (store, registry)
}

fn revoking(version: u64, first: &CapabilityRegistry) -> Value {
    let mut value = desk(version);
    value["revoked"] = json!({"agents": ["mailer"], "keys": ["gate-1"], "snapshots": [first.current().digest().to_string()]});
    value
}

fn code(contract: &SessionContract, registry: &CapabilityRegistry) -> Option<&'static str> {
    contract.check(&registry.view(), now()).err().map(|error| error.code())
}

#[test]
fn revocations_count_while_the_mark_cannot_be_stored() {
    let locked = MarkError::Unavailable("locked");
    let faults = [
        (None, Some(locked)),
        (None, Some(MarkError::Unavailable("written"))),
        (None, Some(MarkError::Full)),
        (Some(MarkError::Unavailable("read")), None),
        (Some(MarkError::Corrupt), None),
    ];
    for (reading, storing) in faults {
        let (store, registry) = loaded();
        let [free, revoked] =
            ["support-bot", "mailer"].map(|name| registry.negotiate(&request(name), now()).unwrap());
        let second = sign(&revoking(2, &registry));
        let fault = reading.clone().or(storing.clone()).unwrap();
        (*store.reading.lock(), *store.storing.lock()) = (reading, storing);
        assert_eq!(registry.reload(&second, now()), Err(fault.into()));
        let view = registry.view();
        assert_eq!((view.snapshot().version(), view.pending_version()), (1, Some(2)));
        assert!(view.is_key_revoked(&KeyId::new("gate-1").unwrap()));
        assert!(view.is_snapshot_revoked(&view.snapshot().digest()));
        assert_eq!(code(&free, &registry), Some("REGISTRY_STALE"));
        assert_eq!(code(&revoked, &registry), Some("AGENT_REVOKED"));
        assert_eq!(registry.negotiate(&request("support-bot"), now()).unwrap_err().code(), "REGISTRY_STALE");
        assert_eq!(registry.negotiate(&request("mailer"), now()).unwrap_err().code(), "AGENT_REVOKED");

        (*store.reading.lock(), *store.storing.lock()) = (None, None);
        assert_eq!(registry.confirm(now()), Ok(2));
        let view = registry.view();
        assert_eq!((view.snapshot().version(), view.pending_version()), (2, None));
        assert_eq!(store.kept.current().unwrap().unwrap().version(), 2);
        assert!(registry.negotiate(&request("support-bot"), now()).is_ok());
        assert_eq!(code(&revoked, &registry), Some("AGENT_REVOKED"));
    }
}

#[test]
fn an_agent_below_a_revoked_one_is_called_revoked() {
    let (store, registry) = loaded();
    let parent = registry.negotiate(&request("support-bot"), now()).unwrap();
    let child = registry.negotiate_under(&parent, &request("mailer"), now()).unwrap();
    *store.storing.lock() = Some(MarkError::Corrupt);
    registry.reload(&sign(&revoking(2, &registry)), now()).unwrap_err();
    assert_eq!(code(&child, &registry), Some("AGENT_REVOKED"), "the last of its line is");
}

#[test]
fn older_file_does_not_undo_a_pending_revocation() {
    let (store, registry) = loaded();
    let third = sign(&revoking(3, &registry));
    *store.storing.lock() = Some(MarkError::Unavailable("written"));
    registry.reload(&third, now()).unwrap_err();
    for (older, expected) in [(1, "REGISTRY_ROLLBACK"), (2, "REGISTRY_ROLLBACK"), (3, "REGISTRY_FORK")] {
        assert_eq!(registry.reload(&sign(&desk(older)), now()).unwrap_err().code(), expected);
        assert!(registry.view().is_agent_revoked(&agent("mailer")));
        assert_eq!(registry.view().pending_version(), Some(3));
    }
    registry.revoke(&agent("support-bot"));
    assert_eq!(registry.view().pending_version(), Some(3), "nor does a revocation in this process");
    *store.storing.lock() = None;
    assert_eq!(registry.confirm(now()), Ok(3));
}

#[test]
fn a_later_registry_takes_the_place_of_a_pending_one() {
    let (store, registry) = loaded();
    *store.storing.lock() = Some(MarkError::Unavailable("locked"));
    registry.reload(&sign(&revoking(2, &registry)), now()).unwrap_err();
    *store.storing.lock() = None;
    assert_eq!(registry.reload(&sign(&desk(3)), now()), Ok(3));
    assert_eq!(registry.view().pending_version(), None);
    assert!(registry.current().is_key_revoked(&KeyId::new("gate-1").unwrap()), "keys stay revoked");
    assert!(!registry.view().is_agent_revoked(&agent("mailer")), "the operator has it back");
}

#[test]
fn unverified_registry_is_never_pending() {
    let (store, registry) = loaded();
    *store.storing.lock() = Some(MarkError::Unavailable("locked"));
    let unsigned = sign_with(&desk(2), &[]);
    assert_eq!(registry.reload(&unsigned, now()).unwrap_err().code(), "REGISTRY_SIGNATURES");
    assert_eq!(registry.view().pending_version(), None);
}

#[test]
fn the_registry_in_force_is_not_made_stale_by_a_held_lock() {
    let (store, registry) = loaded();
    *store.storing.lock() = Some(MarkError::Unavailable("locked"));
    assert_eq!(registry.reload(&sign(&desk(1)), now()), Ok(1));
    assert_eq!(*store.tries.lock(), 0, "its mark stands");
    *store.reading.lock() = Some(MarkError::Corrupt);
    assert_eq!(registry.reload(&sign(&desk(1)), now()), Err(MarkError::Corrupt.into()));
    assert_eq!(registry.view().pending_version(), None);
}

/// Returns a registry that follows a file, and the codes of its reported failures.
fn followed(folder: &tempfile::TempDir) -> (Arc<Failing>, CapabilityRegistry, Arc<Mutex<Vec<&'static str>>>) {
    let (store, registry) = loaded();
    let path = folder.path().join("registry.json");
    std::fs::write(&path, sign(&desk(1))).unwrap();
    let reported = Arc::new(Mutex::new(Vec::new()));
    let reports = Arc::clone(&reported);
    assert!(registry.follow(path, move |error| reports.lock().push(error.code())));
    registry.refresh(at(ISSUED));
    assert_eq!(*store.tries.lock(), 0);
    (store, registry, reported)
}

fn put(folder: &tempfile::TempDir, bytes: impl AsRef<[u8]>) {
    let (new, path) = (folder.path().join("new"), folder.path().join("registry.json"));
    std::fs::write(&new, bytes).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[test]
fn a_failed_load_is_retried_ever_more_rarely() {
    let folder = tempfile::tempdir().unwrap();
    let (store, registry, reported) = followed(&folder);
    *store.storing.lock() = Some(MarkError::Unavailable("locked"));
    put(&folder, sign(&revoking(2, &registry)));
    let (mut time, mut tried) = (ISSUED, Vec::new());
    while tried.len() < 9 {
        registry.refresh(at(time));
        if std::mem::take(&mut *store.tries.lock()) > 0 {
            tried.push(time);
        }
        time += 10;
    }
    let waits: Vec<_> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
    assert_eq!(*reported.lock(), ["REGISTRY_MARK_UNAVAILABLE"], "once");
    assert_eq!(registry.view().pending_version(), Some(2));
    *store.storing.lock() = None;
    registry.refresh(at(time + 5_000));
    assert_eq!(registry.current().version(), 2);
}

#[test]
fn a_clock_set_back_postpones_no_retry() {
    let folder = tempfile::tempdir().unwrap();
    let (store, registry, _) = followed(&folder);
    *store.storing.lock() = Some(MarkError::Unavailable("locked"));
    put(&folder, sign(&desk(2)));
    registry.refresh(at(ISSUED + 9_000_000));
    *store.storing.lock() = None;
    registry.refresh(at(ISSUED));
    assert_eq!(registry.current().version(), 2);
}

#[test]
fn a_pending_registry_is_confirmed_when_its_file_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (store, registry, reported) = followed(&folder);
    *store.storing.lock() = Some(MarkError::Unavailable("written"));
    put(&folder, sign(&revoking(2, &registry)));
    registry.refresh(at(ISSUED + 1));
    put(&folder, sign(&desk(1)));
    registry.refresh(at(ISSUED + 2));
    std::fs::remove_file(folder.path().join("registry.json")).unwrap();
    registry.refresh(at(ISSUED + 3));
    *store.storing.lock() = None;
    registry.refresh(at(ISSUED + 103));
    assert_eq!((registry.current().version(), registry.view().pending_version()), (2, None));
    assert_eq!(*reported.lock(), ["REGISTRY_MARK_UNAVAILABLE", "REGISTRY_ROLLBACK", "FILE_MISSING"]);
}

#[test]
fn a_file_that_is_no_registry_is_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_, registry, reported) = followed(&folder);
    put(&folder, "noise");
    for second in 0..10 {
        registry.refresh(at(ISSUED + second * 1_000));
    }
    assert_eq!(*reported.lock(), ["REGISTRY_ENVELOPE"]);
    put(&folder, sign(&desk(2)));
    registry.refresh(at(ISSUED + 10_000));
    assert_eq!(registry.current().version(), 2);
}

#[test]
fn one_file_is_followed() {
    let registry = load(&desk(1));
    assert!(registry.follow("a", |_| {}));
    assert!(!registry.follow("b", |_| {}));
}

#[test]
fn a_held_lock_is_not_waited_for_between_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mark.json");
    let marks = FileHighWater::new(&path);
    let mark = |version| Mark::new(version, Digest::of(b""), Default::default());
    marks.compare_and_raise(None, &mark(1)).unwrap();
    let lock = std::fs::File::open(folder.path().join("mark.json.lock")).unwrap();
    lock.lock().unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(marks.try_compare_and_raise(Some(&mark(1)), &mark(2))));
    // A start would retry for five seconds.
    let tried = receiver.recv_timeout(std::time::Duration::from_secs(2)).expect("an answer");
    assert_eq!(tried, Err(MarkError::Unavailable("locked")));
    drop(lock);
    assert_eq!(FileHighWater::new(&path).try_compare_and_raise(Some(&mark(1)), &mark(2)), Ok(()));
}

#[test]
#[cfg(unix)]
fn mark_and_lock_are_private_to_their_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let [path, lock] = ["mark.json", "mark.json.lock"].map(|name| folder.path().join(name));
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set = |path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let marks = FileHighWater::new(&path);
    let mark = |version| Mark::new(version, Digest::of(b""), Default::default());
    marks.compare_and_raise(None, &mark(1)).unwrap();
    assert_eq!((mode(&path), mode(&lock)), (0o600, 0o600));
    // Modes that older versions used.
    set(&path, 0o644);
    set(&lock, 0o666);
    assert_eq!(marks.current(), Ok(Some(mark(1))));
    assert_eq!(mode(&path), 0o600, "narrowed when it is read");
    marks.compare_and_raise(Some(&mark(1)), &mark(2)).unwrap();
    assert_eq!(mode(&lock), 0o600);
    set(&path, 0o666);
    assert_eq!(marks.current().unwrap_err().code(), "FILE_TOO_OPEN");
    assert_eq!(marks.compare_and_raise(Some(&mark(2)), &mark(3)).unwrap_err().code(), "FILE_TOO_OPEN");
}
