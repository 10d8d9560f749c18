use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_audit_log::{
    Checkpoint, Durability, LogError, LogKey, LogNumber, LogStates, list_logs, verify_log,
};
use countersign_merkle::TreeHead;

use super::reporting::ReportingLog;
use crate::entries::ReadTo;
use crate::error::HostError;
use crate::report::Reporter;
use crate::states::side_rebuilt;

/// The logs of a record: its session's log, and those that other processes write into the folder.
#[derive(Debug)]
pub(crate) struct RecordLogs {
    log: Arc<ReportingLog>,
    number: LogNumber,
    parent: PathBuf,
    first_key: LogKey,
    /// Tree head of the session's log when it was opened.
    head: TreeHead,
}

/// A log to replay.
#[derive(Clone, Debug)]
pub(crate) struct ReplayedLog {
    pub(crate) origin: String,
    pub(crate) folder: PathBuf,
    /// Head of one of its checkpoints.
    pub(crate) head: TreeHead,
    /// The last checkpoint that is known to be synced, at most `head`.
    pub(crate) synced: Option<TreeHead>,
    /// End of the read, beyond the synced entries.
    pub(crate) end: ReadTo,
}

impl RecordLogs {
    pub(super) fn new(
        log: Arc<ReportingLog>,
        number: LogNumber,
        parent: &Path,
        first_key: LogKey,
        head: TreeHead,
    ) -> Self {
        Self { log, number, parent: parent.to_owned(), first_key, head }
    }

    /// Returns the record's name: the origin of the folder's first log.
    pub(crate) fn name(&self) -> &str {
        self.first_key.origin().as_str()
    }

    /// Returns where lines for the operator go.
    pub(crate) fn reporter(&self) -> &Reporter {
        self.log.reporter()
    }

    /// Returns the number of synced entries of the session's own log.
    pub(crate) fn synced_size(&self) -> u64 {
        self.log.log().synced_size()
    }

    /// Returns `true` once the session has ended its log.
    pub(crate) fn has_ended(&self) -> bool {
        self.log.has_ended()
    }

    /// Returns all logs as of the session's start. The signatures of their last checkpoints are verified. Each log
    /// that the state knows must continue from it.
    pub(crate) fn at_start(&self) -> Result<Vec<ReplayedLog>, HostError> {
        let (log, states) = (self.log.log(), self.log.log().known_logs()?);
        let mut numbers = self.numbers()?;
        numbers.extend(states.origins().filter_map(|origin| self.number_of(origin)));
        self.each(numbers, &states, |number, key, folder, synced| {
            if number == self.number {
                let (head, end) = (self.head, ReadTo::Entry(self.head.size()));
                return Ok(Some((head, end, synced)));
            }
            let opened = log.open_beside(folder, key, &states);
            let opened = opened.map_err(|error| HostError::from(error).about(folder.display()))?;
            // Another process is beginning it.
            let Some(mut prover) = opened else { return Ok(None) };
            prover.take_rebuilt().iter().for_each(|side| self.reporter().note(&side_rebuilt(folder, side)));
            let head = *prover.checkpoint().head();
            // why: entries behind the checkpoint are unsigned. Only `System` answers calls before it signs.
            let end = match log.durability() {
                Durability::System => ReadTo::Torn,
                Durability::Group | Durability::Every | _ => ReadTo::Entry(head.size()),
            };
            Ok(Some((head, end, synced)))
        })
    }

    /// Returns all logs up to their last synced checkpoints.
    pub(crate) fn synced(&self) -> Result<Vec<ReplayedLog>, HostError> {
        let states = self.log.log().known_logs()?;
        self.each(self.numbers()?, &states, |_, _, _, synced| {
            Ok(synced.map(|synced| (synced, ReadTo::Entry(synced.size()), Some(synced))))
        })
    }

    /// Verifies the logs of other processes and returns the first failure.
    pub(crate) fn verify_others(&self) -> Result<(), HostError> {
        for number in self.numbers()?.into_iter().filter(|number| *number != self.number) {
            let folder = number.folder_in(&self.parent);
            verify_log(&folder, &number.key(&self.first_key)?, &[])
                .map_err(|error| verify_failure(&folder, error))?;
        }
        Ok(())
    }

    /// Lists the existing logs. The session's own log must be one of them.
    fn numbers(&self) -> Result<BTreeSet<LogNumber>, HostError> {
        let numbers = list_logs(&self.parent).map_err(|error| verify_failure(&self.parent, error))?;
        if numbers.contains(&self.number) {
            return Ok(numbers.into_iter().collect());
        }
        Err(verify_failure(&self.number.folder_in(&self.parent), LogError::Missing))
    }

    /// Returns the log of the folder that has this origin.
    fn number_of(&self, origin: &str) -> Option<LogNumber> {
        let number = LogNumber::of_note(origin, self.first_key.origin());
        let is_its_own = number.origin(self.first_key.origin()).is_ok_and(|own| own.as_str() == origin);
        is_its_own.then_some(number)
    }

    /// Calls `look` for each of these logs with its last synced checkpoint, which comes from the log itself or from
    /// the state.
    fn each(
        &self,
        numbers: BTreeSet<LogNumber>,
        states: &LogStates,
        look: impl Fn(LogNumber, &LogKey, &Path, Option<TreeHead>) -> Result<Option<LogExtent>, HostError>,
    ) -> Result<Vec<ReplayedLog>, HostError> {
        let (log, mut logs) = (self.log.log(), Vec::new());
        for number in numbers {
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

/// Head of a checkpoint, end of the read, and head of the last synced checkpoint.
type LogExtent = (TreeHead, ReadTo, Option<TreeHead>);

fn verify_failure(folder: &Path, error: LogError) -> HostError {
    HostError::from(error).about(folder.display())
}
