//! A process that records under load is killed at a random moment; every record that it acknowledged must be in the
//! log.

#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::log_support::*;
use super::sim::Rng;
use super::{accepted, call_record, end, outcome};
use crate::*;

const LOG: &str = "COUNTERSIGN_LOG_TEST_FOLDER";
const LIFE: &str = "COUNTERSIGN_LOG_TEST_LIFE";

/// Number of lives of one log before the next log is begun.
const LIVES: usize = 25;

fn settings(life: usize) -> LogOptions {
    let durability =
        [Durability::Group, Durability::System, Durability::Every, Durability::Group][life / LIVES % 4];
    options_with_state().durability(durability).segment_bytes(20_000).checkpoint_every(7)
}

#[test]
#[ignore = "the other end of the tests here: does nothing unless they start it"]
fn child() {
    let Ok(life) = std::env::var(LIFE) else { return };
    let path = PathBuf::from(std::env::var_os(LOG).unwrap());
    let log = Log::open(path, settings(life.parse().unwrap())).unwrap();
    // One write per line, so that no line is cut.
    let say = |line: String| std::io::stderr().write_all(line.as_bytes()).unwrap();
    say("ready\n".into());
    let number = AtomicU64::new(0);
    let name = || format!("{life}-{}", number.fetch_add(1, Ordering::Relaxed));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let call = name();
                    let seq = log.record(&accepted(&call)).unwrap();
                    say(format!("{seq} {call}\n"));
                    let seq = log.record(&outcome(&call, seq)).unwrap();
                    say(format!("outcome {seq}\n"));
                }
            });
        }
        scope.spawn(|| {
            loop {
                let calls: Vec<_> = (0..20).map(|_| name()).collect();
                let pending: Vec<_> = calls.iter().map(|call| log.submit(&accepted(call)).unwrap()).collect();
                for (call, pending) in calls.iter().zip(pending) {
                    say(format!("{} {call}\n", pending.wait().unwrap()));
                }
                let seq = log.record(&end(EndReason::Server)).unwrap();
                say(format!("end {seq}\n"));
                say(format!("note {}\n", serde_json::to_string(&log.checkpoint().unwrap()).unwrap()));
            }
        });
    });
}

/// Acknowledgements that the children received.
#[derive(Default)]
struct Told {
    kept: BTreeMap<u64, String>,
    /// Numbers of outcomes and ends.
    others: BTreeSet<u64>,
    note: Option<String>,
}

impl Told {
    fn hear(&mut self, line: &str) {
        let (first, rest) = line.split_once(' ').unwrap();
        if first == "note" {
            self.note = Some(serde_json::from_str(rest).unwrap());
        } else if ["outcome", "end"].contains(&first) {
            assert!(self.others.insert(rest.parse().unwrap()), "number {rest} was given twice");
        } else {
            let seq = first.parse().unwrap();
            assert_eq!(self.kept.insert(seq, rest.into()), None, "number {seq} was given twice");
        }
    }

    fn check(&self, path: &Path) {
        let states = LogStateFile::new(path.with_extension("state")).read().unwrap().unwrap();
        let state = states.log(&key()).unwrap().expect("the state knows the log");
        verify_log(path, &key(), &[state.checkpoint]).unwrap();
        let known: Vec<_> = self.note.iter().map(|note| Checkpoint::verify(note, &key()).unwrap()).collect();
        verify_log(path, &key(), &known).unwrap();
        let there: BTreeMap<u64, Record> = read_log(path)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.seq(), entry.into_record()))
            .collect();
        for (seq, call) in &self.kept {
            assert_eq!(there.get(seq), Some(&Record::Decision(call_record(call))), "record {seq}");
        }
        for seq in &self.others {
            assert!(matches!(there.get(seq), Some(Record::Outcome(_) | Record::End(_))), "record {seq}");
        }
    }
}

/// Runs one life: starts a child, kills it after a moment, and reads its output up to then.
fn live(path: &Path, life: usize, rng: &mut Rng, told: &mut Told) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::log_kill::child", "--ignored", "--nocapture"]);
    command.env(LOG, path).env(LIFE, life.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n", "life {life}");
    // Its output is read while it lives; otherwise it would block on a full pipe.
    let lines = std::thread::spawn(move || {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if said.read_line(&mut line).unwrap() == 0 {
                return lines;
            }
            lines.extend(line.strip_suffix('\n').map(str::to_owned));
        }
    });
    std::thread::sleep(Duration::from_micros(rng.below(12_000)));
    child.kill().unwrap();
    child.wait().unwrap();
    lines.join().unwrap().iter().for_each(|line| told.hear(line));
}

fn kill(times: usize, start: usize) {
    let mut rng = Rng(0xC0_FFEE + start as u64);
    let mut acknowledged = 0;
    for first in (0..times).step_by(LIVES) {
        let (_folder, path) = place();
        let mut told = Told::default();
        for life in first..times.min(first + LIVES) {
            live(&path, start + life, &mut rng, &mut told);
            told.check(&path);
        }
        let mut last = settings(start + first);
        if let Some(note) = &told.note {
            last = last.known_checkpoint(note.clone());
        }
        drop(Log::open(&path, last).unwrap());
        told.check(&path);
        assert_eq!(verify_all(&path).unwrap().tail_bytes, 0);
        require_outcomes(calls(&path));
        acknowledged += told.kept.len();
    }
    assert!(acknowledged > times, "there was something to lose");
}

#[test]
fn twenty_kills_under_load_lose_nothing_acknowledged() {
    kill(20, 0);
}

#[test]
#[ignore = "takes minutes"]
fn two_thousand_kills_under_load_lose_nothing_acknowledged() {
    std::thread::scope(|scope| {
        let halves = [0, 1_000].map(|start| scope.spawn(move || kill(1_000, start)));
        halves.into_iter().for_each(|half| half.join().unwrap());
    });
}
