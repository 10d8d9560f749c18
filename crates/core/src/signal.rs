/// Sign that an agent probes for what it may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Signal {
    /// Many distinct calls needed approval and got none.
    Asked,
    /// Many calls were of tools that the agent's session does not disclose.
    Undisclosed,
}

impl Signal {
    /// Every signal.
    pub const ALL: &'static [Self] = &[Self::Asked, Self::Undisclosed];

    /// The stable text: `asked` or `undisclosed`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Undisclosed => "undisclosed",
        }
    }
}
