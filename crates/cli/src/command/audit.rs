use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use countersign_audit_log::{ProposalRecord, ReadError, Record, Summary, Verdict, read_lines, verify};
use countersign_core::{AgentId, SessionId, Timestamp};
use serde::Serialize;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Read the record of decisions.
///
/// The record is a file of JSON lines: one for every session, decision, outcome and refused message. It holds
/// digests of arguments and never their values.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// Print the record, one line for each entry.
    #[command(after_help = "Example:\n  countersign audit show record.jsonl --verdict reject")]
    Show(Show),
    /// Check that every line is an entry and that none is missing between the first and the last.
    #[command(after_help = "Example:\n  countersign audit verify record.jsonl")]
    Verify(Verify),
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The record's file.
    path: PathBuf,
    /// Only what concerns this agent.
    #[arg(long)]
    agent: Option<AgentId>,
    /// Only what belongs to this session.
    #[arg(long)]
    session: Option<SessionId>,
    /// Only decisions with this verdict.
    #[arg(long, value_enum)]
    verdict: Option<Wanted>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wanted {
    Accept,
    Reject,
}

#[derive(Debug, Args)]
pub(crate) struct Verify {
    /// The record's file.
    path: PathBuf,
}

/// One entry as the file has it.
#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    #[serde(flatten)]
    record: &'a Record,
}

impl Audit {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Show(verb) => verb.run(out),
            Self::Verify(verb) => verb.run(out),
        }
    }
}

impl Show {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let about = |error: ReadError| Failure::from(error).about(self.path.display());
        for read in read_lines(&self.path).map_err(about)? {
            let (seq, record) = read.map_err(about)?;
            if !self.wants(&record) {
                continue;
            }
            if out.is_json() {
                out.json(&Line { seq, record: &record })?;
            } else {
                out.line(&describe(seq, &record))?;
            }
        }
        Ok(Exit::Done)
    }

    fn wants(&self, record: &Record) -> bool {
        let (session, agent, verdict) = match record {
            Record::Session(r) => (Some(&r.session), Some(&r.agent), None),
            Record::Decision(r) => (Some(&r.session), Some(&r.agent), Some(r.verdict)),
            Record::Outcome(r) => (Some(&r.session), None, None),
            Record::Gateway(r) => (r.session.as_ref(), None, None),
            _ => (None, None, None),
        };
        let right_verdict = |wanted| match wanted {
            Wanted::Accept => verdict == Some(Verdict::Accept),
            Wanted::Reject => verdict == Some(Verdict::Reject),
        };
        self.agent.as_ref().is_none_or(|wanted| agent == Some(wanted))
            && self.session.as_ref().is_none_or(|wanted| session == Some(wanted))
            && self.verdict.is_none_or(right_verdict)
    }
}

/// One entry for a person. What agents wrote was escaped when it was recorded.
fn describe(seq: u64, record: &Record) -> String {
    match record {
        Record::Session(r) => {
            let came_of_it = match &r.code {
                Some(code) => format!("refused {code}"),
                None => format!("{} tools until {}", r.tools.len(), r.expires),
            };
            format!(
                "{seq:>6} {} session  {} for {} under registry {}: {came_of_it}",
                r.time, r.agent, r.principal, r.registry_version
            )
        }
        Record::Decision(r) => {
            let verdict = match (&r.verdict, &r.code) {
                (Verdict::Accept, _) => "accept".to_owned(),
                (Verdict::Reject, Some(code)) => format!("reject {code}"),
                (Verdict::Reject, None) => "reject".to_owned(),
            };
            let reason = r.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            let backing = r.proposal.as_deref().map(backing).unwrap_or_default();
            let (server, name) = (&r.tool.server, &r.tool.name);
            format!(
                "{seq:>6} {} decision {} {} {server}:{name} {verdict}{reason}{backing}",
                r.time, r.agent, r.call_id
            )
        }
        Record::Outcome(r) => {
            let outcome = serde_json::to_value(r.outcome).unwrap_or_default();
            let outcome = outcome.as_str().unwrap_or("unknown");
            format!("{seq:>6} {} outcome  {} of {}: {outcome}", r.time, r.call_id, r.decision)
        }
        Record::Gateway(r) => {
            let method = r.method.as_ref().map(|method| format!(" {method}")).unwrap_or_default();
            let reason = r.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{seq:>6} {} gateway {method} {}{reason}", r.time, r.code)
        }
        _ => format!("{seq:>6} {} (an entry of a newer version)", record.time()),
    }
}

/// How a proposal was judged and what of it verified; nothing where none was read.
fn backing(record: &ProposalRecord) -> String {
    if record.digest.is_none() {
        return String::new();
    }
    // Agents choose the ids: what is in quotes cannot look like what is not.
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\\\""));
    let mut text = format!("; proposal ({})", record.profile);
    for piece in record.evidence() {
        text.push_str(&format!(", evidence {}", quoted(piece.id.as_str())));
        if let Some(key) = &piece.key {
            text.push_str(&format!(" signed by {}", quoted(key.as_str())));
        }
    }
    if record.omitted() > 0 {
        text.push_str(&format!(", {} more", record.omitted()));
    }
    text
}

impl Verify {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let summary = verify(&self.path).map_err(|error| {
            let damaged = !matches!(error, ReadError::Io(_) | ReadError::NotAFile);
            let failure = Failure::from(error).about(self.path.display());
            if damaged { failure.into_refusal() } else { failure }
        })?;
        let report = json!({"ok": true, "summary": summary});
        out.result(&report, &summed_up(&summary))?;
        Ok(Exit::Done)
    }
}

fn summed_up(summary: &Summary) -> String {
    let at = |time: Option<Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
    if summary.records == 0 {
        return "0 entries".to_owned();
    }
    let mut text = format!(
        "{} entries, none missing between the first and the last\nfrom {}\nto   {}",
        summary.records,
        at(summary.first),
        at(summary.last)
    );
    if let Some(first) = summary.first_went_back {
        text.push_str(&format!(
            "\nwarning: {} entries are older than the one before them, first number {first}",
            summary.time_went_back
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use countersign_audit_log::{CallRecord, EvidenceRecord, RecordedTool, SessionRecord};
    use countersign_core::{Digest, Millis, Principal, ToolId};

    use super::*;

    #[test]
    fn a_session_that_was_refused_is_shown_with_its_code_and_without_tools() {
        let (time, tool) = (Timestamp::EPOCH, ToolId::new("desk", "search").unwrap());
        let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("bot").unwrap());
        let (by, expires) = (Principal::new("alice").unwrap(), time.saturating_add(Millis::from_secs(60)));
        let mut record = SessionRecord::new(time, session, agent, by, 7, vec![tool], expires);
        let opened = describe(1, &Record::Session(record.clone()));
        assert!(
            opened.ends_with("bot for alice under registry 7: 1 tools until 1970-01-01T00:01:00.000Z"),
            "{opened}"
        );
        record.code = Some("REVOKED\u{1b}[2J".into());
        let refused = describe(2, &Record::Session(record));
        assert!(refused.ends_with("bot for alice under registry 7: refused REVOKED\\u{1b}[2J"), "{refused}");
    }

    #[test]
    fn a_decision_is_shown_with_what_backed_it_and_no_id_passes_for_more() {
        let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("bot").unwrap());
        let (by, tool) = (Principal::new("alice").unwrap(), RecordedTool::new("desk", "refund"));
        let mut record = CallRecord::new(Timestamp::EPOCH, session, agent, by, "c", tool, Verdict::Accept, 7);
        let mut proposal = ProposalRecord::new("strict");
        let shown = |record: &CallRecord| describe(1, &Record::Decision(record.clone()));
        record.proposal = Some(Box::new(proposal.clone()));
        assert!(shown(&record).ends_with("c desk:refund accept"), "{}", shown(&record));
        proposal.digest = Some(Digest::of(b"p"));
        let files = ["mail\u{1b}[2J", "x\" signed by \"cfo", "a\\"]
            .map(|id| EvidenceRecord::hash(id, Digest::of(b"f")));
        let signed = EvidenceRecord::signature("invoice", Digest::of(b"s"), "finance");
        proposal.set_evidence(files.into_iter().chain([signed]));
        record.proposal = Some(Box::new(proposal));
        let expected = concat!(
            r#"accept; proposal (strict), evidence "invoice" signed by "finance", evidence "mail\u{1b}[2J", "#,
            r#"evidence "x\" signed by \"cfo", evidence "a\\""#
        );
        assert!(shown(&record).ends_with(expected), "{}", shown(&record));
    }
}
