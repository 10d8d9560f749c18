use std::fmt;

/// Says that a text names no profile. Never holds the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a profile is `strict`, `pic-0.9` or `pic-0.8`")]
#[non_exhaustive]
pub struct ProfileError;

/// How proposals are judged. The operator chooses; a proposal cannot.
///
/// Whatever `strict` allows, `pic-0.9` allows as well.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// Evidence is always verified, all provenance enters untrusted, attestations are bound to the one call and used once,
    /// a hash raises trust only where an operator signed the digest.
    #[default]
    Strict,
    /// As the reference release 0.9 behaves: attestations are bound to tool, impact, arguments, claims and intent, and
    /// opaque signed payloads count; hashes raise no trust. Members of our own that an attestation states (`x_...`) bind
    /// it to the call, and a nonce to one use.
    Pic09,
    /// As the reference release 0.8 behaves: trust is taken as claimed unless the operator asks for more, and a hash that
    /// matches raises trust. Attestations are bound as under `pic-0.9`.
    Pic08,
}

impl Profile {
    /// Every profile, strictest first.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Pic09, Self::Pic08];

    /// The stable text: `strict`, `pic-0.9` or `pic-0.8`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Pic09 => "pic-0.9",
            Self::Pic08 => "pic-0.8",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for Profile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        Self::ALL.into_iter().find(|profile| profile.as_str() == text).ok_or(ProfileError)
    }
}
