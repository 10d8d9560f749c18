// A scripted HTTP/1.1 server on this machine, which keeps its requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

/// A received request: the first line, the headers in lower case, the body.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) headers: Vec<String>,
    pub(crate) body: String,
}

impl Asked {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

/// The server's answer to one request.
pub(crate) enum Says {
    /// These bytes, then the end of the connection.
    Bytes(Vec<u8>),
    /// Nothing, until the client closes.
    Nothing,
    /// The head of an answer, then a byte at a time until the client closes.
    Drips,
}

pub(crate) struct Server {
    address: SocketAddr,
    thread: JoinHandle<Vec<Asked>>,
}

impl Server {
    /// Answers one request for each entry of the script, one connection each.
    pub(crate) fn start(script: Vec<Says>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread =
            std::thread::spawn(move || script.into_iter().map(|says| serve(&listener, says)).collect());
        Self { address, thread }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns the requests after the last answer.
    pub(crate) fn asked(self) -> Vec<Asked> {
        self.thread.join().unwrap()
    }
}

fn serve(listener: &TcpListener, says: Says) -> Asked {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let line = lines.remove(0);
    let headers: Vec<String> = lines
        .iter()
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| format!("{}: {}", name.to_lowercase(), value.trim()))
        .collect();
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    let mut stream = reader.into_inner();
    match says {
        Says::Bytes(bytes) => {
            // The client may have closed already.
            let _ = stream.write_all(&bytes);
        }
        Says::Nothing => {
            let _ = stream.read(&mut [0]);
        }
        Says::Drips => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n");
            while stream.write_all(b" ").is_ok() {
                std::thread::yield_now();
            }
        }
    }
    Asked { line, headers, body: String::from_utf8(body).unwrap() }
}

/// An answer of this status with this body.
pub(crate) fn status(status: &str, body: &str) -> Says {
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n", body.len());
    Says::Bytes(format!("{head}connection: close\r\n\r\n{body}").into_bytes())
}

/// A complete answer of a model.
pub(crate) fn text(content: &str) -> Says {
    let body = serde_json::json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
    });
    status("200 OK", &body.to_string())
}
