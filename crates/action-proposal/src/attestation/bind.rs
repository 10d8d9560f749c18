use countersign_canonical_json::ValueRef;
use countersign_core::{Digest, Millis, SpentId, Timestamp};
use countersign_keys::VerifyingKey;

use super::members::Members;
use super::{AttestationRules, Broken, SingleUse};
use crate::entry::SignatureEntry;
use crate::keyring::EvidenceKey;
use crate::{ActionProposal, Profile, ProposedCall};

/// Domain label of the spent set's id: one attestation is the nonce of one key.
const SPENT_LABEL: &str = "countersign/attestation-1";

/// How long a nonce is, in bytes.
const NONCE_BYTES: std::ops::RangeInclusive<usize> = 16..=128;

/// Says whether a nonce is 16 to 128 visible ASCII characters.
pub(super) fn is_nonce(nonce: &str) -> bool {
    NONCE_BYTES.contains(&nonce.len()) && nonce.bytes().all(|b| b.is_ascii_graphic())
}

/// Holds a signed attestation against the proposal, and under the strict profile against the call. Gives what makes it
/// good for one call only; nothing under the other profiles, which let it be used again.
pub(super) fn check(
    object: ValueRef<'_>,
    entry: &SignatureEntry,
    key: &EvidenceKey,
    proposal: &ActionProposal,
    call: &ProposedCall<'_>,
    rules: &AttestationRules<'_>,
    now: Timestamp,
) -> Result<Option<SingleUse>, Broken> {
    let members = Members::of(object);
    let strict = rules.profile == Profile::Strict;
    bind_to_proposal(&members, proposal)?;
    if strict || members.intent_digest.is_there() {
        members.intent_digest.must_be_digest(proposal.intent_digest())?;
    }
    if !strict {
        let expires = members.expires_at;
        // The reference lets the last moment itself pass.
        if expires.is_there() && expires.end()? < now {
            return Err(expires.broken("must not be over"));
        }
        return Ok(None);
    }
    if members.unknown {
        return Err(Broken::new("payload", "must have no other members than those that are compared"));
    }
    members.audience.must_be(rules.audience.map(AsRef::as_ref))?;
    let (issued, keep_until) = check_times(&members, rules, now)?;
    bind_to_call(&members, call)?;
    members.files.must_be_files(&proposal.hash_entries().collect::<Vec<_>>())?;
    members.evidence_id.must_be(Some(&entry.id))?;
    members.key_id.must_be(Some(&entry.key_id))?;
    let nonce = members.nonce.text()?;
    if !is_nonce(nonce) {
        return Err(members.nonce.broken("must be 16 to 128 visible ASCII characters"));
    }
    let expires = key.expires.map_or(keep_until, |end| keep_until.min(end));
    Ok(Some(SingleUse { spent: spent_id(&key.key, nonce), issued, expires, keep_until }))
}

fn spent_id(key: &VerifyingKey, nonce: &str) -> SpentId {
    SpentId::new(Digest::framed(SPENT_LABEL).field(key.as_bytes()).field(nonce.as_bytes()).finish())
}

/// What every profile compares.
fn bind_to_proposal(members: &Members<'_>, proposal: &ActionProposal) -> Result<(), Broken> {
    members.tool.must_be(Some(proposal.tool()))?;
    members.impact.must_be(Some(proposal.impact().as_str()))?;
    members.provenance_ids.must_be_list(proposal.provenance().iter().map(|input| input.id()))?;
    members.args_digest.must_be_digest(proposal.args_digest())?;
    members.claims_digest.must_be_digest(proposal.claims_digest())
}

/// Fresh, and not for ever: gives the time of issue, and the first moment at which it would be over, or older than it may be.
fn check_times(
    members: &Members<'_>,
    rules: &AttestationRules<'_>,
    now: Timestamp,
) -> Result<(Timestamp, Timestamp), Broken> {
    let issued = members.issued_at.moment()?;
    let expires = members.expires_at.end()?;
    if issued > now.saturating_add(rules.skew) {
        return Err(members.issued_at.broken("must not lie ahead"));
    }
    if now.since(issued) > rules.max_age {
        return Err(members.issued_at.broken("must not be longer ago than the gate allows"));
    }
    if expires <= issued {
        return Err(members.expires_at.broken("must be after the time of issue"));
    }
    if now >= expires {
        return Err(members.expires_at.broken("must not be over"));
    }
    let too_old = issued.saturating_add(rules.max_age).saturating_add(Millis::from_millis(1));
    Ok((issued, expires.min(too_old)))
}

fn bind_to_call(members: &Members<'_>, call: &ProposedCall<'_>) -> Result<(), Broken> {
    members.call_id.must_be(call.call_id.map(AsRef::as_ref))?;
    members.principal.must_be(call.principal.map(AsRef::as_ref))?;
    members.agent.must_be(call.agent.map(AsRef::as_ref))?;
    members.session.must_be(call.session.map(AsRef::as_ref))?;
    members.server.must_be(call.server.map(AsRef::as_ref))?;
    members.registry_version.must_be_number(call.registry_version)?;
    members.ask.must_be_digest_if_any(call.ask)?;
    members.plan_root.must_be_digest_if_any(call.plan)
}
