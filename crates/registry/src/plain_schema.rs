//! The common part of JSON Schema, checked in one walk over the arguments.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use countersign_canonical_json::{Part, Parts, ValueRef};
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
    number: Option<NumberRule>,
    text: Option<TextRule>,
    array: ArrayRule,
    object: Option<Box<ObjectRule>>,
}

#[derive(Clone, Debug)]
struct NumberRule {
    at_least: f64,
    at_most: f64,
    above: f64,
    below: f64,
    /// `None` allows any.
    constants: Option<Vec<f64>>,
}

#[derive(Clone, Debug)]
struct TextRule {
    /// In characters.
    length: RangeInclusive<usize>,
    /// `None` allows any.
    constants: Option<Vec<String>>,
}

/// The constants of a schema, which are scalars.
#[derive(Debug, Default)]
struct Constants {
    types: u8,
    numbers: Vec<f64>,
    texts: Vec<String>,
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
const FALSE: u8 = 2;
const TRUE: u8 = 4;
const INTEGER: u8 = 8;
const NUMBER: u8 = 16;
const STRING: u8 = 32;
const ARRAY: u8 = 64;
const OBJECT: u8 = 128;
const ANY: u8 = 255;

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
        let mut constants = None;
        let mut for_number = false;
        let mut for_object = false;
        for (keyword, value) in members {
            match keyword.as_str() {
                "type" => plain.types = types(value)?,
                "const" if constants.is_none() => constants = Some(Constants::of([value])?),
                "enum" if constants.is_none() => constants = Some(Constants::of(value.as_array()?)?),
                "items" => plain.array.items = Some(Box::new(Self::compile_part(value, false)?)),
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => for_number = true,
                "properties" | "required" | "additionalProperties" | "minProperties" | "maxProperties" => {
                    for_object = true;
                }
                "minLength" | "maxLength" | "minItems" | "maxItems" => {}
                "$schema" if top => {}
                annotation if ANNOTATIONS.contains(&annotation) => {}
                _ => return None,
            }
        }
        if let Some(constants) = &constants {
            plain.types &= constants.types;
        }
        let (numbers, texts) = constants.map(|constants| (constants.numbers, constants.texts)).unzip();
        if for_number || numbers.is_some() {
            plain.number = Some(NumberRule::compile(members, numbers)?);
        }
        let length = range(members, "minLength", "maxLength")?;
        if length != ANY_LENGTH || texts.is_some() {
            plain.text = Some(TextRule { length, constants: texts });
        }
        plain.array.count = range(members, "minItems", "maxItems")?;
        if for_object {
            plain.object = Some(Box::new(ObjectRule::compile(members)?));
        }
        Some(plain)
    }

    const fn of_types(types: u8) -> Self {
        let array = ArrayRule { count: ANY_LENGTH, items: None };
        Self { types, number: None, text: None, array, object: None }
    }

    /// Returns whether a value matches.
    pub(crate) fn fits(&self, value: ValueRef<'_>) -> bool {
        self.next_fits(&mut value.parts())
    }

    /// Takes the next value. Returns whether it matches.
    #[inline(always)]
    fn next_fits(&self, parts: &mut Parts<'_>) -> bool {
        match parts.next() {
            Some(Part::String(text)) => {
                self.allows(STRING) && self.text.as_ref().is_none_or(|rule| rule.fits(parts.text(text)))
            }
            Some(Part::Number(value)) => {
                (self.allows(NUMBER) || (self.allows(INTEGER) && is_whole(value)))
                    && self.number.as_ref().is_none_or(|rule| rule.fits(value))
            }
            Some(Part::Bool(value)) => self.allows(if value { TRUE } else { FALSE }),
            Some(Part::Null) => self.allows(NULL),
            Some(Part::Object { members, contents }) => {
                self.allows(OBJECT) && self.members_fit(members, contents, parts)
            }
            Some(Part::Array { elements, contents }) => {
                self.allows(ARRAY) && self.elements_fit(elements, contents, parts)
            }
            _ => false,
        }
    }

    const fn allows(&self, kind: u8) -> bool {
        self.types & kind != 0
    }

    /// Takes the elements of an array. Recursion is safe: the reader limits the depth of arguments.
    #[inline(never)]
    fn elements_fit(&self, elements: usize, contents: usize, parts: &mut Parts<'_>) -> bool {
        if !self.array.count.contains(&elements) {
            return false;
        }
        let Some(items) = &self.array.items else {
            parts.leave_out(contents);
            return true;
        };
        (0..elements).all(|_| items.next_fits(parts))
    }

    /// Takes the members of an object.
    #[inline(never)]
    fn members_fit(&self, members: usize, contents: usize, parts: &mut Parts<'_>) -> bool {
        let Some(rule) = &self.object else {
            parts.leave_out(contents);
            return true;
        };
        let mut missing = rule.required;
        if !rule.count.contains(&members) || members < missing {
            return false;
        }
        for _ in 0..members {
            let Some(Part::Name(name)) = parts.next() else { return false };
            let known = rule.names.get(parts, name);
            missing = missing.wrapping_sub(usize::from(known.is_some_and(|known| known.required)));
            match known.and_then(|known| known.schema.as_ref()).or(rule.additional.as_ref()) {
                Some(schema) if !schema.next_fits(parts) => return false,
                Some(_) => {}
                None => skip_value(parts),
            }
        }
        missing == 0
    }
}

impl NumberRule {
    fn compile(schema: &Map<String, Value>, constants: Option<Vec<f64>>) -> Option<Self> {
        let bound = |keyword, default| match schema.get(keyword) {
            None => Some(default),
            Some(Value::Number(number)) => exact(number),
            Some(_) => None,
        };
        Some(Self {
            at_least: bound("minimum", f64::NEG_INFINITY)?,
            at_most: bound("maximum", f64::INFINITY)?,
            above: bound("exclusiveMinimum", f64::NEG_INFINITY)?,
            below: bound("exclusiveMaximum", f64::INFINITY)?,
            constants,
        })
    }

    #[inline(never)]
    fn fits(&self, value: f64) -> bool {
        value >= self.at_least
            && value <= self.at_most
            && value > self.above
            && value < self.below
            && self.constants.as_ref().is_none_or(|constants| constants.contains(&value))
    }
}

impl TextRule {
    #[inline(never)]
    fn fits(&self, text: &str) -> bool {
        // A character has one to four bytes.
        let bytes = text.len();
        ((bytes <= *self.length.end() && *self.length.start() <= bytes / 4)
            || self.length.contains(&text.chars().count()))
            && self.constants.as_ref().is_none_or(|constants| constants.iter().any(|one| one == text))
    }
}

impl Constants {
    /// `None` for an array, an object, and a number that is not an integer.
    fn of<'a>(values: impl IntoIterator<Item = &'a Value>) -> Option<Self> {
        let mut constants = Self::default();
        for value in values {
            constants.types |= match value {
                Value::Null => NULL,
                Value::Bool(false) => FALSE,
                Value::Bool(true) => TRUE,
                Value::Number(number) if !number.is_f64() => {
                    constants.numbers.push(exact(number)?);
                    NUMBER | INTEGER
                }
                Value::String(text) => {
                    constants.texts.push(text.clone());
                    STRING
                }
                Value::Number(_) | Value::Array(_) | Value::Object(_) => return None,
            };
        }
        Some(constants)
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
}

fn skip_value(parts: &mut Parts<'_>) {
    if let Some(Part::Array { contents, .. } | Part::Object { contents, .. }) = parts.next() {
        parts.leave_out(contents);
    }
}

fn types(value: &Value) -> Option<u8> {
    let one = |name: &Value| {
        Some(match name.as_str()? {
            "null" => NULL,
            "boolean" => FALSE | TRUE,
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
