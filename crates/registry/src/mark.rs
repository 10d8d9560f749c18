use std::collections::BTreeSet;
use std::fmt;

use countersign_core::{Digest, KeyId};
use parking_lot::Mutex;

/// The largest step that a version may take at once: 2^32. One signed jump to the last version would leave none to
/// follow it.
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
    /// [`MarkError::Rollback`] below it, [`MarkError::Fork`] beside it, [`MarkError::FastForward`] too far above it.
    pub fn check_after(&self, stored: Option<&Self>) -> Result<(), MarkError> {
        let Some(stored) = stored else {
            return Ok(());
        };
        if self.version < stored.version {
            return Err(MarkError::Rollback { offered: self.version, accepted: stored.version });
        }
        if self.version == stored.version && self.digest != stored.digest {
            return Err(MarkError::Fork { version: self.version });
        }
        if self.version.saturating_sub(stored.version) > MAX_STEP {
            return Err(MarkError::FastForward { offered: self.version, accepted: stored.version });
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
    #[error(
        "registry version {offered} is more than 2^32 above version {accepted}, which was accepted before"
    )]
    FastForward {
        /// The version that was offered.
        offered: u64,
        /// The version that stands.
        accepted: u64,
    },
    /// More keys were revoked than a mark remembers.
    #[error("more keys were revoked than can be remembered")]
    Full,
    /// What is stored is not a mark.
    #[error("the stored high-water mark is corrupt")]
    Corrupt,
    /// The store could not be read, locked or written.
    #[error("the high-water mark cannot be {0}")]
    Unavailable(&'static str),
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
            Self::Corrupt => "REGISTRY_MARK_CORRUPT",
            Self::Unavailable(_) => "REGISTRY_MARK_UNAVAILABLE",
        }
    }
}

/// Keeps the high-water mark of one registry.
///
/// Whoever can delete what is stored can bring back an older registry; keep it where the operator's own state lies.
pub trait HighWaterStore: Send + Sync + fmt::Debug {
    /// The mark that stands; none before the first registry was accepted.
    ///
    /// # Errors
    /// [`MarkError`] when it cannot be told; nothing is loaded then.
    fn current(&self) -> Result<Option<Mark>, MarkError>;

    /// Compares a mark with the one that stands and puts it in its place, in one step, durably: as
    /// [`Mark::raised_from`] says.
    ///
    /// # Errors
    /// [`MarkError`] when it may not follow the one that stands, or cannot be stored.
    fn compare_and_raise(&self, mark: &Mark) -> Result<(), MarkError>;
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

    fn compare_and_raise(&self, mark: &Mark) -> Result<(), MarkError> {
        let mut stored = self.mark.lock();
        *stored = Some(mark.raised_from(stored.as_ref())?);
        Ok(())
    }
}
