use std::collections::BTreeMap;

use countersign_canonical_json::ValueRef;
use countersign_core::{Digest, ImpactClass, Millis, Principal, ServerName, Timestamp};
use countersign_keys::{TrustRoot, VerifyingKey};

use super::entry::{EndorsedDigest, EndorsedUses, Unbacked};
use super::error::EndorsementError;
use super::list::{open, read_list};

/// Allowed lead of the signer's clock.
const SKEW: Millis = Millis::from_secs(60);

/// Digests of evidence files that operators endorse, with scope and expiry. Created only from a list signed by a
/// threshold of the operators' keys.
///
/// At the impacts money, privacy and irreversible an entry counts only for the arguments that it binds, and each call
/// takes one of its uses. Uses are spent like attestations, and the store counts them: gates that share a list but
/// not a store allow the full number each. At other impacts, an entry without arguments and uses backs any number of
/// claims that cite it, until it expires.
///
/// Does not detect an older unexpired list in place of a newer one ([`issued`](Self::issued) distinguishes them):
/// give lists short lifetimes.
#[derive(Clone, Debug)]
pub struct EndorsedDigests {
    issued: Timestamp,
    expires: Timestamp,
    /// Keys of the root that signed it, and the required number of them.
    signers: Vec<VerifyingKey>,
    threshold: usize,
    by_digest: BTreeMap<[u8; 32], Vec<EndorsedDigest>>,
}

impl EndorsedDigests {
    /// Loads a signed envelope. Checks in order: size, signatures under the root, form, content, times.
    ///
    /// # Errors
    /// [`EndorsementError`]; one fault refuses the whole list.
    pub fn load(envelope: &[u8], root: &TrustRoot, now: Timestamp) -> Result<Self, EndorsementError> {
        Self::load_unless_revoked(envelope, root, &|_| false, now)
    }

    /// Loads like [`load`](Self::load), and ignores signatures of revoked keys.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_unless_revoked(
        envelope: &[u8],
        root: &TrustRoot,
        revoked: &dyn Fn(&VerifyingKey) -> bool,
        now: Timestamp,
    ) -> Result<Self, EndorsementError> {
        let opened = open(envelope, root, revoked)?;
        let (wire, entries) = read_list(opened.payload.value())?;
        let mut list = Self {
            issued: wire.issued,
            expires: wire.expires,
            signers: opened.signers,
            threshold: root.threshold(),
            by_digest: BTreeMap::new(),
        };
        for entry in entries {
            list.by_digest.entry(*entry.digest().as_bytes()).or_default().push(entry);
        }
        if list.issued > now.saturating_add(SKEW) {
            return Err(EndorsementError::NotYetValid);
        }
        if now >= list.expires {
            return Err(EndorsementError::Expired);
        }
        Ok(list)
    }

    /// Returns the first entry whose scope includes this tool and server, all of these impacts and the principal,
    /// now. A list may contain a digest several times, with different scopes. Whether the entry backs a call also
    /// depends on the call's arguments and on its uses.
    #[must_use]
    pub fn find(
        &self,
        digest: &Digest,
        tool: &str,
        server: Option<&ServerName>,
        impacts: &[ImpactClass],
        principal: Option<&Principal>,
        now: Timestamp,
    ) -> Option<&EndorsedDigest> {
        self.of_digest(digest, now).find(|entry| entry.is_in_scope(tool, server, impacts, principal, now))
    }

    /// Returns the uses from which a call backed by this file takes one. They are empty if an entry counts any number of
    /// times. If a scope matches and no entry backs the call, the error states the reason.
    pub(crate) fn back(
        &self,
        digest: &Digest,
        call: &BackedCall<'_>,
    ) -> Result<EndorsedUses, Option<Unbacked>> {
        let BackedCall { tool, server, impacts, principal, args, args_digest, now } = *call;
        let in_scope = |entry: &&EndorsedDigest| entry.is_in_scope(tool, server, impacts, principal, now);
        let (mut uses, mut refused) = (Vec::new(), None);
        for entry in self.of_digest(digest, now).filter(in_scope) {
            match entry.back(args, args_digest, impacts, self.expires) {
                Ok(Some(counted)) => uses.push(counted),
                Ok(None) => return Ok(EndorsedUses::default()),
                Err(reason) => refused = refused.max(Some(reason)),
            }
        }
        if uses.is_empty() { Err(refused) } else { Ok(EndorsedUses(uses)) }
    }

    fn of_digest(&self, digest: &Digest, now: Timestamp) -> impl Iterator<Item = &EndorsedDigest> {
        let entries = if now < self.expires { self.by_digest.get(digest.as_bytes()) } else { None };
        entries.into_iter().flatten()
    }

    /// Returns every entry.
    pub fn entries(&self) -> impl Iterator<Item = &EndorsedDigest> {
        self.by_digest.values().flatten()
    }

    /// Operators' keys that signed it and were not revoked at loading.
    #[must_use]
    pub fn signers(&self) -> &[VerifyingKey] {
        &self.signers
    }

    /// Required number of operators' keys: the root's threshold at loading.
    #[must_use]
    pub const fn threshold(&self) -> usize {
        self.threshold
    }

    /// Returns whether enough of its signing keys are still not revoked. A caller that keeps a list for several calls
    /// must check this at every call.
    #[must_use]
    pub fn still_counts(&self, revoked: &dyn Fn(&VerifyingKey) -> bool) -> bool {
        self.signers.iter().filter(|key| !revoked(key)).count() >= self.threshold
    }

    /// Time of issue.
    #[must_use]
    pub const fn issued(&self) -> Timestamp {
        self.issued
    }

    /// First moment at which no entry counts.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// Number of distinct digests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_digest.len()
    }

    /// Returns `true` if it has no digests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }
}

/// Call that a file is to back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BackedCall<'a> {
    pub(crate) tool: &'a str,
    pub(crate) server: Option<&'a ServerName>,
    pub(crate) impacts: &'a [ImpactClass],
    pub(crate) principal: Option<&'a Principal>,
    pub(crate) args: ValueRef<'a>,
    pub(crate) args_digest: Digest,
    pub(crate) now: Timestamp,
}
