use serde::{Deserialize, Deserializer, Serialize};

use crate::digest::Digest;
use crate::id::{AgentId, Audience, CallId, Principal, SessionId};
use crate::recipe::Recipe;
use crate::tool::ToolId;

/// Facts that identify one call. The gate decides by them, an approval binds all of them, and a record states them.
///
/// The run of a workflow is not among them: it selects the keys.
///
/// ```
/// use countersign_core::{CallFacts, CallId, Digest, Principal, Recipe, SessionId, ToolId};
/// let facts = CallFacts::new(
///     CallId::new("call-1")?,
///     ToolId::new("desk", "refund")?,
///     Digest::of(br#"{"amount":10}"#),
///     Recipe::Jcs1,
///     Principal::new("alice")?,
/// )
/// .session(SessionId::new("s-1")?);
/// assert_eq!(facts.tool.name().as_str(), "refund");
/// # Ok::<(), countersign_core::IdError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CallFacts {
    /// The call.
    pub call_id: CallId,
    /// The tool, with its server.
    pub tool: ToolId,
    /// Digest of the canonical arguments.
    pub args: Digest,
    /// Recipe that made the arguments canonical.
    pub args_recipe: Recipe,
    /// Principal on whose behalf the call is made.
    pub principal: Principal,
    /// Agent that makes the call.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Session of the call.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Digest of the tool's definition.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub definition: Option<Digest>,
    /// Digest of the pinned ask.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub ask: Option<Digest>,
    /// Root of the committed plan.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub plan: Option<Digest>,
    /// Version of the registry under which the call is decided.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub registry_version: Option<u64>,
    /// Gate that decides the call.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub audience: Option<Audience>,
}

impl CallFacts {
    /// Starts with the facts that every call has. `args` is the digest of the canonical arguments under `args_recipe`.
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

    /// Sets the agent.
    #[must_use]
    pub fn agent(self, agent: AgentId) -> Self {
        Self { agent: Some(agent), ..self }
    }

    /// Sets the session.
    #[must_use]
    pub fn session(self, session: SessionId) -> Self {
        Self { session: Some(session), ..self }
    }

    /// Sets the digest of the tool's definition.
    #[must_use]
    pub fn definition(self, definition: Digest) -> Self {
        Self { definition: Some(definition), ..self }
    }

    /// Sets the digest of the pinned ask.
    #[must_use]
    pub fn ask(self, ask: Digest) -> Self {
        Self { ask: Some(ask), ..self }
    }

    /// Sets the root of the committed plan.
    #[must_use]
    pub fn plan(self, root: Digest) -> Self {
        Self { plan: Some(root), ..self }
    }

    /// Sets the version of the registry.
    #[must_use]
    pub fn registry_version(self, version: u64) -> Self {
        Self { registry_version: Some(version), ..self }
    }

    /// Sets the gate.
    #[must_use]
    pub fn audience(self, audience: Audience) -> Self {
        Self { audience: Some(audience), ..self }
    }

    /// Digest of every fact except the call id. Two calls with one digest are the same act, requested twice. Stores use
    /// it to find a pending approval again; a token binds the call id as well.
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

/// Reads an optional member that is present. `null` is refused: absence has one spelling.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}
