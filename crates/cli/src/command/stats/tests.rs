#![expect(clippy::arithmetic_side_effects, reason = "tests count with small numbers")]

use std::sync::Arc;

use countersign_audit_log::{
    AuditSink, CallRecord, GapRecord, MemorySink, OutcomeKind, OutcomeRecord, Record, RecordedTool,
    RefusedRecord, RefusedRow, SessionRecord, Signal, SignalRecord, StandingChange, StandingRecord,
    UnrecordedAnswer, Verdict,
};
use countersign_core::{
    AgentId, Clock, Digest, ManualClock, Millis, Principal, SessionId, Timestamp, ToolId,
};
use countersign_keys::{SigningKey, TrustRoot};
use countersign_registry::{
    CapabilityRegistry, LoadOptions, MemoryHighWater, NegotiationRequest, RegistryDraft,
};
use countersign_tool_gate::{AlarmAction, AlarmRule, AlarmState, CallStats, Standing, ToolCall, ToolGate};
use serde_json::{Value, json};

use super::count::Count;
use super::graph::{TerminalStyle, picture};
use super::history::History;
use super::table::By;
use super::table::table;

const START: u64 = 1_700_000_000_000;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(START + millis).unwrap()
}

/// A decision of `agent`, `millis` after the start: accepted, or refused with a code.
fn decision(millis: u64, agent: &str, tool: (&str, &str), code: Option<&str>) -> Record {
    let verdict = if code.is_none() { Verdict::Accept } else { Verdict::Reject };
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new(agent).unwrap());
    let principal = Principal::new("p").unwrap();
    let tool = RecordedTool::new(tool.0, tool.1);
    let mut call = CallRecord::new(at(millis), session, agent, principal, "c", tool, verdict, 1);
    call.code = code.map(Into::into);
    Record::Decision(call)
}

fn standing(millis: u64, agent: &str, change: StandingChange) -> Record {
    Record::Standing(StandingRecord::new(at(millis), AgentId::new(agent).unwrap(), change, "ada"))
}

/// A session of `a` with these tools of the desk.
fn session(millis: u64, tools: &[String]) -> Record {
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new("a").unwrap());
    let principal = Principal::new("p").unwrap();
    let tools = tools.iter().map(|tool| ToolId::new("desk", tool).unwrap()).collect();
    Record::Session(SessionRecord::new(at(millis), session, agent, principal, 1, tools, at(1_000_000)))
}

const SEARCH: (&str, &str) = ("desk", "search");

fn counted(records: &[Record], since: Option<Timestamp>) -> super::count::StatsReport {
    let mut count = Count::new(AlarmRule::default(), since);
    for (seq, record) in (1..).zip(records) {
        count.add(None, seq, record);
    }
    count.report()
}

fn outcome(decision: u64, outcome: OutcomeKind) -> Record {
    let session = SessionId::new("s").unwrap();
    Record::Outcome(OutcomeRecord::new(at(10), session, "c", decision, outcome))
}

fn signal(millis: u64, agent: &str, signal: Signal) -> Record {
    let (session, agent) = (SessionId::new("s").unwrap(), AgentId::new(agent).unwrap());
    Record::Signal(SignalRecord::new(at(millis), session, agent, signal, 20, Millis::from_secs(600)))
}

#[test]
fn gaps_are_counted_with_their_answers() {
    let gap = |millis: u64, codes: &[&str]| {
        let mut gap = GapRecord::new(at(millis), "AUDIT_WRITE");
        for code in codes {
            gap.add(&UnrecordedAnswer { time: at(millis), code, approval: None, co_approvals: &[] });
        }
        Record::Gap(gap)
    };
    let records = [
        decision(1, "a", SEARCH, None),
        gap(2, &["AUDIT_UNAVAILABLE", "AUDIT_UNAVAILABLE", "ARGS_SCHEMA"]),
        gap(30, &["AUDIT_UNAVAILABLE"]),
    ];
    let report = counted(&records, None);
    let told = value(&report);
    assert_eq!((&told["gaps"], &told["unrecorded"]), (&json!(2), &json!(4)), "{told}");
    assert_eq!(told["unrecorded_by_code"], json!({"AUDIT_UNAVAILABLE": 3, "ARGS_SCHEMA": 1}));
    let last = "gaps in the record: 2, answers without an entry: 4 (ARGS_SCHEMA 1, AUDIT_UNAVAILABLE 3)";
    assert_eq!(table(&report, By::Tool).lines().last(), Some(last));
    assert_eq!(value(&counted(&records, Some(at(20))))["unrecorded"], 1);
    assert!(!table(&counted(&records[..1], None), By::Agent).contains("gap"));
}

#[test]
fn unknown_outcomes_are_counted_by_agent_and_tool() {
    let Record::Decision(mut plan) = decision(4, "a", ("", "start_plan"), None) else { panic!("a decision") };
    plan.about_plan = true;
    let records = [
        decision(1, "a", SEARCH, None),
        decision(2, "a", SEARCH, None),
        decision(3, "b", ("desk", "refund"), None),
        Record::Decision(plan),
        outcome(1, OutcomeKind::Returned),
        outcome(2, OutcomeKind::Unknown),
        outcome(3, OutcomeKind::Unknown),
        outcome(4, OutcomeKind::Unknown),
    ];
    let report = counted(&records, None);
    let told = value(&report);
    let unknown = |of: &str, row: &str| told[of][row]["unknown_outcomes"].clone();
    assert_eq!([unknown("agents", "a"), unknown("agents", "b")], [1, 1]);
    assert_eq!([unknown("tools", "desk:search"), unknown("tools", "desk:refund")], [1, 1]);
    assert_eq!(told["total"]["unknown_outcomes"], 2);
    let shown = table(&report, By::Agent);
    let columns: Vec<Vec<_>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((columns[0][6], columns[1][6]), ("unknown", "1"), "{shown}");
    // An outcome whose decision is archived belongs to no agent.
    let told = value(&counted(&[outcome(9, OutcomeKind::Unknown)], None));
    assert_eq!(told["total"]["unknown_outcomes"], 1);
    assert_eq!(told["agents"]["(others)"]["unknown_outcomes"], 1);
}

fn value(report: &super::count::StatsReport) -> Value {
    serde_json::to_value(report).unwrap()
}

/// A registry of two agents whose tools can be refused in many ways.
fn registry(clock: &ManualClock) -> Arc<CapabilityRegistry> {
    let now = clock.now().unwrap();
    let operator = SigningKey::from_seed([7; 32]);
    let open =
        json!({"type": "object", "properties": {"q": {"type": "string"}}, "additionalProperties": false});
    let tool = |name: &str, more: Value| {
        let mut tool = json!({"server": "desk", "name": name, "impact": "read", "approval": "not_required",
            "args_schema": open});
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool
    };
    let tools = json!([
        tool("search", json!({})),
        tool("refund", json!({"approval": "required"})),
        tool("asking", json!({"ask": "required"})),
        tool("scarce", json!({"limits": {"max_calls": 3}})),
        tool("pinned", json!({"definition": Digest::of(b"another")})),
    ]);
    let all: Vec<_> = tools
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| json!({"server": "desk", "name": tool["name"]}))
        .collect();
    let agent = |name: &str| json!({"agent": name, "version": 1, "registered_by": "ops", "tools": all, "max_session": "1d"});
    let draft = json!({
        "format": "countersign-registry-1", "version": 1, "agents": [agent("a"), agent("b")],
        "tools": tools, "revoked": {"agents": [], "keys": [], "snapshots": []}
    });
    let expires = now.checked_add(Millis::from_secs(86_400)).unwrap();
    let signed = RegistryDraft::from_json(draft.to_string().as_bytes()).unwrap();
    let signed = signed.sign(now, expires, &[&operator]).unwrap().to_json();
    let root = TrustRoot::new(1, 1, vec![operator.verifying_key()]).unwrap();
    let marks = Arc::new(MemoryHighWater::new());
    Arc::new(CapabilityRegistry::load(signed.as_bytes(), &root, marks, LoadOptions::default(), now).unwrap())
}

#[test]
fn sums_count_as_their_refusals_do() {
    let session = session(0, &["search".into(), "refund".into()]);
    let refused = [
        (SEARCH, "ARGS_SCHEMA", 30),
        (("desk", "refund"), "APPROVAL_REQUIRED", 20),
        (("desk", "wipe"), "UNDISCLOSED_TOOL", 40),
    ];
    let mut sum = RefusedRecord::new(SessionId::new("s").unwrap(), Some(AgentId::new("a").unwrap()), at(1));
    let mut one_by_one = vec![session.clone()];
    for (tool, code, count) in refused {
        let mut row = RefusedRow::new(code);
        row.count = count;
        row.tool = (tool.1 != "wipe").then(|| RecordedTool::new(tool.0, tool.1));
        sum.add(row);
        one_by_one.extend((0..count).map(|_| decision(1, "a", tool, Some(code))));
    }
    let mut about_plan = RefusedRow::new("PLAN_STARTED");
    about_plan.about_plan = true;
    sum.add(about_plan);
    sum.number = Some(1);
    let messages = {
        let mut sum = RefusedRecord::new(SessionId::new("s").unwrap(), None, at(1));
        sum.add(RefusedRow::new("METHOD_NOT_ALLOWED"));
        sum.number = Some(1);
        Record::Refused(sum)
    };
    // The log contains both twice: writing them failed, and they were found complete later.
    let sum = Record::Refused(sum);
    let summed = [session, sum.clone(), messages.clone(), messages, sum];
    let (summed, single) = (counted(&summed, None), counted(&one_by_one, None));
    let (mut summed, single) = (value(&summed), value(&single));
    assert_eq!(summed["gateway_refusals"].take(), 1);
    summed["gateway_refusals"] = json!(0);
    // The alarm names the entry that raised it.
    let raised = &mut summed["agents"]["a"]["alarm"]["raised"];
    assert_eq!(raised["seq"], 2);
    *raised = single["agents"]["a"]["alarm"]["raised"].clone();
    assert_eq!(summed, single);
}

/// Checks that the replay over the record agrees with the gate's own alarm, after any decisions, quarantines and lifts.
#[test]
fn alarm_replayed_from_the_record_matches_the_gate() {
    let (mut raised, mut lifted) = (0, 0);
    for seed in 1..=20_u64 {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let clock = Arc::new(ManualClock::new(at(0)));
        let registry = registry(&clock);
        let sink = Arc::new(MemorySink::new());
        let action = if seed % 2 == 0 { AlarmAction::Quarantine } else { AlarmAction::Flag };
        let rule = AlarmRule::new(0.9, 0.5, 50).unwrap();
        let stats = Arc::new(CallStats::new().alarm(rule, action));
        let open = |agent: &str, session: u64| {
            let session = SessionId::new(&format!("s{session}")).unwrap();
            let request = NegotiationRequest::new(session, AgentId::new(agent).unwrap());
            let contract = registry.negotiate(&request, clock.now().unwrap()).unwrap();
            let principal = Principal::new("ada").unwrap();
            let (clock, sink) =
                (Arc::clone(&clock) as Arc<dyn Clock>, Arc::clone(&sink) as Arc<dyn AuditSink>);
            let builder = ToolGate::builder(Arc::clone(&registry), contract, principal, clock, sink);
            let builder = builder.definition(ToolId::new("desk", "pinned").unwrap(), Digest::of(b"this"));
            builder.stats(Arc::clone(&stats)).open().unwrap()
        };
        let gates: Vec<_> =
            [("a", 1), ("a", 2), ("b", 3)].map(|(agent, session)| open(agent, session)).into();
        for call in 0..150 {
            clock.advance(Millis::from_secs(1)).unwrap();
            let (id, gate) = (format!("c{call}"), &gates[usize::try_from(below(3)).unwrap()]);
            // The agent behaves well at first.
            let kind = if call < 60 && below(8) > 0 { 0 } else { below(9) };
            let (tool, args): (&str, &[u8]) = match kind {
                0 | 1 => ("search", b"{}"),
                2 => ("search", b"{\"q\":7}"),
                3 => ("search", b"{"),
                4 => ("made up", b"{}"),
                5 => ("refund", b"{}"),
                6 => ("asking", b"{}"),
                7 => ("scarce", b"{}"),
                _ => ("pinned", b"{}"),
            };
            drop(gate.check(&ToolCall::new(&id, "desk", tool, args)));
            let agent = gate.contract().agent().clone();
            if stats.standing(&agent) == Standing::Quarantined && below(5) == 0 {
                let lift = StandingRecord::new(clock.now().unwrap(), agent, StandingChange::Lifted, "ada");
                stats.set_standing(&lift).unwrap();
                // Each gate of the agent notices the change and records it before its next answer.
                for gate in &gates {
                    drop(gate.check(&ToolCall::new(&id, "desk", "search", b"{}")));
                }
                lifted += 1;
            }
        }
        let mut count = Count::new(rule, None);
        for (seq, record) in sink.latest() {
            count.add(None, seq, &record);
        }
        let told = value(&count.report());
        for agent in stats.snapshot().agents {
            let alarm = &told["agents"][agent.agent.as_str()]["alarm"];
            assert_eq!(alarm["level"].as_f64(), Some(agent.alarm_level), "seed {seed}: {alarm}");
            assert_eq!(
                alarm["raised"].is_object(),
                agent.alarm == AlarmState::Raised,
                "seed {seed}: {alarm}"
            );
            assert_eq!(alarm["raised"]["time"], json!(agent.alarm_raised), "seed {seed}: {alarm}");
            assert_eq!(alarm["quarantined"], agent.standing == Standing::Quarantined, "seed {seed}: {alarm}");
            raised += u64::from(agent.alarm == AlarmState::Raised);
        }
    }
    assert!(raised > 5 && lifted > 5, "{raised} {lifted}");
}

#[test]
fn events_not_caused_by_the_agent_do_not_move_the_alarm() {
    let plan = ("countersign", "submit_plan");
    let told_of = |tool, code, about_plan| {
        let refused = |at| decision(at, "a", SEARCH, Some("ARGS_SCHEMA"));
        let mut third = decision(3, "a", tool, code);
        if let Record::Decision(call) = &mut third {
            call.about_plan = about_plan;
        }
        let records = [refused(1), refused(2), third, refused(4)];
        value(&counted(&records, None))["agents"]["a"]["alarm"]["level"].as_f64().unwrap()
    };
    let told = |tool, code| told_of(tool, code, false);
    let three = 3.0 * 1_098_612.0 / 9_210_341.0;
    for (tool, code) in [
        (plan, None),
        (plan, Some("APPROVAL_INVALID")),
        (plan, Some("PLAN_CONTROL_OPEN")),
        (("countersign", "finish_plan"), None),
        (SEARCH, Some("APPROVAL_REQUIRED")),
        (SEARCH, Some("STORE_UNAVAILABLE")),
        (SEARCH, Some("AGENT_REVOKED")),
        (SEARCH, Some("A_CODE_OF_A_NEWER_VERSION")),
    ] {
        let about_plan = tool != SEARCH;
        assert!((told_of(tool, code, about_plan) - three).abs() < 1e-9, "{tool:?} {code:?}");
    }
    assert!(told(SEARCH, None) < three);
    assert!(told(SEARCH, Some("ARGS_SCHEMA")) > three);
    assert!(told(plan, Some("LIMIT_EXCEEDED")) > three, "an agent may call anything by this name");
}

#[test]
fn raised_alarm_names_its_entry_until_a_lift() {
    let mut records: Vec<_> = (0..12).map(|at| decision(at, "a", SEARCH, Some("ARGS_SCHEMA"))).collect();
    let told = value(&counted(&records, None));
    assert_eq!(told["agents"]["a"]["alarm"]["raised"], json!({"time": at(8), "seq": 9}), "{told}");
    let text = table(&counted(&records, None), By::Agent);
    assert!(text.contains(&format!("  raised {} at 9  ", at(8))), "{text}");
    // Two gates notice each change.
    let (quarantined, lifted) = (StandingChange::Quarantined, StandingChange::Lifted);
    records.extend([quarantined, quarantined].map(|change| standing(20, "a", change)));
    assert!(table(&counted(&records, None), By::Agent).contains(" at 9, quarantined  "));
    records.extend([standing(30, "a", lifted), decision(31, "a", SEARCH, Some("ARGS_SCHEMA"))]);
    records.push(standing(32, "a", lifted));
    let alarm = value(&counted(&records, None))["agents"]["a"]["alarm"].clone();
    assert!((alarm["level"].as_f64().unwrap() - 1_098_612.0 / 9_210_341.0).abs() < 1e-9, "{alarm}");
    assert_eq!(
        (&alarm["raised"], &alarm["times"], &alarm["quarantined"]),
        (&Value::Null, &json!(1), &json!(false))
    );
}

#[test]
fn tools_have_rows_and_the_names_that_agents_make_up_share_one() {
    let made_up = |at: u64| decision(at, "a", ("desk", &format!("tool_{at}")), Some("UNDISCLOSED_TOOL"));
    let mut records: Vec<_> = (0..3_000).map(made_up).collect();
    records.extend([
        decision(1, "a", SEARCH, None),
        decision(2, "a", SEARCH, Some("AGENT_REVOKED")),
        decision(3, "b", ("desk", "wipe"), Some("ARGS_SCHEMA")),
        decision(4, "b", ("attic", "search"), Some("MALFORMED_CALL")),
    ]);
    let report = counted(&records, None);
    let told = value(&report);
    let tools: Vec<_> = told["tools"].as_object().unwrap().keys().collect();
    assert_eq!(tools, ["(unknown)", "desk:search", "desk:wipe"]);
    assert_eq!(told["tools"]["(unknown)"]["rejected"], 3_001);
    assert_eq!(told["tools"]["desk:search"]["rejected_by_code"]["AGENT_REVOKED"], 1);
    assert_eq!(told["total"]["rejected"], 3_003);
    let text = table(&report, By::Tool);
    assert!(text.lines().next().unwrap().starts_with("tool ") && !text.contains("alarm"), "{text}");
    assert!(table(&report, By::Agent).contains("alarm"));
}

#[test]
fn disclosed_tool_has_a_row_for_its_refused_calls() {
    let tools = ["search", "refund"].map(ToOwned::to_owned);
    let records = [
        session(1, &tools),
        decision(2, "a", SEARCH, Some("AGENT_QUARANTINED")),
        decision(3, "a", ("desk", "refund"), Some("AGENT_QUARANTINED")),
        decision(4, "a", ("desk", "made_up"), Some("UNDISCLOSED_TOOL")),
        decision(5, "a", SEARCH, None),
    ];
    for since in [None, Some(at(2))] {
        let tools = value(&counted(&records, since))["tools"].clone();
        let names: Vec<_> = tools.as_object().unwrap().keys().collect();
        assert_eq!(names, ["(unknown)", "desk:refund", "desk:search"]);
        assert_eq!(
            (&tools["(unknown)"]["rejected"], &tools["desk:search"]["rejected"]),
            (&json!(1), &json!(1))
        );
    }
    // A plan is not a call of a session's tool.
    let mut about_plan = decision(6, "a", ("countersign", "submit_plan"), Some("AGENT_QUARANTINED"));
    if let Record::Decision(call) = &mut about_plan {
        call.about_plan = true;
    }
    let counted_of_it = value(&counted(&[about_plan], None));
    assert_eq!((&counted_of_it["tools"], &counted_of_it["agents"]), (&json!({}), &json!({})));
    // Of too many tools, the first ones are remembered.
    let many: Vec<_> = (0..20_000).map(|tool| format!("t{tool}")).collect();
    let refused = |at, tool: &str| decision(at, "a", ("desk", tool), Some("AGENT_QUARANTINED"));
    let records = [session(1, &many), refused(2, "t0"), refused(3, "t19999")];
    let tools = value(&counted(&records, None))["tools"].clone();
    assert_eq!(tools.as_object().unwrap().keys().collect::<Vec<_>>(), ["(unknown)", "desk:t0"]);
}

#[test]
fn a_call_that_waits_is_shown_as_waiting_and_not_as_rejected() {
    let waiting = (0..4).map(|at| decision(at, "a", SEARCH, Some("APPROVAL_REQUIRED")));
    let records: Vec<_> = waiting.chain([decision(5, "a", SEARCH, None)]).collect();
    let report = counted(&records, None);
    for by in [By::Agent, By::Tool] {
        let text = table(&report, by);
        let lines: Vec<_> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines[0][1..5], ["accepted", "rejected", "waiting", "rate"], "{text}");
        assert_eq!(lines[1][1..5], ["1", "0", "4", "100.0%"], "{text}");
        assert!(!text.contains("APPROVAL_REQUIRED"), "{text}");
    }
    let told = &value(&report)["agents"]["a"];
    assert_eq!((&told["rejected"], &told["waiting_for_approval"]), (&json!(4), &json!(4)));
    assert_eq!(told["rejected_by_code"], json!({"APPROVAL_REQUIRED": 4}));
}

#[test]
fn since_filter_keeps_older_standings() {
    let records = [
        standing(1, "c", StandingChange::Quarantined),
        standing(1, "d", StandingChange::Quarantined),
        standing(2, "d", StandingChange::Lifted),
        decision(3, "a", SEARCH, None),
        decision(10, "b", SEARCH, Some("ARGS_SCHEMA")),
    ];
    let told = value(&counted(&records, Some(at(10))));
    let agents: Vec<_> = told["agents"].as_object().unwrap().keys().collect();
    assert_eq!(agents, ["b", "c"], "{told}");
    assert_eq!((&told["total"]["accepted"], &told["total"]["rejected"]), (&json!(0), &json!(1)));
    assert_eq!(
        (&told["agents"]["c"]["alarm"]["quarantined"], &told["since"]),
        (&json!(true), &json!(at(10)))
    );
}

fn history(records: &[Record]) -> History {
    let mut history = History::new(AlarmRule::default(), None, Millis::from_secs(10));
    for (seq, record) in (1..).zip(records) {
        history.add(seq, record);
    }
    history
}

const LOOK: TerminalStyle = TerminalStyle { width: 60, height: 24, coloured: false };

#[test]
fn picture_has_a_block_for_each_interval() {
    let second = |second: u64, code| decision(second * 1_000, "a", SEARCH, code);
    let records = [
        second(0, None),
        second(9, Some("APPROVAL_REQUIRED")),
        second(10, None),
        second(19, Some("ARGS_SCHEMA")),
        second(40, Some("ARGS_SCHEMA")),
    ];
    let history = history(&records);
    let lines = picture(&history, at(55_000), LOOK);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("accepted in each 10s, newest on the right; 2023-11-14T"), "{lines:?}");
    assert!(lines[1].starts_with("a  ") && lines[1].ends_with("█▅  ▁    50.0%  alarm 24%"), "{lines:?}");
    // Half an interval later the blocks have moved.
    let later = picture(&history, at(60_000), LOOK);
    assert!(later[1].ends_with("█▅  ▁     50.0%  alarm 24%"), "{later:?}");
    let much_later = picture(&history, at(100_000_000), LOOK);
    assert!(much_later[1].ends_with("   -  alarm 24%"), "{much_later:?}");
    assert_eq!(
        picture(&super::history::History::new(AlarmRule::default(), None, Millis::from_secs(1)), at(0), LOOK)
            [1],
        "no decisions yet"
    );
}

#[test]
fn picture_fits_the_terminal() {
    let mut records = Vec::new();
    for agent in 0..40 {
        records.push(decision(agent, &format!("agent-with-a-rather-long-name-{agent:02}"), SEARCH, None));
    }
    records.push(decision(50, "Zoë\u{3042}", SEARCH, None));
    let history = history(&records);
    for (width, height) in [(200, 24), (80, 24), (60, 8), (30, 3), (10, 2), (1, 1), (0, 0)] {
        let lines = picture(&history, at(100), TerminalStyle { width, height, ..LOOK });
        assert!(lines.len() <= height.saturating_sub(1).max(2), "{width} {height}: {}", lines.len());
        for line in &lines {
            assert!(line.chars().count() < width.max(1), "{width} {height}: {line:?}");
            assert!(line.chars().all(|c| c.is_ascii() || "▁▂▃▄▅▆▇█".contains(c)), "{line:?}");
        }
    }
    assert!(picture(&history, at(100), LOOK).last().unwrap().starts_with("and 20 more"));
}

#[test]
fn agents_with_an_alarm_come_first_in_red() {
    let mut records: Vec<_> = (0..12).map(|at| decision(at, "z", SEARCH, Some("ARGS_SCHEMA"))).collect();
    records.push(decision(20, "a", SEARCH, None));
    records.push(standing(21, "m", StandingChange::Quarantined));
    let lines = picture(&history(&records), at(30), TerminalStyle { coloured: true, ..LOOK });
    assert!(lines[1].starts_with("\u{1b}[31mm ") && lines[1].ends_with("quarantined\u{1b}[0m"), "{lines:?}");
    assert!(lines[2].starts_with("\u{1b}[31mz ") && lines[2].contains("▁    0.0%  raised"), "{lines:?}");
    assert!(lines[3].starts_with("a ") && !lines[3].contains('\u{1b}'), "{lines:?}");
    let plain = picture(&history(&records), at(30), LOOK);
    assert!(plain.iter().all(|line| !line.contains('\u{1b}')), "{plain:?}");
}

#[test]
fn signal_is_drawn_with_the_interval_in_which_it_was_raised() {
    let records = [
        decision(1, "a", SEARCH, None),
        decision(2, "z", SEARCH, None),
        signal(3, "z", Signal::Undisclosed),
        signal(4, "z", Signal::Undisclosed),
        signal(5, "z", Signal::Asked),
    ];
    let look = TerminalStyle { width: 80, coloured: true, ..LOOK };
    let lines = picture(&history(&records), at(30), look);
    let wanted = "100.0%  alarm 0%, asked 1, undisclosed 2\u{1b}[0m";
    assert!(lines[1].starts_with("\u{1b}[31mz ") && lines[1].ends_with(wanted), "{lines:?}");
    assert!(lines[2].starts_with("a ") && lines[2].ends_with("alarm 0%"), "{lines:?}");
    // 80 columns cover 13 minutes.
    let later = picture(&history(&records), at(1_000_000), look);
    assert!(later.iter().all(|line| !line.contains("asked")), "{later:?}");
}

#[test]
fn signal_is_fresh_once() {
    let mut history = history(&[decision(1, "a", SEARCH, None), signal(3, "a", Signal::Asked)]);
    let told = |history: &mut History| super::watch::json_line(history, at(10));
    let first: Value = serde_json::from_str(&told(&mut history)).unwrap();
    assert_eq!(first["agents"]["a"]["signals"], json!({"asked": 1}), "{first}");
    assert!(history.add(3, &signal(11, "a", Signal::Undisclosed)));
    assert!(super::watch::line(&mut history, at(12)).ends_with("a - (0 of 0, alarm 0%, undisclosed 1)\n"));
    history.add(4, &decision(13, "a", SEARCH, None));
    let last: Value = serde_json::from_str(&told(&mut history)).unwrap();
    assert_eq!(last["agents"]["a"].get("signals"), None, "{last}");
}
