use countersign_core::ImpactClass;
use serde_json::{Value, json};

use super::fixture::*;
use crate::*;

fn entry(schema: &Value) -> Result<ToolEntry, ContentError> {
    ToolEntry::builder(&tool("s", "t"), ImpactClass::Read, ApprovalRule::NotRequired, schema.clone()).build()
}

fn refused(schema: &Value) -> &'static str {
    entry(schema).unwrap_err().code()
}

fn rules(schema: &Value) -> ToolRules {
    ToolRules::new(entry(schema).unwrap())
}

#[test]
fn schema_error_names_place_but_no_value() {
    let rules = rules(&json!({"type": "object", "required": ["to"], "additionalProperties": false,
        "properties": {"to": {"type": "string", "maxLength": 5}, "n": {"type": "integer"}}}));
    let check = |args: Value| match rules.check_args(&canonical(&args)) {
        Ok(()) => ("ok".to_owned(), String::new()),
        Err(error) => {
            assert_eq!(error.code(), "ARGS_SCHEMA");
            assert!(!error.to_string().contains("hunter2"), "{error}");
            (error.place().to_owned(), error.rule().to_owned())
        }
    };
    let at = |place: &str, rule: &str| (place.to_owned(), rule.to_owned());
    assert_eq!(check(json!({"to": "a"})), at("ok", ""));
    assert_eq!(check(json!({"to": "a", "n": 10.0})), at("ok", ""), "10.0 is an integer");
    assert_eq!(check(json!({})), at("", "required"));
    assert_eq!(check(json!({"to": "hunter2"})), at("/to", "maxLength"));
    assert_eq!(check(json!({"to": "a", "n": "hunter2"})), at("/n", "type"));
    assert_eq!(check(json!({"to": "a", "hunter2": 1})), at("", "additionalProperties"));
}

#[test]
fn arguments_must_be_an_object() {
    let rules = rules(&json!({}));
    for args in [json!([]), json!(null), json!("x"), json!(1), json!([{"a": 1}])] {
        let error = rules.check_args(&canonical(&args)).unwrap_err();
        assert_eq!((error.code(), error.place(), error.rule()), ("ARGS_SCHEMA", "", "type"));
    }
    assert_eq!(rules.check_args(&canonical(&json!({"a": 1}))), Ok(()));
}

#[test]
fn place_with_agent_names_is_escaped() {
    let rules = rules(&json!({"additionalProperties": {"type": "string"}}));
    let args = json!({ "a\n\u{202e}b": 1 });
    assert_eq!(rules.check_args(&canonical(&args)).unwrap_err().place(), "/a\\u{a}\\u{202e}b");
    let args = json!({ "\u{e9}".repeat(10_000): 1 });
    assert!(rules.check_args(&canonical(&args)).unwrap_err().place().len() <= 256);
}

#[test]
fn constraint_is_checked_after_the_schema() {
    let registry = load(&desk(1));
    let snapshot = registry.current();
    let rules = snapshot.tool(&tool("mail", "send")).unwrap();
    assert_eq!(rules.check_args(&canonical(&json!({"to": "a@example.com", "body": "x"}))), Ok(()));
    let error = rules.check_args(&canonical(&json!({"to": "eve@evil.test", "body": "x"}))).unwrap_err();
    assert_eq!((error.code(), error.place(), error.rule()), ("ARGS_CONSTRAINT", "/to", "email_domain"));
    assert!(!error.to_string().contains("evil"));
    let error = rules.check_args(&canonical(&json!({"to": "eve@evil.test"}))).unwrap_err();
    assert_eq!(error.code(), "ARGS_SCHEMA");
}

#[test]
fn invalid_schema_does_not_compile() {
    assert_eq!(refused(&json!({"type": "objekt"})), "REGISTRY_SCHEMA");
    assert_eq!(refused(&json!({"minimum": "1"})), "REGISTRY_SCHEMA");
    assert_eq!(refused(&json!({"pattern": "("})), "REGISTRY_SCHEMA");
    for other in [json!(true), json!(null), json!([]), json!("object")] {
        assert_eq!(refused(&other), "REGISTRY_SCHEMA");
    }
}

#[test]
fn reference_out_of_the_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("schema.json");
    std::fs::write(&file, "{}").unwrap();
    for reference in [
        "https://example.com/schema.json",
        "http://127.0.0.1:1/",
        "other.json",
        "/other.json",
        "#/$defs/nothing",
        &format!("file://{}", file.display()),
    ] {
        assert_eq!(refused(&json!({ "$ref": reference })), "REGISTRY_SCHEMA_REFERENCE", "{reference}");
        let nested = json!({"properties": {"a": {"items": {"$ref": reference}}}});
        assert_eq!(refused(&nested), "REGISTRY_SCHEMA_REFERENCE", "{reference}");
    }
    for dialect in ["https://example.com/meta", "", "countersign"] {
        let code = refused(&json!({"$schema": dialect, "type": "object"}));
        assert!(["REGISTRY_SCHEMA_REFERENCE", "REGISTRY_SCHEMA"].contains(&code), "{dialect} {code}");
    }
}

#[test]
fn a_reference_within_the_schema_is_followed_even_in_circles() {
    let tree =
        rules(&json!({"$defs": {"tree": {"type": "object", "properties": {"next": {"$ref": "#/$defs/tree"}},
        "additionalProperties": false}}, "$ref": "#/$defs/tree"}));
    assert_eq!(tree.check_args(&canonical(&json!({"next": {"next": {}}}))), Ok(()));
    assert!(tree.check_args(&canonical(&json!({"next": {"next": {"x": 1}}}))).is_err());
    for circle in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}]}),
    ] {
        assert!(rules(&circle).check_args(&canonical(&json!({"a": 1}))).is_ok());
    }
}

#[test]
fn older_drafts_are_read_when_the_schema_names_them() {
    let draft_7 = rules(&json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties":
        {"a": {"items": [{"type": "string"}]}}}));
    assert!(draft_7.check_args(&canonical(&json!({"a": [1]}))).is_err());
}

#[test]
fn a_pattern_runs_in_linear_time_or_does_not_compile() {
    assert_eq!(refused(&json!({"properties": {"a": {"pattern": "(?=x)x"}}})), "REGISTRY_SCHEMA");
    assert_eq!(refused(&json!({"properties": {"a": {"pattern": "(x)\\1"}}})), "REGISTRY_SCHEMA");
    assert_eq!(refused(&json!({"pattern": "((a{100}){100}){100}"})), "REGISTRY_SCHEMA");
    let long = "a".repeat(1_025);
    assert_eq!(refused(&json!({"properties": {"a": {"pattern": long}}})), "REGISTRY_SCHEMA_PATTERN");
    assert_eq!(refused(&json!({"allOf": [{"patternProperties": {long: {}}}]})), "REGISTRY_SCHEMA_PATTERN");
    // A backtracking engine takes exponential time on this pattern.
    let evil = rules(&json!({"properties": {"a": {"pattern": "^(a+)+$"}}}));
    let args = canonical(&json!({ "a": format!("{}!", "a".repeat(60_000)) }));
    assert_eq!(evil.check_args(&args).unwrap_err().rule(), "pattern");
}

#[test]
fn a_known_format_is_checked() {
    let rules = rules(&json!({"properties": {"day": {"format": "date"}, "n": {"format": "int64"}}}));
    assert!(rules.check_args(&canonical(&json!({"day": "2026-01-31", "n": 1}))).is_ok());
    assert_eq!(rules.check_args(&canonical(&json!({"day": "soon"}))).unwrap_err().rule(), "format");
}

/// Returns a schema in which `d0` refers to `d1` and so on, each as `link` returns it. The last one is plain.
fn chain(count: usize, link: impl Fn(Value) -> Value) -> Value {
    let mut definitions = serde_json::Map::new();
    for n in 0..count {
        definitions
            .insert(format!("d{n}"), link(json!({ "$ref": format!("#/$defs/d{}", n.saturating_add(1)) })));
    }
    definitions.insert(format!("d{count}"), json!({"type": "object"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

#[test]
fn exponential_references_are_refused() {
    assert!(entry(&chain(127, |next| next)).is_ok());
    for count in [128, 200, 2_000, 5_000] {
        assert_eq!(refused(&chain(count, |next| next)), "REGISTRY_SCHEMA_TOO_LARGE", "{count}");
    }
    let through_nots = |next| (0..58).fold(next, |inner, _| json!({ "not": inner }));
    assert!(entry(&chain(3, through_nots)).is_ok());
    assert_eq!(refused(&chain(7, through_nots)), "REGISTRY_SCHEMA_TOO_LARGE");
}

#[test]
fn a_schema_that_doubles_with_every_reference_is_refused() {
    let twice = |next: Value| json!({"allOf": [next.clone(), next]});
    assert!(entry(&chain(10, twice)).is_ok());
    assert_eq!(refused(&chain(20, twice)), "REGISTRY_SCHEMA_TOO_LARGE");
    assert_eq!(refused(&chain(40, twice)), "REGISTRY_SCHEMA_TOO_LARGE");
    // A circle of such references is refused as well.
    let mut circle = chain(20, twice);
    circle["$defs"]["d20"] = json!({"$ref": "#/$defs/d0"});
    assert_eq!(refused(&circle), "REGISTRY_SCHEMA_TOO_LARGE");
    // So is the chain under any other spelling of a reference.
    let spelled = |from: &str, to: &str| {
        let text = chain(20, twice).to_string().replace(from, to);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    assert_eq!(refused(&spelled("#/$defs/", "#/%24defs/")), "REGISTRY_SCHEMA_TOO_LARGE");
    assert_eq!(refused(&spelled("#/$defs/", "#/%24de%66s/")), "REGISTRY_SCHEMA_TOO_LARGE");
    // The member `x~/y`, escaped in the pointers.
    let odd = spelled("$defs", "x~/y").to_string().replace("#/x~/y/", "#/x~0~1y/");
    assert_eq!(refused(&serde_json::from_str(&odd).unwrap()), "REGISTRY_SCHEMA_TOO_LARGE");
    for keyword in ["$anchor", "$dynamicAnchor", "$id"] {
        let mut named = chain(20, twice);
        for (name, definition) in named["$defs"].as_object_mut().unwrap() {
            definition[keyword] = json!(name);
        }
        let reference = if keyword == "$id" { "" } else { "#" };
        let text = named.to_string().replace("#/$defs/", reference);
        assert_eq!(refused(&serde_json::from_str(&text).unwrap()), "REGISTRY_SCHEMA_TOO_LARGE", "{keyword}");
        let text = text.replace("$ref", "$dynamicRef");
        assert_eq!(refused(&serde_json::from_str(&text).unwrap()), "REGISTRY_SCHEMA_TOO_LARGE", "{keyword}");
    }
    let mut list = vec![json!({"type": "object"})];
    for n in 0..20 {
        let last = json!({ "$ref": format!("#/anyOf/0{n}") });
        list.push(json!({"allOf": [last.clone(), last]}));
    }
    assert_eq!(refused(&json!({ "anyOf": list })), "REGISTRY_SCHEMA_TOO_LARGE");
}

#[test]
fn a_schema_of_more_than_256_kib_is_refused() {
    let of = |bytes: usize| json!({ "description": "x".repeat(bytes) });
    let frame = of(0).to_string().len();
    assert!(entry(&of((256 << 10) - frame)).is_ok());
    assert_eq!(refused(&of((256 << 10) - frame + 1)), "REGISTRY_SCHEMA_TOO_LARGE");
}

#[test]
fn schema_of_many_lists_is_refused_early() {
    let wide = |count: usize| json!({ "examples": vec![json!([]); count] });
    assert!(entry(&wide(60_000)).is_ok());
    assert_eq!(refused(&wide(4_000_000)), "REGISTRY_SCHEMA_TOO_LARGE");
}

#[test]
fn many_resources_with_references_are_refused() {
    let many: Vec<_> = (0..6_000).map(|n| json!({"$id": format!("{n}"), "$ref": "#"})).collect();
    assert_eq!(refused(&json!({ "anyOf": many })), "REGISTRY_SCHEMA_TOO_LARGE");
}

#[test]
fn types_that_refer_to_one_another_still_load() {
    let names: Vec<_> = (0..12).map(|n| format!("t{n}")).collect();
    let any: Vec<_> = names.iter().map(|name| json!({ "$ref": format!("#/$defs/{name}") })).collect();
    let mut definitions = serde_json::Map::new();
    for name in &names {
        definitions.insert(
            name.clone(),
            json!({"type": "object", "properties": {"kind": {"const": name},
                "children": {"type": "array", "items": {"$ref": "#/$defs/any"}}}}),
        );
    }
    definitions.insert("any".to_owned(), json!({ "anyOf": any }));
    let rules = rules(&json!({"$ref": "#/$defs/any", "$defs": definitions}));
    let args = json!({"kind": "t1", "children": [{"kind": "t2", "children": [{"kind": "t3"}]}]});
    assert!(rules.check_args(&canonical(&args)).is_ok());
    let args = json!({"kind": "t1", "children": [{"kind": "t2", "children": [{"kind": "no"}]}]});
    assert!(rules.check_args(&canonical(&args)).is_err());
}

/// Returns the error of a planned call with these arguments and `open` places.
fn planned(schema: &Value, args: &Value, open: &[&str]) -> String {
    let open: Vec<_> = open.iter().map(|place| ArgPlace::new(place).unwrap()).collect();
    match rules(schema).check_planned_args(&canonical(args), &open) {
        Ok(()) => "fits".to_owned(),
        Err(error) => format!("{} {}", error.place(), error.rule()),
    }
}

#[test]
fn only_open_places_go_unchecked() {
    let schema = json!({"type": "object", "required": ["n", "to"], "additionalProperties": false,
        "properties": {"n": {"type": "integer"}, "to": {"type": "string", "maxLength": 5},
                       "deep": {"type": "object", "properties": {"n": {"type": "integer"}}}}});
    assert_eq!(planned(&schema, &json!({"n": "?", "to": "a"}), &["/n"]), "fits");
    assert_eq!(planned(&schema, &json!({"n": {"x": ["?"]}, "to": "a"}), &["/n"]), "fits");
    assert_eq!(planned(&schema, &json!({"n": "?", "to": "a"}), &[]), "/n type");
    assert_eq!(planned(&schema, &json!({"n": "?", "to": "abcdef"}), &["/n"]), "/to maxLength");
    assert_eq!(planned(&schema, &json!({"n": "?", "to": 1}), &["/n"]), "/to type");
    assert_eq!(planned(&schema, &json!({"n": "?"}), &["/n"]), " required");
    assert_eq!(planned(&schema, &json!({"n": "?", "to": "a", "cc": "b"}), &["/n"]), " additionalProperties");
    assert_eq!(planned(&schema, &json!({"n": 1, "to": "a", "deep": {"n": "?"}}), &["/deep/n"]), "fits");
    assert_eq!(planned(&schema, &json!({"n": 1, "to": "a", "deep": "?"}), &["/deep/n"]), "/deep type");
    assert_eq!(
        planned(&schema, &json!({"n": 1, "to": "a", "deep": {"n": "?"}}), &["/deep/nn"]),
        "/deep/n type"
    );
    assert_eq!(planned(&schema, &json!([]), &["/n"]), " type");
}

#[test]
fn dependents_of_an_open_place_are_not_checked() {
    let either = json!({"type": "object", "anyOf": [{"properties": {"n": {"type": "integer"}}, "required": ["x"]},
        {"properties": {"n": {"maximum": 1, "type": "number"}}}]});
    assert_eq!(planned(&either, &json!({"n": "?"}), &["/n"]), "fits");
    assert_eq!(planned(&either, &json!({"n": "?"}), &["/m"]), "fits", "the open place is in the same object");
    assert_eq!(planned(&either, &json!({"n": "?"}), &[]), " anyOf");
    let below = json!({"properties": {"a": {"not": {"required": ["x"]}}, "b": {"type": "object"}}});
    assert_eq!(planned(&below, &json!({"a": {"x": 1}, "b": {"n": "?"}}), &["/b/n"]), "/a not");
    let unique = json!({"properties": {"list": {"uniqueItems": true, "maxItems": 2}}});
    assert_eq!(planned(&unique, &json!({"list": ["?", "?"]}), &["/list/0", "/list/1"]), "fits");
    assert_eq!(planned(&unique, &json!({"list": ["?", 1, 2]}), &["/list/0"]), "/list maxItems");
}
