use crate::Escaped;

/// Most values in one record.
const MAX_VALUES: usize = 16;

/// Most bytes that all values take of a record's line, pointers included: 16 KiB. All other members of a decision take
/// less than 48 KiB, and a line has at most 65,535 bytes.
const MAX_BYTES: usize = 16 * 1024;

/// Bytes of JSON around one value: names, quotes, braces and a comma.
const AROUND: usize = r#"{"pointer":"","value":""},"#.len();

/// Least size of a shortened value: the ellipsis that marks the cut.
const MARK: usize = '\u{2026}'.len_utf8();

/// Value of one argument that the operator configured to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RecordedValue {
    /// JSON Pointer (RFC 6901) into the arguments; empty for all of them.
    pub pointer: Escaped<256>,
    /// Canonical JSON of the value, escaped.
    pub value: Escaped<4096>,
}

/// Recorded values of one call's arguments: at most 16, which together take at most 16 KiB of the record's line. So no
/// argument is too long for its call to be recorded.
///
/// A value longer than 4,096 bytes, or one for which earlier values leave no room, is cut and ends with an ellipsis.
/// The record also has the digest of the arguments. With it a reader can prove that the value of the empty pointer,
/// read back ([`Escaped::unescape`]), is all of the arguments.
///
/// ```
/// use countersign_audit_log::RecordedValues;
/// let values = RecordedValues::new([("/to", r#""bob""#), ("", r#"{"to":"bob"}"#)]);
/// assert_eq!(values.get("/to").and_then(|value| value.unescape()).as_deref(), Some(r#""bob""#));
/// assert_eq!(values.get("/from"), None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Vec<RecordedValue>")]
pub struct RecordedValues(Vec<RecordedValue>);

/// Error for more values, or longer ones, than a record may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many argument values in the record")]
#[non_exhaustive]
pub struct RecordedValuesError;

impl RecordedValues {
    /// Escapes and shortens pairs of a pointer and the canonical JSON at that pointer. Keeps the first 16.
    #[must_use]
    pub fn new<P: AsRef<str>, V: AsRef<str>>(values: impl IntoIterator<Item = (P, V)>) -> Self {
        let values: Vec<(Escaped<256>, V)> = values
            .into_iter()
            .take(MAX_VALUES)
            .map(|(pointer, value)| (Escaped::new(pointer.as_ref()), value))
            .collect();
        let least = values.iter().map(|(pointer, _)| cost(pointer, MARK));
        // Bytes left for the values after each has its pointer and its mark: 16 pointers of 512 bytes leave 7 KiB.
        let mut left = MAX_BYTES.saturating_sub(least.fold(0, usize::saturating_add));
        let shortened = values.into_iter().map(|(pointer, value)| {
            let value = Escaped::within(value.as_ref(), left.saturating_add(MARK));
            left = left.saturating_sub(value.json_len().saturating_sub(MARK));
            RecordedValue { pointer, value }
        });
        Self(shortened.collect())
    }

    /// Returns `true` if no value is recorded.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of values.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Values in the order in which the operator named them.
    pub fn iter(&self) -> std::slice::Iter<'_, RecordedValue> {
        self.0.iter()
    }

    /// Returns the value recorded for a pointer. Returns `None` for a pointer so long that it was cut, because two such
    /// pointers can look alike.
    #[must_use]
    pub fn get(&self, pointer: &str) -> Option<&Escaped<4096>> {
        let asked = Escaped::new(pointer);
        let value = self.0.iter().find(|value| value.pointer == asked);
        value.filter(|value| value.pointer.unescape().is_some()).map(|value| &value.value)
    }
}

impl<'a> IntoIterator for &'a RecordedValues {
    type Item = &'a RecordedValue;
    type IntoIter = std::slice::Iter<'a, RecordedValue>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl TryFrom<Vec<RecordedValue>> for RecordedValues {
    type Error = RecordedValuesError;

    fn try_from(values: Vec<RecordedValue>) -> Result<Self, RecordedValuesError> {
        let bytes = values.iter().map(|value| cost(&value.pointer, value.value.json_len().max(MARK)));
        let bytes = bytes.fold(0, usize::saturating_add);
        if values.len() > MAX_VALUES || bytes > MAX_BYTES {
            Err(RecordedValuesError)
        } else {
            Ok(Self(values))
        }
    }
}

/// Returns the bytes of a line that a value takes if its text takes `value`.
fn cost(pointer: &Escaped<256>, value: usize) -> usize {
    AROUND.saturating_add(pointer.json_len()).saturating_add(value)
}
