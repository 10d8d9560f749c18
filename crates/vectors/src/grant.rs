//! Grants: the text, a call that it may cover, and the gate's keys and clock.

use std::collections::BTreeMap;

use base64ct::{Base64, Base64UrlUnpadded, Encoding as _};
use countersign_canonical_json::{Limits, Recipe, read, to_canonical};
use countersign_core::{
    AgentId, Audience, CallFacts, CallId, Digest, KeyId, Principal, RunId, SessionId, ToolId,
};
use countersign_keys::{Keyring, RunKeys, ServerSecret};
use countersign_test_vectors::{Framed, hex, numbered};
use serde_json::{Value, json};

use crate::framed_vector;

const LABEL: &str = "countersign/grant-1";
const CONDITIONS: &str = r#"[{"at":"/to","domains":["example.com"],"kind":"email_domain"}]"#;

pub(crate) fn files() -> BTreeMap<String, String> {
    let mut made = numbered("accept", accepted());
    made.extend(numbered("reject", rejected()));
    made
}

pub(crate) fn recipe_files() -> BTreeMap<String, String> {
    let sealed = sealed(&payload(&json!({})));
    let bytes = [&(LABEL.len() as u64).to_be_bytes(), LABEL.as_bytes(), sealed.payload.as_bytes()].concat();
    let seal = json!({
        "description": "a grant for the same arguments", "kind": "seal", "label": LABEL,
        "input": { "secret": hex(&[1; 32]), "key_id": "k1", "run": "grants", "members": payload(&json!({})) },
        "payload": sealed.payload, "bytes": hex(&bytes), "tag": hex(&sealed.tag), "sealed": sealed.text,
    });
    numbered(
        "recipes",
        [
            ("first_use", ticket("the first use of a grant", "g-1", 1)),
            ("last_use", ticket("the last use that a grant can have", "g-1", 100)),
            ("other_grant", ticket("the first use of another grant", "g-2", 1)),
            ("seal", seal),
        ],
    )
}

fn ticket(about: &str, grant: &str, number: u32) -> Value {
    let framed = Framed::new("countersign/grant-use-1")
        .field("grant_id", grant.as_bytes())
        .field("number", &number.to_be_bytes());
    framed_vector(about, "use", &framed, &json!({ "grant_id": grant, "number": number }))
}

fn keys() -> RunKeys {
    let secret = ServerSecret::new(KeyId::new("k1").unwrap(), &[1; 32]).unwrap();
    Keyring::new(secret).for_run(&RunId::new("grants").unwrap())
}

fn digest(args: &str) -> Digest {
    read(args.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap().digest()
}

/// A call with these arguments.
fn call(args: &str) -> CallFacts {
    let (id, tool) = (CallId::new("c-2").unwrap(), ToolId::new("desk", "refund").unwrap());
    CallFacts::new(id, tool, digest(args), Recipe::Jcs1, Principal::new("alice").unwrap())
        .agent(AgentId::new("bot").unwrap())
        .session(SessionId::new("s-1").unwrap())
        .definition(Digest::of(b"definition"))
        .registry_version(7)
        .audience(Audience::new("gate-1").unwrap())
}

const SAME: &str = r#"{"to":"a@example.com"}"#;
const OTHER: &str = r#"{"to":"b@example.com"}"#;

/// The payload of a grant for two calls within an hour, with members replaced, or removed by `null`.
fn payload(change: &Value) -> Value {
    let mut members = json!({
        "recipe": "grant-1", "key_id": "k1", "grant_id": "g-1", "tool": { "server": "desk", "name": "refund" },
        "definition": Digest::of(b"definition"), "call_id": "c-1", "args": digest(SAME), "args_recipe": "jcs-1",
        "agent": "bot", "principal": "alice", "session": "s-1", "registry_version": 7, "audience": "gate-1", "uses": 2,
        "approver": "olga", "issued": 1_000_000, "expires": 4_600_000,
    });
    let list = members.as_object_mut().unwrap();
    for (name, value) in change.as_object().unwrap() {
        list.remove(name);
        if !value.is_null() {
            list.insert(name.clone(), value.clone());
        }
    }
    members
}

struct Sealed {
    payload: String,
    tag: Vec<u8>,
    text: String,
}

/// Seals a payload, as a holder of the key could.
fn sealed(members: &Value) -> Sealed {
    let payload = to_canonical(members).unwrap().as_str().to_owned();
    let bytes = [&(LABEL.len() as u64).to_be_bytes(), LABEL.as_bytes(), payload.as_bytes()].concat();
    let tag = keys().active().1.tag(&bytes).as_bytes().to_vec();
    let encoded = |bytes: &[u8]| Base64UrlUnpadded::encode_string(bytes);
    let text = format!("csg1.{}.{}", encoded(payload.as_bytes()), encoded(&tag));
    Sealed { payload, tag, text }
}

/// A vector of a grant with changed members, for a call with these arguments, with members of its own replaced.
fn case(about: &str, members: &Value, args: &str, change: &Value, expect: (&str, Option<&str>)) -> Value {
    let sealed = sealed(&payload(members));
    let mut case = json!({
        "description": about, "keys": [{ "key_id": "k1", "secret": Base64::encode_string(&[1; 32]) }], "run": "grants",
        "call": call(args), "arguments": args, "grant": sealed.text, "payload": sealed.payload, "now": 1_000_000,
        "skew": 5_000, "max_lifetime": 86_400_000, "expect": expect.0,
    });
    if let Some(reason) = expect.1 {
        case["reason"] = reason.into();
    }
    for (name, value) in change.as_object().unwrap() {
        case[name] = value.clone();
    }
    case
}

fn accepted() -> Vec<(&'static str, Value)> {
    let made =
        |about, members: Value, args, change: Value| case(about, &members, args, &change, ("ok", None));
    let conditions = json!({ "conditions": CONDITIONS });
    let later = json!({ "now": 4_599_999 });
    vec![
        ("same_arguments", made("another call with the same arguments", json!({}), SAME, json!({}))),
        ("conditions_hold", made("other arguments that meet the conditions", conditions, OTHER, json!({}))),
        ("any_session", made("a grant for every session", json!({ "session": null }), SAME, json!({}))),
        ("last_millisecond", made("one millisecond before expiry", json!({}), SAME, later)),
        (
            "within_skew",
            made("issued as far ahead as the skew allows", json!({}), SAME, json!({ "now": 995_000 })),
        ),
        ("most_uses", made("as many uses as a grant can have", json!({ "uses": 100 }), SAME, json!({}))),
    ]
}

fn rejected() -> Vec<(&'static str, Value)> {
    let zero = Digest::from_bytes([0; 32]);
    let conditions = |text: &str| json!({ "conditions": text });
    let not_met = r#"[{"at":"/to","domains":["example.org"],"kind":"email_domain"}]"#;
    let mut cases: Vec<_> = [
        ("other_args", "other arguments", "other-args", json!({}), OTHER),
        (
            "conditions_do_not_hold",
            "arguments that miss the conditions",
            "other-args",
            conditions(not_met),
            SAME,
        ),
        ("conditions_empty", "no condition at all", "other-args", conditions("[]"), SAME),
        ("conditions_unreadable", "conditions that are not JSON", "other-args", conditions("{"), SAME),
        (
            "other_tool",
            "another tool",
            "other-tool",
            json!({ "tool": { "server": "desk", "name": "pay" } }),
            SAME,
        ),
        (
            "other_server",
            "a tool of another server",
            "other-tool",
            json!({ "tool": { "server": "e", "name": "refund" } }),
            SAME,
        ),
        ("other_definition", "the tool was changed", "other-definition", json!({ "definition": zero }), SAME),
        ("no_definition", "no definition bound", "other-definition", json!({ "definition": null }), SAME),
        ("other_agent", "another agent", "other-agent", json!({ "agent": "cat" }), SAME),
        ("other_principal", "another user", "other-principal", json!({ "principal": "mallory" }), SAME),
        ("other_session", "another session", "other-session", json!({ "session": "s-2" }), SAME),
        (
            "other_registry_version",
            "another registry",
            "other-registry-version",
            json!({ "registry_version": 8 }),
            SAME,
        ),
        ("other_audience", "another gate", "other-audience", json!({ "audience": "gate-2" }), SAME),
        ("other_recipe", "another recipe", "other-recipe", json!({ "recipe": "approval-1" }), SAME),
        ("other_key_id", "another key's id", "other-key", json!({ "key_id": "k2" }), SAME),
        (
            "self_approval",
            "a name that looks like the agent's",
            "self-approval",
            json!({ "approver": "B0T" }),
            SAME,
        ),
        ("no_use", "no use at all", "uses", json!({ "uses": 0 }), SAME),
        ("too_many_uses", "more uses than a grant can have", "uses", json!({ "uses": 101 }), SAME),
        ("uses_float", "uses with a fraction", "payload", json!({ "uses": 2.5 }), SAME),
        ("uses_missing", "no number of uses", "payload", json!({ "uses": null }), SAME),
        ("unknown_member", "an unknown member", "payload", json!({ "any": true }), SAME),
        ("times_reversed", "expiry before issue", "times", json!({ "expires": 999_999 }), SAME),
        (
            "lifetime",
            "a longer lifetime than the gate allows",
            "lifetime",
            json!({ "expires": 87_400_001 }),
            SAME,
        ),
        ("issued_ahead", "issued too far ahead", "not-yet", json!({ "issued": 1_005_001 }), SAME),
    ]
    .into_iter()
    .map(|(slug, about, reason, members, args)| {
        (slug, case(about, &members, args, &json!({}), ("APPROVAL_INVALID", Some(reason))))
    })
    .collect();
    let invalid = |reason| ("APPROVAL_INVALID", Some(reason));
    let other_run = case("keys of a session", &json!({}), SAME, &json!({ "run": "s-1" }), invalid("tag"));
    cases.push(("other_run", other_run));
    let expired = case(
        "the moment of expiry",
        &json!({}),
        SAME,
        &json!({ "now": 4_600_000 }),
        ("APPROVAL_EXPIRED", None),
    );
    cases.push(("expired", expired));
    cases
}
