use countersign_core::{Digest, SessionId};
use countersign_keys::SigningKey;
use countersign_merkle::{InclusionProof, LeafHash, MerkleTree, ProofError};
use countersign_tlog::note::{KeyName, NoteError, signature_line};
use proptest::prelude::*;

use super::checkpoint::{ORIGIN, log_key, name, signing_key};
use super::{at, call_record, hostile, session};
use crate::line::WireLine;
use crate::*;

/// Builds a decision with every member that an auditor needs.
fn full(verdict: Verdict) -> CallRecord {
    let mut call = call_record("call-3 \u{e9} \"quoted\"");
    call.verdict = verdict;
    call.code = (verdict == Verdict::Reject).then(|| "ARGUMENT_NOT_ALLOWED".into());
    call.ask = Some(Digest::of(b"ask"));
    call.plan = Some(Digest::of(b"plan"));
    call.plan_step = Some(2);
    call.approval = Some("token-9".parse().unwrap());
    call.approver = Some("carol".parse().unwrap());
    let mut proposal = ProposalRecord::new("strict");
    proposal.set_evidence([EvidenceRecord::signature("invoice", Digest::of(b"signed"), "k1")]);
    call.proposal = Some(Box::new(proposal));
    call
}

/// Builds eleven records of all kinds; the third is a refusal, the sixth an accepted call.
pub(super) fn records() -> Vec<Record> {
    let other = || Record::Gateway(GatewayRecord::new(at(1), Direction::ToServer, "MALFORMED_CALL"));
    let mut all: Vec<Record> = (0..11).map(|_| other()).collect();
    all[0] = Record::Session(session(Vec::new()));
    all[2] = Record::Decision(full(Verdict::Reject));
    all[5] = Record::Decision(full(Verdict::Accept));
    let ended = OutcomeRecord::new(at(9), SessionId::new("s1").unwrap(), "c", 6, OutcomeKind::Returned);
    all[6] = Record::Outcome(ended);
    all
}

pub(super) fn lines(records: &[Record]) -> Vec<String> {
    let line = |(seq, record)| serde_json::to_string(&WireLine { seq, record }).unwrap();
    (1..).zip(records).map(line).collect()
}

fn tree(lines: &[String]) -> MerkleTree {
    lines.iter().map(|line| LeafHash::of(line.as_bytes())).collect()
}

fn checkpoint(tree: &MerkleTree) -> Checkpoint {
    Checkpoint::new(name(ORIGIN), tree.head())
}

pub(super) fn receipt_of(lines: &[String], index: u64) -> Receipt {
    let tree = tree(lines);
    let proof = tree.prove_inclusion(index).unwrap();
    let note = checkpoint(&tree).sign(&signing_key());
    Receipt::new(lines[usize::try_from(index).unwrap()].as_bytes(), &proof, &note).unwrap()
}

pub(super) fn receipt(index: u64) -> Receipt {
    receipt_of(&lines(&records()), index)
}

/// Reads and verifies, as the recipient of these bytes.
fn judge(json: &[u8]) -> Result<VerifiedReceipt, ReceiptError> {
    Receipt::from_json(json)?.verify(&log_key())
}

#[test]
fn a_receipt_gives_the_decision_with_all_that_backed_it() {
    for (index, verdict, code) in
        [(2, Verdict::Reject, Some("ARGUMENT_NOT_ALLOWED")), (5, Verdict::Accept, None)]
    {
        let verified = judge(receipt(index).to_json().as_bytes()).unwrap();
        assert_eq!(verified.sequence(), index + 1);
        assert_eq!(verified.checkpoint().size(), 11);
        assert_eq!(verified.line(), lines(&records())[usize::try_from(index).unwrap()]);
        let call = verified.decision().unwrap();
        assert_eq!(call, &full(verdict));
        assert_eq!(call.code.as_ref().map(Escaped::as_str), code);
        assert_eq!(
            (call.registry_version, call.ask, call.plan),
            (7, Some(Digest::of(b"ask")), Some(Digest::of(b"plan")))
        );
        assert_eq!((call.plan_step, call.approval.as_ref().unwrap().as_str()), (Some(2), "token-9"));
        let evidence = call.proposal.as_ref().unwrap().evidence();
        assert_eq!(evidence[0].digest, Digest::of(b"signed"));
    }
}

#[test]
fn every_kind_of_record_has_a_receipt() {
    let records = records();
    for (index, record) in (0..).zip(&records) {
        let verified = judge(receipt(index).to_json().as_bytes()).unwrap();
        assert_eq!(verified.record(), record);
        assert_eq!(verified.decision().is_some(), matches!(record, Record::Decision(_)));
    }
}

#[test]
fn every_byte_of_a_receipt_changed_in_three_ways_is_refused() {
    for index in [2, 5, 10] {
        let json = receipt(index).to_json().as_bytes().to_vec();
        assert!(judge(&json).is_ok());
        for at in 0..json.len() {
            for change in [|b: u8| b ^ 1, |b: u8| b.wrapping_add(13), |b: u8| b ^ 0x20] {
                let mut changed = json.clone();
                changed[at] = change(json[at]);
                assert!(judge(&changed).is_err(), "byte {at} of {index}: {:?}", changed[at]);
            }
        }
    }
}

#[test]
fn a_receipt_that_was_cut_or_has_a_byte_more_is_refused() {
    let json = receipt(2).to_json().as_bytes().to_vec();
    for at in 0..json.len() - 1 {
        assert!(judge(&json[..at]).is_err(), "{at}");
        for byte in *b" \n0\"" {
            let mut longer = json.clone();
            longer.insert(at, byte);
            assert!(judge(&longer).is_err(), "{at} {byte}");
        }
    }
    for behind in ["x", "\u{b}", "\u{c}", "\0", "\u{a0}", "\nx", "}"] {
        assert!(judge(&[&json[..], behind.as_bytes()].concat()).is_err(), "{behind:?}");
    }
}

#[test]
fn whitespace_behind_a_receipt_is_no_part_of_it() {
    let receipt = receipt(2);
    for behind in ["", "\n\n", "\r\n", " ", "\t \r\n"] {
        let sent = format!("{}{behind}", receipt.to_json().trim_end());
        assert_eq!(Receipt::from_json(sent.as_bytes()), Ok(receipt.clone()), "{behind:?}");
    }
}

#[test]
fn respelled_receipt_is_not_called_malformed() {
    let json = receipt(2).to_json().to_owned();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let pretty = serde_json::to_string_pretty(&value).unwrap();
    for sent in
        [pretty, format!(" {json}"), json.replacen('\u{e9}', "\\u00e9", 1), json.replacen(":2,", ":2.0,", 1)]
    {
        assert_eq!(judge(sent.as_bytes()), Err(ReceiptError::Spelling), "{sent}");
    }
}

#[test]
fn a_receipt_has_one_spelling() {
    let json = receipt(2).to_json().to_owned();
    let malformed = |text: String| assert_eq!(judge(text.as_bytes()), Err(ReceiptError::Malformed), "{text}");
    assert!(json.ends_with("}\n") && !json.ends_with("\n\n"));
    malformed(json.replacen("\"index\":2", "\"index\":\"2\"", 1));
    malformed(json.replacen("\"index\":2", "\"index\":-2", 1));
    malformed(json.replacen("\"index\":2", "\"index\":2,\"index\":2", 1));
    malformed(json.replacen("\"index\":2", "\"index\":2,\"more\":1", 1));
    malformed(json.replacen("\"index\":2,", "", 1));
    malformed(json.replacen("receipt-1", "receipt-2", 1));
    malformed(json.replacen("[\"", "[\"AAAA\",\"", 1));
    malformed(json.replacen("[\"", "[[\"", 1));
    malformed(format!("\u{feff}{json}"));
    malformed(format!("[{}]\n", json.trim_end()));
    for nothing in ["", "\n", "{}\n", "null\n", "[]\n"] {
        malformed(nothing.to_owned());
    }
}

#[test]
fn a_receipt_of_another_record_place_or_checkpoint_is_refused() {
    let (lines, other) = (lines(&records()), lines(&records()[..10]));
    let (tree, smaller) = (tree(&lines), tree(&other));
    let note = checkpoint(&tree).sign(&signing_key());
    let verify = |line: &str, proof: &InclusionProof, note: &str| {
        judge(Receipt::new(line.as_bytes(), proof, note).unwrap().to_json().as_bytes()).map(|_| ())
    };
    let proof = tree.prove_inclusion(2).unwrap();
    assert_eq!(verify(&lines[2], &proof, &note), Ok(()));
    assert_eq!(verify(&lines[5], &proof, &note), Err(ProofError::Root.into()));
    assert_eq!(verify(&lines[2], &tree.prove_inclusion(5).unwrap(), &note), Err(ProofError::Root.into()));
    assert!(verify(&lines[2], &proof, &checkpoint(&smaller).sign(&signing_key())).is_err());
    let short = InclusionProof::new(2, 11, proof.path()[1..].to_vec()).unwrap();
    assert!(verify(&lines[2], &short, &note).is_err());
    let beyond = InclusionProof::new(11, 12, proof.path().to_vec()).unwrap();
    assert_eq!(verify(&lines[2], &beyond, &note), Err(ProofError::Index.into()));
    let by_another = checkpoint(&tree).sign(&SigningKey::from_seed([8; 32]));
    let unsigned = ReceiptError::Checkpoint(NoteError::Unsigned.into());
    assert_eq!(verify(&lines[2], &proof, &by_another), Err(unsigned));
}

#[test]
fn a_leaf_that_is_no_record_of_its_place_has_no_receipt() {
    let mut lines = lines(&records());
    lines[3] = lines[2].clone();
    lines[4] = "{\"checkpoint\":\"none\"}".to_owned();
    lines[7] = String::new();
    for index in [3, 4, 7] {
        assert_eq!(judge(receipt_of(&lines, index).to_json().as_bytes()), Err(ReceiptError::Record));
    }
    assert!(judge(receipt_of(&lines, 2).to_json().as_bytes()).is_ok());
}

#[test]
fn a_proof_read_under_another_size_does_not_move_a_record() {
    // The third leaf of three has the path that the second of two would have, under the same root.
    let lines = lines(&records()[..3]);
    let tree = tree(&lines);
    let proof = tree.prove_inclusion(2).unwrap();
    let head = countersign_merkle::TreeHead::new(2, *tree.head().root()).unwrap();
    let note = Checkpoint::new(name(ORIGIN), head).sign(&signing_key());
    let moved = InclusionProof::new(1, 2, proof.path().to_vec()).unwrap();
    let receipt = Receipt::new(lines[2].as_bytes(), &moved, &note).unwrap();
    assert_eq!(receipt.verify(&log_key()), Err(ReceiptError::Record));
}

#[test]
fn receipt_with_an_unknown_or_repeated_signature_is_refused() {
    let lines = lines(&records());
    let tree = tree(&lines);
    let (plain, checkpoint) = (checkpoint(&tree).sign(&signing_key()), checkpoint(&tree));
    let witness = |seed: u8, who: &str| {
        let key = SigningKey::from_seed([seed; 32]);
        let line = cosign(&checkpoint, &name(who), &key, at(1_679_315_147_000));
        (WitnessKey::new(name(who), key.verifying_key()), line)
    };
    let ((first, first_line), (other, other_line)) = (witness(1, "w1.example"), witness(2, "w2.example"));
    let receipt =
        |note: &str| Receipt::new(lines[5].as_bytes(), &tree.prove_inclusion(5).unwrap(), note).unwrap();
    let both = receipt(&format!("{plain}{first_line}{other_line}"));
    assert_eq!(both.verify(&log_key()), Err(ReceiptError::Stranger));
    assert_eq!(
        both.verify_witnessed(&log_key(), std::slice::from_ref(&first), 1),
        Err(ReceiptError::Stranger)
    );
    let verified = both.verify_witnessed(&log_key(), &[other.clone(), first.clone()], 2).unwrap();
    let seen: Vec<_> = verified.cosignatures().iter().map(|c| (c.witness.clone(), c.seconds)).collect();
    assert_eq!(seen, [(first.clone(), 1_679_315_147), (other, 1_679_315_147)]);
    let bare = receipt(&plain).verify_witnessed(&log_key(), std::slice::from_ref(&first), 0).unwrap();
    assert!(bare.cosignatures().is_empty());
    // A witness's signature alone does not make a log's note.
    let text = checkpoint.to_text();
    let only = receipt(&format!("{text}\n{first_line}"));
    let unsigned = ReceiptError::Checkpoint(NoteError::Unsigned.into());
    assert_eq!(only.verify_witnessed(&log_key(), std::slice::from_ref(&first), 0), Err(unsigned));
    // A repeated signature proves nothing more, and its bytes could be added unnoticed.
    let (_, own_line) = plain.split_once("\n\n").unwrap();
    assert_eq!(receipt(&format!("{plain}{own_line}")).verify(&log_key()), Err(ReceiptError::Stranger));
    let again = receipt(&format!("{plain}{first_line}{first_line}"));
    assert_eq!(
        again.verify_witnessed(&log_key(), std::slice::from_ref(&first), 0),
        Err(ReceiptError::Stranger)
    );
    // An ordinary signature by an unknown key counts as a stranger's as well.
    let line = signature_line(&text, &KeyName::new("else.example").unwrap(), &SigningKey::from_seed([9; 32]));
    assert_eq!(receipt(&format!("{plain}{line}")).verify(&log_key()), Err(ReceiptError::Stranger));
}

#[test]
fn receipt_below_the_witness_quorum_is_refused() {
    let lines = lines(&records());
    let tree = tree(&lines);
    let (plain, checkpoint) = (checkpoint(&tree).sign(&signing_key()), checkpoint(&tree));
    let key = SigningKey::from_seed([1; 32]);
    let by =
        |who: &str, seconds: u64| cosign(&checkpoint, &name(who), &key, at(seconds.saturating_mul(1_000)));
    let known = ["w1.example", "w2.example"].map(|who| WitnessKey::new(name(who), key.verifying_key()));
    let judge = |cosignatures: &str, quorum| {
        let proof = tree.prove_inclusion(5).unwrap();
        let receipt = Receipt::new(lines[5].as_bytes(), &proof, &format!("{plain}{cosignatures}")).unwrap();
        receipt.verify_witnessed(&log_key(), &known, quorum).map(drop)
    };
    assert_eq!(judge("", 0), Ok(()));
    assert_eq!(judge("", 1), Err(ReceiptError::Quorum));
    assert_eq!(judge(&by("w1.example", 5), 1), Ok(()));
    // One witness at two times, or under two names, counts as one.
    let twice = by("w1.example", 5) + &by("w1.example", 6) + &by("w2.example", 7);
    assert_eq!(judge(&twice, 1), Ok(()));
    assert_eq!(judge(&twice, 2), Err(ReceiptError::Quorum));
}

#[test]
fn a_receipt_is_at_most_a_mebibyte() {
    let proof = InclusionProof::new(0, 1, Vec::new()).unwrap();
    let rest = Receipt::new(b"", &proof, "").unwrap().to_json().len();
    let longest = Receipt::new("a".repeat(MAX_RECEIPT_BYTES - rest).as_bytes(), &proof, "").unwrap();
    assert_eq!(Receipt::from_json(longest.to_json().as_bytes()), Ok(longest));
    let longer = "a".repeat(MAX_RECEIPT_BYTES - rest + 1);
    assert_eq!(Receipt::new(longer.as_bytes(), &proof, ""), Err(ReceiptError::TooLong));
    assert_eq!(Receipt::from_json(&vec![b' '; MAX_RECEIPT_BYTES + 1]), Err(ReceiptError::TooLong));
}

#[test]
fn a_receipt_holds_nothing_that_a_reader_of_json_could_change() {
    let at = |index: u64| Receipt::new(b"", &InclusionProof::new(index, 1 << 60, Vec::new()).unwrap(), "");
    let highest = at((1 << 53) - 1).unwrap();
    assert_eq!(Receipt::from_json(highest.to_json().as_bytes()), Ok(highest.clone()));
    assert_eq!(at(1 << 53), Err(ReceiptError::Malformed));
    let proof = InclusionProof::new(0, 1, Vec::new()).unwrap();
    assert_eq!(Receipt::new(b"\xff", &proof, ""), Err(ReceiptError::Malformed));
    let beyond = highest.to_json().replace("9007199254740991", "9007199254740992");
    assert_eq!(Receipt::from_json(beyond.as_bytes()), Err(ReceiptError::Malformed));
}

#[test]
fn every_receipt_error_has_a_stable_code_and_one_plain_line() {
    for (error, code) in [
        (ReceiptError::Malformed, "RECEIPT_MALFORMED"),
        (ReceiptError::Spelling, "RECEIPT_SPELLING"),
        (ReceiptError::TooLong, "RECEIPT_TOO_LONG"),
        (ReceiptError::Checkpoint(CheckpointError::Origin), "CHECKPOINT_ORIGIN"),
        (ReceiptError::Stranger, "RECEIPT_STRANGER"),
        (ReceiptError::Quorum, "RECEIPT_QUORUM"),
        (ReceiptError::Proof(ProofError::Root), "MERKLE_ROOT"),
        (ReceiptError::Record, "RECEIPT_RECORD"),
    ] {
        assert_eq!(error.code(), code);
        assert!(!error.to_string().contains('\n'));
    }
}

proptest! {
    #[test]
    fn receipt_of_any_record_text_round_trips(text in any::<String>(), pick in 0..4_usize) {
        let record = hostile(&text).remove(pick);
        let lines = lines(std::slice::from_ref(&record));
        let receipt = receipt_of(&lines, 0);
        prop_assert_eq!(&Receipt::from_json(receipt.to_json().as_bytes()).unwrap(), &receipt);
        let verified = receipt.verify(&log_key()).unwrap();
        prop_assert_eq!(verified.record(), &record);
    }

    #[test]
    fn any_change_of_any_part_of_a_receipt_is_refused(
        at in any::<proptest::sample::Index>(),
        removed in 0..4_usize,
        put in proptest::collection::vec(any::<u8>(), 0..4),
    ) {
        let json = receipt(5).to_json().as_bytes().to_vec();
        let at = at.index(json.len());
        let mut changed = json.clone();
        changed.splice(at..at.saturating_add(removed).min(json.len()), put);
        // Whitespace behind the end is no part of it.
        prop_assume!(changed.trim_ascii_end() != json.trim_ascii_end());
        prop_assert!(judge(&changed).is_err());
    }

    #[test]
    fn reading_any_bytes_as_a_receipt_never_panics(bytes in any::<Vec<u8>>()) {
        prop_assert!(judge(&bytes).is_err());
    }
}
