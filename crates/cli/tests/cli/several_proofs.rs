//! Receipts, proofs and tiles for a folder of three logs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::audit_log::{CHECK, log};
use crate::bench::{Bench, RECORD_OPTIONS};
use crate::desk::open;

/// Starts a `check` that has decided on these calls and holds its log until its input ends.
fn holder(bench: &Bench, ids: &[&str]) -> Child {
    let line = format!("{CHECK} {RECORD_OPTIONS}");
    let mut command = bench.command(&line.split_whitespace().collect::<Vec<_>>());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for id in ids {
        let call = json!({"call_id": id, "tool": "search", "args": {"id": 1}});
        writeln!(child.stdin.as_mut().unwrap(), "{call}").unwrap();
        assert!(lines.next().unwrap().unwrap().contains("accept"));
    }
    child
}

/// Returns three logs: the first has `a1`, log `1` has `a1` and `b1`, and log `2` has `c1`, `c2` and `c-refused`.
fn three_logs() -> Bench {
    let bench = open();
    let (mut first, mut second) = (holder(&bench, &["a1"]), holder(&bench, &["a1", "b1"]));
    log(&bench, "c", 2);
    for child in [&mut first, &mut second] {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    let sizes: Vec<_> = logs(&bench).iter().map(|log| log["records"].clone()).collect();
    assert_eq!(sizes, [json!(4), json!(6), json!(7)]);
    bench
}

fn logs(bench: &Bench) -> Vec<Value> {
    bench.run("audit verify log --key log.vkey --json").value()["logs"].as_array().unwrap().clone()
}

const RECEIPT: &str = "audit receipt log --key log.vkey";
const PROVE: &str = "audit prove log --key log.vkey";
const EXPORT: &str = "audit export log --key log.vkey --tiles tiles";

#[test]
fn receipt_finds_a_call_in_any_log_of_a_folder() {
    let bench = three_logs();
    for (id, log, seq) in [("b1", "1", 4), ("c2", "2", 4)] {
        let told = bench.run(&format!("{RECEIPT} --call-id {id} --out {id} --json")).value();
        assert_eq!((&told["log"], &told["seq"]), (&json!(log), &json!(seq)));
        let shown = bench.ok(&format!("audit verify-receipt {id} --key log.vkey"));
        assert!(shown.starts_with(&format!("entry {seq} of example.com/log/{log}, ")), "{shown}");
        let alone = bench.ok(&format!("audit receipt log/{log} --key log.vkey --call-id {id}"));
        assert_eq!(bench.read(id), alone);
        bench.fails(&format!("{RECEIPT} --log . --call-id {id}"), 1, "AUDIT_NO_SUCH_CALL");
    }
    let text = bench.ok(&format!("{RECEIPT} --call-id b1 --out again"));
    assert_eq!(text, "receipt of entry 4 of log 1 in again\n");
    bench.fails(&format!("{RECEIPT} --call-id none"), 1, "AUDIT_NO_SUCH_CALL");
}

#[test]
fn one_call_id_in_two_logs_is_listed_with_both() {
    let bench = three_logs();
    bench.fails(&format!("{RECEIPT} --call-id a1"), 1, "AUDIT_SEVERAL_CALLS");
    let said = bench.run(&format!("{RECEIPT} --call-id a1")).err;
    let rows =
        ["2 decisions on the call id, choose one with --log and --seq: 2 of log . (", "; 2 of log 1 ("];
    assert!(rows.iter().all(|row| said.contains(row)), "{said}");
    for (log, origin) in [(".", "example.com/log"), ("1", "example.com/log/1")] {
        bench.write("receipt", bench.ok(&format!("{RECEIPT} --call-id a1 --log {log}")));
        let shown = bench.ok("audit verify-receipt receipt --key log.vkey");
        assert!(shown.starts_with(&format!("entry 2 of {origin}, ")), "{shown}");
        assert_eq!(bench.read("receipt"), bench.ok(&format!("{RECEIPT} --seq 2 --log {log}")));
    }
    bench.fails(&format!("{RECEIPT} --call-id a1 --log 0"), 2, "USAGE");
}

#[test]
fn number_that_several_logs_have_needs_a_log() {
    let bench = three_logs();
    for several in [format!("{RECEIPT} --seq 5"), format!("{PROVE} --seq 5"), format!("{PROVE} --from 1")] {
        bench.fails(&several, 1, "AUDIT_SEVERAL_LOGS");
    }
    let said = bench.run(&format!("{RECEIPT} --seq 3")).err;
    assert!(said.contains("logs ., 1 and 2 have it, choose one with --log"), "{said}");
    // Only the third log has seven entries.
    for proof in ["--seq 7", "--seq 1 --log 2"] {
        let text = bench.ok(&format!("{PROVE} {proof}"));
        bench.feed("merkle verify-inclusion", &text).done();
        let told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(told["desc"], "log 2, example.com/log/2");
        assert_eq!(told["root"], logs(&bench)[2]["root"]);
    }
    let text = bench.ok(&format!("{PROVE} --from 2 --to 7"));
    bench.feed("merkle verify-consistency", &text).done();
    assert!(bench.ok(&format!("{RECEIPT} --seq 7 --out six")).contains("of log 2"));
    bench.fails(&format!("{PROVE} --seq 8"), 1, "AUDIT_NO_SUCH_SIZE");
    bench.fails(&format!("{PROVE} --seq 5 --log ."), 1, "AUDIT_NO_SUCH_SIZE");
    bench.fails(&format!("{RECEIPT} --seq 0"), 1, "AUDIT_NO_SUCH_SIZE");
}

#[test]
fn tiles_of_every_log_lie_in_a_folder_of_its_number() {
    let bench = three_logs();
    let text = bench.ok(EXPORT);
    assert!(text.starts_with("log .: 4 entries in tiles: ") && text.lines().count() == 3, "{text}");
    let told = bench.run(&format!("{EXPORT} --json")).value();
    assert_eq!((&told["origin"], &told["size"]), (&json!("example.com/log"), &json!(4)));
    let exported = told["logs"].as_array().unwrap();
    for (log, verified) in exported.iter().zip(logs(&bench)) {
        for member in ["log", "origin", "root"] {
            assert_eq!(log[member], verified[member]);
        }
        assert_eq!(log["files_written"], 0);
        let note = bench.path(log["out"].as_str().unwrap()).join("checkpoint");
        assert_eq!(std::fs::read_to_string(note).unwrap(), verified["note"].as_str().unwrap());
    }
    // Tiles of another log, and tiles of a deleted log.
    std::fs::copy(bench.path("tiles/1/checkpoint"), bench.path("tiles/2/checkpoint")).unwrap();
    bench.fails(EXPORT, 3, "AUDIT_SIGNATURE");
    std::fs::remove_dir_all(bench.path("tiles/2")).unwrap();
    bench.ok(&format!("{EXPORT} --log 2"));
    std::fs::remove_dir_all(bench.path("log/2")).unwrap();
    bench.fails(EXPORT, 3, "AUDIT_MISSING");
    bench.ok(&format!("{EXPORT} --log 1"));
    bench.fails("audit export log/1 --key log.vkey --tiles log/tiles", 1, "TILES_FOLDER");
}

#[test]
fn damage_in_one_log_withholds_the_proofs_of_all() {
    let bench = three_logs();
    let segment = "log/2/000000000001.jsonl";
    bench.write(segment, bench.read(segment).replace("c-refused", "c-rEfused"));
    for line in [format!("{RECEIPT} --call-id b1"), format!("{PROVE} --seq 7"), EXPORT.to_owned()] {
        bench.fails(&line, 3, "AUDIT_CORRUPT");
    }
    bench.ok(&format!("{RECEIPT} --call-id b1 --log 1"));
}
