//! Receipts, tiles and a witness over a log in a folder.

use std::collections::BTreeSet;

use super::log_support::{fill, key, options, place};
use super::{at, call_record};
use crate::*;

#[test]
fn receipt_of_a_refused_call_verifies_without_the_log() {
    let (_keep, folder) = place();
    let log = Log::open(&folder, options().segment_bytes(4_096)).unwrap();
    fill(&log, 40, 7);
    let mut call = call_record("refused");
    (call.verdict, call.code) = (Verdict::Reject, Some("TOOL_NOT_DISCLOSED".into()));
    let seq = log.record(&Record::Decision(call.clone())).unwrap();
    fill(&log, 40, 7);
    let note = log.close().unwrap();
    assert!(std::fs::read_dir(&folder).unwrap().count() > 3);
    let checkpoint = Checkpoint::verify(&note, &key()).unwrap();
    let entry = read_log(&folder).unwrap().map(Result::unwrap).find(|entry| entry.seq() == seq).unwrap();
    let proof = prove_inclusion(&folder, &key(), seq, checkpoint.size()).unwrap();
    let receipt = Receipt::new(entry.line(), &proof, &note).unwrap().to_json().to_owned();
    std::fs::remove_dir_all(&folder).unwrap();
    let verified = Receipt::from_json(receipt.as_bytes()).unwrap().verify(&key()).unwrap();
    assert_eq!((verified.sequence(), verified.decision()), (seq, Some(&call)));
    assert_eq!(verified.checkpoint(), &checkpoint);
}

#[test]
fn log_is_written_as_tiles_under_its_own_checkpoint() {
    let (_keep, folder) = place();
    let log = Log::open(&folder, options()).unwrap();
    fill(&log, 300, 50);
    let note = log.close().unwrap();
    let mut paths = BTreeSet::new();
    let mut tiles = TileWriter::new(|path: &str, _: &[u8]| {
        paths.insert(path.to_owned());
        Ok(())
    });
    read_log(&folder).unwrap().for_each(|entry| tiles.append(entry.unwrap().line()).unwrap());
    assert_eq!(tiles.finish(&note, &key()).unwrap().size(), 300);
    let all = [
        "checkpoint",
        "tile/0/000",
        "tile/0/001.p/44",
        "tile/1/000.p/1",
        "tile/entries/000",
        "tile/entries/001.p/44",
    ];
    assert!(paths.iter().eq(all), "{paths:?}");
}

#[test]
fn a_witness_follows_a_log_and_notices_when_it_is_put_back() {
    let (_keep, folder) = place();
    let log = Log::open(&folder, options()).unwrap();
    fill(&log, 5, 5);
    let early = log.checkpoint().unwrap();
    fill(&log, 8, 8);
    let late = log.close().unwrap();
    let proof = prove_consistency(&folder, &key(), 5, 13).unwrap();
    let (name, witness) =
        ("witness.example".parse().unwrap(), countersign_keys::SigningKey::from_seed([9; 32]));
    let unknown = WitnessedLog::new(key(), None);
    let first = unknown.check(&AddCheckpoint::first(&early).unwrap()).unwrap();
    let request = AddCheckpoint::from_body(&AddCheckpoint::new(&proof, &late).unwrap().to_body()).unwrap();
    let next = WitnessedLog::new(key(), Some(first)).check(&request).unwrap();
    let line = cosign(&next, &name, &witness, at(1_000));
    let witnesses = [WitnessKey::new(name, witness.verifying_key())];
    let whole = attach_cosignatures(&late, &line, &witnesses).unwrap();
    assert_eq!(WitnessedCheckpoint::verify(&whole, &key(), &witnesses).unwrap().witnesses(), 1);
    // The folder as it was before, whole, and grown again with other records.
    let (_other, forked) = place();
    let log = Log::open(&forked, options()).unwrap();
    fill(&log, 20, 1);
    let note = log.close().unwrap();
    let witnessed = WitnessedLog::new(key(), Some(next));
    let restored = AddCheckpoint::first(&early).unwrap();
    assert_eq!(witnessed.check(&restored), Err(WitnessRefusal::Conflict { size: 13 }));
    let of_fork = prove_consistency(&forked, &key(), 13, 20).unwrap();
    let refused = witnessed.check(&AddCheckpoint::new(&of_fork, &note).unwrap());
    assert_eq!(refused, Err(WitnessRefusal::Proof));
}
