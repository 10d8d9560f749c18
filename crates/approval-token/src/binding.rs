use countersign_canonical_json::Recipe;
use countersign_core::{AgentId, Audience, CallId, Digest, Principal, SessionId, ToolId};
use serde::{Deserialize, Serialize};

use crate::payload::present;

/// Facts that identify one call. An approval binds all of them and the run, which comes from the keys.
///
/// ```
/// use countersign_approval_token::CallBinding;
/// use countersign_canonical_json::Recipe;
/// use countersign_core::{CallId, Digest, Principal, SessionId, ToolId};
/// let binding = CallBinding::new(
///     CallId::new("call-1")?,
///     ToolId::new("desk", "refund")?,
///     Digest::of(br#"{"amount":10}"#),
///     Recipe::Jcs1,
///     Principal::new("alice")?,
/// )
/// .with_session(SessionId::new("s-1")?);
/// assert_eq!(binding.tool().name().as_str(), "refund");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallBinding {
    call_id: CallId,
    tool: ToolId,
    args: Digest,
    args_recipe: Recipe,
    principal: Principal,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    agent: Option<AgentId>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    session: Option<SessionId>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    definition: Option<Digest>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    ask: Option<Digest>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    plan: Option<Digest>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    registry_version: Option<u64>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    audience: Option<Audience>,
}

impl CallBinding {
    /// Starts with the facts that every approval binds. `args` is the digest of the canonical arguments under
    /// `args_recipe`.
    #[must_use]
    pub const fn new(
        call_id: CallId,
        tool: ToolId,
        args: Digest,
        args_recipe: Recipe,
        principal: Principal,
    ) -> Self {
        Self {
            call_id,
            tool,
            args,
            args_recipe,
            principal,
            agent: None,
            session: None,
            definition: None,
            ask: None,
            plan: None,
            registry_version: None,
            audience: None,
        }
    }

    /// Binds the agent.
    #[must_use]
    pub fn with_agent(self, agent: AgentId) -> Self {
        Self { agent: Some(agent), ..self }
    }

    /// Binds the session.
    #[must_use]
    pub fn with_session(self, session: SessionId) -> Self {
        Self { session: Some(session), ..self }
    }

    /// Binds the tool's definition.
    #[must_use]
    pub fn with_definition(self, definition: Digest) -> Self {
        Self { definition: Some(definition), ..self }
    }

    /// Binds the pinned ask.
    #[must_use]
    pub fn with_ask(self, ask: Digest) -> Self {
        Self { ask: Some(ask), ..self }
    }

    /// Binds the root of the committed plan.
    #[must_use]
    pub fn with_plan(self, plan: Digest) -> Self {
        Self { plan: Some(plan), ..self }
    }

    /// Binds the version of the registry under which the call is decided.
    #[must_use]
    pub fn with_registry_version(self, version: u64) -> Self {
        Self { registry_version: Some(version), ..self }
    }

    /// Binds the gate that the token is for.
    #[must_use]
    pub fn with_audience(self, audience: Audience) -> Self {
        Self { audience: Some(audience), ..self }
    }

    /// The call.
    #[must_use]
    pub const fn call_id(&self) -> &CallId {
        &self.call_id
    }

    /// The tool, with its server.
    #[must_use]
    pub const fn tool(&self) -> &ToolId {
        &self.tool
    }

    /// The digest of the canonical arguments.
    #[must_use]
    pub const fn args(&self) -> &Digest {
        &self.args
    }

    /// Recipe that made the arguments canonical.
    #[must_use]
    pub const fn args_recipe(&self) -> Recipe {
        self.args_recipe
    }

    /// Principal on whose behalf the call is made.
    #[must_use]
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Agent, if bound.
    #[must_use]
    pub const fn agent(&self) -> Option<&AgentId> {
        self.agent.as_ref()
    }

    /// Session, if bound.
    #[must_use]
    pub const fn session(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// Digest of the tool's definition, if bound.
    #[must_use]
    pub const fn definition(&self) -> Option<&Digest> {
        self.definition.as_ref()
    }

    /// Digest of the pinned ask, if bound.
    #[must_use]
    pub const fn ask(&self) -> Option<&Digest> {
        self.ask.as_ref()
    }

    /// Root of the committed plan, if bound.
    #[must_use]
    pub const fn plan(&self) -> Option<&Digest> {
        self.plan.as_ref()
    }

    /// Registry version, if bound.
    #[must_use]
    pub const fn registry_version(&self) -> Option<u64> {
        self.registry_version
    }

    /// Gate, if bound.
    #[must_use]
    pub const fn audience(&self) -> Option<&Audience> {
        self.audience.as_ref()
    }

    /// Digest of the asker: the session, or the principal if no session is bound. Stores count pending approvals per
    /// asker. A second agent or principal in one session does not get a second count.
    #[must_use]
    pub fn asker(&self) -> Digest {
        match &self.session {
            Some(session) => asker_of_session(session),
            None => asker(b"principal", self.principal.as_str()),
        }
    }

    /// Digest of every field except the call id. Two calls with one digest are the same act, requested twice. Stores
    /// use it to find a pending approval again; a token binds the call id as well.
    #[must_use]
    pub fn act(&self) -> Digest {
        // why: an absent field and a present one differ in the first byte, so one cannot be read as the other.
        let optional = |bytes: Option<&[u8]>| bytes.map_or_else(|| vec![0], |bytes| [&[1], bytes].concat());
        let version = self.registry_version.map(u64::to_be_bytes);
        Digest::framed("countersign/act-1")
            .field(self.tool.server().as_str().as_bytes())
            .field(self.tool.name().as_str().as_bytes())
            .field(self.args.as_bytes())
            .field(self.args_recipe.as_str().as_bytes())
            .field(self.principal.as_str().as_bytes())
            .field(&optional(self.agent.as_ref().map(|id| id.as_str().as_bytes())))
            .field(&optional(self.session.as_ref().map(|id| id.as_str().as_bytes())))
            .field(&optional(self.definition.as_ref().map(|digest| digest.as_bytes().as_slice())))
            .field(&optional(self.ask.as_ref().map(|digest| digest.as_bytes().as_slice())))
            .field(&optional(self.plan.as_ref().map(|digest| digest.as_bytes().as_slice())))
            .field(&optional(version.as_ref().map(|bytes| bytes.as_slice())))
            .field(&optional(self.audience.as_ref().map(|id| id.as_str().as_bytes())))
            .finish()
    }
}

/// Digest of a session as asker ([`CallBinding::asker`]).
#[must_use]
pub fn asker_of_session(session: &SessionId) -> Digest {
    asker(b"session", session.as_str())
}

fn asker(kind: &[u8], id: &str) -> Digest {
    Digest::framed("countersign/asker-1").field(kind).field(id.as_bytes()).finish()
}
