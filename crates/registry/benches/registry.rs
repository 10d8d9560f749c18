//! Cost of loading a signed registry, beside its floor: parsing, hashing and verifying the same bytes. Cost of a look-up
//! and of a check of arguments in registries of different sizes.

#![expect(clippy::arithmetic_side_effects, reason = "a bench that goes out of range is to fail")]

use std::fmt::Write as _;
use std::hint::black_box;

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{AgentId, Digest, Timestamp, ToolId};
use countersign_keys::dsse::Envelope;
use countersign_keys::{SigningKey, TrustRoot};
use countersign_registry::{LoadOptions, PAYLOAD_TYPE, RegistryDraft, RegistrySnapshot, verify_registry};
use criterion::Criterion;

type Failure = Box<dyn std::error::Error>;

/// Tools of each server, and of each agent.
const TOOLS: usize = 10;

/// Arguments of every tool.
const ARGS: &[u8] = br#"{"amount":125.5,"lines":[{"id":7,"text":"first"},{"id":8,"text":"second"}],"reason":"damaged","to":"NO93-8601"}"#;

/// Draft of a registry with that many tools, each with a schema of its own.
fn draft(agents: usize, tools: usize) -> Result<String, std::fmt::Error> {
    let mut text = String::from(r#"{"format":"countersign-registry-1","version":7,"agents":["#);
    for agent in 0..agents {
        let comma = if agent > 0 { "," } else { "" };
        write!(
            text,
            r#"{comma}{{"agent":"agent-{agent:06}","version":1,"registered_by":"ops","max_session":"1h","tools":["#
        )?;
        for nth in 0..TOOLS {
            let (tool, comma) = ((agent * 7 + nth) % tools, if nth > 0 { "," } else { "" });
            write!(text, r#"{comma}{{"server":"server-{:05}","name":"tool-{tool:06}"}}"#, tool / TOOLS)?;
        }
        text.push_str("]}");
    }
    text.push_str(r#"],"tools":["#);
    for tool in 0..tools {
        let comma = if tool > 0 { "," } else { "" };
        write!(
            text,
            r#"{comma}{{"server":"server-{:05}","name":"tool-{tool:06}","impact":"write","approval":"required","args_schema":
            {{"type":"object","required":["to","amount"],"additionalProperties":false,"properties":{{
            "to":{{"type":"string","maxLength":{},"pattern":"^[A-Z]{{2}}[0-9-]+$"}},
            "amount":{{"type":"number","minimum":0,"maximum":10000}},
            "reason":{{"type":"string","enum":["damaged","late","other"]}},
            "lines":{{"type":"array","maxItems":64,"items":{{"type":"object","required":["id"],"additionalProperties":false,
            "properties":{{"id":{{"type":"integer"}},"text":{{"type":"string","maxLength":200}}}}}}}}}}}}}}"#,
            tool / TOOLS,
            64 + tool % 64,
        )?;
    }
    text.push_str("]}");
    Ok(text)
}

fn signed(agents: usize, tools: usize) -> Result<(Vec<u8>, TrustRoot, Timestamp), Failure> {
    let (key, now) = (SigningKey::from_seed([1; 32]), Timestamp::from_millis(1_700_000_000_000)?);
    let expires = Timestamp::from_millis(1_700_600_000_000)?;
    let draft = RegistryDraft::from_json(draft(agents, tools)?.as_bytes())?;
    let bytes = draft.sign(now, expires, &[&key])?.to_json().into_bytes();
    Ok((bytes, TrustRoot::new(1, 1, [key.verifying_key()])?, now))
}

/// Parses, hashes and verifies the bytes, and does nothing with their content.
fn floor(bytes: &[u8], root: &TrustRoot, options: &LoadOptions) -> Result<Digest, Failure> {
    let envelope = Envelope::from_json(bytes, options.max_bytes)?;
    let verified = envelope.verify(PAYLOAD_TYPE, root, &|_| false)?;
    let canonical = read(verified.payload(), Recipe::Jcs1, &Limits::hard_caps())?;
    black_box(&canonical);
    Ok(Digest::of(verified.payload()))
}

fn bench(criterion: &mut Criterion, agents: usize, tools: usize) -> Result<(), Failure> {
    let (bytes, root, now) = signed(agents, tools)?;
    let options = LoadOptions::default();
    let load =
        || -> Result<RegistrySnapshot, Failure> { Ok(verify_registry(&bytes, &root, None, &options, now)?) };
    let mut group = criterion.benchmark_group(format!("{agents} agents, {tools} tools"));
    group.sample_size(10);
    group.bench_function("floor: parse, hash and verify", |b| b.iter(|| floor(&bytes, &root, &options)));
    group.bench_function("load", |b| b.iter(load));
    group.finish();

    let snapshot = load()?;
    let mut group = criterion.benchmark_group(format!("{agents} agents, {tools} tools"));
    // Sixteen of each, spread over all: a host serves more than one agent.
    let spread = |nth: usize, all: usize| nth * all / 16;
    let ids = (0..16).map(|nth| Ok(AgentId::new(&format!("agent-{:06}", spread(nth, agents)))?));
    let ids = ids.collect::<Result<Vec<_>, Failure>>()?;
    let called = (0..16).map(|nth| {
        let tool = spread(nth, tools);
        Ok(ToolId::new(&format!("server-{:05}", tool / TOOLS), &format!("tool-{tool:06}"))?)
    });
    let called = called.collect::<Result<Vec<_>, Failure>>()?;
    group.bench_function("look up 16 agents", |b| {
        b.iter(|| ids.iter().filter(|id| snapshot.agent(black_box(id)).is_some()).count());
    });
    group.bench_function("look up 16 tools", |b| {
        b.iter(|| called.iter().filter(|tool| snapshot.tool(black_box(tool)).is_some()).count());
    });
    let args = read(ARGS, Recipe::Jcs1, &Limits::default())?;
    let rules = called.first().and_then(|tool| snapshot.tool(tool)).ok_or("no tool")?;
    rules.check_args(&args).map_err(|_| "arguments are refused")?;
    group.bench_function("check arguments", |b| b.iter(|| rules.check_args(black_box(&args)).is_ok()));
    group.finish();
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut criterion = Criterion::default().configure_from_args();
    bench(&mut criterion, 10, 100)?;
    bench(&mut criterion, 1_000, 10_000)?;
    criterion.final_summary();
    Ok(())
}
