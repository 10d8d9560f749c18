//! Digest of a call's arguments at three sizes, with its floor (SHA-256 of the same bytes) and a peer (serde_json,
//! serde_json_canonicalizer, SHA-256) in the same run.

use std::hint::black_box;

use countersign_canonical_json::{Limits, Reader, Recipe, digest};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sha2::{Digest as _, Sha256};

/// Typical arguments: unsorted names, short texts, numbers, some nesting.
fn arguments(size: usize) -> Vec<u8> {
    if size <= 26 {
        return br#"{"query":"rust","limit":7}"#.to_vec();
    }
    let mut text = String::from(r#"{"to":["ann@example.com","bob@example.com"],"rows":["#);
    let mut row = 0_u32;
    while text.len().saturating_add(160) < size {
        if row > 0 {
            text.push(',');
        }
        text.push_str(&format!(
            r#"{{"name": "item {row}", "id": {row}, "price": {row}.25, "note": "said \"yes\"\nand d\u00e9cid\u00e9", "open": true, "tag": null}}"#
        ));
        row = row.saturating_add(1);
    }
    text.push_str(r#"],"body":""#);
    while text.len().saturating_add(2) < size {
        text.push('x');
    }
    text.push_str("\"}");
    text.into_bytes()
}

fn args_digest(c: &mut Criterion) {
    let mut group = c.benchmark_group("args_digest");
    for size in [26, 1 << 10, 64 << 10] {
        let args = arguments(size);
        assert_eq!(args.len(), size, "the arguments have the size that the bench names");
        group.throughput(Throughput::Bytes(args.len() as u64));

        group.bench_with_input(BenchmarkId::new("floor_sha256", size), &args, |b, args| {
            b.iter(|| Sha256::digest(black_box(args)));
        });
        let mut reader = Reader::new(Limits::default());
        group.bench_with_input(BenchmarkId::new("reader", size), &args, |b, args| {
            b.iter(|| reader.digest(black_box(args), Recipe::Jcs1));
        });
        group.bench_with_input(BenchmarkId::new("fresh_buffers", size), &args, |b, args| {
            b.iter(|| digest(black_box(args), Recipe::Jcs1, &Limits::default()));
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
