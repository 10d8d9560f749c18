//! The drop alarm across sessions, each in its own gateway process.

#![cfg(unix)]

use countersign_audit_log::{StandingChange, StandingRecord};
use countersign_core::{AgentId, Clock as _, Millis, SystemClock};
use countersign_sqlite::SqliteStore;
use countersign_tool_gate::Quarantines as _;
use serde_json::{Value, json};

use crate::alarm_state::{QUARANTINED, STORE, quarantining, refused, session};
use crate::bench::Bench;
use crate::mcp::{Client, gateway};
use crate::quarantine::{search, second, signals, standings};

const FLAGGED: &str =
    "warning AGENT_FLAGGED: the acceptance rate of agent bot has dropped; its calls are not blocked\n";

fn quarantined(bench: &Bench) -> Value {
    let listed = bench.run(&format!("quarantine list --store {STORE} --json")).value();
    listed["quarantined"].clone()
}

#[test]
fn alarm_over_two_short_sessions_quarantines_the_agent() {
    let bench = quarantining();
    assert_eq!(session(&bench, 5), "");
    assert_eq!(quarantined(&bench), json!([]));
    let mut client = Client::start(&bench);
    refused(&mut client, 4);
    assert_eq!(search(&mut client), "AGENT_QUARANTINED");
    assert_eq!(client.end(), (0, QUARANTINED.to_owned()));
    assert_eq!(quarantined(&bench)[0]["by"], "alarm");
    let mut next = Client::start(&bench);
    assert_eq!(search(&mut next), "AGENT_QUARANTINED");
    assert_eq!(next.end().0, 0);
    let told = bench.run("stats log --json").value()["agents"]["bot"].clone();
    let refusals = bench.entries().into_iter().filter(|entry| entry["code"] == "UNDISCLOSED_TOOL");
    let ninth = refusals.map(|entry| entry["seq"].clone()).nth(8).unwrap();
    assert_eq!((&told["alarm"]["raised"]["seq"], &told["alarm"]["times"]), (&ninth, &json!(1)), "{told}");
    assert_eq!((&told["undisclosed_attempts"], &told["rejected"]), (&json!(9), &json!(11)), "{told}");
    bench.verified();
}

#[test]
fn lift_between_sessions_resets_the_alarm() {
    let bench = quarantining();
    assert_eq!(session(&bench, 9), QUARANTINED);
    bench.ok(&format!("quarantine lift --store {STORE} --agent bot --by ada"));
    assert_eq!(session(&bench, 8), "", "the nine from before are forgotten");
    let wanted = [(json!("quarantined"), json!("alarm")), (json!("lifted"), json!("ada"))];
    assert_eq!(standings(&bench), wanted, "and the lift is on record");
    let told = bench.run("stats log --json").value()["agents"]["bot"]["alarm"].clone();
    assert_eq!((&told["raised"], &told["quarantined"]), (&Value::Null, &json!(false)), "{told}");
    let mut client = Client::start(&bench);
    refused(&mut client, 1);
    assert_eq!(search(&mut client), "AGENT_QUARANTINED", "the eight since are not");
    assert_eq!(client.end(), (0, QUARANTINED.to_owned()));
    assert_eq!(standings(&bench).len(), 3);
    bench.verified();
}

#[test]
fn lift_from_a_clock_ahead_is_reported() {
    let bench = quarantining();
    assert_eq!(session(&bench, 9), QUARANTINED);
    // A lift that was recorded while the clock was an hour ahead.
    let ahead = SystemClock::new().now().unwrap().checked_add(Millis::from_secs(3_600)).unwrap();
    let bot = AgentId::new("bot").unwrap();
    let lift = StandingRecord::new(ahead, bot, StandingChange::Lifted, "ada");
    SqliteStore::open_existing(bench.path(STORE)).unwrap().change(&lift).unwrap();
    let mut client = Client::start(&bench);
    refused(&mut client, 5);
    let (code, told) = client.end();
    assert!(
        code == 0 && told.starts_with("warning SIGNALS_LIFT_AHEAD: agent bot was released by ada at "),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1, "{told}");
    let mut client = Client::start(&bench);
    refused(&mut client, 8);
    assert_eq!(search(&mut client), Value::Null, "the five from before are not counted");
    bench.ok(&format!("quarantine add --store {STORE} --agent bot --by ada"));
    assert_eq!(search(&mut client), "AGENT_QUARANTINED");
    bench.ok(&format!("quarantine lift --store {STORE} --agent bot --by ada"));
    assert_eq!(search(&mut client), Value::Null);
    assert_eq!(client.end().0, 0);
    assert_eq!(session(&bench, 4), "", "the store's lift is of now");
    assert_eq!(session(&bench, 5), QUARANTINED);
}

#[test]
fn drop_over_two_sessions_is_flagged_once() {
    let bench = gateway();
    signals(&bench, "on_drop = \"flag\"");
    assert_eq!(session(&bench, 5), "");
    assert_eq!(session(&bench, 4), FLAGGED);
    for times in [0, 3, 5] {
        assert_eq!(session(&bench, times), "", "{times} more");
    }
    assert_eq!(session(&bench, 1), FLAGGED);
    let raised = bench.run("stats log --json").value()["agents"]["bot"]["alarm"]["raised"].clone();
    assert!(raised.is_object(), "stats go on to show it");
}

#[test]
fn alarm_without_signals_covers_one_session() {
    let bench = gateway();
    for times in [4, 4, 8] {
        assert_eq!(session(&bench, times), "");
    }
    let entries = bench.entries().len();
    signals(&bench, &format!("store = \"{STORE}\"\non_drop = \"quarantine\"\ndecisions = 100000000"));
    let mut other = second(&bench);
    refused(&mut other, 16);
    assert_eq!(search(&mut other), Value::Null, "what the first log says is not of this one");
    assert_eq!(other.end(), (0, String::new()));
    assert_eq!(bench.entries().len(), entries);
    let told = session(&bench, 1);
    assert!(told.starts_with("alarm of agent bot replayed from all "), "{told}");
    assert!(
        told.ends_with(QUARANTINED),
        "what was on record before counts once the signals are named: {told}"
    );
}

#[test]
fn alarm_replays_every_log_of_the_folder() {
    let bench = quarantining();
    let (mut one, mut other) = (Client::start(&bench), Client::start(&bench));
    refused(&mut one, 5);
    refused(&mut other, 4);
    for client in [one, other] {
        assert_eq!(client.end(), (0, String::new()), "neither has seen nine");
    }
    assert!(bench.path("log/1").exists());
    let mut client = Client::start(&bench);
    assert_eq!(search(&mut client), "AGENT_QUARANTINED");
    assert_eq!(client.end(), (0, QUARANTINED.to_owned()));
    // Another process holds the first log, so this one writes to `log/1`.
    bench.ok(&format!("quarantine lift --store {STORE} --agent bot --by ada"));
    let (first, mut second) = (Client::start(&bench), Client::start(&bench));
    assert_eq!(search(&mut second), Value::Null, "the lift is of all logs");
    drop((first.end(), second.end()));
    let segment = "log/1/000000000001.jsonl";
    bench.write(segment, bench.read(segment).replace("alice", "malice"));
    let run = bench.run("mcp run --config gateway.toml -- false");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.starts_with("error AUDIT_CORRUPT: `log/1`: "), "{run:?}");
}
