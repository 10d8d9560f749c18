use std::fmt;

/// Severity of a tool's effect (PIC/1.0, *impact*). The operator's entry determines it, never the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ImpactClass {
    /// Reads data and changes nothing.
    Read,
    /// Makes a reversible change.
    Write,
    /// Reaches people or systems outside.
    External,
    /// Consumes a significant amount of computing power.
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

    /// The name of the class in JSON.
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

    /// Returns whether PIC/1.0 calls the class high: money, privacy, irreversible.
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

/// Unknown impact class.
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
