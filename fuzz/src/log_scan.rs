use std::collections::BTreeMap;

use countersign::audit_log::{
    AuditError, Log, LogEntry, LogError, LogOptions, LogProver, LogSummary, Receipt, read_disk, verify_disk,
};
use countersign::keys::SigningKey;
use countersign::merkle::{Frontier, LeafHash};
use countersign::tlog::note::KeyName;
use countersign::tlog::{Checkpoint, LogKey};

use crate::PART;
use crate::memory_disk::MemoryDisk;

/// Bytes as the segments of a log, split at [`PART`], and their lines as the records of a log that is signed anew.
///
/// A scan reports no more entries than there are lines. What verifies has the root that its lines give under the note's
/// signature, opens for writing without losing one of its records, and proves each of them, or has a line that is no record.
/// What does not verify does not open, and is left as it was.
pub fn log_scan(bytes: &[u8]) -> bool {
    let files: BTreeMap<String, Vec<u8>> = bytes.split(|byte| *byte == PART).map(segment).collect();
    let as_found = hold_log(&files);
    let lines = bytes.split(|byte| [b'\n', PART].contains(byte));
    let signed_anew = signed(lines.filter(|line| !line.is_empty() && !line.starts_with(b"{\"checkpoint\":")));
    as_found | hold_log(&[(name(1), signed_anew)].into())
}

/// The key of the log's public vectors.
fn signing() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

fn origin() -> KeyName {
    KeyName::new("log.example/desk").expect("a name")
}

fn name(first: u64) -> String {
    format!("{first:012}.jsonl")
}

/// A segment under the name that its head gives it.
fn segment(bytes: &[u8]) -> (String, Vec<u8>) {
    let digits = bytes.strip_prefix(b"{\"segment\":{\"first\":").unwrap_or_default();
    let digits = digits.split(|byte| !byte.is_ascii_digit()).next().unwrap_or_default();
    let first = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    (name(first.filter(|first| *first < 1_000_000).unwrap_or(1)), bytes.to_vec())
}

/// A segment of these lines under a checkpoint.
fn signed<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut tree = Frontier::new();
    let note = |tree: &Frontier| {
        let note = Checkpoint::new(origin(), tree.head()).sign(&signing());
        serde_json::to_string(&note).expect("a note is text")
    };
    let mut bytes =
        format!("{{\"segment\":{{\"first\":1,\"peaks\":[]}},\"checkpoint\":{}}}\n", note(&tree)).into_bytes();
    for line in lines {
        tree.append(LeafHash::of(line)).expect("a small tree");
        bytes.extend_from_slice(line);
        bytes.push(b'\n');
    }
    if tree.size() > 0 {
        bytes.extend(format!("{{\"checkpoint\":{}}}\n", note(&tree)).into_bytes());
    }
    bytes
}

fn hold_log(files: &BTreeMap<String, Vec<u8>>) -> bool {
    let (disk, key) = (MemoryDisk::of(files.clone()), LogKey::new(origin(), signing().verifying_key()));
    let entries: Vec<LogEntry> =
        read_disk(disk.clone()).into_iter().flatten().map_while(Result::ok).collect();
    let lines = files.values().flatten().filter(|byte| **byte == b'\n').count();
    assert!(entries.len() <= lines, "{} entries in {lines} lines", entries.len());

    let options = LogOptions::new(origin(), signing());
    let summary = match verify_disk(&disk, &key, &[]) {
        Ok(summary) => summary,
        // A folder without a whole head is that of a log which was never begun.
        Err(LogError::Missing) => return false,
        Err(error) => {
            assert!(Log::open_on(disk.clone(), options).is_err(), "a log opens in spite of {error}");
            assert_eq!(disk.segments(), *files, "a log that does not verify is changed");
            return false;
        }
    };
    hold_root(&summary, &entries, &key);
    let kept = usize::try_from(summary.records).expect("a small log");
    let log = match Log::open_on(disk.clone(), options) {
        Ok(log) => log,
        // Verifying hashes a line that its signer did not write as a record, and opening reads it.
        Err(AuditError::Log(error)) if matches!(*error, LogError::Malformed(_)) => {
            assert_eq!(disk.segments(), *files, "a log that does not open is changed");
            return false;
        }
        Err(error) => panic!("a log that verifies: {error:?}"),
    };
    log.close().expect("a log in memory closes");
    let again =
        verify_disk(&disk, &key, std::slice::from_ref(&summary.checkpoint)).expect("a log that was opened");
    assert!(again.records >= summary.records, "opening loses no record");
    let after: Vec<_> = read_disk(disk.clone()).into_iter().flatten().map_while(Result::ok).collect();
    let here = |entries: &[LogEntry]| -> Vec<LogEntry> {
        entries.iter().take_while(|entry| entry.seq() <= summary.records).cloned().collect()
    };
    assert_eq!(here(&after), here(&entries), "opening changes no record");
    if here(&entries).len() == kept {
        hold_proofs(disk, &key, &here(&entries));
    }
    true
}

/// Computes the root a second time, from the lines alone.
fn hold_root(summary: &LogSummary, entries: &[LogEntry], key: &LogKey) {
    let signed = Checkpoint::verify(&summary.note, key).expect("the note of a log that verifies");
    assert_eq!(signed, summary.checkpoint);
    assert_eq!(signed.size(), summary.records);
    let kept = entries.iter().filter(|entry| entry.seq() <= summary.records);
    if summary.first_here == 1 && kept.clone().count() as u64 == summary.records {
        let mut tree = Frontier::new();
        for entry in kept {
            tree.append(entry.leaf()).expect("a small tree");
        }
        assert_eq!(tree.head(), *signed.head(), "the root of the lines");
    }
}

fn hold_proofs(disk: MemoryDisk, key: &LogKey, entries: &[LogEntry]) {
    let mut prover = LogProver::open(disk, key, &[]).expect("a log that verifies");
    let (size, note) = (prover.checkpoint().size(), prover.note().to_owned());
    for entry in entries {
        assert_eq!(prover.entry(entry.seq()).as_ref().ok(), Some(entry), "a prover reads the same");
        let proof = prover.prove_inclusion(entry.seq(), size).expect("a record of the log");
        // Not every line is short enough for a receipt.
        let Ok(receipt) = Receipt::new(entry.line(), &proof, &note) else { continue };
        let receipt = Receipt::from_json(receipt.to_json().as_bytes()).expect("a receipt reads back");
        let verified = receipt.verify(key).expect("a receipt verifies");
        assert_eq!((verified.sequence(), verified.line().as_bytes()), (entry.seq(), entry.line()));
    }
}
