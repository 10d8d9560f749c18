//! Continues an agent's alarm across sessions: replays it from the record, and keeps it in the signals store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use countersign_audit_log::{LogError, read_log_behind};
use countersign_core::AgentId;
use countersign_merkle::{Frontier, TreeHead};
use countersign_sqlite::SqliteStore;
use countersign_tool_gate::{AgentReplay, CallStats, SavedReplay};
use serde::{Deserialize, Serialize};

use crate::command::audit::{Entries, LogPart, ReadTo, side_rebuilt};
use crate::failure::{Failure, one_line};
use crate::output::note;
use crate::record::{RecordLogs, ReplayedLog};
use crate::shown::shown_id;

/// Format identifier of the state.
const FORMAT: &str = "countersign-alarm-1";

/// Interval between two checks whether the state is due.
const LOOK: Duration = Duration::from_secs(1);

/// Number of checks, or of new entries in the session's own log, after which the state is saved.
const LOOKS: u32 = 10;
const ENTRIES: u64 = 16_384;

/// Keeps the state of an agent's alarm in the signals store, with the position in each log up to which it was replayed.
#[derive(Debug)]
pub(crate) struct AlarmKeeper {
    stats: Arc<CallStats>,
    agent: AgentId,
    store: Arc<SqliteStore>,
    logs: RecordLogs,
    kept: Mutex<AlarmProgress>,
}

#[derive(Debug, Default)]
struct AlarmProgress {
    /// Number of entries of the session's own log that the state covers.
    entries: u64,
    /// The last save failed and was reported.
    fails: bool,
}

/// Stored form of the state.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAlarm {
    format: String,
    /// Synced heads of the logs up to which the record was replayed, by origin.
    logs: BTreeMap<String, TreeHead>,
    replay: SavedReplay,
}

/// Result of a replay.
struct ReplayedRecord {
    /// The state after the synced entries.
    state: StoredAlarm,
    /// The replay after all entries.
    replay: AgentReplay,
    entries: u64,
}

/// Replays the whole record into the agent's alarm, for a session without a store of its state.
pub(super) fn replay_all(stats: &CallStats, agent: &AgentId, logs: &RecordLogs) -> Result<(), Failure> {
    let replayed = replay_whole(stats, agent, logs, &logs.at_start()?)?;
    Ok(stats.take_up_replay(replayed.replay)?)
}

impl AlarmKeeper {
    /// Continues the agent's alarm from its stored state and later entries. If the state does not fit, all entries are
    /// replayed, which is reported.
    pub(super) fn start(
        stats: Arc<CallStats>,
        agent: &AgentId,
        store: Arc<SqliteStore>,
        logs: RecordLogs,
    ) -> Result<Self, Failure> {
        let kept = Mutex::new(AlarmProgress { entries: logs.synced_size(), fails: false });
        let keeper = Self { stats, agent: agent.clone(), store, logs, kept };
        let (logs, text) = (keeper.logs.at_start()?, keeper.read()?);
        let replayed = match keeper.resume(text.as_deref(), &logs) {
            Ok(replayed) => replayed,
            Err(reason) => {
                let replayed = replay_whole(&keeper.stats, agent, &keeper.logs, &logs)?;
                if replayed.entries > 0 {
                    let (agent, entries) = (shown_id(agent.as_str()), replayed.entries);
                    note(&one_line(&format!(
                        "alarm of agent {agent} replayed from all {entries} entries of the record: {reason}"
                    )));
                }
                replayed
            }
        };
        let saved = keeper.save(text.as_deref(), &replayed.state);
        keeper.report(&mut keeper.kept.lock().unwrap_or_else(PoisonError::into_inner), saved);
        keeper.stats.take_up_replay(replayed.replay)?;
        Ok(keeper)
    }

    /// Saves the state every few seconds while the session's log is written.
    pub(crate) fn watch(this: &Arc<Self>) {
        let weak = Arc::downgrade(this);
        let keep = move || {
            let mut looks = 0_u32;
            loop {
                std::thread::sleep(LOOK);
                let Some(keeper) = weak.upgrade().filter(|keeper| !keeper.logs.has_ended()) else { return };
                looks = looks.saturating_add(1);
                if looks >= LOOKS || keeper.is_far_behind() {
                    keeper.keep();
                    looks = 0;
                }
            }
        };
        let thread = std::thread::Builder::new().name("countersign-alarm".to_owned());
        if let Err(error) = thread.spawn(keep) {
            // It is still saved at the end.
            note(&format!("warning SIGNALS_UNAVAILABLE: no thread for the alarm's state: {error}"));
        }
    }

    fn is_far_behind(&self) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).entries;
        self.logs.synced_size().saturating_sub(kept) >= ENTRIES
    }

    /// Advances the state to the last synced entries. A failure is reported once; the next start then replays more
    /// entries.
    pub(crate) fn keep(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = self.logs.synced_size();
        let saved = self.advance();
        if saved.is_ok() {
            kept.entries = entries;
        }
        self.report(&mut kept, saved);
    }

    fn advance(&self) -> Result<(), Failure> {
        let (logs, text) = (self.logs.synced()?, self.read()?);
        let is_new = |state: &StoredAlarm| {
            logs.iter().any(|log| log.head.size() > state.logs.get(&log.origin).map_or(0, TreeHead::size))
        };
        let Some(text) = text.filter(|text| StoredAlarm::parse(text).is_some_and(|state| is_new(&state)))
        else {
            return Ok(());
        };
        // A state under other rules belongs to the process that has those rules.
        let Ok(replayed) = self.resume(Some(&text), &logs) else { return Ok(()) };
        self.save(Some(&text), &replayed.state)
    }

    fn read(&self) -> Result<Option<String>, Failure> {
        Ok(self.store.alarm_state(&self.agent, self.logs.name())?)
    }

    /// Replaces a stored state. If another process replaced it first, that state stays.
    fn save(&self, before: Option<&str>, state: &StoredAlarm) -> Result<(), Failure> {
        let text =
            serde_json::to_string(state).map_err(|error| Failure::new("INTERNAL", error.to_string()))?;
        if before != Some(text.as_str()) {
            self.store.keep_alarm_state(&self.agent, self.logs.name(), before, &text)?;
        }
        Ok(())
    }

    fn report(&self, kept: &mut AlarmProgress, saved: Result<(), Failure>) {
        let failed = saved.is_err();
        if let (Err(failure), false) = (saved, kept.fails) {
            let (agent, why) = (shown_id(self.agent.as_str()), failure.line());
            note(&format!(
                "warning {}: the alarm's state of agent {agent} is not kept, and the next start replays more: {why}",
                failure.code()
            ));
        }
        kept.fails = failed;
    }

    /// Replays the entries after the stored state. The error is the reason why the state is unusable.
    fn resume(&self, text: Option<&str>, logs: &[ReplayedLog]) -> Result<ReplayedRecord, String> {
        let text = text.ok_or("its store has no state of it")?;
        let state = StoredAlarm::parse(text).ok_or("its state is malformed")?;
        let resumed = self.stats.resume_replay(&self.agent, &state.replay);
        let replay = resumed.map_err(|error| Failure::from(error).line())?;
        let replay = replay.ok_or("its state is of other rules, or of another lift")?;
        replay_behind(replay, state.logs, logs).map_err(|failure| failure.line())
    }
}

impl StoredAlarm {
    fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|state: &Self| state.format == FORMAT)
    }
}

/// Replays all available entries.
fn replay_whole(
    stats: &CallStats,
    agent: &AgentId,
    record: &RecordLogs,
    logs: &[ReplayedLog],
) -> Result<ReplayedRecord, Failure> {
    replay_behind(stats.replay(agent)?, BTreeMap::new(), logs).map_err(|failure| {
        // The log that does not verify has the more precise failure.
        record.verify_others().err().unwrap_or(failure)
    })
}

/// Replays the entries after these positions, merged by time: first the synced ones, then the others.
fn replay_behind(
    mut replay: AgentReplay,
    mut places: BTreeMap<String, TreeHead>,
    logs: &[ReplayedLog],
) -> Result<ReplayedRecord, Failure> {
    let empty = Frontier::new().head();
    let mut parts = Vec::new();
    for log in logs {
        let place = places.entry(log.origin.clone()).or_insert(empty);
        let about = |error: LogError| Failure::from(error).about(log.folder.display());
        let part = read_log_behind(&log.folder, place).map_err(about)?;
        part.rebuilt.iter().for_each(|side| note(&side_rebuilt(&log.folder, side)));
        let fits = place.size() < log.head.size() || *place == log.head;
        let Some((entries, frontier)) = part.found.filter(|_| fits) else {
            let text = "the log does not go on from the alarm's state";
            return Err(Failure::new("AUDIT_FORK", text).about(log.folder.display()));
        };
        if let Some(synced) = log.synced.filter(|synced| synced.size() > place.size()) {
            *place = synced;
        }
        let heads = vec![*place, log.head];
        let (folder, end) = (log.folder.clone(), ReadTo::Entry(place.size()));
        parts.push(LogPart { folder, entries, frontier, heads, end });
    }
    let (mut read, mut entries) = (Entries::of_parts(parts), 0_u64);
    for entry in &mut read {
        replay.add(&entry?.record);
        entries = entries.saturating_add(1);
    }
    places.retain(|_, place| place.size() > 0);
    let state = StoredAlarm { format: FORMAT.to_owned(), logs: places, replay: replay.save() };
    read.read_on(logs.iter().map(|log| log.end));
    for entry in read {
        replay.add(&entry?.record);
        entries = entries.saturating_add(1);
    }
    Ok(ReplayedRecord { state, replay, entries })
}
