//! Witness cosignatures of checkpoints over HTTP, from witnesses that follow C2SP tlog-witness and from some that do not.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use countersign_audit_log::{
    AddCheckpoint, Checkpoint, LogKey, WitnessKey, WitnessRefusal, WitnessedCheckpoint, WitnessedLog, cosign,
};
use countersign_core::Timestamp;
use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;
use serde_json::json;

use crate::audit_log::{FIRST, copy, decide, log};
use crate::bench::Bench;
use crate::desk::open;

const SECONDS: u64 = 1_679_315_147;

/// Local HTTP server, with the bodies that it received.
struct Server {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Answers every request, one connection each, until the test ends.
    fn start(mut answer: impl FnMut(&str, &mut TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, bodies) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let keep = bodies.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                let body = read(&mut reader);
                keep.lock().unwrap().push(body.clone());
                answer(&body, reader.get_mut());
            }
        });
        Self { address, bodies }
    }

    /// Starts a server that answers every request alike.
    fn says(status: u16, body: &str) -> Self {
        let body = body.to_owned();
        Self::start(move |_, stream| respond(stream, status, &body))
    }

    fn url(&self) -> String {
        format!("http://{}/w", self.address)
    }

    /// Returns the bodies received since the last call.
    fn sent(&self) -> Vec<String> {
        std::mem::take(&mut self.bodies.lock().unwrap())
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> String {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_ascii_lowercase()),
        }
    }
    assert_eq!(head[0], "post /w/add-checkpoint http/1.1");
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

fn respond(stream: &mut TcpStream, status: u16, body: &str) {
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nlocation: /\r\n", body.len());
    // The client may have closed the connection already.
    let _ = stream.write_all(format!("{head}connection: close\r\n\r\n{body}").as_bytes());
}

fn key_of(number: u8) -> (KeyName, SigningKey) {
    (KeyName::new(&format!("w{number}.example")).unwrap(), SigningKey::from_seed([number; 32]))
}

/// Returns the public key of the witness with this number.
fn vkey(number: u8) -> String {
    let (name, key) = key_of(number);
    WitnessKey::new(name, key.verifying_key()).to_string()
}

fn line(checkpoint: &Checkpoint, number: u8) -> String {
    let (name, key) = key_of(number);
    cosign(checkpoint, &name, &key, Timestamp::from_millis(SECONDS * 1_000).unwrap())
}

fn log_key(bench: &Bench) -> LogKey {
    bench.read("log.vkey").trim_end().parse().unwrap()
}

/// Starts a witness that follows the protocol and has seen no checkpoint yet.
fn witness(bench: &Bench, number: u8) -> Server {
    let mut known = WitnessedLog::new(log_key(bench), None);
    Server::start(move |body, stream| match known.check(&AddCheckpoint::from_body(body).unwrap()) {
        Ok(checkpoint) => {
            known = WitnessedLog::new(known.key().clone(), Some(checkpoint.clone()));
            respond(stream, 200, &line(&checkpoint, number));
        }
        Err(WitnessRefusal::Conflict { size }) => respond(stream, 409, &format!("{size}\n")),
        Err(refusal) => respond(stream, refusal.status(), "no\n"),
    })
}

fn ask(server: &Server, number: u8) -> String {
    format!("audit witness log --key log.vkey --witness {} --witness-key {}", server.url(), vkey(number))
}

fn olds(server: &Server) -> Vec<String> {
    server.sent().iter().map(|body| body.lines().next().unwrap().to_owned()).collect()
}

#[test]
fn witness_cosigns_a_growing_log() {
    let bench = open();
    log(&bench, "a", 2);
    let first = witness(&bench, 1);
    let note = bench.ok(&ask(&first, 1));
    assert!(note.starts_with(&bench.ok("audit checkpoint log --key log.vkey")), "{note}");
    let known: WitnessKey = vkey(1).parse().unwrap();
    let read = WitnessedCheckpoint::verify(&note, &log_key(&bench), std::slice::from_ref(&known)).unwrap();
    assert_eq!((read.witnesses(), read.checkpoint().size()), (1, 7));
    let sent = first.sent();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].starts_with("old 0\n\nexample.com/log\n7\n"), "{sent:?}");

    // The log has grown. Without a state, the witness is asked for its size; with one, the size is known.
    log(&bench, "b", 1);
    let state = format!("{} --state log.cosigned", ask(&first, 1));
    let told = bench.run(&format!("{state} --json --out kept.note")).value();
    assert_eq!(olds(&first), ["old 0", "old 7"]);
    assert_eq!((&told["size"], &told["origin"]), (&json!(12), &json!("example.com/log")));
    assert_eq!(told["witnesses"], json!([{"witness": "w1.example", "seconds": SECONDS, "error": null}]));
    assert_eq!(told["note"], bench.read("kept.note"));
    assert_eq!(bench.read("log.cosigned"), bench.read("kept.note"));
    log(&bench, "c", 1);
    let text = bench.ok(&format!("{state} --out later.note"));
    assert_eq!(
        text,
        "cosigned by w1.example at 2023-03-20T12:25:47.000Z\n\
         checkpoint of 17 entries, cosigned by 1 of 1 witnesses, in later.note\n"
    );
    assert_eq!(olds(&first), ["old 12"]);
    assert_eq!(bench.read("log.cosigned"), bench.read("later.note"), "the state is replaced");
    bench.ok(&state);
    assert_eq!(olds(&first), ["old 17"], "nothing new is cosigned again");

    bench.ok("audit verify log --key log.vkey --checkpoint kept.note --checkpoint later.note");
    assert_eq!(decide(&bench, "d", 1, "--record-checkpoint later.note").code, 3, "a session goes on from it");
    bench.fails(&format!("{state} --out kept.note"), 1, "FILE_EXISTS");
    assert_eq!(first.sent().len(), 0, "nothing is asked in vain");
}

#[test]
fn failed_note_write_leaves_no_state() {
    let bench = open();
    log(&bench, "a", 1);
    let one = witness(&bench, 1);
    let lost = bench.run(&format!("{} --state s --out no/a.note", ask(&one, 1)));
    assert!(lost.code == 1 && lost.err.starts_with("error FILE_UNWRITABLE: `no/a.note`: "), "{lost:?}");
    assert!(!lost.err.contains(".countersign-"), "{lost:?}");
    assert!(!bench.path("s").exists());
    bench.ok(&format!("{} --state s --out s", ask(&one, 1)));
    bench.ok("audit verify log --key log.vkey --checkpoint s");
}

#[test]
fn quorum_of_several_witnesses_is_enough() {
    let bench = open();
    log(&bench, "a", 1);
    let (one, two, gone) = (witness(&bench, 1), witness(&bench, 2), Server::says(500, "down"));
    let with = |last: &Server| format!("{} --witness {} --witness-key {}", ask(&one, 1), last.url(), vkey(2));
    let note = bench.ok(&with(&two));
    let known = [vkey(1).parse().unwrap(), vkey(2).parse().unwrap()];
    assert_eq!(WitnessedCheckpoint::verify(&note, &log_key(&bench), &known).unwrap().witnesses(), 2);

    bench.fails(&format!("{} --out a.note --state s", with(&gone)), 1, "WITNESS_QUORUM");
    let run = bench.run(&with(&gone));
    assert!(run.err.contains("1 of 2 witnesses, 2 required; WITNESS_STATUS: `w2.example`"), "{run:?}");
    let run = bench.run(&format!("{} --quorum 1 --json", with(&gone)));
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.err, "note: WITNESS_STATUS: `w2.example`: unexpected HTTP status from the witness: 500\n");
    let told: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(told["witnesses"][0]["seconds"], SECONDS);
    assert_eq!(
        (&told["witnesses"][1]["seconds"], &told["witnesses"][1]["error"]["code"]),
        (&json!(null), &json!("WITNESS_STATUS"))
    );
    // An inconsistent history decides the exit code, whatever else failed.
    let ahead = Server::says(409, "99\n");
    let both = format!("{} --witness {} --witness-key {}", with(&gone), ahead.url(), vkey(3));
    bench.fails(&both, 3, "WITNESS_QUORUM");
}

#[test]
fn witness_is_asked_without_reading_older_entries() {
    let bench = open();
    log(&bench, "a", 150);
    let one = witness(&bench, 1);
    bench.ok(&format!("{} --state s", ask(&one, 1)));
    log(&bench, "b", 1);
    // Only a check of the whole log finds it.
    let changed = bench.read(FIRST).replacen("\"a1\"", "\"x1\"", 1);
    bench.write(FIRST, changed);
    bench.fails("audit verify log --key log.vkey", 3, "AUDIT_CORRUPT");
    bench.ok(&format!("{} --state s", ask(&one, 1)));
    assert_eq!(olds(&one), ["old 0", "old 303"]);
}

#[test]
fn witness_before_an_archived_segment_gets_no_proof() {
    let bench = open();
    log(&bench, "a", 1);
    let (early, late) = (witness(&bench, 1), witness(&bench, 2));
    bench.ok(&ask(&early, 1));
    decide(&bench, "b", 300, "--record-segment 65536");
    bench.ok(&ask(&late, 2));
    let names = std::fs::read_dir(bench.path("log")).unwrap().map(|file| file.unwrap().file_name());
    let names = names.filter_map(|name| name.to_str()?.strip_suffix(".jsonl")?.parse::<u64>().ok());
    let last = names.max().unwrap();
    bench.ok(&format!("audit archive log --key log.key --to archive --before {last}"));
    let run = bench.run(&format!("{} --out a.note", ask(&early, 1)));
    assert!(run.code == 1 && run.err.starts_with("error AUDIT_ARCHIVED: `w1.example`: "), "{run:?}");
    bench.ok(&ask(&late, 2));
}

#[test]
fn restored_older_log_is_found_by_its_cosignature() {
    let bench = open();
    log(&bench, "a", 1);
    copy(&bench.path("log"), &bench.path("old"));
    log(&bench, "b", 1);
    let one = witness(&bench, 1);
    bench.ok(&format!("{} --state s", ask(&one, 1)));
    one.sent();
    std::fs::remove_dir_all(bench.path("log")).unwrap();
    copy(&bench.path("old"), &bench.path("log"));
    bench.fails(&format!("{} --state s", ask(&one, 1)), 3, "AUDIT_ROLLED_BACK");
    assert_eq!(one.sent().len(), 0);
    bench.fails(&format!("{} --out a.note", ask(&one, 1)), 3, "WITNESS_AHEAD");
}

#[test]
fn a_fork_with_two_heads_is_found_by_the_witness_of_one() {
    let bench = open();
    log(&bench, "a", 1);
    copy(&bench.path("log"), &bench.path("old"));
    log(&bench, "b", 1);
    let one = witness(&bench, 1);
    bench.ok(&ask(&one, 1));
    std::fs::rename(bench.path("log"), bench.path("other")).unwrap();
    copy(&bench.path("old"), &bench.path("log"));
    bench.forget_log_state();
    log(&bench, "c", 1);
    bench.fails(&format!("{} --state s --out a.note", ask(&one, 1)), 3, "WITNESS_CONFLICT");
    log(&bench, "d", 1);
    bench.fails(&format!("{} --state s --out a.note", ask(&one, 1)), 3, "WITNESS_PROOF");
    // The witness still follows the other head. A cosignature of that head makes no receipt for this log.
    bench.ok(&format!("{} --out other.note", ask(&one, 1).replace("witness log", "witness other")));
    bench.fails("audit receipt log --key log.vkey --cosigned other.note --seq 1", 3, "AUDIT_FORK");
    bench.ok("audit receipt other --key log.vkey --cosigned other.note --seq 1");
}

#[test]
fn a_witness_that_lies_is_not_believed() {
    let bench = open();
    log(&bench, "a", 1);
    let seen =
        Checkpoint::verify(&bench.ok("audit checkpoint log --key log.vkey"), &log_key(&bench)).unwrap();
    let elsewhere = Checkpoint::new(KeyName::new("example.com/other").unwrap(), *seen.head());
    let stranger = line(&seen, 2);
    for (status, body, exit, code) in [
        (200, String::new(), 3, "WITNESS_KEY"),
        (200, stranger, 3, "WITNESS_KEY"),
        (200, line(&elsewhere, 1), 3, "WITNESS_SIGNATURE"),
        (200, "<html>\n".to_owned(), 1, "WITNESS_ANSWER"),
        (200, line(&seen, 1).repeat(1_000), 1, "WITNESS_ANSWER"),
        (200, "a".repeat(1 << 20), 1, "WITNESS_ANSWER"),
        (409, "0\n".to_owned(), 1, "WITNESS_ANSWER"),
        (409, "many\n".to_owned(), 1, "WITNESS_ANSWER"),
        (409, "3\n".to_owned(), 1, "WITNESS_ANSWER"),
        (409, "5\n".to_owned(), 3, "WITNESS_CONFLICT"),
        (409, "6\n".to_owned(), 3, "WITNESS_AHEAD"),
        (400, String::new(), 1, "WITNESS_MALFORMED"),
        (403, String::new(), 1, "WITNESS_UNSIGNED"),
        (404, String::new(), 1, "WITNESS_UNKNOWN_LOG"),
        (422, String::new(), 3, "WITNESS_PROOF"),
        (302, String::new(), 1, "WITNESS_STATUS"),
        (307, line(&seen, 1), 1, "WITNESS_STATUS"),
        (500, line(&seen, 1), 1, "WITNESS_STATUS"),
    ] {
        let liar = Server::says(status, &body);
        bench.fails(&format!("{} --state s --out a.note", ask(&liar, 1)), exit, code);
        assert!(liar.sent().len() <= 4, "{status} {code}: twice at most, in each of two runs");
    }
    // A witness must not forget the checkpoint that it cosigned.
    bench.ok(&format!("{} --state s", ask(&witness(&bench, 1), 1)));
    bench.fails(&format!("{} --state s", ask(&witness(&bench, 1), 1)), 3, "WITNESS_FORGOT");
}

#[test]
fn a_witness_that_is_slow_or_gone_does_not_hold_up_for_ever() {
    let bench = open();
    log(&bench, "a", 1);
    let silent = Server::start(|_, stream| drop(stream.read(&mut [0])));
    bench.fails(&format!("{} --timeout 500ms", ask(&silent, 1)), 1, "WITNESS_TIMEOUT");
    let stalls = Server::start(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 60000\r\n\r\na").unwrap();
        let _ = stream.read(&mut [0]);
    });
    bench.fails(&format!("{} --timeout 500ms", ask(&stalls, 1)), 1, "WITNESS_TIMEOUT");
    for (status, exit, code) in
        [(200, 1, "WITNESS_ANSWER"), (409, 1, "WITNESS_ANSWER"), (422, 3, "WITNESS_PROOF")]
    {
        let endless = Server::start(move |_, stream| {
            let _ = stream.write_all(format!("HTTP/1.1 {status} x\r\nconnection: close\r\n\r\n").as_bytes());
            while stream.write_all(&[b'a'; 1_000]).is_ok() {}
        });
        bench.fails(&ask(&endless, 1), exit, code);
    }
    let gone = Server::start(|_, stream| stream.shutdown(std::net::Shutdown::Both).unwrap());
    bench.fails(&ask(&gone, 1), 1, "WITNESS_UNREACHABLE");
    // Over HTTPS nothing is sent in clear text, even to a server that does not speak TLS.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plain = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut first = [0; 5];
            stream.as_ref().unwrap().read_exact(&mut first).unwrap();
            assert_eq!(first[0], 0x16, "the handshake of TLS");
            respond(&mut stream.unwrap(), 200, "");
        }
    });
    bench.fails(&ask(&gone, 1).replace(&gone.url(), &plain), 1, "WITNESS_UNREACHABLE");
}

#[test]
fn conflicting_witness_options_are_refused() {
    let bench = open();
    log(&bench, "a", 1);
    let one = witness(&bench, 1);
    let asked = ask(&one, 1);
    let public = bench.read("log.vkey");
    bench.fails("audit witness log --key log.vkey", 2, "USAGE");
    for wrong in [
        "--quorum 0".to_owned(),
        "--quorum 2".to_owned(),
        "--timeout 0s".to_owned(),
        format!("--witness {}", one.url()),
        format!("--witness-key {}", vkey(2)),
        format!("--witness {} --witness-key {}", one.url(), vkey(1)),
        format!("--witness {} --witness-key {}", one.url(), public.trim_end()),
        format!("--witness ftp://witness.example --witness-key {}", vkey(2)),
    ] {
        bench.fails(&format!("{asked} {wrong}"), 2, "USAGE");
    }
    let far = format!("{asked} --witness http://witness.example --witness-key {}", vkey(2));
    bench.fails(&far, 2, "WITNESS_PLAIN_HTTP");
    bench.write("s", "hello\n");
    bench.fails(&format!("{asked} --state s"), 3, "AUDIT_SIGNATURE");
    bench.fails(&asked.replace("witness log", "witness none"), 1, "AUDIT_UNAVAILABLE");
    assert_eq!(one.sent().len(), 0);
}

#[test]
fn every_code_about_witnesses_is_documented_and_no_other() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let file = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let codes = |text: &str, before: &str| -> BTreeSet<String> {
        let parts = text.split(before).skip(1).map(|rest| rest.split(['"', '`']).next().unwrap());
        parts.filter(|code| code.starts_with("WITNESS_")).map(str::to_owned).collect()
    };
    let sources = [
        "crates/tlog/src/submission.rs",
        "crates/tlog/src/witness.rs",
        "crates/cli/src/command/audit/witness.rs",
        "crates/cli/src/command/audit/witness/post.rs",
    ];
    let given = codes(&sources.map(file).concat(), "\"");
    assert!(given.len() >= 18, "{given:?}");
    assert_eq!(given, codes(&file("docs/witness.md"), "`"));
}

#[test]
fn cosigned_receipt_verifies_with_its_witness_keys() {
    let bench = open();
    log(&bench, "a", 1);
    let (one, two) = (witness(&bench, 1), witness(&bench, 2));
    let asked = format!("{} --witness {} --witness-key {}", ask(&one, 1), two.url(), vkey(2));
    bench.ok(&format!("{asked} --out kept.note"));
    log(&bench, "b", 1);
    let receipt = "audit receipt log --key log.vkey --cosigned kept.note";
    bench.ok(&format!("{receipt} --call-id a1 --out a1.receipt"));
    bench.fails(&format!("{receipt} --call-id b1"), 1, "AUDIT_NO_SUCH_CALL");
    bench.fails(&format!("{receipt} --seq 6"), 1, "AUDIT_NO_SUCH_SIZE");

    let verify = "audit verify-receipt a1.receipt --key log.vkey";
    let both = format!("{verify} --witness {} --witness {}", vkey(1), vkey(2));
    let shown = bench.ok(&both);
    assert!(shown.starts_with("entry 2 of example.com/log, under its checkpoint of 5\n"), "{shown}");
    assert!(shown.contains("cosigned by w1.example\ncosigned by w2.example\n"), "{shown}");
    let third = format!("{both} --witness {}", vkey(3));
    bench.fails(&third, 3, "RECEIPT_QUORUM");
    bench.ok(&format!("{third} --quorum 2"));
    bench.fails(&format!("{third} --quorum 4"), 2, "USAGE");
    bench.fails(&format!("{third} --quorum 0"), 2, "USAGE");
    bench.fails(&format!("{verify} --quorum 1"), 2, "USAGE");
    // why: a signature that cannot be verified could have been changed.
    bench.fails(verify, 3, "RECEIPT_STRANGER");
    bench.fails(&format!("{verify} --witness {}", vkey(1)), 3, "RECEIPT_STRANGER");
    // A receipt without a cosignature fails if one is required.
    bench.ok("audit receipt log --key log.vkey --call-id b1 --out b1.receipt");
    bench.ok("audit verify-receipt b1.receipt --key log.vkey");
    let bare = format!("audit verify-receipt b1.receipt --key log.vkey --witness {}", vkey(1));
    bench.fails(&bare, 3, "RECEIPT_QUORUM");

    bench.write("other.note", bench.read("kept.note").replace("\n5\n", "\n3\n"));
    bench.fails("audit receipt log --key log.vkey --cosigned other.note --seq 1", 3, "AUDIT_SIGNATURE");
}
