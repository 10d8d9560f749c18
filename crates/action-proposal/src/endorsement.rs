use std::collections::BTreeMap;

use countersign_canonical_json::{JsonError, Limits, Recipe, ValueRef, read};
use countersign_core::{Digest, ImpactClass, Millis, Principal, ServerName, Timestamp};
use countersign_keys::dsse::{Envelope, EnvelopeError};
use countersign_keys::{SigningKey, TrustRoot, VerifyingKey};
use serde::{Deserialize, Deserializer};

use crate::key_scope::{KeyScope, ScopeError};

/// The payload type that endorsed digests are signed under.
const PAYLOAD_TYPE: &str = "application/vnd.countersign.evidence-digests+json";

/// What a draft and a signed payload say that they are.
const FORMAT: &str = "countersign-evidence-digests-1";

/// The most digests of one envelope.
const MAX_DIGESTS: usize = 4_096;

/// The most bytes of an envelope: room for every digest with a scope of its own.
const MAX_BYTES: usize = 4 << 20;

/// How far the signer's clock may be ahead.
const SKEW: Millis = Millis::from_secs(60);

/// Why a list of endorsed digests cannot be signed or loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndorsementError {
    /// The envelope is too large, malformed, of another type, or not signed by enough trusted keys.
    #[error("the envelope of endorsed digests is refused")]
    Envelope(#[source] EnvelopeError),
    /// The list is over the limit of bytes.
    #[error("the list of endorsed digests is longer than {max} bytes")]
    TooLarge {
        /// The most bytes.
        max: usize,
    },
    /// The list is not strict JSON.
    #[error("the list of endorsed digests is not strict JSON")]
    Json(#[source] JsonError),
    /// What was signed is not in canonical form, so that two readers could see two things.
    #[error("the list of endorsed digests is not canonical JSON")]
    NotCanonical,
    /// The list is of another format, or of another version of this one.
    #[error("the list is not in format `countersign-evidence-digests-1`")]
    Format,
    /// A member is missing, unknown or of another type.
    #[error("the list of endorsed digests is malformed")]
    Malformed,
    /// There are too many digests.
    #[error("a list has at most {max} digests")]
    TooMany {
        /// The most digests.
        max: usize,
    },
    /// A scope is stated and empty, names something twice, or names something that cannot be.
    #[error("the scope of a digest is not a list of distinct names")]
    Scope,
    /// The list, or a digest of it, ends before it begins.
    #[error("the list of endorsed digests ends before it begins")]
    Times,
    /// The list was issued in the future.
    #[error("the list of endorsed digests is not valid yet")]
    NotYetValid,
    /// The list's time is over.
    #[error("the list of endorsed digests has expired")]
    Expired,
}

impl EndorsementError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Envelope(error) => error.code(),
            Self::TooLarge { .. } => "ENDORSEMENT_TOO_LARGE",
            Self::Json(error) => error.code(),
            Self::NotCanonical => "ENDORSEMENT_NOT_CANONICAL",
            Self::Format => "ENDORSEMENT_FORMAT",
            Self::Malformed => "ENDORSEMENT_MALFORMED",
            Self::TooMany { .. } => "ENDORSEMENT_TOO_MANY",
            Self::Scope => "ENDORSEMENT_SCOPE",
            Self::Times => "ENDORSEMENT_TIMES",
            Self::NotYetValid => "ENDORSEMENT_NOT_YET_VALID",
            Self::Expired => "ENDORSEMENT_EXPIRED",
        }
    }
}

/// A list of digests that an operator is about to sign, checked but not yet valid for anybody.
#[derive(Clone, Debug)]
pub struct EndorsementDraft {
    payload: String,
}

impl EndorsementDraft {
    /// Reads a draft: `{"format": "countersign-evidence-digests-1", "issued": ms, "expires": ms, "digests": [{"sha256": hex,
    /// "tools": [..], "servers": [..], "impacts": [..], "principals": [..], "expires": ms}]}`, where each entry needs only
    /// its digest. Times are milliseconds since 1970.
    ///
    /// # Errors
    /// [`EndorsementError`] when it could not be loaded once it is signed.
    pub fn from_json(json: &[u8]) -> Result<Self, EndorsementError> {
        if json.len() > MAX_BYTES {
            return Err(EndorsementError::TooLarge { max: MAX_BYTES });
        }
        let canonical = read(json, Recipe::Jcs1, &json_limits()).map_err(EndorsementError::Json)?;
        EndorsedDigests::read(canonical.value())?;
        Ok(Self { payload: canonical.as_str().to_owned() })
    }

    /// Signs it with each of the keys.
    #[must_use]
    pub fn to_envelope(&self, keys: &[&SigningKey]) -> Envelope {
        Envelope::sign(PAYLOAD_TYPE, self.payload.as_bytes(), keys)
    }
}

/// Digests of evidence files that an operator vouches for, each with what it may back and until when. Only what a
/// threshold of the operator's keys signed becomes one.
///
/// An endorsed digest backs any claim that cites it, of any proposal within its scope, any number of times, until it
/// expires: it says that the file is genuine, and not that it is for this call. Whoever means one payment signs an
/// attestation, or gives the digest a narrow scope and a short life.
///
/// It does not notice an older list that has not expired yet in place of a newer one ([`issued`](Self::issued) tells them
/// apart), so give lists short lives.
#[derive(Clone, Debug)]
pub struct EndorsedDigests {
    issued: Timestamp,
    expires: Timestamp,
    /// The root's keys that signed it, and how many of them must.
    signers: Vec<VerifyingKey>,
    threshold: usize,
    by_digest: BTreeMap<[u8; 32], Vec<EndorsedDigest>>,
}

impl EndorsedDigests {
    /// Reads a signed envelope: size, signatures under the root, form, content, times, in this order.
    ///
    /// # Errors
    /// [`EndorsementError`]; a list with one fault is refused as a whole.
    pub fn load(envelope: &[u8], root: &TrustRoot, now: Timestamp) -> Result<Self, EndorsementError> {
        Self::load_unless_revoked(envelope, root, &|_| false, now)
    }

    /// Does the same, and counts no signature of a key that the operator has revoked.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_unless_revoked(
        envelope: &[u8],
        root: &TrustRoot,
        revoked: &dyn Fn(&VerifyingKey) -> bool,
        now: Timestamp,
    ) -> Result<Self, EndorsementError> {
        let envelope =
            Envelope::from_json(envelope, MAX_ENVELOPE_BYTES).map_err(EndorsementError::Envelope)?;
        let verified = envelope.verify(PAYLOAD_TYPE, root, revoked).map_err(EndorsementError::Envelope)?;
        let payload = verified.payload();
        let canonical = read(payload, Recipe::Jcs1, &json_limits()).map_err(EndorsementError::Json)?;
        if canonical.bytes() != payload {
            return Err(EndorsementError::NotCanonical);
        }
        let mut list = Self::read(canonical.value())?;
        list.signers = signers(&envelope, root, revoked, verified.signers());
        list.threshold = root.threshold();
        if list.issued > now.saturating_add(SKEW) {
            return Err(EndorsementError::NotYetValid);
        }
        if now >= list.expires {
            return Err(EndorsementError::Expired);
        }
        Ok(list)
    }

    fn read(value: ValueRef<'_>) -> Result<Self, EndorsementError> {
        let format = value.get("format").and_then(ValueRef::as_str);
        if format.is_some_and(|format| format != FORMAT) {
            return Err(EndorsementError::Format);
        }
        // Counted before it is built.
        if value.get("digests").is_some_and(|digests| digests.len() > MAX_DIGESTS) {
            return Err(EndorsementError::TooMany { max: MAX_DIGESTS });
        }
        let wire = WireList::deserialize(value).map_err(|_| EndorsementError::Malformed)?;
        let mut list = Self {
            issued: wire.issued,
            expires: wire.expires,
            signers: Vec::new(),
            threshold: usize::MAX,
            by_digest: BTreeMap::new(),
        };
        if list.expires <= list.issued {
            return Err(EndorsementError::Times);
        }
        for entry in wire.digests {
            let scope = KeyScope::new(entry.tools, entry.servers, entry.impacts, entry.principals)
                .map_err(|ScopeError| EndorsementError::Scope)?;
            if entry.expires.is_some_and(|expires| expires <= list.issued) {
                return Err(EndorsementError::Times);
            }
            let endorsed = EndorsedDigest { digest: entry.sha256, scope, expires: entry.expires };
            list.by_digest.entry(*entry.sha256.as_bytes()).or_default().push(endorsed);
        }
        Ok(list)
    }

    /// What vouches for a digest, for a tool of a server, for all of these impacts and for a principal, now. A digest can
    /// stand in the list more than once, for different scopes.
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
        if now >= self.expires {
            return None;
        }
        self.by_digest.get(digest.as_bytes())?.iter().find(|entry| {
            entry.expires.is_none_or(|expires| now < expires)
                && entry.scope.allows_tool(tool)
                && entry.scope.allows_server(server)
                && impacts.iter().all(|impact| entry.scope.allows_impact(*impact))
                && entry.scope.allows_principal(principal)
        })
    }

    /// The operators' keys that signed it and were not revoked when it was loaded.
    #[must_use]
    pub fn signers(&self) -> &[VerifyingKey] {
        &self.signers
    }

    /// How many of the operators' keys must have signed it: the root's threshold when it was loaded.
    #[must_use]
    pub const fn threshold(&self) -> usize {
        self.threshold
    }

    /// Says whether enough of the keys that signed it are still not revoked. Whoever keeps a list longer than one call
    /// asks this at every call.
    #[must_use]
    pub fn still_counts(&self, revoked: &dyn Fn(&VerifyingKey) -> bool) -> bool {
        self.signers.iter().filter(|key| !revoked(key)).count() >= self.threshold
    }

    /// When it was issued.
    #[must_use]
    pub const fn issued(&self) -> Timestamp {
        self.issued
    }

    /// The first moment at which none of it counts.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// How many distinct digests it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_digest.len()
    }

    /// Says whether it has no digests.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }
}

/// A digest that an operator vouches for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndorsedDigest {
    digest: Digest,
    scope: KeyScope,
    expires: Option<Timestamp>,
}

impl EndorsedDigest {
    /// The SHA-256 of the file.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// What the file may back.
    #[must_use]
    pub const fn scope(&self) -> &KeyScope {
        &self.scope
    }

    /// The first moment at which it no longer counts, where it ends before the list does.
    #[must_use]
    pub const fn expires(&self) -> Option<Timestamp> {
        self.expires
    }
}

/// Every key of the root that signed, as an envelope names no more of them than the threshold: one that is revoked later
/// may leave enough others.
fn signers(
    envelope: &Envelope,
    root: &TrustRoot,
    revoked: &dyn Fn(&VerifyingKey) -> bool,
    named: &[VerifyingKey],
) -> Vec<VerifyingKey> {
    let signed = |key: &VerifyingKey| {
        TrustRoot::new(root.version(), 1, [*key])
            .is_ok_and(|alone| envelope.verify(PAYLOAD_TYPE, &alone, revoked).is_ok())
    };
    let others = root.keys().filter(|key| !named.contains(key) && signed(key));
    named.iter().chain(others).copied().collect()
}

/// The largest payload in base64, with room for the signatures.
const MAX_ENVELOPE_BYTES: usize = MAX_BYTES / 3 * 4 + (64 << 10);

fn json_limits() -> Limits {
    // INVARIANT: below the reader's hard cap; the default, which is tighter, would refuse and not let through.
    Limits::default().with_max_bytes(MAX_BYTES).unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireList {
    #[expect(dead_code, reason = "compared before, but it has to be there")]
    format: String,
    issued: Timestamp,
    expires: Timestamp,
    digests: Vec<WireDigest>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireDigest {
    sha256: Digest,
    #[serde(default, deserialize_with = "present")]
    tools: Option<Vec<String>>,
    #[serde(default, deserialize_with = "present")]
    servers: Option<Vec<ServerName>>,
    #[serde(default, deserialize_with = "present")]
    impacts: Option<Vec<ImpactClass>>,
    #[serde(default, deserialize_with = "present")]
    principals: Option<Vec<Principal>>,
    #[serde(default, deserialize_with = "present")]
    expires: Option<Timestamp>,
}

/// Reads a member that may be left out but not be `null`: a `null` where a limit should stand would lift it.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
