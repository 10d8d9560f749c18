use std::collections::BTreeMap;

use countersign_audit_log::{CallRecord, Record, RefusedRecord, SeenSums, SignalRecord, Verdict};
use countersign_core::{Millis, Timestamp};
use countersign_tool_gate::{AlarmRule, RejectionCode};
use serde::Serialize;

use super::alarm::{Replay, ReplayResult, code_of};
use super::count::{OTHERS, SignalCounts, rate, room};

/// Most intervals that are kept for each agent: no terminal is wider.
const MAX_INTERVALS: usize = 512;

/// Decisions of each agent by time interval.
#[derive(Debug)]
pub(super) struct History {
    rule: AlarmRule,
    since: Option<Timestamp>,
    interval: Millis,
    agents: BTreeMap<String, AgentDecisions>,
    sums: SeenSums,
}

/// Decisions of one agent.
#[derive(Debug)]
struct AgentDecisions {
    /// By the number of the interval since the epoch.
    intervals: BTreeMap<u64, DecisionCounts>,
    /// Signals by the number of the interval.
    signals: BTreeMap<u64, SignalCounts>,
    /// Decisions since the last report.
    fresh: DecisionCounts,
    fresh_signals: SignalCounts,
    replay: Replay,
}

/// Numbers of decisions, without the calls that wait for an approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct DecisionCounts {
    pub(super) accepted: u64,
    pub(super) decided: u64,
}

/// The row of one agent.
#[derive(Debug)]
pub(super) struct Strip<'h> {
    pub(super) agent: &'h str,
    /// Oldest first, up to now.
    pub(super) intervals: Vec<DecisionCounts>,
    pub(super) alarm: Option<ReplayResult>,
    /// Signals in these intervals.
    pub(super) signals: SignalCounts,
    is_empty: bool,
}

/// Changes of one agent since the last report.
#[derive(Debug)]
pub(super) struct Fresh<'h> {
    pub(super) agent: &'h str,
    pub(super) tally: DecisionCounts,
    pub(super) signals: SignalCounts,
    pub(super) alarm: Option<ReplayResult>,
}

impl History {
    pub(super) const fn new(rule: AlarmRule, since: Option<Timestamp>, interval: Millis) -> Self {
        Self { rule, since, interval, agents: BTreeMap::new(), sums: SeenSums::new() }
    }

    pub(super) const fn interval(&self) -> Millis {
        self.interval
    }

    /// Adds one entry; returns `true` if it changes the display.
    pub(super) fn add(&mut self, seq: u64, record: &Record) -> bool {
        let counts = self.since.is_none_or(|since| record.time() >= since);
        match record {
            Record::Decision(call) if counts => self.decision(seq, record, call),
            Record::Refused(sum) if counts => return self.refused(seq, record, sum),
            Record::Standing(change) => self.seen(change.agent.as_str()).replay.add(seq, record),
            Record::Signal(signal) if counts => self.signal(signal),
            Record::Decision(_)
            | Record::Refused(_)
            | Record::Signal(_)
            | Record::Gateway(_)
            | Record::Session(_)
            | Record::Outcome(_)
            | Record::Recovered(_)
            | _ => return false,
        }
        true
    }

    fn seen(&mut self, agent: &str) -> &mut AgentDecisions {
        let rule = self.rule;
        let agent = room(&self.agents, agent).to_owned();
        self.agents.entry(agent).or_insert_with(|| AgentDecisions {
            intervals: BTreeMap::new(),
            signals: BTreeMap::new(),
            fresh: DecisionCounts::default(),
            fresh_signals: SignalCounts::new(),
            replay: Replay::new(rule),
        })
    }

    fn decision(&mut self, seq: u64, record: &Record, call: &CallRecord) {
        let number = self.number(call.time);
        let seen = self.seen(call.agent.as_str());
        seen.replay.add(seq, record);
        if code_of(call) == Some(RejectionCode::ApprovalRequired) {
            return;
        }
        let accepted = u64::from(call.verdict == Verdict::Accept);
        seen.decided(number, DecisionCounts { accepted, decided: 1 });
    }

    fn signal(&mut self, raised: &SignalRecord) {
        let (number, signal) = (self.number(raised.time), raised.signal.as_str());
        let seen = self.seen(raised.agent.as_str());
        for counts in [&mut seen.fresh_signals, seen.signals.entry(number).or_default()] {
            let times = counts.entry(signal).or_default();
            *times = times.saturating_add(1);
        }
        if seen.signals.len() > MAX_INTERVALS {
            seen.signals.pop_first();
        }
    }

    /// Adds a sum of refusals as if all of them happened at its end. Returns `false` if it belongs to no agent or was
    /// added before.
    fn refused(&mut self, seq: u64, record: &Record, sum: &RefusedRecord) -> bool {
        let number = self.number(sum.to);
        let Some(agent) = sum.agent.as_ref().filter(|_| self.sums.is_new(sum)) else { return false };
        let seen = self.seen(agent.as_str());
        seen.replay.add(seq, record);
        let waiting = RejectionCode::ApprovalRequired.as_str();
        let rows = sum.rows.iter().filter(|row| !row.about_plan && row.code.as_str() != waiting);
        let decided = rows.map(|row| row.count).fold(0, u64::saturating_add);
        seen.decided(number, DecisionCounts { accepted: 0, decided });
        true
    }

    /// Returns the number of the interval that contains a time.
    fn number(&self, time: Timestamp) -> u64 {
        time.as_millis().checked_div(self.interval.as_millis()).unwrap_or_default()
    }

    /// Returns each agent's last `columns` intervals, up to the one that contains `now`. Agents with a raised
    /// alarm, a quarantine or a signal come first.
    pub(super) fn strips(&self, columns: usize, now: Timestamp) -> Vec<Strip<'_>> {
        let columns = u64::try_from(columns.min(MAX_INTERVALS)).unwrap_or_default();
        let end = self.number(now).saturating_add(1);
        let start = end.saturating_sub(columns);
        let mut strips: Vec<_> = self
            .agents
            .iter()
            .map(|(agent, seen)| Strip {
                agent,
                intervals: (start..end)
                    .map(|number| seen.intervals.get(&number).copied().unwrap_or_default())
                    .collect(),
                alarm: (agent != OTHERS).then(|| seen.replay.found()),
                signals: sum(seen.signals.range(start..end).map(|(_, counts)| counts)),
                is_empty: seen.intervals.is_empty(),
            })
            // A former standing alone is not drawn.
            .filter(|strip| strip.is_alarming() || !strip.is_empty)
            .collect();
        strips.sort_by_key(|strip| !strip.is_alarming());
        strips
    }

    /// Returns the changes since the last call for each agent that has any.
    pub(super) fn take_fresh(&mut self) -> Vec<Fresh<'_>> {
        let agents = self.agents.iter_mut();
        agents
            .filter(|(_, seen)| seen.fresh != DecisionCounts::default() || !seen.fresh_signals.is_empty())
            .map(|(agent, seen)| Fresh {
                agent,
                tally: std::mem::take(&mut seen.fresh),
                signals: std::mem::take(&mut seen.fresh_signals),
                alarm: (agent != OTHERS).then(|| seen.replay.found()),
            })
            .collect()
    }
}

fn sum<'s>(parts: impl Iterator<Item = &'s SignalCounts>) -> SignalCounts {
    let mut sum = SignalCounts::new();
    for (signal, times) in parts.flatten() {
        let all = sum.entry(signal).or_default();
        *all = all.saturating_add(*times);
    }
    sum
}

impl AgentDecisions {
    /// Counts decisions in the interval with this number.
    fn decided(&mut self, number: u64, more: DecisionCounts) {
        for tally in [&mut self.fresh, self.intervals.entry(number).or_default()] {
            *tally = tally.plus(more);
        }
        if self.intervals.len() > MAX_INTERVALS {
            self.intervals.pop_first();
        }
    }
}

impl DecisionCounts {
    pub(super) fn rate(self) -> Option<f64> {
        rate(self.accepted, self.decided)
    }

    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            accepted: self.accepted.saturating_add(other.accepted),
            decided: self.decided.saturating_add(other.decided),
        }
    }
}

impl Strip<'_> {
    /// Returns `true` if the alarm is raised, the agent is quarantined, or a signal was raised in the intervals.
    pub(super) fn is_alarming(&self) -> bool {
        !self.signals.is_empty()
            || self.alarm.as_ref().is_some_and(|alarm| alarm.raised.is_some() || alarm.quarantined)
    }
}
