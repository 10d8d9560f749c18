//! `countersign attest`: a call that lacks evidence waits at a gateway, and a person's signature lets its plain retry run.

#![cfg(unix)]

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, decision};
use crate::mcp_proposals::{payments, recorded, transfer};

const KEY: &str = "--config gateway.toml --key finance.key --key-id finance-1 --yes";

/// Returns the payments bench with a store for questions.
fn asking() -> Bench {
    let bench = payments();
    bench.ok("keys generate --kind hmac --out approval.key");
    let approval = "[approval]\nkey_file = \"approval.key\"\nstore = \"approvals.sqlite\"\n";
    let config = bench.read("gateway.toml").replace("store = \"attestations.sqlite\"\n", "");
    bench.write("gateway.toml", format!("{config}{approval}"));
    bench
}

/// Makes a transfer that lacks evidence, and returns the id of its question.
fn asked(client: &mut Client, amount: u32) -> String {
    let refusal = client.call("wire_transfer", transfer(amount));
    decision(&refusal)["attestation_id"].as_str().unwrap().to_owned()
}

/// Attests to a call. The signed text is shown on standard error.
fn attest(bench: &Bench, id: &str, options: &str) {
    let run = bench.run(&format!("attest {id} {KEY} {options}"));
    assert_eq!(run.code, 0, "{run:?}");
}

fn is_done(result: &Value) -> bool {
    result["content"][0]["text"] == "done"
}

#[test]
fn attested_call_runs_at_its_plain_retry_once() {
    let bench = asking();
    let mut client = Client::start(&bench);
    let id = asked(&mut client, 1_200);
    let listed = bench.ok("approve list --config gateway.toml");
    assert!(listed.contains("waits for evidence (countersign attest "), "{listed}");
    attest(&bench, &id, "--intent pay --evidence invoice-77.txt");
    assert!(!is_done(&client.call("wire_transfer", transfer(1_201))), "other arguments");
    assert!(is_done(&client.call("wire_transfer", transfer(1_200))));
    assert!(!is_done(&client.call("wire_transfer", transfer(1_200))), "it is used up");
    client.end();
    let answer = recorded(&bench, "answer").pop().unwrap();
    assert_eq!((&answer["verdict"], &answer["key"]), (&json!("attested"), &json!("finance-1")));
    bench.verified();
}

#[test]
fn attest_refuses_what_the_gate_would() {
    let bench = asking();
    let mut client = Client::start(&bench);
    let id = asked(&mut client, 5);
    bench.fails(&format!("attest zzzz {KEY} --intent pay"), 1, "PENDING_UNKNOWN");
    bench.fails(&format!("attest {id} {KEY}"), 1, "ATTEST_NO_PROPOSAL");
    bench.fails(&format!("attest {id} {KEY} --intent pay --evidence none.txt"), 3, "PIC_EVIDENCE_FAILED");
    let stranger = KEY.replace("finance.key", "stranger.key");
    bench.fails(&format!("attest {id} {stranger} --intent pay"), 3, "ATTEST_SIGNATURE");
    bench.fails(&format!("approve {id} --config gateway.toml --yes"), 1, "PENDING_KIND");
    assert!(recorded(&bench, "answer").is_empty(), "no answer counts");
    attest(&bench, &id, "--intent pay");
    bench.fails(&format!("attest {id} {KEY} --intent pay"), 1, "PENDING_DECIDED");
    client.end();
}
