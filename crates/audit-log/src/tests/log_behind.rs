//! Reading a log after a known part of it.

use std::fs;
use std::path::Path;

use countersign_merkle::{Frontier, TreeHead};

use super::decision;
use super::log_support::{fill, key, options, place, segment};
use crate::segment::{node_offset, side_name};
use crate::*;

/// Returns the heads of a log at every size.
fn heads(folder: &Path) -> Vec<TreeHead> {
    let mut tree = Frontier::new();
    let later = read_log(folder).unwrap().map(|entry| {
        tree.append(entry.unwrap().leaf()).unwrap();
        tree.head()
    });
    [Frontier::new().head()].into_iter().chain(later.collect::<Vec<_>>()).collect()
}

/// Reads from a known part to the end; returns the first record's number, and the head at the end.
fn behind(folder: &Path, known: &TreeHead) -> Option<(u64, TreeHead)> {
    let (entries, mut tree) = read_log_behind(folder, known).unwrap().found?;
    let first = entries.next_seq();
    for entry in entries {
        let entry = entry.unwrap();
        assert_eq!(Some(entry.seq()), tree.size().checked_add(1));
        tree.append(entry.leaf()).unwrap();
    }
    Some((first, tree.head()))
}

fn log_of_segments(folder: &Path) -> Vec<TreeHead> {
    let log = Log::open(folder, options().segment_bytes(8_192)).unwrap();
    fill(&log, 90, 7);
    fill(&log, 10, 1);
    log.close().unwrap();
    heads(folder)
}

#[test]
fn any_known_part_leads_to_the_rest_of_the_log() {
    let (_keep, folder) = place();
    let heads = log_of_segments(&folder);
    for known in &heads {
        assert_eq!(behind(&folder, known), Some((known.size() + 1, heads[100])), "{}", known.size());
    }
    // Also without the side files.
    for file in fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|kind| kind == "side") {
            fs::remove_file(file).unwrap();
        }
    }
    for known in &heads {
        assert_eq!(behind(&folder, known), Some((known.size() + 1, heads[100])), "{}", known.size());
    }
}

#[test]
fn archived_part_is_not_read_behind() {
    let (_keep, folder) = place();
    let heads = log_of_segments(&folder);
    let first = read_dir_segments(&folder)[1];
    fs::remove_file(segment(&folder, 1)).unwrap();
    assert_eq!(behind(&folder, &heads[0]), Some((first, heads[100])), "what is here");
    for known in &heads[1..] {
        let wanted = (known.size() + 1 >= first).then_some((known.size() + 1, heads[100]));
        assert_eq!(behind(&folder, known), wanted, "{}", known.size());
    }
}

fn read_dir_segments(folder: &Path) -> Vec<u64> {
    let names = fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut first: Vec<u64> = names.filter_map(|name| name.strip_suffix(".jsonl")?.parse().ok()).collect();
    first.sort_unstable();
    first
}

#[test]
fn part_of_another_log_is_not_read_behind() {
    let (_keep, folder) = place();
    let heads = log_of_segments(&folder);
    let (_other, forked) = place();
    let log = Log::open(&forked, options()).unwrap();
    fill(&log, 50, 1);
    log.close().unwrap();
    for known in &self::heads(&forked)[5..] {
        assert_eq!(behind(&folder, known), None, "{}", known.size());
    }
    // A known part that is longer than the log.
    fill(&Log::open(&folder, options()).unwrap(), 5, 5);
    let longer = *self::heads(&folder).last().unwrap();
    let cut = fs::read_to_string(segment(&folder, *read_dir_segments(&folder).last().unwrap())).unwrap();
    let line = cut.find(&format!("{{\"seq\":{},", heads[100].size() + 1)).unwrap();
    fs::write(segment(&folder, *read_dir_segments(&folder).last().unwrap()), cut.get(..line).unwrap())
        .unwrap();
    assert_eq!(behind(&folder, &longer), None);
    assert_eq!(behind(&folder, &heads[100]), Some((101, heads[100])));
    verify_log(&folder, &key(), &[]).unwrap();
}

/// Writes a log of closed segments with side files. Returns its heads.
fn log_with_sides(folder: &Path) -> Vec<TreeHead> {
    let log = Log::open(folder, options().segment_bytes(80_000).durability(Durability::System)).unwrap();
    for n in 0..1_400 {
        log.record(&decision(&n.to_string())).unwrap();
    }
    log.close().unwrap();
    heads(folder)
}

#[test]
fn wrong_node_in_a_side_file_is_mended() {
    let (_keep, folder) = place();
    let heads = log_with_sides(&folder);
    let at = read_dir_segments(&folder).into_iter().rfind(|first| *first <= 1_024).unwrap();
    let side = folder.join(side_name(at));
    let whole = fs::read(&side).unwrap();
    let mut wrong = whole.clone();
    // The root of the first 1,024 records.
    let node = usize::try_from(node_offset(at, 1_024, 10)).unwrap();
    wrong[node..node + 32].fill(7);
    fs::write(&side, &wrong).unwrap();
    let rebuilt = |known: &TreeHead| {
        let behind = read_log_behind(&folder, known).unwrap();
        let names: Vec<_> = behind.rebuilt.into_iter().map(|side| side.file).collect();
        (behind.found.map(|(entries, _)| entries.next_seq()), names)
    };
    assert_eq!(rebuilt(&heads[1_399]), (Some(1_400), vec![side_name(at)]));
    assert_eq!(fs::read(&side).unwrap(), whole);
    assert_eq!(rebuilt(&heads[1_399]), (Some(1_400), Vec::new()));
}

#[test]
fn side_file_far_ahead_of_the_known_part_is_left_alone() {
    let (_keep, folder) = place();
    let log = Log::open(&folder, options().durability(Durability::System)).unwrap();
    let long = "x".repeat(200);
    for n in 0..25_000 {
        log.record(&decision(&format!("{long}{n}"))).unwrap();
    }
    log.close().unwrap();
    assert!(fs::metadata(segment(&folder, 1)).unwrap().len() > 9 << 20);
    let mut tree = Frontier::new();
    for entry in read_log(&folder).unwrap().take(300) {
        tree.append(entry.unwrap().leaf()).unwrap();
    }
    let behind = read_log_behind(&folder, &tree.head()).unwrap();
    assert!(behind.found.is_some() && behind.rebuilt.is_empty(), "{:?}", behind.rebuilt);
}
