//! The record as the status view shows it: logs that have not grown are not read again.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use countersign_audit_log::{CallRecord, LogNumber, Record, RefusedRecord, Verdict};
use countersign_core::Timestamp;
use countersign_host::entries::{Logs, open as entries_of};
use countersign_host::error::HostError;
use countersign_host::time::now;
use countersign_tool_gate::RejectionCode;
use parking_lot::Mutex;

/// Intervals of the graph, of an hour each.
pub(crate) const HOURS: u64 = 24;
pub(crate) const HOUR_MS: u64 = 3_600_000;
/// Decisions in the list.
const RECENT: usize = 20;
/// Greatest size of all logs together that the page reads for one request.
const MAX_BYTES: u64 = 64 << 20;
/// Most agents on the page.
const MAX_AGENTS: usize = 64;

/// The logs as they were read last. A log that has not grown since is not read again.
#[derive(Debug, Default)]
pub(crate) struct ReadLogs(Mutex<BTreeMap<LogNumber, ReadLog>>);

#[derive(Debug)]
struct ReadLog {
    /// Its size when it was read, in bytes.
    size: u64,
    past: RecordedConduct,
}

impl ReadLogs {
    /// Reads the logs that have changed, and adds up all of them.
    pub(crate) fn read(&self, folder: &Path) -> Result<RecordedConduct, HostError> {
        let (logs, now) = (Logs::of(folder)?, now()?);
        let sizes: BTreeMap<_, _> =
            logs.each().map(|(number, _, folder)| (number, (size_of(&folder), folder))).collect();
        let mut kept = self.0.lock();
        kept.retain(|number, log| sizes.get(number).is_some_and(|(size, _)| *size == log.size));
        let changed = || sizes.iter().filter(|(number, _)| !kept.contains_key(number));
        if changed().map(|(_, (size, _))| *size).fold(0, u64::saturating_add) > MAX_BYTES {
            let text = "the logs are too long for the page: `countersign stats` reads them";
            return Err(HostError::new("RECORD_TOO_LONG", text));
        }
        let changed: Vec<_> = changed().map(|(number, (size, folder))| (*number, *size, folder)).collect();
        for (number, size, folder) in changed {
            let mut past = RecordedConduct::default();
            for entry in entries_of(folder)? {
                past.add(entry?.into_record(), now);
            }
            kept.insert(number, ReadLog { size, past });
        }
        let mut all = RecordedConduct::default();
        for log in kept.values() {
            all.add_log(&log.past);
        }
        all.now = Some(now);
        // why: no later entry makes a decision one of the latest again.
        let oldest = all.recent.front().map(|call| call.time);
        for log in kept.values_mut() {
            log.past.recent.retain(|call| Some(call.time) >= oldest);
        }
        Ok(all)
    }
}

/// The agents' conduct by the record.
#[derive(Debug, Default)]
pub(crate) struct RecordedConduct {
    pub(crate) logs: usize,
    pub(crate) entries: u64,
    pub(crate) last: Option<Timestamp>,
    pub(crate) agents: BTreeMap<String, AgentConduct>,
    pub(crate) recent: VecDeque<CallRecord>,
    pub(crate) now: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(crate) struct AgentConduct {
    /// Accepted and decided calls by hour, counted from 1970.
    pub(crate) hours: BTreeMap<u64, (u64, u64)>,
    pub(crate) undisclosed: u64,
}

impl RecordedConduct {
    /// Adds what another log says.
    fn add_log(&mut self, log: &Self) {
        self.logs = self.logs.saturating_add(1);
        self.entries = self.entries.saturating_add(log.entries);
        self.last = self.last.max(log.last);
        for (agent, past) in &log.agents {
            if !self.agents.contains_key(agent) && self.agents.len() >= MAX_AGENTS {
                continue;
            }
            let all = self.agents.entry(agent.clone()).or_default();
            all.undisclosed = all.undisclosed.saturating_add(past.undisclosed);
            for (hour, (more_yes, more)) in &past.hours {
                let (yes, calls) = all.hours.entry(*hour).or_default();
                *yes = yes.saturating_add(*more_yes);
                *calls = calls.saturating_add(*more);
            }
        }
        self.recent.extend(log.recent.iter().cloned());
        self.recent.make_contiguous().sort_by_key(|call| call.time);
        while self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    fn add(&mut self, record: Record, now: Timestamp) {
        self.entries = self.entries.saturating_add(1);
        self.last = self.last.max(Some(record.time()));
        if let Record::Refused(sum) = &record {
            self.add_sum(sum, now);
        }
        let Record::Decision(call) = record else { return };
        if !call.about_plan && !call.waits {
            let code = call.code.as_ref().and_then(|code| RejectionCode::from_code(code.as_str()));
            let answer = (code, call.verdict == Verdict::Accept);
            self.count(call.agent.as_str(), (call.time, now), answer, 1);
        }
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(call);
    }

    fn add_sum(&mut self, sum: &RefusedRecord, now: Timestamp) {
        let Some(agent) = &sum.agent else { return };
        for row in sum.rows.iter().filter(|row| !row.about_plan && row.direction.is_none()) {
            let code = RejectionCode::from_code(row.code.as_str());
            self.count(agent.as_str(), (sum.to, now), (code, false), row.count);
        }
    }

    /// Counts calls. One that waits for an approval is not decided yet.
    fn count(
        &mut self,
        agent: &str,
        (at, now): (Timestamp, Timestamp),
        (code, accepted): (Option<RejectionCode>, bool),
        calls: u64,
    ) {
        if code == Some(RejectionCode::ApprovalRequired) {
            return;
        }
        if !self.agents.contains_key(agent) && self.agents.len() >= MAX_AGENTS {
            return;
        }
        let past = self.agents.entry(agent.to_owned()).or_default();
        if code == Some(RejectionCode::UndisclosedTool) {
            past.undisclosed = past.undisclosed.saturating_add(calls);
        }
        if hour_of(now).saturating_sub(hour_of(at)) < HOURS {
            let (yes, all) = past.hours.entry(hour_of(at)).or_default();
            *yes = yes.saturating_add(if accepted { calls } else { 0 });
            *all = all.saturating_add(calls);
        }
    }
}

pub(crate) fn hour_of(time: Timestamp) -> u64 {
    time.as_millis() / HOUR_MS
}

/// Size of the files in a folder, in bytes.
fn size_of(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|about| about.len()).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use countersign_core::Timestamp;
    use countersign_tool_gate::RejectionCode;

    use super::{HOUR_MS, HOURS, RecordedConduct};

    #[test]
    fn logs_add_up_and_old_hours_are_left_out() {
        let at = |hour: u64| Timestamp::from_millis(hour * HOUR_MS).unwrap();
        let mut log = RecordedConduct::default();
        log.count("bot", (at(100), at(100)), (None, true), 3);
        log.count("bot", (at(100), at(100)), (Some(RejectionCode::UndisclosedTool), false), 1);
        log.count("bot", (at(100), at(100)), (Some(RejectionCode::ApprovalRequired), false), 9);
        log.count("bot", (at(100 - HOURS), at(100)), (None, true), 7);
        let mut all = RecordedConduct::default();
        all.add_log(&log);
        all.add_log(&log);
        let bot = &all.agents["bot"];
        assert_eq!((bot.hours.len(), bot.hours[&100], bot.undisclosed), (1, (6, 8), 2));
        assert_eq!(all.logs, 2);
    }
}
