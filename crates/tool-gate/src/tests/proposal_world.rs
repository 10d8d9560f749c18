//! Shared by the tests of step 8: proposals, a key that attests, and gates that take both.

use std::sync::Arc;

use countersign_action_proposal::*;
use countersign_core::*;
use countersign_keys::{SigningKey, TrustRoot};
use serde_json::{Value, json};

use super::world::*;
use crate::*;

pub(super) const WIRE: &[u8] = br#"{"to":"DE02","amount":49}"#;
pub(super) const INVOICE: &[u8] = b"Invoice 7: 49 EUR to DE02";

/// A proposal in progress. It has two inputs, a mail and an invoice, and one claim that cites the invoice.
#[derive(Clone)]
pub(super) struct Draft(pub(super) Value);

impl Draft {
    pub(super) fn new(tool: &str, args: &[u8], impact: &str) -> Self {
        let args: Value = serde_json::from_slice(args).unwrap();
        Self(json!({
            "protocol": "PIC/1.0", "intent": "pay what the supplier is owed", "impact": impact,
            "provenance": [{"id": "mail", "trust": "untrusted"}, {"id": "invoice", "trust": "untrusted"}],
            "claims": [{"text": "the invoice is due", "evidence": ["invoice"]}],
            "action": {"tool": tool, "args": args}, "evidence": [],
        }))
    }

    pub(super) fn wire() -> Self {
        Self::new("wire", WIRE, "money")
    }

    /// Adds an entry given as JSON text.
    pub(super) fn with(mut self, entry: &str) -> Self {
        let entry = serde_json::from_str(entry).unwrap();
        self.0["evidence"].as_array_mut().unwrap().push(entry);
        self
    }

    /// Adds the invoice's file under another id than the provenance's, so that it raises nothing.
    pub(super) fn with_file(self, digest: Digest) -> Self {
        let entry = json!({"id": "file", "type": "hash", "ref": "file://invoice.txt", "sha256": digest});
        self.with(&entry.to_string())
    }

    pub(super) fn json(&self) -> Vec<u8> {
        self.0.to_string().into_bytes()
    }

    pub(super) fn parse(&self) -> ActionProposal {
        ActionProposal::parse(&self.json(), &ProposalLimits::default()).unwrap()
    }
}

pub(super) fn attestor() -> SigningKey {
    SigningKey::from_seed([5; 32])
}

pub(super) fn verifier() -> ProposalVerifierBuilder {
    let keyring = json!({"trusted_keys": {"finance": attestor().verifying_key().to_base64()}}).to_string();
    ProposalVerifier::builder(Profile::Strict)
        .keyring(EvidenceKeyring::from_json(keyring.as_bytes()).unwrap())
        .resolver(Arc::new(MemoryEvidence::new().with("file://invoice.txt", INVOICE)))
        .audience(Audience::new("gate-1").unwrap())
}

/// Facts about a call that its attestation must bind, as an attestor gets them.
pub(super) struct Told {
    pub(super) tool: ToolId,
    pub(super) call_id: CallId,
    pub(super) principal: Principal,
    pub(super) agent: AgentId,
    pub(super) session: SessionId,
    pub(super) registry_version: u64,
    pub(super) ask: Option<Digest>,
    pub(super) plan: Option<Digest>,
    pub(super) audience: Audience,
}

impl Told {
    pub(super) fn of(gate: &ToolGate, call_id: &str, tool: &str) -> Self {
        Self {
            tool: ToolId::new("desk", tool).unwrap(),
            call_id: CallId::new(call_id).unwrap(),
            principal: gate.principal().clone(),
            agent: gate.contract().agent().clone(),
            session: gate.contract().session().clone(),
            registry_version: gate.registry().view().snapshot().version(),
            ask: gate.pinned_ask().map(|pin| pin.digest()),
            plan: gate.plan_root().map(|root| root.digest()),
            audience: Audience::new("gate-1").unwrap(),
        }
    }

    /// Signs that the proposal's invoice is valid for this call.
    pub(super) fn attest(&self, proposal: &Draft, nonce: &str, now: Timestamp) -> String {
        let mut call = ProposedCall::new(self.tool.name())
            .server(self.tool.server())
            .call_id(&self.call_id)
            .principal(&self.principal)
            .agent(&self.agent)
            .session(&self.session)
            .registry_version(self.registry_version);
        if let Some(ask) = self.ask {
            call = call.ask(ask);
        }
        if let Some(root) = self.plan {
            call = call.plan(root);
        }
        AttestationDraft::for_proposal(&proposal.parse(), "invoice")
            .audience(&self.audience)
            .issued(now)
            .expires(now.checked_add(Millis::from_secs(300)).unwrap())
            .call(&call)
            .nonce(&format!("{nonce:0>16}"))
            .sign(&attestor(), "finance")
            .unwrap()
            .to_entry_json()
    }
}

impl World {
    pub(super) fn proposals(&self, verifier: ProposalVerifierBuilder) -> ProposalSettings {
        let verifier = Arc::new(verifier.build().unwrap());
        ProposalSettings::new(verifier, Arc::clone(&self.spent) as Arc<dyn SpentTokens>)
    }

    /// A gate with every setting that also takes proposals.
    pub(super) fn proving(&self) -> ToolGateBuilder {
        self.full().proposals(self.proposals(verifier()))
    }

    /// The proposal with an attestation of one call.
    pub(super) fn attested(
        &self,
        gate: &ToolGate,
        call_id: &str,
        tool: &str,
        draft: Draft,
        nonce: &str,
    ) -> Vec<u8> {
        let entry = Told::of(gate, call_id, tool).attest(&draft, nonce, self.clock.now().unwrap());
        draft.with(&entry).json()
    }

    pub(super) fn attested_wire(&self, gate: &ToolGate, call_id: &str, nonce: &str) -> Vec<u8> {
        let draft = Draft::wire().with_file(Digest::of(INVOICE));
        self.attested(gate, call_id, "wire", draft, nonce)
    }
}

pub(super) const fn wire(id: &str) -> ToolCall<'_> {
    ToolCall::new(id, "desk", "wire", WIRE)
}

/// Returns the code and the recorded reason of the refusal.
pub(super) fn refusal(gate: &ToolGate, call: &ToolCall<'_>) -> (RejectionCode, String) {
    let no = gate.check(call).unwrap_err();
    let record = gate.call_log().pop().unwrap();
    assert_eq!(record.code.unwrap().as_str(), no.code().as_str());
    (no.code(), record.reason.map(|reason| reason.as_str().to_owned()).unwrap_or_default())
}

/// An operator's key for evidence; another key signs the registry.
pub(super) fn endorser() -> SigningKey {
    SigningKey::from_seed([6; 32])
}

/// A verifier that takes the operator's word for the invoice: at low impacts, and for its payment.
pub(super) fn endorsing() -> ProposalVerifierBuilder {
    endorsing_payments(3)
}

/// Like [`endorsing`], for this many payments.
pub(super) fn endorsing_payments(uses: u32) -> ProposalVerifierBuilder {
    let expires = start().checked_add(Millis::from_secs(86_400)).unwrap();
    let list = json!({"format": "countersign-evidence-digests-1", "issued": start(), "expires": expires,
    "digests": [
        {"sha256": Digest::of(INVOICE)},
        {"sha256": Digest::of(INVOICE), "tools": ["wire"], "issued": start(), "expires": expires, "uses": uses,
         "bounds": [{"pointer": "/to", "equals": "DE02"}, {"pointer": "/amount", "max": 49}]},
    ]});
    let draft = EndorsementDraft::from_json(list.to_string().as_bytes()).unwrap();
    let envelope = draft.to_envelope(&[&endorser()]).to_json();
    let root = TrustRoot::new(1, 1, vec![endorser().verifying_key()]).unwrap();
    verifier().endorsed(EndorsedDigests::load(envelope.as_bytes(), &root, start()).unwrap())
}

/// Adds the invoice's file as the evidence of the input with that name.
pub(super) fn file_of_the_invoice(draft: Draft) -> Draft {
    let entry =
        json!({"id": "invoice", "type": "hash", "ref": "file://invoice.txt", "sha256": Digest::of(INVOICE)});
    draft.with(&entry.to_string())
}
