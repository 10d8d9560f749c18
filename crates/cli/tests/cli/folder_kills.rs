//! Five gateways and three approvers on one folder at the same time, under kills.

#![cfg(unix)]

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::mcp::{Client, gateway};

const GATEWAYS: u64 = 5;
const PEOPLE: u64 = 3;

/// An answer that a client or an approver got: the call's id, its code or verdict, and the record number if there is one.
#[derive(Debug)]
struct Told {
    call: String,
    verdict: String,
    record: Option<u64>,
}

/// Reproducible pseudo-random numbers (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

/// Runs sessions in sequence, each of a few calls and then a kill. Every other kill hits the middle of a call.
fn sessions(bench: &Bench, number: u64, count: u64) -> Vec<Told> {
    let (mut random, mut told) = (Numbers(number), Vec::new());
    for session in 0..count {
        let mut client = Client::start(bench);
        for call in 0..=random.below(5) {
            let id = format!("g{number}-{session}-{call}");
            let tool = *random.pick(&["search", "refund", "wipe"]);
            let arguments = json!({ "id": random.below(4) });
            let params =
                json!({ "name": tool, "arguments": arguments, "_meta": { "dev.countersign/call_id": id } });
            told.push(answer(id, &client.ask("tools/call", params)["result"]));
        }
        if session % 2 == 0 {
            client.send("tools/call", json!({ "name": "search", "arguments": {} }));
            sleep(Duration::from_millis(random.below(4)));
        }
        client.kill();
    }
    told
}

fn answer(call: String, result: &Value) -> Told {
    if result["isError"] != true {
        assert_eq!(result["content"][0]["text"], "done", "{result}");
        return Told { call, verdict: "accept".to_owned(), record: None };
    }
    let decision = &result["_meta"]["dev.countersign/decision"];
    let verdict = decision["code"].as_str().unwrap().to_owned();
    Told { call, verdict, record: decision["record"].as_u64() }
}

/// Answers pending approvals until the gateways are done. Kills about every third run.
fn answers(bench: &Bench, number: u64, is_over: &AtomicBool) -> Vec<Told> {
    let (mut random, mut told) = (Numbers(number), Vec::new());
    while !is_over.load(Ordering::SeqCst) {
        let waiting = bench.run("approve list --config gateway.toml --json");
        let listed: Value = serde_json::from_str(&waiting.out).unwrap_or_default();
        let Some(pending) = listed["pending"].as_array().filter(|pending| !pending.is_empty()) else {
            sleep(Duration::from_millis(20));
            continue;
        };
        let id = random.pick(pending)["call_id"].as_str().unwrap();
        let (flag, verdict) = *random.pick(&[("--yes", "approved"), ("--deny", "denied")]);
        let args = ["approve", id, "--config", "gateway.toml", flag, "--by", "ada"];
        let mut person = bench
            .command(&args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if random.below(3) == 0 {
            sleep(Duration::from_millis(random.below(30)));
            person.kill().unwrap();
        }
        if person.wait().unwrap().success() {
            told.push(Told { call: id.to_owned(), verdict: verdict.to_owned(), record: None });
        }
    }
    told
}

/// Adds to `sums`, by name, the counts of `stats` that are sums over logs.
fn add_counts(stats: &Value, sums: &mut BTreeMap<String, u64>) {
    const SUMS: [&str; 4] = ["accepted", "rejected", "waiting_for_approval", "undisclosed_attempts"];
    let mut add = |name: String, count: &Value| {
        *sums.entry(name).or_default() += count.as_u64().unwrap_or_else(|| panic!("{stats}"));
    };
    for (of, row) in [("total", &stats["total"]), ("bot", &stats["agents"]["bot"])] {
        // A log of answers alone has no agents.
        let Some(row) = row.as_object() else { continue };
        SUMS.iter().for_each(|name| add(format!("{of} {name}"), &row[*name]));
        row["rejected_by_code"]
            .as_object()
            .unwrap()
            .iter()
            .for_each(|(code, count)| add(format!("{of} {code}"), count));
    }
    add("gateway".to_owned(), &stats["gateway_refusals"]);
}

fn everything_holds_after(sessions_each: u64) {
    let bench = gateway();
    let is_over = AtomicBool::new(false);
    let (told, answered) = thread::scope(|scope| {
        let (bench, is_over) = (&bench, &is_over);
        let gateways: Vec<_> =
            (0..GATEWAYS).map(|n| scope.spawn(move || sessions(bench, n, sessions_each))).collect();
        let people: Vec<_> =
            (0..PEOPLE).map(|n| scope.spawn(move || answers(bench, 100 + n, is_over))).collect();
        let told: Vec<Told> = gateways.into_iter().flat_map(|it| it.join().unwrap()).collect();
        is_over.store(true, Ordering::SeqCst);
        (told, people.into_iter().flat_map(|it| it.join().unwrap()).collect::<Vec<Told>>())
    });
    assert!(told.iter().any(|it| it.verdict == "accept") && told.iter().any(|it| it.record.is_some()));
    assert!(!answered.is_empty());

    let verified = bench.run("audit verify log --key log.vkey --state record.state --json").value();
    let logs = verified["logs"].as_array().unwrap();
    assert!(logs.len() >= 5, "{verified}");
    let entries = bench.entries();
    for one in &told {
        let is_it = |entry: &&Value| entry["type"] == "decision" && entry["call_id"] == one.call.as_str();
        let found: Vec<_> = entries.iter().filter(is_it).collect();
        let [entry] = found.as_slice() else { panic!("{one:?}: {found:?}") };
        let verdict = if entry["verdict"] == "accept" { &entry["verdict"] } else { &entry["code"] };
        assert_eq!(verdict, one.verdict.as_str(), "{one:?}");
        assert!(one.record.is_none_or(|record| entry["seq"] == record), "{one:?}: {entry}");
    }
    for one in &answered {
        let is_it = |entry: &&Value| {
            entry["type"] == "answer"
                && entry["call_id"] == one.call.as_str()
                && entry["verdict"] == one.verdict.as_str()
        };
        assert!(entries.iter().any(|entry| is_it(&entry)), "{one:?}");
    }

    // The verb reads every log of a folder, so the first log is copied to a folder of its own.
    std::fs::create_dir(bench.path("alone")).unwrap();
    for entry in std::fs::read_dir(bench.path("log")).unwrap().map(Result::unwrap) {
        if entry.path().extension().is_some_and(|kind| kind == "jsonl") {
            std::fs::copy(entry.path(), bench.path("alone").join(entry.file_name())).unwrap();
        }
    }
    let (mut sum, mut whole) = (BTreeMap::new(), BTreeMap::new());
    let numbered = logs.iter().map(|log| log["log"].as_str().unwrap()).filter(|log| *log != ".");
    for log in numbered.map(|log| format!("log/{log}")).chain(["alone".to_owned()]) {
        add_counts(&bench.run(&format!("stats {log} --json")).value(), &mut sum);
    }
    add_counts(&bench.run("stats log --json").value(), &mut whole);
    assert_eq!(sum, whole);
    assert!(whole["total accepted"] > 0 && whole["total rejected"] > 0, "{whole:?}");
}

#[test]
fn folder_of_many_processes_holds_under_kills() {
    everything_holds_after(4);
}

#[test]
#[ignore = "takes minutes"]
fn folder_of_many_processes_holds_under_many_kills() {
    everything_holds_after(100);
}
