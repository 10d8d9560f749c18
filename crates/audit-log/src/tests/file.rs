use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use countersign_core::ToolId;

use super::{decision, session};
use crate::tail::MAX_LINE_BYTES;
use crate::*;

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.jsonl");
    (folder, path)
}

fn assert_refused_as(result: Result<u64, AuditError>, code: &str) {
    assert_eq!(result.unwrap_err().code(), code);
}

#[test]
fn the_sequence_continues_where_the_file_was_left() {
    let (_folder, path) = place();
    for sequence in 1..=5 {
        let sink = FileSink::open(&path).unwrap();
        assert_eq!(sink.record(&decision("c")).unwrap(), sequence);
    }
    assert_eq!(verify(&path).unwrap().records, 5);
}

#[test]
fn two_writers_never_have_one_file() {
    let (_folder, path) = place();
    let first = FileSink::open(&path).unwrap();
    assert!(matches!(FileSink::open(&path), Err(AuditError::Locked)));
    assert_eq!(first.record(&decision("c")).unwrap(), 1);
    drop(first);
    assert_eq!(FileSink::open(&path).unwrap().record(&decision("c")).unwrap(), 2);
}

#[test]
fn a_torn_last_record_is_cut_off_wherever_it_was_torn() {
    let (_folder, path) = place();
    let sink = FileSink::open(&path).unwrap();
    sink.record(&decision("first")).unwrap();
    let first = fs::read(&path).unwrap();
    sink.record(&decision("second")).unwrap();
    drop(sink);
    let both = fs::read(&path).unwrap();
    for kept in first.len()..both.len() {
        for zeros in [0, 1, 5_000] {
            let mut torn = both[..kept].to_vec();
            torn.resize(kept + zeros, 0);
            fs::write(&path, &torn).unwrap();
            let sink = FileSink::open(&path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), first);
            assert_eq!(sink.record(&decision("second")).unwrap(), 2);
            assert_eq!(fs::read(&path).unwrap(), both);
        }
    }
}

#[test]
fn a_torn_first_record_is_cut_off() {
    let (_folder, path) = place();
    FileSink::open(&path).unwrap().record(&decision("first")).unwrap();
    let whole = fs::read(&path).unwrap();
    for kept in 0..whole.len() {
        fs::write(&path, &whole[..kept]).unwrap();
        assert_eq!(FileSink::open(&path).unwrap().record(&decision("first")).unwrap(), 1);
        assert_eq!(fs::read(&path).unwrap(), whole);
    }
}

#[test]
fn a_file_that_is_no_record_is_refused_and_left_as_it_was() {
    let (_folder, path) = place();
    FileSink::open(&path).unwrap().record(&decision("c")).unwrap();
    let line = fs::read_to_string(&path).unwrap();
    for other in [
        "hello".into(),
        "hello\n".into(),
        "\n".into(),
        "\0\0\0\0".into(),
        "{\"seq\":1}\n".into(),
        format!("{line}hello"),
        format!("{line}\n"),
        format!("{line}{{\"seq\":3,\"type\":\""),
        format!("{line}{{}}\n"),
        line.replace("\"seq\":1,", "\"seq\":0,"),
        line.replace("\"seq\":1,", "\"seq\":18446744073709551615,"),
        line.replace("\"seq\":1,", "\"seq\":18446744073709551616,"),
        "x".repeat(3 * MAX_LINE_BYTES),
        format!("{line}{}\n", "x".repeat(3 * MAX_LINE_BYTES)),
    ] {
        fs::write(&path, &other).unwrap();
        assert_eq!(FileSink::open(&path).unwrap_err().code(), "AUDIT_CORRUPT");
        assert_eq!(fs::read_to_string(&path).unwrap(), other);
    }
}

#[test]
fn a_last_line_of_any_size_that_a_record_has_is_continued() {
    let (_folder, path) = place();
    let tools = |count| vec![ToolId::new(&"s".repeat(128), &"t".repeat(128)).unwrap(); count];
    for (sequence, count) in [(1, 20), (2, 28), (3, 200), (4, 3_500)] {
        let sink = FileSink::open(&path).unwrap();
        assert_eq!(sink.record(&Record::Session(session(tools(count)))).unwrap(), sequence);
    }
    let sink = FileSink::open(&path).unwrap();
    assert!(matches!(sink.record(&Record::Session(session(tools(4_000)))), Err(AuditError::TooLong)));
    assert_eq!(sink.record(&decision("a shorter one")).unwrap(), 5);
    assert_eq!(verify(&path).unwrap().records, 5);
}

#[test]
fn a_record_is_in_the_file_when_the_call_returns() {
    let (_folder, path) = place();
    let sink = FileSink::open(&path).unwrap();
    for n in 1..=3 {
        sink.record(&decision("c")).unwrap();
        assert_eq!(read_lines(&path).unwrap().count(), n);
    }
}

#[cfg(unix)]
#[test]
fn a_new_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = place();
    FileSink::open(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_folder_a_device_or_a_missing_folder_is_refused() {
    let (folder, path) = place();
    assert_eq!(FileSink::open(folder.path()).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    assert_eq!(FileSink::open(path.join("below")).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    #[cfg(target_os = "linux")]
    assert!(matches!(FileSink::open("/dev/null"), Err(AuditError::NotAFile)));
}

#[cfg(target_os = "linux")]
#[test]
fn disk_full_in_mid_record_poisons_the_sink() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let sink = FileSink::continuing(full, "/dev/full".into(), 0, 0);
    assert_refused_as(sink.record(&decision("c")), "AUDIT_WRITE");
    assert_refused_as(sink.record(&decision("c")), "AUDIT_POISONED");
    assert_refused_as(sink.record(&decision("c")), "AUDIT_POISONED");
}

#[cfg(target_os = "linux")]
#[test]
fn a_sync_error_poisons_the_sink() {
    // The null device takes every byte and cannot be synced.
    let null = OpenOptions::new().write(true).open("/dev/null").unwrap();
    let sink = FileSink::continuing(null, "/dev/null".into(), 0, 0);
    assert_refused_as(sink.record(&decision("c")), "AUDIT_WRITE");
    assert_refused_as(sink.record(&decision("c")), "AUDIT_POISONED");
}

#[test]
fn a_handle_that_cannot_be_written_poisons_the_sink_until_the_file_is_opened_anew() {
    let (_folder, path) = place();
    FileSink::open(&path).unwrap().record(&decision("c")).unwrap();
    let before = fs::read(&path).unwrap();
    let reader = File::open(&path).unwrap();
    let sink = FileSink::continuing(reader, path.clone(), before.len() as u64, 1);
    assert_refused_as(sink.record(&decision("c")), "AUDIT_WRITE");
    assert_refused_as(sink.record(&decision("c")), "AUDIT_POISONED");
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(FileSink::open(&path).unwrap().record(&decision("c")).unwrap(), 2);
}

#[test]
fn a_file_truncated_or_appended_to_by_others_poisons_the_sink() {
    for append in [false, true] {
        let (_folder, path) = place();
        let sink = FileSink::open(&path).unwrap();
        sink.record(&decision("c")).unwrap();
        let mut other = OpenOptions::new().append(true).open(&path).unwrap();
        if append {
            other.write_all(b"x\n").unwrap()
        } else {
            other.set_len(10).unwrap()
        }
        let before = fs::read(&path).unwrap();
        assert_refused_as(sink.record(&decision("c")), "AUDIT_CORRUPT");
        assert_refused_as(sink.record(&decision("c")), "AUDIT_POISONED");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[cfg(unix)]
#[test]
fn a_deleted_file_poisons_the_sink() {
    let (folder, path) = place();
    for linked in [false, true] {
        let sink = FileSink::open(&path).unwrap();
        sink.record(&decision("c")).unwrap();
        if linked {
            fs::hard_link(&path, folder.path().join("another name")).unwrap();
        }
        fs::remove_file(&path).unwrap();
        assert_refused_as(sink.record(&decision("c")), "AUDIT_REPLACED");
        assert_refused_as(sink.record(&decision("c")), "AUDIT_POISONED");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_was_moved_away_poisons_the_sink_even_when_it_comes_back() {
    let (folder, path) = place();
    let sink = FileSink::open(&path).unwrap();
    sink.record(&decision("c")).unwrap();
    let aside = folder.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    let before = fs::read(&aside).unwrap();
    assert_refused_as(sink.record(&decision("c")), "AUDIT_REPLACED");
    fs::rename(&aside, &path).unwrap();
    assert_refused_as(sink.record(&decision("c")), "AUDIT_POISONED");
    assert_eq!(fs::read(&path).unwrap(), before);
    drop(sink);
    assert_eq!(FileSink::open(&path).unwrap().record(&decision("c")).unwrap(), 2);
}

#[cfg(unix)]
#[test]
fn a_second_file_put_in_its_place_poisons_the_sink_and_is_left_as_it_is() {
    for same_bytes in [false, true] {
        let (folder, path) = place();
        let sink = FileSink::open(&path).unwrap();
        sink.record(&decision("c")).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, if same_bytes { fs::read(&path).unwrap() } else { Vec::new() }).unwrap();
        let before = fs::read(&other).unwrap();
        fs::rename(&other, &path).unwrap();
        assert_refused_as(sink.record(&decision("c")), "AUDIT_REPLACED");
        assert_refused_as(sink.record(&decision("c")), "AUDIT_POISONED");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[cfg(unix)]
#[test]
fn a_file_moved_away_and_opened_by_a_second_writer_has_one_writer_left() {
    let (folder, path) = place();
    let first = FileSink::open(&path).unwrap();
    first.record(&decision("c")).unwrap();
    fs::rename(&path, folder.path().join("aside")).unwrap();
    let second = FileSink::open(&path).unwrap();
    assert_refused_as(first.record(&decision("c")), "AUDIT_REPLACED");
    assert_eq!(second.record(&decision("c")).unwrap(), 1);
}

#[cfg(unix)]
#[test]
fn a_link_to_the_file_is_followed_until_it_leads_elsewhere() {
    let (folder, path) = place();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let sink = FileSink::open(&link).unwrap();
    assert_eq!(sink.record(&decision("c")).unwrap(), 1);
    fs::write(folder.path().join("other"), "").unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(folder.path().join("other"), &link).unwrap();
    assert_refused_as(sink.record(&decision("c")), "AUDIT_REPLACED");
}
