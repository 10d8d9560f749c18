//! Cost of checking a stated goal against its pin, beside its floor: SHA-256 of the normalised goal.

use std::hint::black_box;

use countersign_core::{Digest, Millis, SessionId, Timestamp};
use countersign_pinned_ask::PinnedAsk;
use criterion::{Criterion, Throughput};

/// A goal of that many bytes, in lines of about 80.
fn goal(bytes: usize) -> String {
    let words = "Refund the order of Alice Example, and tell her in two lines why it took so long; ";
    let line = format!("{words}\n");
    line.chars().cycle().take(bytes).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut criterion = Criterion::default().configure_from_args();
    let (session, now) = (SessionId::new("session-0001")?, Timestamp::from_millis(1_000)?);
    let mut group = criterion.benchmark_group("pin");
    for bytes in [128, 1 << 10, 16 << 10] {
        let goal = goal(bytes);
        let pin = PinnedAsk::pin(&goal, &session, Millis::from_secs(60), now)?;
        let normalised = goal.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("floor: SHA-256 of {bytes} bytes"), |b| {
            b.iter(|| Digest::of(black_box(normalised.as_bytes())));
        });
        group.bench_function(format!("verify {bytes} bytes"), |b| {
            b.iter(|| pin.verify(black_box(&goal), &session, now));
        });
    }
    group.finish();
    criterion.final_summary();
    Ok(())
}
