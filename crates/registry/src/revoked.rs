use std::collections::BTreeSet;

use countersign_core::{AgentId, Digest, KeyId};

use crate::content::{ContentError, ContentProblem};
use crate::fields::{check_count, distinct};

/// Most agents, keys or snapshots that one registry can revoke.
const MAX_REVOKED: usize = 16_384;

/// Prefix of the ids of Ed25519 keys. The rest is derived from the key.
const DERIVED_ID: &str = "ed25519:";

/// Revoked agents, keys (operators' and approvers' alike) and snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked {
    pub(crate) agents: BTreeSet<AgentId>,
    pub(crate) keys: BTreeSet<KeyId>,
    /// Digests as bytes, which are ordered. They are not secret, so the comparison need not take constant time.
    pub(crate) snapshots: BTreeSet<[u8; 32]>,
}

impl Revoked {
    pub(crate) const fn none() -> Self {
        Self { agents: BTreeSet::new(), keys: BTreeSet::new(), snapshots: BTreeSet::new() }
    }

    /// Revoked agents.
    #[must_use]
    pub const fn agents(&self) -> &BTreeSet<AgentId> {
        &self.agents
    }

    /// Ids of the revoked keys.
    #[must_use]
    pub const fn keys(&self) -> &BTreeSet<KeyId> {
        &self.keys
    }

    /// Digests of the revoked snapshots.
    pub fn snapshots(&self) -> impl Iterator<Item = Digest> {
        self.snapshots.iter().map(|bytes| Digest::from_bytes(*bytes))
    }

    /// Returns `true` if a snapshot is revoked.
    #[must_use]
    pub fn has_snapshot(&self, digest: &Digest) -> bool {
        self.snapshots.contains(digest.as_bytes())
    }

    pub(crate) fn add_snapshot(&mut self, digest: &Digest) {
        self.snapshots.insert(*digest.as_bytes());
    }
}

/// Revocations in the draft format.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RevokedFields {
    #[serde(default)]
    agents: Vec<AgentId>,
    #[serde(default)]
    keys: Vec<KeyId>,
    #[serde(default)]
    snapshots: Vec<Digest>,
}

impl TryFrom<RevokedFields> for Revoked {
    type Error = ContentError;

    fn try_from(fields: RevokedFields) -> Result<Self, ContentError> {
        check_count("/agents", "revoked agents", fields.agents.len(), MAX_REVOKED)?;
        check_count("/keys", "revoked keys", fields.keys.len(), MAX_REVOKED)?;
        check_count("/snapshots", "revoked snapshots", fields.snapshots.len(), MAX_REVOKED)?;
        for (index, key) in fields.keys.iter().enumerate() {
            if !is_key_id(key) {
                return Err(ContentError::new(format!("/keys/{index}"), ContentProblem::KeyId));
            }
        }
        let snapshots = fields.snapshots.iter().map(|digest| *digest.as_bytes()).collect();
        Ok(Self {
            agents: distinct("/agents", fields.agents)?,
            keys: distinct("/keys", fields.keys)?,
            snapshots: distinct("/snapshots", snapshots)?,
        })
    }
}

impl From<&Revoked> for RevokedFields {
    fn from(revoked: &Revoked) -> Self {
        Self {
            agents: revoked.agents.iter().cloned().collect(),
            keys: revoked.keys.iter().cloned().collect(),
            snapshots: revoked.snapshots().collect(),
        }
    }
}

/// Returns `false` for an id that starts like a derived one and is misspelled: it would silently revoke no key.
pub(crate) fn is_key_id(key: &KeyId) -> bool {
    key.as_str().strip_prefix(DERIVED_ID).is_none_or(|digits| {
        digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    })
}
