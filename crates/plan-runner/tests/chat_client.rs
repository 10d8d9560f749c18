//! The chat client of the example `chat_model`, against a scripted server.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests; the example's desk prints its events")]

#[path = "../examples/chat/client.rs"]
mod client;
#[path = "../examples/common/desk.rs"]
mod desk;
#[path = "chat_client/server.rs"]
mod server;

use client::{ApiKey, ChatLimits, ChatModel};
use countersign_core::Millis;
use countersign_plan_runner::{ChatMessage, ChatRole};
use desk::{Desk, GOAL};
use server::{Says, Server, status, text};

fn model(base: &str, key: Option<ApiKey>) -> ChatModel {
    ChatModel::new(base, "m-1", key, &ChatLimits::default()).unwrap()
}

/// The code of an invalid setting.
fn code(base: &str, name: &str, limits: &ChatLimits) -> Option<&'static str> {
    ChatModel::new(base, name, None, limits).map_err(|error| error.code()).err()
}

fn hello() -> [ChatMessage; 1] {
    [ChatMessage::new(ChatRole::User, "Hello \"you\"\n")]
}

/// Asks a server that answers once with `says`.
fn ask(says: Says) -> Result<String, &'static str> {
    ask_with(says, &ChatLimits::default())
}

fn ask_with(says: Says, limits: &ChatLimits) -> Result<String, &'static str> {
    let server = Server::start(vec![says]);
    let model = ChatModel::new(&server.base(), "m-1", None, limits).unwrap();
    let answer = model.ask(&hello()).map_err(|error| error.code());
    drop(model);
    assert_eq!(server.asked().len(), 1, "it is asked once");
    answer
}

fn body(json: &str) -> Says {
    status("200 OK", json)
}

#[test]
fn request_has_the_chat_completions_format() {
    let server = Server::start(vec![text("Hello.")]);
    let model = model(&format!("{}/", server.base()), None);
    assert_eq!(model.ask(&hello()).unwrap(), "Hello.");
    let asked = server.asked().remove(0);
    assert_eq!(asked.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert_eq!(asked.header("authorization"), None);
    let expected = serde_json::json!({
        "model": "m-1", "stream": false, "messages": [{"role": "user", "content": "Hello \"you\"\n"}]
    });
    assert_eq!(asked.json(), expected);
}

#[test]
fn key_is_sent_in_the_authorization_header_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "sk-s3cret\n").unwrap();
    let server = Server::start(vec![text("a"), text("b")]);
    let base = server.base();
    let asking = model(&base, Some(ApiKey::from_file(&file).unwrap()));
    assert!(!format!("{asking:?}").contains("s3cret"));
    asking.ask(&hello()).unwrap();
    // A variable that the test runner sets.
    let asking = model(&base, Some(ApiKey::from_env("CARGO_PKG_VERSION").unwrap()));
    assert!(!format!("{asking:?}").contains(env!("CARGO_PKG_VERSION")));
    asking.ask(&hello()).unwrap();
    let asked = server.asked();
    assert_eq!(asked[0].header("authorization"), Some("Bearer sk-s3cret"));
    assert_eq!(asked[1].header("authorization"), Some(concat!("Bearer ", env!("CARGO_PKG_VERSION"))));
    assert!(!asked[0].body.contains("s3cret"));
}

#[test]
fn missing_or_malformed_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let read = |file: &std::path::Path| {
        format!("{:?}", ApiKey::from_file(file).map_err(|error| error.code()).map(|_| ()))
    };
    assert_eq!(read(&folder.path().join("none")), "Err(\"CHAT_KEY_MISSING\")");
    assert_eq!(read(folder.path()), "Err(\"CHAT_KEY_MISSING\")");
    let file = folder.path().join("key");
    let (most, long) = ("x".repeat(4_096), "x".repeat(4_097));
    for key in ["", "\n", "two words", "a\nb", "käy", "a\n\n", " a", long.as_str()] {
        std::fs::write(&file, key).unwrap();
        assert_eq!(read(&file), "Err(\"CHAT_KEY\")", "{key:?}");
    }
    for key in ["a", "a\n", "a\r\n", most.as_str()] {
        std::fs::write(&file, key).unwrap();
        assert_eq!(read(&file), "Ok(())", "{key:?}");
    }
    let unset = ApiKey::from_env("COUNTERSIGN_NO_SUCH_KEY");
    assert_eq!(unset.unwrap_err().code(), "CHAT_KEY_MISSING");
}

#[test]
fn a_server_elsewhere_is_reached_over_https_alone() {
    let code = |base: &str| code(base, "m-1", &ChatLimits::default());
    for base in [
        "https://models.example/v1",
        "https://models.example:8443",
        "http://127.0.0.1:8080/v1",
        "http://127.9.9.9/v1",
        "http://[::1]:8080/v1",
        "http://localhost:11434/v1",
    ] {
        assert_eq!(code(base), None, "{base}");
    }
    for base in [
        "http://models.example/v1",
        "http://10.0.0.7/v1",
        "http://0.0.0.0/v1",
        "http://127.0.0.1.evil.example/v1",
        "http://localhost.evil.example/v1",
        "http://[::2]/v1",
        "ftp://127.0.0.1/v1",
        "models.example/v1",
        "/v1",
        "",
        "https://",
        "https:///v1",
        "https://user:pass@models.example/v1",
        "http://127.0.0.1@evil.example/v1",
        "https://models.example/v1?key=1",
        "https://models.example/v1#a",
        "https://models .example",
    ] {
        assert_eq!(code(base), Some("CHAT_ENDPOINT"), "{base}");
    }
}

#[test]
fn invalid_model_name_or_zero_limit_is_refused() {
    let base = "http://127.0.0.1:1/v1";
    for name in ["", "a\nb", "a\u{202e}b", &"x".repeat(257)] {
        assert_eq!(code(base, name, &ChatLimits::default()), Some("CHAT_MODEL_NAME"));
    }
    let no_time = ChatLimits { timeout: Millis::from_secs(0), ..ChatLimits::default() };
    let no_bytes = ChatLimits { max_bytes: 0, ..ChatLimits::default() };
    assert_eq!(code(base, "m", &no_time), Some("CHAT_LIMIT"));
    assert_eq!(code(base, "m", &no_bytes), Some("CHAT_LIMIT"));
}

#[test]
fn every_status_but_200_is_an_error_with_its_code() {
    for (line, code) in [
        ("204 No Content", "CHAT_REFUSED"),
        ("400 Bad Request", "CHAT_REFUSED"),
        ("401 Unauthorized", "CHAT_UNAUTHORIZED"),
        ("403 Forbidden", "CHAT_UNAUTHORIZED"),
        ("404 Not Found", "CHAT_REFUSED"),
        ("429 Too Many Requests", "CHAT_BUSY"),
        ("500 Internal Server Error", "CHAT_SERVER"),
        ("503 Service Unavailable", "CHAT_SERVER"),
    ] {
        assert_eq!(ask(status(line, "")), Err(code), "{line}");
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Server::start(vec![]);
    for line in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let head = format!("HTTP/1.1 {line}\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", elsewhere.base());
        assert_eq!(ask(Says::Bytes(head.into_bytes())), Err("CHAT_REDIRECT"), "{line}");
    }
    assert!(elsewhere.asked().is_empty());
}

#[test]
fn a_slow_server_is_given_up() {
    let soon = |max_bytes| ChatLimits { timeout: Millis::from_millis(200), max_bytes };
    assert_eq!(ask_with(Says::Nothing, &soon(1 << 20)), Err("CHAT_TIMEOUT"));
    assert_eq!(ask_with(Says::Drips, &soon(u64::MAX)), Err("CHAT_TIMEOUT"));
}

#[test]
fn answer_over_the_byte_limit_is_refused() {
    let json = r#"{"choices":[{"message":{"content":"Hello."},"finish_reason":"stop"}]}"#;
    let most = json.len() as u64;
    let limits = |max_bytes| ChatLimits { max_bytes, ..ChatLimits::default() };
    assert_eq!(ask_with(body(json), &limits(most)), Ok("Hello.".to_owned()));
    assert_eq!(ask_with(body(json), &limits(most - 1)), Err("CHAT_TOO_LARGE"));
    // Without a length and without an end.
    let endless = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", " ".repeat(2 << 20));
    assert_eq!(ask(Says::Bytes(endless.into_bytes())), Err("CHAT_TOO_LARGE"));
    let headers = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(1 << 20));
    assert_eq!(ask(Says::Bytes(headers.into_bytes())), Err("CHAT_TRANSPORT"));
}

#[test]
fn an_answer_that_is_not_one_is_an_error() {
    for (json, code) in [
        ("", "CHAT_JSON"),
        ("<html>", "CHAT_JSON"),
        ("{\"choices\":[]", "CHAT_JSON"),
        ("{\"choices\":[],\"choices\":[]}", "CHAT_JSON"),
        ("[]", "CHAT_SHAPE"),
        ("{}", "CHAT_SHAPE"),
        (r#"{"choices":{}}"#, "CHAT_SHAPE"),
        (r#"{"choices":[]}"#, "CHAT_SHAPE"),
        (r#"{"choices":[{"text":"a"}]}"#, "CHAT_SHAPE"),
        (r#"{"choices":[{"message":{"content":null}}]}"#, "CHAT_SHAPE"),
        (r#"{"choices":[{"message":{"content":["a"]}}]}"#, "CHAT_SHAPE"),
        (r#"{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}"#, "CHAT_SHAPE"),
        (r#"{"choices":[{"message":{"content":"a"},"finish_reason":"length"}]}"#, "CHAT_UNFINISHED"),
        (r#"{"choices":[{"message":{"content":"a"},"finish_reason":"content_filter"}]}"#, "CHAT_UNFINISHED"),
        (r#"{"choices":[{"message":{"content":"a"},"finish_reason":"tool_calls"}]}"#, "CHAT_UNFINISHED"),
    ] {
        assert_eq!(ask(body(json)), Err(code), "{json}");
    }
    // Statistics that no double holds exactly are no reason for a refusal.
    let odd =
        r#"{"t":0.12345678901234567890123,"choices":[{"message":{"content":"a"},"finish_reason":null}]}"#;
    assert_eq!(ask(body(odd)), Ok("a".to_owned()));
}

#[test]
fn absent_or_broken_server_is_a_transport_error() {
    assert_eq!(ask(Says::Bytes(Vec::new())), Err("CHAT_TRANSPORT"));
    assert_eq!(ask(Says::Bytes(b"SSH-2.0-OpenSSH\r\n".to_vec())), Err("CHAT_TRANSPORT"));
    let cut = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"choices\"".to_vec();
    assert_eq!(ask(Says::Bytes(cut)), Err("CHAT_TRANSPORT"));
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = model(&format!("http://{free}/v1"), None).ask(&hello()).unwrap_err();
    assert_eq!(error.code(), "CHAT_TRANSPORT");
    assert!(std::error::Error::source(&error).is_some());
}

const PLAN: &str = r#"<planthenexecute>{"goal": "Answer ticket T-1001 of ada@customers.example", "steps": [
    {"id": 1, "tool": "desk:read_ticket", "args": {"id": "T-1001"}, "description": "Look"}
]}</planthenexecute>"#;

#[test]
fn whole_run_goes_over_http() {
    let planning = Server::start(vec![text(PLAN), text("Ada waits for her parcel.")]);
    let turning =
        Server::start(vec![text("Thought: look\nAction: desk:read_ticket\nArgs: {\"id\":\"T-1001\"}")]);
    let judging = Server::start(vec![text("SAFE")]);
    let asked = |server: &Server| model(&server.base(), None);
    let desk = Desk::open("chat-whole-run", "Where is my parcel?", "in Oslo").unwrap();
    let end = desk.run(GOAL, asked(&planning), asked(&judging), asked(&turning)).unwrap();
    assert_eq!(end.answer(), "Ada waits for her parcel.");
    assert!(desk.outbox().unwrap().is_empty());
    let answered = planning.asked().remove(1);
    assert!(answered.body.contains("Where is my parcel?"), "the planner answers from the tool's result");
    assert_eq!(judging.asked().len() + turning.asked().len(), 2);
}

#[test]
fn model_without_an_answer_ends_the_run_with_its_code() {
    let server = Server::start(vec![status("503 Service Unavailable", "")]);
    let desk = Desk::open("chat-no-answer", "Where is my parcel?", "in Oslo").unwrap();
    let client = model(&server.base(), None);
    assert_eq!(desk.run(GOAL, &client, &client, &client).unwrap_err().code(), "CHAT_SERVER");
    server.asked();
}
