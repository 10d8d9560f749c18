//! Adapter that lets the JSON Schema evaluator read the parsed arguments in place, without a copy.

use std::borrow::Cow;
use std::collections::HashSet;

use countersign_canonical_json::{Elements, Kind, Members, ValueRef};
use jsonschema::JsonType;
use jsonschema::json::{Array, Json, JsonNumber, Node, NodeIdentity, Object, cmp};
use serde::Deserialize as _;
use serde_json::{Number, Value};

/// JSON represented by [`ValueRef`].
pub(crate) struct ArgsJson;

/// Value of the arguments, or a member name checked as a string.
#[derive(Clone, Copy)]
pub(crate) enum ArgsNode<'a> {
    Value(ValueRef<'a>),
    Name(&'a str),
}

/// Number, object or array of the arguments.
pub(crate) struct ArgsPart<'a>(ValueRef<'a>);

impl Json for ArgsJson {
    type Node<'a> = ArgsNode<'a>;
    type PreparedKey = String;
    type StringBuffer = ();

    fn prepare_key(key: &str) -> String {
        key.to_owned()
    }

    fn with_string_node<T>((): &mut (), string: &str, f: impl FnOnce(ArgsNode<'_>) -> T) -> T {
        f(ArgsNode::Name(string))
    }
}

impl<'a> ArgsNode<'a> {
    fn part(self, kind: Kind) -> Option<ArgsPart<'a>> {
        match self {
            ArgsNode::Value(value) if value.kind() == kind => Some(ArgsPart(value)),
            ArgsNode::Value(_) | ArgsNode::Name(_) => None,
        }
    }
}

impl<'a> Node<'a, ArgsJson> for ArgsNode<'a> {
    type Object = ArgsPart<'a>;
    type Array = ArgsPart<'a>;
    type Number = ArgsPart<'a>;

    fn as_object(&self) -> Option<ArgsPart<'a>> {
        self.part(Kind::Object)
    }

    fn as_array(&self) -> Option<ArgsPart<'a>> {
        self.part(Kind::Array)
    }

    fn as_string(&self) -> Option<Cow<'a, str>> {
        match self {
            ArgsNode::Value(value) => value.as_str().map(Cow::Borrowed),
            ArgsNode::Name(name) => Some(Cow::Borrowed(name)),
        }
    }

    fn as_number(&self) -> Option<ArgsPart<'a>> {
        self.part(Kind::Number)
    }

    fn as_boolean(&self) -> Option<bool> {
        match self {
            ArgsNode::Value(value) => value.as_bool(),
            ArgsNode::Name(_) => None,
        }
    }

    fn is_null(&self) -> bool {
        self.json_type() == JsonType::Null
    }

    fn json_type(&self) -> JsonType {
        let ArgsNode::Value(value) = self else { return JsonType::String };
        match value.kind() {
            Kind::Bool => JsonType::Boolean,
            Kind::Number => JsonType::Number,
            Kind::String => JsonType::String,
            Kind::Array => JsonType::Array,
            Kind::Object => JsonType::Object,
            Kind::Null | _ => JsonType::Null,
        }
    }

    fn equals_value(&self, expected: &Value) -> bool {
        match (self, expected) {
            (ArgsNode::Name(name), expected) => expected.as_str() == Some(name),
            (ArgsNode::Value(value), expected) => equals(*value, expected),
        }
    }

    fn to_value(&self) -> Cow<'a, Value> {
        Cow::Owned(match self {
            ArgsNode::Value(value) => Value::deserialize(*value).unwrap_or_default(),
            ArgsNode::Name(name) => Value::from(*name),
        })
    }

    fn identity(&self) -> Option<NodeIdentity> {
        Some(match self {
            // One check reads one text, so the place alone identifies a value.
            ArgsNode::Value(value) => NodeIdentity::tagged(0, value.place()),
            ArgsNode::Name(name) => NodeIdentity::new(name.as_ptr().addr()),
        })
    }
}

/// Returns whether a value equals a schema's constant, without copying it.
fn equals(value: ValueRef<'_>, expected: &Value) -> bool {
    match expected {
        Value::Null => value.kind() == Kind::Null,
        Value::Bool(expected) => value.as_bool() == Some(*expected),
        Value::Number(expected) => {
            value.kind() == Kind::Number && cmp::equal_numbers(&ArgsPart(value), expected)
        }
        Value::String(expected) => value.as_str() == Some(expected),
        Value::Array(expected) => {
            value.kind() == Kind::Array
                && value.len() == expected.len()
                && value.elements().zip(expected).all(|(value, expected)| equals(value, expected))
        }
        Value::Object(expected) => {
            value.kind() == Kind::Object
                && value.len() == expected.len()
                && value
                    .members()
                    .all(|(name, value)| expected.get(name).is_some_and(|expected| equals(value, expected)))
        }
    }
}

impl JsonNumber for ArgsPart<'_> {
    fn as_u64(&self) -> Option<u64> {
        self.0.as_u64()
    }

    fn as_i64(&self) -> Option<i64> {
        self.0.as_i64()
    }

    fn as_f64(&self) -> Option<f64> {
        self.0.as_f64()
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Owned(self.0.canonical_text())
    }

    fn to_number(&self) -> Cow<'_, Number> {
        let whole = self.0.as_u64().map(Number::from).or_else(|| self.0.as_i64().map(Number::from));
        let number = whole.or_else(|| Number::from_f64(self.0.as_f64()?));
        Cow::Owned(number.unwrap_or_else(|| Number::from(0)))
    }

    fn is_integer(&self) -> bool {
        // why: the default builds a number first.
        self.0.as_f64().is_some_and(|value| value.fract() == 0.0)
    }

    fn is_written_as_integer(&self) -> bool {
        self.0.as_i64().is_some()
    }
}

/// Members of an object, as nodes.
pub(crate) struct MemberNodes<'a>(Members<'a>);

impl<'a> Iterator for MemberNodes<'a> {
    type Item = (&'a str, ArgsNode<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (name, ArgsNode::Value(value)))
    }
}

impl<'a> Object<'a, ArgsJson> for ArgsPart<'a> {
    type Node = ArgsNode<'a>;
    type MemberName = &'a str;
    type MembersIter = MemberNodes<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &String) -> Option<ArgsNode<'a>> {
        self.0.get(key).map(ArgsNode::Value)
    }

    fn members(&self) -> MemberNodes<'a> {
        MemberNodes(self.0.members())
    }
}

/// Elements of an array, as nodes.
pub(crate) struct ElementNodes<'a>(Elements<'a>);

impl<'a> Iterator for ElementNodes<'a> {
    type Item = ArgsNode<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(ArgsNode::Value)
    }
}

impl<'a> Array<'a, ArgsJson> for ArgsPart<'a> {
    type Node = ArgsNode<'a>;
    type ElementsIter = ElementNodes<'a>;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn elements(&self) -> ElementNodes<'a> {
        ElementNodes(self.0.elements())
    }

    fn is_unique(&self) -> bool {
        // Equal values have one canonical text.
        let mut seen = HashSet::new();
        self.0.elements().all(|element| seen.insert(element.canonical_text()))
    }
}
