//! A program built without the feature `schema`. `cargo test -p countersign-registry --no-default-features` runs it.
#![cfg(not(feature = "schema"))]
#![allow(clippy::tests_outside_test_module, reason = "an integration test")]

use countersign_registry::RegistryDraft;

fn draft(schema: &str) -> Result<RegistryDraft, countersign_registry::DraftError> {
    let draft = format!(
        r#"{{"agents": [{{"agent": "bot", "version": 1, "registered_by": "ops", "max_session": "1h",
                         "tools": [{{"server": "desk", "name": "search"}}]}}],
            "tools": [{{"server": "desk", "name": "search", "impact": "read", "approval": "not_required",
                       "args_schema": {schema}}}]}}"#
    );
    RegistryDraft::from_json(draft.as_bytes())
}

#[test]
fn a_schema_of_common_keywords_loads() {
    draft(
        r#"{"type": "object", "properties": {"query": {"type": "string"}}, "additionalProperties": false}"#,
    )
    .unwrap();
}

#[test]
fn a_schema_that_needs_the_evaluator_is_refused() {
    for schema in [
        r#"{"type": "object", "properties": {"query": {"pattern": "^a"}}}"#,
        r#"{"anyOf": [{"type": "object"}, {"type": "null"}]}"#,
        r##"{"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}"##,
        r#"{"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}"#,
        r#"{"type": "objekt"}"#,
    ] {
        assert_eq!(draft(schema).unwrap_err().code(), "REGISTRY_SCHEMA_FEATURE", "{schema}");
    }
}
