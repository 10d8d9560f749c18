use std::collections::BTreeMap;

use countersign_audit_log::{Escaped, RecordedValues};
use countersign_canonical_json::Canonical;
use countersign_core::ToolId;
use countersign_registry::CapabilityRegistry;

/// Maximum number of pointers of one tool: as many values as one record holds.
const MAX_FIELDS: usize = 16;

/// Argument values that are recorded, by tool. Without it, records have only a digest of the arguments.
///
/// **A recorded value can never be removed.** A log that can be shortened proves nothing. Therefore recording a field
/// that holds a name, an address or a letter puts personal data beyond the reach of a request to erase them. Name
/// single fields that are worth it, and protect the log accordingly.
///
/// A value is recorded as canonical JSON with every decision about a call that reached step 3: accepted calls, and
/// those that are refused after the tool is known to be one of the session's. A pointer that leads nowhere in a call
/// records nothing. Action proposals, approval tokens and restated goals are not arguments, and are never recorded.
/// Long values are cut ([`RecordedValues`]).
///
/// ```
/// use countersign_core::ToolId;
/// use countersign_tool_gate::RecordedFields;
/// let fields = RecordedFields::new()
///     .field(ToolId::new("desk", "refund")?, "/amount")?
///     .field(ToolId::new("desk", "refund")?, "/ticket")?;
/// let wrong = fields.field(ToolId::new("desk", "mail")?, "to");
/// assert_eq!(wrong.unwrap_err().code(), "RECORDED_FIELD_POINTER");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::box_collection,
    reason = "most sessions record no field, and an empty map takes three times as much"
)]
pub struct RecordedFields(Option<Box<BTreeMap<ToolId, Vec<String>>>>);

/// Why a field cannot be recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordedFieldsError {
    /// The pointer is not a JSON Pointer, or is longer than 256 bytes.
    #[error("invalid recorded field: JSON Pointer of at most 256 bytes expected")]
    Pointer,
    /// The tool has this field already.
    #[error("duplicate recorded field")]
    Twice,
    /// The tool has 16 fields already.
    #[error("too many recorded fields: at most 16 for one tool")]
    TooMany,
    /// The registry does not list this tool.
    #[error("unknown tool of a recorded field: not in the registry")]
    UnknownTool(ToolId),
}

impl RecordedFieldsError {
    /// Returns the stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Pointer => "RECORDED_FIELD_POINTER",
            Self::Twice => "RECORDED_FIELD_TWICE",
            Self::TooMany => "RECORDED_FIELD_LIMIT",
            Self::UnknownTool(_) => "RECORDED_FIELD_TOOL",
        }
    }
}

countersign_core::coded!(RecordedFieldsError);

impl RecordedFields {
    /// Builds an empty list, which records no values.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    /// Adds the value to which a JSON Pointer (RFC 6901) leads in the arguments of `tool`. The empty pointer leads to
    /// all of them.
    ///
    /// # Errors
    /// [`RecordedFieldsError`] if the pointer is invalid, repeated or one too many.
    pub fn field(mut self, tool: ToolId, pointer: &str) -> Result<Self, RecordedFieldsError> {
        if !is_pointer(pointer) {
            return Err(RecordedFieldsError::Pointer);
        }
        let fields = self.0.get_or_insert_default().entry(tool).or_default();
        if fields.iter().any(|field| field == pointer) {
            return Err(RecordedFieldsError::Twice);
        }
        if fields.len() >= MAX_FIELDS {
            return Err(RecordedFieldsError::TooMany);
        }
        fields.push(pointer.to_owned());
        Ok(self)
    }

    /// Checks that the registry lists every tool. Opening a gate requires it.
    ///
    /// # Errors
    /// [`RecordedFieldsError::UnknownTool`].
    pub fn check(&self, registry: &CapabilityRegistry) -> Result<(), RecordedFieldsError> {
        let view = registry.view();
        match self.0.iter().flat_map(|fields| fields.keys()).find(|tool| view.snapshot().tool(tool).is_none())
        {
            Some(unknown) => Err(RecordedFieldsError::UnknownTool(unknown.clone())),
            None => Ok(()),
        }
    }

    /// Returns the values of these arguments that are recorded.
    pub(crate) fn values(&self, tool: &ToolId, args: &Canonical) -> RecordedValues {
        let Some(fields) = self.0.as_ref().and_then(|fields| fields.get(tool)) else {
            return RecordedValues::default();
        };
        let found = fields
            .iter()
            .filter_map(|pointer| Some((pointer, args.value().pointer(pointer)?.canonical_text())));
        RecordedValues::new(found)
    }
}

/// Returns `true` if a text is a JSON Pointer that a record can hold uncut: empty, or tokens that begin with `/`, in
/// which `~` is followed by 0 or 1 (RFC 6901, section 3).
fn is_pointer(text: &str) -> bool {
    let tilde = |rest: &str| rest.starts_with(['0', '1']);
    (text.is_empty() || text.starts_with('/'))
        && text.split('~').skip(1).all(tilde)
        && Escaped::<256>::new(text).unescape().is_some()
}
