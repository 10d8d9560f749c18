use std::fmt;

/// Longest place, in bytes.
const MAX_PLACE_BYTES: usize = 256;

/// The text is not a place in a tool's arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a place in the arguments is a JSON Pointer of 1 to 256 bytes that starts with a slash")]
#[non_exhaustive]
pub struct PlaceError;

/// Place in a tool's arguments: a JSON Pointer (RFC 6901) below the top.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArgPlace(Box<str>);

impl ArgPlace {
    /// Parses a place.
    ///
    /// # Errors
    /// [`PlaceError`] if it is empty, does not start with a slash, is too long, contains an invisible character, or has
    /// a `~` that is not `~0` or `~1`.
    pub fn new(text: &str) -> Result<Self, PlaceError> {
        let escapes_fit = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        let hidden = text.chars().any(countersign_core::is_hidden);
        if !text.starts_with('/') || text.len() > MAX_PLACE_BYTES || !escapes_fit || hidden {
            return Err(PlaceError);
        }
        Ok(Self(text.into()))
    }

    /// Text of the pointer.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if `other` is this place or lies below it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.0.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for ArgPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ArgPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArgPlace({:?})", &*self.0)
    }
}

impl std::str::FromStr for ArgPlace {
    type Err = PlaceError;
    fn from_str(text: &str) -> Result<Self, PlaceError> {
        Self::new(text)
    }
}

impl TryFrom<String> for ArgPlace {
    type Error = PlaceError;
    fn try_from(text: String) -> Result<Self, PlaceError> {
        Self::new(&text)
    }
}

impl From<ArgPlace> for String {
    fn from(place: ArgPlace) -> Self {
        place.0.into()
    }
}
