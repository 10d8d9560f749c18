//! Signature entries: what was signed, by whom, and whether it was signed for this very call.

mod bind;
mod draft;
mod members;

use countersign_canonical_json::{Canonical, JsonErrorKind, Limits, Recipe, read};
use countersign_core::{Audience, Digest, ImpactClass, Millis, SpentId, Timestamp, is_hidden};
use countersign_keys::{Signature, VerifyingKey};

use crate::entry::SignatureEntry;
use crate::keyring::{EvidenceKey, EvidenceKeyring, KeyStatus};
use crate::verified::Content;
use crate::{ActionProposal, Profile, ProposedCall};

pub use draft::{AttestError, AttestationDraft, SignedAttestation};

/// The one version of the attestation object (PIC/1.0, *Evidence*, section 6).
pub const ATTESTATION_VERSION: &str = "PIC-ATT/1.0";

/// The member that makes a payload an attestation object.
const VERSION_MEMBER: &str = "attestation_version";

/// What signature entries are judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttestationRules<'a> {
    pub(crate) profile: Profile,
    pub(crate) keyring: &'a EvidenceKeyring,
    /// Who this gate is. Without it no attestation can be meant for it.
    pub(crate) audience: Option<&'a Audience>,
    pub(crate) skew: Millis,
    pub(crate) max_age: Millis,
    pub(crate) payload_bytes: usize,
    /// What the policy says of the tool.
    pub(crate) listed: Option<ImpactClass>,
}

/// A rule that an entry breaks, and where in the entry. Never a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// The entry's member, or `payload/` and the member of the signed object.
    pub(crate) place: &'static str,
    pub(crate) rule: &'static str,
}

impl Broken {
    const fn new(place: &'static str, rule: &'static str) -> Self {
        Self { place, rule }
    }
}

/// A signature that verified, for this call as far as the profile asks.
#[derive(Debug)]
pub(crate) struct VerifiedSignature {
    pub(crate) signed: Content,
    pub(crate) key: VerifyingKey,
    pub(crate) key_id: Box<str>,
    /// The use that its nonce allows. None without a nonce, which the strict profile refuses.
    pub(crate) attestation: Option<SingleUse>,
}

/// What the spent set knows an attestation by, and until when it counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SingleUse {
    pub(crate) spent: SpentId,
    /// When it was issued.
    pub(crate) issued: Timestamp,
    /// The first moment at which it does not verify: its own end, its key's, or that of the age that it may have.
    pub(crate) expires: Timestamp,
    /// How long its use has to be remembered. A key's end does not shorten it, as operators prolong keys.
    pub(crate) keep_until: Timestamp,
}

/// Verifies one signature entry: size, mode, key, signature, and then what was signed, member by member. Nothing of the
/// payload but its mode is looked at before the signature holds.
///
/// The key must be allowed every impact that somebody states: the proposal's, the call's and the policy's.
pub(crate) fn verify_entry(
    entry: &SignatureEntry,
    proposal: &ActionProposal,
    call: &ProposedCall<'_>,
    rules: &AttestationRules<'_>,
    now: Timestamp,
) -> Result<VerifiedSignature, Broken> {
    let payload = Payload::read(&entry.payload, rules.payload_bytes)?;
    if rules.profile == Profile::Strict && matches!(payload, Payload::Opaque(_)) {
        return Err(Broken::new("payload", "must be an attestation object"));
    }
    let key = active_key(entry, rules, now)?;
    check_scope(key, proposal, call, rules.listed)?;
    let signature = Signature::from_base64(&entry.signature).map_err(|_| {
        Broken::new("signature", "must be 64 bytes in standard base64, in their one spelling")
    })?;
    let invalid = |_| Broken::new("signature", "must be the key's over the payload");
    key.key.verify(payload.signed_bytes(), &signature).map_err(invalid)?;

    let attestation = match &payload {
        Payload::Opaque(_) => None,
        Payload::Attestation(object) => bind::check(object.value(), entry, key, proposal, call, rules, now)?,
    };
    Ok(VerifiedSignature {
        signed: payload.into_content(),
        key: key.key,
        key_id: entry.key_id.clone(),
        attestation,
    })
}

/// What a payload is, and so which bytes were signed.
enum Payload<'a> {
    /// An attestation object: its canonical form was signed, however it is spelled.
    Attestation(Canonical),
    /// Anything else: the text was signed as it is.
    Opaque(&'a str),
}

impl<'a> Payload<'a> {
    /// Decides which. What could be taken for an object by another reader is never taken for opaque text: that would make
    /// a signed object with a fault into one that nobody looks into.
    fn read(text: &'a str, most: usize) -> Result<Self, Broken> {
        if text.len() > most {
            return Err(Broken::new("payload", "must have no more bytes than the limit"));
        }
        // The widest limits are enough: what is read is no longer than the payload may be.
        let object = match read(text.as_bytes(), Recipe::PicCjson1, &Limits::hard_caps()) {
            Ok(object) => object,
            Err(error) => {
                let too_much = matches!(
                    error.kind(),
                    JsonErrorKind::TooLarge | JsonErrorKind::TooDeep | JsonErrorKind::TooWide
                );
                if too_much || looks_like_object(text) {
                    return Err(Broken::new("payload", "must be strict JSON where it begins as an object"));
                }
                return Ok(Self::Opaque(text));
            }
        };
        let Some(version) = object.value().get(VERSION_MEMBER) else {
            return Ok(Self::Opaque(text));
        };
        if version.as_str() != Some(ATTESTATION_VERSION) {
            return Err(Broken::new("payload/attestation_version", "must be `PIC-ATT/1.0`"));
        }
        // Canonical numbers can be longer than those that were written.
        if object.bytes().len() > most {
            return Err(Broken::new("payload", "must have no more bytes than the limit in canonical form"));
        }
        Ok(Self::Attestation(object))
    }

    fn signed_bytes(&self) -> &[u8] {
        match self {
            Self::Attestation(object) => object.bytes(),
            Self::Opaque(text) => text.as_bytes(),
        }
    }

    fn into_content(self) -> Content {
        match self {
            Self::Attestation(object) => Content::Attestation(object),
            Self::Opaque(text) => Content::Opaque(Digest::of(text.as_bytes())),
        }
    }
}

/// Blanks are taken widely, with a byte order mark among them.
fn looks_like_object(text: &str) -> bool {
    text.trim_start_matches(|c: char| c.is_whitespace() || is_hidden(c)).starts_with('{')
}

fn active_key<'k>(
    entry: &SignatureEntry,
    rules: &AttestationRules<'k>,
    now: Timestamp,
) -> Result<&'k EvidenceKey, Broken> {
    let (key, status) = rules.keyring.look_up(&entry.key_id, now);
    key.ok_or(Broken::new(
        "key_id",
        match status {
            KeyStatus::Revoked => "must not be revoked",
            KeyStatus::Expired => "must not have expired",
            KeyStatus::NotYetValid => "must be valid already",
            KeyStatus::Ok | KeyStatus::Missing => "must be in the keyring",
        },
    ))
}

fn check_scope(
    key: &EvidenceKey,
    proposal: &ActionProposal,
    call: &ProposedCall<'_>,
    listed: Option<ImpactClass>,
) -> Result<(), Broken> {
    let impacts = [Some(proposal.impact()), call.impact, listed];
    if !key.scope.allows_tool(proposal.tool()) {
        return Err(Broken::new("key_id", "must be a key for this tool"));
    }
    if !key.scope.allows_server(call.server) {
        return Err(Broken::new("key_id", "must be a key for this server"));
    }
    if !impacts.into_iter().flatten().all(|impact| key.scope.allows_impact(impact)) {
        return Err(Broken::new("key_id", "must be a key for this impact"));
    }
    if !key.scope.allows_principal(call.principal) {
        return Err(Broken::new("key_id", "must be a key for this principal"));
    }
    Ok(())
}
