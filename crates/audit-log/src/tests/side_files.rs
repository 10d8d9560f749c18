//! Side files give the same results as the whole log, whatever their condition.

#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use std::fs;
use std::path::{Path, PathBuf};

use countersign_merkle::{LeafHash, MerkleTree};
use proptest::prelude::*;

use super::decision;
use super::log_support::*;
use crate::*;

pub(super) fn small() -> LogOptions {
    options().segment_bytes(80_000).durability(Durability::System)
}

fn id(n: u64) -> String {
    format!("call-{n}")
}

/// Records the calls with these numbers.
pub(super) fn record(log: &Log, calls: std::ops::Range<u64>) {
    for n in calls {
        log.record(&decision(&id(n))).unwrap();
    }
}

/// Writes a log of several segments.
pub(super) fn log_of(records: u64) -> (tempfile::TempDir, PathBuf) {
    let (keep, folder) = place();
    let log = Log::open(&folder, small()).unwrap();
    record(&log, 1..records + 1);
    log.close().unwrap();
    (keep, folder)
}

pub(super) fn tree_of(folder: &Path) -> MerkleTree {
    read_log(folder).unwrap().map(|entry| entry.unwrap().leaf()).collect()
}

fn sides(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut sides: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|kind| kind == "side")).collect();
    sides.sort();
    sides
}

pub(super) fn segments(folder: &Path) -> Vec<u64> {
    crate::segment::list_segments(&FolderDisk::existing(folder).unwrap()).unwrap()
}

/// Proves a sample of everything in the folder, and returns the names of the rebuilt side files.
fn same_as(tree: &MerkleTree, folder: &Path) -> Vec<String> {
    let disk = FolderDisk::existing(folder).unwrap();
    let mut prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
    let (size, first) = (prover.checkpoint().size(), prover.first_here());
    assert_eq!(size, tree.size());
    for seq in (first..=size).step_by(97).chain([first, size]) {
        for at in [size, seq, (seq + size) / 2] {
            let proof = prover.prove_inclusion(seq, at).unwrap();
            assert_eq!(proof, tree.prove_inclusion_at(seq - 1, at).unwrap(), "{seq} of {at}");
            assert_eq!(prover.head_at(at).unwrap(), tree.head_at(at).unwrap());
        }
        assert_eq!(LeafHash::of(prover.entry(seq).unwrap().line()), tree.leaf(seq - 1).unwrap());
        assert_eq!(prover.decisions_on(&id(seq), size).unwrap(), [seq]);
        let grown = prover.prove_consistency(seq, size).unwrap();
        assert_eq!(grown, tree.prove_consistency_at(seq, size).unwrap());
    }
    prover
        .take_rebuilt()
        .into_iter()
        .map(|side| {
            assert!(side.failure.is_none(), "{side:?}");
            side.file
        })
        .collect()
}

#[test]
fn proofs_by_side_files_are_those_of_the_tree() {
    let (_keep, folder) = log_of(2_500);
    assert!(sides(&folder).len() > 5, "{:?}", sides(&folder));
    assert_eq!(same_as(&tree_of(&folder), &folder), [""; 0]);
}

#[test]
fn archived_segments_leave_every_proof_of_the_others() {
    let (_keep, folder) = log_of(2_500);
    let (tree, segments) = (tree_of(&folder), segments(&folder));
    for pair in segments.windows(2) {
        fs::remove_file(segment(&folder, pair[0])).unwrap();
        let _ = fs::remove_file(folder.join(crate::segment::side_name(pair[0])));
        assert_eq!(same_as(&tree, &folder), [""; 0]);
        let disk = FolderDisk::existing(&folder).unwrap();
        let mut prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
        assert_eq!(prover.first_here(), pair[1]);
        let last_gone = pair[1] - 1;
        let gone = prover.prove_inclusion(last_gone, 2_500);
        assert!(
            matches!(gone, Err(LogError::Archived { first, asked }) if first == asked && asked == last_gone)
        );
        assert!(prover.prove_consistency(last_gone, 2_500).is_ok(), "the head has its tree");
        let older = prover.prove_consistency(last_gone - 1, 2_500);
        assert!(matches!(older, Err(LogError::Archived { .. })));
    }
}

#[test]
fn log_of_few_entries_has_no_side_file() {
    let (_keep, folder) = place();
    let log = Log::open(&folder, options()).unwrap();
    record(&log, 1..256);
    log.checkpoint().unwrap();
    assert_eq!(sides(&folder).len(), 0);
    record(&log, 256..258);
    log.close().unwrap();
    assert_eq!(sides(&folder).len(), 1);
    assert_eq!(same_as(&tree_of(&folder), &folder), [""; 0]);
}

#[test]
fn writer_goes_on_in_the_side_file() {
    let (_keep, folder) = place();
    for n in 0..12 {
        let log = Log::open(&folder, small()).unwrap();
        record(&log, n * 211 + 1..(n + 1) * 211 + 1);
        assert!(log.rebuilt_sides().is_empty());
        drop(log);
        assert_eq!(same_as(&tree_of(&folder), &folder), [""; 0]);
    }
    let made: Vec<_> = sides(&folder).iter().map(|side| (side.clone(), fs::read(side).unwrap())).collect();
    assert!(made.len() > 5);
    for (side, bytes) in made {
        fs::remove_file(&side).unwrap();
        assert_eq!(same_as(&tree_of(&folder), &folder).len(), 1);
        assert!(fs::read(&side).unwrap() == bytes, "{}", side.display());
    }
}

#[cfg(unix)]
#[test]
fn side_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_keep, folder) = log_of(900);
    let side = sides(&folder).remove(0);
    let mode = || fs::metadata(&side).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(), 0o600);
    fs::remove_file(&side).unwrap();
    same_as(&tree_of(&folder), &folder);
    assert_eq!(mode(), 0o600);
}

/// Changes every side file in turn. All proofs stay the same, and the file is restored.
fn survives(change: impl Fn(&Path, &[u8])) {
    let (_keep, folder) = log_of(1_400);
    let tree = tree_of(&folder);
    for side in sides(&folder) {
        let bytes = fs::read(&side).unwrap();
        change(&side, &bytes);
        let name = side.file_name().unwrap().to_str().unwrap();
        assert_eq!(same_as(&tree, &folder), [name]);
        assert!(fs::read(&side).unwrap() == bytes, "{name}");
        assert_eq!(same_as(&tree, &folder), [""; 0]);
    }
}

#[test]
fn missing_side_file_is_made_anew() {
    survives(|side, _| fs::remove_file(side).unwrap());
}

#[test]
fn empty_side_file_is_made_anew() {
    survives(|side, _| fs::write(side, b"").unwrap());
}

#[test]
fn side_file_of_another_segment_is_made_anew() {
    let (_keep, other) = log_of(700);
    let other = fs::read(&sides(&other)[1]).unwrap();
    survives(|side, _| fs::write(side, &other).unwrap());
}

#[test]
fn side_file_of_another_log_is_made_anew() {
    let (_keep, folder) = place();
    let other = Log::open(&folder, small()).unwrap();
    record(&other, 9_000..10_400);
    other.close().unwrap();
    survives(|side, _| {
        fs::copy(folder.join(side.file_name().unwrap()), side)
            .or_else(|_| fs::write(side, b"").map(|()| 0))
            .unwrap();
    });
}

#[test]
fn short_side_file_is_completed() {
    let (_keep, folder) = log_of(1_400);
    let (tree, side) = (tree_of(&folder), sides(&folder).remove(0));
    let bytes = fs::read(&side).unwrap();
    for length in (0..bytes.len()).step_by(bytes.len() / 40).chain(1..70).chain(bytes.len() - 20..bytes.len())
    {
        fs::write(&side, &bytes[..length]).unwrap();
        assert_eq!(same_as(&tree, &folder).len(), 1, "{length} bytes");
        assert!(fs::read(&side).unwrap() == bytes, "{length} bytes");
    }
}

#[test]
fn side_file_with_bytes_behind_it_is_made_anew() {
    survives(|side, bytes| fs::write(side, [bytes, &[0; 24]].concat()).unwrap());
}

/// Requests everything in a log, so that every byte of its side files matters.
fn asks_for_all(folder: &Path, tree: &MerkleTree) -> usize {
    let disk = FolderDisk::existing(folder).unwrap();
    let mut prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
    for seq in 1..=tree.size() {
        assert_eq!(prover.prove_inclusion(seq, tree.size()).unwrap(), tree.prove_inclusion(seq - 1).unwrap());
        assert_eq!(prover.decisions_on(&id(seq), tree.size()).unwrap(), [seq]);
    }
    prover.take_rebuilt().len()
}

#[test]
fn wrong_byte_of_each_kind_changes_no_proof() {
    let (_keep, folder) = log_of(600);
    let (tree, side) = (tree_of(&folder), sides(&folder).remove(0));
    let bytes = fs::read(&side).unwrap();
    // Header, place, tag, node, list of calls and its length.
    let list = bytes.len() - 8 - 16 * 20;
    for at in [0, 30, 50, 64 + 7, 64 + 15, 64 + 16 + 15 + 1, 64 + 32 + 3, list, list + 9, bytes.len() - 1] {
        let mut wrong = bytes.clone();
        wrong[at] ^= 1;
        fs::write(&side, &wrong).unwrap();
        let rebuilt = asks_for_all(&folder, &tree);
        if rebuilt > 0 {
            assert!(fs::read(&side).unwrap() == bytes, "byte {at}");
        }
        fs::write(&side, &bytes).unwrap();
    }
}

#[test]
fn omitted_call_is_found_all_the_same() {
    let (_keep, folder) = log_of(1_400);
    let tree = tree_of(&folder);
    for side in sides(&folder) {
        let bytes = fs::read(&side).unwrap();
        let mut wrong = bytes.clone();
        // Remove every tag, both in the list of calls and in the places.
        let first: u64 = side.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        let (mut seq, mut at) = (first, 64);
        while seq < first + 200 {
            wrong[at + 8..at + 16].fill(0);
            at += 16 + 32 * usize::try_from((seq - 1).trailing_ones()).unwrap();
            seq += 1;
        }
        let listed = bytes.len() - 16 * 200;
        wrong[listed - 8..bytes.len() - 8].fill(0xff);
        fs::write(&side, &wrong).unwrap();
        let disk = FolderDisk::existing(&folder).unwrap();
        let mut prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
        for seq in first..first + 200 {
            assert_eq!(prover.decisions_on(&id(seq), tree.size()).unwrap(), [seq]);
        }
        assert_eq!(prover.take_rebuilt().len(), 1);
        assert!(fs::read(&side).unwrap() == bytes);
    }
}

#[test]
fn absent_call_is_answered_behind_a_full_verification() {
    let (_keep, folder) = log_of(600);
    let disk = FolderDisk::existing(&folder).unwrap();
    let mut prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
    assert_eq!(prover.decisions_on("none", 600).unwrap(), [0; 0]);
    assert_eq!(prover.decisions_on(&id(600), 599).unwrap(), [0; 0]);
    let path = segment(&folder, 1);
    let text = fs::read_to_string(&path).unwrap().replacen("call-3\"", "call-x\"", 1);
    fs::write(path, text).unwrap();
    let mut prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
    assert_eq!(prover.decisions_on(&id(500), 600).unwrap(), [500], "it lies in another place");
    assert_eq!(prover.decisions_on("call-3", 600).unwrap_err().code(), "AUDIT_CORRUPT");
    assert_eq!(prover.decisions_on("call-x", 600).unwrap_err().code(), "AUDIT_CORRUPT");
}

#[test]
fn changed_entry_has_no_proof() {
    let (_keep, folder) = log_of(600);
    let path = segment(&folder, 1);
    let text = fs::read_to_string(&path).unwrap().replacen("call-3\"", "call-x\"", 1);
    fs::write(path, text).unwrap();
    let disk = FolderDisk::existing(&folder).unwrap();
    let mut prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
    assert_eq!(prover.entry(3).unwrap_err().code(), "AUDIT_CORRUPT");
    assert_eq!(prover.prove_inclusion(3, 600).unwrap_err().code(), "AUDIT_CORRUPT");
}

#[test]
fn repeated_call_has_all_its_decisions() {
    let (_keep, folder) = place();
    let log = Log::open(&folder, small()).unwrap();
    for n in 0..1_200 {
        log.record(&decision(&id(n % 300))).unwrap();
    }
    log.close().unwrap();
    let disk = FolderDisk::existing(&folder).unwrap();
    let mut prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
    assert_eq!(prover.decisions_on(&id(7), 1_200).unwrap(), [8, 308, 608, 908]);
    assert_eq!(prover.decisions_on(&id(7), 900).unwrap(), [8, 308, 608]);
}

/// Writes a log of three segments. In each of them every call id has several decisions.
fn log_of_repeated_calls() -> (tempfile::TempDir, PathBuf) {
    let (keep, folder) = place();
    let log = Log::open(&folder, small()).unwrap();
    for n in 0..1_200 {
        log.record(&decision(&id(n % 50))).unwrap();
    }
    log.close().unwrap();
    (keep, folder)
}

/// Requires all decisions on the call with this number, in [`log_of_repeated_calls`].
fn all_decisions(folder: &Path, call: u64) {
    let disk = FolderDisk::existing(folder).unwrap();
    let mut prover = LogProver::open(disk.clone(), &key(), &[]).unwrap();
    let expected: Vec<u64> = (0..24).map(|turn| turn * 50 + call + 1).collect();
    assert_eq!(prover.decisions_on(&id(call), 1_200).unwrap(), expected);
}

#[test]
fn zeroed_page_of_places_hides_no_decision() {
    let (_keep, folder) = log_of_repeated_calls();
    let sides = sides(&folder);
    for side in &sides {
        let mut bytes = fs::read(side).unwrap();
        bytes[4_096..8_192].fill(0);
        // Without the list of calls, as a writer leaves it before the segment ends.
        bytes.truncate(bytes.len() - 8);
        fs::write(side, bytes).unwrap();
    }
    // A writer that continues the file does not keep the zeroed page.
    Log::open(&folder, small()).unwrap().close().unwrap();
    for call in 0..50 {
        all_decisions(&folder, call);
    }
}

#[test]
fn crafted_list_of_calls_is_made_anew() {
    let crafts: [fn(&mut [u8]); 3] = [
        // The first two calls of the list are the same.
        |list| list.copy_within(..16, 16),
        // No record has the number 0, and a record of the next segment does not belong in this list.
        |list| list.chunks_exact_mut(16).for_each(|call| call[8..].fill(0)),
        |list| list.chunks_exact_mut(16).for_each(|call| call[8..].copy_from_slice(&1_200_u64.to_be_bytes())),
    ];
    for craft in crafts {
        let (_keep, folder) = log_of_repeated_calls();
        let side = sides(&folder).remove(0);
        let whole = fs::read(&side).unwrap();
        let mut bytes = whole.clone();
        let records = segments(&folder)[1] - 1;
        let (from, end) = (bytes.len() - 8 - 16 * usize::try_from(records).unwrap(), bytes.len() - 8);
        craft(&mut bytes[from..end]);
        fs::write(&side, bytes).unwrap();
        for call in 0..50 {
            all_decisions(&folder, call);
        }
        assert!(fs::read(&side).unwrap() == whole);
    }
}

#[test]
fn older_checkpoint_that_the_log_does_not_go_on_from_is_refused() {
    let (_keep, folder) = log_of(900);
    let (_other, fork) = place();
    let log = Log::open(&fork, small()).unwrap();
    record(&log, 500..900);
    let forked = Checkpoint::verify(&log.close().unwrap(), &key()).unwrap();
    let disk = FolderDisk::existing(&folder).unwrap();
    assert_eq!(LogProver::open(disk.clone(), &key(), &[forked]).unwrap_err().code(), "AUDIT_FORK");
    let tree = tree_of(&folder);
    let head = tree.head_at(400).unwrap();
    let own = Checkpoint::new(origin(), head);
    assert!(LogProver::open(disk.clone(), &key(), std::slice::from_ref(&own)).is_ok());
    fs::remove_file(segment(&folder, 1)).unwrap();
    let last = segments(&folder).last().copied().unwrap();
    for first in segments(&folder) {
        if first != last {
            fs::remove_file(segment(&folder, first)).unwrap();
        }
    }
    assert_eq!(LogProver::open(disk.clone(), &key(), &[own]).unwrap_err().code(), "AUDIT_ARCHIVED");
}

/// Writes a log of several segments with a state, from which it is opened later.
fn log_with_state(records: u64) -> (tempfile::TempDir, PathBuf) {
    let (keep, folder) = place();
    let log = Log::open(&folder, later()).unwrap();
    record(&log, 1..records + 1);
    log.close().unwrap();
    (keep, folder)
}

fn later() -> LogOptions {
    options_with_state().segment_bytes(80_000).durability(Durability::System).verify_older_later()
}

/// Changes one entry in the middle of a segment.
pub(super) fn damage(folder: &Path, first: u64) {
    let path = segment(folder, first);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn damage_before_the_state_is_found_behind_the_first_record() {
    let (_keep, folder) = log_with_state(2_000);
    damage(&folder, 1);
    let log = Log::open(&folder, later()).unwrap();
    assert_eq!(log.record(&decision("next")).unwrap(), 2_001);
    assert_eq!(log.verify_older().unwrap_err().code(), "AUDIT_CORRUPT");
    assert_eq!(log.record(&decision("after")).unwrap_err().code(), "AUDIT_CORRUPT");
    assert_eq!(log.verify_older().unwrap_err().code(), "AUDIT_CORRUPT");
    drop(log);
    let at_once = options_with_state().segment_bytes(80_000);
    assert_eq!(Log::open(&folder, at_once).unwrap_err().code(), "AUDIT_CORRUPT");
}

#[test]
fn log_without_a_state_is_verified_first() {
    let (_keep, folder) = log_with_state(2_000);
    damage(&folder, 1);
    fs::remove_file(folder.with_extension("state")).unwrap();
    assert_eq!(Log::open(&folder, later()).unwrap_err().code(), "AUDIT_CORRUPT");
}

#[test]
fn log_with_wrong_side_files_is_verified_first() {
    let (_keep, folder) = log_with_state(2_000);
    damage(&folder, 1);
    for side in sides(&folder) {
        let mut bytes = fs::read(&side).unwrap();
        bytes[64..].fill(7);
        fs::write(side, bytes).unwrap();
    }
    assert_eq!(Log::open(&folder, later()).unwrap_err().code(), "AUDIT_CORRUPT");
}

#[test]
fn log_opened_from_its_state_goes_on_as_any_other() {
    let (_keep, folder) = place();
    for n in 0..9 {
        let log = Log::open(&folder, later()).unwrap();
        record(&log, n * 301 + 1..(n + 1) * 301 + 1);
        log.verify_older().unwrap();
        // Nothing is signed or saved after it, as if the process had been killed.
        if n % 3 == 1 {
            let (_other, kept) = place();
            copy(&folder, &kept);
            let state = fs::read(folder.with_extension("state")).unwrap();
            drop(log);
            fs::remove_dir_all(&folder).unwrap();
            copy(&kept, &folder);
            fs::write(folder.with_extension("state"), state).unwrap();
        }
    }
    assert_eq!(verify_all(&folder).unwrap().records, 9 * 301);
    assert_eq!(same_as(&tree_of(&folder), &folder), [""; 0]);
}

#[test]
fn log_behind_its_state_is_refused_when_older_entries_wait() {
    let (_keep, folder) = log_with_state(2_000);
    let last = segments(&folder).pop().unwrap();
    damage(&folder, last);
    assert_eq!(Log::open(&folder, later()).unwrap_err().code(), "AUDIT_CORRUPT");
    fs::remove_file(segment(&folder, last)).unwrap();
    assert_eq!(Log::open(&folder, later()).unwrap_err().code(), "AUDIT_ROLLED_BACK");
}

#[test]
fn fork_in_older_entries_is_found_by_a_kept_checkpoint() {
    let (_keep, folder) = log_with_state(2_000);
    let (_other, fork) = place();
    let log = Log::open(&fork, small()).unwrap();
    record(&log, 500..900);
    let note = log.close().unwrap();
    let refused = Log::open(&folder, later().known_checkpoint(note)).unwrap_err();
    assert_eq!(refused.code(), "AUDIT_FORK");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn any_log_gives_the_proofs_of_its_tree(
        records in 1_u64..1_200,
        segment_bytes in 1_000_u64..200_000,
        stops in prop::collection::vec(1_u64..1_200, 0..4),
        gone in 0_usize..6,
        cut in any::<prop::sample::Index>(),
    ) {
        let (_keep, folder) = place();
        let mut from = 1;
        let mut stops: Vec<_> = stops.into_iter().filter(|stop| *stop < records).chain([records]).collect();
        stops.sort_unstable();
        for stop in stops {
            let log = Log::open(&folder, small().segment_bytes(segment_bytes)).unwrap();
            record(&log, from..stop + 1);
            from = from.max(stop + 1);
        }
        let tree = tree_of(&folder);
        prop_assert_eq!(same_as(&tree, &folder), [""; 0]);
        let here = segments(&folder);
        for first in here.iter().take(gone.min(here.len() - 1)) {
            fs::remove_file(segment(&folder, *first)).unwrap();
        }
        prop_assert_eq!(same_as(&tree, &folder), [""; 0]);
        for side in sides(&folder) {
            let bytes = fs::read(&side).unwrap();
            fs::write(&side, &bytes[..cut.index(bytes.len())]).unwrap();
        }
        same_as(&tree, &folder);
        prop_assert_eq!(same_as(&tree, &folder), [""; 0]);
    }
}
