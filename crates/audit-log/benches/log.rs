//! What the record costs, beside the least that it could: the hashes that it cannot do without, one large write with its
//! sync, and the hashing of a log's bytes.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    reason = "the sizes are known, and a bench takes real time"
)]

mod stated;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use countersign_audit_log::{
    AuditError, AuditSink as _, CallRecord, FolderDisk, Log, LogKey, LogOptions, MemorySink, Pending, Record,
    RecordedTool, Verdict, read_log, verify_log,
};
use countersign_core::{AgentId, Digest, Principal, SessionId, Timestamp};
use countersign_keys::SigningKey;
use countersign_tlog::note::KeyName;
use criterion::{Criterion, Throughput};
use stated::{SYNC, StatedDisk, stated};

/// How many records are in flight at once.
const IN_FLIGHT: usize = 1_024;

/// How many callers they are of.
const CALLERS: usize = 4;

/// How many times as many are kept in one measurement.
const ROUNDS: usize = 16;

type Failure = Box<dyn std::error::Error>;

fn record(call: usize) -> Result<Record, Failure> {
    let mut record = CallRecord::new(
        Timestamp::from_millis(1_790_000_000_000)?,
        SessionId::new("session-0123456789")?,
        AgentId::new("support-bot")?,
        Principal::new("alice@example.com")?,
        &format!("call-{call}"),
        RecordedTool::new("payments", "send_refund"),
        Verdict::Reject,
        7,
    );
    record.definition = Some(Digest::of(b"definition"));
    record.args = Some(Digest::of(b"arguments"));
    record.args_recipe = Some("jcs-1".into());
    record.impact = Some("money".into());
    record.ask = Some(Digest::of(b"ask"));
    Ok(Record::Decision(record))
}

fn options() -> Result<LogOptions, Failure> {
    Ok(LogOptions::new(KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32])))
}

fn key() -> Result<LogKey, Failure> {
    Ok(LogKey::new(KeyName::new("example.com/log")?, SigningKey::from_seed([7; 32]).verifying_key()))
}

/// Fills a log, in batches of as many as are in flight.
fn fill(folder: &Path, records: usize) -> Result<(), Failure> {
    let log = Log::open(folder, options()?)?;
    let call = record(0)?;
    for start in (0..records).step_by(IN_FLIGHT) {
        let count = IN_FLIGHT.min(records - start);
        let pending = (0..count).map(|_| log.submit(&call)).collect::<Result<Vec<_>, _>>()?;
        pending.into_iter().try_for_each(|pending| pending.wait().map(drop))?;
    }
    log.close()?;
    Ok(())
}

fn bench_memory(criterion: &mut Criterion) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    fill(folder.path(), 1)?;
    let line = read_log(folder.path())?.next().ok_or("no record")??.line().to_vec();
    let leaves = vec![[&[0], line.as_slice()].concat(); IN_FLIGHT];
    let nodes = vec![[1_u8; 65]; IN_FLIGHT - 1];
    let mut group = criterion.benchmark_group("memory");
    group.throughput(Throughput::Elements(IN_FLIGHT as u64));
    group.bench_function(format!("floor: leaf inputs of {} bytes, and nodes", line.len() + 1), |b| {
        b.iter(|| {
            for input in &leaves {
                black_box(Digest::of(black_box(input)));
            }
            for input in &nodes {
                black_box(Digest::of(black_box(input)));
            }
        });
    });
    let call = record(0)?;
    let sink = MemorySink::new();
    group.bench_function("record", |b| {
        b.iter(|| {
            for _ in 0..IN_FLIGHT {
                black_box(sink.record(black_box(&call)).ok());
            }
        });
    });
    group.finish();
    Ok(())
}

/// Four callers with a quarter of all in flight each, on the disk that is here and on one whose sync takes as long as is said.
fn bench_group_commit(criterion: &mut Criterion) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let log = Log::open_on(FolderDisk::create(folder.path().join("here"))?, options()?)?;
    group_commit(criterion, "group commit", &log, |file| file.sync_data())?;
    let log = Log::open_on(StatedDisk::create(&folder.path().join("stated"))?, options()?)?;
    let name = format!("group commit, a sync takes {} ms", SYNC.as_millis());
    group_commit(criterion, &name, &log, |file| stated(|| file.sync_data()))
}

/// Floor and log take turns in both measurements, and only one of them is timed: a disk that is busy with what was written
/// before is as busy for the other.
fn group_commit(
    criterion: &mut Criterion,
    name: &str,
    log: &Log,
    sync: impl Fn(&File) -> io::Result<()>,
) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    fill(&folder.path().join("one"), IN_FLIGHT)?;
    let bytes = fs::read(folder.path().join("one").join("000000000001.jsonl"))?;
    let mut group = criterion.benchmark_group(name);
    group.sample_size(20).throughput(Throughput::Elements((ROUNDS * IN_FLIGHT) as u64));
    let (mut failure, mut file, mut written) = (None, tempfile::tempfile()?, 0);
    let mut floor = || -> io::Result<()> {
        // As many bytes go into a file as into a segment.
        written += ROUNDS * bytes.len();
        if written > 64 << 20 {
            (file, written) = (tempfile::tempfile()?, 0);
        }
        (0..ROUNDS).try_for_each(|_| file.write_all(&bytes).and_then(|()| sync(&file)))
    };
    let call = record(0)?;
    let mut turns = |count: u64| {
        let mut took = [Duration::ZERO; 2];
        for _ in 0..count {
            let began = Instant::now();
            failure = failure.take().or(floor().err().map(Failure::from));
            let between = Instant::now();
            failure = failure.take().or(keep(log, &call).err().map(Failure::from));
            took[0] += between - began;
            took[1] += between.elapsed();
        }
        took
    };
    let name = format!("floor: {ROUNDS} times {} bytes written and synced", bytes.len());
    group.bench_function(name, |b| b.iter_custom(|count| turns(count)[0]));
    let name = format!("{ROUNDS} times 1,024 records, as many in flight");
    group.bench_function(name, |b| b.iter_custom(|count| turns(count)[1]));
    group.finish();
    failure.map_or(Ok(()), Err)
}

/// Keeps as many records as the floor has bytes of.
fn keep(log: &Log, call: &Record) -> Result<(), AuditError> {
    let one = || {
        let mut flying = VecDeque::with_capacity(IN_FLIGHT / CALLERS);
        for _ in 0..ROUNDS * IN_FLIGHT / CALLERS {
            if flying.len() == IN_FLIGHT / CALLERS {
                flying.pop_front().map_or(Ok(0), Pending::wait)?;
            }
            flying.push_back(log.submit(call)?);
        }
        flying.into_iter().try_for_each(|pending| pending.wait().map(drop))
    };
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(one)).collect();
        callers.into_iter().try_for_each(|caller| caller.join().unwrap_or(Err(AuditError::Poisoned)))
    })
}

fn bench_verification(criterion: &mut Criterion, records: usize) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    fill(folder.path(), records)?;
    let mut files: Vec<_> =
        fs::read_dir(folder.path())?.map(|e| Ok(e?.path())).collect::<Result<_, Failure>>()?;
    files.retain(|path| path.extension().is_some());
    files.sort();
    let key = key()?;
    let mut group = criterion.benchmark_group("verification");
    group.sample_size(10).throughput(Throughput::Elements(records as u64));
    let mut buffer = vec![0; 256 << 10];
    let mut hash = || -> io::Result<()> {
        for path in &files {
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(0))?;
            loop {
                let read = file.read(&mut buffer)?;
                if read == 0 {
                    break;
                }
                black_box(Digest::of(buffer.get(..read).unwrap_or_default()));
            }
        }
        Ok(())
    };
    hash()?;
    group.bench_function(format!("floor: the bytes of {records} records read and hashed"), |b| {
        b.iter(&mut hash)
    });
    let mut found = 0;
    group.bench_function("verify", |b| {
        b.iter(|| found = verify_log(folder.path(), &key, &[]).map_or(0, |summary| summary.records));
    });
    group.finish();
    if found == records as u64 || found == 0 { Ok(()) } else { Err("the log does not verify".into()) }
}

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().configure_from_args();
    let test = std::env::args().any(|arg| arg == "--test");
    bench_memory(&mut criterion)?;
    bench_group_commit(&mut criterion)?;
    bench_verification(&mut criterion, if test { 20_000 } else { 1_000_000 })?;
    criterion.final_summary();
    Ok(())
}
