//! The reader of payloads, beside the general reader of canonical JSON.

use proptest::prelude::*;
use serde::{Deserialize, Deserializer};

use super::*;
use crate::payload::Payload;

/// The members of a token, as serde reads them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Members {
    recipe: String,
    key_id: String,
    token_id: String,
    call_id: String,
    server: String,
    tool: String,
    #[serde(default, deserialize_with = "present")]
    definition: Option<Digest>,
    args: Digest,
    args_recipe: String,
    principal: String,
    #[serde(default, deserialize_with = "present")]
    agent: Option<String>,
    #[serde(default, deserialize_with = "present")]
    session: Option<String>,
    run: String,
    #[serde(default, deserialize_with = "present")]
    ask: Option<Digest>,
    #[serde(default, deserialize_with = "present")]
    plan: Option<Digest>,
    #[serde(default, deserialize_with = "present")]
    registry_version: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    audience: Option<String>,
    approver: String,
    issued: Timestamp,
    expires: Timestamp,
}

fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

/// Reads a payload with the general reader: canonical JSON, then serde.
fn read_generally(bytes: &[u8]) -> Option<Payload<'static>> {
    let canonical = read(bytes, Recipe::Jcs1, &Limits::default()).ok()?;
    if canonical.bytes() != bytes {
        return None;
    }
    let members = Members::deserialize(canonical.value()).ok()?;
    Some(Payload {
        recipe: members.recipe.into(),
        key_id: members.key_id.into(),
        token_id: members.token_id.into(),
        call_id: members.call_id.into(),
        server: members.server.into(),
        tool: members.tool.into(),
        definition: members.definition,
        args: members.args,
        args_recipe: members.args_recipe.into(),
        principal: members.principal.into(),
        agent: members.agent.map(Into::into),
        session: members.session.map(Into::into),
        run: members.run.into(),
        ask: members.ask,
        plan: members.plan,
        registry_version: members.registry_version,
        audience: members.audience.map(Into::into),
        approver: members.approver.into(),
        issued: members.issued,
        expires: members.expires,
    })
}

/// Texts of all kinds of characters: with short and long escapes, and with other alphabets.
fn any_text() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![
            Just("\""),
            Just("\\"),
            Just("a"),
            Just("\u{8}"),
            Just("\n"),
            Just("\u{1}"),
            Just("\u{1f}"),
            Just("\u{7f}"),
            Just("/"),
            Just("\u{e9}"),
            Just("\u{1f600}"),
            Just("\u{2028}")
        ],
        0..6,
    )
    .prop_map(|parts| parts.concat())
}

prop_compose! {
    fn any_payload()(
        texts in proptest::collection::vec(any_text(), 12),
        digests in proptest::array::uniform4(any::<[u8; 32]>()),
        times in proptest::array::uniform2(0..1_u64 << 53),
        version in 0..=1_u64 << 53,
        present in any::<[bool; 7]>(),
    ) -> Payload<'static> {
        let [args, definition, ask, plan] = digests.map(Digest::from_bytes);
        let text = |at: usize| texts[at].clone().into();
        Payload {
            recipe: text(0), key_id: text(1), token_id: text(2), call_id: text(3), server: text(4), tool: text(5),
            args_recipe: text(6), principal: text(7), run: text(8), approver: text(9), args,
            definition: present[0].then_some(definition),
            ask: present[1].then_some(ask),
            plan: present[2].then_some(plan),
            registry_version: present[3].then_some(version),
            agent: present[4].then(|| text(10)),
            session: present[5].then(|| text(11)),
            audience: present[6].then(|| text(0)),
            issued: at(times[0]), expires: at(times[1]),
        }
    }
}

proptest! {
    #[test]
    fn payload_is_read_as_it_was_written(payload in any_payload()) {
        let canonical = payload.to_canonical().unwrap();
        let read = Payload::read(canonical.bytes());
        prop_assert_eq!(read.as_ref(), Some(&payload));
        prop_assert_eq!(read_generally(canonical.bytes()), Some(payload));
    }

    #[test]
    fn reader_agrees_with_the_canonical_one(
        payload in any_payload(), from in any::<prop::sample::Index>(), length in 0..12_usize,
        insert in prop_oneof![
            Just(""), Just("\\"), Just("\""), Just(","), Just("}"), Just("{"), Just("null"), Just("0"), Just("1"), Just("9"),
            Just("\\u0008"), Just("\\u001f"), Just("\\u001F"), Just("\\u00+1"), Just("\\u0041"), Just("\\/"), Just("\\b"),
            Just(" "), Just("-"), Just(".0"), Just("e1"), Just("\n"), Just("\u{e9}"), Just("\"agent\":\"x\","), Just("a"),
        ],
    ) {
        let mut bytes = payload.to_canonical().unwrap().bytes().to_vec();
        let from = from.index(bytes.len() + 1);
        let to = bytes.len().min(from + length);
        bytes.splice(from..to, insert.bytes());
        prop_assert_eq!(Payload::read(&bytes), read_generally(&bytes));
    }
}
