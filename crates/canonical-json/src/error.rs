/// The bytes were refused. Contains the kind of the fault and its offset, never any of the bytes.
///
/// Size, byte order mark and UTF-8 are checked first, over the whole input. After that the first fault from the left is
/// reported. A repeated name is reported when its object closes.
///
/// ```
/// use countersign_canonical_json::{JsonErrorKind, Limits, Recipe, read};
/// let error = read(b"[1e400]", Recipe::Jcs1, &Limits::default()).unwrap_err();
/// assert_eq!((error.kind(), error.code(), error.offset()), (JsonErrorKind::NumberOverflow, "JSON_NUMBER_OVERFLOW", 1));
/// assert_eq!(error.to_string(), "`JSON_NUMBER_OVERFLOW` at byte 1: a number is beyond the range of a double");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` at byte {offset}: {}", .kind.code(), .kind.reason())]
pub struct JsonError {
    kind: JsonErrorKind,
    offset: usize,
}

impl JsonError {
    pub(crate) const fn new(kind: JsonErrorKind, offset: usize) -> Self {
        Self { kind, offset }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// Kind of the fault.
    #[must_use]
    pub const fn kind(&self) -> JsonErrorKind {
        self.kind
    }

    /// Byte offset of the fault. A number, an escape or a repeated name is reported at its first byte, an oversized
    /// input at the limit, a truncated input at its length.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }
}

/// Kinds of faults in JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// The input has more bytes than [`Limits`](crate::Limits) allow.
    TooLarge,
    /// Arrays and objects nest deeper than the limits allow.
    TooDeep,
    /// One array or object has more entries than the limits allow.
    TooWide,
    /// The input starts with U+FEFF (RFC 8259, section 8.1).
    Bom,
    /// The input is not UTF-8. Overlong forms, encoded surrogates and other encodings are not UTF-8.
    InvalidUtf8,
    /// The input ends before its value does.
    UnexpectedEnd,
    /// A byte that the grammar does not allow here.
    UnexpectedByte,
    /// Bytes other than whitespace follow the value.
    TrailingData,
    /// An unescaped character below U+0020 in a string.
    ControlCharacter,
    /// A backslash that does not start a JSON escape.
    InvalidEscape,
    /// An escaped surrogate without its other half, or with the halves swapped.
    LoneSurrogate,
    /// A number outside the grammar.
    InvalidNumber,
    /// A number whose canonical text has another decimal value ([`Recipe::Jcs1`](crate::Recipe)).
    InexactNumber,
    /// An integer outside -(2^53 - 1) to 2^53 - 1 ([`Recipe::PicCjson1`](crate::Recipe)).
    UnsafeInteger,
    /// A number beyond the largest finite double.
    NumberOverflow,
    /// A name that occurs twice in its object, after unescaping.
    DuplicateName,
}

impl JsonErrorKind {
    /// The stable code.
    #[must_use]
    pub const fn code(self) -> &'static str {
        self.describe().0
    }

    const fn reason(self) -> &'static str {
        self.describe().1
    }

    const fn describe(self) -> (&'static str, &'static str) {
        match self {
            Self::TooLarge => ("JSON_TOO_LARGE", "more bytes than the limit"),
            Self::TooDeep => ("JSON_TOO_DEEP", "arrays and objects are nested deeper than the limit"),
            Self::TooWide => ("JSON_TOO_WIDE", "an array or object has more entries than the limit"),
            Self::Bom => ("JSON_BOM", "the text starts with a byte order mark"),
            Self::InvalidUtf8 => ("JSON_INVALID_UTF8", "the bytes are not UTF-8"),
            Self::UnexpectedEnd => ("JSON_UNEXPECTED_END", "the text ends before its value does"),
            Self::UnexpectedByte => ("JSON_UNEXPECTED_BYTE", "this byte cannot stand here"),
            Self::TrailingData => ("JSON_TRAILING_DATA", "something follows the value"),
            Self::ControlCharacter => {
                ("JSON_CONTROL_CHARACTER", "a string holds a control character that is not escaped")
            }
            Self::InvalidEscape => {
                ("JSON_INVALID_ESCAPE", "a string holds an escape that JSON does not have")
            }
            Self::LoneSurrogate => ("JSON_LONE_SURROGATE", "a string holds half of a surrogate pair"),
            Self::InvalidNumber => ("JSON_INVALID_NUMBER", "a number is malformed"),
            Self::InexactNumber => {
                ("JSON_INEXACT_NUMBER", "a number has a value that a double does not keep exactly")
            }
            Self::UnsafeInteger => (
                "JSON_UNSAFE_INTEGER",
                "an integer is outside of the range in which every integer is a double",
            ),
            Self::NumberOverflow => ("JSON_NUMBER_OVERFLOW", "a number is beyond the range of a double"),
            Self::DuplicateName => ("JSON_DUPLICATE_NAME", "an object has the same name twice"),
        }
    }
}

countersign_core::coded!(JsonError, JsonErrorKind);
