//! Cost of a proposal without evidence, beside its floor: one strict parse and one digest of the same bytes.

use std::hint::black_box;

use countersign_action_proposal::{ActionProposal, Profile, ProposalLimits, ProposalVerifier, ProposedCall};
use countersign_canonical_json::{Limits, Reader, Recipe};
use countersign_core::{SystemClock, ToolName};
use criterion::Criterion;

/// Smallest proposal: a read.
const MINIMAL: &str = r#"{"protocol":"PIC/1.0","intent":"look up the opening hours","impact":"read","provenance":[{"id":"chat","trust":"untrusted"}],"claims":[{"text":"the user asked","evidence":["chat"]}],"action":{"tool":"docs_search","args":{"q":"opening hours"}}}"#;

fn bench(criterion: &mut Criterion) -> Result<(), Box<dyn std::error::Error>> {
    let limits = ProposalLimits::default();
    let verifier = ProposalVerifier::builder(Profile::Strict).build()?;
    let tool = ToolName::new("docs_search")?;
    let args = ActionProposal::parse(MINIMAL.as_bytes(), &limits)?.args_digest();
    let call = ProposedCall::new(&tool).args(args);
    let clock = SystemClock::new();
    let mut group = criterion.benchmark_group("proposal");
    let mut reader = Reader::new(Limits::hard_caps());
    group.bench_function("floor: one strict reading and its digest", |b| {
        b.iter(|| reader.digest(black_box(MINIMAL.as_bytes()), Recipe::PicCjson1));
    });
    group.bench_function("parse", |b| {
        b.iter(|| ActionProposal::parse(black_box(MINIMAL.as_bytes()), &limits));
    });
    group.bench_function("parse and verify", |b| {
        b.iter(|| {
            let proposal = ActionProposal::parse(black_box(MINIMAL.as_bytes()), &limits)?;
            proposal.verify(&verifier, &call, &clock)
        });
    });
    group.finish();
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion)?;
    criterion.final_summary();
    Ok(())
}
