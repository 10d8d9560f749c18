use countersign_core::Recipe;
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};

use crate::canonical::Canonical;
use crate::error::JsonError;
use crate::limits::Limits;
use crate::reader::read;
use crate::value::{Kind, ValueRef};

/// The value has no canonical form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SerializeError {
    /// The value does not serialise to JSON: a map has keys that are not strings, or the type returned an error.
    #[error("the value cannot be written as JSON")]
    Value(#[source] serde_json::Error),
    /// The reader refuses the serialised value: a repeated name, or an integer that is not exact in a double.
    #[error("the value has no exact canonical form")]
    Refused(#[source] JsonError),
}

impl SerializeError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Value(_) => "JSON_NOT_SERIALIZABLE",
            Self::Refused(error) => error.code(),
        }
    }
}

countersign_core::coded!(SerializeError);

/// Returns the canonical form of one of the program's own values, under [`Recipe::Jcs1`] and [`Limits::hard_caps`].
///
/// NaN and infinity become `null`, as in `serde_json`.
///
/// # Errors
/// [`SerializeError`] if the value does not serialise to JSON, or [`read`] refuses the result.
///
/// ```
/// use countersign_canonical_json::to_canonical;
/// let claims = std::collections::HashMap::from([("b", 2), ("a", 1)]);
/// assert_eq!(to_canonical(&claims)?.as_str(), r#"{"a":1,"b":2}"#);
/// # Ok::<(), countersign_canonical_json::SerializeError>(())
/// ```
pub fn to_canonical<T: Serialize + ?Sized>(value: &T) -> Result<Canonical, SerializeError> {
    let bytes = serde_json::to_vec(value).map_err(SerializeError::Value)?;
    read(&bytes, Recipe::Jcs1, &Limits::hard_caps()).map_err(SerializeError::Refused)
}

/// Whole numbers within -2^53 to 2^53 are written as integers, others as doubles.
impl Serialize for ValueRef<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.kind() {
            Kind::Null => s.serialize_unit(),
            Kind::Bool => s.serialize_bool(self.as_bool().unwrap_or_default()),
            Kind::Number => match (self.as_u64(), self.as_i64()) {
                (Some(whole), _) => s.serialize_u64(whole),
                (None, Some(whole)) => s.serialize_i64(whole),
                (None, None) => s.serialize_f64(self.as_f64().unwrap_or_default()),
            },
            Kind::String => s.serialize_str(self.as_str().unwrap_or_default()),
            Kind::Array => {
                let mut array = s.serialize_seq(Some(self.len()))?;
                for element in self.elements() {
                    array.serialize_element(&element)?;
                }
                array.end()
            }
            Kind::Object => {
                let mut object = s.serialize_map(Some(self.len()))?;
                for (name, value) in self.members() {
                    object.serialize_entry(name, &value)?;
                }
                object.end()
            }
        }
    }
}
