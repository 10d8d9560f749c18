use std::fmt;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use countersign_canonical_json::{Limits, Recipe, read, to_canonical};
use countersign_core::{
    AgentId, Audience, CallFacts, CallId, Digest, KeyId, Millis, OperatorId, Principal, SessionId, Ticket,
    Timestamp, TokenId, ToolId,
};
use countersign_keys::RunKeys;
use countersign_keys::sealed::{PayloadBuffer, SealedText, seal};
use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::error::{ApprovalError, MintError};
use crate::pending::present;
use crate::spent::use_id;
use crate::token::is_self_approval;

/// Prefix of a grant's text.
const PREFIX: &str = "csg1";

/// Recipe of the payload: its members and their meaning.
const RECIPE: &str = "grant-1";

/// Domain label that the tag covers before the payload.
const LABEL: &str = "countersign/grant-1";

/// Most uses of one grant.
pub const MAX_GRANT_USES: u32 = 100;

/// Default cap on the lifetime of a grant: one day.
pub const DEFAULT_GRANT_CAP: Millis = Millis::from_secs(86_400);

/// Longest conditions, in bytes.
const MAX_CONDITIONS: usize = 8 * 1024;

/// Terms that an approver sets for a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrantTerms {
    /// Id of the grant, which must be fresh.
    pub grant_id: TokenId,
    /// Approver.
    pub approver: OperatorId,
    /// Conditions on the arguments: canonical JSON in the language of the registry's constraints, which this crate does not
    /// read. Without them the grant covers exactly the arguments of the call that it is modelled on.
    pub conditions: Option<String>,
    /// Number of calls.
    pub uses: u32,
    /// Whether it counts in other sessions of the agent too.
    pub any_session: bool,
    /// Time of issue.
    pub issued: Timestamp,
    /// Lifetime.
    pub ttl: Millis,
}

impl GrantTerms {
    /// Sets the terms of a grant for calls with the same arguments, in the session of the call that it is modelled on.
    #[must_use]
    pub const fn new(
        grant_id: TokenId,
        approver: OperatorId,
        uses: u32,
        issued: Timestamp,
        ttl: Millis,
    ) -> Self {
        Self { grant_id, approver, conditions: None, uses, any_session: false, issued, ttl }
    }

    /// Lets the grant cover all arguments for which these conditions hold.
    #[must_use]
    pub fn conditions(self, conditions: impl Into<String>) -> Self {
        Self { conditions: Some(conditions.into()), ..self }
    }

    /// Lets the grant count in every session of the agent and the principal.
    #[must_use]
    pub const fn in_any_session(mut self) -> Self {
        self.any_session = true;
        self
    }
}

/// Grant as its payload states it. Only verification makes it count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GrantFacts {
    recipe: String,
    /// Key that it is signed with.
    pub key_id: KeyId,
    /// Id of the grant.
    pub grant_id: TokenId,
    /// The tool.
    pub tool: ToolId,
    /// Digest of the tool's definition, if the registry pins one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub definition: Option<Digest>,
    /// Call that the grant is modelled on.
    pub call_id: CallId,
    /// Digest of that call's arguments.
    pub args: Digest,
    /// Recipe of that digest.
    pub args_recipe: Recipe,
    /// Conditions on the arguments of the calls; without them, exactly the arguments with that digest.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub conditions: Option<String>,
    /// Agent that makes the calls.
    pub agent: AgentId,
    /// Principal for whom it makes them.
    pub principal: Principal,
    /// The one session; every session of agent and principal without it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub session: Option<SessionId>,
    /// Version of the registry.
    pub registry_version: u64,
    /// The gate.
    pub audience: Audience,
    /// Number of calls.
    pub uses: u32,
    /// Approver.
    pub approver: OperatorId,
    /// Time of issue.
    pub issued: Timestamp,
    /// Expiry.
    pub expires: Timestamp,
}

impl GrantFacts {
    /// Returns whether the arguments of a call are in the scope. `holds` says whether conditions hold for them.
    pub fn covers(&self, call: &CallFacts, holds: impl FnOnce(&str) -> bool) -> bool {
        match &self.conditions {
            None => self.args == call.args && self.args_recipe == call.args_recipe,
            Some(conditions) => holds(conditions),
        }
    }

    /// Returns the ticket of one use, from 1. The spent set keeps it until `skew` after the expiry.
    #[must_use]
    pub fn ticket(&self, number: u32, skew: Millis) -> Ticket {
        Ticket::new(use_id(&self.grant_id, number), self.issued, self.expires.saturating_add(skew))
    }
}

/// Signs a grant modelled on a call: for the call's tool, agent, principal, session, gate and registry version.
///
/// `keys` are the gate's keys for grants. Equal inputs give equal bytes.
///
/// # Errors
/// [`MintError`] if the number of uses is zero or above [`MAX_GRANT_USES`], the time to live is zero or above `cap`, the
/// expiry is out of range, the approver is the agent, the conditions are too long, or the call lacks a fact that a grant binds.
pub fn grant(
    keys: &RunKeys,
    model: &CallFacts,
    terms: &GrantTerms,
    cap: Millis,
) -> Result<GrantToken, MintError> {
    if terms.ttl.is_zero() || terms.ttl > cap {
        return Err(MintError::Ttl);
    }
    if terms.uses == 0 || terms.uses > MAX_GRANT_USES {
        return Err(MintError::Uses);
    }
    if is_self_approval(terms.approver.as_str(), model.agent.as_ref()) {
        return Err(MintError::SelfApproval);
    }
    if terms.conditions.as_ref().is_some_and(|text| text.len() > MAX_CONDITIONS) {
        return Err(MintError::Conditions);
    }
    let (Some(agent), Some(session), Some(audience), Some(registry_version)) =
        (&model.agent, &model.session, &model.audience, model.registry_version)
    else {
        return Err(MintError::Binding);
    };
    let (key_id, key) = keys.active();
    let facts = GrantFacts {
        recipe: RECIPE.to_owned(),
        key_id: key_id.clone(),
        grant_id: terms.grant_id.clone(),
        tool: model.tool.clone(),
        definition: model.definition,
        call_id: model.call_id.clone(),
        args: model.args,
        args_recipe: model.args_recipe,
        conditions: terms.conditions.clone(),
        agent: agent.clone(),
        principal: model.principal.clone(),
        session: (!terms.any_session).then(|| session.clone()),
        registry_version,
        audience: audience.clone(),
        uses: terms.uses,
        approver: terms.approver.clone(),
        issued: terms.issued,
        expires: terms.issued.checked_add(terms.ttl).map_err(|_| MintError::Time)?,
    };
    let canonical = to_canonical(&facts).map_err(|_| MintError::Binding)?;
    let text = seal(PREFIX, LABEL, key, canonical.bytes()).map_err(|_| MintError::Conditions)?;
    Ok(GrantToken(text.into()))
}

/// Unverified grant: `csg1.<payload>.<tag>`. It permits nothing by itself beyond the calls that it names, but `Debug` does
/// not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct GrantToken(Box<str>);

impl GrantToken {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Facts that the grant claims. Unverified: for lists and stores. Do not base a decision on them.
    #[must_use]
    pub fn claimed(&self) -> Option<GrantFacts> {
        let (_, rest) = self.0.split_once('.')?;
        let (payload, _) = rest.split_once('.')?;
        read_payload(&Base64UrlUnpadded::decode_vec(payload).ok()?)
    }
}

impl std::str::FromStr for GrantToken {
    type Err = ApprovalError;

    /// Reads the shape only: the members are read after verification.
    fn from_str(text: &str) -> Result<Self, ApprovalError> {
        let shape = ApprovalError::Invalid { reason: "shape" };
        SealedText::parse(PREFIX, text, &mut PayloadBuffer::default()).map_err(|_| shape)?;
        Ok(Self(text.into()))
    }
}

impl fmt::Debug for GrantToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GrantToken(redacted)")
    }
}

/// Reads a payload in its one spelling: canonical JSON (recipe `jcs-1`) with the members of [`GrantFacts`] and no others.
fn read_payload(bytes: &[u8]) -> Option<GrantFacts> {
    let canonical = read(bytes, Recipe::Jcs1, &Limits::default()).ok()?;
    if canonical.bytes() != bytes {
        return None;
    }
    GrantFacts::deserialize(canonical.value()).ok()
}

/// Verifies that a grant covers this call, now. Pure: only [`Approval::spend`] takes a use. `max_lifetime` is the gate's
/// own cap. `holds` says whether conditions hold for the call's arguments; it must refuse those that it cannot read.
///
/// # Errors
/// [`ApprovalError::Invalid`] unless the tag verifies, every field equals the gate's, and the arguments are in the scope;
/// [`ApprovalError::Expired`] if only the time is wrong.
pub fn verify_grant(
    text: &str,
    keys: &RunKeys,
    call: &CallFacts,
    now: Timestamp,
    (skew, max_lifetime): (Millis, Millis),
    holds: impl FnOnce(&str) -> bool,
) -> Result<Approval, ApprovalError> {
    let invalid = |reason| ApprovalError::Invalid { reason };
    let check = |holds: bool, reason| if holds { Ok(()) } else { Err(invalid(reason)) };
    let mut buffer = PayloadBuffer::default();
    let sealed = SealedText::parse(PREFIX, text, &mut buffer).map_err(|_| invalid("shape"))?;
    let (key_id, bytes) = keys
        .iter()
        .find_map(|(id, key)| sealed.open(LABEL, key).ok().map(|bytes| (id, bytes)))
        .ok_or(invalid("tag"))?;
    let facts = read_payload(bytes).ok_or(invalid("payload"))?;
    check(facts.recipe == RECIPE, "other-recipe")?;
    check(facts.key_id == *key_id, "other-key")?;
    check(facts.tool == call.tool, "other-tool")?;
    check(facts.definition == call.definition, "other-definition")?;
    check(Some(&facts.agent) == call.agent.as_ref(), "other-agent")?;
    check(facts.principal == call.principal, "other-principal")?;
    let is_in_session = facts.session.as_ref().is_none_or(|session| Some(session) == call.session.as_ref());
    check(is_in_session, "other-session")?;
    check(Some(facts.registry_version) == call.registry_version, "other-registry-version")?;
    check(Some(&facts.audience) == call.audience.as_ref(), "other-audience")?;
    check(!is_self_approval(facts.approver.as_str(), call.agent.as_ref()), "self-approval")?;
    check((1..=MAX_GRANT_USES).contains(&facts.uses), "uses")?;
    check(facts.issued < facts.expires, "times")?;
    check(facts.expires.since(facts.issued) <= max_lifetime, "lifetime")?;
    check(facts.issued <= now.saturating_add(skew), "not-yet")?;
    check(facts.covers(call, holds), "other-args")?;
    if now >= facts.expires {
        return Err(ApprovalError::Expired);
    }
    let GrantFacts { grant_id, approver, key_id, issued, expires, uses, .. } = facts;
    Ok(Approval::of_grant(grant_id, approver, key_id, (issued, expires), uses))
}
