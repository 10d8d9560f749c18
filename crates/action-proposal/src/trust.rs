use std::collections::BTreeSet;

use countersign_core::{EvidenceGap, ImpactClass};
use countersign_keys::VerifyingKey;

use crate::endorsement::Unbacked;
use crate::provenance::TrustLevel;
use crate::verifier::StartingTrust;
use crate::{ActionProposal, EvidenceKeyring, Profile, ProposalCode, ProposalError, VerifiedEvidence};

/// Checks the claims of a proposal against its verified evidence. Trust is a result of this check, never an input.
///
/// `high`: a claim must be backed, because a stated impact counts as high or the tool's rule requires it.
pub(crate) fn check_claims(
    proposal: &ActionProposal,
    profile: Profile,
    start: StartingTrust,
    high: bool,
    evidence: &[VerifiedEvidence],
) -> Result<(), ProposalError> {
    if profile == Profile::Strict {
        check_citations(proposal)?;
    }
    if !high {
        return Ok(());
    }
    let trusted = trusted_ids(proposal, start, evidence);
    let backed = cited_ids(proposal).any(|id| trusted.contains(id));
    if backed {
        return Ok(());
    }
    Err(refuse("/claims", unbacked_rule(proposal, evidence)).lacking(EvidenceGap::TrustedClaim))
}

/// Returns the rule that no claim meets, with the fault of the endorsement of a cited file, if there is one.
fn unbacked_rule(proposal: &ActionProposal, evidence: &[VerifiedEvidence]) -> &'static str {
    let cited: BTreeSet<&str> = cited_ids(proposal).collect();
    let files = evidence.iter().filter(|evidence| cited.contains(evidence.id()));
    match files.filter_map(|evidence| evidence.unbacked).max() {
        None => "one must cite an input that is trusted",
        Some(Unbacked::Unbound) => {
            "one must cite an input that is trusted: the endorsement of the file binds no arguments"
        }
        Some(Unbacked::OtherArgs) => {
            "one must cite an input that is trusted: the endorsement of the file is for other arguments"
        }
    }
}

/// Compares the number of distinct keys behind the cited evidence with the keyring's threshold at each impact.
pub(crate) fn check_thresholds(
    proposal: &ActionProposal,
    keyring: &EvidenceKeyring,
    impacts: impl IntoIterator<Item = ImpactClass>,
    evidence: &[VerifiedEvidence],
) -> Result<(), ProposalError> {
    // Without a stated threshold the causal rule alone applies: one signature at high impacts, none at others.
    let Some(needed) = impacts.into_iter().filter_map(|impact| keyring.stated_threshold(impact)).max() else {
        return Ok(());
    };
    let cited: BTreeSet<&str> = cited_ids(proposal).collect();
    let keys: BTreeSet<&VerifyingKey> = evidence
        .iter()
        .filter(|evidence| evidence.raises_trust() && cited.contains(evidence.id()))
        .filter_map(|evidence| evidence.signer().map(|(_, key)| key))
        .collect();
    if keys.len() < needed {
        let rule = "must be signed by as many keys as the keyring asks for";
        return Err(refuse("/evidence", rule).lacking(EvidenceGap::Signatures));
    }
    Ok(())
}

/// Ids of the trusted provenance, after verification of the evidence.
fn trusted_ids<'p>(
    proposal: &'p ActionProposal,
    start: StartingTrust,
    evidence: &'p [VerifiedEvidence],
) -> BTreeSet<&'p str> {
    let claimed = proposal.provenance().iter().filter(|input| match start {
        StartingTrust::Untrusted => false,
        StartingTrust::AsClaimed => input.claimed() == TrustLevel::Trusted,
    });
    let raised = evidence.iter().filter(|evidence| evidence.raises_trust());
    claimed.map(|input| input.id()).chain(raised.map(VerifiedEvidence::id)).collect()
}

fn cited_ids(proposal: &ActionProposal) -> impl Iterator<Item = &str> {
    proposal.claims().iter().flat_map(|claim| claim.evidence())
}

/// Requires every cited id to exist, at any impact.
fn check_citations(proposal: &ActionProposal) -> Result<(), ProposalError> {
    let known: BTreeSet<&str> = proposal.provenance().iter().map(|input| input.id()).collect();
    for (index, claim) in proposal.claims().iter().enumerate() {
        if claim.evidence().any(|id| !known.contains(id)) {
            return Err(refuse(format!("/claims/{index}/evidence"), "must cite inputs that are there"));
        }
    }
    Ok(())
}

fn refuse(place: impl Into<std::borrow::Cow<'static, str>>, rule: &'static str) -> ProposalError {
    ProposalError::new(ProposalCode::VerifierFailed, place, rule)
}
