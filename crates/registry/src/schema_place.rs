//! The part of a schema about one place in the arguments, as far as names and types lead there.

use serde_json::Value;

use crate::constraint::is_index;
use crate::place::ArgPlace;
use crate::range_rule::{RangeEnd, RangeRule};

/// Returns whether a place may exist in arguments that match a schema. Follows names and types only, and returns
/// `true` where that is not enough.
pub(crate) fn may_exist(place: &ArgPlace, schema: &Value) -> bool {
    let mut schema = schema;
    for token in place.as_str().split('/').skip(1) {
        let Value::Object(keywords) = schema else {
            return schema != &Value::Bool(false);
        };
        let below = match keywords.get("type").and_then(Value::as_str) {
            Some("object") | None => {
                keywords.get("properties").and_then(|properties| properties.get(plain(token)))
            }
            Some("array") if !is_index(token) => return false,
            Some("array") => keywords.get("items"),
            Some(_) => return false,
        };
        let Some(below) = below else {
            let is_closed = keywords.get("additionalProperties") == Some(&Value::Bool(false));
            return !(is_closed
                && keywords.contains_key("type")
                && !keywords.contains_key("patternProperties"));
        };
        schema = below;
    }
    schema != &Value::Bool(false)
}

/// Token of a JSON Pointer without its escapes.
pub(crate) fn plain(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// Returns the schema of a place, if names and types lead there.
pub(crate) fn named<'s>(place: &ArgPlace, schema: &'s Value) -> Option<&'s Value> {
    place.as_str().split('/').skip(1).try_fold(schema, |schema, token| {
        let is_list = schema.get("type").and_then(Value::as_str) == Some("array") && is_index(token);
        if is_list { schema.get("items") } else { schema.get("properties")?.get(plain(token)) }
    })
}

pub(crate) fn is_required(place: &ArgPlace, schema: &Value) -> bool {
    let names = schema.get("required").and_then(Value::as_array);
    let name = place.as_str().strip_prefix('/').filter(|name| !name.contains('/')).map(plain);
    name.zip(names).is_some_and(|(name, names)| names.iter().any(|it| it.as_str() == Some(&name)))
}

pub(crate) fn schema_types(schema: &Value) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => names.iter().map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

pub(crate) fn schema_range(schema: &Value) -> Option<RangeRule> {
    let bound = |names: [&str; 2]| {
        names.iter().find_map(|name| schema.get(name)).and_then(Value::as_f64).map(RangeEnd)
    };
    RangeRule::new(bound(["minimum", "exclusiveMinimum"]), bound(["maximum", "exclusiveMaximum"])).ok()
}

pub(crate) fn may_be_empty_list(schema: &Value) -> bool {
    let is_list = schema_types(schema).is_none_or(|types| types.contains(&"array"));
    let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or_default();
    is_list && least == 0
}

pub(crate) fn has_no_items(schema: &Value) -> bool {
    schema.get("maxItems").and_then(Value::as_u64) == Some(0)
}
