use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use countersign_core::{Digest, ImpactClass, Principal, ServerName, Timestamp};
use countersign_keys::VerifyingKey;
use serde::Serialize;

use crate::key_scope::KeyScope;

/// Keys whose signatures count as evidence: public keys by id, with expiry, scope and revocation. Immutable.
///
/// Every key is a canonical point of the prime-order group. A file with another key is refused as a whole, unless
/// that key is revoked or expired. An empty keyring verifies nothing.
///
/// Does not control who may change the file: protect the folder of the file.
///
/// ```
/// use countersign_action_proposal::{EvidenceKeyring, KeyStatus};
/// use countersign_core::Timestamp;
/// let keyring = EvidenceKeyring::from_json(br#"{
///     "trusted_keys": {
///         "cfo-1": {"public_key": "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=", "expires_at": "2030-01-01T00:00:00Z"}
///     },
///     "revoked_keys": ["cfo-0"]
/// }"#)?;
/// let now = Timestamp::from_millis(1_800_000_000_000)?;
/// assert_eq!(keyring.status("cfo-1", now), KeyStatus::Ok);
/// assert_eq!(keyring.status("cfo-0", now), KeyStatus::Revoked);
/// assert!(keyring.active("cfo-1 ", now).is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvidenceKeyring {
    pub(crate) keys: BTreeMap<Box<str>, EvidenceKey>,
    /// Weak keys that were revoked or expired when the file was read. They are never returned.
    pub(crate) inactive: BTreeMap<Box<str>, InactiveKey>,
    pub(crate) revoked_ids: BTreeSet<Box<str>>,
    pub(crate) revoked_fingerprints: BTreeSet<[u8; 32]>,
    pub(crate) thresholds: BTreeMap<ImpactClass, usize>,
}

impl EvidenceKeyring {
    /// Creates a keyring without keys. No signature verifies under it.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Number of keys, active or not, without the weak ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns `true` if it has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Ids of the weak keys that are revoked or expired, in order.
    pub fn weak_ids(&self) -> impl Iterator<Item = &str> {
        self.inactive.keys().map(|id| &**id)
    }

    /// Keys with their ids, ordered by id, active or not, without the weak ones.
    #[must_use]
    pub fn keys(&self) -> impl ExactSizeIterator<Item = (&str, &EvidenceKey)> {
        self.keys.iter().map(|(id, key)| (&**id, key))
    }

    /// Status of an id now. Ids are compared byte by byte.
    #[must_use]
    pub fn status(&self, id: &str, now: Timestamp) -> KeyStatus {
        self.look_up(id, now).1
    }

    /// Key with that id, if its signatures count now.
    #[must_use]
    pub fn active(&self, id: &str, now: Timestamp) -> Option<&EvidenceKey> {
        self.look_up(id, now).0
    }

    /// Number of distinct keys that must have signed for an impact; 1 if the file does not state it. A stated
    /// threshold applies at any impact, the default only at high impacts.
    #[must_use]
    pub fn threshold(&self, impact: ImpactClass) -> usize {
        self.stated_threshold(impact).unwrap_or(1)
    }

    /// Thresholds that the file states, in the order of the impacts.
    pub fn thresholds(&self) -> impl Iterator<Item = (ImpactClass, usize)> {
        self.thresholds.iter().map(|(impact, count)| (*impact, *count))
    }

    /// Threshold that the file states for an impact. A stated 1 is enforced as well.
    pub(crate) fn stated_threshold(&self, impact: ImpactClass) -> Option<usize> {
        self.thresholds.get(&impact).copied()
    }

    /// INVARIANT: a key is returned with the status `Ok` only.
    pub(crate) fn look_up(&self, id: &str, now: Timestamp) -> (Option<&EvidenceKey>, KeyStatus) {
        if self.revoked_ids.contains(id) {
            return (None, KeyStatus::Revoked);
        }
        let Some(key) = self.keys.get(id) else {
            return (None, self.inactive.get(id).map_or(KeyStatus::Missing, |key| key.status));
        };
        if self.revoked_fingerprints.contains(key.fingerprint.as_bytes()) {
            return (None, KeyStatus::Revoked);
        }
        if key.expires.is_some_and(|expires| now >= expires) {
            return (None, KeyStatus::Expired);
        }
        if key.not_before.is_some_and(|not_before| now < not_before) {
            return (None, KeyStatus::NotYetValid);
        }
        (Some(key), KeyStatus::Ok)
    }
}

/// Key of a keyring, with its scope and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceKey {
    pub(crate) key: VerifyingKey,
    /// Cached, since every look-up needs it.
    pub(crate) fingerprint: Digest,
    pub(crate) expires: Option<Timestamp>,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) scope: KeyScope,
}

impl EvidenceKey {
    /// The public key.
    #[must_use]
    pub const fn key(&self) -> &VerifyingKey {
        &self.key
    }

    /// First moment at which it no longer counts. A time before 1970 is returned as 1970: expired at any time.
    #[must_use]
    pub const fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// First moment at which it counts.
    #[must_use]
    pub const fn not_before(&self) -> Option<Timestamp> {
        self.not_before
    }

    /// Scope of the key.
    #[must_use]
    pub const fn scope(&self) -> &KeyScope {
        &self.scope
    }
}

/// Weak key that can never be used, as written in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InactiveKey {
    pub(crate) wire: WireKeyringKey,
    /// Revoked or expired.
    pub(crate) status: KeyStatus,
}

/// Entry of a key, as written in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct WireKeyringKey {
    pub(crate) public_key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) servers: Option<Vec<ServerName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) impacts: Option<Vec<ImpactClass>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) principals: Option<Vec<Principal>>,
}

/// Status of a key id at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyStatus {
    /// Its signatures count.
    Ok,
    /// The keyring does not contain it.
    Missing,
    /// It is revoked, by its id or by the fingerprint of its key.
    Revoked,
    /// It has expired.
    Expired,
    /// It is not valid yet.
    NotYetValid,
}

impl KeyStatus {
    /// The stable text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Revoked => "revoked",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
        }
    }
}

impl fmt::Display for KeyStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
