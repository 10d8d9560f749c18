use std::fmt;

/// Trust in an input. The level in a proposal is a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "PIC/1.0 has these two and no other")]
pub enum TrustLevel {
    /// Any party may have written it.
    Untrusted,
    /// A party with authority vouches for it.
    Trusted,
}

/// Input that led to the action, as named by the agent.
#[derive(Clone, PartialEq, Eq)]
pub struct Provenance {
    pub(crate) id: Box<str>,
    pub(crate) claimed: TrustLevel,
    pub(crate) source: Option<Box<str>>,
}

impl Provenance {
    /// Id, unique within the proposal. Claims cite it, and evidence with the same id can raise its trust.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Trust level that the agent claims.
    #[must_use]
    pub const fn claimed(&self) -> TrustLevel {
        self.claimed
    }

    /// Source that the agent claims.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }
}

/// Claim, and the ids of the inputs that it cites.
#[derive(Clone, PartialEq, Eq)]
pub struct Claim {
    pub(crate) text: Box<str>,
    pub(crate) evidence: Vec<Box<str>>,
}

impl Claim {
    /// Text of the claim.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Ids of the cited provenance, in order.
    pub fn evidence(&self) -> impl Iterator<Item = &str> {
        self.evidence.iter().map(AsRef::as_ref)
    }
}

impl fmt::Debug for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provenance").field("claimed", &self.claimed).finish_non_exhaustive()
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("cites", &self.evidence.len()).finish_non_exhaustive()
    }
}
