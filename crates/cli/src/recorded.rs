//! Selects the arguments whose values are recorded: a table of the configuration, and options.

use std::collections::BTreeMap;
use std::str::FromStr;

use countersign_core::ToolId;
use countersign_tool_gate::{RecordedFields, RecordedFieldsError};
use serde::Deserialize;

use crate::failure::Failure;

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

/// One argument of one tool, `server:tool=/pointer`. An empty pointer stands for all arguments.
#[derive(Clone, Debug)]
pub(crate) struct ArgumentOption {
    tool: ToolId,
    pointer: String,
}

impl FromStr for ArgumentOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // The tool's name and the pointer may also contain `=`.
        let (name, pointer) = match text.find("=/") {
            Some(at) => (text.get(..at), text.get(at.saturating_add(1)..)),
            None => (text.strip_suffix('='), Some("")),
        };
        let (name, pointer) = name.zip(pointer).ok_or("not of the form server:tool=/pointer")?;
        Ok(Self { tool: tool(name)?, pointer: pointer.to_owned() })
    }
}

/// Combines the options.
pub(crate) fn fields_of(options: &[ArgumentOption]) -> Result<RecordedFields, Failure> {
    let one = |fields: RecordedFields, option: &ArgumentOption| {
        fields
            .field(option.tool.clone(), &option.pointer)
            .map_err(|error| Failure::usage(error.to_string()).about(&option.tool))
    };
    options.iter().try_fold(RecordedFields::new(), one)
}

/// Names the tool that is missing from the registry in the failure.
pub(crate) fn recorded_failure(error: RecordedFieldsError) -> Failure {
    let failure = Failure::new(error.code(), error.to_string());
    if let RecordedFieldsError::UnknownTool(tool) = error { failure.about(tool) } else { failure }
}

fn tool(name: &str) -> Result<ToolId, String> {
    let (server, name) = name.split_once(':').ok_or("not of the form server:tool")?;
    ToolId::new(server, name).map_err(|error| error.to_string())
}
