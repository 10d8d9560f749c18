mod checkpoint;
mod closing_vectors;
mod log;
mod log_archive;
mod log_batch;
mod log_behind;
mod log_closing;
mod log_cut;
mod log_faults;
mod log_fork;
mod log_gaps;
mod log_histories;
mod log_hostile;
mod log_kill;
mod log_late;
mod log_moved;
mod log_proofs;
mod log_prover;
mod log_recovery;
mod log_retire;
mod log_share;
mod log_state;
mod log_submitted;
mod log_support;
mod log_tamper;
mod log_threads;
mod log_torn;
mod log_vectors;
mod receipt;
mod record;
mod refused;
mod side_files;
mod sim;
mod sim_states;
mod values;
mod vectors;

use countersign_core::{AgentId, Digest, Millis, Principal, ServerName, SessionId, Timestamp, ToolId};

use crate::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

/// Builds a refused call, which has no outcome.
fn decision(call: &str) -> Record {
    let mut call = call_record(call);
    call.verdict = Verdict::Reject;
    Record::Decision(call)
}

fn accepted(call: &str) -> Record {
    Record::Decision(call_record(call))
}

fn outcome(call: &str, decision: u64) -> Record {
    let session = SessionId::new("s1").unwrap();
    Record::Outcome(OutcomeRecord::new(at(2_000), session, call, decision, OutcomeKind::Returned))
}

fn end(reason: EndReason) -> Record {
    let (session, bot) = (SessionId::new("s1").unwrap(), AgentId::new("support-bot").unwrap());
    Record::End(EndRecord::new(at(7_000), session, bot, reason))
}

fn call_record(call: &str) -> CallRecord {
    CallRecord::new(
        at(1_000),
        SessionId::new("s1").unwrap(),
        AgentId::new("support-bot").unwrap(),
        Principal::new("alice").unwrap(),
        call,
        RecordedTool::new("desk", "search"),
        Verdict::Accept,
        7,
    )
}

fn session(tools: Vec<ToolId>) -> SessionRecord {
    SessionRecord::new(
        at(500),
        SessionId::new("s1").unwrap(),
        AgentId::new("support-bot").unwrap(),
        Principal::new("alice").unwrap(),
        u64::MAX,
        tools,
        at(9_000),
    )
}

/// Builds one record of each kind, with every field filled by text that tries to escape from its field.
fn hostile(text: &str) -> Vec<Record> {
    let mut call = call_record(text);
    call.tool = RecordedTool::new(text, text);
    call.verdict = Verdict::Reject;
    call.code = Some(text.into());
    call.reason = Some(text.into());
    call.args_recipe = Some(text.into());
    call.impact = Some(text.into());
    call.definition = Some(Digest::of(b"d"));
    call.args = Some(Digest::of(b"a"));
    call.values = RecordedValues::new([(text, text), ("", text)]);
    call.denied_by = Some(text.into());
    call.observed = Some(vec![text.into(), "RATE_LIMIT".into()]);
    call.trace = Some(text.into());
    call.ask = Some(Digest::of(b"k"));
    call.ask_restated = Some(Digest::of(b"r"));
    call.plan = Some(Digest::of(b"p"));
    call.plan_step = Some(u64::MAX);
    call.about_plan = true;
    call.request_id = Some("r|1\"".parse().unwrap());
    call.approval = Some("t,\"type\":\"x".parse().unwrap());
    call.approver = Some("carol".parse().unwrap());
    call.co_approvals = vec![CoApproval::new("t2\"|".parse().unwrap(), "dora".parse().unwrap())];
    let mut proposal = ProposalRecord::new(text);
    proposal.digest = Some(Digest::of(b"q"));
    proposal.intent = Some(Digest::of(b"i"));
    proposal.impact = Some(text.into());
    let hash = EvidenceRecord::endorsed(text, Digest::of(b"h"), Digest::of(b"e"), u32::MAX);
    let sig = EvidenceRecord::signature(text, Digest::of(b"s"), text);
    proposal.set_evidence([hash, sig].into_iter().cycle().take(80));
    call.proposal = Some(Box::new(proposal));
    let mut outcome =
        OutcomeRecord::new(at(2_000), SessionId::new("s1").unwrap(), text, 1, OutcomeKind::Unknown);
    outcome.duration_ms = Some(Millis::from_secs(1));
    outcome.code = Some(text.into());
    outcome.by = Some(OutcomeBy::Recovery);
    let mut gateway = GatewayRecord::new(at(3_000), Direction::ToClient, text);
    gateway.method = Some(text.into());
    gateway.reason = Some(text.into());
    gateway.session = Some(SessionId::new("s1").unwrap());
    let mut session = session(vec![ToolId::new("desk", "search").unwrap()]);
    session.ask = Some(Digest::of(b"k"));
    session.code = Some(text.into());
    session.ancestors = vec![AgentId::new("planner").unwrap(), AgentId::new("support-bot").unwrap()];
    session.narrowed = true;
    session.profile = Some(text.into());
    session.claims = Some(ClaimsRecord::new(Digest::of(b"c"), [text, text]));
    let mut standing = StandingRecord::new(
        at(4_000),
        AgentId::new("support-bot").unwrap(),
        StandingChange::Quarantined,
        text,
    );
    standing.reason = Some(text.into());
    let mut answer = AnswerRecord::new(
        at(5_000),
        text,
        RecordedTool::new(text, text),
        Digest::of(b"a"),
        AnswerVerdict::Denied,
        "carol".parse().unwrap(),
    );
    answer.session = Some(SessionId::new("s1").unwrap());
    answer.agent = Some(AgentId::new("support-bot").unwrap());
    answer.plan = Some(Digest::of(b"p"));
    answer.reason = Some(text.into());
    answer.approval = Some("t,\"type\":\"x".parse().unwrap());
    answer.expires = Some(at(9_000));
    answer.attestation = Some(Digest::of(b"o"));
    answer.key = Some(text.into());
    let mut refused = RefusedRecord::new(
        SessionId::new("s1").unwrap(),
        Some(AgentId::new("support-bot").unwrap()),
        at(6_000),
    );
    refused.number = Some(7);
    for count in 1..=64 {
        refused.add(RefusedRow {
            code: text.into(),
            tool: Some(RecordedTool::new(text, &format!("{count}{text}"))),
            direction: Some(Direction::ToServer),
            about_plan: true,
            count,
        });
        refused.add_made_up(1, Some(format!("{count}{text}").as_str().into()));
    }
    let (session_id, bot) = (SessionId::new("s1").unwrap(), AgentId::new("support-bot").unwrap());
    let signal = SignalRecord::new(at(6_000), session_id, bot, Signal::Asked, 32, Millis::from_secs(600));
    let mut server =
        ServerRecord::new(at(6_000), SessionId::new("s1").unwrap(), ServerName::new("desk").unwrap());
    server.name = Some(text.into());
    server.version = Some(text.into());
    server.instructions = Some(Instructions::Dropped);
    let mut gap = GapRecord::new(at(8_000), text);
    let spent = "s1".parse().unwrap();
    for n in 8_000..8_070 {
        let code = format!("{n}{text}");
        gap.add(&UnrecordedAnswer { time: at(n), code: &code, approval: Some(&spent), co_approvals: &[] });
    }
    vec![
        Record::Session(session),
        Record::Decision(call),
        Record::Outcome(outcome),
        Record::Gateway(gateway),
        Record::Standing(standing),
        Record::Answer(answer),
        Record::Refused(refused),
        Record::Signal(signal),
        Record::Server(server),
        end(EndReason::Error),
        Record::Gap(gap),
    ]
}

#[test]
fn the_memory_sink_keeps_the_latest_records_and_counts_all() {
    let sink = MemorySink::keeping(3);
    for n in 1..=10 {
        assert_eq!(sink.record(&decision(&n.to_string())).unwrap(), n);
    }
    assert_eq!(sink.count(), 10);
    let latest = sink.latest();
    assert_eq!(latest.iter().map(|(sequence, _)| *sequence).collect::<Vec<_>>(), [8, 9, 10]);
    assert_eq!(latest[2].1, decision("10"));
    assert_eq!(MemorySink::keeping(0).record(&decision("1")).unwrap(), 1);
}

#[test]
fn eight_threads_get_every_sequence_number_once() {
    let sink = MemorySink::new();
    let mut given: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| (0..25).map(|_| sink.record(&decision("c")).unwrap()).collect::<Vec<_>>())
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    given.sort_unstable();
    assert_eq!(given, (1..=200).collect::<Vec<_>>());
}

#[test]
fn the_memory_sink_of_many_threads_has_no_gap() {
    const THREADS: u64 = 12;
    const EACH: u64 = 400;
    let sink = MemorySink::keeping(300);
    let is_whole = |latest: &[(u64, Record)]| latest.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..EACH {
                    sink.record(&decision("c")).unwrap();
                }
            });
        }
        while sink.count() < THREADS * EACH {
            let latest = sink.latest();
            assert!(latest.len() <= 300 && is_whole(&latest));
        }
    });
    let latest = sink.latest();
    assert!(latest.len() == 300 && is_whole(&latest));
    assert_eq!(latest[299].0, THREADS * EACH);
    let alone = MemorySink::new();
    for _ in 0..THREADS * EACH {
        alone.record(&decision("c")).unwrap();
    }
    assert_eq!(sink.head(), alone.head());
}

#[test]
fn every_refusal_has_a_stable_code_and_one_plain_line() {
    let io = || std::io::Error::other("secret.txt");
    for (error, code) in [
        (AuditError::Unavailable(io()), "AUDIT_UNAVAILABLE"),
        (AuditError::Locked, "AUDIT_LOCKED"),
        (AuditError::Corrupt { at: 3 }, "AUDIT_CORRUPT"),
        (AuditError::Replaced, "AUDIT_REPLACED"),
        (AuditError::Write(io()), "AUDIT_WRITE"),
        (AuditError::TooLong, "AUDIT_WRITE"),
        (AuditError::Poisoned, "AUDIT_POISONED"),
    ] {
        assert_eq!(error.code(), code);
        assert!(!error.to_string().contains("secret") && !error.to_string().contains('\n'));
    }
}
