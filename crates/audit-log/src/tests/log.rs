#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "tests count with small numbers"
)]

use std::fs;

use super::log_support::*;
use super::{at, call_record, decision, hostile, session};
use crate::*;
use countersign_core::ToolId;
use countersign_keys::SigningKey;

const EACH: [Durability; 3] = [Durability::Every, Durability::Group, Durability::System];

#[test]
fn sequence_continues_across_reopens() {
    for durability in EACH {
        let (_folder, path) = place();
        for sequence in 1..=5 {
            let log = Log::open(&path, options().durability(durability)).unwrap();
            assert_eq!(log.record(&decision("c")).unwrap(), sequence);
        }
        let summary = verify_all(&path).unwrap();
        assert_eq!((summary.records, summary.tail_bytes, summary.segments), (5, 0, 1));
        assert_eq!(summary.checkpoints, 5);
        assert_eq!(Checkpoint::verify(&summary.note, &key()).unwrap(), summary.checkpoint);
    }
}

#[test]
fn record_is_readable_once_the_call_returns() {
    for durability in EACH {
        let (_folder, path) = place();
        let log = Log::open(&path, options().durability(durability)).unwrap();
        let records: Vec<_> = hostile("a\nb\u{1b}[2J\u{202e}\0").into_iter().collect();
        for (n, record) in records.iter().enumerate() {
            let seq = log.record(record).unwrap();
            assert_eq!(seq, n as u64 + 1);
            let read = calls(&path);
            assert_eq!(read.len(), n + 1);
            assert_eq!(read[n], (seq, record.clone()));
        }
        drop(log);
        assert_eq!(verify_all(&path).unwrap().records, records.len() as u64);
    }
}

#[test]
fn newline_or_ansi_in_a_tool_name_stays_on_one_line_of_the_log() {
    let (_folder, path) = place();
    let log = Log::open(&path, options()).unwrap();
    for text in ["a\nb", "\r\n{\"checkpoint\":\"x\"}\n", "\u{1b}[2J", "\u{202e}x", "a\u{2028}b", "\0"] {
        hostile(text).iter().for_each(|record| {
            log.record(record).unwrap();
        });
    }
    let bytes = fs::read_to_string(segment(&path, 1)).unwrap();
    assert!(bytes.lines().all(|line| !line.chars().any(countersign_core::is_hidden)));
    assert_eq!(verify_all(&path).unwrap().records, 6 * hostile("x").len() as u64);
}

#[test]
fn two_writers_never_have_one_log() {
    let (_folder, path) = place();
    let first = Log::open(&path, options()).unwrap();
    assert_eq!(Log::open(&path, options()).unwrap_err().code(), "AUDIT_LOCKED");
    assert_eq!(first.record(&decision("c")).unwrap(), 1);
    drop(first);
    assert_eq!(Log::open(&path, options()).unwrap().record(&decision("c")).unwrap(), 2);
}

#[test]
fn sequence_numbers_run_on_across_rotation_and_are_never_reused() {
    let (_folder, path) = place();
    for round in 0..6 {
        let log = Log::open(&path, options().segment_bytes(3_000)).unwrap();
        for n in 1..=10 {
            assert_eq!(log.record(&decision("c")).unwrap(), round * 10 + n);
        }
    }
    let summary = verify_all(&path).unwrap();
    assert_eq!(summary.records, 60);
    assert!(summary.segments > 5, "{}", summary.segments);
    let read = calls(&path);
    assert_eq!(read.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), (1..=60).collect::<Vec<_>>());
    let tree: countersign_merkle::MerkleTree =
        read_log(&path).unwrap().map(|entry| entry.unwrap().leaf()).collect();
    assert_eq!(tree.head(), *summary.checkpoint.head());
}

#[test]
fn log_verifies_without_its_archived_segments() {
    let (_folder, path) = place();
    let log = Log::open(&path, options().segment_bytes(3_000)).unwrap();
    fill(&log, 3, 1);
    let early = log.checkpoint().unwrap();
    fill(&log, 57, 1);
    let late = log.checkpoint().unwrap();
    drop(log);
    let root = verify_all(&path).unwrap().checkpoint;
    fs::remove_file(segment(&path, 1)).unwrap();
    let summary = verify_known(&path, &late).unwrap();
    assert!(summary.first_here > 3);
    assert_eq!(summary.checkpoint, root);
    assert_eq!(verify_known(&path, &early).unwrap_err().code(), "AUDIT_ARCHIVED");
    let log = Log::open(&path, options().known_checkpoint(late)).unwrap();
    assert_eq!(log.record(&decision("c")).unwrap(), 61);
    assert!(prove_inclusion(&path, &key(), 60, 60).is_ok());
    assert_eq!(prove_inclusion(&path, &key(), 1, 60).unwrap_err().code(), "AUDIT_ARCHIVED");
}

#[test]
fn records_in_flight_share_a_checkpoint() {
    let (_folder, path) = place();
    let log = Log::open(&path, options()).unwrap();
    let pending: Vec<_> = (0..100).map(|n| log.submit(&decision(&n.to_string())).unwrap()).collect();
    assert_eq!(log.head().size(), 0);
    for (n, pending) in pending.into_iter().enumerate().rev() {
        assert_eq!(pending.wait().unwrap(), n as u64 + 1);
    }
    let summary = verify_all(&path).unwrap();
    assert_eq!((summary.records, summary.checkpoints), (100, 1));
    let each = Log::open(path.with_extension("each"), options().durability(Durability::Every)).unwrap();
    let pending: Vec<_> = (0..10).map(|n| each.submit(&decision(&n.to_string())).unwrap()).collect();
    assert_eq!((each.head().size(), pending.len()), (10, 10));
    assert_eq!(verify_all(&path.with_extension("each")).unwrap().checkpoints, 10);
}

#[test]
fn a_record_whose_pending_is_dropped_is_kept_when_the_log_ends() {
    let (_folder, path) = place();
    let log = Log::open(&path, options()).unwrap();
    drop(log.submit(&decision("c")).unwrap());
    drop(log);
    assert_eq!(verify_all(&path).unwrap().records, 1);
}

#[test]
fn eight_threads_get_each_sequence_number_once() {
    for durability in EACH {
        let (_folder, path) = place();
        let log = Log::open(&path, options().durability(durability).segment_bytes(20_000)).unwrap();
        let mut given: Vec<u64> = std::thread::scope(|scope| {
            let work =
                |_| scope.spawn(|| (0..50).map(|_| log.record(&decision("c")).unwrap()).collect::<Vec<_>>());
            let workers: Vec<_> = (0..8).map(work).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
        });
        given.sort_unstable();
        assert_eq!(given, (1..=400).collect::<Vec<_>>());
        drop(log);
        assert_eq!(verify_all(&path).unwrap().records, 400);
    }
}

#[test]
fn a_batch_that_is_full_is_written_before_more_is_taken() {
    let (_folder, path) = place();
    let log = Log::open(&path, options()).unwrap();
    let tools = vec![ToolId::new(&"s".repeat(128), &"t".repeat(128)).unwrap(); 200];
    let large = Record::Session(session(tools));
    let pending: Vec<_> = (0..200).map(|_| log.submit(&large).unwrap()).collect();
    assert!(log.head().size() > 0);
    pending.into_iter().for_each(|pending| {
        pending.wait().unwrap();
    });
    let summary = verify_all(&path).unwrap();
    assert_eq!(summary.records, 200);
    assert!(summary.checkpoints >= 2);
}

#[test]
fn record_longer_than_a_bundle_is_refused() {
    let (_folder, path) = place();
    let log = Log::open(&path, options()).unwrap();
    let tools = vec![ToolId::new(&"s".repeat(128), &"t".repeat(128)).unwrap(); 300];
    assert_eq!(log.record(&Record::Session(session(tools))).unwrap_err().code(), "AUDIT_WRITE");
    assert_eq!(log.record(&decision("c")).unwrap(), 1);
    assert_eq!(verify_all(&path).unwrap().records, 1);
}

#[test]
fn time_going_back_is_reported_and_names_the_first_record() {
    let (_folder, path) = place();
    let log = Log::open(&path, options().segment_bytes(1_500)).unwrap();
    for millis in [5, 6, 4, 4, 9, 1] {
        let mut record = call_record("c");
        record.time = at(millis);
        log.record(&Record::Decision(record)).unwrap();
    }
    let summary = verify_all(&path).unwrap();
    assert_eq!((summary.time_went_back, summary.first_went_back), (2, Some(3)));
    assert_eq!((summary.first, summary.last), (Some(at(5)), Some(at(1))));
}

/// Returns the bytes unchanged for 0 zeros; otherwise with `zeros` more zeros, and with the sector before them lost
/// too, as far as the batch goes.
fn lost(bytes: &[u8], batch: usize, zeros: usize) -> Vec<u8> {
    let from = if zeros == 0 { bytes.len() } else { (bytes.len() / 512 * 512).max(batch) };
    let mut torn = bytes[..from].to_vec();
    torn.resize(bytes.len() + zeros, 0);
    torn
}

#[test]
fn cut_of_a_torn_tail_is_recorded() {
    let (_folder, path) = place();
    let log = Log::open(&path, options()).unwrap();
    fill(&log, 3, 1);
    drop(log);
    let file = segment(&path, 1);
    let whole = fs::read(&file).unwrap();
    let log = Log::open(&path, options()).unwrap();
    fill(&log, 4, 4);
    drop(log);
    let both = fs::read(&file).unwrap();
    for kept in (whole.len()..both.len() - 1).step_by(11) {
        for zeros in [0, 1, 5_000] {
            let torn = lost(&both[..kept], whole.len(), zeros);
            fs::write(&file, &torn).unwrap();
            assert_eq!(verify_all(&path).unwrap().tail_bytes, (torn.len() - whole.len()) as u64);
            let log = Log::open(&path, options().opened_at(at(77))).unwrap();
            let cut = &torn[whole.len()..];
            let next = log.record(&decision("next")).unwrap();
            assert_eq!(next, if cut.is_empty() { 4 } else { 5 });
            let read = calls(&path);
            if !cut.is_empty() {
                assert_eq!(read[3], (4, recovered(4, at(77), cut)));
                fs::remove_file(path.join("cut-4")).unwrap();
            }
            drop(log);
            assert_eq!(verify_all(&path).unwrap().tail_bytes, 0);
            assert!(fs::read(&file).unwrap().starts_with(&whole));
        }
    }
}

#[test]
fn torn_head_of_the_last_segment_is_rewritten() {
    let (_folder, path) = place();
    let log = Log::open(&path, options().segment_bytes(1_000)).unwrap();
    fill(&log, 9, 1);
    drop(log);
    let last = fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some());
    let last = last.max().unwrap();
    let whole = fs::read(&last).unwrap();
    let head = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    let before: u64 = last.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    for kept in (0..head).step_by(11) {
        for zeros in [0, 1, 5_000] {
            let torn = lost(&whole[..kept], 0, zeros);
            fs::write(&last, &torn).unwrap();
            let summary = verify_all(&path).unwrap();
            assert_eq!((summary.records, summary.tail_bytes), (before - 1, torn.len() as u64));
            let log = Log::open(&path, options().segment_bytes(1_000_000)).unwrap();
            let next = before + u64::from(!torn.is_empty());
            assert_eq!(log.record(&decision("c")).unwrap(), next);
            drop(log);
            assert_eq!(verify_all(&path).unwrap().records, next);
            if !torn.is_empty() {
                assert_eq!(calls(&path)[before as usize - 1].1, recovered(before, at(1_000), &torn));
                fs::remove_file(path.join(format!("cut-{before}"))).unwrap();
            }
        }
    }
}

#[test]
fn system_durability_keeps_the_whole_lines_of_a_tail() {
    let (_folder, path) = place();
    let log = Log::open(&path, options().durability(Durability::System).checkpoint_every(4)).unwrap();
    fill(&log, 6, 1);
    let bytes = fs::read(segment(&path, 1)).unwrap();
    drop(log);
    let summary = |path: &std::path::Path| {
        let summary = verify_all(path).unwrap();
        (summary.records, summary.checkpoints)
    };
    assert_eq!(summary(&path), (6, 2), "one at the count and one at the end");
    let torn = &bytes[..bytes.len() - 10];
    fs::write(segment(&path, 1), torn).unwrap();
    assert_eq!(summary(&path), (4, 1));
    let log = Log::open(&path, options().durability(Durability::System)).unwrap();
    assert_eq!(log.record(&decision("next")).unwrap(), 7, "five kept, and the record of the cut");
    drop(log);
    assert_eq!(summary(&path).0, 7);
    fs::write(segment(&path, 1), torn).unwrap();
    let log = Log::open(&path, options()).unwrap();
    assert_eq!(log.record(&decision("next")).unwrap(), 6, "nobody was told of the fifth");
}

#[test]
fn returned_checkpoint_covers_all_submitted_records() {
    for durability in EACH {
        let (_folder, path) = place();
        let log = Log::open(&path, options().durability(durability)).unwrap();
        assert_eq!(Checkpoint::verify(&log.checkpoint().unwrap(), &key()).unwrap().size(), 0);
        drop(log.submit(&decision("c")).unwrap());
        let note = log.checkpoint().unwrap();
        assert_eq!(Checkpoint::verify(&note, &key()).unwrap().head(), &log.head());
        assert_eq!(log.last_checkpoint(), note);
        assert_eq!(log.head().size(), 1);
        assert_eq!(log.close().unwrap(), note);
        verify_known(&path, &note).unwrap();
    }
}

#[test]
fn log_of_another_key_or_origin_is_not_opened() {
    let (_folder, path) = place();
    fill(&Log::open(&path, options()).unwrap(), 2, 1);
    let before = fs::read(segment(&path, 1)).unwrap();
    let other = LogOptions::new(origin(), SigningKey::from_seed([8; 32]));
    assert_eq!(Log::open(&path, other).unwrap_err().code(), "AUDIT_SIGNATURE");
    let other = LogOptions::new(countersign_tlog::note::KeyName::new("other").unwrap(), signing());
    assert_eq!(Log::open(&path, other).unwrap_err().code(), "AUDIT_SIGNATURE");
    assert_eq!(fs::read(segment(&path, 1)).unwrap(), before);
    let other = LogKey::new(origin(), SigningKey::from_seed([8; 32]).verifying_key());
    let foreign = Checkpoint::new(origin(), *verify_all(&path).unwrap().checkpoint.head());
    let note = foreign.sign(&SigningKey::from_seed([8; 32]));
    assert!(Checkpoint::verify(&note, &other).is_ok());
    assert_eq!(Log::open(&path, options().known_checkpoint(note)).unwrap_err().code(), "AUDIT_SIGNATURE");
}

#[test]
fn inclusion_and_consistency_are_proved_from_the_folder() {
    let (_folder, path) = place();
    let log = Log::open(&path, options().segment_bytes(2_000)).unwrap();
    let mut heads = Vec::new();
    for n in 0..23 {
        log.record(&decision(&n.to_string())).unwrap();
        heads.push(log.head());
    }
    let leaves: Vec<_> = read_log(&path).unwrap().map(|entry| entry.unwrap().leaf()).collect();
    for size in [1, 7, 8, 23_u64] {
        for seq in 1..=size {
            let proof = prove_inclusion(&path, &key(), seq, size).unwrap();
            proof.verify(&leaves[seq as usize - 1], &heads[size as usize - 1]).unwrap();
        }
        let proof = prove_consistency(&path, &key(), size, 23).unwrap();
        proof.verify(&heads[size as usize - 1], &heads[22]).unwrap();
    }
    for (seq, size) in [(0, 5), (6, 5), (1, 24)] {
        assert_eq!(prove_inclusion(&path, &key(), seq, size).unwrap_err().code(), "AUDIT_NO_SUCH_SIZE");
    }
    assert_eq!(prove_consistency(&path, &key(), 9, 8).unwrap_err().code(), "AUDIT_NO_SUCH_SIZE");
}

#[test]
fn a_folder_without_a_log_a_file_or_nothing_is_no_log() {
    let (folder, path) = place();
    assert_eq!(verify_all(&path).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    fs::write(&path, "x").unwrap();
    assert_eq!(verify_all(&path).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    assert_eq!(Log::open(&path, options()).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    assert_eq!(verify_all(folder.path()).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    assert_eq!(read_log(folder.path()).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    assert_eq!(Log::open(path.join("a").join("b"), options()).unwrap_err().code(), "AUDIT_UNAVAILABLE");
    fs::create_dir(segment(folder.path(), 1)).unwrap();
    assert_eq!(verify_all(folder.path()).unwrap_err().code(), "AUDIT_UNAVAILABLE");
}

#[cfg(unix)]
#[test]
fn a_new_log_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, path) = place();
    let _log = Log::open(&path, options()).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(&segment(&path, 1)), mode(&path.join("lock"))), (0o700, 0o600, 0o600));
}
