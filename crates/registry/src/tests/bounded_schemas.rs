//! Recursive schemas, and arguments that make their evaluation expensive.

use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::ImpactClass;
use serde_json::{Value, json};

use super::fixture::*;
use crate::*;

/// Deepest arguments that a gate reads.
const LEVELS: usize = 32;

fn entry(schema: &Value) -> Result<ToolEntry, ContentError> {
    ToolEntry::builder(&tool("s", "t"), ImpactClass::Read, ApprovalRule::NotRequired, schema.clone()).build()
}

fn rules(schema: &Value) -> ToolRules {
    ToolRules::new(entry(schema).unwrap())
}

/// Returns the schema of a filter language, as search tools have them.
fn filter() -> Value {
    let one = |name: &str, of: Value| json!({"required": [name], "properties": {name: of}, "additionalProperties": false});
    let list = json!({"type": "array", "items": {"$ref": "#"}});
    json!({"oneOf": [
        one("and", list.clone()), one("or", list), one("not", json!({"$ref": "#"})), one("eq", json!({"type": "number"})),
    ]})
}

/// Returns a schema with two equal branches that lead back for the same member, under this keyword.
fn twice(keyword: &str) -> Value {
    let way = json!({"properties": {"not": {"$ref": "#"}, "eq": {"type": "number"}}});
    json!({keyword: [way.clone(), way]})
}

fn deepest(name: &str, leaf: &Value) -> Canonical {
    let around = |inner: Value, _| match name {
        "and" => json!({"and": [inner]}),
        name => json!({name: inner}),
    };
    let levels = if name == "and" { LEVELS / 2 - 1 } else { LEVELS - 1 };
    let args = (0..levels).fold(json!({ "eq": leaf }), around);
    read(args.to_string().as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap()
}

#[test]
fn a_schema_that_leads_back_is_checked_to_the_deepest_level() {
    for (schema, name) in
        [(filter(), "not"), (filter(), "and"), (twice("anyOf"), "not"), (twice("allOf"), "not")]
    {
        let rules = rules(&schema);
        assert_eq!(rules.check_args(&deepest(name, &json!(1))), Ok(()), "{name} {schema}");
        let error = rules.check_args(&deepest(name, &json!("x"))).unwrap_err();
        assert_eq!((error.code(), error.place(), error.rule()), ("ARGS_SCHEMA", "", ""), "{name} {schema}");
        assert_eq!(error.to_string(), "the arguments do not fit the schema");
    }
}

#[test]
fn another_spelling_of_a_uri_hides_no_way_back() {
    for (id, reference) in [
        ("urn:x", "URN:x"),
        ("http://example.com", "http://EXAMPLE.com"),
        ("http://example.com", "http://example.com:"),
        ("http://example.com/a", "HTTP://example.com/a"),
    ] {
        let way = json!({"properties": {"not": {"$ref": reference}, "eq": {"type": "number"}}});
        let schema = json!({"$id": id, "oneOf": [way.clone(), way]});
        // Under a recursive schema the error names no place.
        let error = rules(&schema).check_args(&deepest("not", &json!("x"))).unwrap_err();
        assert_eq!((error.code(), error.place()), ("ARGS_SCHEMA", ""), "{id} {reference}");
    }
}

#[test]
fn doubling_by_another_spelling_of_a_uri_is_refused() {
    let definition = |n: usize| {
        let next = json!({ "$ref": format!("URN:d{}", n + 1) });
        (format!("d{n}"), json!({"$id": format!("urn:d{n}"), "anyOf": [next.clone(), next]}))
    };
    let mut definitions: serde_json::Map<_, _> = (0..40).map(definition).collect();
    definitions.insert("d40".to_owned(), json!({"$id": "urn:d40", "type": "object"}));
    let error = entry(&json!({"$ref": "urn:d0", "$defs": definitions})).unwrap_err();
    assert_eq!(error.code(), "REGISTRY_SCHEMA_TOO_LARGE");
}

#[test]
fn errors_that_copy_the_schema_are_not_asked_for() {
    let any: Vec<_> = (0..4_500).map(|_| json!({"$ref": "#/$defs/n"})).collect();
    let not = json!({"not": {"description": "x".repeat(120_000)}});
    let error =
        rules(&json!({"$defs": {"n": not}, "anyOf": any})).check_args(&canonical(&json!({}))).unwrap_err();
    assert_eq!((error.code(), error.rule()), ("ARGS_SCHEMA", ""));
}

#[test]
fn many_values_under_a_large_schema_that_leads_back_are_refused() {
    let any: Vec<_> = (0..200).map(|n| json!({"properties": {format!("p{n}"): {"$ref": "#"}}})).collect();
    let rules = rules(&json!({"anyOf": any}));
    assert_eq!(rules.check_args(&canonical(&json!({"x": [1, 2]}))), Ok(()));
    let error = rules.check_args(&canonical(&json!({"x": vec![json!([]); 20_000]}))).unwrap_err();
    assert_eq!(error.code(), "ARGS_SCHEMA");
}

#[test]
fn one_of_with_a_reference_twice_is_checked_to_the_end() {
    // The branches are equal, so both match or neither does: never exactly one.
    let rules = rules(&twice("oneOf"));
    assert!(rules.check_args(&deepest("not", &json!(1))).is_err());
    assert!(rules.check_args(&deepest("not", &json!("x"))).is_err());
}

#[test]
fn planned_call_under_a_circle_fits_where_a_value_does() {
    let open = |levels: usize| [ArgPlace::new(&format!("{}/eq", "/not".repeat(levels))).unwrap()];
    for schema in [filter(), twice("anyOf"), twice("allOf")] {
        let rules = rules(&schema);
        let planned = deepest("not", &json!("<DYNAMIC>"));
        assert_eq!(rules.check_planned_args(&planned, &open(LEVELS - 1)), Ok(()), "{schema}");
        let error = rules.check_planned_args(&planned, &open(LEVELS - 2)).unwrap_err();
        assert_eq!((error.code(), error.rule()), ("ARGS_SCHEMA", ""), "another place is open: {schema}");
    }
    // The schema itself has values that fit.
    let rules = rules(&json!({"properties": {"not": {"$ref": "#"}, "eq": {"enum": ["north", "south"]}}}));
    assert_eq!(rules.check_planned_args(&deepest("not", &json!("<DYNAMIC>")), &open(LEVELS - 1)), Ok(()));
}

#[test]
fn undecidable_planned_call_is_refused() {
    let schema =
        json!({"properties": {"not": {"$ref": "#"}, "eq": {"type": "string", "pattern": "^T-[0-9]+$"}}});
    let planned = canonical(&json!({"eq": "<DYNAMIC>"}));
    let error = rules(&schema).check_planned_args(&planned, &[ArgPlace::new("/eq").unwrap()]).unwrap_err();
    assert_eq!((error.code(), error.place(), error.rule()), ("ARGS_SCHEMA", "", ""));
}

#[test]
fn a_reference_back_to_the_same_value_ends() {
    for keyword in ["anyOf", "allOf", "oneOf"] {
        let rules = rules(&json!({keyword: [{"$ref": "#"}, {"$ref": "#"}]}));
        let _ = rules.check_args(&canonical(&json!({"a": 1})));
        let _ = rules.check_planned_args(&canonical(&json!({"a": 1})), &[ArgPlace::new("/a").unwrap()]);
    }
}

#[test]
fn schemas_that_all_lead_back_to_one_value_are_refused() {
    let any: Vec<_> = (0..12).map(|n| json!({ "$ref": format!("#/$defs/d{n}") })).collect();
    let definitions: serde_json::Map<_, _> =
        (0..12).map(|n| (format!("d{n}"), json!({"type": "object", "anyOf": any}))).collect();
    let error = entry(&json!({"$ref": "#/$defs/d0", "$defs": definitions})).unwrap_err();
    assert_eq!(error.code(), "REGISTRY_SCHEMA_TOO_LARGE");
}

#[test]
fn doubling_that_begins_below_the_first_level_is_refused() {
    // From the top, each part leads one step down to `d0`, and its other references lead back to a part being measured.
    // At the last level of the arguments, `d0` leads to `d1` twice, `d1` to `d2` twice, and so on.
    let definition = |n: usize| {
        let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
        let before = json!({ "$ref": format!("#/$defs/d{}", n.saturating_sub(1)) });
        (format!("d{n}"), json!({"properties": {"x": before}, "anyOf": [next.clone(), next]}))
    };
    let mut definitions: serde_json::Map<_, _> = (0..31).map(definition).collect();
    definitions
        .insert("d31".to_owned(), json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d30"}}}));
    let error = entry(&json!({"$ref": "#/$defs/d31", "$defs": definitions})).unwrap_err();
    assert_eq!(error.code(), "REGISTRY_SCHEMA_TOO_LARGE");
}

#[test]
fn a_deep_schema_that_leads_back_refuses_deep_arguments() {
    let around = |inner, _| json!({ "allOf": [inner] });
    let schema = (0..40).fold(json!({"properties": {"not": {"$ref": "#"}}}), around);
    let rules = rules(&schema);
    assert_eq!(rules.check_args(&canonical(&json!({"not": {"eq": 1}}))), Ok(()));
    assert!(rules.check_args(&deepest("not", &json!(1))).is_err());
}

#[test]
fn the_place_in_large_arguments_is_not_looked_for() {
    let rules = rules(&json!({"type": "object", "properties": {"list": {"items": {"type": "string"}}}}));
    let few = canonical(&json!({"list": ["a", 1]}));
    assert_eq!(rules.check_args(&few).unwrap_err().place(), "/list/1");
    let many = canonical(&json!({ "list": vec![json!(1); 60_000] }));
    let error = rules.check_args(&many).unwrap_err();
    assert_eq!((error.code(), error.place()), ("ARGS_SCHEMA", ""));
}

#[test]
fn values_that_a_schema_states_are_compared_as_numbers_are() {
    let rules = rules(&json!({"properties": {
        "n": {"const": 10.0}, "o": {"const": {"a": [1, "x", null, true]}}, "e": {"enum": [1, "one", -0.5]},
        "u": {"uniqueItems": true}, "m": {"multipleOf": 0.01}, "i": {"type": "integer"}}}));
    let fits = |args: &str| {
        rules.check_args(&read(args.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap()).is_ok()
    };
    for good in [
        r#"{"n":10}"#,
        r#"{"n":1e1}"#,
        r#"{"o":{"a":[1.0,"x",null,true]}}"#,
        r#"{"e":-0.5}"#,
        r#"{"e":"one"}"#,
        r#"{"e":1.0}"#,
        r#"{"u":[1,"1",[1],{"a":1},{"a":2}]}"#,
        r#"{"m":49.99}"#,
        r#"{"i":10.0}"#,
        r#"{"i":1e20}"#,
    ] {
        assert!(fits(good), "{good}");
    }
    for bad in [
        r#"{"n":10.5}"#,
        r#"{"n":"10"}"#,
        r#"{"o":{"a":[1,"x",null]}}"#,
        r#"{"o":{"a":[1,"x",null,true],"b":1}}"#,
        r#"{"o":{"b":[1,"x",null,true]}}"#,
        r#"{"e":0.5}"#,
        r#"{"u":[1,1.0]}"#,
        r#"{"u":[{"a":1,"b":2},{"b":2,"a":1}]}"#,
        r#"{"m":49.999}"#,
        r#"{"i":10.5}"#,
    ] {
        assert!(!fits(bad), "{bad}");
    }
}
