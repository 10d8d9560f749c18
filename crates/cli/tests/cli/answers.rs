//! Answers of a person to a pending approval: recorded before they count.

#![cfg(unix)]

use countersign_approval_token::{PendingApprovals as _, SessionKind};
use countersign_core::Timestamp;
use countersign_sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, decision, gateway};

/// Starts a client whose refund waits for approval. Returns the client and the approval's id.
fn asked(bench: &Bench) -> (Client, String) {
    let mut client = Client::start(bench);
    let id = question(&mut client, 7);
    (client, id)
}

fn question(client: &mut Client, refund: u64) -> String {
    let refusal = client.call("refund", json!({"id": refund}));
    decision(&refusal)["approval_id"].as_str().unwrap().to_owned()
}

fn answers(bench: &Bench) -> Vec<Value> {
    bench.entries().into_iter().filter(|entry| entry["type"] == "answer").collect()
}

#[test]
fn denial_is_recorded_without_another_call() {
    let bench = gateway();
    let (client, id) = asked(&bench);
    bench.ok(&format!("approve {id} --config gateway.toml --deny --by bob"));
    // The client makes no further call.
    assert_eq!(client.end(), (0, String::new()));
    let entries = bench.entries();
    let session = entries.iter().find(|entry| entry["type"] == "session").unwrap();
    let refused = entries.iter().find(|entry| entry["type"] == "decision").unwrap();
    let answers = answers(&bench);
    let [answer] = answers.as_slice() else { panic!("{answers:?}") };
    for (name, value) in [
        ("log", json!("1")),
        ("call_id", json!(id)),
        ("verdict", json!("denied")),
        ("approver", json!("bob")),
        ("session", session["session"].clone()),
        ("agent", json!("bot")),
        ("tool", json!({"server": "desk", "name": "refund"})),
        ("args", refused["args"].clone()),
    ] {
        assert_eq!(answer[name], value, "{name}: {answer}");
    }
    let shown = bench.run("audit show log").out;
    assert!(shown.contains(&format!(" answer   {id} desk:refund denied by bob; arguments ")), "{shown}");
    assert_eq!(bench.run("audit show log --agent bot --session other").out, "");
    bench.ok("audit verify log --key log.vkey");
}

#[test]
fn approval_is_recorded_with_its_token() {
    let bench = gateway();
    let (mut client, id) = asked(&bench);
    let report = bench.run(&format!("approve {id} --config gateway.toml --yes --by olga --json")).value();
    let answers = answers(&bench);
    let [answer] = answers.as_slice() else { panic!("{answers:?}") };
    assert_eq!((&answer["verdict"], &answer["approver"]), (&json!("approved"), &json!("olga")));
    assert_eq!((&answer["approval"], &answer["expires"]), (&report["token_id"], &report["expires"]));
    let shown = bench.run("audit show log").out;
    assert!(shown.contains(&format!(" answer   {id} desk:refund approved by olga until 2")), "{shown}");
    assert_eq!(client.call("refund", json!({"id": 7}))["content"][0]["text"], "done");
    client.end();
    // An answer is no decision, so `stats` does not count it.
    let stats = bench.run("stats log --json").value();
    assert_eq!((&stats["total"]["accepted"], &stats["total"]["rejected"]), (&json!(1), &json!(1)));
    let used = bench.entries().into_iter().find(|entry| entry["verdict"] == "accept").unwrap();
    assert_eq!(used["approval"], report["token_id"]);
}

#[test]
fn no_answer_is_given_where_it_cannot_be_recorded() {
    let bench = gateway();
    let (mut client, id) = asked(&bench);
    // A file occupies the path of the log.
    bench.write("log/1", "");
    bench.fails(&format!("approve {id} --config gateway.toml --yes"), 1, "AUDIT_UNAVAILABLE");
    bench.fails(&format!("approve {id} --config gateway.toml --deny"), 1, "AUDIT_UNAVAILABLE");
    let shown = bench.run(&format!("approve {id} --config gateway.toml --show --json")).value();
    assert_eq!((&shown["state"], &shown["denied_by"]), (&json!("waiting"), &Value::Null));
    assert_eq!(decision(&client.call("refund", json!({"id": 7})))["code"], "APPROVAL_REQUIRED");
    std::fs::remove_file(bench.path("log/1")).unwrap();
    bench.ok(&format!("approve {id} --config gateway.toml --yes"));
    assert_eq!(client.call("refund", json!({"id": 7}))["content"][0]["text"], "done");
    client.end();
}

#[test]
fn simultaneous_answers_are_all_recorded() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    let ids: Vec<_> = (0..4).map(|n| question(&mut client, n)).collect();
    let bench = &bench;
    std::thread::scope(|scope| {
        for id in &ids {
            scope.spawn(move || bench.ok(&format!("approve {id} --config gateway.toml --yes")));
        }
    });
    client.end();
    let mut on_record: Vec<_> =
        answers(bench).iter().map(|it| it["call_id"].as_str().unwrap().to_owned()).collect();
    on_record.sort();
    let mut given = ids;
    given.sort();
    assert_eq!(on_record, given);
    bench.ok("audit verify log --key log.vkey");
}

#[test]
fn a_decided_question_takes_no_second_answer() {
    let bench = gateway();
    let (client, id) = asked(&bench);
    bench.ok(&format!("approve {id} --config gateway.toml --deny --yes"));
    for again in ["--deny", "--yes"] {
        bench.fails(&format!("approve {id} --config gateway.toml {again}"), 1, "PENDING_DECIDED");
    }
    client.end();
    assert_eq!(answers(&bench).len(), 1);
}

#[test]
fn the_first_letters_of_an_id_stand_for_it() {
    let bench = gateway();
    let mut client = Client::start(&bench);
    let question = |client: &mut Client, id: &str| {
        let meta = json!({ "dev.countersign/call_id": id });
        let call = json!({ "name": "refund", "arguments": { "for": id }, "_meta": meta });
        let refused = client.ask("tools/call", call)["result"].clone();
        decision(&refused)["approval_id"].as_str().unwrap().to_owned()
    };
    let (one, two) = (question(&mut client, "call-one"), question(&mut client, "call-two"));
    bench.fails("approve call --config gateway.toml --yes", 1, "PENDING_AMBIGUOUS");
    let run = bench.run("approve call- --config gateway.toml --deny");
    assert!(run.err.contains(&one) && run.err.contains(&two), "{run:?}");
    bench.fails("approve cal --config gateway.toml --yes", 1, "PENDING_UNKNOWN");
    bench.fails("approve call-x --config gateway.toml --yes", 1, "PENDING_UNKNOWN");
    let differs = one.bytes().zip(two.bytes()).take_while(|(a, b)| a == b).count();
    let report =
        bench.run(&format!("approve {} --config gateway.toml --yes --json", &one[..=differs])).value();
    assert_eq!(report["call_id"], one);
    // Only one of the two is still pending, so the prefix is unique.
    let report = bench.run("approve call --config gateway.toml --yes --json").value();
    assert_eq!(report["call_id"], two);
    client.end();
}

#[test]
fn a_call_named_as_anothers_beginning_is_not_approved_for_it() {
    let bench = gateway();
    let (mut client, id) = asked(&bench);
    let short = &id[..9];
    let meta = json!({"dev.countersign/call_id": short});
    let call = json!({"name": "refund", "arguments": {"id": 8}, "_meta": meta});
    let refusal = client.ask("tools/call", call)["result"].clone();
    assert_eq!(decision(&refusal)["approval_id"], short);
    bench.fails(&format!("approve {short} --config gateway.toml --yes"), 1, "PENDING_AMBIGUOUS");
    // `--show` accepts it: it is a whole id.
    let shown = bench.run(&format!("approve {short} --config gateway.toml --show --json")).value();
    assert_eq!(shown["call_id"], short);
    bench.ok(&format!("approve {id} --config gateway.toml --yes"));
    client.end();
}

#[test]
fn a_decided_id_does_not_stand_for_a_longer_one() {
    let bench = gateway();
    let (mut client, id) = asked(&bench);
    bench.ok(&format!("approve {id} --config gateway.toml --deny"));
    let meta = json!({"dev.countersign/call_id": format!("{id}.x")});
    let call = json!({"name": "refund", "arguments": {"id": 8}, "_meta": meta});
    let refusal = client.ask("tools/call", call)["result"].clone();
    assert_eq!(decision(&refusal)["approval_id"], format!("{id}.x"));
    bench.fails(&format!("approve {id} --config gateway.toml --yes"), 1, "PENDING_DECIDED");
    assert_eq!(answers(&bench).len(), 1);
    client.end();
}

#[test]
fn an_approval_may_last_longer_than_an_hour() {
    let bench = gateway();
    bench.write("gateway.toml", bench.read("gateway.toml").replace("ttl = \"5m\"", "ttl = \"2h\""));
    let (mut client, id) = asked(&bench);
    bench.ok(&format!("approve {id} --config gateway.toml --yes"));
    let ran = client.call("refund", json!({"id": 7}));
    assert_eq!(ran["content"][0]["text"], "done", "{ran}");
    client.end();
}

#[test]
fn a_configuration_is_found_where_none_is_named() {
    let bench = gateway();
    let home = Bench::new();
    let run = |folder: &Bench, variable: &str, path: &std::path::Path| {
        let mut command = folder.command(&["approve", "list"]);
        let command = command.env_remove("XDG_CONFIG_HOME").env_remove("HOME").env(variable, path);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let nothing = || (Some(0), "nothing waits for approval\n".to_owned());
    assert_eq!(run(&bench, "HOME", home.folder()), nothing(), "in this folder");
    let elsewhere = Bench::new();
    assert_eq!(run(&elsewhere, "HOME", home.folder()).0, Some(2));
    for (variable, folder) in [("HOME", ".config/countersign"), ("XDG_CONFIG_HOME", "countersign")] {
        let home = Bench::new();
        std::fs::create_dir_all(home.path(folder)).unwrap();
        home.write(&format!("{folder}/gateway.toml"), bench.read("gateway.toml"));
        assert_eq!(run(&elsewhere, variable, home.folder()), nothing(), "{variable}");
    }
}

/// Stores a sign of life at [`long_ago`], as if the session's gateway had been killed right after it.
fn silence(bench: &Bench, session: &str) {
    let store = SqliteStore::open(bench.path("approvals.sqlite"), long_ago()).unwrap();
    store.note_alive(&session.parse().unwrap(), SessionKind::Single, long_ago()).unwrap();
}

fn long_ago() -> Timestamp {
    Timestamp::from_millis(1_000).unwrap()
}

fn session_of(bench: &Bench) -> String {
    let entries = bench.entries();
    let session = entries.iter().find(|entry| entry["type"] == "session").unwrap();
    session["session"].as_str().unwrap().to_owned()
}

#[test]
fn a_gateway_that_ends_withdraws_its_questions() {
    let bench = gateway();
    let (client, id) = asked(&bench);
    assert!(bench.ok("approve list --config gateway.toml").contains(&id[..4]));
    client.end();
    assert_eq!(bench.ok("approve list --config gateway.toml"), "nothing waits for approval\n");
    let all = bench.ok("approve list --config gateway.toml --all");
    assert!(all.starts_with(&id) && all.ends_with("  session ended\n"), "{all}");
    let all = bench.run("approve --config gateway.toml --all --json").value();
    assert_eq!((&all["pending"], &all["ended"][0]["call_id"]), (&json!([]), &json!(id)));
    bench.fails(&format!("approve {id} --config gateway.toml --yes"), 1, "SESSION_ENDED");
    let shown = bench.run(&format!("approve {id} --config gateway.toml --show --json")).value();
    assert_eq!(shown["state"], "session ended");
    assert_eq!(answers(&bench).len(), 0);
}

#[test]
fn a_session_that_gives_no_sign_of_life_has_ended() {
    let bench = gateway();
    let (mut client, id) = asked(&bench);
    silence(&bench, &session_of(&bench));
    assert_eq!(bench.ok("approve list --config gateway.toml"), "nothing waits for approval\n");
    bench.fails(&format!("approve {id} --config gateway.toml --yes"), 1, "SESSION_ENDED");
    // The gateway was only delayed. A new question is a sign of life.
    assert_eq!(question(&mut client, 7), id);
    bench.ok(&format!("approve {id} --config gateway.toml --yes"));
    client.end();
}

#[test]
fn the_questions_of_a_named_session_stay() {
    let bench = gateway();
    let mut client = Client::start_with(&bench, "--session s1");
    let id = question(&mut client, 7);
    client.end();
    assert!(bench.ok("approve list --config gateway.toml").contains(&id[..4]));
    bench.ok(&format!("approve {id} --config gateway.toml --yes"));
    let mut again = Client::start_with(&bench, "--session s1");
    // The new gateway may ask first, since the gate states the binding.
    let ran = again.call("refund", json!({"id": 7}));
    let ran = if ran["isError"] == true { again.call("refund", json!({"id": 7})) } else { ran };
    assert_eq!(ran["content"][0]["text"], "done", "{ran}");
    again.end();
}

#[test]
fn the_agent_reads_the_reason_of_a_denial() {
    let bench = gateway();
    let (mut client, id) = asked(&bench);
    let reason = "ask \"finance\"\u{202e}";
    let deny = ["approve", &id, "--config", "gateway.toml", "--deny", "--by", "olga", "--reason", reason];
    assert_eq!(bench.run_args(&deny, "").code, 0);
    let refusal = client.call("refund", json!({"id": 7}));
    let shown = r"ask \u{22}finance\u{22}\u{202e}";
    assert_eq!(
        (&decision(&refusal)["code"], &decision(&refusal)["reason"]),
        (&json!("APPROVAL_DENIED"), &json!(shown))
    );
    let text = refusal["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(&format!(" The person who refused it wrote: \"{shown}\".")), "{text}");
    // Another call does not get the reason.
    assert_eq!(decision(&client.call("refund", json!({"id": 8}))).get("reason"), None);
    client.end();
    assert_eq!(answers(&bench)[0]["reason"], r#"ask "finance"\u{202e}"#);
    assert!(
        bench.run("audit show log").out.contains(r#" denied by olga: "ask \u0022finance\u0022\u{202e}"; "#)
    );
    let state = bench.run(&format!("approve {id} --config gateway.toml --show")).out;
    assert!(state.starts_with(r#"state      denied by olga: "ask \"finance\"\u202e""#), "{state}");
}

#[test]
fn a_reason_is_for_a_denial_and_has_at_most_200_bytes() {
    let bench = gateway();
    let (client, id) = asked(&bench);
    let long = "x".repeat(201);
    bench.fails(&format!("approve {id} --config gateway.toml --deny --reason {long}"), 2, "USAGE");
    bench.fails(&format!("approve {id} --config gateway.toml --yes --reason why"), 2, "USAGE");
    bench.fails(&format!("approve {id} --config gateway.toml --all"), 2, "USAGE");
    client.end();
}
