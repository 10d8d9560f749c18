//! Public vectors under `tests/vectors/audit-log`: one test generates them and compares, another runs those on disk.
//! `COUNTERSIGN_WRITE_VECTORS=1` writes them. They are made here, and not by `xtask vectors`, because damaged logs are put
//! together from heads and checkpoint lines of segments, which are private.

use std::collections::BTreeSet;

use countersign_keys::SigningKey;
use countersign_merkle::{InclusionProof, LeafHash, MerkleTree, TreeHead};
use countersign_test_vectors::{Vectors, numbered};
use countersign_tlog::base64;
use countersign_tlog::note::sign;
use serde_json::{Value, json};

use super::checkpoint::{ORIGIN, log_key, name, note, request, signing_key, tree};
use super::receipt::{lines, receipt, receipt_of, records};
use super::{at, closing_vectors, log_vectors};
use crate::*;

fn of_checkpoint(about: &str, expect: &str, note: &str) -> Value {
    let key = log_key().to_string();
    json!({ "description": about, "kind": "checkpoint", "key": key, "note": note, "expect": expect })
}

fn of_receipt(about: &str, expect: &str, text: &str) -> Value {
    let key = log_key().to_string();
    json!({ "description": about, "kind": "receipt", "key": key, "receipt": text, "expect": expect })
}

/// Builds a request to a witness that knows the log at `latest`, or not at all.
fn of_request(about: &str, expect: &str, latest: Option<&str>, body: &str) -> Value {
    let key = log_key().to_string();
    let kind = "add-checkpoint";
    json!({ "description": about, "kind": kind, "key": key, "latest": latest, "body": body, "expect": expect })
}

/// Builds a request of a log of twelve records to a witness that cosigned `cosigned` records before, and its answer.
fn of_answer(about: &str, expect: &str, (cosigned, status): (u64, u16), answer: &str) -> Value {
    let tree = tree(12);
    let leaves = (0..12).map(|at| base64::encode(tree.leaf(at).unwrap().as_bytes()));
    json!({
        "description": about, "kind": "answer", "key": log_key().to_string(), "note": note(&tree, 12),
        "leaves": leaves.collect::<Vec<_>>(), "witness": w(1).0.to_string(), "cosigned": cosigned,
        "status": status, "answer": answer, "expect": expect
    })
}

/// Returns the witness with that number.
fn w(number: u8) -> (WitnessKey, SigningKey) {
    let key = SigningKey::from_seed([number; 32]);
    (WitnessKey::new(name(&format!("w{number}.example")), key.verifying_key()), key)
}

/// Returns the cosignature of that witness.
fn by(checkpoint: &Checkpoint, number: u8) -> String {
    let (witness, key) = w(number);
    cosign(checkpoint, witness.name(), &key, at(1_679_315_147_000))
}

/// Returns the receipt of an accepted call whose checkpoint has these lines besides the log's.
fn cosigned(lines_of: impl Fn(&Checkpoint) -> String) -> String {
    let all = lines(&records());
    let tree: MerkleTree = all.iter().map(|line| LeafHash::of(line.as_bytes())).collect();
    let checkpoint = Checkpoint::new(name(ORIGIN), tree.head());
    let note = checkpoint.sign(&signing_key()) + &lines_of(&checkpoint);
    let receipt = Receipt::new(all[5].as_bytes(), &tree.prove_inclusion(5).unwrap(), &note).unwrap();
    receipt.to_json().to_owned()
}

/// The same, for a reader that knows the first `known` witnesses and requires `quorum` of them.
fn of_cosigned(about: &str, expect: &str, (known, quorum): (u8, u64), text: &str) -> Value {
    let mut case = of_receipt(about, expect, text);
    case["witnesses"] = (1..=known).map(|number| w(number).0.to_string()).collect();
    if quorum > 0 {
        case["quorum"] = json!(quorum);
    }
    case
}

fn accepted() -> Vec<(&'static str, Value)> {
    let tree = tree(12);
    let witnessed = of_cosigned(
        "a checkpoint that a known witness cosigned",
        "ok",
        (1, 0),
        &cosigned(|checkpoint| by(checkpoint, 1)),
    );
    let two_of_three = cosigned(|checkpoint| by(checkpoint, 1) + &by(checkpoint, 3));
    let twelve = Checkpoint::new(name(ORIGIN), tree.head());
    let answered = [by(&twelve, 2), by(&twelve, 1)].concat();
    let sent = |old, new| request(&tree, old, new).to_body();
    vec![
        ("checkpoint", of_checkpoint("a checkpoint of twelve records", "ok", &note(&tree, 12))),
        ("checkpoint_of_an_empty_log", of_checkpoint("no records", "ok", &note(&tree, 0))),
        ("receipt_of_an_accepted_call", of_receipt("an accepted call", "ok", receipt(5).to_json())),
        ("receipt_of_a_refused_call", of_receipt("a refused call", "ok", receipt(2).to_json())),
        ("receipt_of_the_last_record", of_receipt("a record that moved up", "ok", receipt(10).to_json())),
        (
            "receipt_of_the_only_record",
            of_receipt("no hashes", "ok", receipt_of(&lines(&records()[..1]), 0).to_json()),
        ),
        ("receipt_with_a_cosignature", witnessed),
        ("first_checkpoint", of_request("a log that was never seen", "ok", None, &sent(0, 5))),
        ("grown", of_request("a log that grew", "ok", Some(&note(&tree, 5)), &sent(5, 12))),
        ("the_same_again", of_request("nothing new", "ok", Some(&note(&tree, 5)), &sent(5, 5))),
        ("receipt_with_a_quorum", of_cosigned("two of three known witnesses", "ok", (3, 2), &two_of_three)),
        ("answer_cosigned", of_answer("a cosignature among others", "ok", (5, 200), &answered)),
        ("answer_other_size", {
            let mut case =
                of_answer("the witness stands elsewhere, and is asked again", "ok", (0, 409), "5\n");
            case["next"] = json!(sent(5, 12));
            case
        }),
        ("receipt_of_a_call_that_did_not_run", {
            let mut all = records();
            let Record::Outcome(end) = &mut all[6] else { panic!("an outcome") };
            (end.outcome, end.code) = (OutcomeKind::NotRun, Some("AGENT_REVOKED".into()));
            of_receipt("an accepted call that did not run", "ok", receipt_of(&lines(&all), 6).to_json())
        }),
    ]
}

/// Receipts as other programs forward them.
fn accepted_as_sent() -> Vec<(&'static str, Value)> {
    let json = receipt(5).to_json().to_owned();
    vec![
        ("receipt_no_newline", of_receipt("no newline at the end", "ok", json.trim_end())),
        ("receipt_white_space_behind", of_receipt("more behind the end", "ok", &format!("{json}\r\n \t"))),
    ]
}

fn rejected() -> Vec<(&'static str, Value)> {
    let tree = tree(12);
    let good = note(&tree, 12);
    let other_key = SigningKey::from_seed([8; 32]);
    let twelve = Checkpoint::new(name(ORIGIN), tree.head());
    let signed = |text: &str| sign(text, &name(ORIGIN), &signing_key()).unwrap();
    let of_another = Checkpoint::new(name("log.example/other"), tree.head()).to_text();
    let checkpoints = [
        ("changed_size", "another size", "NOTE_SIGNATURE", good.replace("\n12\n", "\n13\n")),
        ("other_key", "signed by another key", "NOTE_UNSIGNED", twelve.sign(&other_key)),
        ("unsigned", "no signature", "NOTE_MALFORMED", twelve.to_text()),
        ("carriage_return", "lines that end in two characters", "NOTE_MALFORMED", good.replace('\n', "\r\n")),
        (
            "other_origin",
            "another log's text under this log's name",
            "CHECKPOINT_ORIGIN",
            signed(&of_another),
        ),
        ("extension", "a fourth line", "CHECKPOINT_MALFORMED", signed(&(twelve.to_text() + "more\n"))),
        (
            "leading_zero",
            "a size of 012",
            "CHECKPOINT_MALFORMED",
            signed(&twelve.to_text().replace("12", "012")),
        ),
    ];
    let json = receipt(5).to_json().to_owned();
    let (all, first) = (lines(&records()), receipt_of(&lines(&records()[..1]), 0));
    let log: MerkleTree = all.iter().map(|line| LeafHash::of(line.as_bytes())).collect();
    let log_note = Checkpoint::new(name(ORIGIN), log.head()).sign(&signing_key());
    let put = |line: &str, proof: &InclusionProof, note: &str| {
        Receipt::new(line.as_bytes(), proof, note).unwrap().to_json().to_owned()
    };
    let moved = {
        let three: MerkleTree = all[..3].iter().map(|line| LeafHash::of(line.as_bytes())).collect();
        let head = TreeHead::new(2, *three.head().root()).unwrap();
        let proof = InclusionProof::new(1, 2, three.prove_inclusion(2).unwrap().path().to_vec()).unwrap();
        put(&all[2], &proof, &Checkpoint::new(name(ORIGIN), head).sign(&signing_key()))
    };
    let short = InclusionProof::new(5, 11, log.prove_inclusion(5).unwrap().path()[1..].to_vec()).unwrap();
    let receipts = [
        ("verdict_changed", "a call that was refused is said to be accepted", "MERKLE_ROOT", {
            receipt(2).to_json().replace("\\\"verdict\\\":\\\"reject\\\"", "\\\"verdict\\\":\\\"accept\\\"")
        }),
        ("letter_behind", "a letter behind the end", "RECEIPT_MALFORMED", format!("{json}x")),
        ("pretty_printed", "formatted anew", "RECEIPT_SPELLING", {
            serde_json::to_string_pretty(&serde_json::from_str::<Value>(&json).unwrap()).unwrap()
        }),
        (
            "white_space",
            "a space behind a colon",
            "RECEIPT_SPELLING",
            json.replace("\"index\":", "\"index\": "),
        ),
        (
            "unknown_member",
            "a member more",
            "RECEIPT_MALFORMED",
            json.replace("\"proof\":", "\"note\":1,\"proof\":"),
        ),
        (
            "other_form",
            "a form that does not exist yet",
            "RECEIPT_MALFORMED",
            json.replace("receipt-1", "receipt-2"),
        ),
        (
            "index_as_double",
            "an index of 5.0",
            "RECEIPT_SPELLING",
            json.replace("\"index\":5", "\"index\":5.0"),
        ),
        ("other_index", "the neighbour's index", "MERKLE_ROOT", json.replace("\"index\":5", "\"index\":4")),
        (
            "other_record",
            "the neighbour's record",
            "MERKLE_ROOT",
            put(&all[4], &log.prove_inclusion(5).unwrap(), &log_note),
        ),
        ("missing_hash", "a hash left out", "MERKLE_LENGTH", put(&all[5], &short, &log_note)),
        ("other_key", "a checkpoint by another key", "NOTE_UNSIGNED", {
            let note = Checkpoint::new(name(ORIGIN), log.head()).sign(&other_key);
            put(&all[5], &log.prove_inclusion(5).unwrap(), &note)
        }),
        ("other_place", "a record under the size of another tree", "RECEIPT_RECORD", moved),
        ("stranger", "a signature of nobody known", "RECEIPT_STRANGER", cosigned(|it| by(it, 1))),
        ("no_note", "no checkpoint", "NOTE_MALFORMED", first.to_json().replace("\\n\\n", "\\n")),
    ];
    let sent = |old, new| request(&tree, old, new).to_body();
    let fork: MerkleTree = (0..12_u64).map(|n| LeafHash::of(&n.max(1).to_be_bytes())).collect();
    let five = note(&tree, 5);
    let requests = [
        ("cut_tail", "fewer records than were seen", "WITNESS_CONFLICT", sent(3, 4)),
        ("never_seen", "as if nothing had been seen", "WITNESS_CONFLICT", sent(0, 12)),
        ("fork", "a log that does not go on", "WITNESS_PROOF", request(&fork, 5, 12).to_body()),
        ("fork_of_one_size", "another root", "WITNESS_CONFLICT", request(&fork, 5, 5).to_body()),
        (
            "backwards",
            "an old size above the new one",
            "WITNESS_OLD_SIZE",
            sent(5, 5).replace("old 5", "old 6"),
        ),
        ("unsigned", "another key", "WITNESS_UNSIGNED", sent(5, 12).replace(&good, &twelve.sign(&other_key))),
        ("unknown_log", "another origin", "WITNESS_UNKNOWN_LOG", {
            let other = Checkpoint::new(name("log.example/other"), tree.head()).sign(&signing_key());
            sent(5, 12).replace(&good, &other)
        }),
        ("leading_zero", "an old size of 05", "NOTE_MALFORMED", sent(5, 12).replace("old 5", "old 05")),
    ];
    let checkpoints = checkpoints
        .map(|(slug, about, code, note)| (format!("checkpoint_{slug}"), of_checkpoint(about, code, &note)));
    let receipts =
        receipts.map(|(slug, about, code, text)| (format!("receipt_{slug}"), of_receipt(about, code, &text)));
    let requests = requests.map(|(slug, about, code, body)| {
        (format!("request_{slug}"), of_request(about, code, Some(&five), &body))
    });
    let all = checkpoints.into_iter().chain(receipts).chain(requests);
    let all = all.chain(rejected_cosigned()).chain(rejected_answers());
    all.map(|(slug, case)| (&*slug.leak(), case)).collect()
}

/// Receipts whose witnesses are not sufficient.
fn rejected_cosigned() -> Vec<(String, Value)> {
    let older = Checkpoint::new(name(ORIGIN), tree(3).head());
    let cases = [
        ("too_few_witnesses", "one of two that have to", "RECEIPT_QUORUM", (2, 2), cosigned(|it| by(it, 1))),
        (
            "one_witness_under_two_names",
            "two names over one key are one witness",
            "RECEIPT_STRANGER",
            (2, 2),
            cosigned(|it| by(it, 1) + &cosign(it, &name("w2.example"), &w(1).1, at(1_679_315_147_000))),
        ),
        (
            "cosigned_twice",
            "the same cosignature twice",
            "RECEIPT_STRANGER",
            (1, 1),
            cosigned(|it| by(it, 1).repeat(2)),
        ),
        (
            "cosignature_of_another_checkpoint",
            "a cosignature that was moved",
            "NOTE_SIGNATURE",
            (1, 1),
            cosigned(|_| by(&older, 1)),
        ),
        (
            "cosigned_by_a_stranger_too",
            "a known and an unknown witness",
            "RECEIPT_STRANGER",
            (1, 1),
            cosigned(|it| by(it, 1) + &by(it, 2)),
        ),
    ];
    let case = |(slug, about, code, known, text): (&str, &str, &str, (u8, u64), String)| {
        (format!("receipt_{slug}"), of_cosigned(about, code, known, &text))
    };
    cases.map(case).into()
}

/// Answers of witnesses without a valid cosignature.
fn rejected_answers() -> Vec<(String, Value)> {
    let of = |size: u64| Checkpoint::new(name(ORIGIN), tree(size).head());
    let cases = [
        ("ahead", "the witness saw more than there is", "WITNESS_AHEAD", (5, 409), "13\n".to_owned()),
        ("forgot", "fewer than it cosigned", "WITNESS_FORGOT", (5, 409), "4\n".to_owned()),
        ("fork_of_one_size", "another root of this size", "WITNESS_CONFLICT", (12, 409), "12\n".to_owned()),
        ("no_conflict", "the size that was sent", "WITNESS_ANSWER", (5, 409), "5\n".to_owned()),
        ("size_without_newline", "no newline", "WITNESS_ANSWER", (5, 409), "6".to_owned()),
        ("fork", "the proof does not hold there", "WITNESS_PROOF", (5, 422), String::new()),
        ("log_unknown", "a log that it does not know", "WITNESS_UNKNOWN_LOG", (0, 404), String::new()),
        ("key_unknown", "another key of the log", "WITNESS_UNSIGNED", (0, 403), String::new()),
        ("bad_request", "nothing it can read", "WITNESS_MALFORMED", (0, 400), String::new()),
        ("redirect", "a status that is none of the protocol", "WITNESS_STATUS", (0, 302), by(&of(12), 1)),
        ("nothing", "no cosignature", "WITNESS_KEY", (0, 200), String::new()),
        ("by_another", "another witness's", "WITNESS_KEY", (0, 200), by(&of(12), 2)),
        ("of_another", "of another checkpoint", "WITNESS_SIGNATURE", (0, 200), by(&of(11), 1)),
        ("page", "a page of a web server", "WITNESS_ANSWER", (0, 200), "<html>\n".to_owned()),
    ];
    let case = |(slug, about, code, said, text): (&str, &str, &str, (u64, u16), String)| {
        (format!("answer_{slug}"), of_answer(about, code, said, &text))
    };
    cases.map(case).into()
}

#[test]
fn the_vectors_on_disk_are_those_that_are_made() {
    let mut made = numbered(
        "accept",
        [accepted(), log_vectors::accepted(), accepted_as_sent(), closing_vectors::accepted()].concat(),
    );
    made.extend(numbered(
        "reject",
        [rejected(), log_vectors::rejected(), closing_vectors::rejected(), log_vectors::older_checkpoint()]
            .concat(),
    ));
    Vectors::of("audit-log").hold(&made);
}

#[test]
fn every_vector_on_disk_has_its_verdict() {
    let files = Vectors::of("audit-log").on_disk();
    let mut kinds = BTreeSet::new();
    for (name, text) in &files {
        let case: Value = serde_json::from_str(text).unwrap();
        let expected = case["expect"].as_str().unwrap();
        assert_eq!(name.starts_with("accept/"), expected == "ok", "{name}");
        assert_eq!(run(&case).map_or_else(|code| code, |()| "ok"), expected, "{name}");
        kinds.insert((case["kind"].as_str().unwrap().to_owned(), expected == "ok"));
    }
    assert!(files.len() >= 85 && kinds.len() == 12, "{kinds:?}");
}

fn run(case: &Value) -> Result<(), &'static str> {
    let text = |name: &str| case[name].as_str().unwrap();
    let log: LogKey = text("key").parse().unwrap();
    match text("kind") {
        "checkpoint" => Checkpoint::verify(text("note"), &log).map(|_| ()).map_err(|error| error.code()),
        "receipt" => {
            let none = Vec::new();
            let witnesses = case.get("witnesses").map_or(&none, |keys| keys.as_array().unwrap());
            let witnesses: Vec<WitnessKey> =
                witnesses.iter().map(|key| key.as_str().unwrap().parse().unwrap()).collect();
            let quorum = case.get("quorum").map_or(0, |quorum| quorum.as_u64().unwrap());
            let receipt = Receipt::from_json(text("receipt").as_bytes());
            let verified = receipt.and_then(|receipt| {
                receipt.verify_witnessed(&log, &witnesses, usize::try_from(quorum).unwrap())
            });
            verified.map(|_| ()).map_err(|error| error.code())
        }
        "answer" => {
            let leaf =
                |leaf: &Value| LeafHash::from_digest(base64::decode_hash(leaf.as_str().unwrap()).unwrap());
            let tree: MerkleTree = case["leaves"].as_array().unwrap().iter().map(leaf).collect();
            let witness: WitnessKey = text("witness").parse().unwrap();
            let (cosigned, status) = (case["cosigned"].as_u64().unwrap(), case["status"].as_u64().unwrap());
            let mut asked = Submission::new(&tree, text("note"), &log, &witness, cosigned).unwrap();
            let answer = asked.answer(u16::try_from(status).unwrap(), text("answer").as_bytes());
            match answer.map_err(|error| error.code())? {
                Some(line) => assert!(text("answer").contains(&line)),
                None => assert_eq!(asked.body(), text("next")),
            }
            Ok(())
        }
        "add-checkpoint" => {
            let latest = case["latest"].as_str().map(|note| Checkpoint::verify(note, &log).unwrap());
            let asked = AddCheckpoint::from_body(text("body")).map_err(|error| error.code())?;
            WitnessedLog::new(log, latest).check(&asked).map(|_| ()).map_err(|error| error.code())
        }
        "log" => {
            let summary = log_vectors::judge(case).map_err(|error| error.code())?;
            assert_eq!(summary.first_here, case["first"], "{case}");
            assert_eq!(summary.records, case["size"], "{case}");
            assert_eq!(summary.checkpoint.root().to_string(), case["root"], "{case}");
            assert_eq!(summary.tail_bytes, case["tail"], "{case}");
            Ok(())
        }
        "closing" => closing_vectors::judge(case).map(drop).map_err(|error| error.code()),
        kind => panic!("{kind}"),
    }
}
