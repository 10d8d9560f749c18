//! Verification of an attestation before it is signed.

use countersign_canonical_json::{Limits, Recipe, ValueRef, read, write_string};
use countersign_core::Clock;
use countersign_keys::SigningKey;

use super::draft::AttestationDraft;
use crate::{
    ActionProposal, EvidenceKeyring, ProposalCode, ProposalError, ProposalVerifier, ProposedCall,
    VerifiedEvidence,
};

/// Seed of the key that signs in a rehearsal. It is public: only a rehearsal accepts its signatures.
const STAND_IN: [u8; 32] = [0; 32];

impl ActionProposal {
    /// Returns the canonical text of the proposal with one more entry of evidence, at its end. Other digests stay the same.
    #[must_use]
    pub fn with_evidence(&self, entry: &str) -> String {
        let value = self.canonical().value();
        let entries = value.get("evidence").into_iter().flat_map(ValueRef::elements);
        let entries: Vec<String> = entries.map(ValueRef::canonical_text).chain([entry.to_owned()]).collect();
        let others = value.members().filter(|(name, _)| *name != "evidence");
        let others = others.map(|(name, value)| (name, value.canonical_text()));
        let mut text = String::from("{");
        for (name, member) in others.chain([("evidence", format!("[{}]", entries.join(",")))]) {
            if text.len() > 1 {
                text.push(',');
            }
            write_string(&mut text, name);
            text.push(':');
            text.push_str(&member);
        }
        text.push('}');
        let canonical = read(text.as_bytes(), Recipe::PicCjson1, &Limits::hard_caps());
        canonical.map_or(text, |canonical| canonical.as_str().to_owned())
    }
}

impl ProposalVerifier {
    /// Verifies a proposal as it would be once `draft` is signed by the key that the keyring lists as `key_id`: everything
    /// but that signature. Returns the verified evidence, with the bytes of the files that were hashed.
    ///
    /// It proves nothing about the call: the signature is missing.
    ///
    /// # Errors
    /// [`ProposalError`] with the code that the gate would give. A draft that cannot be signed
    /// ([`AttestationDraft::payload`]) is `PIC_EVIDENCE_FAILED`.
    pub fn rehearse(
        &self,
        proposal: &ActionProposal,
        draft: &AttestationDraft,
        key_id: &str,
        call: &ProposedCall<'_>,
        clock: &dyn Clock,
    ) -> Result<Vec<VerifiedEvidence>, ProposalError> {
        let stand_in = SigningKey::from_seed(STAND_IN);
        let unsigned = |rule| ProposalError::new(ProposalCode::EvidenceFailed, "the attestation", rule);
        let signed =
            draft.clone().sign(&stand_in, key_id).map_err(|_| unsigned("must be one that can be signed"))?;
        let text = proposal.with_evidence(&signed.to_entry_json());
        let verifier = Self { keyring: self.keyring.standing_in(key_id, &stand_in), ..self.clone() };
        let verified = verifier.parse(text.as_bytes())?.verify(&verifier, call, clock)?;
        Ok(verified.facts.evidence)
    }
}

impl EvidenceKeyring {
    /// Returns the keyring with another key under an id. Scope, times and revocation stay those of the listed key.
    fn standing_in(&self, id: &str, key: &SigningKey) -> Self {
        let mut keyring = self.clone();
        if let Some(listed) = keyring.keys.get_mut(id) {
            listed.key = key.verifying_key();
        }
        keyring
    }
}
