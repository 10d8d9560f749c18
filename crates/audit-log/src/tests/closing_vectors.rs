//! Public vectors of closed folders, and of entries about logs.

use std::fs;

use serde_json::{Value, json};

use super::at;
use super::checkpoint::{ORIGIN, log_key, name, signing_key};
use super::log_vectors::{Files, case, files_of, log_in, write, written};
use crate::*;

/// Returns a closed folder with a log of several segments: sound, or with one bit of its first segment flipped.
fn closed(is_sound: bool) -> Files {
    closed_with(is_sound, &[])
}

/// As [`closed`], with more files of these names.
fn closed_with(is_sound: bool, more: &[&str]) -> Files {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("log");
    log_in(&folder, 1_000);
    for name in more {
        fs::write(folder.join(name), "x").unwrap();
    }
    if !is_sound {
        let path = folder.join("000000000001.jsonl");
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    let next = LogOptions::new(name("log.example/next"), signing_key()).dangerous_without_state();
    let done = retire_log(&folder, &signing_key(), next, RetireWhich::Any, at(9)).unwrap();
    assert_eq!(done.closing.first().unwrap().code.is_none(), is_sound);
    files_of(&done.folder)
}

fn changed(change: impl FnOnce(&mut Files)) -> Files {
    let mut files = closed(true);
    change(&mut files);
    files
}

fn of_closing(about: &str, expect: &str, files: &Files) -> Value {
    let mut case = case(about, &[], Err(expect), files);
    case["kind"] = json!("closing");
    case
}

pub(super) fn accepted() -> Vec<(&'static str, Value)> {
    let digest = countersign_core::Digest::of(b"x");
    let began = format!(
        r#"{{"seq":1,"type":"began","time":7,"previous":"log.example/before","closing":"{digest}"}}"#
    );
    let archived =
        format!(r#"{{"seq":1,"type":"archived","time":7,"first":1,"last":9,"manifest":"{digest}"}}"#);
    vec![
        ("closing", of_closing("a sound log that was closed", "ok", &closed(true))),
        ("closing_of_damage", of_closing("a damaged log that was closed", "ok", &closed(false))),
        (
            "log_in_place",
            case(
                "the first entry of a log in another one's place",
                &[],
                Ok(()),
                &written(&[&began], &signing_key()),
            ),
        ),
        (
            "log_with_archived",
            case("an entry about an archive", &[], Ok(()), &written(&[&archived], &signing_key())),
        ),
        (
            "closing_with_odd_names",
            of_closing(
                "a closed folder with names that have no sum",
                "ok",
                &closed_with(true, &["two\nlines", "back\\slash"]),
            ),
        ),
    ]
}

pub(super) fn rejected() -> Vec<(&'static str, Value)> {
    let first = "000000000001.jsonl";
    let corrupt = |about, change: fn(&mut Files)| of_closing(about, "AUDIT_CORRUPT", &changed(change));
    let other = countersign_keys::SigningKey::from_seed([8; 32]);
    vec![
        (
            "closing_missing",
            of_closing(
                "no closing note",
                "AUDIT_UNAVAILABLE",
                &changed(|files| drop(files.remove("closing"))),
            ),
        ),
        (
            "closing_file_changed",
            corrupt("a file changed", |files| files.get_mut("000000000001.jsonl").unwrap()[9] ^= 1),
        ),
        ("closing_file_gone", corrupt("a file is gone", |files| drop(files.remove("000000000001.jsonl")))),
        (
            "closing_file_added",
            corrupt("a file more", |files| drop(files.insert("more".to_owned(), vec![1]))),
        ),
        (
            "closing_sums_changed",
            corrupt("file and sum changed", |files| {
                let bytes = files.get_mut("000000000001.jsonl").unwrap();
                let before = countersign_core::Digest::of(bytes).to_string();
                bytes[9] ^= 1;
                let after = countersign_core::Digest::of(bytes).to_string();
                let sums = String::from_utf8(files["closing.sha256"].clone()).unwrap();
                files.insert("closing.sha256".to_owned(), sums.replace(&before, &after).into_bytes());
            }),
        ),
        ("closing_by_another", {
            let mut files = closed(true);
            let note = String::from_utf8(files["closing"].clone()).unwrap();
            let (text, _) = note.split_once("\n\n").unwrap();
            let note = countersign_tlog::note::sign(&format!("{text}\n"), &name(ORIGIN), &other).unwrap();
            files.insert("closing".to_owned(), note.into_bytes());
            assert!(files.contains_key(first));
            of_closing("signed by another key", "AUDIT_SIGNATURE", &files)
        }),
        ("closing_checkpoint", {
            let mut files = closed(true);
            let note = super::checkpoint::note(&super::checkpoint::tree(5), 5);
            files.insert("closing".to_owned(), note.into_bytes());
            of_closing("a checkpoint in the place of the note", "AUDIT_CORRUPT", &files)
        }),
        (
            "closing_odd_name_added",
            corrupt("a file more, of a name that has no sum", |files| {
                drop(files.insert("two\nlines".to_owned(), vec![1]));
            }),
        ),
    ]
}

/// Returns the verifier's result for a closed folder.
pub(super) fn judge(case: &Value) -> Result<ClosingNote, ClosingError> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &case["files"]);
    assert_eq!(case["key"], log_key().to_string());
    verify_closing(folder.path(), &log_key())
}
