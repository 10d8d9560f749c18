use base64ct::{Base64, Encoding as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::audit_log::{FIRST, copy, log};
use crate::bench::Bench;
use crate::desk::open;

fn proof(bench: &Bench, line: &str) -> String {
    bench.ok(&format!("audit prove log --key log.vkey {line}"))
}

fn refused(bench: &Bench, verb: &str, proof: &str) {
    let run = bench.feed(&format!("merkle {verb}"), proof);
    assert_eq!(run.code, 3, "{run:?}");
}

/// Entry lines of the log's first segment.
fn entries(bench: &Bench) -> Vec<String> {
    bench.read(FIRST).lines().filter(|line| line.starts_with("{\"seq\":")).map(str::to_owned).collect()
}

fn leaf(line: &str) -> [u8; 32] {
    Sha256::digest([b"\0", line.as_bytes()].concat()).into()
}

#[test]
fn every_entry_has_a_verifiable_inclusion_proof() {
    let bench = open();
    log(&bench, "a", 3);
    let root = bench.verified()["root"].clone();
    for (seq, line) in (1..).zip(entries(&bench)) {
        let text = proof(&bench, &format!("--seq {seq}"));
        bench.feed("merkle verify-inclusion", &text).done();
        let mut told: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&told["leafIdx"], &told["treeSize"], &told["root"]), (&json!(seq - 1), &json!(9), &root));
        assert_eq!(told["leafHash"], Base64::encode_string(&leaf(&line)));
        told["leafHash"] = json!(Base64::encode_string(&leaf("{}")));
        refused(&bench, "verify-inclusion", &told.to_string());
        assert_eq!(bench.ok(&format!("audit prove log --key log.vkey --seq {seq} --json")), text);
    }
    assert_eq!(entries(&bench).len(), 9);
    let small = proof(&bench, "--seq 2 --size 3");
    assert!(bench.feed("merkle verify-inclusion", &small).done().contains("the tree of 3"));
    for wrong in [
        "--seq 0",
        "--seq 10",
        "--seq 3 --size 2",
        "--seq 1 --size 10",
        "--from 0",
        "--from 10",
        "--from 5 --to 4",
    ] {
        bench.fails(&format!("audit prove log --key log.vkey {wrong}"), 1, "AUDIT_NO_SUCH_SIZE");
    }
    for (wrong, said) in [
        ("prove log --seq 0", "numbers of entries and sizes start at 1"),
        ("prove log --seq 10", "number 10 requested, the log has 9"),
        ("prove log --seq 3 --size 2", "number 3 requested, the log has 2"),
        ("prove log --from 18446744073709551615", "number 18446744073709551615 requested, the log has 9"),
        ("prove log --from 1 --to 10", "number 10 requested, the log has 9"),
        ("prove log --from 0 --to 8", "numbers of entries and sizes start at 1"),
        ("receipt log --seq 0", "numbers of entries and sizes start at 1"),
        ("receipt log --seq 10", "number 10 requested, the log has 9"),
    ] {
        let run = bench.run(&format!("audit {wrong} --key log.vkey"));
        assert_eq!(run.err, format!("error AUDIT_NO_SUCH_SIZE: `log`: {said}\n"), "{wrong}");
    }
    for wrong in ["", "--seq 1 --from 1", "--size 3", "--to 3", "--seq 1 --to 3"] {
        bench.fails(&format!("audit prove log --key log.vkey {wrong}"), 2, "USAGE");
    }
    bench.fails("audit prove log --seq 1", 2, "USAGE");
}

#[test]
fn a_log_is_proved_to_have_only_grown() {
    let bench = open();
    log(&bench, "a", 1);
    let (before, old) = (bench.verified()["root"].clone(), bench.ok("audit checkpoint log --key log.vkey"));
    log(&bench, "b", 2);
    let text = proof(&bench, "--from 5");
    bench.feed("merkle verify-consistency", &text).done();
    let mut told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&told["size1"], &told["size2"], &told["root1"]), (&json!(5), &json!(12), &before));
    assert_eq!(told["root2"], bench.verified()["root"]);
    assert!(old.starts_with(&format!("example.com/log\n5\n{}\n\n", before.as_str().unwrap())), "{old}");
    told["root1"] = told["root2"].clone();
    refused(&bench, "verify-consistency", &told.to_string());
    for sizes in ["--from 1 --to 3", "--from 3 --to 7", "--from 12 --to 12"] {
        bench.feed("merkle verify-consistency", &proof(&bench, sizes)).done();
    }
    let kept = bench.run("audit checkpoint log --key log.vkey --json").value();
    assert_eq!(kept["note"], bench.ok("audit checkpoint log --key log.vkey"));
    assert_eq!((&kept["size"], &kept["root"]), (&json!(12), &bench.verified()["root"]));
}

#[test]
fn receipt_verifies_without_the_log() {
    let bench = open();
    log(&bench, "a", 2);
    let receipt = "audit receipt log --key log.vkey";
    let text = bench.ok(&format!("{receipt} --call-id a-refused"));
    assert_eq!(bench.ok(&format!("{receipt} --call-id a-refused --json")), text);
    assert_eq!(
        bench.ok(&format!("{receipt} --call-id a-refused -o refused")),
        "receipt of entry 6 in refused\n"
    );
    assert_eq!(bench.read("refused"), text);
    bench.fails(&format!("{receipt} --seq 1 --out refused"), 1, "FILE_EXISTS");
    bench.ok(&format!("{receipt} --seq 4 -o accepted"));
    bench.ok(&format!("{receipt} --seq 1 -o session"));
    std::fs::rename(bench.path("log"), bench.path("gone")).unwrap();

    let shown = bench.ok("audit verify-receipt refused --key log.vkey");
    assert!(shown.starts_with("entry 6 of example.com/log, under its checkpoint of 7\n"), "{shown}");
    assert!(shown.contains("a-refused") && shown.contains("reject UNDISCLOSED_TOOL"), "{shown}");
    let told = bench.run("audit verify-receipt refused --key log.vkey --json").value();
    assert_eq!((&told["seq"], &told["record"]["verdict"]), (&json!(6), &json!("reject")));
    assert_eq!(
        (&told["origin"], &told["record"]["call_id"]),
        (&json!("example.com/log"), &json!("a-refused"))
    );
    let shown = bench.ok("audit verify-receipt accepted --key log.vkey");
    assert!(
        shown.contains("a2 desk:search accept\n  session") && shown.contains("  registry   1\n"),
        "{shown}"
    );
    assert!(bench.ok("audit verify-receipt session --key log.vkey").contains("session  support-bot"));

    bench.ok("keys generate --kind log --origin example.com/log --out other.key --public-out other.vkey");
    bench.fails("audit verify-receipt refused --key other.vkey", 3, "NOTE_UNSIGNED");
    let text = text.into_bytes();
    for at in (0..text.len()).step_by(7).chain([text.len() - 1]) {
        let mut changed = text.clone();
        changed[at] ^= 1;
        bench.write("changed", &changed);
        let run = bench.run("audit verify-receipt changed --key log.vkey");
        assert_eq!(run.code, 3, "byte {at}: {run:?}");
    }
    bench.write("changed", &text[..text.len() - 2]);
    bench.fails("audit verify-receipt changed --key log.vkey", 3, "RECEIPT_MALFORMED");
    let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
    bench.write("pretty", serde_json::to_string_pretty(&value).unwrap());
    bench.fails("audit verify-receipt pretty --key log.vkey", 1, "RECEIPT_SPELLING");
    for behind in ["", "\n\n", "\r\n"] {
        bench.write("sent", [text.trim_ascii_end(), behind.as_bytes()].concat());
        bench.ok("audit verify-receipt sent --key log.vkey");
    }
    bench.fails("audit verify-receipt none --key log.vkey", 1, "FILE_MISSING");
    bench.fails("audit verify-receipt refused", 2, "USAGE");
}

#[test]
fn a_receipt_is_of_one_decision_and_of_no_other() {
    let bench = open();
    log(&bench, "a", 1);
    log(&bench, "a", 1);
    let receipt = "audit receipt log --key log.vkey";
    bench.fails(&format!("{receipt} --call-id a1"), 1, "AUDIT_SEVERAL_CALLS");
    let run = bench.run(&format!("{receipt} --call-id a1"));
    let rows = ["2 decisions on the call id", ": 2 (", "; 7 (", ", desk:search, accept)"];
    assert!(rows.iter().all(|row| run.err.contains(row)), "{run:?}");
    bench.fails(&format!("{receipt} --call-id none"), 1, "AUDIT_NO_SUCH_CALL");
    bench.fails(&format!("{receipt} --seq 0"), 1, "AUDIT_NO_SUCH_SIZE");
    bench.fails(&format!("{receipt} --seq 11"), 1, "AUDIT_NO_SUCH_SIZE");
    bench.fails(receipt, 2, "USAGE");
    bench.fails(&format!("{receipt} --seq 1 --call-id a1"), 2, "USAGE");
}

const EXPORT: &str = "audit export log --key log.vkey --tiles out/tiles";

#[test]
fn exported_tiles_hash_to_the_checkpoint() {
    let bench = open();
    log(&bench, "a", 2);
    let told = bench.run(&format!("{EXPORT} --json")).value();
    assert_eq!(
        (&told["size"], &told["files_written"], &told["files_kept"]),
        (&json!(7), &json!(3), &json!(0))
    );
    let note = bench.ok("audit checkpoint log --key log.vkey");
    assert_eq!(bench.read("out/tiles/checkpoint"), note);
    let lines = entries(&bench);
    let hashes: Vec<u8> = lines.iter().flat_map(|line| leaf(line)).collect();
    assert_eq!(std::fs::read(bench.path("out/tiles/tile/0/000.p/7")).unwrap(), hashes);
    assert!(bench.ok(EXPORT).contains("0 files written, 3 there already"));

    log(&bench, "b", 130);
    bench.ok(EXPORT);
    let lines = entries(&bench);
    assert_eq!(lines.len(), 270);
    let bundle = std::fs::read(bench.path("out/tiles/tile/entries/000")).unwrap();
    let mut rest = bundle.as_slice();
    for line in &lines[..256] {
        let (length, entry) = rest.split_at(2);
        let (entry, after) = entry.split_at(usize::from(u16::from_be_bytes([length[0], length[1]])));
        assert_eq!(entry, line.as_bytes());
        rest = after;
    }
    assert!(rest.is_empty());
    for name in ["tile/0/000", "tile/0/001.p/14", "tile/1/000.p/1", "tile/entries/001.p/14"] {
        assert!(bench.path("out/tiles").join(name).exists(), "{name}");
    }
    assert_eq!(bench.read("out/tiles/checkpoint"), bench.ok("audit checkpoint log --key log.vkey"));
}

/// Replaces the first occurrence of `from` in the first segment with a text of the same length.
fn swap(bench: &Bench, from: &str, to: &str) {
    bench.write(FIRST, bench.read(FIRST).replacen(from, to, 1));
}

#[test]
fn next_export_reads_no_entry_of_an_earlier_one() {
    let bench = open();
    log(&bench, "a", 130);
    bench.ok(EXPORT);
    log(&bench, "b", 1);
    // Only a check of the whole log finds it.
    swap(&bench, "\"a1\"", "\"x1\"");
    bench.fails("audit verify log --key log.vkey", 3, "AUDIT_CORRUPT");
    let told = bench.run(&format!("{EXPORT} --json")).value();
    assert_eq!((&told["files_kept"], &told["files_written"]), (&json!(3), &json!(3)), "{told}");
    assert_eq!(bench.read("out/tiles/checkpoint").lines().nth(1), Some("268"));

    // A missing tile is built again from its entries.
    std::fs::remove_file(bench.path("out/tiles/tile/0/000")).unwrap();
    bench.fails(EXPORT, 3, "AUDIT_CORRUPT");
    assert!(!bench.path("out/tiles/tile/0/000").exists());
    swap(&bench, "\"x1\"", "\"a1\"");
    assert!(bench.ok(EXPORT).contains(": 1 files written, "));
}

#[test]
fn changed_full_tile_is_named_by_the_next_export() {
    let bench = open();
    log(&bench, "a", 130);
    bench.ok(EXPORT);
    log(&bench, "b", 1);
    for name in ["tile/0/000", "tile/entries/000"] {
        let path = bench.path("out/tiles").join(name);
        let good = std::fs::read(&path).unwrap();
        let mut bad = good.clone();
        bad[9] ^= 1;
        std::fs::write(&path, bad).unwrap();
        let before = bench.read("out/tiles/checkpoint");
        let run = bench.run(EXPORT);
        assert!(run.code == 3 && run.err.starts_with("error TILES_CHANGED: `out/tiles"), "{run:?}");
        assert!(run.err.contains(&format!("`{name}`")), "{run:?}");
        assert_eq!(bench.read("out/tiles/checkpoint"), before);
        std::fs::write(&path, good).unwrap();
    }
    bench.ok(EXPORT);
}

#[test]
fn damaged_entry_is_not_exported() {
    let bench = open();
    log(&bench, "a", 130);
    swap(&bench, "\"a1\"", "\"x1\"");
    bench.fails(EXPORT, 3, "AUDIT_CORRUPT");
    assert!(!bench.path("out").exists(), "nothing is written");
}

#[test]
fn an_export_replaces_nothing_that_is_not_its_own() {
    let bench = open();
    log(&bench, "a", 1);
    copy(&bench.path("log"), &bench.path("old"));
    bench.fails("audit export log --key log.vkey", 2, "USAGE");
    bench.fails("audit export log --tiles out", 2, "USAGE");
    for no_folder in ["log.vkey", "log.vkey/tiles"] {
        let run = bench.run(&format!("audit export log --key log.vkey --tiles {no_folder}"));
        let said = "error FILE_UNWRITABLE: `log.vkey`: already exists, and is not a folder\n";
        assert_eq!((run.code, run.err.as_str()), (1, said), "{no_folder}");
    }
    std::fs::create_dir_all(bench.path("out/tiles/tile/0/000.p")).unwrap();
    bench.write("out/tiles/tile/0/000.p/5", "mine");
    let run = bench.run(EXPORT);
    assert!(run.code == 1 && run.err.starts_with("error FILE_EXISTS: "), "{run:?}");
    assert_eq!(bench.read("out/tiles/tile/0/000.p/5"), "mine");
    assert!(!bench.path("out/tiles/checkpoint").exists());
    bench.write("out/tiles/checkpoint", "hello\n");
    bench.fails(EXPORT, 3, "AUDIT_SIGNATURE");
    assert_eq!(bench.read("out/tiles/checkpoint"), "hello\n");
    std::fs::remove_dir_all(bench.path("out")).unwrap();

    // An older log does not replace the tiles that were published.
    log(&bench, "b", 1);
    bench.ok(EXPORT);
    std::fs::remove_dir_all(bench.path("log")).unwrap();
    copy(&bench.path("old"), &bench.path("log"));
    bench.fails(EXPORT, 3, "AUDIT_ROLLED_BACK");
    bench.write("file", "");
    bench.fails(&EXPORT.replace("out/tiles", "file"), 1, "FILE_UNWRITABLE");
}

/// Tiles inside the log's folder would publish the log itself, and would add foreign files to it.
#[test]
fn tiles_and_the_log_they_are_made_of_lie_apart() {
    let bench = open();
    log(&bench, "a", 1);
    std::fs::create_dir_all(bench.path("within/deeper")).unwrap();
    std::fs::rename(bench.path("log"), bench.path("within/log")).unwrap();
    let export = "audit export within/log --key log.vkey --tiles";
    for into in [
        "within/log",
        "within/log/",
        "./within/deeper/../log",
        "within/log/public",
        "within/log/public/..",
        "new/../within/log/tiles",
        "within",
        ".",
        "within/deeper/..",
    ] {
        bench.fails(&format!("{export} {into}"), 1, "TILES_FOLDER");
    }
    bench.fails(&format!("{export} {}", bench.path("within/log").display()), 1, "TILES_FOLDER");
    assert!(!bench.path("new").exists() && !bench.path("within/log/public").exists());
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("within/log", bench.path("link")).unwrap();
        bench.fails(&format!("{export} link"), 1, "TILES_FOLDER");
        bench.fails(&format!("{export} link/tiles"), 1, "TILES_FOLDER");
        bench.fails("audit export link --key log.vkey --tiles within", 1, "TILES_FOLDER");
    }
    for beside in ["within/logs", "within/deeper", "within/log/../tiles", "other/tiles"] {
        bench.ok(&format!("{export} {beside}"));
    }
    assert!(bench.path("other/tiles/checkpoint").exists());
}

#[test]
fn usage_error_of_prove_names_both_kinds_of_proof() {
    let bench = open();
    log(&bench, "a", 1);
    for nothing in ["", "--size 3", "--to 3"] {
        let run = bench.run(&format!("audit prove log --key log.vkey {nothing}"));
        assert!(run.code == 2 && run.err.contains("--seq <N>|--from <N>"), "{nothing}: {run:?}");
    }
}

/// Public keys of witnesses in a text: `name+id+key`.
#[cfg(feature = "witness")]
fn witness_keys(text: &str) -> Vec<&str> {
    text.split_whitespace().filter(|word| word.starts_with("witness.example+")).collect()
}

#[cfg(feature = "witness")]
#[test]
fn every_witness_key_in_an_example_is_one() {
    let page = include_str!("../../../../docs/witness.md");
    let help = Bench::new().ok("audit witness --help");
    for (text, there) in [(page, 2), (help.as_str(), 1)] {
        let keys = witness_keys(text);
        assert_eq!(keys.len(), there, "{text}");
        for key in keys {
            assert!(key.parse::<countersign_audit_log::WitnessKey>().is_ok(), "{key}");
        }
    }
}
