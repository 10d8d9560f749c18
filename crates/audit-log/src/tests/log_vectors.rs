//! Public vectors of whole logs: the files of a folder, and the verifier's result.

#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use countersign_merkle::{Frontier, LeafHash};
use countersign_tlog::base64;
use serde_json::{Value, json};

use super::checkpoint::{ORIGIN, log_key, name, signing_key};
use super::receipt::records;
use super::{accepted as accepted_call, at, end};
use crate::segment::{Head, checkpoint_line};
use crate::*;

/// Files of a folder, by name.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

const FIRST: &str = "000000000001.jsonl";
const SECTOR: usize = 512;

/// Returns a log whose segments have at least `segment_bytes` bytes, with a checkpoint after each entry.
fn log(segment_bytes: u64) -> Files {
    let folder = tempfile::tempdir().unwrap();
    log_in(folder.path(), segment_bytes);
    let mut files = files_of(folder.path());
    files.retain(|name, _| name.ends_with(".jsonl"));
    files
}

/// Writes the log into a folder.
pub(super) fn log_in(folder: &Path, segment_bytes: u64) {
    let options = LogOptions::new(name(ORIGIN), signing_key()).segment_bytes(segment_bytes);
    let log = Log::open(folder, options.dangerous_without_state()).unwrap();
    for record in records() {
        log.record(&record).unwrap();
    }
}

/// Returns the files of a folder, except its lock.
pub(super) fn files_of(folder: &Path) -> Files {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files = files.filter(|name| name != "lock");
    files.map(|name| (name.clone(), fs::read(folder.join(name)).unwrap())).collect()
}

fn one() -> Files {
    log(1 << 20)
}

fn several() -> Files {
    let files = log(1_000);
    assert!(files.len() > 3, "{}", files.len());
    files
}

/// Returns the log of one segment, with its bytes changed by `change`.
fn changed(change: impl FnOnce(&mut Vec<u8>)) -> Files {
    let mut files = one();
    change(files.get_mut(FIRST).unwrap());
    files
}

/// Returns the log of one segment, with its lines changed by `change`.
fn relined(change: impl FnOnce(&mut Vec<String>)) -> Files {
    changed(|bytes| {
        let text = String::from_utf8(std::mem::take(bytes)).unwrap();
        let mut lines = text.split_inclusive('\n').map(str::to_owned).collect();
        change(&mut lines);
        *bytes = lines.concat().into_bytes();
    })
}

/// Returns a log in which one life left a call open, and the next one ended normally.
fn recovered() -> Files {
    let folder = tempfile::tempdir().unwrap();
    for record in [accepted_call("c"), end(EndReason::Client)] {
        let options = LogOptions::new(name(ORIGIN), signing_key()).opened_at(at(6_000));
        Log::open(folder.path(), options).unwrap().record(&record).unwrap();
    }
    let bytes = fs::read(folder.path().join(FIRST)).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains(",\"by\":\"recovery\"}"));
    [(FIRST.to_owned(), bytes)].into()
}

/// Returns a log whose first process could not record an answer.
fn after_outage() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let options = || LogOptions::new(name(ORIGIN), signing_key()).opened_at(at(6_000));
    let log = Log::open(folder.path(), options()).unwrap();
    log.record(&end(EndReason::Client)).unwrap();
    let approval = "token-1".parse().unwrap();
    log.note_unrecorded(&UnrecordedAnswer {
        time: at(5_000),
        code: "AUDIT_UNAVAILABLE",
        approval: Some(&approval),
        co_approvals: &[],
    });
    drop(log);
    drop(Log::open(folder.path(), options()).unwrap());
    let bytes = fs::read(folder.path().join(FIRST)).unwrap();
    assert!(String::from_utf8_lossy(&bytes).contains("\"type\":\"gap\""));
    [(FIRST.to_owned(), bytes)].into()
}

fn without(files: Files, place: usize) -> Files {
    let gone = files.keys().nth(place).cloned();
    files.into_iter().filter(|(name, _)| Some(name) != gone.as_ref()).collect()
}

/// Returns a log of these entries, written by hand, under a checkpoint signed by `signing`.
pub(super) fn written(entries: &[&str], signing: &countersign_keys::SigningKey) -> Files {
    let mut tree = Frontier::new();
    let note = |tree: &Frontier| Checkpoint::new(name(ORIGIN), tree.head()).sign(signing);
    let mut bytes = Head::new(&tree, &note(&tree)).to_line().unwrap();
    for entry in entries {
        tree.append(LeafHash::of(entry.as_bytes())).unwrap();
        bytes.extend_from_slice(entry.as_bytes());
        bytes.push(b'\n');
    }
    if !entries.is_empty() {
        bytes.extend(checkpoint_line(&note(&tree)).unwrap());
    }
    [(FIRST.to_owned(), bytes)].into()
}

/// Returns the note of the log when it had `size` entries.
fn kept(size: usize) -> String {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(folder.path(), LogOptions::new(name(ORIGIN), signing_key())).unwrap();
    records().iter().take(size).for_each(|record| {
        log.record(record).unwrap();
    });
    log.checkpoint().unwrap()
}

pub(super) fn case(about: &str, known: &[String], expect: Result<(), &str>, files: &Files) -> Value {
    let files: BTreeMap<_, _> = files.iter().map(|(name, bytes)| (name, base64::encode(bytes))).collect();
    let mut case = json!({
        "description": about, "kind": "log", "key": log_key().to_string(), "files": files, "expect": expect.err().unwrap_or("ok")
    });
    if !known.is_empty() {
        case["known"] = json!(known);
    }
    if expect.is_ok() {
        let summary = judge(&case).unwrap();
        let root = summary.checkpoint.root().to_string();
        for (name, value) in
            [("first", json!(summary.first_here)), ("size", json!(summary.records)), ("root", json!(root))]
        {
            case[name] = value;
        }
        case["tail"] = json!(summary.tail_bytes);
    }
    case
}

pub(super) fn accepted() -> Vec<(&'static str, Value)> {
    let next = format!("{:012}.jsonl", records().len() + 1);
    let ok = |about, files: Files| case(about, &[], Ok(()), &files);
    vec![
        ("log", ok("one segment", one())),
        ("log_of_several_segments", ok("several segments", several())),
        (
            "log_without_oldest_segments",
            ok("the oldest segments were archived", without(without(several(), 0), 0)),
        ),
        ("log_of_no_entries", ok("a head alone", written(&[], &signing_key()))),
        ("log_with_known_checkpoint", case("as it was at five entries", &[kept(5)], Ok(()), &one())),
        ("log_with_unsigned_entry", ok("the last checkpoint is missing", relined(|lines| drop(lines.pop())))),
        (
            "log_with_torn_line",
            ok("the last line was cut short", changed(|bytes| bytes.truncate(bytes.len() - 9))),
        ),
        (
            "log_with_lost_page",
            ok(
                "zeros from a sector to the end",
                changed(|bytes| {
                    let from = (bytes.len() - 1) / SECTOR * SECTOR;
                    bytes.iter_mut().skip(from).for_each(|byte| *byte = 0);
                }),
            ),
        ),
        (
            "log_with_torn_head",
            ok("the next segment was never begun", {
                let mut files = one();
                files.insert(next, b"{\"segment\":{\"fir".into());
                files
            }),
        ),
        (
            "log_with_unknown_type",
            ok(
                "an entry of a type to come",
                written(&[r#"{"seq":1,"type":"later","time":7,"of":{}}"#], &signing_key()),
            ),
        ),
        ("log_with_gap", ok("an outage, of which the state knew", after_outage())),
        ("log_with_recovered_outcome", ok("a call was left open, and then a session ended", recovered())),
    ]
}

pub(super) fn rejected() -> Vec<(&'static str, Value)> {
    let corrupt = |about, files: Files| case(about, &[], Err("AUDIT_CORRUPT"), &files);
    let entry = r#"{"seq":1,"type":"later","time":7}"#;
    let other = countersign_keys::SigningKey::from_seed([8; 32]);
    let foreign = Checkpoint::new(name(ORIGIN), super::checkpoint::tree(5).head()).sign(&signing_key());
    let swapped = |lines: &mut Vec<String>| lines.swap(1, 3);
    vec![
        ("log_missing", case("no segment", &[], Err("AUDIT_UNAVAILABLE"), &Files::new())),
        (
            "log_entry_changed",
            corrupt(
                "a refused call is said to be accepted",
                changed(|bytes| {
                    let text = String::from_utf8(std::mem::take(bytes)).unwrap();
                    *bytes = text.replacen(r#""verdict":"reject""#, r#""verdict":"accept""#, 1).into_bytes();
                }),
            ),
        ),
        ("log_entry_removed", corrupt("an entry is missing", relined(|lines| drop(lines.remove(3))))),
        (
            "log_entry_twice",
            corrupt("an entry stands twice", relined(|lines| lines.insert(3, lines[3].clone()))),
        ),
        ("log_entries_swapped", corrupt("two entries changed places", relined(swapped))),
        ("log_segment_missing", corrupt("a segment between two others is missing", without(several(), 1))),
        (
            "log_segment_unsigned",
            corrupt("a segment in the middle ends without a checkpoint", {
                let mut files = several();
                let bytes = files.values_mut().nth(1).unwrap();
                let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
                bytes.truncate(last + 1);
                files
            }),
        ),
        (
            "log_peaks_changed",
            case("a head goes on from another tree", &[], Err("AUDIT_FORK"), &{
                let mut files = several();
                let bytes = files.values_mut().nth(2).unwrap();
                let text = String::from_utf8(std::mem::take(bytes)).unwrap();
                let (before, peak) = text.split_once(r#""peaks":["#).unwrap();
                let (_, rest) = peak.split_at(2);
                let digit = if peak.starts_with(r#""0"#) { '1' } else { '0' };
                *bytes = format!(r#"{before}"peaks":["{digit}{rest}"#).into_bytes();
                files
            }),
        ),
        (
            "log_other_key",
            case("a checkpoint by another key", &[], Err("AUDIT_SIGNATURE"), &written(&[entry], &other)),
        ),
        (
            "log_nul_in_tail",
            corrupt(
                "a zero within the last batch",
                changed(|bytes| {
                    let at = bytes.len() - 40;
                    bytes[at] = 0;
                }),
            ),
        ),
        (
            "log_spaced_checkpoint",
            corrupt(
                "white space in a checkpoint's line",
                relined(|lines| {
                    lines[2] = lines[2].replacen(":", ": ", 1);
                }),
            ),
        ),
        (
            "log_behind_known",
            case(
                "fewer entries than a known checkpoint counts",
                &[kept(records().len())],
                Err("AUDIT_ROLLED_BACK"),
                &relined(|lines| lines.truncate(7)),
            ),
        ),
        (
            "log_beside_known",
            case("another history than a known checkpoint's", &[foreign], Err("AUDIT_FORK"), &one()),
        ),
        (
            "log_before_first",
            case(
                "a known checkpoint of before the first segment",
                &[kept(1)],
                Err("AUDIT_ARCHIVED"),
                &without(without(several(), 0), 0),
            ),
        ),
    ]
}

/// Returns a log whose last checkpoint is followed by an older one, as signed then.
pub(super) fn older_checkpoint() -> Vec<(&'static str, Value)> {
    let appended = changed(|bytes| bytes.extend(checkpoint_line(&kept(5)).unwrap()));
    vec![(
        "log_older_checkpoint",
        case("an older checkpoint at the end", &[], Err("AUDIT_CORRUPT"), &appended),
    )]
}

/// Returns the verifier's result for a vector.
pub(super) fn judge(case: &Value) -> Result<LogSummary, LogError> {
    let log: LogKey = case["key"].as_str().unwrap().parse().unwrap();
    let none = Vec::new();
    let known = case.get("known").map_or(&none, |known| known.as_array().unwrap());
    let known: Vec<_> =
        known.iter().map(|note| Checkpoint::verify(note.as_str().unwrap(), &log).unwrap()).collect();
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &case["files"]);
    verify_log(folder.path(), &log, &known)
}

pub(super) fn write(folder: &Path, files: &Value) {
    for (name, bytes) in files.as_object().unwrap() {
        fs::write(folder.join(name), base64::decode(bytes.as_str().unwrap()).unwrap()).unwrap();
    }
}
