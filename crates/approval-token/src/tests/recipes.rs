//! The public vectors under `tests/vectors/approval-token/recipes`: what is hashed beside tokens, put together a second time.
//! `COUNTERSIGN_WRITE_VECTORS=1` writes them.

use countersign_test_vectors::{Framed, Vectors, numbered};
use serde_json::{Value, json};

use super::*;
use crate::spent::spent_id;

fn vector(about: &str, kind: &str, framed: &Framed, input: &Value, digest: Digest) -> Value {
    assert_eq!(Digest::of(&framed.bytes()), digest, "{about}");
    framed.vector(about, kind, input, digest)
}

/// An absent field is one byte 0; a present one stands behind a byte 1.
fn optional(bytes: Option<&[u8]>) -> Vec<u8> {
    bytes.map_or_else(|| vec![0], |bytes| [&[1], bytes].concat())
}

fn act(about: &str, call: &CallBinding) -> Value {
    let digest = |digest: Option<&Digest>| optional(digest.map(|digest| digest.as_bytes().as_slice()));
    let version = call.registry_version().map(u64::to_be_bytes);
    let framed = Framed::new("countersign/act-1")
        .field("server", call.tool().server().as_str().as_bytes())
        .field("tool", call.tool().name().as_str().as_bytes())
        .field("args", call.args().as_bytes())
        .field("args_recipe", call.args_recipe().as_str().as_bytes())
        .field("principal", call.principal().as_str().as_bytes())
        .field("agent", &optional(call.agent().map(|id| id.as_str().as_bytes())))
        .field("session", &optional(call.session().map(|id| id.as_str().as_bytes())))
        .field("definition", &digest(call.definition()))
        .field("ask", &digest(call.ask()))
        .field("plan", &digest(call.plan()))
        .field("registry_version", &optional(version.as_ref().map(<[u8; 8]>::as_slice)))
        .field("audience", &optional(call.audience().map(|id| id.as_str().as_bytes())));
    vector(about, "act", &framed, &json!(call), call.act())
}

fn asker(about: &str, kind: &str, id: &str, call: &CallBinding) -> Value {
    let framed = Framed::new("countersign/asker-1").field("kind", kind.as_bytes()).field("id", id.as_bytes());
    vector(about, "asker", &framed, &json!({ "kind": kind, "id": id }), call.asker())
}

fn spent(about: &str, run: &str, token: &str) -> Value {
    let id = spent_id(&RunId::new(run).unwrap(), &TokenId::new(token).unwrap());
    let framed =
        Framed::new("countersign/spent-1").field("run", run.as_bytes()).field("token_id", token.as_bytes());
    vector(about, "spent", &framed, &json!({ "run": run, "token_id": token }), *id.digest())
}

fn recipes() -> Vec<(&'static str, Value)> {
    let in_session = |id: &str| bare("c").with_session(SessionId::new(id).unwrap());
    vec![
        ("act_every_field", act("a call that binds all that there is", &full("c"))),
        ("act_no_optional_field", act("a call that binds what every call binds", &bare("c"))),
        ("act_agent_alone", act("one id, as the agent", &bare("c").with_agent(AgentId::new("x").unwrap()))),
        ("act_session_alone", act("the same id, as the session", &in_session("x"))),
        (
            "act_version_0",
            act("a registry version of 0 is not an absent one", &bare("c").with_registry_version(0)),
        ),
        ("asker_session", asker("who asks is the session", "session", "s-1", &full("c"))),
        (
            "asker_principal",
            asker("where no session is bound, it is the principal", "principal", "alice", &bare("c")),
        ),
        (
            "asker_session_named_alike",
            asker("a session with a principal's name", "session", "alice", &in_session("alice")),
        ),
        ("spent", spent("a token is spent by its id within its run", "run-1", "t")),
        ("spent_border_left", spent("the border of run and id", "run-1t", "t")),
        ("spent_border_right", spent("the same characters with the border elsewhere", "run-1", "tt")),
    ]
}

#[test]
fn the_recipes_on_disk_are_those_that_are_made() {
    Vectors::recipes("approval-token").hold(&numbered("recipes", recipes()));
}

#[test]
fn no_two_recipes_have_one_digest() {
    let cases = recipes();
    let digests: std::collections::BTreeSet<_> =
        cases.iter().map(|(_, case)| case["sha256"].as_str().unwrap().to_owned()).collect();
    assert_eq!(digests.len(), cases.len());
}
