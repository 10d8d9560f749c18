use countersign_core::AgentId;

use super::*;

const LOG: &str = "example.com/log";

#[test]
fn alarm_state_is_kept_by_agent_and_record() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path, at(0)).unwrap();
    let agents = ["bot", "reader"].map(|name| AgentId::new(name).unwrap());
    for (state, (agent, record)) in
        (0..).zip(agents.iter().flat_map(|agent| [(agent, LOG), (agent, "other")]))
    {
        assert!(store.keep_alarm_state(agent, record, None, &format!("{state}")).unwrap());
    }
    let other = SqliteStore::open(&path, at(0)).unwrap();
    let kept = |agent, record| other.alarm_state(agent, record).unwrap();
    assert_eq!(kept(&agents[0], LOG).as_deref(), Some("0"));
    assert_eq!(kept(&agents[1], "other").as_deref(), Some("3"));
    assert_eq!(kept(&agents[1], "none"), None);
}

#[test]
fn alarm_state_of_another_process_is_not_replaced() {
    let (_folder, path) = place();
    let (one, other) = (SqliteStore::open(&path, at(0)).unwrap(), SqliteStore::open(&path, at(0)).unwrap());
    let bot = AgentId::new("bot").unwrap();
    assert!(one.keep_alarm_state(&bot, LOG, None, "a").unwrap());
    assert!(!other.keep_alarm_state(&bot, LOG, None, "b").unwrap());
    assert!(other.keep_alarm_state(&bot, LOG, Some("a"), "b").unwrap());
    assert!(!one.keep_alarm_state(&bot, LOG, Some("a"), "c").unwrap());
    assert_eq!(one.alarm_state(&bot, LOG).unwrap().as_deref(), Some("b"));
}

#[test]
fn refused_alarm_state_stops_no_spend() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path, at(0)).unwrap();
    let bot = AgentId::new("bot").unwrap();
    let too_long = "x".repeat((1 << 20) + 1);
    assert!(store.keep_alarm_state(&bot, LOG, None, &too_long).is_err());
    assert_eq!(store.alarm_state(&bot, LOG).unwrap(), None);
    assert_eq!(spend(&store, &keys(), "t1"), Ok(()));
    assert_eq!(spend(&store, &keys(), "t1"), Err("APPROVAL_SPENT"));
}
