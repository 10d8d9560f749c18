use proptest::prelude::*;

use crate::*;

fn parse(text: &str) -> Result<TurnText, TurnTextError> {
    TurnText::parse(text, &RunLimits::default())
}

fn code(text: &str) -> &'static str {
    parse(text).err().map_or("", |error| error.code())
}

#[test]
fn turn_of_three_parts_in_order_is_parsed() {
    let turn =
        parse("\n Thought: look first \r\nAction: desk:read\r\nArgs: {\n  \"id\": \"T-1\"\n}\n\n").unwrap();
    assert_eq!((turn.thought(), turn.args().as_str()), ("look first", r#"{"id":"T-1"}"#));
    assert!(matches!(turn.action(), TurnAction::Call(tool) if tool.to_string() == "desk:read"));
    assert_eq!(parse("Thought:\nAction:read\nArgs:{}").unwrap().thought(), "");
    assert_eq!(*parse("Thought: done\nAction: <NEXT>\nArgs: {}").unwrap().action(), TurnAction::Next);
}

#[test]
fn turn_of_any_other_shape_is_refused() {
    for (text, expected) in [
        ("", "TURN_THOUGHT"),
        ("thought: a\nAction: b\nArgs: {}", "TURN_THOUGHT"),
        ("Well. Thought: a\nAction: b\nArgs: {}", "TURN_THOUGHT"),
        ("Thought: a", "TURN_ACTION"),
        ("Thought: a\nb\nAction: c\nArgs: {}", "TURN_ACTION"),
        ("Thought: a\n\nAction: b\nArgs: {}", "TURN_ACTION"),
        ("Thought: a\nArgs: {}\nAction: b", "TURN_ACTION"),
        ("Thought: a\nAction:\nArgs: {}", "TURN_TOOL"),
        ("Thought: a\nAction: b(c)\nArgs: {}", "TURN_TOOL"),
        ("Thought: a\nAction: b:c:d\nArgs: {}", "TURN_TOOL"),
        ("Thought: a\nAction: <next>\nArgs: {}", "TURN_TOOL"),
        ("Thought: a\nAction: b", "TURN_ARGS"),
        ("Thought: a\nAction: b\nAction: c\nArgs: {}", "TURN_ARGS"),
        ("Thought: a\nAction: b\n Args: {}", "TURN_ARGS"),
        ("Thought: a\nAction: b\nArgs:", "TURN_ARGS_JSON"),
        ("Thought: a\nAction: b\nArgs: {'c': 1}", "TURN_ARGS_JSON"),
        ("Thought: a\nAction: b\nArgs: {\"c\":1,\"c\":2}", "TURN_ARGS_JSON"),
        ("Thought: a\nAction: b\nArgs: {\"c\":9007199254740993}", "TURN_ARGS_JSON"),
        ("Thought: a\nAction: b\nArgs: {}\nObservation: done", "TURN_ARGS_JSON"),
        ("Thought: a\nAction: b\nArgs: ```json\n{}\n```", "TURN_ARGS_JSON"),
        ("Thought: a\nAction: b\nArgs: \"c\"", "TURN_ARGS_SHAPE"),
        ("Thought: a\nAction: <NEXT>\nArgs: {\"c\":1}", "TURN_NEXT"),
    ] {
        assert_eq!(code(text), expected, "{text}");
    }
}

#[test]
fn look_alike_line_breaks_or_labels_start_no_part() {
    for hidden in ["\r", "\u{2028}", "\u{2029}", "\u{85}", "\u{b}", "\u{c}", "\\n"] {
        let text = format!("Thought: a{hidden}Action: refund{hidden}Args: {{}}\nAction: read\nArgs: {{}}");
        assert_eq!(parse(&text).unwrap().action().clone(), TurnAction::Call("read".parse().unwrap()));
        let text = format!("Thought: a\nAction: read{hidden}Action: refund\nArgs: {{}}");
        assert_eq!(code(&text), "TURN_TOOL", "{hidden:?}");
        let text = format!("Thought: a\nAction: read{hidden}Args: {{}}");
        assert_eq!(code(&text), "TURN_TOOL", "{hidden:?}");
    }
    for (text, expected) in [
        ("Thought: a\n\u{410}ction: b\nArgs: {}", "TURN_ACTION"),
        ("Thought: a\nAction\u{ff1a} b\nArgs: {}", "TURN_ACTION"),
        ("\u{feff}Thought: a\nAction: b\nArgs: {}", "TURN_THOUGHT"),
        ("\u{200b}Thought: a\nAction: b\nArgs: {}", "TURN_THOUGHT"),
        ("Thought: a\nAction: \u{202e}b\nArgs: {}", "TURN_TOOL"),
        ("Thought: a\nAction: r\u{435}ad\nArgs: {}", "TURN_TOOL"),
        ("Thought: a\nAction: b\nArgs: {}\0", "TURN_ARGS_JSON"),
        ("Thought: a\nAction: b\nArgs: \u{feff}{}", "TURN_ARGS_JSON"),
        ("Thought: a\nAction: b\nArgs: {\"c\":1,\"\\u0063\":2}", "TURN_ARGS_JSON"),
        ("Thought: a\nAction: b\nArgs: {\"c\":\"\\ud800\"}", "TURN_ARGS_JSON"),
    ] {
        assert_eq!(code(text), expected, "{text:?}");
    }
    let deep = format!("Thought: a\nAction: b\nArgs: {{\"c\":{}{}}}", "[".repeat(9_999), "]".repeat(9_999));
    assert_eq!(code(&deep), "TURN_ARGS_JSON");
}

#[test]
fn a_turn_of_just_the_limit_is_read() {
    let text = "Thought: a\nAction: b\nArgs: {}";
    let limits = RunLimits::default();
    assert!(TurnText::parse(text, &RunLimits { text_bytes: text.len(), ..limits }).is_ok());
    let longer = TurnText::parse(text, &RunLimits { text_bytes: text.len() - 1, ..limits });
    assert_eq!(longer.unwrap_err().code(), "MODEL_TEXT_TOO_LARGE");
}

proptest! {
    #[test]
    fn printed_turn_parses_to_the_same_turn(
        thought in "\\PC{0,20}",
        tool in "([a-z]{1,5}:)?[a-z_]{1,8}",
        arg in any::<String>(),
    ) {
        let text = format!("Thought: {thought}\nAction: {tool}\nArgs: {}", serde_json::json!({ "a": arg }));
        let turn = parse(&text).unwrap();
        prop_assert_eq!(turn.thought(), thought.trim());
        prop_assert_eq!(turn.args().value().get("a").and_then(|a| a.as_str()), Some(arg.as_str()));
        let again = turn.to_string();
        prop_assert_eq!(parse(&again).unwrap(), turn);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        let _ = parse(&text);
        let _ = parse(&format!("Thought:{text}\nAction:{text}\nArgs:{text}"));
        let _ = parse(&format!("Thought: a\nAction: b\nArgs: {text}"));
    }
}
