use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_core::{AgentId, Millis, OutputTag, SessionId, Timestamp, ToolId};

use crate::agent_entry::AgentEntry;
use crate::claims::AgentClaims;
use crate::contract::{ContractError, SessionContract};
use crate::snapshot::FreshnessError;
use crate::view::{AgentError, RegistryView};

/// Most ancestors of a session.
const MAX_ANCESTORS: usize = 8;

/// Requested part of a list: all of it, or some items by name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wanted<T: Ord> {
    /// Every item that the registry lists.
    All,
    /// These items only. One unlisted item refuses the whole request.
    These(BTreeSet<T>),
}

impl<T: Ord> Wanted<T> {
    /// Requests items by name.
    #[must_use]
    pub fn these(names: impl IntoIterator<Item = T>) -> Self {
        Self::These(names.into_iter().collect())
    }
}

/// Request for a session. The agent can only ask for less than its entry allows.
#[derive(Clone, Debug)]
#[must_use]
pub struct NegotiationRequest {
    session: SessionId,
    agent: AgentId,
    tools: Wanted<ToolId>,
    tags: Wanted<OutputTag>,
    ttl: Option<Millis>,
    claims: Option<AgentClaims>,
}

impl NegotiationRequest {
    /// Requests all rights in the agent's entry, for the longest lifetime.
    pub const fn new(session: SessionId, agent: AgentId) -> Self {
        Self { session, agent, tools: Wanted::All, tags: Wanted::All, ttl: None, claims: None }
    }

    /// Sets the requested tools.
    pub fn wanted_tools(mut self, tools: Wanted<ToolId>) -> Self {
        self.tools = tools;
        self
    }

    /// Sets the requested output tags.
    pub fn wanted_tags(mut self, tags: Wanted<OutputTag>) -> Self {
        self.tags = tags;
        self
    }

    /// Sets the requested lifetime.
    pub const fn ttl(mut self, ttl: Millis) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Adds the agent's statements about itself. They do not change the contract.
    pub fn claims(mut self, claims: AgentClaims) -> Self {
        self.claims = Some(claims);
        self
    }

    /// Id of the session.
    #[must_use]
    pub const fn session(&self) -> &SessionId {
        &self.session
    }

    /// Id of the agent, as the host knows it.
    #[must_use]
    pub const fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// Statements of the agent about itself, for the record.
    #[must_use]
    pub const fn agent_claims(&self) -> Option<&AgentClaims> {
        self.claims.as_ref()
    }
}

/// Refusal of a session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NegotiateError {
    /// The registry is stale, or the agent unknown or revoked.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A requested tool is not listed for the agent, or not in the parent session.
    #[error("the tool `{0}` is not listed for the agent")]
    ToolNotListed(ToolId),
    /// A requested output tag is not listed for the agent, or not in the parent session.
    #[error("requested output tag not listed for the agent")]
    TagNotListed(OutputTag),
    /// The requested lifetime is 0, or longer than the agent's entry allows.
    #[error("session lifetime out of range: 1ms to {max} expected")]
    Ttl {
        /// Longest lifetime that the entry allows.
        max: Millis,
    },
    /// The contract of the parent session is no longer valid.
    #[error("the parent session's contract no longer holds")]
    Parent(#[source] ContractError),
    /// The chain of sessions is too long.
    #[error("session chain too long: at most {max}")]
    TooDeep {
        /// Most ancestors.
        max: usize,
    },
}

impl NegotiateError {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Agent(error) => error.code(),
            Self::ToolNotListed(_) | Self::TagNotListed(_) => "CAPABILITY_NOT_LISTED",
            Self::Ttl { .. } => "SESSION_TTL",
            Self::Parent(error) => error.code(),
            Self::TooDeep { .. } => "SESSION_DEPTH",
        }
    }
}

countersign_core::coded!(NegotiateError);

impl From<FreshnessError> for NegotiateError {
    fn from(error: FreshnessError) -> Self {
        Self::Agent(error.into())
    }
}

impl RegistryView {
    /// Negotiates a contract, as [`CapabilityRegistry::negotiate`](crate::CapabilityRegistry::negotiate) does.
    ///
    /// # Errors
    /// [`NegotiateError`] if the registry is stale, the agent is unknown or revoked, or the request exceeds its entry.
    pub fn negotiate(
        &self,
        request: &NegotiationRequest,
        now: Timestamp,
    ) -> Result<SessionContract, NegotiateError> {
        let entry = self.agent(&request.agent, now)?;
        let tools = choose(&request.tools, entry.shared_tools()).map_err(NegotiateError::ToolNotListed)?;
        let tags = choose(&request.tags, entry.shared_tags()).map_err(NegotiateError::TagNotListed)?;
        let expires = now.saturating_add(lifetime(request.ttl, entry)?);
        Ok(self.contract(request, Vec::new(), tools, tags, now, expires))
    }

    /// Negotiates the contract of a child session, as
    /// [`CapabilityRegistry::negotiate_under`](crate::CapabilityRegistry::negotiate_under) does.
    ///
    /// The child gets the intersection of its own entry, the parent's contract and the parent's current entry.
    ///
    /// # Errors
    /// [`NegotiateError`], as [`negotiate`](Self::negotiate), and if the parent's contract is no longer valid.
    pub fn negotiate_under(
        &self,
        parent: &SessionContract,
        request: &NegotiationRequest,
        now: Timestamp,
    ) -> Result<SessionContract, NegotiateError> {
        parent.check(self, now).map_err(NegotiateError::Parent)?;
        let mut ancestors = parent.ancestors().to_vec();
        ancestors.push(parent.agent().clone());
        if ancestors.len() > MAX_ANCESTORS {
            return Err(NegotiateError::TooDeep { max: MAX_ANCESTORS });
        }
        let above = self.agent(parent.agent(), now)?;
        let entry = self.agent(&request.agent, now)?;
        let open_tool = |tool: &&ToolId| parent.discloses(tool) && above.lists(tool);
        let open_tag = |tag: &&OutputTag| parent.tags().contains(*tag) && above.output_tags().contains(*tag);
        let open_tools = Arc::new(entry.tools().iter().filter(open_tool).cloned().collect());
        let open_tags = Arc::new(entry.output_tags().iter().filter(open_tag).cloned().collect());
        let tools = choose(&request.tools, &open_tools).map_err(NegotiateError::ToolNotListed)?;
        let tags = choose(&request.tags, &open_tags).map_err(NegotiateError::TagNotListed)?;
        let expires = now.saturating_add(lifetime(request.ttl, entry)?).min(parent.expires());
        Ok(self.contract(request, ancestors, tools, tags, now, expires))
    }

    // INVARIANT: the only place that creates a contract. It does not get the claims.
    fn contract(
        &self,
        request: &NegotiationRequest,
        ancestors: Vec<AgentId>,
        tools: Arc<BTreeSet<ToolId>>,
        tags: Arc<BTreeSet<OutputTag>>,
        issued: Timestamp,
        expires: Timestamp,
    ) -> SessionContract {
        SessionContract {
            session: request.session.clone(),
            agent: request.agent.clone(),
            ancestors: ancestors.into(),
            tools,
            tags,
            registry: Arc::clone(&self.snapshot().id),
            issued,
            expires,
        }
    }
}

/// Returns the requested items, or the first unlisted one as the error.
fn choose<T: Ord + Clone>(wanted: &Wanted<T>, listed: &Arc<BTreeSet<T>>) -> Result<Arc<BTreeSet<T>>, T> {
    match wanted {
        Wanted::All => Ok(Arc::clone(listed)),
        Wanted::These(names) => match names.iter().find(|name| !listed.contains(*name)) {
            Some(unlisted) => Err(unlisted.clone()),
            None if names == &**listed => Ok(Arc::clone(listed)),
            None => Ok(Arc::new(names.clone())),
        },
    }
}

fn lifetime(ttl: Option<Millis>, entry: &AgentEntry) -> Result<Millis, NegotiateError> {
    let max = entry.max_session();
    match ttl {
        Some(ttl) if ttl.is_zero() || ttl > max => Err(NegotiateError::Ttl { max }),
        Some(ttl) => Ok(ttl),
        None => Ok(max),
    }
}
