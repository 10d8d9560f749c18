use countersign_canonical_json::{Canonical, Limits, Recipe, ValueRef, read};
use countersign_core::Timestamp;
use countersign_keys::dsse::Envelope;
use countersign_keys::{SigningKey, TrustRoot, VerifyingKey};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::entry::EndorsedDigest;
use super::error::EndorsementError;

/// Payload type that endorsed digests are signed under.
const PAYLOAD_TYPE: &str = "application/vnd.countersign.evidence-digests+json";

/// Name of the format, in a draft and in a signed payload.
const FORMAT: &str = "countersign-evidence-digests-1";

/// Most digests in one envelope.
const MAX_DIGESTS: usize = 4_096;

/// Largest list, in bytes: room for every digest with a scope of its own.
const MAX_BYTES: usize = 4 << 20;

/// Largest payload in base64, with room for the signatures.
const MAX_ENVELOPE_BYTES: usize = MAX_BYTES / 3 * 4 + (64 << 10);

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

/// List with verified signatures.
pub(super) struct OpenedList {
    pub(super) payload: Canonical,
    pub(super) signers: Vec<VerifyingKey>,
}

pub(super) fn open(
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

/// Reads a list and its entries, in order.
pub(super) fn read_list(value: ValueRef<'_>) -> Result<(WireList, Vec<EndorsedDigest>), EndorsementError> {
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

fn json_limits() -> Limits {
    // INVARIANT: below the reader's hard cap. If not, the tighter default applies and refuses.
    Limits::default().bytes(MAX_BYTES).unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireList {
    #[expect(dead_code, reason = "compared before, but it has to be there")]
    format: String,
    pub(super) issued: Timestamp,
    pub(super) expires: Timestamp,
    #[expect(dead_code, reason = "entries are read from the value itself")]
    digests: Vec<IgnoredAny>,
}
