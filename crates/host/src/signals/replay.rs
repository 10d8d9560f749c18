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

use crate::entries::{Entries, LogPart, ReadTo};
use crate::error::{HostError, one_line};
use crate::escape::shown_id;
use crate::record::{RecordLogs, ReplayedLog};
use crate::report::Reporter;
use crate::states::side_rebuilt;
use crate::time::now;

/// Format identifier of the state.
const FORMAT: &str = "countersign-alarm-1";

/// Interval between two checks whether the state is due.
const LOOK: Duration = Duration::from_secs(1);

/// Number of checks, or of new entries in the session's own log, after which the state is saved.
const LOOKS: u32 = 10;
const ENTRIES: u64 = 16_384;

/// Number of failures in a row that lengthen the wait for the next save.
const DOUBLINGS: u32 = 6;

/// Number of configurations whose states a row keeps, and most bytes of all of them.
const CONFIGURATIONS: usize = 4;
const MAX_BYTES: usize = 1 << 20;

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
    /// Number of saves in a row that failed. The first was reported.
    failures: u32,
    /// The last good state.
    last: Option<KeptAlarm>,
}

/// State of the alarm by one configuration's rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptAlarm {
    /// Synced heads of the logs up to which the record was replayed, by origin.
    logs: BTreeMap<String, TreeHead>,
    replay: SavedReplay,
}

/// Stored form of the states: the last saved one, and those of other configurations.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredAlarm {
    format: String,
    logs: BTreeMap<String, TreeHead>,
    replay: SavedReplay,
    /// Latest first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    others: Vec<KeptAlarm>,
}

/// Result of a replay.
struct ReplayedRecord {
    /// The state after the synced entries.
    state: KeptAlarm,
    /// The replay after all entries.
    replay: AgentReplay,
    entries: u64,
}

impl AlarmKeeper {
    /// Continues the agent's alarm from its stored state and later entries. If the state does not fit, all entries are
    /// replayed, which is reported.
    pub(super) fn start(
        stats: Arc<CallStats>,
        agent: &AgentId,
        store: Arc<SqliteStore>,
        logs: RecordLogs,
    ) -> Result<Self, HostError> {
        let kept = Mutex::new(AlarmProgress { entries: logs.synced_size(), ..AlarmProgress::default() });
        let keeper = Self { stats, agent: agent.clone(), store, logs, kept };
        // why: other processes advance the state meanwhile, so a later text could be ahead of the logs.
        let text = keeper.read()?;
        let logs = keeper.logs.at_start()?;
        keeper.warn_of_missing(text.as_deref(), &logs);
        let replayed = match keeper.resume(text.as_deref(), &logs) {
            Ok(replayed) => replayed,
            Err(reason) => {
                let replayed = replay_whole(&keeper.stats, agent, &keeper.logs, &logs)?;
                if replayed.entries > 0 || text.is_some() {
                    let (agent, entries) = (shown_id(agent.as_str()), replayed.entries);
                    keeper.logs.reporter().note(&one_line(&format!(
                        "alarm of agent {agent} replayed from all {entries} entries of the record: {reason}"
                    )));
                }
                replayed
            }
        };
        let saved = keeper.save(text.as_deref(), &replayed.state);
        let mut kept = keeper.kept.lock().unwrap_or_else(PoisonError::into_inner);
        keeper.report(&mut kept, saved);
        kept.last = Some(replayed.state);
        drop(kept);
        keeper.stats.take_up_replay(replayed.replay)?;
        Ok(keeper)
    }

    /// Reports each log that the stored state covers and that no longer exists. Its evidence stays in the state.
    fn warn_of_missing(&self, text: Option<&str>, logs: &[ReplayedLog]) {
        let places = self.stored(text).map(|state| state.logs).unwrap_or_default();
        for (origin, place) in
            places.iter().filter(|(origin, _)| logs.iter().all(|log| log.origin != **origin))
        {
            let text = format!(
                "log {} is missing: the alarm's state covers {} entries of it",
                shown_id(origin),
                place.size()
            );
            self.logs.reporter().warn("AUDIT_MISSING", &one_line(&text));
        }
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
                if keeper.is_due(looks) {
                    keeper.keep();
                    looks = 0;
                }
            }
        };
        let thread = std::thread::Builder::new().name("countersign-alarm".to_owned());
        if let Err(error) = thread.spawn(keep) {
            // It is still saved at the end.
            let text = format!("thread for the alarm's state could not be started: {error}");
            this.logs.reporter().warn("SIGNALS_UNAVAILABLE", &text);
        }
    }

    fn is_due(&self, looks: u32) -> bool {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.is_due(looks, self.logs.synced_size())
    }

    /// Advances the state to the last synced entries. A failure is reported once; the next start then replays more
    /// entries.
    pub(crate) fn keep(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = self.logs.synced_size();
        let saved = self.advance(&mut kept.last);
        if saved.is_ok() {
            kept.entries = entries;
        }
        self.report(&mut kept, saved);
    }

    /// Advances the stored state; if it is unusable, the last good one.
    fn advance(&self, last: &mut Option<KeptAlarm>) -> Result<(), HostError> {
        // why: the text comes first, as in `start`.
        let text = self.read()?;
        let logs = self.logs.synced()?;
        let stored = self.stored(text.as_deref()).and_then(|state| self.advanced(state, &logs));
        let state = match (stored, last.take()) {
            (Ok(state), _) => state,
            (Err(reason), None) => return Err(HostError::new("SIGNALS_UNAVAILABLE", reason)),
            (Err(reason), Some(good)) => {
                *last = Some(good.clone());
                self.advanced(good, &logs).map_err(|_| HostError::new("SIGNALS_UNAVAILABLE", reason))?
            }
        };
        let saved = self.save(text.as_deref(), &state);
        *last = Some(state);
        saved
    }

    /// Returns the state after the synced entries of all logs that are ahead of it. The state of another process can be
    /// ahead of a log whose checkpoint this process has not seen yet.
    fn advanced(&self, state: KeptAlarm, logs: &[ReplayedLog]) -> Result<KeptAlarm, String> {
        let replay = self.resume_one(&state)?;
        let place = |log: &ReplayedLog| state.logs.get(&log.origin).map_or(0, TreeHead::size);
        let ahead: Vec<_> = logs.iter().filter(|log| log.head.size() > place(log)).cloned().collect();
        if ahead.is_empty() {
            return Ok(state);
        }
        let replayed = replay_behind(replay, state.logs, &ahead, self.logs.reporter())
            .map_err(|failure| failure.line())?;
        Ok(replayed.state)
    }

    fn read(&self) -> Result<Option<String>, HostError> {
        Ok(self.store.alarm_state(&self.agent, self.logs.name())?)
    }

    /// Replaces the configuration's state. If another process replaced one first, that state stays.
    fn save(&self, before: Option<&str>, state: &KeptAlarm) -> Result<(), HostError> {
        let mut states = before.and_then(StoredAlarm::parse).unwrap_or_default();
        if states.contains(state) {
            return Ok(());
        }
        states.retain(|other| !other.replay.has_same_rules(&state.replay));
        states.insert(0, state.clone());
        states.truncate(CONFIGURATIONS);
        let text = StoredAlarm::to_text(states)?;
        self.store.keep_alarm_state(&self.agent, self.logs.name(), before, &text)?;
        Ok(())
    }

    fn report(&self, kept: &mut AlarmProgress, saved: Result<(), HostError>) {
        let failures = if saved.is_err() { kept.failures.saturating_add(1) } else { 0 };
        if let (Err(failure), 0) = (saved, kept.failures) {
            let (agent, why) = (shown_id(self.agent.as_str()), failure.line());
            let text = format!(
                "the alarm's state of agent {agent} was not saved, the next start replays more: {why}"
            );
            self.logs.reporter().warn(failure.code(), &text);
        }
        kept.failures = failures;
    }

    /// Replays the entries after the stored state. The error is the reason why the state is unusable.
    fn resume(&self, text: Option<&str>, logs: &[ReplayedLog]) -> Result<ReplayedRecord, String> {
        let state = self.stored(text)?;
        let replay = self.resume_one(&state)?;
        replay_behind(replay, state.logs, logs, self.logs.reporter()).map_err(|failure| failure.line())
    }

    /// Returns the stored state by this configuration's rules.
    fn stored(&self, text: Option<&str>) -> Result<KeptAlarm, String> {
        let text = text.ok_or("no state in its store")?;
        let states = StoredAlarm::parse(text).ok_or("its state is malformed")?;
        let mut reason = String::new();
        for state in states {
            match self.resume_one(&state) {
                Ok(_) => return Ok(state),
                Err(unusable) => reason = unusable,
            }
        }
        Err(reason)
    }

    fn resume_one(&self, state: &KeptAlarm) -> Result<AgentReplay, String> {
        let now = now().map_err(|failure| failure.line())?;
        if state.replay.is_ahead_of(now) {
            return Err("its state was saved by a clock that was ahead".to_owned());
        }
        let resumed = self.stats.resume_replay(&self.agent, &state.replay);
        let resumed = resumed.map_err(|error| HostError::from(error).line())?;
        Ok(resumed.ok_or("its state belongs to other rules, or to another lift")?.as_of(now))
    }
}

impl AlarmProgress {
    /// Returns `true` if the state is to be saved after this many checks. Each failure in a row doubles the wait, up to
    /// some ten minutes, because a state that does not fit makes every attempt read the logs.
    const fn is_due(&self, looks: u32, synced: u64) -> bool {
        let doubled = if self.failures < DOUBLINGS { self.failures } else { DOUBLINGS };
        let is_far_behind = synced.saturating_sub(self.entries) >= ENTRIES;
        looks >= LOOKS << doubled || (self.failures == 0 && is_far_behind)
    }
}

impl StoredAlarm {
    /// Parses the states, the last saved one first.
    fn parse(text: &str) -> Option<Vec<KeptAlarm>> {
        let Self { format, logs, replay, others } = serde_json::from_str(text).ok()?;
        let mut states = vec![KeptAlarm { logs, replay }];
        states.extend(others);
        (format == FORMAT).then_some(states)
    }

    /// Serialises the states. The last ones are left out if there are too many bytes of them.
    fn to_text(mut states: Vec<KeptAlarm>) -> Result<String, HostError> {
        loop {
            let mut each = states.iter().cloned();
            let KeptAlarm { logs, replay } = each.next().ok_or_else(|| internal("no state"))?;
            let stored = Self { format: FORMAT.to_owned(), logs, replay, others: each.collect() };
            let text = serde_json::to_string(&stored).map_err(|error| internal(&error.to_string()))?;
            if text.len() <= MAX_BYTES || stored.others.is_empty() {
                return Ok(text);
            }
            states.pop();
        }
    }
}

fn internal(text: &str) -> HostError {
    HostError::new("INTERNAL", text.to_owned())
}

/// Replays all available entries.
fn replay_whole(
    stats: &CallStats,
    agent: &AgentId,
    record: &RecordLogs,
    logs: &[ReplayedLog],
) -> Result<ReplayedRecord, HostError> {
    replay_behind(stats.replay(agent)?.as_of(now()?), BTreeMap::new(), logs, record.reporter()).map_err(
        |failure| {
            // The log that does not verify has the more precise failure.
            record.verify_others().err().unwrap_or(failure)
        },
    )
}

/// Replays the entries after these positions, merged by time: first the synced ones, then the signed ones, then the
/// others.
fn replay_behind(
    mut replay: AgentReplay,
    mut places: BTreeMap<String, TreeHead>,
    logs: &[ReplayedLog],
    reporter: &Reporter,
) -> Result<ReplayedRecord, HostError> {
    let empty = Frontier::new().head();
    let mut parts = Vec::new();
    for log in logs {
        let place = places.entry(log.origin.clone()).or_insert(empty);
        let about = |error: LogError| HostError::from(error).about(log.folder.display());
        let part = read_log_behind(&log.folder, place).map_err(about)?;
        part.rebuilt.iter().for_each(|side| reporter.note(&side_rebuilt(&log.folder, side)));
        let fits = place.size() < log.head.size() || *place == log.head;
        let Some((entries, frontier)) = part.found.filter(|_| fits) else {
            let text = "the log does not extend the alarm's state";
            return Err(HostError::new("AUDIT_FORK", text).about(log.folder.display()));
        };
        if let Some(synced) = log.synced.filter(|synced| synced.size() > place.size()) {
            *place = synced;
        }
        let heads = vec![*place, log.head];
        let (folder, end) = (log.folder.clone(), ReadTo::Entry(place.size()));
        parts.push(LogPart { name: None, folder, entries, frontier, heads, end });
    }
    let (mut read, mut entries) = (Entries::of_parts(parts), 0_u64);
    for entry in &mut read {
        replay.add(&entry?.record);
        entries = entries.saturating_add(1);
    }
    places.retain(|_, place| place.size() > 0);
    let state = KeptAlarm { logs: places, replay: replay.save() };
    // why: signed entries must exist; only those behind them may be torn.
    let ends: [fn(&ReplayedLog) -> ReadTo; 2] = [|log| ReadTo::Entry(log.head.size()), |log| log.end];
    for end in ends {
        read.read_on(logs.iter().map(end));
        for entry in &mut read {
            replay.add(&entry?.record);
            entries = entries.saturating_add(1);
        }
    }
    Ok(ReplayedRecord { state, replay, entries })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_saves_are_retried_ever_later() {
        let waits = |failures| {
            let kept = AlarmProgress { failures, ..AlarmProgress::default() };
            (1..10_000).find(|looks| kept.is_due(*looks, ENTRIES)).unwrap()
        };
        assert_eq!([0, 1, 2, 6, 7, u32::MAX].map(waits), [1, 20, 40, 640, 640, 640]);
    }
}
