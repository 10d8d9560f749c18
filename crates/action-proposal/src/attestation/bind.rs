use countersign_canonical_json::ValueRef;
use countersign_core::{Audience, Digest, ImpactClass, Millis, SpentId, Timestamp};
use countersign_keys::VerifyingKey;

use super::members::{Broken, Member, ProposalMembers};
use crate::evidence::SingleUse;
use crate::keyring::EvidenceKey;
use crate::{ActionProposal, EvidenceKeyring, Profile, ProposedCall, SignatureEntry};

/// Domain label of the id in the spent set: one nonce of one key is one attestation.
const SPENT_LABEL: &str = "countersign/attestation-1";

/// Length of a nonce, in bytes.
const NONCE_BYTES: std::ops::RangeInclusive<usize> = 16..=128;

/// Rules for signature entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttestationRules<'a> {
    pub(crate) profile: Profile,
    pub(crate) keyring: &'a EvidenceKeyring,
    /// Audience of this gate. Without it no attestation can be for this gate.
    pub(crate) audience: Option<&'a Audience>,
    pub(crate) skew: Millis,
    pub(crate) max_age: Millis,
    pub(crate) payload_bytes: usize,
    /// Impact of the tool in the policy.
    pub(crate) listed: Option<ImpactClass>,
}

/// Returns whether a nonce is 16 to 128 visible ASCII characters.
pub(super) fn is_nonce(nonce: &str) -> bool {
    NONCE_BYTES.contains(&nonce.len()) && nonce.bytes().all(|b| b.is_ascii_graphic())
}

/// Compares a signed attestation with the proposal and the call. Returns the [`SingleUse`] of its nonce.
///
/// The strict profile requires every member. The others compare the members unknown to the reference (`x_...`) only
/// if stated, and allow any number of uses without a nonce.
pub(super) fn check(
    object: ValueRef<'_>,
    entry: &SignatureEntry,
    key: &EvidenceKey,
    proposal: &ActionProposal,
    call: &ProposedCall<'_>,
    rules: &AttestationRules<'_>,
    now: Timestamp,
) -> Result<Option<SingleUse>, Broken> {
    let members = ProposalMembers::of(object);
    let strict = rules.profile == Profile::Strict;
    let binds = |member: Member<'_>| strict || member.is_there();
    bind_to_proposal(&members, proposal)?;
    if binds(members.intent_digest) {
        members.intent_digest.must_be_digest(proposal.intent_digest())?;
    }
    if strict && members.unknown {
        return Err(Broken::new("payload", "must have no other members than those that are compared"));
    }
    // A restriction that cannot be compared cannot be enforced.
    if members.unknown_extension {
        return Err(Broken::new("payload", "must have no other `x_` members than those that are compared"));
    }
    let times = if binds(members.nonce) {
        // why: only one gate remembers a use, so another gate must not accept the nonce.
        if binds(members.audience) {
            members.audience.must_be(rules.audience.map(AsRef::as_ref))?;
        }
        Some(check_times(&members, rules, now)?)
    } else {
        check_end(members.expires_at, now)?;
        None
    };
    bind_to_call(&members, call, binds)?;
    if binds(members.files) {
        members.files.must_be_files(&proposal.hash_entries().collect::<Vec<_>>())?;
    }
    if binds(members.evidence_id) {
        members.evidence_id.must_be(Some(&entry.id))?;
    }
    if binds(members.key_id) {
        members.key_id.must_be(Some(&entry.key_id))?;
    }
    let Some((issued, keep_until)) = times else { return Ok(None) };
    let nonce = members.nonce.text()?;
    if !is_nonce(nonce) {
        return Err(members.nonce.broken("must be 16 to 128 visible ASCII characters"));
    }
    let expires = key.expires.map_or(keep_until, |end| keep_until.min(end));
    Ok(Some(SingleUse { spent: spent_id(&key.key, nonce), issued, expires, keep_until }))
}

fn spent_id(key: &VerifyingKey, nonce: &str) -> SpentId {
    SpentId::new(Digest::of_fields(SPENT_LABEL, [key.as_bytes(), nonce.as_bytes()]))
}

/// Compares the members that every profile compares.
fn bind_to_proposal(members: &ProposalMembers<'_>, proposal: &ActionProposal) -> Result<(), Broken> {
    members.tool.must_be(Some(proposal.tool()))?;
    members.impact.must_be(Some(proposal.impact().as_str()))?;
    members.provenance_ids.must_be_list(proposal.provenance().iter().map(|input| input.id()))?;
    members.args_digest.must_be_digest(proposal.args_digest())?;
    members.claims_digest.must_be_digest(proposal.claims_digest())
}

/// Checks the stated end of an attestation without a nonce. The reference accepts the last moment.
fn check_end(expires: Member<'_>, now: Timestamp) -> Result<(), Broken> {
    if expires.is_there() && expires.end()? < now {
        return Err(expires.broken("must not be over"));
    }
    Ok(())
}

/// Checks that the attestation is fresh and ends. Returns its time of issue, and the first moment at which it expires
/// or exceeds its allowed age.
fn check_times(
    members: &ProposalMembers<'_>,
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

/// Compares the members that bind the call: those for which `binds` returns `true`.
fn bind_to_call<'a>(
    members: &ProposalMembers<'a>,
    call: &ProposedCall<'_>,
    binds: impl Fn(Member<'a>) -> bool,
) -> Result<(), Broken> {
    let texts = [
        (members.call_id, call.call_id.map(AsRef::as_ref)),
        (members.principal, call.principal.map(AsRef::as_ref)),
        (members.agent, call.agent.map(AsRef::as_ref)),
        (members.session, call.session.map(AsRef::as_ref)),
        (members.server, call.server.map(AsRef::as_ref)),
    ];
    for (member, fact) in texts {
        if binds(member) {
            member.must_be(fact)?;
        }
    }
    if binds(members.registry_version) {
        members.registry_version.must_be_number(call.registry_version)?;
    }
    for (member, fact) in [(members.ask, call.ask), (members.plan_root, call.plan)] {
        if binds(member) {
            member.must_be_digest_if_any(fact)?;
        }
    }
    Ok(())
}
