//! Digest and reading of structured arguments at three sizes, with their floor (SHA-256 of the same bytes) and a peer
//! (serde_json, serde_json_canonicalizer, SHA-256) in the same run.

use std::hint::black_box;

use countersign_canonical_json::{Limits, Reader, Recipe, digest, read};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sha2::{Digest as _, Sha256};

// why: a dev-dependency on `countersign-testing` would make every test of this crate wait for all floors.
/// Arguments of an exact size.
#[path = "../../testing/src/args.rs"]
pub mod args;

fn args_digest(c: &mut Criterion) {
    let mut group = c.benchmark_group("args_digest");
    for size in [26, 1 << 10, 64 << 10] {
        let args = args::structured_args(size);
        assert_eq!(args.len(), size, "the arguments have the size that the bench names");
        group.throughput(Throughput::Bytes(args.len() as u64));

        group.bench_with_input(BenchmarkId::new("floor_sha256", size), &args, |b, args| {
            b.iter(|| Sha256::digest(black_box(args)));
        });
        let mut reader = Reader::new(Limits::default());
        group.bench_with_input(BenchmarkId::new("reader", size), &args, |b, args| {
            b.iter(|| reader.digest(black_box(args), Recipe::Jcs1));
        });
        group.bench_with_input(BenchmarkId::new("digest", size), &args, |b, args| {
            b.iter(|| digest(black_box(args), Recipe::Jcs1, &Limits::default()));
        });
        group.bench_with_input(BenchmarkId::new("read", size), &args, |b, args| {
            b.iter(|| read(black_box(args), Recipe::Jcs1, &Limits::default()));
        });
        group.bench_with_input(BenchmarkId::new("peer_serde_json_canonicalizer", size), &args, |b, args| {
            b.iter(|| {
                let value: Option<serde_json::Value> = serde_json::from_slice(black_box(args)).ok();
                let text = value.and_then(|value| serde_json_canonicalizer::to_vec(&value).ok());
                text.map(|text| Sha256::digest(&text))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, args_digest);
criterion_main!(benches);
