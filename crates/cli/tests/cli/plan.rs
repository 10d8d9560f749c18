use serde_json::{Value, json};

use crate::bench::{Bench, Run};
use crate::desk;

pub(crate) const REGISTRY: &str = "--registry reg.json --trust-root root.json --agent support-bot";

/// Returns the desk with a tool for mail, whose text is data, and one that needs an approval of each call.
pub(crate) fn open() -> Bench {
    let bench = desk::open();
    let mut draft = desk::draft();
    let mail = json!({
        "type": "object",
        "properties": {"to": {"type": "string"}, "body": {"type": "string"}, "tags": {"type": "array"}},
        "required": ["to", "body"], "additionalProperties": false
    });
    let tool = |name: &str, approval: &str| {
        json!({
            "server": "desk", "name": name, "impact": "external", "approval": approval, "ask": "not_required",
            "args_schema": mail, "data_args": ["/body", "/tags"],
            "constraints": [{"kind": "email_domain", "at": "/to", "domains": ["customers.example"]}]
        })
    };
    let tools = draft["tools"].as_array_mut().unwrap();
    tools.extend([tool("mail", "required"), tool("wire", "each_call")]);
    let listed = draft["agents"][0]["tools"].as_array_mut().unwrap();
    listed.extend(["mail", "wire"].map(|name| json!({"server": "desk", "name": name})));
    desk::sign(&bench, &draft, "reg.json");
    bench
}

/// Returns two steps: a search, and a mail with an open text.
pub(crate) fn steps() -> Value {
    json!([
        {"tool": "desk:search", "args": {"query": "T-1"}, "description": "what is asked"},
        {"tool": {"server": "desk", "name": "mail"}, "args": {"to": "ada@customers.example"}, "dynamic": ["/body"]},
    ])
}

/// Returns the desk with the steps in `steps.json` and the whole plan in `plan.json`, and the plan's root.
pub(crate) fn committed() -> (Bench, String) {
    let bench = open();
    bench.write("steps.json", steps().to_string());
    let told = bench
        .run(&format!("plan commit steps.json {REGISTRY} --goal Help --session s1 --out plan.json --json"))
        .value();
    (bench, told["root"].as_str().unwrap().to_owned())
}

fn whole(bench: &Bench) -> Value {
    serde_json::from_str(&bench.read("plan.json")).unwrap()
}

fn findings(run: &Run) -> Vec<(u64, String)> {
    let told: Value = serde_json::from_str(&run.out).unwrap();
    let findings = told["findings"].as_array().unwrap().iter();
    findings
        .map(|found| (found["step"].as_u64().unwrap(), found["code"].as_str().unwrap().to_owned()))
        .collect()
}

#[test]
fn a_plan_has_one_root_whatever_form_its_file_has() {
    let (bench, root) = committed();
    let list = steps();
    bench.write("object.json", json!({"steps": list}).to_string());
    let context = "--goal Help --session s1";
    for line in [
        format!("plan commit steps.json {REGISTRY} {context}"),
        format!("plan commit object.json {REGISTRY} {context}"),
        format!("plan commit plan.json {REGISTRY}"),
        format!("plan commit plan.json {REGISTRY} {context}"),
        format!("plan show object.json {context} --registry-version 1"),
        "plan show plan.json".to_owned(),
    ] {
        assert!(bench.ok(&line).starts_with(&format!("root     {root}\n")), "{line}");
    }
    let fed = bench.feed(&format!("plan commit - {REGISTRY} {context} --json"), &list.to_string()).value();
    assert_eq!(fed["root"], root);
    assert_eq!(
        (&fed["steps"], &fed["approval"], &fed["approval_each_call"]),
        (&json!(2), &json!([2]), &json!([]))
    );
    assert_eq!((&fed["session"], &fed["registry_version"]), (&json!("s1"), &json!(1)));
    // Another goal or another session makes another plan.
    for other in ["--goal Hinder --session s1", "--goal Help --session s2"] {
        let told = bench.run(&format!("plan commit steps.json {REGISTRY} {other} --json")).value();
        assert_ne!(told["root"], root, "{other}");
    }
    let fresh = format!("plan commit steps.json {REGISTRY} --goal Help --json");
    assert_ne!(bench.run(&fresh).value()["session"], bench.run(&fresh).value()["session"]);
}

#[test]
fn plan_verbs_refuse_missing_or_conflicting_context() {
    let (bench, _) = committed();
    for line in [
        "plan show steps.json",
        "plan show steps.json --goal Help --session s1",
        "plan show plan.json --goal Help",
        "plan prove steps.json --step 1",
        "plan prove plan.json",
        "plan prove plan.json --step 1 --header",
        "plan commit plan.json",
        "plan commit plan.json --registry reg.json",
        "plan lint plan.json --goal Help",
        &format!("plan commit steps.json {REGISTRY}"),
        &format!("plan commit plan.json {REGISTRY} --force"),
    ] {
        bench.fails(line, 2, "USAGE");
    }
    bench.fails(&format!("plan commit plan.json {REGISTRY} --session s2"), 3, "PLAN_OTHER_SESSION");
    bench.fails(&format!("plan commit plan.json {REGISTRY} --goal Hinder"), 3, "PLAN_OTHER_GOAL");
    bench.fails(&format!("plan lint plan.json {REGISTRY} --goal Hinder"), 3, "PLAN_OTHER_GOAL");
    bench.fails(
        "plan show steps.json --goal Help --session s1 --registry-version 9007199254740992",
        1,
        "PLAN_REGISTRY_VERSION",
    );
    let mut draft = desk::draft();
    draft["version"] = json!(2);
    desk::sign(&bench, &draft, "reg.json");
    bench.fails(&format!("plan commit plan.json {REGISTRY}"), 3, "PLAN_OTHER_REGISTRY");
}

#[test]
fn a_plan_is_written_whole_or_not_at_all() {
    let (bench, root) = committed();
    bench.fails(&format!("plan commit steps.json {REGISTRY} --goal Help --out plan.json"), 1, "FILE_EXISTS");
    bench.ok(&format!("plan commit plan.json {REGISTRY} -o plan.json --force"));
    assert!(bench.ok("plan show plan.json").contains(&root));
    bench.fails(
        &format!("plan commit steps.json {REGISTRY} --goal Help --out no/plan.json"),
        1,
        "FILE_UNWRITABLE",
    );
}

#[test]
fn lint_names_every_step_that_is_not_allowed() {
    let bench = open();
    let lint = |steps: Value, more: &str| {
        bench.write("p.json", steps.to_string());
        bench.run(&format!("plan lint p.json {more} --json"))
    };
    let good = lint(steps(), REGISTRY);
    assert_eq!((good.code, findings(&good)), (0, vec![]));
    let bad = json!([
        {"tool": "desk:delete", "args": {}},
        {"tool": "desk:search", "args": {"query": "x"}},
        {"tool": "desk:mail", "args": {"to": "<DYNAMIC>", "body": "x"}},
        {"tool": "desk:mail", "args": {"to": "eve@elsewhere.example", "body": "x"}},
        {"tool": "desk:search", "args": {"query": 7}},
        {"tool": "nowhere:search", "args": {}},
    ]);
    let run = lint(bad.clone(), REGISTRY);
    let expected = [
        (1, "PLAN_TOOL_UNDISCLOSED"),
        (3, "PLAN_CONTROL_OPEN"),
        (4, "PLAN_ARGS_SCHEMA"),
        (5, "PLAN_ARGS_SCHEMA"),
        (6, "PLAN_TOOL_UNDISCLOSED"),
    ];
    assert_eq!(
        (run.code, findings(&run)),
        (3, expected.map(|(step, code)| (step, code.to_owned())).to_vec())
    );
    let text = bench.run(&format!("plan lint p.json {REGISTRY}"));
    assert_eq!((text.code, text.out.lines().count()), (3, 5), "{text:?}");
    assert!(
        text.out
            .contains("step 4 desk:mail PLAN_ARGS_SCHEMA: the argument at `/to` does not fit the constraint")
    );
    assert!(!text.out.contains("eve@"), "{text:?}");
    // Without a registry, the lint checks only the form; with fewer tools, the others count as undisclosed.
    assert_eq!(lint(bad, "").code, 0);
    let fewer = lint(steps(), &format!("{REGISTRY} --tools search"));
    assert_eq!(findings(&fewer), [(2, "PLAN_TOOL_UNDISCLOSED".to_owned())]);
    // A plan that fails the lint is not committed.
    bench.write("p.json", json!([{"tool": "desk:delete", "args": {}}]).to_string());
    bench.fails(
        &format!("plan commit p.json {REGISTRY} --goal Help --out no.json"),
        3,
        "PLAN_TOOL_UNDISCLOSED",
    );
}

#[test]
fn a_plans_file_is_read_strictly() {
    let (bench, _) = committed();
    let whole = whole(&bench);
    let with = |name: &str, value: Value| {
        let mut plan = whole.clone();
        plan[name] = value;
        plan.to_string()
    };
    let step = |step: Value| json!([step]).to_string();
    let ok = json!({"tool": "desk:search", "args": {}});
    let and = |name: &str, value: Value| {
        let mut step = ok.clone();
        step[name] = value;
        json!([step]).to_string()
    };
    for (text, code) in [
        (String::new(), "PLAN_JSON"),
        ("x".to_owned(), "PLAN_JSON"),
        ("{}".to_owned(), "PLAN_SHAPE"),
        ("7".to_owned(), "PLAN_SHAPE"),
        ("[]".to_owned(), "PLAN_EMPTY"),
        (r#"{"steps":[]}"#.to_owned(), "PLAN_EMPTY"),
        (r#"{"steps":{}}"#.to_owned(), "PLAN_SHAPE"),
        (r#"{"steps":[{"tool":"desk:search","args":{},"args":{}}]}"#.to_owned(), "PLAN_JSON"),
        (format!("{}x", steps()), "PLAN_JSON"),
        (" ".repeat(10 << 20), "PLAN_LIMIT"),
        (format!("[{}]", " ".repeat(10 << 20)), "PLAN_LIMIT"),
        (step(json!("desk:search")), "PLAN_SHAPE"),
        (step(json!({"tool": "search", "args": {}})), "PLAN_SHAPE"),
        (step(json!({"tool": "de sk:search", "args": {}})), "PLAN_ID"),
        (step(json!({"tool": "desk:search"})), "PLAN_SHAPE"),
        (step(json!({"tool": "desk:search", "args": []})), "PLAN_ARGS"),
        (and("extra", json!(1)), "PLAN_SHAPE"),
        (and("max_calls", json!(0)), "PLAN_MAX_CALLS"),
        (and("dynamic", json!(["body"])), "PLAN_OPEN_PLACE"),
        (and("description", json!("x\u{1b}[2J")), "PLAN_DESCRIPTION"),
        (and("description", json!("x\u{202e}")), "PLAN_DESCRIPTION"),
        (json!(vec![ok.clone(); 1_025]).to_string(), "PLAN_LIMIT"),
        (with("recipe", json!("plan-2")), "PLAN_RECIPE"),
        (with("session", json!("")), "PLAN_ID"),
        (with("extra", json!(1)), "PLAN_SHAPE"),
    ] {
        for verb in ["plan show -", "plan commit -", "plan prove - --step 1"] {
            let more = if verb.starts_with("plan commit") { REGISTRY } else { "" };
            let line = format!("{verb} {more}");
            bench.fails_with(&line.split_whitespace().collect::<Vec<_>>(), &text, 1, code);
        }
        bench.fails_with(&["plan", "lint", "-"], &text, 3, code);
    }
    bench.fails("plan lint nowhere.json", 1, "FILE_MISSING");
    let second = json!([ok, {"tool": "desk:search", "args": {}, "max_calls": 0}]);
    let run = bench.feed("plan lint -", &second.to_string());
    assert_eq!(
        run.err,
        "error PLAN_MAX_CALLS: step 2: a step may be called once or more, and at most 1,000 times\n"
    );
}

#[test]
fn plan_show_draws_the_tree_with_open_arguments() {
    let (bench, root) = committed();
    let text = bench.ok("plan show plan.json");
    for part in [
        &format!("root     {root}\n"),
        "session  s1\nregistry 1\n",
        &format!("\n{}  leaves 0 to 2\n├─ ", &root[..12]),
        "leaf 0  the header\n",
        "leaf 2  step 2: desk:mail\n",
        "step 1  desk:search  once\n  for    \"what is asked\"\n  fixed  \"/query\" = \"T-1\"\n",
        "step 2  desk:mail  once\n  fixed  \"/to\" = \"ada@customers.example\"\n  open   \"/body\"\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let told = bench.run("plan show plan.json --json").value();
    assert_eq!(
        (&told["root"], &told["tree"]["hash"], &told["checked"]),
        (&json!(root), &json!(root), &json!(false))
    );
    assert_eq!(told["steps"][1]["open"], json!(["/body"]));
    assert_eq!(told["steps"][1]["fixed"], json!(["/to"]));
    assert_eq!(told["tree"]["halves"][1]["first"], 2);
}

#[test]
fn shown_plan_escapes_invisible_characters() {
    let bench = Bench::new();
    let steps = json!([
        {"tool": "a:b", "args": {"x\u{1b}[2J": "y\u{202e}z", "n": [], "~/": {"0": [null, "<DYNAMIC>"]}},
         "description": "a\u{a0}b", "max_calls": 2},
        {"tool": "a:b", "args": {}},
    ]);
    let text = bench.feed("plan show - --goal g --session s --registry-version 1", &steps.to_string()).done();
    assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{a0}']), "{text}");
    for part in [
        r#"fixed  "/x\u001b[2J" = "y\u202ez""#,
        r#"fixed  "/n" = []"#,
        r#"fixed  "/~0~1/0/0" = null"#,
        r#"open   "/~0~1/0/1""#,
        r#"for    "a\u00a0b""#,
        "a:b  once to 2 times",
        "no arguments",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_registry_shows_which_tools_need_an_approval_of_each_call() {
    let bench = open();
    let text = bench.ok("registry show reg.json");
    assert!(text.contains("tool desk:wire (external): needs an approval of each call;"), "{text}");
    assert!(text.contains("tool desk:mail (external): needs an approval;"), "{text}");
    bench.write(
        "p.json",
        json!([{"tool": "desk:wire", "args": {"to": "ada@customers.example", "body": "x"}}]).to_string(),
    );
    let text = bench.ok(&format!("plan commit p.json {REGISTRY} --goal Help"));
    assert!(text.contains("\napproval of each call, for steps 1\n"), "{text}");
}

#[test]
fn commit_asks_no_approval_for_a_step_of_a_branch() {
    let bench = open();
    let mut draft: Value = bench.run("registry show reg.json --json").value()["registry"].clone();
    for member in ["issued", "expires"] {
        draft.as_object_mut().unwrap().remove(member);
    }
    let domain = json!({"kind": "email_domain", "at": "/to", "domains": ["customers.example"]});
    let no_body = json!({"kind": "path_within", "at": "/body", "roots": ["plain"]});
    for tool in draft["tools"].as_array_mut().unwrap() {
        match tool["name"].as_str().unwrap() {
            "mail" => tool["approval"] = json!({"rule": "required", "unless": [[domain, no_body]]}),
            "wire" => tool["approval"] = json!({"rule": "each_call", "unless": [[no_body]]}),
            _ => {}
        }
    }
    desk::sign(&bench, &draft, "branched.json");
    let step =
        |tool: &str, body: &str| json!({"tool": tool, "args": {"to": "ada@customers.example", "body": body}});
    let mut open_body = step("desk:mail", "");
    open_body["args"].as_object_mut().unwrap().remove("body");
    open_body["dynamic"] = json!(["/body"]);
    let steps = json!([
        step("desk:mail", "plain/x"),
        step("desk:mail", "other"),
        open_body,
        step("desk:wire", "plain"),
        step("desk:wire", "x"),
    ]);
    bench.write("branched_steps.json", steps.to_string());
    let registry = REGISTRY.replace("reg.json", "branched.json");
    let report = bench
        .run(&format!("plan commit branched_steps.json {registry} --goal Help --session s1 --json"))
        .value();
    assert_eq!(
        (&report["approval"], &report["approval_each_call"]),
        (&json!([2, 3]), &json!([5])),
        "{report}"
    );
}
