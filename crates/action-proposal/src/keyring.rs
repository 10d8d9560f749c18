use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use countersign_core::{Digest, ImpactClass, Timestamp};
use countersign_keys::VerifyingKey;

use crate::key_scope::KeyScope;
use crate::keyring_file;
use crate::keyring_file::{KeyringError, WireKey};

/// Whose signatures count as evidence: public keys under ids, with expiry, scope and revocation. Immutable.
///
/// A key of it is a canonical point of the prime-order group; a file with any other is refused as a whole, unless that key is
/// revoked or expired. An empty keyring verifies nothing.
///
/// It does not say who may change the file: that is as strong as the folder that it lies in.
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
    /// Weak keys that are revoked or had expired when the file was read. None of them is ever handed out.
    pub(crate) inactive: BTreeMap<Box<str>, InactiveKey>,
    pub(crate) revoked_ids: BTreeSet<Box<str>>,
    pub(crate) revoked_fingerprints: BTreeSet<[u8; 32]>,
    pub(crate) thresholds: BTreeMap<ImpactClass, usize>,
}

impl EvidenceKeyring {
    /// Reads a keyring's file: the reference's format, `{"trusted_keys": {..}, "revoked_keys": [..]}` or just ids and
    /// keys, and in the first form also `revoked_fingerprints` and `thresholds`.
    ///
    /// A key is 64 hexadecimal digits, base64 or PEM, alone or as `public_key` of an object that may state
    /// `expires_at`, `not_before` (RFC 3339, UTC where it has no offset), `tools`, `servers`, `impacts` and `principals`.
    /// At most 1 MiB and 4,096 keys.
    ///
    /// A revoked fingerprint is [`VerifyingKey::fingerprint`]: a framed digest, and not the bare SHA-256 of the key. A file
    /// that lists the latter of one of its keys is refused, as it would revoke nothing.
    ///
    /// No key counts as expired here, as the time is not known: [`from_json_at`](Self::from_json_at) is what a start has.
    ///
    /// # Errors
    /// [`KeyringError`]; a file with one fault is refused as a whole.
    pub fn from_json(json: &[u8]) -> Result<Self, KeyringError> {
        keyring_file::read_keyring(json, None)
    }

    /// As [`from_json`](Self::from_json), for use from `now` on: a threshold must be met by keys that are neither revoked nor
    /// expired, and a weak key that is either is read as inactive.
    ///
    /// # Errors
    /// [`KeyringError`]; a file with one fault is refused as a whole.
    pub fn from_json_at(json: &[u8], now: Timestamp) -> Result<Self, KeyringError> {
        keyring_file::read_keyring(json, Some(now))
    }

    /// A keyring without keys: no signature verifies under it.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Writes the file; the same keyring is always the same bytes.
    #[must_use]
    pub fn to_json(&self) -> String {
        keyring_file::write_keyring(self)
    }

    /// How many keys it has, active or not, without the weak ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Says whether it has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Ids of the weak keys that are revoked or expired, in their order.
    pub fn weak_ids(&self) -> impl Iterator<Item = &str> {
        self.inactive.keys().map(|id| &**id)
    }

    /// The keys with their ids, in the order of the ids, active or not, without the weak ones.
    #[must_use]
    pub fn keys(&self) -> impl ExactSizeIterator<Item = (&str, &EvidenceKey)> {
        self.keys.iter().map(|(id, key)| (&**id, key))
    }

    /// Says what holds for an id now. Ids are compared as they are.
    #[must_use]
    pub fn status(&self, id: &str, now: Timestamp) -> KeyStatus {
        self.look_up(id, now).1
    }

    /// The key of that id, if its signatures count now.
    #[must_use]
    pub fn active(&self, id: &str, now: Timestamp) -> Option<&EvidenceKey> {
        self.look_up(id, now).0
    }

    /// How many distinct keys must have signed for an impact: 1 where the file says nothing. What it states is asked for
    /// whatever the impact; what it does not state, only where the impact is high.
    #[must_use]
    pub fn threshold(&self, impact: ImpactClass) -> usize {
        self.stated_threshold(impact).unwrap_or(1)
    }

    /// The thresholds that the file states, in the order of the impacts.
    pub fn thresholds(&self) -> impl Iterator<Item = (ImpactClass, usize)> {
        self.thresholds.iter().map(|(impact, count)| (*impact, *count))
    }

    /// How many keys the file asks for, where it says something of the impact. A stated 1 is asked for as well.
    pub(crate) fn stated_threshold(&self, impact: ImpactClass) -> Option<usize> {
        self.thresholds.get(&impact).copied()
    }

    /// A key is handed out with the status `Ok` and with no other.
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

/// One key of a keyring, with what it may sign for and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvidenceKey {
    pub(crate) key: VerifyingKey,
    /// Kept, as every look-up needs it.
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

    /// The first moment at which it no longer counts. One before 1970 is given as 1970: expired at any time.
    #[must_use]
    pub const fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// The first moment at which it counts.
    #[must_use]
    pub const fn not_before(&self) -> Option<Timestamp> {
        self.not_before
    }

    /// What it may sign for.
    #[must_use]
    pub const fn scope(&self) -> &KeyScope {
        &self.scope
    }
}

/// A weak key that can never be used, as the file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InactiveKey {
    pub(crate) wire: WireKey,
    /// Revoked or expired.
    pub(crate) status: KeyStatus,
}

/// What holds for a key id at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyStatus {
    /// Its signatures count.
    Ok,
    /// The keyring does not know it.
    Missing,
    /// It is revoked, by its id or by the fingerprint of its key.
    Revoked,
    /// Its time is over.
    Expired,
    /// Its time has not begun.
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
