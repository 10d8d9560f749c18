//! Calls that several persons have to approve, at a running gateway.

#![cfg(unix)]

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, decision, gateway};

const CONFIG: &str = "--config gateway.toml";

/// A gateway whose refund needs two of ada, bob and cy.
fn of_two() -> Bench {
    let bench = gateway();
    let mut draft: Value = serde_json::from_str(&bench.read("draft.json")).unwrap();
    for tool in draft["tools"].as_array_mut().unwrap() {
        if tool["name"] == "refund" {
            tool["approvers"] = json!({"names": ["ada", "bob", "cy"], "needed": 2});
        }
    }
    bench.write("two.json", draft.to_string());
    bench.ok("registry sign two.json --key op.key --out reg.json --force");
    bench
}

fn asked(client: &mut Client) -> (Value, String) {
    let refusal = client.call("refund", json!({"id": 7}));
    let id = decision(&refusal)["approval_id"].as_str().unwrap().to_owned();
    (refusal, id)
}

#[test]
fn call_runs_after_the_second_approval() {
    let bench = of_two();
    let mut client = Client::start(&bench);
    let (refusal, id) = asked(&mut client);
    let text = refusal["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("It needs the approvals of 2 persons."), "{text}");
    let said = bench.ok(&format!("approve {id} {CONFIG} --yes --by ada"));
    assert!(said.ends_with("; 1 of 2 approvals\n"), "{said}");
    assert_eq!(decision(&asked(&mut client).0)["code"], "APPROVAL_REQUIRED");
    assert!(bench.ok(&format!("approve {CONFIG}")).ends_with("  1 of 2 approvals (ada)\n"));
    let shown = bench.ok(&format!("approve {id} {CONFIG} --show"));
    assert!(
        shown.contains("waiting, 1 of 2 approvals (ada)\n")
            && shown.contains("\napprovers  2 of ada, bob, cy\n"),
        "{shown}"
    );
    let shown = bench.run(&format!("approve {id} {CONFIG} --show --json")).value();
    assert_eq!((&shown["approved_by"], &shown["approvers"]["needed"]), (&json!(["ada"]), &json!(2)));
    bench.ok(&format!("approve {id} {CONFIG} --yes --by cy"));
    assert_eq!(client.call("refund", json!({"id": 7}))["content"][0]["text"], "done");
    assert_eq!(
        decision(&client.call("refund", json!({"id": 7})))["code"],
        "APPROVAL_REQUIRED",
        "both are spent"
    );
    client.end();
    let accepted = bench.entries().into_iter().find(|entry| entry["verdict"] == "accept").unwrap();
    assert_eq!(
        (&accepted["approver"], &accepted["co_approvals"][0]["approver"]),
        (&json!("ada"), &json!("cy"))
    );
    assert!(bench.run("audit show log").out.contains("(approved by ada, cy)"));
    bench.verified();
}

#[test]
fn approver_who_may_not_approve_is_refused_and_not_recorded() {
    let bench = of_two();
    let mut client = Client::start(&bench);
    let (_, id) = asked(&mut client);
    for name in ["dora", "Ada", "bot"] {
        bench.fails(&format!("approve {id} {CONFIG} --yes --by {name}"), 1, "PENDING_APPROVER");
    }
    bench.ok(&format!("approve {id} {CONFIG} --yes --by ada"));
    bench.fails(&format!("approve {id} {CONFIG} --yes --by ada"), 1, "PENDING_SAME_APPROVER");
    let answers = bench.entries().into_iter().filter(|entry| entry["type"] == "answer").count();
    assert_eq!(answers, 1);
    assert_eq!(decision(&asked(&mut client).0)["code"], "APPROVAL_REQUIRED");
    client.end();
}

#[test]
fn anyone_denies_a_half_approved_call() {
    let bench = of_two();
    let mut client = Client::start(&bench);
    let (_, id) = asked(&mut client);
    bench.ok(&format!("approve {id} {CONFIG} --yes --by ada"));
    bench.ok(&format!("approve {id} {CONFIG} --deny --by bob"));
    bench.fails(&format!("approve {id} {CONFIG} --yes --by cy"), 1, "PENDING_DECIDED");
    assert_eq!(decision(&client.call("refund", json!({"id": 7})))["code"], "APPROVAL_DENIED");
    client.end();
}

#[test]
fn held_call_waits_for_the_second_approval() {
    let bench = of_two();
    let held = bench.read("gateway.toml").replace("[approval]\n", "[approval]\nhold = \"60s\"\n");
    bench.write("gateway.toml", held);
    let mut client = Client::start(&bench);
    let asked = client.send(
        "tools/call",
        json!({"name": "refund", "arguments": {"id": 7}, "_meta": {"progressToken": "p"}}),
    );
    let told = client.next_progress();
    assert!(told.ends_with(", 0 of 2 approvals"), "{told}");
    let id = told.strip_prefix("waits for approval: ").unwrap().split(',').next().unwrap().to_owned();
    std::thread::scope(|scope| {
        for name in ["ada", "ada", "bob", "cy"] {
            let (bench, id) = (&bench, &id);
            scope.spawn(move || bench.run(&format!("approve {id} {CONFIG} --yes --by {name}")));
        }
    });
    let answer = client.answer(asked);
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    client.end();
    assert_eq!(bench.read("calls.txt").lines().count(), 1);
}

#[test]
fn registry_shows_and_compares_approvers() {
    let bench = of_two();
    assert!(bench.ok("registry show reg.json").contains("\n  2 of ada, bob, cy approve\n"));
    let diff = |old: &str, new: &str| bench.ok(&format!("registry diff {old} {new}"));
    assert!(diff("draft.json", "two.json").contains(" (tightens)"));
    let one = bench.read("two.json").replace("\"needed\":2", "\"needed\":1");
    bench.write("one.json", one);
    assert!(diff("two.json", "one.json").contains(" (loosens)"));
}
