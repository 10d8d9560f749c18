//! Cost of checking a step, beside its floor (the unavoidable hashes), and cost of committing plans of different
//! sizes.
//!
//! Criterion measures one size after the other, seconds apart, while the load of a shared machine drifts. So this bench
//! also commits plans of 10,000 and 100,000 steps alternately. The last line gives the medians per step and their
//! ratio, which is 1 if time is linear.

use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};

use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_committed_plan::{
    CommittedPlan, OpenPlace, Plan, PlanContext, PlanContract, PlanCursor, PlanLimits, RootCursor, Step,
    StepCall, StepProof,
};
use countersign_core::{Digest, SessionId, ToolId};
use criterion::{BatchSize, Criterion, Throughput};

type Failure = Box<dyn std::error::Error>;

/// A contract that allows everything, so that its cost is not measured.
struct Anything;

impl PlanContract for Anything {
    fn discloses(&self, _: &ToolId) -> bool {
        true
    }

    fn is_data(&self, _: &ToolId, _: &OpenPlace) -> bool {
        true
    }

    fn fits(&self, _: &Step) -> bool {
        true
    }
}

/// Arguments of 200 bytes, one of them open.
fn args(at: usize, body: &str) -> String {
    let text = format!(
        r#"{{"amount":{at},"body":"{body}","lines":[1,2,3],"to":{{"name":"bob","iban":"NO93"}},"x":""#
    );
    let fill = 198_usize.saturating_sub(text.len());
    format!("{text}{}\"}}", "x".repeat(fill))
}

fn tool() -> Result<ToolId, Failure> {
    Ok(ToolId::new("desk", "refund")?)
}

fn context() -> Result<PlanContext, Failure> {
    Ok(PlanContext::new(Digest::of(b"goal"), SessionId::new("session-0001")?, 7)?)
}

fn steps(count: usize) -> Result<Vec<Step>, Failure> {
    let step = |at| Ok(Step::new(tool()?, args(at, "<DYNAMIC>").as_bytes(), &[])?);
    (0..count).map(step).collect()
}

fn committed(count: usize) -> Result<CommittedPlan, Failure> {
    Ok(Plan::new(context()?, steps(count)?)?.commit(&Anything)?)
}

fn call(at: usize) -> Result<Canonical, Failure> {
    Ok(read(args(at, "filled in").as_bytes(), Recipe::Jcs1, &Limits::default())?)
}

fn bench_check(criterion: &mut Criterion) -> Result<(), Failure> {
    let (tool, first) = (tool()?, call(0)?);
    let mut group = criterion.benchmark_group("step of 16");
    // The leaf is the arguments and some 130 bytes around them. Five nodes lead to the root of 17 leaves.
    let (leaf, node) = (vec![0_u8; 330], [1_u8; 65]);
    group.bench_function("floor: a leaf and five nodes", |b| {
        b.iter(|| {
            black_box(Digest::of(black_box(&leaf)));
            for _ in 0..5 {
                black_box(Digest::of(black_box(&node)));
            }
        });
    });
    let mut cursor = PlanCursor::<()>::start(committed(16)?, &context()?)?;
    group.bench_function("check", |b| {
        b.iter(|| {
            let planned = cursor.check(&StepCall::new(&tool, black_box(&first), 7).at_step(1));
            planned.map(|planned| cursor.give_back(planned))
        });
    });
    let plan = committed(16)?;
    let proof = plan.prove_step(1).ok_or("no step")?;
    let header = plan.header_proof().ok_or("no header")?.verify(plan.root())?;
    let mut far = RootCursor::start(header, &context()?)?;
    group.bench_function("check with the root alone", |b| {
        b.iter(|| {
            let call = StepCall::new(&tool, black_box(&first), 7).proved_by(&proof);
            far.check(&call, &Anything).map(|planned| far.give_back(planned))
        });
    });
    group.bench_function("verify a proof and check", |b| {
        let run = |proof: StepProof| proof.verify(plan.root()).map(|step| step.admits(&tool, &first));
        b.iter_batched(|| proof.clone(), run, BatchSize::SmallInput);
    });
    group.finish();
    Ok(())
}

fn bench_commit(criterion: &mut Criterion) -> Result<(), Failure> {
    let mut group = criterion.benchmark_group("commit");
    group.sample_size(10);
    for count in [1_000, 10_000, 100_000] {
        let plan = Plan::new(context()?, steps(count)?)?;
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("{count} steps"), |b| {
            b.iter_batched(|| plan.clone(), |plan| plan.commit(&Anything), BatchSize::PerIteration);
        });
        let text = plan.to_json();
        let limits = PlanLimits::default().bytes(64 << 20)?.steps(count)?;
        group.bench_function(format!("read {count} steps"), |b| {
            b.iter(|| Plan::from_json(black_box(text.as_bytes()), &limits));
        });
    }
    group.finish();
    Ok(())
}

/// Commits both sizes alternately and prints the cost of a step in each.
fn commit_in_turns() -> Result<(), Failure> {
    const SIZES: [usize; 2] = [10_000, 100_000];
    // `--test` runs everything once without measuring.
    let pairs = if std::env::args().any(|argument| argument == "--test") { 1 } else { 15 };
    let plans = [Plan::new(context()?, steps(SIZES[0])?)?, Plan::new(context()?, steps(SIZES[1])?)?];
    let mut per_step = [Vec::new(), Vec::new()];
    for _ in 0..pairs {
        for ((plan, size), times) in plans.iter().zip(SIZES).zip(&mut per_step) {
            let whole = time(plan.clone())?;
            times.push(whole.checked_div(u32::try_from(size)?).ok_or("no steps")?);
        }
    }
    let [small, large] = per_step.map(median);
    writeln!(
        std::io::stdout(),
        "commit in turns, per step: of 10,000 {small:.2?}, of 100,000 {large:.2?}, ratio {:.3}",
        large.as_secs_f64() / small.as_secs_f64(),
    )?;
    Ok(())
}

/// Measures committing the plan, without dropping it.
#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn time(plan: Plan) -> Result<Duration, Failure> {
    let start = Instant::now();
    let committed = black_box(plan.commit(&Anything)?);
    let time = start.elapsed();
    drop(committed);
    Ok(time)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().configure_from_args();
    bench_check(&mut criterion)?;
    bench_commit(&mut criterion)?;
    commit_in_turns()?;
    criterion.final_summary();
    Ok(())
}
