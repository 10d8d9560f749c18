use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_audit_log::{
    Checkpoint, FolderDisk, LogError, LogKey, LogNumber, LogProver, list_logs, verify_log,
};
use countersign_merkle::TreeHead;

use super::told::ToldLog;
use crate::command::audit::{ReadTo, side_rebuilt};
use crate::failure::Failure;
use crate::output::note;

/// The logs of a record: its session's, and those that other processes write into the folder.
#[derive(Debug)]
pub(crate) struct RecordLogs {
    log: Arc<ToldLog>,
    number: LogNumber,
    parent: PathBuf,
    first_key: LogKey,
    /// The entries that the session's log had when it was opened.
    head: TreeHead,
}

/// A log as it is replayed.
#[derive(Debug)]
pub(crate) struct ReplayedLog {
    pub(crate) origin: String,
    pub(crate) folder: PathBuf,
    /// A checkpoint of it.
    pub(crate) head: TreeHead,
    /// The last checkpoint that is known to be synced, up to that one.
    pub(crate) synced: Option<TreeHead>,
    /// How far it is read, beyond the synced entries.
    pub(crate) end: ReadTo,
}

impl RecordLogs {
    pub(super) fn new(
        log: Arc<ToldLog>,
        number: LogNumber,
        parent: &Path,
        first_key: LogKey,
        head: TreeHead,
    ) -> Self {
        Self { log, number, parent: parent.to_owned(), first_key, head }
    }

    /// Names the record: origin of the folder's first log.
    pub(crate) fn name(&self) -> &str {
        self.first_key.origin().as_str()
    }

    /// Number of synced entries of the session's own log.
    pub(crate) fn synced_size(&self) -> u64 {
        self.log.log().synced_size()
    }

    /// Returns `true` once the session has ended its log.
    pub(crate) fn has_ended(&self) -> bool {
        self.log.has_ended()
    }

    /// All logs as they are found at the start of the session. The signatures of their last checkpoints are verified.
    pub(crate) fn at_start(&self) -> Result<Vec<ReplayedLog>, Failure> {
        self.each(|number, key, folder, synced| {
            if number == self.number {
                let (head, end) = (self.head, ReadTo::Entry(self.head.size()));
                return Ok(Some((head, end, synced)));
            }
            let opened = FolderDisk::existing(folder).map_err(LogError::from);
            match opened.and_then(|disk| LogProver::open(disk, key, &[])) {
                Ok(mut prover) => {
                    prover.take_rebuilt().iter().for_each(|side| note(&side_rebuilt(folder, side)));
                    Ok(Some((*prover.checkpoint().head(), ReadTo::Torn, synced)))
                }
                // It is being begun.
                Err(LogError::Missing) => Ok(None),
                Err(error) => Err(verify_failure(folder, error)),
            }
        })
    }

    /// All logs up to their last synced checkpoints.
    pub(crate) fn synced(&self) -> Result<Vec<ReplayedLog>, Failure> {
        self.each(|_, _, _, synced| {
            Ok(synced.map(|synced| (synced, ReadTo::Entry(synced.size()), Some(synced))))
        })
    }

    /// Verifies the logs of other processes, and returns the first failure.
    pub(crate) fn verify_others(&self) -> Result<(), Failure> {
        for number in self.numbers()?.into_iter().filter(|number| *number != self.number) {
            let folder = number.folder_in(&self.parent);
            verify_log(&folder, &number.key(&self.first_key)?, &[])
                .map_err(|error| verify_failure(&folder, error))?;
        }
        Ok(())
    }

    /// The logs that are there, of which the session's own has to be one.
    fn numbers(&self) -> Result<Vec<LogNumber>, Failure> {
        let numbers = list_logs(&self.parent).map_err(|error| verify_failure(&self.parent, error))?;
        if numbers.contains(&self.number) {
            return Ok(numbers);
        }
        Err(verify_failure(&self.number.folder_in(&self.parent), LogError::Missing))
    }

    /// Looks at each log with its last synced checkpoint: by the log itself, or by the state.
    fn each(
        &self,
        look: impl Fn(LogNumber, &LogKey, &Path, Option<TreeHead>) -> Result<Option<LogExtent>, Failure>,
    ) -> Result<Vec<ReplayedLog>, Failure> {
        let (log, mut logs) = (self.log.log(), Vec::new());
        let states = log.known_logs()?;
        for number in self.numbers()? {
            let (key, folder) = (number.key(&self.first_key)?, number.folder_in(&self.parent));
            let checkpoint = if number == self.number {
                Checkpoint::verify(&log.synced_checkpoint(), &key).ok()
            } else {
                states.log(&key).ok().flatten().map(|known| known.checkpoint)
            };
            let synced = checkpoint.map(|checkpoint| *checkpoint.head());
            if let Some((head, end, synced)) = look(number, &key, &folder, synced)? {
                let origin = key.origin().as_str().to_owned();
                let synced = synced.filter(|synced| synced.size() <= head.size());
                logs.push(ReplayedLog { origin, folder, head, synced, end });
            }
        }
        Ok(logs)
    }
}

/// A checkpoint of a log, how far the log is read, and its last synced checkpoint.
type LogExtent = (TreeHead, ReadTo, Option<TreeHead>);

fn verify_failure(folder: &Path, error: LogError) -> Failure {
    Failure::from(error).about(folder.display())
}
