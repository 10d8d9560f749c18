//! Attestations to calls that wait: judged before the signature, verified with it, recorded, stored.

use std::path::PathBuf;
use std::sync::Arc;

use countersign_action_proposal::{
    ActionProposal, AttestationDraft, EvidenceEntry, KeyStatus, ProposalError, ProposalVerifier,
    ProposedCall, VerifiedEvidence,
};
use countersign_approval_token::{
    AttestedProposal, PendingApproval, PendingApprovals as _, PendingError, PendingState,
};
use countersign_audit_log::{AnswerRecord, AnswerVerdict};
use countersign_core::{
    Audience, CallId, Digest, ImpactClass, KeyId, Millis, OperatorId, SystemClock, Timestamp,
};
use countersign_keys::{Signature, VerifyingKey};
use countersign_registry::{EvidenceRule, RegistryView};
use countersign_tool_gate::RejectionCode;

use super::find::QuestionQueue;
use crate::error::HostError;
use crate::plans::PlanPart;
use crate::random;
use crate::record::PreparedRecord;
use crate::report::Reporter;
use crate::time::now;

/// A call that waits for an attestation, with the operator's inputs that judge it: the registry, the keyring, the evidence
/// folder, the policy. All bindings of an attestation come from here.
#[derive(Debug)]
pub struct AttestableCall {
    pending: PendingApproval,
    audience: Audience,
    verifier: Arc<ProposalVerifier>,
    view: Arc<RegistryView>,
    /// Impact of the tool in the registry.
    listed: ImpactClass,
    /// The strictest that the operator states.
    impact: ImpactClass,
    requires_evidence: bool,
    pub(super) evidence_root: Option<PathBuf>,
}

/// An attestation that lacks only its signature: the gate would accept the evidence of the call with it.
#[derive(Debug)]
pub struct UnsignedAttestation {
    proposal: ActionProposal,
    draft: AttestationDraft,
    payload: String,
    key_id: String,
    key: VerifyingKey,
    raises: String,
    expires: Timestamp,
    evidence: Vec<VerifiedEvidence>,
}

/// A signed and verified attestation, within its proposal.
#[derive(Debug)]
pub struct SignedAnswer {
    proposal: String,
    payload: Digest,
    key_id: String,
    expires: Timestamp,
}

impl SignedAnswer {
    /// First moment at which it no longer counts.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }
}

impl QuestionQueue<'_> {
    /// Returns a question that waits for an attestation, with the inputs that judge it. Checks first all that
    /// would refuse the call under any attestation.
    ///
    /// # Errors
    /// `PENDING_UNKNOWN`, `PENDING_KIND`, `PENDING_DECIDED`, `PENDING_EXPIRED`, `SESSION_ENDED`, `CONFIG_NO_PROPOSALS`,
    /// `ATTEST_REGISTRY`, inputs that cannot be read, and a call that the registry no longer allows.
    pub fn attestable(&self, id: &CallId, reporter: &Reporter) -> Result<AttestableCall, HostError> {
        let (pending, state) = self.get(id)?;
        if pending.evidence().is_none() {
            return Err(PendingError::Kind.into());
        }
        if self.store.has_session_ended(&pending, now()?)? {
            return Err(PendingError::SessionEnded.into());
        }
        let is_open = matches!(state, PendingState::Waiting | PendingState::Approved(_));
        if !is_open || self.store.attestation(id)?.is_some() {
            return Err(PendingError::Decided.into());
        }
        if pending.expires() <= now()? {
            return Err(PendingError::Expired.into());
        }
        let binding = pending.binding();
        let session =
            binding.session.clone().ok_or_else(|| HostError::internal("the call has no session"))?;
        let config = self.config.config(session, &PlanPart::default())?;
        let plan = config.proposals.as_ref().ok_or_else(|| {
            HostError::new("CONFIG_NO_PROPOSALS", "`proposals` missing in the configuration")
        })?;
        let (audience, evidence_root) = (plan.audience.clone(), plan.evidence_root.clone());
        let prepared = config.prepare(reporter)?;
        let verifier = prepared.verifier().ok_or_else(|| HostError::internal("no verifier"))?;
        let view = prepared.registry().view();
        let version = view.snapshot().version();
        if binding.registry_version != Some(version) {
            let asked = binding.registry_version.unwrap_or_default();
            let text = format!(
                "the call was made under registry version {asked}, and version {version} is in force: the client must call again"
            );
            return Err(HostError::refused("ATTEST_REGISTRY", text));
        }
        let entry = prepared.contract().disclosed(&view, &binding.tool).map(|rules| rules.entry());
        let entry = entry.ok_or_else(|| refused(RejectionCode::UndisclosedTool, "the tool is not listed"))?;
        let by_policy = verifier.policy().impact_of(binding.tool.name().as_str());
        let impact = by_policy.map_or(entry.impact(), |impact| impact.max(entry.impact()));
        let requires_evidence = entry.evidence() != EvidenceRule::NotRequired;
        let listed = entry.impact();
        Ok(AttestableCall {
            audience,
            verifier,
            listed,
            impact,
            requires_evidence,
            evidence_root,
            view,
            pending,
        })
    }

    /// Keeps an attestation for the client's next try. It is recorded before it counts.
    ///
    /// # Errors
    /// `AUDIT_*`: the answer does not count. `PENDING_DECIDED`, `PENDING_EXPIRED`, `SESSION_ENDED`, and a store that fails.
    pub fn attest(
        &self,
        call: &AttestableCall,
        signed: &SignedAnswer,
        by: &OperatorId,
        record: PreparedRecord,
    ) -> Result<(), HostError> {
        let pending = &call.pending;
        let answer = AttestedProposal::new(&signed.proposal, signed.expires, &signed.key_id, by.clone())?;
        let now = now()?;
        let mut entry = AnswerRecord::about(now, pending.binding(), AnswerVerdict::Attested, by.clone());
        entry.attestation = Some(signed.payload);
        entry.key = Some(signed.key_id.as_str().into());
        entry.expires = Some(signed.expires);
        record.answer(entry)?;
        Ok(self.store.attest(pending.id(), &answer, now)?)
    }
}

impl AttestableCall {
    /// The question.
    #[must_use]
    pub const fn pending(&self) -> &PendingApproval {
        &self.pending
    }

    /// Impact of the tool: the strictest that the operator states.
    #[must_use]
    pub const fn impact(&self) -> ImpactClass {
        self.impact
    }

    /// Text of the proposal that came with the call.
    #[must_use]
    pub fn proposal_text(&self) -> Option<&str> {
        self.pending.evidence()?.proposal_text()
    }

    /// Drafts the attestation of the key `key_id` to this proposal, and judges the call as the gate will once it is signed. It
    /// raises the input `raises`, or else the first input that a claim cites and that no evidence raises.
    ///
    /// # Errors
    /// The code that would still refuse the call, `ATTEST_KEY` for a key that does not count, and `ATTEST_*` for an attestation
    /// that cannot be signed.
    pub fn draft(
        &self,
        text: &str,
        key_id: &str,
        raises: Option<&str>,
        ttl: Millis,
    ) -> Result<UnsignedAttestation, HostError> {
        let issued = now()?;
        let proposal = self.verifier.parse(text.as_bytes()).map_err(|error| still_refused(&error))?;
        let key = self.key(key_id, issued)?;
        let raises = match raises {
            Some(raises) => raises.to_owned(),
            None => raised(&proposal)?,
        };
        let out_of_range = |_| HostError::new("ATTEST_TIMES", "the expiry is out of range");
        let expires = issued.checked_add(ttl).map_err(out_of_range)?;
        let nonce = format!("{:032x}", u128::from_be_bytes(*random::secret()?));
        let draft = AttestationDraft::for_proposal(&proposal, &raises)
            .call(&self.call())
            .audience(&self.audience)
            .issued(issued)
            .expires(expires)
            .nonce(&nonce);
        let payload = draft.payload(key_id)?;
        let clock = SystemClock::new();
        let evidence = self
            .verifier
            .rehearse(&proposal, &draft, key_id, &self.call(), &clock)
            .map_err(|error| still_refused(&error))?;
        self.check_not_revoked(&evidence, key_id, &key)?;
        let key_id = key_id.to_owned();
        Ok(UnsignedAttestation { proposal, draft, payload, key_id, key, raises, expires, evidence })
    }

    /// Adds the signature, and verifies the whole proposal with it, as the gate will.
    ///
    /// # Errors
    /// `ATTEST_SIGNATURE` for a signature of another key or other bytes, and the code that would refuse the call.
    pub fn complete(
        &self,
        unsigned: UnsignedAttestation,
        signature: Signature,
    ) -> Result<SignedAnswer, HostError> {
        let UnsignedAttestation { proposal, draft, payload, key_id, key, expires, .. } = unsigned;
        key.verify(payload.as_bytes(), &signature).map_err(|_| {
            let text = format!("not a signature of the keyring's key `{key_id}` over the attestation");
            HostError::refused("ATTEST_SIGNATURE", text)
        })?;
        let signed = draft.signed(signature, &key_id)?;
        let whole = proposal.with_evidence(&signed.to_entry_json());
        let judged = self.verifier.parse(whole.as_bytes());
        let verified = judged
            .and_then(|proposal| proposal.verify(&self.verifier, &self.call(), &SystemClock::new()))
            .map_err(|error| still_refused(&error))?;
        self.check_not_revoked(verified.evidence(), &key_id, &key)?;
        Ok(SignedAnswer { proposal: whole, payload: Digest::of(payload.as_bytes()), key_id, expires })
    }

    fn call(&self) -> ProposedCall<'_> {
        let call = ProposedCall::of(self.pending.binding()).impact(self.listed);
        if self.requires_evidence { call.evidence_required() } else { call }
    }

    /// The keyring's key, if its signatures count now.
    fn key(&self, id: &str, now: Timestamp) -> Result<VerifyingKey, HostError> {
        let keyring = self.verifier.keyring();
        let why = match keyring.status(id, now) {
            KeyStatus::Ok => "not usable",
            KeyStatus::Missing => "not in the keyring",
            KeyStatus::Revoked => "revoked in the keyring",
            KeyStatus::Expired => "expired in the keyring",
            KeyStatus::NotYetValid => "not valid yet in the keyring",
            _ => "not active in the keyring",
        };
        let refused = || HostError::refused("ATTEST_KEY", why).about(id);
        keyring.active(id, now).map(|key| *key.key()).ok_or_else(refused)
    }

    /// Looks up this key, and the signers of the evidence that came, among the keys that the registry revokes.
    fn check_not_revoked(
        &self,
        evidence: &[VerifiedEvidence],
        key_id: &str,
        key: &VerifyingKey,
    ) -> Result<(), HostError> {
        let is_revoked = |id: &str, key: &VerifyingKey| {
            self.view.is_key_revoked(&key.key_id())
                || KeyId::new(id).is_ok_and(|id| self.view.is_key_revoked(&id))
        };
        if is_revoked(key_id, key) {
            return Err(HostError::refused("ATTEST_KEY", "revoked in the registry").about(key_id));
        }
        let mut others = evidence.iter().filter_map(VerifiedEvidence::signer);
        if others.any(|(id, key)| is_revoked(id, key)) {
            return Err(refused(RejectionCode::PicEvidenceFailed, "the registry revokes a key that signed"));
        }
        Ok(())
    }
}

impl UnsignedAttestation {
    /// The proposal that it is about.
    #[must_use]
    pub const fn proposal(&self) -> &ActionProposal {
        &self.proposal
    }

    /// The bytes to sign: the attestation object of PIC-ATT/1.0 in canonical form.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// Id of the key that is to sign it.
    #[must_use]
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The key that is to sign it.
    #[must_use]
    pub const fn key(&self) -> &VerifyingKey {
        &self.key
    }

    /// Id of the input that it raises.
    #[must_use]
    pub fn raises(&self) -> &str {
        &self.raises
    }

    /// First moment at which it no longer counts.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// Evidence files of the proposal, each with its reference and the bytes that were hashed.
    pub fn files(&self) -> impl Iterator<Item = (&VerifiedEvidence, &str)> {
        self.evidence.iter().zip(self.proposal.evidence()).filter_map(|(verified, entry)| match entry {
            EvidenceEntry::Hash(file) => Some((verified, file.reference())),
            EvidenceEntry::Signature(_) | _ => None,
        })
    }
}

/// The first input that a claim cites and that no evidence raises.
fn raised(proposal: &ActionProposal) -> Result<String, HostError> {
    let is_input = |id: &str| proposal.provenance().iter().any(|input| input.id() == id);
    let is_taken = |id: &str| proposal.evidence().iter().any(|entry| entry.id() == id);
    let mut cited = proposal.claims().iter().flat_map(|claim| claim.evidence());
    let found = cited.find(|id| is_input(id) && !is_taken(id));
    found.map(str::to_owned).ok_or_else(|| {
        let text = "no claim of the proposal cites an input that an attestation could raise: write a proposal of your \
                    own with --intent";
        HostError::refused("ATTEST_EVIDENCE_ID", text)
    })
}

fn still_refused(error: &ProposalError) -> HostError {
    let text =
        format!("the gate would still refuse the call: {}: {}", error.code().message(), error.detail());
    HostError::refused(error.code().as_str(), text)
}

fn refused(code: RejectionCode, why: &str) -> HostError {
    HostError::refused(code.as_str(), format!("the gate would still refuse the call: {why}"))
}
