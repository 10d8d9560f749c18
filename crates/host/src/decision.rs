//! The members of a decision's JSON that every surface has.

use countersign_core::Digest;
use countersign_tool_gate::Rejection;
use serde::Serialize;

/// A decision about one call: its route, and for a refusal what the agent may know.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct DecisionText<'a> {
    /// The call's id; `None` if it had none.
    pub call_id: Option<&'a str>,
    /// `accept`, `reject`, or where questions are asked `needs_approval` or `needs_evidence`.
    pub decision: &'static str,
    /// Code of the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Its sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<&'static str>,
    /// Whether another try can help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<&'static str>,
    /// What would help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unlock: Option<&'static str>,
    /// `spent` if the call used up its approval before it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<&'static str>,
    /// `spent` if the call used up its attestations before it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attestation: Option<&'static str>,
    /// Digest of the arguments, if they could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_digest: Option<Digest>,
}

impl<'a> DecisionText<'a> {
    /// An accepted call.
    #[must_use]
    pub const fn accept(call_id: &'a str, args: Digest) -> Self {
        Self {
            call_id: Some(call_id),
            decision: "accept",
            code: None,
            message: None,
            retry: None,
            unlock: None,
            approval: None,
            attestation: None,
            args_digest: Some(args),
        }
    }

    /// A refused call.
    #[must_use]
    pub fn reject(rejection: &Rejection, call_id: Option<&'a str>, args_digest: Option<Digest>) -> Self {
        Self {
            call_id,
            decision: "reject",
            code: Some(rejection.code().as_str()),
            message: Some(rejection.message()),
            retry: Some(rejection.retry().as_str()),
            unlock: rejection.unlock(),
            approval: rejection.approval_spent().then_some("spent"),
            attestation: rejection.attestation_spent().then_some("spent"),
            args_digest,
        }
    }
}
