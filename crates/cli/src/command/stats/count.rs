use std::collections::{BTreeMap, BTreeSet};

use countersign_audit_log::{
    CallRecord, GapRecord, LogNumber, OutcomeKind, OutcomeRecord, Record, RecordedTool, RefusedRecord,
    SeenSums, Verdict,
};
use countersign_core::{Timestamp, ToolId};
use countersign_tool_gate::{AlarmRule, RejectionCode};
use serde::Serialize;

use super::alarm::{Replay, ReplayResult};

/// Most rows and codes that are counted separately; the rest of a log shares one row.
const MAX_ROWS: usize = 1_024;
const MAX_CODES: usize = 64;
pub(super) const OTHERS: &str = "(others)";

/// Most tools of sessions that are remembered; any further tool needs a call that proves it exists.
const MAX_LISTED: usize = 16_384;

/// Most accepted calls without an outcome; above it, the oldest is dropped.
const MAX_OPEN: usize = 65_536;

/// Row of the calls to tools that are not known to exist.
const UNKNOWN: &str = "(unknown)";

/// Number of times that each signal was raised.
pub(super) type SignalCounts = BTreeMap<&'static str, u64>;

#[derive(Debug, Default, Serialize)]
pub(super) struct StatsRow {
    pub(super) accepted: u64,
    /// Includes the calls that wait for an approval.
    pub(super) rejected: u64,
    pub(super) waiting_for_approval: u64,
    pub(super) undisclosed_attempts: u64,
    /// Accepted calls with an unknown outcome.
    pub(super) unknown_outcomes: u64,
    pub(super) acceptance_rate: Option<f64>,
    pub(super) rejected_by_code: BTreeMap<String, u64>,
    /// Signals about an agent, with their counts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) signals: SignalCounts,
    /// Alarm of a single agent; missing if agents share the row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) alarm: Option<ReplayResult>,
}

/// The full report.
#[derive(Debug, Serialize)]
pub(super) struct StatsReport {
    ok: bool,
    since: Option<Timestamp>,
    pub(super) agents: BTreeMap<String, StatsRow>,
    pub(super) tools: BTreeMap<String, StatsRow>,
    pub(super) total: StatsRow,
    pub(super) gateway_refusals: u64,
    #[serde(flatten)]
    pub(super) gaps: GapCounts,
    alarm_rule: RuleNumbers,
}

/// Outages of the record, from its `gap` entries.
#[derive(Debug, Default, Serialize)]
pub(super) struct GapCounts {
    pub(super) gaps: u64,
    /// Answers without an entry.
    #[serde(rename = "unrecorded")]
    pub(super) answers: u64,
    #[serde(rename = "unrecorded_by_code")]
    pub(super) by_code: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct RuleNumbers {
    baseline: f64,
    dropped: f64,
    decisions: u64,
}

/// Number of a decision, and its log if there are several.
type DecisionPlace = (Option<LogNumber>, u64);

/// Counts entries in order.
#[derive(Debug)]
pub(super) struct Count {
    rule: AlarmRule,
    since: Option<Timestamp>,
    agents: BTreeMap<String, (StatsRow, Replay)>,
    tools: BTreeMap<String, StatsRow>,
    /// Tools of any session, at any time.
    listed: BTreeSet<String>,
    /// Agent and tool of each accepted call without an outcome; `None` for a decision about a plan.
    open: BTreeMap<DecisionPlace, Option<(String, String)>>,
    total: StatsRow,
    gateway_refusals: u64,
    gaps: GapCounts,
    sums: SeenSums,
}

impl Count {
    /// Counts entries since `since`. An agent's standing is its last one, at any time.
    pub(super) fn new(rule: AlarmRule, since: Option<Timestamp>) -> Self {
        let (agents, tools, total) = (BTreeMap::new(), BTreeMap::new(), StatsRow::default());
        let (listed, open) = (BTreeSet::new(), BTreeMap::new());
        let (gateway_refusals, gaps, sums) = (0, GapCounts::default(), SeenSums::new());
        Self { rule, since, agents, tools, listed, open, total, gateway_refusals, gaps, sums }
    }

    /// Counts an entry. `log` names its log if there are several.
    pub(super) fn add(&mut self, log: Option<LogNumber>, seq: u64, record: &Record) {
        if let Record::Decision(call) = record
            && call.verdict == Verdict::Accept
        {
            self.accepted((log, seq), call);
        }
        let counts = self.since.is_none_or(|since| record.time() >= since);
        match record {
            Record::Decision(call) if counts => self.decision(seq, record, call),
            Record::Gateway(_) if counts => self.gateway_refusals = self.gateway_refusals.saturating_add(1),
            Record::Refused(sum) => {
                // why: also before `since`. The same sum may be recorded again later.
                let is_new = self.sums.is_new(sum);
                if counts && is_new {
                    self.refused(seq, record, sum);
                }
            }
            Record::Standing(change) => self.agent(change.agent.as_str()).1.add(seq, record),
            Record::Signal(raised) if counts => {
                let times =
                    self.agent(raised.agent.as_str()).0.signals.entry(raised.signal.as_str()).or_default();
                *times = times.saturating_add(1);
            }
            Record::Gap(gap) if counts => self.gaps.add(gap),
            Record::Session(session) => self.list(&session.tools),
            Record::Outcome(end) => self.ended((log, end.decision), end, counts),
            Record::Decision(_)
            | Record::Gateway(_)
            | Record::Signal(_)
            | Record::Gap(_)
            | Record::Recovered(_)
            | _ => {}
        }
    }

    fn accepted(&mut self, decision: DecisionPlace, call: &CallRecord) {
        let rows = (!call.about_plan)
            .then(|| (call.agent.as_str().to_owned(), self.tool_row(Some(&call.tool), None)));
        self.open.insert(decision, rows);
        if self.open.len() > MAX_OPEN {
            self.open.pop_first();
        }
    }

    /// Counts an unknown outcome. If its decision is missing or was dropped, it belongs to no agent.
    fn ended(&mut self, decision: DecisionPlace, end: &OutcomeRecord, counts: bool) {
        let rows = self.open.remove(&decision);
        if !counts || end.outcome != OutcomeKind::Unknown {
            return;
        }
        let (agent, tool) = match rows {
            Some(Some(rows)) => rows,
            Some(None) => return,
            None => (OTHERS.to_owned(), UNKNOWN.to_owned()),
        };
        let tool = room(&self.tools, &tool).to_owned();
        let rows = [&mut self.total, self.tools.entry(tool).or_default()];
        for row in rows.into_iter().chain([&mut agent_row(&mut self.agents, self.rule, &agent).0]) {
            row.unknown_outcomes = row.unknown_outcomes.saturating_add(1);
        }
    }

    fn list(&mut self, tools: &[ToolId]) {
        for tool in tools {
            if self.listed.len() >= MAX_LISTED {
                return;
            }
            self.listed.insert(name_of(&tool.into()));
        }
    }

    fn decision(&mut self, seq: u64, record: &Record, call: &CallRecord) {
        // The gate does not count it either: it is not a call.
        if call.about_plan {
            return;
        }
        let (row, alarm) = self.agent(call.agent.as_str());
        let code = match call.verdict {
            Verdict::Accept => None,
            Verdict::Reject => Some(call.code.as_ref().map_or("(none)", |code| code.as_str())),
        };
        row.add(code, 1);
        alarm.add(seq, record);
        self.total.add(code, 1);
        self.tool(Some(&call.tool), code).add(code, 1);
    }

    /// Counts a sum of refusals.
    fn refused(&mut self, seq: u64, record: &Record, sum: &RefusedRecord) {
        let Some(agent) = &sum.agent else {
            self.gateway_refusals = self.gateway_refusals.saturating_add(sum.total());
            return;
        };
        for row in sum.rows.iter().filter(|row| !row.about_plan) {
            let code = Some(row.code.as_str());
            self.agent(agent.as_str()).0.add(code, row.count);
            self.total.add(code, row.count);
            self.tool(row.tool.as_ref(), code).add(code, row.count);
        }
        self.agent(agent.as_str()).1.add(seq, record);
    }

    /// Returns the row of a tool. Invented names share one row. A tool exists if a session disclosed it, or if a call
    /// of it reached the checks of its arguments.
    fn tool(&mut self, tool: Option<&RecordedTool>, refused: Option<&str>) -> &mut StatsRow {
        let tool = self.tool_row(tool, refused);
        self.tools.entry(tool).or_default()
    }

    fn tool_row(&self, tool: Option<&RecordedTool>, refused: Option<&str>) -> String {
        let name = tool.map(name_of).filter(|name| {
            let code = refused.and_then(RejectionCode::from_code);
            self.listed.contains(name)
                || self.tools.contains_key(name)
                || code.is_none_or(|code| code.step() > 1 && code != RejectionCode::UndisclosedTool)
        });
        name.as_deref().map_or(UNKNOWN, |name| room(&self.tools, name)).to_owned()
    }

    fn agent(&mut self, agent: &str) -> &mut (StatsRow, Replay) {
        agent_row(&mut self.agents, self.rule, agent)
    }

    pub(super) fn report(self) -> StatsReport {
        let finished = |mut row: StatsRow| {
            row.acceptance_rate = row.rate();
            row
        };
        let agent = |(agent, (row, replay)): (String, (StatsRow, Replay))| {
            let alarm = (agent != OTHERS).then(|| replay.found());
            (agent, StatsRow { alarm, ..finished(row) })
        };
        let (baseline, dropped) = (self.rule.baseline(), self.rule.dropped());
        StatsReport {
            ok: true,
            since: self.since,
            agents: self.agents.into_iter().map(agent).filter(|(_, row)| row.is_told()).collect(),
            tools: self.tools.into_iter().map(|(tool, row)| (tool, finished(row))).collect(),
            total: finished(self.total),
            gateway_refusals: self.gateway_refusals,
            gaps: self.gaps,
            alarm_rule: RuleNumbers { baseline, dropped, decisions: self.rule.decisions() },
        }
    }
}

fn agent_row<'r>(
    agents: &'r mut BTreeMap<String, (StatsRow, Replay)>,
    rule: AlarmRule,
    agent: &str,
) -> &'r mut (StatsRow, Replay) {
    let agent = room(agents, agent).to_owned();
    agents.entry(agent).or_insert_with(|| (StatsRow::default(), Replay::new(rule)))
}

fn name_of(tool: &RecordedTool) -> String {
    format!("{}:{}", tool.server, tool.name)
}

/// Returns the name of the row: the given one, or the shared one if there are too many rows.
pub(super) fn room<'n, T>(rows: &BTreeMap<String, T>, name: &'n str) -> &'n str {
    if rows.len() < MAX_ROWS || rows.contains_key(name) { name } else { OTHERS }
}

fn add_code(codes: &mut BTreeMap<String, u64>, code: &str, answers: u64) {
    let is_counted = codes.len() < MAX_CODES || codes.contains_key(code);
    let count = codes.entry(if is_counted { code } else { OTHERS }.to_owned()).or_default();
    *count = count.saturating_add(answers);
}

impl GapCounts {
    fn add(&mut self, gap: &GapRecord) {
        self.gaps = self.gaps.saturating_add(1);
        for row in &gap.answers {
            self.answers = self.answers.saturating_add(row.count);
            add_code(&mut self.by_code, row.code.as_str(), row.count);
        }
    }
}

impl StatsRow {
    /// Counts calls that were accepted, or refused with a code.
    fn add(&mut self, refused: Option<&str>, calls: u64) {
        let Some(code) = refused else {
            self.accepted = self.accepted.saturating_add(calls);
            return;
        };
        self.rejected = self.rejected.saturating_add(calls);
        match RejectionCode::from_code(code) {
            Some(RejectionCode::ApprovalRequired) => {
                self.waiting_for_approval = self.waiting_for_approval.saturating_add(calls);
            }
            Some(RejectionCode::UndisclosedTool) => {
                self.undisclosed_attempts = self.undisclosed_attempts.saturating_add(calls);
            }
            _ => {}
        }
        add_code(&mut self.rejected_by_code, code, calls);
    }

    /// Returns `true` if the row has a call, or its agent is quarantined.
    fn is_told(&self) -> bool {
        self.accepted.saturating_add(self.rejected).saturating_add(self.unknown_outcomes) > 0
            || self.alarm.as_ref().is_some_and(|alarm| alarm.quarantined)
    }

    /// Returns the number of final refusals. A call that waits for its approval is asked again any number of times.
    pub(super) const fn refused(&self) -> u64 {
        self.rejected.saturating_sub(self.waiting_for_approval)
    }

    fn rate(&self) -> Option<f64> {
        rate(self.accepted, self.accepted.saturating_add(self.refused()))
    }
}

/// Returns the share of accepted calls among the decided ones.
pub(super) fn rate(accepted: u64, decided: u64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "a ratio; counts above 2^53 are out of reach")]
    (decided > 0).then(|| accepted as f64 / decided as f64)
}

/// Formats a share for a person.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1}%", share * 100.0))
}
