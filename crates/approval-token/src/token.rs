use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use countersign_core::{AgentId, CallFacts, CallId, Millis, OperatorId, Timestamp, TokenId, look_alike};
use countersign_keys::RunKeys;
use countersign_keys::sealed::{PayloadBuffer, SealedText, seal};

use crate::error::{ApprovalError, MintError};
use crate::payload::{LABEL, Payload, RECIPE};

/// Prefix of a token's text.
const PREFIX: &str = "cs1";

/// Default cap on the lifetime of an approval: one hour.
pub const DEFAULT_TTL_CAP: Millis = Millis::from_secs(3_600);

/// Largest integer that JSON numbers hold exactly.
const MAX_VERSION: u64 = (1 << 53) - 1;

/// Approver, token id, time of issue and lifetime of a token. The caller supplies all of them: an engine that replays
/// its workflow passes the same terms and gets the same token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MintTerms {
    token_id: TokenId,
    approver: OperatorId,
    issued: Timestamp,
    ttl: Millis,
}

impl MintTerms {
    /// Combines the terms. Token ids must be fresh: one spend uses the id up for the whole run, whatever call the token
    /// approves.
    #[must_use]
    pub const fn new(token_id: TokenId, approver: OperatorId, issued: Timestamp, ttl: Millis) -> Self {
        Self { token_id, approver, issued, ttl }
    }

    /// The token's id.
    #[must_use]
    pub const fn token_id(&self) -> &TokenId {
        &self.token_id
    }

    /// The person who approves.
    #[must_use]
    pub const fn approver(&self) -> &OperatorId {
        &self.approver
    }
}

/// Mints the token that approves one call in one run. Equal inputs give equal bytes.
///
/// ```
/// use countersign_approval_token::{DEFAULT_TTL_CAP, MemorySpentTokens, MintTerms, VerifyTerms, mint, verify};
/// use countersign_canonical_json::Recipe;
/// use countersign_core::{CallFacts, CallId, Digest, KeyId, Millis, OperatorId, Principal, RunId, Timestamp, TokenId, ToolId};
/// use countersign_keys::{Keyring, ServerSecret};
/// let keyring = Keyring::new(ServerSecret::new(KeyId::new("k1")?, &[7; 32])?);
/// let keys = keyring.for_run(&RunId::new("run-1")?);
/// let (call, tool) = (CallId::new("call-1")?, ToolId::new("desk", "refund")?);
/// let binding = CallFacts::new(call, tool, Digest::of(b"{}"), Recipe::Jcs1, Principal::new("alice")?);
/// let (now, skew) = (Timestamp::from_millis(1_000)?, Millis::from_secs(5));
/// let spent = MemorySpentTokens::since(now);
/// let terms = MintTerms::new(TokenId::new("t1")?, OperatorId::new("bob")?, now, Millis::from_secs(60));
///
/// let token = mint(&keys, &binding, &terms, DEFAULT_TTL_CAP)?;
/// let again = || verify(&token, &keys, &binding, now, &VerifyTerms::default());
/// assert!(again()?.spend(&spent, now, skew).is_ok());
/// assert!(again()?.spend(&spent, now, skew).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`MintError`] if the time to live is zero or above `cap`, the expiry is out of range, the approver is the agent,
/// or the registry version is above 2^53 - 1.
pub fn mint(
    keys: &RunKeys,
    binding: &CallFacts,
    terms: &MintTerms,
    cap: Millis,
) -> Result<ApprovalToken, MintError> {
    if terms.ttl.is_zero() || terms.ttl > cap {
        return Err(MintError::Ttl);
    }
    if is_self_approval(terms.approver.as_str(), binding.agent.as_ref()) {
        return Err(MintError::SelfApproval);
    }
    if binding.registry_version.is_some_and(|version| version > MAX_VERSION) {
        return Err(MintError::Binding);
    }
    let expires = terms.issued.checked_add(terms.ttl).map_err(|_| MintError::Time)?;
    let (key_id, key) = keys.active();
    let payload = Payload {
        recipe: RECIPE.into(),
        key_id: key_id.as_str().into(),
        token_id: terms.token_id.as_str().into(),
        call_id: binding.call_id.as_str().into(),
        server: binding.tool.server().as_str().into(),
        tool: binding.tool.name().as_str().into(),
        definition: binding.definition,
        args: binding.args,
        args_recipe: binding.args_recipe.as_str().into(),
        principal: binding.principal.as_str().into(),
        agent: binding.agent.as_ref().map(|id| id.as_str().into()),
        session: binding.session.as_ref().map(|id| id.as_str().into()),
        run: keys.run().as_str().into(),
        ask: binding.ask,
        plan: binding.plan,
        registry_version: binding.registry_version,
        audience: binding.audience.as_ref().map(|id| id.as_str().into()),
        approver: terms.approver.as_str().into(),
        issued: terms.issued,
        expires,
    };
    let canonical = payload.to_canonical().ok_or(MintError::Binding)?;
    let text = seal(PREFIX, LABEL, key, canonical.bytes()).map_err(|_| MintError::Binding)?;
    text.parse().map_err(|_| MintError::Binding)
}

/// Returns whether the approver is the agent, by id or by a look-alike name. Checked at minting and again at
/// verification, where the gate may know an agent that the approver left out.
pub(crate) fn is_self_approval(approver: &str, agent: Option<&AgentId>) -> bool {
    agent.is_some_and(|agent| look_alike(agent.as_str(), approver))
}

/// Unverified token: `cs1.<payload>.<tag>`, in its one spelling. A holder can spend it, so `Debug` does not print it;
/// [`as_str`](Self::as_str) is for handing it on.
#[derive(Clone)]
pub struct ApprovalToken(Box<str>);

impl ApprovalToken {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Expiry that the token claims; `None` if it states none. Unverified: a store uses it to drop expired tokens. Do
    /// not base a decision on it.
    #[must_use]
    pub fn claimed_expiry(&self) -> Option<Timestamp> {
        Payload::read(&self.payload()?).map(|payload| payload.expires)
    }

    /// Approver that the token claims; `None` if it states none. Unverified: a store uses it to count the approvals of a
    /// question. Do not base a decision on it.
    #[must_use]
    pub fn claimed_approver(&self) -> Option<OperatorId> {
        Payload::read(&self.payload()?).and_then(|payload| OperatorId::new(&payload.approver).ok())
    }

    /// Call that the token claims to approve; `None` if it states none. Unverified: a host uses it to keep a token until its
    /// call comes. Do not base a decision on it.
    #[must_use]
    pub fn claimed_call_id(&self) -> Option<CallId> {
        Payload::read(&self.payload()?).and_then(|payload| CallId::new(&payload.call_id).ok())
    }

    fn payload(&self) -> Option<Vec<u8>> {
        let (_, rest) = self.0.split_once('.')?;
        let (payload, _) = rest.split_once('.')?;
        Base64UrlUnpadded::decode_vec(payload).ok()
    }
}

impl std::str::FromStr for ApprovalToken {
    type Err = ApprovalError;

    /// Reads the shape only: the members are read after verification.
    fn from_str(text: &str) -> Result<Self, ApprovalError> {
        parse(text, &mut PayloadBuffer::default())?;
        Ok(Self(text.into()))
    }
}

/// Reads the shape of a token.
pub(crate) fn parse<'b>(text: &str, buffer: &'b mut PayloadBuffer) -> Result<SealedText<'b>, ApprovalError> {
    SealedText::parse(PREFIX, text, buffer).map_err(|_| ApprovalError::Invalid { reason: "shape" })
}

impl fmt::Debug for ApprovalToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApprovalToken(redacted)")
    }
}
