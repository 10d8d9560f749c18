use std::hint::black_box;
use std::sync::Arc;

use countersign_canonical_json::{Limits, Reader, Recipe};
use countersign_core::{AgentId, Millis, Timestamp, ToolId};
use countersign_keys::Signature;
use countersign_keys::dsse::Envelope;
use countersign_registry::{CapabilityRegistry, LoadOptions, MemoryHighWater, RegistryDraft};
use countersign_testing::{TestRegistry, World};
use sha2::{Digest as _, Sha256};

use crate::{Bound, Figure, Row, Sampling, Unit, interleave, timed};

/// Draft of this many agents with ten tools each, and of this many tools.
fn draft(agents: usize, tools: usize) -> String {
    let tool = |at: usize| {
        format!(
            r#"{{"approval":"not_required","args_schema":{{"type":"object"}},"impact":"read","name":"t{at}","server":"s"}}"#
        )
    };
    let agent = |at: usize| {
        let named = at * 7 % tools;
        format!(
            r#"{{"agent":"a{at}","version":1,"registered_by":"o","max_session":"1h","output_tags":[],"tools":[{{"server":"s","name":"t{named}"}}]}}"#
        )
    };
    let agents: Vec<String> = (0..agents).map(agent).collect();
    let tools: Vec<String> = (0..tools).map(tool).collect();
    format!(
        r#"{{"format":"countersign-registry-1","version":1,"agents":[{}],"tools":[{}],"revoked":{{"agents":[],"keys":[],"snapshots":[]}}}}"#,
        agents.join(","),
        tools.join(",")
    )
}

fn signed(agents: usize, tools: usize, now: Timestamp) -> Option<Vec<u8>> {
    let draft = RegistryDraft::from_json(draft(agents, tools).as_bytes()).ok()?;
    let expires = now.checked_add(Millis::from_secs(86_400)).unwrap();
    Some(draft.sign(now, expires, &[&TestRegistry::operator()]).unwrap().to_json().into_bytes())
}

fn load(bytes: &[u8], now: Timestamp) -> Option<CapabilityRegistry> {
    let marks = Arc::new(MemoryHighWater::new());
    CapabilityRegistry::load(bytes, &TestRegistry::trust_root(), marks, LoadOptions::default(), now).ok()
}

/// The load of a large registry beside the least work on its bytes, and look-ups in it.
pub(super) fn registry(sampling: Sampling) -> Vec<Row> {
    let now = World::start();
    // The limits of the format decide how many tools fit.
    let largest = [100_000, 50_000, 20_000, 10_000].into_iter().find_map(|tools| {
        let bytes = signed(10_000, tools, now)?;
        Some((tools, load(&bytes, now)?, bytes))
    });
    let (tools, registry, bytes) = largest.unwrap();
    let payload = Envelope::from_json(&bytes, 1 << 24).unwrap().unverified_payload().to_vec();
    let key = TestRegistry::operator();
    let signature: Signature = key.sign(&payload);
    let limits = Limits::default().bytes(16 << 20).unwrap().depth(64).unwrap();
    let mut reader = Reader::new(limits);
    let few = Sampling { rounds: sampling.rounds.min(7), samples: 1, ..sampling };
    let rounds = interleave(
        few,
        &mut [
            &mut |times| timed(times, || load(&bytes, now).unwrap()),
            &mut |times| {
                timed(times, || {
                    black_box(reader.read(black_box(&bytes), Recipe::Jcs1).unwrap());
                    black_box(reader.read(black_box(&payload), Recipe::Jcs1).unwrap());
                    black_box(Sha256::digest(&payload));
                    key.verifying_key().verify(&payload, &signature).unwrap();
                })
            },
            &mut |times| {
                timed(times, || serde_json::from_slice::<serde_json::Value>(black_box(&payload)).unwrap())
            },
        ],
    );
    let [ours, floor, tree] = [0, 1, 2].map(|side| rounds.nanos(side).median / 1e6);
    let name = format!(
        "registry of 10,000 agents and {tools} tools, verified load / parse + hash + verify of its bytes"
    );
    let loaded = Row::new(name, rounds.ratio(0, 1), Unit::Times).goal(Bound::AtMost(2.0)).note(format!(
        "{ours:.0} / {floor:.0} ms, {:.1} MB; a tree of `serde_json` made and dropped: {tree:.0} ms",
        bytes.len() as f64 / 1e6
    ));
    let mut rows = vec![loaded];
    let sizes = [(10, 10), (1_000, 1_000)].map(|(agents, tools)| {
        let bytes = signed(agents, tools, now).unwrap();
        (agents, tools, load(&bytes, now).unwrap())
    });
    for (agents, tools, registry) in sizes.into_iter().chain([(10_000, tools, registry)]) {
        let figure = look_up(sampling, &registry, agents, tools);
        let name = format!("look-up of a tool or an agent, {agents} agents and {tools} tools");
        rows.push(Row::new(name, figure, Unit::Nanos).goal(Bound::AtMost(50.0)));
    }
    rows
}

/// The slower of both look-ups, in no order that the registry knows.
fn look_up(sampling: Sampling, registry: &CapabilityRegistry, agents: usize, tools: usize) -> Figure {
    let view = registry.view();
    let snapshot = view.snapshot();
    let ids: Vec<ToolId> =
        (0..1_024).map(|at| ToolId::new("s", &format!("t{}", at * 7_919 % tools)).unwrap()).collect();
    let names: Vec<AgentId> =
        (0..1_024).map(|at| AgentId::new(&format!("a{}", at * 7_919 % agents)).unwrap()).collect();
    let (mut tool, mut agent) = (ids.iter().cycle(), names.iter().cycle());
    let rounds = interleave(
        sampling,
        &mut [&mut |times| timed(times, || snapshot.tool(tool.next().unwrap()).unwrap()), &mut |times| {
            timed(times, || snapshot.agent(agent.next().unwrap()).unwrap())
        }],
    );
    let (tool, agent) = (rounds.nanos(0), rounds.nanos(1));
    if tool.median > agent.median { tool } else { agent }
}
