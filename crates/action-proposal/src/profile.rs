use std::fmt;

/// Unknown profile name. Does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a profile is `strict`, `pic-0.9` or `pic-0.8`")]
#[non_exhaustive]
pub struct ProfileError;

/// Profile that a proposal is judged by. The operator chooses it; a proposal cannot.
///
/// `pic-0.9` allows every proposal that `strict` allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// Evidence is always verified, all provenance starts untrusted, attestations are bound to the one call and used
    /// once, and a hash raises trust only if an operator signed the digest.
    #[default]
    Strict,
    /// Behaves like the reference release 0.9: attestations are bound to tool, impact, arguments, claims and intent,
    /// opaque signed payloads count, and hashes raise no trust. Countersign's own members of an attestation
    /// (`x_...`), if stated, bind it to the call, and a nonce to one use.
    Pic09,
    /// Behaves like the reference release 0.8: trust is taken as claimed unless the operator requires more, and a
    /// matching hash raises trust. Attestations are bound as under `pic-0.9`.
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
