//! What a step costs at the gate, beside the hashes that it cannot do without, and how committing grows with the plan.

use std::hint::black_box;

use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_committed_plan::{
    CommittedPlan, OpenPlace, Plan, PlanContext, PlanContract, PlanCursor, PlanLimits, Step, StepCall,
    StepProof,
};
use countersign_core::{Digest, SessionId, ToolId};
use criterion::{BatchSize, Criterion, Throughput};

type Failure = Box<dyn std::error::Error>;

/// An operator who allows everything: what the contract costs is not measured here.
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

/// Arguments of 200 bytes, of which one is left open.
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
    // The leaf is the arguments and some 130 bytes around them; five nodes lead to the root of 17 leaves.
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
        let limits = PlanLimits::default().with_max_bytes(64 << 20)?.with_max_steps(count)?;
        group.bench_function(format!("read {count} steps"), |b| {
            b.iter(|| Plan::from_json(black_box(text.as_bytes()), &limits));
        });
    }
    group.finish();
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().configure_from_args();
    bench_check(&mut criterion)?;
    bench_commit(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}
