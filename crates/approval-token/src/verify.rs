use std::cell::Cell;

use countersign_core::{AgentId, CallFacts, Millis, OperatorId, Timestamp, TokenId};
use countersign_keys::RunKeys;
use countersign_keys::sealed::PayloadBuffer;

use crate::approval::Approval;
use crate::error::ApprovalError;
use crate::payload::{LABEL, Payload, RECIPE};
use crate::spent::spent_id;
use crate::token::{ApprovalToken, DEFAULT_TTL_CAP, is_self_approval, parse};

/// Treatment of a token that omits an optional field the gate knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Partial {
    /// Refuse it: the approver must have approved every fact that the gate knows.
    #[default]
    Refuse,
    /// Skip the comparison of that field. For approvers that know less than the gate. A field that the token carries
    /// is still compared.
    Accept,
}

/// Terms that a gate sets for every token, beside the call's own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyTerms {
    /// Allowed lead of the approver's clock. Expiry has no skew: at `expires` the approval is expired.
    pub skew: Millis,
    /// Longest lifetime, from issue to expiry. A key holder can mint longer tokens; they are refused here.
    pub max_lifetime: Millis,
    /// Treatment of a token that omits an optional field the gate knows.
    pub partial: Partial,
}

/// 5 seconds of skew, the one-hour lifetime of [`mint`](crate::mint), and every field.
impl Default for VerifyTerms {
    fn default() -> Self {
        Self { skew: Millis::from_secs(5), max_lifetime: DEFAULT_TTL_CAP, partial: Partial::Refuse }
    }
}

impl VerifyTerms {
    /// Sets the allowed lead of the approver's clock.
    #[must_use]
    pub const fn skew(mut self, skew: Millis) -> Self {
        self.skew = skew;
        self
    }

    /// Sets the longest lifetime.
    #[must_use]
    pub const fn max_lifetime(mut self, most: Millis) -> Self {
        self.max_lifetime = most;
        self
    }

    /// Sets the treatment of omitted optional fields.
    #[must_use]
    pub const fn partial(mut self, partial: Partial) -> Self {
        self.partial = partial;
        self
    }
}

/// Verifies that a token approves exactly this call in this run, now. Pure: only [`Approval::spend`] uses the token
/// up.
///
/// The tag is verified under the active key, then under the accepted ones, before any member is read.
///
/// # Errors
/// [`ApprovalError::Invalid`] unless the tag verifies and every field equals the gate's; [`ApprovalError::Expired`]
/// if only the time is wrong.
pub fn verify(
    token: &ApprovalToken,
    keys: &RunKeys,
    binding: &CallFacts,
    now: Timestamp,
    terms: &VerifyTerms,
) -> Result<Approval, ApprovalError> {
    verify_text(token.as_str(), keys, binding, now, terms)
}

/// Parses and verifies the text of a token, as [`verify`], without keeping a copy of it.
///
/// # Errors
/// As [`verify`]; [`ApprovalError::Invalid`] if the text is not a token.
pub fn verify_text(
    text: &str,
    keys: &RunKeys,
    binding: &CallFacts,
    now: Timestamp,
    terms: &VerifyTerms,
) -> Result<Approval, ApprovalError> {
    let mut buffer = PayloadBuffer::default();
    let sealed = parse(text, &mut buffer)?;
    let (key_id, bytes) = keys
        .iter()
        .find_map(|(id, key)| sealed.open(LABEL, key).ok().map(|bytes| (id, bytes)))
        .ok_or(ApprovalError::Invalid { reason: "tag" })?;
    let payload = Payload::read(bytes).ok_or(ApprovalError::Invalid { reason: "payload" })?;
    same(payload.recipe == RECIPE, "other-recipe")?;
    same(payload.key_id == key_id.as_str(), "other-key")?;
    same(payload.run == keys.run().as_str(), "other-run")?;
    compare(&payload, binding, terms.partial)?;
    same(!is_self_approval(&payload.approver, binding.agent.as_ref()), "self-approval")?;
    same(payload.issued < payload.expires, "times")?;
    same(payload.expires.since(payload.issued) <= terms.max_lifetime, "lifetime")?;
    same(payload.issued <= now.saturating_add(terms.skew), "not-yet")?;
    let token_id =
        TokenId::new(&payload.token_id).map_err(|_| ApprovalError::Invalid { reason: "token-id" })?;
    let approver = approver(&payload.approver)?;
    if now >= payload.expires {
        return Err(ApprovalError::Expired);
    }
    let spent_id = spent_id(keys.run(), &token_id);
    let times = (payload.issued, payload.expires);
    Ok(Approval::of_token(token_id, approver, key_id.clone(), times, spent_id))
}

thread_local! {
    /// The approver of the last token of this thread. why: one person approves many calls, whose ids can share a text.
    static LAST_APPROVER: Cell<Option<OperatorId>> = const { Cell::new(None) };
}

fn approver(text: &str) -> Result<OperatorId, ApprovalError> {
    let last = LAST_APPROVER.try_with(Cell::take).ok().flatten().filter(|last| last.as_str() == text);
    let new = || OperatorId::new(text).map_err(|_| ApprovalError::Invalid { reason: "approver" });
    let approver = last.map_or_else(new, Ok)?;
    let _ = LAST_APPROVER.try_with(|last| last.set(Some(approver.clone())));
    Ok(approver)
}

fn compare(payload: &Payload<'_>, binding: &CallFacts, partial: Partial) -> Result<(), ApprovalError> {
    same(payload.call_id == binding.call_id.as_str(), "other-call")?;
    same(payload.server == binding.tool.server().as_str(), "other-server")?;
    same(payload.tool == binding.tool.name().as_str(), "other-tool")?;
    same(payload.args == binding.args, "other-args")?;
    same(payload.args_recipe == binding.args_recipe.as_str(), "other-args-recipe")?;
    same(payload.principal == binding.principal.as_str(), "other-principal")?;
    optional(payload.definition.as_ref(), binding.definition.as_ref(), partial, "other-definition")?;
    optional(payload.agent.as_deref(), binding.agent.as_ref().map(AgentId::as_str), partial, "other-agent")?;
    optional(
        payload.session.as_deref(),
        binding.session.as_ref().map(|id| id.as_str()),
        partial,
        "other-session",
    )?;
    optional(payload.ask.as_ref(), binding.ask.as_ref(), partial, "other-ask")?;
    optional(payload.plan.as_ref(), binding.plan.as_ref(), partial, "other-plan")?;
    let (carried, known) = (payload.registry_version, binding.registry_version);
    optional(carried.as_ref(), known.as_ref(), partial, "other-registry-version")?;
    optional(
        payload.audience.as_deref(),
        binding.audience.as_ref().map(|id| id.as_str()),
        partial,
        "other-audience",
    )
}

const fn same(equal: bool, reason: &'static str) -> Result<(), ApprovalError> {
    if equal { Ok(()) } else { Err(ApprovalError::Invalid { reason }) }
}

fn optional<T: PartialEq + ?Sized>(
    carried: Option<&T>,
    known: Option<&T>,
    partial: Partial,
    reason: &'static str,
) -> Result<(), ApprovalError> {
    let left_out = carried.is_none() && partial == Partial::Accept;
    same(left_out || carried == known, reason)
}
