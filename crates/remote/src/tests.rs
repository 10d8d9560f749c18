//! Sessions with a server that answers as a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use countersign_host::remote_part::RemotePart;
use countersign_host::report::Reporter;
use countersign_mcp::LineSink as _;
use tokio::runtime::Builder;

use crate::{RemoteInput, RemoteOutput, RemoteServer, RemoteSession};

const WAIT: Duration = Duration::from_secs(20);
const MOST: usize = 1 << 20;

/// A request that the server got: its head in small letters, its body, and the connection for the response, which carries no
/// other.
struct Got {
    head: String,
    body: String,
    stream: TcpStream,
}

impl Got {
    fn answer(mut self, head: &str, body: &str) {
        let text = format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// Begins a stream of events, which ends with the connection.
    fn stream(mut self, events: &str) -> TcpStream {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        self.stream.write_all(format!("{head}{events}").as_bytes()).unwrap();
        self.stream
    }
}

fn listen() -> (String, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut reader, mut head) = (BufReader::new(stream.unwrap()), String::new());
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            reader.read_exact(&mut body).unwrap();
            let (body, stream) = (String::from_utf8(body).unwrap(), reader.into_inner());
            if sender.send(Got { head, body, stream }).is_err() {
                break;
            }
        }
    });
    (url, requests)
}

struct Peer {
    input: RemoteInput,
    output: BufReader<RemoteOutput>,
    requests: Receiver<Got>,
    _session: RemoteSession,
    _server: RemoteServer,
}

impl Peer {
    fn new() -> Self {
        let (url, requests) = listen();
        let reporter = Reporter::new(|_| {});
        let server = RemoteServer::open(&url, &RemotePart::default(), MOST, &reporter).unwrap();
        let mut session = server.session().unwrap();
        let (input, output) = session.pipes(None).unwrap();
        Self { input, output: BufReader::new(output), requests, _session: session, _server: server }
    }

    fn send(&mut self, line: &str) -> Got {
        writeln!(self.input, "{line}").unwrap();
        self.requests.recv_timeout(WAIT).unwrap()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }
}

const JSON: &str = "200 OK\r\ncontent-type: application/json";

fn call(id: &str, more: &str) -> String {
    let meta = "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
                \"io.modelcontextprotocol/clientCapabilities\":{}}";
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"tools/call\",\"params\":{{\"name\":\"a b\u{e9}\"{more},{meta}}}}}"
    )
}

#[test]
fn line_is_posted_and_its_answer_becomes_one_line() {
    let mut peer = Peer::new();
    let got = peer.send(&call("r1", ""));
    assert_eq!(got.body, call("r1", ""), "the body is the gateway's line");
    for header in ["mcp-protocol-version: 2026-07-28", "mcp-method: tools/call", "mcp-name: =?base64?"] {
        assert!(got.head.contains(header), "{header}");
    }
    got.answer(JSON, "{\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": \"r1\",\n  \"result\": {}\n}");
    assert_eq!(peer.line(), "{\t  \"jsonrpc\": \"2.0\",\t\t  \"id\": \"r1\",\t  \"result\": {}\t}\n");
}

#[test]
fn error_of_a_response_gets_the_id_of_its_request() {
    let mut peer = Peer::new();
    let error = "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32020,\"message\":\"m\"}}";
    peer.send(&call("r1", "")).answer("400 Bad Request\r\ncontent-type: application/json", error);
    assert_eq!(
        peer.line(),
        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32020,\"message\":\"m\"},\"id\":\"r1\"}\n"
    );
}

#[test]
fn session_id_of_a_handshake_is_sent_until_the_end() {
    let mut peer = Peer::new();
    let hello = "{\"jsonrpc\":\"2.0\",\"id\":\"h\",\"method\":\"initialize\",\"params\":{}}";
    let got = peer.send(hello);
    assert!(!got.head.contains("mcp-protocol-version") && !got.head.contains("mcp-session-id"));
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":\"h\",\"result\":{\"protocolVersion\":\"2025-11-25\"}}";
    got.answer(&format!("{JSON}\r\nmcp-session-id: S1"), answer);
    assert_eq!(peer.line(), format!("{answer}\n"));
    let got = peer.send("{\"jsonrpc\":\"2.0\",\"id\":\"l\",\"method\":\"tools/list\"}");
    assert!(got.head.contains("mcp-session-id: s1") && got.head.contains("mcp-protocol-version: 2025-11-25"));
    drop(got);
    let Peer { requests, _session, .. } = peer;
    drop(_session);
    let got = requests.recv_timeout(WAIT).unwrap();
    assert!(got.head.starts_with("delete /mcp") && got.head.contains("mcp-session-id: s1"), "{}", got.head);
}

#[test]
fn server_that_ends_a_session_ends_the_output() {
    let mut peer = Peer::new();
    let hello = "{\"jsonrpc\":\"2.0\",\"id\":\"h\",\"method\":\"initialize\",\"params\":{}}";
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":\"h\",\"result\":{\"protocolVersion\":\"2025-11-25\"}}";
    peer.send(hello).answer(&format!("{JSON}\r\nmcp-session-id: S1"), answer);
    peer.line();
    peer.send("{\"jsonrpc\":\"2.0\",\"id\":\"l\",\"method\":\"tools/list\"}").answer("404 Not Found", "");
    assert_eq!(peer.line(), "");
}

#[test]
fn a_cancelled_request_leaves_its_response() {
    let mut peer = Peer::new();
    let mut stream = peer.send(&call("r1", "")).stream(": begun\n\n");
    let cancel =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"r1\"}}";
    // The response has begun when the cancellation comes, or has not: both leave it.
    writeln!(peer.input, "{cancel}").unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "the connection is closed");
    assert!(peer.requests.try_recv().is_err(), "no notification is posted");
}

#[test]
fn stream_without_its_answer_loses_the_request() {
    for events in [
        "",
        ": note\n\n",
        "data: {\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":{}}\n\n",
        "id: 7\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"r1\",\"result\":{}}\n",
    ] {
        let mut peer = Peer::new();
        drop(peer.send(&call("r1", "")).stream(events));
        assert_eq!(peer.line(), "", "{events}");
    }
}

#[test]
fn messages_before_the_answer_pass_in_order() {
    let mut peer = Peer::new();
    let progress = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}";
    let answer = "{\"jsonrpc\":\"2.0\",\"id\":\"r1\",\"result\":{}}";
    let events = format!("data: {progress}\n\n:\n\nevent: message\ndata: {answer}\n\ndata: {progress}\n\n");
    drop(peer.send(&call("r1", "")).stream(&events));
    assert_eq!((peer.line(), peer.line()), (format!("{progress}\n"), format!("{answer}\n")));
}

#[test]
fn message_over_the_limit_is_no_answer() {
    let mut peer = Peer::new();
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"r1\",\"result\":{{\"a\":\"{}\"}}}}", "x".repeat(MOST));
    let got = peer.send(&call("r1", ""));
    thread::spawn(move || got.stream(&format!("data: {long}\n\n")));
    assert_eq!(peer.line(), "");
}

#[test]
fn input_tells_whether_a_line_would_wait() {
    let (sender, mut lines) = tokio::sync::mpsc::channel(2);
    let mut input = RemoteInput::new(sender);
    // A thread of a runtime may write while there is room.
    Builder::new_current_thread().build().unwrap().block_on(async { input.write_all(b"one\n").unwrap() });
    assert!(input.has_room());
    input.write_all(b"two\n").unwrap();
    assert!(!input.has_room());
    assert_eq!(lines.blocking_recv().unwrap(), b"one");
    assert!(input.has_room());
    drop(lines);
    assert_eq!(input.write_all(b"three\n").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
}
