//! Grants: a person's answer that covers further calls like the one that waits.

#![cfg(unix)]

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, decision, gateway};
use crate::mcp_plans::{code, done};

const HERE: &str = r#"[{"at":"/to","domains":["example.com"],"kind":"email_domain"}]"#;

/// Starts a client whose refund to this address waits for approval. Returns the client and the question's id.
fn asked(bench: &Bench, to: &str) -> (Client, String) {
    let mut client = Client::start(bench);
    let refusal = refund(&mut client, to);
    let id = decision(&refusal)["approval_id"].as_str().unwrap().to_owned();
    (client, id)
}

fn refund(client: &mut Client, to: &str) -> Value {
    client.call("refund", json!({ "to": to }))
}

fn new_grant(bench: &Bench, id: &str, options: &[&str]) -> Value {
    let line = ["grant", "new", id, "--config", "gateway.toml", "--yes", "--by", "ada", "--json"];
    bench.run_args(&[&line[..], options].concat(), "").value()
}

#[test]
fn granted_calls_run_and_are_recorded() {
    let bench = gateway();
    let (mut client, id) = asked(&bench, "a@example.com");
    let given = new_grant(&bench, &id, &["--uses", "2", "--for", "1h", "--where", HERE]);
    let grant = given["grant_id"].as_str().unwrap();
    done(&refund(&mut client, "a@example.com"));
    assert_eq!(code(&refund(&mut client, "a@example.org")), "APPROVAL_REQUIRED");
    let listed = bench.ok("grant list --config gateway.toml");
    assert!(listed.starts_with(&format!("{grant}  desk:refund  bot for ")), "{listed}");
    assert!(
        listed.contains("  1 of 2 used  until ") && listed.contains(&format!("by ada  where {HERE}")),
        "{listed}"
    );
    done(&refund(&mut client, "b@example.com"));
    assert_eq!(code(&refund(&mut client, "c@example.com")), "APPROVAL_REQUIRED");
    client.end();
    let entries = bench.entries();
    let used: Vec<_> = entries.iter().filter(|it| it["verdict"] == "accept").collect();
    assert_eq!(used.iter().map(|it| it["grant_use"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    assert!(used.iter().all(|it| it["approval"] == *grant && it["approver"] == "ada"));
    let answer = entries.iter().find(|it| it["type"] == "answer").unwrap();
    for (name, value) in [
        ("verdict", json!("granted")),
        ("approval", json!(grant)),
        ("uses", json!(2)),
        ("conditions", json!(HERE)),
        ("call_id", json!(id)),
    ] {
        assert_eq!(answer[name], value, "{name}: {answer}");
    }
    let shown = bench.run("audit show log").out;
    assert!(shown.contains(&format!("{id} desk:refund granted by ada until ")), "{shown}");
    assert!(shown.contains(" (approved by ada) (use 2 of a grant)"), "{shown}");
    bench.ok("audit verify log --key log.vkey");
}

#[test]
fn grant_without_conditions_covers_the_same_arguments() {
    let bench = gateway();
    let (mut client, id) = asked(&bench, "a@example.com");
    new_grant(&bench, &id, &["--uses", "3", "--for", "1h"]);
    done(&refund(&mut client, "a@example.com"));
    done(&refund(&mut client, "a@example.com"));
    assert_eq!(code(&refund(&mut client, "b@example.com")), "APPROVAL_REQUIRED");
    client.end();
}

#[test]
fn revoked_grant_covers_nothing() {
    let bench = gateway();
    let (mut client, id) = asked(&bench, "a@example.com");
    let given = new_grant(&bench, &id, &["--uses", "3", "--for", "1h"]);
    let grant = given["grant_id"].as_str().unwrap();
    done(&refund(&mut client, "a@example.com"));
    bench.ok(&format!("grant revoke {grant} --config gateway.toml --by bob"));
    assert_eq!(code(&refund(&mut client, "a@example.com")), "APPROVAL_REQUIRED");
    bench.fails(&format!("grant revoke {grant} --config gateway.toml"), 1, "GRANT_USED_UP");
    bench.fails("grant revoke grant-0 --config gateway.toml", 1, "GRANT_UNKNOWN");
    assert!(bench.ok("grant list --config gateway.toml").contains("  revoked  "));
    client.end();
    let shown = bench.run("audit show log").out;
    assert!(shown.contains(&format!("{id} desk:refund grant revoked by bob; ")), "{shown}");
}

#[test]
fn faulty_wishes_grant_nothing() {
    let bench = gateway();
    let (mut client, id) = asked(&bench, "a@example.com");
    let fails = |options: &[&str], exit, code| {
        let line = ["grant", "new", &id, "--config", "gateway.toml", "--yes"];
        bench.fails_with(&[&line[..], options].concat(), "", exit, code);
    };
    let other = HERE.replace("example.com", "example.org");
    for conditions in ["", "[]", "{}", "nonsense", &other, r#"[{"kind":"url","kind":"url"}]"#] {
        fails(&["--uses", "2", "--for", "1h", "--where", conditions], 3, "GRANT_CONDITIONS");
    }
    fails(&["--uses", "0", "--for", "1h"], 1, "GRANT_USES");
    fails(&["--uses", "101", "--for", "1h"], 1, "GRANT_USES");
    fails(&["--uses", "2", "--for", "25h"], 1, "APPROVAL_TTL");
    fails(&["--uses", "2", "--for", "1h", "--by", "b0t"], 1, "APPROVAL_SELF");
    assert_eq!(bench.ok("grant list --config gateway.toml"), "no grant counts\n");
    assert_eq!(code(&refund(&mut client, "a@example.com")), "APPROVAL_REQUIRED");
    client.end();
    assert!(bench.entries().iter().all(|entry| entry["type"] != "answer"));
}

#[test]
fn gate_that_takes_no_grants_refuses_to_give_one() {
    let bench = gateway();
    let config = bench.read("gateway.toml").replace("[approval]", "[approval]\nmax_grant = \"0s\"");
    bench.write("gateway.toml", config);
    let (client, id) = asked(&bench, "a@example.com");
    bench.fails(
        &format!("grant new {id} --config gateway.toml --yes --uses 2 --for 1h"),
        3,
        "GRANT_NOT_TAKEN",
    );
    client.end();
}
