//! The translation between the eras leaves every byte that is not its own.

use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use proptest::prelude::*;

use crate::cut::{Edits, ValuePosition};
use crate::era_2026::{ResultKind, add_metadata, complete, of_stream, without_stream};
use crate::message::RpcId;

const INFO: &str = r#"{"name":"desk","version":"2"}"#;

fn parsed(text: &[u8]) -> Canonical {
    read(text, Recipe::Rfc8785, &Limits::default()).unwrap()
}

/// JSON text in spellings that a second writer would change.
fn any_text() -> BoxedStrategy<String> {
    let leaf = prop::sample::select(vec![
        "1.0",
        "1e5",
        "-0",
        "0.10",
        "9007199254740993",
        "null",
        "true",
        r#""""#,
        r#""\u0041\/""#,
        "\"é🙂\"",
        r#""}],{\"""#,
    ]);
    leaf.prop_map(str::to_owned)
        .prop_recursive(3, 16, 4, |inner| {
            let blank = prop::sample::select(vec!["", " ", "\t", "  "]);
            prop_oneof![
                (prop::collection::vec(inner.clone(), 0..4), blank.clone())
                    .prop_map(|(all, blank)| format!("[{blank}{}{blank}]", all.join(","))),
                (prop::collection::btree_map("[a-e]{1,3}", inner, 0..4), blank)
                    .prop_map(|(all, blank)| object(&all.into_iter().collect::<Vec<_>>(), blank)),
            ]
        })
        .boxed()
}

fn object(members: &[(String, String)], blank: &str) -> String {
    let all: Vec<String> =
        members.iter().map(|(name, value)| format!("\"{name}\"{blank}:{blank}{value}")).collect();
    format!("{{{blank}{}{blank}}}", all.join(","))
}

/// An object with members of its own, and perhaps `_meta` of a vendor.
fn any_object() -> impl Strategy<Value = String> {
    let members = prop::collection::btree_map("[a-e]{1,3}", any_text(), 0..4);
    let meta = prop::option::of(prop::collection::btree_map("vendor/[a-e]{1,2}", any_text(), 0..3));
    (members, meta, prop::sample::select(vec!["", " "])).prop_map(|(members, meta, blank)| {
        let mut all: Vec<(String, String)> = members.into_iter().collect();
        if let Some(meta) = meta {
            all.push(("_meta".to_owned(), object(&meta.into_iter().collect::<Vec<_>>(), blank)));
        }
        object(&all, blank)
    })
}

/// Returns whether a text is another one with bytes put in between.
fn is_within(text: &[u8], longer: &[u8]) -> bool {
    let mut rest = longer.iter();
    text.iter().all(|byte| rest.any(|other| other == byte))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn completing_a_result_only_adds_members(result in any_object(), is_cached in any::<bool>()) {
        let line = format!(r#"{{ "jsonrpc":"2.0", "id":7,"result": {result} }}"#);
        let message = parsed(line.as_bytes());
        let place = ValuePosition::new(line.as_bytes());
        let kind = if is_cached { ResultKind::Cached } else { ResultKind::Plain };
        let mut edits = Edits::new(line.as_bytes());
        complete(&mut edits, &place, message.value().get("result").unwrap(), kind, Some(INFO));
        let out = edits.finish();
        prop_assert!(is_within(line.as_bytes(), &out));
        let out = parsed(&out);
        let (before, after) = (message.value().get("result").unwrap(), out.value().get("result").unwrap());
        prop_assert_eq!(after.get("resultType").unwrap().as_str(), Some("complete"));
        prop_assert_eq!(after.get("ttlMs").is_some(), is_cached);
        for (name, value) in before.members().filter(|(name, _)| *name != "_meta") {
            prop_assert_eq!(after.get(name).unwrap().canonical_text(), value.canonical_text());
        }
        let meta = after.get("_meta").unwrap();
        prop_assert_eq!(meta.get("io.modelcontextprotocol/serverInfo").unwrap().canonical_text(), INFO);
        for (name, value) in before.get("_meta").into_iter().flat_map(|meta| meta.members().collect::<Vec<_>>()) {
            prop_assert_eq!(meta.get(name).unwrap().canonical_text(), value.canonical_text());
        }
    }

    #[test]
    fn adding_metadata_leaves_every_other_byte(params in prop::option::of(any_object())) {
        let params = params.map(|params| format!(r#","params": {params}"#)).unwrap_or_default();
        let line = format!(r#"{{"id":"a","jsonrpc":"2.0","method":"tools/list"{params}}}"#);
        let (mut edits, place) = (Edits::new(line.as_bytes()), ValuePosition::new(line.as_bytes()));
        add_metadata(&mut edits, &place, Some(INFO), "{}");
        let out = edits.finish();
        prop_assert!(is_within(line.as_bytes(), &out));
        let version = parsed(&out);
        let version = version.value().pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
        prop_assert_eq!(version.and_then(|version| version.as_str()), Some("2026-07-28"));
    }

    #[test]
    fn a_stream_and_back_is_the_same_notification(params in prop::option::of(any_object())) {
        let params = params.map(|params| format!(r#","params": {params}"#)).unwrap_or_default();
        let line = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x"{params}}}"#);
        let of = of_stream(line.as_bytes(), &RpcId::Number(7));
        prop_assert!(is_within(line.as_bytes(), &of));
        let message = parsed(&of);
        let back = without_stream(&of, message.value().get("params")).unwrap();
        let (back, before) = (parsed(&back), parsed(line.as_bytes()));
        let own = |value: countersign_canonical_json::ValueRef<'_>| {
            let members = value.get("params").into_iter().flat_map(|params| params.members().collect::<Vec<_>>());
            members.filter(|(name, _)| *name != "_meta").map(|(_, value)| value.canonical_text()).collect::<Vec<_>>()
        };
        prop_assert_eq!(own(back.value()), own(before.value()));
    }
}
