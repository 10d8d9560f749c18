use crate::note::{MAX_SIGNATURES, NoteError, SignedNote, VerifierKeyError};
use countersign_keys::SigningKey;
use countersign_merkle::{ConsistencyProof, LeafHash, MerkleTree, NodeHash};
use proptest::prelude::*;

use super::at;
use super::checkpoint::{ORIGIN, log_key, name, note, signing_key, tree};
use crate::*;

const SECONDS: u64 = 1_679_315_147;

fn witness_key(seed: u8, who: &str) -> (WitnessKey, SigningKey) {
    let key = SigningKey::from_seed([seed; 32]);
    (WitnessKey::new(name(who), key.verifying_key()), key)
}

fn line(checkpoint: &Checkpoint, seed: u8, who: &str) -> String {
    cosign(checkpoint, &name(who), &witness_key(seed, who).1, at(SECONDS * 1_000))
}

fn checkpoint(tree: &MerkleTree, size: u64) -> Checkpoint {
    Checkpoint::new(name(ORIGIN), tree.head_at(size).unwrap())
}

/// Builds a witness that has seen the tree at that size, or nothing.
fn witness(tree: &MerkleTree, latest: Option<u64>) -> WitnessedLog {
    WitnessedLog::new(log_key(), latest.map(|size| checkpoint(tree, size)))
}

/// Builds the request of a log to a witness that it assumes has seen `old` records.
pub(super) fn request(tree: &MerkleTree, old: u64, new: u64) -> AddCheckpoint {
    if old == 0 {
        return AddCheckpoint::first(&note(tree, new)).unwrap();
    }
    AddCheckpoint::new(&tree.prove_consistency_at(old, new).unwrap(), &note(tree, new)).unwrap()
}

#[test]
fn specification_example_body_round_trips() {
    let body = "old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

\u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
\u{2014} example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5Rovnzv++qbSzm9Q=
";
    let request = AddCheckpoint::from_body(body).unwrap();
    assert_eq!((request.old_size(), request.proof().len()), (20_852_014, 4));
    assert!(request.note().starts_with("example.com/behind-the-sofa\n20852163\n"));
    assert_eq!(request.to_body(), body);
    assert_eq!(witness(&tree(1), None).check(&request), Err(WitnessRefusal::UnknownLog));
}

#[test]
fn a_witness_follows_a_log_from_every_size_to_every_later_one() {
    let tree = tree(20);
    for new in 0..=20 {
        for old in 0..=new {
            let accepted = witness(&tree, (old > 0).then_some(old)).check(&request(&tree, old, new));
            assert_eq!(accepted, Ok(checkpoint(&tree, new)), "{old} {new}");
        }
    }
    assert_eq!(witness(&tree, Some(0)).check(&request(&tree, 0, 7)), Ok(checkpoint(&tree, 7)));
}

#[test]
fn rollback_or_fork_gets_the_specified_refusal() {
    let tree = tree(20);
    let forked: MerkleTree = (0..20_u64).map(|n| LeafHash::of(&n.max(1).to_be_bytes())).collect();
    let at_ten = witness(&tree, Some(10));
    let refused = |request: &AddCheckpoint| {
        let refusal = at_ten.check(request).unwrap_err();
        (refusal, refusal.status())
    };
    assert!(at_ten.check(&request(&tree, 10, 12)).is_ok());
    let conflict = (WitnessRefusal::Conflict { size: 10 }, 409);
    assert_eq!(refused(&request(&tree, 0, 12)), conflict, "as if it had seen nothing");
    assert_eq!(refused(&request(&tree, 9, 12)), conflict);
    assert_eq!(refused(&request(&tree, 11, 12)), conflict);
    assert_eq!(refused(&request(&tree, 8, 9)), conflict, "the tail was cut");
    let rollback = AddCheckpoint::new(&tree.prove_consistency_at(10, 12).unwrap(), &note(&tree, 9)).unwrap();
    assert_eq!(refused(&rollback), (WitnessRefusal::OldSize, 400));
    assert_eq!(refused(&request(&forked, 10, 10)), conflict, "another root of the same size");
    assert_eq!(refused(&request(&forked, 10, 12)), (WitnessRefusal::Proof, 422));
    let of_others =
        AddCheckpoint::new(&forked.prove_consistency_at(10, 12).unwrap(), &note(&tree, 12)).unwrap();
    assert_eq!(refused(&of_others), (WitnessRefusal::Proof, 422));
    let no_proof = ConsistencyProof::new(10, 12, Vec::new()).unwrap();
    let without = AddCheckpoint::new(&no_proof, &note(&tree, 12)).unwrap();
    assert_eq!(refused(&without), (WitnessRefusal::Proof, 422));
    let spare = tree.prove_consistency_at(10, 12).unwrap().path().to_vec();
    let same =
        AddCheckpoint::new(&ConsistencyProof::new(10, 10, spare.clone()).unwrap(), &note(&tree, 10)).unwrap();
    assert_eq!(refused(&same), (WitnessRefusal::Proof, 422), "a proof where none is due");
    let first = request(&tree, 0, 5).to_body();
    let hash = request(&tree, 10, 12).to_body().lines().nth(1).unwrap().to_owned();
    let first = AddCheckpoint::from_body(&first.replacen("old 0\n", &format!("old 0\n{hash}\n"), 1)).unwrap();
    assert_eq!(witness(&tree, None).check(&first), Err(WitnessRefusal::Proof));
}

#[test]
fn checkpoint_not_signed_by_the_log_is_refused() {
    let tree = tree(12);
    let at_ten = witness(&tree, Some(10));
    let by = |seed: u8| {
        let note = checkpoint(&tree, 12).sign(&SigningKey::from_seed([seed; 32]));
        AddCheckpoint::new(&tree.prove_consistency_at(10, 12).unwrap(), &note).unwrap()
    };
    assert!(at_ten.check(&by(7)).is_ok());
    assert_eq!(at_ten.check(&by(8)), Err(WitnessRefusal::Unsigned));
    let other = Checkpoint::new(name("log.example/other"), tree.head()).sign(&signing_key());
    assert_eq!(at_ten.check(&AddCheckpoint::first(&other).unwrap()), Err(WitnessRefusal::UnknownLog));
    let text = format!("{ORIGIN}\nno checkpoint\n");
    let none = crate::note::sign(&text, &name(ORIGIN), &signing_key()).unwrap();
    assert_eq!(at_ten.check(&AddCheckpoint::first(&none).unwrap()), Err(WitnessRefusal::Malformed));
}

#[test]
fn every_witness_refusal_has_a_stable_code() {
    for (refusal, code, status) in [
        (WitnessRefusal::Malformed, "WITNESS_MALFORMED", 400),
        (WitnessRefusal::OldSize, "WITNESS_OLD_SIZE", 400),
        (WitnessRefusal::Unsigned, "WITNESS_UNSIGNED", 403),
        (WitnessRefusal::UnknownLog, "WITNESS_UNKNOWN_LOG", 404),
        (WitnessRefusal::Conflict { size: 3 }, "WITNESS_CONFLICT", 409),
        (WitnessRefusal::Proof, "WITNESS_PROOF", 422),
    ] {
        assert_eq!((refusal.code(), refusal.status()), (code, status));
        assert!(!refusal.to_string().contains('\n'));
    }
}

#[test]
fn a_body_in_any_other_spelling_is_refused() {
    let tree = tree(12);
    let good = request(&tree, 10, 12).to_body();
    let hash = good.lines().nth(1).unwrap().to_owned();
    assert!(AddCheckpoint::from_body(&good).is_ok());
    for bad in [
        String::new(),
        "old 10\n\n".to_owned(),
        good.replacen("old 10", "old 010", 1),
        good.replacen("old 10", "old +10", 1),
        good.replacen("old 10", "old", 1),
        good.replacen("old 10", "Old 10", 1),
        good.replacen("old 10", "old  10", 1),
        good.replacen("old 10", "old 10 ", 1),
        good.replacen("old 10", "old 18446744073709551616", 1),
        good.replacen("old 10\n", "", 1),
        good.replacen("old 10\n", "old 10\r\n", 1),
        good.replacen(&hash, &format!("{hash} "), 1),
        good.replacen(&hash, hash.trim_end_matches('='), 1),
        good.replacen(&hash, "AAAA", 1),
        good.replacen("\n\n", "\n", 1),
        good.trim_end().to_owned(),
        format!("{good}\n"),
    ] {
        assert_eq!(AddCheckpoint::from_body(&bad), Err(NoteError::Malformed), "{bad:?}");
    }
    let no_origin = AddCheckpoint::from_body(&good.replacen("\n\n", "\n\n\n\n", 1)).unwrap();
    assert_eq!(witness(&tree, Some(10)).check(&no_origin), Err(WitnessRefusal::UnknownLog));
    let proof = |count: usize| good.replacen(&hash, &vec![hash.as_str(); count].join("\n"), 1);
    let spare = good.lines().take_while(|line| !line.is_empty()).count() - 2;
    assert_eq!(AddCheckpoint::from_body(&proof(63 - spare)).unwrap().proof().len(), 63);
    assert_eq!(AddCheckpoint::from_body(&proof(64 - spare)), Err(NoteError::TooLong));
    let long = ConsistencyProof::new(1, 2, vec![NodeHash::from(LeafHash::of(b"")); 64]).unwrap();
    assert_eq!(AddCheckpoint::new(&long, &note(&tree, 2)), Err(NoteError::TooLong));
    assert_eq!(AddCheckpoint::first("no note"), Err(NoteError::Malformed));
}

#[test]
fn verified_cosignatures_are_attached_to_the_checkpoint() {
    let tree = tree(3);
    let (checkpoint, plain) = (checkpoint(&tree, 3), note(&tree, 3));
    let (first, other) = (witness_key(1, "w1.example").0, witness_key(2, "w2.example").0);
    let known = [first.clone(), other];
    let (first_line, other_line) = (line(&checkpoint, 1, "w1.example"), line(&checkpoint, 2, "w2.example"));
    let unknown = line(&checkpoint, 3, "w3.example");
    let answer = format!("{unknown}{first_line}{other_line}");
    let whole = attach_cosignatures(&plain, &answer, &known).unwrap();
    assert_eq!(whole, format!("{plain}{first_line}{other_line}"));
    assert_eq!(attach_cosignatures(&whole, &answer, &known).unwrap(), whole, "once is enough");
    assert_eq!(attach_cosignatures(&plain, "", &known).unwrap(), plain);
    let witnessed = WitnessedCheckpoint::verify(&whole, &log_key(), &known).unwrap();
    assert_eq!((witnessed.checkpoint(), witnessed.witnesses()), (&checkpoint, 2));
    assert_eq!(witnessed.cosignatures()[0].seconds, SECONDS);
    assert_eq!(WitnessedCheckpoint::verify(&whole, &log_key(), &[first]).unwrap().witnesses(), 1);
    assert_eq!(WitnessedCheckpoint::verify(&whole, &log_key(), &[]).unwrap().witnesses(), 0);
    assert_eq!(Checkpoint::verify(&whole, &log_key()), Ok(checkpoint), "witnesses are no matter to it");
}

#[test]
fn foreign_or_malformed_cosignature_is_refused() {
    let tree = tree(3);
    let (plain, known) = (note(&tree, 3), [witness_key(1, "w1.example").0]);
    let good = line(&checkpoint(&tree, 3), 1, "w1.example");
    assert!(attach_cosignatures(&plain, &good, &known).is_ok());
    let of_another = line(&checkpoint(&tree, 2), 1, "w1.example");
    assert_eq!(attach_cosignatures(&plain, &of_another, &known), Err(NoteError::Signature));
    let bad = [
        good.trim_end().to_owned(),
        format!("{good}\n"),
        format!("\n{good}"),
        format!(" {good}"),
        format!("{good}text\n"),
        "text\n".to_owned(),
    ];
    for bad in bad {
        assert_eq!(attach_cosignatures(&plain, &bad, &known), Err(NoteError::Malformed), "{bad:?}");
    }
    let mut whole = plain.clone();
    for count in 0..MAX_SIGNATURES - 1 {
        let later = cosign(
            &checkpoint(&tree, 3),
            &name("w1.example"),
            &witness_key(1, "w1.example").1,
            at(count as u64 * 1_000),
        );
        whole = attach_cosignatures(&whole, &later, &known).unwrap();
    }
    assert_eq!(SignedNote::parse(&whole).unwrap().signature_lines(), MAX_SIGNATURES);
    assert_eq!(attach_cosignatures(&whole, &good, &known), Err(NoteError::TooLong));
    let witnessed = WitnessedCheckpoint::verify(&whole, &log_key(), &known).unwrap();
    assert_eq!((witnessed.cosignatures().len(), witnessed.witnesses()), (MAX_SIGNATURES - 1, 1));
}

#[test]
fn two_names_over_one_key_are_one_witness() {
    let tree = tree(3);
    let checkpoint = checkpoint(&tree, 3);
    let lines = line(&checkpoint, 1, "w1.example") + &line(&checkpoint, 1, "w2.example");
    let known = [witness_key(1, "w1.example").0, witness_key(1, "w2.example").0];
    let whole = attach_cosignatures(&note(&tree, 3), &lines, &known).unwrap();
    let witnessed = WitnessedCheckpoint::verify(&whole, &log_key(), &known).unwrap();
    assert_eq!((witnessed.cosignatures().len(), witnessed.witnesses()), (2, 1));
}

#[test]
fn a_log_key_is_no_witness_key_and_a_witness_is_no_log() {
    assert_eq!(log_key().to_string().parse::<WitnessKey>(), Err(VerifierKeyError::Algorithm));
    let (key, _) = witness_key(1, "w1.example");
    assert_eq!(key.to_string().parse::<WitnessKey>(), Ok(key.clone()));
    let checkpoint = checkpoint(&tree(3), 3);
    let alone = format!("{}\n{}", checkpoint.to_text(), line(&checkpoint, 1, "w1.example"));
    let unsigned = CheckpointError::Note(NoteError::Unsigned);
    assert_eq!(WitnessedCheckpoint::verify(&alone, &log_key(), &[key]), Err(unsigned));
}

#[test]
fn flipped_bit_costs_a_checkpoint_its_cosignature() {
    let tree = tree(3);
    let (checkpoint, (key, _)) = (checkpoint(&tree, 3), witness_key(1, "w1.example"));
    let whole = note(&tree, 3) + &line(&checkpoint, 1, "w1.example");
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 1_u8 << bit;
            let Ok(changed) = std::str::from_utf8(&bytes) else { continue };
            let read = WitnessedCheckpoint::verify(changed, &log_key(), std::slice::from_ref(&key));
            assert!(read.is_err() || read.unwrap().witnesses() == 0, "byte {at} bit {bit}");
        }
    }
}

proptest! {
    #[test]
    fn any_request_is_read_back_as_it_was(new in 0..80_u64, old in 0..80_u64) {
        let (tree, old) = (tree(new), old.min(new));
        let request = request(&tree, old, new);
        prop_assert_eq!(AddCheckpoint::from_body(&request.to_body()), Ok(request));
    }

    #[test]
    fn any_flipped_bit_of_a_request_is_refused(at in any::<proptest::sample::Index>(), bit in 0..8_u8) {
        let tree = tree(13);
        let mut bytes = request(&tree, 6, 13).to_body().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        let Ok(changed) = std::str::from_utf8(&bytes) else { return Ok(()) };
        let accepted = AddCheckpoint::from_body(changed).is_ok_and(|r| witness(&tree, Some(6)).check(&r).is_ok());
        prop_assert!(!accepted);
    }

    #[test]
    fn reading_any_text_as_a_request_or_an_answer_never_panics(text in "(old |\\PC|\n|[0-9]|\u{2014} )*") {
        let _ = AddCheckpoint::from_body(&text);
        let _ = attach_cosignatures(&note(&tree(1), 1), &text, &[witness_key(1, "w").0]);
        let _ = text.parse::<WitnessKey>();
    }
}
