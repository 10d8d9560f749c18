use std::cmp::max;

use countersign_core::{Clock, Digest, EvidenceGap, ImpactClass, Timestamp};

use crate::attestation::{AttestationRules, verify_entry};
use crate::endorsement::{BackedCall, EndorsedUses, Unbacked};
use crate::evidence::Content;
use crate::proposal::check_distinct;
use crate::trust::{check_claims, check_thresholds};
use crate::verified::ProposalFindings;
use crate::verifier::EvidenceCheck;
use crate::{
    ActionProposal, EvidenceBudget, EvidenceEntry, HashEntry, Profile, ProposalCode, ProposalError,
    ProposalVerifier, ProposedCall, ResolveError, SignatureEntry, VerifiedEvidence, VerifiedProposal,
};

impl ActionProposal {
    /// Verifies the proposal for one call: the checks that [`parse`](Self::parse) leaves, in the order of the
    /// specification's text. Consumes it in any case.
    ///
    /// # Errors
    /// [`ProposalError`] of the first failed check, in the order of [`ProposalCode::ALL`].
    pub fn verify(
        self,
        verifier: &ProposalVerifier,
        call: &ProposedCall<'_>,
        clock: &dyn Clock,
    ) -> Result<VerifiedProposal, ProposalError> {
        let proposal = &self;
        let limits = verifier.limits;
        let started = clock.now().map_err(|_| no_time())?;
        let mut budget = EvidenceBudget::start(clock, limits.file_bytes, limits.total_bytes, limits.time)
            .map_err(|_| no_time())?;
        if verifier.profile == Profile::Strict {
            check_distinct(proposal.evidence().iter().map(EvidenceEntry::id), "/evidence")?;
        }
        check_binding(proposal, verifier.profile, call)?;
        let impacts = Impacts::check(proposal, verifier, call)?;
        let question = EvidenceContext { proposal, verifier, call, impacts, now: started };
        let evidence = question.check_evidence(&mut budget)?;
        let high = call.evidence_required || impacts.all().any(|impact| verifier.high.contains(impact));
        check_claims(proposal, verifier.profile, verifier.start, high, &evidence)?;
        check_thresholds(proposal, &verifier.keyring, impacts.all(), &evidence)?;
        budget.check_time().map_err(|_| too_long())?;
        let facts = Box::new(ProposalFindings {
            digest: proposal.digest(),
            intent: proposal.intent_digest(),
            profile: verifier.profile,
            impact: impacts.effective(),
            evidence,
        });
        Ok(VerifiedProposal { facts, elapsed: clock.now().map_err(|_| no_time())?.since(started) })
    }
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

/// Impacts stated by the proposal, the call and the policy. why: they are kept apart, and the requirements of each
/// apply, so that stating a stricter impact avoids no rule.
#[derive(Clone, Copy)]
struct Impacts {
    proposed: ImpactClass,
    /// Impact in the call, from the operator's registry.
    called: Option<ImpactClass>,
    /// Impact of the tool in the policy.
    listed: Option<ImpactClass>,
}

impl Impacts {
    fn check(
        proposal: &ActionProposal,
        verifier: &ProposalVerifier,
        call: &ProposedCall<'_>,
    ) -> Result<Self, ProposalError> {
        let strict = verifier.profile == Profile::Strict;
        // Without a call the reference does not look the tool up. Under `strict` the proposal's tool is used.
        let tool = call.tool.or_else(|| strict.then(|| proposal.tool()));
        let listed = tool.and_then(|tool| verifier.policy.impact_of(tool));
        if strict && verifier.policy.lists_tools() && call.impact.is_none() && listed.is_none() {
            let rule = "must be a tool that the policy lists";
            return Err(ProposalError::new(ProposalCode::PolicyViolation, "/action/tool", rule));
        }
        let proposed = proposal.impact();
        if max(call.impact, listed).is_some_and(|operator| operator > proposed) {
            let rule = "must be no less than what the operator says";
            return Err(ProposalError::new(ProposalCode::ImpactUnderstated, "/impact", rule));
        }
        Ok(Self { proposed, called: call.impact, listed })
    }

    /// Strictest of all.
    fn effective(self) -> ImpactClass {
        self.all().fold(self.proposed, max)
    }

    /// Every stated impact.
    fn all(self) -> impl Iterator<Item = ImpactClass> {
        [Some(self.proposed), self.called, self.listed].into_iter().flatten()
    }
}

/// Context that evidence is checked against.
struct EvidenceContext<'q> {
    proposal: &'q ActionProposal,
    verifier: &'q ProposalVerifier,
    call: &'q ProposedCall<'q>,
    impacts: Impacts,
    now: Timestamp,
}

impl EvidenceContext<'_> {
    /// Verifies the entries in order, up to the first failure.
    fn check_evidence(
        &self,
        budget: &mut EvidenceBudget<'_>,
    ) -> Result<Vec<VerifiedEvidence>, ProposalError> {
        // Evidence required by the tool's own rule is verified even where the operator skips it.
        if self.verifier.check == EvidenceCheck::Skip && !self.call.evidence_required {
            return Ok(Vec::new());
        }
        let entries = self.proposal.evidence();
        if entries.is_empty() && self.requires_evidence() {
            let rule = "must have an entry, since the call needs evidence";
            let refused = ProposalError::new(ProposalCode::EvidenceRequired, "/evidence", rule);
            return Err(refused.lacking(EvidenceGap::Evidence));
        }
        let mut verified = Vec::with_capacity(entries.len());
        let mut left = self.verifier.limits.total_bytes;
        for (index, entry) in entries.iter().enumerate() {
            budget.check_time().map_err(|_| too_long())?;
            verified.push(match entry {
                EvidenceEntry::Hash(entry) => self.check_hash(index, entry, budget, &mut left)?,
                EvidenceEntry::Signature(entry) => self.check_signature(index, entry)?,
            });
        }
        Ok(verified)
    }

    fn requires_evidence(&self) -> bool {
        let (policy, high) = (&self.verifier.policy, self.verifier.high);
        let Impacts { proposed, called, listed } = self.impacts;
        self.call.evidence_required
            || match self.verifier.profile {
                Profile::Strict => {
                    self.impacts.all().any(|impact| policy.requires_evidence(impact) || high.contains(impact))
                }
                // As the reference: the policy's impact for the tool, else the proposal's. And the call's.
                Profile::Pic09 | Profile::Pic08 => {
                    let resolved = listed.unwrap_or(proposed);
                    policy.requires_evidence(resolved)
                        || called.is_some_and(|impact| policy.requires_evidence(impact))
                }
            }
    }

    fn check_hash(
        &self,
        index: usize,
        entry: &HashEntry,
        budget: &mut EvidenceBudget<'_>,
        left: &mut u64,
    ) -> Result<VerifiedEvidence, ProposalError> {
        let resolver = self.verifier.resolver.as_deref();
        let resolver =
            resolver.ok_or_else(|| failed(index, "ref", "needs an evidence folder, and none is set"))?;
        let file = resolver.resolve(entry.reference(), budget).map_err(|error| unresolved(index, &error))?;
        // why: counted again, since a resolver need not use the given budget.
        let size = file.bytes().len() as u64;
        if size > self.verifier.limits.file_bytes {
            return Err(unresolved(index, &ResolveError::TooLarge));
        }
        *left = left.checked_sub(size).ok_or_else(|| unresolved(index, &ResolveError::Budget))?;
        // INVARIANT: the file is not read again. The kept bytes are the hashed ones.
        let digest = file.digest();
        if digest != entry.sha256() {
            return Err(failed(index, "sha256", "must be the digest of the file"));
        }
        let is_input = self.is_input(&entry.id);
        let backing = if is_input { self.back(&digest) } else { Backing::Missing(None) };
        let mut evidence = VerifiedEvidence {
            id: entry.id.clone(),
            content: Content::File { digest, bytes: file.into_bytes() },
            raises_trust: matches!(backing, Backing::Itself | Backing::Operator(_)),
            endorsed: matches!(backing, Backing::Operator(_)),
            signer: None,
            ticket: None,
            uses: EndorsedUses::default(),
            endorsement: None,
            unbacked: None,
        };
        match backing {
            // A file that no claim cites backs nothing and takes no use.
            Backing::Operator(uses) if self.is_cited(&entry.id) => evidence.uses = uses,
            Backing::Missing(reason) => evidence.unbacked = reason,
            Backing::Operator(_) | Backing::Itself => {}
        }
        Ok(evidence)
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
            listed: self.impacts.listed,
        };
        let signature = verify_entry(entry, self.proposal, self.call, &rules, self.now)
            .map_err(|broken| failed(index, broken.place, broken.rule))?;
        Ok(VerifiedEvidence {
            id: entry.id.clone(),
            content: signature.signed,
            raises_trust: self.is_input(&entry.id),
            endorsed: false,
            signer: Some((signature.key_id, signature.key)),
            ticket: signature.attestation,
            uses: EndorsedUses::default(),
            endorsement: None,
            unbacked: None,
        })
    }

    /// Finds the backing of a file for this call.
    ///
    /// In 0.8 every hash raises trust by itself. This does not hold at money, privacy and irreversible if the
    /// operator endorses digests: a digest endorsed for other arguments, or used up, would still count.
    fn back(&self, digest: &Digest) -> Backing {
        let impacts: Vec<ImpactClass> = self.impacts.all().collect();
        let list = self.verifier.endorsed.as_ref();
        let high = impacts.iter().any(|impact| impact.is_high());
        if self.verifier.profile == Profile::Pic08 && (list.is_none() || !high) {
            return Backing::Itself;
        }
        let Some(list) = list else { return Backing::Missing(None) };
        // why: outside of `strict` a call may come without its arguments, and the proposal's are only the agent's
        // claim.
        if high && self.call.tool.is_some() && self.call.args.is_none() {
            return Backing::Missing(Some(Unbacked::OtherArgs));
        }
        let call = BackedCall {
            tool: self.call.tool.unwrap_or_else(|| self.proposal.tool()),
            server: self.call.server,
            impacts: &impacts,
            principal: self.call.principal,
            // INVARIANT: equal to the call's arguments if the call has any, as the digests were compared.
            args: self.proposal.args(),
            args_digest: self.proposal.args_digest(),
            now: self.now,
        };
        match list.back(digest, &call) {
            Ok(uses) => Backing::Operator(uses),
            Err(reason) => Backing::Missing(reason),
        }
    }

    fn is_cited(&self, id: &str) -> bool {
        self.proposal.claims().iter().flat_map(|claim| claim.evidence()).any(|cited| cited == id)
    }

    fn is_input(&self, id: &str) -> bool {
        self.proposal.provenance().iter().any(|input| input.id() == id)
    }
}

/// Backing of a file.
enum Backing {
    /// Endorsement of an operator, with its uses if they are counted.
    Operator(EndorsedUses),
    /// Profile under which the hash alone raises trust.
    Itself,
    Missing(Option<Unbacked>),
}

fn failed(index: usize, member: &str, rule: &'static str) -> ProposalError {
    ProposalError::new(ProposalCode::EvidenceFailed, format!("/evidence/{index}/{member}"), rule)
}

/// Maps excess of the proposal's bytes or time to a limit, and any other failure to failed evidence.
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
