use std::path::Path;

use super::{at, call_record, decision};
use crate::*;

fn written(folder: &Path, records: usize) -> (std::path::PathBuf, Vec<String>) {
    let path = folder.join("record.jsonl");
    let sink = FileSink::open(&path).unwrap();
    for n in 1..=records {
        sink.record(&decision(&format!("call-{n}"))).unwrap();
    }
    let lines = std::fs::read_to_string(&path).unwrap().lines().map(|line| format!("{line}\n")).collect();
    (path, lines)
}

#[test]
fn a_record_removed_added_repeated_or_reordered_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lines) = written(folder.path(), 4);
    assert_eq!(verify(&path).unwrap().records, 4);
    let changed: [(&str, Vec<&String>); 5] = [
        ("removed", vec![&lines[0], &lines[2], &lines[3]]),
        ("removed first", vec![&lines[1], &lines[2], &lines[3]]),
        ("repeated", vec![&lines[0], &lines[1], &lines[1], &lines[2]]),
        ("reordered", vec![&lines[0], &lines[2], &lines[1], &lines[3]]),
        ("added", vec![&lines[0], &lines[1], &lines[3], &lines[2], &lines[3]]),
    ];
    for (how, lines) in changed {
        std::fs::write(&path, lines.into_iter().map(String::as_str).collect::<String>()).unwrap();
        let error = verify(&path).unwrap_err();
        assert_eq!(error.code(), "AUDIT_CORRUPT", "{how}");
        assert!(matches!(error, ReadError::Sequence { .. }), "{how}");
    }
}

#[test]
fn a_line_that_is_no_record_is_found_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lines) = written(folder.path(), 3);
    for bad in ["\n", "{}\n", "[1]\n", "\u{0}\n", "{\"seq\":2}\n"] {
        std::fs::write(&path, format!("{}{bad}{}", lines[0], lines[2])).unwrap();
        assert!(matches!(verify(&path), Err(ReadError::Malformed { line: 2 })), "{bad:?}");
    }
    std::fs::write(&path, format!("{}{}", lines[0], "x".repeat(3 << 20))).unwrap();
    assert!(matches!(verify(&path), Err(ReadError::TooLong { line: 2 })));
    let mut read = read_lines(&path).unwrap();
    assert!(read.next().unwrap().is_ok());
    assert!(read.next().unwrap().is_err());
    assert!(read.next().is_none());
}

#[test]
fn a_torn_last_record_is_found_when_the_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lines) = written(folder.path(), 2);
    std::fs::write(&path, format!("{}{}", lines[0], lines[1].trim_end())).unwrap();
    let error = verify(&path).unwrap_err();
    assert!(matches!(error, ReadError::Torn { line: 2 }));
    assert_eq!(error.code(), "AUDIT_TORN");
}

#[test]
fn an_unfinished_line_is_torn_only_where_it_can_be_the_record_that_is_due() {
    let folder = tempfile::tempdir().unwrap();
    let (path, lines) = written(folder.path(), 2);
    let cut = |whole: usize, rest: &str| {
        let before: String = lines.iter().take(whole).map(String::as_str).collect();
        std::fs::write(&path, before + rest).unwrap();
        verify(&path).unwrap_err()
    };
    for (whole, rest) in [(0, "{\"seq\":1,\"ty"), (0, "{"), (1, "{\"seq\":2\0\0"), (1, "\0\0")] {
        assert!(matches!(cut(whole, rest), ReadError::Torn { .. }), "{whole} {rest:?}");
    }
    for (whole, rest) in [
        (0, "garbage"),
        (0, "{\"a\":1}"),
        (0, "\0\0"),
        (0, "{\"seq\":2,"),
        (1, "garbage"),
        (1, "{\"seq\":3,"),
    ] {
        assert!(matches!(cut(whole, rest), ReadError::Malformed { .. }), "{whole} {rest:?}");
        assert!(FileSink::open(&path).is_err(), "{whole} {rest:?}: what is continued and what is read agree");
    }
}

#[test]
fn time_going_back_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    let sink = FileSink::open(&path).unwrap();
    for millis in [5, 6, 4, 4, 9, 1] {
        let mut record = call_record("c");
        record.time = at(millis);
        sink.record(&Record::Decision(record)).unwrap();
    }
    let summary = verify(&path).unwrap();
    assert_eq!((summary.records, summary.time_went_back, summary.first_went_back), (6, 2, Some(3)));
    assert_eq!((summary.first, summary.last), (Some(at(5)), Some(at(1))));
}

#[test]
fn a_missing_file_or_a_folder_is_no_record() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(verify(folder.path()).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    assert_eq!(verify(folder.path().join("none")).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    std::fs::write(folder.path().join("empty"), "").unwrap();
    assert_eq!(verify(folder.path().join("empty")).unwrap(), Summary::default());
}
