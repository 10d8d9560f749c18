#![cfg(unix)]

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, decision, gateway};

const STORE: &str = "signals.sqlite";

/// Adds a part to the gateway's configuration.
pub(crate) fn signals(bench: &Bench, part: &str) {
    let config = bench.read("gateway.toml");
    let config = config.split("[signals]").next().unwrap();
    bench.write("gateway.toml", format!("{config}[signals]\n{part}\n"));
}

/// Starts a second gateway that records into another log.
pub(crate) fn second(bench: &Bench) -> Client {
    let config = bench.read("gateway.toml");
    let other = config.replace("folder = \"log\"", "folder = \"second\"");
    // The two logs share one state file, in which each has its own origin.
    bench.write("gateway.toml", other.replace("\"example.com/log\"", "\"example.com/second\""));
    let client = Client::start(bench);
    bench.write("gateway.toml", config);
    client
}

pub(crate) fn search(client: &mut Client) -> Value {
    let result = client.call("search", json!({"query": "x"}));
    if result["isError"] == true { decision(&result)["code"].clone() } else { Value::Null }
}

/// Makes the agent call an undisclosed tool nine times.
fn drop_acceptance(client: &mut Client) {
    for _ in 0..9 {
        assert_eq!(decision(&client.call("wipe", json!({})))["code"], "UNDISCLOSED_TOOL");
    }
}

pub(crate) fn standings(bench: &Bench) -> Vec<(Value, Value)> {
    let told = bench.entries().into_iter().filter(|entry| entry["type"] == "standing");
    told.map(|entry| (entry["standing"].clone(), entry["by"].clone())).collect()
}

#[test]
fn quarantines_are_added_listed_and_lifted() {
    let bench = Bench::new();
    bench.fails("quarantine list --store q.db", 1, "STORE_MISSING");
    bench.fails("quarantine lift --store q.db --agent bot --by ada", 1, "STORE_MISSING");
    bench.fails("quarantine add --store q.db --agent bot --by alarm", 2, "USAGE");
    bench.fails("quarantine add --store q.db --agent bot --by signal", 2, "USAGE");
    bench.fails("quarantine add --store q.db --agent b\u{202e}t --by ada", 2, "USAGE");
    bench.fails("quarantine add --store q.db --agent bot", 2, "USAGE");
    bench.write("text", "no store");
    bench.mode("text", 0o600);
    bench.fails("quarantine add --store text --agent bot --by ada", 1, "STORE_CORRUPT");

    let reason =
        ["quarantine", "add", "--store", "q.db", "--agent", "bot", "--by", "ada", "--reason", "two\nlines"];
    assert_eq!(bench.run_args(&reason, "").done(), "bot put into quarantine by ada\n");
    let again = bench.ok("quarantine add --store q.db --agent bot --by grace");
    assert_eq!(again, "bot was in quarantine already\n");
    bench.ok("quarantine add --store q.db --agent another --by grace");
    let listed = bench.run("quarantine list --store q.db --json").value();
    let [first, other] = listed["quarantined"].as_array().unwrap().as_slice() else { panic!("{listed}") };
    assert_eq!((&first["agent"], &other["agent"]), (&json!("another"), &json!("bot")));
    assert_eq!((&other["by"], &other["reason"]), (&json!("ada"), &json!("two\\u{a}lines")));
    let text = bench.ok("quarantine list --store q.db");
    assert!(text.lines().count() == 2 && text.contains("  by ada  two\\u{a}lines\n"), "{text}");

    let lifted = bench.run("quarantine lift --store q.db --agent bot --by grace --json").value();
    assert_eq!((&lifted["before"], &lifted["standing"]), (&json!("quarantined"), &json!("free")));
    assert_eq!(bench.ok("quarantine lift --store q.db --agent bot --by ada"), "bot was not in quarantine\n");
    bench.ok("quarantine lift --store q.db --agent another --by ada");
    assert_eq!(bench.ok("quarantine list --store q.db"), "no agent is in quarantine\n");
}

#[test]
fn quarantine_outlasts_its_session_without_a_named_store() {
    let bench = gateway();
    signals(&bench, "on_drop = \"quarantine\"");
    let mut client = Client::start(&bench);
    drop_acceptance(&mut client);
    assert_eq!(client.end().0, 0);
    let mut next = Client::start(&bench);
    assert_eq!(search(&mut next), "AGENT_QUARANTINED");
    // Beside the registry's state.
    bench.ok("quarantine lift --store signals.sqlite --agent bot --by ada");
    assert_eq!(search(&mut next), Value::Null);
    assert_eq!(next.end().0, 0);
    bench.verified();
}

#[test]
fn operator_quarantine_stops_every_running_gateway() {
    let bench = gateway();
    signals(&bench, &format!("store = \"{STORE}\""));
    let (mut one, mut other) = (Client::start(&bench), second(&bench));
    assert_eq!((search(&mut one), search(&mut other)), (Value::Null, Value::Null));
    bench.ok(&format!("quarantine add --store {STORE} --agent bot --by ada --reason why"));
    for client in [&mut one, &mut other] {
        assert_eq!(search(client), "AGENT_QUARANTINED");
    }
    assert_eq!(other.end(), (0, "warning AGENT_QUARANTINED: agent bot is quarantined\n".to_owned()));
    let mut next = second(&bench);
    assert_eq!(search(&mut next), "AGENT_QUARANTINED");
    bench.ok(&format!("quarantine lift --store {STORE} --agent bot --by grace"));
    assert_eq!((search(&mut one), search(&mut next)), (Value::Null, Value::Null));
    assert_eq!((one.end().0, next.end().0), (0, 0));
    assert_eq!(standings(&bench), [(json!("quarantined"), json!("ada")), (json!("lifted"), json!("grace"))]);
    assert_eq!(bench.read("calls.txt").lines().count(), 4, "what was refused never came to the server");
    let shown = bench.run("audit show log").out;
    assert!(shown.contains("bot put into quarantine by ada"), "{shown}");
    bench.verified();
}

#[test]
fn acceptance_drop_quarantines_the_agent_everywhere() {
    let bench = gateway();
    // The store of the approvals also serves as the signals store.
    signals(&bench, "store = \"approvals.sqlite\"\non_drop = \"quarantine\"");
    let (mut one, mut other) = (Client::start(&bench), second(&bench));
    drop_acceptance(&mut one);
    for client in [&mut one, &mut other] {
        assert_eq!(search(client), "AGENT_QUARANTINED");
    }
    for client in [one, other] {
        assert_eq!(client.end(), (0, "warning AGENT_QUARANTINED: agent bot is quarantined\n".to_owned()));
    }
    let listed = bench.run("quarantine list --store approvals.sqlite --json").value();
    assert_eq!(listed["quarantined"][0]["by"], "alarm");
    assert_eq!(standings(&bench), [(json!("quarantined"), json!("alarm"))]);
    let mut next = Client::start(&bench);
    assert_eq!(search(&mut next), "AGENT_QUARANTINED");
    bench.ok("quarantine lift --store approvals.sqlite --agent bot --by ada");
    assert_eq!(search(&mut next), Value::Null);
    assert_eq!(next.end().0, 0);
    bench.verified();
}

#[test]
fn acceptance_drop_is_reported_once() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    drop_acceptance(&mut client);
    for _ in 0..3 {
        assert_eq!(search(&mut client), Value::Null);
    }
    let told =
        "warning AGENT_FLAGGED: the acceptance rate of agent bot has dropped; its calls are not blocked\n";
    assert_eq!(client.end(), (0, told.to_owned()));
    signals(&bench, "baseline = 0.5\ndropped = 0.1\ndecisions = 1000000");
    let mut client = Client::start(&bench);
    drop_acceptance(&mut client);
    let told = "alarm of agent bot replayed from all 18 entries of the record: no state in its store\n";
    assert_eq!(client.end(), (0, told.to_owned()), "another rule, which takes more");
}

#[test]
fn missing_signals_store_refuses_every_call() {
    let bench = gateway();
    signals(&bench, &format!("store = \"{STORE}\""));
    let mut client = Client::start(&bench);
    assert_eq!(search(&mut client), Value::Null);
    std::fs::rename(bench.path(STORE), bench.path("elsewhere")).unwrap();
    assert_eq!(search(&mut client), "AGENT_QUARANTINED");
    let (code, told) = client.end();
    let wanted = "warning STORE_UNAVAILABLE: the alarm's state of agent bot was not saved, ";
    assert!(code == 0 && told.starts_with(wanted) && told.lines().count() == 1, "{told}");
    let entries = bench.entries();
    let refused = entries.iter().find(|entry| entry["code"] == "AGENT_QUARANTINED").unwrap();
    let reason = refused["reason"].as_str().unwrap();
    assert!(reason.starts_with("whether it is quarantined is unknown"), "{reason}");
    assert_eq!(bench.read("calls.txt").lines().count(), 1);
}

#[test]
fn signals_that_make_no_sense_stop_the_start() {
    let bench = gateway();
    bench.write("text", "no store");
    bench.mode("text", 0o600);
    for (part, code) in [
        ("dropped = 0.95", "ALARM_SHARES"),
        ("baseline = nan", "ALARM_SHARES"),
        ("decisions = 1", "ALARM_DECISIONS"),
        ("decisions = -1", "CONFIG_MALFORMED"),
        ("on_drop = \"ignore\"", "CONFIG_MALFORMED"),
        ("quarantine = true", "CONFIG_MALFORMED"),
        ("undisclosed = { count = 0 }", "SIGNAL_COUNT"),
        ("asked = { within = \"2d\" }", "SIGNAL_WITHIN"),
        ("asked = { action = \"ignore\" }", "CONFIG_MALFORMED"),
        ("asked = { often = 1 }", "CONFIG_MALFORMED"),
        ("store = \"text\"", "STORE_CORRUPT"),
        ("store = \"no/folder\"", "STORE_UNAVAILABLE"),
    ] {
        signals(&bench, part);
        let run = bench.run("mcp run --config gateway.toml -- sh server.sh");
        assert!(run.code == 1 && run.err.starts_with(&format!("error {code}: ")), "{part}: {run:?}");
        assert_eq!((run.err.lines().count(), run.out.as_str()), (1, ""), "{part}: {run:?}");
        assert!(!bench.path("log").exists() && !bench.path("mark.json").exists(), "{part}: no session began");
    }
}

/// Makes the agent call undisclosed tools `times` times. Returns standard error.
fn probing(bench: &Bench, times: u32) -> String {
    let mut client = Client::start(bench);
    for _ in 0..times {
        client.call("wipe", json!({}));
    }
    let (code, said) = client.end();
    assert_eq!(code, 0, "{said}");
    said
}

#[test]
fn a_probing_agent_is_reported_once() {
    let bench = gateway();
    let said = probing(&bench, 45);
    assert_eq!(said.matches("warning SIGNAL_UNDISCLOSED: agent bot ").count(), 1, "{said}");
    let shown = bench.run("audit show log").out;
    assert_eq!(shown.matches(" signal   bot undisclosed: 20 calls in 10m; session ").count(), 1, "{shown}");
    let stats = bench.run("stats log --json").value();
    assert_eq!(stats["agents"]["bot"]["signals"], json!({"undisclosed": 1}), "{stats}");
    let table = bench.run("stats log").out;
    assert!(table.contains(", undisclosed 1"), "{table}");
}

#[test]
fn a_signal_quarantines_the_agent_of_a_gateway() {
    let bench = gateway();
    signals(&bench, "undisclosed = { count = 3, within = \"1m\", action = \"quarantine\" }");
    let mut client = Client::start(&bench);
    for _ in 0..3 {
        assert_eq!(decision(&client.call("wipe", json!({})))["code"], "UNDISCLOSED_TOOL");
    }
    assert_eq!(search(&mut client), "AGENT_QUARANTINED");
    let (code, said) = client.end();
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("warning SIGNAL_UNDISCLOSED: ") && said.contains("warning AGENT_QUARANTINED: "),
        "{said}"
    );
    let entries = bench.entries();
    let standing = entries.iter().find(|entry| entry["type"] == "standing").unwrap();
    assert_eq!(standing["by"], "signal");
}
