//! A log that submits to a witness, and a witness that follows the rules of [`WitnessedLog`], or none.

use crate::note::NoteError;
use countersign_keys::SigningKey;
use countersign_merkle::{LeafHash, MerkleTree};
use proptest::prelude::*;

use super::at;
use super::checkpoint::{ORIGIN, log_key, name, note, signing_key, tree};
use crate::*;

fn key() -> SigningKey {
    SigningKey::from_seed([1; 32])
}

fn witness() -> WitnessKey {
    WitnessKey::new(name("w1.example"), key().verifying_key())
}

fn line(tree: &MerkleTree, size: u64, seed: u8, seconds: u64) -> String {
    let checkpoint = Checkpoint::new(name(ORIGIN), tree.head_at(size).unwrap());
    cosign(
        &checkpoint,
        &name("w1.example"),
        &SigningKey::from_seed([seed; 32]),
        at(seconds.saturating_mul(1_000)),
    )
}

/// Returns the HTTP answer of a witness whose latest checkpoint is `latest`, and updates that.
fn at_the_witness(latest: &mut Option<Checkpoint>, body: &str) -> (u16, String) {
    let request = AddCheckpoint::from_body(body).unwrap();
    match WitnessedLog::new(log_key(), latest.clone()).check(&request) {
        Ok(checkpoint) => {
            let line = cosign(&checkpoint, &name("w1.example"), &key(), at(9_000));
            *latest = Some(checkpoint);
            (200, line)
        }
        Err(WitnessRefusal::Conflict { size }) => (409, format!("{size}\n")),
        Err(refusal) => (refusal.status(), String::new()),
    }
}

/// Submits until there is a result, and returns it with the number of requests.
fn ask(
    tree: &MerkleTree,
    size: u64,
    known: u64,
    latest: &mut Option<Checkpoint>,
) -> (Result<String, SubmissionError>, usize) {
    let (note, witness) = (note(tree, size), witness());
    let mut asked = match Submission::new(tree, &note, &log_key(), &witness, known) {
        Ok(asked) => asked,
        Err(error) => return (Err(error), 0),
    };
    let once = |times| {
        let (status, answer) = at_the_witness(latest, &asked.body());
        asked.answer(status, answer.as_bytes()).transpose().map(|end| (end, times))
    };
    (1..).find_map(once).unwrap()
}

fn seen(tree: &MerkleTree, size: u64) -> Option<Checkpoint> {
    Some(Checkpoint::new(name(ORIGIN), tree.head_at(size).unwrap()))
}

#[test]
fn witness_at_any_size_is_reached_within_two_requests() {
    let tree = tree(20);
    for new in 0..=20 {
        for old in 0..=new {
            let latest = || (old > 0).then(|| seen(&tree, old).unwrap());
            let mut blind = latest();
            let (line, times) = ask(&tree, new, 0, &mut blind);
            assert_eq!((line.is_ok(), times), (true, if old > 0 { 2 } else { 1 }), "{old} {new}");
            assert_eq!(blind, seen(&tree, new));
            let (line, times) = ask(&tree, new, old, &mut latest());
            assert_eq!(times, 1, "{old} {new}");
            let whole = attach_cosignatures(&note(&tree, new), &line.unwrap(), &[witness()]).unwrap();
            let witnessed = WitnessedCheckpoint::verify(&whole, &log_key(), &[witness()]).unwrap();
            assert_eq!((witnessed.witnesses(), witnessed.checkpoint().size()), (1, new));
        }
    }
}

#[test]
fn restored_older_log_is_found_by_the_witness() {
    let tree = tree(20);
    assert_eq!(ask(&tree, 9, 0, &mut seen(&tree, 10)), (Err(SubmissionError::Ahead), 1));
    // Refused by its known cosignature, before any request.
    assert_eq!(ask(&tree, 9, 10, &mut seen(&tree, 10)), (Err(SubmissionError::Ahead), 0));
}

#[test]
fn forked_log_is_found_by_the_witness() {
    let (kept, mut latest) = (tree(20), seen(&tree(20), 10));
    let forked: MerkleTree = (0..20_u64).map(|n| LeafHash::of(&n.max(1).to_be_bytes())).collect();
    assert_eq!(ask(&forked, 12, 0, &mut latest), (Err(WitnessRefusal::Proof.into()), 2));
    assert_eq!(ask(&forked, 12, 10, &mut latest), (Err(WitnessRefusal::Proof.into()), 1));
    let conflict = SubmissionError::Refused(WitnessRefusal::Conflict { size: 10 });
    assert_eq!(ask(&forked, 10, 10, &mut latest), (Err(conflict), 1));
    assert_eq!(ask(&forked, 10, 0, &mut latest), (Err(conflict), 2));
    assert_eq!(latest, seen(&kept, 10), "and the witness stays where it was");
    assert!(ask(&kept, 12, 10, &mut latest).0.is_ok());
}

#[test]
fn witness_behind_its_own_cosignature_is_refused() {
    let tree = tree(20);
    assert_eq!(ask(&tree, 12, 10, &mut seen(&tree, 9)), (Err(SubmissionError::Forgot), 1));
    assert_eq!(ask(&tree, 12, 10, &mut None), (Err(SubmissionError::Forgot), 1));
}

#[test]
fn witness_is_asked_at_most_twice() {
    let (tree, witness) = (tree(20), witness());
    let note = note(&tree, 12);
    let asked = || Submission::new(&tree, &note, &log_key(), &witness, 0).unwrap();
    let mut moving = asked();
    assert_eq!(moving.answer(409, b"5\n"), Ok(None));
    assert!(moving.body().starts_with("old 5\n"));
    assert_eq!(moving.answer(409, b"6\n"), Err(SubmissionError::Busy));
    let mut stubborn = asked();
    assert_eq!(stubborn.answer(409, b"0\n"), Err(SubmissionError::Answer), "no conflict with what was sent");
    assert_eq!(stubborn.answer(409, b"5\n"), Ok(None));
    assert_eq!(stubborn.answer(409, b"5\n"), Err(SubmissionError::Answer));
}

#[test]
fn an_answer_that_is_none_of_the_protocol_is_refused() {
    let (tree, witness) = (tree(20), witness());
    let note = note(&tree, 12);
    let answer = |status, body: &[u8]| {
        Submission::new(&tree, &note, &log_key(), &witness, 0).unwrap().answer(status, body)
    };
    for size in
        ["", "5", "5\n\n", "05\n", "+5\n", "-1\n", "5 \n", "5\r\n", "18446744073709551616\n", "five\n"]
    {
        assert_eq!(answer(409, size.as_bytes()), Err(SubmissionError::Answer), "{size:?}");
    }
    assert_eq!(answer(409, b"13\n"), Err(SubmissionError::Ahead));
    assert_eq!(answer(409, b"18446744073709551615\n"), Err(SubmissionError::Ahead));
    for (status, refusal) in [
        (400, WitnessRefusal::Malformed),
        (403, WitnessRefusal::Unsigned),
        (404, WitnessRefusal::UnknownLog),
        (422, WitnessRefusal::Proof),
    ] {
        assert_eq!(answer(status, b"whatever\xff"), Err(refusal.into()));
        assert_eq!(refusal.status(), status);
    }
    let good = line(&tree, 12, 1, 5);
    for status in [0, 100, 201, 204, 206, 301, 302, 307, 308, 401, 405, 408, 410, 429, 500, 502, 503, 999] {
        assert_eq!(answer(status, good.as_bytes()), Err(SubmissionError::Status), "{status}");
    }
    assert_eq!(answer(200, good.as_bytes()), Ok(Some(good.clone())));
    let not_text = [good.as_bytes(), b"\xff\n"].concat();
    let bad: [&[u8]; 6] = [
        good.trim_end().as_bytes(),
        b"\n",
        b"<html>\n",
        &not_text,
        &[b"\n", good.as_bytes()].concat(),
        &[note.as_bytes(), good.as_bytes()].concat(),
    ];
    for bad in bad {
        assert_eq!(answer(200, bad), Err(SubmissionError::Answer), "{:?}", String::from_utf8_lossy(bad));
    }
    let huge = good.repeat(MAX_WITNESS_ANSWER_BYTES / good.len() + 1);
    assert_eq!(answer(200, huge.as_bytes()), Err(SubmissionError::Answer));
    assert_eq!(answer(422, huge.as_bytes()), Err(SubmissionError::Answer));
}

#[test]
fn only_the_witness_cosignature_of_this_checkpoint_counts() {
    let (tree, witness) = (tree(20), witness());
    let note = note(&tree, 12);
    let answer = |body: &str| {
        Submission::new(&tree, &note, &log_key(), &witness, 0).unwrap().answer(200, body.as_bytes())
    };
    let good = line(&tree, 12, 1, 5);
    assert_eq!(answer(""), Err(SubmissionError::Key));
    assert_eq!(answer(&line(&tree, 12, 2, 5)), Err(SubmissionError::Key), "another key of the same name");
    assert_eq!(answer(&line(&tree, 11, 1, 5)), Err(SubmissionError::Signature), "another checkpoint");
    let own = note.split_once("\n\n").unwrap().1;
    assert_eq!(answer(own), Err(SubmissionError::Key), "the log's own signature");
    let stranger = "\u{2014} example.com/other AAAAAAAAAAAA\n";
    assert_eq!(answer(&format!("{stranger}{good}{stranger}")), Ok(Some(good.clone())), "others are ignored");
    let later = line(&tree, 12, 1, 6);
    assert_eq!(answer(&format!("{good}{later}{good}")), Ok(Some(later.clone())), "the latest");
    let wrong = line(&tree, 11, 1, 7);
    assert_eq!(answer(&format!("{later}{wrong}")), Err(SubmissionError::Signature));
}

#[test]
fn submission_with_a_foreign_note_or_tree_is_refused() {
    let (tree, witness) = (tree(20), witness());
    let begin =
        |note: &str, tree: &MerkleTree| Submission::new(tree, note, &log_key(), &witness, 0).map(drop);
    assert_eq!(begin(&note(&tree, 12), &tree), Ok(()), "a longer tree of the same log");
    assert_eq!(begin(&note(&tree, 12), &super::checkpoint::tree(11)), Err(SubmissionError::Tree));
    let forked: MerkleTree = (0..20_u64).map(|n| LeafHash::of(&n.max(1).to_be_bytes())).collect();
    assert_eq!(begin(&note(&tree, 12), &forked), Err(SubmissionError::Tree));
    let of_another = Checkpoint::new(name("log.example/other"), tree.head()).sign(&signing_key());
    let unsigned = SubmissionError::Checkpoint(NoteError::Unsigned.into());
    assert_eq!(begin(&of_another, &tree), Err(unsigned));
    assert_eq!(begin("", &tree), Err(SubmissionError::Checkpoint(NoteError::Malformed.into())));
}

#[test]
fn submission_needs_a_proof_of_the_sizes_it_asks_for() {
    let (tree, witness) = (tree(20), witness());
    let note = note(&tree, 12);
    let begin = |proof: Option<(u64, u64)>| {
        let prove = |_| proof.map(|(old, new)| tree.prove_consistency_at(old, new).unwrap());
        Submission::with_proofs(prove, &note, &log_key(), &witness, 5).map(|asked| asked.body())
    };
    assert!(begin(Some((5, 12))).unwrap().starts_with("old 5\n"));
    for wrong in [None, Some((4, 12)), Some((5, 13))] {
        assert_eq!(begin(wrong), Err(SubmissionError::Tree));
    }
    let ahead = Submission::with_proofs(|_| None, &note, &log_key(), &witness, 13);
    assert_eq!(ahead.map(drop), Err(SubmissionError::Ahead));
}

#[test]
fn every_submission_error_has_a_stable_code() {
    for (error, code) in [
        (SubmissionError::Checkpoint(CheckpointError::Origin), "CHECKPOINT_ORIGIN"),
        (SubmissionError::Tree, "WITNESS_TREE"),
        (WitnessRefusal::Proof.into(), "WITNESS_PROOF"),
        (SubmissionError::Ahead, "WITNESS_AHEAD"),
        (SubmissionError::Forgot, "WITNESS_FORGOT"),
        (SubmissionError::Busy, "WITNESS_BUSY"),
        (SubmissionError::Status, "WITNESS_STATUS"),
        (SubmissionError::Answer, "WITNESS_ANSWER"),
        (SubmissionError::Key, "WITNESS_KEY"),
        (SubmissionError::Signature, "WITNESS_SIGNATURE"),
    ] {
        assert_eq!(error.code(), code);
        assert!(!error.to_string().contains('\n'));
    }
}

proptest! {
    #[test]
    fn any_answer_is_refused_or_holds_a_cosignature_that_verifies(
        status in prop_oneof![Just(200_u16), Just(409), any::<u16>()],
        at in any::<proptest::sample::Index>(),
        removed in 0..8_usize,
        put in proptest::collection::vec(any::<u8>(), 0..8),
    ) {
        let (tree, witness) = (tree(7), witness());
        let note = note(&tree, 7);
        let mut body = line(&tree, 7, 1, 5).into_bytes();
        let at = at.index(body.len());
        body.splice(at..at.saturating_add(removed).min(body.len()), put);
        let mut asked = Submission::new(&tree, &note, &log_key(), &witness, 0).unwrap();
        if let Ok(Some(line)) = asked.answer(status, &body) {
            let whole = attach_cosignatures(&note, &line, std::slice::from_ref(&witness)).unwrap();
            let read = WitnessedCheckpoint::verify(&whole, &log_key(), std::slice::from_ref(&witness)).unwrap();
            prop_assert_eq!((status, read.witnesses()), (200, 1));
        }
    }
}
