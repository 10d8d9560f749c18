/// Says why bytes were refused, and where. Never holds any of the bytes.
///
/// Size, byte order mark and UTF-8 are judged first, over the whole input; then the first thing that is wrong, from
/// the left. A repeated name is seen when its object closes.
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

    /// What is wrong.
    #[must_use]
    pub const fn kind(&self) -> JsonErrorKind {
        self.kind
    }

    /// Where, as an offset in bytes from the start of the input. For a number, an escape and a repeated name it is
    /// where that begins; for an input that is too large, the limit; for one that ends too early, its length.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }
}

/// Names what can be wrong with bytes that should be JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// More bytes than [`Limits`](crate::Limits) allow.
    TooLarge,
    /// More nested arrays and objects than the limits allow.
    TooDeep,
    /// More members or elements in one container than the limits allow.
    TooWide,
    /// The input starts with U+FEFF (RFC 8259, section 8.1).
    Bom,
    /// The input is not UTF-8: overlong forms, encoded surrogates and other encodings included.
    InvalidUtf8,
    /// The input ends before its value does.
    UnexpectedEnd,
    /// A byte that cannot stand here.
    UnexpectedByte,
    /// Something other than white space follows the value.
    TrailingData,
    /// A character below U+0020 within a string, not escaped.
    ControlCharacter,
    /// A backslash that starts none of JSON's escapes.
    InvalidEscape,
    /// An escaped surrogate without its other half, or the two halves the wrong way round.
    LoneSurrogate,
    /// Something that starts like a number and is not one.
    InvalidNumber,
    /// A number whose canonical text would say another value than was written ([`Recipe::Jcs1`](crate::Recipe)).
    InexactNumber,
    /// An integer above 2^53 - 1 or below its negative ([`Recipe::PicCjson1`](crate::Recipe)).
    UnsafeInteger,
    /// A number beyond the largest finite double.
    NumberOverflow,
    /// A name that its object already has, after unescaping.
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
