//! The operator's settings for plans, and the plan that a gateway starts with.

#![cfg(unix)]

use countersign_core::Digest;
use serde_json::{Value, json};

use crate::audit_log::FIRST;
use crate::mcp::{Client, decision};
use crate::mcp_plans::{SUBMIT, code, decisions, done, planned, reached, refund, search, submit, told};

#[test]
fn first_detour_ends_a_plan_given_at_start() {
    let bench = planned("file = \"plan.json\"");
    let open = json!({"tool": "search", "args": {}, "dynamic": ["/query"]});
    bench.write("plan.json", json!({"steps": [search("a"), open, search("c")]}).to_string());
    let mut client = Client::start(&bench);
    let listed = client.ask("tools/list", json!({})).to_string();
    assert!(!listed.contains(SUBMIT), "no plan may be submitted: {listed}");
    done(&client.call("search", json!({"query": "a"})));
    done(&client.call("search", json!({"query": "what the first one found"})));
    let refused = client.call("refund", json!({"id": 666}));
    assert_eq!((code(&refused), &decision(&refused)["retry"]), ("PLAN_STEP_MISMATCH", &json!("never")));
    assert_eq!(code(&client.call("search", json!({"query": "c"}))), "PLAN_HALTED");
    assert_eq!(client.end(), (0, String::new()));
    assert_eq!(reached(&bench).len(), 2);
    let ran = ("desk:search", "accept");
    assert_eq!(
        decisions(&bench),
        told(&[
            ("countersign:submit_plan", "accept"),
            ran,
            ran,
            ("desk:refund", "PLAN_STEP_MISMATCH"),
            ("desk:search", "PLAN_HALTED")
        ])
    );
    bench.verified();
    assert!(!bench.read(FIRST).contains("what the first"), "no argument is on record");
}

#[test]
fn completed_plan_is_recorded_as_finished() {
    let bench = planned("file = \"plan.json\"\nrule = \"always\"");
    bench.write("plan.json", json!({"steps": [search("a"), search("b")]}).to_string());
    let mut client = Client::start(&bench);
    let step = |query: &str, step: u64| json!({"name": "search", "arguments": {"query": query}, "_meta": {"dev.countersign/plan_step": step}});
    done(&client.ask("tools/call", step("a", 1))["result"]);
    done(&client.ask("tools/call", step("b", 2))["result"]);
    assert_eq!(code(&client.call("search", json!({"query": "b"}))), "PLAN_EXHAUSTED");
    client.end();
    let calls = bench.read("calls.txt");
    assert!(!calls.contains("plan_step") && reached(&bench).len() == 2, "{calls}");
    let names: Vec<_> = decisions(&bench).into_iter().map(|(tool, _)| tool).collect();
    assert_eq!(names[3], "countersign:finish_plan", "{names:?}");
}

#[test]
fn the_file_may_be_the_list_of_steps_that_the_plan_verbs_take() {
    let bench = planned("file = \"plan.json\"");
    bench.write("plan.json", json!([{"tool": "desk:search", "args": {"query": "a"}}]).to_string());
    bench.ok("plan lint plan.json");
    let mut client = Client::start(&bench);
    done(&client.call("search", json!({"query": "a"})));
    assert_eq!(client.end(), (0, String::new()));
}

#[test]
fn a_step_out_of_its_order_is_refused_and_ends_the_plan() {
    let bench = planned("file = \"plan.json\"");
    bench.write("plan.json", json!({"steps": [search("a"), search("b")]}).to_string());
    let mut client = Client::start(&bench);
    let refused = client.call("search", json!({"query": "b"}));
    assert_eq!((code(&refused), &decision(&refused)["retry"]), ("PLAN_OUT_OF_ORDER", &json!("never")));
    assert_eq!(code(&client.call("search", json!({"query": "a"}))), "PLAN_HALTED");
    client.end();
    assert!(reached(&bench).is_empty());
}

#[test]
fn plan_survives_as_many_breaches_as_the_operator_allows() {
    for (part, options) in
        [("on_breach = \"refuse\"\nbreaches = 3", ""), ("", "--on-breach refuse --breaches 3")]
    {
        let bench = planned(&format!("file = \"plan.json\"\n{part}"));
        bench.write("plan.json", json!({"steps": [search("a"), search("b"), search("c")]}).to_string());
        let mut client = Client::start_with(&bench, options);
        done(&client.call("search", json!({"query": "a"})));
        for _ in 0..2 {
            let refused = client.call("search", json!({"query": "c"}));
            assert_eq!(
                (code(&refused), &decision(&refused)["retry"]),
                ("PLAN_OUT_OF_ORDER", &json!("after_change"))
            );
        }
        done(&client.call("search", json!({"query": "b"})));
        let last = client.call("search", json!({"query": "b"}));
        assert_eq!((code(&last), &decision(&last)["retry"]), ("PLAN_EXHAUSTED", &json!("never")));
        assert_eq!(code(&client.call("search", json!({"query": "c"}))), "PLAN_HALTED");
        client.end();
        assert_eq!(reached(&bench).len(), 2);
    }
}

#[test]
fn plan_given_at_start_can_be_approved_in_advance() {
    let bench = planned("submit = true");
    // The gateway itself states the binding of the approval.
    let mut client = Client::start_with(&bench, "--session s-1");
    assert_eq!(code(&submit(&mut client, &json!([search("a"), refund(7)]))), "APPROVAL_REQUIRED");
    client.end();
    let waiting = bench.run("approve list --config gateway.toml --json").value()["pending"][0].clone();
    bench.write("plan.json", waiting["args"].as_str().unwrap());
    let root = waiting["plan"]["root"].as_str().unwrap().to_owned();
    let draft: Value = serde_json::from_str(&bench.read("draft.json")).unwrap();
    let definition = |name: &str| {
        let tool = draft["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        tool["definition"].as_str().unwrap().to_owned()
    };
    let known = json!({"desk": {"refund": definition("refund"), "search": definition("search")}}).to_string();
    let definitions = Digest::framed("countersign/plan-definitions-1").field(known.as_bytes()).finish();
    let session = bench.entries().swap_remove(0);
    let ask = session["ask"].as_str().unwrap();
    let mint = |session: &str| {
        bench.ok(&format!(
            "token mint --key-file gate.key --run {session} --call-id {root} --server countersign --tool submit_plan \
             --args plan.json --principal alice --session {session} --agent bot --audience desk \
             --definition {definitions} --ask {ask} --plan {root} --registry-version 1 --ttl 5m"
        ))
    };
    assert_eq!(session["session"], "s-1");
    bench.write("plan.token", mint("s-1"));
    bench.write("other.token", mint("s-2"));

    let with = |token: &str| format!("--session s-1 --plan-file plan.json --plan-approval {token}");
    let run = |options: &str| bench.run(&format!("mcp run --config gateway.toml {options} -- sh server.sh"));
    let refused = run(&with("other.token"));
    assert!(refused.code == 3 && refused.err.starts_with("error APPROVAL_INVALID: "), "{refused:?}");
    let refused = run("--plan-file plan.json");
    assert!(refused.code == 3 && refused.err.contains("PLAN_OTHER_SESSION"), "{refused:?}");

    let mut client = Client::start_with(&bench, &with("plan.token"));
    done(&client.call("search", json!({"query": "a"})));
    done(&client.call("refund", json!({"id": 7})));
    assert_eq!(client.end(), (0, String::new()));
    assert_eq!(reached(&bench).len(), 2);
    // The approval is good for one start.
    let refused = run(&with("plan.token"));
    assert!(refused.code == 3 && refused.err.starts_with("error APPROVAL_SPENT: "), "{refused:?}");
}

#[test]
fn bad_plan_settings_create_no_file() {
    let bench = planned("PART");
    let good = bench.read("gateway.toml");
    bench.write("plan.json", json!({"steps": [search("a")]}).to_string());
    bench.write("plan.token", "cs1.a.b");
    let fails = |part: &str, change: &dyn Fn(&str) -> String, options: &str, exit: i32, code: &str| {
        bench.write("gateway.toml", change(&good.replace("PART", part)));
        let before = bench.snapshot();
        let run = bench.run(&format!("mcp run --config gateway.toml {options} -- sh server.sh"));
        assert_eq!((run.code, run.out.as_str()), (exit, ""), "{part} {options}: {run:?}");
        assert!(
            run.err.starts_with(&format!("error {code}: ")) && run.err.lines().count() == 1,
            "{part}: {run:?}"
        );
        assert_eq!(bench.snapshot(), before, "{part}");
    };
    let as_is = |text: &str| text.to_owned();
    let no_goal = |text: &str| text.replace("goal = \"Help alice\"\n", "");
    let no_approvals = |text: &str| {
        let (before, after) = text.split_once("[approval]").unwrap();
        format!("{before}{}", &after[after.find("[plan]").unwrap()..])
    };
    for part in
        ["rule = \"sometimes\"", "submit = 1", "approve = \"all\"", "approve = true", "files = \"plan.json\""]
    {
        fails(part, &as_is, "", 1, "CONFIG_MALFORMED");
    }
    fails("submit = true", &no_goal, "", 1, "CONFIG_NO_GOAL");
    fails("file = \"plan.json\"", &no_goal, "", 1, "CONFIG_NO_GOAL");
    fails("", &no_goal, "--plan-submit", 1, "CONFIG_NO_GOAL");
    fails("rule = \"always\"", &as_is, "", 1, "CONFIG_CONFLICT");
    fails("", &as_is, "--plan-rule always", 1, "CONFIG_CONFLICT");
    fails("approve = \"whole\"", &as_is, "", 1, "CONFIG_CONFLICT");
    fails("approval_file = \"plan.token\"", &as_is, "--session s", 1, "CONFIG_CONFLICT");
    fails("file = \"plan.json\"\napprove = \"whole\"", &as_is, "", 1, "CONFIG_CONFLICT");
    fails("file = \"plan.json\"\napproval_file = \"plan.token\"", &as_is, "", 1, "CONFIG_CONFLICT");
    fails("submit = true\napprove = \"whole\"", &no_approvals, "", 1, "CONFIG_NO_APPROVALS");
    fails(
        "file = \"plan.json\"\napproval_file = \"plan.token\"",
        &no_approvals,
        "--session s",
        1,
        "CONFIG_NO_APPROVALS",
    );
    fails("submit = true", &|text| text.replace("\"desk\"", "\"countersign\""), "", 1, "GATEWAY_SERVER");
    fails("breaches = 3", &as_is, "", 1, "CONFIG_CONFLICT");
    fails("on_breach = \"refuse\"", &as_is, "--on-breach halt --breaches 3", 1, "CONFIG_CONFLICT");
    fails("on_breach = \"refuse\"\nbreaches = 0", &as_is, "", 1, "PLAN_BREACHES_OUT_OF_RANGE");
    fails("on_breach = \"go on\"", &as_is, "", 1, "CONFIG_MALFORMED");
    fails("", &as_is, "--plan-rule sometimes", 2, "USAGE");
    fails("file = \"none.json\"", &as_is, "", 1, "FILE_MISSING");
    fails("", &as_is, "--plan-file none.json", 1, "FILE_MISSING");
    fails("file = \"plan.json\"\napproval_file = \"none\"", &as_is, "--session s", 1, "FILE_MISSING");
    for (plan, exit, code) in [
        ("{".to_owned(), 1, "PLAN_JSON"),
        ("{}".to_owned(), 1, "PLAN_SHAPE"),
        (json!({"steps": []}).to_string(), 1, "PLAN_EMPTY"),
        (json!({"steps": [{"tool": "wipe", "args": {}}]}).to_string(), 3, "PLAN_TOOL_UNDISCLOSED"),
        (json!({"steps": [{"tool": "mail:send", "args": {}}]}).to_string(), 3, "PLAN_TOOL_UNDISCLOSED"),
        (
            json!({"steps": [{"tool": "refund", "args": {}, "dynamic": ["/to"]}]}).to_string(),
            3,
            "PLAN_CONTROL_OPEN",
        ),
    ] {
        bench.write("plan.json", plan);
        fails("file = \"plan.json\"", &as_is, "", exit, code);
    }
}

#[test]
fn plan_options_act_like_the_configuration() {
    let bench = planned("");
    let mut client = Client::start_with(&bench, "--plan-submit --plan-rule always --plan-approve whole");
    assert_eq!(code(&client.call("refund", json!({"id": 7}))), "PLAN_REQUIRED");
    assert_eq!(code(&submit(&mut client, &json!([search("a")]))), "APPROVAL_REQUIRED");
    client.end();
}
