//! Where a session's record goes: nowhere, or to a log.

mod health;
mod told;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use countersign_audit_log::{
    AnswerRecord, AuditError, AuditSink as _, Durability, Log, LogError, LogKey, LogNumber, LogOptions,
    LogStart, OpenLogError, Record, list_logs, verify_log,
};
use countersign_core::Timestamp;
use countersign_keys::TrustRoot;
use countersign_keys::file::read_log_key;
use countersign_keys::note::{KeyName, VerifierKeyError};
use countersign_tool_gate::{RecordedFields, RefusalRate, RefusalRateError};
use serde::Deserialize;

use crate::command::audit::Entries;
use crate::command::audit::side_rebuilt;
use crate::failure::{Failure, one_line};
use crate::files::read_text_file;
use crate::interrupt::outlive_file_limit;
use crate::output::note;
use crate::recorded::{ArgumentOption, ArgumentsPart, fields_of};

#[cfg(feature = "prometheus")]
pub(crate) use health::RecordHealth;
pub(crate) use told::ToldLog;
use told::report_cuts;

/// A log, as it is to be opened.
#[derive(Clone, Debug)]
pub(crate) struct RecordPlan {
    folder: PathBuf,
    key: PathBuf,
    origin: KeyName,
    durability: Durability,
    segment: SegmentBytes,
    /// The file that keeps the log's state; the folder's name with `.state` behind it where there is no other.
    state: Option<PathBuf>,
    /// Files with checkpoints that were kept elsewhere.
    kept: Vec<PathBuf>,
    /// The arguments whose values go on record.
    pub(crate) arguments: RecordedFields,
    /// How many refused calls have an entry of their own.
    pub(crate) refused_calls: RefusalRate,
}

/// A log whose key and checkpoints were read. It was not opened, and nothing was made.
#[derive(Debug)]
pub(crate) struct PreparedRecord {
    folder: PathBuf,
    options: LogOptions,
    /// Files with checkpoints that were kept elsewhere.
    kept: Vec<PathBuf>,
}

/// An open record.
pub(crate) struct OpenRecord {
    pub(crate) log: Arc<ToldLog>,
    number: LogNumber,
    folder: PathBuf,
    /// The folder of all logs, and the key of the first.
    parent: PathBuf,
    first_key: LogKey,
    /// How many entries it had when it was opened, which verifies them: the last checkpoint is behind them.
    size: u64,
    /// The files that were made for it, and the folder that they lie in last.
    made: Vec<PathBuf>,
}

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
    #[arg(long, value_name = "WHEN", value_enum, requires = "record")]
    record_durability: Option<When>,
    /// Bytes after which the log begins a new segment: 65,536 to 1,073,741,824, and 67,108,864 without it.
    #[arg(long, value_name = "BYTES", requires = "record")]
    record_segment: Option<SegmentBytes>,
    /// Where the log's last synced checkpoint is kept: a log that was deleted or cut, or an older copy, is not opened; the
    /// folder's name with `.state` behind it without this.
    #[arg(long, value_name = "FILE", requires = "record")]
    record_state: Option<PathBuf>,
    /// A checkpoint of the log that was kept elsewhere: the log has to go on from it. May be used several times.
    #[arg(long, value_name = "FILE", requires = "record")]
    record_checkpoint: Vec<PathBuf>,
    /// An argument whose value goes on record, as a JSON Pointer into a tool's arguments; none without it. May be used
    /// several times. A log cannot be shortened: what is personal stays in it.
    #[arg(long, value_name = "SERVER:TOOL=/POINTER", requires = "record")]
    record_argument: Vec<ArgumentOption>,
}

/// The record's part of a configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordPart {
    folder: PathBuf,
    key_file: PathBuf,
    origin: Origin,
    durability: Option<When>,
    segment: Option<SegmentBytes>,
    state: Option<PathBuf>,
    checkpoint_file: Option<PathBuf>,
    #[serde(default)]
    arguments: ArgumentsPart,
    refused_calls: Option<RatePart>,
    refused_messages: Option<RatePart>,
}

/// A rate of refusals, `{ burst = 1000, per_second = 10 }`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RateNumbers")]
struct RatePart(RefusalRate);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RateNumbers {
    burst: u32,
    per_second: u32,
}

impl TryFrom<RateNumbers> for RatePart {
    type Error = RefusalRateError;

    fn try_from(numbers: RateNumbers) -> Result<Self, RefusalRateError> {
        RefusalRate::new(numbers.burst, numbers.per_second).map(Self)
    }
}

/// Bytes of a segment after which the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
struct SegmentBytes(u64);

impl Default for SegmentBytes {
    fn default() -> Self {
        Self(64 << 20)
    }
}

impl TryFrom<u64> for SegmentBytes {
    type Error = &'static str;

    fn try_from(bytes: u64) -> Result<Self, Self::Error> {
        // A segment holds at least its head, and all of its tail is read into memory.
        let is_fit = (64 << 10..=1 << 30).contains(&bytes);
        if is_fit { Ok(Self(bytes)) } else { Err("a segment has 65536 to 1073741824 bytes") }
    }
}

impl FromStr for SegmentBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes: u64 = text.parse().map_err(|_| "not a number of bytes")?;
        Ok(Self::try_from(bytes)?)
    }
}

/// When an entry of a log counts as kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
enum When {
    /// It was written and synced alone.
    Every,
    /// It was written and synced with all others that waited.
    Group,
    /// The system has it: a power cut may lose it.
    System,
}

/// The name of a log's key.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Origin(KeyName);

impl TryFrom<String> for Origin {
    type Error = VerifierKeyError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        KeyName::new(&text).map(Self)
    }
}

impl From<When> for Durability {
    fn from(when: When) -> Self {
        match when {
            When::Every => Self::Every,
            When::Group => Self::Group,
            When::System => Self::System,
        }
    }
}

impl RecordArgs {
    /// Whether any of the options is given: all others need this one.
    pub(crate) const fn is_given(&self) -> bool {
        self.record.is_some()
    }

    pub(crate) fn plan(&self) -> Result<Option<RecordPlan>, Failure> {
        let (Some(folder), Some(key), Some(origin)) = (&self.record, &self.record_key, &self.record_origin)
        else {
            return Ok(None);
        };
        Ok(Some(RecordPlan {
            folder: folder.clone(),
            key: key.clone(),
            origin: origin.clone(),
            durability: self.record_durability.unwrap_or(When::Group).into(),
            segment: self.record_segment.unwrap_or_default(),
            state: self.record_state.clone(),
            kept: self.record_checkpoint.clone(),
            arguments: fields_of(&self.record_argument)?,
            refused_calls: RefusalRate::CALLS,
        }))
    }
}

impl RecordPart {
    /// Every path in it.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let optional = self.state.iter_mut().chain(&mut self.checkpoint_file);
        [&mut self.folder, &mut self.key_file].into_iter().chain(optional)
    }

    /// Keeps the log's state beside the registry's, unless the configuration names another file.
    pub(crate) fn keep_state_beside(&mut self, registry_state: &Path) {
        self.state.get_or_insert_with(|| registry_state.with_file_name("record.state"));
    }

    pub(crate) fn plan(&self) -> RecordPlan {
        RecordPlan {
            folder: self.folder.clone(),
            key: self.key_file.clone(),
            origin: self.origin.0.clone(),
            durability: self.durability.unwrap_or(When::Group).into(),
            segment: self.segment.unwrap_or_default(),
            state: self.state.clone(),
            kept: self.checkpoint_file.iter().cloned().collect(),
            arguments: self.arguments.fields(),
            refused_calls: self.refused_calls.map_or(RefusalRate::CALLS, |rate| rate.0),
        }
    }

    /// How many refused messages that are no calls have an entry of their own.
    pub(crate) fn refused_messages(&self) -> RefusalRate {
        self.refused_messages.map_or(RefusalRate::MESSAGES, |rate| rate.0)
    }
}

impl RecordPlan {
    /// Reads the log's key, which must have no part in what the trust root decides, and the checkpoints.
    pub(crate) fn prepare(&self, root: &TrustRoot, now: Timestamp) -> Result<PreparedRecord, Failure> {
        let about = |failure: Failure| failure.about(self.key.display());
        let key = read_log_key(&self.key).map_err(|error| about(error.into()))?;
        if root.contains(&key.verifying_key()) {
            let text = "is an operator's key, and a log has one of its own";
            return Err(about(Failure::new("RECORD_KEY_REUSED", text)));
        }
        outlive_file_limit()?;
        let mut options = LogOptions::new(self.origin.clone(), key)
            .durability(self.durability)
            .segment_bytes(self.segment.0)
            .opened_at(now);
        if let Some(path) = &self.state {
            options = options.state(path);
        }
        for path in &self.kept {
            options = options.known_checkpoint(read_text_file(path)?);
        }
        Ok(PreparedRecord { folder: self.folder.clone(), options, kept: self.kept.clone() })
    }
}

impl PreparedRecord {
    /// Opens the log, or begins it; where another process writes it, a numbered one beside it.
    pub(crate) fn open(self) -> Result<OpenRecord, Failure> {
        let Self { folder, options, kept } = self;
        let (is_fresh, first_key) = (folder.symlink_metadata().is_err(), options.log_key());
        let (log, number) = Log::open_shared(&folder, options.verify_older_later())
            .map_err(|error| open_failure(&folder, error))?;
        let size = log.head().size();
        // Another process may have made it meanwhile, and left entries in it.
        let is_ours = size == 0 && (is_fresh || number != LogNumber::FIRST);
        let (parent, folder) = (folder.clone(), number.folder_in(&folder));
        let made = if is_ours { files_of_new_log(&folder) } else { Vec::new() };
        let log = Arc::new(ToldLog::new(log, folder.clone(), kept));
        Ok(OpenRecord { log, number, folder, parent, first_key, size, made })
    }

    /// Records a person's answer in a numbered log, and syncs it: it counts once this returns.
    pub(crate) fn answer(self, answer: AnswerRecord) -> Result<(), Failure> {
        let Self { folder, options, .. } = self;
        let (log, number) =
            Log::open_numbered(&folder, options).map_err(|error| open_failure(&folder, error))?;
        announce(&log, &number.folder_in(&folder));
        report_cuts(&log, &number.folder_in(&folder));
        let recorded = log.record(&Record::Answer(answer)).and_then(|_| log.close());
        recorded.map(drop).map_err(|error| log_failure(&folder, number, error))
    }
}

/// Names a log on standard error that was begun, or that was there without a state. Later ones go on from here.
fn announce(log: &Log, folder: &Path) {
    log.rebuilt_sides().iter().for_each(|side| note(&side_rebuilt(folder, side)));
    let (key, folder) = (log.key(), folder.display());
    let how = match log.start() {
        LogStart::Begun => "begun".to_owned(),
        LogStart::Adopted => format!("adopted without a state, at {} entries", log.head().size()),
        LogStart::Resumed | _ => return,
    };
    let state =
        log.state_name().map_or_else(String::new, |state| format!(", its state is kept in `{state}`"));
    note(&one_line(&format!("log `{folder}` ({}) {how}{state}", key.origin())));
}

fn open_failure(folder: &Path, error: OpenLogError) -> Failure {
    let OpenLogError { log, source, .. } = error;
    log_failure(folder, log, source)
}

fn verify_failure(folder: &Path, error: LogError) -> Failure {
    Failure::from(error).about(folder.display())
}

fn log_failure(folder: &Path, log: LogNumber, error: AuditError) -> Failure {
    Failure::from(error).about(log.folder_in(folder).display())
}

impl OpenRecord {
    /// Gives the log to its session, which was opened: announces it, and keeps its state from here on.
    pub(crate) fn in_use(self) -> Arc<ToldLog> {
        announce(self.log.log(), &self.folder);
        ToldLog::keep_state(&self.log);
        ToldLog::verify_older(&self.log);
        self.log
    }

    /// The entries that were there when it was opened, of this log and of all others in the folder, merged by time, one at a
    /// time. This log was verified then, and the others are now. All are read a second time, when it is only looked at that
    /// there are as many: whoever can write the folder meanwhile can change them.
    ///
    /// What other processes append from here on is left out.
    pub(crate) fn earlier(&self) -> Result<impl Iterator<Item = Result<Record, Failure>> + use<>, Failure> {
        let mut logs = vec![(self.folder.clone(), self.size)];
        let there = list_logs(&self.parent).map_err(|error| verify_failure(&self.parent, error))?;
        for number in there.into_iter().filter(|number| *number != self.number) {
            let folder = number.folder_in(&self.parent);
            match verify_log(&folder, &number.key(&self.first_key)?, &[]) {
                Ok(log) => logs.push((folder, log.records.saturating_add(log.unsigned))),
                // It is being begun.
                Err(LogError::Missing) => {}
                Err(error) => return Err(verify_failure(&folder, error)),
            }
        }
        Ok(Entries::up_to(logs)?.map(|read| read.map(|entry| entry.record)))
    }

    /// Takes away again what was made in vain.
    pub(crate) fn unmake(self) {
        // The caller tells why it is in vain, and nobody misses what is gone.
        let _ = self.log.end();
        if !self.made.is_empty() {
            // Before the files: a log that its state knows must not be missing.
            let _ = self.log.log().forget_state();
        }
        // As long as the record is open, nobody else has it.
        for path in &self.made {
            let _ = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        }
        drop(self.log);
    }
}

/// The files of a log that has just begun, in the order in which they may go: its lock last, so that no other process takes the
/// log up meanwhile; then its folder, which stays where anything else is in it.
fn files_of_new_log(folder: &Path) -> Vec<PathBuf> {
    ["000000000001.jsonl", "lock", ""].iter().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use countersign_audit_log::{AuditSink as _, Direction, GatewayRecord, LogKey, Record, verify_log};
    use countersign_keys::SigningKey;

    use super::{Durability, KeyName, LogOptions, OpenRecord, PreparedRecord, Timestamp};
    use crate::failure::Failure;

    fn open(folder: &std::path::Path) -> OpenRecord {
        let origin = KeyName::new("example.com/log").unwrap();
        let options = LogOptions::new(origin, SigningKey::from_seed([7; 32])).durability(Durability::Group);
        PreparedRecord { folder: folder.to_owned(), options, kept: Vec::new() }.open().unwrap()
    }

    fn entry(code: &str) -> Record {
        Record::Gateway(GatewayRecord::new(Timestamp::EPOCH, Direction::ToServer, code))
    }

    fn earlier(record: &OpenRecord) -> Result<Vec<Record>, Failure> {
        record.earlier()?.collect()
    }

    #[test]
    fn what_comes_after_its_end_is_refused_and_a_checkpoint_counts_all_that_came_before() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("log");
        let origin = KeyName::new("example.com/log").unwrap();
        let options = LogOptions::new(origin, SigningKey::from_seed([7; 32])).durability(Durability::System);
        let record = PreparedRecord { folder: folder.clone(), options, kept: Vec::new() }.open().unwrap();
        record.log.record(&entry("A")).unwrap();
        // Somebody who is never done holds it.
        let held = Arc::clone(&record.log);
        record.log.end().unwrap();
        assert_eq!(held.record(&entry("late")).unwrap_err().code(), "AUDIT_UNAVAILABLE");
        let key = LogKey::new(
            KeyName::new("example.com/log").unwrap(),
            SigningKey::from_seed([7; 32]).verifying_key(),
        );
        let told = verify_log(&folder, &key, &[]).unwrap();
        assert_eq!((told.records, told.tail_bytes), (1, 0));
        held.end().unwrap();
    }

    #[test]
    fn earlier_entries_are_those_that_were_verified_when_the_log_was_opened() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("log");
        let record = open(&folder);
        record.log.record(&entry("A")).unwrap();
        assert_eq!(earlier(&record).unwrap(), []);
        record.log.record(&entry("B")).unwrap();
        drop(record);
        let record = open(&folder);
        record.log.record(&entry("C")).unwrap();
        assert_eq!(earlier(&record).unwrap(), [entry("A"), entry("B")]);
    }

    #[test]
    fn a_log_of_which_the_head_of_its_last_segment_is_left_has_no_entries_to_go_on_from() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("log");
        let open = || {
            let origin = KeyName::new("example.com/log").unwrap();
            // Each entry has a segment of its own.
            let options = LogOptions::new(origin, SigningKey::from_seed([7; 32]));
            // The oldest segment is moved away, and the last one cut.
            let options = options.segment_bytes(1).dangerous_without_state();
            PreparedRecord { folder: folder.clone(), options, kept: Vec::new() }.open().unwrap()
        };
        let record = open();
        record.log.record(&entry("A")).unwrap();
        record.log.record(&entry("lost")).unwrap();
        drop(record);
        let last = folder.join("000000000002.jsonl");
        let text = std::fs::read_to_string(&last).unwrap();
        std::fs::write(&last, format!("{}\n", text.lines().next().unwrap())).unwrap();
        std::fs::remove_file(folder.join("000000000001.jsonl")).unwrap();
        let record = open();
        assert_eq!((record.size, earlier(&record).unwrap()), (1, vec![]));
        record.log.record(&entry("B")).unwrap();
        assert_eq!(earlier(&record).unwrap(), []);
        drop(record);
        assert_eq!(earlier(&open()).unwrap(), [entry("B")]);
    }

    #[test]
    fn a_log_that_lost_entries_since_it_was_opened_is_no_past_to_go_on_from() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("log");
        let record = open(&folder);
        record.log.record(&entry("A")).unwrap();
        record.log.record(&entry("B")).unwrap();
        drop(record);
        let record = open(&folder);
        let segment = folder.join("000000000001.jsonl");
        let text = std::fs::read_to_string(&segment).unwrap();
        let upto = text.find("{\"seq\":2").unwrap();
        std::fs::write(&segment, text.get(..upto).unwrap()).unwrap();
        assert_eq!(earlier(&record).unwrap_err().code(), "AUDIT_CORRUPT");
        std::fs::remove_file(&segment).unwrap();
        assert!(earlier(&record).is_err());
    }
}
