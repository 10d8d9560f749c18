use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::fixture::*;
use crate::*;

/// Returns a registry in which the call limit of every tool and agent equals the version.
fn registry_of(version: u64) -> Vec<u8> {
    let mut value = desk(version);
    for index in 0..2 {
        value["agents"][index]["limits"] = json!({ "max_calls": version });
    }
    for index in 0..3 {
        value["tools"][index]["limits"] = json!({ "max_calls": version });
    }
    sign(&value)
}

#[test]
fn readers_see_whole_versions_while_others_load_and_revoke() {
    let registry = load_with(&registry_of(1), marks()).unwrap();
    let versions: Vec<_> = (2..=40).map(registry_of).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (mut last, mut revoked) = (0, 0);
                loop {
                    let finished = done.load(Ordering::SeqCst);
                    let view = registry.view();
                    let snapshot = view.snapshot();
                    let version = u32::try_from(snapshot.version()).unwrap();
                    for entry in snapshot.agents() {
                        assert_eq!(entry.limits().max_calls(), Some(version));
                    }
                    for rules in snapshot.tools() {
                        assert_eq!(rules.entry().limits().max_calls(), Some(version));
                    }
                    assert!(snapshot.version() >= last, "versions never go back");
                    last = snapshot.version();
                    let seen = (0..50).filter(|n| view.is_agent_revoked(&agent(&format!("bad-{n}")))).count();
                    assert!(seen >= revoked, "revocations never come undone");
                    revoked = seen;
                    if finished {
                        assert_eq!((last, revoked), (40, 50));
                        break;
                    }
                }
            });
        }
        let revoking = scope.spawn(|| {
            for n in 0..50 {
                registry.revoke(&agent(&format!("bad-{n}")));
            }
        });
        for bytes in &versions {
            registry.reload(bytes, now()).unwrap();
        }
        revoking.join().unwrap();
        done.store(true, Ordering::SeqCst);
    });
}

#[test]
fn of_two_hosts_that_share_a_mark_the_later_registry_wins() {
    let marks = marks();
    let first = load_with(&sign(&desk(1)), marks.clone()).unwrap();
    let second = load_with(&sign(&desk(2)), marks).unwrap();
    assert_eq!(first.reload(&sign(&desk(1)), now()).unwrap_err().code(), "REGISTRY_ROLLBACK");
    assert_eq!(first.reload(&sign(&desk(2)), now()), Ok(2));
    assert_eq!(first.current().digest(), second.current().digest());
}

#[test]
fn the_types_can_be_shared_between_threads() {
    const fn shared<T: Send + Sync>() {}
    shared::<CapabilityRegistry>();
    shared::<RegistryView>();
    shared::<SessionContract>();
}
