//! Lists of digests that operators endorse.

mod bounds;
mod entry;

use std::collections::BTreeMap;

use countersign_canonical_json::{Canonical, JsonError, Limits, Recipe, ValueRef, read};
use countersign_core::{Digest, ImpactClass, Millis, Principal, ServerName, Timestamp};
use countersign_keys::dsse::{Envelope, EnvelopeError};
use countersign_keys::{SigningKey, TrustRoot, VerifyingKey};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

pub use bounds::{ArgBound, ArgRule, BoundArgs};
pub use entry::{EndorsedDigest, SpentEndorsement};
pub(crate) use entry::{EndorsedUses, Unbacked};

/// Payload type that endorsed digests are signed under.
const PAYLOAD_TYPE: &str = "application/vnd.countersign.evidence-digests+json";

/// Name of the format, in a draft and in a signed payload.
const FORMAT: &str = "countersign-evidence-digests-1";

/// Most digests in one envelope.
const MAX_DIGESTS: usize = 4_096;

/// Largest list, in bytes: room for every digest with a scope of its own.
const MAX_BYTES: usize = 4 << 20;

/// Allowed lead of the signer's clock.
const SKEW: Millis = Millis::from_secs(60);

/// Failure to sign or load a list of endorsed digests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndorsementError {
    /// The envelope is too large, malformed, of another type, or lacks signatures of trusted keys.
    #[error("the envelope of endorsed digests is refused")]
    Envelope(#[source] EnvelopeError),
    /// The list exceeds the limit of bytes.
    #[error("the list of endorsed digests is longer than {max} bytes")]
    TooLarge {
        /// Largest list, in bytes.
        max: usize,
    },
    /// The list is not strict JSON.
    #[error("the list of endorsed digests is not strict JSON")]
    Json(#[source] JsonError),
    /// The payload is not in canonical form, so two parsers could read different content.
    #[error("the list of endorsed digests is not canonical JSON")]
    NotCanonical,
    /// The list is of another format or version.
    #[error("the list is not in format `countersign-evidence-digests-1`")]
    Format,
    /// A member is missing, unknown or of another type.
    #[error("the list of endorsed digests is malformed")]
    Malformed,
    /// The list has too many digests.
    #[error("a list has at most {max} digests")]
    TooMany {
        /// Most digests.
        max: usize,
    },
    /// A scope is empty, repeats a name, or contains an impossible one.
    #[error("the scope of a digest is not a list of distinct names")]
    Scope,
    /// The bounds of a digest are empty or more than 64, a bound is not a rule for a place in the arguments, two
    /// bounds have the same place, or the entry states exact arguments too.
    #[error(
        "the bounds of a digest are 1 to 64 distinct places in the arguments, each with a value, or with a least or a most"
    )]
    Bounds,
    /// The number of uses is 0 or above 100.
    #[error("a digest has 1 to 100 uses")]
    Uses,
    /// A digest that binds arguments or counts its uses does not state its own times.
    #[error("a digest that binds arguments or states its uses has to state `issued` and `expires` itself")]
    NoTimes,
    /// The list or an entry ends before it begins, or an entry is issued after its list.
    #[error("the list of endorsed digests ends before it begins, or a digest of it begins later")]
    Times,
    /// The list was issued in the future.
    #[error("the list of endorsed digests is not valid yet")]
    NotYetValid,
    /// The list has expired.
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
            Self::Bounds => "ENDORSEMENT_BOUNDS",
            Self::Uses => "ENDORSEMENT_USES",
            Self::NoTimes => "ENDORSEMENT_NO_TIMES",
            Self::Times => "ENDORSEMENT_TIMES",
            Self::NotYetValid => "ENDORSEMENT_NOT_YET_VALID",
            Self::Expired => "ENDORSEMENT_EXPIRED",
        }
    }
}

/// Draft of a list of endorsed digests, checked but not signed.
#[derive(Clone, Debug)]
pub struct EndorsementDraft {
    payload: String,
    entries: Vec<EndorsedDigest>,
}

impl EndorsementDraft {
    /// Reads a draft: `{"format": "countersign-evidence-digests-1", "issued": ms, "expires": ms, "digests":
    /// [entry]}`. Times are milliseconds since 1970.
    ///
    /// An entry needs only its `sha256`. `tools`, `servers`, `impacts` and `principals`, each a list, limit its
    /// scope, and `expires` its time. It binds a call's arguments by `args`, the digest of their canonical form, or
    /// by `bounds`: `[{"pointer": "/to", "equals": value}, {"pointer": "/amount", "min": number, "max": number}]`,
    /// where one of the two numbers may be omitted. `uses` is the number of calls that it backs: by default one if it
    /// binds arguments, and unlimited otherwise. An entry with counted uses must state `issued` and `expires` itself.
    ///
    /// # Errors
    /// [`EndorsementError`] if the signed list could not be loaded.
    pub fn from_json(json: &[u8]) -> Result<Self, EndorsementError> {
        if json.len() > MAX_BYTES {
            return Err(EndorsementError::TooLarge { max: MAX_BYTES });
        }
        let canonical = read(json, Recipe::Jcs1, &json_limits()).map_err(EndorsementError::Json)?;
        let (_, entries) = read_list(canonical.value())?;
        Ok(Self { payload: canonical.as_str().to_owned(), entries })
    }

    /// Adds the entries of an earlier list that have not expired at the issue of this one. They stay unchanged, so
    /// spent uses stay spent. An entry without an expiry gets the one of its list.
    ///
    /// # Errors
    /// [`EndorsementError`] if the earlier list is not signed by the root's keys or has expired, or the combined list
    /// is invalid.
    pub fn carry_over(self, envelope: &[u8], root: &TrustRoot) -> Result<Self, EndorsementError> {
        let earlier = open(envelope, root, &|_| false)?;
        let (earlier_list, _) = read_list(earlier.payload.value())?;
        let own =
            read(self.payload.as_bytes(), Recipe::Jcs1, &json_limits()).map_err(EndorsementError::Json)?;
        let (list, _) = read_list(own.value())?;
        if earlier_list.expires <= list.issued {
            return Err(EndorsementError::Expired);
        }
        let texts = own.value().get("digests").into_iter().flat_map(ValueRef::elements);
        let mut texts: Vec<_> = texts.map(ValueRef::canonical_text).collect();
        for entry in earlier.payload.value().get("digests").into_iter().flat_map(ValueRef::elements) {
            let text = entry.canonical_text();
            let own_end = entry.get("expires").and_then(ValueRef::as_u64);
            if own_end.unwrap_or(earlier_list.expires.as_millis()) <= list.issued.as_millis() {
                continue;
            }
            texts.push(match text.strip_suffix('}').filter(|_| own_end.is_none()) {
                Some(open) => format!(r#"{open},"expires":{}}}"#, earlier_list.expires.as_millis()),
                None => text,
            });
        }
        let (issued, expires) = (list.issued.as_millis(), list.expires.as_millis());
        let digests = texts.join(",");
        let whole =
            format!(r#"{{"digests":[{digests}],"expires":{expires},"format":"{FORMAT}","issued":{issued}}}"#);
        Self::from_json(whole.as_bytes())
    }

    /// Entries to be signed, in order.
    #[must_use]
    pub fn entries(&self) -> &[EndorsedDigest] {
        &self.entries
    }

    /// Signs the list with each of the keys.
    #[must_use]
    pub fn to_envelope(&self, keys: &[&SigningKey]) -> Envelope {
        Envelope::sign(PAYLOAD_TYPE, self.payload.as_bytes(), keys)
    }
}

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

    /// Returns the uses of which a call backed by this file takes one; empty if an entry counts any number of times.
    /// If a scope matches and no entry backs the call, the error states the reason.
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

    /// Returns whether enough of its signing keys are still not revoked. A caller that keeps a list longer than one
    /// call must ask this at every call.
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

/// List with verified signatures.
struct OpenedList {
    payload: Canonical,
    signers: Vec<VerifyingKey>,
}

fn open(
    envelope: &[u8],
    root: &TrustRoot,
    revoked: &dyn Fn(&VerifyingKey) -> bool,
) -> Result<OpenedList, EndorsementError> {
    let envelope = Envelope::from_json(envelope, MAX_ENVELOPE_BYTES).map_err(EndorsementError::Envelope)?;
    let verified = envelope.verify(PAYLOAD_TYPE, root, revoked).map_err(EndorsementError::Envelope)?;
    let payload = read(verified.payload(), Recipe::Jcs1, &json_limits()).map_err(EndorsementError::Json)?;
    if payload.bytes() != verified.payload() {
        return Err(EndorsementError::NotCanonical);
    }
    let signers = signers(&envelope, root, revoked, verified.signers());
    Ok(OpenedList { payload, signers })
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

/// Reads a list and its entries, in order.
fn read_list(value: ValueRef<'_>) -> Result<(WireList, Vec<EndorsedDigest>), EndorsementError> {
    let format = value.get("format").and_then(ValueRef::as_str);
    if format.is_some_and(|format| format != FORMAT) {
        return Err(EndorsementError::Format);
    }
    // Counted before it is built.
    let digests = value.get("digests");
    if digests.is_some_and(|digests| digests.len() > MAX_DIGESTS) {
        return Err(EndorsementError::TooMany { max: MAX_DIGESTS });
    }
    let wire = WireList::deserialize(value).map_err(|_| EndorsementError::Malformed)?;
    if wire.expires <= wire.issued {
        return Err(EndorsementError::Times);
    }
    let entries = digests.into_iter().flat_map(ValueRef::elements);
    let entries = entries.map(|entry| EndorsedDigest::read(entry, wire.issued)).collect::<Result<_, _>>()?;
    Ok((wire, entries))
}

/// Returns every key of the root that signed. why: verification stops at the threshold, and if one key is revoked
/// later, enough others may remain.
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

/// Largest payload in base64, with room for the signatures.
const MAX_ENVELOPE_BYTES: usize = MAX_BYTES / 3 * 4 + (64 << 10);

fn json_limits() -> Limits {
    // INVARIANT: below the reader's hard cap. If not, the tighter default applies and refuses.
    Limits::default().with_max_bytes(MAX_BYTES).unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WireList {
    #[expect(dead_code, reason = "compared before, but it has to be there")]
    format: String,
    issued: Timestamp,
    expires: Timestamp,
    #[expect(dead_code, reason = "entries are read from the value itself")]
    digests: Vec<IgnoredAny>,
}

/// Reads an optional member that is present. why: `null` is refused, as `null` in place of a limit would lift it.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
