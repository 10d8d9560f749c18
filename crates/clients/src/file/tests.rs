use std::path::Path;

use proptest::prelude::*;

use super::{ClientFile, ServerStart, Wrapping};
use crate::is_gateway_program;

const FILES: [(&str, &str); 5] = [
    ("cursor-crlf.json", include_str!("../../tests/data/cursor-crlf.json")),
    ("desktop-bom.json", include_str!("../../tests/data/desktop-bom.json")),
    ("claude-code.json", include_str!("../../tests/data/claude-code.json")),
    ("vscode.json", include_str!("../../tests/data/vscode.json")),
    ("codex.toml", include_str!("../../tests/data/codex.toml")),
];

fn read(name: &str, text: &str) -> ClientFile {
    ClientFile::read(Path::new(name), text.to_owned()).unwrap()
}

/// Wraps every server that can be wrapped, and returns the steps.
fn wrap_all(mut file: ClientFile) -> (ClientFile, Vec<(usize, Wrapping)>) {
    let mut steps = Vec::new();
    for place in 0..file.servers().len() {
        let server = file.servers()[place].clone();
        if server.can_be_wrapped() {
            let (next, wrapping) = file.wrap(&server, "/usr/bin/countersign", "p-1").unwrap();
            steps.push((place, wrapping));
            file = next;
        }
    }
    (file, steps)
}

fn unwrap_all(mut file: ClientFile, steps: &[(usize, Wrapping)]) -> ClientFile {
    for (place, wrapping) in steps {
        let server = file.servers()[*place].clone();
        file = file.unwrap(&server, wrapping).unwrap();
    }
    file
}

#[test]
fn unwrap_gives_back_the_bytes_of_every_client() {
    for (name, text) in FILES {
        let before = read(name, text);
        let (wrapped, steps) = wrap_all(before.clone());
        assert!(!steps.is_empty(), "{name}");
        for (place, _) in &steps {
            let ServerStart::Gateway { profile, command, .. } = wrapped.servers()[*place].start() else {
                panic!("{name}")
            };
            let old = match before.servers()[*place].start() {
                ServerStart::Command { command, .. } => command.as_slice(),
                ServerStart::Gateway { .. } | ServerStart::Url { .. } | ServerStart::Unknown => &[],
            };
            assert_eq!((profile.as_str(), command.as_slice()), ("p-1", old), "{name}");
        }
        assert_eq!(unwrap_all(wrapped, &steps).text(), text, "{name}");
    }
}

#[test]
fn a_wrapped_server_is_not_wrapped_again() {
    for (name, text) in FILES {
        let (wrapped, _) = wrap_all(read(name, text));
        let (again, steps) = wrap_all(wrapped.clone());
        assert_eq!((again.text(), steps.len()), (wrapped.text(), 0), "{name}");
    }
}

#[test]
fn edits_of_a_person_elsewhere_survive_unwrap() {
    let (wrapped, steps) = wrap_all(read(FILES[0].0, FILES[0].1));
    let edited = wrapped.text().replace("// my servers", "// our servers").replace("s3cret", "changed");
    let back = unwrap_all(read(FILES[0].0, &edited), &steps);
    assert_eq!(
        back.text(),
        FILES[0].1.replace("// my servers", "// our servers").replace("s3cret", "changed")
    );
}

#[test]
fn a_reformatted_entry_starts_the_same_server() {
    let before =
        read("a.json", r#"{"mcpServers":{"b":{"command":"./server"},"c":{"command":"x","args":["1"]}}}"#);
    let (wrapped, steps) = wrap_all(before.clone());
    let pretty: serde_json::Value = serde_json::from_str(wrapped.text()).unwrap();
    let file = read("a.json", &serde_json::to_string_pretty(&pretty).unwrap());
    let back = unwrap_all(file, &steps);
    let starts =
        |file: &ClientFile| file.servers().iter().map(|server| server.start().clone()).collect::<Vec<_>>();
    assert_eq!(starts(&back), starts(&before));
}

#[test]
fn an_entry_by_url_keeps_its_other_members() {
    let text = r#"{"mcpServers":{"far":{"type":"http","url":"https://a.example/mcp","headers":{"Authorization":"Bearer s"},"disabled":false}}}"#;
    let (wrapped, steps) = wrap_all(read("a.json", text));
    let entry = |text: &str| {
        let whole: serde_json::Value = serde_json::from_str(text).unwrap();
        whole["mcpServers"]["far"].clone()
    };
    let args = serde_json::json!(["mcp", "run", "--profile", "p-1"]);
    let expected = serde_json::json!({"command": "/usr/bin/countersign", "args": args, "disabled": false});
    assert_eq!(entry(wrapped.text()), expected);
    assert!(!format!("{steps:?}").contains("Bearer"), "{steps:?}");

    let pretty: serde_json::Value = serde_json::from_str(wrapped.text()).unwrap();
    let reformatted = serde_json::to_string_pretty(&pretty).unwrap();
    assert_eq!(entry(unwrap_all(read("a.json", &reformatted), &steps).text()), entry(text));
    let edited = wrapped.text().replace("false", "true");
    let back = unwrap_all(read("a.json", &edited), &steps);
    assert_eq!(entry(back.text()), entry(&text.replace("false", "true")));
}

#[test]
fn an_entry_by_url_needs_its_text_to_come_back() {
    let (wrapped, _) = wrap_all(read("a.toml", "[mcp_servers.far]\nurl = 'https://a.example/mcp' # far\n"));
    let error = wrapped.unwrap(&wrapped.servers()[0], &Wrapping::with_args()).unwrap_err();
    assert_eq!(error.code(), "CLIENT_FILE_ORIGINAL");
}

#[test]
fn toml_entries_with_more_than_a_url_are_not_wrapped() {
    let of = |more: &str| format!("[mcp_servers.far]\nurl = \"https://a.example/mcp\"\n{more}\n");
    assert!(read("a.toml", &of("")).servers()[0].can_be_wrapped());
    let inline = "mcp_servers = { far = { url = \"https://a.example/mcp\" } }\n".to_owned();
    for text in [of("bearer_token_env_var = \"T\""), of("http_headers = { A = \"b\" }"), inline] {
        let file = read("a.toml", &text);
        let server = &file.servers()[0];
        assert!(!server.can_be_wrapped(), "{text}");
        assert_eq!(file.wrap(server, "countersign", "p").unwrap_err().code(), "CLIENT_FILE_SERVER");
    }
}

#[test]
fn what_two_readers_would_read_differently_is_refused() {
    let twice = [
        r#"{"mcpServers":{"a":{"command":"x"},"a":{"command":"y"}}}"#,
        r#"{"mcpServers":{"a":{"command":"x","command":"y"}}}"#,
        r#"{"mcpServers":{},"mcpServers":{}}"#,
    ];
    for text in twice {
        assert_eq!(ClientFile::json(text.to_owned()).unwrap_err().code(), "CLIENT_FILE_TWICE", "{text}");
    }
    let malformed = [
        "",
        "[]",
        "{",
        "{\"a\":}",
        "{} x",
        "\"",
        "{\"a\":\"\\x\"}",
        "/*",
        r#"{"mcpServers":{"a":{"command":1}}}"#,
        r#"{"mcpServers":{"a":{"command":"x","args":[1]}}}"#,
        r#"{"mcpServers":{"a":{"command":"x","args":{}}}}"#,
    ];
    for text in malformed {
        assert_eq!(ClientFile::json(text.to_owned()).unwrap_err().code(), "CLIENT_FILE_MALFORMED", "{text}");
    }
    let deep = "[".repeat(100_000);
    assert_eq!(ClientFile::json(format!("{{\"a\":{deep}")).unwrap_err().code(), "CLIENT_FILE_MALFORMED");
}

proptest! {
    #[test]
    fn any_texts_survive_the_round_trip(
        command in any::<String>().prop_filter("a program", |text| !is_gateway_program(text)),
        args in proptest::option::of(proptest::collection::vec(any::<String>(), 0..4)),
        space in "[ \n\t]{0,3}",
    ) {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let args = args.map(|args| {
            let args: Vec<_> = args.iter().map(|arg| text(arg)).collect();
            format!(",{space}\"args\":{space}[{space}{}{space}]", args.join(&format!("{space},{space}")))
        });
        let whole = format!("{{\"mcpServers\":{{\"a\":{{\"command\":{space}{}{}}}}}}}", text(&command), args.unwrap_or_default());
        let (wrapped, steps) = wrap_all(ClientFile::json(whole.clone()).unwrap());
        prop_assert_eq!(unwrap_all(wrapped, &steps).text().to_owned(), whole);
    }
}
