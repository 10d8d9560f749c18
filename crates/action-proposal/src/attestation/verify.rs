use countersign_canonical_json::{Canonical, JsonErrorKind, Limits, Recipe, read};
use countersign_core::{Digest, ImpactClass, Timestamp, is_hidden};
use countersign_keys::{Signature, VerifyingKey};

use super::bind::{self, AttestationRules};
use super::members::{ATTESTATION_VERSION, Broken, VERSION_MEMBER};
use crate::evidence::{Content, SingleUse};
use crate::keyring::EvidenceKey;
use crate::{ActionProposal, KeyStatus, Profile, ProposedCall, SignatureEntry};

/// Verified signature, bound to this call as far as the profile requires.
#[derive(Debug)]
pub(crate) struct VerifiedSignature {
    pub(crate) signed: Content,
    pub(crate) key: VerifyingKey,
    pub(crate) key_id: Box<str>,
    /// Single use of its nonce; `None` without a nonce, which the strict profile refuses.
    pub(crate) attestation: Option<SingleUse>,
}

/// Verifies one signature entry: size, mode, key, signature, then the signed members. Before the signature is
/// verified only the mode of the payload is read.
///
/// The key must allow every stated impact: the proposal's, the call's and the policy's.
pub(crate) fn verify_entry(
    entry: &SignatureEntry,
    proposal: &ActionProposal,
    call: &ProposedCall<'_>,
    rules: &AttestationRules<'_>,
    now: Timestamp,
) -> Result<VerifiedSignature, Broken> {
    let payload = EntryPayload::read(&entry.payload, rules.payload_bytes)?;
    if rules.profile == Profile::Strict && matches!(payload, EntryPayload::Opaque(_)) {
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
        EntryPayload::Opaque(_) => None,
        EntryPayload::Attestation(object) => {
            bind::check(object.value(), entry, key, proposal, call, rules, now)?
        }
    };
    Ok(VerifiedSignature {
        signed: payload.into_content(),
        key: key.key,
        key_id: entry.key_id.clone(),
        attestation,
    })
}

/// Payload of an entry. Its mode decides which bytes were signed.
enum EntryPayload<'a> {
    /// Attestation object. Its canonical form was signed, whatever its spelling.
    Attestation(Canonical),
    /// Any other text, signed as it is.
    Opaque(&'a str),
}

impl<'a> EntryPayload<'a> {
    /// Decides the mode. why: a text that another parser could take for an object is never opaque. Otherwise a fault
    /// in a signed object would hide it from every check.
    fn read(text: &'a str, most: usize) -> Result<Self, Broken> {
        if text.len() > most {
            return Err(Broken::new("payload", "must have no more bytes than the limit"));
        }
        // The hard caps suffice: the length was checked.
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
        // Canonical numbers can be longer than the received ones.
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

/// Whitespace includes invisible characters and the byte order mark.
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
