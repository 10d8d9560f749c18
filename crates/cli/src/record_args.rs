//! The record's options, for every verb that opens a session.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use countersign_audit_log::Durability;
use countersign_core::ToolId;
use countersign_host::record::{RecordPlan, SegmentBytes};
use countersign_host::recorded::tool;
use countersign_tlog::note::KeyName;
use countersign_tool_gate::RecordedFields;

use crate::failure::Failure;

const DURABILITIES: &[Word<Durability>] = &[
    ("every", "It was written and synced alone", Durability::Every),
    ("group", "It was written and synced with all others that waited", Durability::Group),
    ("system", "The system has it: a power cut may lose it", Durability::System),
];

/// The record's options on the command line.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Append every decision to the log in this folder.
    #[arg(long, value_name = "FOLDER", requires_all = ["record_key", "record_origin"])]
    record: Option<PathBuf>,
    /// The log's own Ed25519 key file, which signs its checkpoints.
    #[arg(long, value_name = "FILE", requires = "record")]
    record_key: Option<PathBuf>,
    /// The log's origin, which is also the name of its key: best a URL without its scheme, as example.com/log.
    #[arg(long, value_name = "NAME", requires = "record")]
    record_origin: Option<KeyName>,
    /// When an entry of the log counts as kept; `group` without it.
    #[arg(long, value_name = "WHEN", value_parser = words(DURABILITIES), requires = "record")]
    record_durability: Option<Durability>,
    /// Bytes after which the log begins a new segment: 65,536 to 1,073,741,824, and 67,108,864 without it.
    #[arg(long, value_name = "BYTES", requires = "record", value_parser = segment_bytes)]
    record_segment: Option<SegmentBytes>,
    /// Where the log's last synced checkpoint is kept: a log that was deleted or cut, or an older copy, is not opened; the
    /// folder's name with `.state` behind it without this. Where a gateway writes the log, name the gateway's: a log needs one state.
    #[arg(long, value_name = "FILE", requires = "record")]
    record_state: Option<PathBuf>,
    /// A checkpoint of the log that was kept elsewhere: the log must extend it. May be given several times.
    #[arg(long, value_name = "FILE", requires = "record")]
    record_checkpoint: Vec<PathBuf>,
    /// An argument whose value is recorded, as a JSON Pointer into a tool's arguments; none without it. May be used
    /// several times. A log cannot be shortened: personal data stays in it.
    #[arg(long, value_name = "SERVER:TOOL=/POINTER", requires = "record")]
    record_argument: Vec<ArgumentOption>,
}

impl RecordArgs {
    /// Returns `true` if `--record` is given, which all other options require.
    pub(crate) const fn is_given(&self) -> bool {
        self.record.is_some()
    }

    pub(crate) fn plan(&self) -> Result<Option<RecordPlan>, Failure> {
        let (Some(folder), Some(key), Some(origin)) = (&self.record, &self.record_key, &self.record_origin)
        else {
            return Ok(None);
        };
        let mut record = RecordPlan::new(folder.clone(), key.clone(), origin.clone());
        record.durability = self.record_durability.unwrap_or(record.durability);
        record.segment = self.record_segment.unwrap_or_default();
        record.state.clone_from(&self.record_state);
        record.kept.clone_from(&self.record_checkpoint);
        record.arguments = fields_of(&self.record_argument)?;
        Ok(Some(record))
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

fn segment_bytes(text: &str) -> Result<SegmentBytes, String> {
    let bytes: u64 = text.parse().map_err(|_| "not a number of bytes")?;
    Ok(SegmentBytes::try_from(bytes)?)
}

/// One value of an option: its word, its help and its meaning.
pub(crate) type Word<T> = (&'static str, &'static str, T);

/// Parses one of these words.
pub(crate) fn words<T: Copy + Send + Sync + 'static>(
    all: &'static [Word<T>],
) -> impl TypedValueParser<Value = T> {
    let values = all.iter().map(|(word, help, _)| PossibleValue::new(word).help(*help));
    PossibleValuesParser::new(values).try_map(move |given| {
        all.iter().find(|(word, ..)| *word == given).map(|(.., value)| *value).ok_or("not one of the words")
    })
}
