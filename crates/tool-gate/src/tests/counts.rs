use std::sync::Arc;

use super::world::*;
use crate::*;
use countersign_audit_log::AuditSink;
use countersign_core::*;
use proptest::prelude::*;

#[test]
fn before_the_first_call_there_is_no_rate() {
    let world = World::new();
    let gate = world.gate();
    assert_eq!(gate.acceptance_rate(Window::All), None);
    assert_eq!(gate.stats().overall().acceptance_rate(Window::All), None);
    assert_eq!(gate.acceptance_rate(Window::Last(10)), None);
}

#[test]
fn the_rate_is_over_all_calls_or_over_a_window() {
    let world = World::new();
    let gate = world.gate();
    for _ in 0..3 {
        assert_eq!(code(&gate, &search("c")), None);
    }
    world.clock.advance(Millis::from_secs(60)).unwrap();
    assert!(code(&gate, &ToolCall::new("c", "desk", "none", b"{}")).is_some());
    let now = world.clock.now().unwrap();
    assert_eq!(gate.acceptance_rate(Window::All), Some(0.75));
    assert_eq!(gate.acceptance_rate(Window::Last(2)), Some(0.5));
    assert_eq!(gate.acceptance_rate(Window::last_span(Millis::from_secs(30), now)), Some(0.0));
    assert_eq!(gate.acceptance_rate(Window::Last(0)), None);
}

#[test]
fn window_covers_the_last_1024_decisions() {
    let world = World::new();
    let gate = world.gate();
    for _ in 0..10 {
        assert_eq!(code(&gate, &search("c")), None);
    }
    for _ in 0..1_024 {
        assert!(code(&gate, &ToolCall::new("c", "desk", "none", b"{}")).is_some());
    }
    assert_eq!(gate.acceptance_rate(Window::Last(usize::MAX)), Some(0.0));
    assert_eq!(gate.acceptance_rate(Window::Since(start())), Some(0.0));
    assert_eq!(gate.counts().accepted(), 10, "the counts are exact all the same");
}

#[test]
fn pending_call_plus_approved_retry_is_one_in_the_rate() {
    let world = World::new();
    let gate = world.gate();
    let token = world.approve(&gate, &refund("c"));
    assert_eq!(gate.acceptance_rate(Window::All), None);
    assert_eq!(code(&gate, &refund("c").approval(token.as_str())), None);
    assert_eq!(gate.acceptance_rate(Window::All), Some(1.0));
    assert_eq!(gate.acceptance_rate(Window::Last(5)), Some(1.0));
    assert_eq!((gate.counts().total(), gate.counts().rejected()), (2, 1), "the record still has both");
}

#[test]
fn pending_call_is_one_decision_once_it_is_answered() {
    let world = World::new();
    let gate = world.gate();
    let agent = AgentId::new("support-bot").unwrap();
    let level = || gate.stats().snapshot().agents[0].alarm_level;
    let token = world.approve(&gate, &refund("c1"));
    for _ in 0..3 {
        assert_eq!(code(&gate, &refund("c1")), Some(RejectionCode::ApprovalRequired));
    }
    assert_eq!(code(&gate, &refund("c1").approval(token.as_str())), None);
    let counts = gate.counts();
    assert_eq!((counts.total(), counts.pending(), counts.decided(), counts.accepted()), (5, 4, 1, 1));

    let other = ToolCall::new("c2", "desk", "refund", br#"{"ticket":"T-2","amount":5}"#);
    for _ in 0..3 {
        assert_eq!(code(&gate, &other), Some(RejectionCode::ApprovalRequired));
    }
    assert_eq!((counts.decided(), level()), (1, 0.0), "it is not decided, and not held against the agent");
    assert_eq!(code(&gate, &other.clone().denied()), Some(RejectionCode::ApprovalDenied));
    assert_eq!((counts.total(), counts.pending(), counts.decided()), (9, 7, 2));
    assert_eq!(counts.rejected_with(RejectionCode::ApprovalDenied), 1);
    assert_eq!(gate.acceptance_rate(Window::Last(10)), Some(0.5));
    assert!(level() > 0.0, "a person refused what the agent wanted");
    for _ in 0..8 {
        assert_eq!(code(&gate, &other.clone().denied()), Some(RejectionCode::ApprovalDenied));
    }
    assert_eq!((counts.decided(), gate.stats().alarm_state(&agent)), (10, AlarmState::Raised));
    assert_eq!(gate.stats().agent(&agent).unwrap().snapshot(), counts.snapshot());
}

#[test]
fn sessions_share_agent_and_overall_counts() {
    let world = World::new();
    let stats = Arc::new(CallStats::new());
    let open = |session| {
        let sink = Arc::clone(&world.sink) as Arc<dyn AuditSink>;
        world.builder_for(session, sink).stats(Arc::clone(&stats)).open().unwrap()
    };
    let (first, second) = (open("session-1"), open("session-2"));
    assert_eq!(code(&first, &search("c")), None);
    assert!(code(&second, &ToolCall::new("c", "desk", "none", b"{}")).is_some());
    let agent = AgentId::new("support-bot").unwrap();
    assert_eq!(stats.agents(), vec![agent.clone()]);
    assert_eq!(stats.agent(&agent).unwrap().acceptance_rate(Window::All), Some(0.5));
    assert_eq!(stats.overall().total(), 2);
    assert_eq!(first.acceptance_rate(Window::All), Some(1.0));
    assert_eq!(second.acceptance_rate(Window::All), Some(0.0));
}

#[test]
fn the_call_log_and_the_names_tried_are_bounded() {
    let world = World::new();
    let gate = world.full().limits(GateLimits::default().recent_records(10)).open().unwrap();
    for n in 0..200 {
        let name = format!("tool_{n}");
        assert!(code(&gate, &ToolCall::new("c", "desk", &name, b"{}")).is_some());
    }
    let log = gate.call_log();
    let names: Vec<_> = log.iter().map(|record| record.tool.name.as_str()).collect();
    assert_eq!(names, (190..200).map(|n| format!("tool_{n}")).collect::<Vec<_>>());
    let tried = gate.attempted_undisclosed();
    assert_eq!((tried.count(), tried.recent().len()), (200, 64));
    assert_eq!(tried.recent().last().unwrap(), "desk:tool_199");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn accepted_and_rejected_make_the_total_under_any_interleaving(
        plans in prop::collection::vec(prop::collection::vec(0u8..5, 1..40), 1..5),
    ) {
        let world = World::new();
        let gate = world.gate();
        let wanted: usize = plans.iter().map(Vec::len).sum();
        let accepted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = plans.iter().map(|plan| {
                let gate = &gate;
                scope.spawn(move || plan.iter().filter(|kind| {
                    let call = match kind {
                        0 => search("c"),
                        1 => ToolCall::new("c", "desk", "scarce", b"{}"),
                        2 => ToolCall::new("c", "desk", "none", b"{}"),
                        3 => ToolCall::new("c", "desk", "search", b"["),
                        _ => refund("c"),
                    };
                    code(gate, &call).is_none()
                }).count())
            }).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        let counts = gate.counts();
        prop_assert_eq!(counts.accepted(), accepted as u64);
        prop_assert_eq!(counts.accepted() + counts.rejected(), wanted as u64);
        prop_assert_eq!(counts.total(), wanted as u64);
        prop_assert_eq!(gate.stats().overall().total(), wanted as u64);
        let by_code: u64 = RejectionCode::ALL.iter().map(|code| counts.rejected_with(*code)).sum();
        prop_assert_eq!(by_code, counts.rejected());
    }
}
