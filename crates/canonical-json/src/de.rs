use std::fmt;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, Expected, IntoDeserializer as _, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::value::{Elements, Kind, Members, ValueRef};

/// The value does not fit the requested type.
///
/// The message names the expected shape and the offset, never a value or a name from the input. A type can break this
/// with `serde::de::Error::custom`; types that read untrusted text must not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeError {
    what: String,
    offset: Option<usize>,
}

impl DeError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "JSON_UNEXPECTED_SHAPE"
    }

    /// Byte offset in the input of the name of the innermost member that does not fit. `None` outside of objects.
    #[must_use]
    pub const fn offset(&self) -> Option<usize> {
        self.offset
    }

    const fn new(what: String) -> Self {
        Self { what, offset: None }
    }

    /// Adds the offset, unless an inner member has set one.
    fn within(self, offset: Option<usize>) -> Self {
        Self { offset: self.offset.or(offset), ..self }
    }
}

countersign_core::coded!(DeError);

impl fmt::Display for DeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(f, "{} in the member at byte {offset}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for DeError {}

impl Error for DeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("found {}, expected {expected}", kind_of(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("found {} outside of what is allowed, expected {expected}", kind_of(found)))
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> Self {
        Self::new(format!("found {length} entries, expected {expected}"))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("found an unknown variant, expected {}", OneOf(expected)))
    }

    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("found an unknown member, expected {}", OneOf(expected)))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("member `{field}` is missing"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(format!("member `{field}` is there twice"))
    }
}

/// Names the kind of a value, never its contents.
const fn kind_of(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a truth value",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "a whole number",
        Unexpected::Float(_) => "a number that is not whole",
        Unexpected::Char(_) | Unexpected::Str(_) => "a string",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "an array",
        Unexpected::Map => "an object",
        Unexpected::Bytes(_)
        | Unexpected::NewtypeStruct
        | Unexpected::Enum
        | Unexpected::UnitVariant
        | Unexpected::NewtypeVariant
        | Unexpected::TupleVariant
        | Unexpected::StructVariant
        | Unexpected::Other(_) => "another kind of value",
    }
}

struct OneOf(&'static [&'static str]);

impl fmt::Display for OneOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (i, name) in self.0.iter().enumerate() {
            write!(f, "{}`{name}`", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl<'de> ValueRef<'de> {
    fn unexpected(self) -> Unexpected<'de> {
        match self.kind() {
            Kind::Null => Unexpected::Unit,
            Kind::Bool => Unexpected::Bool(self.as_bool().unwrap_or_default()),
            Kind::Number => match self.as_i64() {
                Some(whole) => Unexpected::Signed(whole),
                None => Unexpected::Float(self.as_f64().unwrap_or_default()),
            },
            Kind::String => Unexpected::Str(self.as_str().unwrap_or_default()),
            Kind::Array => Unexpected::Seq,
            Kind::Object => Unexpected::Map,
        }
    }
}

/// Whole numbers within -2^53 to 2^53 are visited as integers, others as doubles. A type has one form: a struct is an
/// object and never an array, a unit variant a string and never an object.
impl<'de> Deserializer<'de> for ValueRef<'de> {
    type Error = DeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        match self.kind() {
            Kind::Null => visitor.visit_unit(),
            Kind::Bool => visitor.visit_bool(self.as_bool().unwrap_or_default()),
            Kind::Number => match (self.as_u64(), self.as_i64()) {
                (Some(whole), _) => visitor.visit_u64(whole),
                (None, Some(whole)) => visitor.visit_i64(whole),
                (None, None) => visitor.visit_f64(self.as_f64().unwrap_or_default()),
            },
            Kind::String => visitor.visit_borrowed_str(self.as_str().unwrap_or_default()),
            Kind::Array => {
                let mut access = ElementAccess { elements: self.elements() };
                let value = visitor.visit_seq(&mut access)?;
                if access.elements.len() > 0 {
                    return Err(DeError::invalid_length(self.len(), &"fewer elements in the array"));
                }
                Ok(value)
            }
            Kind::Object => {
                let mut access = MemberAccess { members: self.members(), value: None, offset: None };
                let value = visitor.visit_map(&mut access)?;
                if access.members.len() > 0 || access.value.is_some() {
                    return Err(DeError::invalid_length(self.len(), &"fewer members in the object"));
                }
                Ok(value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DeError> {
        if self.kind() == Kind::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        if self.kind() != Kind::Object {
            return Err(DeError::invalid_type(self.unexpected(), &visitor));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        if let Some(name) = self.as_str() {
            return visitor.visit_enum(name.into_deserializer());
        }
        let offset = self.members().next_offset();
        let mut members = self.members();
        match (members.next(), members.next()) {
            (Some((name, value)), None) => {
                visitor.visit_enum(OneMember { name, value }).map_err(|e| e.within(offset))
            }
            _ => Err(DeError::invalid_type(self.unexpected(), &"a string or an object with one member")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier ignored_any
    }
}

struct ElementAccess<'de> {
    elements: Elements<'de>,
}

impl<'de> SeqAccess<'de> for ElementAccess<'de> {
    type Error = DeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DeError> {
        self.elements.next().map(|element| seed.deserialize(element)).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.elements.len())
    }
}

struct MemberAccess<'de> {
    members: Members<'de>,
    value: Option<ValueRef<'de>>,
    offset: Option<usize>,
}

impl<'de> MapAccess<'de> for MemberAccess<'de> {
    type Error = DeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DeError> {
        self.offset = self.members.next_offset();
        let Some((name, value)) = self.members.next() else {
            return Ok(None);
        };
        self.value = Some(value);
        let name = BorrowedStrDeserializer::<DeError>::new(name);
        seed.deserialize(name).map(Some).map_err(|e| e.within(self.offset))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, DeError> {
        let Some(value) = self.value.take() else {
            return Err(DeError::new("a member's value was asked for before its name".to_owned()));
        };
        seed.deserialize(value).map_err(|e| e.within(self.offset))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.members.len())
    }
}

/// An externally tagged variant: `{"name": value}`.
struct OneMember<'de> {
    name: &'de str,
    value: ValueRef<'de>,
}

impl<'de> EnumAccess<'de> for OneMember<'de> {
    type Error = DeError;
    type Variant = VariantValue<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self::Variant), DeError> {
        let name = BorrowedStrDeserializer::<DeError>::new(self.name);
        Ok((seed.deserialize(name)?, VariantValue(self.value)))
    }
}

struct VariantValue<'de>(ValueRef<'de>);

impl<'de> VariantAccess<'de> for VariantValue<'de> {
    type Error = DeError;

    fn unit_variant(self) -> Result<(), DeError> {
        Err(DeError::invalid_type(Unexpected::Map, &"a string for this variant"))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DeError> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DeError> {
        if self.0.kind() != Kind::Array {
            return Err(DeError::invalid_type(self.0.unexpected(), &visitor));
        }
        self.0.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DeError> {
        if self.0.kind() != Kind::Object {
            return Err(DeError::invalid_type(self.0.unexpected(), &visitor));
        }
        self.0.deserialize_any(visitor)
    }
}
