//! Real gates over a real log on a failing disk: every call that runs has an acceptance that survives a power cut.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use countersign_audit_log::{
    AuditSink, Disk, DiskFile, Durability, EndReason, Log, LogOptions, OutcomeBy, Record, Verdict, read_disk,
    verify_disk,
};
use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;

#[path = "../../../audit-log/src/tests/sim.rs"]
#[expect(dead_code, reason = "what the log's own tests ask of the disk is more")]
mod sim;

use self::sim::{Crash, Faults, Rng, SimDisk};
use super::world::*;
use crate::*;

/// Totals over several histories.
#[derive(Default)]
struct Seen {
    ran: usize,
    /// Calls that were refused because they could not be recorded.
    unrecorded: usize,
    /// Power cuts while a tool ran.
    cut: usize,
    /// Sessions that ended properly.
    ended: usize,
    /// Outcomes that were recorded when the log was opened.
    recovered: usize,
    /// Answers counted by gaps.
    in_gaps: u64,
}

fn options() -> LogOptions {
    LogOptions::new(KeyName::new("example.com/log").unwrap(), SigningKey::from_seed([7; 32]))
}

/// One seeded history: several lives of a log, each with two sessions that call tools, with faults, and with a crash at
/// its end or while a tool runs.
fn history(seed: u64, seen: &mut Seen) {
    let (world, mut rng) = (World::new(), Rng(seed));
    let disk = SimDisk::new(rng.next(), rng.pick(&[512, 4_096]));
    let mut ran = Vec::new();
    for life in 0..=rng.below(4) {
        let durability = rng.pick(&[Durability::Every, Durability::Group]);
        if let Ok(log) = Log::open_on(disk.clone(), options().durability(durability).segment_bytes(3_000)) {
            let sink: Arc<dyn AuditSink> = Arc::new(log);
            let session =
                |n| world.builder_for(&format!("session-{life}-{n}"), Arc::clone(&sink)).open().ok();
            let gates: Vec<ToolGate> = (0..2).filter_map(session).collect();
            live(&mut rng, &disk, &gates, &mut ran, seen);
            if rng.one_in(3) {
                gates.iter().for_each(|gate| drop(gate.end_session(EndReason::Server)));
            }
        }
        disk.crash(rng.pick(&[Crash::Process, Crash::Power]));
    }
    disk.set_faults(Faults::default());
    let key = Log::open_on(disk.clone(), options()).unwrap().key();
    disk.crash(Crash::Power);
    verify_disk(&disk, &key, &[]).unwrap();
    let (mut allowed, mut open, mut in_gaps) = (BTreeSet::new(), BTreeSet::new(), 0);
    for entry in read_disk(disk).unwrap().map(|entry| entry.unwrap()) {
        match entry.record() {
            Record::Decision(call) if call.verdict == Verdict::Accept => {
                allowed.insert(call.call_id.as_str().to_owned());
                open.insert(entry.seq());
            }
            Record::Outcome(end) => {
                assert!(open.remove(&end.decision), "decision {} has two outcomes", end.decision);
                seen.recovered += usize::from(end.by == Some(OutcomeBy::Recovery));
            }
            Record::End(_) => seen.ended += 1,
            Record::Gap(gap) => in_gaps += gap.total(),
            Record::Decision(_) | Record::Session(_) | _ => {}
        }
    }
    assert_eq!(open, BTreeSet::new(), "accepted calls without an outcome");
    seen.in_gaps += in_gaps;
    for call in &ran {
        assert!(allowed.contains(call), "{call} ran, and no allow of it outlived the crash");
    }
    seen.ran += ran.len();
}

fn live(rng: &mut Rng, disk: &SimDisk, gates: &[ToolGate], ran: &mut Vec<String>, seen: &mut Seen) {
    for _ in 0..rng.below(24) {
        if rng.one_in(6) {
            disk.set_faults(if rng.one_in(2) { Faults::default() } else { Faults::some(rng) });
        }
        let Some(gate) = gates.get(rng.pick(&[0, 1])) else { return };
        let id = format!("call-{}", rng.next());
        let call = if rng.one_in(5) { ToolCall::new(&id, "desk", "made_up", b"{}") } else { search(&id) };
        match gate.check(&call) {
            Ok(accepted) => {
                let (_args, in_flight) = accepted.dispatch().unwrap();
                ran.push(id);
                if rng.one_in(12) {
                    disk.crash(Crash::Power);
                    seen.cut += 1;
                    return;
                }
                in_flight.finish(OutcomeKind::Returned);
            }
            Err(no) if no.code() == RejectionCode::AuditUnavailable => seen.unrecorded += 1,
            Err(no) => assert_eq!(no.code(), RejectionCode::UndisclosedTool),
        }
    }
}

/// Runs the histories. Returns `None` if the environment asks for a single history.
fn run(seeds: impl Iterator<Item = u64>) -> Option<Seen> {
    let mut seen = Seen::default();
    if let Ok(seed) = std::env::var("COUNTERSIGN_SEED") {
        history(seed.parse().unwrap(), &mut seen);
        return None;
    }
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| history(seed, &mut seen))) {
            eprintln!("COUNTERSIGN_SEED={seed} replays this history");
            resume_unwind(panic);
        }
    }
    Some(seen)
}

#[test]
fn no_tool_runs_without_an_allow_that_outlives_a_power_cut() {
    let Some(seen) = run(0..300) else { return };
    assert!(seen.ran > 1_000 && seen.unrecorded > 100 && seen.cut > 50, "too little happened");
    assert!(seen.in_gaps > 50 && seen.in_gaps <= seen.unrecorded as u64, "{} in gaps", seen.in_gaps);
    assert!(seen.ended > 50 && seen.recovered > 50, "{} ends, {} recovered", seen.ended, seen.recovered);
}

#[test]
#[ignore = "takes a minute or two"]
fn no_tool_runs_without_durable_allow_in_20000_histories() {
    std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| scope.spawn(move || run((0..10_000).map(|n| 1_000 + 2 * n + half))));
        let seen = halves.into_iter().filter_map(|half| half.join().unwrap());
        seen.for_each(|seen| assert!(seen.ran > 10_000, "too little happened"));
    });
}
