//! Framed hashes beside tokens, and the sealing of tokens.

use countersign_test_vectors::{Framed, hex};

use super::*;
use crate::framed_vector;

pub(crate) fn files() -> BTreeMap<String, String> {
    numbered("recipes", recipes())
}

/// An absent field is one byte 0; a present one follows a byte 1.
fn optional(bytes: Option<&[u8]>) -> Vec<u8> {
    bytes.map_or_else(|| vec![0], |bytes| [&[1], bytes].concat())
}

fn act(about: &str, call: &CallFacts) -> Value {
    let digest = |digest: Option<&Digest>| optional(digest.map(|digest| digest.as_bytes().as_slice()));
    let version = call.registry_version.map(u64::to_be_bytes);
    let framed = Framed::new("countersign/act-1")
        .field("server", call.tool.server().as_str().as_bytes())
        .field("tool", call.tool.name().as_str().as_bytes())
        .field("args", call.args.as_bytes())
        .field("args_recipe", call.args_recipe.as_str().as_bytes())
        .field("principal", call.principal.as_str().as_bytes())
        .field("agent", &optional(call.agent.as_ref().map(|id| id.as_str().as_bytes())))
        .field("session", &optional(call.session.as_ref().map(|id| id.as_str().as_bytes())))
        .field("definition", &digest(call.definition.as_ref()))
        .field("ask", &digest(call.ask.as_ref()))
        .field("plan", &digest(call.plan.as_ref()))
        .field("registry_version", &optional(version.as_ref().map(<[u8; 8]>::as_slice)))
        .field("audience", &optional(call.audience.as_ref().map(|id| id.as_str().as_bytes())));
    framed_vector(about, "act", &framed, &json!(call))
}

fn asker(about: &str, kind: &str, id: &str) -> Value {
    let framed = Framed::new("countersign/asker-1").field("kind", kind.as_bytes()).field("id", id.as_bytes());
    framed_vector(about, "asker", &framed, &json!({ "kind": kind, "id": id }))
}

fn spent(about: &str, run: &str, token: &str) -> Value {
    let framed =
        Framed::new("countersign/spent-1").field("run", run.as_bytes()).field("token_id", token.as_bytes());
    framed_vector(about, "spent", &framed, &json!({ "run": run, "token_id": token }))
}

/// A token sealed under the key of a run, from a secret of 32 bytes of value 1: the bytes that the tag covers, and
/// the text.
fn seal(about: &str, call: &CallFacts) -> Value {
    let (keys, token) = (keys(), minted(call));
    let mut members = json!(call);
    let tool = members.as_object_mut().unwrap().remove("tool").unwrap();
    let more = json!({
        "recipe": "approval-1", "run": "run-1", "key_id": "k1", "token_id": "t", "approver": "olga",
        "issued": 1_000_000, "expires": 1_060_000, "server": tool["server"], "tool": tool["name"],
    });
    members.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let payload = canonical(&members.to_string());
    let bytes = [&(LABEL.len() as u64).to_be_bytes(), LABEL.as_bytes(), payload.bytes()].concat();
    let tag = keys.active().1.tag(&bytes);
    let tail = token.as_str().strip_prefix("cs1.").unwrap();
    let encoded = |bytes: &[u8]| Base64UrlUnpadded::encode_string(bytes);
    assert_eq!(tail, format!("{}.{}", encoded(payload.bytes()), encoded(tag.as_bytes())), "{about}");
    json!({
        "description": about, "kind": "seal", "label": LABEL,
        "input": { "secret": hex(&[1; 32]), "key_id": "k1", "run": "run-1", "members": members },
        "payload": payload.as_str(), "bytes": hex(&bytes), "tag": hex(tag.as_bytes()), "sealed": token.as_str(),
    })
}

fn recipes() -> Vec<(&'static str, Value)> {
    let in_session = |id: &str| bare("c").session(SessionId::new(id).unwrap());
    vec![
        ("act_every_field", act("a call that binds all that there is", &full("c"))),
        ("act_no_optional_field", act("a call that binds what every call binds", &bare("c"))),
        ("act_agent_alone", act("one id, as the agent", &bare("c").agent(AgentId::new("x").unwrap()))),
        ("act_session_alone", act("the same id, as the session", &in_session("x"))),
        (
            "act_version_0",
            act("a registry version of 0 is not an absent one", &bare("c").registry_version(0)),
        ),
        ("asker_session", asker("who asks is the session", "session", "s-1")),
        ("asker_principal", asker("where no session is bound, it is the principal", "principal", "alice")),
        ("asker_session_named_alike", asker("a session with a principal's name", "session", "alice")),
        ("spent", spent("a token is spent by its id within its run", "run-1", "t")),
        ("spent_border_left", spent("the border of run and id", "run-1t", "t")),
        ("spent_border_right", spent("the same characters with the border elsewhere", "run-1", "tt")),
        ("seal", seal("a token over all fields", &full("c"))),
        ("seal_no_optional_field", seal("a token over the fields that every call has", &bare("c"))),
    ]
}
