use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{MapValueParser, OsStringValueParser, TypedValueParser as _, ValueParserFactory};
use countersign_audit_log::{
    Checkpoint, FolderDisk, KnownLog, LogError, LogKey, LogNumber, LogProver, LogStateFile, LogStates,
    LogSummary, key_of_log, list_logs, verify_log,
};
use countersign_host::entries::Logs;
use countersign_host::receipt::make_durable;
use countersign_host::states::side_rebuilt;
use countersign_tlog::note::VerifierKeyError;

use crate::failure::{Exit, Failure};
use crate::files::{TEXT_BYTES, read_text_file, read_trusted_file};
use crate::output::note;

/// A log, and what it is verified by.
#[derive(Debug, Args)]
pub(super) struct LogArgs {
    /// The log's folder.
    folder: PathBuf,
    /// The log's public key, `origin+id+key`, or a file that holds it.
    #[arg(long, value_name = "KEY")]
    key: KeySource,
    /// A checkpoint that was kept elsewhere: the log must extend it. May be given several times.
    #[arg(long, value_name = "FILE")]
    checkpoint: Vec<PathBuf>,
}

/// Result of verifying a log: its key and its summary.
pub(crate) struct VerifiedSummary {
    pub(super) key: LogKey,
    pub(super) summary: LogSummary,
}

/// A file with a checkpoint from elsewhere, and the number of its log. Without a number, the checkpoint's origin names
/// the log.
pub(super) type KeptCheckpoint = (Option<LogNumber>, PathBuf);

/// One verified log of a folder.
pub(crate) struct VerifiedLog {
    pub(super) number: LogNumber,
    /// The log's name, if its folder has several.
    pub(super) name: Option<LogNumber>,
    pub(super) folder: PathBuf,
    pub(super) key: LogKey,
    pub(crate) summary: LogSummary,
    /// Number of checkpoints from elsewhere that it was compared with.
    pub(super) kept: usize,
    /// Number of entries that its state recorded, if a state was given.
    pub(super) state: Option<u64>,
}

/// One log of a folder, ready to prove its entries.
pub(super) struct ProvableLog {
    pub(super) number: LogNumber,
    /// The log's name, if its folder has several.
    pub(super) name: Option<LogNumber>,
    pub(super) folder: PathBuf,
    pub(super) key: LogKey,
    pub(super) prover: LogProver,
}

impl LogArgs {
    /// Returns the log's folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Verifies every log of the folder, and against the state in this file if one is given.
    pub(super) fn verify_all(&self, state: Option<&Path>) -> Result<Vec<VerifiedLog>, Failure> {
        let states = state.map(read_state).transpose()?;
        verify_all(&self.folder, &self.key.read()?, &self.kept(&[]), states.as_ref())
    }

    /// Opens the chosen logs of the folder for proofs. Each must also extend the checkpoints in `more`.
    pub(super) fn provable(
        &self,
        choice: LogChoice,
        more: &[KeptCheckpoint],
    ) -> Result<Vec<ProvableLog>, Failure> {
        let Some(number) = choice.number() else {
            let (key, kept) = (self.key.read()?, self.kept(more));
            return each_log(&self.folder, &key, &kept, None, ProvableLog::open);
        };
        self.provable_one(number, Some(number), more).map(|log| vec![log])
    }

    /// Opens the folder's own log, as [`provable`](Self::provable) does.
    #[cfg(feature = "witness")]
    pub(super) fn provable_own(&self, more: &[KeptCheckpoint]) -> Result<ProvableLog, Failure> {
        self.provable_one(LogNumber::FIRST, None, more)
    }

    fn provable_one(
        &self,
        number: LogNumber,
        name: Option<LogNumber>,
        more: &[KeptCheckpoint],
    ) -> Result<ProvableLog, Failure> {
        let kept: Vec<_> = self.kept(more).into_iter().map(|(_, path)| path).collect();
        let key = number.key(&key_of_log(&self.folder, &self.key.read()?))?;
        let folder = number.folder_in(&self.folder);
        ProvableLog::open(FoundLog { number, name, folder, key, kept: &kept, known: None })
    }

    fn kept(&self, more: &[KeptCheckpoint]) -> Vec<KeptCheckpoint> {
        let given = self.checkpoint.iter().map(|path| (None, path.clone()));
        given.chain(more.iter().cloned()).collect()
    }

    /// Verifies the folder's own log before data of it is given to another party. why: the other party keeps that data,
    /// so the log must not lose it in a power failure. The writer may not have synced it yet.
    pub(super) fn verify_to_give_out(&self) -> Result<VerifiedSummary, Failure> {
        let verified = verify(&self.folder, &self.key.read()?, &self.checkpoint)?;
        make_durable(&self.folder).map_err(|error| failure(error.into()).about(self.folder.display()))?;
        Ok(verified)
    }
}

impl ProvableLog {
    fn open(found: FoundLog<'_>) -> Result<Self, Failure> {
        let FoundLog { number, name, folder, key, kept, .. } = found;
        let known = kept.iter().map(|path| read_checkpoint(path, &key)).collect::<Result<Vec<_>, _>>()?;
        let disk = FolderDisk::existing(&folder).map_err(LogError::from);
        let prover = disk.and_then(|disk| LogProver::open(disk, &key, &known));
        let prover = prover.map_err(|error| of_known(error, &known, &folder))?;
        Ok(Self { number, name, folder, key, prover })
    }

    /// Returns the number of entries under the last checkpoint.
    pub(super) const fn records(&self) -> u64 {
        self.prover.checkpoint().size()
    }

    /// Syncs the log before a proof of it is given to another party.
    pub(super) fn make_durable(&self) -> Result<(), Failure> {
        make_durable(&self.folder).map_err(|error| self.failure(error.into()))
    }

    pub(super) fn failure(&self, error: LogError) -> Failure {
        failure(error).about(self.folder.display())
    }

    /// Returns the failure for a missing entry or size: the log has only `size`.
    pub(super) fn no_such_size(&self, asked: u64, size: u64) -> Failure {
        let text = if asked == 0 {
            "numbers of entries and sizes start at 1".to_owned()
        } else {
            format!("number {asked} requested, the log has {size}")
        };
        Failure::new(LogError::NoSuchSize.code(), text).about(self.folder.display())
    }
}

/// Reports the side files that were rebuilt, also by a command that fails.
impl Drop for ProvableLog {
    fn drop(&mut self) {
        for side in self.prover.take_rebuilt() {
            note(&side_rebuilt(&self.folder, &side));
        }
    }
}

/// Refuses a log whose oldest segments are missing.
pub(super) fn require_all(folder: &Path, summary: &LogSummary) -> Result<(), Failure> {
    match summary.first_here {
        first if first > 1 => {
            let error = LogError::Archived { first: first.saturating_sub(1), asked: 1 };
            Err(failure(error).about(folder.display()))
        }
        _ => Ok(()),
    }
}

/// Verifies a log against its key and the checkpoints in these files. For a numbered log, `key` may be the key of its
/// parent folder's log.
pub(crate) fn verify(folder: &Path, key: &LogKey, kept: &[PathBuf]) -> Result<VerifiedSummary, Failure> {
    verify_known(folder, &key_of_log(folder, key), kept, None)
}

/// Verifies a log as [`verify`] does, and against its state.
fn verify_known(
    folder: &Path,
    key: &LogKey,
    kept: &[PathBuf],
    state: Option<KnownLog>,
) -> Result<VerifiedSummary, Failure> {
    let key = key.clone();
    let mut kept = kept.iter().map(|path| read_checkpoint(path, &key)).collect::<Result<Vec<_>, _>>()?;
    let first = state.as_ref().map(|state| state.first);
    let known = state.map(|state| state.checkpoint);
    let in_state = known.as_ref().map(Checkpoint::size);
    kept.extend(known);
    let summary = verify_log(folder, &key, &kept).map_err(|error| {
        let error = match (error, in_state) {
            // The segment exists, but its head does not.
            (LogError::Missing, Some(known))
                if list_logs(folder).is_ok_and(|logs| logs.contains(&LogNumber::FIRST)) =>
            {
                LogError::RolledBack { records: 0, known }
            }
            (LogError::Missing, Some(known)) => LogError::Gone { known },
            (error, _) => error,
        };
        of_known(error, &kept, folder)
    })?;
    if let Some(first) = first.filter(|first| *first < summary.first_here) {
        let error = LogError::OldestGone { first, last: summary.first_here.saturating_sub(1) };
        return Err(failure(error).about(folder.display()));
    }
    Ok(VerifiedSummary { key, summary })
}

/// Maps a log error to a failure, given the known checkpoints of the log.
fn of_known(error: LogError, known: &[Checkpoint], folder: &Path) -> Failure {
    // The log had entries once.
    let gone = matches!(error, LogError::Missing | LogError::Gone { .. })
        && known.iter().any(|known| known.size() > 0);
    let failure = failure(error).about(folder.display());
    if gone { failure.into_refusal() } else { failure }
}

fn read_state(path: &Path) -> Result<LogStates, Failure> {
    let read = LogStateFile::new(path).read();
    let states = read.map_err(|error| Failure::from(error).about(path.display()))?;
    states.ok_or_else(|| Failure::new("FILE_MISSING", "file not found").about(path.display()))
}

/// Returns the log's entry in the state, which must exist.
fn known_log(states: &LogStates, key: &LogKey) -> Result<KnownLog, Failure> {
    let known = states.log(key).map_err(|error| Failure::from(error).into_refusal())?;
    known.ok_or_else(|| Failure::refused("AUDIT_STATE", "log not found in the state"))
}

/// Verifies every log of a folder by the key of its first log: each against its own checkpoints and its state. All
/// failures are reported and one is returned: the failure of a log that does not verify before that of a log that
/// cannot be read.
pub(crate) fn verify_all(
    folder: &Path,
    key: &LogKey,
    kept: &[KeptCheckpoint],
    states: Option<&LogStates>,
) -> Result<Vec<VerifiedLog>, Failure> {
    each_log(folder, key, kept, states, |found| {
        let FoundLog { number, name, folder, key, kept, known } = found;
        let state = known.as_ref().map(|known| known.checkpoint.size());
        let VerifiedSummary { key, summary } = verify_known(&folder, &key, kept, known)?;
        Ok(VerifiedLog { number, name, folder, key, summary, kept: kept.len(), state })
    })
}

/// One log of a folder, to be verified.
struct FoundLog<'a> {
    number: LogNumber,
    name: Option<LogNumber>,
    folder: PathBuf,
    key: LogKey,
    kept: &'a [PathBuf],
    known: Option<KnownLog>,
}

/// Runs `verify` on every log of a folder, with the failures of [`verify_all`].
fn each_log<T>(
    folder: &Path,
    key: &LogKey,
    kept: &[KeptCheckpoint],
    states: Option<&LogStates>,
    verify: impl Fn(FoundLog<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let key = key_of_log(folder, key);
    let mut kept_of: BTreeMap<LogNumber, Vec<PathBuf>> = BTreeMap::new();
    for (number, path) in kept {
        let number = match number {
            Some(number) => *number,
            None => LogNumber::of_note(&read_text_file(path)?, key.origin()),
        };
        kept_of.entry(number).or_default().push(path.clone());
    }
    let there: BTreeSet<_> = if states.is_some() && folder.symlink_metadata().is_err() {
        BTreeSet::new()
    } else {
        Logs::of(folder)?.each().map(|(number, ..)| number).collect()
    };
    // A numbered log begins only beside the folder's own.
    let mut due: BTreeSet<_> =
        there.iter().chain(kept_of.keys()).copied().chain([LogNumber::FIRST]).collect();
    let in_state = states.into_iter().flat_map(LogStates::origins);
    due.extend(in_state.map(|origin| LogNumber::of_note(origin, key.origin())));
    let is_several = due.iter().any(|number| *number != LogNumber::FIRST);
    let (mut verified, mut failures) = (Vec::new(), Vec::new());
    for number in due {
        let name = is_several.then_some(number);
        let (kept, path) = (kept_of.get(&number).map_or(&[][..], Vec::as_slice), number.folder_in(folder));
        let key = number.key(&key)?;
        let known = states.map(|states| known_log(states, &key)).transpose();
        let known = known.map_err(|failure| failure.about(path.display()));
        let size = known.as_ref().ok().and_then(Option::as_ref).map(|known| known.checkpoint.size());
        let result = if there.contains(&number) {
            known.and_then(|known| verify(FoundLog { number, name, folder: path, key, kept, known }))
        } else {
            let text = if size.is_some() {
                "log missing: the state contains it"
            } else if kept.is_empty() {
                "the folder's own log is missing, numbered logs are present"
            } else {
                "log missing: a kept checkpoint covers it"
            };
            Err(Failure::refused("AUDIT_MISSING", text).about(path.display()))
        };
        match result {
            Ok(log) => verified.push(log),
            Err(failure) => failures.push(failure),
        }
    }
    let worst = failures.iter().position(|failure| failure.exit() == Exit::Refused).unwrap_or_default();
    if failures.is_empty() {
        return Ok(verified);
    }
    let worst = failures.remove(worst);
    for failure in failures {
        note(&format!("error {}: {}", failure.code(), failure.line()));
    }
    Err(worst)
}

fn read_checkpoint(path: &Path, key: &LogKey) -> Result<Checkpoint, Failure> {
    Checkpoint::verify(&read_text_file(path)?, key)
        .map_err(|error| failure(LogError::Known(error)).about(path.display()))
}

/// Maps a log error to a failure: a log that does not verify is refused (exit 3), a log that cannot be read is an error
/// (exit 1).
fn failure(error: LogError) -> Failure {
    let mishap = matches!(
        error,
        LogError::Io(_) | LogError::Missing | LogError::Archived { .. } | LogError::NoSuchSize
    );
    let failure = Failure::from(error);
    if mishap { failure } else { failure.into_refusal() }
}

/// Choice of one log of a folder that has several.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct LogChoice {
    /// Read this log of the folder alone: its number, or a dot for the log in the folder itself. All logs without it.
    #[arg(long = "log", value_name = "NAME", value_parser = log_name)]
    number: Option<LogNumber>,
}

impl LogChoice {
    pub(super) const fn number(self) -> Option<LogNumber> {
        self.number
    }
}

fn log_name(text: &str) -> Result<LogNumber, String> {
    if text == "." {
        return Ok(LogNumber::FIRST);
    }
    text.parse().map_err(|_| "invalid log: a dot or the number of a log expected".to_owned())
}

/// Returns the one log that contains an entry or a size.
///
/// # Errors
/// `AUDIT_SEVERAL_LOGS` if several logs contain it; the failure of `none` if no log does.
pub(super) fn only_one(
    logs: Vec<ProvableLog>,
    has: impl Fn(&ProvableLog) -> bool,
    none: impl Fn(&ProvableLog) -> Failure,
) -> Result<ProvableLog, Failure> {
    let missing = logs.iter().max_by_key(|log| log.records()).map(none);
    let mut found: Vec<_> = logs.into_iter().filter(has).collect();
    match found.pop() {
        Some(log) if found.is_empty() => Ok(log),
        Some(last) => {
            let names: Vec<_> = found.iter().map(|log| log.number.to_string()).collect();
            let text =
                format!("logs {} and {} have it, choose one with --log", names.join(", "), last.number);
            Err(Failure::new("AUDIT_SEVERAL_LOGS", text))
        }
        None => Err(missing.unwrap_or_else(|| Failure::new("AUDIT_MISSING", "no log in the folder"))),
    }
}

/// Source of a log's public key.
#[derive(Clone, Debug)]
pub(crate) enum KeySource {
    Given(LogKey),
    /// A file, and the error from reading its name as a key.
    File(PathBuf, VerifierKeyError),
}

impl From<OsString> for KeySource {
    fn from(given: OsString) -> Self {
        // A file name may be other than UTF-8; a key is text.
        let key = given.to_str().ok_or(VerifierKeyError::Malformed).and_then(str::parse);
        key.map_or_else(|error| Self::File(given.into(), error), Self::Given)
    }
}

impl ValueParserFactory for KeySource {
    type Parser = MapValueParser<OsStringValueParser, fn(OsString) -> Self>;

    fn value_parser() -> Self::Parser {
        OsStringValueParser::new().map(Self::from)
    }
}

impl KeySource {
    pub(crate) fn read(&self) -> Result<LogKey, Failure> {
        let (path, given) = match self {
            Self::Given(key) => return Ok(key.clone()),
            Self::File(path, given) => (path, given),
        };
        if *given != VerifierKeyError::Malformed && path.symlink_metadata().is_err() {
            return Err(Failure::from(*given));
        }
        let bytes = read_trusted_file(path, TEXT_BYTES)?;
        let text = str::from_utf8(&bytes).map_err(|_| VerifierKeyError::Malformed);
        text.and_then(|text| text.strip_suffix('\n').unwrap_or(text).parse())
            .map_err(|error| Failure::from(error).about(path.display()))
    }
}
