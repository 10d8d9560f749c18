//! Grants: a person's answer that covers further calls like the one that waits.

use countersign_approval_token::{
    GrantTerms, Grants as _, PendingApproval, PendingApprovals as _, StoredGrant, grant,
};
use countersign_audit_log::{AnswerRecord, AnswerVerdict, RecordedTool};
use countersign_canonical_json::{Limits, Recipe, ValueRef, read};
use countersign_core::{Millis, OperatorId, Timestamp, TokenId};
use countersign_registry::Constraint;

use serde_json::{Value, json};

use super::find::QuestionQueue;
use crate::error::HostError;
use crate::inputs::grant_keys;
use crate::random;
use crate::record::PreparedRecord;
use crate::time::now;

/// What a person grants beyond the call that waits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GrantWish {
    /// Number of calls, the one that waits included.
    pub uses: u32,
    /// Lifetime.
    pub ttl: Millis,
    /// Conditions on the arguments, as a JSON list in the language of the registry's constraints; without them the grant
    /// covers calls with the same arguments.
    pub conditions: Option<String>,
    /// Whether it counts in the agent's other sessions too.
    pub any_session: bool,
}

impl GrantWish {
    /// Wishes for a grant of calls with the same arguments in the same session.
    #[must_use]
    pub const fn new(uses: u32, ttl: Millis) -> Self {
        Self { uses, ttl, conditions: None, any_session: false }
    }
}

/// A grant that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GivenGrant {
    /// Its id.
    pub grant_id: TokenId,
    /// Its expiry.
    pub expires: Timestamp,
}

impl QuestionQueue<'_> {
    /// Grants the call that waits and others like it, in the name of `by`. The grant is recorded before it counts.
    ///
    /// # Errors
    /// `GRANT_NOT_TAKEN` if no grant can cover the call, `GRANT_CONDITIONS` if the conditions cannot be read or do not hold
    /// for the call that waits, `GRANT_USES`, `APPROVAL_TTL`, `APPROVAL_SELF`; `AUDIT_*`: the grant does not count.
    /// `PENDING_DECIDED`, a key that cannot be read, and a store that fails.
    pub fn grant(
        &self,
        pending: &PendingApproval,
        by: &OperatorId,
        wish: &GrantWish,
        record: PreparedRecord,
    ) -> Result<GivenGrant, HostError> {
        if !pending.takes_grants() || pending.evidence().is_some() || self.approval.max_grant().is_zero() {
            let text = "no grant can cover this call: its tool needs an approval of each call, the call needs an attestation, \
                        or the gate takes no grants";
            return Err(HostError::refused("GRANT_NOT_TAKEN", text));
        }
        let conditions = wish.conditions.as_deref().map(|text| conditions_for(text, pending)).transpose()?;
        let keys = grant_keys(&self.approval.key_file)?;
        let (grant_id, now): (TokenId, _) = (random::id("grant")?, now()?);
        let mut terms = GrantTerms::new(grant_id.clone(), by.clone(), wish.uses, now, wish.ttl);
        terms.conditions = conditions;
        terms.any_session = wish.any_session;
        let token = grant(&keys, pending.binding(), &terms, self.approval.max_grant())?;
        let claimed = token.claimed().ok_or_else(|| HostError::internal("the grant cannot be read"))?;
        let mut answer = AnswerRecord::about(now, pending.binding(), AnswerVerdict::Granted, by.clone());
        answer.approval = Some(grant_id.clone());
        answer.expires = Some(claimed.expires);
        answer.uses = Some(wish.uses);
        answer.conditions = claimed.conditions.as_deref().map(Into::into);
        record.answer(answer)?;
        self.store.add_grant(&token, now)?;
        self.store.cover(pending.id())?;
        Ok(GivenGrant { grant_id, expires: claimed.expires })
    }

    /// Lists the grants that have not expired.
    ///
    /// # Errors
    /// A store that fails.
    pub fn grants(&self) -> Result<Vec<StoredGrant>, HostError> {
        Ok(self.store.list_grants(now()?)?)
    }

    /// Revokes a grant in the name of `by`: no gate that shares the store lets it count any more. The revocation is recorded
    /// first.
    ///
    /// # Errors
    /// `GRANT_UNKNOWN`, `GRANT_USED_UP`, `AUDIT_*`, and a store that fails.
    pub fn revoke(&self, id: &TokenId, by: &OperatorId, record: PreparedRecord) -> Result<(), HostError> {
        let now = now()?;
        let stored = self.store.list_grants(now)?.into_iter().find(|stored| stored.facts.grant_id == *id);
        let stored = stored.ok_or_else(|| HostError::new("GRANT_UNKNOWN", "no grant with this id counts"))?;
        if stored.used >= stored.facts.uses {
            return Err(HostError::new("GRANT_USED_UP", "the grant has no use left, or was revoked before"));
        }
        let facts = &stored.facts;
        let tool = RecordedTool::from(&facts.tool);
        let mut answer = AnswerRecord::new(
            now,
            facts.call_id.as_str(),
            tool,
            facts.args,
            AnswerVerdict::Revoked,
            by.clone(),
        );
        answer.agent = Some(facts.agent.clone());
        answer.session = facts.session.clone();
        answer.approval = Some(id.clone());
        record.answer(answer)?;
        Ok(self.store.revoke_grant(id, now)?)
    }
}

/// A grant as programs read it.
#[must_use]
pub fn grant_report(grant: &StoredGrant) -> Value {
    let facts = &grant.facts;
    json!({
        "grant_id": facts.grant_id,
        "server": facts.tool.server(),
        "tool": facts.tool.name(),
        "agent": facts.agent,
        "principal": facts.principal,
        "session": facts.session,
        "args_digest": facts.args,
        "where": facts.conditions,
        "uses": facts.uses,
        "used": grant.used,
        "revoked": grant.is_revoked,
        "approver": facts.approver,
        "expires": facts.expires,
    })
}

/// Reads conditions strictly, and returns their canonical text if they hold for the arguments of the call that waits.
fn conditions_for(text: &str, pending: &PendingApproval) -> Result<String, HostError> {
    let refused = |what: &str| HostError::refused("GRANT_CONDITIONS", what);
    let canonical = read(text.as_bytes(), Recipe::Jcs1, &Limits::default())
        .map_err(|error| refused(&format!("the conditions cannot be read: {error}")))?;
    let conditions = constraints(canonical.value()).ok_or_else(|| {
        refused("the conditions are no list of constraints: expected [{\"kind\": .., \"at\": .., ..}, ..]")
    })?;
    if conditions.is_empty() {
        return Err(refused("an empty list of conditions covers nothing"));
    }
    let args = read(pending.args().as_bytes(), Recipe::Jcs1, &Limits::hard_caps())?;
    if !conditions.iter().all(|condition| condition.holds(args.value())) {
        return Err(refused("the conditions do not hold for the call that waits"));
    }
    Ok(canonical.as_str().to_owned())
}

fn constraints(value: ValueRef<'_>) -> Option<Vec<Constraint>> {
    serde::Deserialize::deserialize(value).ok()
}
