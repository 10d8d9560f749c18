use serde_json::{Value, json};

use crate::bench::{Bench, RECORD_OPTIONS, Run};
use crate::desk::{draft, open, sign};

const TIGHTEN: &str = "registry tighten log --registry reg.json --out next.json";

/// Makes calls of the support bot, whose searches are recorded whole.
fn decide(bench: &Bench, calls: &[(&str, Value)], more: &str) -> Run {
    let line = |(id, (tool, args)): (usize, &(&str, Value))| {
        format!("{}\n", json!({"call_id": format!("c{id}"), "tool": tool, "args": args}))
    };
    let input: String = calls.iter().enumerate().map(line).collect();
    let check =
        format!("check --registry reg.json --trust-root root.json --agent support-bot {RECORD_OPTIONS}");
    bench.feed(&format!("{check} --record-argument desk:search= {more}"), &input)
}

fn tool<'d>(draft: &'d Value, name: &str) -> Option<&'d Value> {
    draft["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name)
}

#[test]
fn tighten_drafts_rules_with_their_evidence() {
    let bench = open();
    let searches = [4, 2, 9].map(|amount| ("search", json!({"query": "T", "amount": amount})));
    decide(&bench, &searches, "");
    let shown = bench.ok(&format!("{TIGHTEN} --key log.vkey"));
    assert!(
        shown.contains("rule    desk:search: /amount is from 2 to 9  (3 calls, entries 2 to 6)"),
        "{shown}"
    );
    assert!(shown.contains("unused  support-bot desk:refund"), "{shown}");
    let next: Value = serde_json::from_str(&bench.read("next.json")).unwrap();
    assert_eq!(next["version"], 2);
    let rule = json!({"kind": "number", "at": "/amount", "min": 2.0, "max": 9.0});
    assert_eq!(tool(&next, "search").unwrap()["constraints"], json!([rule]));
    bench.ok("registry sign next.json --key op.key --out reg.json --force");
    let again = decide(&bench, &[("search", json!({"query": "T", "amount": 10}))], "--state fresh.state");
    assert!(again.out.contains("ARGS_CONSTRAINT"), "{again:?}");
}

#[test]
fn tighten_keeps_the_rules_and_the_idle_agents() {
    let bench = open();
    let mut changed = draft();
    let own = json!({"kind": "number", "at": "/amount", "max": 100});
    changed["tools"][0]["constraints"] = json!([own]);
    sign(&bench, &changed, "reg.json");
    decide(&bench, &[("search", json!({"query": "T", "amount": 4}))], "");
    let report = bench.run(&format!("{TIGHTEN} --key log.vkey --json")).value();
    assert_eq!(
        report["rules"][0]["rule"],
        json!({"kind": "number", "at": "/amount", "min": 4.0, "max": 4.0})
    );
    assert!(!report["idle"].as_array().unwrap().is_empty(), "{report}");
    let next: Value = serde_json::from_str(&bench.read("next.json")).unwrap();
    assert_eq!(tool(&next, "search").unwrap()["constraints"][0], own);
    assert_eq!(next["agents"].as_array().unwrap().len(), changed["agents"].as_array().unwrap().len());
}

#[test]
fn tighten_refuses_a_record_without_calls() {
    let bench = open();
    decide(&bench, &[("refund", json!({"amount": 4}))], "");
    bench.fails(TIGHTEN, 1, "NO_CALLS_ON_RECORD");
    decide(&bench, &[("search", json!({"query": "T"}))], "");
    bench.write("next.json", "mine");
    bench.fails(TIGHTEN, 1, "FILE_EXISTS");
    assert_eq!(bench.read("next.json"), "mine");
}
