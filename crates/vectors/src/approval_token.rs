//! Approvals: a token, the call that it is for, and the gate's keys and clock.

mod recipes;

use std::collections::BTreeMap;

use base64ct::{Base64, Base64UrlUnpadded, Encoding as _};
use countersign_approval_token::{ApprovalToken, DEFAULT_TTL_CAP, MintTerms, mint};
use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::{
    AgentId, Audience, CallFacts, CallId, Digest, KeyId, Millis, OperatorId, Principal, RunId, SessionId,
    Timestamp, TokenId, ToolId,
};
use countersign_keys::sealed::seal;
use countersign_keys::{Keyring, RunKeys, ServerSecret};
use countersign_test_vectors::numbered;
use serde_json::{Value, json};

pub(crate) use recipes::files as recipe_files;

const LABEL: &str = "countersign/approval-1";

pub(crate) fn files() -> BTreeMap<String, String> {
    let mut made = numbered("accept", accepted());
    made.extend(numbered("reject", rejected()));
    made
}

fn keys() -> RunKeys {
    let secret = ServerSecret::new(KeyId::new("k1").unwrap(), &[1; 32]).unwrap();
    Keyring::new(secret).for_run(&RunId::new("run-1").unwrap())
}

fn canonical(json: &str) -> Canonical {
    read(json.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap()
}

/// A call with the mandatory fields only.
fn bare(call: &str) -> CallFacts {
    CallFacts::new(
        CallId::new(call).unwrap(),
        ToolId::new("desk", "refund").unwrap(),
        canonical(r#"{"amount":10,"lines":[1,2],"to":{"name":"bob"}}"#).digest(),
        Recipe::Jcs1,
        Principal::new("alice").unwrap(),
    )
}

/// A call with every field.
fn full(call: &str) -> CallFacts {
    bare(call)
        .agent(AgentId::new("bot").unwrap())
        .session(SessionId::new("s-1").unwrap())
        .definition(Digest::of(b"definition"))
        .ask(Digest::of(b"ask"))
        .plan(Digest::of(b"plan"))
        .registry_version(7)
        .audience(Audience::new("gate-1").unwrap())
}

/// The token `t` of the approver `olga`, issued at 1,000 s for a minute.
fn minted(call: &CallFacts) -> ApprovalToken {
    let (token, approver) = (TokenId::new("t").unwrap(), OperatorId::new("olga").unwrap());
    let issued = Timestamp::from_millis(1_000_000).unwrap();
    let terms = MintTerms::new(token, approver, issued, Millis::from_secs(60));
    mint(&keys(), call, &terms, DEFAULT_TTL_CAP).unwrap()
}

/// The payload of a token, as text.
fn payload(token: &ApprovalToken) -> String {
    let encoded = token.as_str().split('.').nth(1).unwrap();
    String::from_utf8(Base64UrlUnpadded::decode_vec(encoded).unwrap()).unwrap()
}

/// Seals any payload, as a holder of the key could.
fn forge(payload: &str) -> String {
    seal("cs1", LABEL, keys().active().1, payload.as_bytes()).unwrap()
}

/// Default members of a vector.
fn base() -> Value {
    json!({
        "keys": [key("k1", 1)],
        "run": "run-1",
        "binding": full("c"),
        "token": minted(&full("c")).as_str(),
        "now": 1_000_000,
        "skew": 5_000,
        "partial": "refuse",
    })
}

fn key(id: &str, byte: u8) -> Value {
    json!({ "key_id": id, "secret": Base64::encode_string(&[byte; 32]) })
}

/// The base with some members replaced, a description and a verdict.
fn case(about: &str, expect: &str, reason: Option<&str>, change: &Value) -> Value {
    let mut case = base();
    for (name, value) in change.as_object().unwrap() {
        case[name] = value.clone();
    }
    case["description"] = about.into();
    case["expect"] = expect.into();
    if let Some(reason) = reason {
        case["reason"] = reason.into();
    }
    case
}

/// A vector with the terms and the payload of its token.
fn made(about: &str, call: &CallFacts, change: &Value) -> Value {
    let token = minted(call);
    let mut change = change.clone();
    change["token"] = token.as_str().into();
    change["payload"] = payload(&token).into();
    change["terms"] = json!({ "token_id": "t", "approver": "olga", "issued": 1_000_000, "ttl": 60_000 });
    if change.get("binding").is_none() {
        change["binding"] = json!(call);
    }
    case(about, "ok", None, &change)
}

fn accepted() -> Vec<(&'static str, Value)> {
    let odd = CallFacts::new(
        CallId::new(r#"c|"1","call_id":"2"#).unwrap(),
        ToolId::new("desk/v2", "_refund.now-1").unwrap(),
        canonical("{}").digest(),
        Recipe::Jcs1,
        Principal::new("Zo\u{eb} \\ \u{1f600}").unwrap(),
    );
    vec![
        ("every_field", made("a token over all fields", &full("c"), &json!({}))),
        ("no_optional_field", made("a token over the fields that every call has", &bare("c"), &json!({}))),
        (
            "awkward_ids",
            made("quotes, backslashes, separators and characters beyond the BMP in ids", &odd, &json!({})),
        ),
        (
            "accepted_key",
            made(
                "the key was rotated and is still accepted",
                &full("c"),
                &json!({ "keys": [key("k2", 2), key("k1", 1)] }),
            ),
        ),
        ("last_millisecond", made("one millisecond before expiry", &full("c"), &json!({ "now": 1_059_999 }))),
        (
            "issued_ahead_within_skew",
            made("issued exactly as far ahead as the skew allows", &full("c"), &json!({ "now": 995_000 })),
        ),
        (
            "left_out_fields_where_that_is_allowed",
            made(
                "the approver knew less than the gate, and the gate accepts that",
                &bare("c"),
                &json!({ "binding": full("c"), "partial": "accept" }),
            ),
        ),
        (
            "lifetime_at_the_longest",
            made(
                "it counts for exactly as long as the gate allows",
                &full("c"),
                &json!({ "max_lifetime": 60_000 }),
            ),
        ),
    ]
}

/// A token that differs from the valid one in a part of its payload.
fn edited(from: &str, to: &str) -> Value {
    let good = payload(&minted(&full("c")));
    let bad = good.replacen(from, to, 1);
    assert_ne!(good, bad, "{from}");
    json!({ "token": forge(&bad), "payload": bad })
}

/// A call that differs from the valid one in one member.
fn other(member: &str, value: &Value) -> Value {
    let mut binding = json!(full("c"));
    binding[member] = value.clone();
    json!({ "binding": binding })
}

fn rejected() -> Vec<(&'static str, Value)> {
    let mut cases = Vec::new();
    let mut add = |slug, about, reason, change: Value| {
        cases.push((slug, case(about, "APPROVAL_INVALID", Some(reason), &change)));
    };
    let zero = Digest::from_bytes([0; 32]);
    add("other_call_id", "another call", "other-call", other("call_id", &json!("d")));
    add(
        "other_server",
        "another server's tool of the same name",
        "other-server",
        other("tool", &json!({ "server": "evil", "name": "refund" })),
    );
    add(
        "other_tool",
        "another tool of the server",
        "other-tool",
        other("tool", &json!({ "server": "desk", "name": "pay" })),
    );
    add("other_args", "other arguments", "other-args", other("args", &json!(zero)));
    add(
        "other_args_recipe",
        "arguments by another recipe",
        "other-args-recipe",
        other("args_recipe", &json!("rfc8785")),
    );
    add("other_principal", "another user", "other-principal", other("principal", &json!("mallory")));
    add("other_agent", "another agent", "other-agent", other("agent", &json!("bot2")));
    add("other_session", "another session", "other-session", other("session", &json!("s-2")));
    add("other_definition", "the tool was changed", "other-definition", other("definition", &json!(zero)));
    add("other_ask", "another goal", "other-ask", other("ask", &json!(zero)));
    add("other_plan", "another plan", "other-plan", other("plan", &json!(zero)));
    add(
        "other_registry_version",
        "the registry has moved on",
        "other-registry-version",
        other("registry_version", &json!(8)),
    );
    add("other_audience", "another gate", "other-audience", other("audience", &json!("gate-2")));
    add("other_run", "another run", "tag", json!({ "run": "run-2" }));
    add(
        "other_run_in_payload",
        "another run's name under this run's key",
        "other-run",
        edited("run-1", "run-2"),
    );
    add("unknown_key", "a key that was retired", "tag", json!({ "keys": [key("k2", 2)] }));
    add("same_secret_other_key_id", "the secret under another id", "tag", json!({ "keys": [key("k9", 1)] }));
    add(
        "other_key_id_in_payload",
        "a key id that is not that of the key",
        "other-key",
        edited(r#""key_id":"k1""#, r#""key_id":"k2""#),
    );
    add(
        "recipe_none",
        "a recipe that promises nothing",
        "other-recipe",
        edited(r#""recipe":"approval-1""#, r#""recipe":"none""#),
    );
    add(
        "left_out_fields",
        "the gate knows fields that the approver left out",
        "other-definition",
        json!({ "token": minted(&bare("c")).as_str() }),
    );
    add(
        "fields_unknown_to_the_gate",
        "the token binds what the gate does not know",
        "other-definition",
        json!({ "binding": bare("c"), "partial": "accept" }),
    );
    add(
        "issued_ahead_beyond_skew",
        "issued a millisecond too far ahead",
        "not-yet",
        json!({ "now": 994_999 }),
    );
    add("expires_before_issued", "times in the wrong order", "times", edited("1060000", "1000000"));
    add("self_approval", "the agent as its own approver", "self-approval", edited("olga", "bot"));
    for (slug, about, value) in [
        ("expires_string", "expiry as a string", r#""1060000""#),
        ("expires_float", "expiry with a fraction", "1060000.5"),
        ("expires_respelled", "expiry in another spelling", "1060000.0"),
        ("expires_negative", "negative expiry", "-1060000"),
        ("expires_null", "no expiry", "null"),
        ("expires_1e9", "expiry with an exponent", "1e9"),
        ("expires_above_2_53", "expiry above 2^53", "9007199254740994"),
        ("expires_inexact", "expiry that a double does not hold", "9007199254740993"),
    ] {
        add(slug, about, "payload", edited("1060000", value));
    }
    add("unknown_member", "a member that nobody knows", "payload", edited("{", r#"{"a":1,"#));
    add("missing_member", "no principal", "payload", edited(r#""principal":"alice","#, ""));
    add("repeated_member", "a member twice", "payload", edited("{", r#"{"agent":"bot","#));
    add(
        "repeated_member_escaped",
        "a member twice, once behind an escape",
        "payload",
        edited("{", r#"{"\u0061gent":"bot","#),
    );
    add("null_member", "null for absent", "payload", edited(r#""agent":"bot""#, r#""agent":null"#));
    add("blank_in_payload", "a payload that is not canonical", "payload", edited("{", "{ "));
    let good = minted(&full("c")).as_str().to_owned();
    let (head, tag) = good.rsplit_once('.').unwrap();
    let spare = format!("{}{}", &tag[..42], char::from(tag.as_bytes()[42] + 1));
    let last = if tag.starts_with('A') { "B" } else { "A" };
    for (slug, about, reason, text) in [
        ("tag_changed", "one character of the tag changed", "tag", format!("{head}.{last}{}", &tag[1..])),
        ("tag_truncated", "sixteen bytes of the tag", "shape", format!("{head}.{}", &tag[..22])),
        ("tag_extended", "a character after the tag", "shape", format!("{head}.{tag}A")),
        ("tag_padded", "a padded tag", "shape", format!("{head}.{tag}=")),
        ("tag_spare_bits", "spare bits set in the tag", "shape", format!("{head}.{spare}")),
        ("tag_empty", "no tag", "shape", format!("{head}.")),
        ("tag_missing", "no tag and no dot", "shape", head.to_owned()),
        ("prefix_upper_case", "the prefix in upper case", "shape", good.replacen("cs1", "CS1", 1)),
        ("prefix_other", "another version's prefix", "shape", good.replacen("cs1", "cs2", 1)),
        ("white_space_after", "a line feed after the token", "shape", format!("{good}\n")),
        ("payload_padded", "a padded payload", "shape", format!("{head}=.{tag}")),
        ("empty", "nothing", "shape", String::new()),
    ] {
        add(slug, about, reason, json!({ "token": text }));
    }
    cases.push((
        "expired_at_expiry",
        case("the moment of expiry is too late", "APPROVAL_EXPIRED", None, &json!({ "now": 1_060_000 })),
    ));
    cases.push((
        "expired_long_ago",
        case("the end of time", "APPROVAL_EXPIRED", None, &json!({ "now": (1_u64 << 53) - 1 })),
    ));
    let lookalike = json!({ "token": forge(&payload(&minted(&full("c"))).replace("olga", "BOT")) });
    cases.push((
        "self_approval_look_alike",
        case(
            "a name that looks like the agent's as approver",
            "APPROVAL_INVALID",
            Some("self-approval"),
            &lookalike,
        ),
    ));
    let lifetime = |about, change: &Value| case(about, "APPROVAL_INVALID", Some("lifetime"), change);
    cases.push((
        "lifetime_beyond_the_longest",
        lifetime(
            "it counts for a millisecond longer than the gate allows",
            &json!({ "max_lifetime": 59_999 }),
        ),
    ));
    let mut years = edited("1060000", "315360000000");
    years["now"] = 1_000_000.into();
    cases.push((
        "lifetime_of_ten_years",
        lifetime("ten years where nothing is said, which is an hour", &years),
    ));
    cases
}
