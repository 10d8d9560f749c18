use std::path::{Path, PathBuf};

use base64ct::{Base64, Encoding as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::bench::Bench;

/// `one`, `two` and `three` in Base64.
const THREE: &str = r#"["b25l","dHdv","dGhyZWU="]"#;
/// The same entries as lines.
const LINES: &str = "one\ntwo\nthree\n";

fn hash(prefix: u8, parts: &[&[u8]]) -> [u8; 32] {
    let whole: Vec<u8> =
        [[prefix].as_slice()].into_iter().chain(parts.iter().copied()).flatten().copied().collect();
    Sha256::digest(whole).into()
}

fn base64(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

#[test]
fn a_root_is_that_of_rfc_9162_however_the_entries_come() {
    let bench = Bench::new();
    let leaves = [b"one".as_slice(), b"two", b"three"].map(|entry| hash(0, &[entry]));
    let root = base64(&hash(1, &[&hash(1, &[&leaves[0], &leaves[1]]), &leaves[2]]));
    let expected = format!("3 {root}\n");
    assert_eq!(bench.feed("merkle root", THREE).done(), expected);
    assert_eq!(bench.feed("merkle root --lines -", LINES).done(), expected);
    assert_eq!(bench.feed("merkle root --lines -", LINES.trim_end()).done(), expected);
    bench.write("entries", LINES);
    assert_eq!(bench.ok("merkle root --lines entries"), expected);
    let told = bench.feed("merkle root --json", THREE).value();
    assert_eq!((&told["ok"], &told["size"], &told["root"]), (&json!(true), &json!(3), &json!(root)));
    assert_eq!(told["root_hex"].as_str().unwrap().len(), 64);

    let nothing = format!("0 {}\n", base64(&Sha256::digest(b"")));
    assert_eq!(bench.feed("merkle root", "[]").done(), nothing);
    assert_eq!(bench.feed("merkle root --lines -", "").done(), nothing);
    // An empty line is an entry, and a carriage return belongs to its entry.
    assert_eq!(bench.feed("merkle root --lines -", "\n").done(), bench.feed("merkle root", r#"[""]"#).done());
    assert_eq!(
        bench.feed("merkle root --lines -", "a\r\n").done(),
        bench.feed("merkle root", r#"["YQ0="]"#).done()
    );
}

#[test]
fn every_proof_that_is_made_holds_and_holds_for_nothing_else() {
    let bench = Bench::new();
    bench.write("entries", (0..7).map(|at| format!("entry {at}\n")).collect::<String>());
    for size in [1, 2, 5, 7] {
        for index in 0..size {
            let proof = bench.ok(&format!("merkle prove --lines entries --index {index} --size {size}"));
            let told = bench.feed("merkle verify-inclusion --json", &proof).value();
            assert_eq!(told, json!({"ok": true, "leafIdx": index, "treeSize": size}));
            let mut other: Value = serde_json::from_str(&proof).unwrap();
            other["leafHash"] = json!(base64(&[7; 32]));
            bench.fails_with(&["merkle", "verify-inclusion"], &other.to_string(), 3, "MERKLE_ROOT");
        }
        for old in 1..=size {
            let proof = bench.ok(&format!("merkle prove --lines entries --old-size {old} --size {size}"));
            let text = bench.feed("merkle verify-consistency", &proof).done();
            assert_eq!(text, format!("the tree of {size} goes on from that of {old}\n"));
            let mut other: Value = serde_json::from_str(&proof).unwrap();
            other["root1"] = json!(base64(&[7; 32]));
            bench.fails_with(&["merkle", "verify-consistency"], &other.to_string(), 3, "MERKLE_ROOT");
        }
    }
    // Without --size the proof is for the whole list, and --json does not change it.
    let whole = bench.ok("merkle prove --lines entries --index 6");
    assert_eq!(whole, bench.ok("merkle prove --json --lines entries --index 6 --size 7"));
}

#[test]
fn impossible_proof_request_is_refused() {
    let bench = Bench::new();
    bench.write("entries", LINES);
    for (options, code) in [
        ("--index 3", "MERKLE_NO_SUCH_LEAF"),
        ("--index 18446744073709551615", "MERKLE_NO_SUCH_LEAF"),
        ("--index 1 --size 1", "MERKLE_NO_SUCH_LEAF"),
        ("--index 0 --size 0", "MERKLE_NO_SUCH_LEAF"),
        ("--index 0 --size 4", "MERKLE_NO_SUCH_SIZE"),
        ("--old-size 0", "MERKLE_NO_SUCH_SIZE"),
        ("--old-size 4", "MERKLE_NO_SUCH_SIZE"),
        ("--old-size 2 --size 1", "MERKLE_NO_SUCH_SIZE"),
    ] {
        bench.fails(&format!("merkle prove --lines entries {options}"), 1, code);
    }
    for options in ["", "--index 0 --old-size 1", "--index -1", "--index x", "--size 3"] {
        bench.fails(&format!("merkle prove --lines entries {options}"), 2, "USAGE");
    }
}

#[test]
fn malformed_entries_have_a_code_for_their_fault() {
    let bench = Bench::new();
    for input in ["", "x", "{}", "[1]", "[[]]", r#"["YQ=="] x"#, "[\"YQ==\",]", "\u{feff}[]"] {
        bench.fails_with(&["merkle", "root"], input, 1, "MERKLE_INPUT");
    }
    // No padding, another alphabet, non-zero trailing bits, whitespace.
    for entry in ["YQ", "YQ=", "_-==", "YR==", " YQ==", "YQ==\\n"] {
        bench.fails_with(&["merkle", "root"], &format!("[\"{entry}\"]"), 1, "MERKLE_BASE64");
    }
    bench.fails("merkle root --lines nowhere", 1, "FILE_MISSING");
    bench.fails("merkle root --lines .", 1, "FILE_UNREADABLE");
    bench.fails_with(
        &["merkle", "root", "--lines", "-"],
        &"x".repeat((16 << 20) + 1),
        1,
        "MERKLE_ENTRY_TOO_LONG",
    );
    bench.fails_with(&["merkle", "root"], &format!("[\"{}\"]", "A".repeat(64 << 20)), 1, "FILE_TOO_LARGE");
}

#[test]
fn malformed_proof_input_is_not_echoed() {
    let bench = Bench::new();
    let inclusion: Value = serde_json::from_str(&bench.feed("merkle prove --index 2", THREE).done()).unwrap();
    let consistency: Value =
        serde_json::from_str(&bench.feed("merkle prove --old-size 2", THREE).done()).unwrap();
    let list = |proof: &Value, names: &[&str]| {
        let members = names.iter().map(|name| proof[*name].clone());
        Value::from_iter(members.chain([json!(null), json!(null)])).to_string()
    };
    let names = ["leafIdx", "treeSize", "root", "leafHash", "proof"];
    bench.fails_with(&["merkle", "verify-inclusion"], &list(&inclusion, &names), 1, "MERKLE_INPUT");
    let names = ["size1", "size2", "root1", "root2", "proof"];
    bench.fails_with(&["merkle", "verify-consistency"], &list(&consistency, &names), 1, "MERKLE_INPUT");
    for text in ["planted".to_owned(), "planted".repeat(10_000), "\u{1b}[2Jplanted".to_owned()] {
        for input in
            [json!({ &text: 1 }), json!(text), json!({"leafIdx": text, "size1": text}), json!([[text]])]
        {
            for verb in ["verify-inclusion", "verify-consistency", "root"] {
                let run = bench.feed(&format!("merkle {verb}"), &input.to_string());
                assert_eq!(run.code, 1, "{run:?}");
                assert!(
                    run.err.starts_with("error MERKLE_INPUT: ") && !run.err.contains("planted"),
                    "{run:?}"
                );
                assert!(run.err.len() < 120 && !run.err.contains("struct"), "{run:?}");
            }
        }
    }
}

#[test]
fn a_proof_is_read_strictly() {
    let bench = Bench::new();
    let inclusion = bench.feed("merkle prove --index 2", THREE).done();
    let consistency = bench.feed("merkle prove --old-size 2", THREE).done();
    for (verb, good) in [("verify-inclusion", &inclusion), ("verify-consistency", &consistency)] {
        let run = |input: &str, exit: i32, code: &str| bench.fails_with(&["merkle", verb], input, exit, code);
        for input in ["", "null", "[]", "x", "{}", "{\"proof\":[]}", &good.replace('{', "[")] {
            run(input, 1, "MERKLE_INPUT");
        }
        run(&good.replacen('{', r#"{"extra":1,"#, 1), 1, "MERKLE_INPUT");
        run(&good.replacen('{', r#"{"proof":[],"#, 1), 1, "MERKLE_INPUT");
        run(&format!("{good}{good}"), 1, "MERKLE_INPUT");
        run(&"x".repeat(10 << 20), 1, "FILE_TOO_LARGE");
        let with = |name: &str, value: Value| {
            let mut proof: Value = serde_json::from_str(good).unwrap();
            proof[name] = value;
            proof.to_string()
        };
        run(&with("proof", json!("x")), 1, "MERKLE_INPUT");
        run(&with("proof", json!(["!"])), 1, "MERKLE_BASE64");
        run(&with("proof", json!([""])), 3, "MERKLE_HASH_LENGTH");
        run(&with("proof", Value::Null), 3, "MERKLE_LENGTH");
        // Additional members of public vectors are ignored.
        let told = with("wantErr", json!(true)).replacen('{', r#"{"desc":["x"],"#, 1);
        bench.feed(&format!("merkle {verb}"), &told).done();
    }
    let big = |value: Value| {
        let mut proof: Value = serde_json::from_str(&inclusion).unwrap();
        proof["treeSize"] = value;
        proof.to_string()
    };
    bench.fails_with(&["merkle", "verify-inclusion"], &big(json!(u64::MAX)), 3, "MERKLE_TOO_LARGE");
    bench.fails_with(&["merkle", "verify-inclusion"], &big(json!(2)), 3, "MERKLE_INDEX");
    for size in [json!(-1), json!(1.5), json!("3"), Value::Null] {
        bench.fails_with(&["merkle", "verify-inclusion"], &big(size), 1, "MERKLE_INPUT");
    }
    let large = big(json!(3)).replace("\"treeSize\":3", "\"treeSize\":18446744073709551616");
    bench.fails_with(&["merkle", "verify-inclusion"], &large, 1, "MERKLE_INPUT");
}

#[test]
fn equal_sized_trees_need_equal_roots() {
    let bench = Bench::new();
    let run = |size: Value, roots: [&str; 2]| {
        let input =
            json!({"size1": size, "size2": size, "root1": roots[0], "root2": roots[1], "proof": null});
        bench.run_args(&["merkle", "verify-consistency", "--json"], &input.to_string())
    };
    let (a, b) = (base64(b"twelve bytes"), base64(b"eleven byte"));
    assert_eq!(run(json!(1), [&a, &a]).code, 0);
    assert_eq!(run(json!(1_u64 << 63), [&a, &a]).code, 0);
    for (size, roots, code) in [
        (json!(1), [a.as_str(), &b], "MERKLE_ROOT"),
        (json!(1), ["", ""], "MERKLE_HASH_LENGTH"),
        (json!(0), [&a, &a], "MERKLE_HASH_LENGTH"),
        (json!((1_u64 << 63) + 1), [&a, &a], "MERKLE_HASH_LENGTH"),
    ] {
        let run = run(size, roots);
        let told: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!((run.code, told["error"]["code"].as_str()), (3, Some(code)), "{run:?}");
    }
    let empty = base64(&Sha256::digest(b""));
    let told = run(json!(0), [&empty, &empty]);
    assert_eq!(told.code, 3, "from a tree without leaves nothing can be proved: {told:?}");
}

/// Returns the folder of public suites. Panics if the variable is unset: this test runs only on request.
fn suite() -> PathBuf {
    let folder = std::env::var_os("COUNTERSIGN_VECTORS")
        .expect("COUNTERSIGN_VECTORS names the folder of public suites");
    PathBuf::from(folder).join("merkle-rfc9162/testdata")
}

/// Returns all files below a folder, at any depth.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    files
}

#[test]
#[ignore = "needs the public suites, named by COUNTERSIGN_VECTORS"]
fn public_merkle_vectors_end_as_expected() {
    let bench = Bench::new();
    for (folder, verb) in [("inclusion", "verify-inclusion"), ("consistency", "verify-consistency")] {
        let (mut held, mut refused) = (0, 0);
        for file in files(&suite().join(folder)) {
            let text = std::fs::read_to_string(&file).unwrap();
            let run = bench.run_args(&["merkle", verb], &text);
            let wants_error = serde_json::from_str::<Value>(&text).unwrap()["wantErr"] == true;
            let expected = if wants_error { 3 } else { 0 };
            assert_eq!(run.code, expected, "{}: {run:?}", file.display());
            if wants_error { refused += 1 } else { held += 1 }
        }
        assert_eq!((held, refused), (6, 92), "{folder}");
    }
}
