use countersign_audit_log::{
    AnswerRecord, AnswerVerdict, CallRecord, ClaimsRecord, Direction, Escaped, GapRecord, Instructions,
    OutcomeBy, ProposalRecord, Record, RefusedRecord, RefusedRow, ServerRecord, SessionRecord,
    StandingChange, Verdict,
};

use countersign_host::escape::{quoted, shown_id, shown_line, shown_name, shown_tool};

/// Describes one entry on one line for a person. Text from agents was escaped when it was recorded; here names, reasons
/// and values are also quoted so that none can imitate another part of the line.
pub(super) fn describe(seq: u64, record: &Record) -> String {
    format!("{seq:>6} {} {}", record.time(), what(record))
}

fn what(record: &Record) -> String {
    match record {
        Record::Session(r) => session(r),
        Record::Decision(r) => decision(r),
        Record::Outcome(r) => {
            let outcome = serde_json::to_value(r.outcome).unwrap_or_default();
            let outcome = outcome.as_str().unwrap_or("unknown");
            let after = r.duration_ms.map(|span| format!(" after {span}")).unwrap_or_default();
            let code = r.code.as_ref().map(|code| format!(" {}", shown_name(code))).unwrap_or_default();
            let by = if r.by == Some(OutcomeBy::Recovery) { " by recovery" } else { "" };
            format!("outcome  {} of {}: {outcome}{code}{after}{by}", shown_name(&r.call_id), r.decision)
        }
        Record::Gateway(r) => {
            let direction = shown_direction(r.direction);
            let method = r.method.as_ref().map(|method| format!("{} ", shown_name(method)));
            let method = method.unwrap_or_default();
            format!("gateway  {direction}: {method}{}{}", shown_name(&r.code), because(r.reason.as_ref()))
        }
        Record::Recovered(r) => {
            let file = r.file.as_ref().map(|file| format!(", kept in {}", shown_name(file)));
            format!("recovered {} bytes were cut, sha-256 {}{}", r.bytes, r.digest, file.unwrap_or_default())
        }
        Record::Standing(r) => {
            let what = match r.standing {
                StandingChange::Quarantined => "put into quarantine",
                StandingChange::Lifted => "let out of quarantine",
                _ => "changed",
            };
            let (agent, by) = (shown_id(r.agent.as_str()), shown_name(&r.by));
            format!("standing {agent} {what} by {by}{}", because(r.reason.as_ref()))
        }
        Record::Answer(r) => answer(r),
        Record::Refused(r) => refused(r),
        Record::Signal(r) => {
            let (agent, session) = (shown_id(r.agent.as_str()), shown_id(r.session.as_str()));
            let (signal, count, within) = (r.signal.as_str(), r.count, r.within_ms);
            format!("signal   {agent} {signal}: {count} calls in {within}; session {session}")
        }
        Record::Server(r) => server(r),
        Record::Began(r) => {
            format!(
                "began    in the place of {}, closed by note sha-256 {}",
                shown_name(&r.previous),
                r.closing
            )
        }
        Record::Archived(r) => {
            format!("archived entries {} to {}, manifest sha-256 {}", r.first, r.last, r.manifest)
        }
        Record::End(r) => {
            let (agent, session) = (shown_id(r.agent.as_str()), shown_id(r.session.as_str()));
            format!("end      {agent}: {}; session {session}", r.reason.as_str())
        }
        Record::Gap(r) => gap(r),
        _ => "(an entry of a newer version)".to_owned(),
    }
}

fn server(r: &ServerRecord) -> String {
    let name = r.name.as_ref().map(|name| format!(" is {}", quoted(name))).unwrap_or_default();
    let version = r.version.as_ref().map(|version| format!(" version {}", quoted(version)));
    let instructions = r.instructions.map_or("none", Instructions::as_str);
    let (server, session) = (shown_id(r.server.as_str()), shown_id(r.session.as_str()));
    format!(
        "server   {server}{name}{}; instructions {instructions}; session {session}",
        version.unwrap_or_default()
    )
}

const fn shown_direction(direction: Direction) -> &'static str {
    match direction {
        Direction::ToServer => "to the server",
        Direction::ToClient => "to the client",
        _ => "(a direction of a newer version)",
    }
}

fn refused(r: &RefusedRecord) -> String {
    let what = match &r.agent {
        Some(agent) => format!("calls of {}", shown_id(agent.as_str())),
        None => "messages".to_owned(),
    };
    let rows: Vec<_> = r.rows.iter().map(refused_row).collect();
    let names: Vec<_> = r.names.iter().map(quoted).collect();
    let names = if names.is_empty() { String::new() } else { format!(", as {}", names.join(", ")) };
    let made_up =
        if r.made_up == 0 { String::new() } else { format!("; {} with made-up names{names}", r.made_up) };
    let number = r.number.map(|number| format!(", sum {number}")).unwrap_or_default();
    format!(
        "refused  {} {what} from {} to {}: {}{made_up}; session {}{number}",
        r.total(),
        r.from,
        r.to,
        rows.join(", "),
        shown_id(r.session.as_str())
    )
}

fn refused_row(row: &RefusedRow) -> String {
    let tool = row.tool.as_ref().map(|tool| format!("{} ", shown_tool(tool))).unwrap_or_default();
    let direction = row.direction.map(|to| format!("{} ", shown_direction(to))).unwrap_or_default();
    let no_call = if row.about_plan { " (no call)" } else { "" };
    format!("{tool}{direction}{}{no_call} {}", shown_name(&row.code), row.count)
}

fn gap(r: &GapRecord) -> String {
    let rows: Vec<_> =
        r.answers.iter().map(|row| format!("{} {}", shown_name(&row.code), row.count)).collect();
    let mut approvals: Vec<_> = r.approvals.iter().map(|id| shown_id(id.as_str())).collect();
    if r.omitted > 0 {
        approvals.push(format!("{} more", r.omitted));
    }
    let spent = if approvals.is_empty() {
        String::new()
    } else {
        format!("; spent meanwhile: {}", approvals.join(", "))
    };
    let (total, reason) = (r.total(), shown_name(&r.reason));
    format!("gap      {total} answers from {} to {} ({reason}): {}{spent}", r.from, r.to, rows.join(", "))
}

fn answer(r: &AnswerRecord) -> String {
    let verdict = match r.verdict {
        AnswerVerdict::Approved => "approved",
        AnswerVerdict::Denied => "denied",
        AnswerVerdict::Granted => "granted",
        AnswerVerdict::Revoked => "grant revoked",
        AnswerVerdict::Attested => "attested to",
        _ => "answered",
    };
    let until = r.expires.map(|expires| format!(" until {expires}")).unwrap_or_default();
    let agent = r.agent.as_ref().map(|agent| format!("; agent {}", shown_id(agent.as_str())));
    let session = r.session.as_ref().map(|session| format!("; session {}", shown_id(session.as_str())));
    let plan = r.plan.as_ref().map(|plan| format!("; plan {plan}"));
    let token = r.approval.as_ref().map(|token| format!("; token {}", shown_id(token.as_str())));
    let edited = r.edited_to.map(|digest| format!("; edited to arguments {digest}"));
    let uses = r.uses.map(|uses| format!("; {uses} uses"));
    let conditions = r.conditions.as_ref().map(|text| format!("; where {}", quoted(text)));
    let attestation = r.attestation.as_ref().map(|digest| format!("; attestation {digest}"));
    let key = r.key.as_ref().map(|key| format!(" signed by {}", shown_name(key)));
    let rest: String = [edited, agent, session, plan, token, uses, conditions, attestation, key]
        .into_iter()
        .flatten()
        .collect();
    format!(
        "answer   {} {} {verdict} by {}{until}{}; arguments {}{rest}",
        shown_name(&r.call_id),
        shown_tool(&r.tool),
        shown_id(r.approver.as_str()),
        because(r.reason.as_ref()),
        r.args,
    )
}

fn session(r: &SessionRecord) -> String {
    let came_of_it = match &r.code {
        Some(code) => format!("refused {}", shown_name(code)),
        None => {
            let narrowed = if r.narrowed { " (narrowed)" } else { "" };
            let renewed = if r.renewed { "renewed with " } else { "" };
            let observed =
                r.observe_until.map(|until| format!(", observed until {until}")).unwrap_or_default();
            let dev = if r.dev { ", under a registry that no operator signed" } else { "" };
            format!("{renewed}{} tools{narrowed} until {}{observed}{dev}", r.tools.len(), r.expires)
        }
    };
    let ancestors: Vec<_> = r.ancestors.iter().map(|agent| shown_id(agent.as_str())).collect();
    let led_to_by =
        if ancestors.is_empty() { String::new() } else { format!(", led to by {}", ancestors.join(" > ")) };
    let claims = r.claims.as_ref().map(claims).unwrap_or_default();
    let store = r.spent_store.as_ref().map(|id| format!("; spent store {}", shown_id(id.as_str())));
    let store = store.unwrap_or_default();
    let profile = r.profile.as_ref().map(|profile| format!("; proposals by profile {}", shown_name(profile)));
    let profile = profile.unwrap_or_default();
    let (agent, principal) = (shown_id(r.agent.as_str()), shown_id(r.principal.as_str()));
    format!(
        "session  {agent} for {principal} under registry {}: {came_of_it}; session {}{led_to_by}{store}{profile}{claims}",
        r.registry_version,
        shown_id(r.session.as_str())
    )
}

/// Lists the claims of an agent that differ from the registry.
fn claims(record: &ClaimsRecord) -> String {
    let mut names: Vec<_> = record.differing().iter().map(quoted).collect();
    if record.omitted() > 0 {
        names.push(format!("{} more", record.omitted()));
    }
    if names.is_empty() { String::new() } else { format!("; claimed otherwise: {}", names.join(", ")) }
}

/// Lists the codes that observe mode overlooked.
pub(super) fn overlooked(codes: &[Escaped<64>]) -> String {
    let codes: Vec<_> = codes.iter().map(|code| shown_name(code).to_string()).collect();
    if codes.is_empty() { String::new() } else { format!(", without {}", codes.join(", ")) }
}

fn decision(r: &CallRecord) -> String {
    let verdict = match (&r.verdict, &r.code) {
        (Verdict::Accept, _) => "accept".to_owned(),
        (Verdict::Reject, Some(code)) => format!("reject {}", shown_name(code)),
        (Verdict::Reject, None) => "reject".to_owned(),
    };
    let reason = because(r.reason.as_ref());
    let step = r.plan_step.map(|step| format!(" (step {step} of the plan)")).unwrap_or_default();
    let no_call = if r.about_plan { " (no call)" } else { "" };
    let waits = if r.waits { " (waits for evidence)" } else { "" };
    let denied = r.denied_by.as_ref().map(|by| format!(" ({})", shown_name(by))).unwrap_or_default();
    let others = r.co_approvals.iter().map(|other| &other.approver);
    let approvers: Vec<_> = r.approver.iter().chain(others).map(|by| shown_id(by.as_str())).collect();
    let approved =
        if approvers.is_empty() { String::new() } else { format!(" (approved by {})", approvers.join(", ")) };
    let edited =
        r.edited_from.map(|asked| format!(" (edited, asked for arguments {asked})")).unwrap_or_default();
    let observed =
        r.observed.as_deref().map(|codes| format!(" (observed{})", overlooked(codes))).unwrap_or_default();
    let grant_use = r.grant_use.map(|number| format!(" (use {number} of a grant)")).unwrap_or_default();
    let backing = r.proposal.as_deref().map(backing).unwrap_or_default();
    let trace = r.trace.as_ref().map(|trace| format!("; trace {}", shown_name(trace)));
    let trace = trace.unwrap_or_default();
    let values: String =
        r.values.iter().map(|one| format!("; {}={}", pointer(&one.pointer), shown(&one.value))).collect();
    format!(
        "decision {} {} {}{step}{no_call} {verdict}{observed}{waits}{reason}{denied}{approved}{edited}{grant_use}{backing}{trace}{values}",
        shown_id(r.agent.as_str()),
        shown_name(&r.call_id),
        shown_tool(&r.tool),
    )
}

/// Quotes the reason: it may contain text from the agent, such as names in its arguments.
fn because(reason: Option<&Escaped<512>>) -> String {
    reason.map(|reason| format!(": {}", quoted(reason))).unwrap_or_default()
}

/// Returns the pointer. The empty pointer stands for all arguments.
fn pointer(pointer: &Escaped<256>) -> String {
    if pointer.as_str().is_empty() { String::new() } else { shown_name(pointer) }
}

/// Shows a recorded value as JSON, or marks it as cut. Its escapes are undone first: a quote with a doubled backslash
/// before it would look like the end of the text.
fn shown<const MAX: usize>(value: &Escaped<MAX>) -> String {
    value.unescape().map_or_else(|| format!("{} (cut)", quoted(value)), |json| shown_line(&json))
}

/// Describes the profile of a proposal and its verified evidence; empty if no proposal was read.
fn backing(record: &ProposalRecord) -> String {
    if record.digest.is_none() {
        return String::new();
    }
    let mut text = format!("; proposal ({})", shown_name(&record.profile));
    for piece in record.evidence() {
        text.push_str(&format!(", evidence {}", quoted(&piece.id)));
        if let Some(key) = &piece.key {
            text.push_str(&format!(" signed by {}", quoted(key)));
        }
        if let (Some(endorsement), Some(number)) = (&piece.endorsement, piece.endorsement_use) {
            text.push_str(&format!(" by use {number} of endorsement {endorsement}"));
        }
    }
    if record.omitted() > 0 {
        text.push_str(&format!(", {} more", record.omitted()));
    }
    text
}

#[cfg(test)]
mod tests {
    use countersign_audit_log::{
        CallRecord, EndReason, EndRecord, EvidenceRecord, OutcomeKind, OutcomeRecord, RecordedTool,
        RecordedValues, RecoveredRecord, SessionRecord,
    };
    use countersign_core::{AgentId, Digest, Millis, Principal, SessionId, Timestamp, ToolId};

    use super::*;

    #[test]
    fn refused_session_is_shown_with_its_code() {
        let (time, tool) = (Timestamp::EPOCH, ToolId::new("desk", "search").unwrap());
        let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("bot").unwrap());
        let (by, expires) = (Principal::new("alice").unwrap(), time.saturating_add(Millis::from_secs(60)));
        let mut record = SessionRecord::new(time, session, agent, by, 7, vec![tool], expires);
        let opened = describe(1, &Record::Session(record.clone()));
        let expected = "bot for alice under registry 7: 1 tools until 1970-01-01T00:01:00.000Z; session s";
        assert!(opened.ends_with(expected), "{opened}");
        record.code = Some("REVOKED\u{1b}[2J".into());
        let refused = describe(2, &Record::Session(record));
        assert!(
            refused.ends_with(r#"bot for alice under registry 7: refused "REVOKED\u{1b}[2J"; session s"#),
            "{refused}"
        );
    }

    #[test]
    fn plan_step_is_shown_with_its_number() {
        let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("bot").unwrap());
        let (by, tool) = (Principal::new("alice").unwrap(), RecordedTool::new("desk", "refund"));
        let mut record = CallRecord::new(Timestamp::EPOCH, session, agent, by, "c", tool, Verdict::Accept, 7);
        record.plan_step = Some(2);
        let shown = describe(1, &Record::Decision(record));
        assert!(shown.ends_with("c desk:refund (step 2 of the plan) accept"), "{shown}");
        let cut = RecoveredRecord::new(Timestamp::EPOCH, 7, Digest::of(b"x"));
        let shown = describe(1, &Record::Recovered(cut));
        assert!(shown.contains(" recovered 7 bytes were cut, sha-256 "), "{shown}");
        let mut cut = RecoveredRecord::new(Timestamp::EPOCH, 7, Digest::of(b"x"));
        cut.file = Some("cut-1".into());
        let shown = describe(1, &Record::Recovered(cut));
        assert!(shown.ends_with(", kept in cut-1"), "{shown}");
    }

    #[test]
    fn an_end_is_shown_with_reason_and_session() {
        let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("bot").unwrap());
        let end = EndRecord::new(Timestamp::EPOCH, session, agent, EndReason::Signal);
        let shown = describe(1, &Record::End(end));
        assert!(shown.ends_with(" end      bot: signal; session s"), "{shown}");
    }

    #[test]
    fn a_recovered_outcome_names_its_author() {
        let session = SessionId::new("s").unwrap();
        let mut outcome = OutcomeRecord::new(Timestamp::EPOCH, session, "c", 7, OutcomeKind::Unknown);
        outcome.by = Some(OutcomeBy::Recovery);
        let shown = describe(9, &Record::Outcome(outcome));
        assert!(shown.ends_with(" outcome  c of 7: unknown by recovery"), "{shown}");
    }

    #[test]
    fn denied_call_is_shown_with_all_recorded_details() {
        let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("bot").unwrap());
        let (by, tool) = (Principal::new("alice").unwrap(), RecordedTool::new("desk", "refund"));
        let mut record = CallRecord::new(Timestamp::EPOCH, session, agent, by, "c", tool, Verdict::Reject, 7);
        record.code = Some("APPROVAL_DENIED".into());
        record.reason = Some("a person refused it".into());
        record.denied_by = Some("olga".into());
        record.trace = Some("00-4bf9-00f0-01".into());
        let long = format!("\"{}", "a".repeat(5_000));
        let values = [("/to", r#""\"; /amount=\"1""#), ("/by", "\"\u{202e}bob\""), ("", "{}"), ("/x", &long)];
        record.values = RecordedValues::new(values);
        let shown = describe(1, &Record::Decision(record));
        let (shown, cut) = shown.split_once("; /x=").unwrap();
        let end = r#"APPROVAL_DENIED: "a person refused it" (olga); trace 00-4bf9-00f0-01"#;
        let values = r#"; /to="\"; /amount=\"1"; /by="\u202ebob"; ={}"#;
        assert!(shown.ends_with(&format!("{end}{values}")), "{shown}");
        assert!(cut.starts_with(r#""\u0022aaa"#) && cut.ends_with("aaa\u{2026}\" (cut)"), "{cut}");
    }

    #[test]
    fn evidence_ids_in_a_decision_line_are_escaped() {
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
            r#"evidence "x\u0022 signed by \u0022cfo", evidence "a\\""#
        );
        assert!(shown(&record).ends_with(expected), "{}", shown(&record));
    }
}
