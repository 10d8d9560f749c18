//! Selects the arguments whose values are recorded: a table of the configuration, and options.

use std::collections::BTreeMap;

use countersign_core::ToolId;
use countersign_tool_gate::{RecordedFields, RecordedFieldsError};
use serde::Deserialize;

use crate::error::HostError;

/// The table `[record.arguments]`: JSON Pointers by tool, `"server:tool" = ["/path"]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, Vec<String>>")]
pub(crate) struct ArgumentsPart(RecordedFields);

impl TryFrom<BTreeMap<String, Vec<String>>> for ArgumentsPart {
    type Error = String;

    fn try_from(table: BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        let mut fields = RecordedFields::new();
        for (name, pointers) in table {
            let about = |text: String| format!("`{name}`: {text}");
            let tool = tool(&name).map_err(about)?;
            if pointers.is_empty() {
                return Err(about("no argument is named".to_owned()));
            }
            for pointer in pointers {
                let more = fields.field(tool.clone(), &pointer);
                fields = more.map_err(|error| about(error.to_string()))?;
            }
        }
        Ok(Self(fields))
    }
}

impl ArgumentsPart {
    pub(crate) fn fields(&self) -> RecordedFields {
        self.0.clone()
    }
}

/// Names the tool that is missing from the registry in the failure.
pub(crate) fn recorded_failure(error: RecordedFieldsError) -> HostError {
    let failure = HostError::new(error.code(), error.to_string());
    if let RecordedFieldsError::UnknownTool(tool) = error { failure.about(tool) } else { failure }
}

/// Parses a tool in the form `server:tool`.
///
/// # Errors
/// A sentence about the fault.
pub fn tool(name: &str) -> Result<ToolId, String> {
    let (server, name) = name.split_once(':').ok_or("not of the form server:tool")?;
    ToolId::new(server, name).map_err(|error| error.to_string())
}
