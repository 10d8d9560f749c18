use super::*;

fn read_plan(text: &str) -> Result<Plan, PlanError> {
    Plan::from_json(text.as_bytes(), &PlanLimits::default())
}

fn read_steps(text: &str) -> Result<Vec<Step>, PlanError> {
    Step::list_from_json(text.as_bytes(), &PlanLimits::default())
}

fn plan_json(steps: &str) -> String {
    let goal = Digest::of(b"goal");
    format!(r#"{{"recipe":"plan-1","goal":"{goal}","session":"s-1","registry_version":7,"steps":{steps}}}"#)
}

fn step_json(more: &str) -> String {
    format!(r#"[{{"tool":{{"server":"desk","name":"send"}},"args":{{"to":"bob"}}{more}}}]"#)
}

fn code(text: &str) -> (&'static str, Option<u64>) {
    let error = read_plan(text).unwrap_err();
    (error.code(), error.step())
}

#[test]
fn a_plan_is_read_and_written_in_one_form() {
    let text = plan_json(&step_json(r#","dynamic":["/body"],"max_calls":2.0,"description":"say \"so\"""#));
    let plan = read_plan(&text).unwrap();
    assert_eq!(plan.header().context(), &context());
    assert_eq!(plan.header().amends(), None);
    assert_eq!(plan.header().steps(), 1);
    let step = &plan.steps()[0];
    assert_eq!((step.tool(), step.max_calls(), step.description()), (&tool("send"), 2, Some("say \"so\"")));
    assert_eq!(step.args().as_str(), r#"{"body":"<DYNAMIC>","to":"bob"}"#);
    assert_eq!(step.open().iter().map(OpenPlace::as_str).collect::<Vec<_>>(), ["/body"]);
    let written = plan.to_json();
    assert_eq!(json(&written).as_str(), written, "the output is canonical");
    assert_eq!(read_plan(&written).unwrap(), plan);
}

#[test]
fn leaves_are_canonical_json() {
    let plan = Plan::new(context(), steps()).unwrap().amending(PlanRoot::from_digest(Digest::of(b"old")), 3);
    let header = plan.header().to_json();
    assert_eq!(json(&header).as_str(), header);
    assert_eq!(PlanHeader::from_json(header.as_bytes()).unwrap(), *plan.header());
    for (step, at) in plan.steps().iter().zip(1..) {
        let leaf = step.leaf(at, 3);
        assert_eq!(json(&leaf).as_str(), leaf);
    }
    let known = r#"{"index":1,"recipe":"plan-step-1","step":{"args":{"limit":10,"query":"ticket 7"},"max_calls":1,"tool":{"name":"search","server":"desk"}},"steps":3}"#;
    assert_eq!(plan.steps()[0].leaf(1, 3), known);
}

#[test]
fn header_of_an_amendment_is_read() {
    let root = Digest::of(b"old");
    let text = plan_json(&step_json(""));
    let amends = format!(r#"{{"amends":{{"root":"{root}","position":2}},{}"#, &text[1..]);
    let plan = read_plan(&amends).unwrap();
    let amends = plan.header().amends().unwrap();
    assert_eq!((amends.root().digest(), amends.position()), (root, 2));
    assert_eq!(read_plan(&plan.to_json()).unwrap(), plan);
    for amends in [
        "null".to_owned(),
        format!(r#"{{"root":"{root}"}}"#),
        format!(r#"{{"root":"{root}","position":-1}}"#),
        format!(r#"{{"root":"{root}","position":2,"approved":true}}"#),
    ] {
        assert_eq!(code(&format!(r#"{{"amends":{amends},{}"#, &text[1..])), ("PLAN_SHAPE", None), "{amends}");
    }
    let amends = r#"{"root":"F","position":2}"#;
    assert_eq!(code(&format!(r#"{{"amends":{amends},{}"#, &text[1..])), ("PLAN_ID", None));
}

#[test]
fn unknown_missing_and_repeated_members_are_refused() {
    let good = plan_json(&step_json(""));
    assert!(read_plan(&good).is_ok());
    assert_eq!(code(&good.replace(r#""session":"s-1","#, "")), ("PLAN_SHAPE", None));
    assert_eq!(code(&good.replace(r#""session":"#, r#""approved":true,"session":"#)), ("PLAN_SHAPE", None));
    assert_eq!(code(&good.replace(r#""session":"#, r#""session":"s-2","session":"#)), ("PLAN_JSON", None));
    assert_eq!(code(&good.replace(r#""s-1""#, "1")), ("PLAN_SHAPE", None));
    assert_eq!(code(&good.replace("plan-1", "plan-2")), ("PLAN_RECIPE", None));
    assert_eq!(code(&good.replace(r#"version":7"#, r#"version":-7"#)), ("PLAN_SHAPE", None));
    assert_eq!(code(&good.replace(r#"version":7"#, r#"version":7.5"#)), ("PLAN_SHAPE", None));
    assert_eq!(
        code(&good.replace(r#"version":7"#, r#"version":9007199254740992"#)),
        ("PLAN_REGISTRY_VERSION", None)
    );
    assert_eq!(code(&good.replace(r#""s-1""#, r#"" ""#)), ("PLAN_ID", None));
    assert_eq!(code(&good.replace(r#""goal":""#, r#""goal":"F"#)), ("PLAN_ID", None));
    assert_eq!(code(&good.replace(r#""tool":"#, r#""tool":null,"tools":"#)), ("PLAN_SHAPE", Some(1)));
    assert_eq!(code(&good.replace(r#""server":"desk","#, "")), ("PLAN_SHAPE", Some(1)));
    assert_eq!(code(&good.replace(r#""server":"desk""#, r#""server":"de sk""#)), ("PLAN_ID", Some(1)));
    assert_eq!(
        code(&good.replace(r#""server":"desk""#, r#""server":"desk","impact":"read""#)),
        ("PLAN_SHAPE", Some(1))
    );
    assert_eq!(code("[]"), ("PLAN_SHAPE", None));
    assert_eq!(code("{"), ("PLAN_JSON", None));
    assert_eq!(code(&plan_json("[]")), ("PLAN_EMPTY", None));
    assert_eq!(code(&plan_json("{}")), ("PLAN_SHAPE", None));
    assert_eq!(code(&plan_json("[7]")), ("PLAN_SHAPE", Some(1)));
    assert_eq!(code(&plan_json(&step_json(r#","id":"a""#))), ("PLAN_SHAPE", Some(1)));
}

#[test]
fn step_members_of_the_wrong_kind_are_refused() {
    let refused = |more: &str| {
        let error = read_steps(&step_json(more)).unwrap_err();
        assert_eq!(error.step(), Some(1), "{more}");
        error.code()
    };
    for calls in ["0", "1001", "1e9", "1e300"] {
        let code = refused(&format!(r#","max_calls":{calls}"#));
        assert!(["PLAN_MAX_CALLS", "PLAN_SHAPE"].contains(&code), "{calls}: {code}");
    }
    assert_eq!(refused(r#","max_calls":0"#), "PLAN_MAX_CALLS");
    assert_eq!(refused(r#","max_calls":"1""#), "PLAN_SHAPE");
    assert_eq!(refused(r#","max_calls":null"#), "PLAN_SHAPE");
    assert_eq!(refused(r#","description":7"#), "PLAN_SHAPE");
    assert_eq!(refused(",\"description\":\"pay\u{202e}bob\""), "PLAN_DESCRIPTION");
    assert_eq!(refused(r#","description":"a\nb""#), "PLAN_DESCRIPTION");
    let long = "x".repeat(1_025);
    assert_eq!(refused(&format!(r#","description":"{long}""#)), "PLAN_DESCRIPTION");
    assert!(read_steps(&step_json(&format!(r#","description":"{}""#, &long[1..]))).is_ok());
    assert_eq!(refused(r#","dynamic":"/body""#), "PLAN_SHAPE");
    assert_eq!(refused(r#","dynamic":[7]"#), "PLAN_SHAPE");
    assert_eq!(refused(r#","dynamic":null"#), "PLAN_SHAPE");
}

#[test]
fn arguments_are_an_object() {
    for args in ["[]", "null", "\"<DYNAMIC>\"", "7"] {
        assert_eq!(Step::new(tool("send"), args.as_bytes(), &[]).unwrap_err().code(), "PLAN_ARGS", "{args}");
    }
    assert_eq!(Step::new(tool("send"), b"{", &[]).unwrap_err().code(), "PLAN_JSON");
    assert_eq!(Step::new(tool("send"), br#"{"n":9007199254740993}"#, &[]).unwrap_err().code(), "PLAN_JSON");
}

#[test]
fn both_notations_of_an_open_place_are_equal() {
    let both = Step::new(tool("send"), br#"{"a":{"b":1},"c":"<DYNAMIC>"}"#, &["/c", "/a/~1~0"]).unwrap();
    assert_eq!(both.args().as_str(), r#"{"a":{"/~":"<DYNAMIC>","b":1},"c":"<DYNAMIC>"}"#);
    let marked = Step::new(tool("send"), both.args().bytes(), &[]).unwrap();
    assert_eq!(marked, both);
    assert_eq!(marked.open().iter().map(OpenPlace::as_str).collect::<Vec<_>>(), ["/a/~1~0", "/c"]);
    let listed = Step::new(tool("send"), br#"{"l":[1,"<DYNAMIC>"]}"#, &["/l/1"]).unwrap();
    assert_eq!(listed.open()[0].as_str(), "/l/1");
}

#[test]
fn a_place_that_cannot_be_left_open_is_refused() {
    let args = br#"{"a":{"b":1},"l":[1],"t":"text"}"#;
    let code = |open: &[&str]| Step::new(tool("send"), args, open).unwrap_err().code();
    assert_eq!(code(&[""]), "PLAN_OPEN_PLACE");
    assert_eq!(code(&["a"]), "PLAN_OPEN_PLACE");
    assert_eq!(code(&["/x~2"]), "PLAN_OPEN_PLACE");
    assert_eq!(code(&["/x\u{200b}"]), "PLAN_OPEN_PLACE");
    assert_eq!(code(&["/x", "/x"]), "PLAN_OPEN_PLACE");
    assert_eq!(code(&["/x", "/x/y"]), "PLAN_OPEN_PLACE");
    assert_eq!(code(&["/x/y", "/x"]), "PLAN_OPEN_PLACE");
    let open = Step::new(tool("send"), br#"{"c":"<DYNAMIC>"}"#, &["/c/d"]);
    assert_eq!(open.unwrap_err().code(), "PLAN_OPEN_PLACE");
    assert_eq!(code(&["/no/such"]), "PLAN_OPEN_PLACE");
    assert_eq!(code(&["/t/x"]), "PLAN_OPEN_PLACE");
    assert_eq!(code(&["/l/1"]), "PLAN_OPEN_PLACE");
    assert_eq!(code(&["/l/-"]), "PLAN_OPEN_PLACE");
    assert_eq!(code(&[&format!("/{}", "x".repeat(256))]), "PLAN_OPEN_PLACE");
    assert_eq!(code(&["/t"]), "PLAN_FIXED_AND_OPEN");
    assert_eq!(code(&["/a"]), "PLAN_FIXED_AND_OPEN");
    assert_eq!(code(&["/l/0"]), "PLAN_FIXED_AND_OPEN");
    let hidden = Step::new(tool("send"), "{\"a\u{200b}\":\"<DYNAMIC>\"}".as_bytes(), &[]);
    assert_eq!(hidden.unwrap_err().code(), "PLAN_OPEN_PLACE");
}

#[test]
fn a_plan_stays_within_its_limits() {
    let many = |count: usize| {
        let members: Vec<String> = (0..count).map(|at| format!(r#""a{at}":"<DYNAMIC>""#)).collect();
        Step::new(tool("send"), format!("{{{}}}", members.join(",")).as_bytes(), &[])
    };
    assert!(many(64).is_ok());
    assert_eq!(many(65).unwrap_err().code(), "PLAN_LIMIT");
    let places: Vec<String> = (0..65).map(|at| format!("/a{at}")).collect();
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    assert_eq!(Step::new(tool("send"), b"{}", &places).unwrap_err().code(), "PLAN_LIMIT");
    let one_place = [places[0]; 65];
    assert_eq!(
        Step::new(tool("send"), b"{}", &one_place).unwrap_err().code(),
        "PLAN_LIMIT",
        "the count is checked first"
    );

    let limits = PlanLimits::default().steps(2).unwrap();
    let one = r#"{"tool":{"server":"desk","name":"send"},"args":{}}"#;
    let list = |count: usize| format!("[{}]", vec![one; count].join(","));
    assert!(Step::list_from_json(list(2).as_bytes(), &limits).is_ok());
    let error = Step::list_from_json(list(3).as_bytes(), &limits).unwrap_err();
    assert_eq!((error.code(), error.step()), ("PLAN_LIMIT", None));
    assert_eq!(Plan::from_json(plan_json(&list(3)).as_bytes(), &limits).unwrap_err().code(), "PLAN_LIMIT");
    // More steps than the default width of lists: the error must be about the first step.
    let wide = format!("[{}0]", "0,".repeat(65_536));
    let limits = PlanLimits::default().steps(70_000).unwrap();
    let error = Step::list_from_json(wide.as_bytes(), &limits).unwrap_err();
    assert_eq!((error.code(), error.step()), ("PLAN_SHAPE", Some(1)));
    let limits = PlanLimits::default().bytes(99).unwrap();
    assert_eq!(Step::list_from_json(list(2).as_bytes(), &limits).unwrap_err().code(), "PLAN_LIMIT");
    let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(31), "]".repeat(31));
    assert!(read_steps(&list(1).replace("{}", &deep)).is_ok());
    assert!(read_plan(&plan_json(&list(1).replace("{}", &deep))).is_ok());
    let deeper = format!(r#"{{"a":{}1{}}}"#, "[".repeat(40), "]".repeat(40));
    assert_eq!(read_steps(&list(1).replace("{}", &deeper)).unwrap_err().code(), "PLAN_LIMIT");
    assert_eq!(PlanLimits::default().steps(1 << 21).unwrap_err().code(), "PLAN_LIMIT_OUT_OF_RANGE");
    assert_eq!(PlanLimits::default().bytes(1 << 40).unwrap_err().code(), "PLAN_LIMIT_OUT_OF_RANGE");
    assert_eq!(Plan::new(context(), Vec::new()).unwrap_err().code(), "PLAN_EMPTY");
}

#[test]
fn errors_contain_no_part_of_the_plan() {
    let error = read_steps(&step_json(r#","description":7,"secret-member":1"#)).unwrap_err();
    assert_eq!(error.to_string(), "step 1: a member is missing, unknown or of the wrong kind");
    let error = read_plan("{\"secret").unwrap_err();
    assert_eq!(error.to_string(), "the plan is not JSON that can be read in one way only");
    assert!(std::error::Error::source(&error).is_some());
}
