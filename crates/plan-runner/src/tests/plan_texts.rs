use proptest::prelude::*;

use super::world::*;
use crate::*;

fn parse(text: &str) -> Result<Option<PlanText>, PlanTextError> {
    PlanText::parse(text, &RunLimits::default())
}

fn code(text: &str) -> &'static str {
    parse(text).err().map_or("", |error| error.code())
}

const STEP: &str = r#"{"id":1,"tool":"desk:send","args":{"to":"bob"},"description":"greet"}"#;

fn with(steps: &str) -> String {
    format!(r#"<planthenexecute>{{"goal":"g","steps":[{steps}]}}"#)
}

#[test]
fn every_member_of_a_plan_is_parsed() {
    let text = r#"  <planthenexecute>
      {"goal": "Greet", "steps": [
        {"id": 1, "tool": "desk:send", "args": {"to": "bob", "body": "<DYNAMIC>"}, "description": "greet"},
        {"id": 2, "tool": "log", "args": {}, "description": "", "max_calls": 3}]}
    </planthenexecute>
    "#;
    let plan = parse(text).unwrap().unwrap();
    assert_eq!(plan.goal(), "Greet");
    let [first, second] = plan.steps() else { panic!("two steps") };
    assert_eq!((first.tool().to_string().as_str(), first.max_calls()), ("desk:send", 1));
    assert_eq!((first.description(), first.args().as_str()), ("greet", r#"{"body":"<DYNAMIC>","to":"bob"}"#));
    assert_eq!((second.tool().server(), second.max_calls()), (None, 3));
}

#[test]
fn a_text_without_the_token_is_an_answer() {
    for text in
        ["", "Hello.", "{\"goal\":1}", "</planthenexecute>", "<PlanThenExecute>{}", "< planthenexecute>"]
    {
        assert_eq!(parse(text), Ok(None), "{text}");
    }
}

#[test]
fn second_token_or_text_around_the_plan_is_refused() {
    assert_eq!(code(&with(STEP)), "", "the closing token is optional");
    for (text, expected) in [
        (format!("Sure! {}", with(STEP)), "PLAN_TEXT_BEFORE_TOKEN"),
        (format!("{0}{0}", with(STEP)), "PLAN_TEXT_TOKEN"),
        (format!("<planthenexecute>{}", with(STEP)), "PLAN_TEXT_TOKEN"),
        (format!("</planthenexecute>{}", with(STEP)), "PLAN_TEXT_TOKEN"),
        (format!("{}</planthenexecute></planthenexecute>", with(STEP)), "PLAN_TEXT_TOKEN"),
        (format!("{}</planthenexecute> Done.", with(STEP)), "PLAN_TEXT_TOKEN"),
        (format!("{} Done.", with(STEP)), "PLAN_TEXT_JSON"),
        (with(STEP).replace("greet", "<planthenexecute>"), "PLAN_TEXT_TOKEN"),
        (with(STEP).replace("greet", "</planthenexecute>"), "PLAN_TEXT_TOKEN"),
        ("<planthenexecute>".to_owned(), "PLAN_TEXT_JSON"),
        ("<planthenexecute>```json\n{}\n```".to_owned(), "PLAN_TEXT_JSON"),
    ] {
        assert_eq!(code(&text), expected, "{text}");
    }
    let escaped = with(STEP).replace("greet", "\\u003cplanthenexecute>");
    assert_eq!(parse(&escaped).unwrap().unwrap().steps()[0].description(), PLAN_TOKEN);
}

#[test]
fn each_member_is_known_there_once_and_of_its_kind() {
    for (text, expected) in [
        ("<planthenexecute>[]".to_owned(), "PLAN_TEXT_SHAPE"),
        (r#"<planthenexecute>{"goal":"g"}"#.to_owned(), "PLAN_TEXT_SHAPE"),
        (format!(r#"<planthenexecute>{{"steps":[{STEP}]}}"#), "PLAN_TEXT_SHAPE"),
        (format!(r#"<planthenexecute>{{"goal":7,"steps":[{STEP}]}}"#), "PLAN_TEXT_SHAPE"),
        (format!(r#"<planthenexecute>{{"goal":"g","steps":{STEP}}}"#), "PLAN_TEXT_SHAPE"),
        (format!(r#"<planthenexecute>{{"goal":"g","approved":true,"steps":[{STEP}]}}"#), "PLAN_TEXT_SHAPE"),
        (format!(r#"<planthenexecute>{{"goal":"g","goal":"g","steps":[{STEP}]}}"#), "PLAN_TEXT_JSON"),
        (with(""), "PLAN_TEXT_STEPS"),
        (with("7"), "PLAN_TEXT_SHAPE"),
        (with(&STEP.replace("\"id\":1", "\"id\":1,\"dynamic\":[]")), "PLAN_TEXT_SHAPE"),
        (with(&STEP.replace("\"id\":1,", "")), "PLAN_TEXT_SHAPE"),
        (with(&STEP.replace("\"id\":1", "\"id\":\"1\"")), "PLAN_TEXT_SHAPE"),
        (with(&STEP.replace("\"id\":1", "\"id\":0")), "PLAN_TEXT_STEP_ID"),
        (with(&STEP.replace("\"id\":1", "\"id\":2")), "PLAN_TEXT_STEP_ID"),
        (with(&format!("{STEP},{STEP}")), "PLAN_TEXT_STEP_ID"),
        (with(&STEP.replace("desk:send", "desk:mail:send")), "PLAN_TEXT_TOOL"),
        (with(&STEP.replace("desk:send", "")), "PLAN_TEXT_TOOL"),
        (with(&STEP.replace("\"desk:send\"", "{\"name\":\"send\"}")), "PLAN_TEXT_SHAPE"),
        (with(&STEP.replace("{\"to\":\"bob\"}", "[]")), "PLAN_TEXT_SHAPE"),
        (with(&STEP.replace("\"to\":\"bob\"", "\"to\":\"bob\",\"t\\u006f\":\"eve\"")), "PLAN_TEXT_JSON"),
        (with(&STEP.replace(",\"description\":\"greet\"", "")), "PLAN_TEXT_SHAPE"),
        (with(&STEP.replace("\"greet\"", "null")), "PLAN_TEXT_SHAPE"),
        (with(&STEP.replace("\"greet\"", "\"greet\",\"max_calls\":-1")), "PLAN_TEXT_SHAPE"),
        (with(&STEP.replace("\"greet\"", "\"greet\",\"max_calls\":9007199254740993")), "PLAN_TEXT_JSON"),
    ] {
        assert_eq!(code(&text), expected, "{text}");
    }
}

#[test]
fn a_step_that_no_plan_can_have_is_named_by_its_number() {
    let world = World::new();
    let gate = world.gate();
    let steps = |step: &str| {
        let text = with(&format!("{STEP},{step}").replace("desk:send", "desk:send_mail"));
        parse(&text)
            .unwrap()
            .unwrap()
            .to_steps(&gate.contract())
            .map_err(|error| (error.code(), error.step()))
    };
    let second = |members: &str| steps(&format!(r#"{{"id":2,"tool":"note","args":{{}},{members}}}"#));
    assert_eq!(second(r#""description":"""#).unwrap().len(), 2);
    assert_eq!(second("\"description\":\"a\u{202e}b\"").unwrap_err(), ("PLAN_DESCRIPTION", Some(2)));
    assert_eq!(second(r#""description":"","max_calls":1001"#).unwrap_err(), ("PLAN_MAX_CALLS", Some(2)));
    let unknown = steps(r#"{"id":2,"tool":"nothing","args":{},"description":""}"#);
    assert_eq!(unknown.unwrap_err(), ("PLAN_TEXT_TOOL_UNKNOWN", Some(2)));
}

#[test]
fn parse_error_never_shows_the_text() {
    for text in
        [with(&STEP.replace("desk:send", "s3cret tool")), with("s3cret"), format!("s3cret {}", with(STEP))]
    {
        let error = parse(&text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"));
    }
}

/// A plan's JSON with strings that a model could write.
fn written() -> impl Strategy<Value = (String, Vec<(String, String, String, u32)>)> {
    let text = prop_oneof![
        "\\PC{0,12}",
        Just(PLAN_TOKEN.to_owned()),
        Just(PLAN_END_TOKEN.to_owned()),
        Just("a\"\\\n\u{1}b".to_owned()),
    ];
    let name = "([a-z]{1,5}:)?[a-z_]{1,8}";
    (text.clone(), proptest::collection::vec((name, text.clone(), text, 1..1_000_u32), 1..5))
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap().replace('<', "\\u003c")
}

proptest! {
    #[test]
    fn printed_plan_parses_to_the_same_plan((goal, steps) in written()) {
        let json: Vec<String> = steps.iter().zip(1..).map(|((tool, arg, description, calls), id)| format!(
            r#"{{"id":{id},"tool":"{tool}","args":{{"a":{}}},"description":{},"max_calls":{calls}}}"#,
            quoted(arg), quoted(description),
        )).collect();
        let text = format!(r#"<planthenexecute>{{"goal":{},"steps":[{}]}}"#, quoted(&goal), json.join(","));
        let plan = parse(&text).unwrap().unwrap();
        prop_assert_eq!(plan.goal(), goal);
        for (read, (tool, arg, description, calls)) in plan.steps().iter().zip(&steps) {
            prop_assert_eq!(&read.tool().to_string(), tool);
            prop_assert_eq!(read.args().value().get("a").and_then(|a| a.as_str()), Some(arg.as_str()));
            prop_assert_eq!((read.description(), read.max_calls()), (description.as_str(), *calls));
        }
        prop_assert_eq!(parse(&plan.to_string()).unwrap(), Some(plan));
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        let _ = parse(&text);
        let _ = parse(&format!("{PLAN_TOKEN}{text}"));
        let _ = parse(&with(&text));
        let _ = parse(&with(&format!("{STEP},{{\"id\":2,{text}}}")));
    }

    #[test]
    fn a_plan_with_bytes_changed_is_a_plan_or_an_error(at in 0..100_usize, byte in any::<u8>()) {
        let mut bytes = with(STEP).into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }
}
