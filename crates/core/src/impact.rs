use std::fmt;

/// Says how bad a tool's effect can be (PIC/1.0, *impact*). The operator's entry decides it, never the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ImpactClass {
    /// Looks at something and changes nothing.
    Read,
    /// Changes something that can be changed back.
    Write,
    /// Reaches somebody or something outside.
    External,
    /// Uses up computing power worth counting.
    Compute,
    /// Moves money.
    Money,
    /// Touches personal data.
    Privacy,
    /// Cannot be undone.
    Irreversible,
}

impl ImpactClass {
    /// Every class.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Write,
        Self::External,
        Self::Compute,
        Self::Money,
        Self::Privacy,
        Self::Irreversible,
    ];

    /// The word that stands for the class in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::External => "external",
            Self::Compute => "compute",
            Self::Money => "money",
            Self::Privacy => "privacy",
            Self::Irreversible => "irreversible",
        }
    }

    /// Says whether the class is one of the three that PIC/1.0 calls high: money, privacy, irreversible.
    #[must_use]
    pub const fn is_high(self) -> bool {
        matches!(self, Self::Money | Self::Privacy | Self::Irreversible)
    }
}

impl fmt::Display for ImpactClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Says that a word is none of the seven impact classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an impact is one of read, write, external, compute, money, privacy, irreversible")]
#[non_exhaustive]
pub struct ImpactError;

impl std::str::FromStr for ImpactClass {
    type Err = ImpactError;

    fn from_str(text: &str) -> Result<Self, ImpactError> {
        Self::ALL.into_iter().find(|impact| impact.as_str() == text).ok_or(ImpactError)
    }
}
