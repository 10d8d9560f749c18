// One-time setup by the operator of a finance desk, in a temporary folder: a signed registry in which money moves only
// with evidence, a keyring with the key of the clerk who attests, an evidence folder, and a gate that uses all of them.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use countersign::Countersign;
use countersign::action_proposal::{
    EvidenceFolder, EvidenceKeyring, Profile, ProposalVerifier, VerifiedEvidence,
};
use countersign::approval_token::MemorySpentTokens;
use countersign::audit_log::MemorySink;
use countersign::core::{AgentId, Audience, Clock as _, Millis, Principal, SessionId, SystemClock};
use countersign::keys::trusted::write_public;
use countersign::keys::{SigningKey, TrustRoot};
use countersign::registry::RegistryDraft;
use countersign::tool_gate::{CallError, ProposalSettings, RejectionCode, ToolCall, ToolGate};

/// Audience of the attestations: this gate.
pub(crate) const AUDIENCE: &str = "finance-gate";

/// The clerk's id in the keyring.
pub(crate) const CLERK: &str = "clerk-2026";

/// Signing keys of the operator and the clerk. For the examples only: real ones come from `countersign keys generate`.
const OPERATOR_SEED: [u8; 32] = [7; 32];
const CLERK_SEED: [u8; 32] = [8; 32];

/// A gate whose session may read mail, make refunds and wire money.
pub(crate) struct FinanceDesk {
    pub(crate) gate: ToolGate,
    /// The evidence folder.
    pub(crate) evidence: PathBuf,
}

pub(crate) fn clerk() -> SigningKey {
    SigningKey::from_seed(CLERK_SEED)
}

impl FinanceDesk {
    pub(crate) fn open(name: &str) -> Result<Self, Box<dyn Error>> {
        let folder = std::env::temp_dir().join(format!("countersign-{name}-{}", std::process::id()));
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        let evidence = folder.join("evidence");
        std::fs::create_dir_all(&evidence)?;
        let (registry, root, keyring) =
            (folder.join("registry.json"), folder.join("trust-root.json"), folder.join("evidence-keys.json"));

        let operator = SigningKey::from_seed(OPERATOR_SEED);
        write_public(&root, TrustRoot::new(1, 1, vec![operator.verifying_key()])?.to_json().as_bytes())?;
        let now = SystemClock::new().now()?;
        let envelope = RegistryDraft::from_json(DRAFT.as_bytes())?.sign(
            now,
            now.checked_add(Millis::from_secs(3_600))?,
            &[&operator],
        )?;
        write_public(&registry, envelope.to_json().as_bytes())?;
        let key = clerk().verifying_key().to_base64();
        let keys = format!(
            r#"{{"trusted_keys":{{"{CLERK}":{{"public_key":"{key}","tools":["wire_transfer"],"impacts":["money"]}}}}}}"#
        );
        write_public(&keyring, keys.as_bytes())?;

        let verifier = ProposalVerifier::builder(Profile::Strict)
            .keyring(EvidenceKeyring::from_json(&std::fs::read(&keyring)?)?)
            .resolver(Arc::new(EvidenceFolder::open(&evidence)?))
            .audience(Audience::new(AUDIENCE)?)
            .build()?;
        let gate = Countersign::load(&registry, &root, folder.join("registry.state"))?
            .session(
                AgentId::new("finance-bot")?,
                SessionId::new("session-1")?,
                Principal::new("ada@example.com")?,
            )
            .goal("Answer today's mail and pay the invoices that are due")
            .proposals(ProposalSettings::new(Arc::new(verifier), Arc::new(MemorySpentTokens::new())))
            .open(MemorySink::new())?;
        Ok(Self { gate, evidence })
    }

    /// Checks a call with a proposal and, if it is accepted, runs it. Prints and returns the result: the code of the
    /// refusal, or `None` if the call ran. A tool that runs gets the verified evidence.
    pub(crate) fn attempt(
        &self,
        how: &str,
        call: &ToolCall<'_>,
        mut tool: impl FnMut(&str, &[VerifiedEvidence]),
    ) -> Option<RejectionCode> {
        match self.gate.check(call) {
            Ok(accepted) => {
                println!(
                    "{how}: accepted ({}, {} pieces of evidence)",
                    accepted.impact(),
                    accepted.evidence().len()
                );
                let ran = accepted.run_with_evidence(|args, evidence| {
                    tool(args.as_str(), evidence);
                    Ok::<_, std::convert::Infallible>(())
                });
                match ran {
                    Err(CallError::Rejected(no)) => Some(no.code()),
                    Ok(()) | Err(_) => None,
                }
            }
            Err(no) => {
                println!("{how}: {no}");
                if let Some(reason) = self.gate.call_log().last().and_then(|record| record.reason.as_ref()) {
                    println!("    recorded, not shown to the agent: {reason}");
                }
                Some(no.code())
            }
        }
    }
}

const DRAFT: &str = r#"{
  "format": "countersign-registry-1",
  "version": 1,
  "agents": [{
    "agent": "finance-bot", "version": 1, "registered_by": "finance-operator",
    "tools": [{"server": "desk", "name": "read_mail"}, {"server": "desk", "name": "refund"},
              {"server": "bank", "name": "wire_transfer"}],
    "output_tags": ["answer"], "max_session": "30m"
  }],
  "tools": [
    {"server": "desk", "name": "read_mail", "impact": "read", "approval": "not_required",
     "args_schema": {"type": "object", "properties": {"id": {"type": "string"}},
                     "required": ["id"], "additionalProperties": false}},
    {"server": "desk", "name": "refund", "impact": "money", "approval": "not_required", "evidence": "required",
     "args_schema": {"type": "object", "properties": {"customer": {"type": "string"}, "amount": {"type": "number"}},
                     "required": ["customer", "amount"], "additionalProperties": false}},
    {"server": "bank", "name": "wire_transfer", "impact": "money", "approval": "not_required", "evidence": "required",
     "args_schema": {"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "number"}},
                     "required": ["to", "amount"], "additionalProperties": false}}
  ],
  "revoked": {"agents": [], "keys": [], "snapshots": []}
}"#;
