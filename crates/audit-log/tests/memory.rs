//! Verifies, reads and searches logs in memory that does not grow with them: forty times as many entries take as much.
//!
//! Each log is read in its own process, whose peak memory the system reports (`VmHWM`).
#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    reason = "a test that cannot measure is to fail, and its numbers are small"
)]

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use countersign_audit_log::{
    AuditSink as _, CallRecord, Durability, FolderDisk, Log, LogKey, LogOptions, LogProver, Record,
    RecordedTool, Verdict, read_log, verify_log,
};
use countersign_core::{AgentId, Principal, SessionId, Timestamp};
use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;

/// Set in a child process, to the folder of the log to read.
const FOLDER: &str = "COUNTERSIGN_LOG_FOLDER";

#[test]
fn a_log_is_verified_in_memory_that_does_not_grow_with_it() {
    takes_as_much_for_many("verify_in_a_process_of_its_own");
}

#[test]
fn absent_call_is_searched_in_memory_that_does_not_grow() {
    takes_as_much_for_many("search_in_a_process_of_its_own");
}

fn takes_as_much_for_many(test: &str) {
    let folder = tempfile::tempdir().unwrap();
    let grown_by = |entries: u64| {
        let log = folder.path().join(entries.to_string());
        write(&log, entries);
        let (grown, verified) = in_a_process_of_its_own(test, &log);
        assert_eq!(verified, entries);
        (grown, bytes_of(&log))
    };
    let ((few, _), (many, bytes)) = (grown_by(1_000), grown_by(40_000));
    assert!(bytes > 16 << 20, "what is read is a log of some size: {bytes} bytes");
    assert!(many <= few + (1 << 20), "{many} bytes of memory for {bytes} of log, {few} for a short one");
}

fn options() -> LogOptions {
    LogOptions::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32]))
        .durability(Durability::System)
}

fn write(folder: &Path, entries: u64) {
    let log = Log::open(folder, options()).unwrap();
    for at in 0..entries {
        let (session, agent) = (SessionId::new("session-1").unwrap(), AgentId::new("support-bot").unwrap());
        let (time, tool) = (Timestamp::from_millis(at).unwrap(), RecordedTool::new("desk", "search"));
        let principal = Principal::new("alice@example.com").unwrap();
        let id = format!("call-{at}");
        let mut call = CallRecord::new(time, session, agent, principal, &id, tool, Verdict::Reject, 7);
        call.code = Some("ARGS_SCHEMA".into());
        call.reason = Some("x".repeat(250).as_str().into());
        log.record(&Record::Decision(call)).unwrap();
    }
}

fn bytes_of(folder: &Path) -> u64 {
    std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

/// Returns the growth of a process at its peak in that test, in bytes, and the number of entries that it found in the
/// log.
fn in_a_process_of_its_own(test: &str, folder: &Path) -> (u64, u64) {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", test, "--nocapture"])
        .env(FOLDER, folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    let line = said.lines().find_map(|line| line.split_once("grown by ")).unwrap().1;
    let (grown, verified) = line.split_once(" for ").unwrap();
    (grown.parse().unwrap(), verified.trim().parse().unwrap())
}

/// Runs in a child process, and prints its growth.
fn grow(read: impl FnOnce(&Path, &LogKey) -> u64) {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let key = SigningKey::from_seed([7; 32]).verifying_key();
    let key = LogKey::new(KeyName::new("example.com/log").unwrap(), key);
    let before = peak();
    let entries = read(folder.as_ref(), &key);
    let grown = peak().saturating_sub(before);
    let mut out = std::io::stdout();
    writeln!(out, "grown by {grown} for {entries}").unwrap();
}

#[test]
#[ignore = "runs in a child process of a test above"]
fn verify_in_a_process_of_its_own() {
    grow(|folder, key| {
        let summary = verify_log(folder, key, &[]).unwrap();
        let read = read_log(folder).unwrap().map(Result::unwrap).count() as u64;
        assert_eq!(summary.records, read);
        read
    });
}

#[test]
#[ignore = "runs in a child process of a test above"]
fn search_in_a_process_of_its_own() {
    grow(|folder, key| {
        let mut prover = LogProver::open(FolderDisk::existing(folder).unwrap(), key, &[]).unwrap();
        let size = prover.checkpoint().size();
        assert_eq!(prover.decisions_on("none", size).unwrap(), [0; 0]);
        size
    });
}

/// Returns the peak memory of this process, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1_024
}
