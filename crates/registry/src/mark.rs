use std::collections::BTreeSet;
use std::fmt;

use countersign_core::{Digest, KeyId};
use countersign_keys::trusted::UntrustedFile;
use parking_lot::Mutex;

/// The largest step that a version may take at once: 2^32. One signed jump to the last version would leave none to
/// follow it. Counted from 0 where nothing was accepted before.
const MAX_STEP: u64 = 1 << 32;

/// The most revoked keys that a mark remembers.
const MAX_REVOKED_KEYS: usize = 65_536;

/// Remembers the highest registry that was ever accepted: its version, the digest of its exact bytes, and every key
/// that any accepted registry has revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    version: u64,
    digest: Digest,
    revoked_keys: BTreeSet<KeyId>,
}

impl Mark {
    /// Makes one.
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

    /// Every key that was ever revoked. A key stays revoked when a later registry no longer mentions it.
    #[must_use]
    pub const fn revoked_keys(&self) -> &BTreeSet<KeyId> {
        &self.revoked_keys
    }

    /// Says whether this mark may follow the stored one.
    ///
    /// # Errors
    /// [`MarkError::Rollback`] below it, [`MarkError::Fork`] beside it, [`MarkError::FastForward`] too far above it, or
    /// above 0 when none is stored.
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

    /// The mark to store after this one was accepted upon the stored one.
    ///
    /// # Errors
    /// As [`check_after`](Self::check_after), and [`MarkError::Full`] when more keys were revoked than can be kept.
    pub fn raised_from(&self, stored: Option<&Self>) -> Result<Self, MarkError> {
        self.check_after(stored)?;
        let mut raised = self.clone();
        raised.revoked_keys.extend(stored.into_iter().flat_map(|stored| stored.revoked_keys.iter().cloned()));
        if raised.revoked_keys.len() > MAX_REVOKED_KEYS {
            return Err(MarkError::Full);
        }
        Ok(raised)
    }

    /// The mark to store after this one was accepted by somebody who saw `seen`, upon the one that is `stored` now. What
    /// every [`HighWaterStore`] does between reading and writing.
    ///
    /// # Errors
    /// As [`raised_from`](Self::raised_from), and [`MarkError::Moved`] when another mark than the one seen is stored;
    /// unless that is this very one.
    pub fn swapped_in(&self, seen: Option<&Self>, stored: Option<&Self>) -> Result<Self, MarkError> {
        let raised = self.raised_from(stored)?;
        // Equal down to the revoked keys: then whoever raised it knew nothing that was not known here.
        if stored != seen && stored != Some(self) {
            return Err(MarkError::Moved);
        }
        Ok(raised)
    }

    /// The higher of two marks, with the revoked keys of both; the first when they are equally high.
    pub(crate) fn newer(self, other: Option<Self>) -> Self {
        let Some(other) = other else {
            return self;
        };
        let (mut high, low) = if other.version > self.version { (other, self) } else { (self, other) };
        high.revoked_keys.extend(low.revoked_keys);
        high
    }
}

/// Why a mark was not raised. The registry that asked for it is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MarkError {
    /// A higher version was accepted before.
    #[error("registry version {offered} is older than version {accepted}, which was accepted before")]
    Rollback {
        /// The version that was offered.
        offered: u64,
        /// The version that stands.
        accepted: u64,
    },
    /// The same version was accepted before, with other bytes.
    #[error("registry version {version} was accepted before, with other content")]
    Fork {
        /// The version.
        version: u64,
    },
    /// The version is too far above the last one.
    #[error("registry version {offered} is more than 2^32 above the last one, {accepted}")]
    FastForward {
        /// The version that was offered.
        offered: u64,
        /// The version that stands; 0 when there is none.
        accepted: u64,
    },
    /// More keys were revoked than a mark remembers.
    #[error("more keys were revoked than can be remembered")]
    Full,
    /// The mark that stands is not the one that the registry was verified against: somebody raised it in the meantime.
    #[error("the high-water mark was raised by somebody else in the meantime")]
    Moved,
    /// What is stored is not a mark.
    #[error("the stored high-water mark is corrupt")]
    Corrupt,
    /// The store could not be read, locked or written.
    #[error("the high-water mark cannot be {0}")]
    Unavailable(&'static str),
    /// Others may have written the file that holds the mark.
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

    /// Says whether the registry is at fault, and not the store.
    pub(crate) const fn is_refusal(&self) -> bool {
        matches!(self, Self::Rollback { .. } | Self::Fork { .. } | Self::FastForward { .. })
    }
}

/// Keeps the high-water mark of one registry.
///
/// Whoever can delete what is stored can bring back an older registry at the next start; keep it where the operator's
/// own state lies.
pub trait HighWaterStore: Send + Sync + fmt::Debug {
    /// The mark that stands; none before the first registry was accepted.
    ///
    /// # Errors
    /// [`MarkError`] when it cannot be told; nothing is loaded then.
    fn current(&self) -> Result<Option<Mark>, MarkError>;

    /// Puts a mark in place of the one that stands, if that is still the one that was `seen`, in one step, durably: as
    /// [`Mark::swapped_in`] says.
    ///
    /// A registry is verified against the mark that was seen. If another one stands by now, a key may be revoked that
    /// was not before, and the registry must be verified anew.
    ///
    /// # Errors
    /// [`MarkError::Moved`] when another mark stands, and [`MarkError`] when this one may not follow it, or cannot be
    /// stored.
    fn compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError>;

    /// As [`compare_and_raise`](Self::compare_and_raise), between two calls: returns within 50 ms where another process
    /// holds a lock. A store that waits for a lock must implement it.
    ///
    /// # Errors
    /// As [`compare_and_raise`](Self::compare_and_raise).
    fn try_compare_and_raise(&self, seen: Option<&Mark>, mark: &Mark) -> Result<(), MarkError> {
        self.compare_and_raise(seen, mark)
    }
}

/// Keeps the mark for as long as the process runs. A restart forgets it, and with it every rollback.
#[derive(Debug, Default)]
pub struct MemoryHighWater {
    mark: Mutex<Option<Mark>>,
}

impl MemoryHighWater {
    /// Makes one that holds no mark.
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
