use std::cmp::max;

use countersign_core::{Clock, Digest, ImpactClass, Timestamp};

use crate::attestation::{AttestationRules, verify_entry};
use crate::proposal::check_distinct;
use crate::trust::{check_claims, check_thresholds};
use crate::verified::{Facts, VerifiedEvidence};
use crate::verifier::EvidenceCheck;
use crate::{
    ActionProposal, EvidenceBudget, EvidenceEntry, HashEntry, Profile, ProposalCode, ProposalError,
    ProposalVerifier, ProposedCall, ResolveError, SignatureEntry, VerifiedProposal,
};

/// Verifies one proposal for one call: the checks that [`ActionProposal::parse`] did not make, in the order of the
/// specification's text. The first one that fails is the answer.
pub(crate) fn verify(
    proposal: &ActionProposal,
    verifier: &ProposalVerifier,
    call: &ProposedCall<'_>,
    clock: &dyn Clock,
) -> Result<VerifiedProposal, ProposalError> {
    let limits = verifier.limits;
    let started = clock.now().map_err(|_| no_time())?;
    let mut budget = EvidenceBudget::start(clock, limits.file_bytes, limits.total_bytes, limits.time)
        .map_err(|_| no_time())?;
    if verifier.profile == Profile::Strict {
        check_distinct(proposal.evidence().iter().map(EvidenceEntry::id), "/evidence")?;
    }
    check_binding(proposal, verifier.profile, call)?;
    let impacts = Impacts::check(proposal, verifier, call)?;
    let question = Question { proposal, verifier, call, impacts, now: started };
    let evidence = question.check_evidence(&mut budget)?;
    let high = verifier.high.contains(impacts.effective);
    check_claims(proposal, verifier.profile, verifier.start, high, &evidence)?;
    check_thresholds(proposal, &verifier.keyring, impacts.all(), &evidence)?;
    budget.check_time().map_err(|_| too_long())?;
    let facts = Facts {
        digest: proposal.digest(),
        intent: proposal.intent_digest(),
        profile: verifier.profile,
        impact: impacts.effective,
        evidence,
    };
    Ok(VerifiedProposal { facts, elapsed: clock.now().map_err(|_| no_time())?.since(started) })
}

/// Compares the tool's name byte by byte, and the arguments by digest.
fn check_binding(
    proposal: &ActionProposal,
    profile: Profile,
    call: &ProposedCall<'_>,
) -> Result<(), ProposalError> {
    let refuse = ProposalError::new;
    if call.tool.is_some_and(|tool| tool != proposal.tool()) {
        return Err(refuse(
            ProposalCode::ToolBindingMismatch,
            "/action/tool",
            "must be the tool that is called",
        ));
    }
    match call.args {
        Some(args) if args != proposal.args_digest() => {
            Err(refuse(ProposalCode::ArgBindingMismatch, "/action/args", "must be the arguments of the call"))
        }
        None if profile == Profile::Strict && call.tool.is_some() => {
            Err(refuse(ProposalCode::ArgBindingMismatch, "the call", "must come with its arguments' digest"))
        }
        Some(_) | None => Ok(()),
    }
}

/// How bad the call can be, as the proposal and the operator have it.
#[derive(Clone, Copy)]
struct Impacts {
    proposed: ImpactClass,
    /// What the call and the policy say; the stricter of the two.
    operator: Option<ImpactClass>,
    /// What the policy says of the tool.
    listed: Option<ImpactClass>,
    /// The strictest of all.
    effective: ImpactClass,
}

impl Impacts {
    fn check(
        proposal: &ActionProposal,
        verifier: &ProposalVerifier,
        call: &ProposedCall<'_>,
    ) -> Result<Self, ProposalError> {
        let strict = verifier.profile == Profile::Strict;
        // Where no call is at hand, the reference does not look the tool up. Strictly, what the proposal names is it.
        let tool = call.tool.or_else(|| strict.then(|| proposal.tool()));
        let listed = tool.and_then(|tool| verifier.policy.impact_of(tool));
        if strict && verifier.policy.lists_tools() && call.impact.is_none() && listed.is_none() {
            let rule = "must be a tool that the policy lists";
            return Err(ProposalError::new(ProposalCode::PolicyViolation, "/action/tool", rule));
        }
        let operator = max(call.impact, listed);
        let proposed = proposal.impact();
        if operator.is_some_and(|operator| operator > proposed) {
            let rule = "must be no less than what the operator says";
            return Err(ProposalError::new(ProposalCode::ImpactUnderstated, "/impact", rule));
        }
        Ok(Self { proposed, operator, listed, effective: operator.map_or(proposed, |o| o.max(proposed)) })
    }

    /// Every impact that somebody says, the effective one among them.
    fn all(self) -> impl Iterator<Item = ImpactClass> {
        [Some(self.proposed), self.operator].into_iter().flatten()
    }
}

/// What evidence is held against.
struct Question<'q> {
    proposal: &'q ActionProposal,
    verifier: &'q ProposalVerifier,
    call: &'q ProposedCall<'q>,
    impacts: Impacts,
    now: Timestamp,
}

impl Question<'_> {
    /// Verifies every entry in its order, until the first that fails.
    fn check_evidence(
        &self,
        budget: &mut EvidenceBudget<'_>,
    ) -> Result<Vec<VerifiedEvidence>, ProposalError> {
        if self.verifier.check == EvidenceCheck::Skip {
            return Ok(Vec::new());
        }
        let entries = self.proposal.evidence();
        if entries.is_empty() && self.requires_evidence() {
            let rule = "must have an entry, since the impact needs evidence";
            return Err(ProposalError::new(ProposalCode::EvidenceRequired, "/evidence", rule));
        }
        let mut verified = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            budget.check_time().map_err(|_| too_long())?;
            verified.push(match entry {
                EvidenceEntry::Hash(entry) => self.check_hash(index, entry, budget)?,
                EvidenceEntry::Signature(entry) => self.check_signature(index, entry)?,
            });
        }
        Ok(verified)
    }

    fn requires_evidence(&self) -> bool {
        let Impacts { proposed, listed, effective, .. } = self.impacts;
        let policy = &self.verifier.policy;
        // What the reference asks of: the policy's impact for the tool, else the proposal's.
        let resolved = listed.unwrap_or(proposed);
        let asked = policy.requires_evidence(resolved)
            || self.call.impact.is_some_and(|impact| policy.requires_evidence(impact));
        match self.verifier.profile {
            Profile::Strict => {
                asked || policy.requires_evidence(effective) || self.verifier.high.contains(effective)
            }
            Profile::Pic09 | Profile::Pic08 => asked,
        }
    }

    fn check_hash(
        &self,
        index: usize,
        entry: &HashEntry,
        budget: &mut EvidenceBudget<'_>,
    ) -> Result<VerifiedEvidence, ProposalError> {
        let resolver = self.verifier.resolver.as_deref();
        let resolver =
            resolver.ok_or_else(|| failed(index, "ref", "must be in a folder, and there is none"))?;
        let file = resolver.resolve(entry.reference(), budget).map_err(|error| unresolved(index, &error))?;
        // INVARIANT: nothing reads the file again. What was hashed is what is kept.
        let digest = file.digest();
        if digest != entry.sha256() {
            return Err(failed(index, "sha256", "must be the digest of the file"));
        }
        Ok(VerifiedEvidence {
            id: entry.id.clone(),
            digest,
            bytes: Some(file.into_bytes()),
            raises_trust: self.is_input(&entry.id) && self.hash_raises(&digest),
            signer: None,
            ticket: None,
        })
    }

    fn check_signature(
        &self,
        index: usize,
        entry: &SignatureEntry,
    ) -> Result<VerifiedEvidence, ProposalError> {
        let verifier = self.verifier;
        let rules = AttestationRules {
            profile: verifier.profile,
            keyring: &verifier.keyring,
            audience: verifier.audience.as_ref(),
            skew: verifier.skew,
            max_age: verifier.max_age,
            payload_bytes: verifier.limits.payload_bytes,
        };
        // A key must be allowed what the policy says of the tool as well as what the call says.
        let call = ProposedCall { impact: self.impacts.operator, ..*self.call };
        let signature = verify_entry(entry, self.proposal, &call, &rules, self.now)
            .map_err(|broken| failed(index, broken.place, broken.rule))?;
        Ok(VerifiedEvidence {
            id: entry.id.clone(),
            digest: signature.signed,
            bytes: None,
            raises_trust: self.is_input(&entry.id),
            signer: Some((signature.key_id, signature.key)),
            ticket: signature.attestation,
        })
    }

    /// Says whether a hash that matches raises trust: where an operator signed the digest for this, and in 0.8 always.
    fn hash_raises(&self, digest: &Digest) -> bool {
        if self.verifier.profile == Profile::Pic08 {
            return true;
        }
        let tool = self.call.tool.unwrap_or_else(|| self.proposal.tool());
        let impacts: Vec<ImpactClass> = self.impacts.all().collect();
        self.verifier.endorsed.as_ref().is_some_and(|endorsed| {
            endorsed.find(digest, tool, &impacts, self.call.principal, self.now).is_some()
        })
    }

    fn is_input(&self, id: &str) -> bool {
        self.proposal.provenance().iter().any(|input| input.id() == id)
    }
}

fn failed(index: usize, member: &str, rule: &'static str) -> ProposalError {
    ProposalError::new(ProposalCode::EvidenceFailed, format!("/evidence/{index}/{member}"), rule)
}

/// What takes too much of the proposal's time or of its bytes is over a limit; anything else is a piece that fails.
fn unresolved(index: usize, error: &ResolveError) -> ProposalError {
    let over_limit = matches!(error, ResolveError::Budget | ResolveError::Time);
    let code = if over_limit { ProposalCode::LimitExceeded } else { ProposalCode::EvidenceFailed };
    ProposalError::new(code, format!("/evidence/{index}/ref"), error.to_string())
}

fn too_long() -> ProposalError {
    ProposalError::new(ProposalCode::LimitExceeded, "the verification", "must end within its time")
}

fn no_time() -> ProposalError {
    ProposalError::new(ProposalCode::InternalError, "the clock", "must tell the time")
}
