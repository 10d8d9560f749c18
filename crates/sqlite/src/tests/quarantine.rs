use countersign_audit_log::{StandingChange, StandingRecord};
use countersign_core::AgentId;
use countersign_tool_gate::{MemoryQuarantines, QuarantineError, Quarantines, Standing};
use proptest::prelude::*;

use super::*;

const AGENTS: [&str; 3] = ["bot", "reader", "capped-bot"];

fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

fn change(name: &str, standing: StandingChange, by: &str) -> StandingRecord {
    let mut change = StandingRecord::new(at(1_790_000_000_123), agent(name), standing, by);
    change.reason = Some("why\u{202e}\n\\ \u{2026}".into());
    change
}

fn add(store: &dyn Quarantines, name: &str, by: &str) -> Standing {
    store.change(&change(name, StandingChange::Quarantined, by)).unwrap()
}

fn lift(store: &dyn Quarantines, name: &str, by: &str) -> Standing {
    store.change(&change(name, StandingChange::Lifted, by)).unwrap()
}

#[test]
fn later_connection_can_lift_a_quarantine() {
    let (_folder, path) = place();
    let added = change("bot", StandingChange::Quarantined, "alarm");
    assert_eq!(SqliteStore::open(&path, at(0)).unwrap().change(&added).unwrap(), Standing::Free);
    let (gate, operator) =
        (SqliteStore::open(&path, at(0)).unwrap(), SqliteStore::open(&path, at(0)).unwrap());
    let kept = gate.latest(&agent("bot")).unwrap().unwrap();
    assert_eq!(kept.change, added, "exactly as it was told");
    assert_eq!(operator.list().unwrap(), [added]);
    assert_eq!(lift(&operator, "bot", "ada"), Standing::Quarantined);
    let lifted = gate.latest(&agent("bot")).unwrap().unwrap();
    assert_eq!((lifted.change.standing, lifted.change.by.as_str()), (StandingChange::Lifted, "ada"));
    assert!(lifted.number > kept.number);
    assert_eq!(gate.list().unwrap(), []);
    assert_eq!(gate.latest(&agent("reader")).unwrap(), None);
}

#[test]
fn each_concurrent_change_counts_once() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path, at(0)).unwrap();
    let changed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let path = &path;
                scope.spawn(move || {
                    let store = SqliteStore::open_with(path, at(0), Millis::from_secs(60)).unwrap();
                    let put = |round: usize| {
                        if (n + round).is_multiple_of(2) {
                            add(&store, "bot", "ada") == Standing::Free
                        } else {
                            lift(&store, "bot", "ada") == Standing::Quarantined
                        }
                    };
                    (0..25).filter(|round| put(*round)).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    let last = store.latest(&agent("bot")).unwrap().unwrap();
    assert_eq!(last.number, changed as u64, "every number was given once");
    let stands = Standing::after(last.change.standing);
    assert_eq!(stands == Standing::Quarantined, changed % 2 == 1, "changes alternate");
}

fn refused<T: std::fmt::Debug>(result: Result<T, QuarantineError>) -> &'static str {
    result.unwrap_err().code()
}

#[test]
fn replaced_or_tampered_store_is_unavailable() {
    let (folder, path) = place();
    let store = SqliteStore::open(&path, at(0)).unwrap();
    add(&store, "bot", "ada");
    std::fs::rename(&path, folder.path().join("elsewhere")).unwrap();
    assert_eq!(refused(store.latest(&agent("bot"))), "STORE_UNAVAILABLE");
    assert_eq!(refused(store.list()), "STORE_UNAVAILABLE");
    std::fs::rename(folder.path().join("elsewhere"), &path).unwrap();
    for touch in [
        "UPDATE standing SET quarantined = 0",
        "UPDATE standing SET agent = 'reader'",
        "UPDATE standing SET change = '{}'",
    ] {
        let (_folder, path) = place();
        let store = SqliteStore::open(&path, at(0)).unwrap();
        add(&store, "bot", "ada");
        store.on_connection(|db| db.execute(touch, []).unwrap());
        let looked = [store.latest(&agent("bot")), store.latest(&agent("reader"))];
        assert!(looked.iter().any(|found| found.is_err()), "{touch}");
        assert_eq!(refused(store.list()), "STORE_UNAVAILABLE", "{touch}");
    }
}

#[test]
fn locked_store_answers_lookups_but_refuses_changes() {
    let (_folder, path) = place();
    let store = SqliteStore::open_with(&path, at(0), Millis::new(20).unwrap()).unwrap();
    add(&store, "bot", "ada");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM standing").unwrap();
    let latest = |name| store.latest(&agent(name)).unwrap().map(|kept| kept.change.standing);
    assert_eq!(latest("bot"), Some(StandingChange::Quarantined), "what was not committed is not so");
    assert_eq!(
        refused(store.change(&change("reader", StandingChange::Quarantined, "ada"))),
        "STORE_UNAVAILABLE"
    );
    assert_eq!(refused(store.change(&change("bot", StandingChange::Lifted, "ada"))), "STORE_UNAVAILABLE");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!((latest("bot"), latest("reader")), (Some(StandingChange::Quarantined), None));
    assert_eq!(add(&store, "reader", "ada"), Standing::Free, "the store can be used again");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_answers_as_the_one_in_memory_does(
        steps in prop::collection::vec((0..AGENTS.len(), any::<bool>(), "[a-z]{1,8}"), 1..40),
    ) {
        let (_folder, path) = place();
        let (memory, mut store) = (MemoryQuarantines::new(), SqliteStore::open(&path, at(0)).unwrap());
        for (n, (agent_at, is_lift, by)) in steps.into_iter().enumerate() {
            let put = if is_lift { lift } else { add };
            let name = AGENTS[agent_at];
            prop_assert_eq!(put(&store, name, &by), put(&memory, name, &by));
            if n % 10 == 9 {
                drop(store);
                store = SqliteStore::open(&path, at(0)).unwrap();
            }
            prop_assert_eq!(store.latest(&agent(name)).unwrap(), memory.latest(&agent(name)).unwrap());
            prop_assert_eq!(store.list().unwrap(), memory.list().unwrap());
        }
    }
}
