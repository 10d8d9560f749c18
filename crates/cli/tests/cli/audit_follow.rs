//! `audit tail --follow` and `stats --watch` on a log whose end is cut while they read it.

#![cfg(unix)]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use countersign_audit_log::AuditSink as _;
use serde_json::Value;

use crate::audit::{decision, log};
use crate::audit_log_gateway::Follow;
use crate::bench::Bench;

const SEGMENT: &str = "log/000000000001.jsonl";
const TAIL: &str = "audit tail log -n 1 --follow --json";
const WATCH: &str = "stats log --watch --interval 1s --json";

/// Longer than the polling interval of a reader.
const MOMENT: Duration = Duration::from_millis(600);

/// Reader that follows a log with JSON output.
struct Reader(Follow);

impl Reader {
    /// Starts the reader and waits until it has read the existing entries.
    fn start(bench: &Bench, line: &str) -> Self {
        let reader = Self(Follow::start(bench, line));
        reader.next();
        reader
    }

    fn next(&self) -> Value {
        serde_json::from_str(&self.0.next()).unwrap()
    }

    /// Reads until a decision of this agent arrives. The lines of a watch never end.
    fn sees(&self, agent: &str) {
        for _ in 0..60 {
            let line = self.next();
            if line["agent"] == agent || line["agents"][agent].is_object() {
                return;
            }
        }
        panic!("nothing of {agent}");
    }

    /// Returns the reader's exit code and the code of its error.
    fn ended(&mut self) -> (Option<i32>, Value) {
        let mut last = Value::Null;
        // The output ends with the process. Until then, a watch prints a line each second.
        for _ in 0..60 {
            match self.0.from.recv_timeout(Duration::from_secs(30)) {
                Ok(line) => last = serde_json::from_str(&line).unwrap(),
                Err(RecvTimeoutError::Disconnected) => {
                    return (self.0.child.wait().unwrap().code(), last["error"]["code"].clone());
                }
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        panic!("it does not end");
    }
}

/// Returns a log with three entries and no writer.
fn written() -> Bench {
    let bench = Bench::new();
    let log = log(&bench);
    for at in 1..=3 {
        log.record(&decision(at, "early", None)).unwrap();
    }
    bench
}

/// Appends bytes, as a writer does that stops there. Returns the segment's length before.
fn add(bench: &Bench, bytes: &str) -> u64 {
    let mut file = OpenOptions::new().append(true).open(bench.path(SEGMENT)).unwrap();
    let before = file.metadata().unwrap().len();
    file.write_all(bytes.as_bytes()).unwrap();
    before
}

/// Returns the line of entry 4.
fn fourth(code: &str) -> String {
    let body = format!("\"type\":\"gateway\",\"time\":0,\"direction\":\"to_server\",\"code\":\"{code}\"");
    format!("{{\"seq\":4,{body}}}\n")
}

#[test]
fn half_a_line_that_the_next_writer_cuts_ends_no_reader() {
    let bench = written();
    add(&bench, "{\"seq\":4,\"type\":\"dec");
    let readers = [TAIL, WATCH].map(|line| Reader::start(&bench, line));
    let log = log(&bench);
    log.record(&decision(5, "late", None)).unwrap();
    assert_eq!(readers[0].next()["type"], "recovered");
    for reader in &readers {
        reader.sees("late");
    }
    log.record(&decision(6, "later", None)).unwrap();
    for reader in &readers {
        reader.sees("later");
    }
}

#[test]
fn half_a_line_that_is_taken_back_ends_no_reader() {
    let bench = written();
    let readers = [TAIL, WATCH].map(|line| Reader::start(&bench, line));
    let before = add(&bench, &fourth("LATE")[..40]);
    std::thread::sleep(MOMENT);
    OpenOptions::new().write(true).open(bench.path(SEGMENT)).unwrap().set_len(before).unwrap();
    std::thread::sleep(MOMENT);
    log(&bench).record(&decision(4, "late", None)).unwrap();
    for reader in &readers {
        reader.sees("late");
    }
}

#[test]
fn a_line_that_comes_in_two_halves_is_one_entry() {
    let bench = written();
    let tail = Reader::start(&bench, TAIL);
    let line = fourth("LATE");
    let (first, rest) = line.split_at(40);
    add(&bench, first);
    std::thread::sleep(MOMENT);
    add(&bench, rest);
    let entry = tail.next();
    assert_eq!((&entry["seq"], &entry["code"]), (&4.into(), &"LATE".into()));
}

#[test]
fn cut_of_a_shown_entry_is_reported() {
    for longer in [false, true] {
        let bench = written();
        let before = add(&bench, &fourth("LATE"));
        let mut readers = [TAIL, WATCH].map(|line| Reader::start(&bench, line));
        if longer {
            // The next writer cuts the end off and continues at once.
            let log = log(&bench);
            for at in 5..=20 {
                log.record(&decision(at, "late", None)).unwrap();
            }
        } else {
            OpenOptions::new().write(true).open(bench.path(SEGMENT)).unwrap().set_len(before).unwrap();
        }
        for reader in &mut readers {
            assert_eq!(reader.ended(), (Some(1), "AUDIT_REPLACED".into()));
        }
    }
}

#[test]
fn replacement_of_a_shown_entry_is_reported() {
    let bench = written();
    let before = add(&bench, &fourth("LATE"));
    let mut tail = Reader::start(&bench, TAIL);
    OpenOptions::new().write(true).open(bench.path(SEGMENT)).unwrap().set_len(before).unwrap();
    add(&bench, &format!("{}{}", fourth("EVIL"), fourth("NEXT").replace(":4,", ":5,")));
    assert_eq!(tail.ended(), (Some(1), "AUDIT_REPLACED".into()));
}
