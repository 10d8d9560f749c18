//! An approval request as JSON, for a host whose question outlives the process.

use countersign_approval_token::{Partial, ProposalSummary, WantedEvidence};
use countersign_canonical_json::{Kind, Limits, Recipe, read, to_canonical};
use countersign_core::{Approvers, CallFacts, Timestamp};
use serde::{Deserialize, Serialize};

use crate::call::ARGS_RECIPE;
use crate::rejection::ApprovalRequest;

/// Format of the JSON text.
const FORMAT: &str = "approval-request-1";

/// Largest JSON text, in bytes.
const MAX_BYTES: usize = 4 << 20;

/// Depth of the arguments within the text.
const ARGS_DEPTH: usize = 1;

/// A text is not an approval request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The text is not strict JSON of the request's format.
    #[error("not an approval request: {0}")]
    Malformed(String),
    /// The digest of the arguments differs from the binding's.
    #[error("the arguments are not those of the request's binding")]
    Arguments,
}

impl RequestError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "REQUEST_MALFORMED",
            Self::Arguments => "REQUEST_ARGS_MISMATCH",
        }
    }
}

countersign_core::coded!(RequestError);

#[derive(Serialize)]
struct WrittenRequest<'r> {
    format: &'static str,
    binding: &'r CallFacts,
    session_ends: Timestamp,
    takes_grants: bool,
    needs_approval: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    proposal: Option<&'r ProposalSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<&'r WantedEvidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approvers: Option<&'r Approvers>,
}

/// All members but `args`, which are read apart.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadRequest {
    format: String,
    binding: CallFacts,
    session_ends: Timestamp,
    takes_grants: bool,
    needs_approval: bool,
    #[serde(default)]
    proposal: Option<Box<ProposalSummary>>,
    #[serde(default)]
    evidence: Option<Box<WantedEvidence>>,
    #[serde(default)]
    approvers: Option<Box<Approvers>>,
}

impl ApprovalRequest {
    /// Returns the request as canonical JSON. It holds the arguments, and no key or token: a reader of it sees the
    /// call.
    #[must_use]
    pub fn to_json(&self) -> String {
        let written = WrittenRequest {
            format: FORMAT,
            binding: &self.binding,
            session_ends: self.session_ends,
            takes_grants: self.takes_grants,
            needs_approval: self.needs_approval,
            proposal: self.proposal.as_deref(),
            evidence: self.evidence.as_deref(),
            approvers: self.approvers.as_deref(),
        };
        // The arguments are the first member in canonical order.
        to_canonical(&written).map_or_else(
            |_| String::new(),
            |rest| {
                let rest = rest.as_str().strip_prefix('{').unwrap_or_default();
                format!(r#"{{"args":{},{rest}"#, self.args.as_str())
            },
        )
    }

    /// Reads a request that [`to_json`](Self::to_json) wrote. Nothing in it is trusted: an approval of it is worth no more than
    /// the call that it binds, which the gate decides again. A gate that [accepts partial
    /// bindings](crate::ApprovalSettings::dangerous_accept_partial_bindings) does not for a request that was read.
    ///
    /// # Errors
    /// [`RequestError`]: more than 4 MiB, not strict JSON, an unknown or missing member, or arguments with another digest
    /// than the binding's.
    pub fn from_json(text: &[u8]) -> Result<Self, RequestError> {
        let malformed = |error: &dyn std::fmt::Display| RequestError::Malformed(error.to_string());
        let inner = Limits::default();
        let limits = inner
            .bytes(MAX_BYTES)
            .and_then(|limits| limits.depth(inner.max_depth().saturating_add(ARGS_DEPTH)))
            .map_err(|error| malformed(&error))?;
        let all = read(text, Recipe::Jcs1, &limits).map_err(|error| malformed(&error))?;
        let args = all.value().get("args").filter(|args| args.kind() == Kind::Object);
        let args = args.ok_or_else(|| malformed(&"member `args` is not an object"))?;
        let args = all.subtree(args);
        let rest = all.without(&["args"]);
        let request = ReadRequest::deserialize(rest.value()).map_err(|error| malformed(&error))?;
        if request.format != FORMAT {
            return Err(malformed(&"unknown format"));
        }
        let ReadRequest { binding, session_ends, takes_grants, needs_approval, .. } = request;
        if binding.args_recipe != ARGS_RECIPE || binding.args != args.digest() {
            return Err(RequestError::Arguments);
        }
        Ok(Self {
            binding,
            args,
            session_ends,
            partial: Partial::Refuse,
            proposal: request.proposal,
            takes_grants,
            needs_approval,
            evidence: request.evidence,
            approvers: request.approvers,
        })
    }
}
