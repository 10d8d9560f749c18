//! Archived segments of a log.

use serde_json::{Value, json};

use crate::audit_log::decide;
use crate::bench::{Bench, RECORD_OPTIONS as LOG};
use crate::desk::open;

/// Options for the smallest segment size that is allowed.
const SMALL: &str = "--record-segment 65536";

/// Names of the segments in a folder, in order.
fn segments(bench: &Bench, folder: &str) -> Vec<String> {
    let files = std::fs::read_dir(bench.path(folder)).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".jsonl")).collect();
    names.sort();
    names
}

#[test]
fn segments_have_the_size_that_was_set() {
    let bench = open();
    decide(&bench, "a", 300, SMALL);
    let all = segments(&bench, "log");
    assert!(all.len() > 1, "{all:?}");
    for name in all.split_last().unwrap().1 {
        let size = bench.path(&format!("log/{name}")).metadata().unwrap().len();
        assert!((65_536..2 * 65_536).contains(&size), "{name}: {size}");
    }
    bench.ok("audit verify log --key log.vkey --state log.state");
    for size in ["65535", "1073741825", "0", "64MiB", "-1"] {
        let run = bench.run(&format!(
            "check --registry reg.json --trust-root root.json --agent reader {LOG} --record-segment={size}"
        ));
        assert!(run.code == 2 && run.err.starts_with("error USAGE: "), "{size}: {run:?}");
    }
}

const ARCHIVE: &str = "audit archive log --key log.key --to archive";

/// Returns a log of several segments, and the number of the first entry in the last one.
fn filled() -> (Bench, u64) {
    let bench = open();
    decide(&bench, "a", 300, SMALL);
    let last = segments(&bench, "log").pop().unwrap();
    let last = last.trim_end_matches(".jsonl").parse().unwrap();
    (bench, last)
}

#[test]
fn archived_log_goes_on_without_its_oldest_segments() {
    let (bench, last) = filled();
    let before = segments(&bench, "log");
    let done = bench.run(&format!("{ARCHIVE} --before {last} --json")).value();
    assert_eq!((&done["first"], &done["last"]), (&json!(1), &json!(last - 1)), "{done}");
    assert_eq!(segments(&bench, "log"), before[before.len() - 1..]);
    assert_eq!(segments(&bench, "archive"), before[..before.len() - 1]);

    // The next two sessions continue the log.
    for name in ["b", "c"] {
        let run = decide(&bench, name, 1, "");
        assert_eq!((run.code, run.err.as_str()), (3, ""), "{run:?}");
    }
    let told = bench.ok("audit verify log --key log.vkey --state log.state");
    assert!(told.contains(&format!("1 to {} are not here", last - 1)), "{told}");
    let entry = bench.entries().into_iter().find(|entry| entry["type"] == "archived").unwrap();
    assert_eq!(
        (&entry["first"], &entry["last"], &entry["manifest"]),
        (&json!(1), &json!(last - 1), &done["manifest"]["sha256"])
    );
    let shown = bench.run("audit show log").out;
    assert!(shown.contains(&format!(" archived entries 1 to {}, manifest sha-256 ", last - 1)), "{shown}");
}

#[test]
fn archive_verifies_alone_or_with_its_log() {
    let (bench, last) = filled();
    bench.ok(&format!("{ARCHIVE} --before {last}"));
    let alone = bench.ok("audit verify archive --key log.vkey --complete");
    assert!(alone.starts_with(&format!("{} entries of example.com/log verified", last - 1)), "{alone}");
    bench.fails("audit verify log --key log.vkey --complete", 3, "AUDIT_INCOMPLETE");
    let all = bench.run("audit verify log --key log.vkey --archive archive --complete --json").value();
    assert_eq!(all["summary"]["first_here"], 1, "{all}");
    bench.fails("audit verify log --key log.vkey --archive .", 3, "AUDIT_SIGNATURE");
    // A changed archive does not verify.
    let name = format!("archive/{}", segments(&bench, "archive")[0]);
    let good = bench.read(&name);
    bench.write(&name, good.replacen("\"a1\"", "\"z1\"", 1));
    bench.fails("audit verify archive --key log.vkey", 3, "AUDIT_CORRUPT");
    bench.fails("audit verify log --key log.vkey --archive archive", 3, "AUDIT_CORRUPT");
}

#[test]
fn manifest_has_range_checkpoint_sums() {
    let (bench, last) = filled();
    let done = bench.run(&format!("{ARCHIVE} --before {last} --json")).value();
    let name = format!("archive-000000000001-{:012}.json", last - 1);
    assert_eq!(done["manifest"]["name"], name.as_str());
    let text = bench.read(&format!("archive/{name}"));
    let manifest: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(manifest["files"], done["files"]);
    assert_eq!(
        (&manifest["format"], &manifest["origin"], &manifest["first"], &manifest["last"]),
        (&json!("countersign-archive-1"), &json!("example.com/log"), &json!(1), &json!(last - 1))
    );
    let checkpoint = manifest["checkpoint"].as_str().unwrap();
    assert!(checkpoint.starts_with(&format!("example.com/log\n{}\n", last - 1)), "{checkpoint}");
    for file in manifest["files"].as_array().unwrap() {
        let bytes = std::fs::read(bench.path("archive").join(file["name"].as_str().unwrap())).unwrap();
        assert_eq!(file["bytes"], bytes.len());
        assert_eq!(file["sha256"], countersign_core::Digest::of(&bytes).to_string());
    }
}

#[test]
fn refused_archive_changes_nothing() {
    let (bench, last) = filled();
    let before = format!("--before {last}");
    bench.fails(&format!("{ARCHIVE} --before 2"), 1, "ARCHIVE_NOTHING");
    bench.fails(&format!("{ARCHIVE} --before 30d"), 1, "ARCHIVE_NOTHING");
    bench.fails(&format!("audit archive log --key log.key --to log/old {before}"), 1, "ARCHIVE_FOLDER");
    bench.fails(&format!("audit archive log --key log.key --to log {before}"), 1, "ARCHIVE_FOLDER");
    bench.fails(&format!("{ARCHIVE} --before soon"), 2, "USAGE");
    bench.ok("keys generate --kind log --origin example.com/log --out other.key");
    bench.fails(&format!("audit archive log --key other.key --to archive {before}"), 3, "AUDIT_SIGNATURE");
    bench.fails(&format!("{ARCHIVE} {before} --state none.state"), 1, "AUDIT_STATE");
    std::fs::rename(bench.path("log.state"), bench.path("aside.state")).unwrap();
    bench.fails(&format!("{ARCHIVE} {before}"), 1, "AUDIT_STATE");
    std::fs::rename(bench.path("aside.state"), bench.path("log.state")).unwrap();
    std::fs::create_dir(bench.path("archive")).unwrap();
    bench.write("archive/000000000001.jsonl", "another");
    bench.fails(&format!("{ARCHIVE} {before}"), 1, "ARCHIVE_CONFLICT");
    std::fs::remove_dir_all(bench.path("archive")).unwrap();
    let held = std::fs::File::open(bench.path("log/lock")).unwrap();
    held.lock().unwrap();
    bench.fails(&format!("{ARCHIVE} {before}"), 1, "AUDIT_LOCKED");
}

#[test]
fn checkpoint_before_the_archive_is_named_as_such() {
    let bench = open();
    decide(&bench, "a", 2, SMALL);
    bench.write("kept", bench.ok("audit checkpoint log --key log.vkey"));
    decide(&bench, "b", 300, SMALL);
    bench.ok(&format!("{ARCHIVE} --before 300"));
    bench.ok("audit verify archive --key log.vkey --checkpoint kept");
    let run = decide(&bench, "c", 1, "--record-checkpoint kept");
    assert!(run.err.starts_with("error AUDIT_ARCHIVED: `log`: the kept checkpoint is older "), "{run:?}");
}

#[test]
fn export_goes_on_behind_archived_segments() {
    let (bench, last) = filled();
    let export = "audit export log --key log.vkey --tiles tiles";
    bench.ok(export);
    bench.ok(&format!("{ARCHIVE} --before {last}"));
    decide(&bench, "b", 2, SMALL);
    bench.ok(export);
    assert_eq!(bench.read("tiles/checkpoint"), bench.ok("audit checkpoint log --key log.vkey"));
    bench.fails("audit export log --key log.vkey --tiles other", 1, "AUDIT_ARCHIVED");
}

#[test]
fn archive_is_known_to_both_states_beside_the_log() {
    let (bench, last) = filled();
    decide(&bench, "b", 1, "--record-state record.state");
    decide(&bench, "c", 1, "");
    bench.fails(&format!("{ARCHIVE} --before {last}"), 1, "AUDIT_STATE");
    let done = bench.run(&format!("{ARCHIVE} --before {last} --state log.state --json")).value();
    let other = done["other_states"][0].as_str().unwrap();
    assert!(done["state"] == "log.state" && other.ends_with("/record.state"), "{done}");
    for state in ["log.state", "record.state"] {
        let run = decide(&bench, "d", 1, &format!("--record-state {state}"));
        assert_eq!((run.code, run.err.as_str()), (3, ""), "{state}: {run:?}");
    }
}

#[test]
fn unreadable_neighbour_state_does_not_stop_an_archive() {
    let (bench, last) = filled();
    bench.write("record.state", "torn");
    bench.fails(&format!("{ARCHIVE} --before {last}"), 1, "AUDIT_STATE");
    let run = bench.run(&format!("{ARCHIVE} --before {last} --state log.state --json"));
    let done: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&done["state"], &done["other_states"]), (&json!("log.state"), &json!([])), "{run:?}");
    assert!(run.err.starts_with("warning AUDIT_STATE: `") && run.err.contains("record.state`"), "{run:?}");
    assert_eq!(run.err.lines().count(), 1, "{run:?}");
}
