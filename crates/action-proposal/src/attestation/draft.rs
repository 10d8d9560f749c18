use std::fmt;

use countersign_canonical_json::{Limits, Recipe, SerializeError, read, to_canonical};
use countersign_core::{
    AgentId, Audience, CallId, Digest, IdError, ImpactClass, KeyId, Principal, ServerName, SessionId,
    Timestamp,
};
use countersign_keys::{Signature, SigningKey};
use serde::Serialize;

use super::bind::is_nonce;
use super::members::ATTESTATION_VERSION;
use crate::{ActionProposal, HashEntry, ProposalLimits, ProposedCall};
use countersign_core::rfc3339::is_sayable;

/// Failure to sign an attestation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttestError {
    /// The proposal has no input with the id of the evidence, so the attestation would raise no trust.
    #[error("the proposal has no provenance entry with the evidence id")]
    EvidenceId,
    /// The key id is not valid in a keyring.
    #[error("invalid key id")]
    KeyId(#[source] IdError),
    /// The nonce is missing, or is not 16 to 128 visible ASCII characters.
    #[error("a nonce is 16 to 128 visible ASCII characters")]
    Nonce,
    /// The time of issue or the end is missing, the end does not follow the issue, or a time lies beyond the year
    /// 9999.
    #[error("attestation times out of range: issue before expiry, expiry before the year 10000")]
    Times,
    /// The object exceeds the limit of a signed payload.
    #[error("the attestation is longer than {max} bytes")]
    TooLarge {
        /// Largest object, in bytes.
        max: usize,
    },
    /// The object has no canonical form: the registry version is above 2^53 - 1.
    #[error("the attestation has no canonical form")]
    NotCanonical(#[source] Option<SerializeError>),
}

impl AttestError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::EvidenceId => "ATTEST_EVIDENCE_ID",
            Self::KeyId(_) => "ATTEST_KEY_ID",
            Self::Nonce => "ATTEST_NONCE",
            Self::Times => "ATTEST_TIMES",
            Self::TooLarge { .. } => "ATTEST_TOO_LARGE",
            Self::NotCanonical(_) => "ATTEST_NOT_CANONICAL",
        }
    }
}

countersign_core::coded!(AttestError);

/// Unsigned attestation object: a statement that a proposal may raise one of its inputs for one call.
///
/// Times and nonce are mandatory. Other members are written only if set: the strict profile requires the audience and
/// every fact of the call, the others compare the stated members ([`Profile`](crate::Profile)).
#[derive(Clone)]
#[must_use]
pub struct AttestationDraft {
    evidence_is_input: bool,
    issued: Option<Timestamp>,
    expires: Option<Timestamp>,
    object: WireAttestation,
}

impl AttestationDraft {
    /// Starts with the members of every attestation: the proposal's tool, impact, arguments, claims, inputs and
    /// intent, its evidence files with their digests, and the id of the evidence entry to create.
    ///
    /// Add the files first: under the strict profile the attestation is worthless if a file is added, removed,
    /// exchanged or moved later. Other attestations may be added.
    pub fn for_proposal(proposal: &ActionProposal, evidence_id: &str) -> Self {
        let ids = || proposal.provenance().iter().map(|input| input.id());
        Self {
            evidence_is_input: ids().any(|id| id == evidence_id),
            issued: None,
            expires: None,
            object: WireAttestation {
                attestation_version: ATTESTATION_VERSION,
                tool: proposal.tool().to_owned(),
                impact: proposal.impact(),
                args_digest: proposal.args_digest(),
                claims_digest: proposal.claims_digest(),
                intent_digest: proposal.intent_digest(),
                provenance_ids: ids().map(str::to_owned).collect(),
                audience: None,
                issued_at: None,
                expires_at: None,
                x_call_id: None,
                x_principal: None,
                x_agent: None,
                x_session: None,
                x_server: None,
                x_registry_version: None,
                x_files: proposal.hash_entries().map(WireFile::of).collect(),
                x_evidence_id: evidence_id.to_owned(),
                x_key_id: String::new(),
                x_nonce: None,
                x_ask: None,
                x_plan_root: None,
            },
        }
    }

    /// Sets the gate that it is for.
    pub fn audience(mut self, audience: &Audience) -> Self {
        self.object.audience = Some(audience.clone());
        self
    }

    /// Sets the time of issue.
    pub const fn issued(mut self, issued: Timestamp) -> Self {
        self.issued = Some(issued);
        self
    }

    /// Sets the first moment at which it no longer counts.
    pub const fn expires(mut self, expires: Timestamp) -> Self {
        self.expires = Some(expires);
        self
    }

    /// Sets the call's id.
    pub fn call_id(mut self, id: &CallId) -> Self {
        self.object.x_call_id = Some(id.clone());
        self
    }

    /// Sets the principal on whose behalf the agent acts.
    pub fn principal(mut self, principal: &Principal) -> Self {
        self.object.x_principal = Some(principal.clone());
        self
    }

    /// Sets the agent.
    pub fn agent(mut self, agent: &AgentId) -> Self {
        self.object.x_agent = Some(agent.clone());
        self
    }

    /// Sets the session.
    pub fn session(mut self, session: &SessionId) -> Self {
        self.object.x_session = Some(session.clone());
        self
    }

    /// Sets the server of the tool.
    pub fn server(mut self, server: &ServerName) -> Self {
        self.object.x_server = Some(server.clone());
        self
    }

    /// Sets the version of the registry that decides the call.
    pub const fn registry_version(mut self, version: u64) -> Self {
        self.object.x_registry_version = Some(version);
        self
    }

    /// Sets the digest of the session's pinned goal.
    pub const fn ask(mut self, digest: Digest) -> Self {
        self.object.x_ask = Some(digest);
        self
    }

    /// Sets the root of the session's committed plan.
    pub const fn plan(mut self, root: Digest) -> Self {
        self.object.x_plan_root = Some(root);
        self
    }

    /// Sets every fact of a call: call id, principal, agent, session, server, registry version, goal and plan.
    pub fn call(mut self, call: &ProposedCall<'_>) -> Self {
        let object = &mut self.object;
        object.x_call_id = call.call_id.cloned();
        object.x_principal = call.principal.cloned();
        object.x_agent = call.agent.cloned();
        object.x_session = call.session.cloned();
        object.x_server = call.server.cloned();
        object.x_registry_version = call.registry_version;
        object.x_ask = call.ask;
        object.x_plan_root = call.plan;
        self
    }

    /// Sets the nonce: 16 to 128 visible ASCII characters that the caller drew at random. One nonce of one key is
    /// good for one call.
    pub fn nonce(mut self, nonce: &str) -> Self {
        self.object.x_nonce = Some(nonce.to_owned());
        self
    }

    /// Returns the bytes that [`sign`](Self::sign) would sign, for a person to read first.
    ///
    /// # Errors
    /// [`AttestError`] if no verifier could accept it.
    pub fn payload(&self, key_id: &str) -> Result<String, AttestError> {
        let mut draft = self.clone();
        draft.write_payload(key_id)
    }

    fn write_payload(&mut self, key_id: &str) -> Result<String, AttestError> {
        KeyId::new(key_id).map_err(AttestError::KeyId)?;
        if !self.evidence_is_input {
            return Err(AttestError::EvidenceId);
        }
        if !self.object.x_nonce.as_deref().is_some_and(is_nonce) {
            return Err(AttestError::Nonce);
        }
        self.write_times()?;
        key_id.clone_into(&mut self.object.x_key_id);
        self.canonical_payload()
    }

    /// Signs it with the key that keyrings list as `key_id`.
    ///
    /// # Errors
    /// [`AttestError`] if no verifier could accept it.
    pub fn sign(self, key: &SigningKey, key_id: &str) -> Result<SignedAttestation, AttestError> {
        let signature = key.sign(self.payload(key_id)?.as_bytes());
        self.signed(signature, key_id)
    }

    /// Adds a signature that was made elsewhere over [`payload`](Self::payload), by the key that keyrings list as `key_id`. It
    /// is not verified here: verify the proposal with the entry.
    ///
    /// # Errors
    /// As [`sign`](Self::sign).
    pub fn signed(mut self, signature: Signature, key_id: &str) -> Result<SignedAttestation, AttestError> {
        let payload = self.write_payload(key_id)?;
        Ok(SignedAttestation {
            evidence_id: self.object.x_evidence_id,
            key_id: self.object.x_key_id,
            payload,
            signature,
        })
    }

    fn write_times(&mut self) -> Result<(), AttestError> {
        let (issued, expires) = self.issued.zip(self.expires).ok_or(AttestError::Times)?;
        if expires <= issued || !is_sayable(expires) {
            return Err(AttestError::Times);
        }
        self.object.issued_at = Some(issued.to_string());
        self.object.expires_at = Some(expires.to_string());
        Ok(())
    }

    /// Canonical form, read back as a verifier reads it.
    fn canonical_payload(&self) -> Result<String, AttestError> {
        let max = ProposalLimits::default().payload_bytes;
        let written = to_canonical(&self.object).map_err(|error| AttestError::NotCanonical(Some(error)))?;
        if written.bytes().len() > max {
            return Err(AttestError::TooLarge { max });
        }
        let read_back = read(written.bytes(), Recipe::PicCjson1, &Limits::hard_caps())
            .map_err(|_| AttestError::NotCanonical(None))?;
        Ok(read_back.as_str().to_owned())
    }
}

/// why: its content comes from the agent and the caller, so it is not printed.
impl fmt::Debug for AttestationDraft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttestationDraft")
            .field("impact", &self.object.impact)
            .field("issued", &self.issued)
            .field("expires", &self.expires)
            .finish_non_exhaustive()
    }
}

/// Signed attestation, for a proposal to carry as evidence.
#[derive(Clone, PartialEq, Eq)]
pub struct SignedAttestation {
    evidence_id: String,
    key_id: String,
    payload: String,
    signature: Signature,
}

impl SignedAttestation {
    /// Attestation object in canonical form: exactly the signed bytes.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// The signature over the payload.
    #[must_use]
    pub const fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Writes an entry for a proposal's `evidence`.
    #[must_use]
    #[expect(clippy::expect_used, clippy::missing_panics_doc, reason = "texts in a struct always serialise")]
    pub fn to_entry_json(&self) -> String {
        let entry = WireEntry {
            id: &self.evidence_id,
            kind: "sig",
            reference: "inline:attestation",
            payload: &self.payload,
            alg: "ed25519",
            signature: self.signature.to_base64(),
            key_id: &self.key_id,
        };
        to_canonical(&entry).expect("an entry is JSON").as_str().to_owned()
    }
}

/// Prints its size only.
impl fmt::Debug for SignedAttestation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedAttestation({} bytes)", self.payload.len())
    }
}

#[derive(Clone, Serialize)]
struct WireAttestation {
    attestation_version: &'static str,
    tool: String,
    impact: ImpactClass,
    args_digest: Digest,
    claims_digest: Digest,
    intent_digest: Digest,
    provenance_ids: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    audience: Option<Audience>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_call_id: Option<CallId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_principal: Option<Principal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_agent: Option<AgentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_session: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_server: Option<ServerName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_registry_version: Option<u64>,
    x_files: Vec<WireFile>,
    x_evidence_id: String,
    x_key_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_nonce: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_ask: Option<Digest>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x_plan_root: Option<Digest>,
}

#[derive(Clone, Serialize)]
struct WireFile {
    id: Box<str>,
    sha256: Digest,
}

impl WireFile {
    fn of(entry: &HashEntry) -> Self {
        Self { id: entry.id.clone(), sha256: entry.sha256 }
    }
}

#[derive(Serialize)]
struct WireEntry<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "ref")]
    reference: &'static str,
    payload: &'a str,
    alg: &'static str,
    signature: String,
    key_id: &'a str,
}
