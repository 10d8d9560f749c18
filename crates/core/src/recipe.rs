use std::fmt;

/// Unknown recipe. The error never contains the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown recipe: `jcs-1`, `rfc8785` or `pic-cjson-1` expected")]
#[non_exhaustive]
pub struct RecipeError;

impl RecipeError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "JSON_RECIPE_UNKNOWN"
    }
}

crate::coded!(RecipeError);

/// A way to read JSON and make it canonical. Records name the recipe beside each digest.
///
/// All recipes are equally strict and write the same text for the same value. They differ only in the numbers they
/// accept that an IEEE 754 double does not represent exactly.
///
/// The reader and writer are in `countersign-canonical-json`.
///
/// ```
/// use countersign_core::Recipe;
/// assert_eq!("jcs-1".parse(), Ok(Recipe::Jcs1));
/// assert_eq!(Recipe::PicCjson1.as_str(), "pic-cjson-1");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Recipe {
    /// `jcs-1`: refuses a number unless its canonical text has the same decimal value, so that two different values
    /// never share a digest. The default.
    #[default]
    Jcs1,
    /// `rfc8785`: rounds numbers to the nearest double (RFC 8785, section 3.2.2.3). For interoperation only: different
    /// numbers can share a digest.
    Rfc8785,
    /// `pic-cjson-1`: PIC-CJSON/1.0, section 7.9. Refuses an integer (a literal without fraction and exponent)
    /// outside -(2^53 - 1) to 2^53 - 1 and rounds every other number as `rfc8785`. For action proposals: different
    /// numbers can share a digest, different integers cannot. Its own canonical text may be refused when read again:
    /// `1e20` is written as an integer.
    PicCjson1,
}

impl Recipe {
    /// Every recipe.
    pub const ALL: [Self; 3] = [Self::Jcs1, Self::Rfc8785, Self::PicCjson1];

    /// The recipe's id in signed and recorded data.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jcs1 => "jcs-1",
            Self::Rfc8785 => "rfc8785",
            Self::PicCjson1 => "pic-cjson-1",
        }
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for Recipe {
    type Err = RecipeError;

    fn from_str(text: &str) -> Result<Self, RecipeError> {
        Self::ALL.into_iter().find(|recipe| recipe.as_str() == text).ok_or(RecipeError)
    }
}

impl serde::Serialize for Recipe {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for Recipe {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
