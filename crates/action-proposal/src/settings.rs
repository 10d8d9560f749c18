use std::fmt;

use countersign_core::{ImpactClass, Millis};

/// Unknown profile name. Does not contain the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown profile: `strict`, `pic-0.9` or `pic-0.8` expected")]
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

/// Limits of one proposal and its verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProposalLimits {
    pub(crate) proposal_bytes: usize,
    pub(crate) items: usize,
    pub(crate) payload_bytes: usize,
    pub(crate) file_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) time: Millis,
}

/// Defaults of PIC/1.0: 64,000 bytes of proposal, 64 items per list, 16,384 bytes of signed payload (before and after
/// canonicalising), 5 MiB per file, 500 ms. And 16 MiB for all files of one proposal, since 64 files of 5 MiB would
/// be a third of a gigabyte for one call.
impl Default for ProposalLimits {
    fn default() -> Self {
        Self {
            proposal_bytes: 64_000,
            items: 64,
            payload_bytes: 16_384,
            file_bytes: 5 * 1_024 * 1_024,
            total_bytes: 16 * 1_024 * 1_024,
            time: Millis::from_millis(500),
        }
    }
}

impl ProposalLimits {
    /// Sets the largest JSON text of a proposal, in bytes as received.
    #[must_use]
    pub const fn proposal_bytes(mut self, most: usize) -> Self {
        self.proposal_bytes = most;
        self
    }

    /// Sets the most entries of each of provenance, claims and evidence.
    #[must_use]
    pub const fn items(mut self, most: usize) -> Self {
        self.items = most;
        self
    }

    /// Sets the largest signed payload, in bytes as received and as canonicalised.
    #[must_use]
    pub const fn payload_bytes(mut self, most: usize) -> Self {
        self.payload_bytes = most;
        self
    }

    /// Sets the largest evidence file, in bytes.
    #[must_use]
    pub const fn file_bytes(mut self, most: u64) -> Self {
        self.file_bytes = most;
        self
    }

    /// Sets the most bytes of all evidence files of one proposal.
    #[must_use]
    pub const fn total_bytes(mut self, most: u64) -> Self {
        self.total_bytes = most;
        self
    }

    /// Sets the longest duration of one verification.
    #[must_use]
    pub const fn time(mut self, most: Millis) -> Self {
        self.time = most;
        self
    }
}

/// Impacts that count as high: always money, privacy and irreversible, and those that the operator adds. None can be
/// removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighImpacts {
    write: bool,
    read: bool,
    external: bool,
    compute: bool,
}

impl HighImpacts {
    /// Adds a class.
    #[must_use]
    pub const fn with(mut self, impact: ImpactClass) -> Self {
        match impact {
            ImpactClass::Read => self.read = true,
            ImpactClass::Write => self.write = true,
            ImpactClass::External => self.external = true,
            ImpactClass::Compute => self.compute = true,
            // High already, as any future class is.
            ImpactClass::Money | ImpactClass::Privacy | ImpactClass::Irreversible | _ => {}
        }
        self
    }

    /// Returns `true` if the class counts as high.
    #[must_use]
    pub const fn contains(&self, impact: ImpactClass) -> bool {
        match impact {
            ImpactClass::Read => self.read,
            ImpactClass::Write => self.write,
            ImpactClass::External => self.external,
            ImpactClass::Compute => self.compute,
            ImpactClass::Money | ImpactClass::Privacy | ImpactClass::Irreversible | _ => true,
        }
    }
}

impl FromIterator<ImpactClass> for HighImpacts {
    fn from_iter<I: IntoIterator<Item = ImpactClass>>(impacts: I) -> Self {
        impacts.into_iter().fold(Self::default(), Self::with)
    }
}
