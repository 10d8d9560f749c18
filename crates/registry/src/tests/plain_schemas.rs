//! Schemas of the common keywords, beside the evaluator.

use countersign_canonical_json::{Limits, Part, Recipe, read};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::evaluator::Evaluator;
use crate::name_table::NameTable;
use crate::plain_schema::{DRAFTS, PlainSchema};

const NAMES: [&str; 8] =
    ["", "a", "b", "é", "currency", "currencz", "a name of 20 bytes.x", "a name of 20 bytes,x"];

const KINDS: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

const NUMBERS: [f64; 9] = [0.0, 1.0, -1.0, 1.5, 2.0, 3.0, 0.1, 9_007_199_254_740_991.0, 1e300];

const BOUNDS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];

const COUNTS: [&str; 6] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn scalar() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        prop::sample::select(&["", "x", "éé", "three"][..]).prop_map(Value::from),
    ]
    .boxed()
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![(-3_i64..4).prop_map(Value::from), prop::sample::select(&NUMBERS[..]).prop_map(Value::from)]
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![scalar(), number()].prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn kinds() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(&KINDS[..]);
    let several = prop::sample::subsequence(KINDS.to_vec(), 1..=7).prop_map(|kinds| json!(kinds));
    prop_oneof![kind.prop_map(Value::from), several]
}

/// One keyword with its value.
fn keyword(inner: BoxedStrategy<Value>) -> BoxedStrategy<(&'static str, Value)> {
    let properties = prop::collection::btree_map(name(), inner.clone(), 0..6);
    prop_oneof![
        3 => kinds().prop_map(|kinds| ("type", kinds)),
        1 => prop::collection::btree_set(prop::sample::select(&["", "x", "éé"][..]), 1..3).prop_map(|all| ("enum", json!(all))),
        1 => scalar().prop_map(|one| ("const", one)),
        1 => scalar().prop_map(|one| ("enum", json!([one, 2]))),
        2 => (prop::sample::select(&BOUNDS[..]), number()),
        2 => (prop::sample::select(&COUNTS[..]), (0_u64..5).prop_map(Value::from)),
        2 => inner.clone().prop_map(|items| ("items", items)),
        4 => properties.prop_map(|all| ("properties", json!(all))),
        2 => prop::collection::btree_set(name(), 0..3).prop_map(|names| ("required", json!(names))),
        2 => inner.prop_map(|schema| ("additionalProperties", schema)),
        1 => Just(("description", json!("text"))),
    ]
    .boxed()
}

fn schema() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        kinds().prop_map(|kinds| json!({ "type": kinds })),
        Just(json!({}))
    ];
    let schemas = leaf.prop_recursive(3, 32, 6, |inner| {
        prop::collection::vec(keyword(inner.boxed()), 1..5).prop_map(|keywords| {
            let mut schema: Map<String, Value> = Map::new();
            for (keyword, value) in keywords {
                // `const` and `enum` together have no plain form.
                if !(["const", "enum"].contains(&keyword)
                    && (schema.contains_key("const") || schema.contains_key("enum")))
                {
                    schema.insert(keyword.to_owned(), value);
                }
            }
            Value::Object(schema)
        })
    });
    schemas.boxed()
}

/// Returns what both decide on a value.
fn decisions(schema: &Value, value: &Value, draft: &str) -> (bool, bool) {
    let mut schema = schema.clone();
    if let Some(members) = schema.as_object_mut() {
        members.insert("$schema".to_owned(), draft.into());
    }
    let evaluator = Evaluator::compile(&schema).unwrap();
    let plain = PlainSchema::compile(&schema).unwrap_or_else(|| panic!("no plain form: {schema}"));
    let value = read(value.to_string().as_bytes(), Recipe::Rfc8785, &Limits::default()).unwrap();
    (plain.fits(value.value()), evaluator.is_valid(value.value()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn plain_form_agrees_with_the_evaluator(
        schema in schema(),
        values in prop::collection::vec(value(), 4),
        draft in prop::sample::select(&DRAFTS[..]),
    ) {
        for value in values {
            let (plain, evaluator) = decisions(&schema, &value, draft);
            prop_assert_eq!(plain, evaluator, "{} {}", schema, value);
        }
    }

    #[test]
    fn name_table_finds_its_names_alone(
        known in prop::collection::btree_set("[a-cé]{0,20}", 0..40),
        others in prop::collection::vec("[a-cé]{0,20}", 0..40),
    ) {
        let table = NameTable::new(known.iter().map(|name| (name.clone(), name.clone())).collect());
        for name in known.iter().chain(&others) {
            let text = read(json!(name).to_string().as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap();
            let mut parts = text.value().parts();
            let Some(Part::String(place)) = parts.next() else { panic!("not a string: {name}") };
            prop_assert_eq!(table.get(&parts, place), known.get(name));
        }
    }
}

#[test]
fn whole_double_is_an_integer() {
    for (number, expected) in
        NUMBERS.into_iter().zip([true, true, true, false, true, true, false, true, true])
    {
        let found = decisions(&json!({"type": "integer"}), &json!(number), DRAFTS[0]);
        assert_eq!(found, (expected, expected), "{number}");
    }
}

#[test]
fn length_counts_characters() {
    for (text, expected) in [("", false), ("é", false), ("éé", true), ("🙂🙂🙂", true), ("🙂🙂🙂🙂", false)]
    {
        let found = decisions(&json!({"minLength": 2, "maxLength": 3}), &json!(text), DRAFTS[0]);
        assert_eq!(found, (expected, expected), "{text}");
    }
}

#[test]
fn other_keywords_have_no_plain_form() {
    let schemas = [
        json!({"pattern": "a"}),
        json!({"format": "uri"}),
        json!({"$ref": "#"}),
        json!({"$id": "https://example.com/s"}),
        json!({"anyOf": [true]}),
        json!({"properties": {"a": {"not": {}}}}),
        json!({"items": {"$schema": "https://json-schema.org/draft/2020-12/schema"}}),
        json!({"prefixItems": [true], "items": false}),
        json!({"items": [true]}),
        json!({"patternProperties": {}}),
        json!({"enum": [[1]]}),
        json!({"enum": [0.1]}),
        json!({"const": 1, "enum": [1]}),
        json!({"maximum": 9_007_199_254_740_993_u64}),
        json!({"maxLength": 3.0}),
    ];
    for schema in schemas {
        assert!(PlainSchema::compile(&schema).is_none(), "{schema}");
    }
}

#[test]
fn draft_4_has_no_plain_form() {
    assert!(
        PlainSchema::compile(
            &json!({"type": "integer", "$schema": "http://json-schema.org/draft-04/schema#"})
        )
        .is_none()
    );
    assert!(PlainSchema::compile(&json!({"type": "integer", "$schema": DRAFTS[2]})).is_some());
}

#[test]
fn common_schema_has_a_plain_form() {
    let row = json!({"type": "object", "additionalProperties": false, "properties": {
        "name": {"type": "string", "maxLength": 64}, "kind": {"enum": ["visit", "call"]}, "weight": {"type": "number", "minimum": 0},
        "refs": {"type": "array", "items": {"type": ["number", "null"]}},
    }});
    let schema = json!({"type": "object", "properties": {"rows": {"type": "array", "items": row}}});
    let value = json!({"rows": [{"name": "lamp", "kind": "visit", "weight": 1.5, "refs": [1, null]}]});
    assert_eq!(decisions(&schema, &value, DRAFTS[0]), (true, true));
    assert!(crate::schema::ArgsSchema::compile(schema).unwrap().is_plain());
}
