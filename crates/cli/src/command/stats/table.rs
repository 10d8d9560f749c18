use std::collections::BTreeMap;

use clap::ValueEnum;
use countersign_core::escape_hidden;
use countersign_tool_gate::RejectionCode;

use super::alarm::ReplayResult;
use super::count::{GapCounts, StatsReport, StatsRow, percent};
use super::graph::signals;

/// What a table has a row for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum By {
    Agent,
    Tool,
}

/// Formats the requested table, and the counts that belong to no row.
pub(super) fn table(report: &StatsReport, by: By) -> String {
    let mut text = match by {
        By::Agent => rows("agent", &report.agents, &report.total),
        By::Tool => rows("tool", &report.tools, &report.total),
    };
    if report.gateway_refusals > 0 {
        text.push_str(&format!("\nmessages that a gateway refused: {}", report.gateway_refusals));
    }
    let GapCounts { gaps, answers, by_code } = &report.gaps;
    if *gaps > 0 {
        let codes: Vec<_> = by_code.iter().map(|(code, count)| format!("{code} {count}")).collect();
        let codes = if codes.is_empty() { String::new() } else { format!(" ({})", codes.join(", ")) };
        text.push_str(&format!("\ngaps in the record: {gaps}, answers without an entry: {answers}{codes}"));
    }
    text
}

fn rows(heading: &str, rows: &BTreeMap<String, StatsRow>, total: &StatsRow) -> String {
    let total = (rows.len() != 1).then_some(("total".to_owned(), total));
    let rows: Vec<_> = rows.iter().map(|(name, row)| (escape_hidden(name), row)).chain(total).collect();
    let alarms: Vec<_> = rows
        .iter()
        .map(|(_, row)| row.alarm.as_ref().map_or_else(String::new, alarm) + &signals(&row.signals))
        .collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).chain([5]).max().unwrap_or(5);
    let alarm_width =
        alarms.iter().map(String::len).max().filter(|width| *width > 0).map(|width| width.max(5));
    let alarm_column = |text: &str| alarm_width.map(|width| format!("  {text:<width$}")).unwrap_or_default();
    let mut text = format!(
        "{heading:width$}  {:>8}  {:>8}  {:>7}  {:>6}  {:>11}  {:>7}{}  rejected by code",
        "accepted",
        "rejected",
        "waiting",
        "rate",
        "undisclosed",
        "unknown",
        alarm_column("alarm")
    );
    for ((name, row), alarm) in rows.iter().zip(&alarms) {
        let waits = RejectionCode::ApprovalRequired.as_str();
        let codes = row.rejected_by_code.iter().filter(|(code, _)| *code != waits);
        let codes: Vec<_> = codes.map(|(code, count)| format!("{code} {count}")).collect();
        let line = format!(
            "\n{name:width$}  {:>8}  {:>8}  {:>7}  {:>6}  {:>11}  {:>7}{}  {}",
            row.accepted,
            row.refused(),
            row.waiting_for_approval,
            percent(row.acceptance_rate),
            row.undisclosed_attempts,
            row.unknown_outcomes,
            alarm_column(alarm),
            codes.join(", ")
        );
        text.push_str(line.trim_end());
    }
    text
}

/// Formats the alarm: when it was raised, or its level.
fn alarm(found: &ReplayResult) -> String {
    let text = match found.raised {
        Some(raised) => format!("raised {} at {}", raised.time, raised.seq),
        None => format!("{:.0}%", found.level * 100.0),
    };
    if found.quarantined { format!("{text}, quarantined") } else { text }
}
