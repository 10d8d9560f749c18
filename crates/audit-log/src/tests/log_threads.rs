//! Threads that share a log on a disk that fails now and then.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "tests count with small numbers"
)]

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread::{self, Thread};
use std::time::Duration;

use countersign_core::ToolId;
use parking_lot::Mutex;

use super::log_support::*;
use super::sim::{Faults, Rng, SimDisk};
use super::{decision, session};
use crate::log::state::Sleepers;
use crate::*;

/// Returns no faults half of the time, so that batches fail midway and the log is reopened while others are in flight.
fn some_faults(rng: &mut Rng) -> Faults {
    let mut rare = |often: u64| if rng.one_in(2) { 0 } else { often };
    let (write, sync, read) = (rare(4), rare(4), rare(20));
    if rng.one_in(2) {
        Faults::default()
    } else {
        Faults { write, sync, read, create: 3, truncate: 4, folder: 4 }
    }
}

/// Builds a record. Some are long, so that others arrive, are written or fail while they are hashed.
fn record(rng: &mut Rng, call: &str) -> Record {
    if !rng.one_in(6) {
        return decision(call);
    }
    let mut long = session(vec![ToolId::new(&"s".repeat(128), &"t".repeat(128)).unwrap(); 200]);
    long.code = Some(call.into());
    Record::Session(long)
}

/// Returns the number of refused records. All results that the threads received hold although the disk fails at times,
/// and so do the checkpoints of readers at any moment.
fn share(seed: u64) -> u64 {
    let mut rng = Rng(seed);
    let disk = SimDisk::new(rng.next(), 512);
    let durability = rng.pick(&[Durability::Every, Durability::Group, Durability::Group, Durability::System]);
    let options = options().durability(durability).checkpoint_every(5);
    let log = Log::open_on(disk.clone(), options.segment_bytes(rng.pick(&[2_000, 1 << 20]))).unwrap();
    let told: Mutex<BTreeMap<u64, Record>> = Mutex::default();
    let notes: Mutex<Vec<String>> = Mutex::default();
    let keep = |seq: u64, record| assert!(told.lock().insert(seq, record).is_none(), "{seq} was given twice");
    let refused = Mutex::new(0_u64);
    disk.watch(8);
    thread::scope(|scope| {
        for worker in 0..4 {
            let mut rng = Rng(rng.next());
            let (disk, log, notes, keep, refused) = (&disk, &log, &notes, &keep, &refused);
            scope.spawn(move || {
                for n in 0..20 {
                    if rng.one_in(3) {
                        disk.set_faults(some_faults(&mut rng));
                    }
                    let records: Vec<_> = (0..rng.below(4))
                        .map(|part| record(&mut rng, &format!("{worker}-{n}-{part}")))
                        .collect();
                    let flying: Vec<_> = records
                        .into_iter()
                        .filter_map(|record| Some((log.submit(&record).ok()?, record)))
                        .collect();
                    if rng.one_in(9) {
                        notes.lock().extend(log.checkpoint().ok());
                    }
                    for (pending, record) in flying {
                        match pending.wait() {
                            Ok(seq) => keep(seq, record),
                            Err(_) => *refused.lock() += 1,
                        }
                    }
                }
            });
        }
    });
    disk.set_faults(Faults::default());
    let last = decision("last");
    keep(log.record(&last).or_else(|_| log.record(&last)).unwrap(), last);
    drop(log);
    let mut notes: Vec<_> = notes.into_inner();
    for view in disk.seen() {
        match verify_disk(&SimDisk::showing(view), &key(), &[]) {
            Ok(summary) => notes.push(summary.note),
            Err(error) => assert!(matches!(error, LogError::Missing), "seed {seed}: {error:?}"),
        }
    }
    let known: Vec<_> = notes.iter().map(|note| Checkpoint::verify(note, &key()).unwrap()).collect();
    let summary = verify_disk(&disk, &key(), &known).unwrap_or_else(|error| panic!("seed {seed}: {error:?}"));
    let found: Vec<Record> =
        read_disk(disk.clone()).unwrap().map(|entry| entry.unwrap().into_record()).collect();
    assert_eq!((summary.records, summary.tail_bytes), (found.len() as u64, 0));
    for (seq, record) in told.into_inner() {
        assert!(found[seq as usize - 1] == record, "seed {seed}: record {seq}");
    }
    refused.into_inner()
}

#[test]
fn threads_on_a_failing_disk_lose_nothing_acknowledged() {
    let refused: u64 = (0..12).map(share).sum();
    assert!(refused > 0, "no batch has failed");
}

#[test]
#[ignore = "takes a minute or two"]
fn threads_on_a_failing_disk_lose_nothing_in_five_hundred_runs() {
    (100..600).for_each(|seed| {
        share(seed);
    });
}

/// Counts rounds that run in their own thread: a caller that sleeps for ever must not keep the test from ending.
fn nobody_stays_asleep(rounds: u64, round: impl Fn(u64) + Send + 'static) {
    let (done, all_done) = mpsc::channel();
    thread::spawn(move || {
        for n in 0..rounds {
            round(n);
            done.send(n).unwrap();
        }
    });
    for n in 0..rounds {
        assert_eq!(all_done.recv_timeout(Duration::from_secs(60)), Ok(n));
    }
}

#[test]
fn no_caller_stays_asleep_when_the_others_stop() {
    let (folder, path) = place();
    let log = Log::open(&path, options()).unwrap();
    nobody_stays_asleep(400, move |round| {
        let (_folder, log) = (&folder, &log);
        thread::scope(|scope| {
            for worker in 0..2 + round % 3 {
                scope.spawn(move || {
                    (0..1 + (round + worker) % 4).for_each(|_| {
                        log.record(&decision("1")).unwrap();
                    })
                });
            }
        });
    });
}

/// Numbers are assigned again after each failure, and a thread of an earlier life may reach the lock late.
#[test]
#[ignore = "takes a minute or two"]
fn no_caller_stays_asleep_on_a_failing_disk() {
    nobody_stays_asleep(400, |seed| {
        let disk = SimDisk::new(seed, 512);
        let log = Log::open_on(disk.clone(), options()).unwrap();
        thread::scope(|scope| {
            for worker in 0..8 {
                let (mut rng, disk, log) = (Rng(seed * 8 + worker), &disk, &log);
                scope.spawn(move || {
                    for _ in 0..200 {
                        if rng.one_in(4) {
                            disk.set_faults(Faults { write: rng.pick(&[0, 3]), ..Faults::default() });
                        }
                        let _ = log.record(&decision("1"));
                    }
                });
            }
        });
    });
}

#[test]
fn removing_a_sleeper_keeps_another_with_its_number() {
    let [late, next] = [(); 2].map(|()| thread::spawn(|| ()).thread().clone());
    let mut sleepers = Sleepers::default();
    sleepers.add(7, late.clone());
    assert_eq!(sleepers.wake_all().len(), 1);
    sleepers.add(7, next.clone());
    sleepers.remove(&late);
    let woken = sleepers.wake(7);
    assert_eq!(woken.iter().map(Thread::id).collect::<Vec<_>>(), [next.id()]);
}

#[test]
fn wake_reaches_every_due_sleeper_plus_one() {
    let threads: Vec<_> = (0..5).map(|_| thread::spawn(|| ()).thread().clone()).collect();
    let mut sleepers = Sleepers::default();
    for (seq, thread) in [8, 3, 0, 9, 7].into_iter().zip(&threads) {
        sleepers.add(seq, thread.clone());
    }
    let woken: Vec<_> = sleepers.wake(7).iter().map(Thread::id).collect();
    assert_eq!(
        woken,
        [0, 1, 2, 4].map(|n| threads[n].id()),
        "the first of those who are not told is the one more"
    );
    assert_eq!(sleepers.wake(8).len(), 1, "one more each time, though none is told");
    assert!(sleepers.wake_all().is_empty());
}
