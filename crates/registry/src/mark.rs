use std::collections::BTreeSet;
use std::fmt;

use countersign_core::{Digest, KeyId};
use countersign_keys::trusted::UntrustedFile;
use parking_lot::Mutex;

/// Largest step between versions: 2^32, counted from 0 before the first registry. why: a signed jump to the last
/// version would leave no version to follow it.
const MAX_STEP: u64 = 1 << 32;

/// Most revoked keys in a mark.
const MAX_REVOKED_KEYS: usize = 65_536;

/// High-water mark: the version of the highest accepted registry, the digest of its exact bytes, and every key that
/// any accepted registry revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    version: u64,
    digest: Digest,
    revoked_keys: BTreeSet<KeyId>,
}

impl Mark {
    /// Creates a mark.
    #[must_use]
    pub const fn new(version: u64, digest: Digest, revoked_keys: BTreeSet<KeyId>) -> Self {
        Self { version, digest, revoked_keys }
    }

    /// The registry's version.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// The digest of the registry's payload.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Revoked keys. A key stays revoked when a later registry no longer lists it.
    #[must_use]
    pub const fn revoked_keys(&self) -> &BTreeSet<KeyId> {
        &self.revoked_keys
    }

    /// Checks that this mark may follow the stored one.
    ///
    /// # Errors
    /// [`MarkError::Rollback`] for a lower version, [`MarkError::Fork`] for the same version with another digest,
    /// [`MarkError::FastForward`] for a step above 2^32.
    pub fn check_after(&self, stored: Option<&Self>) -> Result<(), MarkError> {
        let accepted = stored.map_or(0, Self::version);
        if self.version < accepted {
            return Err(MarkError::Rollback { offered: self.version, accepted });
        }
        if stored.is_some_and(|stored| self.version == accepted && self.digest != stored.digest) {
            return Err(MarkError::Fork { version: self.version });
        }
        if self.version.saturating_sub(accepted) > MAX_STEP {
            return Err(MarkError::FastForward { offered: self.version, accepted });
        }
        Ok(())
    }

    /// Returns the mark to store once this one is accepted after the stored one.
    ///
    /// # Errors
    /// As [`check_after`](Self::check_after), and [`MarkError::Full`] for more revoked keys than a mark holds.
    pub fn raised_from(&self, stored: Option<&Self>) -> Result<Self, MarkError> {
        self.check_after(stored)?;
        let mut raised = self.clone();
        raised.revoked_keys.extend(stored.into_iter().flat_map(|stored| stored.revoked_keys.iter().cloned()));
        if raised.revoked_keys.len() > MAX_REVOKED_KEYS {
            return Err(MarkError::Full);
        }
        Ok(raised)
    }

    /// Returns the mark to store for a registry that was verified against `seen`, if the store now has `stored`.
    /// Every [`HighWaterStore`] applies this between reading and writing.
    ///
    /// # Errors
    /// As [`raised_from`](Self::raised_from), and [`MarkError::Moved`] if the stored mark is neither the seen one nor
    /// this one.
    pub fn swapped_in(&self, seen: Option<&Self>, stored: Option<&Self>) -> Result<Self, MarkError> {
        let raised = self.raised_from(stored)?;
        // An equal mark is no conflict: it has the same revoked keys, so the other writer knew no more than this one.
        if stored != seen && stored != Some(self) {
            return Err(MarkError::Moved);
        }
        Ok(raised)
    }

    /// Returns the higher of two marks with the revoked keys of both; the first one if both are equally high.
    pub(crate) fn newer(self, other: Option<Self>) -> Self {
        let Some(other) = other else {
            return self;
        };
        let (mut high, low) = if other.version > self.version { (other, self) } else { (self, other) };
        high.revoked_keys.extend(low.revoked_keys);
        high
    }
}

/// Failure to raise a mark. The registry is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MarkError {
    /// A higher version was accepted before.
    #[error("registry version {offered} is older than version {accepted}, which was accepted before")]
    Rollback {
        /// Offered version.
        offered: u64,
        /// Accepted version.
        accepted: u64,
    },
    /// The same version was accepted before, with other bytes.
    #[error("registry version {version} was accepted before, with other content")]
    Fork {
        /// Version of both.
        version: u64,
    },
    /// The version is too far above the last one.
    #[error("registry version {offered} is more than 2^32 above the last one, {accepted}")]
    FastForward {
        /// Offered version.
        offered: u64,
        /// Accepted version; 0 before the first registry.
        accepted: u64,
    },
    /// More keys are revoked than a mark holds.
    #[error("too many revoked keys for the high-water mark")]
    Full,
    /// Another writer raised the mark since the registry was verified against it.
    #[error("the high-water mark was raised by another writer meanwhile")]
    Moved,
    /// The stored bytes are not a mark.
    #[error("the stored high-water mark is corrupt")]
    Corrupt,
    /// The store could not be read, locked or written.
    #[error("the high-water mark cannot be {0}")]
    Unavailable(&'static str),
    /// Other users may have written the file of the mark.
    #[error("the high-water mark is not trusted")]
    Untrusted(#[from] UntrustedFile),
}

impl MarkError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Rollback { .. } => "REGISTRY_ROLLBACK",
            Self::Fork { .. } => "REGISTRY_FORK",
            Self::FastForward { .. } => "REGISTRY_FAST_FORWARD",
            Self::Full => "REGISTRY_MARK_FULL",
            Self::Moved => "REGISTRY_MARK_MOVED",
            Self::Corrupt => "REGISTRY_MARK_CORRUPT",
            Self::Unavailable(_) => "REGISTRY_MARK_UNAVAILABLE",
            Self::Untrusted(error) => error.code(),
        }
    }

    /// Returns whether the registry is at fault, and not the store.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self, Self::Rollback { .. } | Self::Fork { .. } | Self::FastForward { .. })
    }
}

countersign_core::coded!(MarkError);

/// Store of the high-water mark of one registry.
///
/// A party that can delete the stored mark can roll the registry back at the next start. Keep it with the operator's
/// own state.
pub trait HighWaterStore: Send + Sync + fmt::Debug {
    /// Returns the stored mark; `None` before the first registry was accepted.
    ///
    /// # Errors
    /// [`MarkError`] if the mark cannot be read; the registry is not loaded then.
    fn current(&self) -> Result<Option<Mark>, MarkError>;

    /// Replaces the mark if it is still the `seen` one, atomically and durably, by the rules of [`Mark::swapped_in`].
    ///
    /// why: a registry is verified against the seen mark. Another mark may revoke more keys, so the registry must be
    /// verified again.
    ///
    /// # Errors
    /// [`MarkError::Moved`] if another mark is stored, [`MarkError`] if this one may not follow it or cannot be
    /// stored.
    fn compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError>;

    /// As [`compare_and_raise`](Self::compare_and_raise), but returns within 50 ms if another process holds the lock.
    /// Used between calls. A store that waits for a lock must implement it.
    ///
    /// # Errors
    /// As [`compare_and_raise`](Self::compare_and_raise).
    fn try_compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        self.compare_and_raise(seen, mark)
    }
}

/// In-memory mark. A restart forgets it and then accepts a rollback.
#[derive(Debug, Default)]
pub struct MemoryHighWater {
    mark: Mutex<Option<Mark>>,
}

impl MemoryHighWater {
    /// Creates an empty store.
    #[must_use]
    pub const fn new() -> Self {
        Self { mark: Mutex::new(None) }
    }
}

impl HighWaterStore for MemoryHighWater {
    fn current(&self) -> Result<Option<Mark>, MarkError> {
        Ok(self.mark.lock().clone())
    }

    fn compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        let mut stored = self.mark.lock();
        *stored = Some(mark.swapped_in(seen, stored.as_ref())?);
        Ok(())
    }
}
