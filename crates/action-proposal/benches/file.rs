//! Cost of evidence in a file, beside its floor: open, read and SHA-256.

use std::hint::black_box;

use countersign_action_proposal::{EvidenceBudget, EvidenceFolder, EvidenceResolver};
use countersign_core::{Digest, Millis, SystemClock};
use criterion::{Criterion, Throughput};

fn bench(criterion: &mut Criterion) -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let folder = EvidenceFolder::open(place.path())?;
    let clock = SystemClock::new();
    let mut group = criterion.benchmark_group("evidence file");
    for (name, size) in [("64-KiB", 64 * 1_024), ("1-MiB", 1_024 * 1_024)] {
        let path = place.path().join(name);
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(size).collect();
        std::fs::write(&path, bytes)?;
        let reference = format!("file://{name}");
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("floor: open, read and hash {name}"), |b| {
            b.iter(|| std::fs::read(black_box(&path)).map(|bytes| (Digest::of(&bytes), bytes)));
        });
        group.bench_function(format!("resolve {name}"), |b| {
            b.iter(|| {
                let mut budget = EvidenceBudget::start(&clock, 5 << 20, 16 << 20, Millis::from_secs(5))?;
                folder.resolve(black_box(&reference), &mut budget)
            });
        });
    }
    group.finish();
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}
