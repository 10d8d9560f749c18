//! The tests' world: one transfer, two signers, one gate.

use std::sync::Arc;

use countersign_core::{
    AgentId, Audience, CallId, Digest, ManualClock, Millis, Principal, ServerName, SessionId, Timestamp,
    ToolName,
};
use countersign_keys::{SigningKey, TrustRoot};
use serde_json::{Value, json};

use crate::{
    ActionProposal, AttestationDraft, EndorsedDigests, EndorsementDraft, EvidenceKeyring, EvidenceResolver,
    Profile, ProposalError, ProposalLimits, ProposalVerifier, ProposalVerifierBuilder, ProposedCall,
    VerifiedProposal,
};

/// 2026-01-01T00:00:00Z.
pub(super) const NOW: u64 = 1_767_225_600_000;

pub(super) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

pub(super) fn clock() -> ManualClock {
    ManualClock::new(at(NOW))
}

/// The transfer of the stories: requested by an unread mail, with an invoice from the finance office.
pub(super) fn transfer() -> Value {
    json!({
        "protocol": "PIC/1.0",
        "intent": "pay the invoice of March",
        "impact": "money",
        "provenance": [
            {"id": "invoice", "trust": "untrusted", "source": "finance"},
            {"id": "mail", "trust": "untrusted"},
        ],
        "claims": [{"text": "the invoice is due", "evidence": ["invoice"]}],
        "action": {"tool": "payments_send", "args": {"amount": 500, "to": "acme"}},
    })
}

/// A read, without further requirements.
pub(super) fn look() -> Value {
    json!({
        "protocol": "PIC/1.0",
        "intent": "look up the opening hours",
        "impact": "read",
        "provenance": [],
        "claims": [],
        "action": {"tool": "docs_search", "args": {"q": "hours"}},
    })
}

pub(super) fn parse(value: &Value) -> Result<ActionProposal, ProposalError> {
    parse_text(&value.to_string())
}

pub(super) fn parse_text(text: &str) -> Result<ActionProposal, ProposalError> {
    ActionProposal::parse(text.as_bytes(), &ProposalLimits::default())
}

pub(super) fn parsed(value: &Value) -> ActionProposal {
    parse(value).unwrap_or_else(|e| panic!("{value}: {}", e.detail()))
}

/// Code, place and rule; `allow` without an error.
pub(super) fn outcome<T>(result: Result<T, ProposalError>) -> (&'static str, String) {
    result.map_or_else(|e| (e.code().as_str(), e.detail()), |_| ("allow", String::new()))
}

pub(super) fn code<T>(result: Result<T, ProposalError>) -> &'static str {
    outcome(result).0
}

pub(super) fn cfo() -> SigningKey {
    SigningKey::from_seed([1; 32])
}

pub(super) fn cto() -> SigningKey {
    SigningKey::from_seed([2; 32])
}

pub(super) fn keyring_of(thresholds: &Value) -> EvidenceKeyring {
    let file = json!({
        "trusted_keys": {
            "cfo-1": cfo().verifying_key().to_base64(),
            "cto-1": cto().verifying_key().to_base64(),
        },
        "thresholds": thresholds,
    });
    EvidenceKeyring::from_json(file.to_string().as_bytes()).unwrap()
}

pub(super) fn keyring() -> EvidenceKeyring {
    keyring_of(&json!({}))
}

/// Facts of one call, as a gate has them.
pub(super) struct Facts {
    tool: ToolName,
    server: ServerName,
    pub(super) call_id: CallId,
    principal: Principal,
    agent: AgentId,
    session: SessionId,
}

impl Facts {
    pub(super) fn new(tool: &str) -> Self {
        Self {
            tool: ToolName::new(tool).unwrap(),
            server: ServerName::new("bank").unwrap(),
            call_id: CallId::new("call-1").unwrap(),
            principal: Principal::new("alice").unwrap(),
            agent: AgentId::new("support-bot").unwrap(),
            session: SessionId::new("session-1").unwrap(),
        }
    }

    /// The call that a proposal is for.
    pub(super) fn call_for(&self, proposal: &ActionProposal) -> ProposedCall<'_> {
        self.call().args(proposal.args_digest())
    }

    /// The same without arguments.
    pub(super) fn call(&self) -> ProposedCall<'_> {
        ProposedCall::new(&self.tool)
            .server(&self.server)
            .call_id(&self.call_id)
            .principal(&self.principal)
            .agent(&self.agent)
            .session(&self.session)
            .registry_version(7)
    }
}

pub(super) fn audience() -> Audience {
    Audience::new("gate-1").unwrap()
}

/// A gate that knows both keys.
pub(super) fn gate(profile: Profile) -> ProposalVerifierBuilder {
    ProposalVerifier::builder(profile).keyring(keyring()).audience(audience())
}

pub(super) fn built(gate: ProposalVerifierBuilder) -> ProposalVerifier {
    gate.build().unwrap()
}

/// Adds one entry of evidence.
pub(super) fn with_evidence(mut value: Value, entry: Value) -> Value {
    let entries = value.as_object_mut().unwrap().entry("evidence").or_insert_with(|| json!([]));
    entries.as_array_mut().unwrap().push(entry);
    value
}

/// Adds an attestation of every member, over the present proposal, for `facts`.
pub(super) fn attested(value: Value, id: &str, key: &SigningKey, key_id: &str, facts: &Facts) -> Value {
    let proposal = parsed(&value);
    let signed = AttestationDraft::for_proposal(&proposal, id)
        .call(&facts.call())
        .audience(&audience())
        .issued(at(NOW - 60_000))
        .expires(at(NOW + 600_000))
        .nonce(&format!("nonce-of-the-entry-{id}"))
        .sign(key, key_id)
        .unwrap();
    with_evidence(value, serde_json::from_str(&signed.to_entry_json()).unwrap())
}

/// The transfer, with the invoice attested by the finance officer.
pub(super) fn attested_transfer() -> Value {
    attested(transfer(), "invoice", &cfo(), "cfo-1", &Facts::new("payments_send"))
}

/// Verifies a proposal for the call that it proposes.
pub(super) fn judge(value: &Value, verifier: &ProposalVerifier) -> Result<VerifiedProposal, ProposalError> {
    let proposal = parse(value)?;
    let facts = Facts::new(proposal.tool());
    let call = facts.call_for(&proposal);
    proposal.verify(verifier, &call, &clock())
}

/// Code of a verification by a configured gate; `allow` without an error.
pub(super) fn verdict(value: &Value, gate: ProposalVerifierBuilder) -> &'static str {
    code(judge(value, &built(gate)))
}

/// As [`verdict`], with place and rule.
pub(super) fn answer(value: &Value, gate: ProposalVerifierBuilder) -> (&'static str, String) {
    outcome(judge(value, &built(gate)))
}

/// A hash entry for a file.
pub(super) fn hash_entry(id: &str, reference: &str, bytes: &[u8]) -> Value {
    json!({"id": id, "type": "hash", "ref": reference, "sha256": Digest::of(bytes).to_string()})
}

/// Members of an entry that binds the transfer's recipient, beside these.
pub(super) fn for_acme(scope: &Value) -> Value {
    let mut entry = scope.clone();
    entry["bounds"] = json!([{"pointer": "/to", "equals": "acme"}]);
    entry["issued"] = json!(NOW - 1_000);
    entry["expires"] = json!(NOW + 3_600_000);
    entry
}

/// An operator's list of some digests, each with these other members.
pub(super) fn endorsed(bytes: &[u8], scope: &Value) -> EndorsedDigests {
    let operator = SigningKey::from_seed([9; 32]);
    let mut entry = scope.clone();
    entry["sha256"] = json!(Digest::of(bytes).to_string());
    let list = json!({
        "format": "countersign-evidence-digests-1",
        "issued": NOW - 1_000,
        "expires": NOW + 3_600_000,
        "digests": [entry],
    });
    let draft = EndorsementDraft::from_json(list.to_string().as_bytes()).unwrap();
    let envelope = draft.to_envelope(&[&operator]).to_json();
    let root = TrustRoot::new(1, 1, vec![operator.verifying_key()]).unwrap();
    EndorsedDigests::load(envelope.as_bytes(), &root, at(NOW)).unwrap()
}

pub(super) fn files(files: &[(&str, &[u8])]) -> Arc<dyn EvidenceResolver> {
    Arc::new(files.iter().fold(crate::MemoryEvidence::new(), |all, (name, bytes)| all.with(*name, *bytes)))
}

pub(super) fn millis(count: u32) -> Millis {
    Millis::from_millis(count)
}
