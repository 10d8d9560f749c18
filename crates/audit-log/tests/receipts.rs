//! Making a receipt by call id takes little time and memory, whatever the size of the log, even if its oldest half is
//! archived.
//!
//! Run it in release: `cargo test --release -p countersign-audit-log --test receipts -- --ignored --nocapture`.
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    reason = "a test that cannot measure is to fail, and its numbers are small"
)]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use countersign_audit_log::{
    AuditSink as _, CallRecord, Durability, FolderDisk, Log, LogKey, LogOptions, LogProver, Receipt, Record,
    RecordedTool, Verdict,
};
use countersign_core::{AgentId, Digest, Principal, SessionId, Timestamp};
use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;

/// Set in a child process, to the folder of the log.
const FOLDER: &str = "COUNTERSIGN_LOG_FOLDER";

const RECORDS: u64 = 1_000_000;

#[test]
#[ignore = "takes a minute, and is to be run in release"]
fn receipt_of_a_million_records_is_quick_and_small() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    write(&log);
    let within_bounds = || {
        // The first run reads the log's files into memory.
        let (mut millis, mut bytes) = receipt_in_a_process_of_its_own(&log);
        for _ in 0..4 {
            let (now, most) = receipt_in_a_process_of_its_own(&log);
            (millis, bytes) = (millis.min(now), bytes.max(most));
        }
        writeln!(std::io::stdout(), "{millis} ms, {bytes} bytes").unwrap();
        assert!(millis < 50 && bytes < 32 << 20, "{millis} ms, {bytes} bytes");
    };
    within_bounds();
    let mut names: Vec<_> = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.retain(|path| path.extension().is_some_and(|kind| kind == "jsonl"));
    names.sort();
    for gone in names.iter().take(names.len() / 2) {
        std::fs::remove_file(gone).unwrap();
        std::fs::remove_file(gone.with_extension("side")).unwrap();
    }
    within_bounds();
}

fn write(folder: &Path) {
    let options = LogOptions::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32]));
    let log = Log::open(folder, options.durability(Durability::System)).unwrap();
    for at in 0..RECORDS {
        let (session, agent) = (SessionId::new("session-1").unwrap(), AgentId::new("support-bot").unwrap());
        let (time, tool) = (Timestamp::from_millis(at).unwrap(), RecordedTool::new("desk", "search"));
        let principal = Principal::new("alice@example.com").unwrap();
        let id = format!("call-{at}");
        let mut call = CallRecord::new(time, session, agent, principal, &id, tool, Verdict::Accept, 7);
        call.definition = Some(Digest::of(b"definition"));
        call.args = Some(Digest::of(b"arguments"));
        log.record(&Record::Decision(call)).unwrap();
    }
}

/// Returns the milliseconds that a process took for a receipt, and its peak memory.
fn receipt_in_a_process_of_its_own(folder: &Path) -> (u64, u64) {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "in_a_process_of_its_own", "--nocapture"])
        .env(FOLDER, folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    let line = said.lines().find_map(|line| line.split_once("took ")).unwrap().1;
    let (millis, bytes) = line.split_once(" with ").unwrap();
    (millis.parse().unwrap(), bytes.trim().parse().unwrap())
}

#[test]
#[ignore = "runs in a child process of the test above"]
fn in_a_process_of_its_own() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let start = Instant::now();
    let key = SigningKey::from_seed([7; 32]).verifying_key();
    let key = LogKey::new(KeyName::new("example.com/log").unwrap(), key);
    let mut prover = LogProver::open(FolderDisk::existing(&folder).unwrap(), &key, &[]).unwrap();
    let size = prover.checkpoint().size();
    let found = prover.decisions_on("call-765432", size).unwrap();
    let entry = prover.entry(found[0]).unwrap();
    let proof = prover.prove_inclusion(entry.seq(), size).unwrap();
    let receipt = Receipt::new(entry.line(), &proof, prover.note()).unwrap();
    assert_eq!(receipt.verify(&key).unwrap().sequence(), 765_433);
    let millis = start.elapsed().as_millis();
    writeln!(std::io::stdout(), "took {millis} with {}", peak()).unwrap();
}

/// Returns the peak memory of this process, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1_024
}
