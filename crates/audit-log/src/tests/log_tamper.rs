//! Attacks on the record by an attacker who can write the folder.

#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use std::fs;

use super::decision;
use super::log_support::*;
use super::sim::SimDisk;
use crate::*;

const ONE: &str = "000000000001.jsonl";

/// Returns the bytes of a closed log with one segment of about 64 KiB, and its summary.
fn log_of_64_kib() -> (Vec<u8>, LogSummary) {
    let disk = SimDisk::new(1, 4_096);
    let log = Log::open_on(disk.clone(), options()).unwrap();
    for round in 0_u64.. {
        let size = 1 + round * 7 % 29;
        let submit = |n: u64| log.submit(&decision(&format!("call-{round}-{n}"))).unwrap();
        let batch: Vec<_> = (0..size).map(submit).collect();
        batch.into_iter().for_each(|pending| {
            pending.wait().unwrap();
        });
        if disk.bytes(ONE).len() >= 64 << 10 {
            break;
        }
    }
    drop(log);
    let summary = verify_disk(&disk, &key(), &[]).unwrap();
    assert_eq!(summary.tail_bytes, 0);
    (disk.bytes(ONE), summary)
}

/// Returns the finding in a log of one segment with these bytes; `None` if there is none.
fn found(bytes: Vec<u8>, known: &[Checkpoint]) -> Option<Finding> {
    let disk = SimDisk::new(1, 4_096);
    disk.put(ONE, bytes);
    match verify_disk(&disk, &key(), known) {
        Ok(summary) if summary.tail_bytes == 0 => None,
        Ok(_) => Some(Finding { code: "tail", place: None }),
        Err(error) => Some(Finding { code: error.code(), place: error.place() }),
    }
}

struct Finding {
    code: &'static str,
    place: Option<Place>,
}

/// Changes every `step`th byte in three ways.
fn change_bytes(step: usize, start: usize) {
    let (bytes, summary) = log_of_64_kib();
    let batch_of = |at: usize| {
        let before = bytes[..at].windows(15).rposition(|w| w == b"\n{\"checkpoint\":");
        before.map_or(0, |p| p + 1)
    };
    let last_batch = {
        let end = bytes.len() - 1;
        let commit = bytes[..end].iter().rposition(|b| *b == b'\n').unwrap();
        batch_of(commit - 1)
    };
    for at in (start..bytes.len()).step_by(step) {
        for change in [bytes[at] ^ 1, 0, b'\n'] {
            if change == bytes[at] {
                continue;
            }
            let mut changed = bytes.clone();
            changed[at] = change;
            let finding = found(changed, &[]).unwrap_or_else(|| panic!("byte {at} as {change} is not found"));
            if finding.code == "tail" {
                let begins = at == last_batch || at.is_multiple_of(512);
                let is_lost =
                    change == 0 && begins && (at + 1 == bytes.len() || (at + 1).is_multiple_of(512));
                assert!(is_lost, "byte {at} as {change} passes for what a crash left");
            } else {
                assert!(["AUDIT_CORRUPT", "AUDIT_SIGNATURE"].contains(&finding.code), "{}", finding.code);
                let place = finding.place.unwrap();
                // A line break after an object inside a line is noticed only by the bytes that follow it.
                assert!(place.byte <= at as u64 + 1, "byte {at} is named by {place}");
            }
            // A reader that has the last checkpoint finds more than a tail.
            if finding.code == "tail" {
                let mut changed = bytes.clone();
                changed[at] = change;
                assert_eq!(
                    found(changed, std::slice::from_ref(&summary.checkpoint)).unwrap().code,
                    "AUDIT_ROLLED_BACK"
                );
            }
        }
    }
}

#[test]
fn any_byte_changed_is_found_and_named_by_no_later_line() {
    change_bytes(97, 0);
}

#[test]
#[ignore = "takes a minute or two"]
fn every_byte_changed_in_three_ways_is_found() {
    std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| scope.spawn(move || change_bytes(2, half)));
        halves.into_iter().for_each(|half| half.join().unwrap());
    });
}

/// Cuts after every `step`th byte, and after every line.
fn cut(step: usize) {
    let (bytes, summary) = log_of_64_kib();
    let known = [summary.checkpoint];
    let (mut at_checkpoints, mut line) = (0, 0);
    for end in 0..bytes.len() {
        let ends_line = end > 0 && bytes[end - 1] == b'\n';
        if !ends_line && !end.is_multiple_of(step) {
            continue;
        }
        let start = if ends_line { line } else { end };
        let head = start == 0;
        let checkpoint = bytes[start..end].starts_with(b"{\"checkpoint\":");
        let finding = found(bytes[..end].to_vec(), &[]);
        if ends_line && (head || checkpoint) {
            assert!(finding.is_none(), "a cut at {end} leaves a log");
            at_checkpoints += 1;
        } else {
            let code = finding.unwrap_or_else(|| panic!("a cut at {end} is not found")).code;
            assert!(code == "tail" || (end < line.max(400) && code == "AUDIT_UNAVAILABLE"), "{end}: {code}");
        }
        let code = found(bytes[..end].to_vec(), &known).unwrap_or_else(|| panic!("a cut at {end}")).code;
        assert!(code == "AUDIT_ROLLED_BACK" || (end < 400 && code == "AUDIT_UNAVAILABLE"), "{end}: {code}");
        if ends_line {
            line = end;
        }
    }
    assert!(at_checkpoints > 8);
    assert!(found(bytes, &known).is_none());
}

#[test]
fn sampled_tail_cuts_are_found_with_a_kept_checkpoint() {
    cut(397);
}

#[test]
#[ignore = "takes a minute; run by name"]
fn every_tail_cut_is_found_with_a_kept_checkpoint() {
    cut(1);
}

fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|b| *b == b'\n').collect()
}

/// Swaps each two lines that are at most `reach` lines apart.
fn swap(reach: usize, step: usize) {
    let (bytes, _) = log_of_64_kib();
    let lines = lines(&bytes);
    for one in (0..lines.len()).step_by(step) {
        for other in one + 1..lines.len().min(one.saturating_add(reach)) {
            let mut swapped = lines.clone();
            swapped.swap(one, other);
            let code = found(swapped.concat(), &[]).unwrap_or_else(|| panic!("{one} and {other}")).code;
            assert_eq!(code, "AUDIT_CORRUPT", "{one} and {other}");
        }
    }
}

#[test]
fn lines_reordered_are_found() {
    swap(usize::MAX, 61);
    swap(3, 1);
}

#[test]
#[ignore = "takes a minute; run by name"]
fn every_swap_of_two_lines_is_found() {
    swap(usize::MAX, 1);
}

#[test]
fn a_record_removed_repeated_or_added_is_found_wherever_it_is() {
    let (bytes, _) = log_of_64_kib();
    let lines = lines(&bytes);
    let own = lines[1];
    for at in 0..lines.len() {
        let mut without = lines.clone();
        without.remove(at);
        let mut twice = lines.clone();
        twice.insert(at, lines[at]);
        let mut more = lines.clone();
        more.insert(at, own);
        for (how, changed) in [("removed", without), ("repeated", twice), ("added", more)] {
            if at == 1 && how == "added" {
                // The same as repeating the first record.
                continue;
            }
            let finding = found(changed.concat(), &[]);
            if how == "removed" && lines[at].starts_with(b"{\"checkpoint\":") && at + 1 < lines.len() {
                // The next checkpoint covers the same lines.
                assert!(finding.is_none(), "line {at} {how}");
            } else {
                assert!(finding.is_some(), "line {at} {how}");
            }
        }
    }
}

#[test]
fn a_line_rewritten_with_care_is_found_by_the_next_checkpoint() {
    let (_folder, path) = place();
    fill(&Log::open(&path, options()).unwrap(), 20, 5);
    let file = segment(&path, 1);
    let text = fs::read_to_string(&file).unwrap();
    let changed = text.replacen("\"verdict\":\"reject\"", "\"verdict\":\"accept\"", 1);
    assert_eq!(changed.len(), text.len());
    fs::write(&file, changed).unwrap();
    let error = verify_all(&path).unwrap_err();
    assert!(matches!(error, LogError::Root(Place { segment: 1, line: 2, .. })), "{error}");
    let error = Log::open(&path, options()).unwrap_err();
    assert_eq!(error.code(), "AUDIT_CORRUPT");
}

#[test]
fn a_segment_removed_added_renamed_or_cut_is_found() {
    let (_folder, path) = place();
    fill(&Log::open(&path, options().segment_bytes(2_000)).unwrap(), 30, 1);
    let mut names: Vec<u64> = fs::read_dir(&path)
        .unwrap()
        .filter_map(|e| e.unwrap().path().file_stem()?.to_str()?.parse().ok())
        .collect();
    names.sort_unstable();
    let (middle, last) = (names[names.len() / 2], *names.last().unwrap());
    let bytes = fs::read(segment(&path, middle)).unwrap();

    fs::remove_file(segment(&path, middle)).unwrap();
    assert_eq!(verify_all(&path).unwrap_err().code(), "AUDIT_CORRUPT");
    fs::write(segment(&path, middle + 1), &bytes).unwrap();
    assert_eq!(verify_all(&path).unwrap_err().code(), "AUDIT_CORRUPT");
    fs::remove_file(segment(&path, middle + 1)).unwrap();

    // Cut after each of its lines: the next segment then does not follow.
    let ends: Vec<_> = (1..bytes.len()).filter(|end| bytes[end - 1] == b'\n').collect();
    for end in ends {
        fs::write(segment(&path, middle), &bytes[..end]).unwrap();
        assert_eq!(verify_all(&path).unwrap_err().code(), "AUDIT_CORRUPT");
        assert_eq!(Log::open(&path, options()).unwrap_err().code(), "AUDIT_CORRUPT");
    }
    fs::write(segment(&path, middle), &bytes).unwrap();
    assert_eq!(verify_all(&path).unwrap().records, 30);
    for end in [0, 10, bytes.len() - 1] {
        fs::write(segment(&path, middle), &bytes[..end]).unwrap();
        assert_eq!(verify_all(&path).unwrap_err().code(), "AUDIT_CORRUPT");
    }
    fs::write(segment(&path, middle), &bytes).unwrap();
    fs::write(segment(&path, last + 7), &bytes).unwrap();
    assert_eq!(verify_all(&path).unwrap_err().code(), "AUDIT_CORRUPT");
    fs::write(segment(&path, last + 7), b"").unwrap();
    assert_eq!(verify_all(&path).unwrap_err().code(), "AUDIT_CORRUPT");
}

#[test]
fn line_of_zeros_is_damage() {
    let (bytes, summary) = log_of_64_kib();
    let lines = lines(&bytes);
    for (at, line) in lines.iter().enumerate() {
        let mut zeroed: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
        zeroed[at] = vec![0; line.len()];
        let finding = found(zeroed.concat(), &[]).unwrap();
        // At the end it looks as if the line had been cut.
        let is_last = at + 1 == lines.len();
        assert_eq!(finding.code, if is_last { "tail" } else { "AUDIT_CORRUPT" }, "line {at}");
        assert!(found(zeroed.concat(), std::slice::from_ref(&summary.checkpoint)).is_some());
    }
}

#[test]
fn foreign_bytes_behind_a_checkpoint_are_corrupt() {
    let (bytes, _) = log_of_64_kib();
    let seq = lines(&bytes).iter().filter(|line| line.starts_with(b"{\"seq\"")).count() + 1;
    let good = String::from_utf8(lines(&bytes)[1].to_vec()).unwrap();
    let due = good.replacen("\"seq\":1,", &format!("\"seq\":{seq},"), 1);
    let with = |rest: &str| {
        let finding = found([&bytes, rest.as_bytes()].concat(), &[]).unwrap();
        finding.code
    };
    assert_eq!(with(&due), "tail");
    for (rest, code) in [
        ("garbage", "AUDIT_CORRUPT"),
        ("garbage\n", "AUDIT_CORRUPT"),
        ("\n", "AUDIT_CORRUPT"),
        (good.as_str(), "AUDIT_CORRUPT"),
        (&format!("{due}{due}"), "AUDIT_CORRUPT"),
        (&format!("{due}x"), "AUDIT_CORRUPT"),
        ("{\"checkpoint\":\"x\"}\n", "AUDIT_CORRUPT"),
        (&"x".repeat(200_000), "AUDIT_CORRUPT"),
        ("{\"seq\":", "tail"),
    ] {
        assert_eq!(with(rest), code, "{:?}", rest.get(..40));
    }
}

#[test]
fn every_trouble_has_a_stable_code_and_one_plain_line() {
    let at = Place { segment: 1, line: 2, byte: 3, entry: 1 };
    let source = || CheckpointError::Malformed;
    for (error, code) in [
        (LogError::Io(std::io::Error::other("secret")), "AUDIT_UNAVAILABLE"),
        (LogError::Missing, "AUDIT_UNAVAILABLE"),
        (LogError::Malformed(at), "AUDIT_CORRUPT"),
        (LogError::TooLong(at), "AUDIT_CORRUPT"),
        (LogError::Sequence { at, expected: 4 }, "AUDIT_CORRUPT"),
        (LogError::Unfinished(at), "AUDIT_CORRUPT"),
        (LogError::Root(at), "AUDIT_CORRUPT"),
        (LogError::Gap(at), "AUDIT_CORRUPT"),
        (LogError::Signature { at, source: source() }, "AUDIT_SIGNATURE"),
        (LogError::Known(source()), "AUDIT_SIGNATURE"),
        (LogError::Fork { size: 1 }, "AUDIT_FORK"),
        (LogError::RolledBack { records: 1, known: 2 }, "AUDIT_ROLLED_BACK"),
        (LogError::Archived { first: 2, asked: 1 }, "AUDIT_ARCHIVED"),
        (LogError::NoSuchSize, "AUDIT_NO_SUCH_SIZE"),
    ] {
        assert_eq!(error.code(), code);
        let text = error.to_string();
        assert!(!text.contains("secret") && !text.contains('\n') && !text.contains("Error"), "{text}");
        assert_eq!(AuditError::from(error).code(), code);
    }
}
