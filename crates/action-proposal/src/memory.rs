use std::collections::BTreeMap;
use std::fmt;

use crate::reference::plain_names;
use crate::{EvidenceBudget, EvidenceResolver, ResolveError, ResolvedEvidence};

/// Evidence in memory, for hosts that already have the bytes, and for tests. The limits of files apply.
///
/// ```
/// use countersign_action_proposal::{EvidenceBudget, EvidenceResolver, MemoryEvidence};
/// use countersign_core::{Digest, Millis, SystemClock};
///
/// let evidence = MemoryEvidence::new().with("file://invoice.txt", *b"42 EUR");
/// let clock = SystemClock::new();
/// let mut budget = EvidenceBudget::start(&clock, 1_024, 4_096, Millis::from_secs(5))?;
/// let resolved = evidence.resolve("file://invoice.txt", &mut budget)?;
/// assert_eq!(resolved.digest(), Digest::of(b"42 EUR"));
/// # Ok::<(), countersign_action_proposal::ResolveError>(())
/// ```
#[derive(Clone, Default)]
pub struct MemoryEvidence {
    held: BTreeMap<Box<str>, Box<[u8]>>,
}

impl MemoryEvidence {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores `bytes` under `reference` and replaces earlier bytes. Only plain relative `file://` references are ever
    /// looked up.
    #[must_use]
    pub fn with(mut self, reference: impl Into<Box<str>>, bytes: impl Into<Box<[u8]>>) -> Self {
        self.held.insert(reference.into(), bytes.into());
        self
    }
}

impl EvidenceResolver for MemoryEvidence {
    fn resolve(
        &self,
        reference: &str,
        budget: &mut EvidenceBudget<'_>,
    ) -> Result<ResolvedEvidence, ResolveError> {
        plain_names(reference)?;
        let bytes = self.held.get(reference).ok_or(ResolveError::NotFound)?;
        budget.read_about(&**bytes, bytes.len() as u64)
    }
}

/// why: evidence may be confidential, so only the number of entries is printed.
impl fmt::Debug for MemoryEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryEvidence({} held)", self.held.len())
    }
}
