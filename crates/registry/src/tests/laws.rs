use std::collections::BTreeSet;

use countersign_canonical_json::{Limits as JsonLimits, Recipe, read};
use countersign_core::{OutputTag, ToolId};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixture::*;
use crate::*;

const TOOLS: [&str; 6] = ["alpha", "bravo", "cedar", "delta", "echo", "frost"];
const TAGS: [&str; 4] = ["red", "green", "blue", "grey"];

/// Returns a registry where the agent `worker` lists some of the tools and tags.
fn registry_with(tools: &BTreeSet<usize>, tags: &BTreeSet<usize>) -> CapabilityRegistry {
    let entries: Vec<Value> = TOOLS
        .iter()
        .map(|name| json!({"server": "s", "name": name, "impact": "read", "approval": "not_required", "args_schema": {}}))
        .collect();
    let listed: Vec<Value> = tools.iter().map(|n| json!({"server": "s", "name": TOOLS[*n]})).collect();
    let tags: Vec<_> = tags.iter().map(|n| TAGS[*n]).collect();
    load(&json!({"format": "countersign-registry-1", "version": 1, "tools": entries, "agents": [
        {"agent": "worker", "version": 1, "registered_by": "ops", "max_session": "1h", "tools": listed, "output_tags": tags},
    ]}))
}

fn some_of(count: usize, least: usize) -> impl Strategy<Value = BTreeSet<usize>> {
    prop::collection::btree_set(0..count, least..=count)
}

fn wanted(count: usize) -> impl Strategy<Value = Option<BTreeSet<usize>>> {
    prop::option::of(some_of(count, 0))
}

fn ids(chosen: &BTreeSet<usize>) -> BTreeSet<ToolId> {
    chosen.iter().map(|n| tool("s", TOOLS[*n])).collect()
}

fn tags_of(chosen: &BTreeSet<usize>) -> BTreeSet<OutputTag> {
    chosen.iter().map(|n| OutputTag::new(TAGS[*n]).unwrap()).collect()
}

fn asked(
    tools: Option<&BTreeSet<usize>>,
    tags: Option<&BTreeSet<usize>>,
    claims: &[u8],
) -> NegotiationRequest {
    let mut asked = request("worker").claims(AgentClaims::from_json(claims));
    if let Some(tools) = tools {
        asked = asked.wanted_tools(Wanted::These(ids(tools)));
    }
    if let Some(tags) = tags {
        asked = asked.wanted_tags(Wanted::These(tags_of(tags)));
    }
    asked
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn contract_discloses_only_listed_tools(
        listed in some_of(6, 1), tags in some_of(4, 0),
        want_tools in wanted(6), want_tags in wanted(4),
        under_tools in wanted(6), under_tags in wanted(4),
        claims in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let registry = registry_with(&listed, &tags);
        let within = |want: &Option<BTreeSet<usize>>, have: &BTreeSet<usize>| {
            want.as_ref().is_none_or(|want| want.is_subset(have))
        };
        let made = registry.negotiate(&asked(want_tools.as_ref(), want_tags.as_ref(), &claims), now());
        prop_assert_eq!(made.is_ok(), within(&want_tools, &listed) && within(&want_tags, &tags));
        let Ok(contract) = made else { return Ok(()); };
        prop_assert!(contract.tools().is_subset(&ids(&listed)));
        prop_assert!(contract.tags().is_subset(&tags_of(&tags)));
        let view = registry.view();
        for name in TOOLS {
            let id = tool("s", name);
            prop_assert_eq!(contract.disclosed(&view, &id).is_some(), contract.discloses(&id));
        }
        let under = asked(under_tools.as_ref(), under_tags.as_ref(), &claims);
        if let Ok(child) = registry.negotiate_under(&contract, &under, now()) {
            prop_assert!(child.tools().is_subset(contract.tools()));
            prop_assert!(child.tags().is_subset(contract.tags()));
            prop_assert!(child.expires() <= contract.expires());
        }
    }

    #[test]
    fn claims_of_any_bytes_change_no_contract(claims in prop::collection::vec(any::<u8>(), 0..256)) {
        let registry = registry_with(&BTreeSet::from([0, 1]), &BTreeSet::from([2]));
        let plain = registry.negotiate(&request("worker"), now()).unwrap();
        let claimed = registry.negotiate(&asked(None, None, &claims), now()).unwrap();
        prop_assert_eq!(plain, claimed);
    }

    #[test]
    fn one_changed_byte_in_a_signed_registry_is_a_refusal(place in any::<prop::sample::Index>(), flip in 1u8..=255) {
        let mut bytes = sign(&desk(1));
        let place = place.index(bytes.len());
        bytes[place] ^= flip;
        // A key hint may be wrong, since it need not name a key. Everything else is signed or part of the form.
        if let Ok(registry) = load_with(&bytes, marks()) {
            prop_assert_eq!(registry.current().digest(), load(&desk(1)).current().digest());
        }
    }

    #[test]
    fn reading_any_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = RegistryDraft::from_json(&bytes);
        let _ = load_with(&bytes, marks());
        let _ = load_with(&sign_bytes(&bytes), marks());
    }

    #[test]
    fn matching_path_stays_within_its_root(path in "[a-z./~%\\\\ ]{0,24}") {
        let within = Constraint::path_within(ArgPlace::new("/a").unwrap(), &["/a/b"]).unwrap();
        for path in [path.clone(), format!("/a/b{path}"), format!("/a/b/{path}")] {
            let args = canonical(&json!({ "a": path }));
            if within.fits(args.value()) {
                let mut walked = Vec::new();
                for segment in path.split(['/', '\\']) {
                    match segment.trim() {
                        "" | "." => {}
                        ".." => drop(walked.pop()),
                        other => walked.push(other),
                    }
                }
                prop_assert!(walked.starts_with(&["a", "b"]), "{}", path);
            }
        }
    }

    #[test]
    fn any_text_is_checked_without_a_panic_by_every_constraint(text in any::<String>()) {
        let at = || ArgPlace::new("/a").unwrap();
        let args = canonical(&json!({ "a": text }));
        let _ = Constraint::path_within(at(), &["/a"]).unwrap().fits(args.value());
        let _ = Constraint::url(at(), &["https"], &["a.test"]).unwrap().fits(args.value());
        let _ = Constraint::email_domain(at(), &["a.test"]).unwrap().fits(args.value());
        let _ = Constraint::path_within(at(), &[&text]);
        let _ = Constraint::url(at(), &[&text], &[&text]);
        let _ = Constraint::email_domain(at(), &[&text]);
    }

    #[test]
    fn definition_digest_ignores_spelling(title in any::<Option<String>>(), width in 0usize..4) {
        let mut tool = json!({"name": "t", "inputSchema": {"type": "object", "maxProperties": width}});
        if let Some(title) = title {
            tool["title"] = json!(title);
        }
        let pretty = serde_json::to_string_pretty(&tool).unwrap();
        let respelled = read(pretty.as_bytes(), Recipe::Jcs1, &JsonLimits::default()).unwrap();
        prop_assert_eq!(
            definition_digest(respelled.value()).unwrap(),
            definition_digest(canonical(&tool).value()).unwrap()
        );
    }
}
