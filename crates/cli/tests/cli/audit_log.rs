use std::path::Path;

use serde_json::{Value, json};

use crate::bench::{Bench, RECORD_OPTIONS as LOG, Run};
use crate::desk::open;

const ORIGIN: &str = "example.com/log";
pub(crate) const CHECK: &str = "check --registry reg.json --trust-root root.json --agent support-bot";
/// Path of the first segment.
pub(crate) const FIRST: &str = "log/000000000001.jsonl";

/// Runs one session that accepts `calls` calls and refuses one. The call ids begin with `id`.
pub(crate) fn decide(bench: &Bench, id: &str, calls: u64, more: &str) -> Run {
    let accepted = |at| json!({"call_id": format!("{id}{at}"), "tool": "search", "args": {"id": at}});
    let refused = json!({"call_id": format!("{id}-refused"), "tool": "delete", "args": {}});
    let input: String = (1..=calls).map(accepted).chain([refused]).map(|line| format!("{line}\n")).collect();
    bench.feed(&format!("{CHECK} {LOG} {more}"), &input)
}

/// Runs [`decide`] and checks that recording raised no error. Writes one entry for the session, two for each call and one more.
pub(crate) fn log(bench: &Bench, id: &str, calls: u64) {
    let run = decide(bench, id, calls, "");
    assert_eq!((run.code, run.err.as_str()), (3, ""), "{run:?}");
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn show(bench: &Bench, line: &str) -> String {
    let run = bench.run(line);
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.starts_with("note: not verified"), "{run:?}");
    run.out
}

#[test]
fn decisions_are_in_a_log_that_verifies() {
    let bench = open();
    log(&bench, "a", 2);
    let told = bench.verified();
    assert_eq!((&told["records"], &told["segments"], &told["tail_bytes"]), (&json!(7), &json!(1), &json!(0)));
    assert_eq!((&told["origin"], &told["first_here"]), (&json!(ORIGIN), &json!(1)));
    let text = bench.ok("audit verify log --key log.vkey");
    assert!(text.starts_with("7 entries of example.com/log verified, in 1 segment, under "), "{text}");
    assert!(text.contains(told["root"].as_str().unwrap()) && text.contains("kept elsewhere"), "{text}");
    let public = bench.read("log.vkey");
    assert_eq!(bench.ok(&format!("audit verify log --key {}", public.trim_end())), text);

    let shown = show(&bench, "audit show log");
    assert_eq!(shown.lines().count(), 7, "{shown}");
    assert!(shown.contains("a1 desk:search accept") && shown.contains("a-refused"), "{shown}");
    assert_eq!(show(&bench, "audit show log --verdict reject").lines().count(), 1);
    let lines = show(&bench, "audit show log --json");
    for line in lines.lines() {
        assert!(bench.read(FIRST).contains(&format!("{line}\n")), "as it stands: {line}");
    }
    assert_eq!(
        show(&bench, "audit tail log -n 2 --json"),
        lines.split_inclusive('\n').skip(5).collect::<String>()
    );
    assert_eq!(
        show(&bench, "audit tail log -n 1 --verdict accept"),
        line_with(&shown, "a2 desk:search accept")
    );
    assert_eq!(show(&bench, "audit tail log"), shown);
    assert_eq!(bench.run("stats log --json").value()["total"]["accepted"], 2);
}

fn line_with(text: &str, part: &str) -> String {
    text.split_inclusive('\n').find(|line| line.contains(part)).unwrap().to_owned()
}

#[test]
fn the_tail_of_a_log_is_its_last_entries() {
    let bench = open();
    log(&bench, "a", 2);
    let shown = show(&bench, "audit show log");
    let last = shown.lines().last().unwrap();
    assert_eq!(show(&bench, "audit tail log -n 1"), format!("{last}\n"));
    assert_eq!(show(&bench, "audit tail log -n 0"), "");
    bench.fails("audit tail log -n 10001", 2, "USAGE");
    bench.fails("audit tail none", 1, "AUDIT_UNAVAILABLE");
    std::fs::create_dir(bench.path("noise")).unwrap();
    bench.write("noise/000000000001.jsonl", "hello\n");
    bench.fails("audit tail noise", 1, "AUDIT_CORRUPT");
}

#[test]
fn next_session_continues_the_log_in_every_durability() {
    let bench = open();
    let mut before = 0;
    // Synced entries get a checkpoint at once; under `system`, the log gets one at the session's end.
    for (at, when, more) in [(5, "every", 5), (10, "group", 5), (15, "system", 1)] {
        let run = decide(&bench, when, 1, &format!("--record-durability {when}"));
        assert_eq!((run.code, run.err.as_str()), (3, ""), "{run:?}");
        let told = bench.verified();
        assert_eq!((&told["records"], &told["tail_bytes"]), (&json!(at), &json!(0)), "{when}");
        let checkpoints = told["checkpoints"].as_u64().unwrap();
        assert_eq!(checkpoints - before, more, "{when}");
        before = checkpoints;
    }
}

#[test]
fn changed_byte_is_found_with_its_line() {
    let bench = open();
    log(&bench, "a", 2);
    let good = bench.read(FIRST);
    let line = 1 + good.lines().position(|line| line.contains("\"a-refused\"")).unwrap();
    let before = good.lines().take(line - 1).filter(|line| line.starts_with("{\"seq\"")).count();
    bench.write(FIRST, good.replace("\"a-refused\"", "\"b-refused\""));
    bench.fails("audit verify log --key log.vkey", 3, "AUDIT_CORRUPT");
    let run = bench.run("audit verify log --key log.vkey");
    assert!(
        run.err.contains(&format!("line {line} of 000000000001.jsonl (entry {}, ", before + 1)),
        "{run:?}"
    );
    for verb in ["checkpoint log", "prove log --seq 1", "receipt log --seq 1", "export log --tiles out"] {
        bench.fails(&format!("audit {verb} --key log.vkey"), 3, "AUDIT_CORRUPT");
    }
    assert!(!bench.path("out").exists());
    // `audit show` does not report the change: it verifies nothing.
    assert!(show(&bench, "audit show log").contains("b-refused"));
    let run = decide(&bench, "c", 1, "");
    assert!(run.code == 1 && run.err.starts_with("error AUDIT_CORRUPT: `log`: "), "{run:?}");
    assert_eq!(bench.read(FIRST), good.replace("\"a-refused\"", "\"b-refused\""));
    bench.write(FIRST, good);
    assert_eq!(bench.verified()["records"], 7);
}

#[test]
fn restored_older_log_is_found_by_a_kept_checkpoint() {
    let bench = open();
    log(&bench, "a", 1);
    copy(&bench.path("log"), &bench.path("old"));
    log(&bench, "b", 1);
    bench.write("kept", bench.ok("audit checkpoint log --key log.vkey"));
    let with_kept = "audit verify log --key log.vkey --checkpoint kept";
    assert!(bench.ok(with_kept).contains("goes on from 1 checkpoint kept elsewhere"));
    std::fs::remove_dir_all(bench.path("log")).unwrap();
    copy(&bench.path("old"), &bench.path("log"));
    bench.ok("audit verify log --key log.vkey");
    bench.fails(with_kept, 3, "AUDIT_ROLLED_BACK");
    bench.fails("audit checkpoint log --key log.vkey --checkpoint kept", 3, "AUDIT_ROLLED_BACK");
    let run = decide(&bench, "c", 1, "--record-checkpoint kept");
    assert!(run.code == 1 && run.err.starts_with("error AUDIT_ROLLED_BACK: "), "{run:?}");
    // The log that continues from there is another history.
    bench.forget_log_state();
    log(&bench, "c", 1);
    bench.ok("audit verify log --key log.vkey");
    bench.fails(with_kept, 3, "AUDIT_FORK");
    for (name, text) in
        [("noise", "hello\n".to_owned()), ("cut", bench.read("kept").replace("log\n10", "log\n11"))]
    {
        bench.write(name, text);
        bench.fails(&format!("audit verify log --key log.vkey --checkpoint {name}"), 3, "AUDIT_SIGNATURE");
    }
    bench.fails("audit verify log --key log.vkey --checkpoint none", 1, "FILE_MISSING");
    std::fs::remove_dir_all(bench.path("log")).unwrap();
    std::fs::create_dir(bench.path("log")).unwrap();
    bench.fails(with_kept, 3, "AUDIT_UNAVAILABLE");
}

#[test]
fn another_key_or_origin_is_refused() {
    let bench = open();
    log(&bench, "a", 1);
    bench.ok("keys generate --kind log --origin example.com/log --out other.key --public-out other.vkey");
    bench.write(
        "renamed.vkey",
        verifier_key(&bench.run("keys show log.key --origin other/log --json").value()),
    );
    for key in ["other.vkey", "renamed.vkey"] {
        bench.fails(&format!("audit verify log --key {key}"), 3, "AUDIT_SIGNATURE");
    }
    for log in [
        "--record-key other.key --record-origin example.com/log",
        "--record-key log.key --record-origin other/log",
    ] {
        let run = bench.run(&format!("{CHECK} --record log {log}"));
        assert!(run.code == 1 && run.err.starts_with("error AUDIT_SIGNATURE: "), "{run:?}");
    }
    assert_eq!(bench.verified()["records"], 5);
}

fn verifier_key(shown: &Value) -> String {
    shown["verifier_key"].as_str().unwrap().to_owned()
}

#[test]
fn path_without_a_log_is_refused() {
    let bench = open();
    std::fs::create_dir(bench.path("empty")).unwrap();
    bench.write("file", "");
    for path in ["empty", "none", "file"] {
        bench.fails(&format!("audit verify {path} --key log.vkey"), 1, "AUDIT_UNAVAILABLE");
        bench.fails(&format!("audit receipt {path} --key log.vkey --seq 1"), 1, "AUDIT_UNAVAILABLE");
    }
    bench.fails("audit show empty", 1, "AUDIT_UNAVAILABLE");
    bench.fails("audit tail empty", 1, "AUDIT_UNAVAILABLE");
    bench.fails("stats empty", 1, "AUDIT_UNAVAILABLE");
    bench.fails("audit show file", 1, "AUDIT_UNAVAILABLE");
    bench.fails("audit tail file", 1, "AUDIT_UNAVAILABLE");
    bench.fails("stats file", 1, "AUDIT_UNAVAILABLE");
    bench.fails("audit verify empty", 2, "USAGE");
    log(&bench, "a", 1);
    bench.fails("audit verify log", 2, "USAGE");
    bench.fails("audit verify file --checkpoint file", 2, "USAGE");
    bench.fails("audit verify empty --key none.vkey", 1, "FILE_MISSING");
    bench.fails("audit verify empty --key file", 1, "VERIFIER_KEY_MALFORMED");
    let key = bench.read("log.vkey");
    let cut = key.trim_end().replacen("log+", "log2+", 1);
    bench.fails(&format!("audit verify empty --key {cut}"), 1, "VERIFIER_KEY_ID");
    bench.write("cut.vkey", cut);
    bench.fails("audit verify empty --key cut.vkey", 1, "VERIFIER_KEY_ID");
    // A file in the place of a folder.
    bench.fails(&format!("{CHECK} {}", LOG.replace("--record log", "--record file")), 1, "AUDIT_UNAVAILABLE");
}

#[test]
#[cfg(target_os = "linux")]
fn a_log_and_its_key_may_have_names_that_are_no_text() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let bench = open();
    log(&bench, "a", 1);
    let [folder, key, registry] =
        [&b"l\xff\xfe"[..], b"k\xff", b"r\xff"].map(|name| bench.folder().join(OsStr::from_bytes(name)));
    std::fs::rename(bench.path("log"), &folder).unwrap();
    std::fs::rename(bench.path("log.vkey"), &key).unwrap();
    std::fs::rename(bench.path("reg.json"), &registry).unwrap();
    let ends = |mut command: std::process::Command| {
        let ended = command.arg("--key").arg(&key).output().unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    for verb in ["verify", "checkpoint", "receipt"] {
        let mut command = bench.command(&["audit", verb]);
        command.arg(&folder).args(if verb == "receipt" { &["--seq", "1"][..] } else { &[] });
        assert_eq!(ends(command), (Some(0), String::new()), "{verb}");
    }
    let mut command = bench.command(&["simulate", "--trust-root", "root.json", "--registry"]);
    command.arg(&registry).arg(&folder);
    assert_eq!(ends(command), (Some(0), String::new()));
    std::fs::write(&key, "no key").unwrap();
    let mut command = bench.command(&["audit", "verify"]);
    command.arg(&folder);
    let (code, err) = ends(command);
    assert!(code == Some(1) && err.starts_with("error VERIFIER_KEY_MALFORMED: "), "{err}");
}

#[test]
fn a_log_has_a_key_of_its_own_and_nothing_is_made_in_vain() {
    let bench = open();
    let fails = |options: &str, exit, code| {
        bench.fails(&format!("{CHECK} {options}"), exit, code);
        assert!(!bench.path("log").exists(), "{options}");
    };
    fails(&LOG.replace("log.key", "op.key"), 1, "KEY_FILE_KIND");
    bench.write("both.key", bench.read("op.key").replace("ed25519-signing", "ed25519-log"));
    #[cfg(unix)]
    bench.mode("both.key", 0o600);
    fails(&LOG.replace("log.key", "both.key"), 1, "RECORD_KEY_REUSED");
    bench.fails("registry sign draft.json --key log.key --out signed.json", 1, "KEY_FILE_KIND");
    fails(&LOG.replace("log.key", "gate.key"), 1, "KEY_FILE_KIND");
    fails(&LOG.replace("log.key", "none.key"), 1, "KEY_FILE_MISSING");
    fails(&format!("{LOG} --record-checkpoint none"), 1, "FILE_MISSING");
    bench.write("noise", "hello\n");
    fails(&format!("{LOG} --approval-key gate.key --spent ."), 1, "STORE_NOT_A_FILE");
    fails("--record log", 2, "USAGE");
    fails("--record log --record-key log.key", 2, "USAGE");
    fails("--record log --record-origin example.com/log", 2, "USAGE");
    fails("--record log --record-durability every", 2, "USAGE");
    fails("--record-key log.key --record-origin example.com/log", 2, "USAGE");
    fails(&LOG.replace("example.com/log", "a+b"), 2, "USAGE");
    fails(&format!("{LOG} --record-durability never"), 2, "USAGE");
    fails(&LOG.replace("--record log", "--record no/log"), 1, "AUDIT_UNAVAILABLE");
    let run = decide(&bench, "a", 1, "--record-checkpoint noise");
    assert!(run.code == 1 && run.err.starts_with("error AUDIT_SIGNATURE: "), "{run:?}");
}

#[test]
fn the_key_of_a_log_is_shown_as_notes_have_it() {
    let bench = open();
    let key = bench.read("log.vkey");
    assert!(key.starts_with("example.com/log+") && key.ends_with('\n'), "{key}");
    let shown = bench.run("keys show log.key --origin example.com/log --json").value();
    assert_eq!(verifier_key(&shown), key.trim_end());
    assert!(bench.ok("keys show log.key --origin example.com/log").contains(key.trim_end()));
    let shown = bench.run("keys show log.key --json").value();
    assert_eq!((&shown["kind"], &shown["verifier_key"]), (&json!("ed25519-log"), &Value::Null));
    let made = bench.run("keys generate --kind log --origin o --out o.key --json").value();
    assert_eq!(
        (&made["kind"], &made["origin"], &made["public_out"]),
        (&json!("log"), &json!("o"), &Value::Null)
    );
    assert!(verifier_key(&made).starts_with("o+"));
    bench.fails("keys generate --kind log --out p.key", 2, "USAGE");
    bench.fails("keys generate --kind log --origin a+b --out p.key", 2, "USAGE");
    bench.fails("keys generate --kind log --origin o --out p.key --id mine", 2, "USAGE");
    bench.fails("keys generate --kind hmac --origin o --out p.key", 2, "USAGE");
    bench.fails("keys generate --kind ed25519 --origin o --out p.key", 2, "USAGE");
    bench.fails("keys generate --kind log --origin o --out p.key --public-out log.vkey", 1, "FILE_EXISTS");
    for key in ["gate.key", "op.key", "op.pub"] {
        bench.fails(&format!("keys show {key} --origin o"), 2, "USAGE");
    }
}
