//! Where a session's record goes: nowhere, to a file, or to a log that is signed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use countersign_audit_log::{AuditSink, Durability, FileSink, Log, LogOptions};
use countersign_core::Timestamp;
use countersign_keys::TrustRoot;
use countersign_keys::file::read_signing_key;
use countersign_keys::note::{KeyName, VerifierKeyError};
use serde::Deserialize;

use crate::failure::Failure;
use crate::files::read_text_file;

/// What a session's record is.
#[derive(Clone, Debug)]
pub(crate) enum RecordPlan {
    /// One file, which finds accidents and no forgers.
    File(PathBuf),
    Log(LogPlan),
}

/// A log, as it is to be opened.
#[derive(Clone, Debug)]
pub(crate) struct LogPlan {
    folder: PathBuf,
    key: PathBuf,
    origin: KeyName,
    durability: Durability,
    /// Files with checkpoints that were kept elsewhere.
    kept: Vec<PathBuf>,
}

/// A record whose key and checkpoints were read. It was not opened, and nothing was made.
#[derive(Debug)]
pub(crate) enum PreparedRecord {
    File(PathBuf),
    Log { folder: PathBuf, options: LogOptions },
}

/// An open record.
pub(crate) struct OpenRecord {
    pub(crate) sink: Arc<dyn AuditSink>,
    /// The files that were made for it, and the folder that they lie in last.
    made: Vec<PathBuf>,
}

/// The record's options on the command line.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Append every decision to this record: a file, or with --record-key the folder of a log.
    #[arg(long, value_name = "PATH")]
    record: Option<PathBuf>,
    /// The log's own Ed25519 key file, which signs its checkpoints.
    #[arg(long, value_name = "FILE", requires_all = ["record", "record_origin"])]
    record_key: Option<PathBuf>,
    /// The log's origin, which is also the name of its key: best a URL without its scheme, as example.com/log.
    #[arg(long, value_name = "NAME", requires = "record_key")]
    record_origin: Option<KeyName>,
    /// When an entry of the log counts as kept; `group` without it.
    #[arg(long, value_name = "WHEN", value_enum, requires = "record_key")]
    record_durability: Option<When>,
    /// A checkpoint of the log that was kept elsewhere: the log has to go on from it. May be used several times.
    #[arg(long, value_name = "FILE", requires = "record_key")]
    record_checkpoint: Vec<PathBuf>,
}

/// The record's part of a configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordPart {
    file: Option<PathBuf>,
    folder: Option<PathBuf>,
    key_file: Option<PathBuf>,
    origin: Option<Origin>,
    durability: Option<When>,
    checkpoint_file: Option<PathBuf>,
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

    pub(crate) fn plan(&self) -> Option<RecordPlan> {
        let record = self.record.clone()?;
        Some(match (&self.record_key, &self.record_origin) {
            (Some(key), Some(origin)) => RecordPlan::Log(LogPlan {
                folder: record,
                key: key.clone(),
                origin: origin.clone(),
                durability: self.record_durability.unwrap_or(When::Group).into(),
                kept: self.record_checkpoint.clone(),
            }),
            _ => RecordPlan::File(record),
        })
    }
}

impl RecordPart {
    /// Every path in it.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let paths = [&mut self.file, &mut self.folder, &mut self.key_file, &mut self.checkpoint_file];
        paths.into_iter().flatten()
    }

    pub(crate) fn plan(&self) -> Result<RecordPlan, Failure> {
        let conflict = |text: &str| Err(Failure::new("CONFIG_CONFLICT", text));
        let of_a_log = self.key_file.is_some()
            || self.origin.is_some()
            || self.durability.is_some()
            || self.checkpoint_file.is_some();
        match (&self.file, &self.folder, &self.key_file, &self.origin) {
            (Some(_), Some(_), ..) => conflict("`record` has both a `file` and the `folder` of a log"),
            (None, None, ..) => conflict("`record` has neither a `file` nor the `folder` of a log"),
            (Some(_), None, ..) if of_a_log => {
                conflict("what `record` says besides `file` is for the `folder` of a log")
            }
            (Some(file), None, ..) => Ok(RecordPlan::File(file.clone())),
            (None, Some(folder), Some(key), Some(origin)) => Ok(RecordPlan::Log(LogPlan {
                folder: folder.clone(),
                key: key.clone(),
                origin: origin.0.clone(),
                durability: self.durability.unwrap_or(When::Group).into(),
                kept: self.checkpoint_file.iter().cloned().collect(),
            })),
            (None, Some(_), ..) => conflict("the `folder` of a log needs `key_file` and `origin`"),
        }
    }
}

impl RecordPlan {
    /// Reads the log's key, which must have no part in what the trust root decides, and the checkpoints.
    pub(crate) fn prepare(&self, root: &TrustRoot, now: Timestamp) -> Result<PreparedRecord, Failure> {
        let log = match self {
            Self::File(path) => return Ok(PreparedRecord::File(path.clone())),
            Self::Log(log) => log,
        };
        let about = |failure: Failure| failure.about(log.key.display());
        let key = read_signing_key(&log.key).map_err(|error| about(error.into()))?;
        if root.contains(&key.verifying_key()) {
            let text = "is an operator's key, and a log has one of its own";
            return Err(about(Failure::new("RECORD_KEY_REUSED", text)));
        }
        let mut options = LogOptions::new(log.origin.clone(), key).durability(log.durability).opened_at(now);
        for path in &log.kept {
            options = options.known_checkpoint(read_text_file(path)?);
        }
        Ok(PreparedRecord::Log { folder: log.folder.clone(), options })
    }
}

impl PreparedRecord {
    /// Opens the record, or begins it.
    pub(crate) fn open(self) -> Result<OpenRecord, Failure> {
        let about = |path: &Path, error| Failure::from(error).about(path.display());
        match self {
            Self::File(path) => {
                let made = if is_free(&path) { vec![path.clone()] } else { Vec::new() };
                let sink = FileSink::open(&path).map_err(|error| about(&path, error))?;
                Ok(OpenRecord { sink: Arc::new(sink), made })
            }
            Self::Log { folder, options } => {
                let fresh = is_free(&folder);
                let sink = Log::open(&folder, options).map_err(|error| about(&folder, error))?;
                let made = if fresh { files_in(&folder) } else { Vec::new() };
                Ok(OpenRecord { sink: Arc::new(sink), made })
            }
        }
    }
}

impl OpenRecord {
    /// Takes away again what was made in vain.
    pub(crate) fn unmake(self) {
        // As long as the record is open, nobody else has it.
        for path in &self.made {
            let _ = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        }
        drop(self.sink);
    }
}

fn is_free(path: &Path) -> bool {
    path.symlink_metadata().is_err()
}

/// What lies in a folder, and then the folder.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).chain([folder.to_owned()]).collect()
}
