use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use countersign_audit_log::{CallRecord, Record, Verdict};
use serde::Serialize;

use super::audit::{Entries, is_torn};
use crate::failure::{Exit, Failure};
use crate::output::{Output, note};

/// The most agents and the most codes that are counted each by itself; a file with more has the rest in one row.
const MAX_ROWS: usize = 1_024;
const MAX_CODES: usize = 64;
const OTHERS: &str = "(others)";

/// Count decisions by agent: accepted, rejected by code, acceptance rate.
///
/// A call that waits for its approval (APPROVAL_REQUIRED) is not decided yet: it is counted, and left out of the
/// acceptance rate. Undisclosed attempts are calls to tools that the session does not have, whether they exist or
/// not; an agent that tries fifty tools to find one that works shows here.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  countersign stats record.jsonl")]
pub(crate) struct Stats {
    /// The record: a file, or the folder of a log.
    path: PathBuf,
}

#[derive(Debug, Default, Serialize)]
struct Row {
    accepted: u64,
    rejected: u64,
    waiting_for_approval: u64,
    undisclosed_attempts: u64,
    acceptance_rate: Option<f64>,
    rejected_by_code: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct Report {
    ok: bool,
    agents: BTreeMap<String, Row>,
    total: Row,
    gateway_refusals: u64,
    /// Whether the last line is cut short: it was never acknowledged and is not counted.
    torn: bool,
}

impl Stats {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let mut report = self.count()?;
        for row in report.agents.values_mut().chain([&mut report.total]) {
            row.acceptance_rate = rate(row);
        }
        if report.torn {
            note("note: the last line of the record is cut short and was not counted");
        }
        if out.is_json() {
            out.json(&report)?;
        } else {
            out.line(&table(&report))?;
        }
        Ok(Exit::Done)
    }

    fn count(&self) -> Result<Report, Failure> {
        let mut report = Report {
            ok: true,
            agents: BTreeMap::new(),
            total: Row::default(),
            gateway_refusals: 0,
            torn: false,
        };
        for read in Entries::read(&self.path)? {
            match read {
                Ok((_, Record::Decision(call))) => {
                    let room = report.agents.len() < MAX_ROWS;
                    let agent = call.agent.as_str();
                    let agent = if room || report.agents.contains_key(agent) { agent } else { OTHERS };
                    add(report.agents.entry(agent.to_owned()).or_default(), &call);
                    add(&mut report.total, &call);
                }
                Ok((_, Record::Gateway(_))) => {
                    report.gateway_refusals = report.gateway_refusals.saturating_add(1);
                }
                Ok(_) => {}
                Err(failure) if is_torn(&failure) => report.torn = true,
                Err(failure) => return Err(failure),
            }
        }
        Ok(report)
    }
}

fn add(row: &mut Row, call: &CallRecord) {
    if call.verdict == Verdict::Accept {
        row.accepted = row.accepted.saturating_add(1);
        return;
    }
    let code = call.code.as_ref().map_or("(none)", |code| code.as_str());
    row.rejected = row.rejected.saturating_add(1);
    match code {
        "APPROVAL_REQUIRED" => row.waiting_for_approval = row.waiting_for_approval.saturating_add(1),
        "UNDISCLOSED_TOOL" => row.undisclosed_attempts = row.undisclosed_attempts.saturating_add(1),
        _ => {}
    }
    let room = row.rejected_by_code.len() < MAX_CODES || row.rejected_by_code.contains_key(code);
    let count = row.rejected_by_code.entry(if room { code } else { OTHERS }.to_owned()).or_default();
    *count = count.saturating_add(1);
}

fn rate(row: &Row) -> Option<f64> {
    let decided = row.accepted.saturating_add(row.rejected).saturating_sub(row.waiting_for_approval);
    #[expect(clippy::cast_precision_loss, reason = "a ratio; counts above 2^53 are out of reach")]
    (decided > 0).then(|| row.accepted as f64 / decided as f64)
}

fn table(report: &Report) -> String {
    let width = report.agents.keys().map(|agent| agent.chars().count()).chain([5]).max().unwrap_or(5);
    let mut text = format!(
        "{:width$}  {:>8}  {:>8}  {:>6}  {:>11}  rejected by code",
        "agent", "accepted", "rejected", "rate", "undisclosed"
    );
    let total = (report.agents.len() != 1).then_some(("total", &report.total));
    for (agent, row) in report.agents.iter().map(|(agent, row)| (agent.as_str(), row)).chain(total) {
        let rate = row.acceptance_rate.map_or("-".to_owned(), |rate| format!("{:.1}%", rate * 100.0));
        let codes: Vec<_> =
            row.rejected_by_code.iter().map(|(code, count)| format!("{code} {count}")).collect();
        text.push_str(&format!(
            "\n{agent:width$}  {:>8}  {:>8}  {rate:>6}  {:>11}  {}",
            row.accepted,
            row.rejected,
            row.undisclosed_attempts,
            codes.join(", ")
        ));
    }
    if report.gateway_refusals > 0 {
        text.push_str(&format!("\nmessages that a gateway refused: {}", report.gateway_refusals));
    }
    text
}
