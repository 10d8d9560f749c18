//! The common part of JSON Schema, checked in one walk over the arguments.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use countersign_canonical_json::{Kind, ValueRef};
use serde_json::{Map, Number, Value};

use crate::name_table::NameTable;

/// Up to this magnitude every integer is a double.
const EXACT_INTEGERS: f64 = 9_007_199_254_740_992.0;

/// Drafts under which the keywords mean the same. why: earlier ones tell `1.0` from an integer.
pub(crate) const DRAFTS: [&str; 6] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-06/schema#",
];

/// Keywords without effect on whether a value matches.
const ANNOTATIONS: [&str; 8] =
    ["title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"];

/// Schema that uses no keywords but those that most tools use.
///
/// It agrees with the evaluator on every value, and only decides: the evaluator names the place and the keyword of a
/// mismatch. A schema with any other keyword has no such form.
#[derive(Clone, Debug)]
pub(crate) struct PlainSchema {
    types: u8,
    allowed: Option<Vec<AllowedValue>>,
    number: NumberRule,
    /// Length in characters, if it is limited.
    text: Option<RangeInclusive<usize>>,
    array: ArrayRule,
    object: Option<Box<ObjectRule>>,
}

/// Constant of a schema.
#[derive(Clone, Debug)]
enum AllowedValue {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
}

#[derive(Clone, Debug)]
struct NumberRule {
    at_least: f64,
    at_most: f64,
    above: f64,
    below: f64,
}

#[derive(Clone, Debug)]
struct ArrayRule {
    count: RangeInclusive<usize>,
    items: Option<Box<PlainSchema>>,
}

#[derive(Clone, Debug)]
struct ObjectRule {
    count: RangeInclusive<usize>,
    names: NameTable<MemberRule>,
    required: usize,
    /// For members without a schema of their own. `None` allows anything.
    additional: Option<PlainSchema>,
}

#[derive(Clone, Debug, Default)]
struct MemberRule {
    required: bool,
    schema: Option<PlainSchema>,
}

const NULL: u8 = 1;
const BOOL: u8 = 2;
const INTEGER: u8 = 4;
const NUMBER: u8 = 8;
const STRING: u8 = 16;
const ARRAY: u8 = 32;
const OBJECT: u8 = 64;
const ANY: u8 = 127;

const ANY_LENGTH: RangeInclusive<usize> = 0..=usize::MAX;

impl PlainSchema {
    /// Compiles a schema. `None` if it uses another keyword or draft.
    pub(crate) fn compile(schema: &Value) -> Option<Self> {
        let draft = schema.get("$schema").map(Value::as_str);
        let is_known = draft.is_none_or(|draft| draft.is_some_and(|draft| DRAFTS.contains(&draft)));
        is_known.then(|| Self::compile_part(schema, true)).flatten()
    }

    /// Recursion is safe: the levels of the schema were checked.
    fn compile_part(schema: &Value, top: bool) -> Option<Self> {
        let members = match schema {
            Value::Bool(allowed) => return Some(Self::of_types(if *allowed { ANY } else { 0 })),
            Value::Object(members) => members,
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => return None,
        };
        let mut plain = Self::of_types(ANY);
        let mut for_object = false;
        for (keyword, value) in members {
            match keyword.as_str() {
                "type" => plain.types = types(value)?,
                "const" if plain.allowed.is_none() => plain.allowed = Some(vec![allowed_value(value)?]),
                "enum" if plain.allowed.is_none() => {
                    plain.allowed = Some(value.as_array()?.iter().map(allowed_value).collect::<Option<_>>()?);
                }
                "minimum" => plain.number.at_least = bound(value)?,
                "maximum" => plain.number.at_most = bound(value)?,
                "exclusiveMinimum" => plain.number.above = bound(value)?,
                "exclusiveMaximum" => plain.number.below = bound(value)?,
                "items" => plain.array.items = Some(Box::new(Self::compile_part(value, false)?)),
                "properties" | "required" | "additionalProperties" | "minProperties" | "maxProperties" => {
                    for_object = true;
                }
                "minLength" | "maxLength" | "minItems" | "maxItems" => {}
                "$schema" if top => {}
                annotation if ANNOTATIONS.contains(&annotation) => {}
                _ => return None,
            }
        }
        let text = range(members, "minLength", "maxLength")?;
        plain.text = Some(text).filter(|text| *text != ANY_LENGTH);
        plain.array.count = range(members, "minItems", "maxItems")?;
        if for_object {
            plain.object = Some(Box::new(ObjectRule::compile(members)?));
        }
        Some(plain)
    }

    const fn of_types(types: u8) -> Self {
        let (least, most) = (f64::NEG_INFINITY, f64::INFINITY);
        Self {
            types,
            allowed: None,
            number: NumberRule { at_least: least, at_most: most, above: least, below: most },
            text: None,
            array: ArrayRule { count: ANY_LENGTH, items: None },
            object: None,
        }
    }

    /// Returns whether a value matches.
    #[inline(always)]
    pub(crate) fn fits(&self, value: ValueRef<'_>) -> bool {
        let fits = match value.kind() {
            Kind::Object | Kind::Array => self.fits_container(value),
            Kind::String => self.allows(STRING) && self.fits_text(value),
            Kind::Number => self.fits_number(value.as_f64().unwrap_or_default()),
            Kind::Bool => self.allows(BOOL),
            Kind::Null => self.allows(NULL),
            _ => false,
        };
        fits && self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|one| one.is(value)))
    }

    /// Recursion is safe: the reader limits the depth of arguments.
    #[inline(never)]
    fn fits_container(&self, value: ValueRef<'_>) -> bool {
        if value.kind() == Kind::Array {
            self.allows(ARRAY) && self.array.fits(value)
        } else {
            self.allows(OBJECT) && self.object.as_ref().is_none_or(|rule| rule.fits(value))
        }
    }

    const fn allows(&self, kind: u8) -> bool {
        self.types & kind != 0
    }

    fn fits_number(&self, value: f64) -> bool {
        let rule = &self.number;
        (self.allows(NUMBER) || (self.allows(INTEGER) && is_whole(value)))
            && value >= rule.at_least
            && value <= rule.at_most
            && value > rule.above
            && value < rule.below
    }

    fn fits_text(&self, value: ValueRef<'_>) -> bool {
        let Some(length) = &self.text else { return true };
        let text = value.as_str().unwrap_or_default();
        // A character has one to four bytes.
        (text.len() <= *length.end() && *length.start() <= text.len() / 4)
            || length.contains(&text.chars().count())
    }
}

impl AllowedValue {
    fn is(&self, value: ValueRef<'_>) -> bool {
        match self {
            Self::Null => value.kind() == Kind::Null,
            Self::Bool(allowed) => value.as_bool() == Some(*allowed),
            #[expect(clippy::float_cmp, reason = "a constant is equal or it is not")]
            Self::Number(allowed) => value.as_f64().is_some_and(|value| value == *allowed),
            Self::Text(allowed) => value.as_str() == Some(allowed),
        }
    }
}

impl ArrayRule {
    fn fits(&self, value: ValueRef<'_>) -> bool {
        self.count.contains(&value.len())
            && self.items.as_ref().is_none_or(|items| value.elements().all(|element| items.fits(element)))
    }
}

impl ObjectRule {
    fn compile(schema: &Map<String, Value>) -> Option<Self> {
        let mut rules: BTreeMap<String, MemberRule> = BTreeMap::new();
        if let Some(properties) = schema.get("properties") {
            for (name, schema) in properties.as_object()? {
                rules.entry(name.clone()).or_default().schema =
                    Some(PlainSchema::compile_part(schema, false)?);
            }
        }
        if let Some(required) = schema.get("required") {
            for name in required.as_array()? {
                rules.entry(name.as_str()?.to_owned()).or_default().required = true;
            }
        }
        let additional = match schema.get("additionalProperties") {
            None | Some(Value::Bool(true)) => None,
            Some(additional) => Some(PlainSchema::compile_part(additional, false)?),
        };
        Some(Self {
            count: range(schema, "minProperties", "maxProperties")?,
            required: rules.values().filter(|rule| rule.required).count(),
            names: NameTable::new(rules),
            additional,
        })
    }

    fn fits(&self, value: ValueRef<'_>) -> bool {
        let members = value.members();
        let mut missing = self.required;
        if !self.count.contains(&members.len()) || members.len() < missing {
            return false;
        }
        for (name, value) in members {
            let rule = self.names.get(name);
            missing = missing.wrapping_sub(usize::from(rule.is_some_and(|rule| rule.required)));
            let schema = rule.and_then(|rule| rule.schema.as_ref()).or(self.additional.as_ref());
            if schema.is_some_and(|schema| !schema.fits(value)) {
                return false;
            }
        }
        missing == 0
    }
}

fn types(value: &Value) -> Option<u8> {
    let one = |name: &Value| {
        Some(match name.as_str()? {
            "null" => NULL,
            "boolean" => BOOL,
            "integer" => INTEGER,
            "number" => NUMBER,
            "string" => STRING,
            "array" => ARRAY,
            "object" => OBJECT,
            _ => return None,
        })
    };
    if let Value::Array(names) = value {
        return names.iter().try_fold(0, |types, name| Some(types | one(name)?));
    }
    one(value)
}

/// A scalar constant, without numbers that are not integers.
fn allowed_value(value: &Value) -> Option<AllowedValue> {
    Some(match value {
        Value::Null => AllowedValue::Null,
        Value::Bool(value) => AllowedValue::Bool(*value),
        Value::Number(number) if !number.is_f64() => AllowedValue::Number(exact(number)?),
        Value::String(text) => AllowedValue::Text(text.clone()),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => return None,
    })
}

fn bound(value: &Value) -> Option<f64> {
    if let Value::Number(number) = value { exact(number) } else { None }
}

/// A number that is exact as a double.
fn exact(number: &Number) -> Option<f64> {
    number.as_f64().filter(|value| number.is_f64() || value.abs() < EXACT_INTEGERS)
}

fn range(schema: &Map<String, Value>, least: &str, most: &str) -> Option<RangeInclusive<usize>> {
    let bound = |keyword, default: usize| match schema.get(keyword) {
        None => Some(default),
        Some(value) => value.as_u64().and_then(|value| usize::try_from(value).ok()),
    };
    Some(bound(least, 0)?..=bound(most, usize::MAX)?)
}

fn is_whole(value: f64) -> bool {
    #[expect(clippy::cast_possible_truncation, reason = "saturates, and only whole numbers come back")]
    let whole = value as i64;
    #[expect(clippy::float_cmp, clippy::cast_precision_loss, reason = "a double is whole or it is not")]
    let same = whole as f64 == value;
    same || value.abs() >= EXACT_INTEGERS
}
