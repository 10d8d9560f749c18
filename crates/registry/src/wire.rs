use countersign_canonical_json::{Limits as JsonLimits, ValueRef};
use countersign_core::Timestamp;
use serde::Deserialize as _;

use crate::agent_entry::AgentFields;
use crate::content::{ContentError, ContentProblem};
use crate::draft::FORMAT;
use crate::listed::ServerEntry;
use crate::present::present;
use crate::revoked::RevokedFields;
use crate::tool_entry::ToolEntryBuilder;

/// Largest draft or payload, in bytes: more than the largest envelope could hold.
const MAX_BYTES: usize = 16 << 20;

/// Deepest nesting. Schemas need more of it than arguments do.
const MAX_DEPTH: usize = 64;

/// Limits for drafts and payloads: deeper and larger than for a call's arguments.
pub(crate) fn json_limits() -> JsonLimits {
    let limits = JsonLimits::default().with_max_bytes(MAX_BYTES);
    // INVARIANT: both lie below the reader's hard caps. If not, the tighter default applies and refuses.
    limits.and_then(|limits| limits.with_max_depth(MAX_DEPTH)).unwrap_or_default()
}

/// JSON form of a draft, or of a signed payload, which has two times as well.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WireRegistry {
    pub(crate) format: String,
    pub(crate) version: u64,
    pub(crate) agents: Vec<AgentFields>,
    pub(crate) tools: Vec<ToolEntryBuilder>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) servers: Vec<ServerEntry>,
    #[serde(default)]
    pub(crate) revoked: RevokedFields,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) issued: Option<Timestamp>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<Timestamp>,
}

impl WireRegistry {
    /// Reads the form only. The format is checked first, so that a later format is not reported as malformed.
    pub(crate) fn read(value: ValueRef<'_>) -> Result<Self, ContentError> {
        let format = value.get("format").and_then(ValueRef::as_str);
        if format.is_some_and(|format| format != FORMAT) {
            return Err(ContentError::new("/format", ContentProblem::Format));
        }
        Self::deserialize(value)
            .map_err(|error| ContentError::new("", ContentProblem::Shape(error.to_string())))
    }
}
