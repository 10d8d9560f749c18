use countersign_core::{AgentId, Digest, OperatorId, SessionId, Timestamp, TokenId};

use crate::{Escaped, RecordedTool};

/// What a person answered to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AnswerVerdict {
    /// An approval was given.
    Approved,
    /// The call or plan was denied.
    Denied,
}

/// A person's answer to a call or plan that waited for approval, recorded when it was given.
///
/// It is no decision: the gate decides when the agent calls again. An approval on record may never have been used, and one
/// that its store then refused to keep never counted.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct AnswerRecord {
    /// Time of the answer.
    pub time: Timestamp,
    /// Session of the question, where it binds one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session: Option<SessionId>,
    /// Agent that asked, where the question binds one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agent: Option<AgentId>,
    /// Id of the call, as the client gave it or the gateway made it.
    pub call_id: Escaped<256>,
    /// Tool of the call; the gateway's own where the question is about a plan.
    pub tool: RecordedTool,
    /// Digest of the canonical arguments.
    pub args: Digest,
    /// Root of the plan, where the question binds one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plan: Option<Digest>,
    /// The answer.
    pub verdict: AnswerVerdict,
    /// Person who answered.
    pub approver: OperatorId,
    /// Reason that the person gave.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Escaped<512>>,
    /// Id of the token, where the answer is an approval.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval: Option<TokenId>,
    /// Expiry of the token.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires: Option<Timestamp>,
}

impl AnswerRecord {
    /// Makes one without session, agent, plan, reason and token.
    #[must_use]
    pub fn new(
        time: Timestamp,
        call_id: &str,
        tool: RecordedTool,
        args: Digest,
        verdict: AnswerVerdict,
        approver: OperatorId,
    ) -> Self {
        Self {
            time,
            session: None,
            agent: None,
            call_id: call_id.into(),
            tool,
            args,
            plan: None,
            verdict,
            approver,
            reason: None,
            approval: None,
            expires: None,
        }
    }
}
