//! Destination of a session's record: a log, or none.

mod health;
mod logs;
mod reporting;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use countersign_audit_log::{
    AnswerRecord, AuditError, AuditSink as _, Durability, Log, LogKey, LogNumber, LogOptions, LogStart,
    OpenLogError, Record,
};
use countersign_core::Timestamp;
use countersign_keys::TrustRoot;
use countersign_keys::file::read_log_key;
use countersign_merkle::TreeHead;
use countersign_tlog::note::{KeyName, VerifierKeyError};
use countersign_tool_gate::{RecordedFields, RefusalRate, RefusalRateError};
use serde::Deserialize;

use crate::error::{HostError, chain, one_line};
use crate::files::read_text_file;
use crate::interrupt::outlive_file_limit;
use crate::recorded::ArgumentsPart;
use crate::report::Reporter;
use crate::states::{other_states, side_rebuilt};

#[cfg(feature = "prometheus")]
pub(crate) use health::RecordHealth;
pub(crate) use logs::{RecordLogs, ReplayedLog};
pub(crate) use reporting::ReportingLog;
use reporting::report_cuts;

/// Settings of a log to open.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordPlan {
    /// The log's folder.
    pub folder: PathBuf,
    /// The log's Ed25519 key file.
    pub key: PathBuf,
    /// The log's origin, which is the name of its key.
    pub origin: KeyName,
    /// When an entry counts as kept.
    pub durability: Durability,
    /// Number of bytes after which a new segment begins.
    pub segment: SegmentBytes,
    /// File with the log's state; by default the folder's name with `.state` appended.
    pub state: Option<PathBuf>,
    /// Files with checkpoints from elsewhere.
    pub kept: Vec<PathBuf>,
    /// Arguments whose values are recorded.
    pub arguments: RecordedFields,
    /// Rate up to which refused calls have entries of their own.
    pub refused_calls: RefusalRate,
    /// Who verifies the entries that are older than the log's state.
    pub older: OlderEntries,
}

/// Who verifies the entries of a log that are older than its state.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "two or three cases, each handled everywhere")]
pub enum OlderEntries {
    /// The session does, in the background.
    Verified,
    /// The session does, unless an earlier session of this process has: otherwise each one would cost a reading of the whole log.
    VerifiedOnce(VerifiedLogs),
    /// Others do: the session ends long before a whole log is read.
    LeftToOthers,
}

/// The logs of a folder whose older entries a process has verified.
#[derive(Clone, Debug, Default)]
pub struct VerifiedLogs(Arc<Mutex<BTreeSet<LogNumber>>>);

impl VerifiedLogs {
    fn have(&self, log: LogNumber) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&log)
    }

    fn add(&self, log: LogNumber) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(log);
    }
}

/// A log whose key and checkpoints were read. It is not open yet, and no file was created.
#[derive(Debug)]
pub struct PreparedRecord {
    pub(crate) folder: PathBuf,
    pub(crate) options: LogOptions,
    /// Files with checkpoints from elsewhere.
    kept: Vec<PathBuf>,
    older: OlderEntries,
    reporter: Reporter,
}

/// An open record.
#[derive(Debug)]
pub(crate) struct OpenRecord {
    pub(crate) log: Arc<ReportingLog>,
    pub(crate) number: LogNumber,
    folder: PathBuf,
    /// Folder of all logs, and the key of the first log.
    parent: PathBuf,
    first_key: LogKey,
    older: OlderEntries,
    /// Tree head of the log when it was opened.
    head: TreeHead,
    /// Files that were created for it, and last their folder.
    made: Vec<PathBuf>,
}

/// The `[record]` table of a configuration.
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

/// Number of bytes after which a new segment begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "u64")]
pub struct SegmentBytes(u64);

impl Default for SegmentBytes {
    fn default() -> Self {
        Self(64 << 20)
    }
}

impl TryFrom<u64> for SegmentBytes {
    type Error = &'static str;

    fn try_from(bytes: u64) -> Result<Self, Self::Error> {
        // A segment contains at least its head, and its whole tail is read into memory.
        let is_fit = (64 << 10..=1 << 30).contains(&bytes);
        if is_fit {
            Ok(Self(bytes))
        } else {
            Err("segment size out of range: 65536 to 1073741824 bytes expected")
        }
    }
}

/// When an entry of a log counts as kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum When {
    /// It was written and synced alone.
    Every,
    /// It was written and synced with all others that waited.
    Group,
    /// The system has it: a power cut may lose it.
    System,
}

/// Name of a log's key.
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

impl RecordPart {
    /// Iterates over all paths in it.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let optional = self.state.iter_mut().chain(&mut self.checkpoint_file);
        [&mut self.folder, &mut self.key_file].into_iter().chain(optional)
    }

    /// Sets the log's state to a file beside the registry's state, unless the configuration names one.
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
            older: OlderEntries::Verified,
        }
    }

    /// Returns the rate up to which refused messages other than calls have entries of their own.
    pub(crate) fn refused_messages(&self) -> RefusalRate {
        self.refused_messages.map_or(RefusalRate::MESSAGES, |rate| rate.0)
    }
}

impl RecordPlan {
    /// Makes settings with the defaults: `group`, segments of 64 MiB, a state beside the folder.
    #[must_use]
    pub fn new(folder: PathBuf, key: PathBuf, origin: KeyName) -> Self {
        Self {
            folder,
            key,
            origin,
            durability: Durability::Group,
            segment: SegmentBytes::default(),
            state: None,
            kept: Vec::new(),
            arguments: RecordedFields::new(),
            refused_calls: RefusalRate::CALLS,
            older: OlderEntries::Verified,
        }
    }

    /// Reads the log's key and the checkpoints. A key of the trust root is refused.
    pub(crate) fn prepare(
        &self,
        root: &TrustRoot,
        now: Timestamp,
        reporter: &Reporter,
    ) -> Result<PreparedRecord, HostError> {
        let about = |failure: HostError| failure.about(self.key.display());
        let key = read_log_key(&self.key).map_err(|error| about(error.into()))?;
        if root.contains(&key.verifying_key()) {
            let text = "is an operator's key; a log needs a key of its own";
            return Err(about(HostError::new("RECORD_KEY_REUSED", text)));
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
        let (folder, kept, reporter) = (self.folder.clone(), self.kept.clone(), reporter.clone());
        Ok(PreparedRecord { folder, options, kept, older: self.older.clone(), reporter })
    }
}

impl PreparedRecord {
    /// Opens or begins the log. If another process writes it, opens a numbered log beside it.
    pub(crate) fn open(self) -> Result<OpenRecord, HostError> {
        let Self { folder, options, kept, older, reporter } = self;
        let (is_fresh, first_key) = (folder.symlink_metadata().is_err(), options.log_key());
        let (log, number) = Log::open_shared(&folder, options.verify_older_later())
            .map_err(|error| open_failure(&folder, error))?;
        let head = log.head();
        // Another process may have created the folder since, or begun the log: its state knows it then.
        let is_begun = log.start() == LogStart::Begun && head.size() == 0;
        let is_ours = is_begun && (is_fresh || number != LogNumber::FIRST);
        let (parent, folder) = (folder.clone(), number.folder_in(&folder));
        let made = if is_ours { files_of_new_log(&folder) } else { Vec::new() };
        let log = Arc::new(ReportingLog::new(log, folder.clone(), kept, reporter));
        Ok(OpenRecord { log, number, folder, parent, first_key, older, head, made })
    }

    /// Records an operator's answer in a numbered log and syncs it. The answer counts once this returns.
    ///
    /// # Errors
    /// `AUDIT_*`: the answer does not count.
    pub fn answer(self, answer: AnswerRecord) -> Result<(), HostError> {
        let Self { folder, options, reporter, .. } = self;
        let (log, number) =
            Log::open_numbered(&folder, options).map_err(|error| open_failure(&folder, error))?;
        announce(&log, &number.folder_in(&folder), &reporter);
        report_cuts(&log, &number.folder_in(&folder), &reporter);
        let recorded = log.record(&Record::Answer(answer)).and_then(|_| log.close());
        recorded.map(drop).map_err(|error| log_failure(&folder, number, error))
    }
}

/// Reports a log that was begun, or adopted without a state. Later openings continue from that state.
fn announce(log: &Log, folder: &Path, reporter: &Reporter) {
    log.rebuilt_sides().iter().for_each(|side| reporter.note(&side_rebuilt(folder, side)));
    let (key, path, folder) = (log.key(), folder, folder.display());
    let how = match log.start() {
        LogStart::Begun => "begun".to_owned(),
        LogStart::Adopted => format!("adopted without a state, at {} entries", log.head().size()),
        LogStart::Resumed | _ => return,
    };
    let state = log.state_name().unwrap_or_default();
    let others = other_states(path, &key, Path::new(&state), drop).unwrap_or_default();
    let kept = if state.is_empty() { String::new() } else { format!(", its state is kept in `{state}`") };
    let other = others.first().map_or_else(String::new, |other| {
        format!(
            "; `{}` contains the log, too: give all its writers one state (docs/record.md)",
            other.display()
        )
    });
    reporter.note(&one_line(&format!("log `{folder}` ({}) {how}{kept}{other}", key.origin())));
}

fn open_failure(folder: &Path, error: OpenLogError) -> HostError {
    let OpenLogError { log, source, .. } = error;
    log_failure(folder, log, source)
}

fn log_failure(folder: &Path, log: LogNumber, error: AuditError) -> HostError {
    HostError::from(error).about(log.folder_in(folder).display())
}

impl OpenRecord {
    /// Passes the log to its open session: announces it, and saves its state from here on.
    pub(crate) fn in_use(self) -> Arc<ReportingLog> {
        announce(self.log.log(), &self.folder, self.log.reporter());
        ReportingLog::keep_state(&self.log);
        let number = self.number;
        match self.older {
            OlderEntries::Verified => ReportingLog::verify_older(&self.log, || {}),
            OlderEntries::VerifiedOnce(logs) if !logs.have(number) => {
                ReportingLog::verify_older(&self.log, move || logs.add(number));
            }
            OlderEntries::VerifiedOnce(_) | OlderEntries::LeftToOthers => {}
        }
        self.log
    }

    /// Returns the logs of the folder, to replay an alarm from them.
    pub(crate) fn logs(&self) -> RecordLogs {
        RecordLogs::new(Arc::clone(&self.log), self.number, &self.parent, self.first_key.clone(), self.head)
    }

    /// Rolls back the opening: removes the files that it created. If the state still names the log, the empty log
    /// stays.
    pub(crate) fn roll_back(self) {
        // The caller reports the reason, and a failure to end an unused log does not matter.
        let _ = self.log.end();
        // The state goes first: it must not name a missing log.
        if !self.made.is_empty()
            && let Err(error) = self.log.log().forget_state()
        {
            let text = format!("the new log cannot be rolled back, and stays empty: {}", chain(&error));
            self.log.reporter().warn_of(&HostError::new(error.code(), text).about(self.folder.display()));
            return;
        }
        // No other process uses the files while the record is open.
        for path in &self.made {
            let _ = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        }
        drop(self.log);
    }
}

/// Lists the files of a log that has just begun, in the order of removal: its segment; then its lock, so that no other
/// process opens the log meanwhile; then its folder, which stays if it contains anything else.
fn files_of_new_log(folder: &Path) -> Vec<PathBuf> {
    ["000000000001.jsonl", "lock", ""].iter().map(|name| folder.join(name)).collect()
}

#[cfg(test)]
mod tests;
