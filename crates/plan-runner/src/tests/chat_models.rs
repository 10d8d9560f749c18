use countersign_core::Millis;

use super::case::*;
use super::chat_server::*;
use super::world::*;
use crate::*;

fn hello() -> [ChatMessage; 1] {
    [ChatMessage::new(ChatRole::User, "Hello \"you\"\n")]
}

/// Asks a server that answers once with `says`.
fn ask(says: Says) -> Result<String, &'static str> {
    ask_with(says, |builder| builder)
}

fn ask_with(
    says: Says,
    set: impl FnOnce(ChatModelBuilder) -> ChatModelBuilder,
) -> Result<String, &'static str> {
    let server = Server::start(vec![says]);
    let model = set(ChatModel::builder(&server.base(), "m-1")).build().unwrap();
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
    let model = ChatModel::builder(&format!("{}/", server.base()), "m-1").build().unwrap();
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
    let model = ChatModel::builder(&base, "m-1").key_from_file(&file).build().unwrap();
    assert!(!format!("{model:?}").contains("s3cret"));
    model.ask(&hello()).unwrap();
    // A variable that the test runner sets.
    let model = ChatModel::builder(&base, "m-1").key_from_env("CARGO_PKG_VERSION").build().unwrap();
    assert!(!format!("{model:?}").contains(env!("CARGO_PKG_VERSION")));
    model.ask(&hello()).unwrap();
    let asked = server.asked();
    assert_eq!(asked[0].header("authorization"), Some("Bearer sk-s3cret"));
    assert_eq!(asked[1].header("authorization"), Some(concat!("Bearer ", env!("CARGO_PKG_VERSION"))));
    assert!(!asked[0].body.contains("s3cret"));
}

#[test]
fn missing_or_malformed_key_fails_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let built = |file: &std::path::Path| {
        let builder = ChatModel::builder("https://models.example/v1", "m-1").key_from_file(file);
        format!("{:?}", builder.build().map_err(|error| error.code()).map(|_| ()))
    };
    assert_eq!(built(&folder.path().join("none")), "Err(\"CHAT_KEY_MISSING\")");
    assert_eq!(built(folder.path()), "Err(\"CHAT_KEY_MISSING\")");
    let file = folder.path().join("key");
    let (most, long) = ("x".repeat(4_096), "x".repeat(4_097));
    for key in ["", "\n", "two words", "a\nb", "käy", "a\n\n", " a", long.as_str()] {
        std::fs::write(&file, key).unwrap();
        assert_eq!(built(&file), "Err(\"CHAT_KEY\")", "{key:?}");
    }
    for key in ["a", "a\n", "a\r\n", most.as_str()] {
        std::fs::write(&file, key).unwrap();
        assert_eq!(built(&file), "Ok(())", "{key:?}");
    }
    let unset =
        ChatModel::builder("https://models.example/v1", "m-1").key_from_env("COUNTERSIGN_NO_SUCH_KEY");
    assert_eq!(unset.build().unwrap_err().code(), "CHAT_KEY_MISSING");
}

#[test]
fn a_server_elsewhere_is_reached_over_https_alone() {
    let code = |base: &str| ChatModel::builder(base, "m-1").build().map_err(|error| error.code()).err();
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
    let builder = |name: &str| ChatModel::builder("http://127.0.0.1:1/v1", name);
    let code = |builder: ChatModelBuilder| builder.build().map_err(|error| error.code()).err();
    for name in ["", "a\nb", "a\u{202e}b", &"x".repeat(257)] {
        assert_eq!(code(builder(name)), Some("CHAT_MODEL_NAME"));
    }
    assert_eq!(code(builder("m").timeout(Millis::from_secs(0))), Some("CHAT_LIMIT"));
    assert_eq!(code(builder("m").max_bytes(0)), Some("CHAT_LIMIT"));
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
    let soon = |builder: ChatModelBuilder| builder.timeout(Millis::from_millis(200));
    assert_eq!(ask_with(Says::Nothing, soon), Err("CHAT_TIMEOUT"));
    assert_eq!(ask_with(Says::Drips, |builder| soon(builder).max_bytes(u64::MAX)), Err("CHAT_TIMEOUT"));
}

#[test]
fn answer_over_the_byte_limit_is_refused() {
    let json = r#"{"choices":[{"message":{"content":"Hello."},"finish_reason":"stop"}]}"#;
    let most = json.len() as u64;
    assert_eq!(ask_with(body(json), |builder| builder.max_bytes(most)), Ok("Hello.".to_owned()));
    assert_eq!(ask_with(body(json), |builder| builder.max_bytes(most - 1)), Err("CHAT_TOO_LARGE"));
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
    let nobody = ChatModel::builder(&format!("http://{free}/v1"), "m").build().unwrap();
    let error = nobody.ask(&hello()).unwrap_err();
    assert_eq!(error.code(), "CHAT_TRANSPORT");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn a_whole_run_goes_over_the_wire() {
    let planning = Server::start(vec![text(&plan(&[READ])), text("Ada waits for her parcel.")]);
    let turning = Server::start(vec![text(&read_turn())]);
    let judging = Server::start(vec![text("SAFE")]);
    let model = |server: &Server| ChatModel::builder(&server.base(), "m-1").build().unwrap();
    let mut planner = ModelPlanner::new(model(&planning));
    let mut responder = ModelResponder::new(model(&turning));
    let mut inspector = ModelInspector::new(model(&judging));
    struct Ticket;
    impl Tools for Ticket {
        fn run(
            &mut self,
            _tool: &countersign_core::ToolId,
            args: &countersign_canonical_json::Canonical,
        ) -> Result<Vec<u8>, ToolError> {
            Ok(format!("ticket {}", args.as_str()).into_bytes())
        }
    }
    let world = World::new();
    let mut tools = Ticket;
    let actors = Actors::new(&mut planner, vec![&mut inspector], &mut responder, &mut tools);
    let end = PlanRunner::new(world.gate(), world.clock()).run(&Task::new(GOAL), actors).unwrap();
    assert_eq!(end.answer(), "Ada waits for her parcel.");
    let answered = planning.asked().remove(1);
    assert!(answered.body.contains("ticket {"), "the planner answers from what the tool returned");
    assert_eq!(judging.asked().len() + turning.asked().len(), 2);
}

#[test]
fn a_model_that_gives_no_text_ends_the_run_with_the_chats_code() {
    let server = Server::start(vec![status("503 Service Unavailable", "")]);
    let model = ChatModel::builder(&server.base(), "m-1").build().unwrap();
    let world = World::new();
    let mut planner = ModelPlanner::new(model);
    let mut inspector =
        FlowRules::builder().no_egress_after_private().build(world.registry.view().snapshot()).unwrap();
    struct Never;
    impl Responder for Never {
        fn turn(&mut self, _request: &TurnRequest<'_>) -> Result<String, ModelError> {
            panic!("there is no plan")
        }
    }
    impl Tools for Never {
        fn run(
            &mut self,
            _tool: &countersign_core::ToolId,
            _args: &countersign_canonical_json::Canonical,
        ) -> Result<Vec<u8>, ToolError> {
            panic!("there is no plan")
        }
    }
    let (mut responder, mut tools) = (Never, Never);
    let actors = Actors::new(&mut planner, vec![&mut inspector], &mut responder, &mut tools);
    let end = PlanRunner::new(world.gate(), world.clock()).run(&Task::new(GOAL), actors);
    assert_eq!(end.unwrap_err().code(), "CHAT_SERVER");
    server.asked();
}
