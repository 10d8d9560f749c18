use super::world::*;
use crate::RejectionCode::*;
use crate::*;
use countersign_core::*;

#[test]
fn accepted_call_runs_with_its_parsed_arguments() {
    let world = World::new();
    let gate = world.gate();
    let call = ToolCall::new("c1", "desk", "search", br#" { "query" : "\u0054-1001" } "#);
    let seen = gate.check(&call).unwrap().run(|args| Ok::<_, ()>(args.as_str().to_owned())).unwrap();
    assert_eq!(seen, r#"{"query":"T-1001"}"#);
}

#[test]
fn every_code_is_listed_once_in_the_order_of_its_step() {
    let steps: Vec<u8> = RejectionCode::ALL.iter().map(|code| code.step()).collect();
    assert!(steps.is_sorted());
    let mut texts: Vec<&str> = RejectionCode::ALL.iter().map(|code| code.as_str()).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), RejectionCode::ALL.len());
    for (place, code) in RejectionCode::ALL.iter().enumerate() {
        assert_eq!(*code as usize, place, "a code's counter is found by its place");
    }
}

#[test]
fn ill_formed_call_is_malformed() {
    let world = World::new();
    let gate = world.gate();
    let long = "x".repeat(257);
    for call in [
        ToolCall::new("", "desk", "search", SEARCH),
        ToolCall::new("a\nb", "desk", "search", SEARCH),
        ToolCall::new(&long, "desk", "search", SEARCH),
        ToolCall::new("c", "desk", "se arch", SEARCH),
        ToolCall::new("c", "de:sk", "search", SEARCH),
        ToolCall::new("c", "desk", "search", b""),
        ToolCall::new("c", "desk", "search", b"[]"),
        ToolCall::new("c", "desk", "search", b"null"),
        ToolCall::new("c", "desk", "search", b"{} {}"),
        ToolCall::new("c", "desk", "search", br#"{"query":"a","query":"b"}"#),
        ToolCall::new("c", "desk", "search", b"{\"query\":\"\xff\"}"),
        search("c").request_id("\u{202e}"),
    ] {
        assert_eq!(code(&gate, &call), Some(MalformedCall), "{call:?}");
    }
}

#[test]
fn oversized_call_exceeds_a_limit() {
    let world = World::new();
    let gate = world.gate();
    let deep = format!("{{\"query\":{}{}}}", "[".repeat(40), "]".repeat(40));
    let large = format!("{{\"query\":\"{}\"}}", "x".repeat(2 << 20));
    let wide = format!("{{\"query\":[{}0]}}", "0,".repeat(70_000));
    for args in [deep, large, wide] {
        assert_eq!(code(&gate, &ToolCall::new("c", "desk", "search", args.as_bytes())), Some(LimitExceeded));
    }
    let many = (0..9).fold(refund("c"), |call, _| call.approval("cs1.a.b"));
    assert_eq!(code(&gate, &many), Some(LimitExceeded));
}

#[test]
fn agent_or_contract_is_checked_before_the_tool() {
    let world = World::new();
    let gate = world.gate();
    let unknown = ToolCall::new("c", "desk", "no_such_tool", b"{}");
    assert_eq!(code(&gate, &unknown), Some(UndisclosedTool));
    world.reload(2, r#"{"agents": ["support-bot"], "keys": [], "snapshots": []}"#);
    assert_eq!(code(&gate, &unknown), Some(AgentRevoked));

    let world = World::new();
    let gate = world.gate();
    world.clock.advance(hour()).unwrap();
    assert_eq!(code(&gate, &search("c")), Some(ContractExpired), "at the moment of expiry it is over");
}

#[test]
fn a_stale_registry_refuses_everything() {
    let world = World::new();
    let gate = world.gate();
    world.registry.reload(&sign(2, NONE_REVOKED, Millis::from_secs(60)), start()).unwrap();
    assert_eq!(code(&gate, &search("c")), None);
    world.clock.advance(Millis::from_secs(60)).unwrap();
    assert_eq!(code(&gate, &search("c")), Some(RegistryStale));
}

#[test]
fn a_revoked_agents_arguments_are_not_read() {
    let world = World::new();
    let gate = world.gate();
    world.reload(2, r#"{"agents": ["support-bot"], "keys": [], "snapshots": []}"#);
    let large = format!("{{\"query\":\"{}\"}}", "x".repeat(2 << 20));
    for args in [SEARCH, b"{", b"[]", large.as_bytes()] {
        let call = ToolCall::new("c", "desk", "search", args).proposal(b"{").plan_proof(b"{");
        assert_eq!(code(&gate, &call), Some(AgentRevoked));
        assert_eq!(last_decision(&world).args, None);
    }
    assert_eq!(
        code(&gate, &ToolCall::new("", "desk", "search", SEARCH)),
        Some(MalformedCall),
        "ids come first"
    );
}

#[test]
fn an_undisclosed_tools_arguments_are_not_read() {
    let world = World::new();
    let gate = world.gate();
    let large = format!("{{\"query\":\"{}\"}}", "x".repeat(2 << 20));
    let tokens = |call| (0..9).fold(call, |call: ToolCall<'_>, _| call.approval("cs1.a.b"));
    for args in [SEARCH, b"{", b"[]", large.as_bytes()] {
        let call = ToolCall::new("c", "desk", "no_such_tool", args).proposal(b"{").plan_proof(b"{");
        assert_eq!(code(&gate, &tokens(call)), Some(UndisclosedTool));
        assert_eq!(last_decision(&world).args, None);
    }
    let read = countersign_canonical_json::read(SEARCH, crate::rules::ARGS_RECIPE, &Default::default());
    let args = CallArgs::new(read.unwrap());
    assert_eq!(code(&gate, &ToolCall::from_read("c", None, "no_such_tool", &args)), Some(UndisclosedTool));
    assert_eq!(last_decision(&world).args, None, "nor is a value that the host has read digested");
}

#[test]
fn malformed_call_of_a_disclosed_tool_is_recorded_by_name() {
    let world = World::new();
    let gate = world.gate();
    assert_eq!(code(&gate, &ToolCall::by_name("c", "search", b"{")), Some(MalformedCall));
    let record = last_decision(&world);
    assert_eq!((record.tool.server.as_str(), record.tool.name.as_str()), ("desk", "search"));
}

#[test]
fn after_a_sessions_end_arguments_are_not_read() {
    let world = World::new();
    let gate = world.gate();
    world.clock.advance(Millis::from_secs(3_600)).unwrap();
    assert_eq!(code(&gate, &ToolCall::new("c", "desk", "search", b"{")), Some(ContractExpired));
    assert_eq!(last_decision(&world).args, None);
}

#[test]
fn a_pinned_definition_must_have_been_seen_and_be_equal() {
    let world = World::new();
    let gate = world.gate();
    let call = ToolCall::new("c", "desk", "pinned", b"{}");
    let tool = ToolId::new("desk", "pinned").unwrap();
    assert_eq!(code(&gate, &call), Some(ToolDefinitionUnknown), "not seen yet");
    gate.note_definition(&tool, Digest::of(b"the pinned definition"));
    assert_eq!(code(&gate, &call), None);
    gate.note_definition(&tool, Digest::of(b"a rug pull"));
    assert_eq!(code(&gate, &call), Some(ToolDefinitionChanged));
    gate.note_definition(&tool, Digest::of(b"the pinned definition"));
    gate.forget_definition(&tool);
    assert_eq!(code(&gate, &call), Some(ToolDefinitionUnknown), "not seen any more");
    let log = gate.call_log();
    let reasons: Vec<_> =
        log.iter().filter_map(|record| record.reason.as_ref()).map(|r| r.as_str()).collect();
    let (unseen, other) = ("the server's definition was not seen", "the server's definition is another one");
    assert_eq!(reasons, [unseen, other, unseen]);
}

#[test]
fn calls_and_rate_are_used_up_by_accepted_calls_alone() {
    let world = World::new();
    let refuse = |call: &CheckedCall<'_>| {
        if call.args().value().get("refuse").is_some() { Err("no".to_owned()) } else { Ok(()) }
    };
    let gate = world.full().user_check("refuse", refuse).open().unwrap();
    let call = ToolCall::new("c", "desk", "scarce", b"{}");
    let refused = ToolCall::new("c", "desk", "scarce", br#"{"refuse":1}"#);
    for _ in 0..5 {
        assert_eq!(code(&gate, &refused), Some(CheckRefused));
    }
    assert_eq!(code(&gate, &call), None);
    assert_eq!(code(&gate, &call), None);
    assert_eq!(code(&gate, &call), Some(RateLimit));
    world.clock.advance(Millis::from_secs(60)).unwrap();
    assert_eq!(code(&gate, &call), None);
    assert_eq!(code(&gate, &call), Some(CallLimit));
}

#[test]
fn a_gate_does_not_open_with_the_goal_of_another_session() {
    let world = World::new();
    let sink = std::sync::Arc::clone(&world.sink);
    let opened = world.builder_for("session-2", sink).pinned_ask(world.pin()).open();
    assert_eq!(opened.unwrap_err().code(), "ASK_OTHER_SESSION");
}

#[test]
fn expired_pin_refuses_every_call() {
    let world = World::new();
    let gate = world.gate();
    let call = ToolCall::new("c", "desk", "asking", b"{}");
    world.clock.advance(Millis::from_secs(1_800)).unwrap();
    assert_eq!(code(&gate, &call.ask(GOAL)), Some(AskExpired));
    assert_eq!(
        code(&gate, &search("c")),
        Some(AskExpired),
        "a dead pin refuses even where no goal is asked for"
    );
}

#[test]
fn missing_approvals_pin_or_clock_refuses() {
    let world = World::new();
    let gate = world.bare().open().unwrap();
    assert_eq!(code(&gate, &refund("c")), Some(ApprovalRequired), "no approvals are taken");
    assert_eq!(
        code(&gate, &ToolCall::new("c", "desk", "asking", b"{}").ask(GOAL)),
        Some(AskRequired),
        "no pin"
    );
    assert_eq!(code(&gate, &search("c").ask(GOAL)), Some(AskRequired), "nothing to hold a goal against");
    world.clock.break_down();
    assert_eq!(code(&gate, &search("c")), Some(Internal), "no time");
}

#[test]
fn the_first_check_that_fails_gives_the_code() {
    let world = World::new();
    let gate = world.full().user_check("no", |_: &CheckedCall<'_>| Err("no".to_owned())).open().unwrap();
    // One call that is wrong in every way; fixing one fault at a time walks down the order.
    let call = |name, args| ToolCall::new("c", "desk", name, args);
    assert_eq!(code(&gate, &call("no thing", b"{" as &[u8]).ask("x")), Some(MalformedCall));
    assert_eq!(code(&gate, &call("nothing", b"{").ask("x")), Some(UndisclosedTool));
    assert_eq!(code(&gate, &call("pinned", b"{").ask("x")), Some(MalformedCall));
    assert_eq!(code(&gate, &call("pinned", b"{}").ask("x")), Some(ToolDefinitionUnknown));
    assert_eq!(code(&gate, &call("refund", b"{}").ask("x")), Some(ArgsSchema));
    assert_eq!(code(&gate, &call("refund", REFUND).ask("x")), Some(AskDrift));
    assert_eq!(code(&gate, &call("refund", REFUND)), Some(ApprovalRequired));
    let token = world.approve(&gate, &refund("c"));
    assert_eq!(code(&gate, &refund("c").approval(token.as_str())), Some(CheckRefused));
    assert_eq!(code(&gate, &search("c")), Some(CheckRefused));
}
