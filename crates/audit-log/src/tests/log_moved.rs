//! Interference with a log's folder while the log is open.

use std::fs;

use super::log_support::*;
use super::{at, decision};
use crate::*;

#[cfg(unix)]
#[test]
fn missing_or_replaced_segment_refuses_until_it_is_back() {
    let (folder, path) = place();
    let log = Log::open(&path, options()).unwrap();
    log.record(&decision("1")).unwrap();
    let (file, aside) = (segment(&path, 1), folder.path().join("aside"));
    fs::rename(&file, &aside).unwrap();
    for _ in 0..3 {
        assert_eq!(log.record(&decision("2")).unwrap_err().code(), "AUDIT_REPLACED");
    }
    fs::copy(&aside, &file).unwrap();
    fs::write(&file, &fs::read(&file).unwrap()[..100]).unwrap();
    assert_eq!(log.record(&decision("2")).unwrap_err().code(), "AUDIT_CORRUPT");
    fs::rename(&aside, &file).unwrap();
    assert_eq!(log.record(&decision("2")).unwrap(), 2);
    drop(log);
    let summary = verify_all(&path).unwrap();
    assert_eq!((summary.records, summary.segments), (2, 2));
}

#[cfg(unix)]
#[test]
fn a_folder_put_in_its_place_is_not_written_by_two() {
    let (folder, path) = place();
    let first = Log::open(&path, options()).unwrap();
    first.record(&decision("1")).unwrap();
    fs::rename(&path, folder.path().join("aside")).unwrap();
    let second = Log::open(&path, options()).unwrap();
    second.record(&decision("1")).unwrap();
    for _ in 0..3 {
        assert_eq!(first.record(&decision("2")).unwrap_err().code(), "AUDIT_REPLACED");
    }
    assert_eq!(second.record(&decision("2")).unwrap(), 2);
}

#[test]
fn bytes_appended_by_others_are_cut_with_a_record() {
    let (_folder, path) = place();
    let log = Log::open(&path, options()).unwrap();
    log.record(&decision("1")).unwrap();
    let bytes = fs::read(segment(&path, 1)).unwrap();
    fs::write(segment(&path, 1), [&bytes, &b"more"[..]].concat()).unwrap();
    assert_eq!(log.record(&decision("2")).unwrap_err().code(), "AUDIT_CORRUPT");
    assert_eq!(log.record(&decision("2")).unwrap(), 3);
    assert_eq!(calls(&path)[1], (2, recovered(2, at(1_000), b"more")));
    fs::write(segment(&path, 2), "").unwrap();
    for _ in 0..3 {
        assert_eq!(log.record(&decision("3")).unwrap_err().code(), "AUDIT_CORRUPT");
    }
}
