use super::*;

/// The reason why a call does not match the step.
fn refusal(planned: &str, called: &str) -> Result<(), &'static str> {
    step("send", planned).admit(&tool("send"), &json(called)).map_err(|breach| {
        assert_eq!(breach.code(), "PLAN_STEP_MISMATCH");
        breach.reason()
    })
}

#[test]
fn fixed_arguments_have_to_be_equal() {
    let planned = r#"{"a":1,"b":[true,null],"c":{"d":"x"}}"#;
    assert_eq!(refusal(planned, r#"{"c":{"d":"x"},"b":[true,null],"a":1.0}"#), Ok(()));
    for called in [
        r#"{"a":2,"b":[true,null],"c":{"d":"x"}}"#,
        r#"{"a":"1","b":[true,null],"c":{"d":"x"}}"#,
        r#"{"a":1,"b":[false,null],"c":{"d":"x"}}"#,
        r#"{"a":1,"b":[null,true],"c":{"d":"x"}}"#,
        r#"{"a":1,"b":[true,0],"c":{"d":"x"}}"#,
        r#"{"a":1,"b":[true,null],"c":{"d":"X"}}"#,
        r#"{"a":1,"b":[true,null],"c":{"d":"x\u0000"}}"#,
        r#"{"a":1,"b":[true,null],"c":[]}"#,
        r#"{"a":null,"b":[true,null],"c":{"d":"x"}}"#,
    ] {
        assert_eq!(refusal(planned, called), Err("fixed-argument"), "{called}");
    }
    assert_eq!(refusal(r#"{"a":"\u00e9"}"#, r#"{"a":"e\u0301"}"#), Err("fixed-argument"), "NFC is not NFD");
}

#[test]
fn no_argument_may_be_left_out() {
    let planned = r#"{"a":1,"b":[1,2],"c":{"d":null}}"#;
    for called in [
        r#"{"b":[1,2],"c":{"d":null}}"#,
        r#"{"a":1,"b":[1],"c":{"d":null}}"#,
        r#"{"a":1,"b":[1,2],"c":{}}"#,
        "{}",
    ] {
        assert_eq!(refusal(planned, called), Err("missing-argument"), "{called}");
    }
}

#[test]
fn no_argument_may_be_added() {
    let planned = r#"{"a":1,"b":[1,2],"c":{"d":null}}"#;
    for called in [
        r#"{"a":1,"b":[1,2],"c":{"d":null},"e":null}"#,
        r#"{"a":1,"b":[1,2,3],"c":{"d":null}}"#,
        r#"{"a":1,"b":[1,2],"c":{"d":null,"e":1}}"#,
        r#"{"a":1,"b":[1,2],"c":{"d":null},"A":1}"#,
    ] {
        assert_eq!(refusal(planned, called), Err("added-argument"), "{called}");
    }
    assert_eq!(refusal("{}", r#"{"a":1}"#), Err("added-argument"));
}

#[test]
fn open_argument_must_be_filled_in() {
    let planned = r#"{"to":"bob","body":"<DYNAMIC>"}"#;
    for body in [r#""hello""#, "7", "null", "[]", r#"{"text":"x"}"#, r#""<dynamic>""#] {
        assert_eq!(refusal(planned, &format!(r#"{{"to":"bob","body":{body}}}"#)), Ok(()), "{body}");
    }
    assert_eq!(refusal(planned, r#"{"to":"bob"}"#), Err("missing-argument"));
    assert_eq!(refusal(planned, r#"{"to":"bob","body":"<DYNAMIC>"}"#), Err("left-open"));
    assert_eq!(refusal(planned, r#"{"to":"eve","body":"hello"}"#), Err("fixed-argument"));
}

#[test]
fn a_dynamic_value_with_an_extra_key_is_refused() {
    let planned = r#"{"to":"bob","body":"<DYNAMIC>"}"#;
    assert_eq!(refusal(planned, r#"{"to":"bob","body":"x","cc":"eve"}"#), Err("added-argument"));
    let nested = r#"{"message":{"to":"bob","body":"<DYNAMIC>"}}"#;
    assert_eq!(refusal(nested, r#"{"message":{"to":"bob","body":"x","cc":"eve"}}"#), Err("added-argument"));
    let listed = r#"{"parts":["<DYNAMIC>"]}"#;
    assert_eq!(refusal(listed, r#"{"parts":["x","y"]}"#), Err("added-argument"));
    // An open member does not allow another name: a place is one member.
    assert_eq!(refusal(planned, r#"{"to":"bob","Body":"x"}"#), Err("missing-argument"));
}

#[test]
fn open_argument_keeps_the_kind_of_its_container() {
    assert_eq!(refusal(r#"{"m":{"b":"<DYNAMIC>"}}"#, r#"{"m":["x"]}"#), Err("fixed-argument"));
    assert_eq!(refusal(r#"{"m":["<DYNAMIC>"]}"#, r#"{"m":{"0":"x"}}"#), Err("fixed-argument"));
    assert_eq!(refusal(r#"{"m":["<DYNAMIC>"]}"#, r#"{"m":"x"}"#), Err("fixed-argument"));
}

#[test]
fn another_tool_is_another_call() {
    let step = step("send", r#"{"a":1}"#);
    for (server, name) in [("desk", "refund"), ("Desk", "send"), ("mail", "send"), ("desk", "Send")] {
        let other = ToolId::new(server, name).unwrap();
        let breach = step.admit(&other, &json(r#"{"a":1}"#)).unwrap_err();
        assert_eq!(why(breach), ("PLAN_STEP_MISMATCH", "other-tool"));
    }
}

#[test]
fn a_number_that_was_rounded_is_not_the_planned_one() {
    let limits = Limits::default();
    let rounded = read(br#"{"n":9007199254740993}"#, Recipe::Rfc8785, &limits).unwrap();
    let step = step("send", r#"{"n":9007199254740992}"#);
    let breach = step.admit(&tool("send"), &rounded).unwrap_err();
    assert_eq!(why(breach), ("PLAN_STEP_MISMATCH", "inexact-argument"));
}
