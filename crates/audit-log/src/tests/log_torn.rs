//! Lost pages and torn writes after the last checkpoint, as opposed to damage that only looks like them.

#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use std::ops::Range;

use super::log_support::*;
use super::sim::SimDisk;
use crate::*;

const ONE: &str = "000000000001.jsonl";
const EACH: [Durability; 3] = [Durability::Every, Durability::Group, Durability::System];

/// Returns the segment of a closed log whose batches have these numbers of records, and the range of each batch in it.
fn batches_of(records: &[u64], durability: Durability) -> (Vec<u8>, Vec<Range<usize>>) {
    let disk = SimDisk::new(1, 512);
    let log = Log::open_on(disk.clone(), options().durability(durability)).unwrap();
    let mut batches = Vec::new();
    for records in records {
        let start = disk.bytes(ONE).len();
        fill(&log, *records, *records);
        log.checkpoint().unwrap();
        batches.push(start..disk.bytes(ONE).len());
    }
    drop(log);
    (disk.bytes(ONE), batches)
}

fn on(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(1, 512);
    disk.put(ONE, bytes.to_vec());
    disk
}

/// Requires a verifier to find the damage, and no writer to cut or change it.
fn assert_is_damage(bytes: &[u8], durability: Durability, about: &str) {
    let code = |code: &str| ["AUDIT_CORRUPT", "AUDIT_SIGNATURE"].contains(&code);
    let disk = on(bytes);
    let error = verify_disk(&disk, &key(), &[]).expect_err(about);
    assert!(code(error.code()), "{about}: {error}");
    let error = Log::open_on(disk.clone(), options().durability(durability)).expect_err(about);
    assert!(code(error.code()), "{about}: {error}");
    assert!(disk.bytes(ONE) == bytes, "{about}: no byte was cut");
}

/// Requires the remains of a crash to be a tail for a verifier, and to be cut by the next writer.
fn assert_is_crash(bytes: &[u8], kept: usize, about: &str) {
    let disk = on(bytes);
    let summary = verify_disk(&disk, &key(), &[]).unwrap_or_else(|error| panic!("{about}: {error}"));
    assert_eq!(summary.tail_bytes, (bytes.len() - kept) as u64, "{about}");
    drop(Log::open_on(disk.clone(), options()).unwrap_or_else(|error| panic!("{about}: {error}")));
    assert!(disk.bytes(ONE).starts_with(&bytes[..kept]), "{about}");
    assert_eq!(verify_disk(&disk, &key(), &[]).unwrap().tail_bytes, 0, "{about}");
}

#[test]
fn nul_in_the_last_three_batches_is_damage() {
    for durability in EACH {
        let (bytes, batches) = batches_of(&[1, 1, 2, 1], durability);
        for at in batches[1].start..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] = 0;
            assert_is_damage(&changed, durability, &format!("{durability:?}: byte {at}"));
        }
    }
}

#[test]
fn bit_flipped_in_the_last_batch_is_damage() {
    let (bytes, batches) = batches_of(&[1, 4, 7], Durability::Group);
    for at in (batches[2].start..bytes.len()).step_by(3) {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        assert_is_damage(&changed, Durability::Group, &format!("byte {at}"));
    }
}

/// Flips every bit of the last newline: the line then looks as if it had been cut short.
#[test]
fn bit_flipped_in_the_last_newline_is_damage() {
    let (bytes, _) = batches_of(&[1, 4, 7], Durability::Group);
    for bit in 0..8 {
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1 << bit;
        assert_is_damage(&changed, Durability::Group, &format!("bit {bit}"));
    }
}

#[test]
fn zeros_between_two_boundaries_are_a_lost_page() {
    let (bytes, batches) = batches_of(&[1, 4, 7], Durability::Group);
    let last = batches.last().unwrap().clone();
    assert!(last.len() > 3 * 512, "the batch has several sectors");
    let edges: Vec<_> = (last.start..=last.end)
        .filter(|at| *at == last.start || *at == last.end || at.is_multiple_of(512))
        .collect();
    for (n, from) in edges.iter().enumerate() {
        for to in &edges[n + 1..] {
            let mut lost = bytes.clone();
            lost[*from..*to].fill(0);
            assert_is_crash(&lost, last.start, &format!("{from}..{to}"));
            // One byte more or less, on either side.
            for (from, to) in [(from + 1, *to), (from - 1, *to), (*from, to - 1), (*from, to + 1)] {
                // Zeros from the start of a line to the end count as if the file had been cut there.
                let is_cut = bytes[from - 1] == b'\n' && to == bytes.len();
                let is_page = edges.contains(&from) && edges.contains(&to);
                if from >= to || to > bytes.len() || is_cut || is_page {
                    continue;
                }
                let mut damaged = bytes.clone();
                damaged[from..to].fill(0);
                assert_is_damage(&damaged, Durability::Group, &format!("{from}..{to}"));
            }
        }
    }
}

#[test]
fn lost_page_before_a_synced_checkpoint_is_damage() {
    let (bytes, batches) = batches_of(&[1, 4, 7], Durability::Group);
    let before = &batches[1];
    let from = before.start;
    let to = from.next_multiple_of(512);
    assert!(to < before.end - 300, "the checkpoint of the batch stays");
    let mut lost = bytes.clone();
    lost[from..to].fill(0);
    assert_is_damage(&lost, Durability::Group, "a batch before the last");
}

#[test]
fn line_cut_short_is_a_torn_write() {
    let (bytes, batches) = batches_of(&[1, 4, 7], Durability::Group);
    let last = batches.last().unwrap();
    for end in (last.start + 1..last.end).rev().filter(|end| *end % 7 == 0 || *end + 9 > last.end) {
        assert_is_crash(&bytes[..end], last.start, &format!("cut at {end}"));
    }
}

#[test]
fn byte_behind_a_whole_line_is_damage() {
    let (bytes, _) = batches_of(&[1, 4, 7], Durability::Group);
    for byte in [b' ', b'\t', b'x', b'}', 0xff] {
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() = byte;
        assert_is_damage(&changed, Durability::Group, &format!("{byte} in the place of the last newline"));
    }
}

#[test]
fn nul_in_a_segment_of_its_head_alone_is_damage() {
    let disk = SimDisk::new(1, 512);
    drop(Log::open_on(disk.clone(), options()).unwrap());
    let head = disk.bytes(ONE);
    for at in 0..head.len() {
        for byte in [0, head[at] ^ 1] {
            let mut changed = head.clone();
            changed[at] = byte;
            assert_is_damage(&changed, Durability::Group, &format!("byte {at} as {byte}"));
        }
    }
}

/// No checkpoint covers these lines, although their agents were answered.
#[test]
fn nul_in_unsigned_lines_of_system_is_damage() {
    let disk = SimDisk::new(1, 512);
    let log = Log::open_on(disk.clone(), options().durability(Durability::System)).unwrap();
    fill(&log, 9, 2);
    let bytes = disk.bytes(ONE);
    let head = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for at in head..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] = 0;
        assert_is_damage(&changed, Durability::System, &format!("byte {at}"));
    }
    drop(log);
}

#[test]
fn unsigned_line_of_system_that_is_no_record_is_damage() {
    let disk = SimDisk::new(1, 512);
    let log = Log::open_on(disk.clone(), options().durability(Durability::System)).unwrap();
    fill(&log, 3, 1);
    let bytes = disk.bytes(ONE);
    drop(log);
    let fourth = "{\"seq\":4,\"type\":\"decision\",\"time\":1000}\n";
    assert_is_damage(&[&bytes, fourth.as_bytes()].concat(), Durability::System, "no record");
}
