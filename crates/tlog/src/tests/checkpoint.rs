use crate::note::{KeyName, NoteError, VerifierKey, VerifierKeyError, sign};
use countersign_core::Digest;
use countersign_keys::SigningKey;
use countersign_merkle::{HeadError, LeafHash, MerkleTree, RootHash, TreeHead};
use proptest::prelude::*;

use crate::{Checkpoint, CheckpointError, LogKey};

pub(super) const ORIGIN: &str = "log.example/desk";

pub(super) fn name(text: &str) -> KeyName {
    KeyName::new(text).unwrap()
}

pub(super) fn signing_key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

pub(super) fn log_key() -> LogKey {
    LogKey::new(name(ORIGIN), signing_key().verifying_key())
}

pub(super) fn tree(size: u64) -> MerkleTree {
    (0..size).map(|n| LeafHash::of(&n.to_be_bytes())).collect()
}

/// Returns the note of the log's checkpoint at that size.
pub(super) fn note(tree: &MerkleTree, size: u64) -> String {
    Checkpoint::new(name(ORIGIN), tree.head_at(size).unwrap()).sign(&signing_key())
}

#[test]
fn a_checkpoint_is_three_lines_signed_under_its_origin() {
    let checkpoint = Checkpoint::new(name(ORIGIN), tree(3).head());
    let note = checkpoint.sign(&signing_key());
    let root = "zmxPFNfrqwRP2nl4WJEwKoMfNuPxcp55DP4FVg9n8yo=";
    assert_eq!(checkpoint.to_text().split('\n').collect::<Vec<_>>()[..2], [ORIGIN, "3"]);
    assert_eq!(checkpoint.to_text().len(), ORIGIN.len() + 1 + 2 + root.len() + 1);
    assert!(note.starts_with(&format!("{}\n\u{2014} {ORIGIN} ", checkpoint.to_text())));
    assert_eq!(Checkpoint::verify(&note, &log_key()), Ok(checkpoint));
}

#[test]
fn empty_log_checkpoint_commits_to_the_empty_tree() {
    let checkpoint = Checkpoint::new(name(ORIGIN), tree(0).head());
    let text = format!("{ORIGIN}\n0\n47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\n");
    assert_eq!(checkpoint.to_text(), text);
    assert_eq!(Checkpoint::from_text(&text), Ok(checkpoint));
}

#[test]
fn specification_example_checkpoint_round_trips() {
    let text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
    let checkpoint = Checkpoint::from_text(text).unwrap();
    assert_eq!(
        (checkpoint.origin().as_str(), checkpoint.size()),
        ("example.com/behind-the-sofa", 20_852_163)
    );
    assert_eq!(
        checkpoint.root().to_string(),
        "0ac5186a91863e8e1d90c808014aa89bf5da8e3ee1d9f07630f0378f68f1ab62"
    );
    assert_eq!(checkpoint.to_text(), text);
}

#[test]
fn non_canonical_checkpoint_text_is_refused() {
    let good = format!("{ORIGIN}\n3\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n");
    assert!(Checkpoint::from_text(&good).is_ok());
    let bad = [
        String::new(),
        "\n\n\n".to_owned(),
        good.trim_end().to_owned(),
        format!("\n{good}"),
        format!("{good}extension\n"),
        format!("{good}\n"),
        good.replace(ORIGIN, ""),
        good.replace(ORIGIN, "two words"),
        good.replace(ORIGIN, "a+b"),
        good.replace("\n3\n", "\n\n"),
        good.replace("\n3\n", "\n03\n"),
        good.replace("\n3\n", "\n00\n"),
        good.replace("\n3\n", "\n+3\n"),
        good.replace("\n3\n", "\n-3\n"),
        good.replace("\n3\n", "\n 3\n"),
        good.replace("\n3\n", "\n3 \n"),
        good.replace("\n3\n", "\n0x3\n"),
        good.replace("\n3\n", "\n\u{663}\n"),
        good.replace("\n3\n", "\n18446744073709551616\n"),
        good.replace("I=\n", "J=\n"),
        good.replace("I=\n", "I\n"),
        good.replace("CsUY", ""),
        good.replace("CsUY", "CsUYCsUY"),
        good.replace('/', "_"),
    ];
    for text in bad {
        assert_eq!(Checkpoint::from_text(&text), Err(CheckpointError::Malformed), "{text:?}");
    }
    let huge = good.replace("\n3\n", "\n18446744073709551615\n");
    assert_eq!(Checkpoint::from_text(&huge), Err(HeadError::TooLarge.into()));
    let empty = good.replace("\n3\n", "\n0\n");
    assert_eq!(Checkpoint::from_text(&empty), Err(HeadError::EmptyRoot.into()));
}

#[test]
fn a_checkpoint_of_another_log_or_by_another_key_is_refused() {
    let (tree, note) = (tree(3), note(&tree(3), 3));
    let verify = |key: &LogKey| Checkpoint::verify(&note, key);
    let other_key = LogKey::new(name(ORIGIN), SigningKey::from_seed([8; 32]).verifying_key());
    let other_origin = LogKey::new(name("log.example/other"), signing_key().verifying_key());
    assert!(verify(&log_key()).is_ok());
    assert_eq!(verify(&other_key), Err(NoteError::Unsigned.into()));
    assert_eq!(verify(&other_origin), Err(NoteError::Unsigned.into()));
    // Signed by the log, but its text names another one.
    let text = Checkpoint::new(name("log.example/other"), tree.head()).to_text();
    let moved = sign(&text, &name(ORIGIN), &signing_key()).unwrap();
    assert_eq!(Checkpoint::verify(&moved, &log_key()), Err(CheckpointError::Origin));
    let with_extension = format!("{}size in words: three\n", text.replace("other", "desk"));
    let extended = sign(&with_extension, &name(ORIGIN), &signing_key()).unwrap();
    assert_eq!(Checkpoint::verify(&extended, &log_key()), Err(CheckpointError::Malformed));
    assert_eq!(Checkpoint::verify(&text, &log_key()), Err(NoteError::Malformed.into()));
}

#[test]
fn a_witness_key_is_no_log_key() {
    let witness = VerifierKey::cosigner(name(ORIGIN), signing_key().verifying_key());
    assert_eq!(witness.to_string().parse::<LogKey>(), Err(VerifierKeyError::Algorithm));
    assert_eq!(log_key().to_string().parse::<LogKey>(), Ok(log_key()));
    assert_eq!(LogKey::try_from(log_key().verifier_key().clone()), Ok(log_key()));
}

#[test]
fn every_checkpoint_error_has_a_stable_code_and_one_plain_line() {
    for (error, code) in [
        (CheckpointError::Note(NoteError::Signature), "NOTE_SIGNATURE"),
        (CheckpointError::Malformed, "CHECKPOINT_MALFORMED"),
        (CheckpointError::Origin, "CHECKPOINT_ORIGIN"),
        (CheckpointError::Head(HeadError::EmptyRoot), "MERKLE_EMPTY_ROOT"),
    ] {
        assert_eq!(error.code(), code);
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn any_flipped_bit_of_a_checkpoint_is_refused() {
    let note = note(&tree(5), 5);
    for at in 0..note.len() {
        for bit in 0..8 {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= 1_u8 << bit;
            let Ok(changed) = std::str::from_utf8(&bytes) else { continue };
            assert!(Checkpoint::verify(changed, &log_key()).is_err(), "byte {at} bit {bit}");
        }
    }
}

proptest! {
    #[test]
    fn any_checkpoint_is_read_back_as_it_was(
        origin in "[a-z0-9./:-]{1,40}",
        size in 1..=1_u64 << 63,
        root in any::<[u8; 32]>(),
        seed in any::<u8>(),
    ) {
        let head = TreeHead::new(size, RootHash::from_digest(Digest::from_bytes(root))).unwrap();
        let checkpoint = Checkpoint::new(name(&origin), head);
        prop_assert_eq!(Checkpoint::from_text(&checkpoint.to_text()), Ok(checkpoint.clone()));
        let key = SigningKey::from_seed([seed; 32]);
        let log = LogKey::new(name(&origin), key.verifying_key());
        prop_assert_eq!(Checkpoint::verify(&checkpoint.sign(&key), &log), Ok(checkpoint));
    }

    #[test]
    fn reading_any_text_as_a_checkpoint_never_panics(text in "(\\PC|\n|[0-9]|\u{2014} )*") {
        let _ = Checkpoint::from_text(&text);
        let _ = Checkpoint::verify(&text, &log_key());
    }
}
