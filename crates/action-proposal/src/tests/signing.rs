//! A proposal, a call, a signer and the rules for its evidence.

use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{
    AgentId, Audience, CallId, Digest, ImpactClass, Millis, Principal, ServerName, SessionId, ToolName,
};
use countersign_keys::SigningKey;
use serde_json::{Value, json};

pub(super) use super::world::at;
use crate::attestation::{AttestationRules, Broken, VerifiedSignature, verify_entry};
use crate::{
    ActionProposal, AttestationDraft, EvidenceEntry, EvidenceKeyring, Profile, ProposalLimits, ProposedCall,
    SignatureEntry,
};

/// 2026-01-31T12:00:00Z.
pub(super) const NOW: u64 = 1_769_860_800_000;

/// The profiles of the reference releases.
pub(super) const PIC: [Profile; 2] = [Profile::Pic09, Profile::Pic08];

pub(super) const KEY_ID: &str = "cfo-1";

pub(super) const EVIDENCE_ID: &str = "invoice";

pub(super) fn signer() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

pub(super) fn keyring_of(key: &Value) -> EvidenceKeyring {
    EvidenceKeyring::from_json(json!({"trusted_keys": {KEY_ID: key}}).to_string().as_bytes()).unwrap()
}

pub(super) fn keyring() -> EvidenceKeyring {
    keyring_of(&json!(signer().verifying_key().to_base64()))
}

/// A payment caused by an invoice and a mail, with this evidence.
pub(super) fn proposal_json(evidence: &[Value]) -> Value {
    let mut proposal = json!({
        "protocol": "PIC/1.0",
        "intent": "pay invoice 001",
        "impact": "money",
        "provenance": [
            {"id": "invoice", "trust": "untrusted", "source": "accounting"},
            {"id": "mail", "trust": "untrusted", "source": "inbox"},
        ],
        "claims": [{"text": "invoice 001 is approved", "evidence": ["invoice"]}],
        "action": {"tool": "payments_send", "args": {"amount": 500, "to": "ACME"}},
    });
    if !evidence.is_empty() {
        proposal["evidence"] = json!(evidence);
    }
    proposal
}

pub(super) fn parse(proposal: &Value) -> ActionProposal {
    ActionProposal::parse(proposal.to_string().as_bytes(), &ProposalLimits::default()).unwrap()
}

/// All facts of the call that a gate knows.
pub(super) struct Facts {
    pub(super) tool: ToolName,
    pub(super) server: ServerName,
    pub(super) call_id: CallId,
    pub(super) principal: Principal,
    pub(super) agent: AgentId,
    pub(super) session: SessionId,
    pub(super) ask: Digest,
    pub(super) plan: Digest,
    pub(super) audience: Audience,
}

impl Facts {
    pub(super) fn new() -> Self {
        Self {
            tool: ToolName::new("payments_send").unwrap(),
            server: ServerName::new("bank").unwrap(),
            call_id: CallId::new("call-1").unwrap(),
            principal: Principal::new("alice").unwrap(),
            agent: AgentId::new("bot").unwrap(),
            session: SessionId::new("s-1").unwrap(),
            ask: Digest::of(b"ask"),
            plan: Digest::of(b"plan"),
            audience: Audience::new("gate-1").unwrap(),
        }
    }

    pub(super) fn call(&self) -> ProposedCall<'_> {
        ProposedCall::new(&self.tool)
            .server(&self.server)
            .args(parse(&proposal_json(&[])).args_digest())
            .impact(ImpactClass::Money)
            .call_id(&self.call_id)
            .principal(&self.principal)
            .agent(&self.agent)
            .session(&self.session)
            .registry_version(7)
            .ask(self.ask)
            .plan(self.plan)
    }

    /// Members that the strict profile requires: issued a second ago, for a minute.
    pub(super) fn draft(&self) -> AttestationDraft {
        AttestationDraft::for_proposal(&parse(&proposal_json(&[])), EVIDENCE_ID)
            .audience(&self.audience)
            .issued(at(NOW - 1_000))
            .expires(at(NOW + 59_000))
            .call(&self.call())
            .nonce("0123456789abcdef")
    }

    /// A signed entry that every profile accepts.
    pub(super) fn entry(&self) -> Value {
        let signed = self.draft().sign(&signer(), KEY_ID).unwrap();
        serde_json::from_str(&signed.to_entry_json()).unwrap()
    }

    /// The attestation object of that entry.
    pub(super) fn object(&self) -> Value {
        serde_json::from_str(self.entry()["payload"].as_str().unwrap()).unwrap()
    }
}

/// Signs any object, as a holder of the key could.
pub(super) fn sign_object(object: &Value) -> Value {
    sign_text(&object.to_string())
}

/// Signs the canonical form of a payload that keeps its spelling.
pub(super) fn sign_text(payload: &str) -> Value {
    let canonical = read(payload.as_bytes(), Recipe::PicCjson1, &Limits::hard_caps()).unwrap();
    entry_of(payload, &signer().sign(canonical.bytes()).to_base64())
}

/// Signs a payload's own bytes.
pub(super) fn sign_raw(payload: &str) -> Value {
    entry_of(payload, &signer().sign(payload.as_bytes()).to_base64())
}

pub(super) fn entry_of(payload: &str, signature: &str) -> Value {
    json!({
        "id": EVIDENCE_ID, "type": "sig", "ref": "inline:attestation", "alg": "ed25519", "key_id": KEY_ID,
        "payload": payload, "signature": signature,
    })
}

/// Rules for an entry, which tests change.
pub(super) struct Judge<'a> {
    pub(super) profile: Profile,
    pub(super) keyring: EvidenceKeyring,
    pub(super) audience: Option<Audience>,
    pub(super) call: ProposedCall<'a>,
    pub(super) now: u64,
    pub(super) payload_bytes: usize,
    pub(super) listed: Option<ImpactClass>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(profile: Profile, facts: &'a Facts) -> Self {
        Self {
            profile,
            keyring: keyring(),
            audience: Some(facts.audience.clone()),
            call: facts.call(),
            now: NOW,
            payload_bytes: 16_384,
            listed: None,
        }
    }

    pub(super) fn strict(facts: &'a Facts) -> Self {
        Self::new(Profile::Strict, facts)
    }

    /// Judges the only entry of a proposal.
    pub(super) fn judge(&self, entry: &Value) -> Result<VerifiedSignature, Broken> {
        self.judge_in(&proposal_json(std::slice::from_ref(entry)))
    }

    pub(super) fn judge_in(&self, proposal: &Value) -> Result<VerifiedSignature, Broken> {
        let proposal = parse(proposal);
        let rules = AttestationRules {
            profile: self.profile,
            keyring: &self.keyring,
            audience: self.audience.as_ref(),
            skew: Millis::from_secs(5),
            max_age: Millis::from_secs(86_400),
            payload_bytes: self.payload_bytes,
            listed: self.listed,
        };
        verify_entry(signature_entry(&proposal), &proposal, &self.call, &rules, at(self.now))
    }

    /// Place of the entry's refusal.
    pub(super) fn place(&self, entry: &Value) -> &'static str {
        self.judge(entry).unwrap_err().place
    }
}

pub(super) fn signature_entry(proposal: &ActionProposal) -> &SignatureEntry {
    match &proposal.evidence()[0] {
        EvidenceEntry::Signature(entry) => entry,
        EvidenceEntry::Hash(entry) => panic!("not a signature: {entry:?}"),
    }
}

/// The object with one member replaced.
pub(super) fn with(mut object: Value, name: &str, value: Value) -> Value {
    object[name] = value;
    object
}

pub(super) fn without(mut object: Value, name: &str) -> Value {
    object.as_object_mut().unwrap().remove(name).unwrap();
    object
}

/// Asserts that every profile refuses an entry at this place.
pub(super) fn refused_by_all(facts: &Facts, entry: &Value, place: &str) {
    for profile in Profile::ALL {
        assert_eq!(Judge::new(profile, facts).place(entry), place, "{profile} {entry}");
    }
}
