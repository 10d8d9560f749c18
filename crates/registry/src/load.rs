use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_canonical_json::{JsonError, Recipe, ValueRef, read};
use countersign_core::{Digest, Millis, Timestamp};
use countersign_keys::dsse::{Envelope, EnvelopeError};
use countersign_keys::{RootError, TrustRoot, VerifyingKey};

use crate::content::{ContentError, ContentProblem};
use crate::fields::{MAX_VERSION, json_limits};
use crate::mark::{HighWaterStore, Mark, MarkError};
use crate::names::Names;
use crate::snapshot::{FreshnessError, RegistrySnapshot, SnapshotId, Validity};
use crate::tool_entry::ToolRules;
use crate::wire::{PAYLOAD_TYPE, RegistryContent, WireRegistry};

/// Most attempts to verify again after a concurrent change.
pub(crate) const MAX_TRIES: usize = 8;

/// Limits of a registry's size, age and clock skew.
///
/// ```
/// use countersign_core::Millis;
/// let mut options = countersign_registry::LoadOptions::default();
/// options.max_age = Millis::from_secs(7 * 86_400);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Longest age of a snapshot, from its time of issue. An attacker may withhold newer registries; the age bounds that
    /// time.
    pub max_age: Millis,
    /// Allowed clock skew.
    pub skew: Millis,
    /// Largest envelope, in bytes. A value above 16 MiB counts as 16 MiB.
    pub max_bytes: usize,
}

/// Largest envelope, in bytes.
const MAX_BYTES: usize = 16 << 20;

/// An age of 30 days (a usual signing interval), one minute of clock skew, 16 MiB.
impl Default for LoadOptions {
    fn default() -> Self {
        Self { max_age: Millis::from_secs(2_592_000), skew: Millis::from_secs(60), max_bytes: MAX_BYTES }
    }
}

impl LoadOptions {
    /// Largest envelope that is read, in bytes.
    #[must_use]
    pub fn envelope_bytes(&self) -> usize {
        self.max_bytes.min(MAX_BYTES)
    }
}

/// Refusal of a registry. The registry in force stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The envelope is too large, malformed, of another type, or lacks signatures of trusted keys.
    #[error("the registry's envelope is refused")]
    Envelope(#[source] EnvelopeError),
    /// Too few signatures remain without the keys that the registry itself revokes.
    #[error("too few of the keys that signed the registry are not revoked by it")]
    RevokedSigners,
    /// The payload is not strict JSON.
    #[error("the registry is not strict JSON")]
    Json(#[source] JsonError),
    /// The payload is not in canonical form, so two parsers could read different content.
    #[error("the registry is not canonical JSON")]
    NotCanonical,
    /// The registry may not follow the last accepted one.
    #[error(transparent)]
    Mark(#[from] MarkError),
    /// The registry is not valid now.
    #[error(transparent)]
    Freshness(#[from] FreshnessError),
    /// The content of the registry is invalid.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A new trust root is refused.
    #[error("the new trust root is refused")]
    Root(#[source] RootError),
}

impl RegistryError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Envelope(EnvelopeError::TooLarge { .. }) => "REGISTRY_TOO_LARGE",
            Self::Envelope(EnvelopeError::Threshold { .. }) | Self::RevokedSigners => "REGISTRY_SIGNATURES",
            Self::Envelope(EnvelopeError::PayloadType) => "REGISTRY_PAYLOAD_TYPE",
            Self::Envelope(_) => "REGISTRY_ENVELOPE",
            Self::Json(error) => error.code(),
            Self::NotCanonical => "REGISTRY_NOT_CANONICAL",
            Self::Mark(error) => error.code(),
            Self::Freshness(error) => error.code(),
            Self::Content(error) => error.code(),
            Self::Root(error) => error.code(),
        }
    }
}

countersign_core::coded!(RegistryError);

/// Verifies a signed registry against a trust root and a mark, for inspection. Raises no mark and loads nothing.
///
/// # Errors
/// [`RegistryError`], as [`CapabilityRegistry::load`](crate::CapabilityRegistry::load).
pub fn verify_registry(
    bytes: &[u8],
    root: &TrustRoot,
    mark: Option<&Mark>,
    options: &LoadOptions,
    now: Timestamp,
) -> Result<RegistrySnapshot, RegistryError> {
    // INVARIANT: the order of the checks. The size is checked before parsing, the signature before the content, and
    // an old registry is reported as old whatever other faults it has.
    let envelope = Envelope::from_json(bytes, options.envelope_bytes()).map_err(RegistryError::Envelope)?;
    let revoked_before = mark.map(|mark| mark.revoked_keys().clone()).unwrap_or_default();
    let revoked = |key: &VerifyingKey| revoked_before.contains(&key.key_id());
    let verified = envelope.verify(PAYLOAD_TYPE, root, &revoked).map_err(RegistryError::Envelope)?;

    let payload = verified.payload();
    let canonical = read(payload, Recipe::Jcs1, &json_limits()).map_err(RegistryError::Json)?;
    if canonical.bytes() != payload {
        return Err(RegistryError::NotCanonical);
    }
    let digest = Digest::of(payload);

    let value = canonical.value();
    let version = read_version(value)?;
    Mark::new(version, digest, BTreeSet::new()).check_after(mark)?;
    let validity = read_validity(value, options.skew)?;
    validity.check(now, options.max_age)?;

    let content = RegistryContent::from_wire(WireRegistry::read(value)?)?;
    Names::check(content.agents.entries(), content.tools.entries())?;
    let RegistryContent { agents, tools, servers, revoked, .. } = content;
    let taken_back = |key: &VerifyingKey| revoked.keys().contains(&key.key_id());
    if verified.signers().iter().any(taken_back) {
        // why: verification stops at the threshold. Without the revoked signers, enough others may remain.
        let either = |key: &VerifyingKey| revoked_before.contains(&key.key_id()) || taken_back(key);
        envelope.verify(PAYLOAD_TYPE, root, &either).map_err(|_| RegistryError::RevokedSigners)?;
    }
    let tools = tools.map(ToolRules::new);
    let id = Arc::new(SnapshotId { version, digest });
    Ok(RegistrySnapshot { id, validity, agents, tools, servers, revoked, revoked_before })
}

/// Verifies, then raises the mark: only for a registry that passed every check, and only from the mark that it was
/// verified against. Returns the snapshot, and whether its mark is stored.
pub(crate) fn accept(
    bytes: &[u8],
    root: &TrustRoot,
    marks: &dyn HighWaterStore,
    held: Option<&RegistrySnapshot>,
    options: &LoadOptions,
    now: Timestamp,
) -> Result<(RegistrySnapshot, Result<(), MarkError>), RegistryError> {
    for tries_left in (0..MAX_TRIES).rev() {
        let (seen, readable) = match marks.current() {
            Ok(seen) => (seen, Ok(())),
            Err(error) => (None, Err(error)),
        };
        // why: the store may have been emptied or rolled back while this process ran.
        let newest = match held.map(RegistrySnapshot::mark) {
            Some(held) => Some(held.newer(seen.clone())),
            None => seen.clone(),
        };
        let snapshot = verify_registry(bytes, root, newest.as_ref(), options, now)?;
        let (seen, mark) = (seen.as_ref(), snapshot.mark());
        let stored = readable.and_then(|()| match held {
            None => marks.compare_and_raise(seen, &mark),
            Some(_) if seen == Some(&mark) => Ok(()),
            // why: a call must not wait for a lock that another process holds; a start may.
            Some(_) => marks.try_compare_and_raise(seen, &mark),
        });
        match stored {
            Err(MarkError::Moved) if tries_left > 0 => {}
            Err(error) if error.is_refusal() => return Err(error.into()),
            stored => return Ok((snapshot, stored)),
        }
    }
    Err(MarkError::Moved.into())
}

fn read_version(value: ValueRef<'_>) -> Result<u64, ContentError> {
    let version = value.get("version").and_then(ValueRef::as_u64);
    version
        .filter(|version| (1..=MAX_VERSION).contains(version))
        .ok_or_else(|| ContentError::new("/version", ContentProblem::Version))
}

fn read_validity(value: ValueRef<'_>, skew: Millis) -> Result<Validity, ContentError> {
    let time_at = |name: &str| {
        let millis = value.get(name).and_then(ValueRef::as_u64);
        let time = millis.and_then(|millis| Timestamp::from_millis(millis).ok());
        time.ok_or_else(|| ContentError::new(format!("/{name}"), ContentProblem::Validity))
    };
    let validity = Validity { issued: time_at("issued")?, expires: time_at("expires")?, skew };
    if validity.expires <= validity.issued {
        return Err(ContentError::new("/expires", ContentProblem::Validity));
    }
    Ok(validity)
}
