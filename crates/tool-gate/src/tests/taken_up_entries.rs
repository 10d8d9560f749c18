//! An alarm takes up only the entries that a gate counted when it recorded them.

use std::sync::Arc;

use super::plan_world::{plan_of, run, step};
use super::signals::{agent, capped, misfit};
use super::taken_up::{Host, level};
use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_audit_log::StandingChange::Lifted;
use countersign_audit_log::{
    AuditSink, CallRecord, Record, RecordedTool, SessionRecord, StandingRecord, Verdict,
};
use countersign_core::*;

/// A recorded decision about a call of the agent.
fn decision(id: &str, tool: (&str, &str), code: Option<RejectionCode>) -> CallRecord {
    let (session, principal) = (SessionId::new("s").unwrap(), Principal::new("p").unwrap());
    let verdict = if code.is_some() { Verdict::Reject } else { Verdict::Accept };
    let tool = RecordedTool::new(tool.0, tool.1);
    let mut call = CallRecord::new(start(), session, agent(), principal, id, tool, verdict, 1);
    call.code = code.map(|code| code.as_str().into());
    call
}

#[test]
fn foreign_or_unopened_sessions_do_not_move_the_alarm() {
    let host = Host::new(AlarmAction::Flag);
    drop(host.session(9));
    let mut records = host.records();
    let level_of = |records: &[Record], agent: &AgentId| {
        let stats = host.stats();
        stats.take_up(agent, records.iter().cloned().map(Ok::<_, QuarantineError>)).unwrap();
        stats.snapshot().agents[0].alarm_level
    };
    let now = host.world.clock.now().unwrap();
    let session = |agent: AgentId| {
        let (session, principal) = (SessionId::new("s").unwrap(), Principal::new("p").unwrap());
        SessionRecord::new(now, session, agent, principal, 1, Vec::new(), now)
    };
    let refused = |agent: AgentId| {
        let mut call = decision("c", ("desk", "search"), Some(ArgsSchema));
        (call.agent, call.time) = (agent, now);
        Record::Decision(call)
    };
    assert_eq!(level_of(&records, &capped()), 0.0);
    // Neither record resets the agent's alarm, which would then count the refusals that follow.
    let mut not_begun = session(agent());
    not_begun.code = Some("AGENT_REVOKED".into());
    records.extend([Record::Session(not_begun), Record::Session(session(capped())), refused(agent())]);
    assert_eq!(level_of(&records, &agent()), 0.0);
    records.extend([refused(capped()), Record::Session(session(agent())), refused(agent())]);
    let lifted = StandingRecord::new(now, capped(), Lifted, "ada");
    records.push(Record::Standing(lifted));
    assert!((level_of(&records, &agent()) - level(1)).abs() < 1e-9);
    assert!((level_of(&records[..records.len() - 1], &capped()) - level(1)).abs() < 1e-9);
}

/// Continues from the record in a new process, and compares it with the process that made the record.
fn assert_replayed(host: &Host, live: &CallStats) {
    let taken_up = host.try_take_up().unwrap().snapshot().agents[0].alarm_level;
    assert_eq!(taken_up, live.snapshot().agents[0].alarm_level);
}

#[test]
fn plan_entries_are_not_replayed_as_calls() {
    let host = Host { store: None, ..Host::new(AlarmAction::Flag) };
    let stats = Arc::new(host.stats());
    let builder = host.world.builder_with(Arc::clone(&host.sink) as Arc<dyn AuditSink>);
    let spent = Arc::clone(&host.world.spent) as Arc<dyn SpentTokens>;
    let builder = builder.pinned_ask(host.world.pin()).approvals(host.world.settings(spent));
    let gate = builder.stats(Arc::clone(&stats)).open().unwrap();
    for call in ["a", "b", "c"] {
        assert_eq!(code(&gate, &misfit(call)), Some(ArgsSchema));
    }
    let one = || plan_of(&gate, vec![step("search", r#"{"query":"T-1001"}"#)]);
    let asked = gate.plan_approval_request(&one()).unwrap();
    for _ in 0..3 {
        let refused = gate.start_plan(PlanSettings::new(one()).approval("rubbish")).unwrap_err();
        assert_eq!(refused.code(), "APPROVAL_INVALID");
        assert_eq!(gate.refuse_plan(&asked, Some("ada")).code(), "APPROVAL_DENIED");
        assert_replayed(&host, &stats);
    }
    gate.start_plan(PlanSettings::new(one())).unwrap();
    assert!((stats.snapshot().agents[0].alarm_level - level(3)).abs() < 1e-9, "none of it counts");
    assert_replayed(&host, &stats);
    assert_eq!(run(&gate, &search("d"), "nothing"), None);
    drop(gate.finish_plan().unwrap());
    assert!(stats.snapshot().agents[0].alarm_level < level(3), "the step is a call");
    assert_replayed(&host, &stats);
    let planned = host.world.planned();
    planned.halt_plan("OVER").unwrap();
    let halt = last_decision(&host.world);
    host.sink.record(&Record::Decision(halt)).unwrap();
    assert_replayed(&host, &stats);
}

#[test]
fn calls_named_like_plans_are_counted() {
    let host = Host { store: None, ..Host::new(AlarmAction::Flag) };
    let stats = Arc::new(host.stats());
    let builder = host.world.builder_with(Arc::clone(&host.sink) as Arc<dyn AuditSink>);
    let gate = builder.pinned_ask(host.world.pin()).stats(Arc::clone(&stats)).open().unwrap();
    let root = gate.start_plan(PlanSettings::new(plan_of(&gate, vec![step("search", "{}")]))).unwrap();
    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(2_000_000));
    let root = root.to_string();
    for (calls, (id, name)) in
        (1..).zip([("plan", "submit_plan"), (&root, "finish_plan"), (&root, "halt_plan")])
    {
        for args in [large.as_bytes(), b"{}"] {
            assert!(gate.check(&ToolCall::new(id, PLAN_TOOL.0, name, args)).is_err());
        }
        let told = stats.snapshot().agents[0].alarm_level;
        assert!((told - level(2 * calls)).abs() < 1e-9, "{name}: {told}");
        assert_replayed(&host, &stats);
    }
}
