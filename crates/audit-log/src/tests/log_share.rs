//! Several logs in one folder.

use std::fs;

use super::log_support::{key, options, place};
use super::{at, decision};
use crate::*;

fn number(text: &str) -> LogNumber {
    text.parse().unwrap()
}

#[test]
fn a_second_writer_gets_a_numbered_log() {
    let (_place, folder) = place();
    let (first, zero) = Log::open_shared(&folder, options()).unwrap();
    let (second, one) = Log::open_shared(&folder, options()).unwrap();
    assert_eq!((zero, one), (LogNumber::FIRST, number("1")));
    for log in [&first, &second] {
        assert_eq!(log.record(&decision("c")).unwrap(), 1);
    }
    assert_eq!(list_logs(&folder).unwrap(), [zero, one]);
    assert_eq!(second.key().origin().as_str(), "example.com/log/1");
    let derived = one.key(&key()).unwrap();
    assert_eq!(verify_log(folder.join("1"), &derived, &[]).unwrap().records, 1);
    assert!(verify_log(folder.join("1"), &key(), &[]).is_err(), "each has an origin of its own");
    assert_eq!(verify_log(&folder, &key(), &[]).unwrap().records, 1);
}

#[test]
fn a_number_is_used_again_once_it_is_free() {
    let (_place, folder) = place();
    let held = Log::open_shared(&folder, options()).unwrap();
    for records in 1..=3 {
        let (log, number) = Log::open_shared(&folder, options()).unwrap();
        assert_eq!((number.to_string().as_str(), log.record(&decision("c")).unwrap()), ("1", records));
    }
    drop(held);
    assert_eq!(Log::open_shared(&folder, options()).unwrap().1, LogNumber::FIRST);
    assert_eq!(list_logs(&folder).unwrap().len(), 2);
}

#[test]
fn a_numbered_log_leaves_the_folders_own_alone() {
    let (_place, folder) = place();
    let (_log, one) = Log::open_numbered(&folder, options()).unwrap();
    assert_eq!((one, list_logs(&folder).unwrap()), (number("1"), vec![number("1")]));
    assert_eq!(Log::open_shared(&folder, options()).unwrap().1, LogNumber::FIRST);
}

#[test]
fn a_kept_checkpoint_counts_for_the_log_of_its_origin() {
    let (_place, folder) = place();
    let (first, _) = Log::open_shared(&folder, options()).unwrap();
    let (second, _) = Log::open_shared(&folder, options()).unwrap();
    second.record(&decision("c")).unwrap();
    let kept = second.close().unwrap();
    drop(Log::open_numbered(&folder, options().known_checkpoint(&kept)).unwrap());
    fs::remove_file(folder.join("1/000000000001.jsonl")).unwrap();
    let gone = Log::open_numbered(&folder, options().known_checkpoint(&kept)).unwrap_err();
    assert_eq!((gone.log, gone.source.code()), (number("1"), "AUDIT_ROLLED_BACK"));
    drop(first);
    assert!(Log::open_shared(&folder, options().known_checkpoint(&kept)).is_ok(), "it is not the first's");
}

#[test]
fn a_numbered_log_is_verified_by_the_key_of_its_folder() {
    let (_place, folder) = place();
    drop(Log::open_numbered(&folder, options()).unwrap());
    let own = key_of_log(folder.join("1"), &key());
    assert_eq!(own, number("1").key(&key()).unwrap());
    assert_eq!(key_of_log(folder.join("1"), &own), own, "its own key is taken as it is");
    // A log of its own in a folder that merely has such a name.
    let (_other, other) = place();
    drop(Log::open(&other, options()).unwrap());
    fs::rename(&other, folder.join("2")).unwrap();
    assert_eq!(key_of_log(folder.join("2"), &key()), key());
}

#[test]
fn only_numbers_in_one_spelling_name_a_log() {
    let (_place, folder) = place();
    drop(Log::open_shared(&folder, options()).unwrap());
    for name in ["0", "01", "+1", "1025", "one", "1.old"] {
        assert!(name.parse::<LogNumber>().is_err(), "{name}");
        fs::create_dir_all(folder.join(name)).unwrap();
        let _ = fs::copy(folder.join("000000000001.jsonl"), folder.join(name).join("000000000001.jsonl"));
    }
    fs::create_dir(folder.join("3")).unwrap();
    assert_eq!(list_logs(&folder).unwrap(), [LogNumber::FIRST]);
}

#[test]
fn an_answer_is_a_record_of_its_own() {
    let tool = RecordedTool::new("desk", "refund");
    let digest = countersign_core::Digest::of(b"a");
    let by = "olga".parse().unwrap();
    let answer = AnswerRecord::new(at(7), "c1", tool, digest, AnswerVerdict::Approved, by);
    let json = serde_json::to_string(&Record::Answer(answer)).unwrap();
    let expected = format!(
        r#"{{"type":"answer","time":7,"call_id":"c1","tool":{{"server":"desk","name":"refund"}},"args":"{digest}","verdict":"approved","approver":"olga"}}"#
    );
    assert_eq!(json, expected);
}

#[test]
fn log_that_is_removed_meanwhile_is_not_listed() {
    let (_place, folder) = place();
    drop(Log::open_shared(&folder, options()).unwrap());
    let (begun, removed) = (folder.join("1"), folder.join("1"));
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let maker = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            fs::create_dir(&begun).unwrap();
            fs::write(begun.join("000000000001.jsonl"), "").unwrap();
            fs::remove_dir_all(&begun).unwrap();
        }
    });
    let listed: Result<Vec<_>, _> = (0..20_000).map(|_| list_logs(&folder)).collect();
    drop(stop);
    maker.join().unwrap();
    assert!(!removed.exists() && listed.unwrap().iter().all(|logs| logs[0] == LogNumber::FIRST));
}
