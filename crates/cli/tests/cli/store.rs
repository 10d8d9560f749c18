//! The store of spent approvals: created in advance, created again, and named in the record.

use serde_json::{Value, json};

use crate::bench::{Bench, RECORD, RECORD_OPTIONS};
use crate::desk;

const STORE: &str = "gate.key.spent.sqlite";

/// Mints a token for call `c1`, a refund of ticket 7 in session `s1`.
fn mint(bench: &Bench) -> String {
    bench.write("mint.json", "{\"id\":7}");
    let bindings = "--session s1 --agent support-bot --audience check --registry-version 1 --principal local";
    let token = bench.ok(&format!(
        "token mint --key-file gate.key --server desk --tool refund --args mint.json --call-id c1 --ttl 5m {bindings}"
    ));
    token.trim_end().to_owned()
}

/// Returns the code of the decision on that call with this token.
fn check(bench: &Bench, token: &str) -> String {
    let line = json!({"call_id": "c1", "tool": "refund", "args": {"id": 7}, "approval": token});
    let run = bench.feed(
        &format!(
            "check --registry reg.json --trust-root root.json --agent support-bot --session s1 --approval-key gate.key \
             {RECORD_OPTIONS}"
        ),
        &line.to_string(),
    );
    let answer: Value = serde_json::from_str(run.out.trim_end()).expect("one answer");
    answer["code"].as_str().unwrap_or("-").to_owned()
}

fn remove_store(bench: &Bench) {
    for end in ["", "-wal", "-shm", "-journal"] {
        let _ = std::fs::remove_file(bench.path(&format!("{STORE}{end}")));
    }
}

#[test]
fn a_deleted_store_brings_no_spent_token_back() {
    let bench = desk::open();
    let token = mint(&bench);
    assert_eq!(check(&bench, &token), "-");
    assert_eq!(check(&bench, &token), "APPROVAL_SPENT");
    remove_store(&bench);
    assert_eq!(check(&bench, &token), "STORE_TOO_NEW");
    // A token minted after the new store was created passes.
    assert_eq!(check(&bench, &mint(&bench)), "-");
}

#[test]
fn the_record_names_the_store_of_each_session() {
    let bench = desk::open();
    let id = || bench.run(&format!("store show {STORE} --json")).value()["id"].clone();
    let first = id();
    check(&bench, "cs1.a.b");
    remove_store(&bench);
    check(&bench, "cs1.a.b");
    let second = id();
    assert_ne!(first, second);
    let entries = bench.entries();
    let named: Vec<_> = entries.iter().filter_map(|entry| entry.get("spent_store")).collect();
    assert_eq!(named, [&first, &second]);
    let text = bench.run("audit show log").out;
    assert!(text.contains(&format!("; spent store {}", second.as_str().unwrap())), "{text}");
}

#[test]
fn a_store_is_made_once() {
    let bench = Bench::new();
    let report = bench.run("store init s.db --json").value();
    assert_eq!(report["id"], bench.run("store show s.db --json").value()["id"]);
    assert!(report["created"].is_string() || report["created"].is_u64(), "{report}");
    bench.fails("store init s.db", 1, "STORE_EXISTS");
    bench.fails("store show none.db", 1, "STORE_MISSING");
}

#[test]
fn a_gateway_whose_store_must_exist_does_not_make_one() {
    let bench = desk::open();
    let config = format!(
        "[registry]\nfile = \"reg.json\"\ntrust_root = \"root.json\"\nstate = \"marks.json\"\n\
         [session]\nagent = \"support-bot\"\nprincipal = \"alice\"\n\
         [approval]\nkey_file = \"gate.key\"\nstore = \"approvals.db\"\nstore_must_exist = true\n\
         {RECORD}\n[server]\nname = \"desk\"\n"
    );
    bench.write("gateway.toml", config);
    let run = bench.run("mcp run --config gateway.toml -- cat");
    assert!(run.code == 1 && run.err.starts_with("error STORE_MISSING: "), "{run:?}");
    assert!(run.err.contains("countersign store init") && !bench.path("approvals.db").exists(), "{run:?}");
    assert!(!bench.path("log").exists());
    bench.ok("store init approvals.db");
    assert_eq!(bench.run("mcp run --config gateway.toml -- cat").code, 0);
}
