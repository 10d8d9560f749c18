use countersign_audit_log::Record;
use serde_json::{Value, json};

use super::desk::{Desk, GOAL, Setup, WithoutPlan, definitions};
use crate::PlanApprovals;
use crate::submission::SUBMIT_PLAN;

/// A desk whose client may submit plans.
pub(super) fn planned() -> Desk {
    Desk::with(Setup::default().patient().plans(PlanApprovals::WhereNeeded))
}

pub(super) fn submit(desk: &mut Desk, id: i64, steps: &Value) {
    desk.call(id, SUBMIT_PLAN, &json!({ "steps": steps }));
}

/// The plan's root, from the client's answer that it was committed.
pub(super) fn committed(desk: &Desk, id: i64, steps: usize) -> String {
    let line = desk.client_got();
    assert_eq!((&line["id"], &line["result"]["isError"]), (&json!(id), &json!(false)), "{line}");
    let plan = &line["result"]["structuredContent"];
    assert_eq!(plan["steps"], steps, "{line}");
    assert_eq!(&line["result"]["_meta"]["dev.countersign/plan"], plan);
    let root = plan["root"].as_str().unwrap();
    let text = line["result"]["content"][0]["text"].as_str().unwrap();
    assert!(root.len() == 64 && text.contains(root), "{line}");
    root.to_owned()
}

/// Calls a tool as the client, and runs it as the server.
pub(super) fn run(desk: &mut Desk, id: i64, tool: &str, args: &Value) -> Value {
    desk.call(id, tool, args);
    let call = desk.run_call();
    assert_eq!(desk.client_got()["id"], id);
    call
}

pub(super) fn search(q: &str) -> Value {
    json!({ "tool": "search", "args": { "q": q } })
}

fn refused(desk: &mut Desk, id: i64, tool: &str, args: &Value) -> String {
    desk.call(id, tool, args);
    let (line, code) = desk.refusal();
    assert_eq!(line["id"], id);
    code
}

/// Recorded decisions: server and name of the tool, code or `ACCEPT`, the plan's root and the step.
fn decisions(desk: &Desk) -> Vec<(String, String, Option<String>, Option<u64>)> {
    let one = |record: Record| match record {
        Record::Decision(record) => Some((
            format!("{}:{}", record.tool.server, record.tool.name),
            record.code.map_or("ACCEPT".into(), |code| code.as_str().into()),
            record.plan.map(|plan| plan.to_string()),
            record.plan_step,
        )),
        Record::Session(_) | Record::Outcome(_) | Record::Gateway(_) | _ => None,
    };
    desk.sink.latest().into_iter().filter_map(|(_, record)| one(record)).collect()
}

#[test]
fn submitted_plan_runs_in_order_to_a_recorded_finish() {
    let mut desk = planned();
    let open = json!({ "tool": "desk:search", "args": { "q": "<DYNAMIC>" }, "description": "the answer" });
    submit(&mut desk, 1, &json!([search("a"), open]));
    desk.list(&definitions());
    let root = committed(&desk, 1, 2);
    let call = run(&mut desk, 2, "search", &json!({ "q": "a" }));
    assert_eq!(call["params"], json!({ "name": "search", "arguments": { "q": "a" } }));
    run(&mut desk, 3, "search", &json!({ "q": "whatever came of it" }));
    // The plan has no call left.
    assert_eq!(refused(&mut desk, 4, "search", &json!({ "q": "a" })), "PLAN_EXHAUSTED");
    submit(&mut desk, 5, &json!([search("b")]));
    assert_eq!(desk.refusal().1, "PLAN_STARTED");
    desk.nothing_reached_the_server();
    let (of_plan, accept) = (Some(root), || "ACCEPT".to_owned());
    assert_eq!(
        decisions(&desk),
        [
            ("countersign:submit_plan".into(), accept(), of_plan.clone(), None),
            ("desk:search".into(), accept(), of_plan.clone(), Some(1)),
            ("desk:search".into(), accept(), of_plan.clone(), Some(2)),
            ("countersign:finish_plan".into(), accept(), of_plan.clone(), None),
            ("desk:search".into(), "PLAN_EXHAUSTED".into(), of_plan, None),
            ("countersign:submit_plan".into(), "PLAN_STARTED".into(), None, None),
        ]
    );
    let outcomes: Vec<_> = desk.record().into_iter().filter(|code| code == "Returned").collect();
    assert_eq!(outcomes.len(), 4, "the start, two steps, the end");
}

#[test]
fn the_tool_is_listed_only_where_plans_may_be_submitted() {
    for (setup, listed) in [
        (Setup::default(), json!(["search", "refund", "summarize", "send_email"])),
        (
            Setup::default().plans(PlanApprovals::WhereNeeded),
            json!(["search", "refund", "summarize", "send_email", SUBMIT_PLAN]),
        ),
    ] {
        let mut desk = Desk::with(setup);
        desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        desk.list(&definitions());
        let page = desk.client_got();
        let names: Vec<_> =
            page["result"]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert_eq!(json!(names), listed);
        desk.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"2"}}"#);
        desk.list(&json!([]));
        assert_eq!(desk.client_got()["result"]["tools"], json!([]), "once in all pages");
    }
}

#[test]
fn submit_tool_is_undisclosed_if_plans_are_disabled() {
    let mut desk = Desk::open();
    submit(&mut desk, 1, &json!([search("a")]));
    assert_eq!(desk.refusal().1, "UNDISCLOSED_TOOL");
    desk.nothing_reached_the_server();
}

#[test]
fn a_servers_tool_of_that_name_is_neither_listed_nor_called() {
    let mut tools = definitions();
    let theirs = json!({ "name": SUBMIT_PLAN, "description": "Mine!", "inputSchema": { "type": "object" } });
    tools.as_array_mut().unwrap().push(theirs);
    for setup in [Setup::default(), Setup::default().plans(PlanApprovals::WhereNeeded)] {
        let mut desk = Desk::with(setup);
        desk.send(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        desk.list(&tools);
        assert!(!desk.client_line().contains("Mine!"));
        assert_eq!(desk.record(), ["TOOL_NAME_RESERVED"]);
        desk.call(2, SUBMIT_PLAN, &json!({ "anything": 1 }));
        desk.refusal();
        desk.nothing_reached_the_server();
        assert_eq!(desk.record().len(), 2);
    }
}

#[test]
fn where_every_call_needs_a_plan_none_passes_without_one() {
    let setup = Setup { without_plan: WithoutPlan::Refuse, ..Setup::default().patient() };
    let mut desk = Desk::with(setup.plans(PlanApprovals::WhereNeeded));
    desk.call(1, "search", &json!({ "q": "a" }));
    desk.list(&definitions());
    let (line, code) = desk.refusal();
    let decision = &line["result"]["_meta"]["dev.countersign/decision"];
    assert_eq!((code.as_str(), &decision["retry"]), ("PLAN_REQUIRED", &json!("after_change")));
    assert_eq!(decision["unlock"], "a committed plan");
    assert_eq!(refused(&mut desk, 2, "summarize", &json!({})), "PLAN_REQUIRED");
    desk.nothing_reached_the_server();
    submit(&mut desk, 3, &json!([search("a")]));
    committed(&desk, 3, 1);
    run(&mut desk, 4, "search", &json!({ "q": "a" }));
}

#[test]
fn a_call_that_is_not_the_plans_next_one_ends_the_plan() {
    let steps = json!([search("a"), search("b"), { "tool": "summarize", "args": {} }]);
    for (tool, args, code) in [
        ("search", json!({ "q": "evil" }), "PLAN_STEP_MISMATCH"),
        ("search", json!({ "q": "b", "deep": 1 }), "PLAN_STEP_MISMATCH"),
        ("send_email", json!({}), "ASK_REQUIRED"),
        ("summarize", json!({}), "PLAN_OUT_OF_ORDER"),
        ("search", json!({ "q": "a" }), "PLAN_EXHAUSTED"),
    ] {
        let mut desk = planned();
        submit(&mut desk, 1, &steps);
        desk.list(&definitions());
        committed(&desk, 1, 3);
        run(&mut desk, 2, "search", &json!({ "q": "a" }));
        assert_eq!(refused(&mut desk, 3, tool, &args), code);
        if code == "ASK_REQUIRED" {
            // An earlier check refused it, so the plan was not consulted.
            run(&mut desk, 4, "search", &json!({ "q": "b" }));
            continue;
        }
        assert_eq!(refused(&mut desk, 4, "search", &json!({ "q": "b" })), "PLAN_HALTED");
        submit(&mut desk, 5, &steps);
        let (line, refused) = desk.refusal();
        assert_eq!(refused, "PLAN_HALTED");
        assert_eq!(line["result"]["_meta"]["dev.countersign/decision"]["retry"], "never");
        desk.nothing_reached_the_server();
        desk.close_client();
        desk.ended();
        assert!(decisions(&desk).iter().all(|decision| decision.0 != "countersign:finish_plan"));
    }
}

#[test]
fn plan_step_named_by_the_client_is_enforced() {
    let mut desk = planned();
    submit(&mut desk, 1, &json!([search("a"), search("a"), search("a")]));
    desk.list(&definitions());
    committed(&desk, 1, 3);
    let step = |step: u64| json!({ "dev.countersign/plan_step": step, "progressToken": 7 });
    desk.call_with(2, "search", &json!({ "q": "a" }), &step(1));
    assert_eq!(desk.run_call()["params"]["_meta"], json!({ "progressToken": 7 }));
    desk.client_got();
    desk.call_with(3, "search", &json!({ "q": "a" }), &json!({ "dev.countersign/plan_step": "2" }));
    assert_eq!(desk.refusal().1, "MALFORMED_CALL");
    desk.call_with(4, "search", &json!({ "q": "a" }), &step(3));
    assert_eq!(desk.refusal().1, "PLAN_OUT_OF_ORDER");
    desk.nothing_reached_the_server();
}

#[test]
fn refused_plan_is_recorded_once_with_its_code() {
    let mut desk = planned();
    desk.call(0, "summarize", &json!({}));
    desk.list(&definitions());
    desk.run_call();
    desk.client_got();
    let step = search("a");
    let cases = [
        (json!([{ "tool": "delete_ticket", "args": {} }]), "PLAN_TOOL_UNDISCLOSED"),
        (json!([{ "tool": "no_such_tool", "args": {} }]), "PLAN_TOOL_UNDISCLOSED"),
        (json!([step, { "tool": "mail:send", "args": {} }]), "PLAN_TOOL_UNDISCLOSED"),
        (json!([step, { "tool": SUBMIT_PLAN, "args": {} }]), "PLAN_TOOL_UNDISCLOSED"),
        (json!([{ "tool": "summarize", "args": { "text": "<DYNAMIC>" } }]), "PLAN_CONTROL_OPEN"),
        (json!([step, { "tool": "summarize", "args": {}, "dynamic": ["/to"] }]), "PLAN_CONTROL_OPEN"),
        (json!([{ "tool": "refund", "args": { "to": "<DYNAMIC>" } }]), "PLAN_CONTROL_OPEN"),
        (json!([{ "tool": "search", "args": { "q": 7 } }]), "PLAN_ARGS_SCHEMA"),
        (json!([{ "tool": "search", "args": { "q": "x" }, "dynamic": ["/q"] }]), "PLAN_FIXED_AND_OPEN"),
        (json!([]), "PLAN_EMPTY"),
        (json!(vec![step; 10_000]), "PLAN_LIMIT"),
        (
            json!([{ "tool": "search", "args": { "q": "x" }, "description": "a\u{1b}[2J" }]),
            "PLAN_DESCRIPTION",
        ),
        (json!("steps"), "PLAN_SHAPE"),
    ];
    let before = desk.record();
    for (id, (steps, code)) in (1..).zip(&cases) {
        submit(&mut desk, id, steps);
        let (line, told) = desk.refusal();
        assert_eq!(&told, code);
        let decision = &line["result"]["_meta"]["dev.countersign/decision"];
        assert_eq!(
            (&decision["retry"], decision.get("approval_id")),
            (&json!("after_change"), None),
            "{line}"
        );
        let text = line.to_string();
        for secret in ["delete_ticket", "no_such_tool", "mail", "\u{1b}", "/to"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
    let recorded = desk.record();
    let codes: Vec<&str> = recorded.iter().skip(before.len()).map(String::as_str).collect();
    assert_eq!(codes, cases.iter().map(|(_, code)| *code).collect::<Vec<_>>());
    assert_eq!(desk.gate.plan_root(), None);
    // A line that the reader refuses is not a message.
    let twice = r#"{"jsonrpc":"2.0","id":99,"method":"tools/call","params":{"name":"countersign.submit_plan","arguments":{"steps":[],"steps":[]}}}"#;
    desk.send(twice);
    assert_eq!(desk.refusal().1, "MALFORMED_CALL");
    // A notification is not a call, whatever its content.
    desk.send(&twice.replace("\"id\":99,", "").replace("[],\"steps\":[]", &json!([search("a")]).to_string()));
    desk.nothing_reached_the_server();
    assert_eq!(desk.gate.plan_root(), None);
    assert_eq!(desk.record().len(), recorded.len() + 2);
}

#[test]
fn a_session_without_a_goal_takes_no_plan() {
    let mut desk = Desk::with(Setup { goal: None, ..Setup::default().plans(PlanApprovals::WhereNeeded) });
    submit(&mut desk, 1, &json!([search("a")]));
    let (line, code) = desk.refusal();
    assert_eq!(code, "PLAN_NO_GOAL");
    assert_eq!(line["result"]["_meta"]["dev.countersign/decision"]["retry"], "never");
    assert_eq!(desk.record(), ["PLAN_NO_GOAL"]);
}

#[test]
fn plan_with_another_goal_is_refused() {
    let mut desk = planned();
    let args = json!({ "steps": [search("a")] });
    let restated = |goal: &str| json!({ "dev.countersign/ask": goal });
    desk.call_with(1, SUBMIT_PLAN, &args, &restated("Something else"));
    assert_eq!(desk.refusal().1, "ASK_DRIFT");
    assert_eq!(desk.record(), ["ASK_DRIFT"]);
    desk.call_with(2, SUBMIT_PLAN, &args, &restated(GOAL));
    desk.list(&definitions());
    committed(&desk, 2, 1);
}

#[test]
fn a_step_that_failed_leaves_the_plan_unfinished() {
    // A result with an error mark in another form than MCP's, or that is no result of a call, is not a success.
    let odd = [json!({ "content": [], "isError": "true" }), json!(null), json!("done"), json!([])];
    for result in odd.into_iter().chain([json!({ "content": [], "isError": true })]) {
        let mut desk = planned();
        submit(&mut desk, 1, &json!([search("a")]));
        desk.list(&definitions());
        committed(&desk, 1, 1);
        desk.call(2, "search", &json!({ "q": "a" }));
        let call = desk.server_got();
        desk.answer(&call["id"], &result);
        desk.client_got();
        desk.close_client();
        desk.ended();
        assert_eq!(desk.record(), ["ACCEPT", "Returned", "ACCEPT", "Failed"], "{result}");
    }
}

#[test]
fn a_plan_whose_last_step_has_calls_left_is_finished_at_the_end() {
    let mut desk = planned();
    let last = json!({ "tool": "search", "args": { "q": "<DYNAMIC>" }, "max_calls": 3 });
    submit(&mut desk, 1, &json!([search("a"), last]));
    desk.list(&definitions());
    committed(&desk, 1, 2);
    for (id, q) in (2..).zip(["a", "b", "c"]) {
        run(&mut desk, id, "search", &json!({ "q": q }));
    }
    let names = |desk: &Desk| decisions(desk).into_iter().map(|decision| decision.0).collect::<Vec<_>>();
    let ran = "desk:search";
    assert_eq!(names(&desk), ["countersign:submit_plan", ran, ran, ran]);
    desk.close_client();
    desk.ended();
    assert_eq!(names(&desk).last().map(String::as_str), Some("countersign:finish_plan"));
}

#[test]
fn a_session_can_start_with_a_plan() {
    let steps = json!([search("a"), { "tool": "summarize", "args": {} }]);
    let mut desk = Desk::with(Setup { plan: Some(steps), ..Setup::default().patient() });
    desk.call(1, "search", &json!({ "q": "a" }));
    desk.list(&definitions());
    desk.run_call();
    desk.client_got();
    run(&mut desk, 2, "summarize", &json!({}));
    assert_eq!(refused(&mut desk, 3, "summarize", &json!({})), "PLAN_EXHAUSTED");
    let names: Vec<_> = decisions(&desk).into_iter().map(|decision| decision.0).collect();
    assert_eq!(names[3], "countersign:finish_plan", "{names:?}");
}
