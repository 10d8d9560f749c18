use std::sync::Arc;

use countersign::Countersign;
use countersign::approval_token::MemorySpentTokens;
use countersign::audit_log::MemorySink;
use countersign::canonical_json::{Limits, read};
use countersign::core::{Audience, Clock, ManualClock, Millis, Recipe, ToolId};
use countersign::registry::definition_digest;
use countersign::tool_gate::{ApprovalSettings, Rejection, ToolCall, ToolGate};

use super::{GateVector, Surface, VectorCall, VectorEvent};
use crate::World;

/// The library: a session of the facade over files, with a manual clock.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "it has no settings")]
pub struct LibrarySurface;

impl Surface for LibrarySurface {
    fn name(&self) -> &str {
        "library"
    }

    fn decide(&self, vector: &GateVector) -> Vec<Result<(), String>> {
        let (world, folder) = (World::of(&vector.registry()), tempfile::tempdir().expect("a folder"));
        let clock = Arc::new(ManualClock::new(World::start()));
        let file = |name: &str| folder.path().join(name);
        vector.registry().write(folder.path(), World::start());
        let builder = Countersign::builder(file("registry.json"), file("root.json"), file("state.json"));
        let countersign = builder.clock(Arc::clone(&clock) as _).load().expect("a registry that verifies");
        let audience = Audience::new("gate-1").expect("an audience");
        let spent = Arc::new(MemorySpentTokens::new());
        let session = world.session_at(&countersign);
        let mut session = session.approvals(ApprovalSettings::new(World::keys(), spent, audience));
        if let Some(goal) = vector.goal() {
            session = session.goal(goal);
        }
        let gate = session.open(MemorySink::new()).expect("a session of a registered agent");
        for listed in vector.listed().into_iter().flatten() {
            let tool = ToolId::new("desk", listed["name"].as_str().expect("a name")).expect("a tool's id");
            let text = read(listed.to_string().as_bytes(), Recipe::Jcs1, &Limits::default());
            let definition = definition_digest(text.expect("JSON").value()).expect("a definition");
            gate.note_definition(&tool, definition);
        }
        let mut decisions = Vec::new();
        for event in vector.events() {
            match event {
                VectorEvent::Call(call) => decisions.push(decide(&world, &gate, &call)),
                VectorEvent::Publish(registry) => {
                    registry.write(folder.path(), clock.now().expect("the clock runs"));
                }
                VectorEvent::Wait(millis) => {
                    clock.advance(Millis::new(millis).expect("a span")).expect("a time in range");
                }
            }
        }
        decisions
    }
}

fn decide(world: &World, gate: &ToolGate, call: &VectorCall<'_>) -> Result<(), String> {
    let mut asked = ToolCall::new(&call.id, call.server, call.tool, call.args.as_bytes());
    if let Some(ask) = call.ask {
        asked = asked.ask(ask);
    }
    let token = match run(gate, &asked) {
        Err(refused) if call.is_approved && refused.approval_request().is_some() => {
            world.approve(refused.approval_request().expect("a request").binding())
        }
        decision => return decision.map_err(|refused| refused.code().as_str().to_owned()),
    };
    run(gate, &asked.approval(token.as_str())).map_err(|refused| refused.code().as_str().to_owned())
}

fn run(gate: &ToolGate, call: &ToolCall<'_>) -> Result<(), Rejection> {
    gate.check(call)
        .map(|accepted| accepted.run(|_| Ok::<(), ()>(())).expect("a call that is still accepted"))
}
