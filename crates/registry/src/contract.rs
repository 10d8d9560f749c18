use std::collections::BTreeSet;

use countersign_canonical_json::{Limits, Recipe, read, to_canonical};
use countersign_core::{AgentId, Digest, OutputTag, SessionId, Timestamp, ToolId};
use countersign_keys::MacKey;
use countersign_keys::sealed::{SealedText, seal};
use serde::Deserialize as _;

use crate::snapshot::FreshnessError;
use crate::tool_rules::ToolRules;
use crate::view::{AgentError, RegistryView};

/// What a sealed contract begins with.
const PREFIX: &str = "cc1";

/// The domain label of the seal.
const LABEL: &str = "countersign/contract-1";

/// Why a contract does not hold, or cannot be sealed or opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// The contract has run out, or is from the future.
    #[error("the session's contract has expired")]
    Expired,
    /// The snapshot that the contract was made under is revoked, or is not the one that counts under its version.
    #[error("the registry that the session's contract was made under no longer counts")]
    Superseded,
    /// The registry is stale, or the agent (or one that started its session) unknown or revoked.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A sealed text is not a contract that this key has sealed.
    #[error("the sealed contract does not verify")]
    Invalid,
    /// The contract is too large for a sealed text.
    #[error("the contract is too large to be sealed")]
    TooLarge,
}

impl ContractError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Expired | Self::Superseded => "CONTRACT_EXPIRED",
            Self::Agent(error) => error.code(),
            Self::Invalid => "CONTRACT_INVALID",
            Self::TooLarge => "CONTRACT_TOO_LARGE",
        }
    }
}

/// Holds what one session may do, made from the registry alone.
///
/// It is an upper bound: at each call, what counts is what both the contract and the registry of that moment allow
/// ([`disclosed`](Self::disclosed)). It cannot be made except by negotiation or by opening what the same key sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionContract {
    pub(crate) session: SessionId,
    pub(crate) agent: AgentId,
    pub(crate) ancestors: Vec<AgentId>,
    pub(crate) tools: BTreeSet<ToolId>,
    pub(crate) tags: BTreeSet<OutputTag>,
    pub(crate) registry_version: u64,
    pub(crate) registry_digest: Digest,
    pub(crate) issued: Timestamp,
    pub(crate) expires: Timestamp,
}

impl SessionContract {
    /// The session.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// The agent.
    #[must_use]
    pub const fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// The agents whose sessions led to this one, the first of them first; none when the host started it.
    #[must_use]
    pub fn ancestors(&self) -> &[AgentId] {
        &self.ancestors
    }

    /// The tools that are disclosed to the session.
    #[must_use]
    pub const fn tools(&self) -> &BTreeSet<ToolId> {
        &self.tools
    }

    /// Says whether a tool is disclosed to the session.
    #[must_use]
    pub fn discloses(&self, tool: &ToolId) -> bool {
        self.tools.contains(tool)
    }

    /// The kinds of output that the session can give.
    #[must_use]
    pub const fn tags(&self) -> &BTreeSet<OutputTag> {
        &self.tags
    }

    /// The version of the registry that it was made under.
    #[must_use]
    pub const fn registry_version(&self) -> u64 {
        self.registry_version
    }

    /// The digest of the registry that it was made under.
    #[must_use]
    pub const fn registry_digest(&self) -> Digest {
        self.registry_digest
    }

    /// When it was made.
    #[must_use]
    pub const fn issued(&self) -> Timestamp {
        self.issued
    }

    /// The first moment at which it no longer holds.
    #[must_use]
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// Says whether the contract holds now: it has not run out, the registry is fresh and no older than the one that the
    /// contract was made under, and the agent and all that led to its session are registered and not revoked.
    ///
    /// # Errors
    /// [`ContractError`] when it does not: `CONTRACT_EXPIRED`, `REGISTRY_STALE`, `AGENT_NOT_REGISTERED`, `AGENT_REVOKED`.
    pub fn check(&self, view: &RegistryView, now: Timestamp) -> Result<(), ContractError> {
        let snapshot = view.snapshot();
        if now >= self.expires || now.saturating_add(snapshot.skew()) < self.issued {
            return Err(ContractError::Expired);
        }
        let mut line = self.ancestors.iter().chain([&self.agent]);
        if line.clone().any(|agent| view.is_agent_revoked(agent)) {
            return Err(AgentError::Revoked.into());
        }
        line.try_for_each(|agent| view.agent(agent, now).map(drop))?;
        // Somebody signed a later registry than the one at hand, and the contract was negotiated under it.
        if self.registry_version > snapshot.version() {
            return Err(AgentError::Freshness(FreshnessError::Stale).into());
        }
        let same_version = self.registry_version == snapshot.version();
        let same_digest = self.registry_digest == snapshot.digest();
        if same_version != same_digest || view.is_snapshot_revoked(&self.registry_digest) {
            return Err(ContractError::Superseded);
        }
        Ok(())
    }

    /// What to check a call of the tool against, if the contract discloses the tool and the registry of this moment
    /// still lists it for the agent and for all that led to its session.
    ///
    /// Says nothing of time and revocation: [`check`](Self::check) does.
    #[must_use]
    pub fn disclosed<'v>(&self, view: &'v RegistryView, tool: &ToolId) -> Option<&'v ToolRules> {
        let snapshot = view.snapshot();
        let listed = |agent: &AgentId| snapshot.agent(agent).is_some_and(|entry| entry.lists(tool));
        if !self.discloses(tool) || !self.ancestors.iter().chain([&self.agent]).all(listed) {
            return None;
        }
        snapshot.tool(tool)
    }

    /// Seals the contract into a text that a host without memory can hand out and take back.
    ///
    /// The text is readable by whoever has it, and whoever has it can use it until it expires.
    ///
    /// # Errors
    /// [`ContractError::TooLarge`] when its payload is above 16 KiB.
    pub fn seal(&self, key: &MacKey) -> Result<String, ContractError> {
        let payload = to_canonical(&WireContract::from(self)).map_err(|_| ContractError::TooLarge)?;
        seal(PREFIX, LABEL, key, payload.bytes()).map_err(|_| ContractError::TooLarge)
    }

    /// Opens a sealed contract. The tag is verified before anything in it is read.
    ///
    /// # Errors
    /// [`ContractError::Invalid`] when the key did not seal it, [`ContractError::Expired`] when it has run out.
    pub fn open(text: &str, key: &MacKey, now: Timestamp) -> Result<Self, ContractError> {
        let sealed = SealedText::parse(PREFIX, text).map_err(|_| ContractError::Invalid)?;
        let payload = sealed.open(LABEL, key).map_err(|_| ContractError::Invalid)?;
        let canonical =
            read(payload, Recipe::Jcs1, &Limits::default()).map_err(|_| ContractError::Invalid)?;
        let wire = WireContract::deserialize(canonical.value()).map_err(|_| ContractError::Invalid)?;
        let contract = Self::from(wire);
        // One spelling: what would be sealed again is what was opened, so nothing was out of order or there twice.
        let again = to_canonical(&WireContract::from(&contract)).map_err(|_| ContractError::Invalid)?;
        if again.bytes() != payload {
            return Err(ContractError::Invalid);
        }
        if now >= contract.expires {
            return Err(ContractError::Expired);
        }
        Ok(contract)
    }
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WireContract {
    recipe: Recipe1,
    session: SessionId,
    agent: AgentId,
    ancestors: Vec<AgentId>,
    tools: Vec<ToolId>,
    tags: Vec<OutputTag>,
    registry_version: u64,
    registry_digest: Digest,
    issued: Timestamp,
    expires: Timestamp,
}

/// The one recipe there is.
#[derive(serde::Serialize, serde::Deserialize)]
enum Recipe1 {
    #[serde(rename = "contract-1")]
    Contract1,
}

impl From<&SessionContract> for WireContract {
    fn from(contract: &SessionContract) -> Self {
        Self {
            recipe: Recipe1::Contract1,
            session: contract.session.clone(),
            agent: contract.agent.clone(),
            ancestors: contract.ancestors.clone(),
            tools: contract.tools.iter().cloned().collect(),
            tags: contract.tags.iter().cloned().collect(),
            registry_version: contract.registry_version,
            registry_digest: contract.registry_digest,
            issued: contract.issued,
            expires: contract.expires,
        }
    }
}

impl From<WireContract> for SessionContract {
    fn from(wire: WireContract) -> Self {
        Self {
            session: wire.session,
            agent: wire.agent,
            ancestors: wire.ancestors,
            tools: wire.tools.into_iter().collect(),
            tags: wire.tags.into_iter().collect(),
            registry_version: wire.registry_version,
            registry_digest: wire.registry_digest,
            issued: wire.issued,
            expires: wire.expires,
        }
    }
}
